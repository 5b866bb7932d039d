package compat_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/framework/compat"
	ft "github.com/berth-scheduler/berth/framework/testing"
)

// asserts is a plugin that records where a value is not of kube-scheduler's type.
type asserts struct {
	t      *testing.T
	handle fwk.Handle
	asked  map[string]int
}

func (*asserts) Name() string { return "Asserts" }

// is checks the type of a value.
func is[T any](a *asserts, point string, value any) T {
	a.asked[point]++
	typed, ok := value.(T)
	if !ok {
		a.t.Errorf("%s: got %T, want %T", point, value, typed)
	}
	return typed
}

// node compares a NodeInfo with kube-scheduler's own for the same objects.
func (a *asserts) node(point string, value fwk.NodeInfo) {
	info := is[*kube.NodeInfo](a, point, value)
	if info == nil {
		return
	}
	want := kube.NewNodeInfo()
	for _, p := range info.Pods {
		want.AddPod(is[*kube.PodInfo](a, point, p).Pod)
	}
	want.SetNode(info.Node())
	for i, p := range want.Pods {
		if got := info.Pods[i]; !reflect.DeepEqual(got, p) {
			a.t.Errorf("%s: the PodInfo of %s is %+v, want %+v", point, p.GetPod().Name, got, p)
		}
	}
	want.Generation, want.ImageStates = info.Generation, info.ImageStates
	if !reflect.DeepEqual(info.SnapshotConcrete(), want) {
		a.t.Errorf("%s: the NodeInfo is\n%+v, want\n%+v", point, info, want)
	}
	is[*kube.Resource](a, point, info.GetRequested())
}

func (a *asserts) Less(x, y fwk.QueuedEntityInfo) bool {
	first, second := is[*kube.QueuedPodInfo](a, "Less", x), is[*kube.QueuedPodInfo](a, "Less", y)
	return first.Timestamp.Before(second.Timestamp) || first.Pod.Name < second.Pod.Name
}

func (a *asserts) PreFilter(_ context.Context, state fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	is[*kube.CycleState](a, "PreFilter", state)
	for _, n := range nodes {
		a.node("PreFilter", n)
	}
	return nil, nil
}

func (*asserts) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

func (a *asserts) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	is[*kube.CycleState](a, "Filter", state)
	a.node("Filter", node)
	if strings.HasPrefix(pod.Name, "refused") {
		return fwk.NewStatus(fwk.Unschedulable, "refused")
	}
	return nil
}

func (a *asserts) PostFilter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	is[*kube.NodeToStatus](a, "PostFilter", statuses)
	nodes, err := a.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		a.t.Error(err)
	}
	for _, n := range nodes {
		a.node("List", n)
	}
	node, err := a.handle.SnapshotSharedLister().NodeInfos().Get(nodes[0].Node().Name)
	if err != nil {
		a.t.Error(err)
	}
	a.node("Get", node)
	return nil, fwk.NewStatus(fwk.Unschedulable, "nothing to evict")
}

func (a *asserts) PreScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	for _, n := range nodes {
		a.node("PreScore", n)
	}
	return nil
}

func (a *asserts) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	a.node("Score", node)
	return 0, nil
}

func (*asserts) ScoreExtensions() fwk.ScoreExtensions { return nil }

// PostBind retries rejected pods through the CycleState.
func (a *asserts) PostBind(_ context.Context, state fwk.CycleState, _ *v1.Pod, _ string) {
	data, err := state.Read(kube.PodsToActivateKey)
	if err != nil {
		a.t.Error(err)
	}
	pods := is[*kube.PodsToActivate](a, "PostBind", data)
	pods.Lock()
	defer pods.Unlock()
	waiting, err := a.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods("default").Get("refused")
	if err != nil {
		a.t.Error(err)
	}
	pods.Map["default/refused"] = waiting
}

func (*asserts) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.CSINode, ActionType: fwk.Add}}}, nil
}

const profile = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {disabled: [{name: "*"}], enabled: [{name: Asserts}]}
    multiPoint: {enabled: [{name: Asserts}]}
`

// TestTypesAtEveryPoint has a plugin that asserts kube-scheduler's types wherever it gets
// a value.
func TestTypesAtEveryPoint(t *testing.T) {
	a := &asserts{t: t, asked: map[string]int{}}
	factory := func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		a.handle = h
		is[kube.Framework](a, "factory", h)
		h.SharedInformerFactory().Core().V1().Pods().Informer()
		return a, nil
	}
	nodes := []*v1.Node{
		ft.MakeNode().Name("a").Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "2"}).Obj(),
		ft.MakeNode().Name("b").Capacity(map[v1.ResourceName]string{"cpu": "4", "memory": "8Gi", "pods": "10"}).Obj(),
	}
	c := ft.NewCluster(t, nodes, []*v1.Pod{
		ft.MakePod().Name("placed").Node("a").Req(map[v1.ResourceName]string{"cpu": "1", "example.com/gpu": "1"}).
			PodAntiAffinityExists("team", "zone", ft.PodAntiAffinityWithRequiredReq).Obj(),
		ft.MakePod().Name("refused").Req(map[v1.ResourceName]string{"cpu": "1"}).Obj(),
		ft.MakePod().Name("web").Req(map[v1.ResourceName]string{"cpu": "1"}).Obj(),
	}, ft.WithPlugin("Asserts", factory, nil), ft.WithTypes(compat.Types()), ft.WithConfig(profile))
	c.Settle()
	for _, point := range []string{"factory", "Less", "PreFilter", "Filter", "PostFilter", "List", "Get", "PreScore", "Score", "PostBind"} {
		if a.asked[point] == 0 {
			t.Errorf("%s: the plugin has got no value", point)
		}
	}
}
