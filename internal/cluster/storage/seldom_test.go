package storage

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// Cases that random histories meet too rarely.

// For each kind the store returns the previous version, or nil: a nil interface, not an
// interface of a nil pointer.
func TestVersionsBefore(t *testing.T) {
	s := New(func(int32, model.Aspect) {})
	for _, row := range []struct {
		name     string
		versions [2]model.Compiled
		now      func() any // the store's version of the object
	}{
		{"claim", [2]model.Compiled{boundClaim(1, 1), boundClaim(1, 2)}, func() any { return s.Claim(boundClaim(1, 1).Key) }},
		{"volume", [2]model.Compiled{boundVolume(1, 1), boundVolume(1, 2)}, func() any { return s.Volume("volume-1") }},
		{"class", [2]model.Compiled{model.NewStorageClass(build.StorageClass("fast", "provisioner=d")), model.NewStorageClass(build.StorageClass("fast", "provisioner=e"))},
			func() any { return s.Class("fast") }},
		{"driver", [2]model.Compiled{model.NewCSIDriver(build.CSIDriver("d", "")), model.NewCSIDriver(build.CSIDriver("d", "storageCapacity"))},
			func() any { return s.Driver("d") }},
		{"CSINode", [2]model.Compiled{model.NewCSINode(build.CSINode("n", "d=1")), model.NewCSINode(build.CSINode("n", "d=2"))}, func() any { return s.CSINode("n") }},
		{"capacity", [2]model.Compiled{capacityOf(1, "1Gi"), capacityOf(1, "2Gi")}, nil},
		{"attachment", [2]model.Compiled{
			model.NewVolumeAttachment(build.VolumeAttachment("a", "attacher=d node=n volume=v")), model.NewVolumeAttachment(build.VolumeAttachment("a", "attacher=e node=n volume=v")),
		}, nil},
	} {
		kept := s.Sizes()
		kept.Reaches = 0
		gone := func(when string) {
			t.Helper()
			if before := s.Remove(row.versions[0].Ref()); before != nil {
				t.Errorf("%s, %s: %v was there", row.name, when, before)
			}
			now := s.Sizes()
			if now.Reaches = 0; now != kept { // an unused reach is kept for a while
				t.Errorf("%s, %s: %+v are kept, want %+v", row.name, when, now, kept)
			}
		}
		gone("before it came")
		var before model.Compiled
		for _, now := range row.versions {
			if have := s.Set(now); have != before {
				t.Errorf("%s: %v was there, want %v", row.name, have, before)
			}
			if before = now; row.now != nil && row.now() != any(now) {
				t.Errorf("%s: the store has %v, want %v", row.name, row.now(), now)
			}
		}
		if have := s.Remove(before.Ref()); have != before {
			t.Errorf("%s: %v was there when it went, want %v", row.name, have, before)
		}
		gone("after it went")
	}
}

// The identity of a claim in use depends on its volume, and on its class as long as the
// volume does not exist.
func TestWhatClaimsAreFollowedBy(t *testing.T) {
	for _, row := range []struct {
		claim            string
		volume           bool // whether the volume v exists
		volumes, classes int  // the numbers kept
	}{
		{"", false, 0, 0},
		{"class=a", false, 0, 1},
		{"class=", false, 0, 0},
		{"volume=v", false, 1, 0},
		{"volume=v class=a", false, 1, 1},
		{"volume=v class=a", true, 1, 0},
		{"bound=v", true, 1, 0},
	} {
		s := New(func(int32, model.Aspect) {})
		s.Seat(0, "n")
		if row.volume {
			s.Set(model.NewVolume(build.PersistentVolume("v", "phase=Bound")))
		}
		s.Set(model.NewClaim(build.PersistentVolumeClaim("c", row.claim)))
		unused := s.Sizes()
		p := pod("p", build.Claims("c"))
		s.Place(0, p)
		if kept := s.Sizes(); kept.Volumes != row.volumes || kept.Classes != row.classes {
			t.Errorf("%q, the volume exists: %t: %d volumes and %d classes are kept, want %d and %d", row.claim, row.volume, kept.Volumes, kept.Classes, row.volumes, row.classes)
		}
		s.Displace(0, p)
		if s.Sizes() != unused {
			t.Errorf("%q: without the pod %+v are kept, want %+v", row.claim, s.Sizes(), unused)
		}
	}
}

