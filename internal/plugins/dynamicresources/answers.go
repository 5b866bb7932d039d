package dynamicresources

import "github.com/berth-scheduler/berth/internal/reason"

// answer is what was found for a node: a verdict, and how good the alternatives are that were taken.
type answer struct {
	code   reason.Code
	rating int32
	// gives is set if devices were found, and any were needed.
	gives bool
	// err, unless nil, is why there is no verdict; code is zero then.
	err error
}

// answers remembers answers by what is asked and the key of a node's devices, for all needs together: filters and scores of the same
// claims share them, and they outlast columns, so that a turn which goes on later finds what it has found out before. They are kept
// in two generations; what is used moves to the young one, and the old one goes when the young one is full.
type answers struct {
	// Invariant: young has at most answersMax entries, and so has old.
	young, old map[[32]byte]answer
	max        int
}

// answersMax bounds a generation: of about 100 bytes each, both together take up to 13 MB.
const answersMax = 1 << 16

func newAnswers() *answers { return &answers{young: map[[32]byte]answer{}, max: answersMax} }

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
