package world

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Properties of nodes, and the number of their changes in a day.
const (
	heartbeatEvery = 30 * time.Minute
	maxImages      = 12 // in a node's list
	zones          = 3
	pools          = 10

	poolLabel  = "example.com/pool"
	buildLabel = "example.com/build"
	accelLabel = "example.com/accelerated"
	accel      = v1.ResourceName("example.com/gpu")
	dedicated  = "example.com/dedicated"

	accelerated = 20 // nodes with devices
	devices     = 4  // per node
	replaced    = 20
	cordoned    = 40
	relabelled  = 60
	tainted     = 40
	awayFor     = time.Hour // duration of a cordon or taint
	drainFor    = 5 * time.Minute
)

// node is an existing node.
type node struct {
	name   string
	number int // determines its place in the cluster; a replacement has the same number
	pods   []*pod
	images []string // newest last
	pulled bool     // images have changed since the last report
	leaves bool     // being drained
}

// startNodes makes all nodes join.
func (w *World) startNodes() {
	for i := range w.size {
		w.join(i)
	}
	w.often(replaced, func() { w.replace(w.anyNode()) })
	w.often(cordoned, func() {
		w.forAWhile(func(o *v1.Node) { o.Spec.Unschedulable = true }, func(o *v1.Node) { o.Spec.Unschedulable = false })
	})
	w.often(tainted, func() {
		taint := v1.Taint{Key: w.next("example.com/problem"), Effect: v1.TaintEffectNoSchedule}
		w.forAWhile(
			func(o *v1.Node) { o.Spec.Taints = append(slices.Clone(o.Spec.Taints), taint) },
			func(o *v1.Node) {
				o.Spec.Taints = slices.DeleteFunc(slices.Clone(o.Spec.Taints), func(t v1.Taint) bool { return t.Key == taint.Key })
			})
	})
	w.often(relabelled, func() {
		w.build++
		w.happened["node relabelled"]++
		w.label(w.anyNode(), map[string]string{buildLabel: fmt.Sprint(w.build), poolLabel: poolName(w.random.IntN(pools))})
	})
}

func zoneName(i int) string { return fmt.Sprintf("zone-%d", i%zones) }
func poolName(i int) string { return fmt.Sprintf("pool-%d", i%pools) }

// join adds a node.
func (w *World) join(number int) {
	n := &node{name: w.next("node"), number: number}
	w.nodes = append(w.nodes, n)
	w.byName[n.name] = n
	w.cluster.SetNode(w.nodeObject(n))
	for _, d := range w.daemons {
		d.join(n)
	}
	w.after(w.upTo(heartbeatEvery), func() { w.beat(n) })
}

func (w *World) nodeObject(n *node) *v1.Node {
	room := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("32Gi"), v1.ResourcePods: resource.MustParse("110"),
	}
	o := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, CreationTimestamp: w.now(), Labels: map[string]string{
		v1.LabelHostname: n.name, v1.LabelTopologyZone: zoneName(n.number), poolLabel: poolName(n.number / zones),
	}}}
	if n.number < w.of(accelerated) {
		o.Labels[accelLabel] = "yes"
		room[accel] = *resource.NewQuantity(devices, resource.DecimalSI)
		o.Spec.Taints = []v1.Taint{{Key: dedicated, Value: "accelerated", Effect: v1.TaintEffectNoSchedule}}
	}
	o.Status = v1.NodeStatus{Capacity: room, Allocatable: room, Conditions: w.conditions()}
	return o
}

// conditions returns the conditions of a kubelet's heartbeat.
func (w *World) conditions() []v1.NodeCondition {
	return []v1.NodeCondition{
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, LastHeartbeatTime: w.now()},
		{Type: v1.NodeDiskPressure, Status: v1.ConditionFalse, LastHeartbeatTime: w.now()},
		{Type: v1.NodeReady, Status: v1.ConditionTrue, LastHeartbeatTime: w.now()},
	}
}

// beat reports the status of a node while it exists. Only the time changes, and sometimes
// the images.
func (w *World) beat(n *node) {
	if !w.change(n, func(o *v1.Node) {
		o.Status.Conditions = w.conditions()
		if n.pulled {
			n.pulled = false
			w.happened["images reported"]++
			o.Status.Images = nil
			for _, image := range n.images {
				o.Status.Images = append(o.Status.Images, v1.ContainerImage{Names: []string{image}, SizeBytes: 300 << 20})
			}
		}
	}) {
		return
	}
	w.after(heartbeatEvery, func() { w.beat(n) })
}

// pull adds an image to the node, and removes the oldest of too many.
func (n *node) pull(image string) {
	if slices.Contains(n.images, image) {
		return
	}
	n.pulled = true
	if n.images = append(n.images, image); len(n.images) > maxImages {
		n.images = slices.Clone(n.images[1:])
	}
}

// change changes the API object of a node. It reports whether the node exists.
func (w *World) change(n *node, how func(*v1.Node)) bool {
	stored := w.cluster.Node(n.name)
	if stored == nil {
		return false
	}
	object := *stored
	how(&object)
	w.cluster.SetNode(&object)
	return true
}

// label changes labels of a node.
func (w *World) label(n *node, labels map[string]string) {
	w.change(n, func(o *v1.Node) {
		o.Labels = maps.Clone(o.Labels)
		maps.Copy(o.Labels, labels)
	})
}

// forAWhile changes a node and reverts the change later.
func (w *World) forAWhile(do, undo func(*v1.Node)) {
	n := w.anyNode()
	w.happened["node cordoned or tainted"]++
	w.change(n, do)
	w.after(w.about(awayFor), func() {
		if !n.leaves {
			w.change(n, undo)
		}
	})
}

func (w *World) anyNode() *node { return w.nodes[w.random.IntN(len(w.nodes))] }

// replace drains a node, deletes it, and joins another in its place.
func (w *World) replace(n *node) {
	if n.leaves {
		return
	}
	n.leaves = true
	w.happened["node replaced"]++
	w.change(n, func(o *v1.Node) { o.Spec.Unschedulable = true })
	for _, p := range slices.Clone(n.pods) {
		w.remove(p)
	}
	w.after(drainFor, func() {
		for _, p := range slices.Clone(n.pods) { // bound in spite of the cordon
			w.drop(p)
		}
		w.nodes = slices.DeleteFunc(w.nodes, func(other *node) bool { return other == n })
		delete(w.byName, n.name)
		w.cluster.DeleteNode(n.name)
		w.join(n.number)
	})
}
