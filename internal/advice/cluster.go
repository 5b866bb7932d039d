package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/plugins/nodeunschedulable"
	"github.com/berth-scheduler/berth/internal/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/plugins/tainttoleration"
)

// ofNode returns a change of one node.
func ofNode(kind Kind, size int64, before, after *v1.Node, format string, args ...any) Change {
	return Change{Kind: kind, Object: "node " + before.Name, Text: fmt.Sprintf(format, args...), Size: size, swaps: []swap{{before, after}}}
}

// candidates returns the nodes for which a change is tried, those to which the fewest plugins object first; of equal ones the first by name. Nodes to which plugins object that the change does not
// concern are left out where there are too many: it does not help there.
func (t *trial) candidates(is func(*v1.Node) bool, concerns ...string) []*v1.Node {
	objections := map[string][]string{}
	for _, o := range t.Objections {
		objections[o.Node] = o.Plugins
	}
	others := func(node *v1.Node) (n int) {
		for _, plugin := range objections[node.Name] {
			if !slices.Contains(concerns, plugin) {
				n++
			}
		}
		return n
	}
	var all, hopeful []*v1.Node
	for _, node := range t.Nodes {
		if !is(node) {
			continue
		}
		if all = append(all, node); others(node) == 0 {
			hopeful = append(hopeful, node)
		}
	}
	if len(all) > candidatesMax {
		return firstOf(t, hopeful)
	}
	slices.SortStableFunc(all, func(a, b *v1.Node) int { return cmp.Compare(others(a), others(b)) })
	return all
}

// uncordons make one node schedulable each, and remove the taint that goes with it.
func (t *trial) uncordons() []knob {
	var knobs []knob
	for _, node := range t.candidates(func(n *v1.Node) bool { return n.Spec.Unschedulable }, nodeunschedulable.Name, tainttoleration.Name, podtopologyspread.Name) {
		after := node.DeepCopy()
		after.Spec.Unschedulable = false
		after.Spec.Taints = slices.DeleteFunc(after.Spec.Taints, func(taint v1.Taint) bool { return taint.Key == v1.TaintNodeUnschedulable })
		knobs = append(knobs, single("uncordon", ofNode(Uncordon, 1, node, after, "uncordon node %s", node.Name)))
	}
	return knobs
}

// labels set the labels on one node each that the pod's node selector demands, and each of the terms of its node affinity.
func (t *trial) labels() []knob {
	var knobs []knob
	for _, wanted := range t.wantedLabels() {
		missing := func(n *v1.Node) []string {
			var all []string
			for _, key := range slices.Sorted(maps.Keys(wanted)) {
				if n.Labels[key] != wanted[key] {
					all = append(all, key+"="+wanted[key])
				}
			}
			return all
		}
		may := func(n *v1.Node) bool {
			lacks := missing(n)
			return len(lacks) > 0 && !slices.ContainsFunc(lacks, func(label string) bool { return isGiven(label) })
		}
		candidates := t.candidates(may, nodeaffinity.Name, podtopologyspread.Name, interpodaffinity.Name)
		slices.SortStableFunc(candidates, func(a, b *v1.Node) int { return cmp.Compare(len(missing(a)), len(missing(b))) })
		for _, node := range candidates {
			after, lacks := node.DeepCopy(), missing(node)
			if after.Labels == nil {
				after.Labels = map[string]string{}
			}
			maps.Copy(after.Labels, wanted)
			knobs = append(knobs, single("label", ofNode(Label, int64(len(lacks)), node, after, "label node %s with %s", node.Name, strings.Join(lacks, " "))))
		}
	}
	slices.SortStableFunc(knobs, func(a, b knob) int { return cmp.Compare(a.at(0).Size, b.at(0).Size) })
	return knobs
}

// isGiven reports whether a label says what a node is. It is not for people to set another value.
func isGiven(label string) bool {
	key, _, _ := strings.Cut(label, "=")
	prefix, _, ok := strings.Cut(key, "/")
	return ok && (prefix == "kubernetes.io" || strings.HasSuffix(prefix, ".kubernetes.io") && !strings.HasPrefix(prefix, "node-role.") && !strings.HasPrefix(prefix, "node-restriction."))
}

