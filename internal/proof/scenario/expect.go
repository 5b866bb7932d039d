package scenario

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// check tests an expectation.
type check = func(*world) error

// form is an expectation that begins with a keyword. In any other line, the first word is
// a pod.
type form struct {
	word, usage string
	parse       func(args []string, text string) (check, error)
}

// forms are the grammar of expectations.
var forms = []form{
	{"order", "order: POD POD ...", expectOrder},
	{"attempts", "attempts POD COUNT", expectAttempts},
	{"place", "place POD: PLACE", expectPlace},
	{"count", "count PATTERN: NODE=COUNT ... pending=COUNT", expectCount},
	{"scores", "scores POD: NODE=TOTAL ...", expectScores},
	{"plugin", "plugin POD NODE PLUGIN=SCORE ...", expectPlugins},
	{"pvc", "pvc CLAIM: bound to VOLUME | unbound | unbound, for NODE | lost | gone", expectObject(model.PersistentVolumeClaimKind, claimStatus)},
	{"pv", "pv VOLUME: available | bound to CLAIM | released, for CLAIM | gone", expectObject(model.PersistentVolumeKind, volumeStatus)},
	{"resourceclaim", "resourceclaim CLAIM: allocated POOL/DEVICE,... for POD,... | allocated ..., unreserved | free | gone", expectObject(model.ResourceClaimKind, deviceClaimStatus)},
	{"podgroup", "podgroup GROUP: scheduled | REASON MESSAGE | none | gone", expectObject(model.PodGroupKind, groupStatusOf)},
	{"extended", "extended POD: allocated POOL/DEVICE,... for POD | none", expectExtended},
	{"preempt", "preempt POD: NODE VICTIM ... | none", expectPreempt},
	{"nominated", "nominated POD: NODE | none", expectNominated},
	{"disrupted", "disrupted POD: MESSAGE | none", expectDisrupted},
	{"allowed", "allowed PDB: COUNT", expectBudget},
	{"reject", "reject POD NODE PLUGIN: REASON, REASON", expectReject},
}

// outcomes are the possible outcomes of a pod, besides the names of nodes.
var outcomes = []string{"binding", "pending", "error", "gated", "ignored", "terminating", "gone"}

// expectationOf reads a line after the mark.
func expectationOf(line string) (check, error) {
	head, text, _ := strings.Cut(line, ": ")
	words := strings.Fields(strings.TrimSuffix(head, ":"))
	for _, f := range forms {
		if words[0] != f.word {
			continue
		}
		c, err := f.parse(words[1:], strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w; want %q", f.word, err, f.usage)
		}
		return c, nil
	}
	if len(words) != 2 {
		var usages []string
		for _, f := range forms {
			usages = append(usages, f.usage)
		}
		return nil, fmt.Errorf("%q: want a pod and its node or one of %s, or one of %q", line, oneOf(outcomes), usages)
	}
	return expectPod(words[0], words[1], strings.TrimSpace(text)), nil
}

// expectPod checks the outcome of the pods that match a pattern.
func expectPod(pattern, outcome, text string) check {
	return func(w *world) error {
		keys := w.matching(pattern)
		if outcome == "gone" {
			if len(keys) > 0 {
				return fmt.Errorf("%s: want gone, is there: %s", pattern, w.describe(keys[0]))
			}
			return nil
		}
		if len(keys) == 0 {
			return fmt.Errorf("there is no pod %s", pattern)
		}
		for _, key := range keys {
			if !w.is(key, outcome, text) {
				want := outcome
				if text != "" {
					want += ": " + text
				}
				return fmt.Errorf("%s: want %s, is %s", short(key), want, w.describe(key))
			}
		}
		return nil
	}
}

