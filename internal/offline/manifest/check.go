package manifest

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// maxCores is an amount of CPU that no node has.
const maxCores = 1_000_000_000_000

var (
	metadataPath = field.NewPath("metadata")
	specPath     = field.NewPath("spec")
)

// checkMeta checks that the object has an identity, and sets its name in r.
func (k *kind) checkMeta(o object, r *report) bool {
	switch {
	case o.GetName() == "":
		r.add("metadata.name", "is missing; every object needs a name")
		return false
	case k.namespaced && o.GetNamespace() == "":
		o.SetNamespace(metav1.NamespaceDefault)
	}
	r.object = k.identity(o).String()
	return true
}

func validateLabels(labels map[string]string) field.ErrorList {
	return metav1validation.ValidateLabels(labels, metadataPath.Child("labels"))
}

// checkLabels checks the rest of the metadata.
func (k *kind) checkLabels(o object, r *report) {
	if !k.namespaced && o.GetNamespace() != "" {
		r.add("metadata.namespace", "a %s has no namespace; remove the field", k.gvk.Kind)
	}
	for _, problem := range validation.IsDNS1123Subdomain(o.GetName()) {
		r.add("metadata.name", "%q: %s", o.GetName(), problem)
	}
	if k.namespaced {
		for _, problem := range validation.IsDNS1123Label(o.GetNamespace()) {
			r.add("metadata.namespace", "%q: %s", o.GetNamespace(), problem)
		}
	}
	r.addList(validateLabels(o.GetLabels()))
}

// checkResources checks quantities, and rounds them up to thousandths as the API does.
func checkResources(list v1.ResourceList, path string, r *report) {
	var odd []string
	for name, q := range list {
		if isNegative(&q) || largeness(string(name), &q) != "" {
			odd = append(odd, string(name))
		}
		if q.RoundUp(resource.Milli) {
			continue
		}
		list[name] = q
	}
	slices.Sort(odd)
	for _, name := range odd {
		q := list[v1.ResourceName(name)]
		checkQuantity(name, &q, path+"["+name+"]", r)
	}
}

func isNegative(q *resource.Quantity) bool { return q.Sign() < 0 }

// checkQuantity reports odd amounts. API servers reject negative amounts, but admit
// amounts that no node can have.
func checkQuantity(name string, q *resource.Quantity, path string, r *report) {
	if isNegative(q) {
		r.add(path, "%s is negative; give zero or more", q)
	} else if large := largeness(name, q); large != "" {
		r.warn(path, "%s", large)
	}
}

// largeness describes an amount that is larger than any node's; "" if it is not.
func largeness(name string, q *resource.Quantity) string {
	switch {
	case name == string(v1.ResourceCPU) && q.CmpInt64(maxCores) > 0:
		return q.String() + " cores are more than a node has (500m is half a core)"
	case q.CmpInt64(math.MaxInt64) >= 0:
		return q.String() + " is more than a node has: 8Ei and above count as one less than 8Ei"
	}
	return ""
}

func checkNode(n *v1.Node, r *report) {
	checkResources(n.Status.Capacity, "status.capacity", r)
	checkResources(n.Status.Allocatable, "status.allocatable", r)
	for i, taint := range n.Spec.Taints {
		path := specPath.Child("taints").Index(i)
		r.addList(metav1validation.ValidateLabelName(taint.Key, path.Child("key")))
		for _, problem := range validation.IsValidLabelValue(taint.Value) {
			r.add(path.Child("value").String(), "%q: %s", taint.Value, problem)
		}
		checkEffect(taint.Effect, false, path, r)
	}
}

// checkEffect checks a taint's effect. A toleration may omit it.
func checkEffect(effect v1.TaintEffect, optional bool, path *field.Path, r *report) {
	switch effect {
	case v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute:
	case "":
		if !optional {
			r.add(path.Child("effect").String(), "is missing; want NoSchedule, PreferNoSchedule or NoExecute")
		}
	default:
		r.add(path.Child("effect").String(), "%q is not an effect; want NoSchedule, PreferNoSchedule or NoExecute", effect)
	}
}

