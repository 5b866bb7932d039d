package disruption_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/internal/cluster/disruption"
)

// shop returns a pod of app=web in namespace shop, changed by the functions.
func shop(name string, changes ...func(*v1.Pod)) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Spec:       v1.PodSpec{NodeName: "a"},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func of(kind, name string) func(*v1.Pod) {
	controls := true
	return func(p *v1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: map[string]string{"ReplicaSet": "apps/v1", "Job": "batch/v1"}[kind], Kind: kind, Name: name, Controller: &controls}}
	}
}

func terminating(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }
func waiting(p *v1.Pod)     { p.Spec.NodeName = "" }
func finished(p *v1.Pod)    { p.Status.Phase = v1.PodSucceeded }
func unready(p *v1.Pod) {
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}
}
func elsewhere(p *v1.Pod) { p.Namespace = "other" }
func other(p *v1.Pod)     { p.Labels["app"] = "db" }

// TestStatus compares with the results of the disruption controller.
func TestStatus(t *testing.T) {
	pods := func(n int, changes ...func(*v1.Pod)) (all []*v1.Pod) {
		for i := range n {
			all = append(all, shop(fmt.Sprintf("web-%d", i), changes...))
		}
		return all
	}
	rs := of("ReplicaSet", "web")
	tests := []struct {
		name     string
		min, max string
		pods     []*v1.Pod
		want     string // allowed healthy/desired/expected
	}{
		{"a minimum", "2", "", pods(3), "1 3/2/3"},
		{"a minimum that is not met", "4", "", pods(3), "0 3/4/3"},
		{"no pods", "0", "", nil, "0 0/0/0"},
		{"half of four replicas, three there", "50%", "", pods(3, rs), "1 3/2/4"},
		{"a percentage of pods without a controller", "50%", "", pods(3), "0 3/0/0"},
		{"a maximum", "", "1", pods(4, rs), "1 4/3/4"},
		{"a maximum, one too few already", "", "1", pods(3, rs), "0 3/3/4"},
		{"a third of four, rounded up", "", "30%", pods(4, rs), "2 4/2/4"},
		{"a maximum for pods without a controller", "", "1", pods(3), "0 3/0/0"},
		{"a controller that is not known", "", "1", pods(3, of("ReplicaSet", "unknown")), "1 3/2/3"},
		{"jobs have no scale", "", "1", pods(3, of("Job", "web")), "0 3/0/0"},
		{"jobs can have a minimum", "1", "", pods(3, of("Job", "web")), "2 3/1/3"},
		{"terminating", "1", "", pods(3, terminating), "0 0/1/3"},
		{"waiting", "1", "", pods(3, waiting), "0 0/1/3"},
		{"unready", "1", "", pods(3, unready), "0 0/1/3"},
		{"finished", "1", "", pods(3, finished), "0 0/1/0"},
		{"of another namespace", "1", "", pods(3, elsewhere), "0 0/1/0"},
		{"with other labels", "1", "", pods(3, other), "0 0/1/0"},
		{"neither", "", "", pods(3), "0 3/0/0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
			object.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			if test.min != "" {
				amount := intstr.Parse(test.min)
				object.Spec.MinAvailable = &amount
			}
			if test.max != "" {
				amount := intstr.Parse(test.max)
				object.Spec.MaxUnavailable = &amount
			}
			b := disruption.New(object)
			for _, pod := range test.pods {
				older := shop(pod.Name)
				older.Namespace = pod.Namespace
				b.Set(older)
				b.Set(pod)
			}
			check := func(want string) {
				t.Helper()
				s := b.Status(func(_ string, owner *metav1.OwnerReference) (int32, bool) { return 4, owner.Name == "web" })
				if got := fmt.Sprintf("%d %d/%d/%d", s.DisruptionsAllowed, s.CurrentHealthy, s.DesiredHealthy, s.ExpectedPods); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
			check(test.want)
			for _, pod := range test.pods {
				b.Remove(pod.Namespace, pod.Name)
				b.Remove("shop", pod.Name)
			}
			if s := b.Status(nil); s.CurrentHealthy != 0 || s.DisruptionsAllowed != 0 {
				t.Errorf("without pods: %+v", s)
			}
		})
	}
}

// TestSelectors checks that an empty selector selects all pods of the namespace and a
// missing one none, and that disrupted pods are not healthy.
func TestSelectors(t *testing.T) {
	healthy := func(selector *metav1.LabelSelector, disrupted ...string) int32 {
		object := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
		object.Status.DisruptedPods = map[string]metav1.Time{}
		for _, name := range disrupted {
			object.Status.DisruptedPods[name] = metav1.Time{}
		}
		b := disruption.New(object)
		for _, name := range []string{"a", "b"} {
			if b.Set(shop(name)) != (selector != nil) || b.Set(shop(name)) {
				t.Errorf("pod %s: a change is one, and the same version again is none", name)
			}
		}
		return b.Status(nil).CurrentHealthy
	}
	if got := healthy(&metav1.LabelSelector{}); got != 2 {
		t.Errorf("an empty selector: %d", got)
	}
	if got := healthy(&metav1.LabelSelector{}, "a"); got != 1 {
		t.Errorf("one disrupted: %d", got)
	}
	if got := healthy(nil); got != 0 {
		t.Errorf("no selector: %d", got)
	}
}
