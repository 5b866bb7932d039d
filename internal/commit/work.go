package commit

import (
	"context"
	"time"
)

// work sends, one thing after another, until there is nothing left to do after the stop.
func (c *Commit) work(ctx context.Context, eventsFirst bool) {
	for {
		job, ok := c.next(eventsFirst)
		if !ok {
			return
		}
		c.done(job, c.send(ctx, job))
	}
}

// EventsFirst says which worker takes events before everything else: one of several, so that they are not put off for ever where bindings
// never cease. Where there are but two workers, they must not both be kept by statuses and events.
func EventsFirst(worker, inFlight int) bool { return worker == 0 && inFlight > 2 }

// next waits for something to send and takes it. ok is false when there is nothing and will be nothing.
func (c *Commit) next(eventsFirst bool) (job Job, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.abandoned {
			return Job{}, false
		}
		if job, ok = c.docket.Next(time.Now(), eventsFirst); ok {
			c.makeRoom()
			if c.docket.more() {
				c.wake.Signal() // one worker wakes the next
			}
			return job, true
		}
		if c.stopped && c.docket.Empty() {
			return Job{}, false
		}
		c.setAlarm()
		c.wake.Wait()
	}
}

// setAlarm has a worker wake up when the next job can be taken. The caller holds mu.
func (c *Commit) setAlarm() {
	if at, ok := c.docket.Due(); ok {
		c.alarm.Reset(time.Until(at))
	}
}

// send sends what a job asks for.
func (c *Commit) send(ctx context.Context, job Job) Answer {
	ctx = c.sending(ctx, job)
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	var answer Answer
	switch job.Errand {
	case Bind:
		answer.Err = c.config.Writer.Bind(ctx, job.Pod, job.NodeName)
	case Ask:
		answer.NodeName, answer.Err = c.config.Writer.NodeOf(ctx, job.Pod)
	case Patch:
		answer.Err = c.config.Writer.PatchStatus(ctx, job.Pod, job.Condition, job.Nomination)
	case Record:
		for range min(job.Times, timesMax) {
			if answer.Err = c.config.Writer.Record(ctx, job.Pod, job.Event); answer.Err != nil {
				break
			}
		}
	}
	return answer
}

// timesMax is as often as a repetition is recorded that was counted while the event waited. The writer counts it, too, and what is written
// of it is its number alone.
const timesMax = 100

// done takes in how a job ended, and tells whoever wants to know.
func (c *Commit) done(job Job, answer Answer) {
	c.mu.Lock()
	settled, givenUp := c.docket.Done(time.Now(), job, answer)
	observed := c.ended(job)
	if c.stopped {
		c.wake.Broadcast() // those that wait for the docket to become empty
	} // else what there is to do now this worker finds itself
	abandoned := c.abandoned
	c.mu.Unlock()
	c.sent(observed, answer.Err)
	switch {
	case settled != nil:
		c.settle(settled)
	case abandoned:
	case givenUp != nil:
		c.log.Error(givenUp, "Gave up writing", "pod", job.Pod)
	case job.Errand == Bind && answer.Err != nil && leavesOpen(answer.Err):
		c.log.Error(answer.Err, "It is open whether a pod is bound, the API server will be asked", "pod", job.Pod, "node", job.NodeName)
	case job.Errand == Ask && answer.Err != nil:
		c.log.Error(answer.Err, "It is still open whether a pod is bound, the API server will be asked again", "pod", job.Pod, "node", job.NodeName)
	}
}

// settle tells observers and the loop how a binding ended.
func (c *Commit) settle(s *Settled) {
	c.sent(s.seen, s.Err)
	p := &s.Placement
	switch {
	case s.Err == nil:
		c.log.V(2).Info("Successfully bound pod to node", "pod", p.Pod, "node", p.NodeName,
			"evaluatedNodes", p.Nodes, "feasibleNodes", p.Feasible)
	case !c.isStopped():
		c.log.Error(s.Err, "Could not bind pod", "pod", p.Pod, "node", p.NodeName)
	}
	c.config.Results.Bound(s.Result())
}

func (c *Commit) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}
