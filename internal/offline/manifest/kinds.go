package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/internal/model/spelling"
)

// kinds are the kinds that can be read from files, with the API server's defaults and
// checks for each. They are the kinds of package kinds, which the scheduler can watch;
// others that kube-scheduler watches; priority classes, which admission reads; and
// ResourceClaimTemplates and workloads, which controllers read. A new kind needs a field
// of Cluster and a row here.
var kinds = []kind{
	row(v1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*v1.Node { return &c.Nodes }, fillNode, checkNode),
	row(v1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*v1.Pod { return &c.Pods }, fillPod, checkPod),
	row(v1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*v1.Namespace { return &c.Namespaces }, fillNamespace, nil),
	row(v1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*v1.Service { return &c.Services }, nil, checkService),
	row(v1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*v1.ReplicationController { return &c.ReplicationControllers }, fillReplicationController, checkReplicationController),
	row(v1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*v1.PersistentVolume { return &c.PersistentVolumes }, fillVolume, checkVolume),
	row(v1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*v1.PersistentVolumeClaim { return &c.PersistentVolumeClaims }, fillClaim, checkClaim),
	row(appsv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*appsv1.ReplicaSet { return &c.ReplicaSets }, nil, checkReplicaSet),
	row(appsv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*appsv1.StatefulSet { return &c.StatefulSets }, nil, checkStatefulSet),
	row(appsv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*appsv1.Deployment { return &c.Deployments }, nil, checkDeployment),
	row(appsv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*appsv1.DaemonSet { return &c.DaemonSets }, nil, checkDaemonSet),
	row(batchv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*batchv1.Job { return &c.Jobs }, nil, checkJob),
	row(batchv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*batchv1.CronJob { return &c.CronJobs }, nil, checkCronJob),
	row(policyv1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*policyv1.PodDisruptionBudget { return &c.PodDisruptionBudgets }, nil, checkBudget),
	row(schedulingv1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*schedulingv1.PriorityClass { return &c.PriorityClasses }, fillPriorityClass, nil),
	row(schedulingv1beta1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*schedulingv1beta1.PodGroup { return &c.PodGroups }, nil, checkPodGroup),
	row(schedulingv1alpha3.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*schedulingv1alpha3.CompositePodGroup { return &c.CompositePodGroups }, nil, nil),
	row(storagev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*storagev1.StorageClass { return &c.StorageClasses }, fillStorageClass, nil),
	row(storagev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*storagev1.CSINode { return &c.CSINodes }, nil, nil),
	row(storagev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*storagev1.CSIDriver { return &c.CSIDrivers }, fillDriver, nil),
	row(storagev1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*storagev1.CSIStorageCapacity { return &c.CSIStorageCapacities }, nil, checkCapacity),
	row(storagev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*storagev1.VolumeAttachment { return &c.VolumeAttachments }, nil, nil),
	row(resourcev1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*resourcev1.ResourceClaim { return &c.ResourceClaims }, fillResourceClaim, nil),
	row(resourcev1.SchemeGroupVersion, namespaced, func(c *Cluster) *[]*resourcev1.ResourceClaimTemplate { return &c.ResourceClaimTemplates }, fillResourceClaimTemplate, nil),
	row(resourcev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*resourcev1.ResourceSlice { return &c.ResourceSlices }, nil, checkSlice),
	row(resourcev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*resourcev1.DeviceClass { return &c.DeviceClasses }, nil, nil),
	row(resourcev1.SchemeGroupVersion, clusterWide, func(c *Cluster) *[]*resourcev1.DeviceTaintRule { return &c.DeviceTaintRules }, nil, nil),
}

const (
	clusterWide = false
	namespaced  = true
)

// object is the interface of all kinds in the table.
type object interface {
	runtime.Object
	metav1.Object
}

// kind is one row of the table.
type kind struct {
	gvk        schema.GroupVersionKind
	namespaced bool
	codec      runtime.Decoder
	// false if the object is of another kind
	add func(*Cluster, runtime.Object) bool
	all func(*Cluster) []runtime.Object
	// fill applies the API's defaults to an object that passed check.
	fill func(object)
	// check reports fields that an API server would reject although they can be decoded.
	check  func(object, *report)
	custom bool // a custom resource, decoded without a type
}

// customKind returns the row of a custom resource.
func customKind(gvk schema.GroupVersionKind) *kind {
	return &kind{gvk: gvk, namespaced: true, custom: true, codec: untyped(gvk),
		add: func(*Cluster, runtime.Object) bool { return false }, fill: func(object) {}, check: func(object, *report) {}}
}

