package nodeaffinity

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// indexFrom is the number of requirements and values from which terms are indexed. Below
// it, a linear scan is faster.
const indexFrom = 64

// sizeOf returns the number of requirements and values in terms.
func sizeOf(terms []term) (size int) {
	for i := range terms {
		size += len(terms[i].labels) + len(terms[i].fields)
		for j := range terms[i].labels {
			size += len(terms[i].labels[j].values)
		}
	}
	return size
}

// index finds the terms that a node meets, by the labels in many terms. The time grows
// with the node's labels: a value that no term lists costs the same however many values
// the terms list.
//
// The terms that a node can meet are a bit set. It starts with the terms that require no
// label. Each label of the node adds the terms that require it, and removes those that
// reject its value. The index is immutable.
type index struct {
	terms int
	// unconditional are the terms that a node without labels meets.
	unconditional set
	// requires is, by term, the number of keys that a node must have.
	requires []int32
	keys     map[string]int32
	byKey    []namedKey
	// names are the requirements on the node's name, or nil.
	names *keyed
	// planes are the weighted terms by the bits of their weights, the lowest first.
	planes []set
}

// keyed holds the requirements of all terms on one label.
type keyed struct {
	// requiring are the terms that require the label.
	requiring []int32
	// objecting are the terms that reject values which none of them lists.
	objecting members
	// listed are the values in terms, each with a number. verdicts are, by that number,
	// the differences from objecting.
	listed   map[string]int32
	verdicts [][]verdict
	// objectors are all terms that reject a listed value. A set is used if very many
	// terms judge the value differently, because it is then shorter.
	objectors map[int32]set
	// ranged are the terms that require a number.
	ranged []within
	// noted holds the verdicts while the index is built.
	noted []noted
}

// verdict is a term that judges a listed value differently from unlisted values.
type verdict int32

func verdictOf(term int32, accepts bool) verdict {
	if accepts {
		return verdict(term)
	}
	return verdict(^term)
}

func (v verdict) accepts() bool { return v >= 0 }

func (v verdict) term() int32 {
	if v >= 0 {
		return int32(v)
	}
	return int32(^v)
}

// within is a term that requires a number between two exclusive bounds.
type within struct {
	term     int32
	low, top int64
	// bounded below and above
	hasLow, hasTop bool
}

func (w *within) holds(number int64) bool {
	return (!w.hasLow || number > w.low) && (!w.hasTop || number < w.top)
}

// set is a bit set of terms.
type set []uint64

func newSet(terms int) set { return make(set, (terms+63)/64) }

func (s set) put(term int32)      { s[term/64] |= 1 << (term % 64) }
func (s set) drop(term int32)     { s[term/64] &^= 1 << (term % 64) }
func (s set) has(term int32) bool { return s[term/64]>>(term%64)&1 != 0 }

// members are terms: a list for few, otherwise a set.
type members struct {
	few []int32
	all set
}

// sparse is the number of terms up to which a list is as fast to scan as a set.
func sparse(terms int) int { return max(terms/64, 16) }

func membersOf(list []int32, terms int) members {
	if len(list) <= sparse(terms) {
		return members{few: slices.Clip(list)}
	}
	return members{all: setOf(list, terms)}
}

func setOf(list []int32, terms int) set {
	all := newSet(terms)
	for _, term := range list {
		all.put(term)
	}
	return all
}

func (m *members) removeFrom(s set) {
	for _, term := range m.few {
		s.drop(term)
	}
	m.all.removeFrom(s)
}

func (s set) removeFrom(o set) {
	for i, word := range s {
		o[i] &^= word
	}
}

// indexOf indexes terms; weights are by term, or nil.
func indexOf(terms []term, weights []int32) *index {
	b := builder{x: &index{terms: len(terms), unconditional: newSet(len(terms)), requires: make([]int32, len(terms)), keys: map[string]int32{}}}
	for i := range terms {
		if terms[i].isPossible() {
			b.add(int32(i), &terms[i])
		}
	}
	b.finish()
	for i, weight := range weights {
		for bit := range 32 {
			if uint32(weight)>>bit&1 != 0 {
				for len(b.x.planes) <= bit {
					b.x.planes = append(b.x.planes, newSet(len(terms)))
				}
				b.x.planes[bit].put(int32(i))
			}
		}
	}
	return b.x
}

// isPossible reports whether the term's requirements on fields other than the name are
// met. The result is the same for all nodes.
func (t *term) isPossible() bool {
	return !slices.ContainsFunc(t.fields, func(r fieldRequirement) bool { return !r.isName && !r.matches("") })
}

