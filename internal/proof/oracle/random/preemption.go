package random

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

const budgetNames = 6

// pin restricts a pod to a node by name.
func pin(p *v1.Pod, nodeName string) {
	name := v1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName}}
	p.Spec.NodeSelector = nil
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{name}}},
	}}}
}

// PreemptionCluster returns a cluster from TopologyCluster, Cluster or StorageCluster,
// with nodes that are too small for their pods, and the inputs of preemption.
func PreemptionCluster(r *rand.Rand, size Size) oracle.Cluster {
	var c oracle.Cluster
	switch n := r.IntN(10); {
	case n < 5:
		c = TopologyCluster(r, size)
	case n < 7:
		c = Cluster(r, size)
	default:
		c = StorageCluster(r, size)
	}
	for _, n := range c.Nodes {
		shrink(r, n)
	}
	alike := chance(r, 25)
	for _, p := range c.Pods {
		contend(r, p)
		if alike && p.Spec.NodeName != "" {
			becomeAlike(p)
		}
		if p.Spec.NodeName == "" && len(c.Nodes) > 0 && chance(r, 20) {
			p.Status.NominatedNodeName = pick(r, c.Nodes...).Name
			if chance(r, 30) {
				pin(p, pick(r, c.Nodes...).Name)
			}
		}
	}
	for _, n := range c.CSINodes {
		for i := range n.Spec.Drivers {
			if n.Spec.Drivers[i].Allocatable != nil && chance(r, 50) {
				n.Spec.Drivers[i].Allocatable.Count = ptr(int32(1))
			}
		}
	}
	for _, claim := range some(r, 40, c.PersistentVolumeClaims...) {
		claim.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	}
	for range pick(r, 0, 0, 1, 3, budgetNames) {
		c = setBudget(r, c).After
	}
	return c
}

// PreemptionProfile is a profile for a cluster that PreemptionCluster made.
func PreemptionProfile(r *rand.Rand, c oracle.Cluster) oracle.Profile {
	p := TopologyProfile(r)
	if hasStorage(c) {
		p = StorageProfile(r)
	}
	if chance(r, 70) {
		p.Disabled = map[string]bool{} // all plugins that can reject a node
	}
	return p
}

// hasStorage reports whether StorageCluster made the cluster.
func hasStorage(c oracle.Cluster) bool { return len(c.StorageClasses)+len(c.PersistentVolumes) > 0 }

// shrink makes a node too small for more than a few pods.
func shrink(r *rand.Rand, n *v1.Node) {
	if chance(r, 10) {
		return
	}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(pick(r, "1", "2", "3", "4")), v1.ResourceMemory: resource.MustParse(pick(r, "1Gi", "4Gi", "8Gi")),
		v1.ResourcePods: resource.MustParse(pick(r, "2", "4", "110", "110")), gpu: resource.MustParse("1"),
	}
	if chance(r, 60) {
		n.Spec.Taints, n.Spec.Unschedulable = nil, false
	}
}

// contend gives a pod the inputs of preemption, and requests that few nodes can meet.
func contend(r *rand.Rand, p *v1.Pod) {
	p.Spec.Priority = contendingPriority(r, p.Spec.NodeName == "")
	if chance(r, 75) {
		p.Spec.NodeSelector = nil
		if p.Spec.Affinity != nil {
			p.Spec.Affinity.NodeAffinity = nil
		}
		simplify(r, p, p.Spec.Volumes...)
		requests := p.Spec.Containers[0].Resources.Requests
		requests[v1.ResourceCPU] = resource.MustParse(pick(r, "0", "250m", "500m", "1", "1", "2", "2"))
		if len(p.Spec.Volumes) > 0 && chance(r, 60) {
			// So that volumes decide.
			requests[v1.ResourceCPU] = resource.MustParse("100m")
		}
		set(r, requests, 40, v1.ResourceMemory, "100Mi", "500Mi", "1Gi")
		set(r, requests, 8, gpu, "1")
	}
	if chance(r, 15) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: pick(r, int32(80), 443), ContainerPort: 80, Protocol: v1.ProtocolTCP}}
	}
	if chance(r, 8) {
		p.Labels = nil
	}
	if len(p.Spec.Volumes) > 0 && chance(r, 30) {
		p.Spec.Volumes = p.Spec.Volumes[:1]
		p.Spec.Volumes[0].VolumeSource = contendedVolume(r)
	}
	switch {
	case p.Spec.NodeName == "" && chance(r, 6):
		p.Spec.PreemptionPolicy = ptr(pick(r, v1.PreemptNever, v1.PreemptNever, v1.PreemptLowerPriority))
	case p.Spec.NodeName == "":
	case chance(r, 6):
		evict(r, p)
	default:
		start(r, p)
	}
}

// becomeAlike removes most differences between a placed pod and other victims.
func becomeAlike(p *v1.Pod) {
	p.Spec.Priority, p.Status.StartTime, p.Spec.Affinity, p.Spec.TopologySpreadConstraints = nil, nil, nil, nil
	p.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}
}

