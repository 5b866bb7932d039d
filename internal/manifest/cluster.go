package manifest

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Cluster is the content of the files, each kind in the order of the files. The caller may change it.
type Cluster struct {
	Nodes                  []*v1.Node
	Pods                   []*v1.Pod
	Namespaces             []*v1.Namespace
	Services               []*v1.Service
	ReplicationControllers []*v1.ReplicationController
	PersistentVolumes      []*v1.PersistentVolume
	PersistentVolumeClaims []*v1.PersistentVolumeClaim
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet
	PodDisruptionBudgets   []*policyv1.PodDisruptionBudget
	PriorityClasses        []*schedulingv1.PriorityClass
	PodGroups              []*schedulingv1beta1.PodGroup
	CompositePodGroups     []*schedulingv1alpha3.CompositePodGroup
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	VolumeAttachments      []*storagev1.VolumeAttachment
	ResourceClaims         []*resourcev1.ResourceClaim
	ResourceClaimTemplates []*resourcev1.ResourceClaimTemplate
	ResourceSlices         []*resourcev1.ResourceSlice
	DeviceClasses          []*resourcev1.DeviceClass
	DeviceTaintRules       []*resourcev1.DeviceTaintRule

	Given    []Given   // the files and directories, in the order given, without those of Base
	Skipped  []Skipped // kinds that were left out, in the order of their first object
	Warnings []string  // what looks wrong and can still be simulated
}

// Given has the nodes and pods of a file, or of a directory.
type Given struct {
	Name  string
	Nodes []*v1.Node
	Pods  []*v1.Pod
}

// Skipped counts the objects of a kind that scheduling does not read.
type Skipped struct {
	APIVersion, Kind string
	Count            int
}

// Objects returns every object of the cluster as one slice, kind by kind in the order of Cluster's fields.
func (c *Cluster) Objects() []runtime.Object {
	var all []runtime.Object
	for i := range kinds {
		all = append(all, kinds[i].all(c)...)
	}
	return all
}

// Add adds an object that an API server has filled in and checked. It reports whether the cluster has a place for its kind.
func (c *Cluster) Add(added runtime.Object) bool {
	for i := range kinds {
		if kinds[i].add(c, added) {
			return true
		}
	}
	return false
}

// Complete adds the namespaces that objects are in and that are not there, as Read does.
func (c *Cluster) Complete() { c.fillNamespaces() }

// identity identifies an object.
type identity struct{ group, kind, namespace, name string }

func (id identity) String() string {
	if id.namespace == "" {
		return id.kind + " " + id.name
	}
	return id.kind + " " + id.namespace + "/" + id.name
}

// gathering is a cluster while results are merged into it, in order.
type gathering struct {
	cluster *Cluster
	seen    map[identity]string // where each object is defined
	errs    []*Error
}

// take merges one result.
func (g *gathering) take(r result) {
	g.errs = append(g.errs, r.errs...)
	for _, o := range r.objects {
		id := o.kind.identity(o.object)
		if id.name != "" {
			where := fmt.Sprintf("%s:%d", o.file, o.line)
			if before, twice := g.seen[id]; twice {
				g.errs = append(g.errs, &Error{File: o.file, Line: o.line, Object: id.String(),
					Problem: "is already defined at " + before + "; remove one of the two"})
				continue
			}
			g.seen[id] = where
		}
		o.kind.add(g.cluster, o.object)
	}
	for _, s := range r.skipped {
		g.skip(s)
	}
}

func (g *gathering) skip(s Skipped) {
	skipped := &g.cluster.Skipped
	at := slices.IndexFunc(*skipped, func(have Skipped) bool { return have.APIVersion == s.APIVersion && have.Kind == s.Kind })
	if at < 0 {
		*skipped = append(*skipped, s)
		return
	}
	(*skipped)[at].Count += s.Count
}

// addBase puts the objects of base that no file replaces before those of the files.
func (g *gathering) addBase(base *Cluster) {
	files := g.cluster
	g.cluster = &Cluster{Given: files.Given, Skipped: files.Skipped, Warnings: files.Warnings}
	for i := range kinds {
		k := &kinds[i]
		for _, o := range k.all(base) {
			if _, replaced := g.seen[k.identity(o.(object))]; !replaced {
				k.add(g.cluster, o)
			}
		}
		for _, o := range k.all(files) {
			k.add(g.cluster, o)
		}
	}
}
