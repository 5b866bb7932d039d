package engine

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// best returns the feasible slot with the highest total. Ties are broken by rank.Pick
// from seed, pod and node names: all tied nodes are equally likely, and a run is
// repeatable.
func (e *Engine) best(c *cycle, slots []int32) (slot int32, total int64, err error) {
	if cap(e.scratch.totals) < len(slots) {
		e.scratch.totals = make([]int64, len(slots)+len(slots)/4)
	}
	totals := e.scratch.totals[:len(slots)]
	clear(totals)
	var everywhere int64 // added to every node's total
	if err := c.preScore(slots); err != nil {
		return 0, 0, err
	}
	for i := range c.profile.Scores {
		constant, err := e.addScores(c, i, slots, totals)
		if err != nil {
			return 0, 0, err
		}
		everywhere += constant
	}
	if len(c.profile.Extenders) > 0 {
		e.addExtenders(c, slots, totals)
	}
	tied, hashes := e.tiedAt(totals), c.view.State().NameHashes()
	total = totals[tied[0]]
	places := e.scratch.places[:0]
	for i, at := range tied {
		tied[i] = slots[at]
		places = append(places, rank.Mix(hashes[tied[i]]))
	}
	e.scratch.places = places
	return rank.Pick(e.saltIn(c), places, tied), total + everywhere, nil
}

// salt returns the start of the hashes that break ties for a pod.
func (e *Engine) salt(pod *model.Pod) uint64 { return saltOf(e.seed, pod.Key()) }

// saltIn is salt for a cycle's pod.
func (e *Engine) saltIn(c *cycle) uint64 {
	if c.tie == 0 {
		return e.salt(c.pod)
	}
	return rank.Mix(e.salt(c.pod) ^ c.tie)
}

func saltOf(seed uint64, pod model.PodKey) uint64 {
	return rank.Mix(seed ^ state.HashName(pod.Namespace+"/"+pod.Name))
}

// Preferred returns the node that a decision with this seed chooses for a pod among nodes
// with equal totals. At least one node is required.
func Preferred(seed uint64, pod model.PodKey, nodes []string) string {
	places, numbers := make([]uint64, len(nodes)), make([]int32, len(nodes))
	for i, name := range nodes {
		places[i], numbers[i] = rank.Mix(state.HashName(name)), int32(i)
	}
	return nodes[rank.Pick(saltOf(seed, pod), places, numbers)]
}

// Tie returns a number for one of several choices. Among equally good choices the highest
// number wins.
func (e *Engine) Tie(of, choice string) uint64 { return TieOf(e.seed, of, choice) }

// TieOf is Tie of an engine with this seed.
func TieOf(seed uint64, of, choice string) uint64 {
	return rank.Mix(rank.Mix(seed^state.HashName(of)) ^ state.HashName(choice))
}

// tiedAt finds the positions of the highest total.
func (e *Engine) tiedAt(totals []int64) []int32 {
	tied, best := e.scratch.tied[:0], totals[0]
	for at, total := range totals {
		if total < best {
			continue
		}
		if total > best {
			tied, best = tied[:0], total
		}
		tied = append(tied, int32(at))
	}
	e.scratch.tied = tied
	return tied
}

// scorer is a Score plugin by its kind: exactly one field is set. The kind is found once,
// not in each decision.
type scorer struct{ column, set, turn *plugin.Score }

func newScorer(p *plugin.Score) (s scorer) {
	switch {
	case p.Need != nil || p.NeedIn != nil:
		s.column = p
	case p.Set != nil:
		s.set = p
	case p.Turn != nil:
		s.turn = p
	}
	return s
}

// togetherScores returns the scores of a plugin without columns by position in the
// feasible slots, or nil if it skips the pod. They are valid until the next call.
func (e *Engine) togetherScores(c *cycle, i int, slots []int32) ([]int64, error) {
	if turn := c.profile.scorers[i].turn; turn != nil {
		return e.turnScores(c, i, turn, slots)
	}
	return e.setScores(c, i, slots)
}

// addScores adds one plugin's normalised and weighted scores to the totals, or returns
// them if they are equal for all nodes.
func (e *Engine) addScores(c *cycle, i int, slots []int32, totals []int64) (everywhere int64, err error) {
	if c.amounts != nil && c.amounts.skip[i] {
		e.addAmountScores(c, i, slots, totals)
		return 0, nil
	}
	weight := c.profile.Scores[i].Weight
	single := c.profile.scorers[i].column
	if single == nil {
		scores, err := e.togetherScores(c, i, slots)
		for at, score := range scores {
			totals[at] += score * weight
		}
		return 0, err
	}
	column, err := e.scoreColumn(c, i, single)
	if column == nil || err != nil {
		return 0, err
	}
	if err := e.completeScore(c, i, column, slots); err != nil {
		return 0, err
	}
	if c.extended != nil && c.extended.bare {
		return e.addNormalized(single, weight, e.bareScores(c, single, column, slots), slots, totals)
	}
	how := single.Normalization
	if column.nonZero == 0 && len(c.view.Touched()) == 0 {
		return normalize(how, 0, 0) * weight, nil
	}
	raw := e.values(c, single.Name, column)
	switch {
	case how == model.AsIs && column.scores.Classes != nil:
		addClasses(raw, e.classScores(c, single.Name, column), weight, slots, totals)
		return 0, nil
	case how == model.AsIs:
		addRaw(raw, weight, slots, totals)
		return 0, nil
	}
	return e.addNormalized(single, weight, e.scoresOf(c, single.Name, column, raw), slots, totals)
}

