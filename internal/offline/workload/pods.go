package workload

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// ownerKey is the controller of pods, by its kind and name.
type ownerKey struct{ namespace, group, kind, name string }

// keyOf returns the controller that a reference names.
func keyOf(namespace string, owner *metav1.OwnerReference) ownerKey {
	group, _, found := strings.Cut(owner.APIVersion, "/")
	if !found {
		group = "" // v1
	}
	return ownerKey{namespace, group, owner.Kind, owner.Name}
}

// podIndex finds the pods that a workload has already.
type podIndex struct {
	names map[string]bool
	owned map[ownerKey][]*v1.Pod
	// orphans are the pods without a controller, by namespace and by one label in it.
	orphans map[string][]*v1.Pod
}

func indexPods(pods []*v1.Pod) podIndex {
	index := podIndex{names: map[string]bool{}, owned: map[ownerKey][]*v1.Pod{}, orphans: map[string][]*v1.Pod{}}
	for _, pod := range pods {
		index.names[podName(pod)] = true
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			key := keyOf(pod.Namespace, owner)
			index.owned[key] = append(index.owned[key], pod)
			continue
		}
		index.orphans[pod.Namespace] = append(index.orphans[pod.Namespace], pod)
		for key, value := range pod.Labels {
			at := labelKey(pod.Namespace, key, value)
			index.orphans[at] = append(index.orphans[at], pod)
		}
	}
	return index
}

func labelKey(namespace, key, value string) string { return namespace + "/" + key + "=" + value }

// of returns the pods that a controller has or would adopt. Finished pods count too.
func (x *podIndex) of(owner ownerKey, selects *metav1.LabelSelector) []*v1.Pod {
	found := slices.Clip(x.owned[owner])
	selector, err := metav1.LabelSelectorAsSelector(selects)
	if err != nil || selector.Empty() {
		return found
	}
	at := owner.namespace
	if key, ok := first(selects.MatchLabels); ok {
		at = labelKey(owner.namespace, key, selects.MatchLabels[key])
	}
	for _, pod := range x.orphans[at] {
		if selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, pod)
		}
	}
	return found
}

// first returns the first key of a map.
func first(m map[string]string) (string, bool) {
	if len(m) == 0 {
		return "", false
	}
	return slices.Min(slices.Collect(maps.Keys(m))), true
}

// active reports whether a pod counts for its controller: it has neither ended nor is it
// deleted.
func active(pod *v1.Pod) bool { return !kinds.Finished(pod) && pod.DeletionTimestamp == nil }

func countActive(pods []*v1.Pod) int {
	n := 0
	for _, pod := range pods {
		if active(pod) {
			n++
		}
	}
	return n
}

// pods makes pods of one template for one controller.
type pods struct {
	of       *item
	template *v1.PodTemplateSpec // as an API server fills it in
	owner    metav1.OwnerReference
	labels   map[string]string // in addition to the template's labels
}

// newPods prepares the pods of a template. The template is copied.
func newPods(w *item, t *v1.PodTemplateSpec, owner metav1.OwnerReference, more map[string]string) *pods {
	p := &pods{of: w, template: t.DeepCopy(), owner: owner}
	manifest.FillTemplate(p.template)
	p.labels = merged(t.Labels, more)
	return p
}

// merged returns labels with more of them, which win.
func merged(a, b map[string]string) map[string]string {
	if len(b) == 0 {
		return a
	}
	all := make(map[string]string, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}

// pod returns a pod that shares the template's slices and labels: thousands of them must
// fit.
func (p *pods) pod(name string) *v1.Pod {
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.of.object.GetNamespace(), Name: name, Labels: p.labels,
			Annotations: p.template.Annotations, OwnerReferences: []metav1.OwnerReference{p.owner}},
		Spec: p.template.Spec,
	}
}

// add adds a pod, with labels of its own.
func (e *expansion) add(p *pods, pod *v1.Pod, own map[string]string) {
	pod.Labels = merged(pod.Labels, own)
	e.pods.names[podName(pod)] = true
	e.create(p.of, pod)
}

// generated returns a name for the pod of a number that no pod has yet.
func (e *expansion) generated(namespace, prefix string, number int) string {
	for salt := 0; ; salt++ {
		name := manifest.GeneratedName(prefix, fmt.Sprintf("%s/%d/%d", namespace, number, salt))
		if !e.pods.names[namespace+"/"+name] {
			return name
		}
	}
}

// hashOf returns a hash as controllers put it into names and labels. It is not theirs,
// which depends on every default of their release.
func hashOf(t *v1.PodTemplateSpec) string {
	h := fnv.New32a()
	data, _ := t.Marshal() // cannot fail: the template was decoded
	_, _ = h.Write(data)
	return rand.SafeEncodeString(fmt.Sprint(h.Sum32()))
}
