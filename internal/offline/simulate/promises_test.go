package simulate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// What pods are promised of volumes and claims is what their placements are about to write. A promise counts as long as the object has the version that
// the write names.

// promise remembers what a placement is about to write.
func (a *auditor) promise(p *plan.Placement) {
	var writes []plan.Write
	for i := range p.Steps {
		if w := p.Steps[i].Write; w != nil && w.Type == types.MergePatchType {
			writes = append(writes, *w)
		}
	}
	if len(writes) > 0 {
		a.promises[p.Pod.Key()] = writes
	}
}

// promised returns the objects that promises have changed, as they are assumed, and an error if two pods were promised the same.
func (a *auditor) promised() (map[model.Ref]runtime.Object, error) {
	assumed, by := map[model.Ref]runtime.Object{}, map[model.Ref]model.PodKey{}
	for _, key := range slices.SortedFunc(mapKeys(a.promises), compareKeys) {
		for _, w := range a.promises[key] {
			ref := model.Ref{Kind: model.PersistentVolumeKind, Name: w.Name}
			if w.Resource.Resource == "persistentvolumeclaims" {
				ref = model.Ref{Kind: model.PersistentVolumeClaimKind, Namespace: w.Namespace, Name: w.Name}
			}
			object, ok := a.others[ref].(metav1.Object)
			if !ok || object.GetResourceVersion() != versionOf(w.Data) {
				continue
			}
			patched, err := patchedBy(a.others[ref], w.Data)
			if err != nil {
				return nil, err
			}
			if other, twice := by[ref]; twice && !reflect.DeepEqual(assumed[ref], patched) {
				return nil, fmt.Errorf("%v is promised to %s and to %s", ref, other, key)
			}
			assumed[ref], by[ref] = patched, key
		}
	}
	return assumed, nil
}

func versionOf(patch []byte) string {
	var names struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	_ = json.Unmarshal(patch, &names) // the version of what is not JSON is none
	return names.Metadata.ResourceVersion
}

func patchedBy(object runtime.Object, patch []byte) (runtime.Object, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(object).Elem()).Interface().(runtime.Object)
	return fresh, json.Unmarshal(after, fresh)
}

func mapKeys[K comparable, V any](m map[K]V) func(yield func(K) bool) {
	return func(yield func(K) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// volumeTruth is what the API server has stored of claims and volumes over time.
type volumeTruth struct {
	// had are the volumes that claims were bound to, by the claim's UID, as they were.
	had map[types.UID]*v1.PersistentVolume
	// claims are those that were ever stored under a name, by UID.
	claims map[model.ClaimKey][]types.UID
}

func newVolumeTruth() *volumeTruth {
	return &volumeTruth{had: map[types.UID]*v1.PersistentVolume{}, claims: map[model.ClaimKey][]types.UID{}}
}

// look takes in what is stored, and returns an error if a volume is bound to two claims.
func (v *volumeTruth) look(c *simulate.Cluster) error {
	owner := map[string]string{}
	for _, o := range c.Objects() {
		claim, ok := o.(*v1.PersistentVolumeClaim)
		if !ok {
			continue
		}
		key := model.ClaimKey{Namespace: claim.Namespace, Name: claim.Name}
		if !slices.Contains(v.claims[key], claim.UID) {
			v.claims[key] = append(v.claims[key], claim.UID)
		}
		if _, completed := claim.Annotations[volume.AnnBindCompleted]; !completed {
			continue
		}
		pv, _ := c.Object(model.VolumeRef(claim.Spec.VolumeName)).(*v1.PersistentVolume)
		if pv == nil || claim.Status.Phase == v1.ClaimLost {
			continue
		}
		if other, twice := owner[pv.Name]; twice {
			return fmt.Errorf("volume %s is bound to %s and to %s", pv.Name, other, key)
		}
		owner[pv.Name] = key.String()
		v.had[claim.UID] = pv
	}
	return nil
}

// check returns why a pod must not be bound where it is: one of its claims was never bound, or not to a volume that can be used there. A claim that
// went meanwhile is excused: the scheduler may not have seen that yet.
func (v *volumeTruth) check(c *simulate.Cluster, pod *v1.Pod) error {
	node := c.Node(pod.Spec.NodeName)
	for _, use := range claimsOf(pod) {
		bound := false
		for _, uid := range v.claims[use] {
			pv := v.had[uid]
			if pv == nil {
				continue
			}
			if node == nil || volume.CheckNodeAffinity(pv, node.Labels) == nil {
				bound = true
			}
		}
		if !bound {
			return fmt.Errorf("its claim %s was never bound to a volume that can be used on %s", use, pod.Spec.NodeName)
		}
	}
	return nil
}

func claimsOf(pod *v1.Pod) (keys []model.ClaimKey) {
	compiled := model.NewPod(pod)
	if compiled.Volumes == nil {
		return nil
	}
	for _, claim := range compiled.Volumes.Claims {
		keys = append(keys, claim.Key)
	}
	return keys
}
