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

// status is what is to be written into a pod.
type status struct {
	pod        *model.Pod
	condition  *v1.PodCondition
	nomination plan.Nomination
	tries      int // those that the API server answered
	seen       *observation
}

// writes is what is to be written of one pod. Two writes of one pod are never in flight together: a condition that arrived after
// the binding would say of a bound pod that it waits.
type writes struct {
	latest  *status // nil if none waits
	queued  bool    // its turn is in the lane, or on the timeline
	writing bool
	held    *binding // to be started when the status is written
}

// written is the last status of a pod that was written.
type written struct {
	what  wording
	until time.Time // then it is forgotten
}

// wording is what a status says, and of which version of the pod.
type wording struct {
	version    string
	condition  v1.PodCondition
	nomination plan.NominationMode
	nodeName   string // nominated
}

// rewritten says when what was written is no longer worth remembering, unless something was written since.
type rewritten struct {
	pod   types.UID
	until time.Time
}

const (
	// writtenMax bounds how many writes are remembered, writtenFor for how long. The watch shows within that time what was written, and
	// forgetting costs no more than writing something twice.
	writtenMax = 10_000
	writtenFor = time.Minute
	// lowTries is how often a status or an event is tried that the API server answers with a failure that may pass: with the pauses in
	// between, for over two minutes. A server that does not answer is waited for.
	lowTries = 16
	// forbiddenTries is how often an event is tried again that is forbidden: for over three seconds.
	forbiddenTries = 5
	// conflictTries is how often one is tried again that meets a conflict.
	conflictTries = 4
	// lowPause is the wait between these tries; it doubles up to lowPauseMax.
	lowPause    = 10 * time.Millisecond
	lowPauseMax = 30 * time.Second
)

// tell has a report about a pod written: its status and its event.
func (d *Docket) tell(pod *model.Pod, r report.Report) {
	if r.Condition != nil || r.Nomination.Mode != plan.Keep {
		d.startStatus(&status{pod: pod, condition: r.Condition, nomination: r.Nomination})
	}
	if r.Event != (report.Event{}) {
		d.startEvent(&event{saying: saying{pod.UID, r.Event}, pod: pod, times: 1})
	}
}

// startStatus queues a status in the place of an older one that has not been written.
func (d *Docket) startStatus(s *status) {
	p := d.pods[s.pod.UID]
	if p == nil {
		// The same decision about the same version of a pod: the watch has not yet shown what was written before.
		if was, ok := d.written[s.pod.UID]; ok && was.what == wordingOf(s) {
			return
		}
		p = &writes{}
		d.pods[s.pod.UID] = p
	}
	if p.latest != nil {
		s.takeOver(p.latest)
	}
	p.latest = s
	d.queueStatus(s.pod.UID, p)
}

// takeOver adds what an older status says that was not written, where this one says nothing.
func (s *status) takeOver(older *status) {
	if s.condition == nil {
		s.condition = older.condition
	}
	if s.nomination.Mode == plan.Keep {
		s.nomination = older.nomination
	}
}

func (d *Docket) queueStatus(uid types.UID, p *writes) {
	if p.queued || p.writing {
		return
	}
	p.queued = true
	d.statuses.push(uid)
}

func wordingOf(s *status) wording {
	w := wording{version: s.pod.Object.ResourceVersion, nomination: s.nomination.Mode, nodeName: s.nomination.NodeName}
	if s.condition != nil {
		w.condition = *s.condition
	}
	return w
}

// takeStatus returns the status whose turn it is, nil if it is not to be written any more.
func (d *Docket) takeStatus(uid types.UID) *status {
	p := d.pods[uid]
	p.queued = false
	if p.latest == nil {
		delete(d.pods, uid)
		return nil
	}
	s := p.latest
	p.latest, p.writing = nil, true
	return s
}

// patched takes in how the write of a status ended, and returns why it is given up, if it is.
func (d *Docket) patched(now time.Time, s *status, err error) error {
	uid := s.pod.UID
	p := d.pods[uid]
	p.writing = false
	if err == nil {
		d.stats.Statuses++
		d.remember(now, s)
	}
	if held := p.held; held != nil {
		delete(d.pods, uid) // what it says, that the pod waits, is no longer so
		d.startBinding(held)
		return nil
	}
	wait, again := d.lowAgain(now, err, s.tries)
	// A server that has just come back refuses what it will allow a moment later.
	again = again || apierrors.IsForbidden(err) && s.tries < lowTries
	switch {
	case err == nil:
	case p.latest != nil: // a newer one takes its place
		p.latest.takeOver(s)
	case again:
		if !unanswered(err) {
			s.tries++
		}
		p.latest, p.queued = s, true
		d.later.plan(entry{at: now.Add(wait), pod: uid})
		return nil
	default:
		d.stats.StatusesFailed++
		delete(d.pods, uid)
		if apierrors.IsNotFound(err) {
			return nil // the pod is gone
		}
		return fmt.Errorf("write the status of %s: %w", s.pod, err)
	}
	if p.latest == nil {
		delete(d.pods, uid)
		return nil
	}
	d.queueStatus(uid, p)
	return nil
}

