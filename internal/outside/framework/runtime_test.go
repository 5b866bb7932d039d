package framework_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/outside/framework"
	"github.com/berth-scheduler/berth/internal/outside/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// world is a cluster of nodes with room for 4 cpu each, an engine, and plugins from outside.
type world struct {
	testing.TB
	state     *state.State
	engine    *engine.Engine
	profile   *plugin.Profile
	runtime   *framework.Runtime
	activated []string
	nominated []string
}

func (w *world) Activate(pods []*v1.Pod) {
	for _, pod := range pods {
		w.activated = append(w.activated, pod.Name)
	}
}

func (w *world) Nominate(pod *v1.Pod, node string) {
	w.nominated = append(w.nominated, pod.Name+"@"+node)
}

const name = "default-scheduler"

func newWorld(t testing.TB, nodes int, plugins ...fwk.Plugin) *world {
	return newWorldWithin(t, 0, nodes, plugins...)
}

// newWorldWithin has another deadline than the default.
func newWorldWithin(t testing.TB, deadline time.Duration, nodes int, plugins ...fwk.Plugin) *world {
	w := &world{TB: t, state: state.New(), profile: enginetest.Profile(t, oracle.DefaultProfile())}
	w.profile.PostFilters = nil
	outside, err := framework.New(t.Context(), framework.Config{
		Profile: name, Deadline: deadline, Snapshot: snapshot.New(), Queue: w, Log: klog.Logger{},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.runtime = outside
	t.Cleanup(outside.Close)
	p := w.profile
	var binds []*framework.Binder
	for _, x := range plugins {
		if x, ok := x.(interface{ take(fwk.Handle) }); ok {
			x.take(outside.Handle())
		}
		points, err := outside.Adapt(x)
		if err != nil {
			t.Fatal(err)
		}
		p.PreFilters = add(p.PreFilters, points.PreFilter)
		if points.Filter != nil {
			p.Filters = append(p.Filters, points.Filter)
		}
		p.PostFilters = add(p.PostFilters, points.PostFilter)
		p.PreScores = add(p.PreScores, points.PreScore)
		if points.Score != nil {
			p.Scores = append(p.Scores, plugin.Weighted{Score: points.Score, Weight: 1000})
		}
		p.Reserve = add(p.Reserve, points.Reserve)
		p.Permit = add(p.Permit, points.Permit)
		p.PreBind = add(p.PreBind, points.PreBind)
		p.PostBind = add(p.PostBind, points.PostBind)
		if points.Bind != nil {
			binds = append(binds, points.Bind)
		}
	}
	outside.Attach(p, binds)
	if w.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		w.apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprintf("n%d", i), build.Allocatable("cpu=4 memory=32Gi pods=110")))})
	}
	return w
}

func add[P any](to []P, p P) []P {
	if any(p) == nil {
		return to
	}
	return append(to, p)
}

func (w *world) apply(changes ...model.Change) { w.state.Apply(changes) }

func (w *world) placed(name, node, cpu string) *model.Pod {
	pod := model.NewPod(w.object(name, cpu, build.NodeName(node)))
	w.apply(model.Change{Kind: model.PodSet, Pod: pod})
	return pod
}

func (w *world) object(name, cpu string, options ...build.PodOption) *v1.Pod {
	pod := build.Pod(append([]build.PodOption{build.Named(name), build.Container("cpu=" + cpu)}, options...)...)
	pod.Spec.SchedulerName, pod.UID = "default-scheduler", types.UID("uid-"+name)
	return pod
}

func (w *world) pod(name, cpu string, options ...build.PodOption) *model.Pod {
	pod := model.NewPod(w.object(name, cpu, options...))
	w.profile.Compile(pod)
	return pod
}

func (w *world) decide(pod *model.Pod) plan.Decision {
	return w.engine.Decide(w.state.View(), plan.WorkFor(pod))
}

// said describes a decision in a line.
func said(d *plan.Decision) string {
	switch d.Outcome {
	case plan.Placed:
		return "on " + d.Placements[0].NodeName
	case plan.Unschedulable:
		text := d.Rejection.Text(d.Nodes) + " " + strings.Join(d.Rejection.Plugins, ",")
		if d.PostFilter != "" {
			text += " " + d.PostFilter
		}
		return text
	}
	return fmt.Sprintf("%s: %v", d.Outcome, d.Err)
}

