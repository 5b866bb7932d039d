package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Fit is the number of further pods like a given one that find a node, with all placed at
// the same time. No pod is preempted for them. Of the pending pods, only nominated ones
// take space.
type Fit struct {
	// Pod is namespace/name of the given pod.
	Pod string `json:"pod"`
	// Fits is the number of pods that find a node. AtLeast is set if the count stopped at
	// its limit.
	Fits    int  `json:"fits"`
	AtLeast bool `json:"atLeast,omitempty"`
	// Message is the reason why the next pod finds no node, in the words of the
	// FailedScheduling event.
	Message string `json:"message,omitempty"`
	// By is the label that the nodes are grouped by.
	By      string      `json:"by"`
	Domains []FitDomain `json:"domains"`
}

// FitDomain is the set of nodes with one value of a label.
type FitDomain struct {
	// Name is the value; empty for nodes without the label.
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// Feasible is the number of nodes that are feasible for the first pod. Fits is the
	// number of pods placed on nodes of this domain.
	Feasible int `json:"feasible"`
	Fits     int `json:"fits"`
	// Full are the reasons of nodes that were feasible for the first pod and reject the
	// next one. Unfit are the reasons of nodes that rejected the first pod. Both begin
	// with the reason of the most nodes.
	Full  []FitReason `json:"full,omitempty"`
	Unfit []FitReason `json:"unfit,omitempty"`
}

// FitReason is a reason with the number of nodes that report it.
type FitReason struct {
	Reason string `json:"reason"`
	Nodes  int    `json:"nodes"`
}

// CountFits places copies of a pending pod one after another, at most `most`, and then
// reverts the placements.
func (s *Snapshot) CountFits(pod *model.Pod, by string, most int) (*Fit, error) {
	fit := &Fit{Pod: pod.String(), By: by, Domains: []FitDomain{}}
	first, err := s.ask(likeness(pod, 0))
	if err != nil {
		return nil, fmt.Errorf("evaluate pod %s: %w", pod, err)
	}
	on := map[string]int{} // by node
	var placed []plan.Placement
	defer func() { s.state.Unassume(placed...) }()
	next := likeness(pod, 0)
	for fit.Fits < most {
		d := s.engine.Decide(s.state.View(), plan.Alone(next))
		if d.Outcome == plan.Failed {
			return nil, fmt.Errorf("decide about pod %d like %s: %w", fit.Fits+1, pod, d.Err)
		}
		if d.Outcome != plan.Placed {
			fit.Message = messageOf(&d)
			break
		}
		s.state.Assume(d.Placement)
		placed = append(placed, d.Placement)
		on[d.Placement.NodeName]++
		fit.Fits++
		next = likeness(pod, fit.Fits)
	}
	fit.AtLeast = fit.Fits == most
	last, err := s.ask(next)
	if err != nil {
		return nil, fmt.Errorf("evaluate pod %d like %s: %w", fit.Fits+1, pod, err)
	}
	fit.Domains = s.domains(by, on, first.Nodes, last.Nodes)
	return fit, nil
}

func messageOf(d *plan.Decision) string {
	if d.Rejection == nil {
		return d.Outcome.String()
	}
	return d.Rejection.Text(d.Nodes)
}

// likeness returns a copy of the pod with another name and UID, no nomination, and
// preemption disabled.
func likeness(pod *model.Pod, i int) *model.Pod {
	object, never := *pod.Object, v1.PreemptNever
	object.Name, object.UID = fmt.Sprintf("%s-%d", pod.Name, i+1), types.UID(fmt.Sprintf("%s-%d", pod.UID, i+1))
	object.Spec.PreemptionPolicy = &never
	like := *pod
	like.Object, like.Name, like.UID, like.NominatedNode = &object, object.Name, object.UID, ""
	return &like
}

// domains groups nodes by the values of a label, sorted. first are the answers about the
// first pod, last the answers about the pod after the last placed one.
func (s *Snapshot) domains(by string, on map[string]int, first, last []plan.NodeAnswer) []FitDomain {
	label := map[string]string{}
	for _, node := range s.nodes {
		label[node.Name] = node.Labels[by]
	}
	after := map[string]*plan.NodeAnswer{}
	for i := range last {
		after[last[i].Name] = &last[i]
	}
	type sums struct {
		FitDomain
		full, unfit map[string]int
	}
	all := map[string]*sums{}
	for i := range first {
		node := &first[i]
		d := all[label[node.Name]]
		if d == nil {
			d = &sums{FitDomain{Name: label[node.Name]}, map[string]int{}, map[string]int{}}
			all[d.Name] = d
		}
		d.Nodes++
		d.Fits += on[node.Name]
		if !node.Feasible {
			countReasons(d.unfit, node)
			continue
		}
		d.Feasible++
		if now := after[node.Name]; now != nil && !now.Feasible {
			countReasons(d.full, now)
		}
	}
	domains := []FitDomain{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d := all[name]
		d.Full, d.Unfit = sorted(d.full), sorted(d.unfit)
		domains = append(domains, d.FitDomain)
	}
	return domains
}

// countReasons counts the reasons that kube-scheduler reports: only the first rejection.
func countReasons(reasons map[string]int, node *plan.NodeAnswer) {
	if len(node.Rejections) == 0 {
		return
	}
	for _, text := range node.Rejections[0].Reasons {
		reasons[text]++
	}
}

func sorted(reasons map[string]int) []FitReason {
	var all []FitReason
	for text, nodes := range reasons {
		all = append(all, FitReason{text, nodes})
	}
	slices.SortFunc(all, func(a, b FitReason) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
