package cases

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresources "k8s.io/component-helpers/resource"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// PreemptShapes returns the shapes about preemption. Nodes are full of pods, and the
// pending pods outrank some of them. Each function adds a criterion for the choice of
// victims and nodes.
func PreemptShapes() []Shape {
	limited := weighted{boundDisk, boundDisk, boundDisk, ephemeral}
	held := weighted{oncePod, oncePod, inlineDisk, inlineDisk, boundDisk, nothing}
	return []Shape{
		{"preempt-fit", "full nodes; priorities, start times, policies, pods that are being deleted", preempt(simple, crowdOut)},
		{"preempt-choice", "many nodes that differ little: which one to make room on", preempt(alike)},
		{"preempt-budgets", "PodDisruptionBudgets, several for a pod, broken, used up", preempt(simple, crowdOut, budgets)},
		{"preempt-ports", "host ports in use, taints, node affinity", preempt(whole(func(*Case) {}), crowdOut)},
		{"preempt-topology", "spread constraints and terms about other pods, both ways", preempt(few)},
		{"preempt-affinity", "the same on full nodes", preempt(few, crowdOut)},
		{"preempt-volumes", "limits of volumes for each node", preempt(volumes{base: oneNode, pending: limited, placed: limited, countMax: 2}.draw, tight)},
		{"preempt-disks", "ReadWriteOncePod claims and disks in use", preempt(volumes{base: fewNodes, pending: held, placed: held, countMax: 60}.draw)},
		{"preempt-nominated", "pending pods with a nominated node, of any priority", preempt(simple, crowdOut, renominate)},
		{"preempt-pinned", "the same, of pods for one or two nodes by name, and filters in any order", preempt(simple, crowdOut, renominate, pinned, reorder)},
		{"preempt-mixed", "everything at once", preempt(few, crowdOut, budgets, renominate)},
		{"preempt-crowd", "hundreds of nodes, pods of a few templates", preempt(crowd, crowdOut, budgets)},
	}
}

// preempt draws a case, the ages and priorities of its pods, and the changes of the
// functions.
func preempt(base func(r *rand.Rand) Case, more ...func(r *rand.Rand, tc *Case)) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		tc := base(r)
		for _, p := range tc.Pods {
			if isPending(p) {
				p.Spec.Priority = pick(r, nil, ptr(int32(0)), ptr(int32(5)), ptr(int32(10)), ptr(int32(50)), ptr(int32(1000)), ptr(int32(2_000_000_000)))
				if chance(r, 8) {
					p.Spec.PreemptionPolicy = ptr(pick(r, v1.PreemptNever, v1.PreemptNever, v1.PreemptLowerPriority))
				}
				continue
			}
			p.Spec.Priority = pick(r, nil, ptr(int32(-10)), ptr(int32(0)), ptr(int32(5)), ptr(int32(5)), ptr(int32(10)), ptr(int32(50)), ptr(int32(math.MinInt32)))
			age(r, p)
		}
		portsOnce(&tc)
		for _, change := range more {
			change(r, &tc)
		}
		return tc
	}
}

// portsOnce leaves each host port to one pod of a node. kube-scheduler regards a port as
// free as soon as one of several pods with it is gone.
func portsOnce(tc *Case) {
	type place struct {
		nodeName string
		port     int32
	}
	taken := map[place]bool{}
	for _, p := range tc.Pods {
		if isPending(p) {
			continue
		}
		for _, containers := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
			for i := range containers {
				containers[i].Ports = slices.DeleteFunc(containers[i].Ports, func(port v1.ContainerPort) bool {
					at := place{p.Spec.NodeName, port.HostPort}
					before := taken[at]
					taken[at] = true
					return before
				})
			}
		}
	}
}

// few draws nodes and pods with constraints and terms, such that few nodes are feasible
// for a pod.
func few(r *rand.Rand) Case {
	size := random.Size{Nodes: 1 + r.IntN(6), Pending: 16}
	size.Placed = size.Nodes * (2 + r.IntN(4))
	tc := Case{Config: EmptyConfig(), Cluster: random.TopologyCluster(r, size)}
	if chance(r, 30) {
		tc.Config = Config(r)
	}
	return tc
}

// oneNode draws one or two nodes on which only volumes decide.
func oneNode(r *rand.Rand) Case {
	nodes := 1 + r.IntN(2)
	tc := Case{Config: EmptyConfig(), Cluster: random.Cluster(r, random.Size{Nodes: nodes, Placed: 4 * nodes, Pending: 16})}
	keep(&tc.Cluster, 0)
	return tc
}