type named string

func (n named) Name() string { return string(n) }

func status(code fwk.Code, reasons ...string) *fwk.Status { return fwk.NewStatus(code, reasons...) }

type preFilters struct {
	named
	f func(state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status)
	x fwk.PreFilterExtensions
}

func (p *preFilters) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return p.f(state, pod, nodes)
}
func (p *preFilters) PreFilterExtensions() fwk.PreFilterExtensions { return p.x }

type filters struct {
	named
	f func(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
}

func (p *filters) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return p.f(ctx, state, pod, node)
}

// TestPreFilter has a plugin return every status.
func TestPreFilter(t *testing.T) {
	names := func(names ...string) *fwk.PreFilterResult {
		return &fwk.PreFilterResult{NodeNames: sets.New(names...)}
	}
	for _, test := range []struct {
		name   string
		result *fwk.PreFilterResult
		status *fwk.Status
		panics any
		want   string
	}{
		{"nil", nil, nil, nil, "on "},
		{"Success", nil, status(fwk.Success), nil, "on "},
		{"one node", names("n1"), nil, nil, "on n1"},
		{"no node", names(), nil, nil, "0/3 nodes are available: node(s) didn't satisfy plugin P. P"},
		{"Skip", names("n1"), status(fwk.Skip), nil, "on "},
		{"unresolvable", nil, status(fwk.UnschedulableAndUnresolvable, "a", "b"), nil, "0/3 nodes are available: a, b. P"},
		{"Unschedulable", nil, status(fwk.Unschedulable, "no"), nil, "0/3 nodes are available: no. P"},
		{"without a reason", nil, status(fwk.Unschedulable), nil, "0/3 nodes are available: plugin P gave no reason. P"},
		{"Pending", nil, status(fwk.Pending, "later"), nil, `failed: running PreFilter plugin "P": later`},
		{"Error", nil, fwk.AsStatus(errors.New("broken")), nil, `failed: running PreFilter plugin "P": broken`},
		{"Wait", nil, status(fwk.Wait), nil, `failed: running PreFilter plugin "P": returned Wait at PreFilter, which is unsupported`},
		{"a code out of range", nil, status(99), nil, `failed: running PreFilter plugin "P": returned the status code 99 at PreFilter`},
		{"a negative code", nil, status(-1), nil, `failed: running PreFilter plugin "P": returned the status code -1 at PreFilter`},
		{"a panic", nil, nil, "boom", `failed: running PreFilter plugin "P": plugin "P" at PreFilter: panicked: boom`},
	} {
		w := newWorld(t, 3, &preFilters{named: "P", f: func(_ fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
			if len(nodes) != 3 || pod.Name != "p" {
				t.Errorf("%s: called with pod %s and %d nodes", test.name, pod.Name, len(nodes))
			}
			if test.panics != nil {
				panic(test.panics)
			}
			return test.result, test.status
		}})
		d := w.decide(w.pod("p", "1"))
		if got := said(&d); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}

// TestFilter has a plugin return every status on n1, and reject n0.
func TestFilter(t *testing.T) {
	for _, test := range []struct {
		status *fwk.Status
		want   string
	}{
		{nil, "on n1"},
		{status(fwk.Success), "on n1"},
		{status(fwk.Unschedulable, "no"), "0/2 nodes are available: 2 no. P"},
		{status(fwk.UnschedulableAndUnresolvable, "never"), "0/2 nodes are available: 1 never, 1 no. P"},
		{status(fwk.Pending, "later"), "0/2 nodes are available: 1 later, 1 no. P"},
		{fwk.AsStatus(errors.New("broken")), `failed: running "P" filter plugin: broken`},
		{status(fwk.Wait, "x"), `failed: running "P" filter plugin: returned Wait at Filter, which is unsupported: it is supposed to return Success, Error, Unschedulable, UnschedulableAndUnresolvable or Pending: x`},
		{status(fwk.Skip), `failed: running "P" filter plugin: returned Skip at Filter`},
		{status(7), `failed: running "P" filter plugin: returned the status code 7 at Filter`},
	} {
		w := newWorld(t, 2, &filters{"P", func(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
			if node.Node().Name == "n0" {
				return status(fwk.Unschedulable, "no")
			}
			return test.status
		}})
		d := w.decide(w.pod("p", "1"))
		if got := said(&d); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
}

// TestHang has a Filter plugin hang on a node: the turn fails in time, and names it; the next turn is decided, whatever the late call does with what it
// was given.
func TestHang(t *testing.T) {
	release, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w := newWorldWithin(t, time.Second, 2, &filters{"P", func(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
		once.Do(func() {
			<-release
			pod.Labels = map[string]string{"late": "write"}
			state.Write("late", nil)
			_ = state.GetSkipFilterPlugins()
			if ctx.Err() == nil {
				t.Error("the context has not ended")
			}
			close(done)
		})
		return nil
	}})
	pod := w.pod("p", "1")
	d := w.decide(pod)
	if got, want := said(&d), `failed: running "P" filter plugin: plugin "P" at Filter: has not returned within 1s`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	close(release)
	for range 20 {
		d = w.decide(pod)
		if d.Outcome != plan.Placed {
			t.Error(said(&d))
		}
	}
	<-done
	if pod.Object.Labels["late"] != "" {
		t.Error("a plugin has written to the state's pod")
	}
}

// counts is a plugin that allows so many cpus on a node, by the NodeInfo, and so many pods in the cluster, by AddPod and RemovePod.
type counts struct {
	named
	handle   fwk.Handle
	pods     int
	extended []string
	post     func(p *counts, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status)
}

type counted struct{ pods int }

func (c *counted) Clone() fwk.StateData { clone := *c; return &clone }

func (p *counts) take(h fwk.Handle)                            { p.handle = h }
func (p *counts) PreFilterExtensions() fwk.PreFilterExtensions { return p }
func (p *counts) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c := &counted{}
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

// TestDryRuns has a pod nominated to a node, which a dry run adds: the plugin sees it by AddPod, and in the NodeInfo.
func TestDryRuns(t *testing.T) {
	p := &counts{named: "P", pods: 1}
	w := newWorld(t, 2, p)
	w.apply(model.Change{Kind: model.PodSet, Pod: w.pod("first", "1", build.NominatedNodeName("n0"))})
	d := w.decide(w.pod("p", "1"))
	if got, want := said(&d), "on n1"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if want := []string{"+1 first n0 1"}; !slices.Equal(p.extended, want) {
		t.Errorf("%q; want %q", p.extended, want)
	}
}

// TestPostFilter has a plugin return every status.
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

// TestFiltersDuringPostFilter has a plugin ask, from many goroutines, whether its pod fits without a victim, and after its PostFilter has returned.
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
	if got, want := said(&d), "0/3 nodes are available: 1 too many pods, 2 Insufficient cpu. NodeResourcesFit,P nothing"; got != want {
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

// scores is a plugin at PreScore and Score.
type scores struct {
	named
	pre       *fwk.Status
	score     func(node string) (int64, *fwk.Status)
	normalize func(list fwk.NodeScoreList) *fwk.Status
}

func (p *scores) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.pre
}
func (p *scores) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.score(node.Node().Name)
}
func (p *scores) ScoreExtensions() fwk.ScoreExtensions {
	if p.normalize == nil {
		return nil
	}
	return p
}
func (p *scores) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, list fwk.NodeScoreList) *fwk.Status {
	return p.normalize(list)
}

