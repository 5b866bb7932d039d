package explain

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/noderesourcesfit"
)

// Summary is an answer in short, for people.
type Summary struct {
	Nodes, Feasible int
	// Funnel says what each plugin that rejects a node leaves, in the order in which plugins are asked.
	Funnel []Stage
	// Reasons are the reported ones, those of most nodes first.
	Reasons []Reason
	// Near are the nodes that exactly one plugin rejects, by that plugin in the order in which plugins are asked.
	Near []Near
	// Best are the best feasible nodes, the one that would be taken first.
	Best []Node
	// Taken is the node that would be taken, empty if none would. Equals is how many nodes are as good, itself included; 0 if the choice was
	// not made by scores.
	Taken  string
	Equals int
	// Nominated says that Taken was promised to the pod before, and would be taken without a look at the others.
	Nominated bool
}

// Stage is one plugin's part in the funnel.
type Stage struct {
	// Plugin is empty for nodes that were not looked at: plugins had named the only nodes that were worth it.
	Plugin string
	// Rejects is how many nodes the plugin rejects, First how many of them no plugin before it does, Left how many remain after it.
	Rejects, First, Left int
}

// Reason is a reported reason with the number of nodes, and examples of them.
type Reason struct {
	Text     string
	Nodes    int
	Examples []string
}

// Near is a plugin with the nodes that it alone rejects.
type Near struct {
	Plugin string
	Nodes  int
	// Examples are those of the nodes that miss by least.
	Examples []NearNode
}

// NearNode is a node that one plugin rejects.
type NearNode struct {
	Name    string
	Reasons []string
	// Short says of each resource that does not suffice by how much, in the order of Reasons. It is empty for reasons that are not about
	// resources.
	Short []Shortage
}

// Shortage is a resource of which a pod asks for more than is free on a node.
type Shortage struct {
	Resource string
	Asks     resource.Quantity
	// Free may be negative, on a node that has shrunk.
	Free, Allocatable resource.Quantity
}

// missing is the part of what is asked for that is not there.
func (s *Shortage) missing() float64 {
	asks := s.Asks.AsApproximateFloat64()
	return (asks - s.Free.AsApproximateFloat64()) / max(asks, 1e-3)
}

// How many examples a summary names.
const (
	reasonExamples = 3
	nearExamples   = 5
	bestNodes      = 5
)

// Summarize puts an answer of this snapshot in short.
func (s *Snapshot) Summarize(a *Answer) Summary {
	sum := Summary{Nodes: a.decision.Nodes, Reasons: reasonsOf(a)}
	var feasible []Node
	for _, n := range a.Nodes {
		if n.Feasible {
			feasible = append(feasible, n)
		}
	}
	sum.Feasible = len(feasible)
	order := s.order(a)
	sum.Funnel = funnel(a, order)
	if d := a.decision.Rejection; d == nil || d.PreFilter == "" { // otherwise the plugins have not been asked about nodes
		sum.Near = s.near(a, order)
	}
	if a.Error == "" {
		if a.decision.Outcome == plan.Placed {
			sum.Taken = a.decision.Placements[0].NodeName
		}
		sum.Nominated = sum.Taken != "" && sum.Taken == a.pod.NominatedNode
	}
	sum.choose(feasible)
	return sum
}

// order lists the names that rejections are made under: nodes that were not looked at, then filters, then what is not a filter.
func (s *Snapshot) order(a *Answer) []string {
	order := []string{""}
	profile := s.profiles[a.Profile]
	for _, f := range profile.Filters {
		order = append(order, f.Name())
	}
	for _, n := range profile.PreFilters {
		if !slices.Contains(order, n.Name()) {
			order = append(order, n.Name())
		}
	}
	return order
}

func funnel(a *Answer, order []string) []Stage {
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

func reasonsOf(a *Answer) []Reason {
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

func (s *Snapshot) near(a *Answer, order []string) []Near {
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
		slices.SortStableFunc(nodes, func(a, b NearNode) int { return cmp.Compare(farness(&a), farness(&b)) })
		all = append(all, Near{Plugin: plugin, Nodes: len(nodes), Examples: nodes[:min(nearExamples, len(nodes))]})
	}
	return all
}

// farness is how much is missing where most is missing.
func farness(n *NearNode) float64 {
	var most float64
	for i := range n.Short {
		most = max(most, n.Short[i].missing())
	}
	return most
}

// shortages puts numbers to what NodeResourcesFit says.
func (s *Snapshot) shortages(a *Answer, name string, r *Rejection) []Shortage {
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

// shortage takes cpu in thousandths, and everything else in units.
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

// choose fills in the best of the feasible nodes.
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
