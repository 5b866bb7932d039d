package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Devices configures the care of ResourceClaims in a simulation.
type Devices struct {
	// Unattended switches off the controller. No claims are made from templates, and
	// reservations and allocations stay as they are written.
	Unattended bool
	// Prepared means that drivers prepare allocated devices: after PreparationTime, all
	// binding conditions are met.
	Prepared bool
}

// PreparationTime is how long drivers take to prepare devices.
const PreparationTime = time.Second

// claimController plays kube-controller-manager and the drivers. As the former it makes
// ResourceClaims from templates, removes the reservations of finished pods, and
// deallocates and deletes unused claims. As the latter it prepares devices. It costs
// nothing in a cluster without claims.
//
// Like the volumeController, it reads the stored objects and writes them through the
// store, at most one write in a reconciliation.
type claimController struct {
	c     *Cluster
	rules Devices
	// forGroups means that claims are also made for PodGroups, and shared by their
	// members.
	forGroups bool

	templates map[model.ClaimKey]*resourcev1.ResourceClaimTemplate
	// Invariant: claims has the stored claims, in their newest versions.
	claims map[model.ClaimKey]*resourcev1.ResourceClaim
	// Invariant: pods has the stored pods whose spec has claims, in their newest
	// versions.
	pods map[model.PodKey]*v1.Pod
	// Invariant: groups has the stored PodGroups with claims, in their newest versions,
	// if forGroups.
	groups map[model.GroupKey]*schedulingv1beta1.PodGroup
	// Invariant: used has the claims that were made for a pod or PodGroup or are reserved
	// for it, by its UID.
	used map[types.UID]map[model.ClaimKey]bool

	planned map[model.Ref]bool // reconciliations
}

func newClaimController(c *Cluster, rules Devices, forGroups bool) *claimController {
	return &claimController{
		c: c, rules: rules, forGroups: forGroups, groups: map[model.GroupKey]*schedulingv1beta1.PodGroup{},
		templates: map[model.ClaimKey]*resourcev1.ResourceClaimTemplate{}, claims: map[model.ClaimKey]*resourcev1.ResourceClaim{},
		pods: map[model.PodKey]*v1.Pod{}, used: map[types.UID]map[model.ClaimKey]bool{}, planned: map[model.Ref]bool{},
	}
}

// SetTemplate creates or replaces a ResourceClaimTemplate, which only the controller
// reads. The cluster stores a copy.
func (c *Cluster) SetTemplate(template *resourcev1.ResourceClaimTemplate) {
	key := model.ClaimKey{Namespace: template.Namespace, Name: template.Name}
	stored := template.DeepCopy()
	var before types.UID
	if have := c.claim.templates[key]; have != nil {
		before = have.UID
	}
	c.store.stamp(stored, before)
	c.claim.templates[key] = stored
	c.changes++
	for _, pod := range slices.SortedFunc(maps.Keys(c.claim.pods), compareKeys) {
		if pod.Namespace == key.Namespace {
			c.claim.visit(podRef(pod))
		}
	}
	for group := range c.claim.groups {
		if group.Namespace == key.Namespace {
			c.claim.visit(group.Ref())
		}
	}
}

// DeleteTemplate removes a ResourceClaimTemplate and reports whether it existed. The
// claims that were made from it stay.
func (c *Cluster) DeleteTemplate(key model.ClaimKey) bool {
	_, ok := c.claim.templates[key]
	delete(c.claim.templates, key)
	return ok
}

// Template returns a stored ResourceClaimTemplate or nil. It must not be changed.
func (c *Cluster) Template(key model.ClaimKey) *resourcev1.ResourceClaimTemplate {
	return c.claim.templates[key]
}

func isTemplate(object runtime.Object) bool {
	_, ok := object.(*resourcev1.ResourceClaimTemplate)
	return ok
}

// changed applies a new version of a stored object.
func (m *claimController) changed(object kinds.Object) {
	switch o := object.(type) {
	case *resourcev1.ResourceClaim:
		m.setClaim(resourceClaimKey(o), o)
	case *v1.Pod:
		m.setPod(o)
	case *schedulingv1beta1.PodGroup:
		m.setGroup(o)
	}
}

