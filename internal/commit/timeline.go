package commit

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// timeline is what waits for a time: a binding, an eviction, an effect, an event, or the status of a pod.
type timeline struct {
	entries  []entry
	planned  uint64
	compared int64 // how often two entries were compared
}

type entry struct {
	at       time.Time
	order    uint64
	binding  *binding
	eviction *eviction
	effect   *effect
	event    *event
	pod      types.UID // of a status
}

func (t *timeline) plan(e entry) {
	t.planned++
	e.order = t.planned
	heap.Push(t, e)
}

// next takes the first entry whose time has come, if there is one.
func (t *timeline) next(now time.Time) (e entry, ok bool) {
	if len(t.entries) == 0 || t.entries[0].at.After(now) {
		return entry{}, false
	}
	return heap.Pop(t).(entry), true
}

// drop takes off a binding that is on the timeline.
func (t *timeline) drop(b *binding) { heap.Remove(t, b.position) }

// Len, Less, Swap, Push and Pop are for container/heap alone.
func (t *timeline) Len() int { return len(t.entries) }
func (t *timeline) Less(i, j int) bool {
	t.compared++
	if a, b := t.entries[i], t.entries[j]; !a.at.Equal(b.at) {
		return a.at.Before(b.at)
	}
	return t.entries[i].order < t.entries[j].order
}
func (t *timeline) Swap(i, j int) {
	t.entries[i], t.entries[j] = t.entries[j], t.entries[i]
	t.place(i)
	t.place(j)
}
func (t *timeline) Push(x any) {
	t.entries = append(t.entries, x.(entry))
	t.place(len(t.entries) - 1)
}
func (t *timeline) Pop() any {
	last := len(t.entries) - 1
	e := t.entries[last]
	t.entries[last] = entry{}
	t.entries = t.entries[:last]
	return e
}

// place notes where a binding is, so that it can be taken off.
func (t *timeline) place(i int) {
	if b := t.entries[i].binding; b != nil {
		b.position = i
	}
}
