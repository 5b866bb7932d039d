package framework

import (
	"runtime"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestFirstPodsAreNotKept removes the first pods of a node except one. The remaining pod
// must not keep the others in memory.
func TestFirstPodsAreNotKept(t *testing.T) {
	node := model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	freed := make(chan struct{}, 100)
	var stays *model.Pod
	seq := func(pods []*model.Pod) func(func(*model.Pod) bool) {
		return func(yield func(*model.Pod) bool) {
			for _, p := range pods {
				if !yield(p) {
					return
				}
			}
		}
	}
	var pods []*model.Pod
	for i := range 50 {
		o := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: types.UID(rune('a' + i))}, Spec: v1.PodSpec{NodeName: "n"}}
		if i > 0 {
			runtime.SetFinalizer(o, func(*v1.Pod) { freed <- struct{}{} })
		}
		pods = append(pods, model.NewPod(o))
	}
	stays = pods[0]
	var used model.Resources
	_, infos := Assemble(Parts{Node: node, Pods: seq(pods), PodCount: len(pods), Used: &used})
	info, _ := Assemble(Parts{Node: node, Pods: seq([]*model.Pod{stays}), PodCount: 1, Used: &used, Before: infos})
	for range 20 {
		runtime.GC()
		time.Sleep(5 * time.Millisecond)
	}
	if n := len(freed); n != 49 {
		t.Errorf("%d of 49 objects of pods that are gone were freed", n)
	}
	runtime.KeepAlive(info)
	runtime.KeepAlive(stays)
}