// gone applies the deletion of an object.
func (m *claimController) gone(ref model.Ref) {
	switch ref.Kind {
	case model.ResourceClaimKind:
		m.setClaim(ref.ClaimKey(), nil)
	case model.PodKind:
		key := model.PodKey{Namespace: ref.Namespace, Name: ref.Name}
		if pod := m.pods[key]; pod != nil {
			delete(m.pods, key)
			m.visitUsed(pod.UID)
		}
	case model.PodGroupKind:
		key := model.GroupKey{Namespace: ref.Namespace, Name: ref.Name}
		if group := m.groups[key]; group != nil {
			delete(m.groups, key)
			m.visitUsed(group.UID)
		}
	}
}

// visit plans a reconciliation of an object, unless one is planned already.
func (m *claimController) visit(ref model.Ref) {
	if m.rules.Unattended || m.planned[ref] {
		return
	}
	m.planned[ref] = true
	m.later(func() {
		delete(m.planned, ref)
		switch ref.Kind {
		case model.ResourceClaimKind:
			m.syncClaim(ref.ClaimKey())
		case model.PodGroupKind:
			m.syncGroup(model.GroupKey{Namespace: ref.Namespace, Name: ref.Name})
		default:
			m.syncPod(model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
		}
	})
}

func (m *claimController) later(do func()) {
	m.c.agenda.plan(m.c.now.Add(m.c.chaos.upTo(m.c.chaos.MaxControllerDelay)), 0, do)
}

// setGroup applies a version of a PodGroup. Only PodGroups with claims matter.
func (m *claimController) setGroup(group *schedulingv1beta1.PodGroup) {
	key := model.GroupKey{Namespace: group.Namespace, Name: group.Name}
	if before := m.groups[key]; before != nil && before.UID != group.UID {
		m.visitUsed(before.UID)
	}
	delete(m.groups, key)
	if m.forGroups && len(group.Spec.ResourceClaims) > 0 {
		m.groups[key] = group
		m.visit(key.Ref())
	}
}

// syncGroup makes the next claim that a PodGroup lacks. Once the PodGroup has all of
// them, their names are written to its status, and the members are reconciled.
func (m *claimController) syncGroup(key model.GroupKey) {
	group := m.groups[key]
	if group == nil || group.DeletionTimestamp != nil {
		return
	}
	var statuses []schedulingv1beta1.PodGroupResourceClaimStatus
	for i := range group.Spec.ResourceClaims {
		entry := &group.Spec.ResourceClaims[i]
		if entry.ResourceClaimTemplateName == nil {
			continue
		}
		claim := m.madeFor(group, entry.Name)
		if claim == nil {
			if template := m.templates[model.ClaimKey{Namespace: group.Namespace, Name: *entry.ResourceClaimTemplateName}]; template != nil {
				m.put(m.newClaim(group, schedulingv1beta1.SchemeGroupVersion.WithKind("PodGroup"), entry.Name, template))
				m.c.happened["claim: made for a pod group"]++
			}
			return // the claim triggers the next one, and so does a missing template
		}
		statuses = append(statuses, schedulingv1beta1.PodGroupResourceClaimStatus{Name: entry.Name, ResourceClaimName: new(claim.Name)})
	}
	if !equality.Semantic.DeepEqual(statuses, group.Status.ResourceClaimStatuses) {
		now := group.DeepCopy()
		now.Status.ResourceClaimStatuses = statuses
		_ = m.c.SetObject(now) // cannot fail: scheduling reads this kind
	}
	for _, pod := range slices.SortedFunc(maps.Keys(m.pods), compareKeys) {
		if of := m.pods[pod].Spec.SchedulingGroup; pod.Namespace == key.Namespace && of != nil && of.PodGroupName != nil && *of.PodGroupName == key.Name {
			m.visit(podRef(pod))
		}
	}
}

// groupOf returns the PodGroup that owns the claim of a pod's entry. isGroups is false if
// the claim is the pod's own. The group is nil while the pod's PodGroup does not exist,
// as the owner is unknown until then.
func (m *claimController) groupOf(pod *v1.Pod, entry *v1.PodResourceClaim) (group *schedulingv1beta1.PodGroup, isGroups bool) {
	of := pod.Spec.SchedulingGroup
	if !m.forGroups || of == nil || of.PodGroupName == nil {
		return nil, false
	}
	key := model.GroupKey{Namespace: pod.Namespace, Name: *of.PodGroupName}
	if group = m.groups[key]; group == nil {
		return nil, m.c.Object(key.Ref()) == nil
	}
	consumer, err := resourceclaim.BindTo(pod, group, entry)
	return group, err == nil && consumer.UID == group.UID
}

// put writes a claim.
// cannot fail: scheduling reads this kind
func (m *claimController) put(claim *resourcev1.ResourceClaim) { _ = m.c.SetObject(claim) }

// setClaim applies a version of a claim, or its deletion if now is nil.
func (m *claimController) setClaim(key model.ClaimKey, now *resourcev1.ResourceClaim) {
	if before := m.claims[key]; before != nil {
		for _, uid := range usersOf(before) {
			drop(m.used, uid, key)
		}
		m.visitOwner(before)
	}
	delete(m.claims, key)
	if now == nil {
		return
	}
	m.claims[key] = now
	for _, uid := range usersOf(now) {
		add(m.used, uid, key, true)
	}
	m.visit(key.DeviceRef())
	m.visitOwner(now)
}

// mayHaveClaims reports whether a pod uses claims, or requests resources for which a
// scheduler may create one.
func mayHaveClaims(pod *v1.Pod) bool {
	if len(pod.Spec.ResourceClaims) == 0 && !namesDevices(pod) {
		return false
	}
	asks := model.Asked(pod)
	return len(pod.Spec.ResourceClaims) > 0 ||
		slices.ContainsFunc(asks.Scalars, func(s model.Scalar) bool { return s.Value != 0 && model.CanBeDevices(s.Name) })
}

// namesDevices reports whether any list of requests of a pod has a resource that may be
// provided as devices, whatever its amount.
func namesDevices(pod *v1.Pod) bool {
	has := func(list v1.ResourceList) bool {
		for name := range list {
			if model.NameCanBeDevices(name) {
				return true
			}
		}
		return false
	}
	in := func(c v1.Container) bool { return has(c.Resources.Requests) }
	return has(pod.Spec.Overhead) || pod.Spec.Resources != nil && has(pod.Spec.Resources.Requests) || slices.ContainsFunc(pod.Spec.Containers, in) ||
		slices.ContainsFunc(pod.Spec.InitContainers, in)
}

// setPod applies a version of a pod. Only pods that may have claims matter.
func (m *claimController) setPod(pod *v1.Pod) {
	key := keyOf(pod)
	before := m.pods[key]
	if before != nil && before.UID != pod.UID {
		m.visitUsed(before.UID)
	}
	if !mayHaveClaims(pod) {
		delete(m.pods, key)
		return
	}
	m.pods[key] = pod
	m.visit(podRef(key))
	if isDone(pod) {
		m.visitUsed(pod.UID)
	}
}

// visitUsed plans reconciliations of the claims that a pod had.
func (m *claimController) visitUsed(uid types.UID) {
	for _, key := range slices.SortedFunc(maps.Keys(m.used[uid]), compareClaims) {
		m.visit(key.DeviceRef())
	}
}

// visitOwner plans a reconciliation of the pod that a claim was made for, or of the
// PodGroup.
func (m *claimController) visitOwner(claim *resourcev1.ResourceClaim) {
	if owner := ownerOf(claim); owner != nil && owner.Kind == "PodGroup" {
		if key := (model.GroupKey{Namespace: claim.Namespace, Name: owner.Name}); m.groups[key] != nil {
			m.visit(key.Ref())
		}
		return
	}
	if owner := ownerOf(claim); owner != nil {
		if key := (model.PodKey{Namespace: claim.Namespace, Name: owner.Name}); m.pods[key] != nil {
			m.visit(podRef(key))
		}
	}
}

// syncPod makes the next claim that a pod lacks. Once the pod has all of them, their
// names are written to its status.
func (m *claimController) syncPod(key model.PodKey) {
	pod := m.pods[key]
	if pod == nil || pod.DeletionTimestamp != nil || kinds.Finished(pod) {
		return
	}
	statuses := slices.Clone(pod.Status.ResourceClaimStatuses)
	changed := false
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		at := slices.IndexFunc(statuses, func(s v1.PodResourceClaimStatus) bool { return s.Name == entry.Name })
		if entry.ResourceClaimTemplateName == nil || at >= 0 && (statuses[at].ResourceClaimName == nil || m.isMadeFor(pod, *statuses[at].ResourceClaimName)) {
			continue
		}
		var claim *resourcev1.ResourceClaim
		group, isGroups := m.groupOf(pod, entry)
		switch {
		case !isGroups:
			claim = m.madeFor(pod, entry.Name)
		case group != nil:
			claim = m.madeFor(group, entry.Name)
		}
		if claim == nil && isGroups {
			return // the group's claim triggers the next reconciliation
		}
		if claim == nil {
			if template := m.templates[model.ClaimKey{Namespace: pod.Namespace, Name: *entry.ResourceClaimTemplateName}]; template != nil {
				m.put(m.newClaim(pod, v1.SchemeGroupVersion.WithKind("Pod"), entry.Name, template))
				m.c.happened["claim: made from a template"]++
			}
			return // the claim triggers the next one, and so does a missing template
		}
		status := v1.PodResourceClaimStatus{Name: entry.Name, ResourceClaimName: new(claim.Name)}
		if changed = true; at >= 0 {
			statuses[at] = status
		} else {
			statuses = append(statuses, status)
		}
	}
	if changed {
		now := pod.DeepCopy()
		now.Status.ResourceClaimStatuses = statuses
		m.c.SetPod(now)
	}
}

