package noderesourcesfit

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, newPlugin(t, nil), plugintest.Contract{
		Name: "NodeResourcesFit", FilterReads: model.Usage | model.Allocatable, ScoreReads: model.Usage | model.Allocatable,
		Events: []string{
			"AssignedPodDelete, hint", "AssignedPodUpdatePodScaleDown, hint, alike, cause", "TargetPodUpdatePodScaleDown",
			"NodeAdd NodeUpdateNodeAllocatable, hint, alike, cause",
			"resource.k8s.io/DeviceClassAdd resource.k8s.io/DeviceClassUpdate, hint, alike, cause",
		},
	})
}

const many = "cpu=1500m memory=20 ephemeral-storage=30 example.com/a=40 example.com/b=0"

// The texts of needs are compared literally: an incomplete text would let pods share a
// wrong column.
func TestTexts(t *testing.T) {
	p := newPlugin(t, strategy(configv1.LeastAllocated, "cpu=1 memory=1 example.com/a=1 example.com/none=1"))
	pod := model.NewPod(podOf(many))
	if got, want := plugintest.FilterNeed(p, pod).String(), `1500 20 30 "example.com/a"40`; got != want {
		t.Errorf("filter: got %s, want %s", got, want)
	}
	if got, want := plugintest.ScoreNeed(p, pod).String(), "asks 1500 20 40 0"; got != want {
		t.Errorf("score: got %s, want %s", got, want)
	}
	request := plugintest.Verdicts(p, pod).Request
	if request.CPUMilli != 1500 || request.MemoryBytes != 20 || request.EphemeralBytes != 30 || len(request.Scalars) != 1 || request.Scalars[0].Value != 40 {
		t.Errorf("the request is %+v", request)
	}
}

func TestCauses(t *testing.T) {
	p, pod := newPlugin(t, nil), model.NewPod(podOf(many))
	plugintest.Equal(t, "alike", plugintest.Alikes(p, pod),
		"occupies cpu memory ephemeral-storage example.com/a", "asks cpu=1500 memory=20 ephemeral-storage=30 example.com/a=40",
		"names example.com/a example.com/b")
	plugintest.Equal(t, "causes", plugintest.Causes(p, pod),
		`wants ":cpu"|":ephemeral-storage"|":example.com/a"|":memory"; keys none`,
		`wants ":cpu" & ":memory" & ":ephemeral-storage" & ""|":example.com/a" & ":pods"; keys "" ":cpu" ":ephemeral-storage" ":example.com/a" ":memory" ":pods"`,
		`wants ":example.com/a"|":example.com/b"; keys none`)
	nothing := model.NewPod(podOf(""))
	plugintest.Equal(t, "nothing alike", plugintest.Alikes(p, nothing), "occupies", "asks", "names")
	plugintest.Equal(t, "causes of nothing", plugintest.Causes(p, nothing), "wants none; keys none", `wants ":pods"; keys ":pods"`, "wants none; keys none")
}

func TestTouched(t *testing.T) {
	p := newPlugin(t, nil)
	const had = "cpu=2 memory=2 ephemeral-storage=2 pods=2 example.com/a=2"
	const has = `has ":cpu" ":ephemeral-storage" ":example.com/a" ":memory" ":pods"; seeks `
	for _, row := range []struct{ after, want string }{
		{had, has + "none"},
		{"cpu=3 memory=2 ephemeral-storage=2 pods=1 example.com/a=2", has + `":cpu"`},
		{"cpu=1 memory=3 ephemeral-storage=2 pods=2 example.com/a=3", has + `":example.com/a"|":memory"`},
		{"cpu=2 memory=2 ephemeral-storage=3 pods=3 example.com/a=1", has + `":ephemeral-storage"|":pods"`},
		{"cpu=2 pods=2 example.com/new=1", `has ":cpu" ":example.com/new" ":pods"; seeks ":example.com/new"`},
	} {
		plugintest.Equal(t, row.after, plugintest.Touched(p, nodeEvent(model.UpdateNodeAllocatable, had, row.after)), row.want)
	}
	plugintest.Equal(t, "added", plugintest.Touched(p, nodeEvent(model.Add, "", had)), has+"any")
	for _, row := range []struct{ after, want string }{
		{had, "has none; seeks any"},
		{"cpu=1 memory=2 ephemeral-storage=2 example.com/a=3", `has ":cpu"; seeks any`},
		{"cpu=3 memory=1 ephemeral-storage=1", `has ":ephemeral-storage" ":example.com/a" ":memory"; seeks any`},
	} {
		plugintest.Equal(t, row.after, plugintest.Touched(p, scaleDown(model.AssignedPodEvent, "n", had, row.after)), row.want)
	}
}

