package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// Audit recomputes everything and checks the invariants that are documented next to the
// fields of a State. It returns all violations in one error, nil if none. It changes
// nothing. Its cost is proportional to the whole state. The owner of the state calls it.
func (s *State) Audit() error {
	v := audit.Of("state")
	if !s.auditLengths(v) {
		return v.Err() // the other checks would index out of range
	}
	for _, check := range []func(*audit.Violations){
		s.auditSlots, s.auditPods, s.auditUsage, s.auditBands, s.auditEvicted, s.auditBudgets, s.auditImages, s.auditNominations, s.auditHolds,
		s.auditOwners, s.auditJournals, s.auditTopologies, s.auditPopulation, s.auditNamespaces, s.auditTallies, s.auditTerms, s.auditWeighed, s.auditAmounts, s.auditStorage, s.auditLearned, s.auditGroups, s.auditComposites, s.auditDisplaced, s.auditRoomHolds,
	} {
		check(v)
	}
	return v.Err()
}

// auditLengths checks that every slice by slot has one element per slot, that slots in
// use exist, and that slots that are alive have a node. It reports whether the lengths
// are right.
func (s *State) auditLengths(v *audit.Violations) (ok bool) {
	slots, sound := len(s.alive), true
	expect := func(what string, have int) {
		if have != slots {
			v.Add("%s has %d slots, want %d", what, have, slots)
			sound = false
		}
	}
	expect("node", len(s.node))
	expect("name", len(s.name))
	expect("nameHash", len(s.nameHash))
	expect("used", len(s.used))
	expect("nonZero", len(s.nonZero))
	expect("pods", len(s.pods))
	expect("ports", len(s.ports))
	expect("bands", len(s.bands))
	expect("banded", len(s.banded))
	for key, t := range s.topologies {
		expect("topology "+key.Label, len(t.of))
	}
	expect("the topology of absent keys", len(s.absent.of))
	for _, c := range s.tallies.chosen {
		expect("the set of nodes "+c.nodes.Text, len(c.has))
	}
	for key, m := range s.tallies.memberships {
		expect("membership "+key.nodes+" "+key.topology.Label, len(m.in))
	}
	exists := func(what string, slot int32) {
		if slot < 0 || int(slot) >= slots {
			v.Add("%s is on slot %d of %d", what, slot, slots)
			sound = false
		}
	}
	for name, slot := range s.slotOf {
		exists("node "+name, slot)
	}
	for _, slot := range s.free {
		exists("a free node", slot)
	}
	for key, p := range s.placed {
		exists("pod "+key.String(), p.slot)
	}
	for slot, alive := range s.alive {
		if alive && (slot >= len(s.node) || s.node[slot] == nil) {
			v.Add("slot %d is alive and has no node", slot)
			sound = false
		}
	}
	return sound
}

func (s *State) auditSlots(v *audit.Violations) {
	for i := range s.free {
		if above := s.free[max(i-1, 0)/2]; above > s.free[i] {
			v.Add("free slot %d is below %d in the heap", s.free[i], above)
		}
	}
	free := make([]bool, len(s.alive))
	for _, slot := range s.free {
		if free[slot] {
			v.Add("slot %d is free twice", slot)
		}
		free[slot] = true
	}
	nodes, inUse := 0, 0
	for i, alive := range s.alive {
		slot, name := int32(i), s.name[i]
		if empty := !alive && len(s.pods[i]) == 0; free[i] != empty {
			v.Add("slot %d is free: %t, has neither node nor pods: %t", slot, free[i], empty)
		}
		if (s.node[i] != nil) != alive || alive && s.node[i].Name != name {
			v.Add("slot %d of node %s, alive: %t, has the node %v", slot, name, alive, s.node[i])
		}
		if alive {
			nodes++
		}
		if free[i] {
			continue
		}
		inUse++
		if have, ok := s.slotOf[name]; !ok || have != slot {
			v.Add("slot %d is of node %s, which slotOf has on slot %d (%t)", slot, name, have, ok)
		}
		if s.nameHash[i] != HashName(name) {
			v.Add("slot %d has a hash that is not of its name %s", slot, name)
		}
	}
	if len(s.slotOf) != inUse {
		v.Add("slotOf has %d names, %d slots are in use", len(s.slotOf), inUse)
	}
	if s.nodes != nodes {
		v.Add("nodes is %d, %d slots are alive", s.nodes, nodes)
	}
}

