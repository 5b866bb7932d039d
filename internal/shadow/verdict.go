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
	// Race: Berth disagrees, and agrees with one of the changes around the binding undone or known.
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
	// Moved is the change that makes the difference in a race. Without it, Berth agrees; or, where Later is true, only with it: the watches showed it after the binding.
	Moved string `json:"moved,omitempty"`
	Later bool   `json:"later,omitempty"`
	// First is the verdict that the race would have had.
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
	at, since int
	seen      time.Time
	first     Decision
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

// objectsBefore returns the objects as they were before a binding, by kind, namespace and name, without other pods that are pending; nil if its changes are forgotten. The state stands after all changes, before
// and after.
func (s *Shadow) objectsBefore(q *question) []runtime.Object {
	if q.at < s.first {
		return nil
	}
	end := s.first + len(s.steps)
	s.goTo(end, q.at)
	defer s.goTo(q.at, end)
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

// closeDue closes disagreements for which the changes around them are known: as many came after as are looked at, or the settling time is over.
func (s *Shadow) closeDue(all bool) {
	for len(s.open) > 0 {
		q, here := s.open[0], s.first+len(s.steps)
		if !all && here-q.at <= reach && s.now.Sub(q.seen) < s.settle {
			return
		}
		s.open[0] = nil
		s.open = s.open[1:]
		s.close(q, here)
	}
}

// close finds out whether a disagreement is a race, and reports it. The state stands at here, before and after.
func (s *Shadow) close(q *question, here int) {
	if s.credit <= 0 || q.first.Verdict == Lesser && s.credit < creditMax/4 { // contradictions matter more
		q.first.Unsearched = true
		s.tell(q, q.first)
		return
	}
	at, found, last := q.at, -1, q.first
	s.goTo(here, at)
	here, at = at, max(q.since, q.at-reach, s.first)
	for here > at && found < 0 {
		s.goTo(here, here-1)
		here--
		found, last = s.flips(q, last, here, true)
	}
	s.goTo(here, q.at)
	here, last = q.at, q.first
	end := s.first + len(s.steps)
	for next := q.at + 1; next < end && next <= q.at+reach && found < 0; next++ {
		// The pod is taken off its node for the question, as it was before the binding.
		s.goTo(here, next+1)
		here = next + 1
		ref := q.pod.Key().Ref()
		now := s.objects[ref]
		s.set(ref, object{})
		found, last = s.flips(q, last, next, false)
		s.set(ref, now)
	}
	s.goTo(here, end)
	if found < 0 {
		s.tell(q, q.first)
		return
	}
	d := q.first
	d.First, d.Verdict, d.Later = d.Verdict, Race, found >= q.at
	kind, text := s.steps[found-s.first].what()
	d.Moved = text
	s.summary.Races[kind]++
	s.tell(q, d)
}

// flips asks again about a binding, after a change was undone or applied. It returns the number of the change if it turns the answer into agreement and touches what the
// choice was between, and otherwise -1; last is the answer before, and now the one after.
func (s *Shadow) flips(q *question, last Decision, at int, undone bool) (found int, now Decision) {
	s.credit--
	now = s.ask(q)
	if now.Verdict == Agree && last.Verdict != Agree && s.touches(q, last.Best, &s.steps[at-s.first], undone) {
		return at, now
	}
	return -1, now
}

// touches reports whether a change explains that the other scheduler chose the node: it is of this node or of the best one, of what the pod needs, or of pods that are
// counted for it. A change of a third node shifts normalised scores, too, and so makes nodes equally good by chance.
func (s *Shadow) touches(q *question, best string, c *step, undone bool) bool {
	on := func(node string) bool { return node != "" && (node == q.node || node == best) }
	switch c.ref.Kind {
	case model.NodeKind, model.CSINodeKind: // both are called like the node
		return on(c.ref.Name)
	case model.PodKind:
	default:
		return true
	}
	before, after := c.before.pod, c.after.pod
	if undone && q.first.Verdict == Lesser && before != nil && before.NodeName == "" && after != nil && after.NodeName != "" && s.profiles[after.SchedulerName] != nil {
		return false // the other scheduler knew its own earlier binding
	}
	counts := q.first.Verdict == Contradict && (len(q.pod.Terms) > 0 || len(q.pod.Object.Spec.TopologySpreadConstraints) > 0)
	for _, p := range []*model.Pod{before, after} {
		if p != nil && (on(p.NodeName) || on(p.NominatedNode) || counts || q.first.Verdict == Contradict && len(p.Terms) > 0) {
			return true
		}
	}
	return false
}
