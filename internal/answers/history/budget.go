package history

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Limits of the cost of the history. Details may take 2 % of the time of decisions, and
// notes about pods that were not placed at once 1 %. Each may also take one part in
// idleShare of the time without decisions, which delays hardly any pod. Unused budget is
// saved up to maxSaved. Placements are so cheap that all are recorded.
const (
	detailsPercent = 2
	notesPercent   = 1
	idleShare      = 1000
	maxSaved       = 5 * time.Millisecond
)

// noteCost is the approximate cost of a note: two or three cache misses. Measuring it
// would cost as much.
const noteCost = 500 * time.Nanosecond

// ownerPause is the time after which a pod of the same owner has precedence again.
const ownerPause = time.Minute

// budget selects the decisions whose details are recorded, and the attempts that are
// noted. Half of the savings is reserved for the first pod of an owner in a while, and
// for the first attempts of pods.
type budget struct {
	details, notes time.Duration // savings
	cost           time.Duration // the approximate cost of recording details
	last           time.Time     // when the last decision began
	// owners remembers the owners of recorded pods, each at its position. At a collision
	// the newer owner stays.
	owners [1024]seenOwner
}

type seenOwner struct {
	tail uint64
	at   time.Time
}

func newBudget() budget { return budget{details: maxSaved, notes: maxSaved} }

// earn adds the budget for a decision that began at a time. took is its duration.
func (b *budget) earn(at time.Time, took time.Duration) {
	idle := time.Duration(0)
	if !b.last.IsZero() {
		idle = max(0, at.Sub(b.last)-took)
	}
	b.last = at
	b.details = min(b.details+took*detailsPercent/100+idle/idleShare, b.most())
	b.notes = min(b.notes+took*notesPercent/100+idle/idleShare, maxSaved)
}

// most returns the maximal savings for details: enough for two recordings.
func (b *budget) most() time.Duration { return max(maxSaved, 2*b.cost) }

// affords reports whether details may be recorded the given number of times, starting
// with a decision about the given pod.
func (b *budget) affords(q *plan.QueuedPod, times int) bool {
	if b.details < time.Duration(times)*b.cost || b.details <= 0 {
		return false
	}
	return b.details >= b.most()/2+b.cost || b.isFirst(q)
}

// spend subtracts the cost of a recording.
func (b *budget) spend(q *plan.QueuedPod, cost time.Duration) {
	b.details -= cost
	if b.cost == 0 {
		b.cost = cost
	}
	// limited, because a recording that the operating system interrupted does not predict
	// the next
	b.cost += (min(cost, 2*b.cost) - b.cost) / 4
	of := ownerOf(q)
	b.owners[of%uint64(len(b.owners))] = seenOwner{of, q.Popped}
}

// takeNote reports whether an attempt may be noted, and spends the cost.
func (b *budget) takeNote(first bool) bool {
	if b.notes < noteCost || !first && b.notes < maxSaved/2 {
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

// ownerOf returns a number for the controller of a pod, or for the pod itself without a
// controller.
func ownerOf(q *plan.QueuedPod) uint64 {
	if owner := metav1.GetControllerOfNoCopy(q.Pod.Object); owner != nil {
		return tail(string(owner.UID))
	}
	return tail(string(q.Pod.UID))
}
