package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/decide/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeaffinity"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodeunschedulable"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/decide/plugins/tainttoleration"
)

// ofNode returns a change of one node.
func ofNode(kind Kind, size int64, node *v1.Node, edit func(*v1.Node), format string, args ...any) Change {
	after := node.DeepCopy()
	edit(after)
	return Change{Kind: kind, Object: "node " + node.Name, Text: fmt.Sprintf(format, args...), Size: size, swaps: []swap{{node, after, edit}}}
}

// candidate is a node on which a change is tried. With inPairs the change is only tried
// together with another one, because an unrelated plugin rejects the node too.
type candidate struct {
	*v1.Node
	inPairs bool
}

// candidates returns the nodes on which a change is tried. concerns are the plugins that
// the change affects. An objection of any other plugin is unrelated: the change cannot
// remove it. Nodes with the fewest unrelated objections come first, then by name.
//
// Above maxCandidates, single changes are only tried on nodes without unrelated
// objections, because the change helps nowhere else. A few nodes with one unrelated
// objection are kept for pairs of changes.
func (t *trial) candidates(is func(*v1.Node) bool, concerns ...string) []candidate {
	objections := map[string][]string{}
	for _, o := range t.Objections {
		objections[o.Node] = o.Plugins
	}
	others := func(node *v1.Node) (of []string) {
		for _, plugin := range objections[node.Name] {
			if !slices.Contains(concerns, plugin) {
				of = append(of, plugin)
			}
		}
		return of
	}
	var all, hopeful, beside []candidate
	sorts := map[string]int{}
	for _, node := range t.Nodes {
		if !is(node) {
			continue
		}
		all = append(all, candidate{Node: node})
		switch of := others(node); {
		case len(of) == 0:
			hopeful = append(hopeful, candidate{Node: node})
		// One more change may be enough for such a node.
		case len(of) == 1 && len(beside) < maxBeside && sorts[of[0]] < maxBesidePerSort:
			sorts[of[0]]++
			beside = append(beside, candidate{Node: node, inPairs: true})
		}
	}
	if len(all) > maxCandidates {
		return append(firstOf(t, hopeful), beside...)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(len(others(a.Node)), len(others(b.Node))) })
	return all
}

// uncordons returns a change for each cordoned node: make it schedulable and remove the
// taint that belongs to it.
func (t *trial) uncordons() []knob {
	var knobs []knob
	for _, node := range t.candidates(func(n *v1.Node) bool { return n.Spec.Unschedulable }, nodeunschedulable.Name, tainttoleration.Name, podtopologyspread.Name) {
		knobs = append(knobs, node.knob("uncordon", ofNode(Uncordon, 1, node.Node, uncordon, "uncordon node %s", node.Name)))
	}
	return knobs
}

// knob returns a change of the node with a single setting.
func (c candidate) knob(group string, change Change) knob {
	k := single(group, change)
	k.inPairs = c.inPairs
	return k
}

func uncordon(node *v1.Node) {
	node.Spec.Unschedulable = false
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint v1.Taint) bool { return taint.Key == v1.TaintNodeUnschedulable })
}

// labels returns changes that set missing labels on a node. Each term of the pod's node
// affinity, combined with its node selector, gives one change per node. Labels that meet
// a requirement stay unchanged.
func (t *trial) labels() []knob {
	var knobs []knob
	for _, demands := range t.demands() {
		unmet := func(n *v1.Node) []demand {
			return slices.DeleteFunc(slices.Clone(demands), func(d demand) bool { return d.metBy(n.Labels) })
		}
		may := func(n *v1.Node) bool {
			lacks := unmet(n)
			return len(lacks) > 0 && !slices.ContainsFunc(lacks, func(d demand) bool { return isGiven(d.label) })
		}
		candidates := t.candidates(may, nodeaffinity.Name, podtopologyspread.Name, interpodaffinity.Name)
		slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(len(unmet(a.Node)), len(unmet(b.Node))) })
		for _, node := range candidates {
			lacks := unmet(node.Node)
			knobs = append(knobs, node.knob("label", ofNode(Label, int64(len(lacks)), node.Node, func(n *v1.Node) {
				if n.Labels == nil {
					n.Labels = map[string]string{}
				}
				for _, d := range lacks {
					n.Labels[d.label] = d.value()
				}
			}, "label node %s with %s", node.Name, asLabels(lacks))))
		}
	}
	slices.SortStableFunc(knobs, func(a, b knob) int { return cmp.Compare(a.at(0).Size, b.at(0).Size) })
	return knobs
}