func addRaw(raw []int32, weight int64, slots []int32, totals []int64) {
	totals = totals[:len(slots)]
	for at, slot := range slots {
		totals[at] += int64(raw[slot]) * weight
	}
}

func addClasses(classes, scores []int32, weight int64, slots []int32, totals []int64) {
	totals = totals[:len(slots)]
	for at, slot := range slots {
		totals[at] += int64(scores[classes[slot]]) * weight
	}
}

// rawScores returns the raw scores of a Score plugin by slot, or nil if it skips the pod.
// Only those of the given slots are complete. They are valid until the next call.
func (e *Engine) rawScores(c *cycle, i int, single *plugin.Score, slots []int32) ([]int32, error) {
	column, err := e.scoreColumn(c, i, single)
	if column == nil || err != nil {
		return nil, err
	}
	if err := e.completeScore(c, i, column, slots); err != nil {
		return nil, err
	}
	return e.scoresOf(c, single.Name, column, e.values(c, single.Name, column)), nil
}

// values returns the values of a column by slot in the cycle's view. They are valid until
// the next call.
func (e *Engine) values(c *cycle, name string, column *scoreColumn) []int32 {
	touched := c.view.Touched()
	if len(touched) == 0 {
		return column.values
	}
	// The column describes the state's pods; the view has other pods on some nodes.
	e.scratch.raw = append(e.scratch.raw[:0], column.values...)
	e.begin()
	for _, slot := range aliveOf(c.view.State().Alive(), touched) {
		e.scratch.raw[slot] = column.scores.Score(c.view.Node(slot))
	}
	e.end(scorePoint, name, Success)
	return e.scratch.raw
}

// scoresOf returns the raw scores for the values of a column, by slot.
func (e *Engine) scoresOf(c *cycle, name string, column *scoreColumn, values []int32) []int32 {
	if column.scores.Classes == nil {
		return values
	}
	scores := e.classScores(c, name, column)
	raw := make([]int32, len(values))
	for slot, class := range values {
		raw[slot] = scores[class]
	}
	return raw
}

// classScores returns the scores of a column's classes.
func (e *Engine) classScores(c *cycle, name string, column *scoreColumn) []int32 {
	e.begin()
	scores := column.scores.Classes.Classes(c.view)
	e.end(scorePoint, name, Success)
	return scores
}

// setScores returns the scores of a Score plugin with Set by position in the feasible
// slots, or nil if it skips the pod. They are valid until the next call.
func (e *Engine) setScores(c *cycle, i int, slots []int32) ([]int64, error) {
	p := c.profile.scorers[i].set
	set, err := e.setOf(c, i, p)
	if set == nil || err != nil {
		return nil, err
	}
	scores := e.setMemory(len(slots))
	e.begin()
	ok, err := set.Score(c.view, slots, scores)
	if e.end(scorePoint, p.Name, failedIf(err)); err != nil {
		return nil, errPreScore(p.Name, err)
	}
	if !ok {
		return nil, nil
	}
	e.byPlugin[int(c.profile.first)+len(c.profile.Filters)+i] += int64(len(slots))
	return scores, nil
}

// setMemory returns memory for one plugin's scores of this many nodes, with any content.
func (e *Engine) setMemory(nodes int) []int64 {
	if cap(e.scratch.set) < nodes {
		e.scratch.set = make([]int64, nodes+nodes/4)
	}
	return e.scratch.set[:nodes]
}

func (e *Engine) addNormalized(p *plugin.Score, weight int64, raw, slots []int32, totals []int64) (everywhere int64, err error) {
	how := p.Normalization
	var largest int32
	for _, slot := range slots {
		v := raw[slot]
		largest = max(largest, v)
		if v < 0 {
			return 0, errOutOfRange(p.Name, v)
		}
	}
	if largest == 0 {
		return normalize(how, 0, 0) * weight, nil
	}
	if shares := e.sharesTo(largest, len(slots), how, weight); shares != nil {
		for at, slot := range slots {
			totals[at] += shares[raw[slot]]
		}
		return 0, nil
	}
	for at, slot := range slots {
		totals[at] += normalize(how, raw[slot], largest) * weight
	}
	return 0, nil
}

// normalize scales a raw score to 0..plugin.MaxScore by the largest score. The formula is
// kube-scheduler's DefaultNormalizeScore.
func normalize(how model.Normalization, raw, largest int32) int64 {
	switch {
	case how == model.AsIs || largest == 0 && how == model.Largest:
		return int64(raw)
	case largest == 0:
		return plugin.MaxScore
	}
	share := plugin.MaxScore * int64(raw) / int64(largest)
	if how == model.LargestReversed {
		return plugin.MaxScore - share
	}
	return share
}

// tabulated is the largest raw score up to which a table of normalised scores is cheaper
// than a division for each node.
const tabulated = 256

// sharesTo returns the normalised and weighted score of each raw score, or nil if a table
// does not pay off for this many nodes.
func (e *Engine) sharesTo(largest int32, nodes int, how model.Normalization, weight int64) []int64 {
	if largest > tabulated || int(largest) > nodes {
		return nil
	}
	if e.scratch.shares == nil {
		e.scratch.shares = make([]int64, tabulated+1)
	}
	shares := e.scratch.shares[:largest+1]
	for raw := range shares {
		shares[raw] = normalize(how, int32(raw), largest) * weight
	}
	return shares
}

func errOutOfRange(plugins string, score int32) error {
	return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %d, it should in the range of [0, %d] after normalizing",
		plugins, score, plugin.MaxScore)
}

func errPreScore(name string, err error) error {
	return &plan.PluginError{Point: "PreScore", Plugin: name, Err: err}
}
