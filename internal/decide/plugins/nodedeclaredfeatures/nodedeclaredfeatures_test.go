package nodedeclaredfeatures

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	library "k8s.io/component-helpers/nodedeclaredfeatures"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var (
	_ plugin.NodeFilter        = (*Plugin)(nil)
	_ plugin.EnqueueExtensions = (*Plugin)(nil)
)

const (
	restart = "RestartAllContainersOnContainerExits"
	users   = "UserNamespacesHostNetworkSupport"
	mounts  = "VolumeBindMountOptions"
)

// pod returns a pod that requires the features.
func pod(features ...string) *model.Pod {
	object := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{}}}}
	for _, feature := range features {
		switch feature {
		case restart:
			object.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
		case users:
			object.Spec.HostNetwork, object.Spec.HostUsers = true, new(bool)
		case mounts:
			object.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{BindMountOptions: []string{"x"}}}
		}
	}
	return model.NewPod(object)
}

func hostNetworkOnly() *model.Pod {
	return model.NewPod(&v1.Pod{Spec: v1.PodSpec{HostNetwork: true}})
}

func object(features ...string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{DeclaredFeatures: features}}
}

func node(features ...string) state.Node { return plugintest.Node(object(features...)) }

func TestFilter(t *testing.T) {
	for _, row := range []struct {
		name     string
		pod      *model.Pod
		declared []string
		skips    bool
		fits     bool
	}{
		{"plain", pod(), nil, true, true},
		{"required", pod(users), nil, false, false},
		{"declared", pod(users), []string{users}, false, true},
		{"host users unset", hostNetworkOnly(), nil, true, true},
		{"one of two declared", pod(users, mounts), []string{users}, false, false},
		{"both declared", pod(users, mounts), []string{users, mounts}, false, true},
		{"unknown names are ignored", pod(users), []string{"Foo", users, "Zoo"}, false, true},
		{"out of order", pod(users), []string{mounts, users}, false, false},
		{"another declared", pod(restart), []string{users}, false, false},
		{"restart", pod(restart), []string{restart, users}, false, true},
	} {
		if skips := plugintest.FilterNeed(New(), row.pod).IsZero(); skips != row.skips {
			t.Errorf("%s: skips = %t, want %t", row.name, skips, row.skips)
		}
		filter := plugintest.Verdicts(New(), row.pod)
		code := filter.Filter(node(row.declared...))
		if fits := code == 0; fits != row.fits {
			t.Errorf("%s: fits = %t, want %t", row.name, fits, row.fits)
		}
		if code != 0 && (!code.IsUnresolvable() || filter.Reasons(code)[0] != "node(s) didn't match Pod's required features") {
			t.Errorf("%s: rejected with %x %q", row.name, code, filter.Reasons(code))
		}
	}
}

// The library's own matching, which allocates, must give the same result, sorted or not.
func TestAgreesWithTheLibrary(t *testing.T) {
	p := New()
	rapid.Check(t, func(t *rapid.T) {
		declared := rapid.SliceOf(rapid.SampledFrom(append(slices.Clone(p.known), "A", "Foo", "Zoo"))).Draw(t, "declared")
		waiting := pod(rapid.SliceOf(rapid.SampledFrom([]string{restart, users, mounts})).Draw(t, "required")...)
		want, err := library.DefaultFramework.MatchNode(p.required(&waiting.Object.Spec), object(declared...))
		if err != nil {
			t.Fatal(err)
		}
		if got := plugintest.Verdicts(p, waiting).Filter(node(declared...)) == 0; got != want.IsMatch {
			t.Fatalf("got %t, want %t", got, want.IsMatch)
		}
	})
}

func TestNeed(t *testing.T) {
	p := New()
	if one, same := plugintest.FilterNeed(p, pod(users)), plugintest.FilterNeed(p, pod(users)); one != same || one == plugintest.FilterNeed(p, pod(mounts)) ||
		one == plugintest.FilterNeed(p, pod(users, mounts)) {
		t.Error("the need is not the set of required features")
	}
}

func TestEventsToRegister(t *testing.T) {
	waiting := pod(users)
	changed := func(before, after *v1.Node) model.Event {
		return model.Event{Resource: model.NodeEvent, Action: model.UpdateNodeDeclaredFeature, OldNode: model.NewNode(before), Node: model.NewNode(after)}
	}
	updated := func(action model.Action, after *model.Pod) model.Event {
		return model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: waiting, Pod: after}
	}
	for _, row := range []struct {
		name  string
		event model.Event
		want  bool
	}{
		{"an unrelated feature", changed(object(), object("Foo")), true},
		{"an equal list", changed(object(users), object(users)), false},
		{"a node without it", model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(object())}, true},
		{"labels of the pod", updated(model.UpdatePodLabel, pod(users)), false},
		{"an unspecific update", updated(model.Update, pod(users)), false},
		{"other requirements", updated(model.Update, pod()), true},
	} {
		helps := false
		for _, registration := range New().EventsToRegister() {
			helps = helps || registration.Helps(waiting, row.event)
		}
		if helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	filter, n := plugintest.Verdicts(New(), pod(users, mounts)), node("Foo", restart, users)
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(n) }); allocs != 0 {
		t.Errorf("Filter allocates %v times", allocs)
	}
}

func BenchmarkFilter(b *testing.B) {
	filter, n := plugintest.Verdicts(New(), pod(mounts)), node(New().known...)
	b.ReportAllocs()
	for b.Loop() {
		filter.Filter(n)
	}
}
