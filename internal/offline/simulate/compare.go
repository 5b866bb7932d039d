package simulate

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Difference is the kind of difference between two simulations of one cluster about a
// pod.
type Difference string

// The differences.
const (
	// OtherNode: both place the pod, on different nodes.
	OtherNode Difference = "OtherNode"
	// OnlyA and OnlyB: only one of them places the pod.
	OnlyA Difference = "OnlyA"
	OnlyB Difference = "OnlyB"
	// OtherReason: neither places the pod, and the reasons differ.
	OtherReason Difference = "OtherReason"
)

// Comparison has the differences between two simulations of one cluster.
type Comparison struct {
	// Decided is the number of pods with a decision, Same the number with equal outcomes.
	Decided int `json:"decided"`
	Same    int `json:"same"`
	// Differences counts the other pods by kind of difference.
	Differences map[Difference]int `json:"differences"`
	// Pods are the pods with different outcomes, in the order in which the scheduler
	// first saw them.
	Pods []ComparedPod `json:"pods"`
	// EvictedA and EvictedB are the pods that each simulation preempted.
	EvictedA []Eviction `json:"evictedA,omitempty"`
	EvictedB []Eviction `json:"evictedB,omitempty"`
	// By is the label that groups the nodes into Domains.
	By      string           `json:"by"`
	Domains []ComparedDomain `json:"domains"`
}

// ComparedPod is a pod with different outcomes.
type ComparedPod struct {
	Namespace  string     `json:"namespace"`
	Pod        string     `json:"pod"`
	Difference Difference `json:"difference"`
	A          Outcome    `json:"a"`
	B          Outcome    `json:"b"`
	// Rules are the answers that differ between releases and that alone give the pod
	// another outcome, by name.
	Rules []string `json:"rules,omitempty"`
}

// Outcome is the outcome for a pod.
type Outcome struct {
	Status  Status `json:"status"`
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
}

// ComparedDomain is the set of nodes with one value of a label.
type ComparedDomain struct {
	// Name is the value, or empty for nodes without the label.
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// A and B have the requests in the domain after each simulation, with the requests
	// before: cpu, memory and pods, then other requested resources by name.
	A []Utilization `json:"a"`
	B []Utilization `json:"b"`
}

// Compare compares the results of two simulations of one cluster, and the resulting
// utilization by the values of a label.
func Compare(files *manifest.Cluster, by string, a, b *Result) *Comparison {
	c := &Comparison{Decided: len(a.Pods), By: by, Differences: map[Difference]int{}, Pods: []ComparedPod{}, EvictedA: a.Evictions, EvictedB: b.Evictions, Domains: []ComparedDomain{}}
	for i := range a.Pods { // both have the same pods in the same order
		pod := ComparedPod{Namespace: a.Pods[i].Namespace, Pod: a.Pods[i].Pod, A: a.Pods[i].outcome(), B: b.Pods[i].outcome()}
		switch placedA, placedB := pod.A.Status == Scheduled, pod.B.Status == Scheduled; {
		case pod.A == pod.B:
			c.Same++
			continue
		case placedA && placedB:
			pod.Difference = OtherNode
		case placedA:
			pod.Difference = OnlyA
		case placedB:
			pod.Difference = OnlyB
		default:
			pod.Difference = OtherReason
		}
		c.Differences[pod.Difference]++
		c.Pods = append(c.Pods, pod)
	}
	inA, inB := domainsOf(files.Nodes, by, a), domainsOf(files.Nodes, by, b)
	for _, name := range slices.Sorted(maps.Keys(inA)) {
		c.Domains = append(c.Domains, ComparedDomain{name, inA[name].nodes, inA[name].utilizations(isNone), inB[name].utilizations(isNone)})
	}
	return c
}

func isNone(v1.ResourceName) bool { return false }

func (p *Placement) outcome() Outcome { return Outcome{p.Status, p.Node, p.Message} }

// domainsOf sums the requests before and after by the values of a label.
func domainsOf(nodes []*v1.Node, by string, r *Result) map[string]*part {
	domains := map[string]*part{}
	for _, node := range nodes {
		name := node.Labels[by]
		if domains[name] == nil {
			domains[name] = &part{}
		}
		domains[name].add(offeredBy(node), r.before[node.Name], r.after[node.Name])
	}
	return domains
}

// Owned returns a copy of the cluster in which the pods that a controller would recreate
// elsewhere are pending, and the number of these pods. It leaves out pods of DaemonSets,
// static pods, and pods that are being deleted. The volumes and devices that their claims
// hold stay in place. The given cluster is not changed.
func Owned(files *manifest.Cluster) (again *manifest.Cluster, pods int) {
	changed := *files
	changed.Pods = slices.Clone(files.Pods)
	for i, pod := range changed.Pods {
		owner := metav1.GetControllerOfNoCopy(pod)
		_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
		if pod.Spec.NodeName == "" || owner == nil || owner.Kind == "DaemonSet" || owner.Kind == "Node" || mirror || pod.DeletionTimestamp != nil || kinds.Finished(pod) {
			continue
		}
		waiting := *pod
		waiting.Spec.NodeName = ""
		waiting.Status = v1.PodStatus{
			Phase: v1.PodPending, ResourceClaimStatuses: pod.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: pod.Status.ExtendedResourceClaimStatus,
		}
		changed.Pods[i] = &waiting
		pods++
	}
	return &changed, pods
}
