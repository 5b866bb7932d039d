package plugintest

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/internal/model"
)

// Contract is the part of a plugin's behaviour that does not depend on the pod: the
// inputs that invalidate its cached results, the kinds it watches, and its event
// registrations.
type Contract struct {
	Name string
	// FilterReads and ScoreReads are the aspects of a node that filter and score depend
	// on.
	FilterReads, ScoreReads model.Aspect
	Normalization           model.Normalization
	// Reads are the kinds of objects other than pods and nodes.
	Reads []model.Kind
	// Events are the registrations: the labels of their events, and which of hint, alike,
	// cause and AskedHint they have.
	Events []string
}

// CheckContract compares a plugin with its expected contract.
func CheckContract(t testing.TB, of BuiltIn, want Contract) {
	t.Helper()
	p := of.Parts()
	got := Contract{Name: p.Name, Reads: p.Objects}
	if p.Filter != nil && p.Filter.HasColumn() {
		got.FilterReads = p.Filter.Reads.Nodes
	}
	if p.Score != nil {
		got.ScoreReads, got.Normalization = p.Score.Reads, p.Score.Normalization
	}
	if p.EnqueueExtensions != nil {
		for i := range p.EnqueueExtensions.Events {
			got.Events = append(got.Events, registrationText(&p.EnqueueExtensions.Events[i]))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s: -want +got\n%s", want.Name, diff)
	}
}

func registrationText(r *model.EventToRegister) string {
	var labels []string
	for left := r.Actions; left != 0; {
		action := model.Action(1) << bits.TrailingZeros32(uint32(left))
		if left&model.Update == model.Update && action&model.Update != 0 {
			action = model.Update
		}
		e := model.Event{Resource: r.Resource, Action: action}
		labels, left = append(labels, e.Label()), left&^action
	}
	text := strings.Join(labels, " ")
	for _, has := range []struct {
		what string
		ok   bool
	}{{"hint", r.Hint != nil}, {"alike", r.Alike != nil}, {"cause", r.Cause != nil && r.Touches != nil}, {"asked", r.Asked != nil && r.Touches != nil}} {
		if has.ok {
			text += ", " + has.what
		}
	}
	return text
}

// Causes returns the causes of a pod's rejection, each as "wants <ways>; keys <keys>".
// Registrations without a cause are left out.
func Causes(p BuiltIn, waiting *model.Pod) (causes []string) {
	for _, r := range p.Parts().EnqueueExtensions.Events {
		if r.Cause != nil {
			cause := r.Cause(waiting)
			causes = append(causes, fmt.Sprintf("wants %s; keys %s", waysText(cause.Wants), keysText(cause.Keys, " ")))
		}
	}
	return causes
}

// Touched returns the keys that an event touches, each as "has <keys>; seeks <ways>". It
// covers the registrations that concern the event and have causes.
func Touched(p BuiltIn, event model.Event) (touched []string) {
	for _, r := range p.Parts().EnqueueExtensions.Events {
		if r.Touches != nil && r.Concerns(event) {
			var to model.Touch
			r.Touches(event, &to)
			touched = append(touched, fmt.Sprintf("has %s; seeks %s", keysText(to.Has, " "), waysText(to.Seeks)))
		}
	}
	return touched
}

// Meets reports whether an event touches the keys that a cause requires.
func Meets(r *model.EventToRegister, cause model.Cause, event model.Event) bool {
	var touch model.Touch
	r.Touches(event, &touch)
	met := func(ways []model.Way, keys []model.Key) bool {
		return len(ways) == 0 || slices.ContainsFunc(ways, func(way model.Way) bool {
			return !slices.ContainsFunc(way, func(clause model.Clause) bool {
				return !slices.ContainsFunc(clause, func(k model.Key) bool { return slices.Contains(keys, k) })
			})
		})
	}
	return met(cause.Wants, touch.Has) && (len(cause.Keys) == 0 || met(touch.Seeks, cause.Keys))
}

// waysText joins ways by " or ", their clauses by " & " and the keys of a clause by "|".
// It returns "any" without ways; a way without clauses is "all".
func waysText(ways []model.Way) string {
	if len(ways) == 0 {
		return "any"
	}
	texts := make([]string, len(ways))
	for i, way := range ways {
		clauses := make([]string, len(way))
		for j, clause := range way {
			clauses[j] = keysText(clause, "|")
		}
		if texts[i] = strings.Join(clauses, " & "); len(way) == 0 {
			texts[i] = "all"
		}
	}
	return strings.Join(texts, " or ")
}

// keysText sorts keys, since labels come from maps. A key is
// <kind>[@<namespace>][:<name>[=<value>]], with "!" for a label with any value. Without
// keys it returns "none".
func keysText(keys []model.Key, between string) string {
	if len(keys) == 0 {
		return "none"
	}
	var texts []string
	for _, k := range slices.Compact(slices.SortedFunc(slices.Values(keys), model.Key.Compare)) {
		text := k.Kind
		if k.Namespace != "" {
			text += "@" + k.Namespace
		}
		if k.Name != "" || k.Value != "" {
			text += ":" + k.Name
		}
		if k.Value != "" {
			text += "=" + k.Value
		}
		if k.Present {
			text += "!"
		}
		texts = append(texts, `"`+text+`"`)
	}
	return strings.Join(texts, between)
}

// Alikes returns the parts of a pod that the hints depend on, for each registration with
// an Alike.
func Alikes(p BuiltIn, waiting *model.Pod) (alikes []string) {
	for _, r := range p.Parts().EnqueueExtensions.Events {
		if r.Alike != nil {
			alikes = append(alikes, r.Alike(waiting).String())
		}
	}
	return alikes
}

// Equal fails the test if two lists of texts differ.
func Equal(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\ngot  %s\nwant %s", what, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}