// TestScore has a plugin score nodes, and fail in every way.
func TestScore(t *testing.T) {
	best := func(node string) (int64, *fwk.Status) {
		if node == "n1" {
			return 100, nil
		}
		return 0, nil
	}
	points := func(n int64) func(string) (int64, *fwk.Status) {
		return func(string) (int64, *fwk.Status) { return n, nil }
	}
	for _, test := range []struct {
		p    scores
		want string
	}{
		{scores{score: best}, "on n1"},
		{scores{score: best, normalize: func(l fwk.NodeScoreList) *fwk.Status { return public.DefaultNormalizeScore(100, false, l) }}, "on n1"},
		{scores{pre: status(fwk.Skip), score: points(-7)}, "on "},
		{scores{pre: status(fwk.Unschedulable, "no"), score: best}, `failed: running PreScore plugin "P": no`},
		{scores{pre: status(fwk.Wait), score: best}, `failed: running PreScore plugin "P": returned Wait at PreScore`},
		{scores{score: func(string) (int64, *fwk.Status) { return 0, fwk.AsStatus(errors.New("broken")) }}, `failed: running Score plugins: plugin "P" failed with: broken`},
		{scores{score: points(5), normalize: func(fwk.NodeScoreList) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }}, `failed: running Normalize on Score plugins: plugin "P" failed with: broken`},
		{scores{score: points(101)}, `failed: applying score defaultWeights on Score plugins: plugin "P" returns an invalid score 101, it should in the range of [0, 100] after normalizing`},
		{scores{score: points(-1)}, `failed: applying score defaultWeights on Score plugins: plugin "P" returns an invalid score -1, it should in the range of [0, 100] after normalizing`},
		{scores{score: func(string) (int64, *fwk.Status) { panic("boom") }}, `failed: running Score plugins: plugin "P" failed with: plugin "P" at Score: panicked: boom`},
	} {
		test.p.named = "P"
		w := newWorld(t, 3, &test.p)
		d := w.decide(w.pod("p", "1"))
		if got := said(&d); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
}

