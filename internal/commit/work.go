package commit

import "context"

// eventShare is which part of the workers may write events at a time, so that a binding that comes finds a worker free.
const eventShare = 2

// job is one write, exactly one of the three.
type job struct {
	binding *binding
	status  *status
	event   *event
}

// work writes, one thing after another, until there is nothing left to do after the stop.
func (c *Commit) work(ctx context.Context, eventsFirst bool) {
	for {
		j, ok := c.next(eventsFirst)
		if !ok {
			return
		}
		switch {
		case j.binding != nil:
			c.bind(ctx, j.binding)
		case j.status != nil:
			c.writeStatus(ctx, j.status)
		case j.event != nil:
			c.writeEvent(ctx, j.event)
			c.eventDone()
		}
	}
}

// next waits for something to write and takes it: a binding if there is one, else a status, else an event. One worker takes events
// first, so that they are not put off for ever where bindings never cease. ok is false when there is nothing and will be nothing.
func (c *Commit) next(eventsFirst bool) (j job, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.abandon {
			return job{}, false
		}
		if eventsFirst && c.events.len() > 0 && !c.paused {
			return c.takeEvent(), true
		}
		if c.bindings.len() > 0 {
			b := c.bindings.pop()
			c.makeRoom()
			return job{binding: &b}, true
		}
		for c.statuses.len() > 0 {
			if s := c.takeStatus(c.statuses.pop()); s != nil {
				return job{status: s}, true
			}
		}
		if c.events.len() > 0 && !c.paused && c.low < max(1, c.config.InFlight/eventShare) {
			return c.takeEvent(), true
		}
		if c.stopped != nil && c.events.len() == 0 {
			return job{}, false
		}
		c.wake.Wait()
	}
}

func (c *Commit) takeEvent() job {
	e := c.events.pop()
	c.low++
	return job{event: &e}
}

func (c *Commit) eventDone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.low--
	if c.stopped != nil {
		c.wake.Broadcast() // those that wait for the events to come to an end
		return
	}
	c.wake.Signal()
}
