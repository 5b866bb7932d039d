package simulate

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/model"
)

// noProvisioner is the provisioner of classes whose volumes are created by hand.
const noProvisioner = "kubernetes.io/no-provisioner"

const (
	// hangs is how long a hanging provisioner takes: longer than the scheduler waits by
	// default.
	hangs = 15 * time.Minute
	// provisionRetry is the time until a provisioner retries for a claim that waits for
	// no pod.
	provisionRetry = 15 * time.Second
)

// provision starts to provision a volume for a claim if its class has a provisioner and,
// with delayed binding, a node is selected.
func (v *volumeController) provision(claim *v1.PersistentVolumeClaim) {
	class := v.classes[volume.GetPersistentVolumeClaimClass(claim)]
	node, key := claim.Annotations[volume.AnnSelectedNode], claimKeyOf(claim)
	if class == nil || class.Provisioner == "" || class.Provisioner == noProvisioner || v.waits(claim) && node == "" || v.provisioning[key] == claim.UID {
		return
	}
	uid, fault, takes := claim.UID, v.c.chaos.volumeFault(beginsProvisioning), v.rules.ProvisionTime
	if order := v.c.chaos.provisions[key]; order != nil {
		takes += order.delay
	}
	if fault == ProvisionHangs {
		v.c.happened["volume: provisioner hangs"]++
		takes += hangs
	}
	v.provisioning[key] = uid
	v.c.agenda.plan(v.c.now.Add(takes), 0, func() { v.provisioned(key, uid, node, fault == ProvisionFails || v.c.chaos.provisionFails(key)) })
}

// provisioned ends the work of provision.
func (v *volumeController) provisioned(key model.ClaimKey, uid types.UID, nodeName string, fails bool) {
	if v.provisioning[key] == uid {
		delete(v.provisioning, key)
	}
	claim := v.claims[key]
	if claim == nil || claim.UID != uid || isBound(claim) {
		return
	}
	if claim.Spec.VolumeName != "" || claim.Annotations[volume.AnnSelectedNode] != nodeName {
		v.visit(key.Ref()) // the claim has changed meanwhile
		return
	}
	class, node := v.classes[volume.GetPersistentVolumeClaimClass(claim)], v.c.store.nodes[nodeName]
	if nodeName != "" && node == nil {
		v.c.happened["volume: provisioner gone with its node"]++
		add(v.left, nodeName, key, true) // the claim stays as it is
		return
	}
	var room *storagev1.CSIStorageCapacity
	if fails = fails || class == nil; !fails && node != nil && v.publishesCapacity(class) {
		room = v.room(class, node, claim)
		fails = room == nil
	}
	if fails {
		v.c.happened["volume: provisioning failed"]++
		v.handBack(claim)
		return
	}
	pv := v.newVolume(claim, class, node)
	if room != nil {
		v.draw(pv, room)
	}
	v.c.happened["volume: provisioned"]++
	v.put(pv)
}

// handBack leaves it to the scheduler to select another node. If the claim waits for no
// pod, the provisioner retries instead.
func (v *volumeController) handBack(claim *v1.PersistentVolumeClaim) {
	if _, selected := claim.Annotations[volume.AnnSelectedNode]; !selected {
		v.c.agenda.plan(v.c.now.Add(provisionRetry), 0, func() { v.visit(claimKeyOf(claim).Ref()) })
		return
	}
	now := claim.DeepCopy()
	delete(now.Annotations, volume.AnnSelectedNode)
	v.put(now)
	v.c.happened["claim: handed back"]++
}

// newVolume makes the volume of a claim. If the claim was for a node, the volume can be
// used only within reach of the node.
func (v *volumeController) newVolume(claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, node *v1.Node) *v1.PersistentVolume {
	driver, _ := model.DriverOf(class.Provisioner)
	name := "pvc-" + string(claim.UID)
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{volume.AnnDynamicallyProvisioned: class.Provisioner}},
		Spec: v1.PersistentVolumeSpec{
			Capacity:               v1.ResourceList{v1.ResourceStorage: claim.Spec.Resources.Requests[v1.ResourceStorage]},
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}},
			AccessModes:            claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode, StorageClassName: class.Name,
			VolumeAttributesClassName:     claim.Spec.VolumeAttributesClassName,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete,
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion,
			},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumePending},
	}
	if class.ReclaimPolicy != nil {
		pv.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	if node != nil {
		pv.Spec.NodeAffinity = v.reach(node, driver)
	}
	return pv
}

