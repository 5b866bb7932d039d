package workload

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

var (
	leaderWorkerSet = schema.GroupKind{Group: "leaderworkerset.x-k8s.io", Kind: "LeaderWorkerSet"}
	jobSet          = schema.GroupKind{Group: "jobset.x-k8s.io", Kind: "JobSet"}
)

// leaderWorkerSpec is the part of a LeaderWorkerSet (sigs.k8s.io/lws) that its pods
// depend on.
type leaderWorkerSpec struct {
	Replicas             *int32 `json:"replicas"`
	LeaderWorkerTemplate struct {
		LeaderTemplate       *v1.PodTemplateSpec        `json:"leaderTemplate"`
		WorkerTemplate       v1.PodTemplateSpec         `json:"workerTemplate"`
		Size                 *int32                     `json:"size"`
		VolumeClaimTemplates []v1.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	} `json:"leaderWorkerTemplate"`
}

const lws = "leaderworkerset.sigs.k8s.io/"

// leaderWorkerSet makes the groups of a LeaderWorkerSet: a StatefulSet with a leader
// each, and for each leader a StatefulSet with its workers, whose ordinals begin at 1.
func (e *expansion) leaderWorkerSet(w *item, o *unstructured.Unstructured) {
	var spec leaderWorkerSpec
	if !e.spec(w, o, &spec) {
		return
	}
	t := &spec.LeaderWorkerTemplate
	leader, path := t.LeaderTemplate, "spec.leaderWorkerTemplate.leaderTemplate"
	if leader == nil {
		leader, path = &t.WorkerTemplate, "spec.leaderWorkerTemplate.workerTemplate"
	} else if !e.check(w, "spec.leaderWorkerTemplate.workerTemplate", &t.WorkerTemplate) {
		return
	}
	if !e.check(w, path, leader) {
		return
	}
	size := 1
	if t.Size != nil {
		size = int(*t.Size)
	}
	groups := w.wanted(spec.Replicas)
	if size < 1 || groups < 0 {
		e.fail(w, "spec", "replicas %d of size %d cannot be; want zero or more of one or more", groups, size)
		return
	}
	base := map[string]string{lws + "name": o.GetName(), lws + "template-revision-hash": hashOf(&t.WorkerTemplate)}
	topology, exclusive := o.GetAnnotations()[lws+"exclusive-topology"]
	annotations := map[string]string{lws + "size": strconv.Itoa(size)}
	leaders := e.groupSet(w, o, o.GetName(), leader, merged(base, map[string]string{lws + "worker-index": "0"}), annotations)
	leaders.Spec.VolumeClaimTemplates = t.VolumeClaimTemplates
	from := len(e.made)
	added, have := e.ordinals(w, leaders, "spec.replicas", groups)
	for _, made := range e.made[from:] {
		if pod, ok := made.Object.(*v1.Pod); ok {
			e.lead(pod, topology)
		}
	}
	e.create(w, leaders)
	switch {
	case size == 1 || e.One:
	case exclusive:
		e.note(w, "metadata.annotations", "%sexclusive-topology has the workers follow their leaders: "+
			"only leaders are made, and their workers when these have nodes", lws)
	default:
		more, had := e.workers(w, o, &spec, groups, size, base, annotations)
		added, have = added+more, have+had
	}
	e.record(w, added, have)
}

// workers makes the workers of each group.
func (e *expansion) workers(w *item, o metav1.Object, spec *leaderWorkerSpec, groups, size int, base, annotations map[string]string) (added, have int) {
	for group := range groups {
		name := fmt.Sprintf("%s-%d", o.GetName(), group)
		own := merged(base, groupLabels(o.GetNamespace(), name, group))
		set := e.groupSet(w, o, name, &spec.LeaderWorkerTemplate.WorkerTemplate, own, merged(annotations, map[string]string{lws + "leader-name": name}))
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1}
		set.Spec.ServiceName = o.GetName()
		set.Spec.VolumeClaimTemplates = spec.LeaderWorkerTemplate.VolumeClaimTemplates
		from := len(e.made)
		n, had := e.ordinals(w, set, "spec.leaderWorkerTemplate.size", size-1)
		if n < size-1-had {
			return added, have // too many pods
		}
		for _, made := range e.made[from:] {
			if pod, ok := made.Object.(*v1.Pod); ok {
				pod.Labels[lws+"worker-index"] = pod.Labels[appsv1.PodIndexLabel]
			}
		}
		e.create(w, set)
		added, have = added+n, have+had
	}
	return added, have
}

// groupSet returns a StatefulSet of a LeaderWorkerSet.
func (e *expansion) groupSet(w *item, o metav1.Object, name string, t *v1.PodTemplateSpec, own, annotations map[string]string) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: name, Labels: own,
			OwnerReferences: []metav1.OwnerReference{w.owner()}},
	}
	selects := maps.Clone(own)
	delete(selects, lws+"template-revision-hash")
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: selects}
	set.Spec.ServiceName = o.GetName()
	set.Spec.Template = *t.DeepCopy()
	set.Spec.Template.Labels = merged(t.Labels, own)
	set.Spec.Template.Annotations = merged(t.Annotations, annotations)
	set.UID = manifest.UID("apps", "StatefulSet", set)
	return set
}

