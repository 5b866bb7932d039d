package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/shrink"
)

// reach is the nodes that volumes or capacities can be used on.
type reach struct {
	text     model.Need
	selector *model.NodeSelector
	// Invariant: nodes are the nodes that exist and that the selector selects; each lists the reach once. at has the position of each.
	nodes []*Node
	at    map[*Node]int
	peak  int // of at
	// Invariant: narrow means that there are at most narrowMax nodes; or, once it was narrow, at most twice as many.
	narrow bool
	// Invariant: of has what the reach is of, by class; no share is empty.
	of map[*class]*share
	// Invariant: filed are the labels of which each selected node has one, in a form that the selector demands; none if it demands none.
	filed []label
}

// share is what of a class has a reach.
type share struct {
	groups     []*Group
	capacities []*capacity
}

// label is a label of nodes.
type label struct{ key, value string }

const (
	// narrowMax is how many nodes a narrow reach has. It is the number of slots that a placed pod may add to the journal for one volume.
	narrowMax = 16
	// idleMax is how many reaches are kept that nothing has any more: volumes of one zone often come and go one by one.
	idleMax = 32
)

// reaches are the reaches of everything that is free. They are filed by values of labels that they demand, so that a node, or a new reach, is
// matched against those that it may concern.
type reaches struct {
	// Invariant: byText has the reaches that something has, and those of idle, and no other.
	byText map[model.Need]*reach
	// Invariant: idle are the reaches that nothing has any more, at most idleMax of them, the longest unused first.
	idle []*reach
	// Invariant: byKey has the labels of which some reach demands values, and no other. Each reach is listed once under each label under which it is
	// filed, or in general if it is filed under none, and nowhere else.
	byKey   map[string]*filedReaches
	general []*reach
	// Invariant: mentions counts, by label, the reaches whose selector looks at it.
	mentions     map[string]int
	mentionsPeak int
}

// filedReaches are the reaches that are filed under values of a label, and the nodes that exist and have the label.
type filedReaches struct {
	// Invariant: reaches and nodes have no empty list.
	reaches map[string][]*reach
	nodes   map[string][]*Node
	// Invariant: demanded is how many reaches demand values of the label, filed under it or not; it is not 0.
	demanded               int
	reachesPeak, nodesPeak int
}

func newReaches() reaches {
	return reaches{byText: map[model.Need]*reach{}, byKey: map[string]*filedReaches{}, mentions: map[string]int{}}
}

// get returns the reach of a text, which it makes if it is new.
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
	r.narrow = len(r.nodes) <= narrowMax
	return r
}

// demanded returns the labels of which a selector demands values, each once.
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

// filing returns labels of which each node that is selected has one. Of several that a term demands, those are taken that the fewest nodes have and
// under which the fewest reaches are filed.
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

// under returns the reaches that are filed under a label, with the nodes that have it.
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

// match lists a node in a reach if it is in it.
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

// share returns what of a class has the reach.
func (r *reach) share(c *class) *share {
	x := r.of[c]
	if x == nil {
		x = &share{}
		r.of[c] = x
	}
	return x
}

// release is called when something of a class no longer has a reach. One that nothing has any more is kept for a while.
func (rs *reaches) release(r *reach, c *class) {
	if x := r.of[c]; len(x.groups) > 0 || len(x.capacities) > 0 {
		return
	}
	if delete(r.of, c); len(r.of) > 0 {
		return
	}
	if rs.idle = append(rs.idle, r); len(rs.idle) > idleMax {
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

// moveNode takes in that a node has come or gone, or has other labels than before.
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

// concerns reports whether labels that have changed are looked at by some selector.
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

// keys returns those of the labels of which values are demanded, in order.
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

// resize makes a reach wide or narrow when its number of nodes has changed. It becomes narrow again only when it has far fewer nodes, so that
// nodes that come and go do not make it change each time. Values that were computed before it changed are not valid any more.
func (rs *reaches) resize(s *Store, r *reach) {
	narrow := len(r.nodes) <= narrowMax
	if narrow == r.narrow || !narrow && len(r.nodes) <= 2*narrowMax {
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
