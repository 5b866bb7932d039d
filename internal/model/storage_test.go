package model_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

const betaClass = "annotation=volume.beta.kubernetes.io/storage-class="

func TestNewClaim(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "class= request=0 false bound=false node= false owner= exclusive=false deleting=false"},
		{"storage=5Gi class=fast", "class=fast request=5368709120 true bound=false node= false owner= exclusive=false deleting=false"},
		{"storage=0 class=fast " + betaClass + "slow", "class=slow request=0 true bound=false node= false owner= exclusive=false deleting=false"},
		{"class=fast " + betaClass, "class= request=0 false bound=false node= false owner= exclusive=false deleting=false"},
		{"volume=v", "class= request=0 false bound=false node= false owner= exclusive=false deleting=false"},
		{"bound=v phase=Pending", "class= request=0 false bound=true node= false owner= exclusive=false deleting=false"},
		{"annotation=pv.kubernetes.io/bind-completed=", "class= request=0 false bound=false node= false owner= exclusive=false deleting=false"},
		{"volume=v annotation=pv.kubernetes.io/bind-completed=", "class= request=0 false bound=true node= false owner= exclusive=false deleting=false"},
		{"node=n1 owner=p", "class= request=0 false bound=false node=n1 true owner=p exclusive=false deleting=false"},
		{"annotation=volume.kubernetes.io/selected-node=", "class= request=0 false bound=false node= true owner= exclusive=false deleting=false"},
		{"modes=RWO,RWOP deleting", "class= request=0 false bound=false node= false owner= exclusive=true deleting=true"},
	} {
		c := model.NewClaim(build.PersistentVolumeClaim("c", row.text))
		have := fmt.Sprintf("class=%s request=%d %t bound=%t node=%s %t owner=%s exclusive=%t deleting=%t",
			c.Class, c.Request, c.HasRequest, c.Bound, c.SelectedNode, c.IsSelected, c.Owner, c.Exclusive, c.Deleting())
		if have != row.want || c.Ref() != (model.Ref{Kind: model.PersistentVolumeClaimKind, Namespace: "default", Name: "c"}) || c.Version() != "1" {
			t.Errorf("%q: %s, want %s", row.text, have, row.want)
		}
	}
}

