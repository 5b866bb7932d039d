package cases

import (
	"fmt"
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The drivers and provisioners. Volumes of the disk driver are attached and counted. Two
// others report capacity. The last is not installed on every node.
const (
	diskDriver   = "disk.csi.example.com"
	poolDriver   = "pool.csi.example.com"
	shareDriver  = "share.csi.example.com"
	preventing   = "strict.csi.example.com"
	noProvision  = "kubernetes.io/no-provisioner"
	awsPlugin    = "kubernetes.io/aws-ebs"
	awsDriver    = "ebs.csi.aws.com"
	gceDriver    = "pd.csi.storage.gke.io"
	azureDriver  = "disk.csi.azure.com"
	bindDone     = "pv.kubernetes.io/bind-completed"
	selectedNode = "volume.kubernetes.io/selected-node"
	betaClass    = v1.BetaStorageClassAnnotation
)

// The classes.
const (
	localClass    = "local"    // WaitForFirstConsumer, not provisioned
	otherClass    = "other"    // the same
	hybridClass   = "hybrid"   // existing volumes and provisioned ones; no capacity tracking
	poolClass     = "pool"     // capacity is tracked
	shareClass    = "share"    // capacity may be tracked
	zonalClass    = "zonal"    // allowedTopologies
	awsClass      = "aws"      // an in-tree provisioner
	emptyClass    = "empty"    // its provisioner is the empty string
	nowClass      = "now"      // Immediate
	modelessClass = "modeless" // without volumeBindingMode
	strictClass   = "strict"   // its driver prevents scheduling to nodes without it
	goneClass     = "gone"     // a class that does not exist
)

// storage draws the storage objects of one case.
//
// kube-scheduler lists volumes in the order of a hash table and takes the first of the
// smallest matching ones. So that its result does not depend on that order, no two
// volumes of equal capacity and class fit one node, and no two are bound to one claim
// beforehand.
type storage struct {
	r    *rand.Rand
	tc   *Case
	made int
	// taken has the class and capacity of each volume, with its node if it is local.
	taken  map[string]bool
	claims []*v1.PersistentVolumeClaim
	// volumes are the volumes of claims.
	volumes []*v1.PersistentVolume
	// endless is set for a running cluster. There, a pod does not use a claim twice: two
	// volumes would be reserved for it, and the next pod with the claim could get either.
	endless bool
	// broken is set once a running pod fails every cycle that counts its node's volumes.
	// A second such pod would fail them with another text.
	broken bool
}

func newStorage(r *rand.Rand, tc *Case) *storage {
	return &storage{r: r, tc: tc, taken: map[string]bool{}}
}

func (s *storage) add(objects ...runtime.Object) {
	for _, o := range objects {
		s.tc.Add(o)
		if v, ok := o.(*v1.PersistentVolume); ok {
			s.volumes = append(s.volumes, v)
		}
	}
}

// meta names an object by its kind and a number.
func (s *storage) meta(namespace, kind string) metav1.ObjectMeta {
	s.made++
	return s.named(namespace, fmt.Sprintf("%s-%d", kind, s.made))
}

func (s *storage) named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", s.r.Uint32(), s.r.Uint32())), ResourceVersion: "1",
		Labels: map[string]string{}, Annotations: map[string]string{},
	}
}

// nodeName mostly returns the name of an existing node.
func (s *storage) nodeName() string {
	if len(s.tc.Nodes) == 0 || chance(s.r, 5) {
		return "gone"
	}
	return pick(s.r, s.tc.Nodes...).Name
}

func zone(r *rand.Rand) string {
	return pick(r, "eu-west1-a", "eu-west1-a", "eu-west1-b", "eu-west1-b", "eu-west2-c")
}

// relabel adds the labels that volumes refer to.
func (s *storage) relabel() {
	for _, n := range s.tc.Nodes {
		z := zone(s.r)
		region := map[string]string{"eu-west1-a": "eu-west1", "eu-west1-b": "eu-west1", "eu-west2-c": "eu-west2"}[z]
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		set := func(percent int, key, value string) {
			delete(n.Labels, key)
			if chance(s.r, percent) {
				n.Labels[key] = value
			}
		}
		set(97, v1.LabelHostname, n.Name)
		set(75, v1.LabelTopologyZone, pick(s.r, z, z, z, z, z, z, z, z, z, z, z, ""))
		set(55, v1.LabelTopologyRegion, region)
		set(20, v1.LabelFailureDomainBetaZone, pick(s.r, z, z, z, z, "zx"))
		set(15, v1.LabelFailureDomainBetaRegion, region)
		set(70, "topology.ebs.csi.aws.com/zone", z)
		set(70, "topology.gke.io/zone", z)
		set(40, "topology.cinder.csi.openstack.org/zone", z)
		set(60, "rack", pick(s.r, "1", "2", "x"))
	}
}

