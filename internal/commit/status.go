package commit

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// status is a write of a pod's status.
type status struct {
	pod        *model.Pod
	condition  *v1.PodCondition
	nomination plan.Nomination
	tries      int // tries that the API server answered
	seen       *observation
}

// writes are the status writes of one pod. A status and a binding of a pod are never in
// flight together: a condition that arrived after the binding would show a bound pod as
// pending.
type writes struct {
	latest  *status  // nil if none waits
	queued  bool     // the pod is in the lane or on the timeline
	writing *status  // nil if none is in flight
	sent    bool     // one was sent, and may be stored
	held    *binding // binding to send when the write has ended
}

// written is the last status written of a pod.
type written struct {
	what  statusText
	until time.Time // when it is forgotten
}

// statusText is the content of a status and the version of the pod.
type statusText struct {
	version    string
	condition  v1.PodCondition
	nomination plan.NominationMode
	nodeName   string // nominated
}

// expiry is when the last status of a pod is forgotten, unless a newer one was written.
type expiry struct {
	pod   types.UID
	until time.Time
}

const (
	// maxWritten limits the remembered statuses, about as many as are written in ten
	// seconds. writtenFor is how long they are remembered. The watch shows a status
	// within that time. A status that is forgotten too early is written twice, which does
	// no harm.
	maxWritten = 30_000
	writtenFor = time.Minute
	// reportTries limits the tries of a status or event that the API server answers with
	// a transient error. With the pauses in between, they take over two minutes.
	// Unanswered tries do not count.
	reportTries = 16
	// forbiddenTries limits the tries of a forbidden event; they take over three seconds.
	forbiddenTries = 5
	// conflictTries limits the tries that end in a conflict.
	conflictTries = 4
	// reportPause is the wait between two tries; it grows up to maxReportPause.
	reportPause    = 10 * time.Millisecond
	maxReportPause = 30 * time.Second
)

// queueReport queues the status and the event of a report about a pod.
func (o *Outbox) queueReport(now time.Time, pod *model.Pod, r report.Report) {
	switch {
	case r.Condition != nil || r.Nomination.Mode != plan.Keep:
		o.startStatus(&status{pod: pod, condition: r.Condition, nomination: r.Nomination})
	case r.Shown != nil:
		o.keepCondition(pod, r.Shown)
	}
	if r.Event != (report.Event{}) {
		o.happen(now, pod, r.Event)
	}
}

// startStatus queues a status, which replaces an older unsent one. A status is skipped if
// it equals the one in flight, or the last one written for this version of the pod.
func (o *Outbox) startStatus(s *status) {
	uid := s.pod.UID
	p := o.pods[uid]
	if p != nil && p.latest != nil {
		s.takeOver(p.latest)
	}
	was, known := o.written[uid]
	text := was.what
	if p != nil && p.writing != nil {
		text, known = textOf(p.writing), true
	}
	if known && text == textOf(s) {
		if p != nil {
			p.latest = nil
		}
		return
	}
	if p == nil {
		p = &writes{}
		o.pods[uid] = p
	}
	p.latest = s
	o.queueStatus(uid, p)
}

// keepCondition handles a decision that leaves the pod's condition as the decided version
// shows it, so that no write is necessary. But a condition from an older decision may
// differ: if it is queued it is dropped, and if it is or may be stored it is overwritten.
func (o *Outbox) keepCondition(pod *model.Pod, shown *v1.PodCondition) {
	p := o.pods[pod.UID]
	was, known := o.written[pod.UID]
	known = known && was.what.version == pod.Object.ResourceVersion
	switch {
	case p == nil && !known:
	case known || p.sent:
		back := *shown
		back.ObservedGeneration = pod.Object.Generation
		o.startStatus(&status{pod: pod, condition: &back})
	case p.latest != nil && p.latest.nomination.Mode == plan.Keep:
		p.latest = nil
	case p.latest != nil:
		p.latest.condition = nil
	}
}

// takeOver copies the unwritten fields of an older status that this status leaves unset.
func (s *status) takeOver(older *status) {
	if s.condition == nil {
		s.condition = older.condition
	}
	if s.nomination.Mode == plan.Keep {
		s.nomination = older.nomination
	}
}

// queueStatus queues a pod's status, unless it is queued or in flight.
func (o *Outbox) queueStatus(uid types.UID, p *writes) {
	if p.queued || p.writing != nil {
		return
	}
	p.queued = true
	o.pushStatus(uid)
}

