package group

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// Searches bounds how much of the time is spent on searches for pods to evict that are in vain, of all groups together, where it cannot be foreseen that they are: a search takes
// all pods of lower priority off their nodes and puts them back. While searches rest, a group that was searched for in vain before is rejected as it was then. The others have
// a turn before those. Searches that find pods to evict do not count.
//
// The zero value is ready. It belongs to the goroutine that owns the state.
type Searches struct {
	// full is when as many pods as burst may be moved in vain at once again; the last search in vain was at last.
	full, last time.Time
	// vain has what the last search of a group found.
	vain map[model.GroupKey]vain
}

// vain is a search that was in vain, for a PodGroup of this UID.
type vain struct {
	uid  types.UID
	text string
}

const (
	// perMoved is for how long searches rest for each pod that was moved in vain: ten times as long as that takes, and then twice as long for groups that were searched for
	// before. They rest for restMax at most.
	perMoved, restMax = 200 * time.Microsecond, time.Minute
	// burst is how many pods may be moved in vain before searches rest.
	burst = 2000
	// mostVain is of how many groups it is known what was found; then all of it is forgotten, which costs nothing but their turns.
	mostVain = 4096
)

// searchLater is what a group is told for which nobody was searched for yet.
const searchLater = "pods to evict are searched for later, as searches for pod groups were in vain lately"

// Decide is the function of that name, within these bounds.
func (s *Searches) Decide(on *state.State, e *engine.Engine, work plan.Work, observer Observer) plan.GroupDecision {
	return decide(on, e, work, observer, s, mostKept)
}

// mayBegin reports whether a search may begin, for a group that is likely to be searched for in vain or another.
func (s *Searches) mayBegin(now time.Time, likelyInVain bool) bool {
	if s.full.Sub(now) > restMax { // the clock was set back
		s.full, s.last = now.Add(restMax), now
	}
	from := s.full.Add(-burst * perMoved)
	if likelyInVain && from.After(s.last) {
		from = from.Add(from.Sub(s.last))
	}
	return !now.Before(from)
}

// rests reports whether nobody is searched for now for the group of an attempt, and what it is told.
func (s *Searches) rests(now time.Time, a *attempt, known foresight) (text string, rests bool) {
	if s == nil {
		return "", false
	}
	before, again := s.vain[a.Group.Key]
	again = again && before.uid == a.Group.UID()
	if s.mayBegin(now, again || known == hopeless) {
		return "", false
	}
	switch {
	case again:
		return before.text, true
	case known == hopeless:
		b := *a
		b.count()
		return "minCount (" + strconv.Itoa(b.need) + ") cannot be satisfied, whichever pods are evicted", true
	}
	return searchLater, true
}

// found notes that pods are evicted for the group of an attempt.
func (s *Searches) found(a *attempt) {
	if s != nil {
		delete(s.vain, a.Group.Key)
	}
}

// inVain notes that these units were moved in vain for the group of an attempt, and what was found; nothing if the search failed.
func (s *Searches) inVain(now time.Time, a *attempt, moved []unit, found string) {
	if s == nil {
		return
	}
	if s.vain == nil || len(s.vain) >= mostVain {
		s.vain = map[model.GroupKey]vain{}
	}
	if found != "" {
		s.vain[a.Group.Key] = vain{a.Group.UID(), found}
	}
	pods := 0
	for i := range moved {
		pods += len(moved[i].pods)
	}
	if s.full.Before(now) {
		s.full = now
	}
	s.full, s.last = s.full.Add(time.Duration(pods)*perMoved), now
	if latest := now.Add(restMax); s.full.After(latest) {
		s.full = latest
	}
}
