package noderesourcesfit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// exampleNode returns the node of design/rules/resources.md#fit-filter, with the given
// changes of its allocatable.
func exampleNode(changes string) state.Node {
	n := nodeOf("cpu=4 memory=8Gi pods=110 example.com/fpga=2")
	for name, q := range list(changes) {
		n.Status.Allocatable[name] = q
	}
	a, b := podOf("cpu=2 memory=1Gi"), podOf("cpu=1 memory=1Gi example.com/fpga=1")
	b.Name = "q"
	return plugintest.Node(n, a, b)
}

// verdictOf formats a filter's verdict: "fits", or the status and the reasons.
func verdictOf(f *plugin.Verdicts, node state.Node) string {
	code := f.Filter(node)
	switch {
	case code == reason.None:
		return "fits"
	case code.IsUnresolvable():
		return "UU " + strings.Join(f.Reasons(code), ", ")
	}
	return "U " + strings.Join(f.Reasons(code), ", ")
}

// The numbered rows come from design/rules/resources.md#fit-filter.
func TestFilter(t *testing.T) {
	resources := func(names ...string) *configv1.NodeResourcesFitArgs {
		return &configv1.NodeResourcesFitArgs{IgnoredResources: names}
	}
	groups := func(names ...string) *configv1.NodeResourcesFitArgs {
		return &configv1.NodeResourcesFitArgs{IgnoredResourceGroups: names}
	}
	for _, row := range []struct {
		name string
		args *configv1.NodeResourcesFitArgs
		node string // changes to the example node
		pod  string
		want string
	}{
		{"1", nil, "", "cpu=1000m", "fits"},
		{"2", nil, "", "cpu=1001m", "U Insufficient cpu"},
		{"3", nil, "", "cpu=4001m", "UU Insufficient cpu"},
		{"4", nil, "", "cpu=2000m memory=9Gi", "UU Insufficient cpu, Insufficient memory"},
		{"5", nil, "pods=2", "", "U Too many pods"},
		{"6", nil, "pods=2", "cpu=5000m", "UU Too many pods, Insufficient cpu"},
		{"7a", nil, "", "example.com/fpga=2", "U Insufficient example.com/fpga"},
		{"7b", nil, "", "example.com/fpga=3", "UU Insufficient example.com/fpga"},
		{"8", nil, "", "nvidia.com/gpu=1", "UU Insufficient nvidia.com/gpu"},
		{"9a", resources("nvidia.com/gpu"), "", "nvidia.com/gpu=1", "fits"},
		{"9b", groups("nvidia.com"), "", "nvidia.com/gpu=1", "fits"},
		{"11", resources("hugepages-2Mi"), "", "hugepages-2Mi=64Mi", "UU Insufficient hugepages-2Mi"},
		{"12a", nil, "cpu=2000m", "memory=1Gi", "fits"},
		{"12b", nil, "cpu=2000m", "cpu=1m", "U Insufficient cpu"},
		{"no pods allowed is curable", nil, "pods=0", "", "U Too many pods"},
		{"room for one more", nil, "pods=3", "", "fits"},
		{"ephemeral", nil, "ephemeral-storage=1Gi", "ephemeral-storage=1Gi", "fits"},
		{"ephemeral short", nil, "", "ephemeral-storage=1", "UU Insufficient ephemeral-storage"},
		{"memory short", nil, "", "memory=7Gi", "U Insufficient memory"},
		{"zero of an unknown device", nil, "", "nvidia.com/gpu=0 cpu=0", "fits"},
		{"huge pages", nil, "hugepages-2Mi=64Mi", "hugepages-2Mi=64Mi", "fits"},
		{"another resource ignored", resources("nvidia.com/other"), "", "nvidia.com/gpu=1", "UU Insufficient nvidia.com/gpu"},
		{"another group ignored", groups("nvidia"), "", "nvidia.com/gpu=1", "UU Insufficient nvidia.com/gpu"},
		{"native names cannot be ignored", groups("kubernetes.io"), "", "kubernetes.io/gpu=1", "UU Insufficient kubernetes.io/gpu"},
		{"cpu cannot be ignored", resources("cpu"), "", "cpu=5", "UU Insufficient cpu"},
		{"ignored beside checked", resources("a.io/x"), "", "a.io/x=1 b.io/y=1", "UU Insufficient b.io/y"},
		{"dropped names", nil, "", "foo=1 requests.x/y=1 storage=1 pods=500", "fits"},
		{"scalars by name", nil, "", "b.io/x=1 a.io/x=1 c.io/x=1 cpu=2 example.com/fpga=2",
			"UU Insufficient cpu, Insufficient a.io/x, Insufficient b.io/x, Insufficient c.io/x, Insufficient example.com/fpga"},
		{"everything", nil, "pods=0", "cpu=2 memory=7Gi ephemeral-storage=1 example.com/fpga=2",
			"UU Too many pods, Insufficient cpu, Insufficient memory, Insufficient ephemeral-storage, Insufficient example.com/fpga"},
	} {
		f := plugintest.Verdicts(newPlugin(t, row.args), model.NewPod(podOf(row.pod)))
		if got := verdictOf(f, exampleNode(row.node)); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// TestIfLess compares numbers whose difference overflows, too: a node whose usage is
// close to the limit has no room for a large request.
func TestIfLess(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	numbers := []int64{least, least + 1, -5, -1, 0, 1, 5, most - 1, most}
	for _, a := range numbers {
		for _, b := range numbers {
			want := reason.None
			if a < b {
				want = ^reason.None
			}
			if got := ifLess(a, b); got != want {
				t.Errorf("%d < %d: got %x, want %x", a, b, got, want)
			}
		}
	}
}

// manyScalars requests 1 of each of n devices.
func manyScalars(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "example.com/d%02d=1 ", i)
	}
	return text.String()
}

