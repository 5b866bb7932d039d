package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// The rows V are the worked examples of VolumeBinding.

// classes returns the classes np, without a provisioner, dp, with the provisioner d, and
// now, with Immediate binding.
func classes(more ...runtime.Object) []runtime.Object {
	return append(more, class("np", ""), class("dp", "provisioner=d"), class("now", "provisioner=d mode=Immediate"))
}

func on1() func(*v1.PersistentVolume) { return from("kubernetes.io/hostname In n1") }

func on2() func(*v1.PersistentVolume) { return from("kubernetes.io/hostname In n2") }

func TestVolumeBindingPreFilter(t *testing.T) {
	const binding = "pod: VolumeBinding: "
	const immediate = binding + "pod has unbound immediate PersistentVolumeClaims"
	tests := []struct {
		row   string
		claim runtime.Object
		part  podPart
		want  string
	}{
		{"V1", pvc("c", "class=now"), claims("c"), immediate},
		{"V2", pvc("c", "class=np volume=v"), claims("c"), immediate},
		{"no class", pvc("c", ""), claims("c"), immediate},
		{"no such class", pvc("c", "class=gone"), claims("c"), immediate},
		{"the annotation's class counts", pvc("c", "class=np annotation=volume.beta.kubernetes.io/storage-class="), claims("c"), immediate},
		{"a class without mode", pvc("c", "class=vague"), claims("c"),
			`error: running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass "vague"`},
		{"lost", pvc("c", "class=np volume=v phase=Lost"), claims("c"), binding + `persistentvolumeclaim "c" bound to non-existent persistentvolume "v"`},
		{"being deleted", pvc("c", "class=np deleting"), claims("c"), binding + `persistentvolumeclaim "c" is being deleted`},
		{"not there yet", pvc("c", ""), ephemeral("scratch"), binding + `waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"`},
		{"not the pod's", pvc("p-scratch", "class=np owner=q"), ephemeral("scratch"),
			binding + "PVC default/p-scratch was not created for pod default/p (pod is not owner)"},
		{"V4", pvc("c", "bound=gone"), claims("c"), `pod: VolumeZone: persistentvolume "gone" not found`},
		{"V4 ephemeral", pvc("p-scratch", "bound=gone owner=p"), ephemeral("scratch"), "vanished vanished"},
	}
	for _, tt := range tests {
		c := storing("n1=z1 n2=z2", nil, classes(tt.claim, class("vague", "mode="), pv("v", "class=np storage=1Gi"))...)
		if got := ruling(Judge(c, pod(tt.part), DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// A pod that a PreFilter rejects does not get its nominated node, although the filters
// would pass it.
func TestNominatedButRejected(t *testing.T) {
	c := storing("n1=z1 n2=z2", nil, classes(pvc("c", "class=now"))...)
	a := Judge(c, pod(claims("c"), build.NominatedNodeName("n1")), DefaultProfile())
	if want := "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims."; a.Nominated != "" || a.Rejected != want {
		t.Errorf("nominated to %q: %q, want %q", a.Nominated, a.Rejected, want)
	}
}

func TestVolumeBindingOfBoundClaims(t *testing.T) {
	gceZone := func(node string) runtime.Object { return csiNode(node, "", "kubernetes.io/gce-pd") }
	inTree := pv("v", "phase=Bound pd=disk", from("topology.kubernetes.io/zone In z1"))
	tests := []struct {
		row    string
		volume runtime.Object
		want   string
	}{
		{"V3", pv("v", "phase=Bound", from("topology.kubernetes.io/zone In z1")), "fits elsewhere"},
		{"terms are united", pv("v", "phase=Bound", from("topology.kubernetes.io/zone In z1", "topology.kubernetes.io/zone In z2")), "fits fits"},
		{"expressions are not", pv("v", "phase=Bound", from("topology.kubernetes.io/zone Exists; kubernetes.io/hostname In n2")), "elsewhere fits"},
		{"no terms", pv("v", "phase=Bound", from()), "elsewhere elsewhere"},
		{"an empty term", pv("v", "phase=Bound", from("")), "elsewhere elsewhere"},
		{"a term that does not parse", pv("v", "phase=Bound", from("_ In x", "topology.kubernetes.io/zone In z1")), "fits elsewhere"},
		{"fields are not looked at", pv("v", "phase=Bound", from("", "topology.kubernetes.io/zone In z2"), func(v *v1.PersistentVolume) {
			v.Spec.NodeAffinity.Required.NodeSelectorTerms[0] = fieldTerm("metadata.name In n9")
		}), "fits fits"},
		{"phases do not matter", pv("v", "phase=Released claim=other/c"), "fits fits"},
		{"Z8", pv("v", "phase=Bound", from("topology.kubernetes.io/zone In z1")), "fits elsewhere"},
		{"in-tree", inTree, "fits elsewhere"},
	}
	for _, tt := range tests {
		c := storing("n1=z1 n2=z2", nil, tt.volume, pvc("c", "bound=v"))
		if got := ruling(Judge(c, pod(claims("c")), DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
	// If the plugin is migrated, the driver's own label is used.
	c := storing("n1=z1 n2=z2 n3=z1", nil, inTree, pvc("c", "bound=v"), gceZone("n1"), gceZone("n2"), csiNode("n3", ""))
	with(c.Nodes, "n2", labelled("topology.gke.io/zone=z1"))
	if got, want := ruling(Judge(c, pod(claims("c")), DefaultProfile())), "elsewhere fits fits"; got != want {
		t.Errorf("migrated: got %s, want %s", got, want)
	}
	c = storing("n1=", nil, pv("v", "phase=Bound ebs=aws://zone/disk"), pvc("c", "bound=v"), csiNode("n1", "", "kubernetes.io/aws-ebs"))
	want := `error: running "VolumeBinding" filter plugin: could not translate pv: failed to translate Kubernetes ID to EBS Volume ID ` +
		`Invalid format for AWS volume (aws://zone/disk)`
	if got := ruling(Judge(c, pod(claims("c")), DefaultProfile())); got != want {
		t.Errorf("untranslatable: got %s, want %s", got, want)
	}
}

func TestVolumeBindingOfUnboundClaims(t *testing.T) {
	full := having(driver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi maximum=40Gi", "topology.kubernetes.io/zone=z1"))
	roomy := having(driver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi", "topology.kubernetes.io/zone=z1"))
	c5, c50 := pvc("c", "class=np storage=5Gi"), pvc("c", "class=dp storage=50Gi")
	tests := []struct {
		row     string
		objects []runtime.Object
		claims  string
		want    string
		n1      string // the reservation there
	}{
		{"V5", having(c5, pv("a", "class=np storage=10Gi", on1()), pv("b", "class=np storage=8Gi", on1()), pv("c", "class=np storage=6Gi phase=Released", on1())),
			"c", "fits conflict", "c=b"},
		{"V6", having(pvc("c20", "class=dp storage=20Gi"), pvc("c5", "class=dp storage=5Gi"), pv("v", "class=dp storage=20Gi", on1())), "c20 c5", "fits fits", "c5=v c20@n1"},
		{"V7 np", having(c5, pv("a", "class=np storage=9Gi claim=default/c", on1()), pv("b", "class=np storage=5Gi", on2())), "c", "fits conflict", "c=a"},
		{"V7 dp", having(pvc("c", "class=dp storage=5Gi"), pv("a", "class=dp storage=9Gi claim=default/c", on1()), pv("b", "class=dp storage=10Gi", on2())), "c", "fits fits", "c=a"},
		{"V8", having(pvc("c", "class=dp node=n1"), pv("v", "class=dp storage=1Gi", on1())), "c", "fits conflict", "c@n1"},
		{"V8 no provisioner", having(pvc("c", "class=np node=n1"), pv("v", "class=np storage=1Gi", on1())), "c", "conflict conflict", "rejected"},
		{"V9", having(pvc("c", "class=z1"), class("z1", "provisioner=d", allowed("topology.kubernetes.io/zone=z1"))), "c", "fits conflict", "c@n1"},
		{"V9 two terms", having(pvc("c", "class=z1"), class("z1", "provisioner=d", allowed("", "topology.kubernetes.io/zone=z3,z2"))), "c", "conflict fits", "rejected"},
		{"V10", append(full, c50), "c", "storage storage", "rejected"},
		{"V10 small enough", append(full, pvc("c", "class=dp storage=40Gi")), "c", "fits storage", "c@n1"},
		{"V10 without request", append(full, pvc("c", "class=dp")), "c", "fits fits", "c@n1"},
		{"V10 without driver", append(full[1:], c50), "c", "fits fits", "c@n1"},
		{"V10 the driver does not say", append(full[1:], driver("d", ""), c50), "c", "fits fits", "c@n1"},
		// Both fit in kube-scheduler.
		{"V11", append(roomy, pvc("x", "class=dp storage=60Gi"), pvc("y", "class=dp storage=60Gi")), "x y", "storage storage", "rejected"},
		{"a pool for nobody", having(driver("d", "storageCapacity"), pool("a", "class=dp capacity=1Ti", "absent"), c50), "c", "storage storage", "rejected"},
		{"a pool for everybody", having(driver("d", "storageCapacity"), pool("a", "class=dp capacity=1Ti namespace=d", "everything"), c50), "c", "fits fits", "c@n1"},
		{"a pool of another class", having(driver("d", "storageCapacity"), pool("a", "class=x capacity=1Ti", "everything"), c50), "c", "storage storage", "rejected"},
		{"a pool without size", having(driver("d", "storageCapacity"), pool("a", "class=dp", "everything"), c50), "c", "storage storage", "rejected"},
		{"a claim twice", having(c5, pv("a", "class=np storage=5Gi", on1())), "c c", "conflict conflict", "rejected"},
		{"a claim twice, two volumes", having(c5, pv("a", "class=np storage=5Gi", on1()), pv("b", "class=np storage=5Gi", on1())), "c c", "fits conflict", "c=a c=b"},
		{"no backtracking", having(c5, pvc("b", "class=np storage=5Gi", wanting("disk=ssd")), pv("a", "class=np storage=5Gi label=disk=ssd", on1()),
			pv("v", "class=np storage=5Gi", on1())), "c b", "conflict conflict", "rejected"},
		{"the reason for provisioning replaces that for matching", append(full, c5, pvc("b", "class=dp storage=50Gi")), "b c", "conflict conflict", "rejected"},
		{"provisioning stops at the first problem", append(full, c5, pvc("b", "class=dp storage=1Ti node=n1")), "c b", "storage conflict", "rejected"},
		{"both reasons", having(c5, pvc("b", "bound=w"), pv("w", "phase=Bound", on2())), "b c", "UU " + volumeElsewhere + ", " + noVolumeToBind + " conflict", "rejected"},
		{"a bad selector", having(pvc("c", "class=np", wanting("disk In"))), "c",
			`error: running "VolumeBinding" filter plugin: error creating internal label selector for claim: default/c: label "disk": In without values`, "rejected"},
	}
	for _, tt := range tests {
		c := storing("n1=z1 n2=z2", nil, classes(tt.objects...)...)
		if got := ruling(Judge(c, pod(claims(tt.claims)), DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
		if got := reservation(c, pod(claims(tt.claims)), "n1"); got != tt.n1 {
			t.Errorf("row %s: reserved %s, want %s", tt.row, got, tt.n1)
		}
	}
}

// TestMatching needs 5Gi of the class np. The volume good is chosen if v is not suitable.
func TestMatching(t *testing.T) {
	tests := []struct {
		row, claim, volume string
		want               string
	}{
		{"fits", "", "storage=5Gi", "c=v"},
		{"too small", "", "storage=4Gi", "c=good"},
		{"another class", "", "storage=5Gi class=dp", "c=good"},
		{"the annotation's class", "", "storage=5Gi class=dp annotation=volume.beta.kubernetes.io/storage-class=np", "c=v"},
		{"mode", "", "storage=5Gi mode=Block", "c=good"},
		{"no mode is Filesystem", "mode=Filesystem", "storage=5Gi", "c=v"},
		{"attributes", "", "storage=5Gi attributes=gold", "c=good"},
		{"no attributes are empty ones", "attributes=", "storage=5Gi", "c=v"},
		{"being deleted", "", "storage=5Gi deleting", "c=good"},
		{"phase", "", "storage=5Gi phase=Pending", "c=good"},
		{"more modes", "", "storage=5Gi modes=ROX,RWO", "c=v"},
		{"fewer modes", "modes=RWO,RWX", "storage=5Gi modes=RWO", "c=good"},
		{"meant for another", "", "storage=5Gi claim=default/d", "c=good"},
		{"meant for another namespace", "", "storage=5Gi claim=ns/c", "c=good"},
		{"meant for an earlier one", "", "storage=5Gi claim=default/c/old", "c=good"},
		{"meant for it", "", "storage=9Ti claim=default/c", "c=v"},
		{"meant for it, by UID", "", "storage=9Ti claim=default/c/c", "c=v"},
		{"meant for it: no phase, no modes", "modes=RWO,RWX", "storage=9Ti phase=Released modes=ROX claim=default/c", "c=v"},
		{"meant for it, but too small", "", "storage=1Gi claim=default/c", "c=good"},
		{"meant for it, but of another mode", "", "storage=9Ti mode=Block claim=default/c", "c=good"},
	}
	for _, tt := range tests {
		c := storing("n1=", nil, classes(pvc("c", "class=np storage=5Gi "+tt.claim), pv("v", "class=np "+tt.volume), pv("good", "class=np storage=6Gi modes=RWO,RWX"))...)
		if got := reservation(c, pod(claims("c")), "n1"); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.row, got, tt.want)
		}
	}
	selective := pvc("c", "class=np storage=5Gi", wanting("disk=ssd"))
	c := storing("n1=", nil, classes(selective, pv("v", "class=np storage=5Gi"), pv("good", "class=np storage=6Gi label=disk=ssd"))...)
	if got := reservation(c, pod(claims("c")), "n1"); got != "c=good" {
		t.Errorf("selector: got %s", got)
	}
	c.Add(pv("meant", "class=np storage=9Ti claim=default/c", on2()))
	if got := reservation(c, pod(claims("c")), "n1"); got != "rejected" {
		t.Errorf("meant for it, on another node: got %s", got)
	}
}

func TestVolumeBindingScore(t *testing.T) {
	dynamic := having(driver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi", "everything"))
	c30 := pvc("c", "class=np storage=30Gi")
	other, b30 := class("other", ""), pvc("b", "class=other storage=30Gi")
	bend := configv1.VolumeBindingArgs{Shape: []configv1.UtilizationShapePoint{{Utilization: 0}, {Utilization: 50, Score: 3}, {Utilization: 100, Score: 5}}}
	tests := []struct {
		row     string
		objects []runtime.Object
		claims  string
		args    configv1.VolumeBindingArgs
		want    string // n1 and n2
	}{
		{"V11", append(dynamic, pvc("x", "class=dp storage=30Gi"), pvc("y", "class=dp storage=30Gi")), "x y", configv1.VolumeBindingArgs{}, "40 40 -> 40 40"},
		{"V12", having(c30, pv("a", "class=np storage=40Gi", on1()), pv("b", "class=np storage=100Gi", on2())), "c", configv1.VolumeBindingArgs{}, "25 70 -> 25 70"},
		{"V13", having(c30, other, b30, pv("a", "class=np storage=40Gi"), pv("b", "class=other storage=100Gi")), "c b", configv1.VolumeBindingArgs{}, "48 48 -> 48 48"},
		{"V14", append(dynamic, c30, pvc("x", "class=dp storage=10Gi"), pv("a", "class=np storage=40Gi")), "c x", configv1.VolumeBindingArgs{}, "25 25 -> 25 25"},
		{"V15", having(driver("d", "storageCapacity"), pool("a", "class=dp capacity=3Gi", "everything"), pvc("c", "class=dp storage=1Gi")), "c", configv1.VolumeBindingArgs{}, "67 67 -> 67 67"},
		{"V16", append(dynamic, pvc("c", "class=dp storage=75Gi")), "c", bend, "40 40 -> 40 40"},
		{"no capacities", having(pvc("c", "class=dp storage=75Gi")), "c", configv1.VolumeBindingArgs{}, "0 0 -> 0 0"},
		{"bound", having(pvc("c", "bound=v"), pv("v", "phase=Bound")), "c", configv1.VolumeBindingArgs{}, "skip"},
		{"no claims", nil, "", configv1.VolumeBindingArgs{}, "skip"},
		{"room by maximum alone", having(driver("d", "storageCapacity"), pool("a", "class=dp maximum=3Gi", "everything"), pvc("c", "class=dp storage=1Gi")), "c",
			configv1.VolumeBindingArgs{}, "0 0 -> 0 0"},
		{"class by annotation alone", append(dynamic, pvc("c", "storage=1Gi annotation=volume.beta.kubernetes.io/storage-class=dp")), "c", configv1.VolumeBindingArgs{}, "0 0 -> 0 0"},
		{"the first pool by name", having(driver("d", "storageCapacity"), pool("b", "class=dp capacity=10Gi", "everything"), pool("a", "class=dp capacity=20Gi", "everything"),
			pvc("c", "class=dp storage=1Gi")), "c", configv1.VolumeBindingArgs{}, "95 95 -> 95 95"},
	}
	for _, tt := range tests {
		c := storing("n1=z1 n2=z2", nil, classes(tt.objects...)...)
		if got := marks(Judge(c, pod(claims(tt.claims)), Profile{VolumeBinding: tt.args}), "VolumeBinding"); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
		if got := marks(Judge(c, pod(claims(tt.claims)), Profile{StorageCapacityScoringOff: true}), "VolumeBinding"); got != "skip" {
			t.Errorf("row %s, without the gate: got %s", tt.row, got)
		}
	}
}

func TestReserved(t *testing.T) {
	shared := storing("n1=z1 n2=z2", nil, classes(pvc("c", "class=dp storage=1Gi"))...)
	r, _ := ReserveVolumes(shared, pod(claims("c")), "n1")
	if got := ruling(Judge(r.Assume(shared), pod(claims("c"), called("q")), DefaultProfile())); got != "fits conflict" {
		t.Errorf("row V17: got %s", got)
	}
	one := storing("n1=z1 n2=z2", nil, classes(pvc("c", "class=np storage=1Gi version=7"), pvc("d", "class=np storage=1Gi"), pv("v", "class=np storage=10Gi"))...)
	r, _ = ReserveVolumes(one, pod(claims("c")), "n1")
	after := r.Assume(one)
	if got := ruling(Judge(after, pod(claims("d"), called("q")), DefaultProfile())); got != "conflict conflict" {
		t.Errorf("row V18: got %s", got)
	}
	if got := reservation(after, pod(claims("c")), "n2"); got != "c=v" {
		t.Errorf("the claim's own volume: got %s", got)
	}
	ref := after.PersistentVolumes[0].Spec.ClaimRef
	if got, want := fmt.Sprint(ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID, ref.ResourceVersion), "v1PersistentVolumeClaimdefaultcc7"; got != want {
		t.Errorf("the reference to the claim is %s, want %s", got, want)
	}
	if one.PersistentVolumes[0].Spec.ClaimRef != nil || shared.PersistentVolumeClaims[0].Annotations != nil {
		t.Error("Assume has changed the cluster that it was given")
	}
}

func TestReservedObjects(t *testing.T) {
	for text, want := range map[string]string{"": "map[pv.kubernetes.io/bound-by-controller:yes] 7", "claim=default/c": "map[] 7", "claim=default/c/c": "map[] "} {
		c := storing("n1=", nil, classes(pvc("c", "class=np version=7"), pv("v", "class=np storage=1Gi "+text))...)
		r, _ := ReserveVolumes(c, pod(claims("c")), "n1")
		v := r.Volumes()[0]
		if got := fmt.Sprint(v.Annotations, " ", v.Spec.ClaimRef.ResourceVersion); got != want {
			t.Errorf("volume %q: got %s, want %s", text, got, want)
		}
	}
}
