package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// Verdict is Berth's verdict about a binding, or about a pod that is not bound.
type Verdict string

// The verdicts.
const (
	// Agree: the node has the best score, or the pod is nominated to it.
	Agree Verdict = "agree"
	// Lesser: the node is feasible, but others are better.
	Lesser Verdict = "lesser"
	// Contradict: the node is infeasible.
	Contradict Verdict = "contradict"
	// Race: Berth disagrees, but agrees in another state that the scheduler can have
	// decided in: without the last changes, or with own bindings that were stored later.
	Race Verdict = "race"
	// Failed: Berth's attempt would have failed with an error.
	Failed Verdict = "failed"
	// Placeable: the pod is pending, and Berth finds a node for it.
	Placeable Verdict = "placeable"
)

// Decision is one comparison.
type Decision struct {
	Time      time.Time `json:"time"`
	Pod       string    `json:"pod"` // namespace/name
	Scheduler string    `json:"schedulerName"`
	Verdict   Verdict   `json:"verdict"`
	// Node is the node that the other scheduler chose. Best is a node with the best
	// total. Totals are 0 if fewer than two nodes are feasible.
	Node      string `json:"node,omitempty"`
	Total     int64  `json:"total"`
	Best      string `json:"best,omitempty"`
	BestTotal int64  `json:"bestTotal"`
	Feasible  int    `json:"feasibleNodes"`
	Nodes     int    `json:"nodes"`
	// Rejections are the reasons why the node is infeasible.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Error is the reason why Berth could not decide.
	Error string `json:"error,omitempty"`
	// Moved is the decisive change of a race: the first entry of Unseen or, if Later is
	// true, of Assumed. Berth agrees without a change in Unseen. It agrees only with a
	// change in Assumed, which the watches delivered after the binding.
	Moved string `json:"moved,omitempty"`
	Later bool   `json:"later,omitempty"`
	// Unseen and Assumed list the changes that touch the choice and distinguish the state
	// where Berth agrees from the state before the binding. Unseen were stored before the
	// binding and count as not received. Assumed were delivered after the binding and
	// count as received. Each has at most maxDifferences entries.
	Unseen  []string `json:"unseen,omitempty"`
	Assumed []string `json:"assumed,omitempty"`
	// First is the verdict in the state before the binding, if it differs: for a race, or
	// for a node that is infeasible there and lesser in another possible state.
	First Verdict `json:"first,omitempty"`
	// Unsearched means that the search for a race was skipped because of too many
	// disagreements.
	Unsearched bool `json:"unsearched,omitempty"`
	// Snapshot is the place where the cluster before the binding is stored, if it is.
	Snapshot string `json:"snapshot,omitempty"`
	// PendingSeconds is how long a placeable pod has been pending.
	PendingSeconds int64 `json:"pendingSeconds,omitempty"`
}

