package simulate_test

// Simulation: the pods of others beside one tenant who writes expensive objects.

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// tenantInput describes the objects that a tenant writes into a shared cluster.
type tenantInput struct {
	name string
	// cluster creates objects of the cluster, before creates objects of the tenant, and
	// pod shapes the tenant's i-th pod. Each may be nil.
	cluster, before func(c *simulate.Cluster)
	pod             func(i int, p *v1.Pod)
	// event happens once a second.
	event func(c *simulate.Cluster, second int)
	// running is the number of the tenant's pods that already run, each on a node of its
	// own.
	running int
	gang    bool
}

// tenantPods is the default number of the tenant's pods.
const tenantPods = 10

var tenantInputs = []tenantInput{
	{name: "nothing"},
	{name: "node affinity, 10,000 terms", pod: func(i int, p *v1.Pod) {
		selector := &v1.NodeSelector{}
		for k := range 10000 {
			selector.NodeSelectorTerms = append(selector.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: "pool", Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprintf("x%d-%d", i, k)}}}})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: selector}}
	}},
	{name: "node affinity, 10,000 expressions", pod: func(i int, p *v1.Pod) {
		term := v1.NodeSelectorTerm{}
		for k := range 10000 {
			term.MatchExpressions = append(term.MatchExpressions,
				v1.NodeSelectorRequirement{Key: "pool", Operator: v1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("x%d-%d", i, k)}})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}}
	}},
	{name: "preferred node affinity, 10,000 terms", pod: func(i int, p *v1.Pod) {
		affinity := &v1.NodeAffinity{}
		for k := range 10000 {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.PreferredSchedulingTerm{Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{
					{Key: "pool", Operator: v1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("x%d-%d", i, k)}}}}})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: affinity}
	}},
	{name: "tolerations, 10,000", pod: func(i int, p *v1.Pod) {
		for k := range 10000 {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: fmt.Sprintf("k%d-%d", i, k), Operator: v1.TolerationOpExists})
		}
	}},
	{name: "scalar resources, 10,000", pod: func(i int, p *v1.Pod) {
		for k := range 10000 {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprintf("e%d.io/r%d", i, k))] = resource.MustParse("1")
		}
	}},
	{name: "images, 2,000", pod: func(i int, p *v1.Pod) {
		for k := range 2000 {
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: fmt.Sprint("c", k), Image: fmt.Sprintf("reg/x%d-%d:1", i, k)})
		}
	}},
	{name: "host ports, 5,000", pod: func(i int, p *v1.Pod) {
		for k := range 5000 {
			p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: int32(1 + (i*7+k)%60000), ContainerPort: 80, Protocol: "TCP"})
		}
	}},
	{name: "hard spread, 2,000 keys", pod: spreadOver(2000, v1.DoNotSchedule)},
	{name: "hard spread, 8,000 keys", pod: spreadOver(8000, v1.DoNotSchedule)},
	{name: "soft spread, 2,000 keys", pod: spreadOver(2000, v1.ScheduleAnyway)},
	{name: "preferred pod affinity, 2,000 terms", pod: func(i int, p *v1.Pod) {
		affinity := &v1.PodAffinity{}
		for _, term := range hostTerms(i, 2000, metav1.LabelSelectorOpDoesNotExist) {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
		}
		p.Spec.Affinity = &v1.Affinity{PodAffinity: affinity}
	}},
	{name: "pod anti-affinity, 2,000 terms", pod: func(i int, p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: hostTerms(i, 2000, metav1.LabelSelectorOpExists)}}
	}},
	{name: "running pods, 30 with 2,000 terms", running: 30, pod: func(i int, p *v1.Pod) {
		affinity := &v1.PodAffinity{}
		for _, term := range hostTerms(i, 2000, metav1.LabelSelectorOpDoesNotExist) {
			affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
				v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
		}
		p.Spec.Affinity = &v1.Affinity{PodAffinity: affinity}
	}},
	{name: "running pods, 4 with 3,000 topology keys", running: 4, pod: func(i int, p *v1.Pod) {
		terms := hostTerms(i, 3000, metav1.LabelSelectorOpExists)
		for k := range terms {
			terms[k].TopologyKey = fmt.Sprintf("key%d-%d", i, k)
		}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}, event: func(c *simulate.Cluster, second int) {
		node := tenantNode(second)
		node.Labels["relabelled"] = fmt.Sprint(second)
		c.SetNode(node)
	}},
	{name: "running pods, 30 with 5,000 labels", running: 30, pod: func(i int, p *v1.Pod) {
		for k := range 5000 {
			p.Labels[fmt.Sprintf("k%d-%d", i, k)] = "x"
		}
	}},
	{name: "running pods, 30 with 3,000 claims", running: 30, pod: func(i int, p *v1.Pod) {
		for k := range 3000 {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", k), VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("c%d-%d", i, k)}}})
		}
	}},
	{name: "selectors of devices", cluster: func(c *simulate.Cluster) {
		for i := range 100 {
			_ = c.SetObject(gpus(tenantNode(i).Name, 8))
		}
		_ = c.SetObject(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	}, before: func(c *simulate.Cluster) {
		for i := range tenantPods {
			claim := claimOf(i)
			claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{
				deviceRequest("a", "gpu", 1, "false"), deviceRequest("b", "gpu", 1, slices.Concat(slices.Repeat([]string{costlySelector()}, 4), []string{"false"})...)}
			_ = c.SetObject(claim)
		}
	}, pod: useClaim, event: func(c *simulate.Cluster, second int) {
		_ = c.SetObject(gpus(tenantNode(second%100).Name, 7-second%2))
	}},
	{name: "a search of devices without end", cluster: func(c *simulate.Cluster) {
		for i := range 500 {
			_ = c.SetObject(cards(tenantNode(i).Name, 64))
		}
		_ = c.SetObject(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "vf"}})
	}, before: func(c *simulate.Cluster) {
		for i := range tenantPods {
			claim := claimOf(i)
			parent := `device.attributes["` + gpuDriver + `"].parent == `
			claim.Spec.Devices = resourcev1.DeviceClaim{
				Requests:    []resourcev1.DeviceRequest{deviceRequest("a", "vf", 16), deviceRequest("b", "vf", 1, parent+`"card1"`), deviceRequest("d", "vf", 1, parent+`"card0"`)},
				Constraints: []resourcev1.DeviceConstraint{{Requests: []string{"b", "d"}, MatchAttribute: new(resourcev1.FullyQualifiedName(gpuDriver + "/parent"))}},
			}
			_ = c.SetObject(claim)
		}
	}, pod: useClaim},
	{name: "a gang over hosts", gang: true, pod: func(_ int, p *v1.Pod) {
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("gang")}
	}, before: func(c *simulate.Cluster) {
		g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "gang", UID: "gang"}}
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 110}}
		g.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: v1.LabelHostname}}}
		_ = c.SetObject(g)
	}},
}

