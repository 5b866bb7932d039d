package attribution

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Objects is one snapshot, each object once.
type Objects struct {
	Nodes []*v1.Node
	Pods  []*v1.Pod
	// Others are objects of kinds that plugins read, without nodes and pods.
	Others []kinds.Object
}

// Kind is the kind of a difference.
type Kind string

// The kinds.
const (
	// Own concerns the pod itself.
	Own Kind = "own"
	// MemberNew and MemberGone concern a member of the pod group itself.
	MemberNew  Kind = "memberNew"
	MemberGone Kind = "memberGone"
	// PodCame, PodLeft, PodMoved and PodChanged concern another pod that is on a node or
	// nominated to one.
	PodCame    Kind = "podCame"
	PodLeft    Kind = "podLeft"
	PodMoved   Kind = "podMoved"
	PodChanged Kind = "podChanged"
	// NodeNew and NodeGone concern a whole node. Cordon, Taints, Labels, Allocatable and
	// NodeOther concern a part of one.
	NodeNew     Kind = "nodeNew"
	NodeGone    Kind = "nodeGone"
	Cordon      Kind = "cordon"
	Taints      Kind = "taints"
	Labels      Kind = "labels"
	Allocatable Kind = "allocatable"
	NodeOther   Kind = "nodeOther"
	// ObjectNew, ObjectGone and ObjectChanged concern any other object.
	ObjectNew     Kind = "objectNew"
	ObjectGone    Kind = "objectGone"
	ObjectChanged Kind = "objectChanged"
)

// Differences are the differences between two snapshots that can change the answer about
// a pod or pod group. They are immutable after Between or BetweenForGroup.
type Differences struct {
	// name is namespace/name of the pod or pod group. group is the key of the pod group;
	// nil for a pod.
	name  string
	group *model.GroupKey
	// asked is the pod, or the members of the group. hidden are all pods that are absent
	// while these are judged.
	asked   []subject
	hidden  []model.PodKey
	objects []object
	units   []unit
	// onlyThen and onlyNow mean that only one snapshot has the pod or members.
	onlyThen, onlyNow bool
}

// subject is a pod to judge. then and now are its versions in the two snapshots. If only
// one is set, the pod is judged with this version in both snapshots, except for members
// with a presence.
type subject struct {
	then, now *v1.Pod
	// units are its differing aspects. presence is the unit of a member that exists in
	// one snapshot only; -1 for none.
	units    []int
	presence int
}

// object is an object that differs. before is nil if it is new, after if it was deleted.
type object struct {
	before, after kinds.Object
	// units are the parts that differ: one for the whole object, or some of its aspects.
	units []int
}

// unit is a difference that is undone or applied as a whole.
type unit struct {
	Change
	// object is the index in Differences.objects; -1 for a pod to judge.
	object int
	// nodes are the nodes that the unit concerns. weight is the fraction of a node that
	// it occupies, 1 for all of it.
	nodes  []string
	weight float64
	// node or pod is the aspect; both are nil for a whole object.
	node *aspect[v1.Node]
	pod  *aspect[v1.Pod]
}

// aspect is a part of an object that can be undone separately.
type aspect[T any] struct {
	kind Kind
	// take copies the aspect from one object to another.
	take func(to, from *T)
	// text describes the difference.
	text func(before, after *T) string
}

// nodeAspects are the aspects of a node. The remaining fields are NodeOther.
var nodeAspects = []aspect[v1.Node]{
	{Cordon, func(to, from *v1.Node) {
		to.Spec.Unschedulable = from.Spec.Unschedulable
		to.Spec.Taints = append(taintsOf(to, false), taintsOf(from, true)...)
	}, func(_, after *v1.Node) string {
		if after.Spec.Unschedulable || len(taintsOf(after, true)) > 0 {
			return "was cordoned"
		}
		return "was uncordoned"
	}},
	{Taints, func(to, from *v1.Node) { to.Spec.Taints = append(taintsOf(from, false), taintsOf(to, true)...) }, textOfTaints},
	{Labels, func(to, from *v1.Node) { to.Labels = from.Labels }, func(before, after *v1.Node) string {
		return "has other labels: " + textOfMaps(before.Labels, after.Labels)
	}},
	{Allocatable, func(to, from *v1.Node) { to.Status.Allocatable = from.Status.Allocatable }, func(before, after *v1.Node) string {
		return "has another allocatable: " + textOfAmounts(before.Status.Allocatable, after.Status.Allocatable)
	}},
}

