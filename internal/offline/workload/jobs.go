package workload

import (
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// job makes the pods of a Job that run at a time.
func (e *expansion) job(w *item, j *batchv1.Job) {
	if owner := metav1.GetControllerOfNoCopy(j); owner != nil && e.jobSets[keyOf(j.Namespace, owner)] {
		return
	}
	if why := ended(j); why != "" {
		e.note(w, "", "%s, so it has no further pod", why)
		return
	}
	added, have := e.jobPods(w, j, "spec.parallelism", nil)
	e.record(w, added, have)
}

// ended returns why a Job makes no pod, "" if it does.
func ended(j *batchv1.Job) string {
	if j.Spec.Suspend != nil && *j.Spec.Suspend {
		return "is suspended"
	}
	for _, c := range j.Status.Conditions {
		if c.Status == v1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return "is " + strings.ToLower(string(c.Type))
		}
	}
	return ""
}

// jobPods makes the pods of a Job, with more labels: as many as run at a time, and no
// more than completions are missing.
func (e *expansion) jobPods(w *item, j *batchv1.Job, path string, more map[string]string) (added, have int) {
	existing := e.pods.owned[ownerKey{j.Namespace, "batch", "Job", j.Name}]
	want := w.wanted(j.Spec.Parallelism)
	have = countActive(existing)
	if c := j.Spec.Completions; c != nil {
		want = min(want, int(*c)-succeeded(j, existing))
	}
	own := map[string]string{batchv1.ControllerUidLabel: string(j.UID), batchv1.JobNameLabel: j.Name,
		"controller-uid": string(j.UID), "job-name": j.Name}
	p := newPods(w, &j.Spec.Template, ownerOf(j, "batch/v1", "Job"), merged(more, own))
	indexed := j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion
	n := e.missing(w, path, max(want, 0), min(have, max(want, 0)))
	if !indexed {
		e.replicas(p, j.Name, n, have)
		return n, have
	}
	done := completed(j.Status.CompletedIndexes)
	for _, pod := range existing {
		index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
		if err == nil && (active(pod) || pod.Status.Phase == v1.PodSucceeded) {
			done[index] = true
		}
	}
	for index := 0; added < n; index++ {
		if done[index] {
			continue
		}
		e.indexed(p, j.Name, index)
		added++
	}
	return n, have
}

// indexed adds the pod of one index of a Job.
func (e *expansion) indexed(p *pods, job string, index int) {
	number := strconv.Itoa(index)
	behind := "-" + number + "-"
	prefix := job[:min(len(job), validation.DNS1123LabelMaxLength-5-len(behind))] + behind
	pod := p.pod(e.generated(p.of.object.GetNamespace(), prefix, 0))
	pod.Spec.Hostname = job + "-" + number
	own := map[string]string{batchv1.JobCompletionIndexAnnotation: number}
	pod.Annotations = merged(pod.Annotations, own)
	e.add(p, pod, own)
}

// succeeded returns how many completions a Job has.
func succeeded(j *batchv1.Job, existing []*v1.Pod) int {
	n := 0
	for _, pod := range existing {
		if pod.Status.Phase == v1.PodSucceeded {
			n++
		}
	}
	return max(n, int(j.Status.Succeeded))
}

// completed returns the indexes of a list such as "1,3-5".
func completed(list string) map[int]bool {
	all := map[int]bool{}
	for part := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if ranged {
			if last, err = strconv.Atoi(to); err != nil || last-first > MaxPods {
				continue
			}
		}
		for i := first; i <= last; i++ {
			all[i] = true
		}
	}
	return all
}

// cronJob makes the pods of one run of a CronJob, if the options name it.
func (e *expansion) cronJob(w *item, c *batchv1.CronJob) {
	name := c.Namespace + "/" + c.Name
	if !slices.Contains(e.Runs, name) && !e.One {
		e.note(w, "", "creates pods on its schedule only; --run-cronjob %s adds the pods of one run", name)
		return
	}
	e.run[name] = true
	job := &batchv1.Job{Spec: c.Spec.JobTemplate.Spec}
	job.Namespace, job.Name, job.Labels = c.Namespace, c.Name+"-run", c.Spec.JobTemplate.Labels
	job.UID = manifest.UID("batch", "Job", job)
	added, have := e.jobPods(w, job, "spec.jobTemplate.spec.parallelism", nil)
	e.record(w, added, have)
}
