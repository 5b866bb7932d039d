// Package scene defines the scenes for comparisons of schedulers: nodes, existing pods,
// pods to place, and changes meanwhile.
//
// It takes names and sizes and returns scenes as data. It owns the two catalogues: kinds
// of pods that are pending at the start (Shapes), such as pods with affinity, and the
// workloads of upstream's own benchmark (Workloads). It never starts anything. Only Churn
// sends requests to a cluster, through the given client.
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
	// Name is one of ShapeNames, or a workload's as in scheduler_perf: test case, slash,
	// workload.
	Name string
	// Kind selects the kind of measurement.
	Kind Kind
	// Floor is the rate in pods/s below which upstream's CI fails. It is 0 without one,
	// or if counts are scaled.
	Floor int
	// Needs is a feature that Berth lacks. Berth takes no part in such a scene.
	Needs string
	// Plugin is the external plugin that both schedulers are built with, or empty.
	Plugin string
	// Site is the scene's cluster. Scenes that share a site run in one cluster, one after
	// another.
	Site *Site
	// Standing are the pods that exist before the first round and stay. They also stay
	// for later scenes of the site.
	Standing []Pods
	// Fresh are the pods that are created for each round. Pods on nodes are created
	// before the scheduler starts, and may stay for the next round. The others are
	// created while it runs, just before the measured ones, and are removed.
	Fresh []Pods
	// Measured are the pods to be placed.
	Measured Pods
	// Groups are the pod groups of the measured pods. They are created for each round,
	// before these.
	Groups []*schedulingv1beta1.PodGroup
	// Devices is the number of devices of each measured pod, through one claim of its
	// own. If it is not 0, the claims are recorded. A round fails if a device had two
	// claims, or if a pod was bound without its claim.
	Devices int
	// Churn runs while pods are placed.
	Churn []Churn
	// Answer returns the outcome of each pod without a node. If it is nil, the schedulers
	// decide, and the binder takes part only in scenes of the kind Shape.
	Answer func(p *v1.Pod) Answer
}

// Kind is a kind of measurement.
type Kind string

const (
	// Shape is a scene whose measured pods are pending before the scheduler starts.
	Shape Kind = "shape"
	// Workload is a scene whose measured pods are created while the scheduler runs.
	Workload Kind = "workload"
	// Restart is a scene that measures the time until the first binding.
	Restart Kind = "restart"
)

// Site has the nodes and namespaces of a cluster for scenes.
type Site struct {
	Nodes int
	// Node makes the i-th node.
	Node       func(i int) *v1.Node
	Namespaces []*v1.Namespace
	Services   []*v1.Service
	// CSINode makes the CSINode of the i-th node; nil for none.
	CSINode func(i int) *storagev1.CSINode
	Classes []*storagev1.StorageClass
	// Slice makes the ResourceSlice of the i-th node, which is its pool of devices; nil
	// for none.
	Slice         func(i int) *resourcev1.ResourceSlice
	DeviceClasses []*resourcev1.DeviceClass
	Templates     []*resourcev1.ResourceClaimTemplate
	// Claims exist from the start, with their status.
	Claims []*resourcev1.ResourceClaim
	// Controllers runs the controller manager. It confirms the volumes of claims, creates
	// claims from templates, and removes claims of deleted pods.
	Controllers bool
	// Gates are the enabled feature gates, in the API server and in schedulers.
	Gates []string
}

// Pods are pods of one kind.
type Pods struct {
	// Namespace is the namespace of all pods, unless In is set.
	Namespace string
	// In returns the namespace of the i-th pod; nil for a single namespace.
	In    func(i int) string
	Count int
	// Pod makes the i-th pod. Its name depends on i only, and is unique in a scene.
	Pod func(i int) *v1.Pod
	// Node returns the index of the node on which the i-th pod is created; nil for
	// pending pods.
	Node func(i int) int
	// Disk makes the claim and the volume of the i-th pod, both with their status. They
	// are created before the pod. It is nil for pods without volumes.
	Disk func(i int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume)
	// Together is the number of pods that exist at a time: each bound pod is deleted, and
	// another is created. 0 means all.
	Together int
}

// NamespaceOf returns the namespace of the i-th pod.
func (p *Pods) NamespaceOf(i int) string {
	if p.In == nil {
		return p.Namespace
	}
	return p.In(i)
}

// Scope returns the namespace of the pods, or all namespaces if they are in several.
func (p *Pods) Scope() string {
	if p.In == nil {
		return p.Namespace
	}
	return metav1.NamespaceAll
}

// Churn is a repeated change of the cluster while pods are placed.
type Churn struct {
	Every time.Duration
	// Step runs at each tick; i counts from 0. At most AtOnce steps, and at least one,
	// run at the same time. Further ticks are skipped.
	Step   func(ctx context.Context, client kubernetes.Interface, i int) error
	AtOnce int
	// Undo removes the objects of all steps, also if the last step was interrupted.
	Undo func(ctx context.Context, client kubernetes.Interface) error
}

// Before returns the number of pods that exist when the measurement starts.
func (s *Scene) Before() int {
	n := 0
	for _, group := range [][]Pods{s.Standing, s.Fresh} {
		for i := range group {
			n += group[i].Count
		}
	}
	return n
}
