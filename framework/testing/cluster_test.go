package testing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	st "github.com/berth-scheduler/berth/framework/testing"
)

// nodes returns nodes of four CPUs.
func nodes(names ...string) []*v1.Node {
	var all []*v1.Node
	for _, name := range names {
		all = append(all, st.MakeNode().Name(name).Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj())
	}
	return all
}

func pod(name string) *st.PodWrapper { return st.MakePod().Name(name).Namespace("shop").UID(name) }

// factory returns a factory that keeps the Handle.
func factory[P fwk.Plugin](p P, keep func(fwk.Handle)) st.PluginFactory {
	return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		if keep != nil {
			keep(h)
		}
		return p, nil
	}
}

// quiet is a filter that passes only nodes with an annotation, and counts the pods of a
// lister.
type quiet struct {
	pods corelisters.PodLister
	seen []int
}

func (*quiet) Name() string { return "Quiet" }
func (*quiet) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAnnotation}}}, nil
}
func (q *quiet) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	pods, err := q.pods.List(labels.Everything())
	if err != nil {
		return fwk.AsStatus(err)
	}
	q.seen = append(q.seen, len(pods))
	if n.Node().Annotations["noise"] != "none" {
		return fwk.NewStatus(fwk.Unschedulable, "node is loud")
	}
	return nil
}

func TestFilterPlugin(t *testing.T) {
	q := &quiet{}
	c := st.NewCluster(t, nodes("a", "b"), nil, st.WithPlugin("Quiet", factory(q, func(h fwk.Handle) {
		q.pods = h.SharedInformerFactory().Core().V1().Pods().Lister()
	}), nil))
	r := c.Schedule(pod("web").Obj())
	if want := "0/2 nodes are available: 2 node is loud."; r.Node != "" || r.Bound || !strings.HasPrefix(r.Message, want) || !slices.Equal(r.Rejectors, []string{"Quiet"}) {
		t.Errorf("got %+v, want %q", r, want)
	}
	if len(q.seen) == 0 || slices.Min(q.seen) != 1 {
		t.Errorf("the lister has shown %v pods", q.seen)
	}
	better := nodes("b")[0]
	better.Annotations = map[string]string{"noise": "none"}
	c.Set(better)
	c.Advance(time.Minute) // until the backoff is over
	if r := c.Result(pod("web").Obj()); r.Node != "b" || !r.Bound || r.Message != "" || r.Attempts != 2 {
		t.Errorf("got %+v, want the pod on b", r)
	}
	if got, err := c.ClientSet().CoreV1().Pods("shop").Get(t.Context(), "web", metav1.GetOptions{}); err != nil || got.Spec.NodeName != "b" {
		t.Errorf("the clientset has %v, %v", got, err)
	}
	var reasons []string
	for _, e := range c.Events() {
		reasons = append(reasons, e.Reason)
	}
	if want := []string{"FailedScheduling", "Scheduled"}; !slices.Equal(reasons, want) {
		t.Errorf("events %v, want %v", reasons, want)
	}
}

// favours is a Score plugin that prefers one node.
type favours string

func (favours) Name() string { return "Favours" }
func (f favours) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, n fwk.NodeInfo) (int64, *fwk.Status) {
	if n.Node().Name == string(f) {
		return fwk.MaxScore, nil
	}
	return 0, nil
}
func (favours) ScoreExtensions() fwk.ScoreExtensions { return nil }

// nameArgs are arguments.
type nameArgs struct {
	metav1.TypeMeta
	Node string
}

func (a *nameArgs) DeepCopyObject() runtime.Object { b := *a; return &b }

