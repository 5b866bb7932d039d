package storage

import "slices"

// nodesOf counts, by node, the references of pods and attachments to a volume. Most
// volumes are used on one node, some on thousands.
//
// Invariant: the counts are in few, in no particular order, or all of them in many; none
// is 0.
type nodesOf struct {
	few  []onNode
	many map[*Node]int
}

type onNode struct {
	node  *Node
	times int
}

// fewNodes is the maximum number of nodes in a list; larger sets are in a map.
const fewNodes = 8

func (o *nodesOf) count(n *Node, times int) {
	if o.many != nil {
		if o.many[n] += times; o.many[n] == 0 {
			delete(o.many, n)
		}
		return
	}
	at := slices.IndexFunc(o.few, func(have onNode) bool { return have.node == n })
	switch {
	case at >= 0:
		if o.few[at].times += times; o.few[at].times == 0 {
			last := len(o.few) - 1
			o.few[at] = o.few[last]
			o.few[last] = onNode{}
			o.few = o.few[:last]
		}
	case len(o.few) < fewNodes:
		o.few = append(o.few, onNode{n, times})
	default:
		o.many = make(map[*Node]int, 2*fewNodes)
		for _, have := range o.few {
			o.many[have.node] = have.times
		}
		o.few, o.many[n] = nil, times
	}
}

func (o *nodesOf) isEmpty() bool { return len(o.few)+len(o.many) == 0 }

// len returns the number of nodes on which the volume is used.
func (o *nodesOf) len() int { return len(o.few) + len(o.many) }

// each calls yield with each node.
func (o *nodesOf) each(yield func(*Node)) {
	for _, have := range o.few {
		yield(have.node)
	}
	for n := range o.many {
		yield(n)
	}
}

// times returns the number of references on all nodes.
func (o *nodesOf) times() (sum int) {
	for _, have := range o.few {
		sum += have.times
	}
	for _, times := range o.many {
		sum += times
	}
	return sum
}

// InUse reports whether a volume is attached to a node, or used by a placed or nominated
// pod. Usage.Has is false for all other volumes, in the state and in its dry runs.
func (s *Store) InUse(driver, name string) bool { return s.used[handle{driver, name}] != nil }

// UsedOn appends the slots of the nodes on which pods use a volume, or to which it is
// attached. Beyond most nodes, it appends none and returns false.
func (s *Store) UsedOn(driver, name string, most int, to []int32) (slots []int32, ok bool) {
	on := s.used[handle{driver, name}]
	if on == nil {
		return to, true
	}
	if on.len() > most {
		return to, false
	}
	on.each(func(n *Node) {
		if n.slot >= 0 { // not the placeholder of nominated pods
			to = append(to, n.slot)
		}
	})
	return to, true
}

// refer counts references of a node's pods and attachments, or of nominated pods, to a
// volume.
func (s *Store) refer(n *Node, h handle, times int) {
	if h.driver == "" {
		return
	}
	on := s.used[h]
	if on == nil {
		on = &nodesOf{}
		s.used[h] = on
	}
	if on.count(n, times); on.isEmpty() {
		delete(s.used, h)
	}
}
