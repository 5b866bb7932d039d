package nodeunschedulable

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const key = v1.TaintNodeUnschedulable

func pod(tolerations ...v1.Toleration) *model.Pod {
	return model.NewPod(&v1.Pod{Spec: v1.PodSpec{Tolerations: tolerations}})
}

func node(unschedulable bool, taints ...v1.Taint) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       v1.NodeSpec{Unschedulable: unschedulable, Taints: taints},
	}
}

var (
	none       = pod()
	existsAny  = pod(v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
	equal      = pod(v1.Toleration{Key: key, Operator: v1.TolerationOpEqual, Effect: v1.TaintEffectNoSchedule})
	noOperator = pod(v1.Toleration{Key: key})
	noExecute  = pod(v1.Toleration{Key: key, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	everything = pod(v1.Toleration{Operator: v1.TolerationOpExists})
	withValue  = pod(v1.Toleration{Key: key, Operator: v1.TolerationOpEqual, Value: "true"})
	otherKey   = pod(v1.Toleration{Key: "other", Operator: v1.TolerationOpExists})
	greater    = pod(v1.Toleration{Key: key, Operator: v1.TolerationOpGt, Value: "-1"})
	second     = pod(v1.Toleration{Key: "other"}, v1.Toleration{Key: key})
	tainted    = node(false, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
)

func TestFilter(t *testing.T) {
	const no = "node(s) were unschedulable"
	for _, row := range []struct {
		name string
		pod  *model.Pod
		node *v1.Node
		want string
	}{
		{"schedulable, whatever its taints", none, tainted, ""},
		{"no tolerations", none, node(true), no},
		{"exists, any effect", existsAny, node(true), ""},
		{"equal to the empty value", equal, node(true), ""},
		{"no operator is equal", noOperator, node(true), ""},
		{"another effect", noExecute, node(true), no},
		{"everything is tolerated", everything, node(true), ""},
		{"another value", withValue, node(true), no},
		{"another key", otherKey, node(true), no},
		{"empty is no number", greater, node(true), no},
		{"the second one tolerates", second, node(true), ""},
	} {
		filter := plugintest.Verdicts(New(), row.pod)
		code := filter.Filter(plugintest.Node(row.node))
		var got string
		if code != 0 {
			got = filter.Reasons(code)[0]
		}
		if got != row.want || code != 0 && !code.IsUnresolvable() {
			t.Errorf("%s: got %x %q, want %q", row.name, code, got, row.want)
		}
	}
}

func TestNeed(t *testing.T) {
	p := New()
	for _, tolerant := range []*model.Pod{existsAny, equal, everything, second} {
		if need := plugintest.FilterNeed(p, tolerant); !need.IsZero() {
			t.Errorf("a pod that tolerates a cordon has the need %s", need)
		}
	}
	for _, intolerant := range []*model.Pod{noExecute, withValue, otherKey, greater} {
		if plugintest.FilterNeed(p, intolerant).IsZero() || plugintest.FilterNeed(p, intolerant) != plugintest.FilterNeed(p, none) {
			t.Error("pods that do not tolerate a cordon have different needs")
		}
	}
}

func TestEventsToRegister(t *testing.T) {
	nodeEvent := func(action model.Action, before, after *v1.Node) model.Event {
		e := model.Event{Resource: model.NodeEvent, Action: action, Node: model.NewNode(after)}
		if before != nil {
			e.OldNode = model.NewNode(before)
		}
		return e
	}
	podEvent := func(after *model.Pod) model.Event {
		return model.Event{Resource: model.TargetPodEvent, Action: model.UpdatePodToleration, OldPod: none, Pod: after}
	}
	for _, row := range []struct {
		name  string
		event model.Event
		want  bool
	}{
		{"cordoned node added", nodeEvent(model.Add, nil, node(true)), false},
		{"schedulable node added", nodeEvent(model.Add, nil, node(false)), true},
		{"uncordoned", nodeEvent(model.UpdateNodeTaint, node(true), node(false)), true},
		{"only taints changed", nodeEvent(model.UpdateNodeTaint, node(false), tainted), false},
		{"only taints changed under a cordon", nodeEvent(model.UpdateNodeTaint, node(true), node(true)), false},
		{"labels changed", nodeEvent(model.UpdateNodeLabel, node(true), node(false)), false},
		{"gains a toleration of another key", podEvent(otherKey), false},
		{"gains a toleration of cordons", podEvent(existsAny), true},
	} {
		helps := false
		for _, registration := range New().EventsToRegister() {
			helps = helps || registration.Helps(none, row.event)
		}
		if helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	filter, n := plugintest.Verdicts(New(), otherKey), plugintest.Node(node(true))
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(n) }); allocs != 0 {
		t.Errorf("Filter allocates %v times", allocs)
	}
}

func BenchmarkFilter(b *testing.B) {
	filter, n := plugintest.Verdicts(New(), none), plugintest.Node(node(true))
	b.ReportAllocs()
	for b.Loop() {
		filter.Filter(n)
	}
}
