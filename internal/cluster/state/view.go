package state

import (
	"iter"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
)

// View is the cluster as a decision reads it: the state, or the state with the
// differences of a Draft. It is valid until the state or the draft changes.
//
// Counts have two parts: the counts of the state, and the Differences of the view, which
// are few and usually none. Methods that count a set of pods for the first time or expand
// one (Tally, Expanded, Domains, Sums) must be called by the goroutine that owns the
// state. All others only read, so several goroutines may use views of one state at the
// same time while it is not written.
type View struct {
	s *State
	d *Draft // nil: no differences
	r *Restriction
}

// View returns the state without differences.
func (s *State) View() View { return View{s: s} }

// Difference is the number of pods that a view counts in a domain beyond the state's
// count; negative for fewer.
type Difference struct{ Domain, Pods int32 }

// State returns the underlying state.
func (v View) State() *State { return v.s }

// Now returns the time of the turn by a steady clock, for pauses and budgets.
func (v View) Now() time.Time { return v.s.now }

// Wall returns the time of the turn by the system's clock, which may have been set.
// Plugins use it to read and write times in API objects; they read no clock.
func (v View) Wall() time.Time { return v.s.wall }

// Node returns the view of a slot whose node exists.
func (v View) Node(slot int32) Node {
	if v.d == nil {
		return Node{s: v.s, slot: slot}
	}
	return Node{s: v.s, slot: slot, d: v.d.node(slot)}
}

// PodsOn returns the pods on a slot, in no particular order.
func (v View) PodsOn(slot int32) iter.Seq[*model.Pod] {
	if v.d == nil || v.d.node(slot) == nil {
		return v.s.PodsOn(slot)
	}
	return func(yield func(*model.Pod) bool) {
		for pod := range v.s.PodsOn(slot) {
			if _, changed := v.d.last[pod.Key()]; !changed && !yield(pod) {
				return
			}
		}
		for i := range v.d.changes {
			if c := &v.d.changes[i]; c.slot == slot && c.n > 0 && int(v.d.last[c.pod.Key()]) == i && !yield(c.pod) {
				return
			}
		}
	}
}

// Nodes returns the number of existing nodes.
func (v View) Nodes() int { return v.s.nodes }

// ImageSpread returns the size in bytes of an image as first reported, and the number of
// nodes that have it.
func (v View) ImageSpread(name string) (sizeBytes int64, nodes int) {
	if i, ok := v.s.images[name]; ok {
		return i.sizeBytes, i.nodes
	}
	return 0, 0
}

// SpreadVersion changes whenever the result of ImageSpread or Nodes may change.
func (v View) SpreadVersion() uint64 { return v.s.spread }

// Slot returns the slot of a node that exists.
func (v View) Slot(name string) (slot int32, ok bool) { return v.s.Slot(name) }

// Touched returns the slots on which the view has other pods than the state, in no
// particular order. The slice is the draft's own.
func (v View) Touched() []int32 {
	if v.d == nil {
		return nil
	}
	return v.d.slots
}

// IsTouched reports whether Touched has a slot.
func (v View) IsTouched(slot int32) bool { return v.d != nil && v.d.node(slot) != nil }

// Tally returns the state's count of a set of pods by the domains of a key, over a set of
// nodes.
func (v View) Tally(pods PodSet, key TopologyKey, nodes NodeSet) *Tally {
	return v.s.Tally(pods, key, nodes)
}

// KeepLeast makes Least available for a tally. From now on its least count is kept up to
// date.
func (v View) KeepLeast(t *Tally) {
	if t.dropped { // its bytes are not counted any more
		t.counts.wantLeast()
		return
	}
	v.s.tallies.bytes -= t.counts.bytes()
	t.counts.wantLeast()
	v.s.tallies.bytes += t.counts.bytes()
}

// Differences appends the differences of a tally's counts in the view, for each domain
// with a difference.
func (v View) Differences(t *Tally, to []Difference) []Difference {
	if v.d == nil || t.nodes.in == nil { // or no node is in the set
		return to
	}
	first := len(to)
	for i := range v.d.changes {
		c := &v.d.changes[i]
		if domain := t.nodes.in[c.slot]; domain != noDomain && v.s.counts(t.pods.set, c) {
			to = addDifference(to, first, domain, c.n)
		}
	}
	return to
}

// addDifference adds n to the difference of a domain, among the differences from index
// first on.
func addDifference(to []Difference, first int, domain, n int32) []Difference {
	for i := first; i < len(to); i++ {
		if to[i].Domain == domain {
			to[i].Pods += n
			return to
		}
	}
	return append(to, Difference{domain, n})
}