// TestVolumesAreTranslated has examples of every in-tree plugin, with the node affinity
// of the translated volume.
func TestVolumesAreTranslated(t *testing.T) {
	source := func(s v1.PersistentVolumeSource) build.VolumeOption {
		return func(v *v1.PersistentVolume) { v.Spec.PersistentVolumeSource = s }
	}
	managed, dedicated := v1.AzureManagedDisk, v1.AzureDedicatedBlobDisk
	azure := func(kind *v1.AzureDataDiskKind) build.VolumeOption {
		return source(v1.PersistentVolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "disk", DataDiskURI: "/uri", Kind: kind}})
	}
	const zone, beta, region = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
	for _, row := range []struct {
		text, want string
		options    []build.VolumeOption
		// on are labels of a node. asIs and migrated are whether the node can use the
		// volume before and after translation.
		on             string
		asIs, migrated bool
	}{
		{"csi=d/h", "d h", nil, "", true, true},
		{"nfs=", " ", nil, "", true, true},
		{"vsphere=path", " ", nil, "", true, true},
		{"", " ", []build.VolumeOption{source(v1.PersistentVolumeSource{AzureFile: &v1.AzureFilePersistentVolumeSource{ShareName: "s"}})}, "", true, true},
		{"ebs=vol-1", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", nil, "", true, true},
		{"ebs=aws://us-east-1a/vol-1", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", nil, "", true, true},
		{"ebs=aws://us-east-1a/nonsense", "  kubernetes.io/aws-ebs failed", nil, "", true, true},
		{"ebs=vol-1 label=" + zone + "=a", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", nil, zone + "=a", true, false},
		{"ebs=vol-1 label=" + zone + "=a__b", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", nil, "topology.ebs.csi.aws.com/zone=b", true, true},
		{"ebs=vol-1 label=" + beta + "=a", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", nil, "topology.ebs.csi.aws.com/zone=a", true, true},
		{"ebs=vol-1", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", []build.VolumeOption{build.VolumeAffinity(zone + " In a")}, zone + "=a", true, false},
		{"ebs=vol-1", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", []build.VolumeOption{build.VolumeAffinity(zone + " In a")}, "topology.ebs.csi.aws.com/zone=a", false, true},
		{"ebs=vol-1", "ebs.csi.aws.com vol-1 kubernetes.io/aws-ebs", []build.VolumeOption{build.VolumeAffinity(beta + " In a; " + region + " In r")},
			"topology.ebs.csi.aws.com/zone=a topology.kubernetes.io/region=r", false, true},
		{"pd=disk", "", nil, "", true, true}, // see below
		{"pd=disk label=" + zone + "=a", "pd.csi.storage.gke.io projects/UNSPECIFIED/zones/a/disks/disk kubernetes.io/gce-pd", nil, "topology.gke.io/zone=a", true, true},
		{"pd=disk label=" + zone + "=us-x1-a__us-x1-b", "pd.csi.storage.gke.io projects/UNSPECIFIED/regions/us-x1/disks/disk kubernetes.io/gce-pd", nil, "topology.gke.io/zone=us-x1-b", true, true},
		{"", "disk.csi.azure.com /uri kubernetes.io/azure-disk", []build.VolumeOption{azure(&managed), build.VolumeAffinity(zone + " In a")}, zone + "=a", true, true},
		{"", "  kubernetes.io/azure-disk failed", []build.VolumeOption{azure(&dedicated)}, "", true, true},
		{"label=" + zone + "=a", "cinder.csi.openstack.org id kubernetes.io/cinder",
			[]build.VolumeOption{source(v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "id"}})}, "topology.cinder.csi.openstack.org/zone=a", true, true},
		{"", "pxd.portworx.com id kubernetes.io/portworx-volume",
			[]build.VolumeOption{source(v1.PersistentVolumeSource{PortworxVolume: &v1.PortworxVolumeSource{VolumeID: "id"}}), build.VolumeAffinity("x In y")}, "x=y", true, true},
	} {
		object := build.PersistentVolume("v", row.text, row.options...)
		before := object.DeepCopy()
		v := model.NewVolume(object)
		have := v.Driver + " " + v.Handle
		if v.InTree != "" {
			have += " " + v.InTree
		}
		if v.MigrationErr != nil {
			have += " failed"
		}
		if row.want != "" && have != row.want {
			t.Errorf("%q: %s, want %s", row.text, have, row.want)
		}
		if !reflect.DeepEqual(object, before) {
			t.Errorf("%q: the object has changed", row.text)
		}
		on := build.LabelSet(row.on)
		served := model.NewCSINode(build.CSINode("n", "", "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk", "kubernetes.io/cinder", "kubernetes.io/portworx-volume"))
		for csi, want := range map[*model.CSINode]bool{nil: row.asIs, model.NewCSINode(build.CSINode("n", "")): row.asIs, served: row.migrated} {
			affinity, err := v.AffinityOn(csi)
			if wantErr := csi == served && v.MigrationErr != nil; (err != nil) != wantErr {
				t.Errorf("%q: error %v", row.text, err)
			}
			if have := model.NodeSelectorOf(affinity).Matches(on); have != want {
				t.Errorf("%q on a node %s: %t, want %t", row.text, row.on, have, want)
			}
		}
	}
	if v := model.NewVolume(build.PersistentVolume("v", "storage=10Gi class=fast "+betaClass+" claim=ns/c")); v.Class != "" || v.Capacity != 10<<30 {
		t.Errorf("class %q, capacity %d", v.Class, v.Capacity)
	} else if key, ok := v.ClaimKey(); !ok || key != (model.ClaimKey{Namespace: "ns", Name: "c"}) {
		t.Errorf("the volume names the claim %v (%t)", key, ok)
	}
}

func TestDriverOf(t *testing.T) {
	for provisioner, want := range map[string]string{
		"d": "d ", "": " ", "kubernetes.io/no-provisioner": "kubernetes.io/no-provisioner ", "kubernetes.io/aws-ebs": "ebs.csi.aws.com kubernetes.io/aws-ebs",
		"kubernetes.io/gce-pd": "pd.csi.storage.gke.io kubernetes.io/gce-pd", "kubernetes.io/azure-disk": "disk.csi.azure.com kubernetes.io/azure-disk",
		"kubernetes.io/cinder": "cinder.csi.openstack.org kubernetes.io/cinder", "kubernetes.io/portworx-volume": "pxd.portworx.com kubernetes.io/portworx-volume",
		"kubernetes.io/azure-file": " kubernetes.io/azure-file", "kubernetes.io/vsphere-volume": " kubernetes.io/vsphere-volume",
	} {
		if driver, inTree := model.DriverOf(provisioner); driver+" "+inTree != want {
			t.Errorf("%s: %s %s, want %s", provisioner, driver, inTree, want)
		}
	}
}

// TestZones has the examples of VolumeZone.
func TestZones(t *testing.T) {
	const zone, region, beta, betaRegion = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
	for _, row := range []struct {
		volume, node, zones string
		matches             bool
	}{
		{zone + "=z1__z2", zone + "=z2", "[{" + zone + " [z1 z2]}]", true},
		{zone + "=z1", zone + "=z3", "[{" + zone + " [z1]}]", false},
		{zone + "=z1", region + "=r1", "[{" + zone + " [z1]}]", false},
		{beta + "=z1", zone + "=z1", "[{" + beta + " [z1]}]", true},
		{beta + "=z1", beta + "=z2 " + zone + "=z1", "[{" + beta + " [z1]}]", false},
		{betaRegion + "=r1", region + "=r1", "[{" + betaRegion + " [r1]}]", true},
		{zone + "=z1", beta + "=z1", "[{" + zone + " [z1]}]", false},
		{zone + "=z1__", zone + "=z9", "[]", true},
		{zone + "=__", zone + "=z9", "[]", true},
		{zone + "=", zone + "=z9", "[]", true},
		{zone + "=z1 " + region + "=r1", zone + "=z1 " + region + "=r2", "[{" + zone + " [z1]} {" + region + " [r1]}]", false},
		{region + "=r1 " + zone + "=z1 " + beta + "=z1__", zone + "=z1 " + region + "=r1", "[{" + zone + " [z1]} {" + region + " [r1]}]", true},
		{"other=z1", zone + "=z9", "[]", true},
	} {
		v := model.NewVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: build.LabelSet(row.volume)}})
		zones, matches := model.ZonesOf(v.Zones), true
		for i := range zones {
			matches = matches && zones[i].Matches(build.LabelSet(row.node))
		}
		if fmt.Sprint(zones) != row.zones || matches != row.matches || v.Zones.IsZero() != (len(zones) == 0) {
			t.Errorf("%s: %v, on %s: %t; want %s, %t", row.volume, zones, row.node, matches, row.zones, row.matches)
		}
	}
	spaced := model.NewVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{zone: " z1 __ z2"}}})
	if zones := fmt.Sprint(model.ZonesOf(spaced.Zones)); zones != "[{"+zone+" [z1 z2]}]" {
		t.Errorf("with spaces: %s", zones)
	}
}

