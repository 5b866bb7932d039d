package state

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Draft is a what-if: an unchanging state with pods added to its nodes or removed from
// them. It never writes to the state, so neither the journal nor any version shows it.
// Several drafts of one state may exist at once. One goroutine writes to a draft; at
// other times several may read its View. It is valid until the state changes.
//
// Reading a draft costs as much as its differences: it reads the state's numbers and
// corrects only the touched nodes and domains.
type Draft struct {
	s       *State
	version uint64 // of the state's journal
	// uses counts resets.
	uses uint64
	// dryRun means that changes count as in kube-scheduler's AddPod and RemovePod; see
	// DryRun.
	dryRun bool
	// changes are in order; a pair that cancels out stays.
	changes []draftChange
	last    map[model.PodKey]int32 // position of a pod's last change
	// By touched node, in the order of the first touch; at is the position of a slot.
	slots []int32
	nodes []draftNode
	at    map[int32]int32
	terms []draftTerm
	// topologies have keys without a topology in the state.
	topologies map[TopologyKey]*topology
	// lists are the draft's own lists, of pods whose terms no pod of the state has. They
	// are kept for later uses of the draft, because nominated pods are added again for
	// each pod that is tried.
	lists []*termList
}

// draftChange is a pod that is added to a node (n = +1) or removed from it (n = -1).
type draftChange struct {
	pod    *model.Pod
	slot   int32
	n      int32
	dryRun bool
	holds  []plan.Hold // of an added pod
}

// draftNode is the use of a touched node.
type draftNode struct {
	used    model.Sum
	nonZero model.Sum
	pods    int
	ports   portCounts
	volumes storage.Usage
	changed []changedPod // in order of the changes; a pair that cancels out stays
}

// changedPod is a pod that is added to a node (n = +1) or removed from it (n = -1).
type changedPod struct {
	pod *model.Pod
	n   int32
}

// draftTerm is a term that a changed pod carries.
type draftTerm struct {
	*TermCounts // the state's, or the draft's own if no pod of the state carries the term
	differences []Difference
}

// Draft returns a draft without differences from the view. It counts as the state would
// after the same changes: a terminating pod is not counted where a PodSet excludes it.
func (v View) Draft() *Draft {
	d := new(Draft)
	d.reset(v)
	return d
}

// DryRun makes d a draft without differences from the view, which counts pods as
// kube-scheduler's dry runs do. There PreFilter does not count terminating pods, but
// RemovePod takes them off, so a count can become negative. A DryRun draft repeats that.
func (v View) DryRun(d *Draft) *Draft {
	d.reset(v)
	d.dryRun = true
	return d
}

// reset reuses the draft's memory.
func (d *Draft) reset(v View) {
	if changed := d.s != v.s || d.version != v.s.Version(); changed {
		d.topologies = nil
		d.s, d.version = v.s, v.s.Version()
		d.refresh()
	}
	d.dryRun = false
	d.uses++
	if d.at == nil {
		d.at, d.last = map[int32]int32{}, map[model.PodKey]int32{}
	}
	clear(d.changes)
	clear(d.at)
	clear(d.last)
	d.changes, d.slots, d.nodes, d.terms = d.changes[:0], d.slots[:0], d.nodes[:0], d.terms[:0]
	if v.d == nil {
		return
	}
	d.changes = append(d.changes, v.d.changes...)
	maps.Copy(d.last, v.d.last)
	maps.Copy(d.at, v.d.at)
	d.slots = append(d.slots, v.d.slots...)
	for i := range v.d.nodes {
		d.nodes = append(d.nodes, v.d.nodes[i].clone())
	}
	for _, t := range v.d.terms {
		d.terms = append(d.terms, draftTerm{t.TermCounts, slices.Clone(t.differences)})
	}
	d.topologies = v.d.topologies // complete for the terms so far, and extended by copy
}

func (n *draftNode) clone() draftNode {
	c := *n
	c.used, c.nonZero = n.used.Clone(), n.nonZero.Clone()
	c.ports, c.changed = n.ports.clone(), slices.Clone(n.changed)
	c.volumes = n.volumes.Clone()
	return c
}

// Trail identifies the history of a draft since its last reset. If two views have equal
// trails, the later view has all changes of the earlier one, and perhaps more after them.
// The trail of a view without differences is zero.
type Trail struct {
	draft *Draft
	uses  uint64
}

// SameDraft reports whether two trails belong to one draft, which may have been reset
// between them.
func (t Trail) SameDraft(other Trail) bool { return t.draft == other.draft }