func (m *claimController) isMadeFor(pod *v1.Pod, name string) bool {
	claim := m.claims[model.ClaimKey{Namespace: pod.Namespace, Name: name}]
	return claim != nil && resourceclaim.IsForPod(pod, claim, m.forGroups) == nil
}

// madeFor returns the claim that was made for an entry of a pod or a PodGroup, or nil.
func (m *claimController) madeFor(owner metav1.Object, entry string) *resourcev1.ResourceClaim {
	for _, key := range slices.SortedFunc(maps.Keys(m.used[owner.GetUID()]), compareClaims) {
		if claim := m.claims[key]; metav1.IsControlledBy(claim, owner) && claim.Annotations[resourcev1.PodResourceClaimAnnotation] == entry {
			return claim
		}
	}
	return nil
}

// newClaim makes a claim from a template. Its name is the pod's and the entry's; a number
// is added if the name is taken, as by a former pod's claim.
func (m *claimController) newClaim(owner metav1.Object, kind schema.GroupVersionKind, entry string, template *resourcev1.ResourceClaimTemplate) *resourcev1.ResourceClaim {
	name := owner.GetName() + "-" + entry
	for n := 2; m.claims[model.ClaimKey{Namespace: owner.GetNamespace(), Name: name}] != nil; n++ {
		name = fmt.Sprint(owner.GetName(), "-", entry, "-", n)
	}
	claim := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: owner.GetNamespace(), Name: name, Labels: template.Spec.Labels, Annotations: maps.Clone(template.Spec.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, kind)},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, resourcev1.PodResourceClaimAnnotation, entry)
	return claim
}

