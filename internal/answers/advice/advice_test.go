package advice

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	k8sresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// cluster returns a cluster with the default configuration. The last of the pods is
// pending.
func cluster(t *testing.T, nodes []*v1.Node, pods []*v1.Pod, others ...kinds.Object) (Cluster, Question) {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	judge, err := engine.New(engine.Config{Profiles: scheduler.Profiles, GroupRetries: engine.DefaultGroupRetries})
	if err != nil {
		t.Fatal(err)
	}
	c := Cluster{State: state.New(), Engine: judge, In: ingest.New(scheduler.Compile()), Profiles: map[string]*plugin.Profile{}, Nodes: nodes, Others: others, Reads: scheduler.Reads()}
	c.State.SetNow(time.Time{})
	for _, p := range scheduler.Profiles {
		c.Profiles[p.Name] = p
	}
	for _, o := range others {
		c.In.Set(o)
	}
	for _, n := range nodes {
		c.In.Set(n)
	}
	for _, p := range pods {
		c.In.Set(p)
	}
	c.State.Apply(c.In.Drain())
	return c, Question{Pod: pods[len(pods)-1]}
}

// texts returns the suggestions, each with its node.
func texts(a Advice) (all []string) {
	for i := range a.Suggestions {
		s := &a.Suggestions[i]
		var texts []string
		for j := range s.Changes {
			texts = append(texts, s.Changes[j].Text)
		}
		all = append(all, strings.Join(texts, ", and ")+" → "+s.Node)
	}
	return all
}

// TestLower lowers requests. The largest containers give. As few as possible give if they
// keep half of their requests, and no container gives all.
func TestLower(t *testing.T) {
	for _, row := range []struct {
		name     string
		pod      []build.PodOption
		resource v1.ResourceName
		to       int64
		want     string
	}{
		{"one container", []build.PodOption{build.Container("cpu=4")}, "cpu", 3500, "c0 4→3500m"},
		{"the largest", []build.PodOption{build.Container("cpu=3"), build.Container("cpu=4")}, "cpu", 5000, "c1 4→2"},
		{"more than the largest has", []build.PodOption{build.Container("cpu=4"), build.Container("cpu=3")}, "cpu", 3000, "c0 4→1500m, c1 3→1500m"},
		{"whole units", []build.PodOption{build.Container("example.com/gpu=4"), build.Container("example.com/gpu=3")}, "example.com/gpu", 3, "c0 4→2, c1 3→1"},
		{"whole pages", []build.PodOption{build.Container("hugepages-2Mi=8Mi"), build.Container("hugepages-2Mi=6Mi")}, "hugepages-2Mi", 6 << 20, "c0 8Mi→4Mi, c1 6Mi→2Mi"},
		{"a unit each", []build.PodOption{build.Container("example.com/gpu=4"), build.Container("cpu=1"), build.Container("example.com/gpu=3")}, "example.com/gpu", 2, "c0 4→1, c2 3→1"},
		{"as few as keep half", []build.PodOption{build.Container("cpu=8"), build.Container("cpu=2"), build.Container("cpu=7")}, "cpu", 10000, "c0 8→4, c2 7→4"},
		{"two do not keep half", []build.PodOption{build.Container("cpu=9"), build.Container("cpu=5"), build.Container("cpu=1")}, "cpu", 9000, "c0 9→4, c1 5→4"},
		{"beside a sidecar without any", []build.PodOption{build.Sidecar("cpu=1"), build.Container("example.com/gpu=4")}, "example.com/gpu", 1, "c1 4→1"},
		{"half of the devices", []build.PodOption{build.Container("example.com/gpu=2"), build.Container("example.com/gpu=2"), build.Container("example.com/gpu=2")}, "example.com/gpu", 5, "c0 2→1"},
		{"none keeps half", []build.PodOption{build.Container("cpu=8"), build.Container("cpu=100m")}, "cpu", 1000, "c0 8→900m"},
		{"overhead", []build.PodOption{build.Container("cpu=4"), build.Overhead("cpu=1")}, "cpu", 3000, "c0 4→2"},
		{"before the others", []build.PodOption{build.InitContainer("cpu=5"), build.Container("cpu=2")}, "cpu", 3000, "c0 5→3"},
		{"beside a sidecar", []build.PodOption{build.Sidecar("cpu=1"), build.InitContainer("cpu=5"), build.Container("cpu=2")}, "cpu", 3000, "c1 5→2"},
		{"after sidecars alone", []build.PodOption{build.Sidecar("example.com/gpu=4"), build.InitContainer("example.com/gpu=2"), build.Container("cpu=1")}, "example.com/gpu", 3, "c0 4→2, c1 2→1"},
		{"after sidecars alone, whole pages", []build.PodOption{build.Sidecar("hugepages-2Mi=8Mi"), build.InitContainer("hugepages-2Mi=4Mi"), build.Container("cpu=1")}, "hugepages-2Mi", 6 << 20, "c0 8Mi→4Mi, c1 4Mi→2Mi"},
		{"before sidecars alone", []build.PodOption{build.InitContainer("example.com/gpu=6"), build.Sidecar("example.com/gpu=4")}, "example.com/gpu", 3, "c1 4→3, c0 6→3"},
		{"of the pod", []build.PodOption{build.PodRequests("cpu=4"), build.Container("cpu=1")}, "cpu", 2000, " 4→2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			pod := build.Pod(row.pod...)
			least := (&trial{Question: Question{Pod: pod.DeepCopy()}}).leastRequest(row.resource)
			var got []string
			for _, c := range lower(&pod.Spec, row.resource, row.to) {
				got = append(got, fmt.Sprintf("%s %s→%s", c.container, c.from, c.to))
			}
			if text := strings.Join(got, ", "); text != row.want {
				t.Errorf("%s, want %s", text, row.want)
			}
			if least > row.to {
				t.Errorf("the pod needs %d at least, and was asked for %d", least, row.to)
			}
		})
	}
	for want, pod := range map[int64]*v1.Pod{
		1: build.Pod(build.InitContainer("example.com/gpu=6")),
		2: build.Pod(build.Container("example.com/gpu=4"), build.Container("example.com/gpu=3"), build.InitContainer("example.com/gpu=2")),
		3: build.Pod(build.Sidecar("example.com/gpu=4"), build.Sidecar("example.com/gpu=4"), build.InitContainer("example.com/gpu=6")),
		5: build.Pod(build.Container("example.com/gpu=6"), build.Overhead("example.com/gpu=4")),
	} {
		if got := (&trial{Question: Question{Pod: pod}}).leastRequest("example.com/gpu"); got != want {
			t.Errorf("the least request of %v is %d, want %d", pod.Spec, got, want)
		}
	}
}

