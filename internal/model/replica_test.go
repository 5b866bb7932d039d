package model_test

import (
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// template returns the pod whose replicas are tested.
func template() *v1.Pod {
	yes := true
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-1", UID: "1", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"a": "b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "r", Controller: &yes}},
		},
		Spec: v1.PodSpec{SchedulerName: "default-scheduler", Containers: []v1.Container{{Name: "c"}}},
	}
}

// replicaOf returns another pod of the template.
func replicaOf(of *v1.Pod) *v1.Pod {
	yes := true
	pod := *of
	pod.Name, pod.UID, pod.ResourceVersion = "web-2", "2", "7"
	pod.Status.NominatedNodeName, pod.DeletionTimestamp = "n", &metav1.Time{}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "r", Controller: &yes}}
	return &pod
}

// TestReplica: a replica equals the result of NewPod, both pending and on a node.
func TestReplica(t *testing.T) {
	of := template()
	on := *of
	on.Spec.NodeName = "m"
	for _, before := range []*v1.Pod{of, &on} {
		object := replicaOf(before)
		if before == &on {
			object.Spec.NodeName = "n"
		}
		got, ok := model.NewPod(before).Replica(object)
		if want := model.NewPod(object); !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("the replica is %+v, %t; want %+v", got, ok, want)
		}
	}
}

// TestReplicaOfAnother: a difference in memory prevents a replica. It covers every field
// of a spec and the other fields that NewPod reads.
func TestReplicaOfAnother(t *testing.T) {
	compiled := model.NewPod(template())
	no := false
	others := map[string]func(*v1.Pod){
		"namespace":        func(p *v1.Pod) { p.Namespace = "other" },
		"labels":           func(p *v1.Pod) { p.Labels = map[string]string{"app": "web"} },
		"no labels":        func(p *v1.Pod) { p.Labels = nil },
		"annotations":      func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"owner":            func(p *v1.Pod) { p.OwnerReferences[0].Name = "other" },
		"owner's UID":      func(p *v1.Pod) { p.OwnerReferences[0].UID = "other" },
		"owner's kind":     func(p *v1.Pod) { p.OwnerReferences[0].Kind = "StatefulSet" },
		"owner's version":  func(p *v1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v2" },
		"not a controller": func(p *v1.Pod) { p.OwnerReferences[0].Controller = &no },
		"no owner":         func(p *v1.Pod) { p.OwnerReferences = nil },
		"resized":          func(p *v1.Pod) { p.Status.Resources = &v1.ResourceRequirements{} },
		"on a node":        func(p *v1.Pod) { p.Spec.NodeName = "n" },
		"no containers":    func(p *v1.Pod) { p.Spec.Containers = nil },
	}
	spec := reflect.TypeFor[v1.PodSpec]()
	for i := range spec.NumField() {
		others[spec.Field(i).Name] = func(p *v1.Pod) { fill(reflect.ValueOf(&p.Spec).Elem().Field(i)) }
	}
	for name, change := range others {
		object := replicaOf(compiled.Object)
		change(object)
		if _, ok := compiled.Replica(object); ok {
			t.Errorf("%s differs, and the pod counts as a replica", name)
		}
	}
	if _, ok := compiled.Replica(replicaOf(compiled.Object)); !ok {
		t.Error("a replica is none")
	}
	for name, keep := range map[string]func(*v1.Pod){
		"volumes":  func(p *v1.Pod) { p.Spec.Volumes = make([]v1.Volume, 1) },
		"claims":   func(p *v1.Pod) { p.Spec.ResourceClaims = make([]v1.PodResourceClaim, 1) },
		"resized":  func(p *v1.Pod) { p.Status.Resources = &v1.ResourceRequirements{} },
		"selector": func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{} },
	} {
		of := template()
		keep(of)
		if _, ok := model.NewPod(of).Replica(replicaOf(of)); ok != (name == "selector") {
			t.Errorf("both have the same %s: replica %t", name, ok)
		}
	}
}

// fill sets a field to another value.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	default:
		panic("a field of kind " + v.Kind().String())
	}
}
