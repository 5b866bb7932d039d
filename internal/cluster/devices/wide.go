package devices

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/model"
)

// Each placement from a wide pool changes its allocations for all nodes that can use the
// pool. These may be all nodes, so the change is not journalled. Instead, nodes that are
// equal except for the use of wide pools are listed together. Caches find the affected
// lists by versions and evaluate one node of each. A node that moves to another list is
// journalled.

// widePool is the part of a pool that is used while it is wide.
type widePool struct {
	selects selections
	// version is the store's wideVersion at the last change of the pool or its
	// allocations.
	version uint64
	// positions are by device name; an invalid pool may have several per name. states are
	// the allocations by position, without free devices.
	positions map[string][]int
	states    map[int]string
	// Invariant: use is the exclusive or of a hash of each position with its state.
	use [sha256.Size]byte
	// Invariant: users are the lists of nodes that can use the pool.
	users []*Alike
}

// nodeWide is the part of a node that is used for wide pools.
type nodeWide struct {
	exists bool
	labels map[string]string
	// Invariant: wide are the wide pools with any slice that the node can use, by driver
	// and name. It is empty if the node has no slot or does not exist.
	wide []wideUse
	// Invariant: alike is the node's list, and at its position there; alike is nil if the
	// node can use no wide pool.
	alike *Alike
	at    int
}

// wideUse is a wide pool that a node can use.
type wideUse struct {
	pool *pool
	// selected are the positions of the selections that select the node, in a canonical
	// text.
	selected string
}

// Alike is a list of nodes with equal devices that can use the same wide pools. Nodes are
// added and removed; a list that becomes empty is not used again.
type Alike struct {
	// ID is unique: no other list ever has it.
	ID    uint64
	key   string
	nodes []*node
	pools []*pool
}

// One returns the slot of any of the nodes.
func (a *Alike) One() int32 { return a.nodes[0].slot }

// AppendSlots appends the slots of the nodes.
func (a *Alike) AppendSlots(to []int32) []int32 {
	for _, n := range a.nodes {
		to = append(to, n.slot)
	}
	return to
}

// WideVersion changes with each change of devices that several nodes can use, and of
// their allocations. It is 0 if such devices never existed.
func (s *Store) WideVersion() uint64 { return s.wideVersion }

// AlikeSince returns the lists of nodes that can use a wide pool changed since a version.
// A list may occur more than once.
func (s *Store) AlikeSince(version uint64) iter.Seq[*Alike] {
	return func(yield func(*Alike) bool) {
		for _, p := range s.wide {
			if p.version <= version {
				continue
			}
			for _, a := range p.users {
				if !yield(a) {
					return
				}
			}
		}
	}
}

// SetNode records that the node of a slot exists, with labels, or no longer exists.
func (s *Store) SetNode(slot int32, exists bool, labels map[string]string) {
	n := s.bySlot[slot]
	n.exists, n.labels = exists, labels
	s.match(n)
}

// setWide adds a pool to the wide pools or removes it, and records the change.
func (s *Store) setWide(p *pool, wide bool) {
	at, listed := slices.BinarySearchFunc(s.wide, p, (*pool).compare)
	if !listed && !wide {
		return
	}
	s.wideVersion++
	p.version = s.wideVersion
	switch {
	case wide && !listed:
		s.wide = slices.Insert(s.wide, at, p)
	case !wide:
		s.wide = slices.Delete(s.wide, at, at+1)
	}
	p.positions, p.states, p.use = nil, nil, [sha256.Size]byte{}
	if wide {
		s.describeStates(p)
	}
	for _, n := range s.bySlot {
		if n != nil && n.exists && s.matchPool(n, p, wide) {
			s.place(n)
			s.work.Touched++
			s.touch(n.slot, model.Devices)
		}
	}
}

// describeStates computes the positions of a wide pool's devices, and their allocations.
func (s *Store) describeStates(p *pool) {
	p.positions, p.states = map[string][]int{}, map[int]string{}
	at := 0
	for _, slice := range p.now.Slices {
		for i := range slice.Spec.Devices {
			name := slice.Spec.Devices[i].Name
			p.positions[name] = append(p.positions[name], at)
			at++
		}
	}
	for name := range p.positions {
		s.describeState(p, name)
	}
}

