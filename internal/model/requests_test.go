package model

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

const mi = 1 << 20

// list parses "cpu=1 memory=2Gi".
var list = build.Resources

// container is a line of a test pod. An empty text means that the status has no list.
type container struct {
	spec              string
	allocated, actual string
}

// testPod is a short form of a pod. Containers named in inits run first. A name that
// starts with "sidecar" is restartable.
type testPod struct {
	containers []container
	inits      []string
	overhead   string
	podLevel   string
	// Pod-wide status.
	allocated, actual string
	resize            string // reason of the PodResizePending condition
}

func (p testPod) build() *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for i, c := range p.containers {
		name := fmt.Sprint("c", i)
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list(c.spec)}})
		if c.allocated == "" && c.actual == "" {
			continue
		}
		status := v1.ContainerStatus{Name: name}
		if c.allocated != "" {
			status.AllocatedResources = list(c.allocated)
		}
		if c.actual != "" {
			status.Resources = &v1.ResourceRequirements{Requests: list(c.actual)}
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	always := v1.ContainerRestartPolicyAlways
	for i, spec := range p.inits {
		c := v1.Container{Name: fmt.Sprint("i", i)}
		if rest, sidecar := strings.CutPrefix(spec, "sidecar"); sidecar {
			spec, c.RestartPolicy = rest, &always
		}
		c.Resources.Requests = list(spec)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if p.overhead != "" {
		pod.Spec.Overhead = list(p.overhead)
	}
	if p.podLevel != "" {
		pod.Spec.Resources = &v1.ResourceRequirements{Requests: list(p.podLevel)}
	}
	if p.allocated != "" {
		pod.Status.AllocatedResources = list(p.allocated)
	}
	if p.actual != "" {
		pod.Status.Resources = &v1.ResourceRequirements{Requests: list(p.actual)}
	}
	if p.resize != "" {
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodResizePending, Reason: p.resize}}
	}
	return pod
}

func specs(requests ...string) []container {
	var all []container
	for _, r := range requests {
		all = append(all, container{spec: r})
	}
	return all
}

// The numbered rows are in design/rules/resources.md#requests-of-a-pod. Each row has
// the amounts that the pod occupies on a node, and the amounts that it requests while
// pending, by the spec alone. For a pod without status, these are equal.
func TestRequests(t *testing.T) {
	one, two := specs("cpu=500m memory=256Mi"), specs("cpu=500m memory=256Mi", "cpu=1 memory=512Mi")
	running := []container{{"cpu=4", "cpu=2", "cpu=2"}}
	for _, row := range []struct {
		name           string
		pod            testPod
		cpu, memory    int64 // occupied; memory in Mi
		asked, askedMi int64
	}{
		{"1", testPod{containers: two}, 1500, 768, 1500, 768},
		{"2", testPod{containers: two, inits: []string{"cpu=2 memory=128Mi", "cpu=250m memory=1Gi"}}, 2000, 1024, 2000, 1024},
		{"3", testPod{containers: specs("cpu=1"), inits: []string{"sidecar cpu=1", "cpu=2", "sidecar cpu=500m"}}, 3000, 0, 3000, 0},
		{"4", testPod{containers: specs("cpu=1"), inits: []string{"cpu=2", "sidecar cpu=1", "sidecar cpu=500m"}}, 2500, 0, 2500, 0},
		{"5", testPod{containers: one, inits: []string{"cpu=2"}, overhead: "cpu=250m memory=120Mi"}, 2250, 376, 2250, 376},
		{"6", testPod{containers: specs("cpu=1 memory=512Mi", "cpu=1 memory=512Mi"), podLevel: "cpu=1500m", overhead: "cpu=100m"}, 1600, 1024, 1600, 1024},
		{"7", testPod{containers: one, podLevel: "ephemeral-storage=9Gi"}, 500, 256, 500, 256},
		{"8", testPod{containers: []container{{"cpu=2", "cpu=1", "cpu=1"}, {"cpu=1", "cpu=2", "cpu=2"}}}, 3000, 0, 3000, 0},
		{"9 infeasible", testPod{containers: running, resize: v1.PodReasonInfeasible}, 2000, 0, 4000, 0},
		{"9 deferred", testPod{containers: running, resize: v1.PodReasonDeferred}, 4000, 0, 4000, 0},
		{"10", testPod{containers: []container{{"cpu=1", "cpu=1", "cpu=2"}}}, 2000, 0, 1000, 0},
		{"11", testPod{containers: []container{{"cpu=1", "cpu=9", ""}}, allocated: "cpu=1500m", actual: "cpu=1200m"}, 1500, 0, 1000, 0},
		{"12", testPod{containers: specs("cpu=500m"), podLevel: "cpu=4", allocated: "cpu=2", actual: "cpu=1800m", resize: v1.PodReasonInfeasible}, 2000, 0, 4000, 0},
		{"pod-wide status needs both lists", testPod{containers: []container{{"cpu=1", "cpu=9", ""}}, allocated: "cpu=1500m"}, 9000, 0, 1000, 0},
		{"pod level may be lower", testPod{containers: specs("cpu=4"), podLevel: "cpu=1"}, 1000, 0, 1000, 0},
		{"infeasible without status", testPod{containers: specs("cpu=4"), resize: v1.PodReasonInfeasible}, 0, 0, 4000, 0},
		{"infeasible, pod level without status", testPod{podLevel: "cpu=4", resize: v1.PodReasonInfeasible}, 4000, 0, 4000, 0},
		{"summed before rounding", testPod{containers: specs("cpu=100500u", "cpu=100500u")}, 201, 0, 201, 0},
		{"rounded up", testPod{containers: specs("cpu=100500u")}, 101, 0, 101, 0},
	} {
		pod := NewPod(row.pod.build())
		if o := pod.Occupies; o.CPUMilli != row.cpu || o.MemoryBytes != row.memory*mi {
			t.Errorf("%s: occupies %d, %d Mi, want %d, %d", row.name, o.CPUMilli, o.MemoryBytes/mi, row.cpu, row.memory)
		}
		if a := pod.Asks; a.CPUMilli != row.asked || a.MemoryBytes != row.askedMi*mi {
			t.Errorf("%s: asks %d, %d Mi, want %d, %d", row.name, a.CPUMilli, a.MemoryBytes/mi, row.asked, row.askedMi)
		}
	}
}