func (s *State) auditPods(v *audit.Violations) {
	assumedPods, pods := 0, 0
	for slot, on := range s.pods {
		for i, p := range on {
			pods++
			if p.slot != int32(slot) || p.index != int32(i) || s.placed[p.pod.Key()] != p {
				v.Add("pod %s is at position %d of slot %d; it says position %d of slot %d; placed has it: %t",
					p.pod, i, slot, p.index, p.slot, s.placed[p.pod.Key()] == p)
			}
			if p.pod.NodeName != s.name[slot] {
				v.Add("pod %s of node %q is on slot %d of node %q", p.pod, p.pod.NodeName, slot, s.name[slot])
			}
			if p.phase == assumed {
				assumedPods++
			}
			s.auditLatest(v, p)
		}
	}
	if len(s.placed) != pods {
		v.Add("placed has %d pods, %d are on slots", len(s.placed), pods)
	}
	if s.assumed != assumedPods {
		v.Add("assumed is %d, %d pods are in that phase", s.assumed, assumedPods)
	}
	for _, e := range s.assumption {
		if p := s.placed[e.pod]; p == nil || p.phase != assumed {
			v.Add("an event waits for the next Apply that assuming pod %s caused, which is not assumed", e.pod)
		}
	}
}

func (s *State) auditLatest(v *audit.Violations, p *placed) {
	if (p.latest != nil) != (p.phase == assumed) || p.shown && p.phase == assumed {
		v.Add("pod %s in phase %d, shown on its node: %t, has a version to try again: %t", p.pod, p.phase, p.shown, p.latest != nil)
	}
	if p.latest != nil && (p.latest.Key() != p.pod.Key() || p.latest.UID != p.pod.UID || p.latest.NodeName != "") {
		v.Add("the version of pod %s to try again is of pod %s, UID %s, on node %q", p.pod, p.latest, p.latest.UID, p.latest.NodeName)
	}
}

func (s *State) auditUsage(v *audit.Violations) {
	for slot, on := range s.pods {
		var used, nonZero model.Sum
		ports := map[model.HostPort]int32{}
		for _, p := range on {
			used.Add(&p.pod.Occupies, +1)
			nonZero.Add(p.pod.NonZero(), +1)
			for _, port := range p.pod.Ports {
				ports[port]++
			}
		}
		if !sameAmounts(s.used[slot], used) {
			v.Add("used of slot %d (%s) is %+v, its pods occupy %+v", slot, s.name[slot], s.used[slot], used)
		}
		for _, c := range s.used[slot].Scalars {
			if !slices.ContainsFunc(used.Scalars, func(has model.Scalar) bool { return has.Name == c.Name }) {
				v.Add("used of slot %d (%s) lists %d %s, which no pod has", slot, s.name[slot], c.Value, c.Name.Value())
			}
		}
		if !s.nonZero[slot].Equal(&nonZero) {
			v.Add("nonZero of slot %d (%s) is %+v, recounted %+v", slot, s.name[slot], s.nonZero[slot], nonZero)
		}
		for i, port := range s.ports[slot].ports {
			if pods := s.ports[slot].pods[i]; ports[port] != pods || pods <= 0 {
				v.Add("port %v of slot %d (%s) counts %d pods, recounted %d", port, slot, s.name[slot], pods, ports[port])
			}
			delete(ports, port)
		}
		for port, pods := range ports {
			v.Add("port %v of slot %d (%s) is not counted, or counted twice: %d pods hold it", port, slot, s.name[slot], pods)
		}
	}
}

// sameAmounts compares two sums. A scalar of amount 0 may be listed or not.
func sameAmounts(a, b model.Sum) bool {
	a, b = a.Clone(), b.Clone()
	a.DropZeros()
	b.DropZeros()
	return a.Equal(&b)
}

func (s *State) auditImages(v *audit.Violations) {
	nodes := map[string]int{}
	for _, node := range s.node {
		if node == nil {
			continue
		}
		for name := range node.Images {
			nodes[name]++
		}
	}
	compareCounts(v, "image %s is on %d nodes, recounted %d", nodes, s.images, func(i *image) int { return i.nodes })
}

// compareCounts compares stored counts with recounted ones: equal keys with equal counts,
// none of them 0.
func compareCounts[K comparable, T any](v *audit.Violations, format string, recounted map[K]int, counted map[K]T, count func(T) int) {
	for key, c := range counted {
		if n := count(c); n != recounted[key] || n <= 0 {
			v.Add(format, key, n, recounted[key])
		}
	}
	for key, n := range recounted {
		if _, ok := counted[key]; !ok {
			v.Add(format, key, 0, n)
		}
	}
}

