package preempt

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

const (
	notHelpful = "Preemption is not helpful for scheduling"
	noVictims  = "No preemption victims found for incoming pod"
)

// Ineligible returns the reason why a pod must not preempt now, empty if it may.
func Ineligible(v state.View, t turn, pod *model.Pod) string {
	if pod.NeverPreempts() {
		return "not eligible due to preemptionPolicy=Never."
	}
	if pod.NominatedNode == "" {
		return ""
	}
	slot, ok := v.Slot(pod.NominatedNode)
	// as in kube-scheduler, which tests another status code here
	if !ok || !t.Resolvable(slot) && !t.Rejected(slot).Pending {
		return ""
	}
	// While a victim of this or another pod is still leaving the node, space is about to
	// become free without a further victim.
	for other := range v.PodsOn(slot) {
		if other.Priority < pod.Priority && v.IsLeaving(other) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// Search returns the best candidate, or a rejection with the reasons node by node. It
// returns neither if extenders left no candidate. An error means that no candidate was
// found, and that the search failed on some nodes or in an extender.
func (m *Memory) Search(t turn, facts Facts, pod *model.Pod) (plugin.Preemption, Work, error) {
	m.begin(facts.View.State(), facts.Rules)
	s := search{cycle: cycle{t, facts}, pod: pod, memory: m, onlyUsage: facts.OnlyUsage, objections: map[Objection]int{}}
	by := advisers(&s.cycle, pod)
	s.run(len(by) > 0)
	found, err := s.result(by)
	return found, Work{Looked: s.looked, Rated: s.rated, Tried: s.tried}, err
}

// run tries the potential nodes. If extenders advise, it tries all of them.
func (s *search) run(advised bool) {
	c, priority := &s.cycle, s.pod.Priority
	switch v := c.View; {
	case c.PotentialNodes == 0:
	case !v.PodsBelow(priority):
		s.withoutVictims = c.PotentialNodes
	case advised:
		s.onlyUsage = s.onlyUsage && len(v.Touched()) == 0
		s.tryAll(s.potential())
	case len(v.Touched()) > 0: // bounds describe the pods of the state
		s.onlyUsage = false
		for _, slot := range s.potential() {
			s.try(slot)
		}
	default:
		s.basis = basis{bounds: s.memory.boundsFor(c, priority), exact: c.OnlyRequest}
		if !s.onlyUsage {
			s.known = s.memory.findingsFor(c, priority)
		}
		o := s.memory.orderFor(c, s.basis, priority)
		if o != nil && o.open != nil {
			s.tryInOrder(o)
		} else {
			s.tryByBounds(s.potential())
		}
		if o != nil {
			o.followed(v.State()) // including the findings of this search
		}
		s.rated = s.bounds.rated
	}
}

// result returns the best candidate after the extenders' advice, or the reasons why none
// exists.
func (s *search) result(by []plugin.Extender) (found plugin.Preemption, err error) {
	switch {
	case len(by) > 0 && len(s.candidates) > 0:
		found.Candidate, err = s.advised(by)
	case s.best != nil:
		found.Candidate = s.best
	case len(s.errs) > 0:
		slices.SortFunc(s.errs, func(a, b failure) int { return cmp.Compare(a.slot, b.slot) })
		all := make([]error, len(s.errs))
		for i := range all {
			all[i] = s.errs[i].error
		}
		err = utilerrors.NewAggregate(all)
	default:
		found.Rejection, err = s.rejection()
	}
	return found, err
}

// search is a search for the best candidate.
type search struct {
	cycle     cycle
	pod       *model.Pod
	memory    *Memory
	onlyUsage bool
	basis
	own int32 // the slot of the pod's nominated node

	best *plugin.Candidate
	rank rank // of best
	// looked counts the nodes considered, rated the nodes whose bound was computed, tried
	// the nodes on which victims were searched for.
	looked, rated, tried int
	// withoutVictims counts the nodes without a pod of lower priority. objections counts
	// the other nodes on which evicting all such pods was not enough.
	withoutVictims int
	objections     map[Objection]int
	errs           []failure
	// candidates are all candidates by node, for extenders; nil without extenders.
	candidates map[string]*plugin.Candidate
	// recalled counts the nodes that are known to have no candidate, by the position of
	// their reasons.
	recalled [maxTexts]int
}

// basis is the input of the bounds of nodes.
type basis struct {
	bounds *bounds
	// known are the findings on nodes for pods like this one, nil if they are not kept.
	known *findings
	// exact means that candidates depend only on the node and on the input of bounds.
	exact bool
}

// failure is an error of the search on a node.
type failure struct {
	error
	slot int32
}

func (s *search) fail(slot int32, err error) { s.errs = append(s.errs, failure{err, slot}) }

// potential returns the potential nodes and counts them as considered.
func (s *search) potential() []int32 {
	slots := s.cycle.Potential()
	s.looked += len(slots)
	return slots
}

// tryInOrder tries the nodes whose bounds are better than the best candidate so far, the
// best bound first. The result equals that of tryByBounds.
func (s *search) tryInOrder(o *order) {
	s.own = -1 // rejections of nominated pods are not remembered
	for _, g := range o.groups {
		switch g.state {
		case noLower:
			s.withoutVictims += len(g.slots)
		case noCandidate:
			s.recalled[g.what] += len(g.slots)
		}
	}
	salt := s.cycle.Salt
	aside := s.memory.short[:0] // tried, without a result to keep
	for {
		slot := o.open.Best(salt)
		if slot < 0 {
			break
		}
		bound := *s.boundOf(slot)
		if bound.tie = s.cycle.tie(slot); s.best != nil && !bound.isBetter(&s.rank) {
			break
		}
		if s.try(slot) {
			o.look(&s.cycle, slot)
			continue
		}
		o.open.Remove(slot)
		aside = append(aside, slot)
	}
	if s.best == nil {
		s.explainGroups(o)
	}
	for _, slot := range aside {
		o.look(&s.cycle, slot)
	}
	s.looked += o.looked
	s.memory.short = aside[:0]
}

// explainGroups is explainShort for the groups of nodes in an order.
func (s *search) explainGroups(o *order) {
	for _, g := range o.short() {
		if s.objectAlike(g.what) {
			s.objections[s.objectionWithout(g.slots[0])] += len(g.slots)
			continue
		}
		for _, slot := range slices.Clone(g.slots) {
			if s.try(slot) {
				o.look(&s.cycle, slot)
			}
		}
	}
}

// tryByBounds tries the nodes whose bounds are better than the best candidate so far, the
// best bound first.
func (s *search) tryByBounds(potential []int32) {
	// Cached values for the pod's own nominated node are wrong, because they include the
	// pod.
	own, nominated := s.cycle.View.NominatedTo(s.pod.Key())
	if !nominated {
		own = -1
	}
	s.own = own
	open, short := s.memory.open[:0], s.memory.short[:0]
	bounds := s.bounds
	if own >= 0 {
		bounds.states[own], bounds.ranks[own], bounds.sums[own], bounds.stale = rated, ideal, ideal, own
		bounds.noted.note(own)
	}
	first := int32(-1)
	potential = s.withoutKnown(potential)
	for _, slot := range potential {
		switch bounds.states[slot] {
		case noLower:
			s.withoutVictims++
		case tooShort:
			short = append(short, slot)
		default:
			if first < 0 || s.isBetter(slot, first) {
				first = slot
			}
		}
	}
	if first >= 0 {
		s.try(first)
		for _, slot := range potential {
			if slot == first || bounds.states[slot] != rated {
				continue
			}
			r := s.boundOf(slot)
			if s.best != nil && r.compareRungs(&s.rank) > 0 {
				continue
			}
			b := bounded{*r, slot}
			if b.tie = s.cycle.tie(slot); s.best == nil || b.isBetter(&s.rank) {
				open = append(open, b)
			}
		}
	}
	h := byBound(open)
	heap.Init(&h)
	for len(h) > 0 && (s.best == nil || h[0].isBetter(&s.rank)) {
		slot := h[0].slot
		heap.Pop(&h)
		s.try(slot)
	}
	if s.best == nil {
		s.explainShort(short)
	}
	s.memory.open, s.memory.short = open[:0], short[:0]
}

// withoutKnown drops and counts the nodes that are known to have no candidate.
func (s *search) withoutKnown(slots []int32) []int32 {
	if s.known == nil {
		return slots
	}
	return slices.DeleteFunc(slots, func(slot int32) bool {
		at, known := s.known.reasons(slot)
		if known {
			s.recalled[at]++
		}
		return known
	})
}

// boundOf returns the lower bound on the cost of a slot's candidate. A rank that was
// found for pods of which only the request matters does not bound the candidates of other
// pods: victims are not a minimal set, so one more filter can mean fewer victims.
func (b *basis) boundOf(slot int32) *rank {
	if b.exact {
		return &b.bounds.ranks[slot]
	}
	if b.known != nil {
		if r := b.known.rankOf(slot); r != nil {
			return r
		}
	}
	return &b.bounds.sums[slot]
}

// isBetter reports whether the bound of a slot is better than another's. Ties are
// computed only where they decide.
func (s *search) isBetter(slot, other int32) bool {
	if c := s.boundOf(slot).compareRungs(s.boundOf(other)); c != 0 {
		return c < 0
	}
	return s.cycle.tie(slot) > s.cycle.tie(other)
}

// bounded is a node to try.
type bounded struct {
	rank
	slot int32
}

// byBound is a heap with the best bound on top.
type byBound []bounded

func (h byBound) Len() int           { return len(h) }
func (h byBound) Less(i, j int) bool { return h[i].isBetter(&h[j].rank) }
func (h byBound) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byBound) Push(x any)        { *h = append(*h, x.(bounded)) }
func (h *byBound) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// objectAlike reports whether all nodes that lack the same resources have the same
// objection, so that one of them stands for all.
func (s *search) objectAlike(lacks uint32) bool { return s.cycle.OnlyRequest && lacks&manyKinds == 0 }

// explainShort finds the objections to nodes that lack a resource even without the pods
// of lower priority.
func (s *search) explainShort(slots []int32) {
	type like struct {
		lacks uint32
		slot  int32
		nodes int
	}
	var alike []like // a few
	at := 0
	for _, slot := range slots {
		lacks := s.bounds.lacks[slot]
		if !s.objectAlike(lacks) {
			s.try(slot)
			continue
		}
		if at >= len(alike) || alike[at].lacks != lacks {
			if at = slices.IndexFunc(alike, func(l like) bool { return l.lacks == lacks }); at < 0 {
				at = len(alike)
				alike = append(alike, like{lacks: lacks, slot: slot})
			}
		}
		alike[at].nodes++
	}
	for _, l := range alike {
		s.objections[s.objectionWithout(l.slot)] += l.nodes
	}
}

// try searches for victims on a node. kept means that the result is cached, so that the
// node is not tried again for nothing.
func (s *search) try(slot int32) (kept bool) {
	s.tried++
	found, objection, any := s.victims(slot)
	switch {
	case !any:
		s.withoutVictims++
	case objection.Code.IsFailed():
		_, err := s.cycle.Reasons(objection)
		s.fail(slot, err)
	case !objection.IsNone():
		s.objections[objection]++
		if s.known != nil {
			texts, err := s.cycle.Reasons(objection)
			kept = err == nil && s.known.learnReasons(slot, texts)
		}
	case len(found.Victims) == 0:
		s.withoutVictim(&found)
	default:
		r := s.rankOf(&found)
		switch {
		case s.exact && slot != s.own:
			s.bounds.learn(slot, r)
			kept = true
		case s.known != nil:
			s.known.learn(slot, r)
			kept = true
		}
		if s.candidates != nil {
			s.candidates[s.cycle.View.Node(slot).Name()] = &found
		}
		if s.best == nil || r.isBetter(&s.rank) {
			s.best, s.rank = &found, r
		}
	}
	return kept
}

// withoutVictim records a node that passes the filters although none of its pods is
// evicted: an extender or a plugin rejected it in this turn. Extenders that preempt may
// choose victims on it.
func (s *search) withoutVictim(found *plugin.Candidate) {
	name := s.cycle.View.Node(found.Slot).Name()
	switch {
	case !s.cycle.Rules.WithoutVictims:
		s.fail(found.Slot, fmt.Errorf("expected at least one victim pod on node %q", name))
	case s.candidates != nil:
		s.candidates[name] = found
	default:
		s.withoutVictims++
	}
}

// rejection returns the reasons for the lack of a candidate among the potential nodes.
func (s *search) rejection() (*plan.Rejection, error) {
	var tally reason.Tally
	if n := s.cycle.View.Nodes() - s.cycle.PotentialNodes; n > 0 {
		tally.Add(n, notHelpful)
	}
	if s.withoutVictims > 0 {
		tally.Add(s.withoutVictims, noVictims)
	}
	for o, n := range s.objections {
		texts, err := s.cycle.Reasons(o)
		if err != nil {
			return nil, err
		}
		tally.Add(n, texts...)
	}
	for at, n := range s.recalled {
		if n > 0 {
			tally.Add(n, s.known.texts[at]...)
		}
	}
	return &plan.Rejection{Counts: tally.Counts()}, nil
}