// An in-tree volume counts once on a node with a CSINode, however many pods use it, and
// not at all without a CSINode.
func TestInTreeVolumesCountWithACSINode(t *testing.T) {
	w := newWorld(t)
	slot := w.setNode("n", nil)
	csi := build.CSINode("n", "d=1")
	without := func() { remove(w, w.csiNodes, "n", model.Ref{Kind: model.CSINodeKind, Name: "n"}) }
	check := func(when string, counts int) {
		t.Helper()
		u := w.store.At(slot).Usage()
		if n, uses := u.Count("ebs.csi.aws.com"), u.Has("ebs.csi.aws.com", "vol-1"); n != counts || uses != (counts > 0) {
			t.Errorf("%s: %d volumes count, vol-1 is used: %t; want %d", when, n, uses, counts)
		}
		w.audit()
	}
	for i := range 3 {
		w.place(slot, pod(fmt.Sprint("p", i), build.Disks("ebs=vol-1")))
	}
	for round := range 2 {
		check("without a CSINode", 0)
		w.setCSINode(csi)
		check("with one", 1)
		w.place(slot, pod(fmt.Sprint("more", round), build.Disks("ebs=vol-1")))
		w.displace(slot, 0)
		check("with others", 1)
		without()
		w.displace(slot, 0)
	}
	w.setCSINode(csi)
	check("of one pod", 1)
	for len(w.slots[slot].pods) > 1 {
		w.displace(slot, 0)
	}
	check("of the last pod", 1)
	w.displace(slot, 0)
	check("of no pod", 0)
}

// Idle reaches are forgotten, the longest unused first. The filing of the others stays,
// so that nodes find them.
func TestForgottenReachesTakeNothingAlong(t *testing.T) {
	w := newWorld(t)
	add := func(name, term string) {
		w.setVolume(build.PersistentVolume(name, "class=a storage=1Gi", build.VolumeAffinity(term)), false)
	}
	for _, zone := range []string{"z1", "z2", "z3", "z4"} {
		add(zone, "zone In "+zone)
		add("either-"+zone, "zone In "+zone+",other")
	}
	for i, zone := range []string{"z1", "z2", "z3"} { // z4 stays
		w.removeVolume(zone)
		w.removeVolume("either-" + zone)
		for k := range maxIdle + 1 {
			name := fmt.Sprint("local-", i, "-", k)
			add(name, "host In "+name)
			w.removeVolume(name)
		}
		w.audit()
		if reaches := w.store.Sizes().Reaches; reaches != 2*(3-i)+maxIdle {
			t.Errorf("%d reaches are kept, want %d of zones and %d that are idle", reaches, 2*(3-i), maxIdle)
		}
		name := "n" + zone
		slot := w.setNode(name, map[string]string{"zone": "z4", "host": name})
		if have := w.saidFree(slot, "a", 0); !slices.Equal(have, []string{"either-z4", "z4"}) {
			t.Errorf("after %d rounds, free on a new node: %v", i+1, have)
		}
		// A forgotten reach is made again when a volume needs it.
		add(zone, "zone In "+zone)
		w.setNode(name, map[string]string{"zone": zone, "host": name})
		if have := w.saidFree(slot, "a", 0); !slices.Equal(have, []string{zone}) {
			t.Errorf("after %d rounds, free on a node of %s: %v", i+1, zone, have)
		}
		w.removeVolume(zone)
		w.audit()
	}
}