func (s *State) auditNominations(v *audit.Violations) {
	listed := 0
	for node, pods := range s.nominations.byNode {
		if len(pods) == 0 {
			v.Add("no pods are nominated to node %s, which byNode has", node)
		}
		for i, pod := range pods {
			if s.nominations.holdFor[pod] != nil && pod.NominatedNode == node {
				continue
			}
			listed++
			if pod.NominatedNode != node || s.nominations.byPod[pod.Key()] != pod || slices.Index(pods, pod) != i {
				v.Add("pod %s is nominated to node %q and listed under %q; byPod has it: %t; listed once: %t",
					pod, pod.NominatedNode, node, s.nominations.byPod[pod.Key()] == pod, slices.Index(pods, pod) == i)
			}
		}
	}
	if len(s.nominations.byPod) != listed {
		v.Add("byPod has %d nominated pods, byNode %d", len(s.nominations.byPod), listed)
	}
	var slots []int32
	for node := range s.nominations.byNode {
		if slot, ok := s.Slot(node); ok {
			slots = append(slots, slot)
		}
	}
	if slices.Sort(slots); !s.nominations.unsorted && !slices.Equal(slots, s.nominations.slots) {
		v.Add("pods are nominated to the nodes of slots %d, and %d are listed", slots, s.nominations.slots)
	}
	for key, pod := range s.nominations.byPod {
		if pod.Key() != key || pod.NominatedNode == "" || s.placed[key] != nil {
			v.Add("pod %s is nominated to node %q as %s; it is on a node: %t", pod, pod.NominatedNode, key, s.placed[key] != nil)
		}
	}
}

func (s *State) auditHolds(v *audit.Violations) {
	type hold struct {
		object model.Ref
		pod    model.PodKey
		plugin string
	}
	recounted, counted := map[hold]int{}, map[hold]int{}
	for key, p := range s.placed {
		if p.extras == nil {
			continue
		}
		for _, h := range p.extras.holds {
			recounted[hold{h.Object, key, h.Plugin}]++
		}
	}
	for gone, kept := range s.lingering {
		for _, h := range kept {
			recounted[hold{h.Object, gone.key, h.Plugin}]++
		}
	}
	for object, holders := range s.held {
		if len(holders) == 0 {
			v.Add("nobody holds anything of %v, which held has", object)
		}
		for _, h := range holders {
			counted[hold{object, h.Pod, h.Plugin}]++
		}
	}
	compareCounts(v, "%v is held %d times, recounted %d", recounted, counted, func(n int) int { return n })
}

func (s *State) auditJournals(v *audit.Violations) {
	s.journal.audit(v, "the journal", len(s.alive), true)
	s.objects.audit(v, "the journal of objects", len(s.alive), false)
}

// audit checks that a journal is bounded. Each entry must be about a slot and, in the
// journal with aspects, some aspect.
func (j *journal) audit(v *audit.Violations, what string, slots int, aspects bool) {
	kept := len(j.entries)
	if kept > 2*journalKept || j.base > 0 && kept <= journalKept {
		v.Add("%s keeps %d entries from version %d on; it may keep twice %d, and must keep more than once as many when it has dropped some", what, kept, j.base, journalKept)
	}
	for i, e := range j.entries {
		if e.Slot < -1 || int(e.Slot) >= slots || (e.Aspects != 0) != (aspects && e.Slot >= 0) {
			v.Add("entry %d of %s is about slot %d of %d and aspects %b", i, what, e.Slot, slots, e.Aspects)
		}
	}
}

// audit checks that an index lists exactly the given items, which have names, each at its
// recorded position.
func (x *index[K, T]) audit(v *audit.Violations, what string, items map[T]string) {
	for item, name := range items {
		f := item.filing()
		if len(f.at) != len(f.keys) {
			v.Add("%s %s is filed under %d keys, at %d positions", what, name, len(f.keys), len(f.at))
			continue
		}
		for i, key := range f.keys {
			if listed := countOf(x.under.Get(key), item); listed != 1 || x.under.Get(key)[f.at[i]] != item {
				v.Add("%s %s is listed %d times under %v, want once at position %d", what, name, listed, key, f.at[i])
			}
		}
	}
	for key, listed := range x.under.All() {
		if len(listed) == 0 {
			v.Add("%s: nothing is listed under %v", what, key)
		}
		for _, item := range listed {
			if _, known := items[item]; !known {
				v.Add("%s: under %v something is listed that is not kept", what, key)
			} else if !slices.Contains(item.filing().keys, key) {
				v.Add("%s %s is listed under %v, and not filed there", what, items[item], key)
			}
		}
	}
}

// filedBy reports whether keys find every pod that the term selects.
func filedBy(term *model.Term, keys []labelKey) bool {
	namespaces := term.Namespaces
	if term.NamespaceSelector != nil {
		namespaces = []string{""}
	}
	demands := model.Demands(term.Selector)
	if len(demands) == 0 {
		demands = [][]model.Label{{{}}}
	}
	return slices.ContainsFunc(demands, func(some []model.Label) bool { return sameKeys(keys, keysOf(namespaces, some)) })
}

// sameKeys reports whether two lists have the same distinct keys.
func sameKeys[K comparable](a, b []K) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(key K) bool { return countOf(a, key) != 1 || !slices.Contains(b, key) })
}

func countOf[T comparable](list []T, item T) int {
	n := 0
	for _, other := range list {
		if other == item {
			n++
		}
	}
	return n
}
