package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// eventName identifies an event by its pod and the time of its first occurrence.
type eventName struct {
	pod   model.PodKey
	first time.Time
}

func nameOf(event *report.Series) eventName { return eventName{event.Subject.Key(), event.First} }

// createEvent stores a new event, as the API server does.
func (s *store) createEvent(event *report.Series, now time.Time) error {
	s.expireEvents(now)
	name := nameOf(event)
	if _, there := s.events[name]; there {
		return apierrors.NewAlreadyExists(v1.Resource("events"), name.pod.Name)
	}
	if event.Count < 1 {
		return apierrors.NewBadRequest(fmt.Sprintf("the event has happened %d times", event.Count))
	}
	stored := *event
	stored.Note = "" // a Verdict has it
	s.writeEvent(stored, now)
	return nil
}

// patchEvent applies the patch of an event's series, as the API server does.
func (s *store) patchEvent(event *report.Series, now time.Time) error {
	s.expireEvents(now)
	name := nameOf(event)
	stored, there := s.events[name]
	switch {
	case !there:
		return apierrors.NewNotFound(v1.Resource("events"), name.pod.Name)
	case event.Count < 2:
		return apierrors.NewBadRequest(fmt.Sprintf("series.count is %d: must be at least 2", event.Count))
	}
	stored.Count, stored.Last = event.Count, event.Last
	s.writeEvent(stored, now)
	return nil
}

// defaultEventTTL is the API server's default of --event-ttl.
const defaultEventTTL = time.Hour

// eventWrite is a write of an event, which starts its TTL.
type eventWrite struct {
	name eventName
	at   time.Time
}

func (s *store) writeEvent(event report.Series, now time.Time) {
	name := nameOf(&event)
	s.events[name] = event
	s.written = append(s.written, eventWrite{name, now})
	s.lastWrite[name] = now
}

// expireEvents removes the events whose last write is older than the TTL.
func (s *store) expireEvents(now time.Time) {
	for len(s.written) > 0 && now.Sub(s.written[0].at) >= s.eventTTL {
		if name := s.written[0].name; s.lastWrite[name].Equal(s.written[0].at) {
			delete(s.events, name)
			delete(s.lastWrite, name)
		}
		s.written = s.written[1:]
	}
}

// Events returns the stored events by pod and time, without their notes.
func (c *Cluster) Events() []report.Series {
	names := slices.SortedFunc(maps.Keys(c.store.events), func(a, b eventName) int {
		return cmp.Or(compareKeys(a.pod, b.pod), a.first.Compare(b.first))
	})
	events := make([]report.Series, len(names))
	for i, name := range names {
		events[i] = c.store.events[name]
	}
	return events
}

// DeleteEvents deletes all events, as if their TTL had passed.
func (c *Cluster) DeleteEvents() { c.store.expireEvents(c.now.Add(c.store.eventTTL)) }
