package oracle

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// The rows L are the worked examples of NodeVolumeLimits; L12 is about events.

// threeVolumes are v1, v2 and v3 of driver d, bound to the claims c1, c2 and c3.
func threeVolumes(more ...runtime.Object) []runtime.Object {
	for _, i := range []string{"1", "2", "3"} {
		more = append(more, pv("v"+i, "phase=Bound csi=d/v"+i), pvc("c"+i, "bound=v"+i))
	}
	return more
}

func TestVolumeLimits(t *testing.T) {
	n1 := func(names ...string) []*v1.Pod {
		var all []*v1.Pod
		for _, name := range names {
			all = append(all, pod(on("n1"), claims(name)))
		}
		return all
	}
	two := csiNode("n1", "d=2")
	must := driver("d", "preventPodSchedulingIfMissing")
	a1, a2 := attached("a1", "attacher=d node=n1 volume=v1"), attached("a2", "attacher=d node=n1 volume=v2")
	later := having(class("slow", "provisioner=d"), pvc("u", "class=slow"), pvc("w", "class=slow"), pvc("p-scratch", "class=slow owner=p"))
	ebs := having(pv("in", "phase=Bound ebs=aws://us-east-1a/vol-1"), pvc("cin", "bound=in"), pv("out", "phase=Bound csi=ebs.csi.aws.com/vol-1"),
		pvc("cout", "bound=out"))
	ebsClass := having(class("ebs", "provisioner=kubernetes.io/aws-ebs"), pvc("u", "class=ebs"))
	stolen := pod(on("n1"), called("q"), ephemeral("scratch"))
	tests := []struct {
		row     string
		pods    []*v1.Pod
		objects []runtime.Object
		pod     *v1.Pod
		want    string
	}{
		{"L1", n1("c1"), threeVolumes(two, a1, a2), pod(claims("c3")), "count"},
		// "count" in kube-scheduler
		{"L2", n1("c1"), threeVolumes(two, a1, a2), pod(claims("c2")), "fits"},
		{"L3", n1("c1"), threeVolumes(two, a1, a2), pod(claims("c1")), "fits"},
		{"L4", n1("c1"), threeVolumes(csiNode("n1", "d=3"), a1, a2), pod(claims("c2")), "fits"},
		{"attached elsewhere", n1("c1"), threeVolumes(two, attached("a", "attacher=d node=n2 volume=v2")), pod(claims("c3")), "fits"},
		{"attached to an unknown volume", n1("c1"), threeVolumes(two, attached("a", "attacher=d node=n1 volume=gone")), pod(claims("c3")), "fits"},
		{"attached without volume", n1("c1"), threeVolumes(two, attached("a", "attacher=d node=n1")), pod(claims("c3")), "fits"},
		{"L5", n1("c1", "c1"), threeVolumes(two), pod(claims("c2")), "fits"},
		{"L6", nil, threeVolumes(driver("d", "")), pod(claims("c1")), "fits"},
		{"L7", nil, threeVolumes(csiNode("n1", "e=5"), must), pod(claims("c1")), "driver"},
		{"L7 without CSINode", nil, threeVolumes(must), pod(claims("c1")), "driver"},
		{"L7 used there", n1("c1"), threeVolumes(csiNode("n1", "e=5"), must), pod(claims("c1")), "driver"},
		{"L7 listed", nil, threeVolumes(csiNode("n1", "d="), must), pod(claims("c1")), "fits"},
		{"L8", nil, threeVolumes(csiNode("n1", "d=0")), pod(claims("c1")), "count"},
		{"L9", []*v1.Pod{pod(on("n1"), claims("cin"))}, append(ebs, csiNode("n1", "ebs.csi.aws.com=1")), pod(claims("cout")), "fits"},
		{"L9 of another ID", []*v1.Pod{pod(on("n1"), disks("ebs=vol-2"))}, append(ebs, csiNode("n1", "ebs.csi.aws.com=1")), pod(claims("cin")), "count"},
		{"L9 inline", []*v1.Pod{pod(on("n1"), disks("ebs=vol-2"))}, append(ebs, csiNode("n1", "ebs.csi.aws.com=1")), pod(disks("ebs=vol-3")), "count"},
		{"L10", n1("u"), append(later, csiNode("n1", "d=1")), pod(claims("u")), "fits"},
		{"L10 two claims", n1("u"), append(later, csiNode("n1", "d=1")), pod(claims("w")), "count"},
		{"ephemeral", n1("u"), append(later, csiNode("n1", "d=1")), pod(ephemeral("scratch")), "count"},
		{"the class of an in-tree plugin", nil, append(ebsClass, csiNode("n1", "ebs.csi.aws.com=0")), pod(claims("u")), "count"},
		{"L11", nil, having(two, csiNode("n1", "d=0"), pv("v", "phase=Bound nfs"), pvc("c", "bound=v")), pod(claims("c")), "fits"},
		{"vSphere is never counted", nil, having(csiNode("n1", "csi.vsphere.vmware.com=0"), pv("v", "phase=Bound vsphere=x"), pvc("c", "bound=v")), pod(claims("c")), "fits"},
		{"terminating pods count", fill("n1=1", ending, claims("c1 c2")), threeVolumes(two), pod(claims("c3")), "count"},
		{"placed pods' missing claims do not", fill("n1=1", claims("c1 gone")), threeVolumes(two), pod(claims("c3")), "fits"},
		{"the others of such a pod do", fill("n1=1", claims("gone c1")), threeVolumes(csiNode("n1", "d=1")), pod(claims("c3")), "count"},
		{"above the limit", n1("c1 c2 c3"), threeVolumes(two), pod(claims("c1")), "fits"},
		{"stolen claim on the node", []*v1.Pod{stolen}, append(threeVolumes(two), pvc("q-scratch", "owner=p")), pod(claims("c1")),
			`error: running "NodeVolumeLimits" filter plugin: PVC default/q-scratch was not created for pod default/q (pod is not owner)`},
		{"stolen, but there is no limit", []*v1.Pod{stolen}, append(threeVolumes(), pvc("q-scratch", "owner=p")), pod(claims("c1")), "fits"},
		{"an EBS volume that is none", nil, having(two), pod(disks("ebs=aws://zone/disk")),
			`error: running "NodeVolumeLimits" filter plugin: converting volume(v0) from inline to csi: ` +
				`failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://zone/disk)`},
	}
	for _, tt := range tests {
		if got := ruling(Judge(storing("n1=", tt.pods, tt.objects...), tt.pod, DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// Other plugins reject a missing claim first.
func TestVolumeLimitsWithoutClaim(t *testing.T) {
	alone := Profile{Disabled: map[string]bool{"VolumeRestrictions": true, "VolumeBinding": true, "VolumeZone": true}}
	want := `UU looking up PVC default/c: persistentvolumeclaim "c" not found`
	if got := ruling(Judge(storing("n1=", nil), pod(claims("c")), alone)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An error on a node is ignored if an earlier plugin rejects the node. Any other error
// ends the cycle, unless the pod's nominated node passes.
func TestFilterError(t *testing.T) {
	cordonedNode := with(zoned("n1= n2="), "n1", cordoned)
	p, want := pod(disks("ebs=aws://zone/disk")), `error: running "NodeVolumeLimits" filter plugin: `
	for text, nodes := range map[string][]*v1.Node{"cordoned fits": cordonedNode, want: zoned("n1= n2=")} {
		c := cluster(nodes)
		c.Add(csiNode("n1", "d=2"))
		if got := ruling(Judge(c, p, DefaultProfile())); len(got) < len(text) || got[:len(text)] != text {
			t.Errorf("got %s, want %s", got, text)
		}
	}
	c := storing("n1= n2=", nil, csiNode("n1", "d=2"))
	p.Status.NominatedNodeName = "n2"
	if a := Judge(c, p, DefaultProfile()); a.Err != nil || a.Nominated != "n2" {
		t.Errorf("nominated to %q, error %v", a.Nominated, a.Err)
	}
}

func TestVolumeLimitsDryRun(t *testing.T) {
	first, second := pod(on("n1"), claims("c1")), pod(on("n1"), claims("c2"))
	a1, a2 := attached("a1", "attacher=d node=n1 volume=v1"), attached("a2", "attacher=d node=n1 volume=v2")
	removed := DryRun{Node: "n1", Removed: []*v1.Pod{second}}
	// Row L13
	for want, objects := range map[string][]runtime.Object{"count": having(a1, a2), "fits": nil} {
		c := storing("n1=", []*v1.Pod{first, second}, append(threeVolumes(csiNode("n1", "d=2")), objects...)...)
		if got := dryRuling(c, pod(claims("c3")), removed); got != want {
			t.Errorf("row L13: got %s, want %s", got, want)
		}
	}
}