// requiring gives the pod a node affinity with a term for each text.
func requiring(terms ...string) build.PodOption {
	return func(p *v1.Pod) {
		required := &v1.NodeSelector{}
		for _, text := range terms {
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, v1.NodeSelectorTerm{MatchExpressions: build.Requirements(text)})
		}
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	}
}

// TestLabels has one node. Only labels that do not meet a requirement are set.
func TestLabels(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	for _, row := range []struct {
		name, labels string
		pod          []build.PodOption
		want         string
	}{
		{"nothing demanded", "", nil, ""},
		{"selector", "", []build.PodOption{build.NodeSelector("disk=ssd")}, "disk=ssd"},
		{"another value", "disk=hdd", []build.PodOption{build.NodeSelector("disk=ssd")}, "disk=ssd"},
		{"met", "disk=ssd", []build.PodOption{build.NodeSelector("disk=ssd")}, ""},
		{"exists", "", []build.PodOption{requiring("gpu Exists")}, "gpu="},
		{"there is one", "gpu=a100", []build.PodOption{requiring("gpu Exists")}, ""},
		{"it stays", "gpu=a100", []build.PodOption{requiring("gpu Exists"), build.NodeSelector("disk=ssd")}, "disk=ssd"},
		{"any of the values", "rack=b", []build.PodOption{requiring("rack In a,b"), build.NodeSelector("disk=ssd")}, "disk=ssd"},
		{"none of the values", "rack=c", []build.PodOption{requiring("rack In a,b")}, "rack=a"},
		{"in one of the zones", zone + "=b", []build.PodOption{requiring(zone + " In a,b"), build.NodeSelector("disk=ssd")}, "disk=ssd"},
		{"in another zone", zone + "=c", []build.PodOption{requiring(zone + " In a,b"), build.NodeSelector("disk=ssd")}, ""},
		{"both at once", "", []build.PodOption{requiring("rack In a,b; rack In b,c; rack Exists")}, "rack=b"},
		{"both at once, in the other order", "", []build.PodOption{requiring("rack Exists; rack In b")}, "rack=b"},
		{"selector and term", "", []build.PodOption{requiring("rack In a,b"), build.NodeSelector("rack=b")}, "rack=b"},
		{"selector against term", "", []build.PodOption{requiring("rack In a"), build.NodeSelector("rack=b")}, ""},
		{"no values", "", []build.PodOption{requiring("rack In")}, ""},
		{"no values, and a second term", "", []build.PodOption{requiring("rack In", "disk In ssd")}, "disk=ssd"},
		{"a role", "", []build.PodOption{build.NodeSelector("node-role.kubernetes.io/db=yes")}, "node-role.kubernetes.io/db=yes"},
		{"a restricted label", "", []build.PodOption{build.NodeSelector("node-restriction.kubernetes.io/db=yes")}, "node-restriction.kubernetes.io/db=yes"},
		{"what a node is", "", []build.PodOption{build.NodeSelector("node.kubernetes.io/instance-type=large")}, ""},
		{"of nobody's domain", "", []build.PodOption{build.NodeSelector("example.com/db=yes")}, "example.com/db=yes"},
		{"each term", "gpu=a100", []build.PodOption{requiring("rack In a; disk Exists", "gpu In h100")}, "gpu=h100, disk= rack=a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			node := build.Node("n1")
			node.Labels = build.LabelSet(row.labels)
			before := node.DeepCopy()
			var got []string
			for _, k := range (&trial{Cluster: Cluster{Nodes: []*v1.Node{node}}, Question: Question{Pod: build.Pod(row.pod...)}}).labels() {
				change := k.at(0)
				text := strings.TrimPrefix(change.Text, "label node n1 with ")
				got = append(got, text)
				want := build.LabelSet(row.labels)
				for _, label := range strings.Fields(text) {
					key, value, _ := strings.Cut(label, "=")
					want[key] = value
				}
				if diff := cmp.Diff(want, change.swaps[0].after.GetLabels()); diff != "" {
					t.Errorf("labels after %q (- want, + got)\n%s", text, diff)
				}
			}
			if text := strings.Join(got, ", "); text != row.want {
				t.Errorf("%q, want %q", text, row.want)
			}
			if diff := cmp.Diff(before, node); diff != "" {
				t.Errorf("the node has changed\n%s", diff)
			}
		})
	}
}

