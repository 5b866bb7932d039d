package history

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// placement describes the placement of a pod. It has only values, so that it is cheap to
// record and keeps no object alive.
type placement struct {
	tail            uint64 // of the name, for the search
	namespace, name string
	uid             types.UID
	profile, node   string
	woken           plan.Woken
	at              int64 // in nanoseconds of Unix time
	total           int64
	detail          uint64
	attempt         int32
	nodes, feasible int32
}

// placementBytes is the approximate size of a placement with its texts.
const placementBytes = 288

// chunk is the number of placements allocated at a time.
const chunk = 512

// placements has the last placements, in a ring that grows until it is full.
type placements struct {
	chunks [][]placement
	most   int // the maximal number of stored placements
	noted  int // the number of placements so far
}

func newPlacements(bytes int) placements { return placements{most: max(1, bytes/placementBytes)} }

func (p *placements) size() int { return min(p.noted, p.most) }

func (p *placements) bytes() int { return p.size() * placementBytes }

// add records a decision that placed a pod.
func (p *placements) add(d *plan.Decision) {
	at := p.noted % p.most
	p.noted++
	if at/chunk == len(p.chunks) {
		p.chunks = append(p.chunks, make([]placement, min(chunk, p.most-at)))
	}
	to, q := &p.chunks[at/chunk][at%chunk], &d.QueuedPod
	to.tail = tail(q.Pod.Name)
	to.namespace, to.name, to.uid, to.profile = q.Pod.Namespace, q.Pod.Name, q.Pod.UID, q.Pod.SchedulerName
	to.node, to.woken, to.at = d.Placement.NodeName, q.Woken, q.Popped.UnixNano()
	to.total, to.detail, to.attempt = d.Placement.Total, d.Details, int32(q.Attempt)
	to.nodes, to.feasible = int32(d.Nodes), int32(d.Feasible)
}

// of returns the last placement of a pod, nil if none is stored. It searches all stored
// placements, which takes 0.2 ms with DefaultBytes and about 5 ms with MaxBytes
// (BenchmarkOf).
func (p *placements) of(key model.PodKey) *placement {
	want := tail(key.Name)
	for i := range p.size() {
		at := (p.noted - 1 - i) % p.most
		if x := &p.chunks[at/chunk][at%chunk]; x.tail == want && x.name == key.Name && x.namespace == key.Namespace {
			return x
		}
	}
	return nil
}