// taintsOf returns the taints that belong to cordoning a node, or the other ones.
func taintsOf(node *v1.Node, ofCordon bool) []v1.Taint {
	var taints []v1.Taint
	for _, taint := range node.Spec.Taints {
		if (taint.Key == v1.TaintNodeUnschedulable) == ofCordon {
			taints = append(taints, taint)
		}
	}
	return taints
}

// podAspects are the aspects of the pod to judge. The remaining fields are one more unit.
var podAspects = []aspect[v1.Pod]{
	{Own, func(to, from *v1.Pod) { to.Labels = from.Labels }, func(before, after *v1.Pod) string {
		return "labels: " + textOfMaps(before.Labels, after.Labels)
	}},
	{Own, func(to, from *v1.Pod) {
		to.Spec.Containers, to.Spec.InitContainers, to.Spec.Overhead, to.Spec.Resources = from.Spec.Containers, from.Spec.InitContainers, from.Spec.Overhead, from.Spec.Resources
		to.Spec.HostNetwork = from.Spec.HostNetwork
		to.Status.ContainerStatuses, to.Status.InitContainerStatuses, to.Status.Resources, to.Status.AllocatedResources, to.Status.Resize = from.Status.ContainerStatuses, from.Status.InitContainerStatuses,
			from.Status.Resources, from.Status.AllocatedResources, from.Status.Resize
	}, func(before, after *v1.Pod) string {
		if text := textOfAmounts(requestsOf(before), requestsOf(after)); text != "" {
			return "requests: " + text
		}
		return "containers"
	}},
	{Own, func(to, from *v1.Pod) { to.Spec.NodeSelector = from.Spec.NodeSelector }, func(before, after *v1.Pod) string {
		return "node selector: " + textOfMaps(before.Spec.NodeSelector, after.Spec.NodeSelector)
	}},
	{Own, func(to, from *v1.Pod) { to.Spec.Affinity = from.Spec.Affinity }, plainly[v1.Pod]("affinity")},
	{Own, func(to, from *v1.Pod) { to.Spec.Tolerations = from.Spec.Tolerations }, plainly[v1.Pod]("tolerations")},
	{Own, func(to, from *v1.Pod) { to.Spec.TopologySpreadConstraints = from.Spec.TopologySpreadConstraints }, plainly[v1.Pod]("topology spread constraints")},
	{Own, func(to, from *v1.Pod) {
		to.Spec.Volumes, to.Spec.ResourceClaims = from.Spec.Volumes, from.Spec.ResourceClaims
		to.Status.ResourceClaimStatuses, to.Status.ExtendedResourceClaimStatus = from.Status.ResourceClaimStatuses, from.Status.ExtendedResourceClaimStatus
	}, plainly[v1.Pod]("volumes and claims")},
	{Own, func(to, from *v1.Pod) {
		to.Spec.Priority, to.Spec.PriorityClassName, to.Spec.PreemptionPolicy = from.Spec.Priority, from.Spec.PriorityClassName, from.Spec.PreemptionPolicy
	}, func(before, after *v1.Pod) string {
		if a, b := priorityOf(before), priorityOf(after); a != b {
			return fmt.Sprintf("priority: %d instead of %d", b, a)
		}
		return "preemption policy"
	}},
	{Own, func(to, from *v1.Pod) { to.Spec.SchedulingGates = from.Spec.SchedulingGates }, plainly[v1.Pod]("scheduling gates")},
	{Own, func(to, from *v1.Pod) { to.Status.NominatedNodeName = from.Status.NominatedNodeName }, func(before, after *v1.Pod) string {
		return fmt.Sprintf("nominated node: %q instead of %q", after.Status.NominatedNodeName, before.Status.NominatedNodeName)
	}},
}