// The numbered rows are in design/rules/resources.md#requests-for-scoring. Each row has
// the resources that scoring assumes the pod occupies on its node, and its request while
// pending.
func TestNonZero(t *testing.T) {
	for _, row := range []struct {
		name             string
		pod              testPod
		cpu, memory      int64 // in Mi
		scored, scoredMi int64
	}{
		{"1", testPod{containers: specs("")}, 100, 200, 100, 200},
		{"2", testPod{containers: specs("memory=100Mi", "")}, 200, 300, 200, 300},
		{"3", testPod{containers: specs("cpu=0 memory=0")}, 0, 0, 0, 0},
		{"4", testPod{containers: specs("cpu=50m memory=50Mi"), inits: []string{""}}, 100, 200, 100, 200},
		{"5", testPod{containers: specs("cpu=500m memory=256Mi"), inits: []string{"sidecar"}}, 600, 456, 600, 456},
		{"6", testPod{containers: specs("memory=100Mi", ""), podLevel: "cpu=1"}, 1000, 100, 200, 300},
		{"7", testPod{containers: specs("", ""), podLevel: "cpu=1"}, 1000, 400, 200, 400},
		{"8", testPod{containers: specs(""), podLevel: "cpu=1", overhead: "memory=64Mi"}, 1000, 64, 100, 264},
		{"9", testPod{containers: specs(""), overhead: "cpu=250m memory=120Mi"}, 350, 320, 350, 320},
		{"pod level for both", testPod{containers: specs(""), podLevel: "cpu=1 memory=1Mi"}, 1000, 1, 100, 200},
		{"pod level for huge pages", testPod{containers: specs(""), podLevel: "hugepages-2Mi=4Mi"}, 100, 200, 100, 200},
		{"status counts on the node", testPod{containers: []container{{"cpu=1 memory=1Mi", "cpu=2 memory=1Mi", "cpu=2 memory=1Mi"}}}, 2000, 1, 1000, 1},
		{"scored by the spec when infeasible", testPod{containers: []container{{"cpu=4 memory=1Mi", "cpu=2 memory=1Mi", ""}}, resize: v1.PodReasonInfeasible}, 2000, 1, 4000, 1},
	} {
		pod := NewPod(row.pod.build())
		if pod.NonZeroCPUMilli != row.cpu || pod.NonZeroMemoryBytes != row.memory*mi {
			t.Errorf("%s: weighs %d, %d Mi, want %d, %d", row.name, pod.NonZeroCPUMilli, pod.NonZeroMemoryBytes/mi, row.cpu, row.memory)
		}
		if s := pod.Scored; s.CPUMilli != row.scored || s.MemoryBytes != row.scoredMi*mi {
			t.Errorf("%s: scored by %d, %d Mi, want %d, %d", row.name, s.CPUMilli, s.MemoryBytes/mi, row.scored, row.scoredMi)
		}
	}
}

// Only pending pods have requests.
func TestPlacedPodsAskNothing(t *testing.T) {
	object := testPod{containers: specs("cpu=1")}.build()
	object.Spec.NodeName = "n"
	if pod := NewPod(object); !pod.Asks.IsZero() || !pod.Scored.IsZero() || pod.Occupies.CPUMilli != 1000 {
		t.Errorf("asks %v, scored by %v, occupies %v", pod.Asks, pod.Scored, pod.Occupies)
	}
}

