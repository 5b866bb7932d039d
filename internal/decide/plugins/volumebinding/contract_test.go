package volumebinding

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	w := newWorld(t, configv1.VolumeBindingArgs{})
	plugintest.CheckContract(t, w.plugin, plugintest.Contract{
		Name: "VolumeBinding", FilterReads: model.Labels | model.Volumes | model.Supply, ScoreReads: model.Labels | model.Volumes | model.Supply,
		Reads: []model.Kind{
			model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind, model.CSINodeKind, model.CSIDriverKind,
			model.CSIStorageCapacityKind,
		},
		Events: []string{
			"storage.k8s.io/StorageClassAdd storage.k8s.io/StorageClassUpdate, hint", "PersistentVolumeClaimAdd PersistentVolumeClaimUpdate, hint, alike, cause",
			"PersistentVolumeAdd PersistentVolumeDelete PersistentVolumeUpdate", "NodeAdd NodeUpdateNodeLabel", "NodeDelete, asked",
			"storage.k8s.io/CSINodeAdd storage.k8s.io/CSINodeDelete storage.k8s.io/CSINodeUpdate, hint",
			"storage.k8s.io/CSIDriverDelete storage.k8s.io/CSIDriverUpdate, hint, alike, cause", "storage.k8s.io/CSIStorageCapacityAdd storage.k8s.io/CSIStorageCapacityUpdate, hint",
		},
	})
	silent, err := New(&configv1.VolumeBindingArgs{})
	if err != nil || silent.ratings != nil || silent.timeout != 0 {
		t.Errorf("without arguments: %+v, %v", silent, err)
	}
}

func TestCauses(t *testing.T) {
	p := newWorld(t, configv1.VolumeBindingArgs{}).plugin
	waiting := pod(build.Disks("csi=d csi=e ebs=vol-1"))
	if got := plugintest.Alikes(p, waiting); got[len(got)-1] != "drivers d e" {
		t.Errorf("alike %s", got)
	}
	if got := plugintest.Causes(p, waiting); got[len(got)-1] != `wants any; keys "driver" "driver:d" "driver:e"` {
		t.Errorf("causes %s", got)
	}
	if got := plugintest.Causes(p, pod(naming("c"))); got[len(got)-1] != `wants any; keys "driver" "driver:*"` {
		t.Errorf("causes with a claim %s", got)
	}
	event := model.Event{Resource: model.CSIDriverEvent, Action: model.Update, OldObject: model.NewCSIDriver(build.CSIDriver("d", ""))}
	plugintest.Equal(t, "touched", plugintest.Touched(p, event), `has none; seeks "driver:*"|"driver:d"`)
}

// The texts of needs are compared literally: an incomplete text would let pods share a
// wrong column.
func TestTexts(t *testing.T) {
	for _, row := range []struct {
		name, claims string
		objects      []runtime.Object
		want         string
	}{
		{"bound", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on("n1"))),
			"b37:n\n\"\n \n\x16kubernetes.io/hostname\x12\x02In\x1a\x02n10:0:"},
		{"bound to none", "c d", having(pvc("c", "bound=v"), pvc("d", "bound=w"), pv("w", "phase=Bound", on("n1"))),
			"mb37:n\n\"\n \n\x16kubernetes.io/hostname\x12\x02In\x1a\x02n10:0:"},
		{"bound to a disk that cannot be", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound ebs=aws://z/disk")),
			"e95:failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)0:21:kubernetes.io/aws-ebs0:"},
		{"decided", "c", having(pvc("c", "class=dp storage=5 node=n1")),
			"s2:n12:dp1:d0:2:dptrue 5 truen"},
		{"to be found", "c", having(pvc("c", "class=dp storage=5 modes=RWO,RWX")),
			"f2:dp1:d0:2:dptrue 5 true10:Filesystem0:a13:ReadWriteOncea13:ReadWriteManyn"},
		{"of a class with topologies", "c", having(class("z", "provisioner=e", build.AllowedTopologies(zone+"=z3")), pvc("c", "class=z storage=5")),
			"f1:z1:e42:n\n'\n%\n\x1btopology.kubernetes.io/zone\x12\x02In\x1a\x02z31:ztrue 5 true10:Filesystem0:a13:ReadWriteOncen"},
		{"two sizes of a group", "c", having(pvc("c", "class=np storage=5"), pv("a", "class=np storage=7"), pv("b", "class=np storage=4"), pv("d", "class=np storage=9")),
			"f2:np28:kubernetes.io/no-provisioner0:2:nptrue 5 true10:Filesystem0:a13:ReadWriteOnceg44:2:np2:np0:10:Filesystem1:113:ReadWriteOnce0: 0,7n"},
		{"two claims", "c d", having(pvc("c", "class=np storage=5"), pvc("d", "class=np storage=8"), pv("a", "class=np storage=7"), pv("b", "class=np storage=9"),
			pv("x", "class=np storage=10"), pv("y", "class=np storage=11")),
			"f2:np28:kubernetes.io/no-provisioner0:2:nptrue 5 true10:Filesystem0:a13:ReadWriteOncef2:np28:kubernetes.io/no-provisioner0:2" +
				":nptrue 8 true10:Filesystem0:a13:ReadWriteOnceg44:2:np2:np0:10:Filesystem1:113:ReadWriteOnce0: 0,7=1:a 1,9=1:b,10=1:xnn"},
		{"two classes", "c d", having(class("other", "provisioner=e"), pvc("c", "class=np storage=5"), pvc("d", "class=other storage=8"),
			pv("a", "class=np storage=7"), pv("b", "class=other storage=9")),
			"f2:np28:kubernetes.io/no-provisioner0:2:nptrue 5 true10:Filesystem0:a13:ReadWriteOncef5:other1:e0:5:othertrue 8 true10:Filesystem0" +
				":a13:ReadWriteOnceg44:2:np2:np0:10:Filesystem1:113:ReadWriteOnce0: 0,7=1:ag50:5:other5:other0:10:Filesystem1:113:ReadWriteOnce0: 1,9=1:bnn"},
		{"another access mode", "c", having(pvc("c", "class=np storage=5 modes=RWX"), pv("a", "class=np storage=7"), pv("b", "class=np storage=9 modes=RWO,RWX")),
			"f2:np28:kubernetes.io/no-provisioner0:2:nptrue 5 true10:Filesystem0:a13:ReadWriteManyg60:2:np2:np0:10:Filesystem1:213:ReadWriteMany13" +
				":ReadWriteOnce0: 0,9n"},
		{"volumes that name the claim", "c", having(pvc("c", "class=np storage=5"), pv("b", "class=np storage=9 version=3 claim=default/c"),
			pv("a", "class=np storage=9 version=4 claim=default/c"), pv("s", "class=np storage=7 version=5 claim=default/c"),
			pv("o", "class=dp storage=7 claim=default/c"), pv("t", "class=np storage=1 claim=default/c")),
			"f2:np28:kubernetes.io/no-provisioner0:2:nptrue 5 true10:Filesystem0:a13:ReadWriteOncep1:s1:59:default/cp1:a1:49:default/cp1:b1:39" +
				":default/cn"},
		{"capacities", "c", having(build.CSIDriver("d", "storageCapacity"), pvc("c", "class=dp storage=5"), pool("p", "class=dp capacity=12", "everything"),
			pool("q", "class=dp capacity=5", "everything"), pool("r", "class=dp capacity=4", "everything"), pool("s", "class=dp maximum=6", "everything")),
			"f2:dp1:d0:2:dptrue 5 true10:Filesystem0:a13:ReadWriteOncec7:default1:p1:l12 true7:default1:q1:l5 true7:default1:s1:l0 false"},
	} {
		w := newWorld(t, configv1.VolumeBindingArgs{})
		for i := range 60 {
			w.set(build.NodesInZones(fmt.Sprintf("m%d=z3", i))[0])
		}
		w.set(row.objects...)
		if got := w.needText(t, row.claims); got != row.want {
			t.Errorf("%s:\ngot  %q\nwant %q", row.name, got, row.want)
		}
	}
	w := newWorld(t, configv1.VolumeBindingArgs{}, pvc("c", "class=dp storage=5"))
	need, err := w.plugin.ScoreNeedIn(w.View(), pod(naming("c")))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(need.AppendText(nil)), w.needText(t, "c"); got != want {
		t.Errorf("the score depends on %s, the filter on %s", got, want)
	}
}

