package dynamicresources

import "github.com/berth-scheduler/berth/internal/model/reason"

// answer is the result for a node: a verdict, and the rating of the chosen alternatives.
type answer struct {
	code   reason.Code
	rating int32
	// gives means that devices were needed and found.
	gives bool
	// err, if set, is the reason for a missing verdict; code is then zero.
	err error
}

// answers caches results by a hash of the demands and of a node's devices. All needs
// share it, so filters and scores of the same claims do too. It outlives columns, so a
// continued turn finds its earlier results.
//
// The cache has two generations. A used answer moves to the young generation. When the
// young generation is full, it replaces the old one, which is dropped.
type answers struct {
	// Invariant: young and old have at most maxAnswers entries each.
	young, old map[[32]byte]answer
	max        int
}

// maxAnswers bounds a generation. At about 100 bytes per answer, both generations
// together take up to 13 MB.
const maxAnswers = 1 << 16

func newAnswers() *answers { return &answers{young: map[[32]byte]answer{}, max: maxAnswers} }

func (m *answers) get(key [32]byte) (a answer, known bool) {
	if a, known = m.young[key]; known {
		return a, true
	}
	if a, known = m.old[key]; known {
		m.put(key, a)
	}
	return a, known
}

func (m *answers) put(key [32]byte, a answer) {
	if len(m.young) >= m.max {
		m.young, m.old = make(map[[32]byte]answer, len(m.young)/2), m.young
	}
	m.young[key] = a
}
