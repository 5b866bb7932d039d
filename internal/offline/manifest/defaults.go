package manifest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	podresource "k8s.io/component-helpers/resource"
)

// fillMeta sets the metadata that the API server sets in all objects.
func fillMeta(k *kind, o object) {
	o.SetManagedFields(nil)
	if o.GetUID() == "" {
		o.SetUID(uid(k.identity(o)))
	}
}

// uid returns a UID that is the same for the same object in every run.
func uid(id identity) types.UID {
	sum := sha256.Sum256([]byte(id.group + "\n" + id.kind + "\n" + id.namespace + "\n" + id.name))
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]))
}

// UID returns the UID that Read gives an object without one.
func UID(group, kind string, o metav1.Object) types.UID {
	return uid(identity{group: group, kind: kind, namespace: o.GetNamespace(), name: o.GetName()})
}

// GeneratedName returns a name as API servers derive it from generateName, with five
// letters appended. The letters are a hash here, so a name is the same in every run.
func GeneratedName(prefix, of string) string {
	const letters, codes = 5, 27
	prefix = prefix[:min(len(prefix), validation.DNS1123LabelMaxLength-letters)]
	h := fnv.New64a()
	_, _ = h.Write([]byte(prefix + "\n" + of))
	var code [letters]rune
	for i, sum := 0, h.Sum64(); i < letters; i, sum = i+1, sum/codes {
		code[i] = rune(sum % codes)
	}
	return prefix + rand.SafeEncodeString(string(code[:]))
}

// orElse sets a value that is zero.
func orElse[T comparable](at *T, value T) {
	var none T
	if *at == none {
		*at = value
	}
}

// orElseNew sets a pointer that is nil.
func orElseNew[T any](at **T, value T) {
	if *at == nil {
		*at = &value
	}
}

func fillNode(n *v1.Node) {
	if n.Status.Allocatable == nil {
		n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	}
}

func fillNamespace(n *v1.Namespace) {
	metav1.SetMetaDataLabel(&n.ObjectMeta, v1.LabelMetadataName, n.Name)
	orElse(&n.Status.Phase, v1.NamespaceActive)
}

func fillPod(p *v1.Pod) {
	orElse(&p.Spec.SchedulerName, v1.DefaultSchedulerName)
	orElse(&p.Status.Phase, v1.PodPending)
	fillContainers(p.Spec.Containers, p.Spec.HostNetwork)
	fillContainers(p.Spec.InitContainers, p.Spec.HostNetwork)
	fillPodRequests(p)
	fillToleration(p, v1.TaintNodeNotReady)
	fillToleration(p, v1.TaintNodeUnreachable)
}

func fillContainers(containers []v1.Container, hostNetwork bool) {
	for i := range containers {
		c := &containers[i]
		for name, limit := range c.Resources.Limits {
			if _, ok := c.Resources.Requests[name]; !ok {
				if c.Resources.Requests == nil {
					c.Resources.Requests = v1.ResourceList{}
				}
				c.Resources.Requests[name] = limit.DeepCopy()
			}
		}
		for j := range c.Ports {
			orElse(&c.Ports[j].Protocol, v1.ProtocolTCP)
			if hostNetwork {
				orElse(&c.Ports[j].HostPort, c.Ports[j].ContainerPort)
			}
		}
	}
}

// fillPodRequests derives pod-level requests if pod-level limits are set: from the
// containers' requests, otherwise from the limits. It follows defaultPodRequests in
// k8s.io/kubernetes/pkg/apis/core/v1.
func fillPodRequests(p *v1.Pod) {
	if p.Spec.Resources == nil || len(p.Spec.Resources.Limits) == 0 {
		return
	}
	requests := p.Spec.Resources.Requests
	if requests == nil {
		requests = v1.ResourceList{}
	}
	for name, q := range podresource.AggregateContainerRequests(p, podresource.PodResourcesOptions{}) {
		if _, ok := requests[name]; !ok && (name == v1.ResourceCPU || name == v1.ResourceMemory) {
			requests[name] = q
		}
	}
	for name, q := range p.Spec.Resources.Limits {
		if _, ok := requests[name]; !ok && podresource.IsSupportedPodLevelResource(name) {
			requests[name] = q.DeepCopy()
		}
	}
	if len(requests) > 0 {
		p.Spec.Resources.Requests = requests
	}
}

