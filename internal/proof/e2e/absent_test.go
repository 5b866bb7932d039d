package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsThatNeedMoreStayPending creates a pod with a claim that does not exist. The pod
// is never bound, and its condition names the missing claim. A pod with volumes that need
// no plugin is bound as usual.
func TestPodsThatNeedMoreStayPending(t *testing.T) {
	w := newWorld(t, "absent")
	// A separate profile, so that pods of other tests do not count.
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": {"leaderElect": false}, "clientConnection": {"kubeconfig": %q}, "profiles": [{"schedulerName": "absent"}]}`, cluster.SchedulerKubeconfig), 0o600))
	bindings, err := cluster.WatchBindings(w.ctx, w.namespace, "")
	w.must(err)
	claim := func(name string) func(*v1.PodSpec) {
		return func(spec *v1.PodSpec) {
			spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		}
	}
	pods := map[string]struct {
		shape func(*v1.PodSpec)
		why   string // empty if the pod is bound
		after string // the part of the message from PostFilter plugins
	}{
		"missing-claim": {claim("missing"), `persistentvolumeclaim "missing" not found`, "not found"},
		"plain": {func(spec *v1.PodSpec) {
			spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
		}, "", ""},
	}
	create := func(name string, shape func(*v1.PodSpec)) {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1.PodSpec{SchedulerName: "absent", Containers: []v1.Container{{Name: "main", Image: "i"}}},
		}
		shape(&pod.Spec)
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, pod, metav1.CreateOptions{})
		w.must(err)
	}
	for name, pod := range pods {
		create(name, pod.shape)
	}
	w.kubeScheduler(&transcript{}, "--config", file, w.securePort(),
		"--authentication-kubeconfig", cluster.SchedulerKubeconfig, "--authorization-kubeconfig", cluster.SchedulerKubeconfig)
	for name, pod := range pods {
		if pod.why == "" {
			continue
		}
		message := fmt.Sprintf("0/%[1]d nodes are available: %[2]s. "+pod.after, cluster.Nodes, pod.why)
		w.await("the condition of "+name+" says why", func() bool {
			condition := w.scheduledCondition(name)
			return condition != nil && condition.Status == v1.ConditionFalse && condition.Reason == v1.PodReasonUnschedulable && condition.Message == message
		})
		w.await("an event of "+name+" says why", func() bool {
			return slices.ContainsFunc(w.events(name), func(e eventsv1.Event) bool {
				return e.Type == v1.EventTypeWarning && e.Reason == "FailedScheduling" && e.Note == message
			})
		})
	}
	// No event in the cluster wakes them: later pods are decided about, and these are not
	// retried.
	create("later", pods["plain"].shape)
	w.await("pods without such needs are bound", func() bool { n, _, _ := bindings.Count(); return n == 2 })
	admin := w.clientOf(cluster.Kubeconfig)
	w.await("metrics count those that wait by plugin", func() bool {
		if status, _ := w.ask(admin, http.MethodGet, "/readyz", ""); status != http.StatusOK {
			return false
		}
		s := w.scrape(admin)
		return s.value("scheduler_unschedulable_pods", "plugin=VolumeRestrictions", "profile=absent") == 1
	})
	time.Sleep(3 * time.Second) // longer than the first backoff
	bound := bindings.Times()
	for name := range pods {
		if _, ok := bound[name]; ok != (pods[name].why == "") {
			t.Errorf("pod %s: bound: %v", name, ok)
		}
	}
	if attempts := w.scrape(admin).value("scheduler_schedule_attempts_total", "result=unschedulable", "profile=absent"); attempts != 1 {
		t.Errorf("%v attempts failed, want one", attempts)
	}
}