// budget returns a PodDisruptionBudget that allows n disruptions of the pods with the
// labels; without labels, of all pods.
func budget(name, labels string, allowed int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}}}
	if labels != "" {
		b.Spec.Selector.MatchLabels = build.LabelSet(labels)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed}
	return b
}

// TestBreaksBudget counts evicted pods as the eviction API does.
func TestBreaksBudget(t *testing.T) {
	counted := budget("b", "app=a", 0)
	counted.Status.DisruptedPods = map[string]metav1.Time{"a1": {}}
	elsewhere := budget("b", "app=a", 0)
	elsewhere.Namespace = "other"
	for _, row := range []struct {
		name    string
		budgets []kinds.Object
		gone    string
		want    bool
	}{
		{"no budget", nil, "a1 a2", false},
		{"none allowed", []kinds.Object{budget("b", "app=a", 0)}, "a1", true},
		{"less than none", []kinds.Object{budget("b", "app=a", -1)}, "a1", true},
		{"others", []kinds.Object{budget("b", "app=a", 0)}, "b1", false},
		{"one allowed", []kinds.Object{budget("b", "app=a", 1)}, "a1", false},
		{"one allowed of two", []kinds.Object{budget("b", "app=a", 1)}, "a1 b1 a2", true},
		{"all pods", []kinds.Object{budget("b", "", 0)}, "b1", true},
		{"the second budget", []kinds.Object{budget("a", "app=a", 5), budget("b", "app=a", 1)}, "a1 a2", true},
		{"counted already", []kinds.Object{counted}, "a1", false},
		{"counted already, and another", []kinds.Object{counted}, "a1 a2", true},
		{"another namespace", []kinds.Object{elsewhere}, "a1", false},
		{"leaving", []kinds.Object{budget("b", "app=a", 0)}, "leaving", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			on := func(name, app string, options ...build.PodOption) *v1.Pod {
				return build.Pod(append(options, build.Named(name), build.NodeName("n1"), build.Labels("app="+app))...)
			}
			c, _ := cluster(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=4 pods=9"))},
				[]*v1.Pod{on("a1", "a"), on("a2", "a"), on("b1", "b"), on("leaving", "a", build.Terminating)}, row.budgets...)
			var evictions []plan.Eviction
			for _, name := range strings.Fields(row.gone) {
				evictions = append(evictions, plan.Eviction{Pod: (&trial{Cluster: c}).placed("default", name)})
			}
			if got := breaksBudget(c.State.View(), evictions); got != row.want {
				t.Errorf("%t, want %t", got, row.want)
			}
		})
	}
}