// TestExceeds has edge cases for each resource: requested or not, and larger by one or
// equal.
func TestExceeds(t *testing.T) {
	of := func(text string) *model.Resources { return &model.NewPod(podOf(text)).Asks }
	for _, name := range []string{"cpu", "memory", "ephemeral-storage", "example.com/a"} {
		for _, row := range []struct {
			asks, a, b string
			want       bool
		}{
			{"=1", "=3", "=2", true}, {"=1", "=2", "=2", false}, {"=1", "=2", "=3", false}, {"=0", "=3", "=2", false},
		} {
			if got := exceeds(of(name+row.asks), of(name+row.a), of(name+row.b)); got != row.want {
				t.Errorf("%s%s: %s more than %s: %t, want %t", name, row.asks, row.a, row.b, got, row.want)
			}
		}
		if !exceeds(&model.Resources{CPUMilli: 1, MemoryBytes: 1, EphemeralBytes: 1, Scalars: of("example.com/a=1").Scalars}, of(name+"=2"), of(name+"=1")) {
			t.Errorf("%s alone is not looked at", name)
		}
	}
	// The smallest request counts.
	if !exceeds(&model.Resources{CPUMilli: 1}, of("cpu=2"), of("cpu=1")) {
		t.Error("a request of 1m is not looked at")
	}
}

// TestScoreByEachResource has nodes that lack a resource, or all.
func TestScoreByEachResource(t *testing.T) {
	for _, kind := range []configv1.ScoringStrategyType{configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio} {
		args := strategy(kind, "cpu=1 memory=3")
		want := map[string]int32{"cpu=4": 75, "memory=400Mi": 50, "cpu=4 memory=400Mi": 56, "": 0}
		switch kind {
		case configv1.MostAllocated:
			want = map[string]int32{"cpu=4": 25, "memory=400Mi": 50, "cpu=4 memory=400Mi": 43, "": 0}
		case configv1.RequestedToCapacityRatio:
			args = strategy(kind, "cpu=1 memory=3", points(0, 0, 100, 10)...)
			want = map[string]int32{"cpu=4": 25, "memory=400Mi": 50, "cpu=4 memory=400Mi": 44, "": 0}
		}
		for size, score := range want {
			if got := scoreOf(t, args, podOf("cpu=1 memory=200Mi"), plugintest.Node(nodeOf(size))); got != score {
				t.Errorf("%s on %q: got %d, want %d", kind, size, got, score)
			}
		}
	}
}

// TestWideSets has as many scalars as fill whole bytes of a set, and one more. The same
// shortage has the same code; another shortage has another.
func TestWideSets(t *testing.T) {
	for _, count := range []int{27, 28, 29, 36, 37} {
		f := plugintest.Verdicts(newPlugin(t, nil), model.NewPod(podOf(manyScalars(count))))
		var codes []uint32
		for range 2 {
			for _, size := range []string{"pods=1", "pods=0", "pods=1 example.com/d00=1"} {
				n := nodeOf(size)
				codes = append(codes, uint32(f.Filter(plugintest.Node(n))))
			}
		}
		if codes[0] != codes[3] || codes[1] != codes[4] || codes[2] != codes[5] || codes[0] == codes[1] || codes[1] == codes[2] || codes[0] == codes[2] {
			t.Errorf("%d scalars: codes %v", count, codes)
		}
	}
}