// matching returns the stored pods that match a name or a pattern with *, in order.
func (w *world) matching(pattern string) []model.PodKey {
	key := keyNamed(pattern)
	if !strings.Contains(pattern, "*") {
		if w.cluster.Pod(key) == nil {
			return nil
		}
		return []model.PodKey{key}
	}
	var keys []model.PodKey
	for _, pod := range w.cluster.Pods() {
		if ok, err := path.Match(key.Name, pod.Name); err == nil && ok && pod.Namespace == key.Namespace {
			keys = append(keys, model.PodKey{Namespace: pod.Namespace, Name: pod.Name})
		}
	}
	return keys
}

func short(key model.PodKey) string {
	if key.Namespace == v1.NamespaceDefault {
		return key.Name
	}
	return key.String()
}

// status returns the outcome of a pod, as one of outcomes or the name of its node, and
// the reason.
func (w *world) status(key model.PodKey) (outcome, text string) {
	pod := w.cluster.Pod(key)
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName, ""
	}
	if gate := w.cluster.Gated(pod); gate != "" {
		return "gated", gate
	}
	verdict, ok := w.cluster.Verdict(key)
	switch {
	case !ok:
		return "ignored", ""
	case verdict.Decision.Outcome == plan.Placed:
		return "binding", "to " + verdict.Placement.NodeName
	case verdict.Decision.Outcome == plan.Unschedulable:
		return "pending", verdict.Message()
	}
	return "error", verdict.Message()
}

func (w *world) describe(key model.PodKey) string {
	outcome, text := w.status(key)
	if text == "" {
		return outcome
	}
	return outcome + ": " + text
}

func (w *world) is(key model.PodKey, want, text string) bool {
	if want == "terminating" {
		return w.cluster.Pod(key).DeletionTimestamp != nil && text == ""
	}
	outcome, have := w.status(key)
	if slices.Contains(outcomes, want) {
		if outcome != want || text == "" || sameText(have, text) {
			return outcome == want
		}
		verdict, _ := w.cluster.Verdict(key)
		before, adds := strings.CutSuffix(have, " "+verdict.Decision.PostFilter)
		return adds && sameText(before, text)
	}
	return slices.Contains(strings.Split(want, "|"), outcome) || want == "*" && w.cluster.Pod(key).Spec.NodeName != ""
}

// sameText compares a message. The common beginning and end of rejections are optional.
func sameText(have, want string) bool {
	if have == want {
		return true
	}
	_, reasons, ok := strings.Cut(have, " nodes are available: ")
	return ok && strings.HasPrefix(have, "0/") && (reasons == want+"." || reasons == want)
}

func expectOrder(args []string, text string) (check, error) {
	want := strings.Fields(text)
	if len(args) != 0 {
		return nil, fmt.Errorf("%q: the colon is missing", args[0])
	}
	return func(w *world) error {
		var have []string
		for _, key := range w.decided {
			have = append(have, short(key))
		}
		if !slices.Equal(have, want) {
			return fmt.Errorf("order: want %s, is %s", strings.Join(want, " "), strings.Join(have, " "))
		}
		return nil
	}, nil
}

func expectAttempts(args []string, text string) (check, error) {
	if len(args) != 2 || text != "" {
		return nil, fmt.Errorf("want a pod and a count")
	}
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, fmt.Errorf("%q is not a count", args[1])
	}
	return func(w *world) error {
		verdict, _ := w.cluster.Verdict(keyNamed(args[0]))
		if verdict.Attempts != want {
			return fmt.Errorf("attempts %s: want %d, is %d", args[0], want, verdict.Attempts)
		}
		return nil
	}, nil
}

// places are the words of queue.PlaceOf, and "none".
var places = []string{"active", "backing off", "backing off after an error", "parked", "gated", "incomplete", "binding", none}

func expectPlace(args []string, text string) (check, error) {
	if len(args) != 1 || !slices.Contains(places, text) {
		return nil, fmt.Errorf("want a pod, a colon and one of %s", oneOf(places))
	}
	return func(w *world) error {
		place := w.cluster.Loop().Queue().PlaceOf(keyNamed(args[0]))
		if place == "" {
			place = none
		}
		if place != text {
			return fmt.Errorf("place %s: want %s, is %s", args[0], text, place)
		}
		return nil
	}, nil
}

