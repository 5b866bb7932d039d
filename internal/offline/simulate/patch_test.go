package simulate

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestPatch applies patches to a volume in version 1, as the API server does.
func TestPatch(t *testing.T) {
	volumes := v1.SchemeGroupVersion.WithResource("persistentvolumes")
	for _, row := range []struct {
		name, object, data string
		resource           schema.GroupVersionResource
		kind               types.PatchType
		want               metav1.StatusReason // "" if it is stored
		version            string              // afterwards
	}{
		{"merge", "v", `{"metadata":{"resourceVersion":"1"},"spec":{"claimRef":{"name":"c"}}}`, volumes, types.MergePatchType, "", "2"},
		{"strategic", "v", `{"metadata":{"uid":"v"},"spec":{"claimRef":{"name":"c"}}}`, volumes, types.StrategicMergePatchType, "", "2"},
		{"a stale version", "v", `{"metadata":{"resourceVersion":"0"},"spec":{"claimRef":{"name":"c"}}}`, volumes, types.MergePatchType, metav1.StatusReasonConflict, "1"},
		{"another UID", "v", `{"metadata":{"uid":"w"},"spec":{"claimRef":{"name":"c"}}}`, volumes, types.MergePatchType, metav1.StatusReasonConflict, "1"},
		{"no such object", "w", `{"spec":{"claimRef":{"name":"c"}}}`, volumes, types.MergePatchType, metav1.StatusReasonNotFound, "1"},
		{"no such resource", "v", `{"spec":{"claimRef":{"name":"c"}}}`, v1.SchemeGroupVersion.WithResource("things"), types.MergePatchType, metav1.StatusReasonNotFound, "1"},
		{"not JSON", "v", `{`, volumes, types.MergePatchType, metav1.StatusReasonBadRequest, "1"},
		{"another type", "v", `{}`, volumes, types.ApplyCBORPatchType, metav1.StatusReasonBadRequest, "1"},
		{"JSON patch", "v", `[{"op":"test","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/spec/claimRef","value":{"name":"c"}}]`, volumes, types.JSONPatchType, "", "2"},
		{"JSON patch, another version", "v", `[{"op":"test","path":"/metadata/resourceVersion","value":"0"},{"op":"add","path":"/spec/claimRef","value":{"name":"c"}}]`, volumes, types.JSONPatchType, metav1.StatusReasonInvalid, "1"},
		{"JSON patch of what is not there", "v", `[{"op":"remove","path":"/spec/claimRef"}]`, volumes, types.JSONPatchType, metav1.StatusReasonInvalid, "1"},
		{"JSON patch that cannot be read", "v", `{}`, volumes, types.JSONPatchType, metav1.StatusReasonBadRequest, "1"},
		{"JSON patch that changes nothing", "v", `[]`, volumes, types.JSONPatchType, "", "1"},
		{"applied", "v", `{"apiVersion":"v1","kind":"PersistentVolume","spec":{"claimRef":{"name":"c"}}}`, volumes, types.ApplyYAMLPatchType, "", "2"},
		{"applied, nothing changes", "v", `{"apiVersion":"v1","kind":"PersistentVolume","spec":{"storageClassName":"np"}}`, volumes, types.ApplyYAMLPatchType, "", "1"},
		{"nothing changes", "v", `{"metadata":{"resourceVersion":"1"},"spec":{"storageClassName":"np"}}`, volumes, types.MergePatchType, "", "1"},
		{"what is not there is removed", "v", `{"spec":{"claimRef":null}}`, volumes, types.MergePatchType, "", "1"},
	} {
		s := newStore(0)
		ref := model.VolumeRef("v")
		s.setOther(ref, build.PersistentVolume("v", "class=np storage=1Gi"))
		before := s.others[ref]
		got, err := s.patch(&plan.Write{Resource: row.resource, Name: row.object, Type: row.kind, Data: []byte(row.data)})
		if reason := apierrors.ReasonForError(err); reason != row.want && (row.want != "" || err != nil) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		now := s.others[ref].(*v1.PersistentVolume)
		if now.ResourceVersion != row.version || (got != nil) != (row.version == "2") || got != nil && got != kinds.Object(now) {
			t.Errorf("%s: it returns %v and version %s is stored, want %s", row.name, got, now.ResourceVersion, row.version)
		}
		if (now == before) != (row.version == "1") || before.(*v1.PersistentVolume).Spec.ClaimRef != nil {
			t.Errorf("%s: the stored object was written to", row.name)
		}
		if row.version == "2" && (now.Spec.ClaimRef == nil || now.Spec.ClaimRef.Name != "c" || now.Spec.StorageClassName != "np") {
			t.Errorf("%s: it is %+v", row.name, now.Spec)
		}
	}
}

// TestApplyAndDelete covers a server-side apply, which creates a missing object, and a
// deletion, which names an object and optionally its UID.
func TestApplyAndDelete(t *testing.T) {
	s := newStore(0)
	claims := resourcev1.SchemeGroupVersion.WithResource("resourceclaims")
	apply := plan.Write{Resource: claims, Namespace: "ns", Name: "c", Type: types.ApplyYAMLPatchType, Data: []byte(`{"metadata":{"namespace":"ns","name":"c"},"spec":{}}`)}
	made, err := s.patch(&apply)
	if err != nil || made.GetUID() == "" || s.about(&apply) == nil {
		t.Fatalf("%v, %v", made, err)
	}
	if again, err := s.patch(&apply); again != nil || err != nil {
		t.Errorf("applied again: %v, %v", again, err)
	}
	for name, data := range map[string]string{"another name": `{"metadata":{"namespace":"ns","name":"d"}}`, "a UID": `{"metadata":{"namespace":"ns","name":"x","uid":"u"}}`, "not JSON": "{"} {
		if _, err := s.patch(&plan.Write{Resource: claims, Namespace: "ns", Name: "x", Type: types.ApplyYAMLPatchType, Data: []byte(data)}); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, row := range []struct {
		name, of, options string
		want              metav1.StatusReason
	}{
		{"any", "c", `{}`, ""}, {"its UID", "c", `{"preconditions":{"uid":"` + string(made.GetUID()) + `"}}`, ""},
		{"another UID", "c", `{"preconditions":{"uid":"other"}}`, metav1.StatusReasonConflict}, {"no such object", "d", `{}`, metav1.StatusReasonNotFound},
		{"not JSON", "c", `{`, metav1.StatusReasonBadRequest},
	} {
		ref, err := s.deletable(&plan.Write{Resource: claims, Namespace: "ns", Name: row.of, Delete: true, Data: []byte(row.options)})
		if reason := apierrors.ReasonForError(err); reason != row.want && (row.want != "" || err != nil) || err == nil && ref.Name != "c" {
			t.Errorf("%s: %v, %v", row.name, ref, err)
		}
	}
}
