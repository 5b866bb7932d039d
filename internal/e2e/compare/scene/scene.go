// Package scene says what schedulers are compared on: which nodes there are, which pods are there beforehand, which pods have to be
// placed, and what else goes on meanwhile.
//
// It takes names and sizes; it gives scenes as data. It owns the two catalogues: the shapes of pods (Shapes) and the workloads of the
// incumbent's own benchmark (Workloads). It never starts anything; only what goes on meanwhile (Churn) talks to a cluster, through the
// client that it is given.
package scene

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// Scene is one thing to compare schedulers on.
type Scene struct {
	// Name is a shape's name, or a workload's as in scheduler_perf: test case, slash, workload.
	Name string
	// Kind says what the scene comes from and how it is measured.
	Kind Kind
	// Floor is the rate in pods/s below which the incumbent's own CI fails; 0 if it has none, or where counts are scaled.
	Floor int
	// Needs names what Berth does not have yet; such a scene is listed and not run.
	Needs string
	// Site is where it takes place. Scenes that share a site are played in one cluster, one after another.
	Site *Site
	// Standing are there before the first round, and stay. A scene has those of the earlier scenes of its site as well.
	Standing []Pods
	// Fresh are made for each round: those on nodes before the scheduler starts, the others when it runs and just before the measured
	// ones. Those on nodes may stay for the next round, the others are removed.
	Fresh []Pods
	// Measured have to be placed. There is one namespace for them.
	Measured Pods
	// Churn goes on while pods are placed.
	Churn []Churn
}

// Kind is how a scene is measured.
type Kind string

const (
	// Shape is a scene whose measured pods are pending before the scheduler starts.
	Shape Kind = "shape"
	// Workload is a scene whose measured pods are created while the scheduler runs.
	Workload Kind = "workload"
	// Restart is a scene of which the time until the first binding counts.
	Restart Kind = "restart"
)

// Site is a cluster as the scenes find it.
type Site struct {
	Nodes int
	// Node makes the i-th node.
	Node       func(i int) *v1.Node
	Namespaces []*v1.Namespace
	Services   []*v1.Service
}

// Pods are pods of one sort.
type Pods struct {
	Namespace string
	Count     int
	// Pod makes the i-th; its name depends on i only, and no two of a scene have the same one.
	Pod func(i int) *v1.Pod
	// Node is the index of the node that the i-th is on when it is made; nil if they have none.
	Node func(i int) int
}

// Churn is something that goes on while pods are placed.
type Churn struct {
	Every time.Duration
	// Step is done at each tick; i counts from 0. Ticks that come while a step is being done are left out.
	Step func(ctx context.Context, client kubernetes.Interface, i int) error
	// Undo removes what was made, also where the last step was interrupted.
	Undo func(ctx context.Context, client kubernetes.Interface) error
}

// Before is how many pods exist when the measuring starts.
func (s *Scene) Before() int {
	n := 0
	for _, group := range [][]Pods{s.Standing, s.Fresh} {
		for i := range group {
			n += group[i].Count
		}
	}
	return n
}
