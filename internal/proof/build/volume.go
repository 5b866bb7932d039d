package build

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	bindCompleted = "pv.kubernetes.io/bind-completed"
	selectedNode  = "volume.kubernetes.io/selected-node"
)

// VolumeOption changes a new PersistentVolume.
type VolumeOption func(*v1.PersistentVolume)

// PersistentVolume makes a volume that is Available for ReadWriteOnce by default. Its
// words are:
//
//	storage=10Gi class=fast attributes=gold mode=Block phase=Bound
//	modes=RWO,ROX,RWX,RWOP
//	claim=ns/c             its claim, without UID; claim=ns/c/<uid> with it
//	csi=driver/handle      its source; others: nfs, ebs=<volume ID>, pd=<disk>,
//	                       vsphere=<path>
func PersistentVolume(name, text string, options ...VolumeOption) *v1.PersistentVolume {
	v := &v1.PersistentVolume{ObjectMeta: storageMeta("", name), Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable}}
	v.Spec.AccessModes = accessModes("RWO")
	read(&v.ObjectMeta, text, words{
		"storage":    func(value string) { v.Spec.Capacity = Resources("storage=" + value) },
		"class":      func(value string) { v.Spec.StorageClassName = value },
		"attributes": func(value string) { v.Spec.VolumeAttributesClassName = &value },
		"mode":       func(value string) { v.Spec.VolumeMode = (*v1.PersistentVolumeMode)(&value) },
		"modes":      func(value string) { v.Spec.AccessModes = accessModes(value) },
		"phase":      func(value string) { v.Status.Phase = v1.PersistentVolumePhase(value) },
		"claim":      func(value string) { v.Spec.ClaimRef = claimRef(value) },
		"csi": func(value string) {
			driver, handle, _ := strings.Cut(value, "/")
			v.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
		},
		"nfs": func(string) { v.Spec.NFS = &v1.NFSVolumeSource{Server: "s", Path: "/"} },
		"ebs": func(value string) {
			v.Spec.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: value}
		},
		"pd":      func(value string) { v.Spec.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: value} },
		"vsphere": func(value string) { v.Spec.VsphereVolume = &v1.VsphereVirtualDiskVolumeSource{VolumePath: value} },
	})
	for _, option := range options {
		option(v)
	}
	return v
}

// VolumeAffinity restricts a volume to nodes that match one of the terms, each as in
// [Requirements]. "" is a term without requirements.
func VolumeAffinity(terms ...string) VolumeOption {
	return func(v *v1.PersistentVolume) {
		required := &v1.NodeSelector{}
		for _, text := range terms {
			var term v1.NodeSelectorTerm
			if text != "" {
				term.MatchExpressions = Requirements(text)
			}
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
		}
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: required}
	}
}

// ClaimOption changes a new PersistentVolumeClaim.
type ClaimOption func(*v1.PersistentVolumeClaim)

// PersistentVolumeClaim makes an unbound claim for ReadWriteOnce in the namespace
// default. Its words are:
//
//	namespace=ns storage=5Gi class=fast attributes=gold mode=Block modes=RWOP phase=Lost
//	bound=v1               it is bound to the volume v1: volume name, annotation, phase
//	volume=v1              its volume name alone
//	node=n1                the annotation volume.kubernetes.io/selected-node
//	owner=p                the pod with that name and UID is its controller
//
// Without the word class it has no class; "class=" is the empty class.
func PersistentVolumeClaim(name, text string, options ...ClaimOption) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: storageMeta(metav1.NamespaceDefault, name)}
	c.Spec.AccessModes, c.Status.Phase = accessModes("RWO"), v1.ClaimPending
	read(&c.ObjectMeta, text, words{
		"namespace":  func(value string) { c.Namespace = value },
		"storage":    func(value string) { c.Spec.Resources.Requests = Resources("storage=" + value) },
		"class":      func(value string) { c.Spec.StorageClassName = &value },
		"attributes": func(value string) { c.Spec.VolumeAttributesClassName = &value },
		"mode":       func(value string) { c.Spec.VolumeMode = (*v1.PersistentVolumeMode)(&value) },
		"modes":      func(value string) { c.Spec.AccessModes = accessModes(value) },
		"phase":      func(value string) { c.Status.Phase = v1.PersistentVolumeClaimPhase(value) },
		"volume":     func(value string) { c.Spec.VolumeName = value },
		"bound": func(value string) {
			c.Spec.VolumeName, c.Status.Phase = value, v1.ClaimBound
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, bindCompleted, "yes")
		},
		"node": func(value string) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, selectedNode, value) },
		"owner": func(value string) {
			yes := true
			c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: value, UID: types.UID(value), Controller: &yes}}
		},
	})
	for _, option := range options {
		option(c)
	}
	return c
}

