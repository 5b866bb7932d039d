package state

import (
	"cmp"
	"math"
	"slices"
)

// minima is a tournament tree over numbers by domain. Each inner node holds the smaller
// of its two children, so the smallest number is at the root, and a change updates only
// the nodes that it affects. The zero value holds no numbers.
type minima struct {
	// tree has its root at 1, the children of i at 2i and 2i+1, and the leaf of domain d
	// at size+d.
	tree []int32
	size int // a power of two; 0 before the first number
}

// absent stands for the number of a domain without a number.
const absent = math.MaxInt32

// set stores the number of a domain.
func (m *minima) set(domain, number int32) {
	if int(domain) >= m.size {
		m.grow(int(domain) + 1)
	}
	i := m.size + int(domain)
	m.tree[i] = number
	for i /= 2; i > 0; i /= 2 {
		smaller := min(m.tree[2*i], m.tree[2*i+1])
		if m.tree[i] == smaller {
			return
		}
		m.tree[i] = smaller
	}
}

func (m *minima) grow(domains int) {
	old, size := *m, max(1, m.size)
	for size < domains {
		size *= 2
	}
	*m = minima{tree: make([]int32, 2*size), size: size}
	for i := range m.tree {
		m.tree[i] = absent
	}
	copy(m.tree[size:], old.leaves())
	for i := size - 1; i > 0; i-- {
		m.tree[i] = min(m.tree[2*i], m.tree[2*i+1])
	}
}

func (m *minima) leaves() []int32 { return m.tree[m.size:] }

// except returns the smallest number outside the domains of the differences, which are
// sorted by domain; absent if none.
func (m *minima) except(differences []Difference) int32 {
	switch {
	case m.size == 0:
		return absent
	case len(differences) == 0:
		return m.tree[1]
	}
	return m.exceptBelow(1, 0, m.size, differences)
}

func byDomain(a, b Difference) int { return cmp.Compare(a.Domain, b.Domain) }

// exceptBelow is except for node i of the tree, which covers the given number of domains
// from first on.
func (m *minima) exceptBelow(i, first, domains int, differences []Difference) int32 {
	from, _ := slices.BinarySearchFunc(differences, Difference{Domain: int32(first)}, byDomain)
	to, _ := slices.BinarySearchFunc(differences, Difference{Domain: int32(first + domains)}, byDomain)
	switch {
	case from == to:
		return m.tree[i]
	case domains == 1:
		return absent
	}
	half := domains / 2
	differences = differences[from:to]
	return min(m.exceptBelow(2*i, first, half, differences), m.exceptBelow(2*i+1, first+half, half, differences))
}

// bytes returns the approximate memory of the tree. m may be nil.
func (m *minima) bytes() int {
	if m == nil {
		return 0
	}
	return 4 * len(m.tree)
}
