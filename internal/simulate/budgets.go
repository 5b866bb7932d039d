package simulate

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/disruption"
	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// budgetController plays kube-controller-manager, as far as it keeps the status of PodDisruptionBudgets while pods come and go. A budget whose spec
// has neither minAvailable nor maxUnavailable keeps the status that it was written with. It costs nothing in a cluster without budgets.
//
// Like the volumeController it reads the stored objects, not what watches show.
type budgetController struct {
	c *Cluster
	// Invariant: these are of the stored budgets that a status can be computed of; no inner map is empty.
	budgets map[string]map[model.Ref]*disruption.Budget // by namespace
	planned map[model.Ref]bool                          // visits
}

func newBudgetController(c *Cluster) *budgetController {
	return &budgetController{c: c, budgets: map[string]map[model.Ref]*disruption.Budget{}, planned: map[model.Ref]bool{}}
}

// changed takes in a new version of a stored object.
func (b *budgetController) changed(object kinds.Object) {
	switch o := object.(type) {
	case *policyv1.PodDisruptionBudget:
		b.setBudget(refOf(o), o)
	case *v1.Pod:
		b.eachOf(o.Namespace, func(budget *disruption.Budget) bool { return budget.Set(o) })
	case *v1.ReplicationController, *appsv1.ReplicaSet, *appsv1.StatefulSet:
		b.eachOf(o.GetNamespace(), func(*disruption.Budget) bool { return true })
	}
}

// gone takes in that an object is not stored any more.
func (b *budgetController) gone(ref model.Ref) {
	switch ref.Kind {
	case model.PodDisruptionBudgetKind:
		drop(b.budgets, ref.Namespace, ref)
	case model.PodKind:
		b.eachOf(ref.Namespace, func(budget *disruption.Budget) bool { return budget.Remove(ref.Namespace, ref.Name) })
	}
}

// eachOf visits the budgets of a namespace that a change concerns.
func (b *budgetController) eachOf(namespace string, concerns func(*disruption.Budget) bool) {
	of := b.budgets[namespace]
	if len(of) == 0 {
		return
	}
	for _, ref := range slices.SortedFunc(maps.Keys(of), compareRefs) {
		if concerns(of[ref]) {
			b.visit(ref)
		}
	}
}

// setBudget takes in a version of a budget, and counts the pods that it is for unless they are the same as before.
func (b *budgetController) setBudget(ref model.Ref, object *policyv1.PodDisruptionBudget) {
	if b.c.config.Volumes.Unattended || !disruption.IsKept(object) {
		drop(b.budgets, ref.Namespace, ref)
		return
	}
	if budget := b.budgets[ref.Namespace][ref]; budget == nil || !budget.Replace(object) {
		budget = disruption.New(object)
		for _, pod := range b.c.store.pods {
			budget.Set(pod)
		}
		add(b.budgets, ref.Namespace, ref, budget)
	}
	b.visit(ref)
}

// visit plans a visit to a budget, unless one is planned already.
func (b *budgetController) visit(ref model.Ref) {
	if b.planned[ref] {
		return
	}
	b.planned[ref] = true
	b.c.agenda.plan(b.c.now.Add(b.c.chaos.upTo(b.c.chaos.ControllerDelayMax)), 0, func() {
		delete(b.planned, ref)
		b.sync(ref)
	})
}

// sync writes the status of a budget if it has changed. That is no change that a pod could be tried again for: budgets do not decide whether it finds
// a place.
func (b *budgetController) sync(ref model.Ref) {
	budget := b.budgets[ref.Namespace][ref]
	if budget == nil {
		return
	}
	stored := b.c.store.others[ref].(*policyv1.PodDisruptionBudget)
	status := budget.Status(b.scale)
	if equality.Semantic.DeepEqual(status, stored.Status) {
		return
	}
	now := *stored
	now.Status = status
	b.c.happened["budget: status written"]++
	b.c.show(b.c.store.setOther(ref, &now))
}

// scale returns how many replicas a stored controller wants.
func (b *budgetController) scale(namespace string, owner *metav1.OwnerReference) (replicas int32, ok bool) {
	ref := model.Ref{Namespace: namespace, Name: owner.Name}
	switch owner.APIVersion + " " + owner.Kind {
	case "v1 ReplicationController":
		ref.Kind = model.ReplicationControllerKind
	case "apps/v1 ReplicaSet":
		ref.Kind = model.ReplicaSetKind
	case "apps/v1 StatefulSet":
		ref.Kind = model.StatefulSetKind
	default:
		return 0, false
	}
	return disruption.Replicas(b.c.store.others[ref])
}