// TotalWith returns the sum of a tally's counts in a view with these differences.
func (t *Tally) TotalWith(differences []Difference) int64 { return t.counts.total + sumOf(differences) }

func sumOf(differences []Difference) int64 {
	var sum int64
	for _, d := range differences {
		sum += int64(d.Pods)
	}
	return sum
}

// Expanded returns a tally's counts by domain, as an array that is valid until the next
// turn or change of the state. Domains beyond its end have count 0. The goroutine that
// owns the state must call it.
func (v View) Expanded(t *Tally) []int32 { return v.s.expanded(t.topology(), &t.counts) }

// ExpandedWith is Expanded in a view with these differences.
func (v View) ExpandedWith(t *Tally, differences []Difference) []int32 {
	if len(differences) == 0 {
		return v.Expanded(t)
	}
	counts := make([]int32, len(t.topology().value))
	t.counts.each(func(domain, pods int32) { counts[domain] = pods })
	for _, d := range differences {
		counts[d.Domain] += d.Pods
	}
	return counts
}

// TermDifferences calls yield with each term that selects the pod and whose counts differ
// in the view, and the differences by domain. This includes terms that no pod of the
// state carries.
func (v View) TermDifferences(pod *model.Pod, yield func(t Matching, differences []Difference)) {
	if v.d == nil {
		return
	}
	namespace := v.s.theirNamespace(pod.Namespace)
	for i := range v.d.terms {
		t := &v.d.terms[i]
		if t.list == nil {
			if t.Term.Matches(pod, namespace.labels) {
				yield(Matching{t.TermCounts, EffectOf(t.Kind, t.Weight)}, t.differences)
			}
		} else if effect, _ := t.matcher.effect(namespace, pod.Labels); effect != (Effect{}) {
			yield(Matching{t.TermCounts, effect}, t.differences)
		}
	}
}

// TermDifference returns the differences of a term's counts in the view, for each domain
// with a difference.
func (v View) TermDifference(t *TermCounts) []Difference {
	if v.d == nil {
		return nil
	}
	for i := range v.d.terms {
		if v.d.terms[i].TermCounts == t {
			return v.d.terms[i].differences
		}
	}
	return nil
}

// Domains returns the domain of each slot under a key, -1 for none.
func (v View) Domains(key TopologyKey) []int32 { return v.s.Domains(key) }

// Sums returns zeros by domain under a key, as State.Sums does.
func (v View) Sums(key TopologyKey) []int64 { return v.s.Sums(key) }

// InSet reports whether a pod, on whatever node, is in the set.
func (v View) InSet(set PodSet, pod *model.Pod) bool { return v.s.InSet(set, pod) }

// TermsVersion changes whenever the result of TermsMatching may change.
func (v View) TermsVersion() uint64 { return v.s.terms.version }

// TermsMatching returns the terms that pods of the state carry and that select the pod,
// as State.TermsMatching does.
func (v View) TermsMatching(pod *model.Pod) []Matching { return v.s.TermsMatching(pod) }

// DefaultSelectorVersion returns the version of the inputs of the pod's default selector,
// as State.DefaultSelectorVersion does.
func (v View) DefaultSelectorVersion(pod *model.Pod, before SelectorVersion) (now SelectorVersion, same bool) {
	return v.s.DefaultSelectorVersion(pod, before)
}

// DefaultSelector returns the selector of the pod's default topology spread constraints,
// as State.DefaultSelector does.
func (v View) DefaultSelector(pod *model.Pod) labels.Selector { return v.s.DefaultSelector(pod) }

// Holders returns the pods that hold a part of an object, in the order in which they were
// assumed. A hold lasts until its pod is forgotten: the binding failed, the pod is gone,
// or it turned out to be on another node. A hold of devices also lasts until the binding
// has ended. The slice is valid as long as the view is.
func (v View) Holders(object model.Ref) []Holder {
	holders := v.s.held[object]
	if v.d == nil {
		return holders
	}
	var left []Holder
	for _, h := range holders {
		if _, changed := v.d.last[h.Pod]; !changed {
			left = append(left, h)
		}
	}
	for i := range v.d.changes {
		c := &v.d.changes[i]
		if c.n < 0 || int(v.d.last[c.pod.Key()]) != i {
			continue
		}
		for _, hold := range c.holds {
			if hold.Object == object {
				left = append(left, Holder{c.pod.Key(), hold.Plugin, hold.Value})
			}
		}
	}
	return left
}

