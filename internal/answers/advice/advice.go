package advice

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Version is the version of the JSON of an Advice. It increases when a field is removed
// or changes its meaning. New fields do not change it.
const Version = 1

// Advice lists changes that would help one pod.
type Advice struct {
	Version int `json:"version"`
	// Suggestions are changes that give the pod a node, each on its own, the smallest
	// change first. The order is described at the constants of Kind.
	Suggestions []Suggestion `json:"suggestions"`
	// Missing names objects that the pod needs and the cluster lacks, unless a suggestion
	// creates them. Creating them may not be enough.
	Missing []string `json:"missing,omitempty"`
	// Decisions is the number of decisions of the search. CutShort is set if the search
	// reached a limit, so further or smaller changes may exist.
	Decisions int  `json:"decisions"`
	CutShort  bool `json:"cutShort,omitempty"`
}

// Suggestion is a set of changes and its result.
type Suggestion struct {
	// Changes are to be made together: a single change, or two if no single one helps.
	Changes []Change `json:"changes"`
	// Node is the pod's node after the changes.
	Node string `json:"node"`
	// Pending is the number of other pending pods of the same owner. Follow is the number
	// of them that find a node after this pod if they get the same change. Both are 0 if
	// they were not counted: the owner has no other pending pod, or each of its pods has
	// claims of its own.
	Pending int `json:"pending,omitempty"`
	Follow  int `json:"follow,omitempty"`
}