// describeState updates the allocations of a device of a wide pool. It reports whether
// they changed.
func (s *Store) describeState(p *pool, device string) (changed bool) {
	at := p.positions[device]
	if len(at) == 0 {
		return false
	}
	state := string(s.appendUse(nil, p.id, device))
	for _, position := range at {
		before, ok := p.states[position]
		if !ok {
			before = free
		}
		if before == state {
			continue
		}
		changed = true
		p.mix(position, before)
		p.mix(position, state)
		if state == free {
			delete(p.states, position)
		} else {
			p.states[position] = state
		}
	}
	return changed
}

// mix adds the state of a position to use, or removes it. Free devices are left out.
func (p *pool) mix(position int, state string) {
	if state == free {
		return
	}
	sum := sha256.Sum256(append(binary.AppendUvarint(nil, uint64(position)), state...))
	for i := range sum {
		p.use[i] ^= sum[i]
	}
}

// usedWide updates a wide pool after allocations of some devices changed. changed means
// that the pool offers other counters.
func (s *Store) usedWide(p *pool, devices []string, changed bool) {
	for _, device := range devices {
		changed = s.describeState(p, device) || changed
	}
	if changed {
		s.wideVersion++
		p.version = s.wideVersion
	}
}

// match finds the wide pools that a node can use.
func (s *Store) match(n *node) {
	if len(s.wide) == 0 && len(n.wide) == 0 {
		return
	}
	n.wide = nil
	if n.slot >= 0 && n.exists {
		for _, p := range s.wide {
			s.matchPool(n, p, true)
		}
	}
	s.place(n)
}

// matchPool records whether, and by which selections, a node can use a pool that is or
// was wide. It reports whether that has changed.
func (s *Store) matchPool(n *node, p *pool, wide bool) (changed bool) {
	at, listed := slices.BinarySearchFunc(n.wide, p, func(w wideUse, p *pool) int { return w.pool.compare(p) })
	selected := ""
	if wide {
		s.work.Matched++
		s.candidate.Name, s.candidate.Labels = n.name, n.labels
		s.selected = p.selects.append(s.selected[:0], &s.candidate)
		selected = string(s.selected)
		s.candidate.Labels = nil
	}
	switch {
	case selected == "" && listed:
		n.wide = slices.Delete(n.wide, at, at+1)
	case selected == "":
		return false
	case !listed:
		n.wide = slices.Insert(n.wide, at, wideUse{p, selected})
	case n.wide[at].selected == selected:
		return false
	default:
		n.wide[at].selected = selected
	}
	return true
}

// place moves a node to the list of nodes like it.
func (s *Store) place(n *node) {
	key := n.describeWide()
	if n.alike != nil && n.alike.key == key {
		return
	}
	if n.alike != nil {
		s.leave(n)
	}
	if len(n.wide) == 0 {
		return
	}
	a := s.alike[key]
	if a == nil {
		s.alikes++
		a = &Alike{ID: s.alikes, key: key}
		for i := range n.wide {
			p := n.wide[i].pool
			a.pools = append(a.pools, p)
			p.users = append(p.users, a)
		}
		s.alike[key] = a
	}
	n.alike, n.at = a, len(a.nodes)
	a.nodes = append(a.nodes, n)
}

// leave removes a node from its list.
func (s *Store) leave(n *node) {
	a, last := n.alike, len(n.alike.nodes)-1
	a.nodes[n.at] = a.nodes[last]
	a.nodes[n.at].at = n.at
	a.nodes[last] = nil
	a.nodes = a.nodes[:last]
	n.alike, n.at = nil, 0
	if last > 0 {
		return
	}
	delete(s.alike, a.key)
	for _, p := range a.pools {
		p.users = slices.DeleteFunc(p.users, func(other *Alike) bool { return other == a })
	}
}

// describeWide returns the key of a node's list: everything about its devices except the
// use of wide pools. It is empty if the node can use no wide pool.
func (n *node) describeWide() string {
	if len(n.wide) == 0 {
		return ""
	}
	key := append([]byte(nil), n.key...)
	for i := range n.wide {
		w := &n.wide[i]
		key = n.appendPlace(key, w)
		key = model.AppendQuote(model.AppendQuote(key, w.pool.id.Driver), w.pool.id.Pool)
	}
	return string(key)
}

