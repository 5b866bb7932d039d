package random

import (
	"fmt"
	"math/rand/v2"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// namespaces returns mostly all three namespaces with pods. Some may be missing, as from
// a cache.
func namespaces(r *rand.Rand) []*v1.Namespace {
	var all []*v1.Namespace
	for _, name := range some(r, 85, "default", "other", "third") {
		all = append(all, namespace(r, name))
	}
	return all
}

func namespace(r *rand.Rand, name string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid(r), ResourceVersion: "1", CreationTimestamp: epoch, Labels: namespaceLabels(r)}}
}

func namespaceLabels(r *rand.Rand) map[string]string {
	labels := map[string]string{}
	if chance(r, 70) {
		labels["team"] = pick(r, "x", "y")
	}
	if chance(r, 40) {
		labels["env"] = "prod"
	}
	return labels
}

func service(r *rand.Rand, i int) *v1.Service {
	return &v1.Service{ObjectMeta: objectMeta(r, fmt.Sprintf("service-%d", i)), Spec: v1.ServiceSpec{Selector: equalitySelector(r)}}
}

func objectMeta(r *rand.Rand, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: pick(r, "default", "default", "default", "other", "third"), UID: uid(r), ResourceVersion: "1", CreationTimestamp: epoch}
}

// equalitySelector selects by labels, everything, or nothing.
func equalitySelector(r *rand.Rand) map[string]string {
	switch r.IntN(10) {
	case 0:
		return nil
	case 1:
		return map[string]string{}
	case 2:
		return map[string]string{"tier": pick(r, "front", "back")}
	case 3:
		return map[string]string{"app": pick(r, "web", "db"), "tier": "front"}
	}
	return map[string]string{"app": pick(r, "web", "db")}
}

// addController adds a controller whose name is free in its namespace. Without a free
// name it adds a service.
func addController(r *rand.Rand, c oracle.Cluster) Mutation {
	meta := objectMeta(r, pick(r, "web", "db"))
	m := Mutation{Kind: ControllerAdded, After: cloned(c)}
	switch kind := r.IntN(4); {
	case kind == 0 && free(c.ReplicationControllers, meta):
		rc := &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: equalitySelector(r)}}
		m.New, m.After.ReplicationControllers = rc, append(m.After.ReplicationControllers, rc)
	case kind == 1 && free(c.StatefulSets, meta):
		set := &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: labelSelector(r)}}
		m.New, m.After.StatefulSets = set, append(m.After.StatefulSets, set)
	case kind > 1 && free(c.ReplicaSets, meta):
		rs := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: labelSelector(r)}}
		m.New, m.After.ReplicaSets = rs, append(m.After.ReplicaSets, rs)
	default:
		return addService(r, c)
	}
	return m
}

func free[T metav1.Object](all []T, meta metav1.ObjectMeta) bool {
	for _, o := range all {
		if o.GetNamespace() == meta.Namespace && o.GetName() == meta.Name {
			return false
		}
	}
	return true
}

func addService(r *rand.Rand, c oracle.Cluster) Mutation {
	s := service(r, freeService(c))
	m := Mutation{Kind: ServiceAdded, New: s, After: cloned(c)}
	m.After.Services = append(m.After.Services, s)
	return m
}

func freeService(c oracle.Cluster) int {
	for i := 0; ; i++ {
		taken := false
		for _, s := range c.Services {
			taken = taken || s.Name == fmt.Sprintf("service-%d", i)
		}
		if !taken {
			return i
		}
	}
}