func spreadOver(keys int, action v1.UnsatisfiableConstraintAction) func(int, *v1.Pod) {
	return func(i int, p *v1.Pod) {
		for k := range keys {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
				MaxSkew: 1, TopologyKey: fmt.Sprintf("k%d-%d", i, k), WhenUnsatisfiable: action, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}})
		}
	}
}

// hostTerms are terms over hosts and all namespaces, each with a label key of its own.
func hostTerms(i, count int, operator metav1.LabelSelectorOperator) (terms []v1.PodAffinityTerm) {
	for k := range count {
		terms = append(terms, v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
			LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: fmt.Sprintf("k%d-%d", i, k), Operator: operator}}}})
	}
	return terms
}

func claimOf(i int) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: fmt.Sprint("claim-", i)}}
}

func useClaim(i int, p *v1.Pod) {
	p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: new(claimOf(i).Name)}}
}

func deviceRequest(name, class string, count int64, expressions ...string) resourcev1.DeviceRequest {
	r := resourcev1.DeviceRequest{Name: name, Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count}}
	for _, e := range expressions {
		r.Exactly.Selectors = append(r.Exactly.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return r
}

// costlySelector takes milliseconds to evaluate, and is within the API server's limits.
func costlySelector() string {
	expression := "true"
	for level := range 4 {
		expression = fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15].all(v%d, %s)", level, expression)
	}
	return expression
}

