package state

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// Band is the use of a node by its pods of one priority. From the bands, preemption
// computes the free resources without all pods of lower priority, and visits no pod.
type Band struct {
	Priority int32
	Pods     int32
	// Used is the sum of Occupies over these pods.
	Used model.Sum
	// Most is an upper bound on the cpu, memory and ephemeral storage of any of these
	// pods. It is exact until a pod leaves.
	Most Amounts
	// Unstarted is the number of these pods without a start time. latest are upper bounds
	// on the latest start times of the others, in Unix seconds, in descending order,
	// padded with never. They are exact until a listed pod leaves while unlisted ones
	// remain.
	Unstarted int32
	latest    [fewLatest]int64
}

// fewLatest is the number of start times kept per band. For up to as many victims, the
// earliest start among them is mostly known.
const fewLatest = 4

// never is earlier than every start time.
const never = math.MinInt64

// LatestStart returns a time, in Unix seconds, at or before which at least one among any
// n pods started. ok is false if n pods may be unstarted.
func (b *Band) LatestStart(n int64) (seconds int64, ok bool) {
	if n -= int64(b.Unstarted); n <= 0 {
		return 0, false
	}
	return b.latest[min(n, fewLatest)-1], true
}

func (b *Band) started(seconds int64) {
	for i, have := range b.latest {
		if seconds > have {
			copy(b.latest[i+1:], b.latest[i:])
			b.latest[i] = seconds
			return
		}
	}
}

func (b *Band) left(seconds int64) {
	for i, have := range b.latest {
		if seconds == have {
			// The last time is now there twice, as a bound for unlisted pods.
			copy(b.latest[i:], b.latest[i+1:])
			return
		}
	}
}

// Amounts are amounts of the resources that every node has.
type Amounts struct{ CPUMilli, MemoryBytes, EphemeralBytes int64 }

// bands are the bands of one node.
//
// Invariant: they are in ascending order of priority; each has at least one pod, and
// counts exactly the pods of its priority on the slot.
type bands []Band

func (b *bands) find(priority int32) (at int, found bool) {
	for at < len(*b) && (*b)[at].Priority < priority { // few bands
		at++
	}
	return at, at < len(*b) && (*b)[at].Priority == priority
}

// count counts a pod that came (+1) or left (-1).
func (b *bands) count(pod *model.Pod, sign int64) {
	at, found := b.find(pod.Priority)
	if !found {
		*b = slices.Insert(*b, at, Band{Priority: pod.Priority, latest: [fewLatest]int64{never, never, never, never}})
	}
	band := &(*b)[at]
	if band.Pods += int32(sign); band.Pods == 0 {
		*b = slices.Delete(*b, at, at+1)
		return
	}
	band.Used.Add(&pod.Occupies, sign)
	if sign < 0 && len(pod.Occupies.Scalars) > 0 {
		band.Used.DropZeros()
	}
	switch started, ok := pod.Started(); {
	case !ok:
		band.Unstarted += int32(sign)
	case sign > 0:
		band.started(started)
	default:
		band.left(started)
	}
	if sign > 0 {
		m, o := &band.Most, &pod.Occupies
		m.CPUMilli, m.MemoryBytes, m.EphemeralBytes = max(m.CPUMilli, o.CPUMilli), max(m.MemoryBytes, o.MemoryBytes), max(m.EphemeralBytes, o.EphemeralBytes)
	}
}

// restart counts a pod again if its start time or priority has changed. It reports
// whether it did.
func (b *bands) restart(before, after *model.Pod) bool {
	was, had := before.Started()
	if is, has := after.Started(); was == is && had == has && before.Priority == after.Priority {
		return false
	}
	b.count(before, -1)
	b.count(after, +1)
	return true
}

// Bands returns the use of the node by priority, in ascending order. It excludes the
// changes of a draft. The slice is the state's own and valid until the next change.
func (n Node) Bands() []Band { return n.s.bands[n.slot] }

// BandsVersion changes with every pod of the state on the node, and with every version of
// such a pod. Versions of different slots are never equal, unless they never had a pod.
func (n Node) BandsVersion() uint64 { return n.s.banded[n.slot] }

// PodsBelow reports whether any pod of a lower priority is on a node, or on a slot whose
// node is gone.
func (v View) PodsBelow(priority int32) bool {
	for p := range v.s.byPriority {
		if p < priority {
			return true
		}
	}
	return v.d != nil && slices.ContainsFunc(v.d.changes, func(c draftChange) bool { return c.n > 0 && c.pod.Priority < priority })
}

// countPriority counts a pod that came (+1) or left (-1) among the pods of its priority.
func (s *State) countPriority(priority int32, sign int) {
	if s.byPriority[priority] += sign; s.byPriority[priority] == 0 {
		delete(s.byPriority, priority)
	}
}

// Use is a hypothetical use of a node by other pods, for filters that read only the
// amounts that pods occupy.
type Use struct{ node draftNode }

// Reset sets the use to that by the pods on the node.
func (u *Use) Reset(n Node) {
	u.node.used.CopyFrom(n.sum())
	u.node.pods = n.PodCount()
}

// Copy copies another use.
func (u *Use) Copy(o *Use) {
	u.node.used.CopyFrom(&o.node.used)
	u.node.pods = o.node.pods
}

// Add adds the use of a pod (+1) or subtracts it (-1).
func (u *Use) Add(pod *model.Pod, sign int) {
	u.node.used.Add(&pod.Occupies, int64(sign))
	u.node.pods += sign
}

// RemoveBand subtracts the use of the pods of a band.
func (u *Use) RemoveBand(b *Band) {
	u.node.used.AddSum(&b.Used, -1)
	u.node.pods -= int(b.Pods)
}

// Used returns the resources that the pods use, and their number.
func (u *Use) Used() (used *model.Resources, pods int) { return &u.node.used.Resources, u.node.pods }

// NodeWith returns the view of a node with another use, valid until the use changes. Of
// the values that depend on pods, only Used and PodCount are meaningful.
func (v View) NodeWith(slot int32, use *Use) Node { return Node{s: v.s, slot: slot, d: &use.node} }
