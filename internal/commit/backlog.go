package commit

import (
	"container/heap"
	"fmt"
)

// backlog is a heap of the bindings, evictions and writes of decisions whose next request
// can be sent. Higher pod priority comes first, then the earlier decision. An eviction
// has the priority of the preemptor.
type backlog struct {
	jobs     []job
	compared int64 // comparisons so far
}

// job is a binding, an eviction or an effect.
type job struct {
	priority int32
	order    uint64 // of the decision
	binding  *binding
	eviction *eviction
	effect   *effect
}

// String returns the kind of the job and its pod or object.
func (j *job) String() string {
	switch {
	case j.binding != nil:
		return fmt.Sprintf("binding of %s", j.binding.placement.Pod)
	case j.effect != nil:
		return fmt.Sprintf("write of %s", j.effect.write.Name)
	}
	return fmt.Sprintf("eviction of %s", j.eviction.victim)
}

// says returns the fields of the binding, eviction or effect that the heap duplicates:
// its priority, order, place and position.
func (j *job) says() (priority int32, order uint64, at place, position int) {
	switch {
	case j.binding != nil:
		return j.binding.placement.Pod.Priority, j.binding.order, j.binding.place, j.binding.position
	case j.effect != nil:
		return j.effect.pod.Priority, j.effect.order, j.effect.place, j.effect.position
	}
	return j.eviction.priority, j.eviction.order, j.eviction.place, j.eviction.position
}

func (l *backlog) len() int { return len(l.jobs) }

func (l *backlog) push(b *binding) {
	heap.Push(l, job{priority: b.placement.Pod.Priority, order: b.order, binding: b})
}

func (l *backlog) pushEviction(e *eviction) {
	heap.Push(l, job{priority: e.priority, order: e.order, eviction: e})
}

func (l *backlog) pushEffect(e *effect) {
	heap.Push(l, job{priority: e.pod.Priority, order: e.order, effect: e})
}

// pop removes the first job. The backlog must not be empty.
func (l *backlog) pop() job { return heap.Pop(l).(job) }

// drop removes the binding or eviction at a position.
func (l *backlog) drop(position int) { heap.Remove(l, position) }

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (l *backlog) Len() int { return len(l.jobs) }
func (l *backlog) Less(i, j int) bool {
	l.compared++
	a, b := &l.jobs[i], &l.jobs[j]
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	return a.order < b.order
}
func (l *backlog) Swap(i, j int) {
	l.jobs[i], l.jobs[j] = l.jobs[j], l.jobs[i]
	l.place(i)
	l.place(j)
}
func (l *backlog) Push(x any) {
	l.jobs = append(l.jobs, x.(job))
	l.place(len(l.jobs) - 1)
}
func (l *backlog) Pop() any {
	last := len(l.jobs) - 1
	j := l.jobs[last]
	l.jobs[last] = job{}
	l.jobs = l.jobs[:last]
	return j
}

// place records the position of a job, so that it can be removed.
func (l *backlog) place(i int) {
	switch j := &l.jobs[i]; {
	case j.binding != nil:
		j.binding.position = i
	case j.effect != nil:
		j.effect.position = i
	default:
		j.eviction.position = i
	}
}