func TestScorePlugin(t *testing.T) {
	f := func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
		return favours(args.(*nameArgs).Node), nil
	}
	for _, want := range []string{"a", "b", "c"} {
		c := st.NewCluster(t, nodes("a", "b", "c"), nil, st.WithPlugin("Favours", f, &nameArgs{Node: want}), st.WithConfig(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {score: {enabled: [{name: Favours, weight: 100}]}}
`))
		for i := range 3 {
			if r := c.Schedule(pod(fmt.Sprint("web-", i)).Obj()); r.Node != want || !r.Bound {
				t.Errorf("got %+v, want %s", r, want)
			}
		}
	}
}

// gang is a Permit plugin that allows pods once size of them wait.
type gang struct {
	h    fwk.Handle
	size int
	mu   sync.Mutex
	undo []string
}

func (*gang) Name() string { return "Gang" }
func (g *gang) Permit(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	waiting := 1
	g.h.IterateOverWaitingPods(func(fwk.WaitingPod) { waiting++ })
	if waiting < g.size {
		return fwk.NewStatus(fwk.Wait), 30 * time.Second
	}
	g.h.IterateOverWaitingPods(func(w fwk.WaitingPod) { w.Allow("Gang") })
	return nil, 0
}
func (*gang) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.Delete}}}, nil
}
func (g *gang) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }
func (g *gang) Unreserve(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.undo = append(g.undo, p.Name)
}

func TestPermitPluginThatWaits(t *testing.T) {
	g := &gang{size: 3}
	c := st.NewCluster(t, nodes("a", "b"), nil, st.WithPlugin("Gang", factory(g, func(h fwk.Handle) { g.h = h }), nil))
	for _, name := range []string{"one", "two"} {
		if r := c.Schedule(pod(name).Obj()); r.Node == "" || r.Bound || !slices.Equal(r.Waiting, []string{"Gang"}) || r.Nominated != r.Node {
			t.Errorf("%s: got %+v, want it to wait", name, r)
		}
	}
	if r := c.Schedule(pod("three").Obj()); !r.Bound {
		t.Errorf("three: got %+v, want it bound", r)
	}
	for _, name := range []string{"one", "two"} {
		if r := c.Result(pod(name).Obj()); !r.Bound || r.Waiting != nil {
			t.Errorf("%s: got %+v, want it bound", name, r)
		}
	}

	c.Schedule(pod("four").Obj()) // it times out
	c.Advance(30 * time.Second)
	if r := c.Result(pod("four").Obj()); r.Bound || r.Waiting != nil || !slices.Equal(r.Rejectors, []string{"Gang"}) || !strings.Contains(r.Message, "timeout") {
		t.Errorf("four: got %+v, want it rejected", r)
	}
	c.Schedule(pod("five").Obj()) // it is rejected by the test
	if !c.Handle("default-scheduler").RejectWaitingPod("five") {
		t.Error("five does not wait")
	}
	c.Settle()
	if r := c.Result(pod("five").Obj()); r.Bound || r.Waiting != nil {
		t.Errorf("five: got %+v, want it rejected", r)
	}
	if want := []string{"four", "five"}; !slices.Equal(g.undo, want) {
		t.Errorf("unreserved %v, want %v", g.undo, want)
	}
}

// evicts is a PostFilter plugin that deletes, through the client, all pods of the first
// node on which the pod then fits.
type evicts struct{ h fwk.Handle }

func (*evicts) Name() string { return "Evicts" }
func (e *evicts) PostFilter(ctx context.Context, state fwk.CycleState, p *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	infos, err := e.h.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	for _, info := range infos {
		trial, changed := info.Snapshot(), state.Clone()
		for _, victim := range info.GetPods() {
			if err := trial.RemovePod(klog.FromContext(ctx), victim.GetPod()); err != nil {
				return nil, fwk.AsStatus(err)
			}
			e.h.RunPreFilterExtensionRemovePod(ctx, changed, p, victim, trial)
		}
		if !e.h.RunFilterPluginsWithNominatedPods(ctx, changed, p, trial).IsSuccess() {
			continue
		}
		for _, victim := range info.GetPods() {
			if err := e.h.ClientSet().CoreV1().Pods(victim.GetPod().Namespace).Delete(ctx, victim.GetPod().Name, metav1.DeleteOptions{}); err != nil {
				return nil, fwk.AsStatus(err)
			}
			e.h.EventRecorder().Eventf(victim.GetPod(), nil, v1.EventTypeNormal, "Preempted", "Preempting", "for %s", p.Name)
		}
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: info.Node().Name}}, nil
	}
	return nil, fwk.NewStatus(fwk.Unschedulable, "nothing to evict")
}

func TestPostFilterPlugin(t *testing.T) {
	e := &evicts{}
	c := st.NewCluster(t, nodes("a"), []*v1.Pod{
		pod("old").Node("a").Req(map[v1.ResourceName]string{"cpu": "3"}).Obj(),
	}, st.WithPlugin("Evicts", factory(e, func(h fwk.Handle) { e.h = h }), nil), st.WithConfig(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {postFilter: {enabled: [{name: Evicts}], disabled: [{name: DefaultPreemption}]}}
`))
	web := pod("web").Req(map[v1.ResourceName]string{"cpu": "2"}).Obj()
	r := c.Schedule(web)
	if r.Node != "" || r.Nominated != "a" || !slices.Equal(r.Victims, []string{"shop/old"}) || r.Err != nil {
		t.Errorf("got %+v, want old evicted", r)
	}
	if old := c.Pod("shop", "old"); old == nil || old.DeletionTimestamp == nil {
		t.Errorf("old is %v, want it to terminate", old)
	}
	c.Advance(time.Minute)
	if r := c.Result(web); r.Node != "a" || !r.Bound {
		t.Errorf("got %+v, want it on a", r)
	}
	huge := c.Schedule(pod("huge").Req(map[v1.ResourceName]string{"cpu": "5"}).Obj())
	if want := "nothing to evict"; !strings.Contains(huge.Message, want) || huge.Victims != nil {
		t.Errorf("got %+v, want %q", huge, want)
	}
	if events := c.Events(); events[len(events)-1] != (st.Event{Pod: "shop/old", Type: "Normal", Reason: "Preempted", Action: "Preempting", Note: "for web", Count: 1}) {
		t.Errorf("the last event is %+v", events[len(events)-1])
	}
}

