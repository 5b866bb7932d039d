package commit

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/report"
)

// status is a write of a pod's status.
type status struct {
	pod        *model.Pod
	condition  *v1.PodCondition
	nomination plan.Nomination
	tries      int // those that the API server answered
	seen       *observation
}

// writes are the status writes of one pod. A status and a binding of one pod are never in flight together: a condition that arrives after
// the binding would say of a bound pod that it waits.
type writes struct {
	latest  *status // nil if none waits
	queued  bool    // the pod is in the lane or on the timeline
	writing bool
	held    *binding // sent when the write has ended
}

// written is the last status of a pod that was written.
type written struct {
	what  statusText
	until time.Time // when it is forgotten
}

// statusText is what a status says about which version of the pod.
type statusText struct {
	version    string
	condition  v1.PodCondition
	nomination plan.NominationMode
	nodeName   string // nominated
}

// expiry is when the last status of a pod is forgotten, unless another was written since.
type expiry struct {
	pod   types.UID
	until time.Time
}

const (
	// writtenMax bounds how many written statuses are remembered, writtenFor for how long. The watch shows a status within that time; a
	// status that is forgotten too early is written twice, which does no harm.
	writtenMax = 10_000
	writtenFor = time.Minute
	// reportTries bounds the tries of a status or an event that the API server answers with an error which may pass: with the pauses in
	// between, they take over two minutes. Tries that are not answered do not count.
	reportTries = 16
	// forbiddenTries bounds the tries of an event that is forbidden: they take over three seconds.
	forbiddenTries = 5
	// conflictTries bounds the tries that end in a conflict.
	conflictTries = 4
	// reportPause is the wait between two tries; it grows up to reportPauseMax.
	reportPause    = 10 * time.Millisecond
	reportPauseMax = 30 * time.Second
)

// queueReport queues the status and the event of a report about a pod.
func (o *Outbox) queueReport(now time.Time, pod *model.Pod, r report.Report) {
	if r.Condition != nil || r.Nomination.Mode != plan.Keep {
		o.startStatus(&status{pod: pod, condition: r.Condition, nomination: r.Nomination})
	}
	if r.Event != (report.Event{}) {
		o.happen(now, pod, r.Event)
	}
}

// startStatus queues a status. It replaces an older one that has not been sent.
func (o *Outbox) startStatus(s *status) {
	p := o.pods[s.pod.UID]
	if p == nil {
		// The decision is the same as the last one about this version of the pod; the watch has not shown its status yet.
		if was, ok := o.written[s.pod.UID]; ok && was.what == textOf(s) {
			return
		}
		p = &writes{}
		o.pods[s.pod.UID] = p
	}
	if p.latest != nil {
		s.takeOver(p.latest)
	}
	p.latest = s
	o.queueStatus(s.pod.UID, p)
}

// takeOver adds what an older status says that was not written, where this status says nothing.
func (s *status) takeOver(older *status) {
	if s.condition == nil {
		s.condition = older.condition
	}
	if s.nomination.Mode == plan.Keep {
		s.nomination = older.nomination
	}
}

func (o *Outbox) queueStatus(uid types.UID, p *writes) {
	if p.queued || p.writing {
		return
	}
	p.queued = true
	o.statuses.push(uid)
}

func textOf(s *status) statusText {
	w := statusText{version: s.pod.Object.ResourceVersion, nomination: s.nomination.Mode, nodeName: s.nomination.NodeName}
	if s.condition != nil {
		w.condition = *s.condition
	}
	return w
}

// takeStatus returns the pod's status to send, nil if there is none any more.
func (o *Outbox) takeStatus(uid types.UID) *status {
	p := o.pods[uid]
	p.queued = false
	if p.latest == nil {
		delete(o.pods, uid)
		return nil
	}
	s := p.latest
	p.latest, p.writing = nil, true
	return s
}

// patched takes in how the write of a status ended.
func (o *Outbox) patched(now time.Time, s *status, err error) {
	uid := s.pod.UID
	p := o.pods[uid]
	p.writing = false
	if err == nil {
		o.stats.Statuses++
		o.remember(now, s)
	}
	if held := p.held; held != nil {
		delete(o.pods, uid) // the status says that the pod waits, which is no longer so
		o.advance(now, held)
		return
	}
	wait, again := o.retryReport(now, err, s.tries)
	// An API server that has just started forbids for a moment what it allows afterwards.
	again = again || apierrors.IsForbidden(err) && s.tries < reportTries
	switch {
	case err == nil:
	case p.latest != nil: // a newer status replaces it
		p.latest.takeOver(s)
	case again:
		if !unanswered(err) {
			s.tries++
		}
		p.latest, p.queued = s, true
		o.later.plan(entry{at: now.Add(wait), pod: uid})
		return
	default:
		o.stats.StatusesFailed++
		delete(o.pods, uid)
		if !apierrors.IsNotFound(err) { // otherwise the pod is gone
			o.giveUp(s.pod.Key(), fmt.Errorf("write the status of %s: %w", s.pod, err))
		}
		return
	}
	if p.latest == nil {
		delete(o.pods, uid)
		return
	}
	o.queueStatus(uid, p)
}

// retryReport says whether to send a status or an event again after it failed, and after which wait. If the API server could not be reached or
// throttles, all statuses and events pause.
func (o *Outbox) retryReport(now time.Time, err error, tries int) (wait time.Duration, again bool) {
	if err == nil || o.stopped != nil && unanswered(err) {
		return 0, false
	}
	if pausesReports(err) {
		o.unreachable = true
		o.paused = now.Add(o.config.Jitter(retryAfter(err, o.config.Pause)))
		return 0, unanswered(err) || tries < reportTries
	}
	passes := apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
	if apierrors.IsConflict(err) {
		// A status patch names no version, so a conflict passes, unless another pod has the name.
		passes = tries < conflictTries
	}
	wait = min(reportPause<<(2*min(tries, 8)), reportPauseMax)
	return o.config.Jitter(retryAfter(err, wait)), passes && tries < reportTries
}

// pausesReports reports whether an error pauses all statuses and events: the API server could not be reached, or throttles.
func pausesReports(err error) bool { return unanswered(err) || apierrors.IsTooManyRequests(err) }

// sendReport counts a status or an event that is about to be sent. While the API server does not answer, it is the one request that finds out
// whether it does again.
func (o *Outbox) sendReport(request Request) Request {
	o.reporting++
	if o.unreachable {
		request.probe, o.probing = true, true
	}
	return request
}

// endReport takes in that a status or an event is not in flight any more. An answer says that the API server can be reached.
func (o *Outbox) endReport(request *Request, err error) {
	o.reporting--
	if request.probe {
		o.probing = false
	}
	if !pausesReports(err) {
		o.unreachable = false
	}
}

// remember keeps the last status written of a pod.
func (o *Outbox) remember(now time.Time, s *status) {
	if o.writes.len() >= writtenMax {
		clear(o.written)
		o.writes = lane[expiry]{}
	}
	until := now.Add(writtenFor)
	o.written[s.pod.UID] = written{textOf(s), until}
	o.writes.push(expiry{s.pod.UID, until})
}

// forget drops statuses that were written so long ago that the watch has shown them.
func (o *Outbox) forget(now time.Time) {
	for o.writes.len() > 0 && !o.writes.first().until.After(now) {
		if pod := o.writes.pop().pod; !o.written[pod].until.After(now) {
			delete(o.written, pod)
		}
	}
}
