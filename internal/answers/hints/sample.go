package hints

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
)

const (
	// maxWalk is the number of slots visited in one step. sampleEvery is the lifetime of
	// a sample.
	maxWalk     = 1024
	sampleEvery = time.Minute
	// The sample has nodes for at most maxLabels different label sets and maxTaints
	// different sets of taints.
	maxLabels, maxTaints = 256, 64
)

// sample is the nodes whose labels and taints suggest changes to a search. It holds the
// first node of each label set, apart from the node's name, and of each set of taints. So
// a search on a large cluster does not visit all nodes, and the number of changes to try
// is bounded.
type sample struct {
	nodes          []*v1.Node
	labels, taints map[uint64]bool
	// at is the next slot to visit. taken is the time when the sample was completed; zero
	// before.
	at    int
	taken time.Time
}

// walk visits further nodes, or starts again if the sample is old. It reports whether the
// sample is complete.
func (m *sample) walk(now time.Time, s *state.State) bool {
	if !m.taken.IsZero() && now.Sub(m.taken) < sampleEvery {
		return true
	}
	if !m.taken.IsZero() || m.labels == nil {
		*m = sample{labels: map[uint64]bool{}, taints: map[uint64]bool{}}
	}
	alive := s.Alive()
	for end := min(len(alive), m.at+maxWalk); m.at < end; m.at++ {
		if alive[m.at] {
			m.look(s.Node(int32(m.at)).Object())
		}
	}
	if m.at >= len(alive) {
		m.taken = now
	}
	return !m.taken.IsZero()
}

func (m *sample) look(node *v1.Node) {
	byLabels, byTaints := isNew(m.labels, labelsOf(node), maxLabels), isNew(m.taints, taintsOf(node), maxTaints)
	if byLabels || byTaints {
		m.nodes = append(m.nodes, node)
	}
}

func isNew(seen map[uint64]bool, hash uint64, most int) bool {
	if seen[hash] || len(seen) == most {
		return false
	}
	seen[hash] = true
	return true
}

// labelsOf returns a hash of a node's labels without its name, independent of their
// order.
func labelsOf(node *v1.Node) (sum uint64) {
	for key, value := range node.Labels {
		if value != node.Name && key != v1.LabelHostname {
			sum += state.HashName(key + "=" + value)
		}
	}
	return sum
}

func taintsOf(node *v1.Node) uint64 {
	text := ""
	for i := range node.Spec.Taints {
		text += node.Spec.Taints[i].ToString() + ","
	}
	return state.HashName(text)
}