// syncClaim removes the reservations of finished pods. A claim that loses its last
// reservation also loses its allocation and its finalizer. A claim that was made for a
// finished pod is deleted.
func (m *claimController) syncClaim(key model.ClaimKey) {
	claim := m.claims[key]
	if claim == nil {
		return
	}
	protected := slices.Contains(claim.Finalizers, resourcev1.Finalizer)
	valid := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourcev1.ResourceClaimConsumerReference) bool {
		switch {
		case r.APIGroup == "" && r.Resource == "pods":
			return m.isPodDone(key.Namespace, r.Name, r.UID)
		case r.APIGroup == schedulingv1beta1.GroupName && r.Resource == "podgroups":
			return m.isGroupGone(key.Namespace, r.Name, r.UID)
		}
		return false
	})
	switch {
	case len(valid) < len(claim.Status.ReservedFor):
		now := claim.DeepCopy()
		if now.Status.ReservedFor = valid; len(valid) == 0 && protected {
			now.Status = resourcev1.ResourceClaimStatus{}
			m.c.happened["claim: deallocated"]++
		}
		m.put(now)
		if len(valid) == 0 && protected {
			m.unprotect(key)
		}
	case protected && claim.DeletionTimestamp != nil && len(valid) == 0 && claim.Status.Allocation != nil:
		now := claim.DeepCopy()
		now.Status = resourcev1.ResourceClaimStatus{}
		m.put(now)
		m.c.happened["claim: deallocated"]++
	case protected && claim.DeletionTimestamp != nil && len(valid) == 0:
		m.put(withoutFinalizer(claim))
	case len(valid) == 0 && claim.DeletionTimestamp == nil && m.isForNobody(claim):
		m.c.DeleteObject(key.DeviceRef())
		m.c.happened["claim: deleted"]++
	case m.rules.Prepared && prepared(claim) != nil:
		version := claim.ResourceVersion
		m.c.agenda.plan(m.c.now.Add(PreparationTime), 0, func() {
			// another version is reconciled separately
			if claim := m.claims[key]; claim != nil && claim.ResourceVersion == version {
				m.put(prepared(claim))
			}
		})
	}
}