// TestChangesOfOneNode expects two changes of the same node to be made together.
func TestChangesOfOneNode(t *testing.T) {
	node := build.Node("n1", build.Allocatable("cpu=4 pods=9"), build.Unschedulable)
	c, q := cluster(t, []*v1.Node{node}, []*v1.Pod{build.Pod(build.Container("cpu=1"), build.NodeSelector("disk=ssd"))})
	a := For(c, q)
	want := []string{"uncordon node n1, and label node n1 with disk=ssd → n1", "uncordon node n1, and drop the node selector disk=ssd → n1"}
	if diff := cmp.Diff(want, texts(a)); diff != "" {
		t.Fatalf("(- want, + got)\n%s", diff)
	}
	_, set, gone := a.Suggestions[0].Apply(q.Pod)
	if len(set) != 1 || len(gone) != 0 {
		t.Fatalf("%d objects differ, %d are gone", len(set), len(gone))
	}
	if after := set[0].(*v1.Node); after.Spec.Unschedulable || after.Labels["disk"] != "ssd" {
		t.Errorf("%+v", after)
	}
	if again := For(c, q); !slices.Equal(texts(again), want) {
		t.Errorf("the second time: %q", texts(again))
	}
}

// TestFollowIsBounded expects that counting the owner's other pods never exceeds the
// limit of decisions, and returns no count if too few decisions are left.
func TestFollowIsBounded(t *testing.T) {
	c, q := cluster(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=100 pods=99"))}, []*v1.Pod{build.Pod(build.Container("cpu=1"), build.NodeSelector("disk=ssd"))})
	q.Pending = 12
	for _, row := range []struct{ left, follow, pending int }{{13, 12, 12}, {12, 0, 0}, {1, 0, 0}, {0, 0, 0}} {
		t.Run(fmt.Sprint(row.left), func(t *testing.T) {
			trial := newTrial(c, q)
			trial.advice.Suggestions = []Suggestion{{Node: "n1", Changes: []Change{trial.ofPod(DropSelector, 1, func(p *v1.Pod) { p.Spec.NodeSelector = nil }, "drop it")}}}
			trial.advice.Decisions = MaxDecisions - row.left
			trial.follow()
			s := trial.advice.Suggestions[0]
			if s.Follow != row.follow || s.Pending != row.pending || trial.advice.CutShort != (row.pending == 0) || trial.advice.Decisions > MaxDecisions {
				t.Errorf("%d of %d would follow, after %d decisions, cut short: %t", s.Follow, s.Pending, trial.advice.Decisions, trial.advice.CutShort)
			}
		})
	}
}

// TestHighestPriority expects no suggestion of a priority that users cannot set.
func TestHighestPriority(t *testing.T) {
	priority := func(p int32) build.PodOption { return func(pod *v1.Pod) { pod.Spec.Priority = &p } }
	for victim, want := range map[int32]string{999_999_999: "1000000000", 1_000_000_000: ""} {
		c, q := cluster(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=1 pods=9"))},
			[]*v1.Pod{build.Pod(build.Named("old"), build.NodeName("n1"), build.Container("cpu=1"), priority(victim)), build.Pod(build.Container("cpu=1"))})
		var got string
		removes := false
		for _, s := range For(c, q).Suggestions {
			switch s.Changes[0].Kind {
			case Priority:
				got = s.Changes[0].To
			case Remove:
				removes = true
			}
		}
		if got != want || !removes {
			t.Errorf("beside a pod of priority %d: %q, want %q; its removal is suggested: %t", victim, got, want, removes)
		}
	}
}

// TestNewClaims creates the claim that a pod names, with a class or for a volume without
// one.
func TestNewClaims(t *testing.T) {
	claimed := build.PersistentVolume("claimed", "storage=1Gi claim=default/other")
	classed := build.PersistentVolume("classed", "storage=1Gi class=fast")
	block := build.PersistentVolume("block", "storage=1Gi mode=Block")
	static := build.PersistentVolume("static", "storage=1Gi", build.VolumeAffinity("host In n2"))
	fast := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "p"}
	waits := storagev1.VolumeBindingWaitForFirstConsumer
	fast.VolumeBindingMode = &waits
	for _, row := range []struct {
		name   string
		others []kinds.Object
		want   []string
	}{
		{"a volume", []kinds.Object{claimed, classed, block, static}, []string{"create PersistentVolumeClaim default/data (tried with volume static and no class) → n2"}},
		{"no volume that is free", []kinds.Object{claimed, classed, block}, nil},
		{"a class", []kinds.Object{static, fast}, []string{"create PersistentVolumeClaim default/data (tried with class fast and 1Gi) → "}},
	} {
		t.Run(row.name, func(t *testing.T) {
			nodes := []*v1.Node{build.Node("n1", build.Allocatable("cpu=4 pods=9")), build.Node("n2", build.Allocatable("cpu=4 pods=9"), build.NodeLabels("host=n2"))}
			c, q := cluster(t, nodes, []*v1.Pod{build.Pod(build.Claims("data"))}, row.others...)
			got := texts(For(c, q))
			if len(got) != len(row.want) || len(got) > 0 && !strings.HasPrefix(got[0], row.want[0]) {
				t.Errorf("%q, want %q", got, row.want)
			}
		})
	}
}

