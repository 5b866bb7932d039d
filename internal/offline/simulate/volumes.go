package simulate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// Volumes configures the binding and provisioning of PersistentVolumes.
type Volumes struct {
	// Unattended switches off the controller: no claims are bound, no volumes
	// provisioned, no claims of ephemeral volumes created. Storage objects stay as they
	// are written.
	Unattended bool
	// ProvisionTime is the time to provision a volume; 0 means DefaultProvisionTime.
	ProvisionTime time.Duration
}

// DefaultProvisionTime is the default time to provision a volume.
const DefaultProvisionTime = time.Second

// volumeController plays kube-controller-manager and an external provisioner for every
// StorageClass that names one. As the former it binds claims to PersistentVolumes and
// creates the claims of ephemeral volumes. It costs nothing in a cluster without storage
// objects.
//
// It reads the stored objects, not the watches, and writes them through the store, so
// that watches show each of its writes. A reconciliation of an object makes at most one
// write, and that change triggers the next one. So the scheduler meets half-done
// bindings, as in a real cluster.
type volumeController struct {
	c     *Cluster
	rules Volumes

	// Invariant: these hold the stored objects, in their newest versions.
	claims     map[model.ClaimKey]*v1.PersistentVolumeClaim
	volumes    map[string]*v1.PersistentVolume
	classes    map[string]*storagev1.StorageClass
	capacities map[string]map[model.Ref]*storagev1.CSIStorageCapacity // by class
	// pods are the pods with ephemeral volumes.
	pods map[model.PodKey]*v1.Pod

	// named are the volumes that name a claim, askers the claims that name a volume.
	named  map[model.ClaimKey]map[string]bool
	askers map[string]map[model.ClaimKey]bool
	// free are the available volumes that name no claim, by class, sorted by size and
	// then by name.
	free map[string][]*v1.PersistentVolume
	// unmatched are the claims, by class, for which any free volume is allowed but none
	// matched.
	unmatched map[string]map[model.ClaimKey]bool

	planned      map[model.Ref]bool // reconciliations
	provisioning map[model.ClaimKey]types.UID
	drawn        map[string]drawing // by provisioned volume
	// left are the claims that a provisioner abandoned when its node was deleted, by
	// node.
	left map[string]map[model.ClaimKey]bool
}

func newVolumeController(c *Cluster, rules Volumes) *volumeController {
	rules.ProvisionTime = cmp.Or(rules.ProvisionTime, DefaultProvisionTime)
	return &volumeController{
		c: c, rules: rules,
		claims: map[model.ClaimKey]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{}, classes: map[string]*storagev1.StorageClass{},
		capacities: map[string]map[model.Ref]*storagev1.CSIStorageCapacity{}, pods: map[model.PodKey]*v1.Pod{},
		named: map[model.ClaimKey]map[string]bool{}, askers: map[string]map[model.ClaimKey]bool{}, free: map[string][]*v1.PersistentVolume{},
		unmatched: map[string]map[model.ClaimKey]bool{}, planned: map[model.Ref]bool{}, provisioning: map[model.ClaimKey]types.UID{},
		drawn: map[string]drawing{}, left: map[string]map[model.ClaimKey]bool{},
	}
}

// changed applies a new version of a stored object.
func (v *volumeController) changed(object kinds.Object) {
	if v.rules.Unattended {
		return
	}
	switch o := object.(type) {
	case *v1.PersistentVolumeClaim:
		v.setClaim(claimKeyOf(o), o)
	case *v1.PersistentVolume:
		v.setVolume(o.Name, o)
	case *storagev1.StorageClass:
		v.classes[o.Name] = o
		v.visitUnmatched(o.Name)
	case *storagev1.CSIStorageCapacity:
		v.dropCapacity(refOf(o))
		add(v.capacities, o.StorageClassName, refOf(o), o)
	case *v1.Pod:
		v.setPod(o)
	case *v1.Node: // a provisioner that starts checks all claims
		for _, key := range slices.SortedFunc(maps.Keys(v.left[o.Name]), model.ClaimKey.Compare) {
			v.visit(key.Ref())
		}
		delete(v.left, o.Name)
	}
}

