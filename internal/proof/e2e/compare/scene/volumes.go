package scene

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The driver of volumes, and the limit of volumes on scheduler_perf's nodes.
const (
	ebsDriver   = "ebs.csi.aws.com"
	ebsInTree   = "kubernetes.io/aws-ebs"
	ebsPerNode  = 39
	localClass  = "local"
	claimPrefix = "pvc"
)

// inTreeDisk and csiDisk are the sources of volumes in scheduler_perf, by index and name
// of the volume.
func inTreeDisk(i int, _ string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: fmt.Sprint("vol-", i)}}
}

func csiDisk(_ int, name string) v1.PersistentVolumeSource {
	return v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: ebsDriver, VolumeHandle: name}}
}

// withVolumes builds a workload whose existing and measured pods have a bound volume
// each. If limited, nodes have a limit of attached volumes, and the CSI drivers handle
// the migrated kinds of in-tree volumes.
func withVolumes(source func(i int, name string) v1.PersistentVolumeSource, limited bool, migrated ...string) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		if limited {
			s.Site.Node = attaching
			s.Site.CSINode = func(i int) *storagev1.CSINode { return csiNode(numbered("node", i), migrated) }
		}
		pod := func(i int) *v1.Pod { return withClaim(defaultPod(i), numbered(claimPrefix, i)) }
		s.Measured.Pod, s.Measured.Disk = pod, boundDisk(measured, source)
		running := standing(c, 1, pod)
		running.Disk = boundDisk(before, source)
		s.Standing = []Pods{running}
		// all claims are bound from the start, to volumes that any node can use
		s.Answer = inTurns(c.nodes)
	}
}

// attaching returns a default node whose resources include its limit of attached volumes,
// as kubelets used to report.
func attaching(i int) *v1.Node {
	n := plainNode(i)
	name := v1.ResourceName("attachable-volumes-csi-" + ebsDriver)
	for _, list := range []v1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		list[name] = *resource.NewQuantity(ebsPerNode, resource.DecimalSI)
	}
	return n
}

func csiNode(name string, migrated []string) *storagev1.CSINode {
	count := int32(ebsPerNode)
	n := &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: ebsDriver, NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}
	if len(migrated) > 0 {
		n.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: strings.Join(migrated, ",")}
	}
	return n
}

func withClaim(p *v1.Pod, claim string) *v1.Pod {
	p.Spec.Volumes = []v1.Volume{{Name: "vol", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return p
}

// boundDisk makes claims and volumes that are bound to each other from the start, because
// no controller binds them.
func boundDisk(namespace string, source func(i int, name string) v1.PersistentVolumeSource) func(i int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
	return func(i int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		claim, volume := numbered(claimPrefix, i), numbered(namespace+"-vol", i)
		return &v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "true"}},
				Spec:       v1.PersistentVolumeClaimSpec{AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size}, VolumeName: volume},
				Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
			}, &v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: volume},
				Spec: v1.PersistentVolumeSpec{
					AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
					PersistentVolumeSource: source(i, volume),
					ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: claim},
				},
				Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound},
			}
	}
}

// local has one free volume on each node, and one pod for each volume. The scheduler
// chooses a volume with the node and writes it. The controller manager confirms that
// claim by claim, and only then may the pod be bound. All pods are pending at the start,
// so that the binder shows the pace of the controller manager.
func local(s *Scene, c counts) {
	s.Kind = Shape
	s.Site.Controllers = true
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	s.Site.Classes = []*storagev1.StorageClass{{
		ObjectMeta: metav1.ObjectMeta{Name: localClass}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode,
	}}
	class, size := localClass, v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	s.Measured.Count = c.nodes
	s.Measured.Pod = func(i int) *v1.Pod { return withClaim(defaultPod(i), numbered(claimPrefix, i)) }
	s.Measured.Disk = func(i int) (*v1.PersistentVolumeClaim, *v1.PersistentVolume) {
		return &v1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: measured, Name: numbered(claimPrefix, i)},
				Spec:       v1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size}},
			}, &v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: numbered("local", i)},
				Spec: v1.PersistentVolumeSpec{
					StorageClassName: localClass, AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
					PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/disk"}},
					NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
						MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{numbered("node", i)}}},
					}}}},
				},
				Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
			}
	}
}