func plainly[T any](text string) func(_, _ *T) string { return func(_, _ *T) string { return text } }

func priorityOf(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func requestsOf(pod *v1.Pod) v1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

// Between returns the differences between two snapshots, for a pod.
func Between(then, now Objects, pod model.PodKey) *Differences {
	d := &Differences{name: pod.String(), hidden: []model.PodKey{pod}}
	a := subject{then: find(then.Pods, pod), now: find(now.Pods, pod), presence: -1}
	d.onlyThen, d.onlyNow = a.now == nil, a.then == nil
	c := newComparer(then, now)
	if a.then != nil || a.now != nil {
		d.asked = []subject{a}
		d.addOwn(c)
	}
	d.addObjects(c, then, now)
	return d
}

func newComparer(then, now Objects) *comparer {
	c := &comparer{trim: kinds.Trim(), nodes: map[string]*v1.Node{}}
	for _, nodes := range [][]*v1.Node{then.Nodes, now.Nodes} {
		for _, node := range nodes {
			c.nodes[node.Name] = node
		}
	}
	return c
}

// addObjects adds the differences of all objects except the pods to judge.
func (d *Differences) addObjects(c *comparer, then, now Objects) {
	hidden := map[model.PodKey]bool{}
	for _, key := range d.hidden {
		hidden[key] = true
	}
	for ref, o := range pairs(then.Others, now.Others) {
		d.addOther(c, ref, o)
	}
	for ref, o := range pairs(then.Nodes, now.Nodes) {
		d.addNode(c, ref.Name, o)
	}
	for ref, o := range pairs(counting(then.Pods), counting(now.Pods)) {
		if !hidden[model.PodKey{Namespace: ref.Namespace, Name: ref.Name}] {
			d.addPod(c, ref, o)
		}
	}
}

// counting returns the pods that occupy a node or are nominated to one.
func counting(pods []*v1.Pod) []*v1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(p *v1.Pod) bool {
		return kinds.Finished(p) || p.Spec.NodeName == "" && p.Status.NominatedNodeName == ""
	})
}

func find(pods []*v1.Pod, key model.PodKey) *v1.Pod {
	for _, p := range pods {
		if p.Namespace == key.Namespace && p.Name == key.Name {
			return p
		}
	}
	return nil
}