// fillToleration adds a toleration of five minutes for a taint of failing nodes, unless
// the pod has one.
func fillToleration(p *v1.Pod, taint string) {
	for _, t := range p.Spec.Tolerations {
		if (t.Key == taint || t.Key == "") && (t.Effect == v1.TaintEffectNoExecute || t.Effect == "") {
			return
		}
	}
	seconds := int64(300)
	p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: taint, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute, TolerationSeconds: &seconds})
}

func fillReplicationController(c *v1.ReplicationController) {
	if len(c.Spec.Selector) == 0 && c.Spec.Template != nil {
		c.Spec.Selector = c.Spec.Template.Labels
	}
}

func fillVolume(v *v1.PersistentVolume) {
	orElse(&v.Status.Phase, v1.VolumePending)
	orElseNew(&v.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
}

func fillClaim(c *v1.PersistentVolumeClaim) {
	orElse(&c.Status.Phase, v1.ClaimPending)
	orElseNew(&c.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
}

func fillPriorityClass(c *schedulingv1.PriorityClass) {
	orElseNew(&c.PreemptionPolicy, v1.PreemptLowerPriority)
}

func fillStorageClass(c *storagev1.StorageClass) {
	orElseNew(&c.ReclaimPolicy, v1.PersistentVolumeReclaimDelete)
	orElseNew(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func fillDriver(d *storagev1.CSIDriver) {
	orElseNew(&d.Spec.AttachRequired, true)
	orElseNew(&d.Spec.StorageCapacity, false)
	orElseNew(&d.Spec.PreventPodSchedulingIfMissing, false)
}

func fillResourceClaim(c *resourcev1.ResourceClaim) { fillClaimSpec(&c.Spec) }

func fillResourceClaimTemplate(t *resourcev1.ResourceClaimTemplate) { fillClaimSpec(&t.Spec.Spec) }

func fillClaimSpec(spec *resourcev1.ResourceClaimSpec) {
	for i := range spec.Devices.Requests {
		request := &spec.Devices.Requests[i]
		if request.Exactly != nil {
			fillDevices(&request.Exactly.AllocationMode, &request.Exactly.Count)
		}
		for j := range request.FirstAvailable {
			fillDevices(&request.FirstAvailable[j].AllocationMode, &request.FirstAvailable[j].Count)
		}
	}
}

func fillDevices(mode *resourcev1.DeviceAllocationMode, count *int64) {
	orElse(mode, resourcev1.DeviceAllocationModeExactCount)
	if *mode == resourcev1.DeviceAllocationModeExactCount {
		orElse(count, 1)
	}
}

// fillAcross sets the defaults that depend on other objects.
func (c *Cluster) fillAcross() {
	c.fillNamespaces()
	c.fillPriorities()
	c.fillClasses()
	c.warnUnknownNodes()
}

// fillNamespaces adds the namespaces of objects that no file contains, in the order of
// their first object.
func (c *Cluster) fillNamespaces() {
	have := map[string]bool{}
	for _, n := range c.Namespaces {
		have[n.Name] = true
	}
	for i := range kinds {
		if !kinds[i].namespaced {
			continue
		}
		for _, o := range kinds[i].all(c) {
			if name := o.(object).GetNamespace(); !have[name] {
				have[name] = true
				c.addNamespace(name)
			}
		}
	}
}

func (c *Cluster) addNamespace(name string) {
	k := rowOf(v1.SchemeGroupVersion.WithKind("Namespace"))
	n := &v1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	fillMeta(k, n)
	k.fill(n)
	k.add(c, n)
}

// priority is the effect of a class on the objects that name it.
type priority struct {
	class  string
	value  int32
	policy v1.PreemptionPolicy
}

// priorities resolves class names as the Priority admission plugin does.
type priorities struct {
	byName    map[string]priority
	otherwise priority       // for objects without a class name
	missing   map[string]int // uses of missing classes
}

func (c *Cluster) fillPriorities() {
	const lower = v1.PreemptLowerPriority
	p := priorities{otherwise: priority{policy: lower}, missing: map[string]int{}, byName: map[string]priority{
		"system-cluster-critical": {class: "system-cluster-critical", value: 2_000_000_000, policy: lower},
		"system-node-critical":    {class: "system-node-critical", value: 2_000_001_000, policy: lower},
	}}
	for _, class := range c.PriorityClasses {
		found := priority{class: class.Name, value: class.Value, policy: *class.PreemptionPolicy}
		p.byName[class.Name] = found
		// Of several global defaults the API server uses the lowest.
		if class.GlobalDefault && (p.otherwise.class == "" || found.value < p.otherwise.value) {
			p.otherwise = found
		}
	}
	for _, pod := range c.Pods {
		resolve(&p, &pod.Spec.PriorityClassName, &pod.Spec.Priority, &pod.Spec.PreemptionPolicy)
	}
	for _, group := range c.PodGroups {
		resolve(&p, &group.Spec.PriorityClassName, &group.Spec.Priority, &group.Spec.PreemptionPolicy)
	}
	for _, group := range c.CompositePodGroups {
		resolve(&p, &group.Spec.PriorityClassName, &group.Spec.Priority, &group.Spec.PreemptionPolicy)
	}
	for _, name := range slices.Sorted(maps.Keys(p.missing)) {
		c.Warnings = append(c.Warnings, fmt.Sprintf("PriorityClass %s is not in the files: priority 0 for %s", name, count(p.missing[name], "object")))
	}
}

// resolve sets the three fields of one object. A priority that is set was resolved by an
// API server, so it stays.
func resolve[P ~string](p *priorities, class *string, value **int32, policy **P) {
	if *value == nil {
		found := p.of(class)
		*value = &found.value
		orElseNew(policy, P(found.policy))
	}
	orElseNew(policy, P(v1.PreemptLowerPriority))
}

// of returns a class, or the default class and its name.
func (p *priorities) of(class *string) priority {
	if *class == "" {
		*class = p.otherwise.class
		return p.otherwise
	}
	found, ok := p.byName[*class]
	if !ok {
		p.missing[*class]++
		return priority{policy: v1.PreemptLowerPriority}
	}
	return found
}

// fillClasses sets the default StorageClass in unbound claims without a class. Of several
// defaults it chooses the newest, then the first by name, as the DefaultStorageClass
// admission plugin does.
func (c *Cluster) fillClasses() {
	var defaults []*storagev1.StorageClass
	for _, class := range c.StorageClasses {
		if class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
			defaults = append(defaults, class)
		}
	}
	if len(defaults) == 0 {
		return
	}
	chosen := slices.MinFunc(defaults, func(a, b *storagev1.StorageClass) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, claim := range c.PersistentVolumeClaims {
		if claim.Spec.VolumeName == "" && claim.Annotations[v1.BetaStorageClassAnnotation] == "" {
			orElseNew(&claim.Spec.StorageClassName, chosen.Name)
		}
	}
}

// warnUnknownNodes adds a warning about pods on nodes that no file contains. The warning
// names only a few nodes, because a snapshot may have pods alone.
func (c *Cluster) warnUnknownNodes() {
	const maxNamed = 3
	known := map[string]bool{}
	for _, n := range c.Nodes {
		known[n.Name] = true
	}
	bound := map[string]int{}
	var names []string
	pods := 0
	for _, p := range c.Pods {
		name := p.Spec.NodeName
		if name == "" || known[name] || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if bound[name] == 0 {
			names = append(names, name)
		}
		bound[name]++
		pods++
	}
	if pods == 0 {
		return
	}
	list := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	c.Warnings = append(c.Warnings, fmt.Sprintf("%s bound to %s not in the files: %s", count(pods, "pod"), count(len(names), "node"), list))
}

// count returns "1 pod", "2 pods".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
