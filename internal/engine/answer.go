package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Answer says what every plugin thinks of every node for the pod, nodes sorted by name. It asks the same columns as Decide
// and is meant for people: it costs far more. With fewer than two feasible nodes nothing is scored, as in a decision.
func (e *Engine) Answer(s *state.State, pod *model.Pod) (plan.Answer, error) {
	p, ok := e.profiles[pod.SchedulerName]
	if !ok {
		return plan.Answer{}, fmt.Errorf("no profile for scheduler name %q", pod.SchedulerName)
	}
	answer := plan.Answer{Pod: pod, Profile: p.Name, Decision: e.Decide(s, plan.WorkFor(pod))}
	if pod.Malformed != "" { // its needs are not known
		if r := answer.Decision.Rejection; r != nil {
			answer.Nodes = ruledOut(s, r)
		}
		return answer, nil
	}
	n, rejection, err := e.prepare(s, p, pod)
	if err != nil { // the decision says so too
		return answer, nil
	}
	if rejection != nil {
		answer.Nodes = ruledOut(s, rejection)
		return answer, nil
	}
	e.feasible(s, p, pod, n)
	feasible := map[int32]int{}
	for at, slot := range e.scan.slots {
		feasible[slot] = at
	}
	scores, err := e.allScores(s, p, pod)
	if err != nil { // the decision says so too
		scores = make([][]plan.Score, len(e.scan.slots))
	}
	e.compile(p, pod)
	promised := e.allObjectionsBesidePromised(s, p, pod)
	for _, slot := range byName(s) {
		node := plan.NodeAnswer{Name: s.Node(slot).Name()}
		_, inside := slices.BinarySearch(n.slots, slot)
		at, ok := feasible[slot]
		switch node.Feasible = ok; {
		case node.Feasible:
			node.Scores = scores[at]
			for _, score := range node.Scores {
				node.Total += score.Score * score.Weight
			}
		case len(n.by) > 0 && !inside:
			node.Rejections = []reason.Rejection{{Unresolvable: true, Reasons: []string{n.text()}}}
		case len(promised[slot]) > 0:
			node.Rejections = promised[slot]
		default:
			node.Rejections = e.allObjections(p, s.Node(slot))
		}
		answer.Nodes = append(answer.Nodes, node)
	}
	return answer, nil
}

// byName returns the slots of the nodes that exist, sorted by the nodes' names.
func byName(s *state.State) []int32 {
	slots := make([]int32, 0, s.Nodes())
	for slot, alive := range s.Alive() {
		if alive {
			slots = append(slots, int32(slot))
		}
	}
	slices.SortFunc(slots, func(a, b int32) int { return cmp.Compare(s.Node(a).Name(), s.Node(b).Name()) })
	return slots
}

// ruledOut answers for a pod that was rejected before any node was looked at: all nodes share the rejection.
func ruledOut(s *state.State, rejection *plan.Rejection) []plan.NodeAnswer {
	var nodes []plan.NodeAnswer
	shared := reason.Rejection{Unresolvable: true, Reasons: []string{rejection.PreFilter}}
	if len(rejection.Plugins) == 1 {
		shared.Plugin = rejection.Plugins[0]
	}
	for _, slot := range byName(s) {
		nodes = append(nodes, plan.NodeAnswer{Name: s.Node(slot).Name(), Rejections: []reason.Rejection{shared}})
	}
	return nodes
}

// allObjectionsBesidePromised returns, for the nodes that would not do if the promised pods were there, all that is said of them then.
func (e *Engine) allObjectionsBesidePromised(s *state.State, p *profile, pod *model.Pod) map[int32][]reason.Rejection {
	if s.Nominated() == 0 {
		return nil
	}
	said := map[int32][]reason.Rejection{}
	s.EachPromised(pod, func(slot int32, promised []*model.Pod) {
		s.Try(slot, promised, func() {
			_, _ = e.layer(s, p, pod)
			said[slot] = e.allObjections(p, s.Node(slot))
		})
	})
	e.unpromise(s, p, pod)
	return said
}

// allObjections asks every compiled filter about one node.
func (e *Engine) allObjections(p *profile, node state.Node) []reason.Rejection {
	var all []reason.Rejection
	for i, f := range e.scan.filters {
		if f == nil {
			continue
		}
		if code := f.Filter(node); code != reason.None {
			all = append(all, reason.Rejection{Plugin: p.Filters[i].Name(), Unresolvable: code.IsUnresolvable(), Reasons: f.Reasons(code)})
		}
	}
	return all
}

// allScores returns each scorer's normalised score of each feasible node, by position in e.scan.slots.
func (e *Engine) allScores(s *state.State, p *profile, pod *model.Pod) ([][]plan.Score, error) {
	slots := e.scan.slots
	scores := make([][]plan.Score, len(slots))
	if len(slots) < 2 {
		return scores, nil
	}
	for i := range p.Scorers {
		column, ok := p.Scorers[i].Scorer.(ColumnScorer)
		var one []int64
		var err error
		if ok {
			one, err = e.columnScores(s, p, i, column, pod)
		} else {
			one, err = e.setScores(s, p, i, pod)
		}
		if err != nil {
			return nil, err
		}
		for at, score := range one {
			scores[at] = append(scores[at], plan.Score{Plugin: p.Scorers[i].Name(), Weight: p.Scorers[i].Weight, Score: score})
		}
	}
	return scores, nil
}

// columnScores returns a column scorer's normalised scores by position in the feasible slots, or nil if it has no say.
func (e *Engine) columnScores(s *state.State, p *profile, i int, scorer ColumnScorer, pod *model.Pod) ([]int64, error) {
	raw, err := e.rawScores(s, p, i, scorer, pod)
	if raw == nil {
		return nil, err
	}
	var largest int32
	for _, slot := range e.scan.slots {
		largest = max(largest, raw[slot])
	}
	scores := make([]int64, len(e.scan.slots))
	for at, slot := range e.scan.slots {
		scores[at] = normalize(scorer.Normalization(), raw[slot], largest)
	}
	return scores, nil
}