// Trail returns the trail of the view.
func (v View) Trail() Trail {
	if v.d == nil {
		return Trail{}
	}
	return Trail{v.d, v.d.uses}
}

// DraftChange is a pod that a draft adds to a node (N = +1) or removes from it (N = -1).
type DraftChange struct {
	Pod  *model.Pod
	Slot int32
	N    int32
}

// ChangesFrom calls yield with the changes of the view's draft from the n-th on, counted
// from 0, in order. A pair that cancels out is included.
func (v View) ChangesFrom(n int) iter.Seq[DraftChange] {
	return func(yield func(DraftChange) bool) {
		if v.d == nil {
			return
		}
		for i := n; i < len(v.d.changes); i++ {
			if c := &v.d.changes[i]; !yield(DraftChange{c.pod, c.slot, c.n}) {
				return
			}
		}
	}
}

// View returns the state with the draft's differences.
func (d *Draft) View() View { return View{s: d.s, d: d} }

// Add puts a pod on a node, with its holds. A pod that is on a node already is a bug.
func (d *Draft) Add(pod *model.Pod, slot int32, holds ...plan.Hold) {
	if _, on := d.find(pod.Key()); on {
		panic(fmt.Sprintf("state: draft: add pod %s, which is on a node", pod))
	}
	if len(holds) == 0 {
		holds = d.formerHolds(pod, slot)
	}
	d.change(draftChange{pod, slot, +1, d.dryRun, holds})
}

// formerHolds returns the former holds of a pod that was removed from the same node and
// is put back.
func (d *Draft) formerHolds(pod *model.Pod, slot int32) []plan.Hold {
	_, changed := d.last[pod.Key()]
	for i := len(d.changes) - 1; changed && i >= 0; i-- {
		c := &d.changes[i]
		if c.n > 0 && c.pod.UID == pod.UID && c.pod.Key() == pod.Key() {
			if c.slot == slot {
				return c.holds
			}
			return nil
		}
	}
	if p := d.s.placed[pod.Key()]; p != nil && p.extras != nil && p.slot == slot && p.pod.UID == pod.UID {
		return p.extras.holds
	}
	return nil
}

// Remove takes a pod off its node, and releases its holds. A pod that is on no node is a
// bug.
func (d *Draft) Remove(key model.PodKey) {
	at, on := d.find(key)
	if !on {
		panic(fmt.Sprintf("state: draft: remove pod %s/%s, which is on no node", key.Namespace, key.Name))
	}
	d.change(draftChange{at.pod, at.slot, -1, d.dryRun, nil})
}

// On reports whether a pod is on a node.
func (d *Draft) On(key model.PodKey) bool {
	_, on := d.find(key)
	return on
}

// find returns where a pod is, as the change that would put it there.
func (d *Draft) find(key model.PodKey) (at draftChange, on bool) {
	if i, changed := d.last[key]; changed {
		return d.changes[i], d.changes[i].n > 0
	}
	if p := d.s.placed[key]; p != nil {
		return draftChange{pod: p.pod, slot: p.slot}, true
	}
	return at, false
}

// places reports whether the draft, which may be nil, has put a pod on a node.
func (d *Draft) places(key model.PodKey) bool {
	if d == nil {
		return false
	}
	i, changed := d.last[key]
	return changed && d.changes[i].n > 0
}

func (d *Draft) change(c draftChange) {
	pod, slot, n := c.pod, c.slot, c.n
	d.last[pod.Key()] = int32(len(d.changes))
	d.changes = append(d.changes, c)
	node := d.touch(slot)
	node.used.Add(&pod.Occupies, int64(n))
	node.nonZero.Add(pod.NonZero(), int64(n))
	node.pods += int(n)
	node.ports.add(pod.Ports, n)
	node.changed = append(node.changed, changedPod{pod, n})
	node.volumes.Change(d.s.storage, pod, int(n))
	if isLong(pod) {
		d.carryList(pod, slot, n)
		return
	}
	for i := range pod.Terms {
		d.carry(pod, &pod.Terms[i], slot, n)
	}
}

// listsKept bounds the lists that a draft keeps for later uses.
const listsKept = 32

// carryList adds n carriers of a list of terms on a node.
func (d *Draft) carryList(pod *model.Pod, slot, n int32) {
	for _, t := range d.listOf(pod).prepared {
		domain := t.topology.of[slot]
		if domain == noDomain || d.dryRun && t.matcher.all.Repelling == 0 {
			continue
		}
		i := slices.IndexFunc(d.terms, func(other draftTerm) bool { return other.TermCounts == t })
		if i < 0 {
			i = len(d.terms)
			d.terms = append(d.terms, draftTerm{TermCounts: t})
		}
		d.terms[i].differences = addDifference(d.terms[i].differences, 0, domain, n)
	}
}