// Change is one change of the pod or of the cluster.
type Change struct {
	Kind Kind `json:"kind"`
	// Object is the changed object: "pod shop/web", "node n1", "PersistentVolumeClaim
	// shop/data".
	Object string `json:"object"`
	// Text is the change as an instruction, such as "lower the cpu request of container
	// main from 4 to 3500m".
	Text string `json:"text"`
	// Resource, From and To describe a changed request or maxSkew, as quantities.
	Resource string `json:"resource,omitempty"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	// Pods are the pods to remove, as namespace/name, the least important first.
	Pods []string `json:"pods,omitempty"`
	// Size compares changes of one kind; smaller is better. The unit depends on the kind.
	Size int64 `json:"size"`

	// edit changes a copy of the pod. swaps are the changes of objects in the cluster.
	edit  func(*v1.Pod)
	swaps []swap
}

// swap is an object before and after a change, such as a node with another label. before
// is nil for a new object, after for a deleted one. edit, if set, makes the new node from
// the old one, so that several changes of one node can be combined.
type swap struct {
	before, after kinds.Object
	edit          func(*v1.Node)
}

// swapsOf returns the objects that some changes replace, each node once.
func swapsOf(changes []Change) []swap {
	var all []swap
	at := map[string]int{}
	for i := range changes {
		for _, s := range changes[i].swaps {
			if s.edit == nil {
				all = append(all, s)
				continue
			}
			before, seen := at[s.before.GetName()]
			if !seen {
				at[s.before.GetName()] = len(all)
				all = append(all, s)
				continue
			}
			node := all[before].after.(*v1.Node).DeepCopy()
			s.edit(node)
			all[before].after = node
		}
	}
	return all
}

// Apply returns the changed pod, the objects of the cluster that are new or changed, and
// the deleted ones.
func (s *Suggestion) Apply(pod *v1.Pod) (changed *v1.Pod, set, gone []kinds.Object) {
	changed = edited(pod, s.Changes)
	for _, w := range swapsOf(s.Changes) {
		if w.after == nil {
			gone = append(gone, w.before)
		} else {
			set = append(set, w.after)
		}
	}
	return changed, set, gone
}

// Kind is the kind of a change.
type Kind string

// The kinds, in the order of suggestions. Likely mistakes in the pod or the cluster come
// first, then the changes that give up least, then those that affect others or cost
// money.
const (
	// Gate removes the pod's scheduling gates; the size is their number.
	Gate Kind = "gate"
	// Claim creates a claim that the pod names, Class the class of a claim.
	Claim Kind = "claim"
	Class Kind = "class"
	// Selector corrects a label or value that the pod's node selector requires and no
	// node has. The replacement is a label or value of some node. In the node affinity it
	// adds a value to a term. The size is the edit distance between the two words.
	Selector Kind = "selector"
	// Tolerate adds a toleration.
	Tolerate Kind = "tolerate"
	// DeviceSelector replaces values that a device request compares attributes with by
	// the values of a device. DeviceTolerate tolerates the taints of a device. The size
	// is the number of values or taints. Claims are immutable, so a claim is replaced, or
	// its template is changed.
	DeviceSelector Kind = "deviceSelector"
	DeviceTolerate Kind = "deviceTolerate"
	// DeviceCount lowers the number of requested devices; the size is the reduction.
	DeviceCount Kind = "deviceCount"
	// Request lowers a request to the largest amount that fits, never to zero. The size
	// is the reduction, in thousandths of the request.
	Request Kind = "request"
	// Skew raises the maxSkew of a spread constraint to the smallest value that fits. The
	// size is the increase.
	Skew Kind = "maxSkew"
	// Uncordon makes a node schedulable.
	Uncordon Kind = "uncordon"
	// Label sets labels on a node that the pod requires; the size is their number.
	Label Kind = "label"
	// Widen is Selector for a requirement that is no typing error: some node has the
	// value, or the operator is not In.
	Widen Kind = "widen"
	// DropSelector, DropSpread, DropAffinity, DropAntiAffinity and DropPort remove one of
	// the pod's requirements.
	DropSelector     Kind = "dropSelector"
	DropSpread       Kind = "dropSpread"
	DropAffinity     Kind = "dropAffinity"
	DropAntiAffinity Kind = "dropAntiAffinity"
	DropPort         Kind = "dropPort"
	// DeviceClass requests devices of another class. DropDeviceSelector drops the parts
	// of a device request's selectors that are false for a device; the size is their
	// number. DropConstraint drops a constraint between devices.
	DeviceClass        Kind = "deviceClass"
	DropDeviceSelector Kind = "dropDeviceSelector"
	DropConstraint     Kind = "dropConstraint"
	// Remove removes the least important pods from a node. No PodDisruptionBudget is
	// violated. The size is the number of pods.
	Remove Kind = "remove"
	// AddNode adds an empty copy of an existing node, with its devices and drivers.
	AddNode Kind = "addNode"
	// Priority raises the pod's priority so that it preempts pods. The size is the
	// increase.
	Priority Kind = "priority"
)

// order lists all kinds in their order.
var order = []Kind{
	Gate, Claim, Class, Selector, DeviceSelector, Tolerate, DeviceTolerate, Request, DeviceCount, Skew, Uncordon, Label, Widen, DeviceClass,
	DropSelector, DropSpread, DropAffinity, DropAntiAffinity, DropPort, DropDeviceSelector, DropConstraint, Remove, AddNode, Priority,
}

// compare orders suggestions: by the number of changes, by the later kind, the earlier
// kind, sizes, more following pods, and texts.
func compare(a, b *Suggestion) int {
	by := cmp.Compare(len(a.Changes), len(b.Changes))
	for i := range slices.Backward(a.Changes[:min(len(a.Changes), len(b.Changes))]) {
		by = cmp.Or(by, cmp.Compare(slices.Index(order, a.Changes[i].Kind), slices.Index(order, b.Changes[i].Kind)))
	}
	for i := range min(len(a.Changes), len(b.Changes)) {
		by = cmp.Or(by, cmp.Compare(a.Changes[i].Size, b.Changes[i].Size))
	}
	by = cmp.Or(by, cmp.Compare(b.Follow, a.Follow))
	for i := range min(len(a.Changes), len(b.Changes)) {
		by = cmp.Or(by, cmp.Compare(a.Changes[i].Text, b.Changes[i].Text))
	}
	return by
}

// The limits of a search.
const (
	// MaxDecisions limits the decisions for one pod.
	MaxDecisions = 600
	// maxCandidates limits the nodes, values, taints, kinds of nodes or pods that are
	// tried for one change.
	maxCandidates = 32
	// For pairs, at most maxBeside nodes that another plugin rejects are kept. At most
	// maxBesidePerSort of them are rejected by the same plugin.
	maxBeside, maxBesidePerSort = 8, 2
	// maxPerKind limits the suggestions of one kind.
	maxPerKind = 3
	// maxPairs limits the suggested pairs.
	maxPairs = 3
	// maxFollow limits the counted pods of the same owner.
	maxFollow = 20
)

// Cluster is the cluster on which changes are tried. One goroutine uses it.
type Cluster struct {
	// State, Engine and In belong to the caller. For leaves the state unchanged. In must
	// have no pending objects.
	State    *state.State
	Engine   *engine.Engine
	In       *ingest.Ingest
	Profiles map[string]*plugin.Profile
	// Nodes are all nodes, sorted by name. Others are all objects except nodes and pods.
	Nodes  []*v1.Node
	Others []kinds.Object
	// Reads are the kinds that plugins read.
	Reads []model.Kind
}

// Question is about one pod without a feasible node.
type Question struct {
	Pod *v1.Pod
	// Objections are the rejections of nodes. They only decide where a search begins.
	Objections []Objection
	// Preempts means that the pod preempts pods, so no removal need be suggested.
	Preempts bool
	// Pending is the number of other pending pods of its owner.
	Pending int
	// OfPod restricts the search to single changes of the pod. Within are then the
	// allowed nodes; nil for all.
	OfPod  bool
	Within *state.Restriction
}

// Objection is a node with the plugins that reject it.
type Objection struct {
	Node    string
	Plugins []string
}

// For returns the changes that would help a pod.
func For(c Cluster, q Question) Advice {
	t := newTrial(c, q)
	t.advice.Suggestions = []Suggestion{}
	if _, placed := t.try(); placed {
		return t.advice // The pod has a feasible node already.
	}
	if q.OfPod {
		t.singles(t.knobsOfPod())
	} else {
		knobs := t.knobs()
		t.singles(knobs)
		t.removals()
		if len(t.advice.Suggestions) == 0 {
			t.pairs(knobs)
		}
		t.missing()
		t.follow()
	}
	slices.SortStableFunc(t.advice.Suggestions, func(a, b Suggestion) int { return compare(&a, &b) })
	return t.advice
}

// knobs returns the changes to try, in the order of their kinds.
func (t *trial) knobs() []knob {
	return inOrder(append(t.knobsOfPod(), made(t.claims, t.deviceEdits, t.uncordons, t.labels, t.devices, t.newNodes)...))
}

// knobsOfPod returns the changes of the pod alone.
func (t *trial) knobsOfPod() []knob {
	return inOrder(made(t.gates, t.ownedSelectors, t.tolerations, t.requests, t.skews, t.antiAffinities, t.affinities, t.ports))
}

func made(by ...func() []knob) (all []knob) {
	for _, of := range by {
		all = append(all, of()...)
	}
	return all
}

func inOrder(all []knob) []knob {
	slices.SortStableFunc(all, func(a, b knob) int { return cmp.Compare(slices.Index(order, a.kind), slices.Index(order, b.kind)) })
	return all
}

// singles tries each change alone.
func (t *trial) singles(knobs []knob) {
	found, groups := map[Kind]int{}, map[string]bool{}
	for i := range knobs {
		k := &knobs[i]
		if k.inPairs || found[k.kind] == maxPerKind || k.group != "" && groups[k.group] {
			continue
		}
		change, node, ok := t.least(k)
		if !ok {
			continue
		}
		found[k.kind]++
		groups[k.group] = true
		t.advice.Suggestions = append(t.advice.Suggestions, Suggestion{Changes: []Change{change}, Node: node})
	}
}

// pairs tries two changes together, in the order of the sum of their positions in knobs.
func (t *trial) pairs(knobs []knob) {
	for sum := 1; sum < 2*len(knobs)-2; sum++ {
		for i := max(0, sum-len(knobs)+1); 2*i < sum; i++ {
			a, b := &knobs[i], &knobs[sum-i]
			if a.group != "" && a.group == b.group || clash(a, b) {
				continue
			}
			if len(t.advice.Suggestions) == maxPairs || !t.mayGoOn() {
				return
			}
			t.pair(a, b)
		}
	}
}

// clash reports whether two changes exclude each other because both replace the same
// object, such as the volume of two claims.
func clash(a, b *knob) bool {
	of := b.at(b.settings - 1).swaps
	return slices.ContainsFunc(a.at(a.settings-1).swaps, func(s swap) bool {
		return s.before != nil && s.edit == nil && slices.ContainsFunc(of, func(o swap) bool { return o.before == s.before })
	})
}

// pair suggests both changes if the pod fits with both. It minimises the larger size
// first, then each change beside the other.
func (t *trial) pair(a, b *knob) {
	if _, ok := t.try(a.at(a.settings-1), b.at(b.settings-1)); !ok {
		return
	}
	most := max(a.at(a.settings-1).Size, b.at(b.settings-1).Size)
	// Bisection over sizes: the pod fits with changes up to `enough`, and not with
	// changes up to `too`.
	too, enough := int64(-1), most
	for enough-too > 1 && t.mayGoOn() && a.settings+b.settings > 2 {
		middle := too + (enough-too)/2
		if _, ok := t.try(a.at(a.upTo(middle)), b.at(b.upTo(middle))); ok {
			enough = middle
		} else {
			too = middle
		}
	}
	large, small := a.within(enough), b.within(enough)
	first, _, ok := t.least(large, small.at(small.settings-1))
	if !ok {
		return // The limit of decisions is reached.
	}
	if second, node, ok := t.least(small, first); ok {
		t.advice.Suggestions = append(t.advice.Suggestions, Suggestion{Changes: []Change{first, second}, Node: node})
	}
}
