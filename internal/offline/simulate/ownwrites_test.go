package simulate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// These tests release the claims of pods while each request to the API server takes up to
// 10 s. The claim is allocated on node a, which is full, so the first decision releases
// it. Before that write has ended, node a gets room.

// givingBack is one such case.
type givingBack struct {
	name string
	// group makes the pods a gang whose PodGroup lists the claim, which is reserved for
	// the PodGroup.
	group bool
	// anywhere lets every node use the allocation, so that only the reservation is an
	// obstacle.
	anywhere bool
	// unreserved leaves the claim without a reservation; a second pod uses it, too.
	unreserved bool
	// takeover kills the process before the write arrives, and starts another at once.
	takeover bool
}

var givingBackCases = []givingBack{
	{name: "one process"},
	{name: "after a takeover", takeover: true},
	{name: "a shared claim", unreserved: true},
	{name: "a shared claim after a takeover", unreserved: true, takeover: true},
	{name: "a group's allocation", group: true},
	{name: "a group's allocation after a takeover", group: true, takeover: true},
	{name: "a group's reservation", group: true, anywhere: true},
	{name: "a group's reservation after a takeover", group: true, anywhere: true, takeover: true},
}

// TestClaimsGivenBackInFlight checks for each case and seed that no pod is ever bound
// without its devices, and that all pods are bound in the end.
func TestClaimsGivenBackInFlight(t *testing.T) {
	for _, c := range givingBackCases {
		t.Run(c.name, func(t *testing.T) {
			gaveBack := 0
			for seed := range uint64(build.UnlessRaced(*seeds, 4)) {
				happened, err := c.run(t, seed)
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				if happened {
					gaveBack++
				}
			}
			if gaveBack == 0 {
				t.Error("nothing was given back")
			}
		})
	}
}

// run runs one seed. It reports whether a claim was released.
func (c givingBack) run(t *testing.T, seed uint64) (gaveBack bool, err error) {
	cluster, err := c.cluster(seed)
	if err != nil {
		return false, err
	}
	audit := func(r simulate.Round) error {
		for i := range r.Decisions {
			gaveBack = gaveBack || slices.ContainsFunc(r.Decisions[i].Writes, givesBack)
		}
		return checkBound(cluster)
	}
	advance := func(d time.Duration) error { return cluster.AdvanceTo(cluster.Now().Add(d), audit) }
	if err := advance(500 * time.Millisecond); err != nil {
		return gaveBack, err
	}
	if c.takeover {
		if err := cluster.Restart(); err != nil {
			return gaveBack, err
		}
	}
	cluster.DeletePod(model.PodKey{Namespace: "default", Name: "filler-a"})
	if err := advance(40 * time.Second); err != nil {
		return gaveBack, err
	}
	cluster.DeletePod(model.PodKey{Namespace: "default", Name: "filler-b"})
	if err := advance(4 * time.Minute); err != nil {
		return gaveBack, err
	}
	for _, p := range cluster.Pods() {
		if p.Spec.NodeName == "" {
			verdict, _ := cluster.Verdict(keyOf(p))
			return gaveBack, fmt.Errorf("pod %s waits in the end: %s", p.Name, verdict.Message())
		}
	}
	if n := cluster.Loop().State().GivenBack(); n > 0 {
		return gaveBack, fmt.Errorf("%d claims are being given back in the end", n)
	}
	return gaveBack, nil
}

func (c givingBack) cluster(seed uint64) (*simulate.Cluster, error) {
	cluster, err := withGroupClaims(seed, false)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"a", "b"} {
		cluster.SetNode(hostNode(name, "2"))
		if err := cluster.SetObject(gpus(name, 1)); err != nil {
			return nil, err
		}
	}
	cluster.SetPod(pod("filler-a", "2", 0, func(p *v1.Pod) { p.Spec.NodeName = "a" }))
	if c.group { // the group would fit on the other node without a release
		cluster.SetPod(pod("filler-b", "2", 0, func(p *v1.Pod) { p.Spec.NodeName = "b" }))
		if !c.anywhere {
			cluster.DeletePod(model.PodKey{Namespace: "default", Name: "filler-b"})
		}
	}
	cluster.SetFaults(simulate.Faults{MaxBindDelay: 10 * time.Second, MaxWatchDelay: 100 * time.Millisecond})
	uses := func(p *v1.Pod) {
		p.UID = types.UID("uid-" + p.Name)
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: new("claim")}}
		if c.group {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
		}
	}
	consumer := resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "one", UID: "uid-one"}
	if c.group {
		consumer = podGroupWithClaim(cluster, "g", "claim", 2)
	}
	claim := leftAllocation("claim", "a", 0)
	if c.anywhere {
		claim.Status.Allocation.NodeSelector = nil
	}
	if !c.unreserved {
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{consumer}
	}
	cluster.SetPod(pod("one", "1", 1, uses))
	if c.group || c.unreserved {
		cluster.SetPod(pod("two", "1", 2, uses))
	}
	return cluster, cluster.SetObject(claim)
}

