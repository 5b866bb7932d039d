package simulate

import (
	"cmp"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

// Summary has the utilization of the cluster before and after.
type Summary struct {
	Nodes         int `json:"nodes"`
	Unschedulable int `json:"unschedulableNodes"`
	// PodsBefore is the number of pods on nodes before. Placed and Waiting are the
	// numbers of pending pods that are placed and not placed. Evicted is the number of
	// all these pods that were preempted.
	PodsBefore int `json:"podsBefore"`
	Placed     int `json:"placed"`
	Waiting    int `json:"waiting"`
	Evicted    int `json:"evicted"`
	// Resources are cpu, memory and pods, then other requested resources by name.
	Resources []Utilization `json:"resources"`
	// MostLoaded and LeastLoaded are the nodes with the highest and lowest use of their
	// scarcest resource (of cpu, memory and pods).
	MostLoaded  *NodeLoad `json:"mostLoaded,omitempty"`
	LeastLoaded *NodeLoad `json:"leastLoaded,omitempty"`
	// Zones are grouped by the label topology.kubernetes.io/zone. It is empty if no node
	// has the label.
	Zones []Zone `json:"zones,omitempty"`
}

// Utilization is the requested part of one resource.
type Utilization struct {
	Resource      string            `json:"resource"`
	Allocatable   resource.Quantity `json:"allocatable"`
	Before        resource.Quantity `json:"requestedBefore"`
	After         resource.Quantity `json:"requestedAfter"`
	BeforePercent float64           `json:"beforePercent"`
	AfterPercent  float64           `json:"afterPercent"`
}

// NodeLoad is the utilization of a node after the simulation.
type NodeLoad struct {
	Node     string  `json:"node"`
	Resource string  `json:"resource"`
	Percent  float64 `json:"percent"`
}

// Zone is the utilization of a zone before and after.
type Zone struct {
	Name      string        `json:"name"`
	Nodes     int           `json:"nodes"`
	Resources []Utilization `json:"resources"`
}

// amounts are sums in milli-units for cpu, and in whole units for all other resources.
type amounts map[v1.ResourceName]int64

func (a amounts) add(r *model.Resources, pods int64) {
	a.plus(v1.ResourceCPU, r.CPUMilli)
	a.plus(v1.ResourceMemory, r.MemoryBytes)
	a.plus(v1.ResourcePods, pods)
	if r.EphemeralBytes != 0 {
		a.plus(v1.ResourceEphemeralStorage, r.EphemeralBytes)
	}
	for _, s := range r.Scalars {
		if s.Value != 0 {
			a.plus(v1.ResourceName(s.Name.Value()), s.Value)
		}
	}
}

func (a amounts) addAll(b amounts) {
	for name, more := range b {
		a.plus(name, more)
	}
}

func (a amounts) plus(name v1.ResourceName, more int64) { a[name] = amount.Add(a[name], more) }

// tallied sums the requests of the pods on each node.
func tallied(nodes []*v1.Node, pods []*v1.Pod) map[string]amounts {
	sums := make(map[string]amounts, len(nodes))
	for _, node := range nodes {
		sums[node.Name] = amounts{}
	}
	for _, pod := range pods {
		addTo(sums, pod)
	}
	return sums
}

// addTo adds the requests of a pod to the sum of its node.
func addTo(sums map[string]amounts, pod *v1.Pod) {
	if sum := sums[pod.Spec.NodeName]; sum != nil && !kinds.Finished(pod) {
		occupied := model.Occupied(pod)
		sum.add(&occupied, 1)
	}
}

// tallied takes the sums from the scheduler's state.
func (c *Cluster) tallied(nodes []*v1.Node) map[string]amounts {
	sums, state := make(map[string]amounts, len(nodes)), c.loop.State()
	for _, node := range nodes {
		sum := amounts{}
		if slot, ok := state.Slot(node.Name); ok {
			sum.add(state.Node(slot).Used(), int64(state.Node(slot).PodCount()))
		}
		sums[node.Name] = sum
	}
	return sums
}

func summarize(nodes []*v1.Node, before, after map[string]amounts, pods []Placement) Summary {
	s := Summary{Nodes: len(nodes)}
	for _, p := range pods {
		if p.Status == Scheduled {
			s.Placed++
		} else {
			s.Waiting++
		}
	}
	var loads []NodeLoad
	whole, zones := &part{}, map[string]*part{}
	for _, node := range nodes {
		if node.Spec.Unschedulable {
			s.Unschedulable++
		}
		offered := offeredBy(node)
		whole.add(offered, before[node.Name], after[node.Name])
		if zone := node.Labels[v1.LabelTopologyZone]; zone != "" {
			if zones[zone] == nil {
				zones[zone] = &part{}
			}
			zones[zone].add(offered, before[node.Name], after[node.Name])
		}
		loads = append(loads, load(node.Name, offered, after[node.Name]))
	}
	s.PodsBefore = int(whole.before[v1.ResourcePods])
	s.Resources = whole.utilizations(func(v1.ResourceName) bool { return false })
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		s.Zones = append(s.Zones, Zone{Name: name, Nodes: zones[name].nodes, Resources: zones[name].utilizations(isExtra)})
	}
	if len(loads) > 0 {
		order := func(a, b NodeLoad) int { return cmp.Or(cmp.Compare(a.Percent, b.Percent), cmp.Compare(b.Node, a.Node)) }
		most, least := slices.MaxFunc(loads, order), slices.MinFunc(loads, func(a, b NodeLoad) int {
			return cmp.Or(cmp.Compare(a.Percent, b.Percent), cmp.Compare(a.Node, b.Node))
		})
		s.MostLoaded, s.LeastLoaded = &most, &least
	}
	return s
}

