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

// The promises of volumes and claims to pods are the pending writes of their placements.
// A promise counts while the object has the version that the write names.

// promise records the pending writes of a placement.
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

// promised returns the objects as changed by promises. It returns an error if two pods
// were promised the same object.
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
	_ = json.Unmarshal(patch, &names) // text that is not JSON has no version
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

// volumeTruth records the API server's claims and volumes over time.
type volumeTruth struct {
	// had are the volumes of bound claims, by the claim's UID, at the time of binding.
	had map[types.UID]*v1.PersistentVolume
	// claims are the UIDs of all claims ever stored under a name.
	claims map[model.ClaimKey][]types.UID
}

func newVolumeTruth() *volumeTruth {
	return &volumeTruth{had: map[types.UID]*v1.PersistentVolume{}, claims: map[model.ClaimKey][]types.UID{}}
}

// look records the stored objects, and returns an error if a volume is bound to two
// claims.
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

// check returns why a pod must not be bound to its node: a claim of it was never bound,
// or not to a volume that can be used there. A claim that was deleted meanwhile is
// excused, because the scheduler may not have seen that yet.
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
