package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// kindOf has the kinds of patchable stored objects, by resource.
var kindOf = func() map[schema.GroupVersionResource]model.Kind {
	by := map[schema.GroupVersionResource]model.Kind{}
	for kind := range model.KindCount {
		by[kinds.Get(kind).Resource] = kind
	}
	return by
}()

// patch applies a patch as the API server does. It refuses a patch that names another
// version or UID than the object's. A patch without a change creates no new version. A
// server-side apply creates a missing object.
func (s *store) patch(write *plan.Write) (kinds.Object, error) {
	group := write.Resource.GroupResource()
	kind, ok := kindOf[write.Resource]
	ref := model.Ref{Kind: kind, Namespace: write.Namespace, Name: write.Name}
	stored := s.get(ref)
	switch {
	case ok && stored == nil && write.Type == types.ApplyYAMLPatchType:
		return s.create(ref, write.Data)
	case !ok || stored == nil:
		return nil, apierrors.NewNotFound(group, write.Name)
	}
	if err := precondition(write, stored); err != nil {
		return nil, err
	}
	patched, err := patched(stored, write)
	switch {
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return nil, err
	case err != nil:
		return nil, apierrors.NewBadRequest(err.Error())
	case patched == nil:
		return nil, nil
	}
	return s.set(ref, patched), nil
}

// set stores an object that is not a node.
func (s *store) set(ref model.Ref, object kinds.Object) kinds.Object {
	if pod, ok := object.(*v1.Pod); ok {
		return s.setPod(pod)
	}
	return s.setOther(ref, object)
}

// create stores a new object.
func (s *store) create(ref model.Ref, data []byte) (kinds.Object, error) {
	object := kinds.Get(ref.Kind).New()
	if err := json.Unmarshal(data, object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if object.GetName() != ref.Name || object.GetNamespace() != ref.Namespace || object.GetUID() != "" {
		return nil, apierrors.NewBadRequest("the object does not have the name of the request, or has a UID")
	}
	return s.set(ref, object), nil
}

// deletable returns the reference of the object that a write deletes, or the reason for a
// refusal.
func (s *store) deletable(write *plan.Write) (model.Ref, error) {
	group := write.Resource.GroupResource()
	var options metav1.DeleteOptions
	if err := json.Unmarshal(write.Data, &options); err != nil {
		return model.Ref{}, apierrors.NewBadRequest(err.Error())
	}
	stored := s.about(write)
	if stored == nil {
		return model.Ref{}, apierrors.NewNotFound(group, write.Name)
	}
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != stored.GetUID() {
		return model.Ref{}, apierrors.NewConflict(group, write.Name, fmt.Errorf("the UID in the precondition is %s, the object's is %s", *p.UID, stored.GetUID()))
	}
	return refOf(stored), nil
}

// precondition refuses a patch that names another version or UID than the object's. JSON
// patches test this by their own operations.
func precondition(write *plan.Write, stored kinds.Object) error {
	if write.Type == types.JSONPatchType {
		return nil
	}
	group := write.Resource.GroupResource()
	var wants struct {
		Metadata struct {
			ResourceVersion string    `json:"resourceVersion"`
			UID             types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(write.Data, &wants); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if want := wants.Metadata.ResourceVersion; want != "" && want != stored.GetResourceVersion() {
		return apierrors.NewConflict(group, write.Name, fmt.Errorf("the object has been modified: version %s is at %s", want, stored.GetResourceVersion()))
	}
	if want := wants.Metadata.UID; want != "" && want != stored.GetUID() {
		return apierrors.NewConflict(group, write.Name, fmt.Errorf("the UID in the precondition is %s, the object's is %s", want, stored.GetUID()))
	}
	return nil
}

// jsonPatched applies a JSON patch. As in the API server, an unreadable patch is a bad
// request, and a failed operation, such as a test, is unprocessable.
func jsonPatched(before, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return after, nil
}

// about returns the stored object that a write concerns, or nil.
func (s *store) about(write *plan.Write) kinds.Object {
	kind, ok := kindOf[write.Resource]
	if !ok {
		return nil
	}
	return s.get(model.Ref{Kind: kind, Namespace: write.Namespace, Name: write.Name})
}

// patched returns nil if the patch changes nothing.
func patched(object kinds.Object, write *plan.Write) (kinds.Object, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch write.Type {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, write.Data)
	case types.JSONPatchType:
		after, err = jsonPatched(before, write.Data)
	// applied fields have one owner, so a merge suffices
	case types.StrategicMergePatchType, types.ApplyYAMLPatchType:
		after, err = strategicpatch.StrategicMergePatch(before, write.Data, object)
	default:
		err = fmt.Errorf("patches of type %s are not simulated", write.Type)
	}
	if err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(object).Elem()).Interface().(kinds.Object)
	if err := json.Unmarshal(after, fresh); err != nil {
		return nil, err
	}
	fresh.GetObjectKind().SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	if fresh, err = admitted(object, fresh, write.Subresource); err != nil {
		return nil, err
	}
	if after, err = json.Marshal(fresh); err != nil || bytes.Equal(before, after) {
		return nil, err
	}
	return fresh, nil
}