// The rows show the names and the rounding of
// design/rules/resources.md#names-and-rounding.
func TestResourcesOf(t *testing.T) {
	for _, row := range []struct{ list, want string }{
		{"cpu=1500m memory=1Ki ephemeral-storage=1Mi", "1500 1024 1048576"},
		{"cpu=100500u", "101 0 0"},
		{"memory=1500m", "0 2 0"},
		{"ephemeral-storage=1n", "0 0 1"},
		{"pods=110", "0 0 0"},
		{"hugepages-2Mi=4Mi", "0 0 0 hugepages-2Mi=4194304"},
		{"attachable-volumes-aws-ebs=39", "0 0 0 attachable-volumes-aws-ebs=39"},
		{"kubernetes.io/x=1", "0 0 0 kubernetes.io/x=1"},
		{"deviceclass.resource.kubernetes.io/gpu=1", "0 0 0 deviceclass.resource.kubernetes.io/gpu=1"},
		{"requests.kubernetes.io/x=1", "0 0 0 requests.kubernetes.io/x=1"},
		{"nvidia.com/gpu=2", "0 0 0 nvidia.com/gpu=2"},
		{"nvidia.com/gpu=0", "0 0 0 nvidia.com/gpu=0"},
		{"example.com/half=500m", "0 0 0 example.com/half=1"},
		{"b.io/x=1 a.io/x=2 c.io/x=3", "0 0 0 a.io/x=2 b.io/x=1 c.io/x=3"},
		{"foo=1 storage=1 requests.x/y=1 UPPER.com/gpu=1 a.io/b/c=1 /x=1", "0 0 0"},
	} {
		r := ResourcesOf(list(row.list))
		got := fmt.Sprint(r.CPUMilli, r.MemoryBytes, r.EphemeralBytes)
		for _, s := range r.Scalars {
			got += fmt.Sprintf(" %s=%d", s.Name.Value(), s.Value)
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", row.list, got, row.want)
		}
	}
}

func TestIsExtendedName(t *testing.T) {
	for name, want := range map[v1.ResourceName]bool{
		"cpu": false, "pods": false, "hugepages-2Mi": false, "kubernetes.io/x": false, "deviceclass.resource.kubernetes.io/a": false,
		"nvidia.com/gpu": true, "foo": false, "storage": false, "requests.x/y": false, "a/b": true, "a.io/b/c": false,
		v1.ResourceName(strings.Repeat("a", 240) + ".io/x"): true, v1.ResourceName(strings.Repeat("a.", 122) + "io/x"): false,
	} {
		if got := IsExtendedName(name); got != want {
			t.Errorf("%s: extended %v, want %v", name, got, want)
		}
	}
}

func TestAllowedPods(t *testing.T) {
	if got := AllowedPods(list("pods=110")); got != 110 {
		t.Errorf("allowed pods %d, want 110", got)
	}
	if got := AllowedPods(nil); got != 0 {
		t.Errorf("allowed pods %d, want none where the node does not say", got)
	}
}

func TestResources(t *testing.T) {
	sum := Sum{Resources: ResourcesOf(list("cpu=1 b.io/x=1"))}
	more := ResourcesOf(list("cpu=2 memory=3 ephemeral-storage=4 a.io/x=5 b.io/x=6 c.io/x=7"))
	sum.Add(&more, +1)
	if want := ResourcesOf(list("cpu=3 memory=3 ephemeral-storage=4 a.io/x=5 b.io/x=7 c.io/x=7")); !sum.Resources.Equal(&want) {
		t.Errorf("sum %v, want %v", sum, want)
	}
	sum.Add(&more, -1)
	if want := ResourcesOf(list("cpu=1 a.io/x=0 b.io/x=1 c.io/x=0")); !sum.Resources.Equal(&want) {
		t.Errorf("after taking away %v, want %v", sum, want)
	}
	for name, want := range map[v1.ResourceName]struct {
		amount int64
		scalar bool
	}{
		"cpu": {2000, false}, "memory": {3, false}, "ephemeral-storage": {4, false}, "b.io/x": {6, true}, "d.io/x": {0, true},
	} {
		if amount, scalar := KeyOf(name).In(&more), KeyOf(name).IsScalar(); amount != want.amount || scalar != want.scalar {
			t.Errorf("%s: %d, scalar %v, want %v", name, amount, scalar, want)
		}
	}
	if zero := ResourcesOf(list("cpu=0")); !zero.IsZero() {
		t.Errorf("%v asks for something", zero)
	}
	if present := ResourcesOf(list("a.io/x=0")); present.IsZero() {
		t.Errorf("%v asks for nothing, though a scalar is present", present)
	}
}
