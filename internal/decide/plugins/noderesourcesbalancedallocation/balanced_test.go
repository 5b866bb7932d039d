package noderesourcesbalancedallocation

import (
	"fmt"
	"math/rand/v2"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// list parses "cpu=1 memory=2Gi".
var list = build.Resources

func nodeOf(name, allocatable string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: list(allocatable)}}
}

func podOf(name, requests string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: list(requests)}}}},
	}
}

func newPlugin(t testing.TB, resources ...string) *Plugin {
	t.Helper()
	args := &configv1.NodeResourcesBalancedAllocationArgs{}
	for _, name := range resources {
		args.Resources = append(args.Resources, configv1.ResourceSpec{Name: name, Weight: 1})
	}
	p, err := New(args)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func compile(t testing.TB, p *Plugin, pod *v1.Pod) plugin.NodeScores {
	t.Helper()
	s, err := plugintest.NodeScores(p, model.NewPod(pod))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var gpu = []string{"cpu", "memory", "example.com/gpu"}

// The numbered rows come from design/rules/resources.md#balanced-allocation; the others
// are similar.
func TestScore(t *testing.T) {
	for _, row := range []struct {
		name                string
		resources           []string
		capacity, used, pod string
		want                int32
	}{
		{"1", nil, "cpu=4 memory=8Gi", "", "cpu=1 memory=2Gi", 75},
		{"2", nil, "cpu=4 memory=8Gi", "", "cpu=2 memory=1Gi", 65},
		{"3", nil, "cpu=4 memory=8Gi", "cpu=3", "memory=6Gi", 94},
		{"4", nil, "cpu=4 memory=8Gi", "", "cpu=1", 68},
		{"5", nil, "cpu=4 memory=8Gi", "cpu=4 memory=2Gi", "cpu=1 memory=2Gi", 81},
		{"6", nil, "cpu=4 memory=8Gi", "", "cpu=4", 50},
		{"7", nil, "cpu=4 memory=8Gi", "cpu=4", "memory=8Gi", 100},
		{"8", nil, "cpu=4", "cpu=1", "cpu=1 memory=1Gi", 75},
		{"9", gpu, "cpu=4 memory=8Gi example.com/gpu=4", "cpu=1 memory=2Gi", "example.com/gpu=4", 63},
		{"10", nil, "cpu=1 memory=1000", "", "cpu=680m", 57},
		{"truncated to 90", nil, "cpu=100 memory=100", "", "cpu=35 memory=53", 70},
		{"gpu left out when not asked for", gpu, "cpu=4 memory=8Gi example.com/gpu=4", "example.com/gpu=4", "cpu=1 memory=2Gi", 75},
		{"gpu left out where there is none", gpu, "cpu=4 memory=8Gi", "", "cpu=1 memory=2Gi example.com/gpu=1", 75},
		{"defaults for used are not assumed", nil, "cpu=4 memory=8Gi", " ", "cpu=2 memory=1Gi", 65},
		{"unknown names never count", []string{"cpu", "memory", "pods", "foo"}, "cpu=4 memory=8Gi pods=110 foo=5", "", "cpu=2 memory=1Gi", 65},
		{"no resource on the node", nil, "", "", "cpu=1", 75},
		{"ephemeral-storage", []string{"cpu", "ephemeral-storage"}, "cpu=4 ephemeral-storage=8Gi", "ephemeral-storage=6Gi", "cpu=3", 94},
	} {
		var pods []*v1.Pod
		if row.used != "" {
			pods = append(pods, podOf("there", row.used))
		}
		node := plugintest.Node(nodeOf("n", row.capacity), pods...)
		if got := compile(t, newPlugin(t, row.resources...), podOf("new", row.pod)).Score(node); got != row.want {
			t.Errorf("%s: score %d, want %d", row.name, got, row.want)
		}
	}
}

// The values of B in design/rules/resources.md#balanced-allocation, with and without
// the pod.
func TestBalance(t *testing.T) {
	for _, row := range []struct {
		fractions []float64
		want      int32
	}{
		{nil, 100}, {[]float64{0.3}, 100},
		{[]float64{0.25, 0.25}, 100}, {[]float64{0.5, 0.125}, 81}, {[]float64{0.75, 0.75}, 100}, {[]float64{0.75, 0}, 62},
		{[]float64{0.25, 0}, 87}, {[]float64{1, 0.5}, 75}, {[]float64{1, 0.25}, 62}, {[]float64{1, 0}, 50}, {[]float64{1, 1}, 100},
		{[]float64{0.25, 0.25, 1}, 64}, {[]float64{0.25, 0.25, 0}, 88},
		{[]float64{0.68, 0}, 65}, {[]float64{0.35, 0.53}, 90},
	} {
		var s spread
		for _, f := range row.fractions {
			s.add(f)
		}
		for _, f := range row.fractions {
			s.deviate(f)
		}
		if got := s.balance(); got != row.want {
			t.Errorf("balance of %v is %d, want %d", row.fractions, got, row.want)
		}
	}
}

func TestNeeds(t *testing.T) {
	asks := func(pod *v1.Pod, resources ...string) model.Need {
		return plugintest.ScoreNeed(newPlugin(t, resources...), model.NewPod(pod))
	}
	podLevel := podOf("p", "cpu=1 memory=1")
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu=3")}
	overhead := podOf("p", "")
	overhead.Spec.Overhead = list("cpu=3 memory=1")
	for _, row := range []struct {
		name string
		a, b model.Need
		same bool
	}{
		{"11: best effort is skipped", asks(podOf("p", "")), model.Need{}, true},
		{"12: other resources are skipped", asks(podOf("p", "nvidia.com/gpu=1")), model.Need{}, true},
		{"zeros are skipped", asks(podOf("p", "cpu=0 memory=0")), model.Need{}, true},
		{"something is not skipped", asks(podOf("p", "cpu=1m")), model.Need{}, false},
		{"other resources do not matter", asks(podOf("p", "cpu=1 nvidia.com/gpu=1")), asks(podOf("q", "cpu=1000m ephemeral-storage=1Gi")), true},
		{"amounts matter", asks(podOf("p", "cpu=1")), asks(podOf("p", "cpu=2")), false},
		{"places matter", asks(podOf("p", "cpu=1m")), asks(podOf("p", "memory=1")), false},
		{"digits do not run together", asks(podOf("p", "cpu=1m memory=11")), asks(podOf("p", "cpu=11m memory=1")), false},
		{"scalars matter when configured", asks(podOf("p", "cpu=1 example.com/gpu=1"), gpu...), asks(podOf("p", "cpu=1"), gpu...), false},
		{"absent and zero scalars are one", asks(podOf("p", "cpu=1 example.com/gpu=0"), gpu...), asks(podOf("p", "cpu=1"), gpu...), true},
		{"pod-level requests are honoured", asks(podLevel), asks(podOf("p", "cpu=3 memory=1")), true},
		{"overhead is added", asks(overhead), asks(podOf("p", "cpu=3 memory=1")), true},
	} {
		if (row.a == row.b) != row.same {
			t.Errorf("%s: needs %q and %q, equal should be %v", row.name, row.a, row.b, row.same)
		}
	}
}

// The texts are kube-scheduler's, as observed.
func TestArguments(t *testing.T) {
	specs := func(pairs ...any) *configv1.NodeResourcesBalancedAllocationArgs {
		args := &configv1.NodeResourcesBalancedAllocationArgs{}
		for i := 0; i < len(pairs); i += 2 {
			args.Resources = append(args.Resources, configv1.ResourceSpec{Name: pairs[i].(string), Weight: int64(pairs[i+1].(int))})
		}
		return args
	}
	for _, row := range []struct {
		args *configv1.NodeResourcesBalancedAllocationArgs
		want string
	}{
		{nil, ""}, {specs(), ""}, {specs("cpu", 1, "memory", 0, "foo", 1), ""},
		{specs("cpu", 2, "memory", -1, "x", 0), `[resources[0].weight: Invalid value: 2: must be 1, resources[1].weight: Invalid value: -1: must be 1]`},
		{specs("cpu", 0, "cpu", 0), `resources[1].name: Duplicate value: "cpu"`},
		{specs("cpu", 1, "memory", 1, "cpu", 1, "cpu", 3), `[resources[2].name: Duplicate value: "cpu", resources[3].name: Duplicate value: "cpu", ` +
			`resources[3].weight: Invalid value: 3: must be 1]`},
	} {
		got := ""
		if _, err := New(row.args); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("New(%v) says\n%s\nwant\n%s", row.args, got, row.want)
		}
	}
}

func TestPlugin(t *testing.T) {
	p := newPlugin(t)
	if p.Name() != Name || p.ScoreReads() != model.Usage|model.Allocatable || p.Normalization() != model.AsIs {
		t.Errorf("%s reads %b and normalises by %v", p.Name(), p.ScoreReads(), p.Normalization())
	}
}

func TestScoreAllocatesNothing(t *testing.T) {
	node := plugintest.Node(nodeOf("n", "cpu=4 memory=8Gi example.com/gpu=4"), podOf("there", "cpu=1 example.com/gpu=1"))
	s := compile(t, newPlugin(t, gpu...), podOf("new", "cpu=1 example.com/gpu=2"))
	if allocs := testing.AllocsPerRun(100, func() { s.Score(node) }); allocs != 0 {
		t.Errorf("Score allocates %v times", allocs)
	}
}

// kept prevents the compiler from removing the measured calls.
var kept int32

func BenchmarkScore(b *testing.B) {
	var nodes []*v1.Node
	var pods []*v1.Pod
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 5000 {
		nodes = append(nodes, nodeOf(fmt.Sprint("node-", i), "cpu=16 memory=64Gi example.com/gpu=8"))
		for j := range random.IntN(8) {
			pod := podOf(fmt.Sprint("pod-", i, "-", j), fmt.Sprintf("cpu=%dm memory=%dMi", 100+random.IntN(4000), 100+random.IntN(16000)))
			pod.Spec.NodeName = nodes[i].Name
			pods = append(pods, pod)
		}
	}
	cluster := plugintest.Cluster(nodes, pods...)
	var views []state.Node
	for slot := range cluster.Slots() {
		views = append(views, cluster.Node(int32(slot)))
	}
	for name, p := range map[string]*Plugin{"cpu,memory": newPlugin(b), "cpu,memory,gpu": newPlugin(b, gpu...)} {
		b.Run(name, func(b *testing.B) {
			s := compile(b, p, podOf("new", "cpu=4 memory=8Gi example.com/gpu=1"))
			b.ReportAllocs()
			for b.Loop() {
				for _, node := range views {
					kept = s.Score(node)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(views)), "ns/node")
		})
	}
}