func checkPod(p *v1.Pod, r *report) {
	if len(p.Spec.Containers) == 0 {
		r.add("spec.containers", "is empty; a pod has at least one container")
	}
	checkContainers(p.Spec.Containers, "spec.containers", r)
	checkContainers(p.Spec.InitContainers, "spec.initContainers", r)
	checkResources(p.Spec.Overhead, "spec.overhead", r)
	if p.Spec.Resources != nil {
		checkResources(p.Spec.Resources.Requests, "spec.resources.requests", r)
		checkResources(p.Spec.Resources.Limits, "spec.resources.limits", r)
	}
	r.addList(metav1validation.ValidateLabels(p.Spec.NodeSelector, specPath.Child("nodeSelector")))
	checkAffinity(p.Spec.Affinity, r)
	for i := range p.Spec.TopologySpreadConstraints {
		checkSpread(&p.Spec.TopologySpreadConstraints[i], specPath.Child("topologySpreadConstraints").Index(i), r)
	}
	for i := range p.Spec.Tolerations {
		checkToleration(&p.Spec.Tolerations[i], i, r)
	}
}

func checkContainers(containers []v1.Container, path string, r *report) {
	for i := range containers {
		c := &containers[i]
		at := path + "[" + strconv.Itoa(i) + "]"
		checkResources(c.Resources.Requests, at+".resources.requests", r)
		checkResources(c.Resources.Limits, at+".resources.limits", r)
		for j := range c.Ports {
			checkPort(&c.Ports[j], at+".ports["+strconv.Itoa(j)+"]", r)
		}
	}
}

func checkPort(p *v1.ContainerPort, path string, r *report) {
	if p.HostPort < 0 || p.HostPort > 65535 {
		r.add(path+".hostPort", "%d is not a port; want 1 to 65535", p.HostPort)
	}
	if p.ContainerPort < 1 || p.ContainerPort > 65535 {
		r.add(path+".containerPort", "%d is not a port; want 1 to 65535", p.ContainerPort)
	}
	switch p.Protocol {
	case "", v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
	default:
		r.add(path+".protocol", "%q is not a protocol; want TCP, UDP or SCTP", p.Protocol)
	}
}

func checkToleration(t *v1.Toleration, i int, r *report) {
	path := specPath.Child("tolerations").Index(i)
	if t.Key != "" {
		r.addList(metav1validation.ValidateLabelName(t.Key, path.Child("key")))
	} else if t.Operator != v1.TolerationOpExists {
		r.add(path.Child("operator").String(), "must be Exists when key is empty, which tolerates every taint")
	}
	switch t.Operator {
	case "", v1.TolerationOpEqual:
		for _, problem := range validation.IsValidLabelValue(t.Value) {
			r.add(path.Child("value").String(), "%q: %s", t.Value, problem)
		}
	case v1.TolerationOpExists:
		if t.Value != "" {
			r.add(path.Child("value").String(), "%q must be empty when operator is Exists", t.Value)
		}
	case v1.TolerationOpLt, v1.TolerationOpGt:
		if _, err := strconv.ParseInt(t.Value, 10, 64); err != nil {
			r.add(path.Child("value").String(), "%q must be a whole number when operator is %s", t.Value, t.Operator)
		}
	default:
		r.add(path.Child("operator").String(), "%q is not an operator; want Equal, Exists, Lt or Gt", t.Operator)
	}
	checkEffect(t.Effect, true, path, r)
	if t.TolerationSeconds != nil && t.Effect != v1.TaintEffectNoExecute {
		r.add(path.Child("effect").String(), "must be NoExecute when tolerationSeconds is set")
	}
}

