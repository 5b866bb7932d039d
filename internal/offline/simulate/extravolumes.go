package simulate

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

const (
	volumeDriver = "volume.example"
	localClass   = "local"
	// maxAttach is the number of volumes that a node can attach.
	maxAttach = 64
	// volumeMaxGi is the size of the largest generated volume.
	volumeMaxGi = 8
)

func claimName(i int) string { return fmt.Sprintf("data-%07d", i) }

// provisionedClasses are the classes with WaitForFirstConsumer and a provisioner.
func provisionedClasses() []string { return []string{"fast", "standard"} }

// addVolumes adds the claims and their surroundings. Even claims wait for their pod and
// are provisioned. Odd claims are bound to local volumes, which are on the nodes in turn.
func (s Size) addVolumes(c *manifest.Cluster) {
	if s.Volumes == 0 {
		return
	}
	random := s.random(volumeStream)
	s.addClasses(c, random.IntN(s.usedZones()))
	first := random.IntN(s.Nodes)
	for i := range s.Volumes {
		claim := newGeneratedClaim(i, 1+random.Int64N(volumeMaxGi))
		if i%2 == 1 {
			c.PersistentVolumes = append(c.PersistentVolumes, bindLocal(claim, nodeName((first+i/2)%s.Nodes)))
		} else {
			class := provisionedClasses()[i/2%2]
			claim.Spec.StorageClassName = &class
		}
		c.PersistentVolumeClaims = append(c.PersistentVolumeClaims, claim)
	}
}

// usedZones returns the number of zones that have nodes.
func (s Size) usedZones() int { return min(s.Zones, s.Nodes) }

// addClasses adds the StorageClasses, and a driver that provisions in zones. Its capacity
// suffices for all claims in each zone. But one class lacks capacity in one zone, unless
// the cluster has no other.
func (s Size) addClasses(c *manifest.Cluster, empty int) {
	mode, yes, attach := storagev1.VolumeBindingWaitForFirstConsumer, true, int32(maxAttach)
	addClass := func(name, provisioner string) {
		class := &storagev1.StorageClass{ObjectMeta: generated(name), Provisioner: provisioner, VolumeBindingMode: &mode}
		c.StorageClasses = append(c.StorageClasses, class)
	}
	addClass(localClass, noProvisioner)
	driver := &storagev1.CSIDriver{ObjectMeta: generated(volumeDriver)}
	driver.Spec.StorageCapacity = &yes
	c.CSIDrivers = append(c.CSIDrivers, driver)
	for i := range s.Nodes {
		node := &storagev1.CSINode{ObjectMeta: generated(nodeName(i))}
		node.Spec.Drivers = []storagev1.CSINodeDriver{{
			Name: volumeDriver, NodeID: node.Name, TopologyKeys: []string{v1.LabelTopologyZone},
			Allocatable: &storagev1.VolumeNodeResources{Count: &attach},
		}}
		c.CSINodes = append(c.CSINodes, node)
	}
	for i, class := range provisionedClasses() {
		addClass(class, volumeDriver)
		for zone := range s.Zones {
			capacity := resource.NewQuantity(int64(s.Volumes)*volumeMaxGi<<30, resource.BinarySI)
			if i == 0 && zone == empty && s.usedZones() > 1 {
				capacity = resource.NewQuantity(0, resource.BinarySI)
			}
			c.CSIStorageCapacities = append(c.CSIStorageCapacities, &storagev1.CSIStorageCapacity{
				ObjectMeta:       generatedInDefault(fmt.Sprintf("%s-%d", class, zone)),
				StorageClassName: class, Capacity: capacity,
				NodeTopology: &metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zoneName(zone)}},
			})
		}
	}
}

func newGeneratedClaim(i int, sizeGi int64) *v1.PersistentVolumeClaim {
	size := v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(sizeGi<<30, resource.BinarySI)}
	return &v1.PersistentVolumeClaim{
		ObjectMeta: generatedInDefault(claimName(i)),
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: size},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
}

// bindLocal binds a claim to a new local volume of a node, and returns the volume.
func bindLocal(claim *v1.PersistentVolumeClaim, node string) *v1.PersistentVolume {
	class, name := localClass, "local-"+claim.Name
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &class, name
	claim.Status.Phase = v1.ClaimBound
	claim.Annotations = map[string]string{volume.AnnBindCompleted: "yes"}
	return &v1.PersistentVolume{
		ObjectMeta: generated(name),
		Spec: v1.PersistentVolumeSpec{
			Capacity: claim.Spec.Resources.Requests, AccessModes: claim.Spec.AccessModes, StorageClassName: class,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disks/" + name}},
			ClaimRef: &v1.ObjectReference{
				Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{
					Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node},
				}},
			}}}},
		},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
	}
}
