package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/kit/shrink"
	"github.com/berth-scheduler/berth/internal/model"
)

// reach is the set of nodes on which volumes or capacities can be used.
type reach struct {
	text     model.Need
	selector *model.NodeSelector
	// Invariant: nodes are the existing nodes that the selector selects; each lists the
	// reach once. at has the position of each.
	nodes []*Node
	at    map[*Node]int
	peak  int // of at
	// Invariant: a narrow reach has at most maxNarrow nodes; or, once it was narrow, at
	// most twice as many.
	narrow bool
	// Invariant: of has the groups and capacities with this reach, by class; no share is
	// empty.
	of map[*class]*share
	// Invariant: each selected node has a label in filed. It is empty if the selector
	// demands no label.
	filed []label
}

// share has the groups and capacities of a class in a reach.
type share struct {
	groups     []*Group
	capacities []*capacity
}

// label is a label of nodes.
type label struct{ key, value string }

const (
	// maxNarrow is the maximum size of a narrow reach. It limits the slots that a placed
	// pod adds to the journal for a volume.
	maxNarrow = 16
	// maxIdle is the number of unused reaches that are kept: the volumes of a zone are
	// often added and removed singly.
	maxIdle = 32
)

// reaches has the reaches of all free volumes and capacities. They are filed by demanded
// label values, so that a node, or a new reach, is matched only against likely partners.
type reaches struct {
	// Invariant: byText has exactly the reaches in use and the idle ones.
	byText map[model.Need]*reach
	// Invariant: idle are the unused reaches, at most maxIdle, the longest unused first.
	idle []*reach
	// Invariant: byKey has exactly the label keys whose values some reach demands of its
	// nodes. Each reach is listed once under each of its filed labels, of which every
	// node of the reach has one; in general if it has none; and nowhere else.
	byKey   map[string]*filedReaches
	general []*reach
	// Invariant: mentions counts, by label, the reaches whose selector reads it.
	mentions     map[string]int
	mentionsPeak int
}

// filedReaches are the reaches filed under values of a label, and the existing nodes with
// the label.
type filedReaches struct {
	// Invariant: reaches and nodes have no empty list.
	reaches map[string][]*reach
	nodes   map[string][]*Node
	// Invariant: demanded is the number of reaches that demand values of the label, filed
	// under it or not; it is not 0.
	demanded               int
	reachesPeak, nodesPeak int
}

func newReaches() reaches {
	return reaches{byText: map[model.Need]*reach{}, byKey: map[string]*filedReaches{}, mentions: map[string]int{}}
}

// get returns the reach of a text, and adds it if it is new.
func (rs *reaches) get(s *Store, text model.Need) *reach {
	if r := rs.byText[text]; r != nil {
		if len(r.of) == 0 {
			rs.idle = without(rs.idle, r)
		}
		return r
	}
	r := &reach{text: text, selector: model.NodeSelectorOf(text), at: map[*Node]int{}, of: map[*class]*share{}}
	rs.byText[text] = r
	for _, key := range r.selector.Mentions() {
		rs.mentions[key]++
	}
	for _, key := range demanded(r.selector) {
		rs.under(s, key).demanded++
	}
	r.filed = rs.filing(r.selector)
	for _, l := range r.filed {
		by := rs.byKey[l.key]
		by.reaches[l.value] = append(by.reaches[l.value], r)
		for _, n := range by.nodes[l.value] {
			rs.match(s, r, n)
		}
	}
	if r.filed == nil {
		rs.general = append(rs.general, r)
		for _, n := range s.bySlot {
			if n != nil && n.alive {
				rs.match(s, r, n)
			}
		}
	}
	r.narrow = len(r.nodes) <= maxNarrow
	return r
}