func TestNewCSINode(t *testing.T) {
	n := model.NewCSINode(build.CSINode("n", "d=2 e=", "kubernetes.io/aws-ebs", "kubernetes.io/cinder"))
	if !maps.Equal(n.Drivers, map[string]int64{"d": 2, "e": model.Unlimited}) || !maps.Equal(n.Migrated, map[string]bool{"kubernetes.io/aws-ebs": true, "kubernetes.io/cinder": true}) {
		t.Errorf("%v %v", n.Drivers, n.Migrated)
	}
	withoutCount := build.CSINode("n", "d=2")
	withoutCount.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{}
	for _, row := range []struct {
		other *storagev1.CSINode
		equal bool
	}{
		{build.CSINode("n", "e= d=2", "kubernetes.io/cinder", "kubernetes.io/aws-ebs"), true}, {build.CSINode("n", "d=2 e=", "kubernetes.io/aws-ebs"), false},
		{build.CSINode("n", "d=0 e=", "kubernetes.io/aws-ebs", "kubernetes.io/cinder"), false}, {withoutCount, false},
	} {
		if n.Equal(model.NewCSINode(row.other)) != row.equal {
			t.Errorf("%v: equal %t, want %t", row.other, !row.equal, row.equal)
		}
	}
}

func TestNewStorageCapacityAndAttachment(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"class=c", "c 0 false 0 false"}, {"class=c capacity=2", "c 2 true 2 true"}, {"class=c maximum=1", "c 1 true 0 false"},
		{"class=c capacity=3 maximum=5", "c 3 true 3 true"}, {"class=c capacity=0", "c 0 true 0 true"},
	} {
		c := model.NewStorageCapacity(build.CSIStorageCapacity("s", row.text, "absent"))
		if have := fmt.Sprint(c.Class, " ", c.Limit, " ", c.Usable, " ", c.Capacity, " ", c.HasCapacity); have != row.want || !c.Nodes.IsZero() {
			t.Errorf("%s: %s, want %s", row.text, have, row.want)
		}
	}
	everywhere := model.NewStorageCapacity(build.CSIStorageCapacity("s", "", "everything"))
	if everywhere.Nodes.IsZero() || !model.NodeSelectorOf(everywhere.Nodes).Matches(nil) {
		t.Error("a selector without requirements does not select every node")
	}
	for text, want := range map[string]string{"attacher=d node=n volume=v": "d n v", "attacher=d node=n": "d n "} {
		if a := model.NewVolumeAttachment(build.VolumeAttachment("a", text)); a.Attacher+" "+a.Node+" "+a.Volume != want {
			t.Errorf("%s: %+v", text, a)
		}
	}
}

