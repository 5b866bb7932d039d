package gang

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Searches bounds how much of the time is spent in vain, of all groups together, on what may be tried for a group that is rejected, where it cannot be foreseen that it is in
// vain: on searches for pods to evict, which take all pods of lower priority off their nodes and put them back, and on further passes over the members. While these rest, a
// group for which they were in vain before is rejected as it was then. The others have a turn before those, and the first search for a group rests only after such of other groups: those
// that are tried again and again in vain, however many they are, do not keep it waiting. What is of use to a group does not count.
//
// The zero value is ready. It belongs to the goroutine that owns the state.
type Searches struct {
	// first are the searches for groups for which none was in vain before, again those for the others.
	first, again, passes limit
	// vain has what the last search for pods to evict found that was in vain, by the UID of the PodGroup, or of the composite one at the top; empty if it failed.
	vain map[types.UID]string
	// passed has those for which further passes were in vain.
	passed map[types.UID]bool
	// progress is that of attempts that go on in a later round, by the UID of the
	// PodGroup; attempts numbers all that may.
	progress map[types.UID]*progress
	attempts uint64
}

const (
	// perMoved is for how long searches for pods to evict rest for each pod that was moved in vain: ten times as long as that takes.
	perMoved = 200 * time.Microsecond
	// perDecision and perVisited are for how long further passes rest for each decision that was made in vain and each node that was visited for these: twenty times as
	// long as that takes.
	perDecision, perVisited = 40 * time.Microsecond, 200 * time.Nanosecond
	// mostVain is for how many groups it is known what was in vain; then all of it is forgotten, which costs nothing but their turns.
	mostVain = 4096
)

// limit bounds what is done in vain: what took long is followed by a rest, and those for whom it is likely to be in vain wait longer, so that the others come before them.
type limit struct {
	// full is when rests of burst may be caused at once again without one, last when something was in vain last.
	full, last time.Time
}

// Rests are restMax at most, and begin when they add up to more than burst.
const burst, restMax = 400 * time.Millisecond, time.Minute

// mayBegin reports whether there is no rest now, for a group for which it is likely to be in vain, or another.
func (l *limit) mayBegin(now time.Time, likelyInVain bool) bool {
	if l.full.Sub(now) > restMax { // the clock was set back
		l.full, l.last = now.Add(restMax), now
	}
	from := l.full.Add(-burst)
	if likelyInVain && from.After(l.last) {
		from = from.Add(from.Sub(l.last))
	}
	return !now.Before(from)
}

// inVain notes that something was done in vain that is to be followed by a rest.
func (l *limit) inVain(now time.Time, rest time.Duration) {
	if l.full.Before(now) {
		l.full = now
	}
	l.full, l.last = l.full.Add(rest), now
	if latest := now.Add(restMax); l.full.After(latest) {
		l.full = latest
	}
}

// searchLater is what a group is told for which nobody was searched for yet.
const searchLater = "pods to evict are searched for later, as searches for pod groups were in vain lately"

// Decide is the function of that name, within these bounds.
func (s *Searches) Decide(on *state.State, e *engine.Engine, work plan.Work, observer Observer) plan.GroupDecision {
	return decide(on, e, work, observer, s, mostKept)
}

// rests reports whether nobody is searched for now for the group of an attempt, and what it is told.
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

// limitOf returns the limit of searches for groups for which one was in vain before, or for which none was.
func (s *Searches) limitOf(again bool) *limit {
	if again {
		return &s.again
	}
	return &s.first
}

// found notes that pods are evicted for the group of an attempt.
func (s *Searches) found(a *attempt) {
	if s != nil {
		delete(s.vain, a.Group.UID())
	}
}

// inVain notes that these units were moved in vain for the group of an attempt, and what was found; empty if the search failed.
func (s *Searches) inVain(now time.Time, a *attempt, moved []unit, found string) {
	if s == nil {
		return
	}
	_, again := s.vain[a.Group.UID()]
	if s.vain == nil || len(s.vain) >= mostVain {
		s.vain = map[types.UID]string{}
	}
	s.vain[a.Group.UID()] = found
	pods := 0
	for i := range moved {
		pods += len(moved[i].pods)
	}
	s.limitOf(again).inVain(now, time.Duration(pods)*perMoved)
}

// passesRest reports whether there are no further passes for the group of an attempt now.
func (s *Searches) passesRest(a *attempt) bool {
	if s == nil {
		return false
	}
	return !s.passes.mayBegin(a.state.View().Now(), s.passed[a.Group.UID()])
}

// passedInVain notes that further passes were in vain for the group of an attempt, and how much of the engine's work that was.
func (s *Searches) passedInVain(a *attempt, before engine.Counters) {
	if s == nil {
		return
	}
	if s.passed == nil || len(s.passed) >= mostVain {
		s.passed = map[types.UID]bool{}
	}
	s.passed[a.Group.UID()] = true
	after := a.engine.Counters()
	s.passes.inVain(a.state.View().Now(), time.Duration(after.Decisions-before.Decisions)*perDecision+time.Duration(after.Visited-before.Visited)*perVisited)
}
