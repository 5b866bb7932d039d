package metrics_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	componentmetrics "k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	objects "github.com/berth-scheduler/berth/internal/proof/build"
)

// always samples every attempt.
type always struct{ engine.Timing }

func (a always) Sample() bool {
	a.Timing.Sample()
	return true
}

// timed is a simulation whose plugins are timed: in every attempt, or in a sample.
func timed(t testing.TB, every bool) (*simulate.Cluster, componentmetrics.KubeRegistry) {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, registry := build(t, time.Now)
	timing := m.Loop.Timing()
	if every {
		timing = always{timing}
	}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Observers: []loop.Observer{m.Loop}, OnPhase: m.Loop.Enter, Timing: timing})
	if err != nil {
		t.Fatal(err)
	}
	return c, registry
}

// executions returns the members of the family: plugin, extension point and status, with
// the number of observations. It fails for observations that took no time.
func executions(t testing.TB, registry componentmetrics.KubeRegistry) map[string]uint64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]uint64{}
	for _, f := range families {
		if f.GetName() != "scheduler_plugin_execution_duration_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			by := map[string]string{}
			for _, l := range m.GetLabel() {
				by[l.GetName()] = l.GetValue()
			}
			if h := m.GetHistogram(); h.GetSampleCount() > 0 {
				got[by["plugin"]+" "+by["extension_point"]+" "+by["status"]] = h.GetSampleCount()
				if h.GetSampleSum() <= 0 {
					t.Errorf("%v took no time", by)
				}
			}
		}
	}
	return got
}

// TestBuiltInPluginsAreTimed runs the real loop. One pod has a rule for each built-in
// plugin, one fits on no node, and one names a claim that does not exist.
func TestBuiltInPluginsAreTimed(t *testing.T) {
	c, registry := timed(t, true)
	for i, name := range []string{"a", "b", "c", "d"} {
		c.SetNode(node(name, "4", func(n *v1.Node) {
			n.Labels["zone"] = fmt.Sprint("z", i%2)
			n.Labels[v1.LabelTopologyZone] = n.Labels["zone"]
			n.Spec.Taints = []v1.Taint{{Key: "soft", Effect: v1.TaintEffectPreferNoSchedule}}
			n.Status.Images = []v1.ContainerImage{{Names: []string{"registry.example/web:1"}, SizeBytes: 500 << 20}}
		}))
	}
	for _, object := range []runtime.Object{
		objects.StorageClass("late", "provisioner=d"), objects.PersistentVolumeClaim("new", "class=late storage=1Gi uid="),
		objects.PersistentVolume("v", "storage=1Gi modes=RWOP csi=d/v claim=default/data phase=Bound label=topology.kubernetes.io/zone=z0", objects.VolumeAffinity("zone In z0")), objects.PersistentVolumeClaim("data", "storage=1Gi modes=RWOP bound=v"),
		objects.CSINode("a", "d=2"), objects.CSINode("c", "d=2"),
		&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}},
		&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: resourcev1.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: new("a"), Pool: resourcev1.ResourcePool{Name: "gpus", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "d0"}},
		}},
		&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "claim", UID: "uid-claim"}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}},
		}}},
	} {
		if err := c.SetObject(object); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, c)
	c.SetPod(pod("web", "1", objects.Labels("app=web"), objects.DoNotSchedule("zone", "app=web"), objects.ScheduleAnyway(v1.LabelHostname, "app=web"),
		objects.RequiredAntiAffinity(objects.Term(v1.LabelHostname, "app=web")), objects.PreferredAffinity(5, objects.Term("zone", "app=web")),
		func(p *v1.Pod) {
			p.Spec.Containers[0].Image = "registry.example/web:1"
			p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80}}
			p.Spec.Affinity.NodeAffinity = &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
				{Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpExists}}}},
			}, RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpExists}}},
			}}}
		}, objects.Claims("data new")))
	c.SetPod(pod("gpu", "1", func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: new("claim")}}
	}))
	c.SetPod(pod("pinned", "1", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"b"}}}},
		}}}}
	}))
	c.SetPod(pod("large", "9"))
	c.SetPod(pod("lost", "1", objects.Claims("missing")))
	if err := c.AdvanceTo(c.Now().Add(time.Minute), nil); err != nil { // until its volume is provisioned
		t.Fatal(err)
	}
	for _, name := range []string{"web", "gpu", "pinned"} {
		if p := c.Pod(model.PodKey{Namespace: "default", Name: name}); p.Spec.NodeName == "" {
			t.Errorf("pod %s has no node: %v", name, p.Status.Conditions)
		}
	}
	got := executions(t, registry)
	for _, want := range strings.Split(`NodeUnschedulable Filter Success
TaintToleration Filter Success
TaintToleration Score Success
NodeAffinity PreFilter Success
NodeAffinity Filter Success
NodeAffinity Score Success
NodePorts Filter Success
NodeResourcesFit Filter Success
NodeResourcesFit Score Success
NodeResourcesBalancedAllocation Score Success
ImageLocality Score Success
VolumeRestrictions PreFilter Skip
VolumeBinding PreFilter Success
VolumeRestrictions PreFilter UnschedulableAndUnresolvable
VolumeBinding Filter Success
VolumeBinding Reserve Success
VolumeZone PreFilter Success
NodeVolumeLimits Filter Success
PodTopologySpread PreFilter Success
PodTopologySpread Filter Success
PodTopologySpread Score Success
InterPodAffinity PreFilter Success
InterPodAffinity Filter Success
InterPodAffinity Score Success
DynamicResources PreFilter Success
DynamicResources Filter Success
DynamicResources Reserve Success
DynamicResources PostFilter Unschedulable
DefaultPreemption PostFilter Unschedulable`, "\n") {
		if got[want] == 0 {
			t.Errorf("no time of %s", want)
		}
	}
}

