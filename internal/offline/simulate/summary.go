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

// Summary says how full the cluster was and has become.
type Summary struct {
	Nodes         int `json:"nodes"`
	Unschedulable int `json:"unschedulableNodes"`
	// PodsBefore is how many pods were on nodes; Placed how many pending ones got a node, Waiting how many did not. Evicted is how many of all these were
	// evicted for others.
	PodsBefore int `json:"podsBefore"`
	Placed     int `json:"placed"`
	Waiting    int `json:"waiting"`
	Evicted    int `json:"evicted"`
	// Resources are cpu, memory and pods, then whatever else a pod asks for, by name.
	Resources []Utilization `json:"resources"`
	// MostLoaded and LeastLoaded are the nodes whose scarcest resource (of cpu, memory and pods) is used most and least.
	MostLoaded  *NodeLoad `json:"mostLoaded,omitempty"`
	LeastLoaded *NodeLoad `json:"leastLoaded,omitempty"`
	// Zones are by the label topology.kubernetes.io/zone; none if no node has it.
	Zones []Zone `json:"zones,omitempty"`
}

// Utilization is how much of one resource is requested.
type Utilization struct {
	Resource      string            `json:"resource"`
	Allocatable   resource.Quantity `json:"allocatable"`
	Before        resource.Quantity `json:"requestedBefore"`
	After         resource.Quantity `json:"requestedAfter"`
	BeforePercent float64           `json:"beforePercent"`
	AfterPercent  float64           `json:"afterPercent"`
}

// NodeLoad is how full a node has become.
type NodeLoad struct {
	Node     string  `json:"node"`
	Resource string  `json:"resource"`
	Percent  float64 `json:"percent"`
}

// Zone is how full a zone was and has become.
type Zone struct {
	Name      string        `json:"name"`
	Nodes     int           `json:"nodes"`
	Resources []Utilization `json:"resources"`
}

// amounts are sums in milli-units for cpu, and in whole units for everything else.
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

// tallied sums what the pods on each node occupy.
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

// addTo adds what a pod occupies to the sum of its node.
func addTo(sums map[string]amounts, pod *v1.Pod) {
	if sum := sums[pod.Spec.NodeName]; sum != nil && !kinds.Finished(pod) {
		occupied := model.Occupied(pod)
		sum.add(&occupied, 1)
	}
}

// tallied takes the sums from what the scheduler keeps account of.
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

// offeredBy returns what a node has for pods.
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

// utilizations lists cpu, memory and pods, and then what else is requested, unless it is left out.
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

// load is the share of the scarcest resource. Where nothing is offered and nothing used, nothing is scarce.
func load(node string, offered, used amounts) NodeLoad {
	l := NodeLoad{Node: node, Percent: -1}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourcePods} {
		if share := percent(used[name], offered[name]); share > l.Percent {
			l.Resource, l.Percent = string(name), share
		}
	}
	return l
}

// percent is rounded to a tenth. More than nothing out of nothing counts as all of it.
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
	_ = q.String() // fills the quantity's own text, so that copies of it print alike
	return *q
}
