package world

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Daily numbers of new pods that wait for something other than their turn.
const (
	tooLarge   = 3
	earlyBirds = 20
	lonely     = 20
	gated      = 40
	patience   = 12 * time.Hour
	buildAhead = 3 // number of relabelings by which an early bird precedes its node
)

// guest is a pod that is removed after a while.
type guest struct{}

func (guest) started(*pod) {}
func (guest) ended(*pod)   {}

func (w *World) startWaiting() {
	w.often(tooLarge, func() {
		cpu := resource.NewMilliQuantity(int64(9000+w.random.IntN(9000)), resource.DecimalSI)
		w.invite("too-large", func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *cpu })
	})
	w.often(earlyBirds, func() {
		build := fmt.Sprint(w.build + buildAhead)
		w.invite("early", func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{buildLabel: build} })
	})
	w.often(lonely, w.inviteLonely)
	w.often(gated, func() {
		p := w.invite("gated", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/hold"}} })
		w.after(w.about(time.Hour), func() {
			if stored := w.cluster.Pod(p.key); stored != nil {
				w.happened["gate opened"]++
				open := *stored
				open.Spec.SchedulingGates = nil
				w.cluster.SetPod(&open)
			}
		})
	})
}

// invite creates a pod that is removed after some hours, with or without a node.
func (w *World) invite(name string, change func(*v1.Pod)) *pod {
	object := podOf(batch, "registry.example/"+name, requests("100m", "128Mi"), map[string]string{"app": name})
	object.Name = w.next(name)
	change(&object)
	p := w.create(guest{}, &object)
	w.after(w.about(patience), func() { w.remove(p) })
	return p
}

// inviteLonely creates a pod with a required affinity to another, which is created hours
// later.
func (w *World) inviteLonely() {
	labels := map[string]string{"app": w.next("friend")}
	w.invite("lonely", func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: labels}, TopologyKey: v1.LabelTopologyZone,
		}}}}
	})
	w.after(w.about(2*time.Hour), func() {
		w.invite("friend", func(p *v1.Pod) { p.Labels = labels })
	})
}