func checkSpread(c *v1.TopologySpreadConstraint, path *field.Path, r *report) {
	if c.MaxSkew < 1 {
		r.add(path.Child("maxSkew").String(), "%d is too small; want 1 or more", c.MaxSkew)
	}
	checkTopologyKey(c.TopologyKey, path, r)
	switch c.WhenUnsatisfiable {
	case v1.DoNotSchedule, v1.ScheduleAnyway:
	default:
		r.add(path.Child("whenUnsatisfiable").String(), "%q is not supported; want DoNotSchedule or ScheduleAnyway", c.WhenUnsatisfiable)
	}
	if c.MinDomains != nil && (*c.MinDomains < 1 || c.WhenUnsatisfiable == v1.ScheduleAnyway) {
		r.add(path.Child("minDomains").String(), "%d: want 1 or more, and whenUnsatisfiable DoNotSchedule", *c.MinDomains)
	}
	checkPolicy(c.NodeAffinityPolicy, path.Child("nodeAffinityPolicy"), r)
	checkPolicy(c.NodeTaintsPolicy, path.Child("nodeTaintsPolicy"), r)
	checkSelector(c.LabelSelector, path.Child("labelSelector"), r)
}

func checkPolicy(p *v1.NodeInclusionPolicy, path *field.Path, r *report) {
	if p != nil && *p != v1.NodeInclusionPolicyHonor && *p != v1.NodeInclusionPolicyIgnore {
		r.add(path.String(), "%q is not a policy; want Honor or Ignore", *p)
	}
}

func checkTopologyKey(key string, path *field.Path, r *report) {
	path = path.Child("topologyKey")
	if key == "" {
		r.add(path.String(), "is missing; want a node label's key such as topology.kubernetes.io/zone")
		return
	}
	r.addList(metav1validation.ValidateLabelName(key, path))
}

func checkSelector(s *metav1.LabelSelector, path *field.Path, r *report) {
	r.addList(metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path))
}

func checkAffinity(a *v1.Affinity, r *report) {
	if a == nil {
		return
	}
	path := specPath.Child("affinity")
	if a.NodeAffinity != nil {
		checkNodeAffinity(a.NodeAffinity, path.Child("nodeAffinity"), r)
	}
	if a.PodAffinity != nil {
		checkTerms(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"), r)
	}
	if a.PodAntiAffinity != nil {
		checkTerms(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"), r)
	}
}

const (
	required  = "requiredDuringSchedulingIgnoredDuringExecution"
	preferred = "preferredDuringSchedulingIgnoredDuringExecution"
)

func checkNodeAffinity(a *v1.NodeAffinity, path *field.Path, r *report) {
	checkNodeSelector(a.RequiredDuringSchedulingIgnoredDuringExecution, path.Child(required), r)
	for i, term := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		at := path.Child(preferred).Index(i)
		checkWeight(term.Weight, at, r)
		// Parse it as a selector of one term, because the parser of preferred terms skips
		// terms of weight 0.
		one := &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term.Preference}}
		before := len(r.errs)
		_, err := nodeaffinity.NewNodeSelector(one, field.WithPath(at))
		r.addErr(at, err)
		for _, e := range r.errs[before:] {
			e.Field = strings.Replace(e.Field, "nodeSelectorTerms[0]", "preference", 1)
		}
		// API servers only warn of a value in a preference that is not a label value. The
		// library rejects the selector, so the pod's attempt fails.
		r.admitIf(before, func(e *Error) bool {
			return comparesText(e) || strings.Contains(e.Field, "].values[") && strings.Contains(e.Field, ".matchExpressions[")
		})
	}
}

func checkNodeSelector(s *v1.NodeSelector, path *field.Path, r *report) {
	if s == nil {
		return
	}
	if len(s.NodeSelectorTerms) == 0 {
		r.add(path.Child("nodeSelectorTerms").String(), "is empty; want at least one term")
	}
	before := len(r.errs)
	_, err := nodeaffinity.NewNodeSelector(s, field.WithPath(path))
	r.addErr(path, err)
	r.admitIf(before, comparesText)
}