// lowAgain says whether a status or an event is to be tried again after it failed, and after which wait. If the API server could not be
// reached, or has asked to be left alone, all of them wait.
func (d *Docket) lowAgain(now time.Time, err error, tries int) (wait time.Duration, again bool) {
	if err == nil || d.stopped != nil && unanswered(err) {
		return 0, false
	}
	if holdsUp(err) {
		d.doubted = true
		d.paused = now.Add(d.config.Jitter(retryAfter(err, d.config.Pause)))
		return 0, unanswered(err) || tries < lowTries
	}
	passes := apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err)
	if apierrors.IsConflict(err) {
		// A status is written over whatever is there, so a conflict passes, unless it is that another pod has the name.
		passes = tries < conflictTries
	}
	wait = min(lowPause<<(2*min(tries, 8)), lowPauseMax)
	return d.config.Jitter(retryAfter(err, wait)), passes && tries < lowTries
}

// holdsUp reports whether a status or an event that failed like this holds up all of them: the API server could not be reached, or has
// asked to be left alone.
func holdsUp(err error) bool { return unanswered(err) || apierrors.IsTooManyRequests(err) }

// sendReport counts a status or an event that is about to be sent. While it is not known whether the API server answers again, it is the
// one that finds out.
func (d *Docket) sendReport(job Job) Job {
	d.telling++
	if d.doubted {
		job.probe, d.probing = true, true
	}
	return job
}

// endReport takes in that a status or an event is not in flight any more. An answer ends the doubt; that a warning was taken in is none.
func (d *Docket) endReport(job Job, err error) {
	d.telling--
	if job.probe {
		d.probing = false
	}
	taken := err == nil && job.Errand == Record && job.Event.Type == v1.EventTypeWarning
	if !taken && !holdsUp(err) {
		d.doubted = false
	}
}

// remember keeps what was written last of a pod.
func (d *Docket) remember(now time.Time, s *status) {
	if d.writes.len() >= writtenMax {
		clear(d.written)
		d.writes = lane[rewritten]{}
	}
	until := now.Add(writtenFor)
	d.written[s.pod.UID] = written{wordingOf(s), until}
	d.writes.push(rewritten{s.pod.UID, until})
}

// forget drops what was written so long ago that the watch has shown it.
func (d *Docket) forget(now time.Time) {
	for d.writes.len() > 0 && !d.writes.first().until.After(now) {
		if pod := d.writes.pop().pod; !d.written[pod].until.After(now) {
			delete(d.written, pod)
		}
	}
}

// saying is what an event says. While it waits, its repetition is counted.
type saying struct {
	pod   types.UID
	event report.Event
}

// event is to be written when nothing else is.
type event struct {
	saying
	pod   *model.Pod
	times int
	tries int // those that the API server answered
	seen  *observation
}

// startEvent queues an event, or counts it as one more of the same that waits.
func (d *Docket) startEvent(e *event) {
	if waits := d.said[e.saying]; waits != nil {
		waits.times += e.times
		d.stats.EventsMerged += int64(e.times)
		return
	}
	if d.events.len() >= d.config.EventsMax {
		delete(d.said, d.events.pop().saying)
		d.stats.EventsDropped++
	}
	d.said[e.saying] = e
	d.events.push(e)
}

func (d *Docket) takeEvent() Job {
	e := d.events.pop()
	delete(d.said, e.saying)
	return d.sendReport(Job{Errand: Record, Pod: e.pod, Event: e.saying.event, Times: e.times, event: e})
}

// recorded takes in how the write of an event ended, and returns why it is given up, if it is.
func (d *Docket) recorded(now time.Time, e *event, err error) error {
	if err == nil {
		d.stats.Events++
		return nil
	}
	wait, again := d.lowAgain(now, err, e.tries)
	// It may have just come back; but a namespace that is being deleted takes no more events.
	again = again || apierrors.IsForbidden(err) && e.tries < forbiddenTries
	switch {
	case again && unanswered(err):
		d.startEvent(e)
		return nil
	case again && d.delayed < d.config.EventsMax:
		e.tries++
		d.delayed++
		d.later.plan(entry{at: now.Add(wait), event: e})
		return nil
	}
	d.stats.EventsFailed++
	return fmt.Errorf("write the event %s of %s: %w", e.saying.event.Reason, e.pod, err)
}