// cards are virtual functions of two network cards.
func cards(node string, count int) *resourcev1.ResourceSlice {
	var devices []resourcev1.Device
	for i := range count {
		devices = append(devices, resourcev1.Device{Name: fmt.Sprint("vf", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"parent": {StringValue: new(fmt.Sprint("card", i*2/count))}}})
	}
	return sliceOf("cards-"+node, gpuDriver, resourcev1.ResourceSliceSpec{NodeName: &node}, devices...)
}

func tenantNode(i int) *v1.Node {
	n := node(fmt.Sprintf("node-%05d", i), "32")
	n.Labels = map[string]string{v1.LabelHostname: n.Name, v1.LabelTopologyZone: fmt.Sprint("zone-", i%3), "pool": fmt.Sprint("pool-", i%7)}
	n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("128Gi")
	return n
}

// tenantRounds records the time of each round, and the units of the most expensive turn
// in a round.
type tenantRounds struct {
	took  []time.Duration
	units int64
}

func (r *tenantRounds) Round(round *loop.Round) {
	r.took = append(r.took, round.Applying+round.Popping+round.Deciding+round.Settling)
	r.units = max(r.units, round.Cost.Total())
}
func (r *tenantRounds) Standing(*loop.Standing) {}

// since returns the total time of the rounds from a position on.
func (r *tenantRounds) since(rounds int) (sum time.Duration) {
	for _, took := range r.took[rounds:] {
		sum += took
	}
	return sum
}

// BenchmarkBesideTenant schedules pods of others while the pods of a tenant wait or run.
// In a minute of virtual time 20 pods arrive each second, the first together with the
// tenant's event. It prints the waits of the others' pods, the real time of rounds, the
// units of the most expensive turn in a round, and the memory of the tenant's objects.
func BenchmarkBesideTenant(b *testing.B) {
	nodes, seconds := 5000, 60
	if testing.Short() {
		nodes, seconds = 200, 3
	}
	for _, input := range tenantInputs {
		b.Run(strings.ReplaceAll(input.name, " ", "-"), func(b *testing.B) {
			for range b.N {
				s, kept := runBeside(b, &input, nodes, seconds)
				b.ReportMetric(milliseconds(s.waits, 0.5), "wait-p50-ms")
				b.ReportMetric(milliseconds(s.waits, 0.99), "wait-p99-ms")
				b.ReportMetric(milliseconds(s.waits, 1), "wait-max-ms")
				b.ReportMetric(milliseconds(s.rounds.took, 0.99), "round-p99-ms")
				b.ReportMetric(milliseconds(s.rounds.took, 1), "round-max-ms")
				b.ReportMetric(float64(s.rounds.units)/1e6, "round-max-Munits")
				b.ReportMetric(kept, "kept-MiB")
			}
		})
	}
}

// maxKept is the memory, in MiB, that the scheduler may keep for the objects of a tenant.
const maxKept = 64

// runBeside runs a cluster with a tenant's objects, for a number of seconds. kept is the
// memory, in MiB, that the scheduler keeps for these objects. The API server's memory and
// the objects of the cluster, such as devices, do not count.
func runBeside(t testing.TB, input *tenantInput, nodes, seconds int) (s *sharedCluster, kept float64) {
	run := func(of *tenantInput) float64 {
		start := heap()
		s = newSharedCluster(t, nodes, input)
		s.settle(of)
		s.run(of, seconds)
		s.ForgetServer()
		used := heap() - start
		runtime.KeepAlive(s)
		s.Cluster = nil // the next cluster begins without it
		return used
	}
	without := run(&tenantInput{})
	kept = run(input) - without
	return s, kept
}

