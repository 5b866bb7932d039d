package commit

import (
	"container/heap"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// timeline is a heap of bindings, evictions, effects, events and pod statuses that wait
// for a time.
type timeline struct {
	entries  []entry
	planned  uint64
	compared int64 // comparisons so far
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

// next takes the first entry that is due, if any.
func (t *timeline) next(now time.Time) (e entry, ok bool) {
	if len(t.entries) == 0 || t.entries[0].at.After(now) {
		return entry{}, false
	}
	return heap.Pop(t).(entry), true
}

// drop removes a binding from the timeline.
func (t *timeline) drop(b *binding) { heap.Remove(t, b.position) }

// Len, Less, Swap, Push and Pop implement heap.Interface.
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

// place records the position of a binding, so that it can be removed.
func (t *timeline) place(i int) {
	if b := t.entries[i].binding; b != nil {
		b.position = i
	}
}