// pushStatus appends a pod to the lane of statuses. A full lane drops its oldest.
func (o *Outbox) pushStatus(uid types.UID) {
	lane := &o.reports.statuses
	if lane.len() >= o.config.MaxReports {
		oldest := lane.pop()
		if o.pods[oldest].latest != nil {
			o.drop(StatusWrite)
		}
		delete(o.pods, oldest)
	}
	lane.push(uid)
}

func textOf(s *status) statusText {
	w := statusText{version: s.pod.Object.ResourceVersion, nomination: s.nomination.Mode, nodeName: s.nomination.NodeName}
	if s.condition != nil {
		w.condition = *s.condition
	}
	return w
}

// skipStatuses removes pods without a status to write from the front of the lane.
func (o *Outbox) skipStatuses() {
	for lane := &o.reports.statuses; lane.len() > 0 && o.pods[lane.first()].latest == nil; {
		o.stats.Looked++
		delete(o.pods, lane.pop())
	}
}

// takeStatus returns the request of the next status. The lane must not be empty.
func (o *Outbox) takeStatus() Request {
	p := o.pods[o.reports.statuses.pop()]
	s := p.latest
	p.queued, p.latest, p.writing, p.sent = false, nil, s, true
	return Request{Kind: Patch, Pod: s.pod, Condition: s.condition, Nomination: s.nomination, status: s}
}

// patched handles the result of writing a status.
func (o *Outbox) patched(now time.Time, s *status, err error) {
	uid := s.pod.UID
	p := o.pods[uid]
	p.writing = nil
	if err == nil {
		o.stats.Statuses++
		o.remember(now, s)
	} else {
		delete(o.written, uid) // the content in the API server is unknown
	}
	if held := p.held; held != nil {
		delete(o.pods, uid) // the status describes a pending pod, which is outdated
		o.advance(now, held)
		return
	}
	wait, again := o.retryReport(now, err, s.tries)
	// An API server that has just started forbids for a moment.
	again = again || apierrors.IsForbidden(err) && s.tries < reportTries
	switch {
	case err == nil:
	case p.latest != nil: // a newer status replaces it
		p.latest.takeOver(s)
	case again && unanswered(err):
		p.latest = s
	case again && o.delayed < o.config.MaxReports:
		s.tries++
		p.latest, p.queued = s, true
		o.delayed++
		o.later.plan(entry{at: now.Add(wait), pod: uid})
		return
	default:
		o.stats.StatusesFailed++
		delete(o.pods, uid)
		if !isGone(err) { // otherwise the pod is gone
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

// retryReport returns whether to retry a failed status or event, and the wait before. If
// the API server is unreachable or throttles, all statuses and events pause.
func (o *Outbox) retryReport(now time.Time, err error, tries int) (wait time.Duration, again bool) {
	if err == nil || o.stopped != nil && unanswered(err) {
		return 0, false
	}
	if pausesReports(err) {
		o.reports.unreachable = true
		o.reports.paused = now.Add(o.config.Jitter(retryAfter(err, o.config.Pause)))
		return 0, unanswered(err) || tries < reportTries
	}
	passes := apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
	if apierrors.IsConflict(err) {
		// A status patch names no version, so a conflict is transient, unless another pod
		// has the name.
		passes = tries < conflictTries
	}
	wait = min(reportPause<<(2*min(tries, 8)), maxReportPause)
	return o.config.Jitter(retryAfter(err, wait)), passes && tries < reportTries
}

// pausesReports reports whether an error pauses all statuses and events: the API server
// could not be reached, or throttles.
func pausesReports(err error) bool { return unanswered(err) || apierrors.IsTooManyRequests(err) }

// remember stores the last status written of a pod.
func (o *Outbox) remember(now time.Time, s *status) {
	for o.writes.len() >= maxWritten {
		o.forgetOldest()
	}
	until := now.Add(writtenFor)
	o.written[s.pod.UID] = written{textOf(s), until}
	o.writes.push(expiry{s.pod.UID, until})
}

// forget drops old statuses, which the watch has shown by now.
func (o *Outbox) forget(now time.Time) {
	for o.writes.len() > 0 && !o.writes.first().until.After(now) {
		o.forgetOldest()
	}
}

// forgetOldest drops the status that was written first, unless its pod has a newer one.
func (o *Outbox) forgetOldest() {
	if oldest := o.writes.pop(); !o.written[oldest.pod].until.After(oldest.until) {
		delete(o.written, oldest.pod)
	}
}
