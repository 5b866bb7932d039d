package cases

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// entry draws a volume of a pod, with a name and the objects that it needs.
type entry func(s *storage, p *v1.Pod, name string) v1.VolumeSource

// weighted is a list of entries from which one is drawn; repeated entries are more
// likely.
type weighted []entry

// mount gives a pod one to three volumes. Some are shared with earlier pods of the
// namespace.
func (s *storage) mount(p *v1.Pod, from weighted) {
	p.Spec.Volumes = nil
	defer s.shareLittle(p, len(s.claims))
	for i := range 1 + s.r.IntN(3) {
		name := fmt.Sprintf("v%d", i)
		v := v1.Volume{Name: name}
		if c := s.earlier(p.Namespace); c != nil && chance(s.r, 20) && !(s.endless && names(p, c.Name)) {
			v.VolumeSource = uses(c)
		} else {
			v.VolumeSource = pick(s.r, from...)(s, p, name)
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
		if chance(s.r, 45) {
			return
		}
	}
}

// little is the largest request of a claim that shares capacity with another claim of its
// pod. Three such claims fit wherever one does.
var little = resource.MustParse("300Mi")

// shareLittle reduces the requests of claims that draw from the same capacity for one
// pod. kube-scheduler compares each one with the whole capacity, which Berth does not;
// see TestDifferences. The claims from a position on belong to this pod only.
func (s *storage) shareLittle(p *v1.Pod, from int) {
	byClass := map[string][]int{}
	for i, c := range s.claims {
		class := c.Annotations[betaClass]
		if class == "" && c.Spec.StorageClassName != nil {
			class = *c.Spec.StorageClassName
		}
		isOwn := i >= from || c.Namespace == p.Namespace && names(p, c.Name)
		if isOwn && c.Spec.VolumeName == "" && (class == poolClass || class == shareClass) {
			byClass[class] = append(byClass[class], i)
		}
	}
	for _, claims := range byClass {
		if len(claims) < 2 {
			continue
		}
		for _, i := range claims {
			c := s.claims[i]
			size := c.Spec.Resources.Requests[v1.ResourceStorage]
			switch {
			case size.Cmp(little) <= 0:
			case i >= from:
				c.Spec.Resources.Requests[v1.ResourceStorage] = little
			default: // other pods have it already
				p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v v1.Volume) bool {
					return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == c.Name
				})
			}
		}
	}
}

// earlier returns a claim of the namespace that no pod owns.
func (s *storage) earlier(namespace string) *v1.PersistentVolumeClaim {
	var all []*v1.PersistentVolumeClaim
	for _, c := range s.claims {
		if c.Namespace == namespace && len(c.OwnerReferences) == 0 {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(s.r, all...)
}

func names(p *v1.Pod, claim string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

func uses(c *v1.PersistentVolumeClaim) v1.VolumeSource { return usesName(c.Name) }

func usesName(name string) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

// boundTo returns a claim that is bound to a volume.
func (s *storage) boundTo(namespace string, v *v1.PersistentVolume) *v1.PersistentVolumeClaim {
	c := s.claim(namespace, v.Spec.StorageClassName)
	bind(c, v)
	return c
}

func nothing(*storage, *v1.Pod, string) v1.VolumeSource {
	return v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}
}

// boundDisk is a bound claim with a CSI volume that fits everywhere.
func boundDisk(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	driver := pick(s.r, diskDriver, diskDriver, diskDriver, poolDriver, awsDriver, gceDriver)
	return uses(s.boundTo(p.Namespace, s.volume(pick(s.r, "", hybridClass), s.disk(driver))))
}

// strictDisk is a bound claim with a volume of a driver that must be on the node.
func strictDisk(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	return uses(s.boundTo(p.Namespace, s.volume("", s.disk(preventing))))
}

// boundSomewhere is a bound claim with a volume that has node affinity.
func boundSomewhere(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	v := s.volume(pick(s.r, "", localClass), pick(s.r, s.disk(diskDriver), s.plain()))
	v.Spec.NodeAffinity = s.affinity()
	return uses(s.boundTo(p.Namespace, v))
}

// boundInTree is a bound claim with an in-tree volume that has affinity, labels or both.
func boundInTree(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	v := s.volume("", s.inTree())
	if chance(s.r, 70) {
		v.Spec.NodeAffinity = s.affinity()
	}
	if chance(s.r, 40) {
		s.zoneLabels(v)
	}
	return uses(s.boundTo(p.Namespace, v))
}

// untranslatable is a bound claim with a volume that cannot be translated.
func untranslatable(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	return uses(s.boundTo(p.Namespace, s.volume("", v1.PersistentVolumeSource{
		AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://eu-west1-a/unlike-an-id"}})))
}

// zoned is a bound claim with a volume that has zone labels.
func zoned(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	v := s.volume("", pick(s.r, s.disk(diskDriver), s.plain()))
	s.zoneLabels(v)
	return uses(s.boundTo(p.Namespace, v))
}

// static is an unbound claim for existing volumes.
func static(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	return uses(s.wanting(s.claim(p.Namespace, pick(s.r, localClass, localClass, otherClass, hybridClass))))
}

// wanting draws the demands of a claim other than its size.
func (s *storage) wanting(c *v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
	if chance(s.r, 10) {
		c.Spec.VolumeMode = ptr(pick(s.r, v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem))
	}
	if chance(s.r, 8) {
		c.Spec.VolumeAttributesClassName = ptr(pick(s.r, "", "gold"))
	}
	switch s.r.IntN(10) {
	case 0:
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "fast"}}
	case 1:
		c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: pick(s.r, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpIn), Values: []string{"slow"}}}}
	case 2:
		c.Spec.Selector = &metav1.LabelSelector{}
	}
	return c
}

// brokenSelector is an unbound claim whose selector does not parse.
func brokenSelector(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.claim(p.Namespace, localClass)
	c.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpIn}}}
	return uses(c)
}