// demand is a pod's requirement on one label of its node: any of the values or, without
// values, that the label exists.
type demand struct {
	label  string
	values []string
}

func (d demand) metBy(labels map[string]string) bool {
	value, has := labels[d.label]
	return has && (len(d.values) == 0 || slices.Contains(d.values, value))
}

// value returns the value to set on a node that does not meet the demand.
func (d demand) value() string {
	if len(d.values) == 0 {
		return ""
	}
	return d.values[0]
}

// asLabels lists the labels to set, as arguments of kubectl label.
func asLabels(demands []demand) string {
	var all []string
	for _, d := range demands {
		all = append(all, d.label+"="+d.value())
	}
	return strings.Join(all, " ")
}

// isGiven reports whether Kubernetes, an autoscaler or a cloud sets a label to describe
// the node. People must not change such labels.
func isGiven(label string) bool {
	prefix, _, ok := strings.Cut(label, "/")
	return ok && (slices.Contains(ofNodePools, prefix) || prefix == "kubernetes.io" ||
		strings.HasSuffix(prefix, ".kubernetes.io") && !strings.HasPrefix(prefix, "node-role.") && !strings.HasPrefix(prefix, "node-restriction."))
}

// demands returns the demands of each term of the node affinity together with the node
// selector. A term that no labels can meet has none.
func (t *trial) demands() [][]demand {
	terms := []v1.NodeSelectorTerm{{}}
	if required := requiredOf(t.Pod); required != nil {
		terms = required.NodeSelectorTerms
	}
	var all [][]demand
	for i := range terms {
		if demands := demandsOf(t.Pod.Spec.NodeSelector, &terms[i]); len(demands) > 0 {
			all = append(all, demands)
		}
	}
	return all
}

// demandsOf returns the labels and values that a node must have to meet a node selector
// and a term; none if no labels can meet both. NotIn, DoesNotExist, Gt and Lt demand no
// particular label: a trial shows whether a node meets them.
func demandsOf(selector map[string]string, term *v1.NodeSelectorTerm) []demand {
	values := map[string][]string{}
	for label, value := range selector {
		values[label] = []string{value}
	}
	for _, e := range term.MatchExpressions {
		had, known := values[e.Key]
		switch e.Operator {
		case v1.NodeSelectorOpIn:
			both := slices.DeleteFunc(slices.Clone(e.Values), func(v string) bool { return len(had) > 0 && !slices.Contains(had, v) })
			if len(both) == 0 {
				return nil
			}
			values[e.Key] = both
		case v1.NodeSelectorOpExists:
			if !known {
				values[e.Key] = nil
			}
		}
	}
	var demands []demand
	for _, label := range slices.Sorted(maps.Keys(values)) {
		demands = append(demands, demand{label, values[label]})
	}
	return demands
}

// newNodes returns a change for each kind of node: add one like it.
func (t *trial) newNodes() []knob {
	var knobs []knob
	for _, pool := range firstOf(t, t.pools()) {
		like := pool.First
		var swaps []swap
		for _, object := range Copies(like, 1, t.Others, t.exists) {
			swaps = append(swaps, swap{after: object})
		}
		knobs = append(knobs, single("", Change{Kind: AddNode, Object: "node " + like.Name, Text: "add a node like " + like.Name, Size: 1, swaps: swaps}))
	}
	return knobs
}

// exists reports whether a node with this name exists.
func (t *trial) exists(name string) bool {
	_, exists := t.State.Slot(name)
	return exists
}

// Copies returns n empty copies of a node, each followed by its drivers and devices.
// These are copied from others, the objects that are neither nodes nor pods. exists
// reports whether a node name is taken.
func Copies(like *v1.Node, n int, others []kinds.Object, exists func(name string) bool) []kinds.Object {
	var equipment, copies []kinds.Object
	for _, other := range others {
		if copyFor(other, like.Name, "") != nil {
			equipment = append(equipment, other)
		}
	}
	for i := 0; n > 0; i++ {
		name := nth(like.Name, i)
		if exists(name) {
			continue
		}
		copies = append(copies, copyOf(like, name))
		for _, other := range equipment {
			copies = append(copies, copyFor(other, like.Name, name))
		}
		n--
	}
	return copies
}