// binds is a plugin from Reserve to PostBind that notes what it is called for.
type binds struct {
	named
	calls   *[]string
	does    map[string]*fwk.Status // by point
	timeout time.Duration
	alike   bool
	exits   bool // at PreBind, by runtime.Goexit
}

func (p *binds) call(point string, pod *v1.Pod, node string) *fwk.Status {
	text := p.Name() + " " + point
	if pod.Spec.NodeName != node || node != "n0" {
		text += " for a pod on " + pod.Spec.NodeName
	}
	*p.calls = append(*p.calls, text)
	pod.Annotations = map[string]string{"written": "by a plugin"}
	return p.does[point]
}

func (p *binds) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call("Reserve", pod, node)
}
func (p *binds) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.call("Unreserve", pod, node)
}
func (p *binds) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	return p.call("Permit", pod, node), p.timeout
}
func (p *binds) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: p.alike}, p.call("PreBindPreFlight", pod, node)
}
func (p *binds) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	if p.exits {
		runtime.Goexit()
	}
	return p.call("PreBind", pod, node)
}
func (p *binds) Bind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call("Bind", pod, node)
}
func (p *binds) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	p.call("PostBind", pod, node)
	if a, err := state.Read(public.PodsToActivateKey); err == nil {
		a := a.(*public.PodsToActivate)
		a.Lock()
		defer a.Unlock()
		a.Map["ns/after"] = &v1.Pod{}
		a.Map["ns/after"].Name = "after"
	}
}

// carryOut runs the calls of a placement's steps as commit does, and returns how it ended.
func carryOut(p *plan.Placement) string {
	ctx := context.Background()
	bound := false
	for i, step := range p.Steps {
		if step.Call == nil || bound && step.Stage == plan.Bind {
			continue
		}
		result := step.Call.(commit.Call).Run(ctx)
		bound = bound || step.Stage == plan.Bind && result.Err == nil && !result.Skipped
		if result.Err != nil {
			for _, undo := range slices.Backward(p.Steps[:i+1]) {
				if undo.UndoCall != nil {
					undo.UndoCall.(commit.Call).Run(ctx)
				}
			}
			return fmt.Sprintf("%s: %v (rejected: %v)", step.Stage, result.Err, result.Rejected)
		}
	}
	return fmt.Sprintf("bound by a plugin: %v", bound)
}

