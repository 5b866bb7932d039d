package explain

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/decide/plugins/noderesourcesfit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Summary is a short form of an explanation, for people.
type Summary struct {
	Nodes, Feasible int
	// Funnel counts the nodes that remain after each rejecting plugin, in the order in
	// which plugins run.
	Funnel []Stage
	// Reasons are the reported reasons, with the most nodes first.
	Reasons []Reason
	// Reported are the reported rejections, with the most nodes first.
	Reported []Reported
	// Claims are the pod's claims.
	Claims []Claim
	// Near are the nodes that exactly one plugin rejects, by plugin in the order in which
	// plugins run.
	Near []Near
	// Best are the best feasible nodes. The first would be chosen.
	Best []Node
	// Taken is the node that would be chosen; empty if none is. Equals is the number of
	// nodes with the best total, including Taken; 0 if the choice did not depend on
	// scores.
	Taken  string
	Equals int
	// Nominated means that the pod is nominated to Taken, so the other nodes would not be
	// scored.
	Nominated bool
}

// Stage is one plugin's part in the funnel.
type Stage struct {
	// Plugin is empty for nodes on which no filter ran, because a PreFilter plugin
	// returned other nodes only.
	Plugin string
	// Rejects is the number of nodes that the plugin rejects. First counts those that no
	// earlier plugin rejects. Left is the number that remain after it.
	Rejects, First, Left int
}

// Reason is a reported reason with the number of nodes and examples.
type Reason struct {
	Text     string
	Nodes    int
	Examples []string
}

// Reported is a plugin's reasons that are reported together, with the number of nodes and
// examples. If no filter ran on the nodes, Plugin lists the PreFilter plugins that left
// them out.
type Reported struct {
	Plugin   string
	Reasons  []string
	Nodes    int
	Examples []string
}

// Near is a plugin with the nodes that it alone rejects.
type Near struct {
	Plugin string
	Nodes  int
	// Examples are the nodes with the smallest shortage.
	Examples []NearNode
}

// NearNode is a node that one plugin rejects.
type NearNode struct {
	Name    string
	Reasons []string
	// Short lists the resources that the node lacks, in the order of Reasons. It is empty
	// if the reasons are not about resources.
	Short []Shortage
	// InTheWay lists the claims, volumes and devices that cause the rejection, for
	// plugins of volumes and devices.
	InTheWay []string
}

// Shortage is a resource that a node has too little of for a pod.
type Shortage struct {
	Resource string
	Asks     resource.Quantity
	// Free may be negative if the node has shrunk.
	Free, Allocatable resource.Quantity
}

// missing returns the fraction of the request that is not free.
func (s *Shortage) missing() float64 {
	asks := s.Asks.AsApproximateFloat64()
	return (asks - s.Free.AsApproximateFloat64()) / max(asks, 1e-3)
}

// The numbers of examples in a summary.
const (
	reasonExamples = 3
	nearExamples   = 5
	bestNodes      = 5
)

// Summarize returns the summary of an explanation of this snapshot.
func (s *Snapshot) Summarize(a *Explanation) Summary {
	sum := Summary{Nodes: a.decision.Nodes, Reasons: reasonsOf(a), Reported: reportedOf(a), Claims: s.claims(a)}
	var feasible []Node
	for _, n := range a.Nodes {
		if n.Feasible {
			feasible = append(feasible, n)
		}
	}
	sum.Feasible = len(feasible)
	order := s.order(a)
	sum.Funnel = funnel(a, order)
	// After a rejection by PreFilter no filter ran.
	if d := a.decision.Rejection; d == nil || d.PreFilter == "" {
		sum.Near = s.near(a, order)
	}
	if a.Error == "" {
		if a.decision.Outcome == plan.Placed {
			sum.Taken = a.decision.Placement.NodeName
		}
		sum.Nominated = sum.Taken != "" && sum.Taken == a.pod.NominatedNode
	}
	sum.choose(feasible)
	return sum
}

// order lists the plugin names in rejections: empty, then filters, then plugins with
// PreFilter alone.
func (s *Snapshot) order(a *Explanation) []string {
	order := []string{""}
	profile := s.profiles[a.Profile]
	for _, f := range profile.Filters {
		order = append(order, f.Name)
	}
	for _, n := range profile.PreFilters {
		if !slices.Contains(order, n.Name) {
			order = append(order, n.Name)
		}
	}
	return order
}

func funnel(a *Explanation, order []string) []Stage {
	rejects, first := map[string]int{}, map[string]int{}
	for i := range a.Nodes {
		for at, r := range a.Nodes[i].Rejections {
			rejects[r.Plugin]++
			if at == 0 {
				first[r.Plugin]++
			}
		}
	}
	var stages []Stage
	left := a.decision.Nodes
	for _, plugin := range order {
		left -= first[plugin]
		if rejects[plugin] > 0 {
			stages = append(stages, Stage{Plugin: plugin, Rejects: rejects[plugin], First: first[plugin], Left: left})
		}
	}
	return stages
}

func reasonsOf(a *Explanation) []Reason {
	var reasons []Reason
	at := map[string]int{}
	for i := range a.Nodes {
		node := &a.Nodes[i]
		if len(node.Rejections) == 0 {
			continue
		}
		for _, text := range node.Rejections[0].Reasons {
			if _, ok := at[text]; !ok {
				at[text] = len(reasons)
				reasons = append(reasons, Reason{Text: text})
			}
			r := &reasons[at[text]]
			if r.Nodes++; len(r.Examples) < reasonExamples {
				r.Examples = append(r.Examples, node.Name)
			}
		}
	}
	slices.SortFunc(reasons, func(a, b Reason) int { return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Text, b.Text)) })
	return reasons
}

