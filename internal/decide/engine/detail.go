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

// Detail returns what a decision about a pod came from: the best nodes, as many as are asked for, and how many nodes each filter removed. It must be asked in the view in which the
// pod was decided about alone, before anything else happens: then the first of the best nodes is the one that was taken, with the total that the decision has. It reads the same
// columns as Decide, which may evict others, and costs as much as one or two scans; it decides nothing.
//
// ok is false where the plugins cannot be asked again: in profiles with plugins from outside or extenders, for pods that no filter was asked about, and after an error.
func (e *Engine) Detail(v state.View, pod *model.Pod, best int) (detail plan.Detail, ok bool) {
	return e.detail(v, pod, best, 0)
}

// Detail is Engine.Detail for a decision of the run.
func (r *Run) Detail(v state.View, pod *model.Pod, best int) (detail plan.Detail, ok bool) {
	return r.engine.detail(v, pod, best, r.Tie)
}

// detail is Detail where a tie chooses among equally good nodes, as in a Run.
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
	if len(slots) == 1 && pod.NominatedNode != "" && detail.Best[0].Name == pod.NominatedNode { // no other node was looked at
		return detail, true
	}
	detail.Removed = e.removed(&c)
	return detail, true
}

// askedAgain returns the profile of a pod that plugins can be asked about again, nil if they cannot.
func (e *Engine) askedAgain(v state.View, pod *model.Pod) *profile {
	p := e.profiles[pod.SchedulerName]
	if p == nil || p.Outside != nil || len(p.Extenders) > 0 || pod.Malformed != "" || pod.Terminating || v.Nodes() == 0 {
		return nil
	}
	return p
}

// aside begins to count work apart from that of decisions, until the function that it returns is called.
func (e *Engine) aside(v state.View) (end func()) {
	before, resume := e.work, v.Meter().Aside()
	e.scratch.byPlugin = append(e.scratch.byPlugin[:0], e.byPlugin...)
	e.columns.aside = true
	return func() {
		e.columns.aside = false
		visited, asked := e.work.Visited-before.Visited, e.work.Asked-before.Asked
		e.work = before // which measures decisions, as does byPlugin
		e.work.Detailed += visited
		e.work.AskedAside += asked
		copy(e.byPlugin, e.scratch.byPlugin)
		resume()
	}
}

// asideBudget is how much work a question about what would help a pod may cost, in units: beyond it there is no answer.
const asideBudget = 10 * price.Millisecond

// FitsOn returns a node that would do for a pod, without anybody being evicted: a preferred one if it would do, else that in the lowest slot. Like Detail it reads the same columns as Decide and decides
// nothing, and it does not score. ok is false if no node would do, or plugins cannot be asked, see Detail. It may be called between two decisions.
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
	placement := plan.Placement{QueuedPod: plan.QueuedPod{Pod: pod}, NodeName: v.Node(slot).Name()}
	if p.reserve(v, &placement, slot) != nil { // as Decide would be refused there
		return "", false
	}
	return placement.NodeName, true
}

// Shape stands for everything of a pod that a rejection of it depends on: pods of one shape and one state have the same verdicts.
type Shape struct{ of shape }

// ShapeOf returns the shape of a pod; ok is false if pods with equal needs may have different verdicts: those for which plugins name nodes or from outside have a say, and pods that are nominated.
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
	s.of.priority, s.of.nominated, s.of.group = pod.Priority, false, model.GroupKey{} // also if other pods are nominated just now
	return s, true
}

// bestInDetail returns the best of the feasible nodes, with each plugin's score of each.
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
			nodes[j].Scores = append(nodes[j].Scores, plan.Score{Plugin: s.Name(), Weight: s.Weight, Score: share / max(1, s.Weight)})
			nodes[j].Total += share
		}
	}
	return nodes, nil
}

// weightedScores fills in a plugin's weighted score of each feasible node, without what it gives every node; ok is false if it skips the pod.
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

// highestFew returns the positions of the highest totals, as many as are asked for, the highest first: of equal ones that of the slot that was taken, then the others by slot.
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

// removed counts the nodes that are not feasible by the first plugin that objects to each, in the order in which plugins run. Nodes that PreFilter plugins leave out are counted
// under the names of these plugins together.
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