// Rejection is a filter's rejection of the node.
type Rejection struct {
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

// Summary counts decisions.
type Summary struct {
	// Bindings is the number of observed bindings. Each is counted in one of the others,
	// or in Open.
	Bindings, Agree, Lesser, Contradict, Race, Failed int
	// Open is the number of disagreements that may still turn out to be races.
	Open int
	// Unsearched is the number of disagreements without a search for a race.
	Unsearched int
	// Feasible is the number of lesser bindings whose node was infeasible before the
	// binding.
	Feasible int
	// Races counts races by the kind of the decisive change.
	Races map[string]int
	// Placeable is the number of pods that were pending although Berth found a node.
	// Pending is the number of pods pending now.
	Placeable, Pending int
	// Unseen is the number of pods that already had a node when first seen.
	Unseen int
	// GapSum and MaxGap are the differences of lesser nodes to the best, in points of the
	// weighted total.
	GapSum, MaxGap int64
}

// VerdictCount is the number of bindings with a verdict.
type VerdictCount struct {
	Verdict  Verdict
	Bindings int
}

// Verdicts returns the counts of verdicts about bindings, in a fixed order.
func (s *Summary) Verdicts() []VerdictCount {
	return []VerdictCount{{Agree, s.Agree}, {Lesser, s.Lesser}, {Race, s.Race}, {Contradict, s.Contradict}, {Failed, s.Failed}}
}

// question is a binding to judge.
type question struct {
	pod  *model.Pod // the version before the binding
	node string
	// All changes that the shadow receives are numbered steps. at is the number of the
	// binding, and the state before it is judged. since is the number of the step before
	// which the pod was first seen. arrival is the pod's position among all pods that
	// were first seen pending.
	at, since, arrival int
	seen               time.Time
	first              Decision
	// known is a moment at which the node was feasible, if it was not before the binding.
	known *moment
}

// ask judges a binding in the present state. The pod must not be on a node there.
func (s *Shadow) ask(q *question) Decision {
	d := Decision{Time: q.seen, Pod: q.pod.String(), Scheduler: q.pod.SchedulerName, Node: q.node}
	r, err := s.engine.Rate(s.state.View(), q.pod, q.node)
	d.Best, d.BestTotal, d.Total, d.Feasible, d.Nodes = r.Best, r.BestTotal, r.Total, r.Feasible, r.Nodes
	switch {
	case err != nil:
		d.Verdict, d.Error = Failed, err.Error()
	case !r.IsFeasible:
		d.Verdict = Contradict
		for _, rejection := range r.Rejections {
			d.Rejections = append(d.Rejections, Rejection{rejection.Plugin, rejection.Message()})
		}
		if len(r.Rejections) == 0 {
			d.Rejections = []Rejection{{Reason: "the node is not known"}}
		}
	case r.ByNomination && r.Best == q.node, !r.ByNomination && r.Total == r.BestTotal:
		d.Verdict = Agree
	default:
		d.Verdict = Lesser
	}
	return d
}

// tell counts and reports a decision.
func (s *Shadow) tell(q *question, d Decision) {
	switch d.Verdict {
	case Agree:
		s.summary.Agree++
	case Lesser:
		s.summary.Lesser++
		gap := d.BestTotal - d.Total
		s.summary.GapSum += gap
		s.summary.MaxGap = max(s.summary.MaxGap, gap)
	case Contradict:
		s.summary.Contradict++
	case Race:
		s.summary.Race++
	case Failed:
		s.summary.Failed++
	}
	if d.Unsearched {
		s.summary.Unsearched++
	}
	if s.keeps(d.Verdict) {
		if objects := s.objectsBefore(q); objects != nil {
			d.Snapshot = s.keepObjects(&d, objects)
		}
	}
	s.report(d)
}

// keeps reports whether to store the objects of a disagreement, and counts it if so.
func (s *Shadow) keeps(v Verdict) bool {
	if s.keepObjects == nil || s.kept >= s.maxKeep {
		return false
	}
	switch v {
	case Lesser:
		if s.keptLesser >= s.maxKeep/2 {
			return false
		}
		s.keptLesser++
	case Contradict, Failed:
	default:
		return false
	}
	s.kept++
	return true
}

// objectsBefore returns the objects before a binding, or at the moment at which its node
// was feasible, by kind, namespace and name. Other pending pods are left out. It returns
// nil if the changes are no longer kept. The state is after all changes, before and
// after.
func (s *Shadow) objectsBefore(q *question) []runtime.Object {
	m := moment{at: q.at}
	if q.known != nil {
		m = *q.known
	}
	if m.at < s.first {
		return nil
	}
	end := s.first + len(s.steps)
	s.apply(end, m.at)
	defer s.apply(m.at, end)
	defer s.assume(m.ahead)()
	var all []runtime.Object
	for _, ref := range slices.SortedFunc(maps.Keys(s.objects), func(a, b model.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		o := s.objects[ref]
		if o.pod != nil && o.pod.NodeName == "" && o.pod.NominatedNode == "" && o.pod.Key() != q.pod.Key() {
			continue // The pod does not matter, and it may not have existed yet.
		}
		if object := o.api(); object != nil {
			all = append(all, object)
		}
	}
	return all
}

// closeDue closes disagreements. A disagreement stays open until the changes around its
// binding have arrived, because these may show a race: until enough changes followed, or
// the settle time is over. A contradiction waits longer while pods are pending: the other
// scheduler may have decided about them already, and their bindings show in which order.
func (s *Shadow) closeDue(all bool) {
	for len(s.open) > 0 {
		q, here := s.open[0], s.first+len(s.steps)
		settle := s.settle
		if q.first.Verdict == Contradict && len(s.pending) > 0 {
			settle *= inFlightTimes
		}
		if !all && here-q.at <= reach && s.now.Sub(q.seen) < settle {
			return
		}
		s.open[0] = nil
		s.open = s.open[1:]
		s.close(q, here)
	}
}

// The rule of Obstacles: how long and how many bindings must be observed, and the largest
// share of disagreements without a search for a race, in percent.
const (
	minObserved   = 7 * 24 * time.Hour
	minBindings   = 1000
	maxUnsearched = 1
)

// Obstacles returns why Berth should not take the place of the other scheduler yet, after
// this time of observation; nothing if it can. Lesser nodes and races are no obstacles.
func (s *Summary) Obstacles(observed time.Duration) (all []string) {
	add := func(holds bool, format string, args ...any) {
		if holds {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(s.Failed > 0, "decisions that failed: %d", s.Failed)
	add(s.Contradict > 0, "contradictions to explain: %d", s.Contradict)
	add(s.Placeable > 0, "pods that Berth would have placed, to explain: %d", s.Placeable)
	add(100*s.Unsearched > maxUnsearched*s.Bindings, "disagreements not checked for races: %d", s.Unsearched)
	add(observed < minObserved, "observe at least %d days, with a peak and a rollout", minObserved/(24*time.Hour))
	add(s.Bindings < minBindings, "observe at least %d bindings", minBindings)
	return all
}
