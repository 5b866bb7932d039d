package simulate

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// TestPatch patches a volume in version 1, as the API server does.
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
		{"another type", "v", `{}`, volumes, types.ApplyYAMLPatchType, metav1.StatusReasonBadRequest, "1"},
		{"JSON patch", "v", `[{"op":"test","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/spec/claimRef","value":{"name":"c"}}]`, volumes, types.JSONPatchType, "", "2"},
		{"JSON patch, another version", "v", `[{"op":"test","path":"/metadata/resourceVersion","value":"0"},{"op":"add","path":"/spec/claimRef","value":{"name":"c"}}]`, volumes, types.JSONPatchType, metav1.StatusReasonInvalid, "1"},
		{"JSON patch of what is not there", "v", `[{"op":"remove","path":"/spec/claimRef"}]`, volumes, types.JSONPatchType, metav1.StatusReasonInvalid, "1"},
		{"JSON patch that cannot be read", "v", `{}`, volumes, types.JSONPatchType, metav1.StatusReasonBadRequest, "1"},
		{"JSON patch that changes nothing", "v", `[]`, volumes, types.JSONPatchType, "", "1"},
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
