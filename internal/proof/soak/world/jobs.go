package world

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// batch is the namespace of jobs.
const batch = "batch"

// Jobs that run and end.
const (
	cronJobs   = 30
	cronEvery  = 15 * time.Minute
	runMin     = 20 * time.Second
	runAbout   = 5 * time.Minute
	jobKept    = 10 * time.Minute
	inLine     = 3 // pods that need devices, in excess of the devices
	trainAbout = 3 * time.Hour
)

// job is a pod that ends on its own.
type job struct {
	w     *World
	runs  time.Duration
	after func() // called when the pod is gone; may be nil
}

func (j *job) started(p *pod) { j.w.after(j.runs, func() { j.w.finish(p, jobKept) }) }

func (j *job) ended(*pod) {
	if j.after != nil {
		j.after()
	}
}

func (w *World) startJobs() {
	for i := range w.of(cronJobs) {
		var tick func()
		tick = func() {
			w.runJob(i)
			w.after(cronEvery, tick)
		}
		w.after(w.upTo(cronEvery), tick)
	}
	// Pods need one and two devices in turns.
	for i := range 2*devices*w.of(accelerated)/3 + 1 + w.of(inLine) {
		w.train(i)
	}
}

// runJob creates the pods of a job, with unique labels.
func (w *World) runJob(number int) {
	name := w.next(fmt.Sprintf("cron-%d", number))
	labels := map[string]string{"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/controller-uid": name, "cron": fmt.Sprint(number)}
	template := podOf(batch, fmt.Sprintf("registry.example/cron-%d", number), requests("200m", "256Mi"), labels)
	template.OwnerReferences = controlledBy("batch/v1", "Job", name)
	if number%10 == 0 {
		spread(&app{labels: labels}, &template, 1, v1.LabelHostname, v1.ScheduleAnyway)
	}
	if number%10 == 1 {
		urgent := int32(500)
		template.Spec.Priority = &urgent
	}
	for range 1 + number%3 {
		object := template
		object.Name = w.next(name)
		w.create(&job{w: w, runs: runMin + w.about(runAbout)}, &object)
	}
}

// train creates a pod that needs devices. When it is gone, another takes its place in the
// line, because the devices never suffice for all.
func (w *World) train(number int) {
	object := podOf(batch, "registry.example/train", requests("1", "1Gi"), map[string]string{"app": "train"})
	object.Name = w.next("train")
	object.Spec.Containers[0].Resources.Requests[accel] = *resource.NewQuantity(int64(1+number%2), resource.DecimalSI)
	object.Spec.NodeSelector = map[string]string{accelLabel: "yes"}
	object.Spec.Tolerations = []v1.Toleration{{Key: dedicated, Operator: v1.TolerationOpExists}}
	w.create(&job{w: w, runs: w.about(trainAbout), after: func() { w.after(time.Second, func() { w.train(number) }) }}, &object)
}