// classes draws the classes and the drivers.
func (s *storage) classes() {
	class := func(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: s.named("", name), Provisioner: provisioner, VolumeBindingMode: &mode}
		s.add(c)
		return c
	}
	late := storagev1.VolumeBindingWaitForFirstConsumer
	class(localClass, noProvision, late)
	class(otherClass, noProvision, late)
	class(hybridClass, diskDriver, late)
	class(poolClass, poolDriver, late)
	class(shareClass, shareDriver, late)
	class(zonalClass, diskDriver, late).AllowedTopologies = s.topologies(v1.LabelTopologyZone)
	aws := class(awsClass, awsPlugin, late)
	if chance(s.r, 50) { // not renamed, unlike in volumes
		aws.AllowedTopologies = s.topologies(pick(s.r, v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone, "topology.ebs.csi.aws.com/zone"))
	}
	class(emptyClass, "", late)
	class(nowClass, diskDriver, storagev1.VolumeBindingImmediate)
	class(modelessClass, diskDriver, late).VolumeBindingMode = nil
	class(strictClass, preventing, late)
	s.driver(poolDriver, ptr(true), nil)
	s.driver(shareDriver, pick(s.r, nil, ptr(false), ptr(true)), ptr(false))
	s.driver(preventing, nil, ptr(true))
	if chance(s.r, 50) {
		s.driver(diskDriver, pick(s.r, nil, ptr(false)), pick(s.r, nil, ptr(false)))
	}
}

func (s *storage) driver(name string, capacity, prevent *bool) {
	s.add(&storagev1.CSIDriver{ObjectMeta: s.named("", name), Spec: storagev1.CSIDriverSpec{StorageCapacity: capacity, PreventPodSchedulingIfMissing: prevent}})
}

func (s *storage) topologies(key string) []v1.TopologySelectorTerm {
	var terms []v1.TopologySelectorTerm
	for range 1 + s.r.IntN(2) {
		term := v1.TopologySelectorTerm{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: key, Values: zonesOf(s.r)}}}
		switch {
		case chance(s.r, 10): // matches nothing
			term.MatchLabelExpressions = nil
		case chance(s.r, 25):
			term.MatchLabelExpressions = append(term.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: "rack", Values: []string{"1", "2"}})
		}
		terms = append(terms, term)
	}
	return terms
}

func zonesOf(r *rand.Rand) []string {
	return pick(r, []string{"eu-west1-a"}, []string{"eu-west1-b"}, []string{"eu-west1-a", "eu-west1-b"}, []string{"eu-west1-b", "eu-west2-c"})
}

// csiNodes draws the CSINodes; some nodes have none.
func (s *storage) csiNodes(countMax int) {
	for _, n := range s.tc.Nodes {
		if chance(s.r, 12) {
			continue
		}
		c := &storagev1.CSINode{ObjectMeta: s.named("", n.Name)}
		if chance(s.r, 70) {
			c.Annotations[v1.MigratedPluginsAnnotationKey] = pick(s.r, "", awsPlugin, awsPlugin+",kubernetes.io/gce-pd",
				"kubernetes.io/gce-pd,kubernetes.io/cinder,kubernetes.io/azure-disk", "kubernetes.io/aws-ebs, kubernetes.io/gce-pd")
		}
		for _, d := range []string{diskDriver, poolDriver, shareDriver, preventing, awsDriver, gceDriver, azureDriver} {
			if chance(s.r, 30) {
				continue
			}
			listed := storagev1.CSINodeDriver{Name: d, NodeID: n.Name}
			switch s.r.IntN(6) {
			case 0:
			case 1:
				listed.Allocatable = &storagev1.VolumeNodeResources{}
			default:
				listed.Allocatable = &storagev1.VolumeNodeResources{Count: ptr(int32(s.r.IntN(countMax + 1)))}
			}
			c.Spec.Drivers = append(c.Spec.Drivers, listed)
		}
		s.add(c)
	}
}

// attachments attaches some volumes to nodes, with or without pods there that use them.
// It leaves out volumes that pending pods want, because kube-scheduler counts such a
// volume twice; see TestDifferences.
func (s *storage) attachments() {
	wanted := s.wanted()
	for _, v := range s.volumes {
		if wanted[v.Name] {
			continue
		}
		if chance(s.r, 65) {
			continue
		}
		a := &storagev1.VolumeAttachment{ObjectMeta: s.meta("", "attachment"), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: diskDriver, NodeName: s.nodeName(), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr(v.Name)}}}
		if v.Spec.CSI != nil {
			a.Spec.Attacher = v.Spec.CSI.Driver
		}
		switch s.r.IntN(12) {
		case 0:
			a.Spec.Attacher = ""
		case 1:
			a.Spec.Attacher = pick(s.r, poolDriver, awsDriver)
		case 2:
			a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &v.Spec}
		case 3:
			a.Spec.Source.PersistentVolumeName = ptr("gone")
		case 4:
			a.Status.Attached = true
		}
		s.add(a)
	}
}

