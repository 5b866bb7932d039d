package state

import (
	"cmp"
	"slices"
)

// domainCounts counts pods by domain. It is a list sorted by domain while few domains
// have pods, and an array otherwise. Thousands of apps run on few nodes each, and an
// array by node for each of them would not fit into memory.
//
// Invariant: it has a list or an array, not both; the list has no domain with count 0;
// some is the number of domains whose count is not 0; total is the sum of the counts.
type domainCounts struct {
	listed []domainCount // sorted by domain
	// dense is by domain and replaces the list; domains beyond its end have count 0.
	dense []int32
	some  int32
	total int64
	// Invariant: least has exactly the counts of an array that are not 0, if keepLeast;
	// each inner node has the smaller of its children.
	least     *minima
	keepLeast bool
}

type domainCount struct{ domain, pods int32 }

// A list becomes an array when it has more than 1/listedUpTo of the domains, and at once
// with at most fewDomains domains. An array becomes a list when it has fewer than
// 1/denseFrom.
const (
	fewDomains = 64
	listedUpTo = 8
	denseFrom  = 32
)

// add adds n pods in a domain. domains is the number of domains.
func (c *domainCounts) add(domain, n int32, domains int) {
	if domain == noDomain || n == 0 {
		return
	}
	c.total += int64(n)
	if c.dense == nil {
		c.addListed(domain, n)
		if domains <= fewDomains || len(c.listed) > domains/listedUpTo {
			c.spread(domains)
		}
		return
	}
	c.addDense(domain, n, domains)
	if domains > fewDomains && int(c.some) < domains/denseFrom {
		c.list()
	}
}

func (c *domainCounts) addListed(domain, n int32) {
	i, ok := c.find(domain)
	switch {
	case !ok:
		c.listed = slices.Insert(c.listed, i, domainCount{domain, n})
	case c.listed[i].pods+n == 0:
		c.listed = slices.Delete(c.listed, i, i+1)
		if len(c.listed) < cap(c.listed)/4 {
			c.listed = slices.Clone(c.listed)
		}
	default:
		c.listed[i].pods += n
	}
	c.some = int32(len(c.listed))
}

func (c *domainCounts) find(domain int32) (at int, ok bool) {
	return slices.BinarySearchFunc(c.listed, domain, func(x domainCount, domain int32) int { return cmp.Compare(x.domain, domain) })
}

func (c *domainCounts) addDense(domain, n int32, domains int) {
	if missing := domains - len(c.dense); missing > 0 {
		c.dense = append(c.dense, make([]int32, missing)...)
	}
	before := c.dense[domain]
	c.dense[domain] += n
	switch {
	case before == 0:
		c.some++
	case before+n == 0:
		c.some--
	}
	if c.keepLeast {
		c.least.set(domain, leaf(before+n))
	}
}

// leaf is a count as the tree of least counts holds it.
func leaf(pods int32) int32 {
	if pods == 0 {
		return absent
	}
	return pods
}

// spread makes the list an array.
func (c *domainCounts) spread(domains int) {
	c.dense = make([]int32, domains)
	for _, x := range c.listed {
		c.dense[x.domain] = x.pods
	}
	c.listed = nil
	c.growLeast()
}

// list makes the array a list.
func (c *domainCounts) list() {
	listed := make([]domainCount, 0, c.some)
	for domain, pods := range c.dense {
		if pods != 0 {
			listed = append(listed, domainCount{int32(domain), pods})
		}
	}
	c.listed, c.dense, c.least = listed, nil, nil
}

// wantLeast makes leastExcept fast for arrays.
func (c *domainCounts) wantLeast() {
	if !c.keepLeast {
		c.keepLeast = true
		c.growLeast()
	}
}

func (c *domainCounts) growLeast() {
	if !c.keepLeast || c.dense == nil {
		return
	}
	c.least = &minima{}
	c.least.grow(len(c.dense))
	for domain, pods := range c.dense {
		if pods != 0 {
			c.least.set(int32(domain), pods)
		}
	}
}