// Volumes are in one group if claims can distinguish them only by name, size and labels.
func TestGroups(t *testing.T) {
	const beta = "annotation=volume.beta.kubernetes.io/storage-class="
	zone, host := build.VolumeAffinity("zone In z1"), build.VolumeAffinity("host In n1")
	anywhere := func(*v1.PersistentVolume) {}
	for _, row := range []struct {
		a, b      string
		onA, onB  build.VolumeOption
		sameGroup bool
		why       string
	}{
		{a: "storage=1Gi label=x=1", b: "storage=2Gi label=x=2", sameGroup: true, why: "size and labels"},
		{a: "class=a", b: "class=b", why: "class"},
		{a: "class=a", b: "class=b " + beta + "a", why: "the name in the spec, by which scores are"},
		{a: "mode=Filesystem", b: "", sameGroup: true, why: "Filesystem is the default"},
		{a: "mode=Block", b: "", why: "mode"},
		{a: "modes=RWO,RWX", b: "modes=RWX,RWO", sameGroup: true, why: "order of access modes"},
		{a: "modes=RWO,RWO", b: "modes=RWO", sameGroup: true, why: "an access mode twice"},
		{a: "modes=RWO,RWX", b: "modes=RWX", why: "access modes"},
		{a: "attributes=", b: "", sameGroup: true, why: "no attributes class is the empty one"},
		{a: "attributes=gold", b: "", why: "attributes class"},
		{a: "attributes=gold", b: "attributes=silver", why: "attributes class"},
		{a: "", b: "", onA: zone, onB: zone, sameGroup: true, why: "the same nodes"},
		{a: "", b: "", onA: zone, onB: host, why: "nodes"},
		{a: "", b: "", onA: zone, onB: anywhere, why: "nodes"},
	} {
		if row.onA == nil {
			row.onA, row.onB = anywhere, anywhere
		}
		s := New(func(int32, model.Aspect) {})
		s.Set(model.NewVolume(build.PersistentVolume("a", row.a, row.onA)))
		s.Set(model.NewVolume(build.PersistentVolume("b", row.b, row.onB)))
		if same := s.Sizes().Groups == 1; same != row.sameGroup {
			t.Errorf("%q and %q (%s): in one group: %t", row.a, row.b, row.why, same)
		}
	}
}

// A volume that is not free is in no group, and enters one again when it is free.
func TestFreeVolumes(t *testing.T) {
	w := newWorld(t)
	slot := w.setNode("n", nil)
	a, b := model.PodKey{Namespace: "default", Name: "a"}, model.PodKey{Namespace: "default", Name: "b"}
	set := func(text string) func() {
		return func() { w.setVolume(build.PersistentVolume("v", "class=a "+text), false) }
	}
	for i, row := range []struct {
		change func()
		free   bool
	}{
		{set(""), true},
		{set("phase=Released"), false},
		{set(""), true},
		{set("claim=default/c"), false},
		{set("deleting"), false},
		{set("storage=2Gi"), true},
		{func() { w.hold("v", a) }, false},
		{func() { w.hold("v", a) }, false},
		{func() { w.hold("v", b) }, false},
		{func() { w.release("v", a) }, false},
		{func() { w.release("v", a) }, false},
		// The volume is listed again: its version is still held.
		{func() { w.setVolume(w.volumes["v"], true) }, false},
		{func() { w.release("v", b) }, true},
		{func() { w.hold("v", b) }, false},
		{set("storage=2Gi"), true}, // a newer version shows another writer's change
		{func() { w.release("v", b) }, true},
		{func() { w.hold("other", b) }, true},
		{func() { w.release("other", b) }, true},
		{func() { w.store.Hold(model.Ref{Kind: model.PersistentVolumeClaimKind, Name: "v"}, a) }, true},
		{func() { w.store.Release(model.Ref{Kind: model.PersistentVolumeClaimKind, Name: "v"}, a) }, true},
		{func() { w.removeVolume("v") }, false},
	} {
		row.change()
		if have := w.saidFree(slot, "a", 0); (len(have) == 1) != row.free || len(have) > 1 {
			t.Errorf("step %d: free are %v, want one: %t", i, have, row.free)
		}
		w.audit()
	}
	if kept := w.store.Sizes(); kept.Groups+kept.Volumes+kept.Classes > 0 {
		t.Errorf("%+v are kept", kept)
	}
}