// gone applies the deletion of an object.
func (v *volumeController) gone(ref model.Ref) {
	if v.rules.Unattended {
		return
	}
	switch ref.Kind {
	case model.PersistentVolumeClaimKind:
		v.setClaim(ref.ClaimKey(), nil)
	case model.PersistentVolumeKind:
		v.setVolume(ref.Name, nil)
	case model.StorageClassKind:
		delete(v.classes, ref.Name)
	case model.CSIStorageCapacityKind:
		v.dropCapacity(ref)
	case model.PodKind:
		v.podGone(model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
	}
}

// visit plans a reconciliation of an object, unless one is planned already.
func (v *volumeController) visit(ref model.Ref) {
	if v.planned[ref] {
		return
	}
	v.planned[ref] = true
	v.c.agenda.plan(v.c.now.Add(v.c.chaos.upTo(v.c.chaos.MaxControllerDelay)), 0, func() {
		delete(v.planned, ref)
		switch ref.Kind {
		case model.PersistentVolumeClaimKind:
			v.syncClaim(ref.ClaimKey())
		case model.PersistentVolumeKind:
			v.syncVolume(ref.Name)
		case model.PodKind:
			v.syncPod(model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
		}
	})
}

// put writes an object.
// cannot fail: scheduling reads this kind
func (v *volumeController) put(object kinds.Object) { _ = v.c.SetObject(object) }

// setClaim applies a version of a claim, or its deletion if now is nil.
func (v *volumeController) setClaim(key model.ClaimKey, now *v1.PersistentVolumeClaim) {
	if before := v.claims[key]; before != nil {
		drop(v.askers, before.Spec.VolumeName, key)
		drop(v.unmatched, volume.GetPersistentVolumeClaimClass(before), key)
		v.visitVolume(before.Spec.VolumeName)
		v.visitOwner(before)
	}
	delete(v.claims, key)
	if now != nil {
		v.claims[key] = now
		if now.Spec.VolumeName != "" {
			add(v.askers, now.Spec.VolumeName, key, true)
			v.visitVolume(now.Spec.VolumeName)
		}
		v.visit(key.Ref())
		v.visitOwner(now)
	}
	for _, name := range slices.Sorted(maps.Keys(v.named[key])) {
		v.visitVolume(name)
	}
}

func (v *volumeController) visitVolume(name string) {
	if v.volumes[name] != nil {
		v.visit(model.VolumeRef(name))
	}
}

// setVolume applies a version of a volume, or its deletion if now is nil.
func (v *volumeController) setVolume(name string, now *v1.PersistentVolume) {
	if before := v.volumes[name]; before != nil {
		v.unlist(before)
		if key, ok := namedBy(before); ok {
			drop(v.named, key, name)
		}
	}
	delete(v.volumes, name)
	for _, key := range slices.SortedFunc(maps.Keys(v.askers[name]), compareClaims) {
		if now == nil {
			v.lose(key)
		} else {
			v.visit(key.Ref())
		}
	}
	if now == nil {
		v.giveBack(name)
		return
	}
	v.volumes[name] = now
	v.visit(model.VolumeRef(name))
	if key, ok := namedBy(now); ok {
		add(v.named, key, name, true)
		if v.claims[key] != nil {
			v.visit(key.Ref())
		}
	}
	v.list(now)
}

// list adds a volume to the free ones if it is free.
func (v *volumeController) list(pv *v1.PersistentVolume) {
	if !isFree(pv) {
		return
	}
	class := volume.GetPersistentVolumeClass(pv)
	at, _ := slices.BinarySearchFunc(v.free[class], pv, compareVolumes)
	v.free[class] = slices.Insert(v.free[class], at, pv)
	v.visitUnmatched(class)
}

func (v *volumeController) unlist(pv *v1.PersistentVolume) {
	class := volume.GetPersistentVolumeClass(pv)
	if at, ok := slices.BinarySearchFunc(v.free[class], pv, compareVolumes); ok && isFree(pv) {
		if v.free[class] = slices.Delete(v.free[class], at, at+1); len(v.free[class]) == 0 {
			delete(v.free, class)
		}
	}
}

func (v *volumeController) visitUnmatched(class string) {
	for _, key := range slices.SortedFunc(maps.Keys(v.unmatched[class]), compareClaims) {
		v.visit(key.Ref())
	}
}

func (v *volumeController) dropCapacity(ref model.Ref) {
	for class, all := range v.capacities {
		if all[ref] != nil {
			drop(v.capacities, class, ref)
		}
	}
}

func isFree(pv *v1.PersistentVolume) bool {
	return pv.Spec.ClaimRef == nil && pv.Status.Phase == v1.VolumeAvailable && pv.DeletionTimestamp == nil
}

// isBound reports whether a claim is bound. Phases do not count.
func isBound(claim *v1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[volume.AnnBindCompleted]
	return claim.Spec.VolumeName != "" && completed
}

func namedBy(pv *v1.PersistentVolume) (key model.ClaimKey, ok bool) {
	if ref := pv.Spec.ClaimRef; ref != nil {
		return model.ClaimKey{Namespace: ref.Namespace, Name: ref.Name}, true
	}
	return key, false
}

func claimKeyOf(claim *v1.PersistentVolumeClaim) model.ClaimKey {
	return model.ClaimKey{Namespace: claim.Namespace, Name: claim.Name}
}

func refOf(object kinds.Object) model.Ref { return kinds.Of(object).Ref(object) }

func compareVolumes(a, b *v1.PersistentVolume) int {
	small, large := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
	return cmp.Or(small.Cmp(large), strings.Compare(a.Name, b.Name))
}

func compareClaims(a, b model.ClaimKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// add puts a value into a map of maps.
func add[K1, K2 comparable, V any](to map[K1]map[K2]V, outer K1, inner K2, value V) {
	if to[outer] == nil {
		to[outer] = map[K2]V{}
	}
	to[outer][inner] = value
}

// drop takes a value out of a map of maps.
func drop[K1, K2 comparable, V any](from map[K1]map[K2]V, outer K1, inner K2) {
	if delete(from[outer], inner); len(from[outer]) == 0 {
		delete(from, outer)
	}
}