// listOf returns the state's list of a pod's terms, or the draft's own.
func (d *Draft) listOf(pod *model.Pod) *termList {
	if p := d.s.placed[pod.Key()]; p != nil && p.list != nil && p.pod == pod {
		return p.list
	}
	hash := hashOf(pod)
	if l := d.s.terms.listOf(pod, hash); l != nil {
		return l
	}
	for _, l := range d.lists {
		if l.hash == hash && l.has(pod) {
			return l
		}
	}
	l := newTermList(pod, hash, func(label string) *topology { return d.topology(TopologyKey{Label: label}) })
	for _, t := range l.keys {
		if t.topology != d.s.absent {
			l.prepare(t)
		}
	}
	if len(d.lists) >= listsKept {
		d.lists = nil
	}
	d.lists = append(d.lists, l)
	return l
}

// refresh finds the topologies of the draft's own lists in another state.
func (d *Draft) refresh() {
	for _, l := range d.lists {
		for _, t := range l.keys {
			if t.topology = d.topology(TopologyKey{Label: t.label}); t.topology != d.s.absent && t.matcher == nil {
				l.prepare(t)
			}
		}
	}
}

// touch returns the draft's own copy of a node's numbers, made at the first change.
func (d *Draft) touch(slot int32) *draftNode {
	if n := d.node(slot); n != nil {
		return n
	}
	n := draftNode{
		used: d.s.used[slot], nonZero: d.s.nonZero[slot], pods: len(d.s.pods[slot]), ports: d.s.ports[slot],
		volumes: d.s.storage.At(slot).Usage(),
	}
	d.at[slot] = int32(len(d.slots))
	d.slots, d.nodes = append(d.slots, slot), append(d.nodes, n.clone())
	return &d.nodes[len(d.nodes)-1]
}

// node returns the draft's own copy of a node's numbers, nil if the node is untouched.
func (d *Draft) node(slot int32) *draftNode {
	if i, touched := d.at[slot]; touched {
		return &d.nodes[i]
	}
	return nil
}

// carry adds n carriers of a term on a node.
func (d *Draft) carry(pod *model.Pod, ref *model.TermRef, slot, n int32) {
	if d.dryRun && ref.Kind != model.RequiredAntiAffinity {
		return // a dry run runs only filters, which read no other terms of other pods
	}
	key := termKey{ref.Kind, ref.Weight, ref.Text.Value()}
	i := slices.IndexFunc(d.terms, func(t draftTerm) bool { return t.list == nil && t.key == key })
	if i < 0 {
		counts := d.s.terms.byKey[key]
		if counts == nil {
			if counts = d.newTerm(pod, ref, key); counts == nil {
				return
			}
		}
		i = len(d.terms)
		d.terms = append(d.terms, draftTerm{TermCounts: counts})
	}
	t := &d.terms[i]
	if domain := t.topology.of[slot]; domain != noDomain {
		t.differences = addDifference(t.differences, 0, domain, n)
	}
}

// newTerm returns counts, all zero, of a term that no pod of the state carries; nil if
// the term is invalid.
func (d *Draft) newTerm(pod *model.Pod, ref *model.TermRef, key termKey) *TermCounts {
	term, err := model.NewTerm(pod.Namespace, ref.Source)
	if err != nil {
		return nil
	}
	return &TermCounts{Kind: ref.Kind, Weight: ref.Weight, Term: term, key: key, label: term.Key, topology: d.topology(TopologyKey{Label: term.Key})}
}

// topology returns the state's topology of a key, or the draft's own.
func (d *Draft) topology(key TopologyKey) *topology {
	if t := d.s.topologies[key]; t != nil {
		return t
	}
	if t := d.topologies[key]; t != nil {
		return t
	}
	if !key.isEverywhere() && d.s.labelled[key.Label] == 0 {
		return d.s.absent
	}
	own := maps.Clone(d.topologies) // other drafts may share it
	if own == nil {
		own = map[TopologyKey]*topology{}
	}
	own[key] = newTopology(d.s, key)
	d.topologies = own
	return own[key]
}

// counts reports whether a changed pod is in a set.
func (s *State) counts(set PodSet, c *draftChange) bool {
	if c.dryRun {
		set.Staying = false
	} else if set.Uncounted {
		return false
	}
	return s.InSet(set, c.pod)
}
