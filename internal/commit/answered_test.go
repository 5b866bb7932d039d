package commit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// unhurried is a slow loop.
type unhurried struct{ outcomes }

func (s unhurried) Bound(o model.BindingResult) {
	time.Sleep(50 * time.Millisecond)
	s.outcomes.Bound(o)
}

// TestAnsweredWhenRunReturns has calls that do not return when the process ends, and a
// slow loop.
func TestAnsweredWhenRunReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := make(outcomes, 10)
		f := newFixture(t, func(c *commit.Config) { c.Drain = 20 * time.Millisecond; c.Results = unhurried{all} })
		stop := f.run(t)
		release := make(chan struct{})
		defer close(release)
		for _, name := range names(3) {
			f.Start(runs(name, plan.PreBind, func(context.Context) commit.CallResult { <-release; return commit.CallResult{} }, nil))
		}
		stop(errors.New("the end"))
		if n := len(all); n < 3 {
			t.Errorf("%d of 3 bindings were answered when Run returned", n)
		}
	})
}