// Storage returns the volume store. It has the pods of the state: Node.Volumes has the
// pods of a draft's nodes, and Holders has the holds of a draft's placements.
func (v View) Storage() *storage.Store { return v.s.storage }

// Devices returns the device store. It has the placements of the state: pods of a draft
// hold and free no devices, as in kube-scheduler.
func (v View) Devices() *devices.Store { return v.s.devices }

// Nominated returns the number of pods with a nominated node, or with room held for their
// pod group.
func (v View) Nominated() int { return v.s.Nominated() }

// IsNominated reports whether the pod is nominated.
func (v View) IsNominated(key model.PodKey) bool { return v.s.nominations.byPod[key] != nil }

// NominatedBefore returns the pods nominated to a node for which a pod must leave space:
// other pods that it does not outrank. They are in the order in which their versions were
// last seen. The slice is the state's own and valid until the next change.
func (v View) NominatedBefore(pod *model.Pod, slot int32) []*model.Pod {
	on := v.s.nominations.byNode[v.s.name[slot]]
	for i, other := range on {
		if v.comesBefore(other, pod) {
			continue
		}
		before := slices.Clone(on[:i])
		for _, other := range on[i+1:] {
			if v.comesBefore(other, pod) {
				before = append(before, other)
			}
		}
		return before
	}
	return on // all of them, as nearly always
}

func (v View) comesBefore(nominated, pod *model.Pod) bool {
	if nominated.Priority < pod.Priority || nominated.UID == pod.UID || v.d.places(nominated.Key()) {
		return false
	}
	// The reservation is for the pod's own group or tree.
	if k := v.s.nominations.holdFor[nominated]; k != nil && v.s.nominations.holdOf[pod.Group] == k {
		return false
	}
	return !v.areTriedTogether(nominated.Group, pod.Group)
}

// areTriedTogether reports whether members of two PodGroups have their turns together:
// the groups are the same or in one tree. Such members leave no space for each other's
// nominations. kube-scheduler looks up nominated pods in its queue, which has none of a
// group during its turn.
func (v View) areTriedTogether(a, b model.GroupKey) bool {
	of := v.s.groups.objects[a]
	if of == nil || a == b {
		return of != nil
	}
	other := v.s.groups.objects[b]
	if other == nil || of.Parent == "" || other.Parent == "" {
		return false
	}
	top, _ := v.topOf(of)
	otherTop, _ := v.topOf(other)
	return top != nil && top == otherTop
}

// NominatedBelow returns the pods nominated to a node that a pod outranks, in the order
// in which their versions were last seen. As in kube-scheduler, which ends nominations in
// the API, it has no pods that a plugin has nominated and that the API shows without a
// nomination.
func (v View) NominatedBelow(pod *model.Pod, slot int32) []*model.Pod {
	var below []*model.Pod
	for _, other := range v.s.nominations.byNode[v.s.name[slot]] {
		if other.Priority < pod.Priority && !v.d.places(other.Key()) && v.s.nominations.holdFor[other] == nil &&
			(!other.NominatedByPlugin || isNominatedInAPI(other)) {
			below = append(below, other)
		}
	}
	return below
}

// AddNominated adds the use by the nominated pods of a node with at least the given
// priority.
func (v View) AddNominated(slot int32, priority int32, to *Use) {
	if v.s.Nominated() == 0 {
		return
	}
	for _, other := range v.s.nominations.byNode[v.s.name[slot]] {
		if other.Priority >= priority && !v.d.places(other.Key()) {
			to.Add(other, +1)
		}
	}
}

// NominatedTo returns the slot of the node that a pod is nominated to; ok is false if it
// has no nomination or the node does not exist.
func (v View) NominatedTo(key model.PodKey) (slot int32, ok bool) {
	pod := v.s.nominations.byPod[key]
	if pod == nil {
		return 0, false
	}
	return v.Slot(pod.NominatedNode)
}

// NominatedNodes returns the number of nodes with nominated pods.
func (v View) NominatedNodes() int { return len(v.s.nominatedSlots()) }

// EachNominated calls yield with each node that has such pods, as NominatedBefore returns
// them, in the order of the slots. The goroutine that owns the state must call it.
func (v View) EachNominated(pod *model.Pod, yield func(slot int32, before []*model.Pod)) {
	for _, slot := range v.s.nominatedSlots() {
		if before := v.NominatedBefore(pod, slot); len(before) > 0 {
			yield(slot, before)
		}
	}
}