// TestAttemptsAreSampled: one attempt in ten is sampled, not at equal distances, and the
// same attempts in each run. The first is, so that a new scheduler soon has values.
func TestAttemptsAreSampled(t *testing.T) {
	run := func() (sampled []int) {
		m, _ := build(t, time.Now)
		timing := m.Loop.Timing()
		for i := range 10_000 {
			first := timing.Sample()
			if timing.Sample() != first {
				t.Fatal("two members of a group are sampled differently")
			}
			if first {
				sampled = append(sampled, i)
			}
			m.Loop.Round(&loop.Round{})
		}
		return sampled
	}
	sampled := run()
	if n := len(sampled); n < 900 || n > 1100 || sampled[0] != 0 {
		t.Errorf("%d of 10,000 attempts are sampled, the first at %d", n, sampled[0])
	}
	last := map[int]int{}
	for _, i := range sampled {
		last[i%10]++
	}
	for digit, n := range last {
		if n > len(sampled)/5 {
			t.Errorf("%d of %d samples end with the digit %d", n, len(sampled), digit)
		}
	}
	if !slices.Equal(sampled, run()) {
		t.Error("another run samples other attempts")
	}
}

// TestExecutionsAreAddedUp: the calls of one plugin in an attempt are one observation,
// with the worst status.
func TestExecutionsAreAddedUp(t *testing.T) {
	m, registry := build(t, time.Now)
	timing := m.Loop.Timing()
	timing.Sample()
	timing.Begin()
	timing.End("Filter", "x", engine.Success)
	timing.End("Filter", "x", engine.Failed)
	timing.End("Filter", "x", engine.Success)
	timing.End("Score", "x", engine.Success)
	if got := executions(t, registry); len(got) > 0 {
		t.Errorf("before the end of the round: %v", got)
	}
	m.Loop.Round(&loop.Round{})
	m.Loop.Round(&loop.Round{})
	if got := fmt.Sprint(executions(t, registry)); got != "map[x Filter Error:1 x Score Success:1]" {
		t.Errorf("observed %s", got)
	}
	registry.Reset()
	timing.End("Filter", "x", engine.Success)
	m.Loop.Round(&loop.Round{})
	if got := fmt.Sprint(executions(t, registry)); got != "map[x Filter Success:1]" {
		t.Errorf("after a reset, observed %s", got)
	}
}

// TestStepsAtPreBindAreTimed observes the plugins of a binding.
func TestStepsAtPreBindAreTimed(t *testing.T) {
	m, registry := build(t, time.Now)
	m.Commit.Passed(&commit.StageEnd{Pod: model.NewPod(pod("p", "1")), Stage: plan.PreBind, Took: 3 * time.Second, Plugins: []commit.PluginEnd{
		{Plugin: "VolumeBinding", Took: time.Second}, {Plugin: "DynamicResources", Took: 2 * time.Second, Err: errors.New("no")},
	}})
	if got := fmt.Sprint(executions(t, registry)); got != "map[DynamicResources PreBind Error:1 VolumeBinding PreBind Success:1]" {
		t.Errorf("observed %s", got)
	}
}
