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

// Version is that of the JSON of an Advice. It is raised when a field changes its meaning or goes; fields may be added.
const Version = 1

// Advice is what would help one pod.
type Advice struct {
	Version int `json:"version"`
	// Suggestions are changes with each of which the pod would have a node, the smallest change first; see Change.Kind for the order.
	Suggestions []Suggestion `json:"suggestions"`
	// Missing names what the pod needs and the cluster lacks where it was not tried what would come of creating it: nothing is promised.
	Missing []string `json:"missing,omitempty"`
	// Decisions is how many decisions the search took. CutShort says that it was ended by its bounds, so there may be further or smaller changes.
	Decisions int  `json:"decisions"`
	CutShort  bool `json:"cutShort,omitempty"`
}

// Suggestion is what to change, and what comes of it.
type Suggestion struct {
	// Changes are to be made together: one, or two where no single one helps.
	Changes []Change `json:"changes"`
	// Node is where the pod goes then.
	Node string `json:"node"`
	// Pending is how many pods of the same owner wait besides this one, Follow how many of these find a node after it if the change is made to them too. Both are 0 where that was not counted:
	// the owner has no other pod that waits, or each of its pods has claims of its own.
	Pending int `json:"pending,omitempty"`
	Follow  int `json:"follow,omitempty"`
}

