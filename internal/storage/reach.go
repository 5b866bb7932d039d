package storage

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// reach is the nodes that volumes or capacities can be used on.
type reach struct {
	text     model.Need
	selector *model.NodeSelector
	// Invariant: nodes are the nodes that exist and that the selector selects; each lists the reach once. at has the position of each.
	nodes []*Node
	at    map[*Node]int
	// Invariant: narrow means that there are at most narrowMax nodes; or, once it was narrow, at most twice as many.
	narrow     bool
	groups     []*Group
	capacities []*capacity
	// filed is the label under which it is filed, if it requires one.
	filed   model.Zone
	isFiled bool
}

// narrowMax is how many nodes a narrow reach has. It is the number of slots that a placed pod may add to the journal for one volume.
const narrowMax = 16

// reaches are the reaches of everything that is free. They are filed by the values of a label that they require, so that a node, or a new reach,
// is matched against those that it may concern.
type reaches struct {
	// Invariant: byText has the reaches with groups or capacities.
	byText map[model.Need]*reach
	// Invariant: each is filed under each value of its label, or listed in general.
	byLabel map[string]*labelReaches
	general []*reach
}

// labelReaches are the reaches that require a value of a label, and the nodes that have one.
type labelReaches struct {
	reaches map[string][]*reach
	nodes   map[string][]*Node
	filed   int // how many reaches there are
}

func newReaches() reaches {
	return reaches{byText: map[model.Need]*reach{}, byLabel: map[string]*labelReaches{}}
}

// get returns the reach of a text, which it makes if it is new.
func (rs *reaches) get(s *Store, text model.Need) *reach {
	if r := rs.byText[text]; r != nil {
		return r
	}
	r := &reach{text: text, selector: model.NodeSelectorOf(text), at: map[*Node]int{}, narrow: true}
	rs.byText[text] = r
	if r.filed, r.isFiled = r.selector.Requires(); !r.isFiled {
		rs.general = append(rs.general, r)
		for _, n := range s.bySlot {
			if n != nil && n.alive {
				rs.match(s, r, n)
			}
		}
	} else {
		by := rs.labelled(s, r.filed.Label)
		by.filed++
		for i, value := range r.filed.Values {
			if slices.Contains(r.filed.Values[:i], value) {
				continue
			}
			by.reaches[value] = append(by.reaches[value], r)
			for _, n := range by.nodes[value] {
				rs.match(s, r, n)
			}
		}
	}
	r.narrow = len(r.nodes) <= narrowMax
	return r
}

// labelled returns the reaches that require a label, with the nodes that have it.
func (rs *reaches) labelled(s *Store, label string) *labelReaches {
	by := rs.byLabel[label]
	if by == nil {
		by = &labelReaches{reaches: map[string][]*reach{}, nodes: map[string][]*Node{}}
		rs.byLabel[label] = by
		for _, n := range s.bySlot {
			if n != nil && n.alive {
				if value, ok := n.labels[label]; ok {
					by.nodes[value] = append(by.nodes[value], n)
				}
			}
		}
	}
	return by
}

// match lists a node in a reach if it is in it.
func (rs *reaches) match(s *Store, r *reach, n *Node) {
	s.work.Matched++
	if _, listed := r.at[n]; listed || !r.selector.Matches(n.labels) {
		return
	}
	r.at[n] = len(r.nodes)
	r.nodes = append(r.nodes, n)
	n.reaches = append(n.reaches, r)
}

// forget drops a reach that nothing has any more.
func (rs *reaches) forget(r *reach) {
	if len(r.groups) > 0 || len(r.capacities) > 0 {
		return
	}
	delete(rs.byText, r.text)
	for _, n := range r.nodes {
		n.reaches = without(n.reaches, r)
	}
	if !r.isFiled {
		rs.general = without(rs.general, r)
		return
	}
	by := rs.byLabel[r.filed.Label]
	for i, value := range r.filed.Values {
		if slices.Contains(r.filed.Values[:i], value) {
			continue
		}
		if by.reaches[value] = without(by.reaches[value], r); len(by.reaches[value]) == 0 {
			delete(by.reaches, value)
		}
	}
	if by.filed--; by.filed == 0 {
		delete(rs.byLabel, r.filed.Label)
	}
}

// moveNode takes in that a node has come or gone, or has other labels than before.
func (rs *reaches) moveNode(s *Store, n *Node, before labels.Set) {
	for label, by := range rs.byLabel {
		was, had := before[label]
		is, has := n.labels[label]
		if has = has && n.alive; had == has && was == is {
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
	}
	left := n.reaches
	n.reaches = nil
	for _, r := range left {
		r.unlist(n)
	}
	if n.alive {
		for label, by := range rs.byLabel {
			for _, r := range by.reaches[n.labels[label]] {
				rs.match(s, r, n)
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

func (r *reach) unlist(n *Node) {
	i, last := r.at[n], len(r.nodes)-1
	r.nodes[i] = r.nodes[last]
	r.at[r.nodes[i]] = i
	r.nodes[last] = nil
	r.nodes = r.nodes[:last]
	delete(r.at, n)
}

// resize makes a reach wide or narrow when its number of nodes has changed. It becomes narrow again only when it has far fewer nodes, so that
// nodes that come and go do not make it change each time. Values that were computed before it changed are not valid any more.
func (rs *reaches) resize(s *Store, r *reach) {
	narrow := len(r.nodes) <= narrowMax
	if narrow == r.narrow || !narrow && len(r.nodes) <= 2*narrowMax {
		return
	}
	for _, g := range r.groups {
		if narrow {
			g.class.unlistWide(g)
		} else {
			g.class.listWide(g)
		}
	}
	r.narrow = true
	s.touchSupply(r)
	r.narrow = narrow
}