// wantedLabels returns, for each term of the node affinity, labels with which a node meets it and the node selector; none for a term that labels cannot meet.
func (t *trial) wantedLabels() []map[string]string {
	required := requiredOf(t.Pod)
	if required == nil {
		if len(t.Pod.Spec.NodeSelector) == 0 {
			return nil
		}
		return []map[string]string{t.Pod.Spec.NodeSelector}
	}
	var all []map[string]string
terms:
	for i := range required.NodeSelectorTerms {
		wanted := maps.Clone(t.Pod.Spec.NodeSelector)
		if wanted == nil {
			wanted = map[string]string{}
		}
		for _, e := range required.NodeSelectorTerms[i].MatchExpressions {
			switch e.Operator {
			case v1.NodeSelectorOpIn:
				if had, ok := wanted[e.Key]; !ok {
					wanted[e.Key] = e.Values[0]
				} else if !slices.Contains(e.Values, had) {
					continue terms
				}
			case v1.NodeSelectorOpExists:
				if _, ok := wanted[e.Key]; !ok {
					wanted[e.Key] = ""
				}
			}
		}
		if len(wanted) > 0 {
			all = append(all, wanted)
		}
	}
	return all
}

// newNodes add one node each, like one that there is.
func (t *trial) newNodes() []knob {
	var knobs []knob
	for _, pool := range firstOf(t, t.pools()) {
		like := pool.First
		swaps := []swap{{nil, CopyOf(like, t.freeName(like))}}
		for _, other := range t.Others {
			if copied := copyFor(other, like.Name, swaps[0].after.GetName()); copied != nil {
				swaps = append(swaps, swap{nil, copied})
			}
		}
		knobs = append(knobs, single("", Change{Kind: AddNode, Object: "node " + like.Name, Text: "add a node like " + like.Name, Size: 1, swaps: swaps}))
	}
	return knobs
}

func (t *trial) freeName(like *v1.Node) string {
	for i := 0; ; i++ {
		if _, taken := t.State.Slot(nth(like.Name, i)); !taken {
			return nth(like.Name, i)
		}
	}
}

// Pool is the nodes that differ in name alone, and in what pods occupy of them.
type Pool struct {
	// First is the first of them by name.
	First *v1.Node
	Nodes int
}

// Pools returns the pools of nodes that are given by name, the largest first.
func Pools(nodes []*v1.Node) []Pool {
	at := map[string]int{}
	var pools []Pool
	for _, node := range nodes {
		key := poolKey(node)
		i, ok := at[key]
		if !ok {
			i = len(pools)
			at[key] = i
			pools = append(pools, Pool{First: node})
		}
		pools[i].Nodes++
	}
	slices.SortStableFunc(pools, func(a, b Pool) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return pools
}

func (t *trial) pools() []Pool {
	if t.kindsOfNodes == nil {
		t.kindsOfNodes = Pools(t.Nodes)
	}
	return t.kindsOfNodes
}

// poolKey is equal for nodes of one pool.
func poolKey(node *v1.Node) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(node.Status.Allocatable)) {
		amount := node.Status.Allocatable[name]
		fmt.Fprintf(&b, "%s=%s\n", name, amount.String())
	}
	for _, name := range slices.Sorted(maps.Keys(node.Labels)) {
		if !isName(node, name) {
			fmt.Fprintf(&b, "%s:%s\n", name, node.Labels[name])
		}
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		fmt.Fprintf(&b, "%s=%s:%s\n", taint.Key, taint.Value, taint.Effect)
	}
	fmt.Fprintf(&b, "%t %q", node.Spec.Unschedulable, node.Status.DeclaredFeatures)
	return b.String()
}

// isName reports whether a label has the name of the node.
func isName(node *v1.Node, label string) bool {
	return label == v1.LabelHostname || node.Labels[label] == node.Name
}

// CopyOf returns a node like another, with another name and without images.
func CopyOf(like *v1.Node, name string) *v1.Node {
	node := like.DeepCopy()
	node.Name, node.UID, node.Status.Images = name, types.UID(name), nil
	for label := range node.Labels {
		if isName(like, label) {
			node.Labels[label] = name
		}
	}
	return node
}

// copyFor returns what a node like another has of an object that is about that node: its drivers, and its devices. It is nil for any other object.
func copyFor(object kinds.Object, like, name string) kinds.Object {
	switch o := object.(type) {
	case *storagev1.CSINode:
		if o.Name == like {
			node := o.DeepCopy()
			node.Name, node.UID = name, types.UID(name)
			for i := range node.Spec.Drivers {
				node.Spec.Drivers[i].NodeID = name
			}
			return node
		}
	case *resourcev1.ResourceSlice:
		if o.Spec.NodeName != nil && *o.Spec.NodeName == like {
			slice := o.DeepCopy()
			slice.Name, slice.UID, slice.Spec.NodeName = o.Name+"-"+name, types.UID(o.Name+"-"+name), &name
			slice.Spec.Pool.Name = strings.ReplaceAll(o.Spec.Pool.Name, like, name)
			if slice.Spec.Pool.Name == o.Spec.Pool.Name {
				slice.Spec.Pool.Name += "-" + name
			}
			return slice
		}
	}
	return nil
}
