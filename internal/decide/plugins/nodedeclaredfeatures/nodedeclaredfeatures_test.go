package nodedeclaredfeatures

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const (
	restart = "RestartAllContainersOnContainerExits"
	users   = "UserNamespacesHostNetworkSupport"
	mounts  = "VolumeBindMountOptions"
	mldsa   = "PodCertificateMLDSA"
	oci     = "SecurityProfileOCI"
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
		case mldsa:
			object.Spec.Volumes = []v1.Volume{certificate("MLDSA65")}
		case oci:
			object.Spec.Containers[0].SecurityContext = &v1.SecurityContext{SeccompProfile: ofType("OCI")}
		}
	}
	return model.NewPod(object)
}

// certificate returns a volume with a pod certificate.
func certificate(keyType string) v1.Volume {
	source := v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{KeyType: keyType}}
	return v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{}, source}}}}
}

func ofType(t v1.SeccompProfileType) *v1.SeccompProfile { return &v1.SeccompProfile{Type: t} }

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

// TestFeaturesOf138 matches pods that need a feature of 1.38. In 1.37 any node will do.
func TestFeaturesOf138(t *testing.T) {
	spec := func(s v1.PodSpec) *model.Pod { return model.NewPod(&v1.Pod{Spec: s}) }
	profiled := func(t v1.SeccompProfileType) []v1.Container {
		return []v1.Container{{}, {SecurityContext: &v1.SecurityContext{SeccompProfile: ofType(t)}}}
	}
	for _, row := range []struct {
		name  string
		pod   *model.Pod
		needs string // empty for none
	}{
		{"plain", pod(), ""},
		{"44", spec(v1.PodSpec{Volumes: []v1.Volume{certificate("MLDSA44")}}), mldsa},
		{"65", spec(v1.PodSpec{Volumes: []v1.Volume{certificate("MLDSA65")}}), mldsa},
		{"87", spec(v1.PodSpec{Volumes: []v1.Volume{{}, certificate("MLDSA87")}}), mldsa},
		{"another key", spec(v1.PodSpec{Volumes: []v1.Volume{certificate("ED25519")}}), ""},
		{"profile of the pod", spec(v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SeccompProfile: ofType("OCI")}}), oci},
		{"of a container", spec(v1.PodSpec{Containers: profiled("OCI")}), oci},
		{"of an init container", spec(v1.PodSpec{InitContainers: profiled("OCI")}), oci},
		{"of an ephemeral container", spec(v1.PodSpec{EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: &v1.SecurityContext{SeccompProfile: ofType("OCI")}}},
		}}), oci},
		{"another profile", spec(v1.PodSpec{Containers: profiled(v1.SeccompProfileTypeRuntimeDefault)}), ""},
	} {
		if !plugintest.FilterNeed(New(), row.pod).IsZero() {
			t.Errorf("%s: 1.37 requires a feature", row.name)
		}
		if skips := plugintest.FilterNeed(New38(), row.pod).IsZero(); skips != (row.needs == "") {
			t.Errorf("%s: skips = %t", row.name, skips)
		} else if !skips {
			filter := plugintest.Verdicts(New38(), row.pod)
			if filter.Filter(node()) == 0 || filter.Filter(node(users)) == 0 || filter.Filter(node(row.needs)) != 0 || filter.Filter(node(mldsa, oci)) != 0 {
				t.Errorf("%s: does not match nodes with %s alone", row.name, row.needs)
			}
		}
	}
}

// The library's own matching, which allocates, must give the same result, sorted or not.
func TestAgreesWithTheLibrary(t *testing.T) {
	p := New38()
	rapid.Check(t, func(t *rapid.T) {
		declared := rapid.SliceOf(rapid.SampledFrom(append(slices.Clone(p.known), "A", "Foo", "Zoo"))).Draw(t, "declared")
		waiting := pod(rapid.SliceOf(rapid.SampledFrom([]string{restart, users, mounts, mldsa, oci})).Draw(t, "required")...)
		want, err := p.library.MatchNode(p.required(&waiting.Object.Spec), object(declared...))
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