// amountsByName parses NAME=NUMBER ...
func amountsByName(words []string) (names []string, values map[string]int64, err error) {
	values = map[string]int64{}
	for _, word := range words {
		name, number, ok := strings.Cut(word, "=")
		value, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			return nil, nil, fmt.Errorf("%q is not NAME=NUMBER", word)
		}
		names = append(names, name)
		values[name] = value
	}
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("there is no NAME=NUMBER")
	}
	return names, values, nil
}

func expectCount(args []string, text string) (check, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("want a pattern and a colon")
	}
	names, want, err := amountsByName(strings.Fields(text))
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		have := map[string]int64{}
		for _, key := range w.matching(args[0]) {
			outcome, _ := w.status(key)
			have[outcome]++
		}
		for _, name := range names {
			if have[name] != want[name] {
				return fmt.Errorf("count %s: want %s=%d, is %v", args[0], name, want[name], have)
			}
		}
		return nil
	}, nil
}

func expectScores(args []string, text string) (check, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("want a pod and a colon")
	}
	names, want, err := amountsByName(strings.Fields(text))
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for _, name := range names {
			node, err := w.ask(args[0], name)
			if err != nil {
				return err
			}
			if !node.Feasible || node.Total != want[name] {
				return fmt.Errorf("scores %s: want %s=%d, is %s", args[0], name, want[name], scoresOf(node))
			}
		}
		return nil
	}, nil
}

// ask returns the engine's answer for one node, as if the pod were pending.
func (w *world) ask(pod, node string) (plan.NodeAnswer, error) {
	answer, err := w.cluster.Answer(keyNamed(pod))
	if err != nil {
		return plan.NodeAnswer{}, err
	}
	at := slices.IndexFunc(answer.Nodes, func(n plan.NodeAnswer) bool { return n.Name == node })
	if at < 0 {
		return plan.NodeAnswer{}, fmt.Errorf("there is no node %s", node)
	}
	return answer.Nodes[at], nil
}

func scoresOf(n plan.NodeAnswer) string {
	if !n.Feasible {
		return "infeasible: " + rejectionsOf(n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d:", n.Total)
	for _, s := range n.Scores {
		fmt.Fprintf(&b, " %s=%d×%d", s.Plugin, s.Score, s.Weight)
	}
	return b.String()
}

func rejectionsOf(n plan.NodeAnswer) string {
	var all []string
	for _, r := range n.Rejections {
		all = append(all, r.Plugin+": "+r.Message())
	}
	return strings.Join(all, "; ")
}

func expectPlugins(args []string, text string) (check, error) {
	if len(args) < 3 || text != "" {
		return nil, fmt.Errorf("want a pod, a node and scores")
	}
	names, want, err := amountsByName(args[2:])
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		node, err := w.ask(args[0], args[1])
		if err != nil {
			return err
		}
		for _, name := range names {
			at := slices.IndexFunc(node.Scores, func(s plan.Score) bool { return s.Plugin == name })
			if at < 0 || node.Scores[at].Score != want[name] {
				return fmt.Errorf("plugin %s %s: want %s=%d, is %s", args[0], args[1], name, want[name], scoresOf(node))
			}
		}
		return nil
	}, nil
}

func expectReject(args []string, text string) (check, error) {
	if len(args) != 3 || text == "" {
		return nil, fmt.Errorf("want a pod, a node, a plugin, a colon and the reasons")
	}
	return func(w *world) error {
		node, err := w.ask(args[0], args[1])
		if err != nil {
			return err
		}
		for _, r := range node.Rejections {
			if r.Plugin == args[2] && r.Message() == text {
				return nil
			}
		}
		have := rejectionsOf(node)
		if node.Feasible {
			have = "feasible"
		}
		return fmt.Errorf("reject %s %s: want %s: %s, is %s", args[0], args[1], args[2], text, have)
	}, nil
}
