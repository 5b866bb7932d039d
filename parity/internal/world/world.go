// Package world makes the clusters and configurations that Berth and kube-scheduler are compared on.
//
// It takes a shape and a seed, and gives a World: the text of a KubeSchedulerConfiguration and the objects of a cluster with pending pods. The
// same seed gives the same world. It builds on oracle/random and takes away what a shape is not about, so that what it is about
// decides. It owns nothing, and never changes what it returned.
package world

import (
	"hash/fnv"
	"math/rand/v2"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/oracle"
)

// World is a cluster and how to schedule on it.
type World struct {
	// Config is a KubeSchedulerConfiguration in YAML.
	Config []byte
	// Cluster has the pending pods among the others.
	oracle.Cluster
}

// Shape is a kind of world.
type Shape struct {
	Name string
	// About says in a few words what decides in it.
	About string
	draw  func(r *rand.Rand) World
}

// Draw makes a world.
func (s Shape) Draw(seed uint64) World { return s.draw(Source(s.Name, seed)) }

// Source is a source of randomness of its own for each name and seed.
func Source(name string, seed uint64) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// Objects are all objects, nodes first.
func (w *World) Objects() []runtime.Object {
	var all []runtime.Object
	for _, n := range w.Nodes {
		all = append(all, n)
	}
	all = append(all, w.Others()...)
	for _, p := range w.Pods {
		all = append(all, p)
	}
	return all
}

// Clone copies every object.
func (w *World) Clone() World {
	return World{Config: w.Config, Cluster: oracle.Cluster{
		Nodes: copies(w.Nodes), Pods: copies(w.Pods), Namespaces: copies(w.Namespaces), Services: copies(w.Services),
		ReplicationControllers: copies(w.ReplicationControllers), ReplicaSets: copies(w.ReplicaSets), StatefulSets: copies(w.StatefulSets),
	}}
}

func copies[T interface{ DeepCopy() T }](from []T) []T {
	to := make([]T, len(from))
	for i, o := range from {
		to[i] = o.DeepCopy()
	}
	return to
}

// chance is true in so many of 100 cases.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// isPending tells pods that wait from those on a node.
func isPending(p *v1.Pod) bool { return p.Spec.NodeName == "" }
