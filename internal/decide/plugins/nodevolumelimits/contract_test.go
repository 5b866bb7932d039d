package nodevolumelimits

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{
		Name: "NodeVolumeLimits", FilterReads: model.Volumes,
		Reads: []model.Kind{
			model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind, model.CSINodeKind, model.CSIDriverKind, model.VolumeAttachmentKind,
		},
		Events: []string{
			"NodeAdd", "storage.k8s.io/CSINodeAdd storage.k8s.io/CSINodeDelete storage.k8s.io/CSINodeUpdate, hint",
			"storage.k8s.io/CSIDriverDelete storage.k8s.io/CSIDriverUpdate, hint", "AssignedPodDelete, hint",
			"PersistentVolumeClaimAdd PersistentVolumeClaimUpdate, hint, alike, cause", "AssignedPodAdd, asked",
			"PersistentVolumeClaimAdd PersistentVolumeClaimDelete PersistentVolumeClaimUpdate, asked",
			"PersistentVolumeAdd PersistentVolumeDelete PersistentVolumeUpdate, asked",
			"storage.k8s.io/StorageClassAdd storage.k8s.io/StorageClassDelete storage.k8s.io/StorageClassUpdate, asked",
			"storage.k8s.io/VolumeAttachmentAdd storage.k8s.io/VolumeAttachmentDelete storage.k8s.io/VolumeAttachmentUpdate, asked",
		},
	})
}

// The texts of needs are compared literally: an incomplete text would let pods share a
// wrong column.
func TestTexts(t *testing.T) {
	objects := threeVolumes(driverObject("d", "preventPodSchedulingIfMissing"), driverObject("ebs.csi.aws.com", "preventPodSchedulingIfMissing"),
		pv("in", "phase=Bound ebs=vol-1"), pvc("cin", "bound=in"))
	s := cluster(n1("c2 c3"), objects...)
	for _, row := range []struct {
		name    string
		waiting []build.PodOption
		want    string
	}{
		{"unused", []build.PodOption{claims("c1")}, `"d"1!*`},
		{"used", []build.PodOption{claims("c1 c3 c2")}, `"d"1!*"v2""v3"`},
		{"in-tree", []build.PodOption{claims("cin c1")}, `"d"1!*"ebs.csi.aws.com"1!`},
		{"without claim", []build.PodOption{claims("c1 gone c2")},
			`2147483649false"looking up PVC default/gone: persistentvolumeclaim \"gone\" not found"`},
		{"a bad disk", []build.PodOption{disks("ebs=aws://z/disk"), claims("c1")}, `1073741825true"converting volume(v0) from inline to csi: ` +
			`failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)""d"1!*`},
	} {
		if got := plugintest.NeedIn(New(), waiting(row.waiting...), s.View()); got != row.want {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

// TestVariant: a volume that other pods use gives the verdicts of an unused volume,
// except on the nodes where it is in use.
func TestVariant(t *testing.T) {
	var objects []runtime.Object
	for i := 2; i <= 16; i++ {
		objects = append(objects, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + strings.Repeat("x", i)}})
	}
	pods := func(claimed ...string) []*v1.Pod {
		var all []*v1.Pod
		for i, names := range claimed {
			node := "n1"
			if i > 0 {
				node = "n" + strings.Repeat("x", i+1)
			}
			all = append(all, build.Pod(build.NodeName(node), claims(names)))
		}
		return all
	}
	for _, row := range []struct {
		name    string
		placed  []*v1.Pod
		waiting string
		text    string
		slots   string
		ok      bool
	}{
		{"not shared", pods("c3"), "c1", `"d"1`, "", false},
		{"shared", pods("c1"), "c1", `"d"1`, "0", true},
		{"shared, and another", pods("c1"), "c1 c2", `"d"2`, "0", true},
		{"two of one node", pods("c1 c2"), "c1 c2 c3", `"d"3`, "0 0", true},
		{"two of different nodes", pods("c1", "c2"), "c1 c2", `"d"2`, "0 1", true},
		{"on more than an eighth of the nodes", pods("c1", "c1", "c1"), "c1", "", "", false},
		{"together on more", pods("c1", "c1", "c2"), "c1 c2", "", "", false},
	} {
		s := cluster(row.placed, append(threeVolumes(), objects...)...)
		found, err := New().FilterNeedIn(s.View(), waiting(claims(row.waiting)))
		need := found.Need
		if err != nil {
			t.Fatal(err)
		}
		before := string(need.AppendText(nil))
		of, slots, ok := need.Compile().Variant.Variant(s)
		var names []string
		for _, slot := range slots {
			names = append(names, string(rune('0'+slot)))
		}
		text := ""
		if of != nil {
			text = string(of.AppendText(nil))
		}
		if got := strings.Join(names, " "); text != row.text || got != row.slots || ok != row.ok {
			t.Errorf("%s: %s on %s, %t; want %s on %s, %t", row.name, text, got, ok, row.text, row.slots, row.ok)
		}
		if after := string(need.AppendText(nil)); after != before {
			t.Errorf("%s: the need became %s", row.name, after)
		}
	}
}
