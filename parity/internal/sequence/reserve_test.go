package sequence

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// patch is a step that writes an object.
func patch(resource, namespace, name, data string) plan.Step {
	group := v1.SchemeGroupVersion.WithResource(resource)
	return plan.Step{Plugin: "VolumeBinding", Write: &plan.Write{
		Resource: group, Namespace: namespace, Name: name, Type: types.MergePatchType, Data: []byte(data)}}
}

// TestWritten has a pod p that needs a volume for claim c, and a provisioned one for
// claim d, on node a.
func TestWritten(t *testing.T) {
	taken := patch("persistentvolumes", "", "pv", `{"metadata":{"resourceVersion":"1","annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},`+
		`"spec":{"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"default","name":"c","uid":"c","resourceVersion":"1"}}}`)
	selected := patch("persistentvolumeclaims", "default", "d", `{"metadata":{"resourceVersion":"1","annotations":{"volume.kubernetes.io/selected-node":"a"}}}`)
	elsewhere := patch("persistentvolumeclaims", "default", "d", `{"metadata":{"resourceVersion":"1","annotations":{"volume.kubernetes.io/selected-node":"b"}}}`)
	anonymous := patch("persistentvolumes", "", "pv", `{"metadata":{"annotations":{"pv.kubernetes.io/bound-by-controller":"yes"}},`+
		`"spec":{"claimRef":{"apiVersion":"v1","kind":"PersistentVolumeClaim","namespace":"default","name":"c"}}}`)
	for _, tt := range []struct {
		name  string
		steps []plan.Step
		same  bool
	}{
		{"both", []plan.Step{taken, selected}, true},
		{"in another order", []plan.Step{selected, taken}, false},
		{"no volume", []plan.Step{selected}, false},
		{"nothing", nil, false},
		{"another node", []plan.Step{taken, elsewhere}, false},
		{"without the claim's UID", []plan.Step{anonymous, selected}, false},
	} {
		c, p := wanting(t)
		decision := takes("a", 1, 0)
		decision.Placement.Steps = tt.steps
		about(&decision, 1, model.NewPod(p))
		if err := c.round(simulate.Round{Decided: true, Decisions: []plan.Decision{decision}}); err != nil {
			t.Fatal(err)
		}
		if same := c.result.Failed == 0; same != tt.same {
			t.Errorf("%s: %+v", tt.name, c.result)
		}
	}
}

// TestReservedIsSeen checks that another pod sees the first one's reservations, also in
// the separately compared state. A failed binding releases them.
func TestReservedIsSeen(t *testing.T) {
	c, p := wanting(t)
	decision := takes("a", 1, 0)
	about(&decision, 1, model.NewPod(p))
	if err := c.round(simulate.Round{Decided: true, Decisions: []plan.Decision{decision}}); err != nil {
		t.Fatal(err)
	}
	other := p.DeepCopy()
	other.Name, other.UID = "other", "other"
	if before := c.before(model.NewPod(p)); before.PersistentVolumes[0].Spec.ClaimRef != nil {
		t.Error("the state before a decision has what it reserved")
	}
	before := c.before(model.NewPod(other))
	if before.PersistentVolumes[0].Spec.ClaimRef == nil || before.PersistentVolumeClaims[1].Annotations[selectedNode] != "a" {
		t.Errorf("got %+v", before)
	}
	failed := simulate.Shown{Bound: &model.BindingResult{Pod: model.NewPod(p), NodeName: "a", Err: fmt.Errorf("failed")}}
	if err := c.show(&failed); err != nil {
		t.Fatal(err)
	}
	if before := c.before(model.NewPod(other)); before.PersistentVolumes[0].Spec.ClaimRef != nil || len(c.theirs.Placed()) > 0 {
		t.Errorf("after a failed binding: %+v", before)
	}
}

// wanting returns a check of a cluster with a node, and a pod whose claims can have a
// volume each there.
func wanting(t *testing.T) (*check, *v1.Pod) {
	theirs, err := upstream.New(cases.EmptyConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(theirs.Close)
	c := &check{theirs: theirs, objects: map[model.Ref]runtime.Object{}, assumed: map[model.PodKey][]runtime.Object{}}
	class := func(name, provisioner string) *storagev1.StorageClass {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	}
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	claim := func(name, class string) *v1.PersistentVolumeClaim {
		return &v1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: "1"},
			Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: &class, Resources: v1.VolumeResourceRequirements{Requests: size}},
		}
	}
	p := pod("1")
	for _, name := range strings.Split("c d", " ") {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
	}
	volume := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: "pv", ResourceVersion: "1"}, Spec: v1.PersistentVolumeSpec{Capacity: size, StorageClassName: "static"},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
	}
	for _, shown := range []simulate.Shown{{Object: node("a", "4")}, {Object: class("static", "kubernetes.io/no-provisioner")}, {Object: class("dynamic", "d")},
		{Object: claim("c", "static")}, {Object: claim("d", "dynamic")}, {Object: volume}, {Object: p}} {
		if err := c.show(&shown); err != nil {
			t.Fatal(err)
		}
	}
	return c, p
}
