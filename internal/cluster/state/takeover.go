package state

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// A write of an earlier leader may arrive after this process has taken over. All writes
// that take something from an object are refused if the object has changed. So this
// process changes a claim before it relies on the allocation: a fence.

// lateWrites is how long after a takeover a write of the process before may still arrive:
// twice as long as a client waits for an answer.
const lateWrites = time.Minute

// takeover is the beginning of a process's decisions; zero for a process without a
// predecessor.
type takeover struct {
	leader string
	until  time.Time // when no write of another process can arrive any more
}

// TakeOver starts the decisions of this process, after a leader that may have writes in
// flight. The name leader is unique to the process.
func (s *State) TakeOver(leader string, now time.Time) {
	s.takeover = takeover{leader, now.Add(lateWrites)}
}

// Fence returns the name to write to a claim before anything relies on it. It is empty if
// none is necessary: the claim has the name already, or no write of another process can
// be in flight.
func (v View) Fence(claim *model.ResourceClaim) (leader string) {
	t := &v.s.takeover
	if t.leader == "" || !v.Now().Before(t.until) || claim.Object.Annotations[model.LeaderAnnotation] == t.leader {
		return ""
	}
	return t.leader
}