// sharedCluster is a cluster that a tenant shares with others.
type sharedCluster struct {
	testing.TB
	*simulate.Cluster
	rounds tenantRounds
	waits  []time.Duration // of the others' pods
	pods   int             // of the others
}

func newSharedCluster(t testing.TB, nodes int, input *tenantInput) *sharedCluster {
	scheduler := schedulerWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true})
	s := &sharedCluster{TB: t}
	var err error
	s.Cluster, err = simulate.New(simulate.Config{Scheduler: scheduler, Seed: 1, Observers: []loop.Observer{&s.rounds}, Trim: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		s.SetNode(tenantNode(i))
	}
	if input.cluster != nil {
		input.cluster(s.Cluster)
	}
	s.come(200)
	s.rounds, s.waits = tenantRounds{}, nil
	return s
}

// settle creates the tenant's objects.
func (s *sharedCluster) settle(input *tenantInput) {
	if input.before != nil {
		input.before(s.Cluster)
	}
	if input.pod == nil {
		return
	}
	pods := tenantPods
	switch {
	case input.running > 0:
		pods = input.running
	case input.gang:
		pods = 110
	}
	for i := range pods {
		p := pod(fmt.Sprint("tenant-", i), "100m", 0, func(p *v1.Pod) { p.Namespace, p.Labels = "tenant", map[string]string{"app": "web"} })
		if input.running > 0 {
			p.Spec.NodeName = tenantNode(i).Name
		}
		if input.gang { // more than a node has room for
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("300m")
		}
		input.pod(i, p)
		s.SetPod(p)
	}
}

// run lets pods of others arrive for a number of seconds.
func (s *sharedCluster) run(input *tenantInput, seconds int) {
	for second := range seconds {
		if input.event != nil && second > 0 {
			input.event(s.Cluster, second)
		}
		for range 20 {
			s.come(1)
			if err := s.AdvanceTo(s.Now().Add(50*time.Millisecond), nil); err != nil {
				s.Fatal(err)
			}
		}
	}
}

// come creates pods of others, and runs the scheduler until nothing is left to do. A wait
// is the time of the rounds up to the pod's decision. Compilation does not count, because
// it runs beside the loop.
func (s *sharedCluster) come(count int) {
	const namespace = "others"
	from := len(s.rounds.took)
	for range count {
		s.pods++
		s.SetPod(pod(fmt.Sprint("pod-", s.pods), "100m", 0, func(p *v1.Pod) {
			p.Namespace, p.Labels = namespace, map[string]string{"app": fmt.Sprint("app-", s.pods%5)}
		}))
	}
	err := s.Settle(func(r simulate.Round) error {
		for i := range r.Decisions {
			if d := &r.Decisions[i]; d.Pod.Namespace == namespace {
				s.waits = append(s.waits, s.rounds.since(from))
			}
		}
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
}

// milliseconds returns a quantile of the times.
func milliseconds(of []time.Duration, share float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return float64(sorted[min(len(of)-1, int(share*float64(len(of))))].Microseconds()) / 1000
}

// heap returns the memory in use, in MiB.
func heap() float64 {
	runtime.GC()
	runtime.GC() // interned strings are freed by the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// TestTenantCostsOthersLittle schedules pods of others beside each of the tenant's
// inputs. No turn costs more than its budget in a round, at most a single such turn
// precedes a pod of others, and the scheduler keeps little memory for the tenant.
func TestTenantCostsOthersLittle(t *testing.T) {
	for _, input := range tenantInputs {
		t.Run(input.name, func(t *testing.T) {
			s, kept := runBeside(t, &input, 200, 3)
			if kept > maxKept && !build.Raced {
				t.Errorf("%.1f MiB are kept, at most %d are allowed", kept, maxKept)
			}
			if limit := 25 * int64(price.Millisecond); s.rounds.units > limit {
				t.Errorf("a turn cost %d units in one round, at most %d are allowed", s.rounds.units, limit)
			}
			if len(s.waits) != 60 {
				t.Errorf("%d of 60 pods of others were decided about", len(s.waits))
			}
		})
	}
}