// Pool is a set of nodes that are equal except for their names and usage. Their drivers
// and devices are equal too, if these are given.
type Pool struct {
	// First is the first node by name.
	First *v1.Node
	Nodes int
}

// Pools returns the pools of nodes, which are sorted by name; the largest pool comes
// first. Of the other objects it reads CSINodes and ResourceSlices.
func Pools(nodes []*v1.Node, others []kinds.Object) []Pool {
	at, equipment := map[string]int{}, equipmentOf(others)
	var pools []Pool
	for _, node := range nodes {
		key := poolKey(node) + equipment[node.Name]
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
		t.kindsOfNodes = Pools(t.Nodes, t.Others)
	}
	return t.kindsOfNodes
}

// poolKey returns a text that is equal for nodes of one pool.
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

// equipmentOf returns a text for the drivers and devices of each node, equal for equal
// equipment. An attribute value that only one node has identifies a device, such as a
// serial number, and is ignored.
func equipmentOf(others []kinds.Object) map[string]string {
	lines := map[string][]string{}
	devices := map[string][]*resourcev1.ResourceSlice{}
	for _, other := range others {
		switch o := other.(type) {
		case *storagev1.CSINode:
			for i := range o.Spec.Drivers {
				driver := &o.Spec.Drivers[i]
				most := ""
				if driver.Allocatable != nil && driver.Allocatable.Count != nil {
					most = strconv.Itoa(int(*driver.Allocatable.Count))
				}
				lines[o.Name] = append(lines[o.Name], fmt.Sprintf("driver %s %s %q", driver.Name, most, driver.TopologyKeys))
			}
		case *resourcev1.ResourceSlice:
			if o.Spec.NodeName != nil {
				devices[*o.Spec.NodeName] = append(devices[*o.Spec.NodeName], o)
			}
		}
	}
	nodesWith := map[string]map[string]bool{} // The nodes of each attribute value.
	for node, of := range devices {
		eachAttribute(of, func(_ *resourcev1.Device, name, value string) {
			if nodesWith[name+value] == nil {
				nodesWith[name+value] = map[string]bool{}
			}
			nodesWith[name+value][node] = true
		})
	}
	for node, of := range devices {
		texts := map[*resourcev1.Device][]string{}
		eachAttribute(of, func(device *resourcev1.Device, name, value string) {
			if len(nodesWith[name+value]) == 1 {
				value = ""
			}
			texts[device] = append(texts[device], name+value)
		})
		for _, slice := range of {
			for i := range slice.Spec.Devices {
				device := &slice.Spec.Devices[i]
				text := texts[device]
				for name, c := range device.Capacity {
					text = append(text, string(name)+":"+c.Value.String())
				}
				for j := range device.Taints {
					taint := &device.Taints[j]
					text = append(text, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
				}
				slices.Sort(text)
				lines[node] = append(lines[node], fmt.Sprintf("device %s %q", slice.Spec.Driver, text))
			}
		}
	}
	all := map[string]string{}
	for node, of := range lines {
		slices.Sort(of)
		all[node] = "\n" + strings.Join(of, "\n")
	}
	return all
}

// eachAttribute calls do for each attribute of each device.
func eachAttribute(of []*resourcev1.ResourceSlice, do func(device *resourcev1.Device, name, value string)) {
	for _, slice := range of {
		for i := range slice.Spec.Devices {
			for name, a := range slice.Spec.Devices[i].Attributes {
				var value string
				switch {
				case a.StringValue != nil:
					value = *a.StringValue
				case a.VersionValue != nil:
					value = *a.VersionValue
				case a.IntValue != nil:
					value = strconv.FormatInt(*a.IntValue, 10)
				case a.BoolValue != nil:
					value = strconv.FormatBool(*a.BoolValue)
				}
				do(&slice.Spec.Devices[i], string(name), "="+value)
			}
		}
	}
}

// isName reports whether a label contains the name of the node.
func isName(node *v1.Node, label string) bool {
	return label == v1.LabelHostname || node.Labels[label] == node.Name
}

// copyOf returns a copy of a node with another name and without images.
func copyOf(like *v1.Node, name string) *v1.Node {
	node := like.DeepCopy()
	node.Name, node.UID, node.Status.Images = name, types.UID(name), nil
	for label := range node.Labels {
		if isName(like, label) {
			node.Labels[label] = name
		}
	}
	return node
}

// copyFor copies the CSINode or a ResourceSlice of a node for its copy. It returns nil
// for any other object.
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
