package history

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/plan"
)

// What recording the details of decisions may cost: the hundredths of the time that decisions take, and one in idleShare of the time in which nothing is decided, since then it delays
// hardly anybody. What is not used is saved up to a while's worth.
const (
	decidingPercent = 3
	idleShare       = 1000
	savedMax        = 5 * time.Millisecond
)

// ownerPause is how long it is until another pod of an owner is recorded before others.
const ownerPause = time.Minute

// budget says of which decisions the details are recorded. Half of what is saved is for the first pod of an owner in a while.
type budget struct {
	saved time.Duration
	cost  time.Duration // of one recording, about
	last  time.Time     // when the last decision began
	// owners are those of which a pod was recorded, each at its position; of two at one position the newer is kept.
	owners [1024]seenOwner
}

type seenOwner struct {
	tail uint64
	at   time.Time
}

func newBudget() budget { return budget{saved: savedMax} }

// earn takes in that a decision was begun at a time and took so long.
func (b *budget) earn(at time.Time, took time.Duration) {
	idle := time.Duration(0)
	if !b.last.IsZero() {
		idle = max(0, at.Sub(b.last)-took)
	}
	b.last = at
	b.saved = min(b.saved+took*decidingPercent/100+idle/idleShare, b.most())
}

// most is what is saved at most: enough for two recordings.
func (b *budget) most() time.Duration { return max(savedMax, 2*b.cost) }

// affords reports whether the details of a decision may be recorded.
func (b *budget) affords(q *plan.QueuedPod) bool {
	if b.saved < b.cost || b.saved <= 0 {
		return false
	}
	return b.saved >= b.most()/2+b.cost || b.isFirst(q)
}

// spend takes in what a recording has cost.
func (b *budget) spend(q *plan.QueuedPod, cost time.Duration) {
	b.saved -= cost
	if b.cost == 0 {
		b.cost = cost
	}
	b.cost += (cost - b.cost) / 4
	of := ownerOf(q)
	b.owners[of%uint64(len(b.owners))] = seenOwner{of, q.Popped}
}

// isFirst reports whether no pod of the owner was recorded for a while.
func (b *budget) isFirst(q *plan.QueuedPod) bool {
	of := ownerOf(q)
	seen := &b.owners[of%uint64(len(b.owners))]
	return seen.tail != of || q.Popped.Sub(seen.at) >= ownerPause
}

// ownerOf returns a number for the controller of a pod, or for the pod if it has none.
func ownerOf(q *plan.QueuedPod) uint64 {
	if owner := metav1.GetControllerOfNoCopy(q.Pod.Object); owner != nil {
		return tail(string(owner.UID))
	}
	return tail(string(q.Pod.UID))
}
