package sequence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/parity/internal/compare"
)

// assume adds the pod to Berth's node in kube-scheduler's cache, and lets kube-scheduler
// reserve the pod's needs there. kube-scheduler's writes must equal the writes of the
// placement's steps.
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
	return len(pod.Spec.ResourceClaims) > 0 || slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// writtenKinds are the kinds that steps write, by resource.
var writtenKinds = map[string]model.Kind{
	"persistentvolumes": model.PersistentVolumeKind, "persistentvolumeclaims": model.PersistentVolumeClaimKind, "resourceclaims": model.ResourceClaimKind,
}

// oursWritten returns the volumes and claims as the steps leave them, in the order of
// their first write.
func (c *check) oursWritten(steps []plan.Step) ([]runtime.Object, error) {
	var all []runtime.Object
	var refs []model.Ref
	for i := range steps {
		w := steps[i].Write
		if w == nil || writtenKinds[w.Resource.Resource] == 0 {
			continue
		}
		ref := model.Ref{Kind: writtenKinds[w.Resource.Resource], Namespace: w.Namespace, Name: w.Name}
		at := slices.Index(refs, ref)
		stored := c.objects[ref]
		if at >= 0 {
			stored = all[at]
		}
		patched, err := compare.Patched(stored, w)
		if err != nil {
			return nil, fmt.Errorf("apply Berth's patch of %s %s/%s: %w", w.Resource.Resource, w.Namespace, w.Name, err)
		}
		if at >= 0 {
			all[at] = patched
			continue
		}
		refs, all = append(refs, ref), append(all, patched)
	}
	return all, nil
}

// claims returns the ResourceClaims that both schedulers have received.
func (c *check) claims() compare.Claims {
	all := compare.Claims{}
	for _, o := range c.objects {
		if claim, ok := o.(*resourcev1.ResourceClaim); ok {
			all[claim.Namespace+"/"+claim.Name] = claim
		}
	}
	return all
}

// texts formats written objects by name with the fields that scheduling writes. It leaves
// out objects without a change, which kube-scheduler writes, too.
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
	case *resourcev1.ResourceClaim:
		return compare.ClaimText(o)
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

// seen returns an object as kube-scheduler sees it in its decision about a pod: as
// assumed for another pod, unless a newer version arrived.
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