// TestPools expects nodes in one pool if they differ only in names, including names of
// devices.
func TestPools(t *testing.T) {
	device := func(node, driver string, texts ...string) kinds.Object {
		slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: driver + node}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node}}
		for i, text := range texts {
			device := resourcev1.Device{Name: fmt.Sprintf("d%d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}}
			for key, value := range build.LabelSet(text) {
				name, attribute := resourcev1.QualifiedName(key), resourcev1.DeviceAttribute{StringValue: &value}
				switch key {
				case "version":
					attribute = resourcev1.DeviceAttribute{VersionValue: &value}
				case "ports":
					n, _ := strconv.ParseInt(value, 10, 64)
					attribute = resourcev1.DeviceAttribute{IntValue: &n}
				case "sriov":
					is := value == "true"
					attribute = resourcev1.DeviceAttribute{BoolValue: &is}
				case "taint":
					device.Taints = append(device.Taints, resourcev1.DeviceTaint{Key: value, Effect: resourcev1.DeviceTaintEffectNoSchedule})
					continue
				case "memory":
					device.Capacity = map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: k8sresource.MustParse(value)}}
					continue
				}
				device.Attributes[name] = attribute
			}
			slice.Spec.Devices = append(slice.Spec.Devices, device)
		}
		return slice
	}
	// n1 and n2 have the first, n3 and n4 the second.
	pairs := func(first, second string) []kinds.Object {
		return []kinds.Object{device("n1", "d", first), device("n2", "d", first), device("n3", "d", second), device("n4", "d", second)}
	}
	for _, row := range []struct {
		name   string
		others []kinds.Object
		want   string
	}{
		{"equal", nil, "n1 4"},
		{"a device", []kinds.Object{device("n2", "d", "model=a")}, "n1 3, n2 1"},
		{"serial numbers", []kinds.Object{device("n1", "d", "model=a serial=1"), device("n2", "d", "serial=2 model=a"), device("n3", "d", "model=a serial=3"), device("n4", "d", "model=a serial=4")}, "n1 4"},
		{"models", []kinds.Object{device("n1", "d", "model=a"), device("n2", "d", "model=b"), device("n3", "d", "model=a"), device("n4", "d", "model=b")}, "n1 2, n2 2"},
		{"one of another model", []kinds.Object{device("n1", "d", "model=a"), device("n2", "d", "model=b"), device("n3", "d", "model=a"), device("n4", "d", "model=a")}, "n1 3, n2 1"},
		{"versions", pairs("version=1.0.0", "version=2.0.0"), "n1 2, n3 2"},
		{"numbers", pairs("ports=1", "ports=2"), "n1 2, n3 2"},
		{"truths", pairs("sriov=true", "sriov=false"), "n1 2, n3 2"},
		{"taints", pairs("m=a", "m=a taint=broken"), "n1 2, n3 2"},
		{"taints of other keys", pairs("m=a taint=old", "m=a taint=broken"), "n1 2, n3 2"},
		{"capacities", pairs("memory=1Gi", "memory=2Gi"), "n1 2, n3 2"},
		{"the same of all sorts", pairs("version=1.0.0 ports=1 sriov=true taint=old memory=1Gi", "memory=1Gi taint=old sriov=true ports=1 version=1.0.0"), "n1 4"},
		{"more devices", []kinds.Object{device("n1", "d", "m=a"), device("n2", "d", "m=a", "m=a"), device("n3", "d", "m=a"), device("n4", "d", "m=a")}, "n1 3, n2 1"},
		{"devices of another driver", []kinds.Object{device("n1", "d", "m=a"), device("n2", "e", "m=a"), device("n3", "d", "m=a"), device("n4", "d", "m=a")}, "n1 3, n2 1"},
		{"a device that no node has", []kinds.Object{&resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: resourcev1.ResourceSliceSpec{Driver: "d"}}}, "n1 4"},
		{"drivers of volumes", []kinds.Object{build.CSINode("n1", "d=5"), build.CSINode("n2", "d=5"), build.CSINode("n3", "d=6"), build.CSINode("n4", "e=5")}, "n1 2, n3 1, n4 1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var nodes []*v1.Node
			for _, name := range []string{"n1", "n2", "n3", "n4"} {
				nodes = append(nodes, build.Node(name, build.NodeLabels("kubernetes.io/hostname="+name)))
			}
			var got []string
			for _, p := range Pools(nodes, row.others) {
				got = append(got, fmt.Sprintf("%s %d", p.First.Name, p.Nodes))
			}
			if text := strings.Join(got, ", "); text != row.want {
				t.Errorf("%s, want %s", text, row.want)
			}
		})
	}
}

