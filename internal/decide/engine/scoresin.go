package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
)

// ScoresIn returns the normalised scores of nodes in a dry run, by plugin.
func (p *postFilterCycle) ScoresIn(dryRun *state.Draft, slots []int32) ([][]int64, error) {
	c := *p.cycle
	c.view, c.extended = dryRun.View(), nil
	scores := make([][]int64, len(c.profile.Scores))
	for i := range c.profile.Scores {
		var one []int64
		var err error
		switch s := &c.profile.scorers[i]; {
		case s.turn != nil:
			continue
		case s.column != nil:
			one, err = p.engine.nodeScores(&c, i, s.column, slots)
		default:
			one, err = p.engine.setScores(&c, i, slots)
		}
		if err != nil {
			return nil, err
		}
		scores[i] = slices.Clone(one)
	}
	return scores, nil
}
