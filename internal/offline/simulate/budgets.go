package simulate

import (
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/disruption"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// budgetController is kube-controller-manager's disruption controller: it keeps the
// status of PodDisruptionBudgets up to date. A budget with neither minAvailable nor
// maxUnavailable keeps the status that it was written with. Without budgets the
// controller costs nothing; with them its cost is proportional to the changes.
//
// Like the volumeController, it reads the stored objects, not the watches.
type budgetController struct {
	c *Cluster
	// Invariant: budgets has the stored budgets whose status can be computed, and the
	// stored pods. It is nil until the first such budget.
	budgets *disruption.Budgets
	planned map[model.Ref]bool // reconciliations
}

func newBudgetController(c *Cluster) *budgetController {
	return &budgetController{c: c, planned: map[model.Ref]bool{}}
}

// changed applies a new version of a stored object.
func (b *budgetController) changed(object kinds.Object) {
	if budget, ok := object.(*policyv1.PodDisruptionBudget); ok {
		b.setBudget(budget)
		return
	}
	if b.budgets == nil {
		return
	}
	if pod, ok := object.(*v1.Pod); ok {
		b.visitAll(pod.Namespace, b.budgets.SetPod(pod))
		return
	}
	b.visitAll(object.GetNamespace(), b.budgets.OfController(object))
}

// gone applies the deletion of an object.
func (b *budgetController) gone(ref model.Ref) {
	switch {
	case b.budgets == nil:
	case ref.Kind == model.PodDisruptionBudgetKind:
		b.budgets.Remove(ref.Namespace, ref.Name)
	case ref.Kind == model.PodKind:
		b.visitAll(ref.Namespace, b.budgets.RemovePod(ref.Namespace, ref.Name))
	}
}

// setBudget applies a version of a budget.
func (b *budgetController) setBudget(object *policyv1.PodDisruptionBudget) {
	if b.c.config.Volumes.Unattended || !disruption.IsKept(object) {
		b.gone(refOf(object))
		return
	}
	if b.budgets == nil {
		b.budgets = disruption.NewBudgets()
		for _, pod := range b.c.store.pods {
			b.budgets.SetPod(pod)
		}
	}
	b.budgets.Set(object)
	b.visit(refOf(object))
}

// visitAll plans reconciliations of budgets in a namespace.
func (b *budgetController) visitAll(namespace string, budgets []*disruption.Budget) {
	for _, budget := range budgets {
		b.visit(model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: namespace, Name: budget.Name()})
	}
}

// visit plans a reconciliation of a budget, unless one is planned already.
func (b *budgetController) visit(ref model.Ref) {
	if b.planned[ref] {
		return
	}
	b.planned[ref] = true
	b.c.agenda.plan(b.c.now.Add(b.c.chaos.upTo(b.c.chaos.MaxControllerDelay)), 0, func() {
		delete(b.planned, ref)
		b.sync(ref)
	})
}

// sync writes the status of a budget if it has changed. The write wakes no pod, because
// budgets do not decide whether a pod is feasible.
func (b *budgetController) sync(ref model.Ref) {
	budget := b.budgets.Get(ref.Namespace, ref.Name)
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
