package volumezone

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var (
	pv, pvc, class = build.PersistentVolume, build.PersistentVolumeClaim, build.StorageClass
)

const (
	zone, region         = " label=topology.kubernetes.io/zone=", " label=topology.kubernetes.io/region="
	betaZone, betaRegion = " label=failure-domain.beta.kubernetes.io/zone=", " label=failure-domain.beta.kubernetes.io/region="
)

// cluster returns a state with a node n with labels such as zone+"z1", and objects.
func cluster(labels string, objects ...runtime.Object) *state.State {
	s := state.New()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", Labels: pv("n", labels).Labels}}
	plugintest.Set(s, append(objects, n)...)
	return s
}

func waiting(options ...build.PodOption) *model.Pod { return model.NewPod(build.Pod(options...)) }

// The rows Z are the worked examples of the plugin.
func TestFilter(t *testing.T) {
	const no = "UU node(s) had no available volume zone"
	for _, row := range []struct{ name, volume, node, want string }{
		{"Z1", zone + "z1", "", "fits"},
		{"Z2", zone + "z1__z2", zone + "z2", "fits"},
		{"Z3", zone + "z1", zone + "z3", no},
		{"Z4", zone + "z1", region + "r1", no},
		{"Z5", betaZone + "z1", zone + "z1", "fits"},
		{"Z5 another", betaZone + "z1", zone + "z2", no},
		{"Z6", zone + "z1", betaZone + "z1", no},
		{"Z7", zone + "z1__", zone + "z9", "skip"},
		{"Z8", "", zone + "z2", "skip"},
		{"Z9", zone + "z1" + region + "r1", zone + "z1" + region + "r2", no},
		{"both keys, both must hold", zone + "z1" + betaZone + "z2", zone + "z1", no},
		{"the node's beta label counts first", betaRegion + "r1", betaRegion + "r1" + region + "r2", "fits"},
	} {
		s := cluster(row.node, pv("v", row.volume), pvc("c", "bound=v"))
		if got := plugintest.Ruling(New(), waiting(build.Claims("c")), s.View(), s.View()); got != row.want {
			t.Errorf("row %s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestFilterNeedIn(t *testing.T) {
	s := cluster(zone+"z1"+region+"r1",
		pvc("none", ""), pvc("lost", "class=gone"), pvc("vague", "class=vague"), class("vague", "mode="), pvc("now", "class=now"),
		class("now", "mode=Immediate"), pvc("later", "class=later"), class("later", ""), pvc("vanished", "bound=gone"),
		pvc("z1", "bound=z1"), pv("z1", zone+"z1"), pvc("z2", "volume=z2"), pv("z2", zone+"z2"), pvc("r1", "bound=r1"), pv("r1", region+"r1"),
		pvc("p-scratch", "bound=gone owner=p"))
	for _, row := range []struct {
		name   string
		option build.PodOption
		want   string
	}{
		{"no volumes", build.Labels(""), "skip"},
		{"no claim", build.Disks("pd=disk"), "skip"},
		{"ephemeral", build.Ephemeral("scratch"), "skip"},
		{"Z10", build.Claims("later"), "skip"},
		{"no name", func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
		}, "pod: PersistentVolumeClaim had no name"},
		{"no claim of the name", build.Claims("z1 unknown"), `pod: persistentvolumeclaim "unknown" not found`},
		{"no class", build.Claims("later none"), "pod: PersistentVolumeClaim had no pv name and storageClass name"},
		{"no class of the name", build.Claims("lost"), `pod: storageclass.storage.k8s.io "gone" not found`},
		{"no mode", build.Claims("vague"), `pod: VolumeBindingMode not set for StorageClass "vague"`},
		{"immediate", build.Claims("now"), "pod: PersistentVolume had no name"},
		{"no volume of the name", build.Claims("vanished"), `pod: persistentvolume "gone" not found`},
		{"the first problem counts", build.Claims("vanished now"), `pod: persistentvolume "gone" not found`},
		{"one of two", build.Claims("z1 z2"), "UU node(s) had no available volume zone"},
		{"not bound yet, but named", build.Claims("z2"), "UU node(s) had no available volume zone"},
		{"both", build.Claims("r1 later z1 z1"), "fits"},
	} {
		if got := plugintest.Ruling(New(), waiting(row.option), s.View(), s.View()); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestNeed(t *testing.T) {
	s := cluster("", pv("a", zone+"z1"+region+"r"), pvc("a", "bound=a"), pv("b", zone+"z1"), pvc("b", "bound=b"), pv("c", region+"r"), pvc("c", "bound=c"),
		pv("d", zone+"z2__z1"), pvc("d", "bound=d"), pv("e", zone+"z1__z2__z1"), pvc("e", "bound=e"), pv("f", betaZone+"z1"), pvc("f", "bound=f"))
	for _, row := range []struct {
		name, one, other string
		equal            bool
	}{
		{"other claims, same zones", "a", "b c", true},
		{"order", "b c", "c b", true},
		{"repetition", "b b", "b", true},
		{"values are a set", "d", "e", true},
		{"more values", "b", "d", false},
		{"more labels", "a", "b", false},
		{"other label", "b", "f", false},
	} {
		one := plugintest.NeedIn(New(), waiting(build.Claims(row.one)), s.View())
		other := plugintest.NeedIn(New(), waiting(build.Claims(row.other)), s.View())
		if got := one == other; got != row.equal || one == "" {
			t.Errorf("%s: equal = %t, want %t: %s and %s", row.name, got, row.equal, one, other)
		}
	}
}

func TestEventsToRegister(t *testing.T) {
	volume := func(text string) model.Compiled { return model.NewVolume(pv("v", text)) }
	claim := func(name, text string) model.Compiled { return model.NewClaim(pvc(name, text)) }
	const add, update = model.Add, model.Update
	pod := waiting(build.Claims("c"), build.Ephemeral("scratch"))
	for _, row := range []struct {
		name        string
		resource    model.EventResource
		action      model.Action
		before, now model.Compiled
		want        bool
	}{
		{"class that waits", model.StorageClassEvent, add, nil, model.NewStorageClass(class("x", "")), true},
		{"class that does not", model.StorageClassEvent, add, nil, model.NewStorageClass(class("x", "mode=Immediate")), false},
		{"class without a mode", model.StorageClassEvent, add, nil, model.NewStorageClass(class("x", "mode=")), false},
		{"class updated", model.StorageClassEvent, update, model.NewStorageClass(class("x", "mode=Immediate")), model.NewStorageClass(class("x", "")), true},
		{"claim", model.PersistentVolumeClaimEvent, add, nil, claim("c", ""), true},
		{"claim updated", model.PersistentVolumeClaimEvent, update, claim("c", ""), claim("c", ""), true},
		{"other claim", model.PersistentVolumeClaimEvent, add, nil, claim("d", ""), false},
		{"claim of another namespace", model.PersistentVolumeClaimEvent, add, nil, claim("c", "namespace=other"), false},
		{"ephemeral claim", model.PersistentVolumeClaimEvent, add, nil, claim("p-scratch", ""), false},
		{"claim gone", model.PersistentVolumeClaimEvent, model.Delete, claim("c", ""), nil, false},
		{"volume", model.PersistentVolumeEvent, add, nil, volume(""), true},
		{"volume moved", model.PersistentVolumeEvent, update, volume(zone + "z1"), volume(zone + "z2"), true},
		{"volume moved into a zone", model.PersistentVolumeEvent, update, volume(""), volume(region + "r"), true},
		{"volume stays", model.PersistentVolumeEvent, update, volume(zone + "z1 phase=Released"), volume(zone + "z1"), false},
		{"volume stays in two zones", model.PersistentVolumeEvent, update, volume(zone + "z1__z2"), volume(zone + "z2__z1"), false},
		{"node", model.NodeEvent, add, nil, nil, true},
		{"node relabelled", model.NodeEvent, model.UpdateNodeLabel, nil, nil, true},
		{"node untainted", model.NodeEvent, model.UpdateNodeTaint, nil, nil, false},
	} {
		event := model.Event{Resource: row.resource, Action: row.action, OldObject: row.before, Object: row.now}
		if got := plugintest.Helped(t, New(), pod, event); got != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, got, row.want)
		}
		if found := plugintest.Found(New(), pod, event); row.resource == model.PersistentVolumeClaimEvent && found != row.want {
			t.Errorf("%s: found = %t, want %t", row.name, found, row.want)
		}
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	s := cluster(zone+"z1"+region+"r", pv("v", zone+"z1__z2"+region+"r2"), pvc("c", "bound=v"))
	found, _ := New().FilterNeedIn(s.View(), waiting(build.Claims("c")))
	need := found.Need
	filter := need.Compile()
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(s.Node(0)) }); allocs != 0 {
		t.Errorf("Filter allocates %v times", allocs)
	}
}
