package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// dynamicResources is a plugin that scores every pod in kube-scheduler, with 0 on every
// node for pods without claims.
const dynamicResources = "DynamicResources"

// named matches the names of devices and pools in error texts. kube-scheduler fails for a
// random first node, and Berth looks at one of several nodes with equal devices.
var named = regexp.MustCompile(`(on device|resource pool|add device) [^ :,"]+`)

// withoutNames removes the names of devices and pools from the text of an error.
func withoutNames(text string) string { return named.ReplaceAllString(text, "$1 …") }

// Claims are ResourceClaims by namespace/name.
type Claims map[string]*resourcev1.ResourceClaim

func claimsOf(tc *cases.Case) Claims {
	all := Claims{}
	for _, o := range tc.Devices {
		if c, ok := o.(*resourcev1.ResourceClaim); ok {
			all[c.Namespace+"/"+c.Name] = c
		}
	}
	return all
}

// written returns the claims as Berth's writes leave them, in order, followed by the pod
// if its status is written. A deleted claim is returned in its earlier state.
func (all Claims) written(writes []plan.Write) ([]runtime.Object, error) {
	var order []string
	var pods []runtime.Object
	now := Claims{}
	for i := range writes {
		w := &writes[i]
		if w.Resource.Resource == "pods" {
			pod := &v1.Pod{}
			if err := json.Unmarshal(w.Data, pod); err != nil {
				return nil, fmt.Errorf("apply Berth's patch of pod %s: %w", w.Name, err)
			}
			pods = append(pods, pod)
		}
		if w.Resource.Resource != "resourceclaims" || w.Delete {
			continue
		}
		key := w.Namespace + "/" + w.Name
		if w.Type == types.ApplyYAMLPatchType && all[key] == nil {
			made := &resourcev1.ResourceClaim{}
			if err := json.Unmarshal(w.Data, made); err != nil {
				return nil, fmt.Errorf("make Berth's claim %s: %w", key, err)
			}
			order, now[key] = append(order, key), made
			continue
		}
		before := now[key]
		if before == nil {
			order = append(order, key)
			if before = all[key]; before == nil {
				return nil, fmt.Errorf("Berth writes the claim %s, which does not exist", key)
			}
		}
		after, err := Patched(before, w)
		if err != nil {
			return nil, fmt.Errorf("apply Berth's patch of claim %s: %w", key, err)
		}
		now[key] = after.(*resourcev1.ResourceClaim)
	}
	var result []runtime.Object
	for _, key := range order {
		result = append(result, now[key])
	}
	return append(result, pods...), nil
}

// Patched returns a copy of a stored object, patched by a write.
func Patched(stored runtime.Object, w *plan.Write) (runtime.Object, error) {
	if stored == nil || reflect.ValueOf(stored).IsNil() {
		return nil, fmt.Errorf("there is no such object")
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch w.Type {
	case types.MergePatchType:
		after, err = jsonpatch.MergePatch(before, w.Data)
	case types.StrategicMergePatchType:
		after, err = strategicpatch.StrategicMergePatch(before, w.Data, stored)
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(w.Data); err == nil {
			after, err = operations.Apply(before)
		}
	default:
		err = fmt.Errorf("patches of type %s are not understood", w.Type)
	}
	if err != nil {
		return nil, err
	}
	fresh := reflect.New(reflect.TypeOf(stored).Elem()).Interface().(runtime.Object)
	return fresh, json.Unmarshal(after, fresh)
}

// ClaimText formats the fields of a claim that schedulers write. Share IDs are random in
// kube-scheduler, and the allocation time is the present, so fixed values replace both.
func ClaimText(c *resourcev1.ResourceClaim) string {
	status := c.Status.DeepCopy()
	// a set
	slices.SortFunc(status.ReservedFor, func(a, b resourcev1.ResourceClaimConsumerReference) int { return cmp.Compare(a.UID, b.UID) })
	if a := status.Allocation; a != nil {
		if a.AllocationTimestamp != nil {
			a.AllocationTimestamp = &metav1.Time{}
		}
		for i := range a.Devices.Results {
			if r := &a.Devices.Results[i]; r.ShareID != nil {
				shared := types.UID("shared")
				r.ShareID = &shared
			}
		}
	}
	text, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	if c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" { // its name is generated
		asks, err := json.Marshal(c.Spec)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprintf("claim made for %s: finalizers %q, %s, %s", metav1.GetControllerOf(c).UID, c.Finalizers, asks, text)
	}
	return fmt.Sprintf("claim %s/%s: finalizers %q, %s", c.Namespace, c.Name, c.Finalizers, text)
}

func claimTexts(written []runtime.Object) string {
	var all []string
	for _, o := range written {
		if c, ok := o.(*resourcev1.ResourceClaim); ok {
			all = append(all, ClaimText(c))
		}
		if pod, ok := o.(*v1.Pod); ok && pod.Status.ExtendedResourceClaimStatus != nil {
			all = append(all, fmt.Sprintf("uses %v", pod.Status.ExtendedResourceClaimStatus.RequestMappings))
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, "; ")
}

// Deallocated describes the claims that PostFilter deallocates. kube-scheduler takes any
// of the blocking claims. If Berth takes another one of these, both texts are equal.
func (all Claims) Deallocated(d *plan.Decision, verdict *upstream.Verdict) (theirs, ours string, err error) {
	written, err := all.written(d.Writes)
	if err != nil {
		return "", "", err
	}
	theirs, ours = "nothing", claimTexts(written)
	if of := verdict.Deallocated; of != nil {
		theirs = ClaimText(of)
		for _, key := range verdict.Deallocatable {
			emptied := all[key].DeepCopy()
			emptied.Status = resourcev1.ResourceClaimStatus{}
			if text := ClaimText(emptied); text == ours {
				theirs = text
			}
		}
	}
	return theirs, ours, nil
}

// deallocation compares the claims that PostFilter deallocates.
func (c *comparison) deallocation(all Claims, d *plan.Decision, verdict *upstream.Verdict) error {
	theirs, ours, err := all.Deallocated(d, verdict)
	c.differ("", "deallocated", theirs, ours)
	return err
}

// reserved compares the reservations of both for a pod on Berth's node, and restores
// kube-scheduler's state.
func (c *comparison) reserved(theirs KubeScheduler, all Claims, d *plan.Decision, pod *v1.Pod, verdict *upstream.Verdict) error {
	if d.Outcome != plan.Placed || verdict.Err != nil {
		return nil // compared elsewhere
	}
	placement := &d.Placement
	if !slices.ContainsFunc(verdict.Nodes, func(n upstream.Node) bool { return n.Name == placement.NodeName && n.Feasible }) {
		return nil
	}
	if err := theirs.Assume(pod, placement.NodeName); err != nil {
		return err
	}
	written, err := theirs.Reserve(pod, placement.NodeName)
	if err != nil {
		c.differ(placement.NodeName, "reserve", fmt.Sprintf("error %q", err), "none")
	} else {
		var writes []plan.Write
		for i := range placement.Steps {
			if w := placement.Steps[i].Write; w != nil {
				writes = append(writes, *w)
			}
		}
		ours, err := all.written(writes)
		if err != nil {
			return err
		}
		c.differ(placement.NodeName, "written claims", claimTexts(written), claimTexts(ours))
	}
	if err := theirs.Forget(pod); err != nil {
		return err
	}
	return theirs.SetPod(pod) // it may be nominated
}
