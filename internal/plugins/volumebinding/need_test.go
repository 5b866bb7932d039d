package volumebinding

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/model"
)

// needText returns the canonical text of what a pod with the claims asks of a node.
func (w *world) needText(t *testing.T, names string) string {
	t.Helper()
	need, rejection, err := w.plugin.FilterNeedIn(w.View(), pod(naming(names)))
	if need == nil || rejection != "" || err != nil {
		t.Fatalf("%s: %v, %q, %v", names, need, rejection, err)
	}
	return string(need.AppendText(nil))
}

// What very many nodes can use is not journalled on them, so it is part of the need, as far as it matters to the claim; what few nodes can use is not.
func TestNeedsHaveWhatIsWide(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, build.CSIDriver("d", "storageCapacity"), pvc("c", "class=dp storage=5Gi"), pvc("s", "class=np storage=5Gi"),
		pvc("o", "class=other"), class("other", "provisioner=e"))
	for i := range 60 {
		w.set(build.NodesInZones(fmt.Sprintf("m%d=z3", i))[0])
	}
	z3 := from(zone + " In z3")
	for _, row := range []struct {
		name, claim string
		change      runtime.Object
		differs     bool
	}{
		{"a capacity for very many", "c", pool("a", "class=dp capacity=9Gi", zone+"=z3"), true},
		{"another amount of it", "c", pool("a", "class=dp capacity=8Gi", zone+"=z3"), true},
		{"too little", "c", pool("a", "class=dp capacity=1Gi", zone+"=z3"), true},
		{"still too little", "c", pool("a", "class=dp capacity=2Gi", zone+"=z3"), false},
		{"a larger maximum than capacity", "c", pool("a", "class=dp capacity=2Gi maximum=6Gi", zone+"=z3"), true},
		{"a capacity for one node", "c", pool("b", "class=dp capacity=9Gi", "kubernetes.io/hostname=m1"), false},
		{"a capacity of another class", "c", pool("c", "class=other capacity=9Gi", "everything"), false},
		{"the driver does not track capacity", "c", build.CSIDriver("d", ""), true},
		{"a volume for very many", "s", pv("v", "class=np storage=6Gi", z3), true},
		{"a volume for all", "s", pv("w", "class=np storage=7Gi"), true},
		{"a smaller one", "s", pv("x", "class=np storage=5Gi"), true},
		{"a larger one of its kind, which is not taken", "s", pv("y", "class=np storage=8Gi"), false},
		{"one that is too small", "s", pv("z", "class=np storage=1Gi"), false},
		{"a volume for one node", "s", pv("l", "class=np storage=5Gi", on("m1")), false},
		{"a volume of another class", "s", pv("k", "class=other storage=5Gi"), false},
		{"one that is taken", "s", pv("x", "class=np storage=5Gi version=2 claim=default/d"), true},
		{"other topologies", "o", class("other", "provisioner=e", build.AllowedTopologies(zone+"=z3")), true},
	} {
		before := w.needText(t, row.claim)
		w.set(row.change)
		if after := w.needText(t, row.claim); (before != after) != row.differs {
			t.Errorf("%s: %q, then %q", row.name, before, after)
		}
	}
}

// Of volumes of equal size the first by name is taken, of whichever group. For several claims it matters which one that is: another claim may need it.
func TestNeedsOfSeveralClaimsNameVolumes(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("one", "class=np storage=5Gi"), pvc("two", "class=np storage=6Gi modes=RWX"),
		pv("a1", "class=np storage=10Gi"), pv("c1", "class=np storage=10Gi"), pv("c2", "class=np storage=10Gi"), pv("b1", "class=np storage=10Gi modes=RWO,RWX"))
	before, alone := w.needText(t, "one two"), w.needText(t, "one")
	if got := w.ruling(pod(naming("one two"))); got != "fits fits" {
		t.Errorf("with four volumes: %s", got)
	}
	w.set(pv("a1", "class=np storage=10Gi version=2 claim=default/other"))
	if after := w.needText(t, "one two"); after == before {
		t.Errorf("the need is the same: %q", after)
	}
	if got := w.ruling(pod(naming("one two"))); got != "conflict conflict" {
		t.Errorf("the smaller claim takes b1: %s", got)
	}
	if after := w.needText(t, "one"); after != alone {
		t.Errorf("one claim does not name volumes: %q, then %q", alone, after)
	}
}

// Which of the claims can be provisioned only where there is room is part of the need.
func TestNeedsSayWhichClaimsNeedRoom(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, class("ca", "provisioner=da"), class("cb", "provisioner=db"), pvc("a", "class=ca storage=1Gi"),
		pvc("b", "class=cb storage=1Gi"), build.CSIDriver("da", "storageCapacity"), build.CSIDriver("db", ""))
	before := w.needText(t, "a b")
	w.set(build.CSIDriver("da", ""), build.CSIDriver("db", "storageCapacity"))
	if after := w.needText(t, "a b"); after == before {
		t.Errorf("the need is the same: %q", after)
	}
}

// A need is kept with its columns, so it does not grow with the number of volumes that differ in what claims can ask for.
func TestNeedsAreShort(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("c", "class=np storage=5Gi"))
	for i := range 500 {
		volume := pv(fmt.Sprint("v", i), "class=np storage=10Gi")
		volume.Labels = map[string]string{"share": fmt.Sprint("s", i)}
		w.set(volume)
	}
	before := w.needText(t, "c")
	if len(before) > 2*wideMax {
		t.Errorf("the need takes %d bytes", len(before))
	}
	w.set(pv("v7", "class=np storage=10Gi version=2 claim=default/other"))
	if after := w.needText(t, "c"); after == before {
		t.Error("a volume is taken, and the need is the same")
	}
}

// Claims of equal demands have equal needs, whatever their names and those of their volumes.
func TestNeedsNameNothing(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("a", "bound=v"), pvc("b", "bound=w"), pv("v", "phase=Bound csi=d/1", from(zone+" In z1")),
		pv("w", "phase=Bound csi=d/2 storage=7Gi", from(zone+" In z1")), pvc("c", "class=np storage=5Gi"), pvc("d", "class=np storage=5Gi version=9"),
		pvc("e", "class=np storage=6Gi"), pv("meant", "class=np storage=9Gi claim=default/f"), pvc("f", "class=np storage=5Gi"))
	for _, row := range []struct {
		a, b  string
		equal bool
	}{{"a", "b", true}, {"c", "d", true}, {"a c", "b d", true}, {"a a", "b", true}, {"c", "e", false}, {"c c", "d", false}, {"c", "f", false}, {"a", "c", false}} {
		if (w.needText(t, row.a) == w.needText(t, row.b)) != row.equal {
			t.Errorf("%s and %s: %q, %q", row.a, row.b, w.needText(t, row.a), w.needText(t, row.b))
		}
	}
	if need, _, _ := w.plugin.FilterNeedIn(w.View(), model.NewPod(build.Pod())); need != nil {
		t.Error("a pod without claims has a need")
	}
}
