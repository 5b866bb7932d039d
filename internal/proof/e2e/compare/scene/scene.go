// Package scene defines what schedulers are compared on: the nodes, the pods that exist beforehand, the pods to be placed, and what else
// goes on meanwhile.
//
// It takes names and sizes; it gives scenes as data. It owns the two catalogues: the shapes of pods (Shapes) and the workloads of
// upstream's own benchmark (Workloads). It never starts anything; only what goes on meanwhile (Churn) sends requests to a cluster, through
// the client that it is given.
package scene

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Scene is one comparison of schedulers.
type Scene struct {
	// Name is a shape's name, or a workload's as in scheduler_perf: test case, slash, workload.
	Name string
	// Kind is how the scene is measured.
	Kind Kind
	// Floor is the rate in pods/s below which upstream's CI fails; 0 if it has none, or if counts are scaled.
	Floor int
	// Needs names a feature that Berth does not have yet; Berth takes no part in such a scene.
	Needs string
	// Plugin is the plugin from outside that both schedulers run; empty if they run none. They are built with it.
	Plugin string
	// Site is its cluster. Scenes that share a site run in one cluster, one after another.
	Site *Site
	// Standing are the pods that exist before the first round, and stay. A scene has those of the earlier scenes of its site as well.
	Standing []Pods
	// Fresh are the pods that are created for each round: those on nodes before the scheduler starts, the others while it runs and just
	// before the measured ones. Those on nodes may stay for the next round, the others are removed.
	Fresh []Pods
	// Measured are the pods to be placed.
	Measured Pods
	// Groups are the pod groups of the measured pods; they are made for each round, before these.
	Groups []*schedulingv1beta1.PodGroup
	// Devices is how many devices each measured pod gets, by one claim of its own. If it is not 0, the claims are followed, and a round in which two of them had a
	// device, or a pod was bound without its claim, has failed.
	Devices int
	// Churn runs while pods are placed.
	Churn []Churn
	// Answer says what becomes of each pod that has no node; nil if it is for schedulers to find out, and the binder takes no part unless the scene
	// is a shape.
	Answer func(p *v1.Pod) Answer
}

// Kind is how a scene is measured.
type Kind string

const (
	// Shape is a scene whose measured pods are pending before the scheduler starts.
	Shape Kind = "shape"
	// Workload is a scene whose measured pods are created while the scheduler runs.
	Workload Kind = "workload"
	// Restart is a scene that measures the time until the first binding.
	Restart Kind = "restart"
)

// Site is the nodes and namespaces of a cluster for scenes.
type Site struct {
	Nodes int
	// Node makes the i-th node.
	Node       func(i int) *v1.Node
	Namespaces []*v1.Namespace
	Services   []*v1.Service
	// CSINode makes the CSINode of the i-th node; nil if the nodes have none.
	CSINode func(i int) *storagev1.CSINode
	Classes []*storagev1.StorageClass
	// Slice makes the ResourceSlice of the i-th node, which is its pool of devices; nil if the nodes have none.
	Slice         func(i int) *resourcev1.ResourceSlice
	DeviceClasses []*resourcev1.DeviceClass
	Templates     []*resourcev1.ResourceClaimTemplate
	// Claims are there from the start, with the status that they are to have.
	Claims []*resourcev1.ResourceClaim
	// Controllers is set if the controller manager runs: it confirms which volume a claim gets, makes claims from templates, and removes claims of pods that are gone.
	Controllers bool
	// Gates are the feature gates that are on, in the API server and in schedulers.
	Gates []string
}

// Pods are pods of one kind.
type Pods struct {
	// Namespace is that of all pods, unless In is set.
	Namespace string
	// In returns the namespace of the i-th pod; nil if all are in one.
	In    func(i int) string
	Count int
	// Pod makes the i-th pod; its name depends on i only, and is unique in a scene.
	Pod func(i int) *v1.Pod
	// Node returns the index of the node that the i-th pod is created on; nil if the pods have none.
	Node func(i int) int
	// Disk makes the claim of the i-th pod and a volume, both with the status that they are to have; they are created before the pod. nil if
	// the pods have no volumes.
	Disk func(i int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume)
	// Together is how many of the pods exist at a time: each that is bound is deleted, and another is created. 0 for all of them.
	Together int
}

// NamespaceOf returns the namespace of the i-th pod.
func (p *Pods) NamespaceOf(i int) string {
	if p.In == nil {
		return p.Namespace
	}
	return p.In(i)
}

// Scope is the namespace in which to look for the pods: theirs, or all if they are in several.
func (p *Pods) Scope() string {
	if p.In == nil {
		return p.Namespace
	}
	return metav1.NamespaceAll
}

// Churn is a repeated change of the cluster while pods are placed.
type Churn struct {
	Every time.Duration
	// Step runs at each tick; i counts from 0. Up to AtOnce steps, at least one, run at the same time. Ticks while so many run are left out.
	Step   func(ctx context.Context, client kubernetes.Interface, i int) error
	AtOnce int
	// Undo removes what the steps created, also if the last step was interrupted.
	Undo func(ctx context.Context, client kubernetes.Interface) error
}

// Before is how many pods exist when the measurement starts.
func (s *Scene) Before() int {
	n := 0
	for _, group := range [][]Pods{s.Standing, s.Fresh} {
		for i := range group {
			n += group[i].Count
		}
	}
	return n
}