// TestFromReserveToPostBind has two plugins succeed, and the second return each status at each point. It compares what is called, in order.
func TestFromReserveToPostBind(t *testing.T) {
	at := func(point string, s *fwk.Status) map[string]*fwk.Status { return map[string]*fwk.Status{point: s} }
	const decided = "A Reserve,B Reserve,A Permit,B Permit,"
	const before = decided + "A PreBindPreFlight,B PreBindPreFlight,"
	const undone = ",B Unreserve,A Unreserve"
	for _, test := range []struct {
		does  map[string]*fwk.Status
		want  string
		calls string
	}{
		{nil, "bound by a plugin: true", before + "A PreBind,B PreBind,A Bind,A PostBind,B PostBind"},
		{at("Reserve", status(fwk.Unschedulable, "no")), "0/1 nodes are available: 1 no. B", "A Reserve,B Reserve" + undone},
		{at("Reserve", fwk.AsStatus(errors.New("broken"))), `failed: running Reserve plugin "B": broken`, "A Reserve,B Reserve" + undone},
		{at("Reserve", status(fwk.Skip)), `failed: running Reserve plugin "B": returned Skip at Reserve`, "A Reserve,B Reserve" + undone},
		{at("Permit", status(fwk.Unschedulable, "no")), "0/1 nodes are available: 1 no. B", strings.TrimSuffix(decided, ",") + undone},
		{at("Permit", fwk.AsStatus(errors.New("broken"))), `failed: running Permit plugin "B": broken`, strings.TrimSuffix(decided, ",") + undone},
		{at("PreBindPreFlight", status(fwk.Skip)), "bound by a plugin: true", before + "A PreBind,A Bind,A PostBind,B PostBind"},
		{at("PreBindPreFlight", fwk.AsStatus(errors.New("broken"))), `Reserve: running PreBindPreFlight "B": broken (rejected: false)`, strings.TrimSuffix(before, ",") + undone},
		{at("PreBindPreFlight", status(fwk.Unschedulable)), `Reserve: PreBindPreFlight B returned "Unschedulable", which is unsupported. It is supposed to return Success, Skip, or Error status (rejected: false)`, strings.TrimSuffix(before, ",") + undone},
		{at("PreBind", fwk.AsStatus(errors.New("broken"))), `PreBind: running PreBind plugin "B": broken (rejected: false)`, before + "A PreBind,B PreBind" + undone},
		{at("PreBind", status(fwk.Unschedulable, "no")), `PreBind: no (rejected: true)`, before + "A PreBind,B PreBind" + undone},
	} {
		var calls []string
		w := newWorld(t, 1, &binds{named: "A", calls: &calls}, &binds{named: "B", calls: &calls, does: test.does})
		pod := w.pod("p", "1")
		d := w.decide(pod)
		got := said(&d)
		if d.Outcome == plan.Placed {
			got = carryOut(&d.Placements[0])
		}
		if !strings.HasPrefix(got, test.want) || strings.Join(calls, ",") != test.calls {
			t.Errorf("%s; want %s\n%s; want\n%s", got, test.want, strings.Join(calls, ","), test.calls)
		}
		if pod.Object.Annotations != nil || pod.Object.Spec.NodeName != "" {
			t.Error("a plugin has written to the state's pod")
		}
		if active := strings.HasPrefix(got, "bound"); active != slices.Equal(w.activated, []string{"after"}) {
			t.Errorf("%s: activated %v", got, w.activated)
		}
	}
}

// TestExitInPreBind has one of two PreBind plugins that run at the same time end its goroutine.
func TestExitInPreBind(t *testing.T) {
	var calls, others []string
	w := newWorld(t, 1, &binds{named: "A", calls: &calls, alike: true, exits: true}, &binds{named: "B", calls: &others, alike: true})
	d := w.decide(w.pod("p", "1"))
	want := `PreBind: running PreBind plugin "A": plugin "A" at PreBind: called runtime.Goexit (rejected: false)`
	if got := carryOut(&d.Placements[0]); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// failingReserve is a built-in plugin.
type failingReserve struct{}

func (failingReserve) Name() string { return "BuiltIn" }
func (failingReserve) Reserve(state.View, *model.Pod, int32) ([]plan.Hold, error) {
	return nil, errors.New("broken")
}

// TestBuiltInReserveFails has a built-in plugin fail at Reserve before those from outside are asked: their Unreserve are called all the same.
func TestBuiltInReserveFails(t *testing.T) {
	var calls []string
	w := newWorld(t, 1, &binds{named: "A", calls: &calls}, &binds{named: "B", calls: &calls})
	w.profile.Reserve = slices.Insert(w.profile.Reserve, 0, plugin.Reserve(failingReserve{}))
	d := w.decide(w.pod("p", "1"))
	if got, want := said(&d), `failed: running Reserve plugin "BuiltIn": broken`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got, want := strings.Join(calls, ","), "B Unreserve,A Unreserve"; got != want {
		t.Errorf("calls: %s; want %s", got, want)
	}
}

// TestPermitWaits has a plugin wait, for less and for more than is allowed.
func TestPermitWaits(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 15 * time.Minute, 0: 1, -1: 1} {
		var calls []string
		w := newWorld(t, 1, &binds{named: "A", calls: &calls, does: map[string]*fwk.Status{"Permit": status(fwk.Wait)}, timeout: timeout})
		d := w.decide(w.pod("p", "1"))
		var waits []plan.Step
		for _, step := range d.Placements[0].Steps {
			if step.Wait != nil {
				waits = append(waits, step)
			}
		}
		if len(waits) != 1 || waits[0].Stage != plan.Permit || waits[0].Plugin != "A" || waits[0].Wait.Timeout != want {
			t.Errorf("%v: %+v; want %v", timeout, waits, want)
		}
	}
}