// pairs yields the objects that are not identical in both snapshots, by kind, namespace
// and name.
func pairs[T kinds.Object](then, now []T) func(yield func(model.Ref, object) bool) {
	all := map[model.Ref]*object{}
	at := func(o kinds.Object) *object {
		ref := refOf(o)
		if all[ref] == nil {
			all[ref] = &object{}
		}
		return all[ref]
	}
	for _, o := range then {
		at(o).before = o
	}
	for _, o := range now {
		at(o).after = o
	}
	return func(yield func(model.Ref, object) bool) {
		refs := slices.SortedFunc(maps.Keys(all), func(a, b model.Ref) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		for _, ref := range refs {
			if o := all[ref]; o.before != o.after && !yield(ref, *o) {
				return
			}
		}
	}
}

// comparer detects differences in the fields that scheduling reads.
type comparer struct {
	trim func(any) (any, error)
	// nodes are the nodes of both snapshots.
	nodes map[string]*v1.Node
}

// read returns a copy of an object with only the fields that scheduling reads.
func (c *comparer) read(o kinds.Object) kinds.Object {
	o = o.DeepCopyObject().(kinds.Object)
	_, _ = c.trim(o) // The trim function never fails.
	o.SetResourceVersion("")
	o.SetGeneration(0)
	switch o := o.(type) {
	case *v1.Node:
		// Conditions wake pods, but no plugin judges by them.
		o.UID, o.Status.Conditions = "", nil
		o.CreationTimestamp.Reset()
		// Taints are compared in the order that aspects produce.
		o.Spec.Taints = append(taintsOf(o, false), taintsOf(o, true)...)
		for i := range o.Spec.Taints {
			o.Spec.Taints[i].TimeAdded = nil
		}
	case *v1.Pod:
		o.Status.ObservedGeneration = 0
		o.Status.Conditions = slices.DeleteFunc(o.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
		for i := range o.Status.Conditions {
			of := &o.Status.Conditions[i]
			of.LastProbeTime.Reset()
			of.LastTransitionTime.Reset()
		}
	}
	return o
}

// same reports whether two objects are equal in the fields that scheduling reads.
func (c *comparer) same(before, after kinds.Object) bool {
	if equality.Semantic.DeepEqual(before, after) {
		return true
	}
	switch before.(type) {
	case *v1.Pod, *v1.Node, *v1.PersistentVolume, *v1.PersistentVolumeClaim:
		return equality.Semantic.DeepEqual(c.read(before), c.read(after))
	}
	if _, ok := before.(*policyv1.PodDisruptionBudget); ok || kinds.Of(before).Kind <= model.StatefulSetKind {
		return kinds.Of(before).Same(before, after)
	}
	return equality.Semantic.DeepEqual(c.read(before), c.read(after))
}

func (d *Differences) add(o object, units ...unit) {
	at := len(d.objects)
	for i := range units {
		units[i].object = at
		o.units = append(o.units, len(d.units))
		d.units = append(d.units, units[i])
	}
	d.objects = append(d.objects, o)
}

// addOwn adds the aspects in which the pods to judge differ. Equal differences of several
// members of a group are one unit.
func (d *Differences) addOwn(c *comparer) {
	units, members := map[string]int{}, map[int]int{}
	for i := range d.asked {
		x := &d.asked[i]
		if x.then == nil || x.now == nil || x.then == x.now {
			continue
		}
		d.eachOwn(c, x, func(at int, a *aspect[v1.Pod], text string) {
			key := fmt.Sprint(at, " ", text)
			u, ok := units[key]
			if !ok {
				u = len(d.units)
				units[key] = u
				d.units = append(d.units, unit{Change: Change{Kind: Own, Object: "pod " + d.name, Text: "the pod has other " + text}, object: -1, pod: a})
			}
			members[u]++
			if d.group != nil {
				of := &d.units[u]
				of.Object, of.Text = "pod group "+d.name, fmt.Sprintf("%d members have other %s", members[u], text)
				if members[u] == 1 {
					of.Text = "member " + x.now.Namespace + "/" + x.now.Name + " has other " + text
				}
			}
			x.units = append(x.units, u)
		})
	}
}

// eachOwn yields the differing aspects of a pod to judge with their index and a
// description. For the remaining fields, the aspect is nil.
func (d *Differences) eachOwn(c *comparer, x *subject, yield func(at int, a *aspect[v1.Pod], text string)) {
	before, after := c.read(judged(x.then)).(*v1.Pod), c.read(judged(x.now)).(*v1.Pod)
	if d.group != nil { // Members are compared even if their names differ.
		before.Name, before.UID, before.CreationTimestamp, before.OwnerReferences = after.Name, after.UID, after.CreationTimestamp, after.OwnerReferences
	}
	rest := before.DeepCopy()
	for i := range podAspects {
		a := &podAspects[i]
		if differs(a, before, after) {
			yield(i, a, a.text(before, after))
		}
		a.take(rest, after)
	}
	rest.UID, rest.CreationTimestamp, rest.Status.StartTime, rest.Status.Conditions = after.UID, after.CreationTimestamp, after.Status.StartTime, after.Status.Conditions
	if !equality.Semantic.DeepEqual(rest, after) || before.UID != after.UID {
		yield(len(podAspects), nil, "fields")
	}
}

func differs[T any, P interface {
	*T
	DeepCopy() *T
}](a *aspect[T], before, after P) bool {
	taken := before.DeepCopy()
	a.take(taken, after)
	return !equality.Semantic.DeepEqual(taken, (*T)(before))
}

// judged returns the pod as it is judged: pending, and not being deleted.
func judged(pod *v1.Pod) *v1.Pod {
	pod = pod.DeepCopy()
	if pod.Spec.NodeName != "" { // A pending pod has no status except for its claims.
		was := &pod.Status
		pod.Spec.NodeName, pod.Status = "", v1.PodStatus{ResourceClaimStatuses: was.ResourceClaimStatuses, ExtendedResourceClaimStatus: was.ExtendedResourceClaimStatus}
	}
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Status.Phase = nil, nil, v1.PodPending
	return pod
}

func (d *Differences) addNode(c *comparer, name string, o object) {
	change := Change{Object: "node " + name, Node: name}
	nodes := []string{name}
	switch {
	case o.before == nil:
		change.Kind, change.Text = NodeNew, "node "+name+" is new"
		d.add(o, unit{Change: change, nodes: nodes, weight: 1})
		return
	case o.after == nil:
		change.Kind, change.Text = NodeGone, "node "+name+" is gone"
		d.add(o, unit{Change: change, nodes: nodes, weight: 1})
		return
	case c.same(o.before, o.after):
		return
	}
	before, after := c.read(o.before).(*v1.Node), c.read(o.after).(*v1.Node)
	rest := before.DeepCopy()
	var units []unit
	for i := range nodeAspects {
		a := &nodeAspects[i]
		if differs(a, before, after) {
			change.Kind, change.Text = a.kind, "node "+name+" "+a.text(before, after)
			units = append(units, unit{Change: change, nodes: nodes, weight: 1, node: a})
		}
		a.take(rest, after)
	}
	if !equality.Semantic.DeepEqual(rest, after) {
		change.Kind, change.Text = NodeOther, "node "+name+" has other images or features"
		units = append(units, unit{Change: change, nodes: nodes, weight: 1})
	}
	d.add(o, units...)
}

func (d *Differences) addPod(c *comparer, ref model.Ref, o object) {
	name := "pod " + ref.Namespace + "/" + ref.Name
	change := Change{Object: name}
	before, _ := o.before.(*v1.Pod)
	after, _ := o.after.(*v1.Pod)
	from, to := placeOf(before), placeOf(after)
	switch {
	case before == nil:
		change.Kind, change.Node, change.Text = PodCame, to, name+" "+came(after)+amounts(after)
	case after == nil:
		change.Kind, change.Node, change.Text = PodLeft, from, name+" is no longer on node "+from+amounts(before)
		if before.Spec.NodeName == "" {
			change.Text = name + " is no longer nominated to node " + from + amounts(before)
		}
	case c.same(before, after):
		return
	case from != to:
		change.Kind, change.Text = PodMoved, name+" is on node "+to+" instead of "+from+amounts(after)
	default:
		change.Kind, change.Node, change.Text = PodChanged, to, name+" on node "+to+" "+textOfPods(before, after)
	}
	u := unit{Change: change}
	for _, p := range []*v1.Pod{before, after} {
		if p == nil {
			continue
		}
		if u.weight = max(u.weight, c.weightOf(p)); !slices.Contains(u.nodes, placeOf(p)) {
			u.nodes = append(u.nodes, placeOf(p))
		}
	}
	d.add(o, u)
}

func came(pod *v1.Pod) string {
	if pod.Spec.NodeName == "" {
		return "is nominated to node " + pod.Status.NominatedNodeName
	}
	return "came to node " + pod.Spec.NodeName
}

// placeOf returns the node that a pod is on or nominated to.
func placeOf(pod *v1.Pod) string {
	if pod == nil {
		return ""
	}
	return cmp.Or(pod.Spec.NodeName, pod.Status.NominatedNodeName)
}

// weightOf returns the largest fraction of its node's resources that a pod requests.
func (c *comparer) weightOf(pod *v1.Pod) (most float64) {
	node := c.nodes[placeOf(pod)]
	if node == nil {
		return 0
	}
	for name, asks := range requestsOf(pod) {
		if of := node.Status.Allocatable[name]; of.Sign() > 0 {
			most = max(most, asks.AsApproximateFloat64()/of.AsApproximateFloat64())
		}
	}
	return most
}

func (d *Differences) addOther(c *comparer, ref model.Ref, o object) {
	of := o.after
	if of == nil {
		of = o.before
	}
	name := kindOf(of) + " " + ref.Name
	if ref.Namespace != "" {
		name = kindOf(of) + " " + ref.Namespace + "/" + ref.Name
	}
	change := Change{Object: name, Node: nodeOf(of)}
	switch {
	case o.before == nil:
		change.Kind, change.Text = ObjectNew, name+" is new"
	case o.after == nil:
		change.Kind, change.Text = ObjectGone, name+" is gone"
	case c.same(o.before, o.after):
		return
	default:
		change.Kind, change.Text = ObjectChanged, name+" "+textOfOthers(o.before, o.after)
	}
	u := unit{Change: change, weight: 1}
	if change.Node != "" {
		u.nodes = []string{change.Node}
	}
	d.add(o, u)
}

// kindOf returns the name of an object's type.
func kindOf(o kinds.Object) string {
	text := fmt.Sprintf("%T", o)
	return text[strings.LastIndex(text, ".")+1:]
}

// nodeOf returns the node that an object describes; empty if it describes no single node.
func nodeOf(o kinds.Object) string {
	switch o := o.(type) {
	case *storagev1.CSINode:
		return o.Name
	case *resourcev1.ResourceSlice:
		if o.Spec.NodeName != nil {
			return *o.Spec.NodeName
		}
	}
	return ""
}

// make returns the objects that change when some units are done, and the pods to judge.
// The direction determines the snapshot to start from.
func (d *Differences) make(direction Direction, units []int) (pods []*v1.Pod, set, gone []kinds.Object) {
	done := make([]bool, len(d.units))
	touched := map[int]bool{}
	for _, u := range units {
		done[u] = true
		touched[d.units[u].object] = true
	}
	old := func(u int) bool { return done[u] == (direction == Undo) }
	for _, at := range slices.Sorted(maps.Keys(touched)) {
		if at < 0 {
			continue
		}
		o := &d.objects[at]
		if now := d.render(o, old); now != nil {
			set = append(set, now)
		} else if gone = append(gone, o.before); o.before == nil {
			gone[len(gone)-1] = o.after
		}
	}
	return d.renderPods(old), set, gone
}

// render returns an object with some units as in the older snapshot; nil if it does not
// exist then.
func (d *Differences) render(o *object, old func(unit int) bool) kinds.Object {
	before, ok := o.before.(*v1.Node)
	after, both := o.after.(*v1.Node)
	if !ok || !both {
		if old(o.units[0]) {
			return o.before
		}
		return o.after
	}
	return mixed(before, after, o.units, old, func(u int) *aspect[v1.Node] { return d.units[u].node })
}

// renderPods is render for the pods to judge.
func (d *Differences) renderPods(old func(unit int) bool) (pods []*v1.Pod) {
	for i := range d.asked {
		if x := &d.asked[i]; x.presence < 0 || old(x.presence) == (x.now == nil) {
			pods = append(pods, d.renderPod(x, old))
		}
	}
	return pods
}

func (d *Differences) renderPod(x *subject, old func(unit int) bool) *v1.Pod {
	switch {
	case x.then == nil:
		return judged(x.now)
	case x.now == nil:
		return judged(x.then)
	}
	pod := mixed(judged(x.then), judged(x.now), x.units, old, func(u int) *aspect[v1.Pod] { return d.units[u].pod })
	if d.group != nil {
		pod.Name, pod.UID = x.now.Name, x.now.UID
	}
	return pod
}

// mixed returns an object with some aspects of the older version and the others of the
// newer.
func mixed[T any, P interface {
	*T
	DeepCopy() *T
}](before, after P, units []int, old func(int) bool, of func(int) *aspect[T]) P {
	from, other := after, before
	for _, u := range units {
		if of(u) == nil && old(u) { // the remaining fields
			from, other = before, after
		}
	}
	made := P(from.DeepCopy())
	for _, u := range units {
		if a := of(u); a != nil && old(u) == (from == after) {
			a.take(made, other)
		}
	}
	return made
}

// isOnNode reports whether an object is a pod on a node.
func isOnNode(o kinds.Object) bool {
	pod, ok := o.(*v1.Pod)
	return ok && pod.Spec.NodeName != ""
}
