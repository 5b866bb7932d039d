package random_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	featuretypes "k8s.io/component-helpers/nodedeclaredfeatures/types"
	helpers "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// The oracle implements functions of k8s.io/component-helpers independently. These tests
// compare the two, through Judge alone.

const draws = 2000

// only is the default profile with all plugins but one disabled.
func only(plugin string) oracle.Profile {
	p := oracle.DefaultProfile()
	p.Disabled = map[string]bool{}
	for _, name := range []string{"NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
		"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity", "NodeDeclaredFeatures", "NodeResourcesBalancedAllocation", "ImageLocality"} {
		p.Disabled[name] = name != plugin
	}
	return p
}

func TestRequestsOfPendingPods(t *testing.T) {
	for i := range draws {
		p := random.Pod(random.New(uint64(i)), i)
		asked := whole(helpers.PodRequests(p, helpers.PodResourcesOptions{}))
		if !fits(asked, nil, p) {
			t.Fatalf("seed %d: does not fit into its own request %v", i, asked)
		}
		for name, amount := range asked {
			if amount > 0 && fits(plus(asked, name, -1), nil, p) {
				t.Fatalf("seed %d: fits into less %s than its request %v", i, name, asked)
			}
		}
	}
}

// A pod that requests one unit fits beside a placed pod only if the node has one unit
// more than the placed pod uses.
func TestRequestsOfPlacedPods(t *testing.T) {
	options := helpers.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	for i := range draws {
		placed := running(random.PlacedPod(random.New(uint64(i)), i, "n"))
		used := whole(helpers.PodRequests(placed, options))
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, "example.com/gpu"} {
			one := asking(v1.ResourceList{name: quantity(name, 1)})
			if fits(used, placed, one) || !fits(plus(used, name, 1), placed, one) {
				t.Fatalf("seed %d: usage of %s is not that of %v", i, name, used)
			}
		}
	}
}

// The most-allocated score of one resource reaches 100 exactly when usage reaches the
// capacity.
func TestNonZeroRequestsOfPlacedPods(t *testing.T) {
	for i := range draws {
		placed := running(random.PlacedPod(random.New(uint64(i)), i, "n"))
		used := whole(nonZero(placed))
		for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if used[name] == 0 {
				continue // a node without capacity is not scored
			}
			if mostAllocated(used, placed, name) != 100 || mostAllocated(plus(used, name, 1), placed, name) == 100 {
				t.Fatalf("seed %d: usage of %s is not that of %v", i, name, used)
			}
		}
	}
}

func nonZero(p *v1.Pod) v1.ResourceList {
	options := helpers.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	defaults := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m"), v1.ResourceMemory: resource.MustParse("200Mi")}
	if helpers.IsPodLevelRequestsSet(p) {
		for name := range helpers.PodRequests(p, options) {
			delete(defaults, name)
		}
	}
	options.NonMissingContainerRequests = defaults
	return helpers.PodRequests(p, options)
}

func mostAllocated(allocatable map[v1.ResourceName]int64, placed *v1.Pod, name v1.ResourceName) int64 {
	profile := only("NodeResourcesFit")
	profile.Fit.ScoringStrategy = &configv1.ScoringStrategy{
		Type: configv1.MostAllocated, Resources: []configv1.ResourceSpec{{Name: string(name), Weight: 1}},
	}
	nothing := asking(v1.ResourceList{v1.ResourceCPU: resource.MustParse("0"), v1.ResourceMemory: resource.MustParse("0")})
	return oracle.Judge(oneNode(allocatable, placed), nothing, profile).Nodes[0].Total
}

func TestTolerations(t *testing.T) {
	hard := func(taint *v1.Taint) bool { return taint.Effect != v1.TaintEffectPreferNoSchedule }
	for i := range draws {
		r := random.New(uint64(i))
		n, p := random.Node(r, 0), random.Pod(r, 0)
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, p.Spec.Tolerations, hard, false)
		if got := feasible(n, p, only("TaintToleration")); got == untolerated {
			t.Fatalf("seed %d: feasible %v, untolerated %v", i, got, untolerated)
		}
	}
}

func TestAffinity(t *testing.T) {
	for i := range draws {
		r := random.New(uint64(i))
		n, p := random.Node(r, r.IntN(4)), random.Pod(r, 0)
		want, _ := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
		a := oracle.Judge(oracle.Cluster{Nodes: []*v1.Node{n}}, p, only("NodeAffinity"))
		if (a.Feasible == 1) != want {
			t.Fatalf("seed %d: feasible %d, match %v", i, a.Feasible, want)
		}
		if a.Feasible == 0 || len(a.Nodes[0].Scores) == 0 {
			continue
		}
		terms, err := nodeaffinity.NewPreferredSchedulingTerms(p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
		if err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		if got, want := a.Nodes[0].Scores[0].Raw, terms.Score(n); got != want {
			t.Fatalf("seed %d: score %d, want %d", i, got, want)
		}
	}
}

func TestFeatures(t *testing.T) {
	framework := nodedeclaredfeatures.DefaultFramework
	for i := range draws {
		r := random.New(uint64(i))
		n, p := random.Node(r, 0), random.Pod(r, 0)
		required, err := framework.InferForPodScheduling(&featuretypes.PodInfo{Spec: &p.Spec}, version.MustParse("1.37.0"))
		if err != nil {
			t.Fatal(err)
		}
		match, err := framework.MatchNode(required, n)
		if err != nil {
			t.Fatal(err)
		}
		if got := feasible(n, p, only("NodeDeclaredFeatures")); got != match.IsMatch {
			t.Fatalf("seed %d: feasible %v, match %v", i, got, match)
		}
	}
}

func feasible(n *v1.Node, p *v1.Pod, profile oracle.Profile) bool {
	return oracle.Judge(oracle.Cluster{Nodes: []*v1.Node{n}}, p, profile).Feasible == 1
}

func fits(allocatable map[v1.ResourceName]int64, placed, p *v1.Pod) bool {
	return oracle.Judge(oneNode(allocatable, placed), p, only("NodeResourcesFit")).Feasible == 1
}

// oneNode is a cluster of one node with that allocatable and at most one pod.
func oneNode(allocatable map[v1.ResourceName]int64, placed *v1.Pod) oracle.Cluster {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourcePods: resource.MustParse("110")}}}
	for name, amount := range allocatable {
		n.Status.Allocatable[name] = quantity(name, amount)
	}
	c := oracle.Cluster{Nodes: []*v1.Node{n}}
	if placed != nil {
		c.Pods = []*v1.Pod{placed}
	}
	return c
}

func running(p *v1.Pod) *v1.Pod {
	p.Status.Phase = v1.PodRunning
	return p
}

func asking(requests v1.ResourceList) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}}}
}

// whole is a list in whole numbers: thousandths of a cpu, units of all else.
func whole(list v1.ResourceList) map[v1.ResourceName]int64 {
	amounts := map[v1.ResourceName]int64{}
	for name, q := range list {
		amounts[name] = q.Value()
		if name == v1.ResourceCPU {
			amounts[name] = q.MilliValue()
		}
	}
	return amounts
}

func quantity(name v1.ResourceName, amount int64) resource.Quantity {
	if name == v1.ResourceCPU {
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}

func plus(amounts map[v1.ResourceName]int64, name v1.ResourceName, more int64) map[v1.ResourceName]int64 {
	sum := map[v1.ResourceName]int64{}
	for n, amount := range amounts {
		sum[n] = amount
	}
	sum[name] += more
	return sum
}