// TestSkewsEnd raises a maxSkew no further than the API's maximum.
func TestSkewsEnd(t *testing.T) {
	for from, want := range map[int32]int{1: 1 + skewMax, math.MaxInt32 - 2: math.MaxInt32, math.MaxInt32: math.MaxInt32} {
		pod := build.Pod()
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: from, TopologyKey: "zone", WhenUnsatisfiable: v1.DoNotSchedule}}
		k := (&trial{Question: Question{Pod: pod}}).skews()[0]
		if change := k.at(k.settings - 1); change.To != strconv.Itoa(want) {
			t.Errorf("a maxSkew of %d is raised to %s, want %d", from, change.To, want)
		}
	}
}

// TestPairsAreBalanced has nodes that each lack some of two resources. Of the sufficient
// pairs, it expects one with balanced reductions: neither request is lowered much more
// than necessary.
func TestPairsAreBalanced(t *testing.T) {
	nodes := []*v1.Node{
		build.Node("most-cpu", build.Allocatable("cpu=3900m memory=1Gi pods=9")),
		build.Node("both", build.Allocatable("cpu=3500m memory=14Gi pods=9")),
		build.Node("most-memory", build.Allocatable("cpu=100m memory=15Gi pods=9")),
	}
	c, q := cluster(t, nodes, []*v1.Pod{build.Pod(build.Container("cpu=4 memory=16Gi"))})
	want := []string{"lower the cpu request of container c0 from 4 to 3500m, and lower the memory request of container c0 from 16Gi to 14Gi → both"}
	if diff := cmp.Diff(want, texts(For(c, q))); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

// TestPairsOfManyNodes has more nodes than are tried, each rejected by two plugins. Two
// changes together help, for each sort of rejections.
func TestPairsOfManyNodes(t *testing.T) {
	var nodes []*v1.Node
	c, q := cluster(t, nil, []*v1.Pod{build.Pod(build.Container("cpu=1"))})
	for i := range 2 * maxCandidates {
		node := build.Node(fmt.Sprintf("n%03d", i), build.Allocatable("cpu=4 pods=9"), build.Unschedulable, build.Taints("a=b:NoSchedule"))
		nodes = append(nodes, node)
		q.Objections = append(q.Objections, Objection{node.Name, []string{"NodeUnschedulable", "TaintToleration", "NodeResourcesFit"}})
		if i%2 == 0 {
			q.Objections[i].Plugins = []string{"NodeUnschedulable", "NodePorts"}
		}
		c.In.Set(node)
	}
	c.State.Apply(c.In.Drain())
	c.Nodes = nodes
	of := newTrial(c, q).uncordons()
	var got []string
	for i := range of {
		if !of[i].inPairs {
			t.Errorf("%s is tried by itself", of[i].at(0).Object)
		}
		got = append(got, of[i].at(0).Object)
	}
	if diff := cmp.Diff([]string{"node n000", "node n001", "node n002", "node n003"}, got); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	// Half of the nodes are not rejected by any other plugin.
	for i := range q.Objections {
		if q.Objections[i].Plugins = []string{"NodeUnschedulable", "TaintToleration", "NodePorts"}; i%2 == 0 {
			q.Objections[i].Plugins = []string{"NodeUnschedulable", "TaintToleration"}
		}
	}
	alone := 0
	for _, k := range newTrial(c, q).uncordons() {
		if !k.inPairs {
			alone++
		}
	}
	if alone != maxCandidates {
		t.Errorf("%d nodes are tried by themselves, want %d", alone, maxCandidates)
	}
	for i := range q.Objections { // Another plugin rejects each node.
		q.Objections[i].Plugins = []string{fmt.Sprint("P", i)}
	}
	if of := newTrial(c, q).uncordons(); len(of) != maxBeside {
		t.Errorf("%d nodes are kept for pairs", len(of))
	}
	a := For(c, q)
	if len(a.Suggestions) == 0 || texts(a)[0] != "tolerate the taint a=b:NoSchedule, and uncordon node n000 → n000" {
		t.Errorf("%q", texts(a))
	}
}

// TestCopies expects that each copy of a node has an unused name, and the drivers and
// devices of only this node.
func TestCopies(t *testing.T) {
	slice := func(name, node, pool string) *resourcev1.ResourceSlice {
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &node, Pool: resourcev1.ResourcePool{Name: pool}}}
		if node == "" {
			s.Spec.NodeName = nil
		}
		return s
	}
	like := build.Node("n1", build.NodeLabels("kubernetes.io/hostname=n1 name=n1 pool=a"))
	like.Status.Images = []v1.ContainerImage{{Names: []string{"i"}}}
	others := []kinds.Object{build.CSINode("n1", "d=5"), build.CSINode("n2", "d=6"), slice("own", "n1", "n1"), slice("shared", "n1", "rack"), slice("all", "", "all"), slice("other", "n2", "n2")}
	var got []string
	for _, o := range Copies(like, 2, others, func(name string) bool { return name == "n1-copy-1" }) {
		text := fmt.Sprintf("%T %s %s", o, o.GetName(), o.GetUID())
		switch o := o.(type) {
		case *v1.Node:
			text += fmt.Sprint(" ", o.Labels, len(o.Status.Images))
		case *storagev1.CSINode:
			text += fmt.Sprint(" ", o.Spec.Drivers[0].NodeID, " ", *o.Spec.Drivers[0].Allocatable.Count)
		case *resourcev1.ResourceSlice:
			text += " " + *o.Spec.NodeName + " " + o.Spec.Pool.Name
		}
		got = append(got, text)
	}
	var want []string
	for _, name := range []string{"n1-copy-2", "n1-copy-3"} {
		want = append(want, fmt.Sprintf("*v1.Node %s %s map[kubernetes.io/hostname:%s name:%s pool:a] 0", name, name, name, name), fmt.Sprintf("*v1.CSINode %s %s %s 5", name, name, name),
			fmt.Sprintf("*v1.ResourceSlice own-%s own-%s %s %s", name, name, name, name), fmt.Sprintf("*v1.ResourceSlice shared-%s shared-%s %s rack-%s", name, name, name, name))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}

