package volumebinding

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// objectEvent returns the event for a version of an object; before is nil if the object
// is new.
func objectEvent(resource model.EventResource, before, now runtime.Object) model.Event {
	compiled := func(o runtime.Object) model.Compiled { return kinds.Of(o).Change(o.(kinds.Object)).Compiled }
	e := model.Event{Resource: resource, Action: model.Add, Object: compiled(now)}
	if before != nil {
		e.Action, e.OldObject = model.Update, compiled(before)
	}
	return e
}

func TestEvents(t *testing.T) {
	const migrated = "kubernetes.io/gce-pd"
	p := pod(naming("c"), build.Ephemeral("s"), build.Disks("csi=d"))
	tracking, silent := build.CSIDriver("d", "storageCapacity"), build.CSIDriver("d", "")
	size := func(text string) runtime.Object { return pool("a", "class=dp "+text, "everything") }
	for _, row := range []struct {
		name        string
		resource    model.EventResource
		before, now runtime.Object
		want        bool
	}{
		{"class added", model.StorageClassEvent, nil, class("x", ""), true},
		{"class, topologies", model.StorageClassEvent, class("x", ""), class("x", "", build.AllowedTopologies("z=1")), true},
		{"class, other topologies", model.StorageClassEvent, class("x", "", build.AllowedTopologies("z=2")), class("x", "", build.AllowedTopologies("z=1")), true},
		{"class, same topologies", model.StorageClassEvent, class("x", "", build.AllowedTopologies("z=1")), class("x", "provisioner=e", build.AllowedTopologies("z=1")), false},
		{"claim added", model.PersistentVolumeClaimEvent, nil, pvc("c", ""), true},
		{"claim changed", model.PersistentVolumeClaimEvent, pvc("c", ""), pvc("c", ""), true},
		{"claim of the ephemeral volume", model.PersistentVolumeClaimEvent, nil, pvc("p-s", ""), true},
		{"another claim", model.PersistentVolumeClaimEvent, nil, pvc("d", ""), false},
		{"claim of another namespace", model.PersistentVolumeClaimEvent, nil, pvc("c", "namespace=ns"), false},
		{"volume added", model.PersistentVolumeEvent, nil, pv("v", ""), true},
		{"volume changed", model.PersistentVolumeEvent, pv("v", ""), pv("v", ""), true},
		{"CSINode added", model.CSINodeEvent, nil, build.CSINode("n1", ""), true},
		{"CSINode, migrated", model.CSINodeEvent, build.CSINode("n1", ""), build.CSINode("n1", "", migrated), true},
		{"CSINode, migrated no more", model.CSINodeEvent, build.CSINode("n1", "", migrated), build.CSINode("n1", ""), true},
		{"CSINode, limits", model.CSINodeEvent, build.CSINode("n1", "d=1", migrated), build.CSINode("n1", "d=2", migrated), false},
		{"driver added", model.CSIDriverEvent, nil, silent, false},
		{"driver, no more tracking", model.CSIDriverEvent, tracking, silent, true},
		{"driver, tracking", model.CSIDriverEvent, silent, tracking, false},
		{"driver, as before", model.CSIDriverEvent, tracking, tracking, false},
		{"driver that may provision the claim", model.CSIDriverEvent, build.CSIDriver("e", "storageCapacity"), build.CSIDriver("e", ""), true},
		{"capacity added", model.CSIStorageCapacityEvent, nil, size(""), true},
		{"capacity, larger", model.CSIStorageCapacityEvent, size("capacity=1Gi"), size("capacity=2Gi"), true},
		{"capacity, smaller", model.CSIStorageCapacityEvent, size("capacity=2Gi"), size("capacity=1Gi"), false},
		{"capacity, equal", model.CSIStorageCapacityEvent, size("capacity=2Gi"), size("capacity=2Gi"), false},
		{"capacity, known", model.CSIStorageCapacityEvent, size(""), size("capacity=0"), true},
		{"capacity, unknown", model.CSIStorageCapacityEvent, size("capacity=1Gi"), size(""), false},
		{"capacity, the smaller of both", model.CSIStorageCapacityEvent, size("capacity=1Gi maximum=3Gi"), size("capacity=9Gi maximum=2Gi"), true},
		{"capacity, a smaller maximum", model.CSIStorageCapacityEvent, size("capacity=4Gi maximum=3Gi"), size("capacity=4Gi maximum=2Gi"), false},
		{"capacity, more in all", model.CSIStorageCapacityEvent, size("capacity=4Gi maximum=3Gi"), size("capacity=5Gi maximum=3Gi"), true},
		{"capacity, a larger maximum", model.CSIStorageCapacityEvent, size("capacity=9Gi maximum=2Gi"), size("capacity=9Gi maximum=3Gi"), true},
	} {
		if got := plugintest.Helped(t, &Plugin{}, p, objectEvent(row.resource, row.before, row.now)); got != row.want {
			t.Errorf("%s: woken: %t", row.name, got)
		}
	}
	gone := objectEvent(model.CSIDriverEvent, tracking, silent)
	gone.Action, gone.Object = model.Delete, nil
	if !plugintest.Helped(t, &Plugin{}, pod(naming("c")), gone) {
		t.Error("a pod with a claim is not woken when a driver that tracks capacity is gone")
	}
	if plugintest.Helped(t, &Plugin{}, pod(build.Disks("csi=e")), objectEvent(model.CSIDriverEvent, tracking, silent)) {
		t.Error("a pod with an inline volume of another driver is woken")
	}
	for _, row := range []struct {
		action model.Action
		want   bool
	}{{model.Add, true}, {model.UpdateNodeLabel, true}, {model.UpdateNodeTaint, false}, {model.UpdateNodeAllocatable, false}} {
		n := model.NewNode(build.Node("n"))
		if got := plugintest.Helped(t, &Plugin{}, p, model.Event{Resource: model.NodeEvent, Action: row.action, OldNode: n, Node: n}); got != row.want {
			t.Errorf("node, action %b: woken: %t", row.action, got)
		}
	}
	for _, resource := range []model.EventResource{model.VolumeAttachmentEvent, model.AssignedPodEvent} {
		if plugintest.Helped(t, &Plugin{}, p, model.Event{Resource: resource, Action: model.Delete}) {
			t.Errorf("woken by %v", resource)
		}
	}
}

// Pods with equal needs for a hint name the same claims, or drivers.
func TestAlike(t *testing.T) {
	for _, reg := range (&Plugin{}).EventsToRegister() {
		if reg.Alike == nil {
			continue
		}
		a, b := pod(naming("c"), build.Disks("csi=d")), pod(build.Named("q"), naming("c"), build.Disks("csi=d"))
		others := []*model.Pod{pod(naming("d"), build.Disks("csi=e")), pod(), pod(naming("c d"), build.Disks("csi=d csi=e"))}
		if reg.Resource == model.CSIDriverEvent { // any driver concerns pods with a claim
			a, b = pod(build.Disks("csi=d")), pod(build.Named("q"), build.Disks("csi=d"))
			others = append(others, pod(build.Disks("csi=e")))
		}
		if reg.Alike(a) != reg.Alike(b) {
			t.Errorf("%v: equal pods differ", reg.Resource)
		}
		for _, o := range others {
			if reg.Alike(a) == reg.Alike(o) {
				t.Errorf("%v: pods that differ are alike", reg.Resource)
			}
		}
	}
}