// binder binds pods through the client, and hangs first for some.
type binder struct{ h fwk.Handle }

func (*binder) Name() string { return "Binder" }
func (*binder) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}
func (b *binder) PreBind(_ context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	switch p.Labels["how"] {
	case "fails":
		return fwk.AsStatus(errors.New("no volume"))
	case "panics":
		panic("oh")
	}
	return nil
}
func (b *binder) Bind(ctx context.Context, _ fwk.CycleState, p *v1.Pod, nodeName string) *fwk.Status {
	if p.Labels["how"] == "skips" {
		return fwk.NewStatus(fwk.Skip)
	}
	return fwk.AsStatus(b.h.ClientSet().CoreV1().Pods(p.Namespace).Bind(ctx, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: v1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{}))
}

func TestBindPlugin(t *testing.T) {
	b := &binder{}
	c := st.NewCluster(t, nodes("a"), nil, st.WithPlugin("Binder", factory(b, func(h fwk.Handle) { b.h = h }), nil), st.WithConfig(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    preBind: {enabled: [{name: Binder}]}
    bind: {enabled: [{name: Binder}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`))
	for how, wrong := range map[string]string{"binds": "", "skips": "", "fails": "no volume", "panics": "panicked: oh"} {
		r := c.Schedule(pod(how).Label("how", how).Obj())
		if r.Bound != (wrong == "") || wrong != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), wrong) || !strings.Contains(r.Message, `"Binder"`)) {
			t.Errorf("%s: got %+v, want %q", how, r, wrong)
		}
	}
}

// hangs never returns.
type hangs struct{ until chan struct{} }

func (*hangs) Name() string { return "Hangs" }
func (h *hangs) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	<-h.until
	return nil
}

func TestDeadline(t *testing.T) {
	h := &hangs{until: make(chan struct{})}
	defer close(h.until)
	c := st.NewCluster(t, nodes("a"), nil, st.WithPlugin("Hangs", factory(h, nil), nil), st.WithDeadline(10*time.Millisecond))
	if r := c.Schedule(pod("web").Obj()); r.Err == nil || !strings.Contains(r.Err.Error(), "has not returned within 10ms") {
		t.Errorf("got %+v, want the deadline", r)
	}
}

// TestWithoutPlugins schedules with the built-in plugins alone, and follows writes of
// clients.
func TestWithoutPlugins(t *testing.T) {
	c := st.NewCluster(t, nodes("a"), nil)
	big := map[v1.ResourceName]string{"cpu": "4"}
	if _, err := c.ClientSet().CoreV1().Pods("shop").Create(t.Context(), pod("low").Req(big).Priority(1).Obj(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Settle()
	if r := c.Result(pod("low").Obj()); r.Node != "a" {
		t.Errorf("low: %+v", r)
	}
	high := pod("high").Req(big).Priority(9).Obj()
	if r := c.Schedule(high); r.Nominated != "a" || !slices.Equal(r.Victims, []string{"shop/low"}) {
		t.Errorf("high: %+v", r)
	}
	c.Advance(time.Minute)
	if r := c.Result(high); !r.Bound {
		t.Errorf("high: %+v", r)
	}
	c.Delete(high)
	if c.Pod("shop", "high") != nil {
		t.Error("high is not gone")
	}
}