// tight limits nodes to one volume of each driver.
func tight(_ *rand.Rand, tc *Case) {
	for _, c := range tc.CSINodes {
		for i := range c.Spec.Drivers {
			c.Spec.Drivers[i].Allocatable = &storagev1.VolumeNodeResources{Count: ptr(int32(1))}
		}
	}
	tc.VolumeAttachments = nil
}

// fewNodes draws nodes on which only volumes decide.
func fewNodes(r *rand.Rand) Case {
	nodes := 1 + r.IntN(4)
	tc := Case{Config: EmptyConfig(), Cluster: random.Cluster(r, random.Size{Nodes: nodes, Placed: 3 * nodes, Pending: 12})}
	keep(&tc.Cluster, 0)
	return tc
}

// age draws the start time of a pod, and whether it is terminating.
func age(r *rand.Rand, p *v1.Pod) {
	p.Status.StartTime = nil
	if chance(r, 85) { // several start at the same time
		p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 3, 1, 10, r.IntN(6), 0, 0, time.UTC)}
	}
	if p.DeletionTimestamp == nil && chance(r, 90) {
		return
	}
	p.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)}
	p.DeletionGracePeriodSeconds = ptr(int64(30))
	if chance(r, 50) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{
			Type: v1.DisruptionTarget, Status: pick(r, v1.ConditionTrue, v1.ConditionTrue, v1.ConditionTrue, v1.ConditionFalse),
			Reason: pick(r, v1.PodReasonPreemptionByScheduler, v1.PodReasonPreemptionByScheduler, v1.PodReasonPreemptionByScheduler, "EvictionByEvictionAPI"),
		})
	}
}

// simple draws nodes and pods for which only resources and taints decide.
func simple(r *rand.Rand) Case {
	return whole(func(tc *Case) { keep(&tc.Cluster, resources|tolerations) })(r)
}

// whole draws nodes and pods with all properties that concern single nodes, and keeps
// some of these.
func whole(kept func(tc *Case)) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		size := random.Size{Nodes: 1 + r.IntN(8), Pending: 12}
		size.Placed = size.Nodes * (2 + r.IntN(5))
		if chance(r, 5) { // more than are sorted in place
			size.Placed = size.Nodes * 20
		}
		tc := Case{Config: EmptyConfig(), Cluster: random.Cluster(r, size)}
		kept(&tc)
		if chance(r, 25) {
			tc.Config = configText(profileOf(r, v1.DefaultSchedulerName, random.Profile(r)))
		}
		return tc
	}
}

// crowdOut leaves little or no room on most nodes.
func crowdOut(r *rand.Rand, tc *Case) {
	used := map[string]v1.ResourceList{}
	pods := map[string]int64{}
	for _, p := range tc.Pods {
		if isPending(p) || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		on := used[p.Spec.NodeName]
		if on == nil {
			on = v1.ResourceList{}
			used[p.Spec.NodeName] = on
		}
		pods[p.Spec.NodeName]++
		for name, amount := range podresources.PodRequests(p, podresources.PodResourcesOptions{}) {
			sum := on[name]
			sum.Add(amount)
			on[name] = sum
		}
	}
	for _, n := range tc.Nodes {
		if n.Status.Allocatable == nil {
			n.Status.Allocatable = v1.ResourceList{}
		}
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			sum := used[n.Name][name]
			switch {
			case chance(r, 25):
			case name == v1.ResourceCPU:
				sum.Add(pick(r, resource.MustParse("0"), resource.MustParse("0"), resource.MustParse("100m"), resource.MustParse("500m"), resource.MustParse("-500m")))
				if sum.Sign() < 0 { // invalid in the API server
					sum = resource.Quantity{}
				}
				n.Status.Allocatable[name] = sum
			default:
				sum.Add(pick(r, resource.MustParse("0"), resource.MustParse("64Mi"), resource.MustParse("1Gi")))
				n.Status.Allocatable[name] = sum
			}
		}
		if chance(r, 15) {
			n.Status.Allocatable[v1.ResourcePods] = *resource.NewQuantity(pods[n.Name]+int64(r.IntN(2)), resource.DecimalSI)
		}
	}
}