// TestPoolsOfNodes expects nodes that differ in anything except the name in different
// pools, the largest first.
func TestPoolsOfNodes(t *testing.T) {
	for name, options := range map[string][]build.NodeOption{
		"an amount":     {build.Allocatable("cpu=5 pods=9")},
		"a resource":    {build.Allocatable("cpu=4 pods=9 memory=1Gi")},
		"a label":       {build.NodeLabels("pool=b")},
		"a taint":       {build.Taints("a=b:NoSchedule")},
		"another taint": {build.Taints("a=c:NoSchedule")},
		"cordoned":      {build.Unschedulable},
		"a feature":     {func(n *v1.Node) { n.Status.DeclaredFeatures = []string{"F"} }},
	} {
		var nodes []*v1.Node
		for i := range 5 {
			node := build.Node(fmt.Sprint("n", i), build.Allocatable("cpu=4 pods=9"), build.NodeLabels(fmt.Sprintf("pool=a kubernetes.io/hostname=n%d own=n%d", i, i)))
			if i < 2 {
				for _, option := range options {
					option(node)
				}
			}
			nodes = append(nodes, node)
		}
		pools := Pools(nodes, nil)
		if len(pools) != 2 || pools[0].First.Name != "n2" || pools[0].Nodes != 3 || pools[1].First.Name != "n0" || pools[1].Nodes != 2 {
			t.Errorf("%s: %+v", name, pools)
		}
	}
}

