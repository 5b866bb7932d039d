package dynamicresources

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// wide returns the slice of a pool that all nodes can use, with devices.
func wide(devices ...string) *resourcev1.ResourceSlice {
	s := slice("wide", devices...)
	s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true)
	return s
}

// askAll filters each node and records that, as when a column is filled.
func (w *world) askAll(f *verdicts) {
	for slot, alive := range w.State.Alive() {
		if alive {
			f.Filter(w.View().Node(int32(slot)))
		}
	}
	f.Filled(w.State)
}

// compiled returns the pod's verdicts after all nodes have been filtered.
func (w *world) compiled(t testing.TB, p *model.Pod) *verdicts {
	t.Helper()
	found, err := w.plugin.FilterNeedIn(w.View(), p)
	need, rejection := found.Need, found.Rejection
	if err != nil || rejection != "" {
		t.Fatal(rejection, err)
	}
	compiled := need.Compile()
	f := compiled.NodeVerdicts.(*verdicts)
	if compiled.Following != plugin.Following(f) {
		t.Fatal("the verdicts do not follow shared devices")
	}
	w.askAll(f)
	return f
}

// follow returns the names of the nodes that may have changed, and the number of nodes
// searched to find them.
func (w *world) follow(f plugin.Following) string {
	slots, asked := f.Follow(w.State, nil)
	var names []string
	for _, slot := range slots {
		names = append(names, w.View().Node(slot).Name())
	}
	slices.Sort(names)
	return fmt.Sprintf("%s asked %d", strings.Join(slices.Compact(names), " "), asked)
}

// TestFollow changes the use of a pool that all nodes can use. Only nodes with another
// result are named. One node of each list of equal nodes is searched, and none if nothing
// has changed. The nodes a and c are equal; b has a device of its own.
func TestFollow(t *testing.T) {
	taken := func(devices ...string) *resourcev1.ResourceClaim { return claim("o", 1, allocated("wide", devices...)) }
	type step struct {
		do   *resourcev1.ResourceClaim // a version of another claim
		want string
	}
	for _, row := range []struct {
		name  string
		count int64 // of devices that the pod's claim requests
		steps []step
	}{
		{"for one", 1, []step{
			{nil, " asked 0"},
			{taken("w0"), " asked 2"},
			{taken("w0"), " asked 0"},
			{taken("w0", "w1"), "a c asked 2"},
			{nil, " asked 0"},
			{taken("w1"), "a c asked 2"},
		}},
		{"for two", 2, []step{{taken("w0"), "a c asked 2"}, {taken("w0", "w1"), "b asked 2"}, {claim("o", 1), "a b c asked 2"}}},
		{"for three", 3, []step{{taken("w0"), "b asked 2"}, {taken("w1"), " asked 2"}, {claim("o", 1), "b asked 2"}}},
	} {
		w := newWorld(t, build.Node("c"), wide("w0", "w1"), slice("b", "d0"), claim("c", row.count))
		f := w.compiled(t, pod("p", "c"))
		for i, s := range row.steps {
			if s.do != nil {
				w.set(s.do)
			}
			if got := w.follow(f); got != s.want {
				t.Errorf("%s, step %d: %q, want %q", row.name, i, got, s.want)
			}
		}
	}
}

// TestFollowAfterAllAreAskedAgain filters all nodes again after a device is taken.
// Earlier results are not compared.
func TestFollowAfterAllAreAskedAgain(t *testing.T) {
	w := newWorld(t, wide("w0"), claim("c", 1))
	f := w.compiled(t, pod("p", "c"))
	w.set(claim("o", 1, allocated("wide", "w0")))
	w.askAll(f)
	if got, want := w.follow(f), " asked 0"; got != want {
		t.Errorf("nothing has changed since: %q, want %q", got, want)
	}
	w.set(claim("o", 1))
	if got, want := w.follow(f), "a b asked 1"; got != want {
		t.Errorf("the device is free again: %q, want %q", got, want)
	}
}

// TestFollowScores has the better of two alternatives taken: the nodes stay feasible, and
// their scores change.
func TestFollowScores(t *testing.T) {
	either := func(c *resourcev1.ResourceClaim) {
		r := resourcev1.DeviceRequest{Name: "r"}
		for _, sort := range []string{"fast", "slow"} {
			r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
				Name: sort, DeviceClassName: sort, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
			})
		}
		c.Spec.Devices.Requests = []resourcev1.DeviceRequest{r}
	}
	ofSort := func(s *resourcev1.ResourceSlice) *resourcev1.ResourceSlice {
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"sort": {StringValue: &s.Spec.Devices[i].Name}}
		}
		return s
	}
	w := newWorld(t, class("fast", `device.attributes["drv"].sort == "fast"`), class("slow", `device.attributes["drv"].sort == "slow"`), ofSort(wide("fast", "slow")), claim("c", 0, either))
	need, err := w.plugin.ScoreNeedIn(w.View(), pod("p", "c"))
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := need.Compile()
	if err != nil {
		t.Fatal(err)
	}
	scores := compiled.RawScores.(*scores)
	if compiled.Following != plugin.Following(scores) {
		t.Fatal("the scores do not follow shared devices")
	}
	slot, _ := w.Slot("a")
	if got := scores.Score(w.View().Node(slot)); got != 8 {
		t.Errorf("with both free: %d", got)
	}
	scores.Filled(w.State)
	w.set(claim("o", 1, allocated("wide", "fast")))
	if got, want := w.follow(scores), "a b asked 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := scores.Score(w.View().Node(slot)); got != 7 {
		t.Errorf("with the slow one free: %d", got)
	}
}

