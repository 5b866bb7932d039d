package explain

import (
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/disruption"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Preemption is the result of preemption for a pod without a feasible node.
type Preemption struct {
	// Node is the node that the pod would be nominated to.
	Node string `json:"node"`
	// Victims are the pods that would be evicted from the node, the most important first.
	Victims []Victim `json:"victims"`
	// ViolatedBudgets are the PodDisruptionBudgets with more victims than allowed
	// disruptions, sorted by namespace and name.
	ViolatedBudgets []ViolatedBudget `json:"violatedBudgets,omitempty"`
	// ClearedNominations are pods of lower priority, as namespace/name, that would lose
	// their nomination to the node.
	ClearedNominations []string `json:"clearedNominations,omitempty"`
}

// Victim is a pod that would be evicted.
type Victim struct {
	// Pod is namespace/name.
	Pod      string `json:"pod"`
	Priority int32  `json:"priority"`
	// Started is the start time that the kubelet set; nil if it has not.
	Started *metav1.Time `json:"started,omitempty"`
	// Owner is the controller, as kind/name; empty if it has none.
	Owner string `json:"owner,omitempty"`
	// Terminating pods are being deleted already and would not be evicted again.
	Terminating bool `json:"terminating,omitempty"`
}

// ViolatedBudget is a PodDisruptionBudget with more victims than allowed disruptions.
type ViolatedBudget struct {
	// Budget is namespace/name.
	Budget string `json:"budget"`
	// Allowed is the number of disruptions allowed now, Victims the number of its pods
	// that would be evicted.
	Allowed int32 `json:"allowed"`
	Victims int32 `json:"victims"`
}

// preemption returns the result of preemption in a decision; nil if its pod is not
// nominated.
func (s *Snapshot) preemption(d *plan.Decision) *Preemption {
	pod := d.Pod
	nomination := d.NominationOf(pod)
	if nomination.Mode != plan.Set {
		return nil
	}
	p := &Preemption{Node: nomination.NodeName, Victims: make([]Victim, 0, len(d.Evictions))}
	for i := range d.Evictions {
		p.Victims = append(p.Victims, victim(d.Evictions[i].Pod))
	}
	p.ViolatedBudgets = s.violated(d.Evictions)
	for i := range d.Nominations {
		// The preemptor's own nomination is set, not cleared.
		if n := &d.Nominations[i]; n.Mode == plan.Clear {
			p.ClearedNominations = append(p.ClearedNominations, n.Pod.String())
		}
	}
	return p
}

func victim(pod *model.Pod) Victim {
	v := Victim{Pod: pod.String(), Priority: pod.Priority, Started: pod.Object.Status.StartTime, Terminating: pod.Terminating}
	if owner := metav1.GetControllerOfNoCopy(pod.Object); owner != nil {
		v.Owner = owner.Kind + "/" + owner.Name
	}
	return v
}

// violated returns the budgets with more victims than allowed disruptions, also budgets
// that preemption ignores. Pods that are being deleted do not count: they are disrupted
// already.
func (s *Snapshot) violated(evictions []plan.Eviction) []ViolatedBudget {
	victims := map[*state.Budget]int32{}
	for i := range evictions {
		pod := evictions[i].Pod
		if pod.Terminating {
			continue
		}
		for _, budget := range s.state.View().BudgetsOf(pod, model.AllSelected()) {
			if budget.Counts(pod) {
				victims[budget]++
			}
		}
	}
	var violated []ViolatedBudget
	for budget, n := range victims {
		if n > max(0, budget.Allowed) {
			violated = append(violated, ViolatedBudget{Budget: budget.Namespace + "/" + budget.Object.Name, Allowed: budget.Allowed, Victims: n})
		}
	}
	slices.SortFunc(violated, func(a, b ViolatedBudget) int { return strings.Compare(a.Budget, b.Budget) })
	return violated
}

// keeper computes the status of budgets that have none, as the disruption controller
// would. Budgets without a status were not read from a cluster.
type keeper struct {
	pods        []*v1.Pod
	controllers disruption.Controllers
	// budgets is nil until the first budget needs a status.
	budgets *disruption.Budgets
}

func newKeeper(pods []*v1.Pod, others []runtime.Object) *keeper {
	k := &keeper{pods: pods, controllers: disruption.Controllers{}}
	for _, other := range others {
		k.controllers.Add(other)
	}
	return k
}

func (k *keeper) kept(budget *policyv1.PodDisruptionBudget) *policyv1.PodDisruptionBudget {
	if budget.Status.ObservedGeneration != 0 || budget.Status.DisruptionsAllowed != 0 || !disruption.IsKept(budget) {
		return budget
	}
	if k.budgets == nil {
		k.budgets = disruption.NewBudgets()
		for _, pod := range k.pods {
			k.budgets.SetPod(pod)
		}
	}
	now := *budget
	now.Status = k.budgets.Set(budget).Status(k.controllers.Scale)
	return &now
}
