package capacity

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Group has the capacity of some nodes.
type Group struct {
	Name string `json:"name"`
	// Nodes is the number of nodes, Unschedulable the number of cordoned nodes among
	// them. Free amounts do not count on cordoned nodes.
	Nodes         int `json:"nodes"`
	Unschedulable int `json:"unschedulable,omitempty"`
	// Pods counts pods.
	Pods   Amount `json:"pods"`
	CPU    Amount `json:"cpu"`
	Memory Amount `json:"memory"`
	// Devices has the extended resources, then the devices of DRA drivers, by name.
	Devices []Device `json:"devices,omitempty"`
	// LargestCPU is the largest pod by cpu that fits on one of the nodes, LargestMemory
	// the largest by memory. Nil if no node takes another pod.
	LargestCPU    *Shape `json:"largestByCPU,omitempty"`
	LargestMemory *Shape `json:"largestByMemory,omitempty"`
}

// Amount is the amount of one resource.
type Amount struct {
	Allocatable resource.Quantity `json:"allocatable"`
	Requested   resource.Quantity `json:"requested"`
	Free        resource.Quantity `json:"free"`
	// FragmentedPercent is the share of the free amount that is on fragmented nodes:
	// nodes with less than a quarter of their cpu or of their memory free.
	FragmentedPercent int64 `json:"fragmentedPercent"`
}

// Device is the number of devices of one kind.
type Device struct {
	// Name is the extended resource, or the DRA driver.
	Name        string `json:"name"`
	DRA         bool   `json:"dra,omitempty"`
	Allocatable int64  `json:"allocatable"`
	Requested   int64  `json:"requested"`
	Free        int64  `json:"free"`
}

// Shape is the requests of a pod.
type Shape struct {
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	Node   string            `json:"node"`
}

// Key returns the group of a node; empty for a node without one.
type Key func(*v1.Node) string

// quarter is the part of a node's allocatable amount below which its free amount is a
// fragment.
const quarter = 4

// Count counts the nodes by group. Groups are in the order of their names; nodes without
// a group come last. Finished pods request nothing.
func Count(c *manifest.Cluster, nodes []*v1.Node, key Key) []Group {
	requested := requests(c.Pods)
	devices := devicesOf(c)
	groups := map[string]*tally{}
	for _, node := range nodes {
		name := key(node)
		t := groups[name]
		if t == nil {
			t = &tally{group: Group{Name: name}, devices: map[deviceKey]*Device{}}
			groups[name] = t
		}
		t.add(node, requested[node.Name], devices[node.Name])
	}
	names := slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		if (a == "") != (b == "") {
			return cmp.Compare(b, a)
		}
		return cmp.Compare(a, b)
	})
	all := make([]Group, 0, len(names))
	for _, name := range names {
		all = append(all, groups[name].done())
	}
	return all
}

// asTheScheduler counts a pod that is being resized like the scheduler does.
var asTheScheduler = resourcehelper.PodResourcesOptions{
	UseStatusResources: true,
	InPlacePodLevelResourcesVerticalScalingEnabled: true,
}

// requests returns the requests of the pods on each node, with their number.
func requests(pods []*v1.Pod) map[string]v1.ResourceList {
	all := map[string]v1.ResourceList{}
	for _, pod := range pods {
		if pod.Spec.NodeName == "" || pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
			continue
		}
		sum := all[pod.Spec.NodeName]
		if sum == nil {
			sum = v1.ResourceList{}
			all[pod.Spec.NodeName] = sum
		}
		one := resourcehelper.PodRequests(pod, asTheScheduler)
		one[v1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
		for name, q := range one {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return all
}

// tally sums up a group.
type tally struct {
	group   Group
	devices map[deviceKey]*Device
	// fragments are the free cpu and memory on fragmented nodes.
	fragments [2]resource.Quantity
}

// add adds a node with its requests and devices.
func (t *tally) add(node *v1.Node, requested v1.ResourceList, devices []Device) {
	g := &t.group
	g.Nodes++
	open := !node.Spec.Unschedulable
	if !open {
		g.Unschedulable++
	}
	slots := g.Pods.add(node, v1.ResourcePods, requested, open)
	cpu := g.CPU.add(node, v1.ResourceCPU, requested, open)
	memory := g.Memory.add(node, v1.ResourceMemory, requested, open)
	for i := range devices {
		t.addDevice(devices[i], open)
	}
	for name, q := range node.Status.Allocatable {
		if !strings.Contains(string(name), "/") { // cpu, hugepages and others of Kubernetes
			continue
		}
		used := requested[name]
		t.addDevice(Device{Name: string(name), Allocatable: q.Value(), Requested: used.Value()}, open)
	}
	if !open {
		return
	}
	if isFragment(node, v1.ResourceCPU, cpu) || isFragment(node, v1.ResourceMemory, memory) {
		t.fragments[0].Add(cpu)
		t.fragments[1].Add(memory)
	}
	if slots.Sign() == 0 {
		return
	}
	shape := Shape{CPU: cpu, Memory: memory, Node: node.Name}
	if g.LargestCPU == nil || cmp.Or(cpu.Cmp(g.LargestCPU.CPU), memory.Cmp(g.LargestCPU.Memory)) > 0 {
		g.LargestCPU = &shape
	}
	if g.LargestMemory == nil || cmp.Or(memory.Cmp(g.LargestMemory.Memory), cpu.Cmp(g.LargestMemory.CPU)) > 0 {
		g.LargestMemory = &shape
	}
}

// isFragment reports whether less than a quarter of a node's resource is free.
func isFragment(node *v1.Node, name v1.ResourceName, free resource.Quantity) bool {
	all := node.Status.Allocatable[name]
	if name == v1.ResourceCPU {
		return free.MilliValue() < all.MilliValue()/quarter
	}
	return free.Value() < all.Value()/quarter
}

// add adds a node's resource, and returns the free amount. Requests may exceed the
// allocatable amount, for pods that were placed without a scheduler.
func (a *Amount) add(node *v1.Node, name v1.ResourceName, requested v1.ResourceList,
	open bool) (free resource.Quantity) {
	all, used := node.Status.Allocatable[name], requested[name]
	a.Allocatable.Add(all)
	a.Requested.Add(used)
	if free = all.DeepCopy(); free.Cmp(used) <= 0 {
		return resource.Quantity{Format: all.Format}
	}
	free.Sub(used)
	if open {
		a.Free.Add(free)
	}
	return free
}

// addDevice adds the devices of a node.
func (t *tally) addDevice(d Device, open bool) {
	key := deviceKey{d.DRA, d.Name}
	sum := t.devices[key]
	if sum == nil {
		sum = &Device{Name: d.Name, DRA: d.DRA}
		t.devices[key] = sum
	}
	sum.Allocatable += d.Allocatable
	sum.Requested += d.Requested
	if open {
		sum.Free += max(0, d.Allocatable-d.Requested)
	}
}

// done returns the sums.
func (t *tally) done() Group {
	g := t.group
	g.CPU.FragmentedPercent = percent(t.fragments[0].MilliValue(), g.CPU.Free.MilliValue())
	g.Memory.FragmentedPercent = percent(t.fragments[1].Value(), g.Memory.Free.Value())
	for _, key := range slices.SortedFunc(maps.Keys(t.devices), deviceKey.compare) {
		g.Devices = append(g.Devices, *t.devices[key])
	}
	return g
}

// percent returns a share, rounded.
func percent(part, whole int64) int64 {
	if whole <= 0 {
		return 0
	}
	return int64(100*float64(part)/float64(whole) + 0.5)
}