func contendingPriority(r *rand.Rand, pending bool) *int32 {
	switch n := r.IntN(100); {
	case n < 10:
		return nil
	case n < 25:
		return ptr(pick(r, int32(math.MinInt32), math.MinInt32, math.MinInt32+1, -2_000_000_000, 2_000_000_000, math.MaxInt32-1, math.MaxInt32))
	case n < 40:
		return ptr(int32(r.IntN(200)))
	case pending:
		return ptr(pick(r, int32(-5), 0, 10, 1000, 1000, 1000, 2000))
	}
	return ptr(pick(r, int32(-5), 0, 0, 10, 10, 1000))
}

// contendedVolume is a volume that can be used only once or twice per node or cluster.
func contendedVolume(r *rand.Rand) v1.VolumeSource {
	switch r.IntN(3) {
	case 0:
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: "disk-0"}}
	case 1:
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprintf("vol-%d", r.IntN(10))}}
	}
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: pick(r, "claim-0", "claim-1")}}
}

// start gives a pod one of few start times, or none.
func start(r *rand.Rand, p *v1.Pod) {
	if p.Status.StartTime = nil; chance(r, 75) {
		p.Status.StartTime = ptr(metav1.NewTime(epoch.Add(time.Duration(r.IntN(4)) * time.Minute)))
	}
}

// evict marks a pod as terminating, mostly because a scheduler preempted it.
func evict(r *rand.Rand, p *v1.Pod) {
	if chance(r, 90) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr(epoch), ptr(int64(30))
	}
	condition := v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}
	switch n := r.IntN(10); {
	case n < 1:
		condition.Status = v1.ConditionFalse
	case n < 2:
		condition.Reason = "EvictionByEvictionAPI"
	case n < 3:
		condition.Type = v1.PodReady
	}
	p.Status.Conditions = slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c v1.PodCondition) bool { return c.Type == condition.Type })
	p.Status.Conditions = append(p.Status.Conditions, condition)
}

// Budget is the i-th PodDisruptionBudget.
func Budget(r *rand.Rand, i int, pods []*v1.Pod) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("budget-%d", i), Namespace: pick(r, "default", "default", "default", "other", "third"), UID: uid(r), ResourceVersion: "1",
	}}
	b.Spec.Selector = budgetSelector(r)
	setAllowed(r, b, pods)
	return b
}

func budgetSelector(r *rand.Rand) *metav1.LabelSelector {
	switch n := r.IntN(100); {
	case n < 5:
		return nil
	case n < 10:
		return &metav1.LabelSelector{}
	case n < 15:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: pick(r, "Near", metav1.LabelSelectorOpIn)}}}
	case n < 40:
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "other", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	case n < 70:
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "web", "db")}}
	}
	return labelSelector(r)
}

func setAllowed(r *rand.Rand, b *policyv1.PodDisruptionBudget, pods []*v1.Pod) {
	b.Status.DisruptionsAllowed = pick(r, int32(0), 0, 0, 1, 1, 2, 100)
	b.Status.DisruptedPods = nil
	if chance(r, 25) && len(pods) > 0 {
		b.Status.DisruptedPods = map[string]metav1.Time{pick(r, pods...).Name: epoch, pick(r, pods...).Name: epoch}
	}
}

// setBudget adds a budget, or changes or replaces an existing budget of its name.
func setBudget(r *rand.Rand, c oracle.Cluster) Mutation {
	b := Budget(r, r.IntN(budgetNames), c.Pods)
	m := Mutation{Kind: BudgetSet, After: cloned(c)}
	at := slices.IndexFunc(c.DisruptionBudgets, func(o *policyv1.PodDisruptionBudget) bool { return o.Namespace == b.Namespace && o.Name == b.Name })
	if at >= 0 && chance(r, 70) {
		b = c.DisruptionBudgets[at].DeepCopy()
		b.ResourceVersion = next(b.ResourceVersion)
		setAllowed(r, b, c.Pods)
	}
	m.New, m.Old = b, put(&m.After.DisruptionBudgets, b)
	return m
}

// PreemptionChange draws a mutation of a cluster that PreemptionCluster made. In addition
// to the mutations of TopologyChange or StorageChange, it draws changes of budgets and
// start times, and evictions.
func PreemptionChange(r *rand.Rand, c oracle.Cluster) Mutation {
	placed := indexes(c.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
	switch n := r.IntN(100); {
	case n < 8:
		return setBudget(r, c)
	case n < 11:
		m := Mutation{Kind: BudgetRemoved, After: cloned(c)}
		if m.Old = drop(r, &m.After.DisruptionBudgets); m.Old != nil {
			return m
		}
	case n < 17 && len(placed) > 0:
		return replacePod(c, PodEvicted, pick(r, placed...), func(p *v1.Pod) { evict(r, p) })
	case n < 22 && len(placed) > 0:
		return replacePod(c, PodStarted, pick(r, placed...), func(p *v1.Pod) { start(r, p) })
	}
	m := TopologyChange(r, c)
	if hasStorage(c) {
		m = StorageChange(r, c)
	}
	switch {
	case m.NewNode != nil && m.OldNode == nil:
		shrink(r, m.NewNode)
	case m.NewPod != nil && m.OldPod == nil:
		contend(r, m.NewPod)
	}
	return m
}
