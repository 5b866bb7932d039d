package engine

import (
	"cmp"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Detail explains a decision: the best nodes, up to a given number, and the number of
// nodes that each filter removed. Call it in the view in which the pod was decided alone,
// before anything else happens. Then the first of the best nodes is the chosen node, with
// the total of the decision.
//
// It reads the same columns as Decide, which may evict others, and costs as much as one
// or two scans. It decides nothing. ok is false where plugins cannot run again: in
// profiles with out-of-tree plugins or extenders, for pods that no filter judged, and
// after an error.
func (e *Engine) Detail(v state.View, pod *model.Pod, best int) (detail plan.Detail, ok bool) {
	return e.detail(v, pod, best, 0)
}

// Detail is Engine.Detail for a decision of the run.
func (r *Run) Detail(v state.View, pod *model.Pod, best int) (detail plan.Detail, ok bool) {
	return r.engine.detail(v, pod, best, r.Tie)
}

// detail is Detail with the tie-break of a Run.
func (e *Engine) detail(v state.View, pod *model.Pod, best int, tie uint64) (detail plan.Detail, ok bool) {
	p := e.askedAgain(v, pod)
	if p == nil {
		return detail, false
	}
	defer e.aside(v)()
	c, rejection, err := e.preFilter(v, p, pod)
	if err != nil || rejection != nil {
		return detail, false
	}
	c.tie = tie
	e.prepare(&c)
	slots, err := e.filter(&c)
	if err != nil {
		return detail, false
	}
	if detail.Feasible = len(slots); detail.Feasible > 0 {
		if detail.Best, err = e.bestInDetail(&c, slots, best); err != nil {
			return plan.Detail{}, false
		}
	}
	// no other node was considered
	if len(slots) == 1 && pod.NominatedNode != "" && detail.Best[0].Name == pod.NominatedNode {
		return detail, true
	}
	detail.Removed = e.removed(&c)
	return detail, true
}

// askedAgain returns the profile of a pod if its plugins can run again, or nil.
func (e *Engine) askedAgain(v state.View, pod *model.Pod) *profile {
	p := e.profiles[pod.SchedulerName]
	if p == nil || p.External != nil || len(p.Extenders) > 0 || pod.Malformed != "" || pod.Terminating || v.Nodes() == 0 {
		return nil
	}
	return p
}

// aside begins to count work separately from decisions. The returned function ends this.
func (e *Engine) aside(v state.View) (end func()) {
	before, resume := e.work, v.Meter().Aside()
	e.scratch.byPlugin = append(e.scratch.byPlugin[:0], e.byPlugin...)
	e.columns.aside = true
	return func() {
		e.columns.aside = false
		visited, asked := e.work.Visited-before.Visited, e.work.Asked-before.Asked
		e.work = before // work measures decisions, as does byPlugin
		e.work.Detailed += visited
		e.work.AskedAside += asked
		copy(e.byPlugin, e.scratch.byPlugin)
		resume()
	}
}

// asideBudget bounds the work of a question about changes that would help a pod, in
// units. Beyond it the question is not answered.
const asideBudget = 10 * price.Millisecond

// FitsOn returns a feasible node for a pod without preemption: the preferred node if it
// is feasible, else the one in the lowest slot. Like Detail it reads the same columns as
// Decide and decides nothing. It does not score.
//
// ok is false if no node is feasible, or plugins cannot run again, see Detail. It may be
// called between two decisions.
func (e *Engine) FitsOn(v state.View, pod *model.Pod, preferred string) (node string, ok bool) {
	p := e.askedAgain(v, pod)
	if p == nil {
		return "", false
	}
	defer e.aside(v)()
	v.Meter().Begin(asideBudget)
	v.State().BeginTurn()
	c, rejection, err := e.preFilter(v, p, pod)
	if err != nil || rejection != nil {
		return "", false
	}
	e.prepare(&c)
	slots, err := e.filter(&c)
	if err != nil || len(slots) == 0 {
		return "", false
	}
	slot := slots[0]
	if at, exists := v.Slot(preferred); exists {
		if _, would := slices.BinarySearch(slots, at); would {
			slot = at
		}
	}
	placement := plan.Placement{Pod: pod, NodeName: v.Node(slot).Name()}
	if e.reserveIn(p, v, &placement, slot) != nil { // Decide would be refused there
		return "", false
	}
	return placement.NodeName, true
}

// Shape is everything in a pod that its rejection depends on. In one state, pods of one
// shape have the same verdicts.
type Shape struct{ of shape }

// ShapeOf returns the shape of a pod. ok is false if pods with equal needs may have
// different verdicts: pods that PreFilter plugins narrow, pods judged by out-of-tree
// plugins, and nominated pods.
func (e *Engine) ShapeOf(v state.View, pod *model.Pod) (s Shape, ok bool) {
	p := e.askedAgain(v, pod)
	if p == nil {
		return s, false
	}
	defer e.aside(v)()
	v.Meter().Begin(asideBudget)
	v.State().BeginTurn()
	c, rejection, err := e.preFilter(v, p, pod)
	if err != nil || rejection != nil {
		return s, false
	}
	if s.of, ok = shapeOf(&c); !ok {
		return Shape{}, false
	}
	// also if other pods are nominated just now
	s.of.priority, s.of.nominated, s.of.group = pod.Priority, false, model.GroupKey{}
	return s, true
}

// bestInDetail returns the best of the feasible nodes, with every plugin's scores.
func (e *Engine) bestInDetail(c *cycle, slots []int32, best int) ([]plan.NodeAnswer, error) {
	if len(slots) == 1 {
		return []plan.NodeAnswer{{Name: c.view.Node(slots[0]).Name(), Feasible: true}}, nil
	}
	taken, _, err := e.best(c, slots)
	if err != nil {
		return nil, err
	}
	at := highestFew(slots, e.scratch.totals[:len(slots)], taken, best)
	nodes := make([]plan.NodeAnswer, len(at))
	for i, position := range at {
		nodes[i] = plan.NodeAnswer{Name: c.view.Node(slots[position]).Name(), Feasible: true}
	}
	weighted := make([]int64, len(slots))
	for i := range c.profile.Scores {
		everywhere, ok, err := e.weightedScores(c, i, slots, weighted)
		if err != nil {
			return nil, err
		}
		if !ok {
			continue
		}
		s := &c.profile.Scores[i]
		for j, position := range at {
			share := weighted[position] + everywhere
			nodes[j].Scores = append(nodes[j].Scores, plan.Score{Plugin: s.Name, Weight: s.Weight, Score: share / max(1, s.Weight)})
			nodes[j].Total += share
		}
	}
	return nodes, nil
}

// weightedScores returns a plugin's weighted score of each feasible node in weighted,
// without the share that is equal for all. ok is false if the plugin skips the pod.
func (e *Engine) weightedScores(c *cycle, i int, slots []int32, weighted []int64) (everywhere int64, ok bool, err error) {
	clear(weighted)
	if single := c.profile.scorers[i].column; single != nil {
		if column, err := e.scoreColumn(c, i, single); column == nil || err != nil {
			return 0, false, err
		}
		everywhere, err = e.addScores(c, i, slots, weighted)
		return everywhere, true, err
	}
	scores, err := e.togetherScores(c, i, slots)
	for at, score := range scores {
		weighted[at] = score * c.profile.Scores[i].Weight
	}
	return 0, scores != nil, err
}

// highestFew returns the positions of the highest totals, up to a given number, highest
// first. Among equal totals the taken slot comes first, then the others by slot.
func highestFew(slots []int32, totals []int64, taken int32, few int) []int {
	few = min(few, len(slots))
	before := func(a, b int) int {
		switch {
		case totals[a] != totals[b]:
			return cmp.Compare(totals[b], totals[a])
		case slots[a] == taken:
			return -1
		case slots[b] == taken:
			return 1
		}
		return cmp.Compare(a, b)
	}
	at := make([]int, 0, few+1)
	for position := range totals {
		if len(at) == few && before(at[few-1], position) < 0 {
			continue
		}
		to, _ := slices.BinarySearchFunc(at, position, before)
		if at = slices.Insert(at, to, position); len(at) > few {
			at = at[:few]
		}
	}
	return at
}

// removed counts the infeasible nodes by the first plugin that objects to each, in the
// order in which plugins run. Nodes that PreFilter plugins leave out are counted under
// the names of these plugins together.
func (e *Engine) removed(c *cycle) []plan.Removal {
	var counts objectionCounts
	e.countObjections(c, &counts)
	byFilter := make([]int, len(c.profile.Filters)+1) // the last for extenders
	for _, o := range counts.list {
		if o.code != reason.None {
			byFilter[min(o.filter, len(byFilter)-1)] += o.nodes
		}
	}
	var all []plan.Removal
	if outside := c.view.ToChooseAmong() - len(c.narrowed.slots); len(c.narrowed.by) > 0 && outside > 0 {
		all = append(all, plan.Removal{Plugins: c.narrowed.by, Nodes: outside})
	}
	for i, nodes := range byFilter {
		if nodes > 0 {
			all = append(all, plan.Removal{Plugins: []string{c.profile.nameOf(i)}, Nodes: nodes})
		}
	}
	return all
}
