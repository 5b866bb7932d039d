package adviser

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
)

const (
	// walkMax is how many slots are looked at in one step, sampleEvery how long a sample is used.
	walkMax     = 1024
	sampleEvery = time.Minute
	// labelsMax and taintsMax are for how many different sets of labels, and of taints, there is a node in the sample.
	labelsMax, taintsMax = 256, 64
)

// sample is nodes from whose labels and taints a search takes what to try: of those with equal labels, but for their names, and of those with equal taints the first. So a search does not look at all
// nodes of a large cluster for it, and what it tries is bounded.
type sample struct {
	nodes          []*v1.Node
	labels, taints map[uint64]bool
	// at is the slot that is looked at next, taken when the sample was complete, zero before.
	at    int
	taken time.Time
}

// walk looks at some further nodes, or begins anew if the sample is old. It reports whether the sample is complete.
func (m *sample) walk(now time.Time, s *state.State) bool {
	if !m.taken.IsZero() && now.Sub(m.taken) < sampleEvery {
		return true
	}
	if !m.taken.IsZero() || m.labels == nil {
		*m = sample{labels: map[uint64]bool{}, taints: map[uint64]bool{}}
	}
	alive := s.Alive()
	for end := min(len(alive), m.at+walkMax); m.at < end; m.at++ {
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
	byLabels, byTaints := isNew(m.labels, labelsOf(node), labelsMax), isNew(m.taints, taintsOf(node), taintsMax)
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

// labelsOf hashes the labels of a node without its name, in whatever order they come.
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
