package commit

import (
	"container/list"
	"fmt"
	"slices"
	"time"
	"unique"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// event is an event that is queued, or that was written and may repeat.
//
// Repetitions of a warning are counted in one API object, its series, by the rules of
// client-go's recorder, which kube-scheduler uses. An event repeats if it has the same
// type, reason and action, and regards the same version of the same pod. The first
// repetition is written at once, and then the count every 30 minutes. After 6 minutes
// without a repetition the last count is written and the series ends.
//
// A normal event happens to a pod once. It is forgotten when it is written, since it
// needs no count.
type event struct {
	report.Series
	place place
	// written is the count that the API server has, 0 before the event exists there.
	// writtenAt is when that count was written.
	// Invariant: written <= Count.
	written   int
	writtenAt time.Time
	// ended: no more repetitions are counted here. The event is forgotten once it is
	// written.
	// Invariant: a series that has not ended is found by its key; a normal event has
	// ended from the beginning.
	ended bool
	// idle is when the event last repeated or was written. element is its entry in
	// Outbox.kept.
	// Invariant: element is nil unless place is kept.
	idle    time.Time
	element *list.Element
	// note shares the text among series with equal notes, as in a wave of rejections.
	note  unique.Handle[string]
	tries int  // tries that the API server answered
	sent  bool // a request was sent, so the API server may have it
	seen  *observation
}

// eventKey identifies a series, apart from the version of the pod. Versions only go
// forward, so only the series of the last version can repeat.
type eventKey struct {
	pod                    types.UID
	eventType, reason, act string
}

const (
	// seriesIdle is the time without a repetition after which a series ends.
	// seriesRefresh is the interval at which its count is written. client-go's recorder
	// checks all series every 6 and every 30 minutes.
	seriesIdle    = 6 * time.Minute
	seriesRefresh = 30 * time.Minute
)

// eventMoves are the allowed moves of an event between places. Any other move is a bug.
var eventMoves = [places][]place{
	nowhere: {ready},
	ready:   {sending, nowhere},
	sending: {ready, pausing, kept, nowhere},
	pausing: {ready},
	kept:    {ready, nowhere},
}

// move changes the place of an event.
func (e *event) move(to place) {
	if !slices.Contains(eventMoves[e.place], to) {
		panic(fmt.Sprintf("commit: event %s of %s cannot go from %s to %s", e.Reason, e.Subject.Key(), e.place, to))
	}
	e.place = to
}

func (e *event) key() eventKey { return eventKey{e.Subject.UID, e.Type, e.Reason, e.Action} }

// due reports whether the count must be written now: a first repetition, or the last
// count of a series that has ended.
func (e *event) due() bool { return e.written < e.Count && (e.written < 2 || e.ended) }

// happen records an event of a pod, or the repetition of an event.
func (o *Outbox) happen(now time.Time, pod *model.Pod, what report.Event) {
	o.happenTo(now, report.SubjectOf(pod), what)
}

func (o *Outbox) happenTo(now time.Time, subject report.Subject, what report.Event) {
	o.endSeries(now)
	if same := o.series[eventKey{subject.UID, what.Type, what.Reason, what.Action}]; same != nil {
		if same.Subject.ResourceVersion == subject.ResourceVersion {
			more := saysMore(now, same, &what)
			if more && same.place == ready && !same.sent { // not written yet
				same.say(&what)
				more = false
			}
			if !more {
				o.repeat(now, same)
				return
			}
		}
		o.end(same)
	}
	// The time is part of the name, so no two events have the same name.
	if !now.After(o.lastEvent) {
		now = o.lastEvent.Add(1)
	}
	o.lastEvent = now
	e := &event{Series: report.Series{Event: what, Subject: subject, First: now, Last: now, Count: 1}}
	if e.ended = what.Type == v1.EventTypeNormal; !e.ended {
		e.say(&what)
		o.series[e.key()] = e
	}
	o.queueEvent(e)
}

// say takes over the note of an event.
func (e *event) say(what *report.Event) {
	e.note = unique.Make(what.Note)
	e.Note, e.Advised = e.note.Value(), what.Advised
}

// saysMore reports whether a repetition must start a new series because the advice at the
// end of its note differs. The API server does not allow a series' note to change.
//
// A series without advice is replaced at once. A series with advice is replaced once it
// is seriesRefresh old and would be written anyway, so that changing advice costs no more
// writes.
func saysMore(now time.Time, series *event, what *report.Event) bool {
	if what.Note == series.Note || !what.Advised && !series.Advised {
		return false
	}
	return !series.Advised || now.Sub(series.First) >= seriesRefresh
}

// repeat counts a repetition. A queued write will include it; otherwise most repetitions
// need no write.
func (o *Outbox) repeat(now time.Time, e *event) {
	e.Count++
	if now.After(e.Last) {
		e.Last = now
	}
	o.stats.EventsRepeated++
	switch {
	case e.place != kept:
	case e.due() || now.Sub(e.writtenAt) >= seriesRefresh:
		o.unkeep(e)
		o.queueEvent(e)
	default:
		e.idle = now
		o.kept.MoveToBack(e.element)
	}
}

// queueEvent appends an event to its lane. A full lane drops its oldest event.
func (o *Outbox) queueEvent(e *event) {
	lane := o.laneOf(e)
	if lane.len() >= o.config.MaxReports {
		o.drop(EventWrite)
		o.forgetEvent(lane.pop())
	}
	e.move(ready)
	lane.push(e)
}

func (o *Outbox) laneOf(e *event) *lane[*event] {
	switch {
	case e.Type == v1.EventTypeNormal:
		return &o.reports.normal
	case e.written > 0:
		return &o.reports.repeats
	}
	return &o.reports.warnings
}

// takeEvent returns the request of the next event of a lane, which must not be empty. An
// event that the API server has is patched.
func (o *Outbox) takeEvent(t turn) Request {
	e := o.reports.events(t).pop()
	e.move(sending)
	e.sent = true
	kind := Record
	if e.written > 0 {
		kind = Repeat
	}
	return Request{Kind: kind, Series: e.Series, event: e}
}

// recorded handles the result of writing an event.
func (o *Outbox) recorded(now time.Time, request *Request, err error) {
	e := request.event
	wait, again := o.retryReport(now, err, e.tries)
	more := e.tries < reportTries
	switch {
	case err == nil, isThere(request, err) && request.Series.Count == 1:
		o.stats.Events++
		e.written, e.writtenAt, e.tries = request.Series.Count, now, 0
		o.wroteEvent(now, e)
	// An unanswered try has stored the event, with a smaller count.
	case isThere(request, err) && more:
		o.turnEvent(e, 1)
	// The event's time to live has ended, or someone deleted it.
	case request.Kind == Repeat && apierrors.IsNotFound(err) && more:
		o.turnEvent(e, 0)
	case again && unanswered(err):
		o.queueEvent(e)
	case (again || isForbiddenYet(err, e.tries)) && o.delayed < o.config.MaxReports:
		e.tries++
		o.delayed++
		e.move(pausing)
		o.later.plan(entry{at: now.Add(wait), event: e})
	default:
		o.stats.EventsFailed++
		o.giveUp(e.Subject.Key(), fmt.Errorf("write the event %s of %s: %w", e.Reason, e.Subject.Key(), err))
		o.forgetEvent(e)
	}
}

// isThere reports whether an event could not be created because it exists.
func isThere(request *Request, err error) bool {
	return request.Kind == Record && apierrors.IsAlreadyExists(err)
}

// isForbiddenYet reports whether a forbidden event may be allowed later. An API server
// that has just started forbids for a moment; a namespace that is being deleted forbids
// for good.
func isForbiddenYet(err error, tries int) bool {
	return apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, v1.NamespaceTerminatingCause) && tries < forbiddenTries
}

