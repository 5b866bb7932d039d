package simulate

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
)

// TestGoneIsForgotten creates and deletes pods, many of them before they are shown or
// while a decision is made. No memory of them is left.
func TestGoneIsForgotten(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Scheduler: scheduler, Seed: 1, Faults: Faults{MaxWatchDelay: time.Second, MaxBindDelay: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	c.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("64"), v1.ResourcePods: resource.MustParse("50"),
	}}})
	for i := range 200 {
		pod := v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint(i)}, Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName}}
		c.SetPod(&pod)
		c.Plan(c.Now().Add(time.Duration(i)*20*time.Millisecond), func() { c.DeletePod(model.PodKey{Namespace: "ns", Name: pod.Name}) })
	}
	if err := c.AdvanceTo(c.Now().Add(time.Hour), nil); err != nil {
		t.Fatal(err)
	}
	if n := len(c.verdicts); n != 0 {
		t.Errorf("%d verdicts are kept of pods that are gone", n)
	}
	for kind, w := range c.watches {
		if n := len(w.shownAt); n != 0 {
			t.Errorf("the watch of kind %d remembers when %d objects were shown", kind, n)
		}
	}
}