// lead gives a leader the additions of the webhook for pods: the labels of its group, and
// with an exclusive topology, affinity to its group and anti-affinity to others.
func (e *expansion) lead(pod *v1.Pod, topology string) {
	// ordinals has set the label.
	group, _ := strconv.Atoi(pod.Labels[appsv1.PodIndexLabel])
	own := groupLabels(pod.Namespace, pod.Name, group)
	pod.Labels = merged(pod.Labels, own)
	if topology == "" {
		return
	}
	key := own[lws+"group-key"]
	in := metav1.LabelSelectorRequirement{Key: lws + "group-key", Operator: metav1.LabelSelectorOpIn, Values: []string{key}}
	exists := metav1.LabelSelectorRequirement{Key: lws + "group-key", Operator: metav1.LabelSelectorOpExists}
	others := metav1.LabelSelectorRequirement{Key: lws + "group-key", Operator: metav1.LabelSelectorOpNotIn, Values: []string{key}}
	affinity := &v1.Affinity{}
	if pod.Spec.Affinity != nil {
		affinity = pod.Spec.Affinity.DeepCopy()
	}
	if affinity.PodAffinity == nil {
		affinity.PodAffinity = &v1.PodAffinity{}
	}
	if affinity.PodAntiAffinity == nil {
		affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	term := func(all ...metav1.LabelSelectorRequirement) v1.PodAffinityTerm {
		return v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchExpressions: all}, TopologyKey: topology}
	}
	near, apart := affinity.PodAffinity, affinity.PodAntiAffinity
	near.RequiredDuringSchedulingIgnoredDuringExecution = append(near.RequiredDuringSchedulingIgnoredDuringExecution, term(in))
	apart.RequiredDuringSchedulingIgnoredDuringExecution = append(apart.RequiredDuringSchedulingIgnoredDuringExecution, term(exists, others))
	pod.Spec.Affinity = affinity
}

// groupLabels are the labels of a group of a LeaderWorkerSet.
func groupLabels(namespace, leader string, group int) map[string]string {
	return map[string]string{lws + "group-index": strconv.Itoa(group), lws + "group-key": sha1Of(namespace + "/" + leader)}
}

func sha1Of(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// jobSetSpec is the part of a JobSet (sigs.k8s.io/jobset) that its pods depend on.
type jobSetSpec struct {
	Suspend        *bool           `json:"suspend"`
	ReplicatedJobs []replicatedJob `json:"replicatedJobs"`
	Network        *struct {
		EnableDNSHostnames *bool  `json:"enableDNSHostnames"`
		Subdomain          string `json:"subdomain"`
	} `json:"network"`
}

type replicatedJob struct {
	Name      string                  `json:"name"`
	GroupName string                  `json:"groupName"`
	Replicas  *int32                  `json:"replicas"`
	Template  batchv1.JobTemplateSpec `json:"template"`
}

const js = "jobset.sigs.k8s.io/"

// jobSet makes the pods of the Jobs of a JobSet.
func (e *expansion) jobSet(w *item, o *unstructured.Unstructured) {
	var spec jobSetSpec
	if !e.spec(w, o, &spec) {
		return
	}
	if spec.Suspend != nil && *spec.Suspend {
		e.note(w, "spec.suspend", "is true, so it has no pod")
		return
	}
	added, have, global := 0, 0, 0
	for i := range spec.ReplicatedJobs {
		r := &spec.ReplicatedJobs[i]
		path := fmt.Sprintf("spec.replicatedJobs[%d]", i)
		if !e.check(w, path+".template.spec.template", &r.Template.Spec.Template) {
			return
		}
		replicas := 1
		if r.Replicas != nil && !e.One {
			replicas = int(*r.Replicas)
		}
		if replicas > e.left {
			e.missing(w, path+".replicas", replicas, 0) // missing reports the mistake.
			return
		}
		for index := range replicas {
			job := spec.job(o, r, index)
			own := map[string]string{
				js + "jobset-name": o.GetName(), js + "jobset-uid": string(o.GetUID()),
				js + "replicatedjob-name": r.Name, js + "replicatedjob-replicas": strconv.Itoa(replicas),
				js + "job-index": strconv.Itoa(index), js + "job-global-index": strconv.Itoa(global),
				js + "job-key": sha1Of(job.Namespace + "/" + job.Name), js + "group-name": r.GroupName, js + "restart-attempt": "0",
			}
			job.Spec.Template.Annotations = merged(job.Spec.Template.Annotations, own)
			n, had := e.jobPods(w, job, path+".template.spec.parallelism", own)
			added, have, global = added+n, have+had, global+1
		}
	}
	if topology, ok := o.GetAnnotations()["alpha."+js+"exclusive-topology"]; ok && added > 0 {
		e.note(w, "metadata.annotations", "alpha.%sexclusive-topology %s is not taken into account: "+
			"a webhook adds the affinity to pods", js, topology)
	}
	e.record(w, added, have)
}

// job returns a Job of the JobSet, with the defaults of its webhook.
func (s *jobSetSpec) job(o metav1.Object, r *replicatedJob, index int) *batchv1.Job {
	job := &batchv1.Job{Spec: *r.Template.Spec.DeepCopy()}
	job.Namespace, job.Name = o.GetNamespace(), fmt.Sprintf("%s-%s-%d", o.GetName(), r.Name, index)
	job.UID = manifest.UID("batch", "Job", job)
	if job.Spec.CompletionMode == nil {
		job.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	}
	if job.Spec.Completions == nil {
		job.Spec.Completions = job.Spec.Parallelism
	}
	n := s.Network
	if n != nil && n.EnableDNSHostnames != nil && !*n.EnableDNSHostnames {
		return job
	}
	job.Spec.Template.Spec.Subdomain = o.GetName()
	if n != nil && n.Subdomain != "" {
		job.Spec.Template.Spec.Subdomain = n.Subdomain
	}
	return job
}

// spec decodes the spec of a custom resource. Fields that its pods do not depend on are
// ignored.
func (e *expansion) spec(w *item, o *unstructured.Unstructured, to any) bool {
	spec, _ := o.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(spec, to); err != nil {
		e.fail(w, "spec", "%v", err)
		return false
	}
	return true
}