// appendPlace appends how a node can use a wide pool, and how many of its local pools
// come before: pools are searched in the order of their names.
func (n *node) appendPlace(to []byte, w *wideUse) []byte {
	at, _ := slices.BinarySearchFunc(n.pools, w.pool, (*pool).compare)
	to = strconv.AppendInt(append(to, ' '), int64(at), 10)
	return append(append(append(to, ' '), w.selected...), ';')
}

// selections are the distinct node selections of a pool's slices or devices.
type selections struct {
	// of are positions in all, by slice: the selection of the slice, and those of its
	// devices if each has its own.
	of  [][]int
	all []chosen
	// byName are the positions of selections that name a node.
	byName map[string]int
	// others are the positions of the other selections.
	others []int
}

// chosen are the nodes that can use a slice or a device.
type chosen struct {
	all      bool
	selector *nodeaffinity.NodeSelector
	invalid  bool
}

// selects is the source of a chosen.
type selects struct {
	Name     string
	All      bool
	Selector *v1.NodeSelector
}

func selectionsOf(list []*resourcev1.ResourceSlice) (s selections) {
	known := map[string]int{}
	add := func(name *string, all *bool, selector *v1.NodeSelector) int {
		from := selects{deref(name), all != nil && *all, selector}
		text, err := json.Marshal(from)
		if err != nil {
			// API types can always be encoded.
			panic(fmt.Sprintf("encode the nodes that can use a slice: %v", err))
		}
		at, is := known[string(text)]
		if is {
			return at
		}
		at = len(s.all)
		known[string(text)] = at
		s.all = append(s.all, from.compile())
		if from.Name != "" {
			if s.byName == nil {
				s.byName = map[string]int{}
			}
			s.byName[from.Name] = at
		} else {
			s.others = append(s.others, at)
		}
		return at
	}
	for _, slice := range list {
		spec := &slice.Spec
		of := []int{add(spec.NodeName, spec.AllNodes, spec.NodeSelector)}
		if spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection {
			for i := range spec.Devices {
				d := &spec.Devices[i]
				of = append(of, add(d.NodeName, d.AllNodes, d.NodeSelector))
			}
		}
		s.of = append(s.of, of)
	}
	return s
}

// compile compiles a selection without a node name. A name has precedence over all other
// fields.
func (s selects) compile() (c chosen) {
	if c.all = s.All; s.Name == "" && !s.All && s.Selector != nil {
		parsed, err := nodeaffinity.NewNodeSelector(s.Selector)
		c.selector, c.invalid = parsed, err != nil
	}
	return c
}

// append appends a text of the selections that select a node: their positions. Nodes with
// equal texts can use the same devices. Invalid selections are appended for every node,
// with another mark, because they fail the search on each node.
func (s *selections) append(to []byte, node *v1.Node) []byte {
	if at, ok := s.byName[node.Name]; ok {
		to = strconv.AppendInt(append(to, '.'), int64(at), 10)
	}
	for _, at := range s.others {
		switch c := &s.all[at]; {
		case c.invalid:
			to = strconv.AppendInt(append(to, '!'), int64(at), 10)
		case c.all, c.selector != nil && c.selector.Match(node):
			to = strconv.AppendInt(append(to, '.'), int64(at), 10)
		}
	}
	return to
}

// usable returns the devices that a node can use, from the slice at a position.
func (s *selections) usable(at int, slice *resourcev1.ResourceSlice, node *v1.Node) (u Usable, err error) {
	of := s.of[at]
	for i := range slice.Spec.Devices {
		position := of[0]
		if len(of) > 1 {
			position = of[1+i]
		}
		c := &s.all[position]
		if c.invalid {
			return Usable{}, fmt.Errorf("the slice %s says in a way that cannot be read which nodes can use it", slice.Name)
		}
		named, ok := s.byName[node.Name]
		if ok && named == position || c.all || c.selector != nil && c.selector.Match(node) {
			u.Devices = append(u.Devices, &slice.Spec.Devices[i])
		}
	}
	return u, nil
}
