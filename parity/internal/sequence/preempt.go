package sequence

import (
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// PreemptScripts returns the scripts with preemption. Victims terminate slowly,
// preemptors return and are placed, and meanwhile more pods, budgets and other deletions
// arrive.
func PreemptScripts(pods int) []Script {
	script := func(name, about string, change func(p *play)) Script {
		return Script{Name: name, About: about, draw: func(seed uint64) *play {
			return newPlay(name, seed, pods/2, func(p *play) {
				p.preempts, p.template, p.nodes = true, p.resources, 3+pods/40
				change(p)
			})
		}}
	}
	return []Script{
		script("seq-preempt", "pods evict others, which take their time to go", func(*play) {}),
		script("seq-preempt-budgets", "many nodes full of pods that budgets are for, and a few pods at a time that outrank them", func(p *play) {
			p.template, p.nodes, p.budgeted = p.budgetedPod, pods/8, true
		}),
		script("seq-preempt-mixed", "the same, with constraints, terms, ports and nominations of all kinds", func(p *play) { p.template = p.nominated }),
		script("seq-preempt-pinned", "the same, of pods for one or two nodes", func(p *play) { p.template = p.pinned }),
		script("seq-preempt-churn", "the same while nodes, pods and namespaces come, change and go", func(p *play) { p.template, p.changes = p.any, 4 }),
		script("seq-preempt-volumes", "the same, of pods with volumes", func(p *play) { p.template, p.volumes, p.pods = p.resources, true, p.pods/2 }),
		script("seq-preempt-faults", "the same, fewer, with late events, and bindings and evictions that fail", func(p *play) {
			p.pods /= 2
			p.template, p.changes = p.any, 4
			p.faults = simulate.Faults{
				MaxWatchDelay: 300 * time.Millisecond, MaxBindDelay: 500 * time.Millisecond,
				DuplicatePercent: 5, Requests: map[simulate.Fault]int{simulate.Conflict: 3, simulate.Unavailable: 3, simulate.Lost: 1, simulate.Forbidden: 3},
			}
		}),
	}
}

// pinned makes pods, most of which are restricted to certain nodes.
func (p *play) pinned(i int) *v1.Pod {
	pod := p.resources(i)
	if chance(p.r, 70) {
		cases.Pin(pod, p.nodeName(), p.nodeName())
	}
	return pod
}

func (p *play) nodeName() string { return fmt.Sprintf("node-%d", p.r.IntN(p.nodes)) }

// budgetedPod makes pods of few sizes with the labels that budgets select.
func (p *play) budgetedPod(i int) *v1.Pod {
	pod := p.resources(i)
	pod.Namespace, pod.Spec.Tolerations = "default", nil
	pod.Labels = map[string]string{"app": pick(p.r, "web", "db"), "tier": pick(p.r, "front", "back")}
	return pod
}

// rank sets the properties of a new pod that preemption depends on.
func (p *play) rank(pod *v1.Pod) {
	if p.budgeted {
		p.outrank(pod)
		return
	}
	pod.Spec.Priority = pick(p.r, nil, ptr(int32(-10)), ptr(int32(5)), ptr(int32(5)), ptr(int32(10)), ptr(int32(50)), ptr(int32(1000)), ptr(int32(math.MinInt32)))
	pod.Spec.TerminationGracePeriodSeconds = pick(p.r, nil, ptr(int64(0)), ptr(int64(1)), ptr(int64(5)), ptr(int64(20)))
	if chance(p.r, 5) {
		pod.Spec.PreemptionPolicy = ptr(v1.PreemptNever)
	}
	if chance(p.r, 80) {
		pod.Spec.InitContainers, pod.Spec.Overhead, pod.Spec.Resources = nil, nil, nil
		pod.Spec.Containers = pod.Spec.Containers[:1]
		pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse(pick(p.r, "250m", "500m", "1", "1", "2", "3"))}
	}
}

// outrank lets the first half of the pods fill the nodes, and the others preempt them.
func (p *play) outrank(pod *v1.Pod) {
	pod.Spec.InitContainers, pod.Spec.Overhead, pod.Spec.Resources = nil, nil, nil
	pod.Spec.Containers = pod.Spec.Containers[:1]
	pod.Spec.Containers[0].Ports = nil
	pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	pod.Spec.Priority, pod.Spec.TerminationGracePeriodSeconds = ptr(pick(p.r, int32(0), 0, 0, 5)), ptr(int64(20))
	if p.made > p.pods/2 {
		pod.Spec.Priority = ptr(pick(p.r, int32(1000), 1000, 1000, 2000))
		if chance(p.r, 20) {
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("4")
		}
	}
}

// small leaves nodes little room and few taints.
func (p *play) small(nodes []*v1.Node) {
	for _, n := range nodes {
		if chance(p.r, 80) {
			n.Spec.Taints, n.Spec.Unschedulable = nil, false
		}
		n.Status.Allocatable = v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(pick(p.r, "2", "4", "4")), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse(pick(p.r, "6", "110")),
		}
	}
}

// disturb changes pods and budgets, as kubelets, users and controllers do.
func (p *play) disturb(c *simulate.Cluster) error {
	for _, pod := range c.Pods() {
		key := keyOf(pod)
		switch {
		case pod.Spec.NodeName == "":
		case pod.Status.StartTime == nil && pod.DeletionTimestamp == nil && chance(p.r, 60):
			started := pod.DeepCopy()
			started.Status.Phase, started.Status.StartTime = v1.PodRunning, &metav1.Time{Time: c.Now().Truncate(10 * time.Second)}
			c.SetPod(started)
		case chance(p.r, 1):
			c.Terminate(key)
		case pod.DeletionTimestamp != nil && chance(p.r, 3):
			c.DeletePod(key) // forced
		}
	}
	for range pick(p.r, 0, 1, 1, 4) {
		if err := p.changeBudget(c); err != nil {
			return err
		}
	}
	return nil
}

// changeBudget creates, changes or deletes a PodDisruptionBudget.
func (p *play) changeBudget(c *simulate.Cluster) error {
	budget := cases.Budget(p.r, fmt.Sprintf("budget-%d", p.r.IntN(5)))
	if chance(p.r, 20) {
		c.DeleteObject(model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: budget.Namespace, Name: budget.Name})
		return nil
	}
	for _, pod := range c.Pods() {
		if chance(p.r, 3) {
			budget.Status.DisruptedPods = map[string]metav1.Time{pod.Name: {Time: c.Now()}}
		}
	}
	budget.UID, budget.ResourceVersion = "", "" // the cluster sets them
	return c.SetObject(budget)
}

// withoutPorts removes the host ports of a pod that another client binds. kube-scheduler
// regards a port as free as soon as one of several pods with it is gone.
func withoutPorts(pod *v1.Pod) {
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			containers[i].Ports = nil
		}
	}
}