// TestSparse: a volume that few nodes can use gives the same verdict on all others.
func TestSparse(t *testing.T) {
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("m%02d", i))
	}
	for _, row := range []struct {
		name, claims string
		objects      []runtime.Object
		want         string // the nodes that are filtered; "no" if all are
	}{
		{"local", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on("n2"))), "n2"},
		{"of two nodes, one named twice", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on("n2,n1,n2"))), "n1 n2"},
		{"of an unknown node", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on("n9"))), ""},
		{"of as many as are few", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on(strings.Join(names[:16], ",")))), strings.Join(names[:16], " ")},
		{"of more", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on(strings.Join(names[:17], ",")))), "no"},
		{"of a zone with many", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", from(zone+" In z3"))), "no"},
		{"the first of two", "c d", having(pvc("c", "bound=v"), pvc("d", "bound=w"), pv("v", "phase=Bound", on("n2")), pv("w", "phase=Bound", on("n1"))), "n2"},
		{"not by values", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound", from(v1.LabelHostname+" Exists"))), "no"},
		{"missing", "c", having(pvc("c", "bound=v")), "no"},
		{"in-tree", "c", having(pvc("c", "bound=v"), pv("v", "phase=Bound ebs=aws://z/disk", on("n1"))), "no"},
		{"to be bound as well", "c d", having(pvc("c", "bound=v"), pv("v", "phase=Bound", on("n2")), pvc("d", "class=dp storage=5")), "no"},
		{"only to be bound", "c", having(pvc("c", "class=dp storage=5")), "no"},
	} {
		w := newWorld(t, configv1.VolumeBindingArgs{})
		for _, name := range names {
			w.set(build.NodesInZones(name + "=z3")[0])
		}
		w.set(row.objects...)
		found, err := w.plugin.FilterNeedIn(w.View(), pod(naming(row.claims)))
		need := found.Need
		if err != nil {
			t.Fatal(err)
		}
		verdicts := need.Compile()
		slots, others, ok := verdicts.Sparse.Sparse(w.State)
		var asked []string
		for _, slot := range slots {
			asked = append(asked, w.Node(slot).Name())
		}
		slices.Sort(asked)
		got := strings.Join(asked, " ")
		if !ok {
			got = "no"
		}
		if got != row.want {
			t.Errorf("%s: asked about %q, want %q", row.name, got, row.want)
		}
		for slot := range w.Slots() {
			if ok && !slices.Contains(slots, int32(slot)) && verdicts.Filter(w.Node(int32(slot))) != others {
				t.Errorf("%s: on %s the verdict is not %x", row.name, w.Node(int32(slot)).Name(), others)
			}
		}
	}
}
