package volumebinding

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// needText returns the canonical text of the demands of a pod with the claims.
func (w *world) needText(t *testing.T, names string) string {
	t.Helper()
	found, err := w.plugin.FilterNeedIn(w.View(), pod(naming(names)))
	need, rejection := found.Need, found.Rejection
	if need == nil || rejection != "" || err != nil {
		t.Fatalf("%s: %v, %q, %v", names, need, rejection, err)
	}
	return string(need.AppendText(nil))
}

// Storage that very many nodes can use is not journalled, so its relevant part is in the
// need. Storage that few nodes can use is not in the need.
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
		{"less than the maximum", "c", pool("a", "class=dp capacity=2Gi maximum=6Gi", zone+"=z3"), false},
		{"enough below the maximum", "c", pool("a", "class=dp capacity=6Gi maximum=9Gi", zone+"=z3"), true},
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

// Of volumes of equal size the first by name is taken, in any group. With several claims
// the name matters, since another claim may need that volume.
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

// The need includes which claims can be provisioned only from tracked capacity.
func TestNeedsSayWhichClaimsNeedRoom(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, class("ca", "provisioner=da"), class("cb", "provisioner=db"), pvc("a", "class=ca storage=1Gi"),
		pvc("b", "class=cb storage=1Gi"), build.CSIDriver("da", "storageCapacity"), build.CSIDriver("db", ""))
	before := w.needText(t, "a b")
	w.set(build.CSIDriver("da", ""), build.CSIDriver("db", "storageCapacity"))
	if after := w.needText(t, "a b"); after == before {
		t.Errorf("the need is the same: %q", after)
	}
}

// A need is kept with its columns, so it must not grow with the cluster. Volumes that
// differ in name and labels count once, and a text longer than maxWide is hashed.
func TestNeedsAreShort(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("c", "class=np storage=5Gi"), pvc("p", "class=dp storage=5Gi"), build.CSIDriver("d", "storageCapacity"))
	for i := range 60 {
		w.set(build.NodesInZones(fmt.Sprintf("m%d=z3", i))[0])
	}
	labelled := func(name, more string) runtime.Object {
		volume := pv(name, "class=np storage=10Gi "+more)
		volume.Labels = map[string]string{"share": name}
		return volume
	}
	for i := range 500 {
		w.set(labelled(fmt.Sprint("v", i), ""), pool(fmt.Sprint("p", i), "class=dp capacity=9Gi", zone+"=z3"))
	}
	volumes, capacities := w.needText(t, "c"), w.needText(t, "p")
	if len(volumes) > maxWide/2 || len(capacities) > maxWide/2 {
		t.Errorf("the needs take %d and %d bytes", len(volumes), len(capacities))
	}
	w.set(labelled("v7", "version=2 claim=default/other"))
	if after := w.needText(t, "c"); after != volumes {
		t.Errorf("one of 500 equal volumes is taken: %q, then %q", volumes, after)
	}
	w.set(pool("p499", "class=dp capacity=8Gi", zone+"=z3"))
	if after := w.needText(t, "p"); after == capacities {
		t.Error("a capacity has changed, and the need is the same")
	}
}

// A claim with a selector takes volumes by their labels, which may differ from volume to
// volume, and change.
func TestSelectorsLookAtEachVolume(t *testing.T) {
	labelled := func(name, text, share string) runtime.Object {
		volume := pv(name, "class=np "+text)
		volume.Labels = map[string]string{"share": share}
		return volume
	}
	claim := pvc("c", "class=np storage=5Gi")
	claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"share": "b"}}
	w := newWorld(t, configv1.VolumeBindingArgs{}, claim, labelled("a", "storage=6Gi", "a"), labelled("b", "storage=8Gi", "b"), labelled("c", "storage=9Gi", "b"))
	steps := []struct {
		change runtime.Object
		want   string // the volume on n1
	}{
		{nil, "b"}, {labelled("b", "storage=8Gi version=2", "a"), "c"}, {labelled("a", "storage=6Gi version=2", "b"), "a"},
		{labelled("a", "storage=6Gi version=3 claim=default/other", "b"), "c"}, {labelled("c", "storage=9Gi version=2", "a"), ""},
		{pv("local", "class=np storage=7Gi", on("n1")), ""},
	}
	before := ""
	for i, step := range steps {
		if step.change != nil {
			w.set(step.change)
		}
		if now := w.needText(t, "c"); now == before && i < len(steps)-1 {
			t.Errorf("step %d: another volume will be taken, and the need is the same", i)
		} else {
			before = now
		}
		got := ""
		if placement, err := w.reserve(pod(naming("c")), "n1"); err == nil {
			got = placement.Holds[0].Object.Name
		}
		if got != step.want {
			t.Errorf("step %d: the claim gets volume %q, want %q", i, got, step.want)
		}
	}
}

// The volumes of a group are examined once per turn, and not for each node.
func TestSelectorsCostNothingPerNode(t *testing.T) {
	claim := pvc("c", "class=np storage=5Gi")
	claim.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"share": "none"}}
	w := newWorld(t, configv1.VolumeBindingArgs{}, claim)
	for i := range 300 {
		w.set(pv(fmt.Sprint("v", i), "class=np storage=10Gi"))
	}
	found, err := w.plugin.FilterNeedIn(w.View(), pod(naming("c")))
	need := found.Need
	if err != nil {
		t.Fatal(err)
	}
	matched := 0
	d := need.(filterNeed).demands
	d.wants[0].selector = counted{d.wants[0].selector, &matched}
	verdicts, slot := need.Compile(), int32(0)
	if code := verdicts.Filter(w.Node(slot)); code.IsFailed() || code == 0 || matched > 0 {
		t.Errorf("verdict %d after %d matches, want a rejection after none", code, matched)
	}
}

// counted counts how often a selector is matched.
type counted struct {
	labels.Selector
	matches *int
}

func (c counted) Matches(of labels.Labels) bool {
	*c.matches++
	return c.Selector.Matches(of)
}

// Claims with equal demands have equal needs, whatever their names and their volumes'
// names.
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
	if found, _ := w.plugin.FilterNeedIn(w.View(), model.NewPod(build.Pod())); found.Need != nil {
		t.Error("a pod without claims has a need")
	}
}

// A need with very many kinds of volumes is at most a few words longer than its limit. It
// still depends on which volumes are available.
func TestLongNeedsAreHashed(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("c", "class=np storage=5Gi"))
	const beta = " annotation=volume.beta.kubernetes.io/storage-class=np"
	volume := func(i, gigabytes int) runtime.Object { // each is in a group of its own
		return pv(fmt.Sprint("v", i), fmt.Sprintf("class=c%d storage=%dGi", i, gigabytes)+beta)
	}
	longest := 0
	for i := range 100 {
		before := w.needText(t, "c")
		w.set(volume(i, 6))
		after := w.needText(t, "c")
		if after == before {
			t.Fatalf("volume %d is free, and the need is the same", i)
		}
		longest = max(longest, len(after))
	}
	if longest < 1000 || longest > 1200 {
		t.Errorf("the longest need has %d bytes, want about 1024", longest)
	}
	for _, i := range []int{0, 50, 99} {
		before := w.needText(t, "c")
		if w.set(volume(i, 7)); w.needText(t, "c") == before {
			t.Errorf("volume %d has another size, and the need is the same", i)
		}
		if w.set(volume(i, 6)); w.needText(t, "c") != before {
			t.Errorf("volume %d has its size again, and the need is another", i)
		}
	}
}