// row assigns a kind to its field of Cluster. The kind's name is the name of its type.
// fill and check may be nil.
func row[T any](gv schema.GroupVersion, namespaced bool, field func(*Cluster) *[]*T, fill func(*T), check func(*T, *report)) kind {
	k := kind{gvk: gv.WithKind(reflect.TypeFor[T]().Name()), namespaced: namespaced}
	// Serializers are safe for concurrent use.
	k.codec = json.NewSerializerWithOptions(interpreted(k.gvk), scheme.Scheme, scheme.Scheme, json.SerializerOptions{Strict: true})
	k.add = func(c *Cluster, o runtime.Object) bool {
		of, ok := any(o).(*T)
		if ok {
			*field(c) = append(*field(c), of)
		}
		return ok
	}
	k.all = func(c *Cluster) []runtime.Object {
		var all []runtime.Object
		for _, o := range *field(c) {
			all = append(all, any(o).(runtime.Object))
		}
		return all
	}
	k.fill = func(o object) {
		if fill != nil {
			fill(any(o).(*T))
		}
	}
	k.check = func(o object, r *report) {
		if check != nil {
			check(any(o).(*T), r)
		}
	}
	return k
}

// untyped decodes objects of a kind without a type.
type untyped schema.GroupVersionKind

func (u untyped) Decode(js []byte, _ *schema.GroupVersionKind, _ runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	gvk := schema.GroupVersionKind(u)
	o := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(js, &o.Object); err != nil {
		return nil, &gvk, err
	}
	o.SetGroupVersionKind(gvk)
	return o, &gvk, nil
}

// interpreted saves the serializer a pass over the text, because the kind is already
// known.
type interpreted schema.GroupVersionKind

func (i interpreted) Interpret([]byte) (*schema.GroupVersionKind, error) {
	gvk := schema.GroupVersionKind(i)
	return &gvk, nil
}

func (k *kind) identity(o object) identity {
	return identity{group: k.gvk.Group, kind: k.gvk.Kind, namespace: o.GetNamespace(), name: o.GetName()}
}

// rowOf returns a kind's row; nil if it has none.
func rowOf(gvk schema.GroupVersionKind) *kind {
	for i := range kinds {
		if kinds[i].gvk == gvk {
			return &kinds[i]
		}
	}
	return nil
}

// refusal returns the reason why gvk, which is not in the table, cannot be read; "" if it
// can be skipped. A kind of a group that is not built into Kubernetes is a custom
// resource, whatever its name: a PodGroup of scheduling.volcano.sh is not the PodGroup of
// scheduling.k8s.io.
func refusal(gvk schema.GroupVersionKind) string {
	name := gvk.GroupVersion().String()
	switch {
	case gvk.Kind == "":
		return "kind is missing; every object needs apiVersion and kind"
	case gvk.Version == "" || gvk.Version == "__internal":
		return "apiVersion is missing; every object needs apiVersion and kind" + suggestVersion(gvk)
	case isCustom(gvk.Group):
		return ""
	}
	for i := range kinds {
		if k := kinds[i].gvk; k.Group == gvk.Group && k.Kind == gvk.Kind {
			return fmt.Sprintf("%s in %s is not supported; give it in %s", gvk.Kind, name, k.GroupVersion())
		}
	}
	if scheme.Scheme.Recognizes(gvk) {
		return ""
	}
	if versions := suggestVersion(gvk); versions != "" {
		return fmt.Sprintf("no kind %s in %s%s", gvk.Kind, name, versions)
	}
	known := map[string]bool{}
	for k := range scheme.Scheme.AllKnownTypes() {
		known[k.Kind] = true
	}
	near := suggest(gvk.Kind, known)
	if near == "" && scheme.Scheme.IsGroupRegistered(gvk.Group) {
		return "" // a kind of another Kubernetes release
	}
	return fmt.Sprintf("unknown kind %s of %s%s; remove the object if scheduling does not need it", gvk.Kind, name, near)
}

// isCustom reports whether a group belongs to custom resources or an aggregated API. The
// names of such groups have a dot; the API server accepts no other.
func isCustom(group string) bool {
	return strings.Contains(group, ".") && !scheme.Scheme.IsGroupRegistered(group)
}

// suggestVersion lists the API versions of a kind: the readable ones or, without any,
// all, released ones first.
func suggestVersion(gvk schema.GroupVersionKind) string {
	var read, all []string
	for i := range kinds {
		if kinds[i].gvk.Kind == gvk.Kind {
			read = append(read, kinds[i].gvk.GroupVersion().String())
		}
	}
	for known := range scheme.Scheme.AllKnownTypes() {
		if known.Kind == gvk.Kind && known.Version != runtime.APIVersionInternal {
			all = append(all, known.GroupVersion().String())
		}
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(maturity(a), maturity(b)), cmp.Compare(a, b))
	})
	if len(read) == 0 {
		read = all[:min(3, len(all))]
	}
	if len(read) == 0 {
		return ""
	}
	return "; " + gvk.Kind + " is in " + strings.Join(read, ", ")
}

// maturity orders API versions: released, beta, alpha.
func maturity(version string) int {
	switch {
	case strings.Contains(version, "alpha"):
		return 2
	case strings.Contains(version, "beta"):
		return 1
	}
	return 0
}

// suggest returns "; did you mean X?" for the known word that is nearest to word, and ""
// if none is near.
func suggest(word string, known map[string]bool) string {
	best := spelling.Nearest(word, slices.Sorted(maps.Keys(known)))
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}