// of returns the count of a domain.
func (c *domainCounts) of(domain int32) int32 {
	switch {
	case int(domain) < len(c.dense):
		return c.dense[domain]
	case c.dense != nil:
		return 0
	}
	if i, ok := c.find(domain); ok {
		return c.listed[i].pods
	}
	return 0
}

// each calls yield with each domain whose count is not 0, in the order of the domains.
func (c *domainCounts) each(yield func(domain, pods int32)) {
	for _, x := range c.listed {
		yield(x.domain, x.pods)
	}
	for domain, pods := range c.dense {
		if pods != 0 {
			yield(int32(domain), pods)
		}
	}
}

// addTo adds weight × count to the sum of each domain.
func (c *domainCounts) addTo(sums []int64, weight int64) {
	for _, x := range c.listed {
		sums[x.domain] += weight * int64(x.pods)
	}
	_ = sums[:len(c.dense)]
	for domain, pods := range c.dense {
		sums[domain] += weight * int64(pods)
	}
}

// leastExcept returns the smallest count that is not 0, outside the domains of the
// differences, which are sorted by domain; absent if none.
//
// For an array this takes logarithmic time in the number of domains, and wantLeast must
// have been called before. A list is read as a whole. That is cheap: a list has at most
// 1/listedUpTo of the domains. Least calls leastExcept only if all domains of the node
// set have pods.
func (c *domainCounts) leastExcept(differences []Difference) int32 {
	if c.dense != nil {
		return c.least.except(differences)
	}
	least := int32(absent)
	for _, x := range c.listed {
		for len(differences) > 0 && differences[0].Domain < x.domain {
			differences = differences[1:]
		}
		if len(differences) == 0 || differences[0].Domain != x.domain {
			least = min(least, x.pods)
		}
	}
	return least
}

// bytes returns the approximate memory use of the counts.
func (c *domainCounts) bytes() int {
	return 8*cap(c.listed) + 4*cap(c.dense) + c.least.bytes()
}

// expansion is a list of counts as an array, valid for one turn.
type expansion struct {
	of     *domainCounts
	made   turn
	counts []int32 // by domain
	filled []int32 // the domains whose counts are not 0
}

// turn identifies a turn on an unchanged state.
type turn struct{ turns, changes uint64 }

// expansionsKept bounds the arrays that a topology keeps for the next turn. Few pods
// count more sets by one topology key.
const expansionsKept = 8

// BeginTurn begins a turn: earlier results of Expanded may be overwritten.
func (s *State) BeginTurn() { s.turn.turns++ }

// expanded returns counts by domain, as an array that is valid until the next turn or
// change of the state. Domains beyond its end have count 0. Its cost is proportional to
// the number of domains whose count is not 0.
func (s *State) expanded(t *topology, c *domainCounts) []int32 {
	if c.dense != nil || len(c.listed) == 0 {
		return c.dense
	}
	var x *expansion
	for _, known := range t.expansions {
		if known.made != s.turn {
			x = known
		} else if known.of == c {
			return known.counts
		}
	}
	if x == nil {
		x = &expansion{}
		if len(t.expansions) < expansionsKept {
			t.expansions = append(t.expansions, x)
		}
	}
	x.fill(c, len(t.value))
	x.made = s.turn
	return x.counts
}

// fill overwrites the array. Its cost is proportional to the domains whose count was or
// is not 0.
func (x *expansion) fill(c *domainCounts, domains int) {
	for _, domain := range x.filled {
		x.counts[domain] = 0
	}
	x.filled = x.filled[:0]
	if len(x.counts) != domains {
		x.counts = cleared(x.counts, domains)
	}
	for _, l := range c.listed {
		x.counts[l.domain] = l.pods
		x.filled = append(x.filled, l.domain)
	}
	x.of = c
}