func TestNewStorageClassAndDriver(t *testing.T) {
	for text, waits := range map[string]bool{"": true, "mode=Immediate": false, "mode=": false} {
		if c := model.NewStorageClass(build.StorageClass("c", text)); c.Waits() != waits || !c.Topologies.IsZero() {
			t.Errorf("%q waits: %t", text, c.Waits())
		}
	}
	texts := map[model.Need]string{}
	for _, terms := range [][]string{{""}, {"zone=a"}, {"zone=a,b"}, {"zone=a", "zone=b"}, {"zone=a zone=b"}, {"zone=a", ""}} {
		c := model.NewStorageClass(build.StorageClass("c", "", build.AllowedTopologies(terms...)))
		if other := texts[c.Topologies]; other != "" || c.Topologies.IsZero() {
			t.Errorf("%q and %q have one text", terms, other)
		}
		texts[c.Topologies] = fmt.Sprint(terms)
		if model.NewStorageClass(build.StorageClass("d", "", build.AllowedTopologies(terms...))).Topologies != c.Topologies {
			t.Errorf("%q has two texts", terms)
		}
	}
	d := model.NewCSIDriver(build.CSIDriver("d", "storageCapacity"))
	if e := model.NewCSIDriver(build.CSIDriver("e", "preventPodSchedulingIfMissing")); !d.TracksCapacity || d.MustBeInstalled || e.TracksCapacity || !e.MustBeInstalled {
		t.Errorf("%+v %+v", d, e)
	}
}

