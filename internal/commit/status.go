package commit

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/model"
)

// status is what is to be written into a pod.
type status struct {
	pod             *model.Pod
	condition       *v1.PodCondition
	clearNomination bool
}

// writes is what is to be written of one pod. Two writes of one pod are never in flight together: a condition that arrived after
// the binding would say of a bound pod that it waits.
type writes struct {
	latest  *status // nil if none waits
	queued  bool    // its turn is in the lane
	writing bool
	held    *binding // to be started when the status is written
}

// written is the last status of a pod that was written, and the version of the pod that it was decided on.
type written struct {
	version         string
	condition       v1.PodCondition
	clearNomination bool
}

// writtenMax bounds what is remembered. Forgetting costs no more than writing something twice.
const writtenMax = 10_000

// tell has a report about a pod written: its status and its event.
func (c *Commit) tell(pod *model.Pod, report explain.Report) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.abandon {
		return
	}
	if report.Condition != nil || report.ClearNomination {
		c.startStatus(&status{pod, report.Condition, report.ClearNomination})
	}
	if report.Event != (explain.Event{}) {
		c.startEvent(event{pod: pod, event: report.Event})
	}
}

// startBinding queues a binding, or keeps it until the pod's status has been written. The caller holds mu.
func (c *Commit) startBinding(b binding) {
	delete(c.written, b.decision.Pod.UID)
	if p := c.pods[b.decision.Pod.UID]; p != nil {
		p.latest = nil // says that the pod waits, and it no longer does
		if p.writing {
			p.held = &b
			return
		}
	}
	c.bindings.push(b)
	c.wake.Signal()
}

// startStatus queues a status in the place of an older one that has not been written. The caller holds mu.
func (c *Commit) startStatus(s *status) {
	p := c.pods[s.pod.UID]
	if p == nil {
		// The same decision about the same version of a pod: the watch has not yet shown what was written before.
		if was, ok := c.written[s.pod.UID]; ok && was == recordOf(s) {
			return
		}
		p = &writes{}
		c.pods[s.pod.UID] = p
	}
	if p.latest != nil {
		s.clearNomination = s.clearNomination || p.latest.clearNomination
		if s.condition == nil {
			s.condition = p.latest.condition
		}
	}
	p.latest = s
	c.queueStatus(s.pod.UID, p)
}

func (c *Commit) queueStatus(uid types.UID, p *writes) {
	if p.queued || p.writing {
		return
	}
	p.queued = true
	c.statuses.push(uid)
	c.wake.Signal()
}

func recordOf(s *status) written {
	w := written{version: s.pod.Object.ResourceVersion, clearNomination: s.clearNomination}
	if s.condition != nil {
		w.condition = *s.condition
	}
	return w
}

// takeStatus returns the status whose turn it is, nil if it is not to be written any more. The caller holds mu.
func (c *Commit) takeStatus(uid types.UID) *status {
	p := c.pods[uid]
	p.queued = false
	if p.latest == nil {
		delete(c.pods, uid)
		return nil
	}
	s := p.latest
	p.latest, p.writing = nil, true
	return s
}

func (c *Commit) writeStatus(ctx context.Context, s *status) {
	err := c.again(ctx, repeatable, func(ctx context.Context) error {
		return c.config.Writer.PatchStatus(ctx, s.pod, s.condition, s.clearNomination)
	})
	switch {
	case err == nil, ctx.Err() != nil:
	case apierrors.IsNotFound(err):
		c.config.Log.V(4).Info("Pod is gone, its status is not written", "pod", s.pod)
	default:
		c.config.Log.Error(err, "Could not write the status of a pod", "pod", s.pod)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := s.pod.UID
	if err != nil {
		c.stats.StatusesFailed++
	} else {
		c.stats.Statuses++
		if len(c.written) >= writtenMax {
			clear(c.written)
		}
		c.written[uid] = recordOf(s)
	}
	p := c.pods[uid]
	p.writing = false
	switch {
	case p.held != nil:
		held := *p.held
		p.held = nil
		delete(c.pods, uid)
		c.startBinding(held)
	case p.latest != nil:
		c.queueStatus(uid, p)
	default:
		delete(c.pods, uid)
	}
}

// eventTries is how often an event is tried before it is given up: with the default pause, over two minutes.
const eventTries = 64

// startEvent queues an event. The caller holds mu.
func (c *Commit) startEvent(e event) {
	if c.events.len() >= c.config.EventsMax {
		c.events.pop()
		c.stats.EventsDropped++
	}
	c.events.push(e)
	c.wake.Signal()
}

// writeEvent writes an event. One that the API server did not get, or could not take, is put back, and all events wait for a
// while.
func (c *Commit) writeEvent(ctx context.Context, e *event) {
	e.tries++
	err := once(ctx, c.config.Timeout, func(ctx context.Context) error { return c.config.Writer.Record(ctx, e.pod, e.event) })
	putBack := err != nil && ctx.Err() == nil && e.tries < eventTries &&
		(unanswered(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err))
	if err != nil && ctx.Err() == nil && !putBack {
		c.config.Log.Error(err, "Could not write an event", "pod", e.pod, "reason", e.event.Reason)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case putBack:
		c.startEvent(*e)
		c.pauseEvents()
	case err != nil:
		c.stats.EventsFailed++
	default:
		c.stats.Events++
	}
}

// pauseEvents lets no event be taken for a while. The caller holds mu.
func (c *Commit) pauseEvents() {
	if c.paused {
		return
	}
	c.paused = true
	time.AfterFunc(c.config.EventPause, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.paused = false
		c.wake.Broadcast()
	})
}
