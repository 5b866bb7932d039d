package engine

import (
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// alikeRating is a score of node sets that gives all nodes the same score.
type alikeRating struct{ setRating }

func (a *alikeRating) SetNeed(*model.Pod) plugin.SetNeed                         { return a }
func (a *alikeRating) Compile() (plugin.SetScores, error)                        { return a, nil }
func (a *alikeRating) Axes(_ state.View, to []plugin.Axis) ([]plugin.Axis, bool) { return to, true }

// TestRankedScoresFail has a score fail for pods that a table decides about. No node is
// chosen, and the decision has the error.
func TestRankedScoresFail(t *testing.T) {
	score := &alikeRating{setRating{together: together{name: "T"}}}
	x := newSmall(t, &plugin.Profile{Scores: []plugin.Weighted{{Score: plugintest.PartsOf(score).Score, Weight: 1}}}, "a", "b", "c", "d")
	run := x.NewRun()
	decide := func() plan.Decision { return run.Decide(x.s.View(), plan.Alone(x.pod()), 100) }
	for range 3 {
		if d := decide(); d.Outcome != plan.Placed {
			t.Fatalf("%+v", d)
		}
	}
	if x.Counters().Ranked == 0 {
		t.Error("no table decides")
	}
	score.err = errBroken
	if d := decide(); d.Outcome != plan.Failed || d.Err == nil || d.Err.Error() != `running PreScore plugin "T": broken` || d.Placement.Pod != nil {
		t.Errorf("%s: %v, on %q", d.Outcome, d.Err, d.Placement.NodeName)
	}
}