// A list keeps its memory until three quarters of it are unused, so that removing
// elements one by one does not copy it each time.
func TestListsKeepMemory(t *testing.T) {
	list := make([]int, 1000)
	made := 0
	for len(list) > 0 {
		room := cap(list)
		if list = drop(list, 0, func(int, int) {}); cap(list) != room {
			made++
			if len(list) >= room/4 {
				t.Fatalf("a list of %d elements with room for %d was copied", len(list), room)
			}
		}
	}
	if made == 0 || made > 6 {
		t.Errorf("a list of 1000 elements that became empty was copied %d times", made)
	}
	if short := make([]int, 1, 64); cap(shorter(short)) != 64 {
		t.Error("a short list was copied")
	}
	if long := make([]int, 11, 65); cap(shorter(long)) != 22 { // as much again
		t.Errorf("a list of 11 elements has room for %d", cap(shorter(long)))
	}
}

// An idle reach reports nothing, however many nodes are added and removed. When it is
// used again, it has the current nodes.
func TestIdleReachesReportNothing(t *testing.T) {
	w := newWorld(t)
	where := build.VolumeAffinity("zone In z1")
	w.setVolume(build.PersistentVolume("v", "class=a", where), false)
	w.removeVolume("v")
	before := w.store.Work().Touched
	nodes := func(change func(slot int32, name string)) {
		for i := range 2*maxNarrow + 1 {
			change(int32(i), fmt.Sprint("n", i))
		}
		w.audit()
	}
	nodes(func(_ int32, name string) { w.setNode(name, map[string]string{"zone": "z1"}) })
	if touched := w.store.Work().Touched - before; touched != 0 {
		t.Errorf("%d changes were reported while nothing is free", touched)
	}
	w.setVolume(build.PersistentVolume("v", "class=a", where), false)
	if wide := w.store.WideGroups("a"); len(wide) != 1 || !wide[0].IsWide() {
		t.Errorf("of the groups %d are wide, want the one of %d nodes", len(wide), 2*maxNarrow+1)
	}
	w.removeVolume("v")
	before = w.store.Work().Touched
	nodes(func(slot int32, _ string) { w.removeNode(slot) })
	if touched := w.store.Work().Touched - before; touched != 0 {
		t.Errorf("%d changes were reported while nodes went", touched)
	}
}

// A node that does not exist has no labels, whatever its owner passes.
func TestNodeThatDoesNotExistHasNoLabels(t *testing.T) {
	w := newWorld(t)
	w.setVolume(build.PersistentVolume("v", "class=a", build.VolumeAffinity("zone In z1")), false)
	slot := w.setNode("n", map[string]string{"zone": "z1"})
	w.place(slot, pod("p", build.Claims("c")))
	for range 2 {
		w.slots[slot].exists, w.slots[slot].labels = false, nil
		w.store.SetNode(slot, false, map[string]string{"zone": "z1"})
		if have := w.saidFree(slot, "a", 0); len(have) > 0 {
			t.Errorf("%v are free on a node that does not exist", have)
		}
		w.audit()
		w.setNode("n", map[string]string{"zone": "z1"})
		if have := w.saidFree(slot, "a", 0); len(have) != 1 {
			t.Errorf("%v are free on a node that exists again", have)
		}
		w.audit()
	}
}