// offeredBy returns a node's allocatable resources.
func offeredBy(node *v1.Node) amounts {
	offered, allocatable := amounts{}, model.ResourcesOf(node.Status.Allocatable)
	offered.add(&allocatable, model.AllowedPods(node.Status.Allocatable))
	return offered
}

// part is a set of nodes.
type part struct {
	nodes                  int
	offered, before, after amounts
}

func (p *part) add(offered, before, after amounts) {
	if p.nodes++; p.nodes == 1 {
		p.offered, p.before, p.after = amounts{}, amounts{}, amounts{}
	}
	p.offered.addAll(offered)
	p.before.addAll(before)
	p.after.addAll(after)
}

// utilizations lists cpu, memory and pods, then other requested resources that leftOut
// does not exclude.
func (p *part) utilizations(leftOut func(v1.ResourceName) bool) []Utilization {
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods}
	for _, name := range slices.Sorted(maps.Keys(p.after)) {
		if isExtra(name) && !leftOut(name) {
			names = append(names, name)
		}
	}
	all := make([]Utilization, 0, len(names))
	for _, name := range names {
		offered, before, after := p.offered[name], p.before[name], p.after[name]
		all = append(all, Utilization{
			Resource: string(name), Allocatable: quantity(name, offered), Before: quantity(name, before), After: quantity(name, after),
			BeforePercent: percent(before, offered), AfterPercent: percent(after, offered),
		})
	}
	return all
}

func isExtra(name v1.ResourceName) bool {
	return name != v1.ResourceCPU && name != v1.ResourceMemory && name != v1.ResourcePods
}

// load returns the share of the scarcest resource. A resource with no capacity and no use
// counts as 0%.
func load(node string, offered, used amounts) NodeLoad {
	l := NodeLoad{Node: node, Percent: -1}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
		if share := percent(used[name], offered[name]); share > l.Percent {
			l.Resource, l.Percent = string(name), share
		}
	}
	return l
}

// percent is rounded to a tenth. Any use of no capacity counts as 100%.
func percent(used, offered int64) float64 {
	switch {
	case used == 0:
		return 0
	case offered == 0:
		return 100
	}
	return math.Round(1000*float64(used)/float64(offered)) / 10
}

func quantity(name v1.ResourceName, amount int64) resource.Quantity {
	var q *resource.Quantity
	switch name {
	case v1.ResourceCPU:
		q = resource.NewMilliQuantity(amount, resource.DecimalSI)
	case v1.ResourceMemory, v1.ResourceEphemeralStorage:
		q = resource.NewQuantity(amount, resource.BinarySI)
	default:
		q = resource.NewQuantity(amount, resource.DecimalSI)
	}
	_ = q.String() // caches the quantity's text, so that copies print alike
	return *q
}