// Change is one change of the pod or of the cluster.
type Change struct {
	Kind Kind `json:"kind"`
	// Object is what is changed: "pod shop/web", "node n1", "PersistentVolumeClaim shop/data".
	Object string `json:"object"`
	// Text is the change as an instruction, such as "lower the cpu request of container main from 4 to 3500m".
	Text string `json:"text"`
	// Resource, From and To are what is changed in a request or a maxSkew, as quantities.
	Resource string `json:"resource,omitempty"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	// Pods are those to be removed, as namespace/name, those that matter least first.
	Pods []string `json:"pods,omitempty"`
	// Size compares changes of one kind; the smaller is the lesser change. Its unit depends on the kind.
	Size int64 `json:"size"`

	// edit changes a copy of the pod; swaps are the objects that differ in the cluster.
	edit  func(*v1.Pod)
	swaps []swap
}

// swap is an object before and after a change. It is new if before is nil, and gone if after is. Where edit makes the one node from the other, several changes of a node can be made together.
type swap struct {
	before, after kinds.Object
	edit          func(*v1.Node)
}

// swapsOf returns what differs in the cluster after some changes, each node once.
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

// Apply returns the pod as it is after the changes, and the objects of the cluster that are new or differ, and those that are gone.
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

// Kind says what a change is about.
type Kind string

// The kinds, in the order in which suggestions are given: what is most likely a mistake in the pod or the cluster first, what gives up least next, what costs others or money last.
const (
	// Gate removes the pod's scheduling gates; the size is how many.
	Gate Kind = "gate"
	// Claim creates a claim that the pod names, Class the class of one.
	Claim Kind = "claim"
	Class Kind = "class"
	// Selector replaces a label, or the value of one, that the pod's node selector demands and no node has, by one that nodes have, or adds such a value to a term of its node affinity; the size is
	// the distance between both words, in letters.
	Selector Kind = "selector"
	// Tolerate adds a toleration.
	Tolerate Kind = "tolerate"
	// Request lowers a request, to the largest amount with which the pod fits, never to nothing; the size is the part that is given up, in thousandths.
	Request Kind = "request"
	// Skew raises the maxSkew of a spread constraint, to the smallest value; the size is by how much.
	Skew Kind = "maxSkew"
	// Uncordon makes a node schedulable.
	Uncordon Kind = "uncordon"
	// Label sets labels that the pod demands on a node; the size is how many.
	Label Kind = "label"
	// Widen is Selector where nodes have what the pod demands, so that it is no mistake.
	Widen Kind = "widen"
	// DropSelector, DropSpread, DropAffinity, DropAntiAffinity and DropPort remove one of the pod's demands.
	DropSelector     Kind = "dropSelector"
	DropSpread       Kind = "dropSpread"
	DropAffinity     Kind = "dropAffinity"
	DropAntiAffinity Kind = "dropAntiAffinity"
	DropPort         Kind = "dropPort"
	// Remove removes pods from a node, those that matter least and none that a PodDisruptionBudget protects; the size is how many.
	Remove Kind = "remove"
	// AddNode adds an empty node like one that there is, with its devices and drivers.
	AddNode Kind = "addNode"
	// Priority raises the pod's priority, so that pods are evicted for it; the size is by how much.
	Priority Kind = "priority"
)

// order has the kinds in their order.
var order = []Kind{Gate, Claim, Class, Selector, Tolerate, Request, Skew, Uncordon, Label, Widen, DropSelector, DropSpread, DropAffinity, DropAntiAffinity, DropPort, Remove, AddNode, Priority}

// compare is the total order of suggestions: fewer changes, then the later kind, then the earlier kind, then sizes, then more pods that follow, then texts.
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

// The bounds of a search.
const (
	// DecisionsMax is how many decisions are made for one pod.
	DecisionsMax = 600
	// candidatesMax is how many nodes, values, taints, kinds of nodes or pods are tried for one change.
	candidatesMax = 32
	// besideMax is how many nodes to which another plugin objects are kept for pairs, besidePerSortMax how many to which the same plugin does.
	besideMax, besidePerSortMax = 8, 2
	// perKindMax is how many suggestions of one kind are given.
	perKindMax = 3
	// pairsMax is how many pairs are given.
	pairsMax = 3
	// followMax is up to how many pods of the same owner are counted.
	followMax = 20
)

// Cluster is where changes are tried. It is used by one goroutine.
type Cluster struct {
	// State, Engine and In belong to the caller; For leaves the state as it was. Nothing may wait in In.
	State    *state.State
	Engine   *engine.Engine
	In       *ingest.Ingest
	Profiles map[string]*plugin.Profile
	// Nodes are all nodes by name, Others the objects that are neither nodes nor pods.
	Nodes  []*v1.Node
	Others []kinds.Object
	// Reads are the kinds that plugins read.
	Reads []model.Kind
}

// Question is about one pod that no node will do for.
type Question struct {
	Pod *v1.Pod
	// Objections are those of plugins to nodes. Only where a search begins depends on them.
	Objections []Objection
	// Preempts means that pods will be evicted for it, so that nobody need remove any.
	Preempts bool
	// Pending is how many other pods of its owner wait.
	Pending int
	// OfPod means that changes of the pod alone are looked for, and single ones. Within are then the nodes to choose among, nil for all.
	OfPod  bool
	Within *state.Restriction
}

// Objection is a node with the plugins that reject it.
type Objection struct {
	Node    string
	Plugins []string
}

// For returns what would help a pod.
func For(c Cluster, q Question) Advice {
	t := newTrial(c, q)
	t.advice.Suggestions = []Suggestion{}
	if _, placed := t.try(); placed {
		return t.advice // a node will do
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

// knobs are the changes to try, in the order of their kinds.
func (t *trial) knobs() []knob {
	return inOrder(append(t.knobsOfPod(), made(t.claims, t.uncordons, t.labels, t.devices, t.newNodes)...))
}

// knobsOfPod are those of the pod itself.
func (t *trial) knobsOfPod() []knob {
	return inOrder(made(t.gates, t.selectors, t.tolerations, t.requests, t.skews, t.antiAffinities, t.affinities, t.ports))
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

// singles tries each change by itself.
func (t *trial) singles(knobs []knob) {
	found, groups := map[Kind]int{}, map[string]bool{}
	for i := range knobs {
		k := &knobs[i]
		if k.inPairs || found[k.kind] == perKindMax || k.group != "" && groups[k.group] {
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

// pairs tries two changes together, those of the first kinds first.
func (t *trial) pairs(knobs []knob) {
	for sum := 1; sum < 2*len(knobs)-2; sum++ {
		for i := max(0, sum-len(knobs)+1); 2*i < sum; i++ {
			a, b := &knobs[i], &knobs[sum-i]
			if a.group != "" && a.group == b.group || clash(a, b) {
				continue
			}
			if len(t.advice.Suggestions) == pairsMax || !t.mayGoOn() {
				return
			}
			t.pair(a, b)
		}
	}
}

// clash reports whether two changes cannot be made together, because both replace the same object, such as the volume of two claims.
func clash(a, b *knob) bool {
	of := b.at(b.settings - 1).swaps
	return slices.ContainsFunc(a.at(a.settings-1).swaps, func(s swap) bool {
		return s.before != nil && s.edit == nil && slices.ContainsFunc(of, func(o swap) bool { return o.before == s.before })
	})
}

// pair suggests both changes, if the pod fits with both: each as small as it can be beside the other, and of such pairs one in which the greater of both is as small as it can be.
func (t *trial) pair(a, b *knob) {
	if _, ok := t.try(a.at(a.settings-1), b.at(b.settings-1)); !ok {
		return
	}
	most := max(a.at(a.settings-1).Size, b.at(b.settings-1).Size)
	too, enough := int64(-1), most // sizes: with changes up to too the pod does not fit, with those up to enough it does
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
		return // the search has to end
	}
	if second, node, ok := t.least(small, first); ok {
		t.advice.Suggestions = append(t.advice.Suggestions, Suggestion{Changes: []Change{first, second}, Node: node})
	}
}
