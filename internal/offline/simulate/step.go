package simulate

import (
	"fmt"
	"time"
)

// Step carries out the effects that are due and runs one round of the scheduler at the
// present time.
func (c *Cluster) Step() Round {
	c.round = Round{At: c.now}
	if !c.dead && c.commit.plugins.takeActs() {
		c.commit.answerLater()
	}
	c.sync()
	for {
		e, ok := c.agenda.due(c.now)
		if !ok {
			break
		}
		if e.life == 0 || e.life == c.life {
			e.do()
			c.sync()
		}
	}
	if c.dead {
		return c.round
	}
	if c.running() {
		c.round.Ran = true
		c.loop.Once(c.processTime(c.now))
	}
	if c.round.Decided {
		c.now = c.now.Add(c.config.Pace)
	}
	c.commit.pump()
	if c.commit.stopping && c.commit.idle() {
		c.end()
	}
	return c.round
}

// sync applies the changes that others made to the mirror.
func (c *Cluster) sync() {
	if c.config.Mirror != nil {
		c.config.Mirror.Sync()
	}
}

// running reports whether a process is running, synced and not stopping.
func (c *Cluster) running() bool { return !c.dead && !c.commit.stopping && c.synced() }

// Busy reports whether effects are due at the present time, or the scheduler has left
// work to its next round.
func (c *Cluster) Busy() bool {
	at, ok := c.agenda.next()
	return ok && !at.After(c.now) || c.running() && (c.loop.Unfinished() || c.commit.plugins.acted())
}

// Next returns the time of the next effect or wake-up; ok is false if none is planned.
func (c *Cluster) Next() (at time.Time, ok bool) {
	at, ok = c.agenda.next()
	if c.dead {
		return at, ok
	}
	if end, ends := c.commit.seriesEnd(); ends && (!ok || end.Before(at)) {
		at, ok = end, true
	}
	if !c.running() {
		return at, ok
	}
	if wake, waits := c.loop.Next(); waits {
		if wake = wake.Add(-c.startSkew); !ok || wake.Before(at) {
			at, ok = wake, true
		}
	}
	return at, ok
}

// restless is the limit of rounds per object at one instant. Beyond it, the scheduler
// runs in circles.
const restless = 1000

// Settle runs rounds until no work is left at the present time. It calls each, if set,
// after every round.
func (c *Cluster) Settle(each func(Round) error) error {
	if c.runsAhead() {
		return c.settleAhead(each)
	}
	for c.more != nil && c.more() {
	}
	limit := restless * (1 + len(c.store.pods) + len(c.store.nodes))
	for rounds := 0; ; rounds++ {
		if rounds > limit {
			return fmt.Errorf("simulate: the scheduler does not come to rest at %s: %d rounds", c.Elapsed(), rounds)
		}
		round := c.Step()
		if each != nil {
			if err := each(round); err != nil {
				return err
			}
		}
		if !round.Decided && !c.Busy() {
			return nil
		}
	}
}

// AdvanceTo runs the scheduler until the given time: at every instant with an effect, and
// at the end.
func (c *Cluster) AdvanceTo(target time.Time, each func(Round) error) error {
	for {
		if err := c.Settle(each); err != nil {
			return err
		}
		at, ok := c.Next()
		if !ok || at.After(target) {
			break
		}
		if !at.After(c.now) {
			return fmt.Errorf("simulate: the scheduler says that it has something to do at %s and does nothing", c.Elapsed())
		}
		c.now = at
	}
	if !target.After(c.now) {
		return nil
	}
	c.now = target
	return c.Settle(each)
}

// Plan plans do for a time that is not before Now, for example to change API objects or
// faults. Steps at that time begin with it.
func (c *Cluster) Plan(at time.Time, do func()) { c.agenda.plan(at, 0, do) }

// Elapsed returns the virtual time since the start.
func (c *Cluster) Elapsed() time.Duration { return c.now.Sub(epoch) }