// reach returns where a driver's volume for a node can be used: by the topology keys in
// the node's CSINode, else in the node's zone, else on the node alone. It is nil for a
// node without any of these labels.
func (v *volumeController) reach(node *v1.Node, driver string) *v1.VolumeNodeAffinity {
	keys := []string{v1.LabelTopologyZone}
	if _, zoned := node.Labels[v1.LabelTopologyZone]; !zoned {
		keys = []string{v1.LabelHostname}
	}
	if csi, ok := v.c.store.others[model.Ref{Kind: model.CSINodeKind, Name: node.Name}].(*storagev1.CSINode); ok {
		for i := range csi.Spec.Drivers {
			if d := &csi.Spec.Drivers[i]; d.Name == driver && len(d.TopologyKeys) > 0 {
				keys = d.TopologyKeys
			}
		}
	}
	var term v1.NodeSelectorTerm
	for _, key := range keys {
		if value, ok := node.Labels[key]; ok {
			term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}})
		}
	}
	if term.MatchExpressions == nil {
		return nil
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
}

func (v *volumeController) publishesCapacity(class *storagev1.StorageClass) bool {
	driver, ok := v.c.store.others[model.Ref{Kind: model.CSIDriverKind, Name: class.Provisioner}].(*storagev1.CSIDriver)
	return ok && driver.Spec.StorageCapacity != nil && *driver.Spec.StorageCapacity
}

// room returns the capacity that a volume can be drawn from, the first by name, or nil.
// It applies the scheduler's rules, so that a claim does not go back and forth between
// the two.
func (v *volumeController) room(class *storagev1.StorageClass, node *v1.Node, claim *v1.PersistentVolumeClaim) *storagev1.CSIStorageCapacity {
	all := v.capacities[class.Name]
	for _, ref := range slices.SortedFunc(maps.Keys(all), compareRefs) {
		c := all[ref]
		limit := c.Capacity
		if c.MaximumVolumeSize != nil {
			limit = c.MaximumVolumeSize
		}
		selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
		if request := claim.Spec.Resources.Requests[v1.ResourceStorage]; err == nil && limit != nil && limit.Cmp(request) >= 0 && selector.Matches(labels.Set(node.Labels)) {
			return c
		}
	}
	return nil
}

// drawing records the source of a provisioned volume: a capacity, and its maximum volume
// size at that time, or nil.
type drawing struct {
	from    model.Ref
	size    resource.Quantity
	maximum *resource.Quantity
}

// draw subtracts the storage of a volume from a capacity. The maximum volume size becomes
// at most the rest.
func (v *volumeController) draw(pv *v1.PersistentVolume, from *storagev1.CSIStorageCapacity) {
	size := pv.Spec.Capacity[v1.ResourceStorage]
	v.drawn[pv.Name] = drawing{refOf(from), size, from.MaximumVolumeSize}
	if from.Capacity == nil {
		return
	}
	now := from.DeepCopy()
	if now.Capacity.Sub(size); now.Capacity.Sign() < 0 {
		now.Capacity = resource.NewQuantity(0, resource.BinarySI)
	}
	now.MaximumVolumeSize = smaller(now.MaximumVolumeSize, now.Capacity)
	v.put(now)
}

// giveBack returns the storage of a deleted volume to its capacity.
func (v *volumeController) giveBack(name string) {
	drawn, ok := v.drawn[name]
	delete(v.drawn, name)
	capacity, _ := v.c.store.others[drawn.from].(*storagev1.CSIStorageCapacity)
	if !ok || capacity == nil || capacity.Capacity == nil {
		return
	}
	now := capacity.DeepCopy()
	now.Capacity.Add(drawn.size)
	if most := smaller(drawn.maximum, now.Capacity); most != nil && now.MaximumVolumeSize != nil && most.Cmp(*now.MaximumVolumeSize) > 0 {
		now.MaximumVolumeSize = most
	}
	v.put(now)
}

// smaller returns the smaller of amount and limit; a nil amount stays nil.
func smaller(amount, limit *resource.Quantity) *resource.Quantity {
	if amount == nil || amount.Cmp(*limit) <= 0 {
		return amount
	}
	small := limit.DeepCopy()
	return &small
}