// alike draws nodes of the same size, each full with a few pods of few priorities and
// ages.
func alike(r *rand.Rand) Case {
	tc := Case{Config: EmptyConfig()}
	priorities := [][]int32{{0, 0, 5}, {10, 5}, {1000, -2_000_000_000}, {0, math.MinInt32}}[r.IntN(4)]
	for i := range 3 + r.IntN(12) {
		n := random.Node(r, i)
		n.Spec.Taints, n.Spec.Unschedulable = nil, false
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110")}
		tc.Nodes = append(tc.Nodes, n)
		for left := 4; left > 0; {
			cpu := min(left, 1+r.IntN(3))
			left -= cpu
			tc.Pods = append(tc.Pods, alikePod(r, len(tc.Pods), cpu, n.Name))
		}
	}
	for range 6 {
		tc.Pods = append(tc.Pods, alikePod(r, len(tc.Pods), 1+r.IntN(4), ""))
	}
	for _, p := range tc.Pods {
		if !isPending(p) {
			p.Spec.Priority = ptr(pick(r, priorities...))
		}
	}
	if chance(r, 50) {
		budgets(r, &tc)
	}
	return tc
}

func alikePod(r *rand.Rand, i, cpu int, nodeName string) *v1.Pod {
	p := random.Pod(r, i)
	keepOfPod(p, resources)
	p.Spec.InitContainers, p.Spec.Overhead, p.Spec.Resources = nil, nil, nil
	p.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: *resource.NewQuantity(int64(cpu), resource.DecimalSI),
	}}}}
	if p.Spec.NodeName = nodeName; nodeName != "" {
		p.Status.Phase = v1.PodRunning
	}
	return p
}

// budgets draws PodDisruptionBudgets; several may select the same pod.
func budgets(r *rand.Rand, tc *Case) {
	for i := range 1 + r.IntN(6) {
		b := Budget(r, fmt.Sprintf("budget-%d", i))
		for _, p := range tc.Pods {
			if chance(r, 5) {
				if b.Status.DisruptedPods == nil {
					b.Status.DisruptedPods = map[string]metav1.Time{}
				}
				b.Status.DisruptedPods[p.Name] = metav1.Time{Time: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)}
			}
		}
		tc.Budgets = append(tc.Budgets, b)
	}
}

// Budget draws a PodDisruptionBudget.
func Budget(r *rand.Rand, name string) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: pick(r, "default", "other"), UID: "budget", ResourceVersion: "1"},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: pick(r, int32(0), 0, 0, 1, 1, 2)},
	}
	switch r.IntN(10) {
	case 0:
	case 1:
		b.Spec.Selector = &metav1.LabelSelector{}
	case 2:
		b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like", Values: []string{"web"}}}}
	case 3:
		b.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: pick(r, "tier", "app"), Operator: pick(r, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}}}
	default:
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "web", "db")}}
		if chance(r, 30) {
			b.Spec.Selector.MatchLabels = map[string]string{"tier": pick(r, "front", "back")}
		}
	}
	return b
}

// renominate nominates pending pods to nodes, including removed ones.
func renominate(r *rand.Rand, tc *Case) {
	for _, p := range tc.Pods {
		switch {
		case !isPending(p) || len(tc.Nodes) == 0 || chance(r, 50):
		case chance(r, 5):
			p.Status.NominatedNodeName = "gone"
		default:
			p.Status.NominatedNodeName = tc.Nodes[r.IntN(min(4, len(tc.Nodes)))].Name
		}
	}
}

// pinned restricts most pending pods to one or two nodes by name, so that PreFilter
// leaves no others.
func pinned(r *rand.Rand, tc *Case) {
	for _, p := range tc.Pods {
		if isPending(p) && len(tc.Nodes) > 0 && chance(r, 70) {
			Pin(p, pick(r, tc.Nodes...).Name, pick(r, tc.Nodes...).Name)
		}
	}
}

// Pin restricts a pod to nodes with these names.
func Pin(p *v1.Pod, to ...string) {
	var terms []v1.NodeSelectorTerm
	for _, nodeName := range to {
		terms = append(terms, v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName}}}})
	}
	p.Spec.NodeSelector = nil
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms}}}
}

// reorder disables a filter, moves another one to the front, or keeps the configuration.
func reorder(r *rand.Rand, tc *Case) {
	p := configv1.KubeSchedulerProfile{Plugins: &configv1.Plugins{}}
	switch r.IntN(4) {
	case 0:
		return
	case 1:
		p.Plugins.Filter.Disabled = []configv1.Plugin{{Name: "NodeAffinity"}}
	default:
		p.Plugins.Filter.Enabled = []configv1.Plugin{{Name: pick(r, filters()...)}}
	}
	tc.Config = configText(p)
}
