package dynamicresources

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/plugintest"
)

// requesting returns a pod that requests an amount of a resource in a container, or in an init container.
func requesting(name string, amount string, init bool) *model.Pod {
	containers := []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceName(name): resource.MustParse(amount)}}}}
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: v1.PodSpec{Containers: containers}}
	if init {
		p.Spec.Containers, p.Spec.InitContainers = nil, containers
	}
	return model.NewPod(p)
}

// A pod that requests devices as an extended resource is rejected, and nothing wakes it.
func TestExtendedResourcesAreBarred(t *testing.T) {
	const gpu = "deviceclass.resource.kubernetes.io/gpu"
	w := newWorld(t)
	node := model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{})}
	back := model.Event{Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: model.NewResourceClaim(claim("c", 1, allocated("a", "d0")))}
	limited := requesting(gpu, "1", false)
	limited.Object.Spec.Containers[0].Resources = v1.ResourceRequirements{Limits: limited.Object.Spec.Containers[0].Resources.Requests}
	open := plugintest.Alikes(w.plugin, requesting("cpu", "1", false))
	for _, row := range []struct {
		pod    *model.Pod
		barred bool
	}{
		{requesting(gpu, "1", false), true}, {requesting(gpu, "1", true), true}, {limited, true}, {requesting(gpu, "0", false), false}, {requesting("example.com/gpu", "1", false), false},
	} {
		want := ""
		if row.barred {
			want = "devices cannot be requested as extended resources in this version of Berth: the pod requests " + gpu
		}
		if got := w.plugin.PreFilter(w.View(), row.pod).Rejection; got != want || w.plugin.Skips(row.pod) == row.barred {
			t.Errorf("rejected with %q, want %q; skips: %t", got, want, w.plugin.Skips(row.pod))
		}
		for _, e := range []model.Event{node, back} {
			if helps := w.helps(row.pod, e); helps == row.barred {
				t.Errorf("barred %t: an event of %s helps: %t", row.barred, e.Label(), helps)
			}
		}
		if alike := plugintest.Alikes(w.plugin, row.pod)[0] == open[0]; alike == row.barred {
			t.Errorf("barred %t: alike to one that is not: %t", row.barred, alike)
		}
	}
}

// A profile without the plugin at some points rejects pods that need devices.
func TestBar(t *testing.T) {
	bar := NewBar("filter", "reserve")
	plugintest.CheckContract(t, bar, plugintest.Contract{Name: "DynamicResources"})
	w := newWorld(t)
	if got, want := bar.PreFilter(w.View(), pod("p", "c")).Rejection, "the pod needs devices, and DynamicResources is disabled at filter, reserve"; got != want || bar.Skips(pod("p", "c")) {
		t.Errorf("rejected with %q, want %q", got, want)
	}
	if r := bar.PreFilter(w.View(), pod("p")); !r.IsZero() || !bar.Skips(pod("p")) {
		t.Errorf("a pod without devices is rejected: %+v", r)
	}
}