// dynamic is an unbound claim of a class with a provisioner.
func dynamic(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.claim(p.Namespace, pick(s.r, hybridClass, poolClass, poolClass, poolClass, shareClass, shareClass, zonalClass, awsClass, emptyClass))
	if chance(s.r, 12) {
		c.Annotations[selectedNode] = s.nodeName()
	}
	return uses(c)
}

// unclassed is a claim with a capacity-tracked class in the annotation only.
// kube-scheduler panics when it scores it.
func unclassed(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.claim(p.Namespace, pick(s.r, poolClass, shareClass))
	c.Annotations[betaClass], c.Spec.StorageClassName = *c.Spec.StorageClassName, nil
	return uses(c)
}

// strictLate is an unbound claim with a driver that must be on the node.
func strictLate(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	return uses(s.claim(p.Namespace, strictClass))
}

// oncePod is a claim for a single pod. Such claims are few, with equal names in both
// namespaces.
func oncePod(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	name := fmt.Sprintf("once-%d", s.r.IntN(8))
	for _, c := range s.claims {
		if c.Namespace == p.Namespace && c.Name == name {
			return uses(c)
		}
	}
	v := s.volume("", s.disk(diskDriver))
	c := s.boundTo(p.Namespace, v)
	c.Name, c.Spec.AccessModes = name, modes(v1.ReadWriteOncePod)
	bind(c, v)
	return uses(c)
}

// Claims that hold a pod back.

func withoutClaim(*storage, *v1.Pod, string) v1.VolumeSource { return usesName("gone") }

func withoutVolume(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.claim(p.Namespace, pick(s.r, "", hybridClass))
	c.Spec.VolumeName, c.Annotations[bindDone], c.Status.Phase = "gone", "yes", v1.ClaimBound
	return uses(c)
}

func lost(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.claim(p.Namespace, "")
	c.Spec.VolumeName, c.Annotations[bindDone], c.Status.Phase = pick(s.r, "gone", ""), "yes", v1.ClaimLost
	return uses(c)
}

func deleting(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.boundTo(p.Namespace, s.volume("", s.disk(diskDriver)))
	c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: p.CreationTimestamp.Time}, []string{"kubernetes.io/pvc-protection"}
	return uses(c)
}

func unboundImmediate(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	return uses(s.claim(p.Namespace, pick(s.r, nowClass, nowClass, "", goneClass)))
}

// halfBound is a claim that names its volume but is not bound yet.
func halfBound(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	c := s.claim(p.Namespace, pick(s.r, localClass, nowClass, ""))
	v := s.volume("", s.disk(diskDriver))
	bind(c, v)
	delete(c.Annotations, bindDone)
	return uses(c)
}

func modeless(s *storage, p *v1.Pod, _ string) v1.VolumeSource {
	return uses(s.claim(p.Namespace, modelessClass))
}