// The identity of a claim in use follows each change of its volume's source, even if
// neither version counts on any node.
func TestSourcesOfAVolume(t *testing.T) {
	w := newWorld(t)
	slot := w.setNode("n", nil)
	w.setCSINode(build.CSINode("n", "d=1"))
	w.setClaim(build.PersistentVolumeClaim("c", "bound=v"))
	w.place(slot, pod("p", build.Claims("c")))
	key := model.ClaimKey{Namespace: v1.NamespaceDefault, Name: "c"}
	sources := []struct {
		text, driver, name string
		inTree             bool
	}{
		{"nfs=", "", "", false},
		{"ebs=aws://z/disk", "", "", true}, // cannot be translated
		{"ebs=vol-1", "ebs.csi.aws.com", "vol-1", true},
		{"csi=ebs.csi.aws.com/vol-1", "ebs.csi.aws.com", "vol-1", false},
		{"csi=ebs.csi.aws.com/vol-2", "ebs.csi.aws.com", "vol-2", false},
		{"csi=d/vol-2", "d", "vol-2", false},
	}
	for _, from := range sources {
		for _, to := range sources {
			for _, source := range []string{from.text, to.text} {
				w.setVolume(build.PersistentVolume("v", "phase=Bound "+source), false)
				w.audit()
			}
			driver, name, inTree := w.store.Attachable(key)
			if driver != to.driver || driver != "" && name != to.name || inTree != to.inTree {
				t.Errorf("%s after %s: the claim stands for %s/%s, in-tree: %t", to.text, from.text, driver, name, inTree)
			}
			if uses := w.store.At(slot).Usage().Has(to.driver, to.name); uses != (to.driver != "") {
				t.Errorf("%s after %s: it is in use: %t", to.text, from.text, uses)
			}
		}
	}
}

// Among the labels that a term demands, reaches are filed under the label with the fewest
// nodes and filed reaches.
func TestFiledWhereFewAre(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		of := map[string]string{"b": "1"}
		if i < 2 {
			of["a"] = "1"
		}
		w.setNode(fmt.Sprint("n", i), of)
	}
	filed := func(name, term string) string {
		w.setVolume(build.PersistentVolume(name, "class=a", build.VolumeAffinity(term)), false)
		w.audit()
		return fmt.Sprint(w.store.volumes[name].group.reach.filed)
	}
	if got := filed("few nodes", "a In 1; b In 1"); got != "[{a 1}]" {
		t.Errorf("filed under %s, which fewer nodes have", got)
	}
	for i := range 4 {
		filed(fmt.Sprint("more-", i), fmt.Sprintf("a In 1; x%d Exists", i))
	}
	if got := filed("few reaches", "a In 1; b In 1; y Exists"); got != "[{b 1}]" {
		t.Errorf("filed under %s, beside more reaches", got)
	}
	if got := filed("values", "a In 1; c In 1,2,3"); got != "[{c 1} {c 2} {c 3}]" {
		t.Errorf("filed under %s, which no node has", got)
	}
}

// Several groups and capacities of a class share a reach: each keeps the right position
// when others are removed.
func TestSharesKnowPositions(t *testing.T) {
	w := newWorld(t)
	slot := w.setNode("n", map[string]string{"zone": "z1"})
	texts := []string{"", "modes=RWX", "mode=Block", "attributes=gold", "modes=ROX"}
	for first := range texts {
		for i, text := range texts {
			w.setVolume(build.PersistentVolume(fmt.Sprint("v", i), "class=a "+text, build.VolumeAffinity("zone In z1")), false)
			w.setCapacity(build.CSIStorageCapacity(fmt.Sprint("c", i), "class=a capacity=1Gi", "zone=z1"))
		}
		for i := range texts {
			i = (first + 2*i) % len(texts)
			w.removeVolume(fmt.Sprint("v", i))
			w.audit()
			name := fmt.Sprint("c", i)
			remove(w, w.capacities, name, model.Ref{Kind: model.CSIStorageCapacityKind, Namespace: v1.NamespaceDefault, Name: name})
			w.audit()
		}
		if have := w.saidFree(slot, "a", 0); len(have) > 0 || w.store.CapacityAt(slot, "a", 0) != nil {
			t.Errorf("%v are free", have)
		}
	}
}
