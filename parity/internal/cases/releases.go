package cases

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/parity/internal/outside"
)

// ReleaseShapes returns a shape for each answer that differs between releases, by the
// name of its rule in docs/versions.md. Within a shape, no other rule has an effect.
func ReleaseShapes() map[string]Shape {
	anyLabels := &metav1.LabelSelector{}
	return map[string]Shape{
		"spreadEmptySelector":   {"release-spread", "spread constraints with an empty selector", spread(emptySelectors, nil)},
		"budgetEmptySelector":   {"release-budgets", "PodDisruptionBudgets with an empty selector", preempt(simple, crowdOut, labelled, budgetsOf(anyLabels))},
		"budgetUnlabelledPods":  {"release-unlabelled", "pods without labels under PodDisruptionBudgets", preempt(simple, crowdOut, unlabelled, budgetsOf(withoutLabel("app"), withoutLabel("tier")))},
		"victimsByUID":          {"release-victims", "equal victims, of which some are enough", equalVictims},
		"nodesWithoutVictims":   {"release-extenders", "extenders that reject nodes with room, with a say about victims", withoutRoom},
		"scorePodLevelRequests": {"release-pod-level", "requests of pods as a whole", nodeLocal(keepResources, podLevel)},
		"declaredFeatures38":    {"release-features", "features of 1.38 that nodes declare", nodeLocal(keepFeatures, features38)},
	}
}

// releaseShapes returns them by name.
func releaseShapes() []Shape {
	var all []Shape
	for _, s := range ReleaseShapes() {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Shape) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// without removes the properties of other rules from a pod: requests as a whole, and a
// UID whose order is not the name's.
func without(p *v1.Pod) {
	p.Spec.Resources, p.Status.Resources, p.Status.AllocatedResources = nil, nil, nil
	p.UID = types.UID(p.Namespace + "/" + p.Name)
}

// emptySelectors leaves half of the constraints' selectors, and empties the others.
func emptySelectors(p *v1.Pod) {
	without(p)
	for i := range p.Spec.TopologySpreadConstraints {
		if c := &p.Spec.TopologySpreadConstraints[i]; (len(p.Name)+i)%2 == 0 || c.LabelSelector == nil {
			c.LabelSelector, c.MatchLabelKeys = &metav1.LabelSelector{}, nil
		}
	}
}

// labelled gives each pod a label.
func labelled(_ *rand.Rand, tc *Case) {
	for _, p := range tc.Pods {
		without(p)
		if len(p.Labels) == 0 {
			p.Labels = map[string]string{"app": "web"}
		}
	}
}

// unlabelled removes the labels of most pods.
func unlabelled(r *rand.Rand, tc *Case) {
	for _, p := range tc.Pods {
		without(p)
		if chance(r, 70) {
			p.Labels = nil
		}
	}
}

func withoutLabel(key string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpDoesNotExist}}}
}

// budgetsOf adds PodDisruptionBudgets with some of the selectors.
func budgetsOf(selectors ...*metav1.LabelSelector) func(r *rand.Rand, tc *Case) {
	return func(r *rand.Rand, tc *Case) {
		for i := range 1 + r.IntN(3) {
			tc.Budgets = append(tc.Budgets, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("budget-%d", i), Namespace: pick(r, "default", "other"), UID: "budget", ResourceVersion: "1"},
				Spec:       policyv1.PodDisruptionBudgetSpec{Selector: pick(r, selectors...).DeepCopy()},
				Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: pick(r, int32(0), 0, 0, 1, 2)},
			})
		}
	}
}

// equalVictims draws full nodes with equal pods, of which the pending ones need some. The
// order of the UIDs is not the names'.
func equalVictims(r *rand.Rand) Case {
	tc := Case{Config: EmptyConfig()}
	start := &metav1.Time{Time: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)}
	for i := range 1 + r.IntN(3) {
		n := random.Node(r, i)
		n.Spec.Taints, n.Spec.Unschedulable = nil, false
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110")}
		tc.Nodes = append(tc.Nodes, n)
		for range 4 {
			p := alikePod(r, len(tc.Pods), 1, n.Name)
			p.Spec.Priority, p.DeletionTimestamp = nil, nil
			if p.Status.StartTime = nil; chance(r, 75) {
				p.Status.StartTime = start
			}
			tc.Pods = append(tc.Pods, p)
		}
	}
	for range 6 {
		p := alikePod(r, len(tc.Pods), 1+r.IntN(3), "")
		p.Spec.Priority, p.Spec.PreemptionPolicy = ptr(int32(1000)), nil
		tc.Pods = append(tc.Pods, p)
	}
	for i, p := range tc.Pods {
		p.UID = types.UID(fmt.Sprintf("%08x-%d", r.Uint32(), i))
	}
	return tc
}