// wanted returns the volumes of pending pods' claims, and other volumes with the same
// disks.
func (s *storage) wanted() map[string]bool {
	of, disks := map[string]string{}, map[string]bool{}
	for _, c := range s.claims {
		of[c.Namespace+"/"+c.Name] = c.Spec.VolumeName
	}
	all := map[string]bool{}
	for _, p := range s.tc.Pods {
		for i := range p.Spec.Volumes {
			name := p.Name + "-" + p.Spec.Volumes[i].Name // of an ephemeral volume
			if use := p.Spec.Volumes[i].PersistentVolumeClaim; use != nil {
				name = use.ClaimName
			}
			if isPending(p) {
				all[of[p.Namespace+"/"+name]] = true
			}
		}
	}
	for _, v := range s.volumes {
		if all[v.Name] && v.Spec.CSI != nil {
			disks[v.Spec.CSI.Driver+"/"+v.Spec.CSI.VolumeHandle] = true
		}
	}
	for _, v := range s.volumes {
		if v.Spec.CSI != nil && disks[v.Spec.CSI.Driver+"/"+v.Spec.CSI.VolumeHandle] {
			all[v.Name] = true
		}
	}
	return all
}

// capacities draws the capacity objects of the two classes with capacity tracking. At
// most one object counts for a class on a node, and it has a capacity, so that the score
// is defined.
func (s *storage) capacities() {
	for _, class := range []string{poolClass, shareClass} {
		key := pick(s.r, v1.LabelHostname, v1.LabelTopologyZone, "rack")
		for _, value := range s.values(key) {
			if chance(s.r, 20) {
				continue
			}
			c := &storagev1.CSIStorageCapacity{ObjectMeta: s.meta("storage", "capacity"), StorageClassName: class, Capacity: s.bytes()}
			c.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
			if chance(s.r, 30) {
				c.NodeTopology = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
					{Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{value}}}}
			}
			if chance(s.r, 35) {
				c.MaximumVolumeSize = s.bytes()
				limit(c)
			}
			s.add(c)
		}
		s.uselessCapacity(class)
	}
}

func (s *storage) uselessCapacity(class string) {
	everywhere := &metav1.LabelSelector{}
	for _, c := range []*storagev1.CSIStorageCapacity{
		{StorageClassName: class, Capacity: s.bytes()}, // without topology
		{StorageClassName: class, NodeTopology: everywhere},
		{StorageClassName: goneClass, NodeTopology: everywhere, Capacity: s.bytes()},
		{StorageClassName: class, Capacity: s.bytes(), NodeTopology: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "rack", Operator: metav1.LabelSelectorOpIn}}}}, // does not parse
	} {
		if chance(s.r, 40) {
			c.ObjectMeta = s.meta("storage", "capacity")
			s.add(c)
		}
	}
}

// anyCapacities draws several objects for some classes on a node, and some objects
// without a capacity. kube-scheduler's choice among several for the score is undefined,
// and it panics without a capacity.
func (s *storage) anyCapacities() {
	for range s.r.IntN(8) {
		c := &storagev1.CSIStorageCapacity{ObjectMeta: s.meta("storage", "capacity"), StorageClassName: pick(s.r, poolClass, shareClass), Capacity: s.bytes()}
		c.NodeTopology = pick(s.r, &metav1.LabelSelector{}, nil,
			&metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone(s.r)}},
			&metav1.LabelSelector{MatchLabels: map[string]string{v1.LabelTopologyZone: zone(s.r), "rack": "1"}},
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: metav1.LabelSelectorOpExists}}},
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "rack", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"2"}}}},
		)
		switch s.r.IntN(5) {
		case 0:
			c.Capacity, c.MaximumVolumeSize = nil, s.bytes()
		case 1:
			c.MaximumVolumeSize = s.bytes()
		case 2:
			c.Capacity = nil
		}
		limit(c)
		s.add(c)
	}
}

// limit keeps the maximum volume size within the capacity. kube-scheduler regards a
// larger maximum as room; see TestDifferences.
func limit(c *storagev1.CSIStorageCapacity) {
	if c.Capacity != nil && c.MaximumVolumeSize != nil && c.MaximumVolumeSize.Cmp(*c.Capacity) > 0 {
		c.MaximumVolumeSize = c.Capacity
	}
}

// values returns the values of a label on the nodes.
func (s *storage) values(key string) []string {
	var all []string
	for _, n := range s.tc.Nodes {
		if value, ok := n.Labels[key]; ok && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

func (s *storage) bytes() *resource.Quantity {
	return ptr(resource.MustParse(pick(s.r, "0", "1Gi", "2Gi", "5Gi", "7500M", "10Gi", "20Gi", "33Gi", "100Gi", "1500m")))
}
