// Package cases makes the clusters and configurations for comparisons of Berth and
// kube-scheduler.
//
// It takes a shape and a seed. It returns a Case: the text of a
// KubeSchedulerConfiguration and the objects of a cluster with pending pods. The same
// seed gives the same case. It builds on oracle/random and removes everything outside of
// a shape's subject, so that the subject decides. It owns nothing, and never changes a
// returned case.
package cases

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Case is a cluster with pending pods, and a configuration.
type Case struct {
	// Config is a KubeSchedulerConfiguration in YAML.
	Config []byte
	// Cluster includes the pending pods.
	oracle.Cluster
	// Budgets are the PodDisruptionBudgets.
	Budgets []*policyv1.PodDisruptionBudget
	// Devices are DeviceClasses, ResourceSlices, DeviceTaintRules and ResourceClaims.
	Devices []runtime.Object
	// Outside means that the configuration may enable plugins and extenders of package
	// outside.
	Outside bool
}

// Shape is a kind of case.
type Shape struct {
	Name string
	// About describes the shape's subject in a few words.
	About string
	draw  func(r *rand.Rand) Case
}

// Draw makes a case.
func (s Shape) Draw(seed uint64) Case { return s.draw(Source(s.Name, seed)) }

// Source returns a separate source of randomness for each name and seed.
func Source(name string, seed uint64) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, hash.Sum64()))
}

// Objects returns all objects, nodes first.
func (tc *Case) Objects() []runtime.Object {
	var all []runtime.Object
	for _, n := range tc.Nodes {
		all = append(all, n)
	}
	all = append(all, tc.Others()...)
	for _, p := range tc.Pods {
		all = append(all, p)
	}
	return all
}

// Others returns all objects but nodes and pods.
func (tc *Case) Others() []runtime.Object {
	all := tc.Cluster.Others()
	for _, b := range tc.Budgets {
		all = append(all, b)
	}
	return append(all, tc.Devices...)
}

// Add adds an object that is neither a node nor a pod.
func (tc *Case) Add(object runtime.Object) {
	switch o := object.(type) {
	case *policyv1.PodDisruptionBudget:
		tc.Budgets = append(tc.Budgets, o)
	case *resourcev1.DeviceClass, *resourcev1.ResourceSlice, *resourcev1.DeviceTaintRule, *resourcev1.ResourceClaim:
		tc.Devices = append(tc.Devices, o)
	default:
		tc.Cluster.Add(object)
	}
}

// Clone copies every object.
func (tc *Case) Clone() Case {
	var devices []runtime.Object
	for _, o := range tc.Devices {
		devices = append(devices, o.DeepCopyObject())
	}
	return Case{Config: tc.Config, Outside: tc.Outside, Budgets: copies(tc.Budgets), Devices: devices, Cluster: oracle.Cluster{
		Nodes: copies(tc.Nodes), Pods: copies(tc.Pods), Namespaces: copies(tc.Namespaces), Services: copies(tc.Services),
		ReplicationControllers: copies(tc.ReplicationControllers), ReplicaSets: copies(tc.ReplicaSets), StatefulSets: copies(tc.StatefulSets),
		PersistentVolumes: copies(tc.PersistentVolumes), PersistentVolumeClaims: copies(tc.PersistentVolumeClaims),
		StorageClasses: copies(tc.StorageClasses), CSINodes: copies(tc.CSINodes), CSIDrivers: copies(tc.CSIDrivers),
		CSIStorageCapacities: copies(tc.CSIStorageCapacities), VolumeAttachments: copies(tc.VolumeAttachments),
	}}
}

func copies[T interface{ DeepCopy() T }](from []T) []T {
	to := make([]T, len(from))
	for i, o := range from {
		to[i] = o.DeepCopy()
	}
	return to
}

// Sent returns a copy with the objects as another process receives them: empty maps and
// lists are missing, and times have whole seconds.
func (tc *Case) Sent() (Case, error) {
	sent := tc.Clone()
	for _, o := range sent.Objects() {
		data, err := json.Marshal(o)
		if err != nil {
			return Case{}, fmt.Errorf("write a %T: %w", o, err)
		}
		reflect.ValueOf(o).Elem().SetZero()
		if err := json.Unmarshal(data, o); err != nil {
			return Case{}, fmt.Errorf("read a %T: %w", o, err)
		}
	}
	return sent, nil
}

// chance returns true with a probability in percent.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// isPending reports whether a pod has no node.
func isPending(p *v1.Pod) bool { return p.Spec.NodeName == "" }