// prepared returns a claim whose devices meet all binding conditions, or nil if nothing
// changes.
func prepared(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	if claim.Status.Allocation == nil || len(claim.Status.Devices) > 0 {
		return nil
	}
	now := claim.DeepCopy()
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		device := resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device, ShareID: (*string)(r.ShareID)}
		for _, kind := range r.BindingConditions {
			device.Conditions = append(device.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Prepared"})
		}
		if len(device.Conditions) > 0 {
			now.Status.Devices = append(now.Status.Devices, device)
		}
	}
	if len(now.Status.Devices) == 0 {
		return nil
	}
	return now
}

// unprotect plans to remove the finalizer of a claim that has just been deallocated. If
// another write comes first, the finalizer stays: it may belong to a scheduler that is
// about to allocate.
func (m *claimController) unprotect(key model.ClaimKey) {
	version := m.claims[key].ResourceVersion
	m.later(func() {
		if claim := m.claims[key]; claim != nil && claim.ResourceVersion == version {
			m.put(withoutFinalizer(claim))
		}
	})
}

func withoutFinalizer(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
	now := claim.DeepCopy()
	now.Finalizers = slices.DeleteFunc(now.Finalizers, func(f string) bool { return f == resourcev1.Finalizer })
	return now
}

// isForNobody reports whether a claim was made for a finished pod or a deleted PodGroup.
func (m *claimController) isForNobody(claim *resourcev1.ResourceClaim) bool {
	owner := ownerOf(claim)
	if owner != nil && owner.Kind == "PodGroup" {
		return m.isGroupGone(claim.Namespace, owner.Name, owner.UID)
	}
	return owner != nil && m.isPodDone(claim.Namespace, owner.Name, owner.UID)
}

// isPodDone reports whether a pod does not run and will never run.
func (m *claimController) isPodDone(namespace, name string, uid types.UID) bool {
	pod := m.c.store.pods[model.PodKey{Namespace: namespace, Name: name}]
	return pod == nil || pod.UID != uid || isDone(pod)
}

// isGroupGone reports whether a PodGroup is gone.
func (m *claimController) isGroupGone(namespace, name string, uid types.UID) bool {
	group := m.c.Object(model.GroupKey{Namespace: namespace, Name: name}.Ref())
	return group == nil || group.GetUID() != uid
}

func isDone(pod *v1.Pod) bool {
	return kinds.Finished(pod) || pod.DeletionTimestamp != nil && pod.Spec.NodeName == ""
}

// ownerOf returns the pod or PodGroup that a claim was made for, or nil.
func ownerOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	if owner := metav1.GetControllerOf(claim); owner != nil && (owner.Kind == "Pod" || owner.Kind == "PodGroup") {
		return owner
	}
	return nil
}

// usersOf returns the UIDs of the claim's owner and of the pods and PodGroups that
// reserved it.
func usersOf(claim *resourcev1.ResourceClaim) (uids []types.UID) {
	if owner := ownerOf(claim); owner != nil {
		uids = append(uids, owner.UID)
	}
	for _, r := range claim.Status.ReservedFor {
		uids = append(uids, r.UID)
	}
	slices.SortFunc(uids, cmp.Compare)
	return slices.Compact(uids)
}

func resourceClaimKey(claim *resourcev1.ResourceClaim) model.ClaimKey {
	return model.ClaimKey{Namespace: claim.Namespace, Name: claim.Name}
}