// TestBoundsAsDocumented has more candidates than are tried and expects CutShort. It
// compares the limits and the kinds with docs/explain.md.
func TestBoundsAsDocumented(t *testing.T) {
	var nodes []*v1.Node
	for i := range maxCandidates + 1 {
		nodes = append(nodes, build.Node(fmt.Sprintf("n%02d", i), build.Allocatable("cpu=4 pods=9"), build.Taints(fmt.Sprintf("t%d:NoSchedule", i))))
	}
	for n, cut := range map[int]bool{maxCandidates: false, maxCandidates + 1: true} {
		c, q := cluster(t, nodes[:n], []*v1.Pod{build.Pod(build.Container("cpu=1"))})
		if a := For(c, q); a.CutShort != cut || len(a.Suggestions) != maxPerKind {
			t.Errorf("%d taints: %q, cut short: %t", n, texts(a), a.CutShort)
		}
	}
	page, err := os.ReadFile("../../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("by %d decisions for one pod, by %d candidates", MaxDecisions, maxCandidates), fmt.Sprintf("at most %d are counted", maxFollow)}
	for _, kind := range order {
		want = append(want, "`"+string(kind)+"`")
	}
	unwrapped := strings.Join(strings.Fields(string(page)), " ")
	for _, text := range want {
		if !strings.Contains(unwrapped, text) {
			t.Errorf("docs/explain.md says nothing about %q", text)
		}
	}
}

// TestLimitsFollow lowers requests of a pod with limits. A limit that must equal the
// request is lowered, too.
func TestLimitsFollow(t *testing.T) {
	pod := build.Pod(build.Container("cpu=4 example.com/gpu=4"))
	of := &pod.Spec.Containers[0].Resources
	of.Limits = of.Requests.DeepCopy()
	lower(&pod.Spec, "example.com/gpu", 3)
	lower(&pod.Spec, v1.ResourceCPU, 2000)
	if gpus, cpu := of.Limits["example.com/gpu"], of.Limits.Cpu(); gpus.Value() != 3 || cpu.Value() != 4 || of.Requests.Cpu().Value() != 2 {
		t.Errorf("requests %v, limits %v", of.Requests, of.Limits)
	}
}

// TestFew lists names up to a number, and counts the others.
func TestFew(t *testing.T) {
	for n, want := range []string{"", "a", "a, b", "a, b and 1 more", "a, b and 2 more"} {
		if got := Few([]string{"a", "b", "c", "d"}[:n], 2); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

// TestUpTo finds the last setting of a knob up to a size, or the first setting if all are
// larger.
func TestUpTo(t *testing.T) {
	sizes := []int64{2, 5, 5, 9}
	k := knob{settings: len(sizes), at: func(setting int) Change { return Change{Size: sizes[setting]} }}
	for size, want := range map[int64]int{0: 0, 1: 0, 2: 0, 4: 0, 5: 2, 8: 2, 9: 3, 10: 3} {
		if got := k.upTo(size); got != want || k.within(size).settings != want+1 {
			t.Errorf("up to %d: setting %d of %d, want %d", size, got, k.within(size).settings, want)
		}
	}
}

// TestNothingToSuggest expects an empty list instead of null if a node is feasible.
func TestNothingToSuggest(t *testing.T) {
	c, q := cluster(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=4 pods=9"))}, []*v1.Pod{build.Pod(build.Container("cpu=1"))})
	if a := For(c, q); a.Suggestions == nil || len(a.Suggestions) > 0 || a.Decisions != 1 {
		t.Errorf("%+v", a)
	}
}

// TestOfPod looks for changes of the pod alone, on all nodes and on some.
func TestOfPod(t *testing.T) {
	c, q := cluster(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=2 pods=9")), build.Node("n2", build.Allocatable("cpu=3 pods=9"))}, []*v1.Pod{build.Pod(build.Container("cpu=4"))})
	q.OfPod, q.Pending = true, 5
	n1, _ := c.State.Slot("n1")
	for want, within := range map[string]*state.Restriction{
		"lower the cpu request of container c0 from 4 to 3 → n2": nil,
		"lower the cpu request of container c0 from 4 to 2 → n1": state.RestrictTo([]int32{n1}),
	} {
		q.Within = within
		a := For(c, q)
		if got := texts(a); !slices.Equal(got, []string{want}) || a.Suggestions[0].Pending != 0 || a.Missing != nil {
			t.Errorf("%q, want %q: %+v", got, want, a)
		}
	}
}