// TestFollowPatterns has nodes whose device plugins provide different subsets of four
// extended resources. For few subsets, one node is searched for each. For more, all nodes
// that can use the pool are named without a search.
func TestFollowPatterns(t *testing.T) {
	for _, row := range []struct {
		ways int
		// same is the result of a change without effect. less is the result of a change
		// that leaves devices for two resources only.
		same, less string
	}{
		{1, " asked 1", "a b asked 1"},
		{maxPatterns, " asked 8", "a b n1 n2 n3 n4 n5 n6 n7 asked 8"},
		{maxPatterns + 1, "a b n1 n2 n3 n4 n5 n6 n7 n8 asked 0", "a b n1 n2 n3 n4 n5 n6 n7 n8 asked 0"},
		{maxPatterns + 2, "a b n1 n2 n3 n4 n5 n6 n7 n8 n9 asked 0", "a b n1 n2 n3 n4 n5 n6 n7 n8 n9 asked 0"},
	} {
		w := newWorld(t, wide("w0", "w1", "w2", "w3", "w4"))
		asks := "c"
		for i := range 4 {
			w.set(byName(fmt.Sprint("r", i), fmt.Sprint("example.com/r", i), 0))
			asks += fmt.Sprintf(" example.com/r%d=1", i)
		}
		for way := 1; way < row.ways; way++ { // the nodes a and b provide none
			gives := "pods=110"
			for i := range 4 {
				if way&(1<<i) != 0 {
					gives += fmt.Sprintf(" example.com/r%d=1", i)
				}
			}
			w.set(build.Node(fmt.Sprint("n", way), func(n *v1.Node) { n.Status.Allocatable = build.Resources(gives) }))
		}
		f := w.compiled(t, requesting("p", asks))
		if got := w.follow(f); got != " asked 0" {
			t.Errorf("%d ways, nothing has changed: %q", row.ways, got)
		}
		w.set(claim("o", 1, allocated("wide", "w0")))
		if got := w.follow(f); got != row.same {
			t.Errorf("%d ways, no difference: %q, want %q", row.ways, got, row.same)
		}
		w.set(claim("o", 1, allocated("wide", "w0", "w1", "w2")))
		if got := w.follow(f); got != row.less {
			t.Errorf("%d ways, less: %q, want %q", row.ways, got, row.less)
		}
	}
}

// TestSharesDevices has needs that depend on devices shared by many nodes: all needs that
// search for devices.
func TestSharesDevices(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), claim("c", 1), claim("given", 1, allocated("a", "d0")))
	for _, row := range []struct {
		name string
		pod  *model.Pod
		want bool
	}{
		{"a claim without devices", pod("p", "c"), true},
		{"one of two claims without", pod("p", "given", "c"), true},
		{"a claim with devices", pod("p", "given"), false},
		{"an extended resource", requesting("p", "c example.com/gpu=1"), true},
	} {
		found, err := w.plugin.FilterNeedIn(w.View(), row.pod)
		if err != nil {
			t.Fatal(err)
		}
		if found.SharesDevices != row.want {
			t.Errorf("%s: %t", row.name, found.SharesDevices)
		}
	}
}

// TestWhatIsRememberedIsBounded fills the cache of a need. The cache is dropped instead
// of growing with each change of a large cluster, and answers stay right.
func TestWhatIsRememberedIsBounded(t *testing.T) {
	w := newWorld(t, wide("w0"), claim("c", 1))
	f := w.compiled(t, pod("p", "c"))
	for i := range uint64(maxFollowed) {
		f.followed[alikeNodes{list: 1<<32 + i}] = answer{}
	}
	w.set(claim("o", 1, allocated("wide", "w0")))
	if got, want := w.follow(f), "a b asked 1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if len(f.followed) > maxFollowed {
		t.Errorf("%d answers are followed", len(f.followed))
	}
	w.set(claim("o", 1, allocated("wide", "w0"), reserved("o")))
	if got, want := w.follow(f), " asked 0"; got != want {
		t.Errorf("nothing has changed: %q, want %q", got, want)
	}
}
