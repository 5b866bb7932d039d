package sequence

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
)

// assume puts the pod on the node of Berth's placement in kube-scheduler's cache, and lets kube-scheduler reserve what the pod needs there. What
// kube-scheduler would write must be what the placement's steps write.
func (c *check) assume(p *plan.Placement, differ func(what, theirs, ours string)) error {
	pod := p.Pod.Object
	if err := c.theirs.Assume(pod, p.NodeName); err != nil {
		return err
	}
	if !hasClaims(pod) {
		return nil
	}
	written, err := c.theirs.Reserve(pod, p.NodeName)
	if err != nil {
		differ("reserve", fmt.Sprintf("error %q", err), "none")
		return nil
	}
	if len(written) > 0 {
		c.assumed[keyOf(pod)] = written
	}
	ours, err := c.oursWritten(p.Steps)
	if err != nil {
		return err
	}
	differ("written", c.texts(written), c.texts(ours))
	return nil
}

func keyOf(pod *v1.Pod) model.PodKey { return model.PodKey{Namespace: pod.Namespace, Name: pod.Name} }

func hasClaims(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// oursWritten returns the objects as the steps that write volumes and claims leave them, in order.
func (c *check) oursWritten(steps []plan.Step) ([]runtime.Object, error) {
	var all []runtime.Object
	for i := range steps {
		w := steps[i].Write
		if w == nil || w.Resource.Resource != "persistentvolumes" && w.Resource.Resource != "persistentvolumeclaims" {
			continue
		}
		kind := model.PersistentVolumeKind
		if w.Resource.Resource == "persistentvolumeclaims" {
			kind = model.PersistentVolumeClaimKind
		}
		patched, err := patched(c.objects[model.Ref{Kind: kind, Namespace: w.Namespace, Name: w.Name}], w)
		if err != nil {
			return nil, fmt.Errorf("apply Berth's patch of %s %s/%s: %w", w.Resource.Resource, w.Namespace, w.Name, err)
		}
		all = append(all, patched)
	}
	return all, nil
}

func patched(stored runtime.Object, w *plan.Write) (runtime.Object, error) {
	if stored == nil {
		return nil, fmt.Errorf("there is no such object")
	}
	if w.Type != types.MergePatchType {
		return nil, fmt.Errorf("patches of type %s are not understood", w.Type)
	}
	before, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, w.Data)
	if err != nil {
		return nil, err
	}
	fresh := stored.DeepCopyObject()
	switch o := fresh.(type) {
	case *v1.PersistentVolume:
		*o = v1.PersistentVolume{}
	case *v1.PersistentVolumeClaim:
		*o = v1.PersistentVolumeClaim{}
	}
	return fresh, json.Unmarshal(after, fresh)
}

// texts writes down written objects by name with the fields that scheduling writes. Objects that a write leaves as they are, which
// kube-scheduler writes all the same, are left out.
func (c *check) texts(written []runtime.Object) string {
	var all []string
	for _, o := range written {
		text := fieldsOf(o)
		if ref, ok := kinds.RefOf(o); !ok || c.objects[ref] == nil || fieldsOf(c.objects[ref]) != text {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return "nothing"
	}
	return strings.Join(all, "; ")
}

func fieldsOf(o runtime.Object) string {
	switch o := o.(type) {
	case *v1.PersistentVolume:
		ref := "none"
		if r := o.Spec.ClaimRef; r != nil {
			ref = fmt.Sprintf("%s %s %s/%s %s at %s", r.APIVersion, r.Kind, r.Namespace, r.Name, r.UID, r.ResourceVersion)
		}
		return fmt.Sprintf("volume %s: claim %s, %s", o.Name, ref, annotations(o))
	case *v1.PersistentVolumeClaim:
		return fmt.Sprintf("claim %s/%s: volume %q, %s", o.Namespace, o.Name, o.Spec.VolumeName, annotations(o))
	}
	return fmt.Sprintf("%T", o)
}

func annotations(o metav1.Object) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(o.GetAnnotations())) {
		all = append(all, key+"="+o.GetAnnotations()[key])
	}
	return fmt.Sprint(all)
}

// seen returns an object as kube-scheduler sees it when it decides about a pod: as it has assumed it for another pod, unless a newer version came.
func (c *check) seen(object runtime.Object, by model.PodKey) runtime.Object {
	stored, ok := object.(metav1.Object)
	if !ok {
		return object
	}
	for pod, all := range c.assumed {
		for _, o := range all {
			assumed := o.(metav1.Object)
			if pod != by && assumed.GetUID() == stored.GetUID() && assumed.GetResourceVersion() == stored.GetResourceVersion() {
				return o
			}
		}
	}
	return object
}