func reportedOf(a *Explanation) []Reported {
	var all []Reported
	at := map[string]int{}
	for i := range a.Nodes {
		node := &a.Nodes[i]
		if len(node.Rejections) == 0 {
			continue
		}
		first := &node.Rejections[0]
		plugin := cmp.Or(first.Plugin, strings.Join(node.LeftOutBy, ", "))
		key := plugin + "\n" + strings.Join(first.Reasons, "\n")
		if _, ok := at[key]; !ok {
			at[key] = len(all)
			all = append(all, Reported{Plugin: plugin, Reasons: first.Reasons})
		}
		r := &all[at[key]]
		if r.Nodes++; len(r.Examples) < reasonExamples {
			r.Examples = append(r.Examples, node.Name)
		}
	}
	slices.SortStableFunc(all, func(a, b Reported) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return all
}

func (s *Snapshot) near(a *Explanation, order []string) []Near {
	alone := map[string][]NearNode{}
	for i := range a.Nodes {
		node := &a.Nodes[i]
		if len(node.Rejections) != 1 || node.Rejections[0].Plugin == "" {
			continue
		}
		r := &node.Rejections[0]
		alone[r.Plugin] = append(alone[r.Plugin], NearNode{Name: node.Name, Reasons: r.Reasons, Short: s.shortages(a, node.Name, r)})
	}
	var all []Near
	for _, plugin := range order {
		nodes := alone[plugin]
		if len(nodes) == 0 {
			continue
		}
		if plugin == dynamicresources.Name {
			s.nearestDevices(a.pod, nodes)
		} else {
			slices.SortStableFunc(nodes, func(a, b NearNode) int {
				return cmp.Or(cmp.Compare(farness(&a), farness(&b)), cmp.Compare(lacking(&a), lacking(&b)))
			})
		}
		examples := nodes[:min(nearExamples, len(nodes))]
		for i := range examples {
			examples[i].InTheWay = s.inTheWay(a, examples[i].Name, &Rejection{Plugin: plugin, Reasons: examples[i].Reasons})
		}
		all = append(all, Near{Plugin: plugin, Nodes: len(nodes), Examples: examples})
	}
	return all
}

// farness returns the largest missing fraction of any resource.
func farness(n *NearNode) float64 {
	var most float64
	for i := range n.Short {
		most = max(most, n.Short[i].missing())
	}
	return most
}

// lacking returns the number of missing resources that the node does not offer at all.
func lacking(n *NearNode) (all int) {
	for i := range n.Short {
		if n.Short[i].Allocatable.IsZero() {
			all++
		}
	}
	return all
}

// shortages returns the amounts behind the reasons of NodeResourcesFit.
func (s *Snapshot) shortages(a *Explanation, name string, r *Rejection) []Shortage {
	slot, ok := s.state.Slot(name)
	if r.Plugin != noderesourcesfit.Name || !ok {
		return nil
	}
	node := s.state.Node(slot)
	var short []Shortage
	for _, text := range r.Reasons {
		if text == "Too many pods" {
			most := node.AllowedPods()
			short = append(short, shortage(v1.ResourcePods, 1, most, int64(node.PodCount())))
			continue
		}
		if name, ok := strings.CutPrefix(text, "Insufficient "); ok {
			resource := v1.ResourceName(name)
			key := model.KeyOf(resource)
			asks, most, used := key.In(&a.pod.Asks), key.In(node.Allocatable()), key.In(node.Used())
			short = append(short, shortage(resource, asks, most, used))
		}
	}
	return short
}

// shortage returns the amounts as quantities. CPU is in millicores, everything else in
// units.
func shortage(name v1.ResourceName, asks, allocatable, used int64) Shortage {
	quantity := func(amount int64) resource.Quantity {
		switch name {
		case v1.ResourceCPU:
			return *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case v1.ResourceMemory, v1.ResourceEphemeralStorage:
			return *resource.NewQuantity(amount, resource.BinarySI)
		}
		return *resource.NewQuantity(amount, resource.DecimalSI)
	}
	return Shortage{Resource: string(name), Asks: quantity(asks), Free: quantity(allocatable - used), Allocatable: quantity(allocatable)}
}

// choose sets Best and Equals from the feasible nodes.
func (sum *Summary) choose(feasible []Node) {
	total := func(n *Node) int64 {
		if n.Total == nil {
			return 0
		}
		return *n.Total
	}
	taken := func(n *Node) int {
		if n.Name == sum.Taken {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(feasible, func(a, b Node) int {
		if sum.Nominated {
			return cmp.Or(cmp.Compare(taken(&a), taken(&b)), cmp.Compare(total(&b), total(&a)))
		}
		return cmp.Or(cmp.Compare(total(&b), total(&a)), cmp.Compare(taken(&a), taken(&b)))
	})
	sum.Best = feasible[:min(bestNodes, len(feasible))]
	if sum.Taken == "" || sum.Nominated || len(feasible) < 2 {
		return
	}
	for i := range feasible {
		if total(&feasible[i]) == total(&feasible[0]) {
			sum.Equals++
		}
	}
}
