package simulate

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A real scheduler decides about the next pods while bindings are written and watches
// deliver them. A simulation without faults does the same on a second goroutine. The loop
// decides about a batch of pods while the API server carries out the previous batch, and
// both wait for each other before the next one. The size of a batch alone determines when
// the loop sees a change, so the result is the same each time.

// aheadMost is the number of loop rounds in a batch, large enough to make waiting cheap.
const aheadMost = 256

// staged is the loop's source of changes. While the loop runs ahead, it sees the changes
// that were there when its batch began, and no later ones.
type staged struct {
	*ingest.Ingest
	ahead   bool
	changes []model.Change
}

// Drain returns the changes since the last call, or the batch's changes.
func (s *staged) Drain() []model.Change {
	if !s.ahead {
		return s.Ingest.Drain()
	}
	changes := s.changes
	s.changes = nil
	return changes
}

// runsAhead reports whether the loop may decide while the API server works. That requires
// that nothing takes time, no caller observes single rounds, and no placement has steps:
// the cluster has only pods, nodes and namespaces, and no external plugins.
func (c *Cluster) runsAhead() bool {
	s, f := &c.config, &c.chaos.Faults
	if s.Pods == nil || s.EventHints || s.Mirror != nil || s.External != nil || s.OnPhase != nil || s.Timing != nil || len(s.Observers) > 0 || s.Pace > 0 || s.Scheduler.WholeObjects() || !c.running() {
		return false
	}
	if f.MaxWatchDelay > 0 || f.MaxBindDelay > 0 || f.MaxControllerDelay > 0 || len(f.Requests) > 0 {
		return false
	}
	for ref := range c.store.others {
		if ref.Kind != model.NamespaceKind {
			return false
		}
	}
	return true
}

// settleAhead is Settle with the loop running ahead. For each batch it creates as many of
// the remaining pods as a batch has rounds.
func (c *Cluster) settleAhead(each func(Round) error) error {
	var decided []plan.Decision
	c.source.ahead, c.commit.ahead = true, true
	defer func() { c.source.ahead, c.commit.ahead = false, false }()
	for batches := 0; ; batches++ {
		if limit := restless * (1 + len(c.store.pods) + len(c.store.nodes)); batches > limit {
			return fmt.Errorf("simulate: the scheduler does not come to rest at %s: %d batches", c.Elapsed(), batches)
		}
		c.source.changes = c.ingest.Drain()
		left := make(chan bool, 1)
		go func() { left <- c.decideAhead() }()
		for i := range decided {
			c.commit.start(&decided[i])
		}
		c.serve()
		for made := 0; made < aheadMost && c.more != nil && c.more(); made++ {
		}
		c.serve()
		unfinished := <-left
		if each != nil {
			if err := each(Round{At: c.now, Ran: true, Decided: len(decided) > 0, Decisions: decided}); err != nil {
				return err
			}
		}
		decided, c.commit.decided = c.commit.decided, decided[:0]
		if len(decided) == 0 && !unfinished && c.more == nil && c.ingest.Waiting() == 0 {
			return nil
		}
	}
}

// decideAhead runs a batch of rounds of the loop and reports whether more work is left at
// the present time. It uses no other part of the cluster.
func (c *Cluster) decideAhead() bool {
	now := c.processTime(c.now)
	for range aheadMost {
		if !c.loop.Once(now) && !c.loop.Unfinished() {
			return false
		}
	}
	return true
}

// serve carries out everything that is due at the present time, except for the loop.
func (c *Cluster) serve() {
	for {
		e, ok := c.agenda.due(c.now)
		if ok {
			if e.life == 0 || e.life == c.life {
				e.do()
			}
			continue
		}
		c.commit.pump()
		if at, ok := c.agenda.next(); !ok || at.After(c.now) {
			return
		}
	}
}
