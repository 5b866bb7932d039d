package freeindex

import "github.com/berth-scheduler/berth/internal/cluster/state"

const (
	// A leaf with more than crowded nodes is cut in four, unless its nodes have equal
	// amounts. An inner node with at most sparse nodes becomes a leaf.
	crowded, sparse = 16, 8
	// deepest is the depth at which a leaf is not cut.
	deepest = 13
	// A leaf with more than crowded nodes of different amounts computes its box again
	// when one of eight nodes has left.
	restack = 8
)

// node is an inner node or a leaf of a tree.
type node struct {
	parent *node
	cell   cell
	depth  int
	nodes  int
	box    box
	kids   *[4]*node // of an inner node
	slots  []int32   // of a leaf
	// alike means that the nodes of a leaf have equal amounts.
	alike bool
	// left counts the nodes that left since the box was computed.
	left int
	// mark is the number of the last mark of a node of a leaf.
	mark uint32
}

// Put adds the node of a slot, which must not be in the index, to a group.
func (x *Index) Put(slot, group int32, n *state.NodeAmounts) {
	x.grow(int(slot) + 1)
	x.amounts[slot], x.group[slot] = *n, group
	g := &x.groups[group]
	g.nodes++
	if !isRegular(n) {
		x.at[slot] = int32(len(g.odd))
		g.odd = append(g.odd, slot)
		return
	}
	b := boxOf(n)
	at, parent, of, depth := &g.root, (*node)(nil), plane, 0
	for {
		if *at == nil {
			*at = &node{parent: parent, cell: of, depth: depth, alike: true}
		}
		if (*at).kids == nil && x.takes(*at, n) {
			x.add(*at, slot, &b)
			return
		}
		if (*at).kids == nil {
			*at = x.cut(*at)
		}
		inner := *at
		inner.nodes++
		inner.box.widen(&b)
		q := inner.cell.quadrant(&b)
		at, parent, of, depth = &inner.kids[q], inner, inner.cell.quarter(q), depth+1
	}
}

// takes reports whether a leaf can take another node.
func (x *Index) takes(leaf *node, n *state.NodeAmounts) bool {
	return leaf.nodes < crowded || leaf.depth == deepest || leaf.alike && x.amounts[leaf.slots[0]] == *n
}

// add adds a node to a leaf.
func (x *Index) add(leaf *node, slot int32, b *box) {
	if leaf.nodes == 0 {
		leaf.box, leaf.alike = *b, true
	} else {
		leaf.box.widen(b)
		leaf.alike = leaf.alike && x.amounts[leaf.slots[0]] == x.amounts[slot]
	}
	x.leaf[slot], x.at[slot] = leaf, int32(len(leaf.slots))
	leaf.slots = append(leaf.slots, slot)
	leaf.nodes++
}

// cut returns the inner node that takes the place of a leaf. A leaf of any number of
// nodes that are alike sinks into a quarter as it is.
func (x *Index) cut(leaf *node) *node {
	inner := &node{parent: leaf.parent, cell: leaf.cell, depth: leaf.depth, nodes: leaf.nodes, box: leaf.box, kids: new([4]*node)}
	if leaf.alike {
		q := inner.cell.quadrant(&leaf.box)
		leaf.parent, leaf.cell, leaf.depth = inner, inner.cell.quarter(q), inner.depth+1
		inner.kids[q] = leaf
		return inner
	}
	for _, slot := range leaf.slots {
		b := boxOf(&x.amounts[slot])
		q := inner.cell.quadrant(&b)
		if inner.kids[q] == nil {
			inner.kids[q] = &node{parent: inner, cell: inner.cell.quarter(q), depth: inner.depth + 1}
		}
		x.add(inner.kids[q], slot, &b)
	}
	return inner
}

// Remove removes the node of a slot, if it is in the index.
func (x *Index) Remove(slot int32) {
	if int(slot) >= len(x.group) || x.group[slot] < 0 {
		return
	}
	g := &x.groups[x.group[slot]]
	g.nodes--
	x.group[slot] = -1
	leaf := x.leaf[slot]
	if leaf == nil {
		x.takeOut(&g.odd, slot)
		return
	}
	x.leaf[slot] = nil
	x.takeOut(&leaf.slots, slot)
	leaf.nodes--
	if leaf.left++; leaf.nodes > 0 && !leaf.alike && (leaf.nodes <= crowded || leaf.left*restack > leaf.nodes) {
		x.measure(leaf)
	}
	x.ascend(g, leaf)
}

// takeOut removes a slot from its list.
func (x *Index) takeOut(slots *[]int32, slot int32) {
	all := *slots
	last := all[len(all)-1]
	all[x.at[slot]], x.at[last] = last, x.at[slot]
	*slots = all[:len(all)-1]
}

// measure computes the box of a leaf.
func (x *Index) measure(leaf *node) {
	leaf.left = 0
	leaf.alike = true
	for i, slot := range leaf.slots {
		b := boxOf(&x.amounts[slot])
		if i == 0 {
			leaf.box = b
			continue
		}
		leaf.box.widen(&b)
		leaf.alike = leaf.alike && x.amounts[leaf.slots[0]] == x.amounts[slot]
	}
}

// ascend brings the nodes above up to date, after a node has left.
func (x *Index) ascend(g *group, n *node) {
	for {
		above := n.parent
		if n.nodes == 0 {
			g.replace(n, nil)
		} else if n.kids != nil && n.nodes <= sparse {
			g.replace(n, x.gather(n))
		}
		if above == nil {
			return
		}
		above.nodes--
		above.measure()
		n = above
	}
}

// measure computes the box of an inner node.
func (n *node) measure() {
	first := true
	for _, kid := range n.kids {
		switch {
		case kid == nil:
		case first:
			n.box, first = kid.box, false
		default:
			n.box.widen(&kid.box)
		}
	}
}

// replace puts another node, or nil, in the place of a node.
func (g *group) replace(n, by *node) {
	if n.parent == nil {
		g.root = by
		return
	}
	for q, kid := range n.parent.kids {
		if kid == n {
			n.parent.kids[q] = by
		}
	}
}

// gather returns a leaf with all nodes below an inner node.
func (x *Index) gather(n *node) *node {
	leaf := &node{parent: n.parent, cell: n.cell, depth: n.depth}
	n.each(func(slot int32) {
		b := boxOf(&x.amounts[slot])
		x.add(leaf, slot, &b)
	})
	return leaf
}

// each yields the slots of all nodes below.
func (n *node) each(yield func(slot int32)) {
	if n.kids == nil {
		for _, slot := range n.slots {
			yield(slot)
		}
		return
	}
	for _, kid := range n.kids {
		if kid != nil {
			kid.each(yield)
		}
	}
}
