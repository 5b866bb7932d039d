package manifest

import (
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// Cluster is the content of the files, each kind in the order of the files. The caller
// may change it.
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

	// Workloads that no scheduler reads. Their controllers create pods.
	Deployments []*appsv1.Deployment
	DaemonSets  []*appsv1.DaemonSet
	Jobs        []*batchv1.Job
	CronJobs    []*batchv1.CronJob
	// custom resources of the kinds in Options.Customs
	Customs []*unstructured.Unstructured

	// Given are the files and directories, in the order given, without files of Base.
	Given    []Given
	Skipped  []Skipped // kinds that were skipped, in the order of their first object
	Warnings []string  // suspicious objects that can still be simulated

	places map[metav1.Object]Place
}

// Place is the place where an object is defined.
type Place struct {
	File  string
	Line  int
	Given int // the index in Cluster.Given
}

// Place returns the place where the files define a workload. ok is false for all other
// objects, and for objects of Base.
func (c *Cluster) Place(o metav1.Object) (Place, bool) {
	p, ok := c.places[o]
	return p, ok
}

// Made is an object that a controller creates for an object of the files.
type Made struct {
	Object runtime.Object
	Given  int // the index in Cluster.Given
}

// Create adds objects as if they were posted to an API server, with its default values.
// The values set by FillTemplate are excepted, because they are the same for all pods of
// a template.
func (c *Cluster) Create(all []Made) {
	for _, made := range all {
		for i := range kinds {
			if k := &kinds[i]; k.add(c, made.Object) {
				fillMeta(k, made.Object.(object))
				if k.gvk.Kind != "Pod" {
					k.fill(made.Object.(object))
				}
				break
			}
		}
		if pod, ok := made.Object.(*v1.Pod); ok {
			orElse(&pod.Status.Phase, v1.PodPending)
			c.Given[made.Given].Pods = append(c.Given[made.Given].Pods, pod)
		}
	}
	c.fillNamespaces()
	c.fillPriorities()
	c.fillClasses()
}

// Given has the nodes and pods of a file or directory.
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

// Objects returns every object of the cluster as one slice, kind by kind in the order of
// Cluster's fields.
func (c *Cluster) Objects() []runtime.Object {
	var all []runtime.Object
	for i := range kinds {
		all = append(all, kinds[i].all(c)...)
	}
	return all
}

// Add adds an object that an API server has already completed and validated. It returns
// false if the cluster has no field for its kind.
func (c *Cluster) Add(added runtime.Object) bool {
	for i := range kinds {
		if kinds[i].add(c, added) {
			return true
		}
	}
	return false
}

// Complete adds the missing namespaces of objects, as Read does.
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
	seen    map[identity]decoded
	errs    []*Error
	// holding records, for each given file, directory and archive, whether it has an
	// object.
	holding map[string]bool
	remarks remarks
	copies  int // objects that occur more than once in the files
	strays  int // documents of dumps that are no objects
}

func newGathering(errs []*Error) *gathering {
	return &gathering{cluster: &Cluster{places: map[metav1.Object]Place{}}, seen: map[identity]decoded{}, errs: errs, holding: map[string]bool{}, remarks: remarks{at: map[string]int{}}}
}

// take merges one result.
func (g *gathering) take(r result) {
	g.errs = append(g.errs, r.errs...)
	g.strays += r.strays
	g.remarks.add(r.remarks)
	for _, o := range r.objects {
		id := o.kind.identity(o.object)
		if id.name != "" {
			if before, twice := g.seen[id]; twice {
				g.again(id, before, o)
				continue
			}
			g.seen[id] = o
		}
		if makesPods(o.object) {
			g.cluster.places[o.object] = Place{File: o.file, Line: o.line, Given: len(g.cluster.Given) - 1}
		}
		if o.kind.custom {
			g.cluster.Customs = append(g.cluster.Customs, o.object.(*unstructured.Unstructured))
			continue
		}
		o.kind.add(g.cluster, o.object)
	}
	for _, s := range r.skipped {
		g.skip(s)
	}
}

// again handles an object that occurs again in the files. Dumps such as a must-gather of
// OpenShift have pods in a list and also in files of their own, read at different times.
// The later version wins. Without an API server's uid and resourceVersion, a duplicate is
// an error.
func (g *gathering) again(id identity, before, now decoded) {
	if !before.admitted || !now.admitted || before.object.GetUID() != now.object.GetUID() {
		g.errs = append(g.errs, &Error{File: now.file, Line: now.line, Object: id.String(),
			Problem: fmt.Sprintf("is already defined at %s:%d; remove one of the two", before.file, before.line)})
		return
	}
	g.copies++
	order, err := resourceversion.CompareResourceVersion(before.object.GetResourceVersion(), now.object.GetResourceVersion())
	if err == nil && order < 0 {
		// The cluster refers to the earlier object.
		reflect.ValueOf(before.object).Elem().Set(reflect.ValueOf(now.object).Elem())
	}
}

// remark adds the warnings about all files.
func (g *gathering) remark() {
	warnings := &g.cluster.Warnings
	*warnings = append(*warnings, g.remarks.texts()...)
	if g.copies > 0 {
		*warnings = append(*warnings, fmt.Sprintf("the files have %s more than once; the latest state of each is used", count(g.copies, "object")))
	}
	if g.strays > 0 {
		*warnings = append(*warnings, fmt.Sprintf("the directories and archives have %s without a kind; these were skipped", count(g.strays, "document")))
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

// addBase adds the objects of base before those of the files, unless a file replaces
// them.
func (g *gathering) addBase(base *Cluster) {
	files := g.cluster
	g.cluster = &Cluster{Given: files.Given, Skipped: files.Skipped, Warnings: files.Warnings, Customs: files.Customs, places: files.places}
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