// ClaimSelector restricts a claim to volumes with labels, as in [Selector].
func ClaimSelector(text string) ClaimOption {
	return func(c *v1.PersistentVolumeClaim) { c.Spec.Selector = Selector(text) }
}

// Claims adds volumes with claims, such as "data logs". Volumes that options add are
// named v and their position.
func Claims(names string) PodOption {
	return func(p *v1.Pod) {
		for _, name := range strings.Fields(names) {
			addVolume(p, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
		}
	}
}

// Ephemeral adds generic ephemeral volumes with these names. Their claims are named
// <pod>-<volume>.
func Ephemeral(names string) PodOption {
	return func(p *v1.Pod) {
		for _, name := range strings.Fields(names) {
			source := v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{Ephemeral: &source}})
		}
	}
}

// Disks adds inline volumes: "pd=disk ebs=vol-1 iscsi=<IQN>/<LUN> rbd=m1,m2/pool/image
// csi=driver azuredisk=<URI> cinder=<ID> portworx=<ID> azurefile=<secret>/<share>
// vsphere=<path> emptydir".
func Disks(text string) PodOption { return disks(text, false) }

// ReadOnlyDisks adds read-only inline volumes, as in [Disks].
func ReadOnlyDisks(text string) PodOption { return disks(text, true) }

func disks(text string, readOnly bool) PodOption {
	return func(p *v1.Pod) {
		for _, field := range strings.Fields(text) {
			addVolume(p, disk(field, readOnly))
		}
	}
}

func disk(text string, readOnly bool) v1.VolumeSource {
	kind, id, _ := strings.Cut(text, "=")
	first, rest, _ := strings.Cut(id, "/")
	second, third, _ := strings.Cut(rest, "/")
	switch kind {
	case "pd":
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: id, ReadOnly: readOnly}}
	case "ebs":
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id, ReadOnly: readOnly}}
	case "iscsi":
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: "portal", IQN: first, Lun: lun(second), ReadOnly: readOnly}}
	case "rbd":
		return v1.VolumeSource{RBD: &v1.RBDVolumeSource{CephMonitors: strings.Split(first, ","), RBDPool: second, RBDImage: third, ReadOnly: readOnly}}
	case "csi":
		return v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: id, ReadOnly: &readOnly}}
	case "azuredisk":
		return v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: id, ReadOnly: &readOnly}}
	case "azurefile":
		return v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: first, ShareName: second, ReadOnly: readOnly}}
	case "cinder":
		return v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: id, ReadOnly: readOnly}}
	case "portworx":
		return v1.VolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: id, ReadOnly: readOnly}}
	case "vsphere":
		return v1.VolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: id}}
	case "emptydir":
		return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
	}
	panic(fmt.Sprintf("build: unknown disk %q", text))
}

func addVolume(p *v1.Pod, source v1.VolumeSource) {
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: source})
}

// accessModes reads "RWO,ROX".
func accessModes(text string) []v1.PersistentVolumeAccessMode {
	short := map[string]v1.PersistentVolumeAccessMode{
		"RWO": v1.ReadWriteOnce, "ROX": v1.ReadOnlyMany, "RWX": v1.ReadWriteMany, "RWOP": v1.ReadWriteOncePod,
	}
	var all []v1.PersistentVolumeAccessMode
	for _, word := range strings.Split(text, ",") {
		mode, ok := short[word]
		if !ok {
			panic(fmt.Sprintf("build: unknown access mode %q", word))
		}
		all = append(all, mode)
	}
	return all
}

// claimRef reads "ns/c" or "ns/c/<uid>".
func claimRef(text string) *v1.ObjectReference {
	namespace, rest, _ := strings.Cut(text, "/")
	name, uid, _ := strings.Cut(rest, "/")
	return &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: namespace, Name: name, UID: types.UID(uid)}
}

func lun(text string) int32 {
	var number int32
	if _, err := fmt.Sscan(text, &number); text != "" && err != nil {
		panic("build: LUN: " + err.Error())
	}
	return number
}
