package cases

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claim draws an unbound claim of a class.
func (s *storage) claim(namespace, class string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{
		ObjectMeta: s.meta(namespace, "claim"),
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: pick(s.r, modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce), modes(v1.ReadWriteMany), modes(v1.ReadWriteOnce, v1.ReadOnlyMany), nil),
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: s.size()}},
		},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
	}
	if chance(s.r, 4) {
		c.Spec.Resources.Requests = nil
	}
	s.classed(&c.ObjectMeta, &c.Spec.StorageClassName, class)
	s.claims = append(s.claims, c)
	s.add(c)
	return c
}

// classed sets the class in the field, and sometimes in the annotation, which then
// overrides the field. The field is never nil, because kube-scheduler's score reads it.
func (s *storage) classed(meta *metav1.ObjectMeta, field **string, class string) {
	*field = ptr(class)
	switch s.r.IntN(12) {
	case 0:
		meta.Annotations[betaClass] = class
	case 1:
		meta.Annotations[betaClass] = class
		*field = ptr(pick(s.r, "", otherClass, goneClass))
	}
}

func modes(of ...v1.PersistentVolumeAccessMode) []v1.PersistentVolumeAccessMode { return of }

func (s *storage) size() resource.Quantity {
	return resource.MustParse(pick(s.r, "1Gi", "2Gi", "3Gi", "3Gi", "4Gi", "4608Mi", "5Gi", "6Gi", "8Gi", "500m"))
}

// bind binds a claim to a volume, as the volume controller does.
func bind(c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
	c.Spec.VolumeName, c.Annotations[bindDone], c.Status.Phase = v.Name, "yes", v1.ClaimBound
	v.Spec.ClaimRef, v.Status.Phase = refTo(c), v1.VolumeBound
}

func refTo(c *v1.PersistentVolumeClaim) *v1.ObjectReference {
	return &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: c.Namespace, Name: c.Name, UID: c.UID, ResourceVersion: c.ResourceVersion}
}

// volume draws a volume without affinity.
func (s *storage) volume(class string, source v1.PersistentVolumeSource) *v1.PersistentVolume {
	v := &v1.PersistentVolume{
		ObjectMeta: s.meta("", "volume"),
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("10Gi")}, PersistentVolumeSource: source, StorageClassName: class,
			AccessModes: pick(s.r, modes(v1.ReadWriteOnce), modes(v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany)),
		},
	}
	s.add(v)
	return v
}

// disk returns a source of the given driver. Few handles are used twice.
func (s *storage) disk(driver string) v1.PersistentVolumeSource {
	handle := fmt.Sprintf("handle-%d", s.made)
	if chance(s.r, 5) {
		handle = "handle-of-several"
	}
	return v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
}

// inTree draws the source of a volume of an in-tree plugin.
func (s *storage) inTree() v1.PersistentVolumeSource {
	id := fmt.Sprintf("vol-%08x", s.r.IntN(40))
	switch s.r.IntN(9) {
	case 0, 1:
		if chance(s.r, 50) {
			id = "aws://eu-west1-a/" + id
		}
		return v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: id}}
	case 2, 3:
		return v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: id}}
	case 4:
		return v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: id, DataDiskURI: "/disks/" + id}}
	case 5:
		return v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: id}}
	case 6:
		return v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: id}}
	case 7:
		return v1.PersistentVolumeSource{AzureFile: &v1.AzureFilePersistentVolumeSource{SecretName: "s", ShareName: id}}
	}
	return v1.PersistentVolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: id}}
}

// plain draws the source of a volume without a driver.
func (s *storage) plain() v1.PersistentVolumeSource {
	return pick(s.r,
		v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nfs", Path: "/"}},
		v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt"}},
		v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/mnt"}})
}

// affinity draws any node affinity that a volume can have.
func (s *storage) affinity() *v1.VolumeNodeAffinity {
	expression := func(key string, operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	term := func(all ...v1.NodeSelectorRequirement) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: all}
	}
	zoneKey := pick(s.r, v1.LabelTopologyZone, v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone, "topology.ebs.csi.aws.com/zone")
	zonal := expression(zoneKey, v1.NodeSelectorOpIn, zonesOf(s.r)...)
	host := expression(v1.LabelHostname, v1.NodeSelectorOpIn, s.nodeName())
	broken := expression("rack", v1.NodeSelectorOpGt, "x")
	byName := v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{expression("metadata.name", v1.NodeSelectorOpIn, s.nodeName())}}
	var terms []v1.NodeSelectorTerm
	switch s.r.IntN(18) {
	case 0, 1:
		return nil
	case 2:
		return &v1.VolumeNodeAffinity{}
	case 3, 4:
		terms = []v1.NodeSelectorTerm{term(host)}
	case 5, 6, 7:
		terms = []v1.NodeSelectorTerm{term(zonal)}
	case 8:
		terms = []v1.NodeSelectorTerm{term(zonal), term(host)}
	case 9:
		region := pick(s.r, v1.LabelTopologyRegion, v1.LabelFailureDomainBetaRegion)
		terms = []v1.NodeSelectorTerm{term(zonal, expression(region, v1.NodeSelectorOpIn, "eu-west1"))}
	case 10:
		terms = []v1.NodeSelectorTerm{{}}
	case 11: // an empty list
	case 12:
		terms = []v1.NodeSelectorTerm{term(broken)}
	case 13:
		terms = []v1.NodeSelectorTerm{term(broken), term(zonal), {}}
	case 14:
		terms = []v1.NodeSelectorTerm{byName}
	case 15:
		byName.MatchExpressions = []v1.NodeSelectorRequirement{zonal}
		terms = []v1.NodeSelectorTerm{byName}
	case 16:
		terms = []v1.NodeSelectorTerm{term(expression("rack", pick(s.r, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist)))}
	case 17:
		terms = []v1.NodeSelectorTerm{term(expression("rack", v1.NodeSelectorOpLt, "2")), term(expression(zoneKey, v1.NodeSelectorOpNotIn, zonesOf(s.r)...))}
	}
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: terms}}
}