// demanded returns the label keys whose values a selector demands, each once.
func demanded(selector *model.NodeSelector) []string {
	var keys []string
	for _, term := range selector.Demands() {
		for i := range term {
			keys = append(keys, term[i].Label)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// filing returns labels such that each selected node has at least one. If a term demands
// several keys, it takes the key with the fewest nodes and filed reaches.
func (rs *reaches) filing(selector *model.NodeSelector) []label {
	var filed []label
	for _, term := range selector.Demands() {
		best := slices.MinFunc(term, func(a, b model.Zone) int { return rs.listed(&a) - rs.listed(&b) })
		for _, value := range best.Values {
			if l := (label{best.Label, value}); !slices.Contains(filed, l) {
				filed = append(filed, l)
			}
		}
	}
	return filed
}

func (rs *reaches) listed(zone *model.Zone) (n int) {
	by := rs.byKey[zone.Label]
	for _, value := range zone.Values {
		n += len(by.nodes[value]) + len(by.reaches[value])
	}
	return n
}

// under returns the reaches filed under a label key, with the nodes that have the label.
func (rs *reaches) under(s *Store, key string) *filedReaches {
	by := rs.byKey[key]
	if by == nil {
		by = &filedReaches{reaches: map[string][]*reach{}, nodes: map[string][]*Node{}}
		rs.byKey[key] = by
		for _, n := range s.bySlot {
			if n != nil && n.alive {
				if value, ok := n.labels[key]; ok {
					by.nodes[value] = append(by.nodes[value], n)
				}
			}
		}
	}
	return by
}

// match adds a node to a reach if the reach selects it.
func (rs *reaches) match(s *Store, r *reach, n *Node) {
	if _, listed := r.at[n]; listed {
		return
	}
	s.work.Matched++
	if r.selector.Matches(n.labels) {
		r.at[n] = len(r.nodes)
		r.nodes = append(r.nodes, n)
		n.reaches = append(n.reaches, r)
	}
}

// share returns the groups and capacities of a class in the reach.
func (r *reach) share(c *class) *share {
	x := r.of[c]
	if x == nil {
		x = &share{}
		r.of[c] = x
	}
	return x
}

// release is called when a group or capacity of a class has left the reach. An unused
// reach is kept for a while.
func (rs *reaches) release(r *reach, c *class) {
	if x := r.of[c]; len(x.groups) > 0 || len(x.capacities) > 0 {
		return
	}
	if delete(r.of, c); len(r.of) > 0 {
		return
	}
	if rs.idle = append(rs.idle, r); len(rs.idle) > maxIdle {
		longest := rs.idle[0]
		rs.idle = slices.Delete(rs.idle, 0, 1)
		rs.forget(longest)
	}
}

func (rs *reaches) forget(r *reach) {
	delete(rs.byText, r.text)
	for _, n := range r.nodes {
		n.reaches = without(n.reaches, r)
	}
	for _, key := range r.selector.Mentions() {
		if rs.mentions[key]--; rs.mentions[key] == 0 {
			delete(rs.mentions, key)
		}
	}
	rs.mentions = shrink.Map(rs.mentions, &rs.mentionsPeak)
	if r.filed == nil {
		rs.general = without(rs.general, r)
	}
	for _, l := range r.filed {
		by := rs.byKey[l.key]
		if by.reaches[l.value] = without(by.reaches[l.value], r); len(by.reaches[l.value]) == 0 {
			delete(by.reaches, l.value)
		}
		by.shrink()
	}
	for _, key := range demanded(r.selector) {
		if by := rs.byKey[key]; by.demanded > 1 {
			by.demanded--
		} else {
			delete(rs.byKey, key)
		}
	}
}

func (by *filedReaches) shrink() {
	by.reaches, by.nodes = shrink.Map(by.reaches, &by.reachesPeak), shrink.Map(by.nodes, &by.nodesPeak)
}

// moveNode updates the reaches after a node was added or deleted or its labels have
// changed.
func (rs *reaches) moveNode(s *Store, n *Node, before labels.Set, existed bool) {
	if existed && n.alive && !rs.concerns(before, n.labels) {
		return
	}
	keys := rs.keys(before, n.labels)
	for _, key := range keys {
		by := rs.byKey[key]
		was, had := before[key]
		is, has := n.labels[key]
		if had == has && was == is {
			continue
		}
		if had {
			if by.nodes[was] = without(by.nodes[was], n); len(by.nodes[was]) == 0 {
				delete(by.nodes, was)
			}
		}
		if has {
			by.nodes[is] = append(by.nodes[is], n)
		}
		by.shrink()
	}
	left := n.reaches
	n.reaches = nil
	for _, r := range left {
		r.unlist(n)
	}
	if n.alive {
		for _, key := range keys {
			if value, has := n.labels[key]; has {
				for _, r := range rs.byKey[key].reaches[value] {
					rs.match(s, r, n)
				}
			}
		}
		for _, r := range rs.general {
			rs.match(s, r, n)
		}
	}
	for _, r := range left {
		rs.resize(s, r)
	}
	for _, r := range n.reaches {
		rs.resize(s, r)
	}
}

// concerns reports whether some selector reads a label that has changed.
func (rs *reaches) concerns(before, after labels.Set) bool {
	for key, value := range after {
		if was, had := before[key]; (!had || was != value) && rs.mentions[key] > 0 {
			return true
		}
	}
	for key := range before {
		if _, has := after[key]; !has && rs.mentions[key] > 0 {
			return true
		}
	}
	return false
}

// keys returns the keys of the labels whose values some reach demands, sorted.
func (rs *reaches) keys(before, after labels.Set) []string {
	var keys []string
	for _, of := range [...]labels.Set{before, after} {
		for key := range of {
			if rs.byKey[key] != nil {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (r *reach) unlist(n *Node) {
	r.nodes = drop(r.nodes, r.at[n], func(moved *Node, at int) { r.at[moved] = at })
	delete(r.at, n)
	r.at = shrink.Map(r.at, &r.peak)
}

// resize makes a reach wide or narrow when its number of nodes has changed. It becomes
// narrow again only at half the size that made it wide, so that a few added and removed
// nodes do not toggle it. The change invalidates all values computed before.
func (rs *reaches) resize(s *Store, r *reach) {
	narrow := len(r.nodes) <= maxNarrow
	if narrow == r.narrow || !narrow && len(r.nodes) <= 2*maxNarrow {
		return
	}
	for c, share := range r.of {
		for _, g := range share.groups {
			if narrow {
				c.unlistWide(g)
			} else {
				c.listWide(g)
			}
		}
		for _, x := range share.capacities {
			if narrow {
				c.unlistWideCapacity(x)
			} else {
				c.listWideCapacity(x)
			}
		}
	}
	r.narrow = true
	if len(r.of) > 0 {
		s.touchSupply(r)
	}
	r.narrow = narrow
}