// The claim of an ephemeral volume is named after the pod, and must belong to it.

func ephemeral(s *storage, p *v1.Pod, name string) v1.VolumeSource {
	c := s.owned(p, name)
	if chance(s.r, 60) {
		v := s.volume("", s.disk(diskDriver))
		if chance(s.r, 30) {
			v.Spec.NodeAffinity = s.affinity()
		}
		bind(c, v)
	}
	return templated()
}

func (s *storage) owned(p *v1.Pod, name string) *v1.PersistentVolumeClaim {
	c := s.claim(p.Namespace, pick(s.r, localClass, hybridClass, poolClass))
	c.Name = p.Name + "-" + name
	kind := pick(s.r, "Pod", "Pod", "Pod", "Job") // only the UID is compared
	c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: p.Name, UID: p.UID, Controller: ptr(true)}}
	return c
}

func templated() v1.VolumeSource {
	return v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}
}

func ephemeralWithoutClaim(*storage, *v1.Pod, string) v1.VolumeSource { return templated() }

func ephemeralWithoutVolume(s *storage, p *v1.Pod, name string) v1.VolumeSource {
	c := s.owned(p, name)
	c.Spec.VolumeName, c.Annotations[bindDone] = "gone", "yes"
	return templated()
}

// breaks reports whether a pod may have a volume that makes the counting of its node's
// volumes fail. Pending pods may, and one other.
func (s *storage) breaks(p *v1.Pod) bool {
	may := isPending(p) || !s.broken
	s.broken = s.broken || !isPending(p)
	return may
}

// ephemeralOfAnother has a claim that the pod does not control.
func ephemeralOfAnother(s *storage, p *v1.Pod, name string) v1.VolumeSource {
	if !s.breaks(p) {
		return nothing(s, p, name)
	}
	c := s.owned(p, name)
	if chance(s.r, 50) {
		c.OwnerReferences[0].UID = "another"
	} else {
		c.OwnerReferences[0].Controller = nil
	}
	return templated()
}

// Volumes in the pod itself.

// inlineDisk has one of the four types with restrictions on sharing by pods of a node.
func inlineDisk(s *storage, _ *v1.Pod, _ string) v1.VolumeSource {
	readOnly := chance(s.r, 50)
	id := pick(s.r, "1", "2", "3")
	switch s.r.IntN(4) {
	case 0:
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: id, ReadOnly: readOnly}}
	case 1:
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-0000000" + id, ReadOnly: readOnly}}
	case 2:
		return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{TargetPortal: pick(s.r, "p1", "p2"), IQN: id, Lun: int32(s.r.IntN(2)), ReadOnly: readOnly}}
	}
	return v1.VolumeSource{RBD: &v1.RBDVolumeSource{
		CephMonitors: pick(s.r, []string{"m1"}, []string{"m2"}, []string{"m1", "m2"}, []string{"m2", "m3"}, []string{"m3", "m3"}, nil),
		RBDPool:      pick(s.r, "rbd", "other"), RBDImage: pick(s.r, "a", "b"), ReadOnly: readOnly,
	}}
}

// untranslatableInline is an inline volume that cannot be translated.
func untranslatableInline(s *storage, p *v1.Pod, name string) v1.VolumeSource {
	if !s.breaks(p) {
		return nothing(s, p, name)
	}
	return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://eu-west1-a/unlike-an-id"}}
}

// inlineInTree is an in-tree inline volume; most of these are counted.
func inlineInTree(s *storage, _ *v1.Pod, _ string) v1.VolumeSource {
	id := fmt.Sprintf("vol-%08x", s.r.IntN(12))
	switch s.r.IntN(7) {
	case 0, 1:
		return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: pick(s.r, id, "aws://eu-west1-a/"+id), ReadOnly: true}}
	case 2:
		return v1.VolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{PDName: id, ReadOnly: true}}
	case 3:
		return v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: id, DataDiskURI: "/disks/" + id}}
	case 4:
		return v1.VolumeSource{Cinder: &v1.CinderVolumeSource{VolumeID: id}}
	case 5:
		return v1.VolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: id}}
	}
	return pick(s.r, v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: "s", ShareName: id}},
		v1.VolumeSource{VsphereVolume: &v1.VsphereVirtualDiskVolumeSource{VolumePath: id}},
		v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: diskDriver}})
}
