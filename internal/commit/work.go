package commit

import (
	"context"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// work sends one request after another until, after the stop, nothing is left to do.
func (c *Commit) work(ctx context.Context, reportsFirst bool) {
	for {
		request, ok := c.next(reportsFirst)
		if !ok {
			return
		}
		c.done(request, c.send(ctx, request))
	}
}

// ReportsFirst reports whether a worker sends statuses and events before everything else.
// One worker of several does, so that an endless stream of bindings does not starve them.
// With two workers none does, since statuses and events must not occupy both.
func ReportsFirst(worker, inFlight int) bool { return worker == 0 && inFlight > 2 }

// next waits for a request and takes it. ok is false if none will come any more.
func (c *Commit) next(reportsFirst bool) (request Request, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.abandoned {
			return Request{}, false
		}
		request, ok = c.outbox.Next(time.Now(), reportsFirst)
		ended := c.take()
		if ok && c.outbox.more() {
			c.wake.Signal() // one worker wakes the next
		}
		if !ended.nothing() { // waits that have timed out
			c.mu.Unlock()
			c.answer(ended)
			c.mu.Lock()
		}
		switch {
		case ok:
			return request, true
		case !ended.nothing(): // a new request may be due now
		case c.stopped && c.outbox.Empty():
			return Request{}, false
		default:
			if !c.outbox.more() {
				c.dropping = [WriteKinds]bool{}
			}
			c.setAlarm()
			c.wake.Wait()
		}
	}
}

// setAlarm sets the alarm to the time when the next entry of the outbox is due, or a
// series of events ends. The caller holds mu.
func (c *Commit) setAlarm() {
	at, ok := c.outbox.Due()
	if end, ends := c.outbox.SeriesEnd(); ends && (!ok || end.Before(at)) {
		at, ok = end, true
	}
	if ok {
		c.alarm.Reset(time.Until(at))
	}
}

// send sends a request.
func (c *Commit) send(ctx context.Context, request Request) Response {
	ctx = c.sending(ctx, request)
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	var response Response
	switch request.Kind {
	case Bind:
		response.Err = c.config.Writer.Bind(ctx, request.Binding)
	case Ask:
		response.NodeName, response.Err = c.config.Writer.NodeOf(ctx, request.Pod)
	case WriteStep, UndoStep:
		response.Object, response.Err = c.config.Writer.Write(ctx, request.Write)
	case Read:
		response.Object, response.Err = c.config.Writer.Get(ctx, request.Write)
	case Mark:
		response.Err = c.config.Writer.PatchStatus(ctx, request.Pod, request.Condition, plan.Nomination{})
	case Delete:
		response.Err = c.config.Writer.Delete(ctx, request.Pod)
	case Patch:
		response.Err = c.config.Writer.PatchStatus(ctx, request.Pod, request.Condition, request.Nomination)
	case Record:
		response.Err = c.config.Writer.Record(ctx, &request.Series)
	case Repeat:
		response.Err = c.config.Writer.Repeat(ctx, &request.Series)
	}
	return response
}

// done delivers the response to a request. The loop gets the object from the API server
// before any result that follows from it, such as the result of the binding.
func (c *Commit) done(request Request, response Response) {
	if response.Object != nil {
		c.config.Results.Learned(response.Object)
	}
	c.mu.Lock()
	c.outbox.Done(time.Now(), request, response)
	ended := c.take()
	observed := c.ended(request)
	if c.stopped {
		c.wake.Broadcast() // for workers that wait for an empty outbox
	} // otherwise this worker takes the next request
	c.mu.Unlock()
	c.sent(observed, response.Err)
	c.answer(ended)
	switch open := len(ended.Settled) == 0 && response.Err != nil && request.binding != nil; {
	case request.Write != nil && request.Write.Learn && leavesOpen(response.Err):
		c.log.Error(response.Err, "Write outcome unknown, sending it again", "pod", request.Pod,
			"resource", request.Write.Resource.GroupResource(), "namespace", request.Write.Namespace, "name", request.Write.Name)
	case open && request.Kind == Bind && leavesOpen(response.Err):
		c.log.Error(response.Err, "Binding outcome unknown, reading the pod", "pod", request.Pod, "node", request.NodeName)
	case open && request.Kind == Ask:
		c.log.Error(response.Err, "Binding outcome still unknown, reading the pod again", "pod", request.Pod, "node", request.NodeName)
	}
}

// answer delivers results to the loop, the observers and the log, and begins calls. The
// caller must not hold mu, because the functions called here may call back.
func (c *Commit) answer(ended Ended) {
	c.begin(ended.Calls)
	for i := range ended.Stages {
		for _, observer := range c.config.Observers {
			observer.Passed(&ended.Stages[i])
		}
	}
	for i := range ended.Settled {
		c.settle(&ended.Settled[i])
	}
	for _, e := range ended.Evicted {
		c.log.V(2).Info("Preemptor Pod preempted victim Pod", "preemptor", e.Preemptor, "victim", e.Victim, "node", e.NodeName, "inMemory", e.InMemory)
	}
	for i := range ended.Preempted {
		c.endPreemption(&ended.Preempted[i])
	}
	for i := range ended.Written {
		c.config.Results.Written(ended.Written[i])
	}
	for kind, writes := range ended.Dropped {
		if writes > 0 {
			c.dropped(WriteKind(kind), writes)
		}
	}
	for _, g := range ended.GivenUp {
		if !c.isAbandoned() {
			c.log.Error(g.Err, "Gave up writing", "pod", g.Pod)
		}
	}
}

// dropped reports dropped writes to the observers, and logs when dropping begins.
func (c *Commit) dropped(kind WriteKind, writes int) {
	for _, observer := range c.config.Observers {
		observer.Dropped(kind, writes)
	}
	c.mu.Lock()
	begins := !c.dropping[kind]
	c.dropping[kind] = true
	c.mu.Unlock()
	if begins {
		c.log.Error(nil, "Too many writes wait, the oldest are dropped until all have been written", "kind", kind, "limit", c.config.MaxReports)
	}
}

// settle delivers the result of a binding to the observers and the loop.
func (c *Commit) settle(s *Settled) {
	c.sent(s.seen, s.Err)
	for _, observer := range c.config.Observers {
		observer.Settled(s)
	}
	p := &s.Placement
	switch {
	case s.Err == nil:
		c.log.V(2).Info("Successfully bound pod to node", "pod", p.Pod, "node", p.NodeName,
			"evaluatedNodes", p.Nodes, "feasibleNodes", p.Feasible)
	case s.Rejected:
		c.log.V(2).Info("Unable to schedule pod; no fit; waiting", "pod", p.Pod, "err", s.Err)
	case !c.isStopped():
		c.log.Error(s.Err, "Could not bind pod", "pod", p.Pod, "node", p.NodeName)
	}
	c.config.Results.Bound(s.Result())
}

// endPreemption delivers the result of a preemption to the observers and the loop.
func (c *Commit) endPreemption(p *Preempted) {
	for _, observer := range c.config.Observers {
		observer.Preempted(p)
	}
	if p.Err != nil && !c.isStopped() {
		c.log.Error(p.Err, "Error occurred during async preemption", "preemptor", p.Preemptor, "node", p.NodeName, "victims", len(p.Victims),
			"kept", len(p.Kept))
	}
	c.config.Results.Preempted(p.Result())
}

func (c *Commit) isStopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopped
}

func (c *Commit) isAbandoned() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.abandoned
}