// TestBindInOrder has the first Bind plugin skip.
func TestBindInOrder(t *testing.T) {
	for _, test := range []struct {
		a, b *fwk.Status
		want string
	}{
		{status(fwk.Skip), nil, "bound by a plugin: true"},
		{status(fwk.Skip), status(fwk.Skip), "bound by a plugin: false"},
		{fwk.AsStatus(errors.New("broken")), nil, `Bind: running Bind plugin "A": broken (rejected: false)`},
		{status(fwk.Unschedulable, "no"), nil, `Bind: no (rejected: true)`},
		{status(77), nil, `Bind: running Bind plugin "A": returned the status code 77 at Bind`},
	} {
		var calls []string
		w := newWorld(t, 1, &binds{named: "A", calls: &calls, does: map[string]*fwk.Status{"Bind": test.a}},
			&binds{named: "B", calls: &calls, does: map[string]*fwk.Status{"Bind": test.b}})
		d := w.decide(w.pod("p", "1"))
		if got := carryOut(&d.Placements[0]); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
}

// TestNominator has a plugin change nominations: it sees that at once, and the queue is told.
func TestNominator(t *testing.T) {
	p := &counts{named: "P", pods: 9}
	w := newWorld(t, 2, p)
	first := w.pod("first", "1", build.NominatedNodeName("n0"))
	w.apply(model.Change{Kind: model.PodSet, Pod: first})
	w.decide(w.pod("p", "1"))
	on := func(node string) (names []string) {
		for _, p := range p.handle.NominatedPodsForNode(node) {
			names = append(names, p.GetPod().Name)
		}
		return names
	}
	if got := on("n0"); !slices.Equal(got, []string{"first"}) {
		t.Errorf("nominated to n0: %v", got)
	}
	info, err := public.NewPodInfo(w.object("second", "1"))
	if err != nil {
		t.Fatal(err)
	}
	p.handle.AddNominatedPod(klog.Logger{}, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n0"})
	if got := on("n0"); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("nominated to n0: %v", got)
	}
	p.handle.DeleteNominatedPodIfExists(first.Object)
	p.handle.DeleteNominatedPodIfExists(first.Object)
	p.handle.UpdateNominatedPod(klog.Logger{}, info.GetPod(), info)
	if got := on("n0"); !slices.Equal(got, []string{"second"}) {
		t.Errorf("nominated to n0: %v", got)
	}
	if want := []string{"second@n0", "first@", "second@n0"}; !slices.Equal(w.nominated, want) {
		t.Errorf("the queue was told %v, want %v", w.nominated, want)
	}
}

// foreignPods is a list of pods to activate of another package's type.
type foreignPods struct {
	sync.Mutex
	Map map[string]*v1.Pod
}

func (f *foreignPods) Clone() fwk.StateData { return f }

// TestActivation has a plugin leave pods in the CycleState, in lists of two types. They are activated if the pod is placed.
func TestActivation(t *testing.T) {
	for _, test := range []struct {
		foreign, placed bool
		want            []string
	}{{false, true, []string{"x", "y"}}, {true, true, []string{"x", "y"}}, {false, false, nil}, {true, false, nil}} {
		w := newWorld(t, 1, &preFilters{named: "P", f: func(state fwk.CycleState, _ *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
			data, err := state.Read(public.PodsToActivateKey)
			if err != nil {
				t.Fatal(err)
			}
			pods := data.(*public.PodsToActivate).Map
			if test.foreign {
				pods = map[string]*v1.Pod{}
				state.Write(public.PodsToActivateKey, &foreignPods{Map: pods})
			}
			for _, name := range []string{"y", "x"} {
				pods["ns/"+name] = &v1.Pod{}
				pods["ns/"+name].Name = name
			}
			if !test.placed {
				return nil, status(fwk.Unschedulable, "no")
			}
			return nil, nil
		}})
		w.decide(w.pod("p", "1"))
		if !slices.Equal(w.activated, test.want) {
			t.Errorf("%+v: activated %v", test, w.activated)
		}
	}
}

// stalls is a type of a plugin's own whose methods take long.
type stalls struct {
	fwk.NodeInfo
	fwk.PodInfo
	release chan struct{}
}

func (s stalls) GetPods() []fwk.PodInfo { <-s.release; return nil }
func (s stalls) GetPod() *v1.Pod        { <-s.release; return &v1.Pod{} }
func (s stalls) Node() *v1.Node         { return s.NodeInfo.Node() }
func (s stalls) Snapshot() fwk.NodeInfo { return s }

// TestStallingTypes has a PostFilter plugin hand the Handle types of its own whose methods do not return: the loop waits no longer than the deadline.
func TestStallingTypes(t *testing.T) {
	for name, stall := range map[string]func(h fwk.Handle, state fwk.CycleState, pod *v1.Pod, release chan struct{}){
		"RunFilterPlugins": func(h fwk.Handle, state fwk.CycleState, pod *v1.Pod, release chan struct{}) {
			nodes, _ := h.SnapshotSharedLister().NodeInfos().List()
			h.RunFilterPlugins(context.Background(), state, pod, stalls{NodeInfo: nodes[0], release: release})
		},
		"AddNominatedPod": func(h fwk.Handle, _ fwk.CycleState, _ *v1.Pod, release chan struct{}) {
			h.AddNominatedPod(klog.Logger{}, stalls{release: release}, nil)
		},
		"UpdateNominatedPod": func(h fwk.Handle, _ fwk.CycleState, pod *v1.Pod, release chan struct{}) {
			h.UpdateNominatedPod(klog.Logger{}, pod, stalls{release: release})
		},
	} {
		release, done := make(chan struct{}), make(chan struct{})
		p := &counts{named: "P"}
		p.post = func(p *counts, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
			stall(p.handle, state, pod, release)
			return nil, nil
		}
		w := newWorldWithin(t, 50*time.Millisecond, 1, p)
		go func() {
			defer close(done)
			for range 2 {
				w.decide(w.pod("p", "1"))
			}
		}()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Errorf("%s: the loop waits", name)
		}
		close(release)
		<-done
	}
}

