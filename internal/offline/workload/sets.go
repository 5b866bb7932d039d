package workload

import (
	"cmp"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

const (
	replicasPath      = "spec.replicas"
	revisionHashLabel = "controller-revision-hash"
)

// deployment makes the pods of a Deployment, and its ReplicaSet unless the cluster has
// one.
func (e *expansion) deployment(w *item, d *appsv1.Deployment) {
	sets := e.sets[w.key()]
	have := 0
	for _, set := range sets {
		have += countActive(e.pods.owned[ownerKey{set.Namespace, "apps", "ReplicaSet", set.Name}])
	}
	n := e.missing(w, replicasPath, w.wanted(d.Spec.Replicas), have)
	e.record(w, n, have)
	if n == 0 {
		return
	}
	set := newest(sets)
	if set == nil {
		set = e.newSet(w, d)
	}
	hash := set.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	more := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	p := newPods(w, &d.Spec.Template, ownerOf(set, "apps/v1", "ReplicaSet"), more)
	e.replicas(p, set.Name, n, have)
}

// newest returns the ReplicaSet of the latest revision; nil without any.
func newest(sets []*appsv1.ReplicaSet) *appsv1.ReplicaSet {
	if len(sets) == 0 {
		return nil
	}
	revision := func(set *appsv1.ReplicaSet) int {
		// n is 0 without a revision.
		n, _ := strconv.Atoi(set.Annotations["deployment.kubernetes.io/revision"])
		return n
	}
	return slices.MaxFunc(sets, func(a, b *appsv1.ReplicaSet) int { return cmp.Compare(revision(a), revision(b)) })
}

// newSet adds the ReplicaSet of a Deployment.
func (e *expansion) newSet(w *item, d *appsv1.Deployment) *appsv1.ReplicaSet {
	hash := hashOf(&d.Spec.Template)
	more := map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
	set := &appsv1.ReplicaSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ReplicaSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + hash,
			Labels: merged(d.Spec.Template.Labels, more), OwnerReferences: []metav1.OwnerReference{w.owner()}},
	}
	set.Spec.Selector = d.Spec.Selector.DeepCopy()
	set.Spec.Selector.MatchLabels = merged(set.Spec.Selector.MatchLabels, more)
	set.Spec.Template = *d.Spec.Template.DeepCopy()
	set.Spec.Template.Labels = set.Labels
	set.UID = manifest.UID("apps", "ReplicaSet", set)
	e.create(w, set)
	return set
}

// replicas adds n pods with generated names, numbered from first.
func (e *expansion) replicas(p *pods, prefix string, n, first int) {
	for i := range n {
		name := e.generated(p.of.object.GetNamespace(), prefix+"-", first+i)
		e.add(p, p.pod(name), nil)
	}
}

// replicaSet makes the pods of a ReplicaSet, unless its Deployment does.
func (e *expansion) replicaSet(w *item, set *appsv1.ReplicaSet) {
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil && e.deployments[keyOf(set.Namespace, owner)] {
		return
	}
	e.simple(w, set.Spec.Replicas, set.Spec.Selector, &set.Spec.Template)
}

func (e *expansion) replicationController(w *item, c *v1.ReplicationController) {
	e.simple(w, c.Spec.Replicas, &metav1.LabelSelector{MatchLabels: c.Spec.Selector}, c.Spec.Template)
}

// simple makes the pods of a workload whose pods are all alike.
func (e *expansion) simple(w *item, replicas *int32, selects *metav1.LabelSelector, t *v1.PodTemplateSpec) {
	have := countActive(e.pods.of(w.key(), selects))
	want := w.wanted(replicas)
	if !manifest.HasTemplate(t) {
		e.without(w, want, have)
		return
	}
	n := e.missing(w, replicasPath, want, have)
	e.record(w, n, have)
	if n > 0 {
		e.replicas(newPods(w, t, w.owner(), nil), w.object.GetName(), n, have)
	}
}

// without notes pods that cannot be made, because a snapshot has the workload without its
// template.
func (e *expansion) without(w *item, want, have int) {
	if want > have {
		e.note(w, "spec.template", "has no containers, so %d of its %d pods are not made; give the whole object",
			want-have, want)
	}
}

// statefulSet makes the pods of a StatefulSet, and the claims of its templates.
func (e *expansion) statefulSet(w *item, set *appsv1.StatefulSet) {
	if !manifest.HasTemplate(&set.Spec.Template) {
		e.without(w, w.wanted(set.Spec.Replicas), countActive(e.pods.of(w.key(), set.Spec.Selector)))
		return
	}
	added, have := e.ordinals(w, set, replicasPath, w.wanted(set.Spec.Replicas))
	e.record(w, added, have)
}

// ordinals makes the pods of a StatefulSet that do not exist, by their ordinals. A pod
// that is being deleted keeps its name until it is gone.
func (e *expansion) ordinals(w *item, set *appsv1.StatefulSet, path string, want int) (added, have int) {
	start := 0
	if o := set.Spec.Ordinals; o != nil {
		start = int(o.Start)
	}
	if want-len(e.pods.names) > e.left && !e.One {
		return e.missing(w, path, want, 0), 0 // too many to look at each
	}
	var ordinals []int
	for i := start; i < start+want; i++ {
		if e.pods.names[set.Namespace+"/"+set.Name+"-"+strconv.Itoa(i)] {
			have++
		} else if !e.One || len(ordinals) == 0 {
			ordinals = append(ordinals, i)
		}
	}
	n := e.missing(w, path, want, have)
	if n > len(ordinals) { // With One, the set may have all its pods already.
		ordinals = append(ordinals, start+want)
	}
	hash := set.Name + "-" + hashOf(&set.Spec.Template)
	p := newPods(w, &set.Spec.Template, ownerOf(set, "apps/v1", "StatefulSet"), map[string]string{revisionHashLabel: hash})
	p.template.Spec.Subdomain = set.Spec.ServiceName
	for _, ordinal := range ordinals[:n] {
		number := strconv.Itoa(ordinal)
		pod := p.pod(set.Name + "-" + number)
		pod.Spec.Hostname = pod.Name
		e.claim(w, set, pod)
		e.add(p, pod, map[string]string{appsv1.StatefulSetPodNameLabel: pod.Name, appsv1.PodIndexLabel: number})
	}
	return n, have
}

// claim gives a pod a claim for each template, and adds those that do not exist.
func (e *expansion) claim(w *item, set *appsv1.StatefulSet, pod *v1.Pod) {
	if len(set.Spec.VolumeClaimTemplates) == 0 {
		return
	}
	var volumes []v1.Volume
	own := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		t := &set.Spec.VolumeClaimTemplates[i]
		name := t.Name + "-" + pod.Name
		own[t.Name] = true
		source := &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}
		volumes = append(volumes, v1.Volume{Name: t.Name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: source}})
		if e.claims[set.Namespace+"/"+name] {
			continue
		}
		e.claims[set.Namespace+"/"+name] = true
		claim := t.DeepCopy()
		claim.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
		claim.Name, claim.Namespace, claim.UID, claim.Status = name, set.Namespace, "", v1.PersistentVolumeClaimStatus{}
		claim.Labels = merged(claim.Labels, set.Spec.Selector.MatchLabels)
		e.create(w, claim)
	}
	for _, volume := range pod.Spec.Volumes {
		if !own[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	pod.Spec.Volumes = volumes
}
