package manifest

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// CheckTemplate reports fields that an API server would reject in a pod template of an
// object at a place. within is the path of the template, and object the name of its
// object.
func CheckTemplate(at Place, object, within string, t *v1.PodTemplateSpec) (errs, remarks []*Error) {
	r := &report{file: at.File, line: at.Line, object: object}
	checkTemplate(t, within, r)
	return r.errs, r.remarks
}

// FillTemplate sets the values of a pod template that the API server sets in a pod.
func FillTemplate(t *v1.PodTemplateSpec) {
	pod := v1.Pod{Spec: t.Spec}
	fillPod(&pod)
	t.Spec = pod.Spec
}

// Join joins errors as Read does: a screenful, and the number of the others.
func Join(errs []*Error) error { return join(errs) }

func checkTemplate(t *v1.PodTemplateSpec, within string, r *report) {
	outer := r.within
	r.within = outer + within + "."
	defer func() { r.within = outer }()
	r.addList(validateLabels(t.Labels))
	checkPod(&v1.Pod{Spec: t.Spec}, r)
}

// checkMatch checks that a workload selects its own pods. API servers reject other
// workloads.
func checkMatch(s *metav1.LabelSelector, t *v1.PodTemplateSpec, r *report) {
	if s == nil {
		r.add("spec.selector", "is missing; give matchLabels with labels of the template")
		return
	}
	before := len(r.errs)
	checkSelector(s, specPath.Child("selector"), r)
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil || len(r.errs) > before {
		return
	}
	switch {
	case selector.Empty():
		r.add("spec.selector", "is empty, which selects every pod; give matchLabels with labels of the template")
	case !selector.Matches(labels.Set(t.Labels)):
		r.add("spec.selector", "%s does not match the labels of spec.template, which are {%s}; make them equal",
			selector, labels.Set(t.Labels))
	}
}

// checkReplicas checks a number of pods.
func checkReplicas(n *int32, path string, r *report) {
	if n != nil && *n < 0 {
		r.add(path, "%d is negative; give zero or more", *n)
	}
}

// checkRestarts checks the restart policy of a template.
func checkRestarts(t *v1.PodTemplateSpec, path, kind string, always bool, r *report) {
	switch policy := t.Spec.RestartPolicy; {
	case always && policy != "" && policy != v1.RestartPolicyAlways:
		r.add(path, "%q is not supported for a %s; want Always", policy, kind)
	case !always && policy != v1.RestartPolicyOnFailure && policy != v1.RestartPolicyNever:
		r.add(path, "%q is not supported for a %s; want OnFailure or Never", policy, kind)
	}
}

func checkDeployment(d *appsv1.Deployment, r *report) {
	checkSet(d.Spec.Replicas, d.Spec.Selector, &d.Spec.Template, "Deployment", r)
}

func checkSet(replicas *int32, selector *metav1.LabelSelector, t *v1.PodTemplateSpec, kind string, r *report) {
	checkReplicas(replicas, "spec.replicas", r)
	checkMatch(selector, t, r)
	checkTemplate(t, "spec.template", r)
	checkRestarts(t, "spec.template.spec.restartPolicy", kind, true, r)
}

// checkTrimmed checks a set that snapshots may have without its template, because
// schedulers read only its selector.
func checkTrimmed(replicas *int32, selector *metav1.LabelSelector, t *v1.PodTemplateSpec, kind string, r *report) {
	if HasTemplate(t) {
		checkSet(replicas, selector, t, kind, r)
		return
	}
	checkReplicas(replicas, "spec.replicas", r)
	checkSelector(selector, specPath.Child("selector"), r)
}

// HasTemplate reports whether a template has pods.
func HasTemplate(t *v1.PodTemplateSpec) bool { return t != nil && len(t.Spec.Containers) > 0 }

// makesPods reports whether an object is a workload.
func makesPods(o object) bool {
	switch o.(type) {
	case *appsv1.Deployment, *appsv1.ReplicaSet, *appsv1.StatefulSet, *appsv1.DaemonSet, *batchv1.Job, *batchv1.CronJob,
		*v1.ReplicationController, *unstructured.Unstructured:
		return true
	}
	return false
}

func checkDaemonSet(d *appsv1.DaemonSet, r *report) {
	checkSet(nil, d.Spec.Selector, &d.Spec.Template, "DaemonSet", r)
}

func checkJob(j *batchv1.Job, r *report) { checkJobSpec(&j.Spec, "spec.", r) }

func checkCronJob(c *batchv1.CronJob, r *report) {
	checkJobSpec(&c.Spec.JobTemplate.Spec, "spec.jobTemplate.spec.", r)
}

func checkJobSpec(s *batchv1.JobSpec, path string, r *report) {
	checkReplicas(s.Parallelism, path+"parallelism", r)
	checkReplicas(s.Completions, path+"completions", r)
	if s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion && s.Completions == nil {
		r.add(path+"completions", "is missing; an Indexed job needs the number of its indexes")
	}
	checkTemplate(&s.Template, path+"template", r)
	checkRestarts(&s.Template, path+"template.spec.restartPolicy", "Job", false, r)
}

// checkReplicationController checks one with a template; the selector's default comes
// later.
func checkReplicationController(c *v1.ReplicationController, r *report) {
	checkReplicas(c.Spec.Replicas, "spec.replicas", r)
	if !HasTemplate(c.Spec.Template) {
		return
	}
	if len(c.Spec.Selector) > 0 {
		checkMatch(&metav1.LabelSelector{MatchLabels: c.Spec.Selector}, c.Spec.Template, r)
	}
	checkTemplate(c.Spec.Template, "spec.template", r)
	checkRestarts(c.Spec.Template, "spec.template.spec.restartPolicy", "ReplicationController", true, r)
}
