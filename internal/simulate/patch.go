package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// kindOf are the kinds of the stored objects that can be patched, by resource.
var kindOf = func() map[schema.GroupVersionResource]model.Kind {
	by := map[schema.GroupVersionResource]model.Kind{}
	for kind := range model.KindCount {
		by[kinds.Get(kind).Resource] = kind
	}
	return by
}()

// patch does what the API server does with a patch: one that names another version or another UID than the object has is refused, and one that
// changes nothing makes no new version. It returns nil if there is none.
func (s *store) patch(write *plan.Write) (kinds.Object, error) {
	group := write.Resource.GroupResource()
	kind, ok := kindOf[write.Resource]
	ref := model.Ref{Kind: kind, Namespace: write.Namespace, Name: write.Name}
	stored := s.others[ref]
	if !ok || stored == nil {
		return nil, apierrors.NewNotFound(group, write.Name)
	}
	var wants struct {
		Metadata struct {
			ResourceVersion string    `json:"resourceVersion"`
			UID             types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(write.Data, &wants); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if want := wants.Metadata.ResourceVersion; want != "" && want != stored.GetResourceVersion() {
		return nil, apierrors.NewConflict(group, write.Name, fmt.Errorf("the object has been modified: version %s is at %s", want, stored.GetResourceVersion()))
	}
	if want := wants.Metadata.UID; want != "" && want != stored.GetUID() {
		return nil, apierrors.NewConflict(group, write.Name, fmt.Errorf("the UID in the precondition is %s, the object's is %s", want, stored.GetUID()))
	}
	patched, err := patched(stored, write)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if patched == nil {
		return nil, nil
	}
	return s.setOther(ref, patched), nil
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
	case types.StrategicMergePatchType:
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
	if after, err = json.Marshal(fresh); err != nil || bytes.Equal(before, after) {
		return nil, err
	}
	return fresh, nil
}
