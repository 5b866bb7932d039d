package history

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/plan"
)

// What the history may cost: of the time that decisions take, two hundredths for details of decisions and one for notes about pods that were not placed at once; and of the time in which
// nothing is decided, one in idleShare for each, since then it delays hardly anybody. What is not used is saved up to a while's worth. Placements cost so little that all are noted.
const (
	detailsPercent = 2
	notesPercent   = 1
	idleShare      = 1000
	savedMax       = 5 * time.Millisecond
)

// noteCost is about what a note costs: two or three looks into memory that is not in the processor's cache. It is not measured, which would cost as much.
const noteCost = 500 * time.Nanosecond

// ownerPause is how long it is until another pod of an owner is recorded before others.
const ownerPause = time.Minute

// budget says of which decisions details are recorded, and which attempts are noted. Half of what is saved is for the first pod of an owner in a while, and for the first attempts of pods.
type budget struct {
	details, notes time.Duration // saved
	cost           time.Duration // of recording details, about
	last           time.Time     // when the last decision began
	// owners are those of which a pod was recorded, each at its position; of two at one position the newer is kept.
	owners [1024]seenOwner
}

type seenOwner struct {
	tail uint64
	at   time.Time
}

func newBudget() budget { return budget{details: savedMax, notes: savedMax} }

// earn takes in that a decision was begun at a time and took so long.
func (b *budget) earn(at time.Time, took time.Duration) {
	idle := time.Duration(0)
	if !b.last.IsZero() {
		idle = max(0, at.Sub(b.last)-took)
	}
	b.last = at
	b.details = min(b.details+took*detailsPercent/100+idle/idleShare, b.most())
	b.notes = min(b.notes+took*notesPercent/100+idle/idleShare, savedMax)
}

// most is what is saved for details at most: enough for two recordings.
func (b *budget) most() time.Duration { return max(savedMax, 2*b.cost) }

// affords reports whether details may be recorded so many times, first those of a decision about the given pod.
func (b *budget) affords(q *plan.QueuedPod, times int) bool {
	if b.details < time.Duration(times)*b.cost || b.details <= 0 {
		return false
	}
	return b.details >= b.most()/2+b.cost || b.isFirst(q)
}

// spend takes in what a recording has cost.
func (b *budget) spend(q *plan.QueuedPod, cost time.Duration) {
	b.details -= cost
	if b.cost == 0 {
		b.cost = cost
	}
	b.cost += (min(cost, 2*b.cost) - b.cost) / 4 // one that was interrupted by the operating system says little of the next
	of := ownerOf(q)
	b.owners[of%uint64(len(b.owners))] = seenOwner{of, q.Popped}
}

// takeNote reports whether an attempt may be noted, and spends what that costs.
func (b *budget) takeNote(first bool) bool {
	if b.notes < noteCost || !first && b.notes < savedMax/2 {
		return false
	}
	b.notes -= noteCost
	return true
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