// comparesText reports whether an error is about Gt or Lt with a value that is not a
// number. API servers do not check the value. The scheduler library rejects the whole
// selector: a required selector matches no node, and a preferred one fails the pod's
// attempt.
func comparesText(e *Error) bool { return strings.Contains(e.Problem, "the value must be an integer") }

func checkWeight(weight int32, path *field.Path, r *report) {
	if weight < 1 || weight > 100 {
		r.add(path.Child("weight").String(), "%d is out of range; want 1 to 100", weight)
	}
}

func checkTerms(must []v1.PodAffinityTerm, wish []v1.WeightedPodAffinityTerm, path *field.Path, r *report) {
	for i := range must {
		checkTerm(&must[i], path.Child(required).Index(i), r)
	}
	for i := range wish {
		at := path.Child(preferred).Index(i)
		checkWeight(wish[i].Weight, at, r)
		checkTerm(&wish[i].PodAffinityTerm, at.Child("podAffinityTerm"), r)
	}
}

func checkTerm(t *v1.PodAffinityTerm, path *field.Path, r *report) {
	checkTopologyKey(t.TopologyKey, path, r)
	checkSelector(t.LabelSelector, path.Child("labelSelector"), r)
	checkSelector(t.NamespaceSelector, path.Child("namespaceSelector"), r)
}

func checkService(s *v1.Service, r *report) {
	r.addList(metav1validation.ValidateLabels(s.Spec.Selector, specPath.Child("selector")))
}

func checkReplicaSet(s *appsv1.ReplicaSet, r *report) {
	checkTrimmed(s.Spec.Replicas, s.Spec.Selector, &s.Spec.Template, "ReplicaSet", r)
}

func checkStatefulSet(s *appsv1.StatefulSet, r *report) {
	checkTrimmed(s.Spec.Replicas, s.Spec.Selector, &s.Spec.Template, "StatefulSet", r)
}

func checkBudget(b *policyv1.PodDisruptionBudget, r *report) {
	checkSelector(b.Spec.Selector, specPath.Child("selector"), r)
}

func checkVolume(v *v1.PersistentVolume, r *report) {
	checkResources(v.Spec.Capacity, "spec.capacity", r)
	if v.Spec.NodeAffinity != nil {
		checkNodeSelector(v.Spec.NodeAffinity.Required, specPath.Child("nodeAffinity", "required"), r)
	}
}

func checkClaim(c *v1.PersistentVolumeClaim, r *report) {
	checkResources(c.Spec.Resources.Requests, "spec.resources.requests", r)
	checkSelector(c.Spec.Selector, specPath.Child("selector"), r)
}

func checkCapacity(c *storagev1.CSIStorageCapacity, r *report) {
	checkSelector(c.NodeTopology, field.NewPath("nodeTopology"), r)
}

func checkSlice(s *resourcev1.ResourceSlice, r *report) {
	checkNodeSelector(s.Spec.NodeSelector, specPath.Child("nodeSelector"), r)
	for i := range s.Spec.Devices {
		for _, name := range slices.Sorted(maps.Keys(s.Spec.Devices[i].Capacity)) {
			q := s.Spec.Devices[i].Capacity[name].Value
			checkQuantity(string(name), &q, specPath.Child("devices").Index(i).Child("capacity").Key(string(name)).String(), r)
		}
	}
}

// checkPodGroup checks that exactly one policy is set, and a gang's minCount.
func checkPodGroup(g *schedulingv1beta1.PodGroup, r *report) {
	policy := &g.Spec.SchedulingPolicy
	switch {
	case policy.Basic == nil && policy.Gang == nil:
		r.add("spec.schedulingPolicy", "is missing; give one of basic: {} and gang: {minCount: N}")
	case policy.Basic != nil && policy.Gang != nil:
		r.add("spec.schedulingPolicy", "has both basic and gang; give one of the two")
	case policy.Gang != nil && policy.Gang.MinCount < 1:
		r.add("spec.schedulingPolicy.gang.minCount", "%d: must be at least 1", policy.Gang.MinCount)
	}
}