// matcher looks nodes up in an index. Filters may be called from several goroutines.
type matcher struct {
	*index
	mu sync.Mutex
	// met is the set of terms that the node may still meet during a lookup.
	met set
	// counts is, by term, the number of required keys that the node has.
	counts  []int32
	present []int32
	key     []byte
	saved   []int32
	// bases are the terms that a node can meet, by its keys that terms name.
	bases map[string]set
	// outOf are the terms that reject a number, by key and number.
	outOf map[numbered]set
}

type numbered struct {
	key    int32
	number int64
}

// maxBases bounds each cache of a matcher. Nodes have few sets of keys, and few numbers.
const maxBases = 64

func matcherOf(x *index) *matcher {
	return &matcher{index: x, met: newSet(x.terms), bases: map[string]set{}, outOf: map[numbered]set{}}
}

// matches reports whether the node meets a term.
func (m *matcher) matches(node *v1.Node) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look(node)
	for _, word := range m.met {
		if word != 0 {
			return true
		}
	}
	return false
}

// weight returns the sum of the weights of the terms that the node meets.
func (m *matcher) weight(node *v1.Node) int32 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.look(node)
	var sum uint32
	for bit, plane := range m.planes {
		var count uint32
		for i, word := range plane {
			count += uint32(bits.OnesCount64(word & m.met[i]))
		}
		sum += count << bit
	}
	return int32(sum)
}

// look finds the terms that the node meets.
func (m *matcher) look(node *v1.Node) {
	m.present = m.present[:0]
	if len(m.byKey) <= len(node.Labels) {
		for key, at := range m.keys {
			if _, ok := node.Labels[key]; ok {
				m.present = append(m.present, at)
			}
		}
	} else {
		for key := range node.Labels {
			if at, ok := m.keys[key]; ok {
				m.present = append(m.present, at)
			}
		}
	}
	slices.Sort(m.present)
	copy(m.met, m.base())
	for _, at := range m.present {
		m.judge(at, node.Labels[m.byKey[at].name])
	}
	if m.names != nil {
		m.apply(m.names, node.Name)
	}
}

// base returns the terms that a node with these keys can meet.
func (m *matcher) base() set {
	m.key = m.key[:0]
	for _, at := range m.present {
		m.key = binary.AppendUvarint(m.key, uint64(at))
	}
	if base, known := m.bases[string(m.key)]; known {
		return base
	}
	base := slices.Clone(m.unconditional)
	if m.counts == nil {
		m.counts = make([]int32, m.terms)
	}
	for _, at := range m.present {
		for _, term := range m.byKey[at].requiring {
			if m.counts[term]++; m.counts[term] == m.requires[term] {
				base.put(term)
			}
		}
	}
	for _, at := range m.present {
		for _, term := range m.byKey[at].requiring {
			m.counts[term] = 0
		}
	}
	if len(m.bases) >= maxBases {
		clear(m.bases)
	}
	m.bases[string(m.key)] = base
	return base
}

// judge removes the terms that reject the value of a label.
func (m *matcher) judge(at int32, value string) {
	k := &m.byKey[at]
	m.apply(&k.keyed, value)
	if len(k.ranged) == 0 {
		return
	}
	number, ok := integer(value)
	if !ok {
		for i := range k.ranged {
			m.met.drop(k.ranged[i].term)
		}
		return
	}
	objecting := m.objectingTo(at, number)
	objecting.removeFrom(m.met)
}

// objectingTo returns the terms whose range excludes a number.
func (m *matcher) objectingTo(at int32, number int64) members {
	id := numbered{at, number}
	if out, known := m.outOf[id]; known {
		return members{all: out}
	}
	var list []int32
	ranged := m.byKey[at].ranged
	for i := range ranged {
		if !ranged[i].holds(number) {
			list = append(list, ranged[i].term)
		}
	}
	if len(ranged) <= sparse(m.terms) {
		return members{few: list}
	}
	if len(m.outOf) >= maxBases {
		clear(m.outOf)
	}
	m.outOf[id] = setOf(list, m.terms)
	return members{all: m.outOf[id]}
}

// apply removes the terms that reject a value, listed or not.
func (m *matcher) apply(k *keyed, value string) {
	number, listed := k.listed[value]
	if !listed {
		k.objecting.removeFrom(m.met)
		return
	}
	if all := k.objectors[number]; all != nil {
		all.removeFrom(m.met)
		return
	}
	verdicts := k.verdicts[number]
	m.saved = m.saved[:0]
	for _, v := range verdicts {
		if term := v.term(); v.accepts() && m.met.has(term) {
			m.saved = append(m.saved, term)
		}
	}
	k.objecting.removeFrom(m.met)
	for _, term := range m.saved {
		m.met.put(term)
	}
	for _, v := range verdicts {
		if !v.accepts() {
			m.met.drop(v.term())
		}
	}
}
