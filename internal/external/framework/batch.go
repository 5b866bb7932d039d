package framework

import (
	"slices"

	fwk "k8s.io/kube-scheduler/framework"
)

// batch is reusable memory for calls for many nodes. An abandoned call may still write to
// it, so after a failure it is dropped. Plugins see only the NodeInfos.
type batch struct {
	// nodes are the NodeInfos of slots in the view of a turn.
	of    *turn
	slots []int32
	nodes []fwk.NodeInfo

	outcomes []*outcome
	points   []int64
}

// batchOf returns the memory, with the NodeInfos of slots. In a turn, each plugin is
// called for the same nodes, so they are looked up once.
func (r *Runtime) batchOf(slots []int32) *batch {
	if r.batch == nil {
		r.batch = &batch{}
	}
	b := r.batch
	if b.of == r.turn && slices.Equal(b.slots, slots) {
		return b
	}
	b.of, b.slots = r.turn, append(b.slots[:0], slots...)
	b.nodes = r.config.Snapshot.NodeInfosIn(r.turn.view, slots, b.nodes[:0])
	return b
}

// outcomesOf returns memory for n outcomes, which are nil.
func (b *batch) outcomesOf(n int) []*outcome {
	b.outcomes = slices.Grow(b.outcomes[:0], n)[:n]
	clear(b.outcomes)
	return b.outcomes
}

// pointsOf returns memory for n scores.
func (b *batch) pointsOf(n int) []int64 {
	b.points = slices.Grow(b.points[:0], n)[:n]
	return b.points
}
