package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// counts is a plugin that limits the cpus on a node, from the NodeInfo, and the pods in
// the cluster, from AddPod and RemovePod.
type counts struct {
	named
	handle   fwk.Handle
	pods     int
	extended []string
	pre      func() // at PreFilter
	post     func(p *counts, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status)
}

type counted struct{ pods int }

func (c *counted) Clone() fwk.StateData { clone := *c; return &clone }

func (p *counts) take(h fwk.Handle)                            { p.handle = h }
func (p *counts) PreFilterExtensions() fwk.PreFilterExtensions { return p }
func (p *counts) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c := &counted{}
	if p.pre != nil {
		p.pre()
	}
	for _, n := range nodes {
		c.pods += len(n.GetPods())
	}
	state.Write("counts", c)
	return nil, nil
}

func (p *counts) change(state fwk.CycleState, by int, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	c, err := state.Read("counts")
	if err != nil {
		return fwk.AsStatus(err)
	}
	c.(*counted).pods += by
	p.extended = append(p.extended, fmt.Sprintf("%+d %s %s %d", by, pod.GetPod().Name, node.Node().Name, len(node.GetPods())))
	return nil
}

func (p *counts) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.change(state, 1, pod, node)
}

func (p *counts) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, pod fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.change(state, -1, pod, node)
}

func (p *counts) Filter(_ context.Context, state fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	c, err := state.Read("counts")
	if err != nil {
		return fwk.AsStatus(err)
	}
	if c.(*counted).pods >= p.pods {
		return status(fwk.Unschedulable, "too many pods")
	}
	return nil
}

func (p *counts) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if p.post == nil {
		return nil, status(fwk.Unschedulable)
	}
	return p.post(p, state, pod, statuses)
}

// TestDryRuns has a pod that is nominated to a node, and that a dry run adds. The plugin
// gets it from AddPod, and in the NodeInfo.
func TestDryRuns(t *testing.T) {
	p := &counts{named: "P", pods: 1}
	w := newWorld(t, 2, p)
	w.apply(model.Change{Kind: model.PodSet, Pod: w.pod("first", "1", build.NominatedNodeName("n0"))})
	d := w.decide(w.pod("p", "1"))
	if got, want := describe(&d), "on n1"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if want := []string{"+1 first n0 1"}; !slices.Equal(p.extended, want) {
		t.Errorf("%q; want %q", p.extended, want)
	}
}

// TestPostFilter makes a plugin return every status.
func TestPostFilter(t *testing.T) {
	override := func(name string) *fwk.PostFilterResult {
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: name}}
	}
	for _, test := range []struct {
		result *fwk.PostFilterResult
		status *fwk.Status
		want   string
		node   string
		err    string
	}{
		{override("n0"), nil, "", "n0", ""},
		{override("n0"), status(fwk.Success, "made room"), "made room", "n0", ""},
		{override("n1"), status(fwk.Unschedulable, "a", "b"), "a, b", "n1", ""},
		{nil, status(fwk.UnschedulableAndUnresolvable, "never"), "never", "", ""},
		{&fwk.PostFilterResult{}, status(fwk.Unschedulable), "", "", ""},
		{nil, fwk.AsStatus(errors.New("broken")), "broken", "", "broken"},
		{nil, status(fwk.Skip), "returned Skip at PostFilter, which is unsupported: it is supposed to return Success, Error, Unschedulable, UnschedulableAndUnresolvable or Pending", "", "returned Skip"},
		{nil, status(42), "returned the status code 42 at PostFilter", "", "returned the status code 42"},
	} {
		w := newWorld(t, 2, &counts{named: "P", post: func(_ *counts, _ fwk.CycleState, _ *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
			if s := statuses.Get("n1"); s.Code() != fwk.Unschedulable || s.Plugin() != "P" || s.Message() != "too many pods" {
				t.Errorf("n1 was rejected with %v %s %s", s.Code(), s.Plugin(), s.Message())
			}
			return test.result, test.status
		}})
		d := w.decide(w.pod("p", "1"))
		node := ""
		if len(d.Nominations) > 0 {
			node = d.Nominations[0].NodeName
		}
		if !strings.HasPrefix(d.PostFilter, test.want) || node != test.node || (d.PostFilterErr != nil) != (test.err != "") {
			t.Errorf("%q, nominated to %q, %v; want %q, %q, %q", d.PostFilter, node, d.PostFilterErr, test.want, test.node, test.err)
		}
	}
}

// TestFiltersDuringPostFilter runs filters from many goroutines of a plugin, to check
// whether its pod fits without a victim, and again after its PostFilter has returned.
func TestFiltersDuringPostFilter(t *testing.T) {
	ctx := context.Background()
	p := &counts{named: "P", pods: 2}
	fits := map[string]string{}
	var ask func() *fwk.Status
	p.post = func(p *counts, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
		nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			t.Error(err)
		}
		var mu sync.Mutex
		p.handle.Parallelizer().Until(ctx, 8*len(nodes), func(i int) {
			info, cycle := nodes[i%len(nodes)].Snapshot(), state.Clone()
			text := p.handle.RunFilterPluginsWithNominatedPods(ctx, cycle, pod, info).Message()
			for _, victim := range slices.Clone(info.GetPods()) {
				if err := info.RemovePod(klog.Logger{}, victim.GetPod()); err != nil {
					t.Error(err)
				}
				mu.Lock() // p.extended
				if s := p.handle.RunPreFilterExtensionRemovePod(ctx, cycle, pod, victim, info); !s.IsSuccess() {
					t.Error(s)
				}
				mu.Unlock()
			}
			text += " / " + p.handle.RunFilterPlugins(ctx, cycle, pod, info).Message()
			mu.Lock()
			defer mu.Unlock()
			if was, ok := fits[info.Node().Name]; ok && was != text {
				t.Errorf("%s: %s; before: %s", info.Node().Name, text, was)
			}
			fits[info.Node().Name] = text
		}, "test")
		ask = func() *fwk.Status { return p.handle.RunFilterPlugins(ctx, state, pod, nodes[0]) }
		other := pod.DeepCopy()
		other.UID = "other"
		if s := p.handle.RunFilterPlugins(ctx, state, other, nodes[0]); !s.IsError() {
			t.Errorf("filters were run for another pod: %v", s)
		}
		return nil, status(fwk.Unschedulable, "nothing")
	}
	w := newWorld(t, 3, p)
	w.placed("a", "n0", "3")
	w.placed("b", "n1", "4")
	d := w.decide(w.pod("p", "4"))
	if got, want := describe(&d), "0/3 nodes are available: 1 too many pods, 2 Insufficient cpu. NodeResourcesFit,P nothing"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	want := map[string]string{"n0": "Insufficient cpu / ", "n1": "Insufficient cpu / ", "n2": "too many pods / too many pods"}
	for node := range want {
		if fits[node] != want[node] {
			t.Errorf("%s: %q; want %q", node, fits[node], want[node])
		}
	}
	if s := ask(); !s.IsError() || !strings.Contains(s.Message(), "during PostFilter") {
		t.Errorf("filters were run after PostFilter: %v", s)
	}
}
