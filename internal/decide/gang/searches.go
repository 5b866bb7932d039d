package gang

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Searches limits the time that pod groups may spend on attempts that fail.
//
// To find victims for a group, every pod of lower priority is taken off its node and put
// back. Groups that cannot start are retried after each backoff, so without a limit a few
// of them would use up the scheduler's time.
//
// Failed searches together take at most a tenth of the time, failed extra passes a
// twentieth. While a limit is exhausted, a group that failed before is rejected with the
// message of its last search. Groups without a failed search have a limit of their own,
// so they never wait behind groups that fail again and again. Successful searches do not
// count.
//
// The zero value is ready. It belongs to the goroutine that owns the state.
type Searches struct {
	// first limits searches for groups without a failed search, again searches for the
	// other groups, and passes extra passes.
	first, again, passes limit
	// vain holds the message of each group's last failed search for victims. The key is
	// the UID of the PodGroup, or of the composite group at the top. The message is empty
	// after an error.
	vain map[types.UID]string
	// passed holds the groups whose extra passes failed.
	passed map[types.UID]bool
	// progress holds the attempts that go on in a later round, by the UID of the
	// PodGroup. attempts numbers all attempts that may.
	progress map[types.UID]*progress
	attempts uint64
}

const (
	// perMoved is the pause for each pod moved by a failed search for victims: ten times
	// as long as the move takes.
	perMoved = 200 * time.Microsecond
	// perDecision and perVisited are the pause of extra passes for each decision of a
	// failed pass and each node that it visited: twenty times as long as these take.
	perDecision, perVisited = 40 * time.Microsecond, 200 * time.Nanosecond
	// maxVain bounds the groups with remembered failures. At the bound all are dropped;
	// the groups only lose their place in the order.
	maxVain = 4096
)

// limit is a leaky bucket for time spent on failures. A long failure is followed by a
// pause. Groups that are likely to fail again wait longer, so that the others come first.
type limit struct {
	// full is the time at which the bucket is empty again, so that a burst is allowed.
	// last is the time of the last failure.
	full, last time.Time
}

// Pauses begin when they add up to more than burst, and last at most maxRest.
const burst, maxRest = 400 * time.Millisecond, time.Minute

// mayBegin reports whether no pause applies now to a group. likelyInVain means that the
// group is likely to fail.
func (l *limit) mayBegin(now time.Time, likelyInVain bool) bool {
	if l.full.Sub(now) > maxRest { // the clock was set back
		l.full, l.last = now.Add(maxRest), now
	}
	from := l.full.Add(-burst)
	if likelyInVain && from.After(l.last) {
		from = from.Add(from.Sub(l.last))
	}
	return !now.Before(from)
}

// inVain adds a failure that is to be followed by a pause.
func (l *limit) inVain(now time.Time, rest time.Duration) {
	if l.full.Before(now) {
		l.full = now
	}
	l.full, l.last = l.full.Add(rest), now
	if latest := now.Add(maxRest); l.full.After(latest) {
		l.full = latest
	}
}

// searchLater is the status message of a group whose first search for victims was
// postponed.
const searchLater = "preemption postponed: recent attempts to preempt for pod groups found nothing"

// Decide is the function Decide, within these limits.
func (s *Searches) Decide(on *state.State, e *engine.Engine, of *plan.Attempt, observer Observer) {
	decide(on, e, of, observer, s, maxKept)
}

// rests reports whether the search for victims must wait, and the message to report
// meanwhile.
func (s *Searches) rests(now time.Time, a *attempt, known foresight) (text string, rests bool) {
	if s == nil {
		return "", false
	}
	before, again := s.vain[a.Group.UID()]
	if s.limitOf(again).mayBegin(now, again || known == hopeless) {
		return "", false
	}
	switch {
	case before != "":
		return before, true
	case known == hopeless:
		return "minCount (" + strconv.Itoa(a.need) + ") cannot be satisfied, whichever pods are evicted", true
	}
	return searchLater, true
}

// limitOf returns the limit of searches for groups with or without a failed search.
func (s *Searches) limitOf(again bool) *limit {
	if again {
		return &s.again
	}
	return &s.first
}

// found records that victims were found for the group of an attempt.
func (s *Searches) found(a *attempt) {
	if s != nil {
		delete(s.vain, a.Group.UID())
	}
}

// inVain records a failed search for the group of an attempt: the moved units and the
// message, which is empty after an error.
func (s *Searches) inVain(now time.Time, a *attempt, moved []unit, found string) {
	if s == nil {
		return
	}
	_, again := s.vain[a.Group.UID()]
	if s.vain == nil || len(s.vain) >= maxVain {
		s.vain = map[types.UID]string{}
	}
	s.vain[a.Group.UID()] = found
	pods := 0
	for i := range moved {
		pods += len(moved[i].pods)
	}
	s.limitOf(again).inVain(now, time.Duration(pods)*perMoved)
}

// passesRest reports whether extra passes for the group of an attempt must wait.
func (s *Searches) passesRest(a *attempt) bool {
	if s == nil {
		return false
	}
	return !s.passes.mayBegin(a.state.View().Now(), s.passed[a.Group.UID()])
}

// passedInVain records failed extra passes for the group of an attempt. The engine's work
// since before is their cost.
func (s *Searches) passedInVain(a *attempt, before engine.Counters) {
	if s == nil {
		return
	}
	if s.passed == nil || len(s.passed) >= maxVain {
		s.passed = map[types.UID]bool{}
	}
	s.passed[a.Group.UID()] = true
	after := a.engine.Counters()
	s.passes.inVain(a.state.View().Now(), time.Duration(after.Decisions-before.Decisions)*perDecision+time.Duration(after.Visited-before.Visited)*perVisited)
}
