package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
)

// Played is a call of an external plugin that is played in virtual time instead of being
// run.
type Played interface {
	commit.Call
	// Begin is called when the call begins.
	Begin() Script
}

// Script describes the course of a played call.
type Script struct {
	// Took is the time until the call returns. If it is negative, the call returns only
	// after a cancellation or ReleaseCalls, and takes Soon to do so.
	Took, Soon time.Duration
	// Result is the result if the call is not cancelled.
	Result commit.CallResult
	// Binds means that the call binds the pod, whatever its result.
	Binds bool
}

// running is a call that has begun and not returned.
type running struct {
	request commit.Request
	script  Script
	late    bool // it has been cancelled, or is about to return
	// done receives the result of a call that is run. It is nil for a played call.
	done chan commit.CallResult
}

// begin plays a call, or runs it.
func (m *committer) begin(request commit.Request) {
	m.c.happened[fmt.Sprintf("%s at %s: begun", request.Kind, request.Stage)]++
	played, ok := request.Call.(Played)
	if !ok {
		m.run(request)
		return
	}
	r := &running{request: request, script: played.Begin()}
	m.calls[request.Order] = r
	if r.script.Took >= 0 {
		m.c.agenda.plan(m.c.now.Add(r.script.Took), m.life, func() { m.returns(r, r.script.Result) })
	}
}

// cancel ends the context of a binding's call.
func (m *committer) cancel(canceled commit.Canceled) {
	if end := m.contexts[canceled.Order]; end != nil {
		delete(m.contexts, canceled.Order)
		end(canceled.Err)
	}
	r := m.calls[canceled.Order]
	if r == nil || r.late || r.request.Kind == commit.UndoCall {
		return
	}
	if r.done != nil {
		r.late = true
		m.c.happened[fmt.Sprintf("%s at %s: cancelled", r.request.Kind, r.request.Stage)]++
		return
	}
	r.late = true
	m.c.happened[fmt.Sprintf("%s at %s: cancelled", r.request.Kind, r.request.Stage)]++
	m.c.agenda.plan(m.c.now.Add(r.script.Soon), m.life, func() {
		m.returns(r, commit.CallResult{Err: fmt.Errorf("running %s plugin %q: %w", r.request.Stage, r.request.Plugin, context.Canceled)})
	})
}

// A call that is run takes real time. It takes no virtual time unless it exceeds the
// patience; from then on the simulation polls for its result.
const (
	defaultPatience = 5 * time.Second
	lookAgain       = 100 * time.Millisecond // of virtual time, or as much more as the call has taken already
	look            = time.Millisecond       // of real time
)

// run runs a call on a goroutine of its own, as a Commit does.
func (m *committer) run(request commit.Request) {
	ctx, end := context.WithCancelCause(context.Background())
	if request.Kind == commit.UndoCall {
		m.c.agenda.plan(m.c.now.Add(commit.DefaultTimeout), 0, func() { end(context.DeadlineExceeded) })
	} else if before := m.contexts[request.Order]; before != nil {
		// The calls of a binding end together.
		m.contexts[request.Order] = func(why error) { before(why); end(why) }
	} else {
		m.contexts[request.Order] = end
	}
	r := &running{request: request, script: Script{Took: -1}, done: make(chan commit.CallResult, 1)}
	m.calls[request.Order] = r
	go func() {
		result := commit.CallResult{Err: fmt.Errorf("plugin %q at %s ended the goroutine that it was called on", request.Plugin, request.Stage)}
		defer func() {
			if p := recover(); p != nil {
				result = commit.CallResult{Err: fmt.Errorf("plugin %q at %s panicked: %v", request.Plugin, request.Stage, p)}
			}
			r.done <- result
		}()
		result = request.Call.Run(ctx)
	}()
	m.await(r, m.c.now, m.c.config.Patience)
}

// await applies the result of a call that is run, or schedules another poll.
func (m *committer) await(r *running, began time.Time, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case result := <-r.done:
		m.c.agenda.plan(m.c.now, m.life, func() { m.returns(r, result) })
	case <-timer.C:
		m.c.agenda.plan(m.c.now.Add(max(lookAgain, m.c.now.Sub(began))), m.life, func() { m.await(r, began, look) })
	}
}

// returns ends a call, unless it has ended.
func (m *committer) returns(r *running, result commit.CallResult) {
	if m.calls[r.request.Order] != r {
		return
	}
	delete(m.calls, r.request.Order)
	if r.script.Binds && result.Err == nil || r.script.Binds && !r.late {
		pod, node := r.request.Pod, r.request.NodeName
		request := commit.Request{Kind: commit.Bind, Pod: pod, NodeName: node, Binding: &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: v1.ObjectReference{Kind: "Node", Name: node},
		}} // the profile need not enable DefaultBinder
		if response := m.c.carryOut(request); response.Err != nil && result.Err == nil {
			result = commit.CallResult{Err: response.Err}
		}
	}
	switch {
	case result.Err != nil:
		m.c.happened[fmt.Sprintf("%s at %s: failed", r.request.Kind, r.request.Stage)]++
	case result.Skipped:
		m.c.happened[fmt.Sprintf("%s at %s: skipped", r.request.Kind, r.request.Stage)]++
	}
	m.use(func(o *commit.Outbox) { o.Done(m.c.now, r.request, commit.Response{Call: result}) })
	m.answer()
}

// ReleaseCalls makes all calls return soon that would otherwise never return.
func (c *Cluster) ReleaseCalls() {
	for _, order := range slices.Sorted(maps.Keys(c.commit.calls)) {
		if r, m := c.commit.calls[order], c.commit; r.script.Took < 0 && !r.late && r.done == nil {
			r.late = true
			c.agenda.plan(c.now, m.life, func() { m.returns(r, commit.CallResult{Err: errors.New("it was made to return")}) })
		}
	}
}

// EndPermit ends a pod's wait at Permit, if it waits there, by calling end as an external
// plugin would.
func (c *Cluster) EndPermit(pod types.UID, end func(o *commit.Outbox, at *commit.AtPermit)) {
	if c.dead {
		return
	}
	c.commit.use(func(o *commit.Outbox) {
		if at := o.AtPermitOf(pod); at != nil {
			end(o, at)
		}
	})
	c.commit.answerLater()
}