// lateReserve is a plugin whose Reserve returns when it is told to.
type lateReserve struct {
	named
	release, undone chan struct{}
	reserved        atomic.Bool
}

func (p *lateReserve) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	<-p.release
	pod.Annotations = map[string]string{"written": "late"}
	p.reserved.Store(true)
	return nil
}

func (p *lateReserve) Unreserve(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	if p.reserved.Swap(false) && ctx.Err() == nil && pod.Spec.NodeName == node {
		close(p.undone)
	}
}

// TestLateReserve has a Reserve return after it was given up: it is undone, once, after it has returned. The other plugins' Unreserve run at once.
func TestLateReserve(t *testing.T) {
	var calls []string
	late := &lateReserve{named: "P", release: make(chan struct{}), undone: make(chan struct{})}
	w := newWorldWithin(t, 50*time.Millisecond, 1, &binds{named: "A", calls: &calls}, late, &binds{named: "B", calls: &calls})
	d := w.decide(w.pod("p", "1"))
	if got, want := said(&d), "failed: running Reserve plugin \"P\": plugin \"P\" at Reserve: has not returned within 50ms"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got, want := strings.Join(calls, ","), "A Reserve,B Unreserve,A Unreserve"; got != want {
		t.Errorf("calls: %s; want %s", got, want)
	}
	close(late.release)
	select {
	case <-late.undone:
	case <-time.After(10 * time.Second):
		t.Error("reserved for ever")
	}
}