// turnEvent queues an event again with the count that the API server turned out to have:
// the other kind of request is needed.
func (o *Outbox) turnEvent(e *event, written int) {
	e.tries++
	e.written = written
	o.queueEvent(e)
}

// wroteEvent continues after an event was written.
func (o *Outbox) wroteEvent(now time.Time, e *event) {
	switch {
	case e.due():
		o.queueEvent(e)
	case e.ended:
		o.forgetEvent(e)
	default:
		e.move(kept)
		e.idle, e.element = now, o.kept.PushBack(e)
		if o.kept.Len() > o.config.MaxSeries {
			o.end(o.kept.Front().Value.(*event))
		}
	}
}

// endSeries ends the series that have not repeated for seriesIdle.
func (o *Outbox) endSeries(now time.Time) {
	for front := o.kept.Front(); front != nil; front = o.kept.Front() {
		e := front.Value.(*event)
		if now.Sub(e.idle) < seriesIdle {
			return
		}
		o.end(e)
	}
}

// end ends a series; the next such event starts a new one. The last count is written, if
// the API server does not have it.
func (o *Outbox) end(e *event) {
	delete(o.series, e.key())
	e.ended = true
	if e.place != kept {
		return // forgotten once it is written
	}
	o.unkeep(e)
	if e.due() {
		o.queueEvent(e)
		return
	}
	e.move(nowhere)
}

func (o *Outbox) unkeep(e *event) {
	o.kept.Remove(e.element)
	e.element = nil
}

// forgetEvent removes an event that is written, or never will be.
func (o *Outbox) forgetEvent(e *event) {
	e.move(nowhere)
	if !e.ended {
		delete(o.series, e.key())
		e.ended = true
	}
}

// SeriesEnd returns when the next series ends without a repetition; ok is false if no
// series is kept.
func (o *Outbox) SeriesEnd() (at time.Time, ok bool) {
	front := o.kept.Front()
	if front == nil {
		return time.Time{}, false
	}
	return front.Value.(*event).idle.Add(seriesIdle), true
}