// withGroupClaims returns a cluster whose PodGroups may have claims. Unless attended,
// only the scheduler writes to claims.
func withGroupClaims(seed uint64, attended bool) (*simulate.Cluster, error) {
	gates, err := feature.With(map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true})
	if err != nil {
		return nil, err
	}
	scheduler, err := config.Read(config.Request{Gates: gates})
	if err != nil {
		return nil, err
	}
	cluster, err := simulate.New(simulate.Config{
		Scheduler: scheduler, Seed: seed, Audit: true, Trim: seed%2 == 0, MaxParked: 24 * time.Hour, Devices: simulate.Devices{Unattended: !attended},
	})
	if err != nil {
		return nil, err
	}
	return cluster, cluster.SetObject(&resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gpu"},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", gpuDriver)}},
		}},
	})
}

func hostNode(name, cpu string) *v1.Node {
	n := node(name, cpu)
	n.Labels = map[string]string{v1.LabelHostname: name}
	return n
}

// podGroupWithClaim creates a gang, and returns the consumer of its claims.
func podGroupWithClaim(c *simulate.Cluster, name, claim string, minCount int32) resourcev1.ResourceClaimConsumerReference {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	g.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "c", ResourceClaimName: &claim}}
	_ = c.SetObject(g)
	return resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: name, UID: g.UID}
}

// leftAllocation returns a claim for a device that was allocated on a node earlier, from
// a pool that is gone.
func leftAllocation(name, node string, device int) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Finalizers: []string{resourcev1.Finalizer}}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	on := v1.NodeSelectorRequirement{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}
	claim.Status.Allocation = &resourcev1.AllocationResult{
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{on}}}},
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: gpuDriver, Pool: "gone", Device: fmt.Sprint("d", device)},
		}},
	}
	return claim
}

// checkBound checks the claims of each bound, unfinished pod: allocated, usable on its
// node, and reserved for the pod or its PodGroup.
func checkBound(c *simulate.Cluster) error {
	for _, p := range c.Pods() {
		if p.Spec.NodeName == "" || kinds.Finished(p) {
			continue
		}
		for _, key := range model.NewPod(p).Devices.Keys() {
			claim, _ := c.Object(key.DeviceRef()).(*resourcev1.ResourceClaim)
			if err := hasClaim(c, p, claim); err != nil {
				return fmt.Errorf("pod %s is bound to %s, and its claim %s %w", p.Name, p.Spec.NodeName, key.Name, err)
			}
		}
	}
	return nil
}

// hasClaim returns why a bound pod cannot use a claim, or nil.
func hasClaim(c *simulate.Cluster, p *v1.Pod, claim *resourcev1.ResourceClaim) error {
	if claim == nil || claim.Status.Allocation == nil {
		return fmt.Errorf("has no allocation")
	}
	uids := []types.UID{p.UID}
	if of := p.Spec.SchedulingGroup; of != nil {
		uids = append(uids, types.UID("uid-"+*of.PodGroupName))
	}
	if !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return slices.Contains(uids, r.UID) }) {
		return fmt.Errorf("is reserved for %v", claim.Status.ReservedFor)
	}
	if selector := claim.Status.Allocation.NodeSelector; selector != nil {
		if parsed, err := nodeaffinity.NewNodeSelector(selector); err != nil || !parsed.Match(c.Node(p.Spec.NodeName)) {
			return fmt.Errorf("is allocated elsewhere: %v", selector)
		}
	}
	return nil
}