// zoneLabels adds zone and region labels to a volume, as in-tree plugins do; some are
// invalid.
func (s *storage) zoneLabels(v *v1.PersistentVolume) {
	set := func(percent int, key string, values ...string) {
		if chance(s.r, percent) {
			v.Labels[key] = pick(s.r, values...)
		}
	}
	zones := []string{"eu-west1-a", "eu-west1-b", "eu-west2-c", "eu-west1-a__eu-west1-b", "eu-west1-b__eu-west2-c", "eu-west1-a__eu-west1-b__eu-west2-c", " eu-west1-a", "eu-west1-a__ eu-west1-b", "eu-west1-a__", "__", "", "zx"}
	set(65, v1.LabelTopologyZone, zones...)
	set(25, v1.LabelFailureDomainBetaZone, zones...)
	set(30, v1.LabelTopologyRegion, "eu-west1", "eu-west1", "eu-west2", "eu-west1__eu-west2", "eu-west1__")
	set(15, v1.LabelFailureDomainBetaRegion, "eu-west1", "eu-west1", "eu-west2", "eu-west1__eu-west2")
}

// free draws volumes for claims of a class: some on single nodes, some in zones or
// anywhere.
func (s *storage) free(class string) {
	for _, n := range s.tc.Nodes {
		for range s.r.IntN(3) {
			if chance(s.r, 50) {
				continue
			}
			v := s.volume(class, v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt"}})
			v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{n.Name}}}}}}}
			s.finish(v, class, n.Name)
		}
	}
	for range s.r.IntN(5) {
		v := s.volume(class, s.disk(diskDriver))
		v.Spec.NodeAffinity = s.affinity()
		s.finish(v, class, "")
	}
}

// finish draws properties that make a free volume unsuitable for some claims.
func (s *storage) finish(v *v1.PersistentVolume, class, host string) {
	s.capacity(v, class, host)
	v.Status.Phase = v1.VolumeAvailable
	if chance(s.r, 12) {
		v.Status.Phase = pick(s.r, "", v1.VolumePending, v1.VolumeReleased, v1.VolumeBound, v1.VolumeFailed)
	}
	if chance(s.r, 15) {
		v.Spec.VolumeMode = ptr(pick(s.r, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem))
	}
	if chance(s.r, 10) {
		v.Spec.VolumeAttributesClassName = ptr(pick(s.r, "", "gold"))
	}
	if chance(s.r, 40) {
		v.Labels["tier"] = pick(s.r, "fast", "slow")
	}
	if chance(s.r, 4) {
		v.DeletionTimestamp = longAgo.DeepCopy()
	}
	switch s.r.IntN(16) {
	case 0:
		v.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "another", UID: "another"}
	case 1:
		v.Annotations[betaClass], v.Spec.StorageClassName = class, pick(s.r, "", otherClass)
	case 2:
		v.Annotations[betaClass] = goneClass
	}
}

// capacity draws a capacity that no other volume on the same node has: whole Gi for
// volumes of one node, half a Gi more for others.
func (s *storage) capacity(v *v1.PersistentVolume, class, host string) {
	for {
		mebi := 1024 * (1 + s.r.IntN(12+len(s.taken)/4))
		if host == "" {
			mebi += 512
		}
		key := fmt.Sprint(class, "/", host, "/", mebi)
		if !s.taken[key] {
			s.taken[key] = true
			v.Spec.Capacity[v1.ResourceStorage] = *resource.NewQuantity(int64(mebi)<<20, resource.BinarySI)
			return
		}
	}
}

// preBind makes some free volumes refer to claims that are not bound yet.
func (s *storage) preBind() {
	var free []*v1.PersistentVolume
	for _, v := range s.volumes {
		if v.Spec.ClaimRef == nil && v.Spec.StorageClassName != "" {
			free = append(free, v)
		}
	}
	for _, c := range s.claims {
		if len(free) == 0 || c.Spec.VolumeName != "" || chance(s.r, 80) {
			continue
		}
		at := s.r.IntN(len(free))
		v := free[at]
		free = append(free[:at], free[at+1:]...)
		v.Spec.ClaimRef = refTo(c)
		switch s.r.IntN(4) {
		case 0:
			v.Spec.ClaimRef = &v1.ObjectReference{Namespace: c.Namespace, Name: c.Name}
		case 1:
			v.Spec.ClaimRef.UID = "of-another-claim"
		}
		if chance(s.r, 30) {
			v.Status.Phase = v1.VolumeBound
		}
	}
}
