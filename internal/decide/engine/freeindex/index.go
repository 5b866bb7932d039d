package freeindex

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
)

// Index holds nodes by slot, in groups. It is not safe for concurrent use.
type Index struct {
	// Looked counts the boxes and nodes that were looked at.
	Looked int64
	// These are by slot. group is -1 for none. leaf is nil for a node that is not in a
	// tree. at is the position in the leaf or the list.
	amounts []state.NodeAmounts
	group   []int32
	leaf    []*node
	at      []int32
	groups  []group
	// A node is marked if the number at its slot is mark, which is at least 1.
	marked []uint32
	mark   uint32
	// Memory of searches.
	one            [1]int32
	tied, unmarked []int32
	roots          []candidate
}

// group is some nodes that differ in nothing but amounts.
type group struct {
	nodes int
	root  *node
	// odd are nodes outside of the tree, because bounds do not apply to them.
	odd []int32
}

// New returns an empty index.
func New() *Index { return &Index{mark: 1} }

// AddGroup adds a group without nodes. Groups are numbered from 0.
func (x *Index) AddGroup() { x.groups = append(x.groups, group{}) }

// Nodes returns the number of nodes of a group.
func (x *Index) Nodes(group int32) int { return x.groups[group].nodes }

// GroupOf returns the group of the node of a slot, or -1 if it is not in the index.
func (x *Index) GroupOf(slot int32) int32 {
	if int(slot) >= len(x.group) {
		return -1
	}
	return x.group[slot]
}

// Resize sets the number of slots. Nodes in slots beyond it are removed.
func (x *Index) Resize(slots int) {
	for slot := slots; slot < len(x.group); slot++ {
		x.Remove(int32(slot))
	}
	if slots < len(x.group) {
		x.amounts, x.group, x.leaf, x.at, x.marked = x.amounts[:slots], x.group[:slots], x.leaf[:slots], x.at[:slots], x.marked[:slots]
	}
	x.grow(slots)
}

func (x *Index) grow(slots int) {
	n := len(x.group)
	if slots <= n {
		return
	}
	x.amounts = slices.Grow(x.amounts, slots-n)[:slots]
	x.group = slices.Grow(x.group, slots-n)[:slots]
	x.leaf = slices.Grow(x.leaf, slots-n)[:slots]
	x.at = slices.Grow(x.at, slots-n)[:slots]
	x.marked = slices.Grow(x.marked, slots-n)[:slots]
	for slot := n; slot < slots; slot++ {
		x.group[slot], x.leaf[slot], x.marked[slot] = -1, nil, 0
	}
}

// bytesOfSlot is about the size of a slot: its amounts, its group, leaf and position, its
// entry in the leaf, and its share of leaves and inner nodes.
const (
	bytesOfSlot  = 80 + 4 + 8 + 4 + 4 + 4 + 100
	bytesOfGroup = 40
)

// Bytes returns the approximate size of the index.
func (x *Index) Bytes() int { return 4<<10 + bytesOfSlot*len(x.group) + bytesOfGroup*len(x.groups) }
