package commit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// bindingContext is the context of the calls of one binding.
type bindingContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// take returns the results of the outbox, creates and cancels the contexts of calls, and
// wakes the loop if bindings may be added again. The caller holds mu: a call must have
// its context before anyone can cancel it.
func (c *Commit) take() Ended {
	ended := c.outbox.Take()
	c.makeRoom()
	for i := range ended.Calls {
		request := &ended.Calls[i]
		if request.Kind == UndoCall { // an undo must survive the end of its binding
			request.context = c.calling
			continue
		}
		of, ok := c.contexts[request.Order]
		if !ok {
			of.Context, of.cancel = context.WithCancelCause(c.calling)
			c.contexts[request.Order] = of
		}
		request.context = of
	}
	for _, e := range ended.Canceled {
		if of, ok := c.contexts[e.Order]; ok {
			of.cancel(e.Err)
			if errors.Is(e.Err, errOver) {
				delete(c.contexts, e.Order)
			}
		}
	}
	return ended
}

// auditContexts returns an error if a context belongs to a completed binding. The caller
// holds mu.
func (c *Commit) auditContexts() error {
	going := maps.Clone(c.contexts)
	for _, b := range c.outbox.bindings {
		delete(going, b.order)
	}
	for order := range c.outbox.calls {
		delete(going, order)
	}
	if len(going) > 0 {
		return fmt.Errorf("commit: %d of %d contexts are of bindings that are over", len(going), len(c.contexts))
	}
	return nil
}

// begin runs calls, each on a goroutine of its own. Each binding runs at most one at a
// time.
func (c *Commit) begin(calls []Request) {
	for _, request := range calls {
		go c.call(request)
	}
}

// call runs one call and delivers its result. A hanging undo would hold the pod and its
// resources for ever, so it is abandoned some time after its context ended.
func (c *Commit) call(request Request) {
	ctx := c.sending(request.context, request)
	var ended sync.Once
	if request.Kind == UndoCall {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.config.Timeout)
		defer cancel()
		giveUp := time.AfterFunc(2*c.config.Timeout, func() {
			ended.Do(func() {
				err := failedCall(&request, errors.New("it has not returned"))
				c.log.Error(err, "Plugin call timed out and was abandoned", "pod", request.Pod, "node", request.NodeName, "plugin", request.Plugin)
				c.called(request, CallResult{Err: err})
			})
		})
		defer giveUp.Stop()
	}
	result := CallResult{Err: failedCall(&request, errors.New("the plugin ended the goroutine that it was called on"))}
	defer func() { // also if the call ends its goroutine
		if p := recover(); p != nil {
			result = CallResult{Err: failedCall(&request, fmt.Errorf("the plugin panicked: %v", p))}
			c.log.Error(result.Err, "A plugin panicked", "pod", request.Pod, "node", request.NodeName, "plugin", request.Plugin, "stack", string(debug.Stack()))
		}
		ended.Do(func() { c.called(request, result) })
	}()
	result = request.Call.Run(ctx)
}

// failedCall is the error of a plugin whose call did not return.
func failedCall(request *Request, err error) error {
	point := request.Stage.String()
	switch {
	case request.Kind == UndoCall:
		point = "Unreserve"
	case request.Stage == plan.Reserve:
		point = preFlight
	}
	return &plan.PluginError{Point: point, Plugin: request.Plugin, Err: err}
}

// called delivers the result of a call. The result of an abandoned call is dropped.
func (c *Commit) called(request Request, result CallResult) {
	c.mu.Lock()
	if c.abandoned {
		c.mu.Unlock()
		return
	}
	c.answering++
	observed := c.ended(request)
	c.outbox.Done(time.Now(), request, Response{Call: result})
	ended := c.take()
	c.mu.Unlock()
	c.sent(observed, result.Err)
	c.answer(ended)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answering--
	if c.stopped {
		c.wake.Broadcast() // for goroutines that wait for an empty outbox
	} else {
		c.wake.Signal() // something may be due now, or later
	}
}

// awaitAnswers waits until the results of all returned calls are delivered, which is
// quick.
func (c *Commit) awaitAnswers() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.answering > 0 {
		c.wake.Wait()
	}
}
