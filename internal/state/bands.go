package state

import (
	"math"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// Band is the use of a node by its pods of one priority. Preemption reads from the bands what would be free if all pods of lower priority were
// gone, without a look at any pod.
type Band struct {
	Priority int32
	Pods     int32
	// Used is the sum of Occupies over these pods.
	Used model.Sum
	// Most is at least the largest amount that one of these pods occupies, of cpu, memory and ephemeral storage. It is exact as long as no pod left.
	Most Amounts
	// Unstarted is how many of these pods have no start time. latest are at least the latest start times of the others, in Unix seconds, the last first;
	// never means that there are no more. They are exact until one of them leaves while others are not listed.
	Unstarted int32
	latest    [fewLatest]int64
}

// fewLatest is of how many pods of a band it is known when they started: of as many victims, mostly, the one that started first is known.
const fewLatest = 4

// never is earlier than every start time.
const never = math.MinInt64

// LatestStart returns a time, in Unix seconds, at or before which one of any n of the pods started. ok is false if n of them may be unstarted.
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
			copy(b.latest[i:], b.latest[i+1:]) // the last is then there twice, and no pod that is not listed started later
			return
		}
	}
}

// Amounts are amounts of the resources that every node has.
type Amounts struct{ CPUMilli, MemoryBytes, EphemeralBytes int64 }

// bands are the bands of one node.
//
// Invariant: they are in ascending order of priority; each has at least one pod, and counts exactly the pods of its priority on the slot.
type bands []Band

func (b *bands) find(priority int32) (at int, found bool) {
	for at < len(*b) && (*b)[at].Priority < priority { // there are few
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

// restart counts a pod anew if it has got another start time, or priority, since. It reports whether it has.
func (b *bands) restart(before, after *model.Pod) bool {
	was, had := before.Started()
	if is, has := after.Started(); was == is && had == has && before.Priority == after.Priority {
		return false
	}
	b.count(before, -1)
	b.count(after, +1)
	return true
}

// Bands returns the use of the node by priority, in ascending order. They are of the state: the changes of a draft are not in them. The slice is the
// state's own and valid until the next change.
func (n Node) Bands() []Band { return n.s.bands[n.slot] }

// BandsVersion changes with every pod of the state on the node, and every version of one. No other slot ever has the same, unless no pod was there.
func (n Node) BandsVersion() uint64 { return n.s.banded[n.slot] }

// PodsBelow reports whether any pod of a lower priority is on a node, or on a slot whose node is gone.
func (v View) PodsBelow(priority int32) bool {
	for p := range v.s.byPriority {
		if p < priority {
			return true
		}
	}
	return v.d != nil && slices.ContainsFunc(v.d.changes, func(c draftChange) bool { return c.n > 0 && c.pod.Priority < priority })
}

// countPriority counts a pod that came (+1) or left (-1) among those of its priority.
func (s *State) countPriority(priority int32, sign int) {
	if s.byPriority[priority] += sign; s.byPriority[priority] == 0 {
		delete(s.byPriority, priority)
	}
}

// Use is a use of a node by other pods than those on it, for filters that read nothing of pods but what they occupy.
type Use struct{ node draftNode }

// Reset makes it the use of the node by the pods that are on it.
func (u *Use) Reset(n Node) {
	u.node.used.CopyFrom(n.sum())
	u.node.pods = n.PodCount()
}

// Copy makes it equal to another use.
func (u *Use) Copy(o *Use) {
	u.node.used.CopyFrom(&o.node.used)
	u.node.pods = o.node.pods
}

// Add adds the use of a pod (+1) or takes it away (-1).
func (u *Use) Add(pod *model.Pod, sign int) {
	u.node.used.Add(&pod.Occupies, int64(sign))
	u.node.pods += sign
}

// RemoveBand takes away the use of the pods of a band.
func (u *Use) RemoveBand(b *Band) {
	u.node.used.AddSum(&b.Used, -1)
	u.node.pods -= int(b.Pods)
}

// Used returns the amounts, and the number of pods.
func (u *Use) Used() (used *model.Resources, pods int) { return &u.node.used.Resources, u.node.pods }

// NodeWith returns the view of a node with another use. It is valid until the use changes. Of what pods have on the node, only Used and PodCount mean
// anything.
func (v View) NodeWith(slot int32, use *Use) Node { return Node{s: v.s, slot: slot, d: &use.node} }
