package shadow

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// Verdict is what Berth says about a binding, or about a pod that is not bound.
type Verdict string

// The verdicts.
const (
	// Agree: the node is one of the best, or the one that the pod is nominated to.
	Agree Verdict = "agree"
	// Lesser: the node is feasible, and others are better.
	Lesser Verdict = "lesser"
	// Contradict: the node is infeasible.
	Contradict Verdict = "contradict"
	// Race: Berth disagrees, and agrees in a state that the other scheduler can have decided on: without the last changes, or with bindings of its own that were stored later.
	Race Verdict = "race"
	// Failed: Berth's decision would have ended with an error.
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
	// Node is where the other scheduler put the pod; Best a node with the best total. Totals are 0 where fewer than two nodes are feasible.
	Node      string `json:"node,omitempty"`
	Total     int64  `json:"total"`
	Best      string `json:"best,omitempty"`
	BestTotal int64  `json:"bestTotal"`
	Feasible  int    `json:"feasibleNodes"`
	Nodes     int    `json:"nodes"`
	// Rejections say why the node is infeasible.
	Rejections []Rejection `json:"rejections,omitempty"`
	// Error is why Berth could not decide.
	Error string `json:"error,omitempty"`
	// Moved is the change that makes the difference in a race, the last of those in Unseen and Assumed. Without it, Berth agrees; or, where Later is true, only with it: the
	// watches showed it after the binding.
	Moved string `json:"moved,omitempty"`
	Later bool   `json:"later,omitempty"`
	// Unseen and Assumed say how the state in which Berth agrees differs from the one before the binding, by changes that touch the choice: what was stored before the binding and
	// counts as not known yet, and what counts as known and was shown later. Each has at most differencesMax.
	Unseen  []string `json:"unseen,omitempty"`
	Assumed []string `json:"assumed,omitempty"`
	// First is the verdict about the state before the binding, where that is another: of a race, or of a node that is infeasible there and feasible, but lesser, in another possible state.
	First Verdict `json:"first,omitempty"`
	// Unsearched means that it was not found out whether this is a race, because there were too many disagreements.
	Unsearched bool `json:"unsearched,omitempty"`
	// Snapshot is where the cluster is kept as it was before the binding, if it is.
	Snapshot string `json:"snapshot,omitempty"`
	// PendingSeconds is how long a pod has been seen pending for which Berth finds a node.
	PendingSeconds int64 `json:"pendingSeconds,omitempty"`
}

// Rejection is a filter's "no".
type Rejection struct {
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

// Summary counts decisions.
type Summary struct {
	// Bindings are those that were seen; each is one of the following, or open.
	Bindings, Agree, Lesser, Contradict, Race, Failed int
	// Open are disagreements that may still turn out to be races.
	Open int
	// Unsearched is how many disagreements were not searched for a race.
	Unsearched int
	// Feasible is how many of the lesser ones were infeasible in the state before the binding.
	Feasible int
	// Races are counted by the kind of change that moved.
	Races map[string]int
	// Placeable are pods that were pending although Berth found a node; Pending is how many pods are pending now.
	Placeable, Pending int
	// Unseen are pods that already had a node when they were first seen.
	Unseen int
	// GapSum and GapMax are of how far lesser nodes were below the best, in points of the weighted total.
	GapSum, GapMax int64
}

// VerdictCount is how many bindings have a verdict.
type VerdictCount struct {
	Verdict  Verdict
	Bindings int
}

// Verdicts returns the counts of the verdicts about bindings, in a fixed order.
func (s *Summary) Verdicts() []VerdictCount {
	return []VerdictCount{{Agree, s.Agree}, {Lesser, s.Lesser}, {Race, s.Race}, {Contradict, s.Contradict}, {Failed, s.Failed}}
}

// question is a binding about which Berth is asked.
type question struct {
	pod  *model.Pod // as it was before
	node string
	// at is the number of the step that the binding is; the state before it is the one that is asked. since is the number before which the pod was first seen.
	// arrival is the pod's place among all that were first seen pending.
	at, since, arrival int
	seen               time.Time
	first              Decision
	// known is a moment at which the node was feasible, if it was not before the binding.
	known *moment
}

// ask asks the state as it stands. The pod must be on no node there.
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
		s.summary.GapMax = max(s.summary.GapMax, gap)
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

// keeps reports whether the objects of a disagreement are to be kept, and counts it then.
func (s *Shadow) keeps(v Verdict) bool {
	if s.keepObjects == nil || s.kept >= s.keepMax {
		return false
	}
	switch v {
	case Lesser:
		if s.keptLesser >= s.keepMax/2 {
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

// objectsBefore returns the objects as they were before a binding, or at the moment at which its node was feasible, by kind, namespace and name, without other pods that are pending;
// nil if its changes are forgotten. The state stands after all changes, before and after.
func (s *Shadow) objectsBefore(q *question) []runtime.Object {
	m := moment{at: q.at}
	if q.known != nil {
		m = *q.known
	}
	if m.at < s.first {
		return nil
	}
	end := s.first + len(s.steps)
	s.goTo(end, m.at)
	defer s.goTo(m.at, end)
	defer s.assume(m.ahead)()
	var all []runtime.Object
	for _, ref := range slices.SortedFunc(maps.Keys(s.objects), func(a, b model.Ref) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		o := s.objects[ref]
		if o.pod != nil && o.pod.NodeName == "" && o.pod.NominatedNode == "" && o.pod.Key() != q.pod.Key() {
			continue // it does not count, and whether it was there already is not known
		}
		if object := o.api(); object != nil {
			all = append(all, object)
		}
	}
	return all
}

// closeDue closes disagreements for which the changes around them are known: as many came after as are looked at, or the settling time is over. A contradiction waits longer while pods are
// pending: they may have been decided about, and how they were says in which order.
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