// withoutRoom draws nodes with room for the pending pods, and extenders that reject most
// of the nodes and may add victims.
func withoutRoom(r *rand.Rand) Case {
	tc := preempt(simple)(r)
	for _, p := range tc.Pods {
		without(p)
	}
	coloured(r, &tc)
	var list []configv1.Extender
	for at := range 1 + r.IntN(2) {
		e := configv1.Extender{URLPrefix: outside.Address + "/" + outside.Extender(at), FilterVerb: "filter", NodeCacheCapable: true, Ignorable: chance(r, 30)}
		if chance(r, 80) {
			e.PreemptVerb = "preempt"
		}
		list = append(list, e)
	}
	tc.Config = withField(tc.Config, "extenders", list)
	for _, p := range tc.Pods {
		if !isPending(p) {
			continue
		}
		for at := range list {
			for _, colour := range colours {
				if chance(r, 80) {
					annotate(p, outside.Extender(at)+"/filter."+colour, pick(r, outside.No, outside.No, outside.No, outside.Never))
				}
				if chance(r, 60) {
					annotate(p, outside.Extender(at)+"/preempt."+colour, pick(r, outside.Add, outside.Add, outside.No, outside.Fewer, outside.Empty))
				}
			}
		}
	}
	return tc
}

// podLevel gives most pending pods requests as a whole, which their containers need not
// have.
func podLevel(r *rand.Rand, tc *Case) {
	for _, p := range tc.Pods {
		without(p)
		if !isPending(p) || chance(r, 25) {
			continue
		}
		amounts := v1.ResourceList{}
		if chance(r, 80) {
			amounts[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(100+r.IntN(3000)), resource.DecimalSI)
		}
		if chance(r, 80) {
			amounts[v1.ResourceMemory] = *resource.NewQuantity(int64(1+r.IntN(64))<<26, resource.BinarySI)
		}
		p.Spec.Resources = &v1.ResourceRequirements{Requests: amounts}
		for i := range p.Spec.Containers {
			if chance(r, 70) {
				p.Spec.Containers[i].Resources = v1.ResourceRequirements{}
			}
		}
	}
}

// features38 gives pods and nodes features that 1.38 knows.
func features38(r *rand.Rand, tc *Case) {
	for _, p := range tc.Pods {
		without(p)
	}
	for _, n := range tc.Nodes {
		for _, feature := range []string{"PodCertificateMLDSA", "SecurityProfileOCI"} {
			if chance(r, 50) {
				n.Status.DeclaredFeatures = append(n.Status.DeclaredFeatures, feature)
			}
		}
		slices.Sort(n.Status.DeclaredFeatures)
	}
	for _, p := range tc.Pods {
		if !isPending(p) {
			continue
		}
		if chance(r, 50) {
			certified(p, pick(r, "ED25519", "MLDSA44", "MLDSA65", "MLDSA87"))
		}
		if chance(r, 40) {
			profiled(r, p)
		}
	}
}

// certified adds a volume with a pod certificate.
func certified(p *v1.Pod, keyType string) {
	certificate := &v1.PodCertificateProjection{SignerName: "example.com/signer", KeyType: keyType}
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "certificate", VolumeSource: v1.VolumeSource{
		Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{PodCertificate: certificate}}},
	}})
}

// profiled sets the seccomp profile of the pod, or of a container.
func profiled(r *rand.Rand, p *v1.Pod) {
	profile := &v1.SeccompProfile{Type: pick(r, v1.SeccompProfileType("OCI"), "OCI", v1.SeccompProfileTypeRuntimeDefault)}
	if chance(r, 50) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: profile}
		return
	}
	p.Spec.Containers[r.IntN(len(p.Spec.Containers))].SecurityContext = &v1.SecurityContext{SeccompProfile: profile}
}
