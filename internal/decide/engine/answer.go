package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Answer returns the results of every plugin for every node, sorted by name. It reads the
// same columns as Decide and is meant for people, since it costs far more. With fewer
// than two feasible nodes nothing is scored, as in a decision.
func (e *Engine) Answer(v state.View, pod *model.Pod) (plan.Answer, error) {
	p, ok := e.profiles[pod.SchedulerName]
	if !ok {
		return plan.Answer{}, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName)
	}
	answer := plan.Answer{Pod: pod, Profile: p.Name, Decision: e.Decide(v, plan.Alone(pod))}
	if pod.Malformed != "" { // its needs are unknown
		if r := answer.Decision.Rejection; r != nil {
			answer.Nodes = ruledOut(v, r, false)
		}
		return answer, nil
	}
	if p.External != nil {
		p.External.Begin(v, pod)
		defer p.External.End()
	}
	c, rejection, err := e.preFilter(v, p, pod)
	if err != nil { // the decision has the error
		return answer, nil
	}
	if rejection != nil {
		answer.Nodes = ruledOut(v, rejection, c.open)
		return answer, nil
	}
	e.prepare(&c)
	if _, _, err = e.filterNominated(&c); err != nil { // the decision has the error
		return answer, nil
	}
	slots, err := e.filterWithoutNominated(&c)
	if err == nil && c.hasNominated() {
		slots, err = e.leaveRoom(&c, slots)
	}
	if err == nil && len(p.Extenders) > 0 {
		slots, err = e.filterByExtenders(&c, slots)
	}
	if err != nil { // the decision has the error
		return answer, nil
	}
	answer.Nodes = e.answerNodes(&c, slots)
	return answer, nil
}

// answerNodes returns each node's results, given the feasible slots.
func (e *Engine) answerNodes(c *cycle, slots []int32) []plan.NodeAnswer {
	feasible := map[int32]int{}
	for at, slot := range slots {
		feasible[slot] = at
	}
	scores, err := e.allScores(c, slots)
	if err != nil { // the decision has the error
		scores = make([][]plan.Score, len(slots))
	}
	nominated := e.allObjectionsBesideNominated(c)
	var nodes []plan.NodeAnswer
	for _, slot := range byName(c.view) {
		node := plan.NodeAnswer{Name: c.view.Node(slot).Name()}
		_, inside := slices.BinarySearch(c.narrowed.slots, slot)
		at, ok := feasible[slot]
		switch node.Feasible = ok; {
		case node.Feasible:
			node.Scores = scores[at]
			for _, score := range node.Scores {
				node.Total += score.Score * score.Weight
			}
		case len(c.narrowed.by) > 0 && !inside:
			node.Rejections = []reason.Rejection{{Unresolvable: true, Reasons: []string{c.narrowed.text()}}}
		case len(nominated[slot]) > 0:
			node.Rejections = nominated[slot]
		default:
			node.Rejections = c.allObjections(&c.here, slot)
		}
		nodes = append(nodes, node)
	}
	return nodes
}

// byName returns the slots of existing nodes, sorted by node name.
func byName(v state.View) []int32 {
	slots := make([]int32, 0, v.Nodes())
	for slot, alive := range v.State().Alive() {
		if alive {
			slots = append(slots, int32(slot))
		}
	}
	slices.SortFunc(slots, func(a, b int32) int { return cmp.Compare(v.Node(a).Name(), v.Node(b).Name()) })
	return slots
}

// ruledOut returns the nodes' results for a pod that PreFilter rejected: every node has
// the same rejection. open means that preemption may help.
func ruledOut(v state.View, rejection *plan.Rejection, open bool) []plan.NodeAnswer {
	var nodes []plan.NodeAnswer
	for _, slot := range byName(v) {
		nodes = append(nodes, plan.NodeAnswer{Name: v.Node(slot).Name(), Rejections: rejectedAtPreFilter(rejection, open)})
	}
	return nodes
}

// allObjectionsBesideNominated returns all objections to the nodes that are infeasible
// together with the pods nominated to them.
func (e *Engine) allObjectionsBesideNominated(c *cycle) map[int32][]reason.Rejection {
	if !c.hasNominated() {
		return nil
	}
	all := map[int32][]reason.Rejection{}
	c.eachNominated(func(slot int32, before []*model.Pod) {
		if !c.narrowed.has(slot) {
			return
		}
		dry := e.filtersBesideNominated(c, slot, before)
		all[slot] = c.allObjections(&dry, slot)
	})
	return all
}

// allObjections returns the objections of every filter to one node.
func (c *cycle) allObjections(f *filters, slot int32) []reason.Rejection {
	var all []reason.Rejection
	node := f.view.Node(slot)
	for i, verdicts := range f.verdicts {
		if verdicts == nil {
			continue
		}
		code := verdicts.Filter(node)
		if code == reason.None {
			continue
		}
		var reasons []string
		if err := c.failure(f, objection{filter: i, code: code}); err != nil {
			reasons = []string{err.Error()}
		} else {
			reasons = verdicts.Reasons(code)
		}
		all = append(all, reason.Rejection{
			Plugin: c.profile.nameOf(i), Unresolvable: code.IsUnresolvable(), Failed: code.IsFailed(), Pending: isPending(verdicts, code), Reasons: reasons,
		})
	}
	return all
}

// allScores returns each plugin's normalised score of each feasible node, by position in
// slots.
func (e *Engine) allScores(c *cycle, slots []int32) ([][]plan.Score, error) {
	scores := make([][]plan.Score, len(slots))
	if len(slots) < 2 {
		return scores, nil
	}
	if err := c.preScore(slots); err != nil {
		return nil, err
	}
	for i := range c.profile.Scores {
		p := &c.profile.Scores[i]
		var one []int64
		var err error
		if single := c.profile.scorers[i].column; single != nil {
			one, err = e.nodeScores(c, i, single, slots)
		} else {
			one, err = e.togetherScores(c, i, slots)
		}
		if err != nil {
			return nil, err
		}
		for at, score := range one {
			scores[at] = append(scores[at], plan.Score{Plugin: p.Name, Weight: p.Weight, Score: score})
		}
	}
	return scores, nil
}

// nodeScores returns the normalised scores of a Score plugin by position in the feasible
// slots, or nil if the plugin skips the pod.
func (e *Engine) nodeScores(c *cycle, i int, p *plugin.Score, slots []int32) ([]int64, error) {
	raw, err := e.rawScores(c, i, p, slots)
	if raw == nil {
		return nil, err
	}
	if c.extended != nil && c.extended.bare {
		column, err := e.scoreColumn(c, i, p)
		if err != nil {
			return nil, err
		}
		raw = e.bareScores(c, p, column, slots)
	}
	var largest int32
	for _, slot := range slots {
		largest = max(largest, raw[slot])
	}
	scores := make([]int64, len(slots))
	for at, slot := range slots {
		scores[at] = normalize(p.Normalization, raw[slot], largest)
	}
	return scores, nil
}