// TestNodeSelector compares random selectors of volumes and capacities with the
// libraries: selected nodes, demands and mentioned labels. Two selectors must have equal
// texts if and only if they are equal.
func TestNodeSelector(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	nodes := make([]labels.Set, 60)
	for i := range nodes {
		nodes[i] = labels.Set{}
		for _, key := range []string{"a", "b", "c"} {
			if value := r.IntN(4); value > 0 {
				nodes[i][key] = fmt.Sprint(value)
			}
		}
	}
	texts, selected := map[model.Need]any{}, 0
	for range 4000 {
		var text, copied model.Need
		var source any
		var matches func(labels.Set) bool
		if r.IntN(2) == 0 {
			selector := randomNodeSelector(r)
			source = selector
			textOf := func(s *v1.NodeSelector) model.Need {
				return model.NewVolume(&v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{NodeAffinity: &v1.VolumeNodeAffinity{Required: s}}}).Affinity
			}
			text, copied = textOf(selector), textOf(selector.DeepCopy())
			library := nodeaffinity.NewLazyErrorNodeSelector(selector)
			matches = func(of labels.Set) bool {
				ok, _ := library.Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: of}})
				return ok
			}
		} else {
			selector := randomLabelSelector(r)
			source = selector
			textOf := func(s *metav1.LabelSelector) model.Need {
				return model.NewStorageCapacity(&storagev1.CSIStorageCapacity{NodeTopology: s}).Nodes
			}
			text, copied = textOf(selector), textOf(selector.DeepCopy())
			library, err := metav1.LabelSelectorAsSelector(selector)
			matches = func(of labels.Set) bool { return err == nil && library.Matches(of) }
		}
		if text.IsZero() || text != copied {
			t.Fatalf("%v has no text, or two", source)
		}
		if other, ok := texts[text]; ok && !reflect.DeepEqual(other, source) {
			t.Fatalf("%v and %v have one text", source, other)
		}
		texts[text] = source
		s := model.NodeSelectorOf(text)
		for _, of := range nodes {
			want := matches(of)
			if want {
				selected++
			}
			if s.Matches(of) != want {
				t.Fatalf("%v on %v: %t, want %t", source, of, !want, want)
			}
			if demands := s.Demands(); want && demands != nil && !meets(of, demands) {
				t.Fatalf("%v selects %v, which does not meet %v", source, of, demands)
			}
			other := maps.Clone(of)
			other["unmentioned"] = "1"
			for _, key := range []string{"a", "b", "c"} {
				if !strings.Contains(fmt.Sprint(s.Mentions()), key) {
					other[key] = "1"
				}
			}
			if matches(other) != want {
				t.Fatalf("%v mentions %v, and looks at other labels of %v", source, s.Mentions(), of)
			}
		}
	}
	if selected < 20_000 || len(texts) < 2000 {
		t.Errorf("%d selectors select %d nodes", len(texts), selected)
	}
	var none *model.NodeSelector
	if !none.Matches(nil) || none.Demands() != nil || none.Mentions() != nil || model.NodeSelectorOf(model.Need{}) != nil {
		t.Error("a volume without affinity can be used everywhere")
	}
}

// meets reports whether labels meet all demands of at least one term.
func meets(of labels.Set, demands [][]model.Zone) bool {
	for _, term := range demands {
		met := true
		for _, zone := range term {
			value, ok := of[zone.Label]
			met = met && ok && strings.Contains(" "+strings.Join(zone.Values, " ")+" ", " "+value+" ")
		}
		if met {
			return true
		}
	}
	return false
}

func randomNodeSelector(r *rand.Rand) *v1.NodeSelector {
	s := &v1.NodeSelector{}
	for range r.IntN(4) {
		var term v1.NodeSelectorTerm
		for range r.IntN(3) {
			term.MatchExpressions = append(term.MatchExpressions, randomRequirement(r))
		}
		if r.IntN(8) == 0 {
			term.MatchFields = []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n"}}}
		}
		s.NodeSelectorTerms = append(s.NodeSelectorTerms, term)
	}
	return s
}

func randomRequirement(r *rand.Rand) v1.NodeSelectorRequirement {
	operators := []v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists,
		v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt, "Near"}
	one := v1.NodeSelectorRequirement{Key: []string{"a", "b", "c", "bad/bad/bad"}[min(3, r.IntN(30)%4)], Operator: operators[r.IntN(len(operators))]}
	for range r.IntN(4) {
		one.Values = append(one.Values, []string{"1", "2", "3", "no label value"}[r.IntN(20)%4])
	}
	return one
}

func randomLabelSelector(r *rand.Rand) *metav1.LabelSelector {
	s := &metav1.LabelSelector{}
	for _, key := range []string{"a", "b", "bad/bad/bad"}[:r.IntN(20)%4%3] {
		if s.MatchLabels == nil {
			s.MatchLabels = map[string]string{}
		}
		s.MatchLabels[key] = fmt.Sprint(r.IntN(4))
	}
	for range r.IntN(3) {
		one := randomRequirement(r)
		s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: one.Key, Operator: metav1.LabelSelectorOperator(one.Operator), Values: one.Values})
	}
	return s
}
