package queued

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Answer lists the selected pods. An invalid selector is an error.
func (l *Lister) Answer(ctx context.Context, q Question) (*Answer, error) {
	selector, err := labels.Parse(q.Selector)
	if err == nil && len(q.Selector) > maxSelector {
		err = fmt.Errorf("longer than %d bytes", maxSelector)
	}
	if err != nil {
		return nil, &SelectorError{q.Selector, err}
	}
	s, err := l.snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	return s.answer(ctx, q, selector)
}

// Limits of texts that tenants write, in bytes. Many pods may have long ones.
const (
	maxSelector = 4096
	maxOwner    = 320
	maxText     = 1024
)

// cut shortens a text to a number of bytes, at a whole character.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// SelectorError is the error for an invalid selector.
type SelectorError struct {
	Selector string
	Err      error
}

// Error names the selector.
func (e *SelectorError) Error() string {
	return fmt.Sprintf("labelSelector %q: %v", e.Selector, e.Err)
}

// identity identifies a group.
type identity struct{ namespace, owner, podGroup, place, rejectors, reason string }

// grouping collects the groups of an answer.
type grouping struct {
	*snapshot
	answer  *Answer
	at      map[identity]int
	shift   time.Duration // from the steady clock to the system's
	reasons map[*plan.Rejection]string
	plugins map[registered]bool
}

// answer groups the selected pods.
func (s *snapshot) answer(ctx context.Context, q Question, selector labels.Selector) (*Answer, error) {
	g := &grouping{
		snapshot: s, answer: &Answer{Version: Version, At: s.wall.UTC(), Groups: []Group{}}, at: map[identity]int{},
		shift: s.wall.Round(0).Sub(s.at.Round(0)).Round(time.Millisecond), reasons: map[*plan.Rejection]string{},
		plugins: map[registered]bool{},
	}
	if s.unsorted {
		g.answer.OrderUnknown = unordered
	}
	leftOut := map[identity]bool{}
	listed := 0
	for i := range s.pods {
		if i%1000 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		w := &s.pods[i]
		if q.Namespace != "" && w.pod.Namespace != q.Namespace || !selector.Matches(labels.Set(w.pod.Labels)) {
			continue
		}
		g.answer.Pods++
		of := g.groupOf(w)
		if of == nil {
			leftOut[g.identityOf(w)] = true
		}
		if of == nil || q.Pods && listed == maxPods {
			g.answer.PodsLeftOut++
			continue
		}
		if q.Pods {
			listed++
			of.Pods = append(of.Pods, g.podOf(w))
		}
	}
	g.answer.GroupsLeftOut = len(leftOut)
	g.answer.WaitsFor = g.waitsFor()
	return g.answer, nil
}

// addEvicted adds the victims that a pod waits for. Members of a PodGroup wait for the
// same ones.
func (g *Group) addEvicted(w *waiting) {
	if w.brief.Group != (model.GroupKey{}) {
		g.Evicted = max(g.Evicted, w.brief.Leaving)
		return
	}
	g.Evicted += w.brief.Leaving
}

// identityOf returns the identity of a pod's group.
func (g *grouping) identityOf(w *waiting) identity {
	id := identity{namespace: w.pod.Namespace, place: w.brief.Place, rejectors: strings.Join(w.brief.Rejectors, " "),
		reason: g.reasonOf(w)}
	if w.brief.Group != (model.GroupKey{}) {
		id.podGroup = w.brief.Group.String()
	}
	switch owner := metav1.GetControllerOfNoCopy(w.pod); {
	case owner != nil:
		id.owner = owner.Kind + "/" + owner.Name
	case id.podGroup != "":
		id.owner = "PodGroup/" + w.brief.Group.Name
	default:
		id.owner = "Pod/" + w.pod.Name
	}
	id.owner, id.reason = cut(id.owner, maxOwner), cut(id.reason, maxText)
	return id
}

// groupOf adds a pod to its group. It returns nil if the answer has too many groups.
func (g *grouping) groupOf(w *waiting) *Group {
	id := g.identityOf(w)
	at, known := g.at[id]
	if !known {
		if at = len(g.answer.Groups); at == maxGroups {
			return nil
		}
		g.at[id] = at
		g.answer.Groups = append(g.answer.Groups, Group{
			Namespace: id.namespace, Owner: id.owner, PodGroup: id.podGroup, Place: id.place, Reason: id.reason,
			Rejectors: w.brief.Rejectors, Pending: w.brief.Pending,
			Message: cut(cmp.Or(w.recorded, w.last.Message()), maxText), Since: w.pod.CreationTimestamp.UTC(),
			MinAttempts: w.brief.Attempts, WaitsForEvent: w.brief.WaitsForEvent,
			Position: w.position, Next: g.nextOf(w),
		})
	}
	of := &g.answer.Groups[at]
	of.Count++
	of.MinAttempts, of.MaxAttempts = min(of.MinAttempts, w.brief.Attempts), max(of.MaxAttempts, w.brief.Attempts)
	of.addEvicted(w)
	if created := w.pod.CreationTimestamp.UTC(); created.Before(of.Since) {
		of.Since = created
	}
	if w.brief.WaitsForEvent {
		for _, plugin := range w.brief.Rejectors {
			g.plugins[registered{w.pod.Spec.SchedulerName, plugin}] = true
		}
	}
	return of
}

// reasonOf returns the reason of the last attempt, without numbers: a text that is equal
// for pods that lack the same.
func (g *grouping) reasonOf(w *waiting) string {
	r := w.last.Rejection
	switch {
	case w.recorded != "":
		return w.recorded
	case r == nil:
		return w.last.Message()
	}
	if reason, known := g.reasons[r]; known {
		return reason
	}
	reason := cmp.Or(r.Group, r.PreFilter)
	if reason == "" {
		reason = reasonsOf(r)
	}
	g.reasons[r] = reason
	return reason
}

// reasonsOf names the reasons in alphabetical order.
func reasonsOf(r *plan.Rejection) string {
	names := make([]string, 0, len(r.Counts))
	for _, c := range r.Counts {
		names = append(names, c.Reason)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// podOf describes one pod.
func (g *grouping) podOf(w *waiting) Pod {
	return Pod{
		Name: w.pod.Name, Created: w.pod.CreationTimestamp.UTC(), Since: w.brief.Since.Add(g.shift).UTC(),
		Attempts: w.brief.Attempts, Next: g.nextOf(w), Position: w.position,
		Nominated: cmp.Or(w.pod.Status.NominatedNodeName, w.last.Nominated),
	}
}

// nextOf returns the end of the backoff of a pod that is retried then.
func (g *grouping) nextOf(w *waiting) *time.Time {
	next := w.next()
	if next.IsZero() {
		return nil
	}
	next = next.Add(g.shift).UTC()
	return &next
}

// waitsFor returns the events of the plugins that rejected the selected pods. Profiles
// register the same events for a plugin, unless it reads its arguments.
func (g *grouping) waitsFor() []history.WaitsFor {
	events := map[string][]string{}
	for key := range g.plugins {
		events[key.plugin] = append(events[key.plugin], g.events[key]...)
	}
	var all []history.WaitsFor
	for _, plugin := range slices.Sorted(maps.Keys(events)) {
		slices.Sort(events[plugin])
		all = append(all, history.WaitsFor{Plugin: plugin, Events: slices.Compact(events[plugin])})
	}
	return all
}
