package kinds_test

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// gvkOf finds the API type of the table's row: the kind whose plural is the resource.
func gvkOf(t *testing.T, row *kinds.Row) schema.GroupVersionKind {
	t.Helper()
	for gvk := range scheme.Scheme.AllKnownTypes() {
		if plural, _ := meta.UnsafeGuessKindToResource(gvk); plural == row.Resource {
			return gvk
		}
	}
	t.Fatalf("there is no kind of resource %s", row.Resource)
	return schema.GroupVersionKind{}
}

// object returns an object of the kind.
func object(t *testing.T, row *kinds.Row) kinds.Object {
	t.Helper()
	made, err := scheme.Scheme.New(gvkOf(t, row))
	if err != nil {
		t.Fatal(err)
	}
	o := made.(kinds.Object)
	o.SetNamespace("ns")
	o.SetName("o")
	return o
}

// Every constant of package model has a row with its resource's type, and informers
// support the resource.
func TestEveryKindHasARow(t *testing.T) {
	factory := informers.NewSharedInformerFactory(nil, 0)
	for kind := range model.KindCount {
		row := kinds.Get(kind)
		if row.Kind != kind || row.Resource.Resource == "" {
			t.Errorf("kind %d has no row", kind)
			continue
		}
		if _, err := factory.ForResource(row.Resource); err != nil {
			t.Errorf("%s: %v", row.Resource.Resource, err)
		}
		o := object(t, row)
		if kinds.Of(o) != row {
			t.Errorf("%s: the row is about another type than %T", row.Resource.Resource, o)
		}
		want := model.Ref{Kind: kind, Name: "o"}
		if row.Namespaced {
			want.Namespace = "ns"
		}
		if got, ok := kinds.RefOf(o); !ok || got != want {
			t.Errorf("%s: the reference is %+v, want %+v", row.Resource.Resource, got, want)
		}
	}
	if _, ok := kinds.RefOf(&v1.ConfigMap{}); ok || kinds.Of(&v1.ConfigMap{}) != nil {
		t.Error("config maps are not in the table and have a row")
	}
}

// Versions are the same if the fields that scheduling reads are equal.
func TestSame(t *testing.T) {
	for kind := range model.KindCount {
		row := kinds.Get(kind)
		a, b := object(t, row), object(t, row)
		a.SetResourceVersion("1")
		b.SetResourceVersion("1")
		if !row.Same(a, b) {
			t.Errorf("%s: a version differs from itself", row.Resource.Resource)
		}
		b.SetResourceVersion("2")
		// Every version of a kind whose changes wake pods in kube-scheduler is passed on.
		ofOurs := slices.Contains(row.Events, model.NamespaceEvent) || slices.Contains(row.Events, model.SelectorEvent)
		if got, want := row.Same(a, b), len(row.Events) == 0 || ofOurs; got != want {
			t.Errorf("%s: versions in which nothing is different: same %t, want %t", row.Resource.Resource, got, want)
		}
	}
}

// The events that the state raises for objects of a kind are those in the table, so that
// a plugin can register them.
func TestEventsAreThoseOfTheTable(t *testing.T) {
	for kind := range model.KindCount {
		row := kinds.Get(kind)
		raised := map[model.EventResource]bool{}
		s := state.New()
		apply := func(changes ...model.Change) {
			for _, event := range s.Apply(changes).Events {
				raised[event.Resource] = true
			}
		}
		if kind == model.PodKind {
			s.Apply([]model.Change{kinds.Get(model.NodeKind).Change(&v1.Node{})})
		}
		before, after := object(t, row), object(t, row)
		vary(before, after)
		apply(row.Change(before))
		apply(row.Change(after))
		apply(row.Gone(row.Ref(after)))
		for resource := range raised {
			if !slices.Contains(row.Events, resource) {
				t.Errorf("%s: the state raises events about %s, which the table lacks", row.Resource.Resource, resource)
			}
		}
		if len(row.Events) > 0 && !raised[row.Events[0]] {
			t.Errorf("%s: the state raises no event about %s", row.Resource.Resource, row.Events[0])
		}
	}
}

// vary makes two versions differ in a field that scheduling reads.
func vary(before, after runtime.Object) {
	switch b := after.(type) {
	case *v1.Pod:
		b.Spec.NodeName, before.(*v1.Pod).Spec.NodeName = "n", "n"
		b.Labels = map[string]string{"app": "web"}
	case *v1.Node:
		b.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
	case *v1.Namespace:
		b.Labels = map[string]string{"team": "a"}
	case *v1.Service:
		b.Spec.Selector = map[string]string{"app": "web"}
	case *v1.ReplicationController:
		b.Spec.Selector = map[string]string{"app": "web"}
	case *appsv1.ReplicaSet:
		b.Spec.Selector = &metav1.LabelSelector{}
	case *appsv1.StatefulSet:
		b.Spec.Selector = &metav1.LabelSelector{}
	}
}

// A finished pod uses no resources: for the loop it is gone.
func TestFinishedPodIsGone(t *testing.T) {
	row := kinds.Get(model.PodKind)
	for phase, want := range map[v1.PodPhase]model.ChangeKind{
		v1.PodPending: model.PodSet, v1.PodRunning: model.PodSet, v1.PodUnknown: model.PodSet,
		v1.PodSucceeded: model.PodGone, v1.PodFailed: model.PodGone,
	} {
		pod := object(t, row).(*v1.Pod)
		pod.Status.Phase = phase
		if got := row.Change(pod).Kind; got != want {
			t.Errorf("%s: the change is %d, want %d", phase, got, want)
		}
	}
}
