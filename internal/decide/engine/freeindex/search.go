package freeindex

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// Weighted is a Score plugin's compiled need with the plugin's weight.
type Weighted struct {
	plugin.AmountScores
	Weight int64
}

// Query is the search for the best nodes for a pod.
type Query struct {
	Demand Demand
	// Scores depend on the amounts of a node.
	Scores []Weighted
	// Groups are the groups to search, Base the score of each besides Scores.
	Groups []int32
	Base   []int64
	// Alone are marked nodes to evaluate, AloneBase the score of each besides Scores.
	Alone     []int32
	AloneBase []int64
}

// Best is the result of a search.
type Best struct {
	Total int64
	// Slots have the highest total, in any order. It belongs to the index and is valid
	// until the next search.
	Slots []int32
}

// Mark replaces the marked nodes. A search and Example leave these out of their groups,
// for example because they run pods that the scores count.
func (x *Index) Mark(slots []int32) {
	x.mark++
	for _, slot := range slots {
		if x.GroupOf(slot) < 0 {
			continue
		}
		x.marked[slot] = x.mark
		if leaf := x.leaf[slot]; leaf != nil {
			leaf.mark = x.mark
		}
	}
}

// Feasible returns the number of nodes of a group, including marked ones, into which the
// demand fits.
func (x *Index) Feasible(group int32, d *Demand) int {
	g := &x.groups[group]
	n := 0
	for _, slot := range g.odd {
		if d.fits(&x.amounts[slot]) {
			n++
		}
	}
	x.Looked += int64(len(g.odd))
	return n + x.count(g.root, d)
}

// Fits reports whether the demand fits into a node.
func (x *Index) Fits(slot int32, d *Demand) bool {
	x.Looked++
	return d.fits(&x.amounts[slot])
}

// Example returns the slot of a node of a group that is not marked, or -1.
func (x *Index) Example(group int32) int32 {
	g := &x.groups[group]
	for _, slot := range g.odd {
		if x.marked[slot] != x.mark {
			return slot
		}
	}
	return x.example(g.root)
}

func (x *Index) example(n *node) int32 {
	if n == nil {
		return -1
	}
	for _, slot := range n.slots {
		if x.marked[slot] != x.mark {
			return slot
		}
	}
	if n.kids != nil {
		for _, kid := range n.kids {
			if slot := x.example(kid); slot >= 0 {
				return slot
			}
		}
	}
	return -1
}

func (x *Index) count(n *node, d *Demand) (feasible int) {
	if n == nil {
		return 0
	}
	x.Looked++
	switch {
	case !n.box.most.meets(d):
		return 0
	case n.box.least.meets(d):
		return n.nodes
	case n.kids != nil:
		for _, kid := range n.kids {
			feasible += x.count(kid, d)
		}
		return feasible
	}
	x.Looked += int64(len(n.slots))
	for _, slot := range n.slots {
		if d.fits(&x.amounts[slot]) {
			feasible++
		}
	}
	return feasible
}

// search is a search under way.
type search struct {
	*Query
	base int64 // of the group
	best Best
	// found means that best has a node.
	found bool
}

// candidate is a tree, or a part of one, with a bound.
type candidate struct {
	n     *node
	base  int64
	bound int64
}

// Search returns the nodes with the highest total among those into which the demand fits.
// ok is false if it fits into none.
func (x *Index) Search(q *Query) (best Best, ok bool) {
	s := search{Query: q, best: Best{Slots: x.tied[:0]}}
	roots := x.roots[:0]
	for i, slot := range q.Alone {
		s.base = q.AloneBase[i]
		x.look(&s, slot)
	}
	for i, group := range q.Groups {
		g := &x.groups[group]
		s.base = q.Base[i]
		for _, slot := range g.odd {
			if x.marked[slot] != x.mark {
				x.look(&s, slot)
			}
		}
		if g.root != nil && g.root.box.most.meets(&q.Demand) {
			roots = append(roots, candidate{g.root, s.base, s.bound(g.root)})
		}
	}
	slices.SortFunc(roots, func(a, b candidate) int { return int(b.bound - a.bound) })
	for _, c := range roots {
		s.base = c.base
		x.descend(&s, c.n, c.bound)
	}
	x.roots, x.tied = roots, s.best.Slots
	return s.best, s.found
}

// bound returns the highest total that a node below may have.
func (s *search) bound(n *node) int64 {
	total := s.base
	for _, scores := range s.Scores {
		total += scores.Weight * int64(scores.BoundAmounts(&n.box.AmountBox))
	}
	return total
}

// descend searches a part of a tree, the best quarter first.
func (x *Index) descend(s *search, n *node, bound int64) {
	if s.found && bound < s.best.Total {
		return
	}
	x.Looked++
	if n.kids == nil {
		x.lookAll(s, n)
		return
	}
	var quarters [4]candidate
	k := 0
	for _, kid := range n.kids {
		if kid == nil || !kid.box.most.meets(&s.Demand) {
			continue
		}
		c := candidate{n: kid, bound: s.bound(kid)}
		at := k
		for ; at > 0 && quarters[at-1].bound < c.bound; at-- {
			quarters[at] = quarters[at-1]
		}
		quarters[at] = c
		k++
	}
	for i := range quarters[:k] {
		x.descend(s, quarters[i].n, quarters[i].bound)
	}
}

// lookAll looks at the nodes of a leaf, except for marked ones. Nodes that are alike are
// evaluated once.
func (x *Index) lookAll(s *search, leaf *node) {
	slots := leaf.slots
	if leaf.mark == x.mark {
		x.unmarked = x.unmarked[:0]
		for _, slot := range slots {
			if x.marked[slot] != x.mark {
				x.unmarked = append(x.unmarked, slot)
			}
		}
		slots = x.unmarked
	}
	if !leaf.alike {
		for _, slot := range slots {
			x.look(s, slot)
		}
	} else if len(slots) > 0 && x.look(s, slots[0]) {
		s.best.Slots = append(s.best.Slots, slots[1:]...)
	}
}

// look evaluates a node. It reports whether the node is among the best so far.
func (x *Index) look(s *search, slot int32) bool {
	x.Looked++
	amounts := x.amounts[slot : slot+1]
	if !s.Demand.fits(&amounts[0]) {
		return false
	}
	total := s.base
	for _, scores := range s.Scores {
		scores.ScoreAmounts(amounts, x.one[:])
		total += scores.Weight * int64(x.one[0])
	}
	switch {
	case !s.found || total > s.best.Total:
		s.found, s.best.Total = true, total
		s.best.Slots = append(s.best.Slots[:0], slot)
	case total == s.best.Total:
		s.best.Slots = append(s.best.Slots, slot)
	default:
		return false
	}
	return true
}
