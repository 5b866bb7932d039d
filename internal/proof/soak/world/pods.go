package world

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
)

// pod is an existing pod.
type pod struct {
	key   model.PodKey
	owner owner
	node  *node // nil without a node
	image string
	// runs: it was bound and has started. leaves: its deletion was requested.
	runs, leaves bool
}

// owner is the controller of a pod, and is notified of its start and end.
type owner interface {
	// started is called a while after the pod was bound.
	started(p *pod)
	// ended is called when the pod is gone.
	ended(p *pod)
}

// Durations on a node.
const (
	maxStart = 20 * time.Second
	maxGrace = 30 * time.Second
)

// create creates a pod for an owner. The caller must not change the object afterwards;
// its fields may be shared with other pods.
func (w *World) create(o owner, object *v1.Pod) *pod {
	object.CreationTimestamp = w.now()
	object.Spec.SchedulerName = v1.DefaultSchedulerName
	p := &pod{key: model.PodKey{Namespace: object.Namespace, Name: object.Name}, owner: o, image: object.Spec.Containers[0].Image}
	w.pods[p.key] = p
	w.cluster.SetPod(object)
	return p
}

// bound handles a stored binding.
func (w *World) bound(stored *v1.Pod) {
	p := w.pods[model.PodKey{Namespace: stored.Namespace, Name: stored.Name}]
	n := w.byName[stored.Spec.NodeName]
	if p == nil || p.node != nil {
		return
	}
	if n == nil { // the node has been deleted meanwhile
		w.remove(p)
		return
	}
	p.node = n
	n.pods = append(n.pods, p)
	n.pull(p.image)
	w.after(time.Second+w.upTo(maxStart), func() {
		if !p.leaves && w.pods[p.key] == p {
			p.runs = true
			p.owner.started(p)
		}
	})
}

// remove requests the deletion of a pod. A pod on a node terminates after a while.
func (w *World) remove(p *pod) {
	if p.leaves || w.pods[p.key] != p {
		return
	}
	p.leaves = true
	stored := *w.cluster.Pod(p.key)
	if stored.Spec.NodeName == "" {
		w.happened["pod removed that had no node"]++
		w.drop(p)
		return
	}
	now := w.now()
	stored.DeletionTimestamp = &now
	w.cluster.SetPod(&stored)
	w.after(w.upTo(maxGrace), func() { w.drop(p) })
}

// finish ends a pod with success. Its object stays for the given time.
func (w *World) finish(p *pod, kept time.Duration) {
	if p.leaves || w.pods[p.key] != p {
		return
	}
	p.leaves = true
	w.happened["job finished"]++
	stored := *w.cluster.Pod(p.key)
	stored.Status.Phase = v1.PodSucceeded
	w.cluster.SetPod(&stored)
	w.after(kept, func() { w.drop(p) })
}

// drop deletes a pod.
func (w *World) drop(p *pod) {
	if w.pods[p.key] != p {
		return
	}
	delete(w.pods, p.key)
	if p.node != nil {
		p.node.pods = slices.DeleteFunc(p.node.pods, func(other *pod) bool { return other == p })
	}
	w.cluster.DeletePod(p.key)
	p.owner.ended(p)
}

// set creates or replaces an object that is neither a pod nor a node.
func (w *World) set(object runtime.Object) {
	if err := w.cluster.SetObject(object); err != nil {
		panic("world: " + err.Error()) // scheduling does not read this kind
	}
}

// requests returns the requests of a container.
func requests(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// podOf makes a pod of one container.
func podOf(namespace, image string, requests v1.ResourceList, labels map[string]string) v1.Pod {
	return v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: image, Resources: v1.ResourceRequirements{Requests: requests},
		}}},
	}
}

// controlledBy returns the reference to the controller of a pod.
func controlledBy(apiVersion, kind, name string) []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}}
}
