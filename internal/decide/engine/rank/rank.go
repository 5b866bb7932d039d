package rank

import "slices"

// Coordinates are the common properties of the nodes of a group. The caller defines the
// meaning of each.
type Coordinates [10]int32

// Table holds the nodes, by slot. It is not safe for concurrent use.
type Table struct {
	// level, at and place are indexed by slot: the node's level, -1 for none; its
	// position there; and its place in the order of equal nodes.
	level, at []int32
	place     []uint64
	levels    []level
	freeLevel []int32
	groups    []Group
	freeGroup []int32
	// Invariant: find has the groups with nodes, each under its coordinates.
	find      map[Coordinates]int32
	last      int32 // the group that was found last
	maxGroups int
	// filling means that sets are not divided into buckets until Filled is called.
	filling bool
	choice  choice
}

// Group is the nodes with the same coordinates. Its zero value is empty.
type Group struct {
	Of Coordinates
	// Nodes is the number of nodes; the other methods need at least one.
	Nodes int
	// sums are the distinct sums of the nodes, ascending; levels are their levels.
	sums   []int64
	levels []int32
}

// level is the nodes of a group with the same sum.
type level struct {
	group int32
	sum   int64
	set
}

// New returns an empty table of at most this many groups. Put the existing nodes first,
// and then call Filled before anything else.
func New(maxGroups int) *Table {
	return &Table{find: map[Coordinates]int32{}, maxGroups: maxGroups, filling: true}
}

// Filled ends the filling of a new table.
func (t *Table) Filled() {
	t.filling = false
	for i := range t.levels {
		t.levels[i].settle(t)
	}
}

// Resize sets the number of slots. Nodes in slots beyond it are removed.
func (t *Table) Resize(slots int) {
	for slot := slots; slot < len(t.level); slot++ {
		t.Remove(int32(slot))
	}
	if n := len(t.level); slots > n {
		t.level = slices.Grow(t.level, slots-n)[:slots]
		t.at = slices.Grow(t.at, slots-n)[:slots]
		t.place = slices.Grow(t.place, slots-n)[:slots]
		for slot := n; slot < slots; slot++ {
			t.level[slot] = -1
		}
		return
	}
	t.level, t.at, t.place = t.level[:slots], t.at[:slots], t.place[:slots]
}

// Groups returns all groups, including empty ones that callers must skip. The slice
// belongs to the table and is valid until it changes.
func (t *Table) Groups() []Group { return t.groups }

// Example returns the slot of one node of a group.
func (t *Table) Example(g *Group) int32 { return t.levels[g.levels[0]].first() }

// Best returns the highest sum of a group's nodes.
func (t *Table) Best(g *Group) int64 { return g.sums[len(g.sums)-1] }

// Put adds the node of a slot, which must not be in the table. place is its place in the
// order of equal nodes, evenly spread over all numbers. It returns false if another group
// is not allowed.
func (t *Table) Put(slot int32, place uint64, of Coordinates, sum int64) bool {
	group, ok := t.group(of)
	if !ok {
		return false
	}
	id := t.levelOf(group, sum)
	t.level[slot], t.place[slot] = id, place
	t.levels[id].add(t, slot)
	t.groups[group].Nodes++
	return true
}

// group returns the group with the coordinates, adding it if necessary.
func (t *Table) group(of Coordinates) (group int32, ok bool) {
	if int(t.last) < len(t.groups) && t.groups[t.last].Nodes > 0 && t.groups[t.last].Of == of {
		return t.last, true
	}
	if group, ok = t.find[of]; ok {
		t.last = group
		return group, true
	}
	if len(t.find) == t.maxGroups {
		return 0, false
	}
	if n := len(t.freeGroup); n > 0 {
		group, t.freeGroup = t.freeGroup[n-1], t.freeGroup[:n-1]
	} else {
		group = int32(len(t.groups))
		t.groups = append(t.groups, Group{})
	}
	t.find[of], t.groups[group].Of = group, of
	return group, true
}

// levelOf returns the level of a sum in a group, adding it if necessary.
func (t *Table) levelOf(group int32, sum int64) int32 {
	g := &t.groups[group]
	at, found := slices.BinarySearch(g.sums, sum)
	if found {
		return g.levels[at]
	}
	var id int32
	if n := len(t.freeLevel); n > 0 {
		id, t.freeLevel = t.freeLevel[n-1], t.freeLevel[:n-1]
	} else {
		id = int32(len(t.levels))
		t.levels = append(t.levels, level{})
	}
	t.levels[id].group, t.levels[id].sum = group, sum
	g.sums, g.levels = slices.Insert(g.sums, at, sum), slices.Insert(g.levels, at, id)
	return id
}

// Remove removes the node of a slot, if it is in the table.
func (t *Table) Remove(slot int32) {
	id := t.level[slot]
	if id < 0 {
		return
	}
	l := &t.levels[id]
	l.remove(t, slot)
	t.level[slot] = -1
	g := &t.groups[l.group]
	g.Nodes--
	if l.nodes > 0 {
		return
	}
	at, _ := slices.BinarySearch(g.sums, l.sum)
	g.sums, g.levels = slices.Delete(g.sums, at, at+1), slices.Delete(g.levels, at, at+1)
	t.freeLevel = append(t.freeLevel, id)
	if g.Nodes == 0 {
		g.sums, g.levels = nil, nil
		delete(t.find, g.Of)
		t.freeGroup = append(t.freeGroup, l.group)
	}
}

// Pick returns the slot of one of the nodes with the highest sum in each of some groups.
// All are equally likely, and the salt decides. At least one group is required.
func (t *Table) Pick(salt uint64, groups []int32) (slot int32) {
	c := &t.choice
	c.sets = c.sets[:0]
	for _, group := range groups {
		g := &t.groups[group]
		c.sets = append(c.sets, &t.levels[g.levels[len(g.levels)-1]].set)
	}
	return c.pick(t, salt)
}

// bytesOfSlot is about the size of a slot: its level, position and place, its entry in a
// half-full bucket, and its share of the buckets. bytesOfLevel is the size of a level
// without its nodes.
const (
	bytesOfSlot  = 4 + 4 + 8 + 2*4 + 16
	bytesOfLevel = 160
	bytesOfGroup = 200
)

// Bytes returns the approximate size of the table.
func (t *Table) Bytes() int {
	return 4<<10 + bytesOfSlot*len(t.level) + bytesOfLevel*len(t.levels) + bytesOfGroup*len(t.groups)
}