// A verdict has bits for 26 scalars; with more, the reasons must still be complete.
func TestFilterManyScalars(t *testing.T) {
	for _, count := range []int{25, 26, 27, 28, 100} {
		asks := manyScalars(count)
		last := fmt.Sprintf("example.com/d%02d", count-1)
		f := plugintest.Verdicts(newPlugin(t, nil), model.NewPod(podOf(asks+"cpu=2 memory=1Gi")))
		without := func(names ...string) state.Node {
			kept := slices.DeleteFunc(strings.Fields(asks), func(s string) bool { return slices.Contains(names, strings.TrimSuffix(s, "=1")) })
			return plugintest.Node(nodeOf("pods=1 cpu=2 memory=1Gi " + strings.Join(kept, " ")))
		}
		for range 2 { // the second time, all sets of shortages are known already
			for _, row := range []struct {
				node state.Node
				want string
			}{
				{without(), "fits"},
				{without("example.com/d00"), "UU Insufficient example.com/d00"},
				{without(last), "UU Insufficient " + last},
				{without("example.com/d07", last), "UU Insufficient example.com/d07, Insufficient " + last},
				{plugintest.Node(nodeOf("pods=0 cpu=2 memory=1Gi "+asks), podOf("cpu=1")), "U Too many pods, Insufficient cpu"},
				{plugintest.Node(nodeOf("pods=9 cpu=2 memory=1Gi "+asks), podOf(last+"=1")), "U Insufficient " + last},
				{plugintest.Node(nodeOf("pods=9 cpu=1 memory=1Gi "+asks), podOf(last+"=1")), "UU Insufficient cpu, Insufficient " + last},
			} {
				if got := verdictOf(f, row.node); got != row.want {
					t.Errorf("%d scalars: %q, want %q", count, got, row.want)
				}
			}
		}
	}
}

func TestWideFilterIsSafeForManyGoroutines(t *testing.T) {
	f := plugintest.Verdicts(newPlugin(t, nil), model.NewPod(podOf(manyScalars(40))))
	node := exampleNode("")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				f.Reasons(f.Filter(node))
			}
		})
	}
	all.Wait()
}

func TestFilterNeeds(t *testing.T) {
	need := func(pod *v1.Pod) model.Need { return plugintest.FilterNeed(newPlugin(t, nil), model.NewPod(pod)) }
	ignoring := newPlugin(t, &configv1.NodeResourcesFitArgs{IgnoredResourceGroups: []string{"a.io"}})
	overhead := podOf("cpu=1")
	overhead.Spec.Overhead = list("cpu=1")
	podLevel := podOf("cpu=1")
	podLevel.Spec.Resources = &v1.ResourceRequirements{Requests: list("cpu=2")}
	for _, row := range []struct {
		name string
		a, b model.Need
		same bool
	}{
		{"best effort has a need", need(podOf("")), model.Need{}, false},
		{"sums count", need(podOf("cpu=1", "cpu=1 memory=1Ki")), need(podOf("cpu=2000m memory=1024")), true},
		{"zeros do not", need(podOf("cpu=1 a.io/x=0 memory=0")), need(podOf("cpu=1")), true},
		{"overhead counts", need(overhead), need(podOf("cpu=2")), true},
		{"pod level counts", need(podLevel), need(podOf("cpu=2")), true},
		{"amounts", need(podOf("cpu=1")), need(podOf("cpu=2")), false},
		{"places", need(podOf("cpu=1m")), need(podOf("memory=1")), false},
		{"digits", need(podOf("cpu=1m memory=11")), need(podOf("cpu=11m memory=1")), false},
		{"names", need(podOf("a.io/x=1")), need(podOf("a.io/y=1")), false},
		{"scalar amounts", need(podOf("a.io/x=1")), need(podOf("a.io/x=2")), false},
		{"names that end in digits", need(podOf("a.io/x=11")), need(podOf("a.io/x1=1")), false},
		{"ignored scalars", plugintest.FilterNeed(ignoring, model.NewPod(podOf("a.io/x=1 b.io/x=1"))), plugintest.FilterNeed(ignoring, model.NewPod(podOf("b.io/x=1"))), true},
		{"others are not", plugintest.FilterNeed(ignoring, model.NewPod(podOf("b.io/x=1"))), plugintest.FilterNeed(ignoring, model.NewPod(podOf(""))), false},
	} {
		if (row.a == row.b) != row.same {
			t.Errorf("%s: needs %q and %q, equal should be %v", row.name, row.a, row.b, row.same)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	node := exampleNode("")
	pod := model.NewPod(podOf("cpu=2 memory=7Gi example.com/fpga=2 " + manyScalars(25)))
	f := plugintest.Verdicts(newPlugin(t, nil), pod)
	if allocs := testing.AllocsPerRun(100, func() { f.Filter(node) }); allocs != 0 {
		t.Errorf("Filter allocates %v times", allocs)
	}
	for _, s := range strategies {
		args := strategy(s, "cpu=1 memory=2 ephemeral-storage=3 example.com/fpga=4")
		if s == configv1.RequestedToCapacityRatio {
			args = strategy(s, "cpu=1 memory=2 ephemeral-storage=3 example.com/fpga=4", points(0, 0, 100, 10)...)
		}
		scorer, err := plugintest.NodeScores(newPlugin(t, args), pod)
		if err != nil {
			t.Fatal(err)
		}
		if allocs := testing.AllocsPerRun(100, func() { scorer.Score(node) }); allocs != 0 {
			t.Errorf("%s allocates %v times", s, allocs)
		}
	}
}
