package nodevolumelimits

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var (
	pv, pvc, class, csiNode, driverObject = build.PersistentVolume, build.PersistentVolumeClaim, build.StorageClass, build.CSINode, build.CSIDriver
	claims, disks, ephemeral, attached    = build.Claims, build.Disks, build.Ephemeral, build.VolumeAttachment
)

// cluster returns a state with a node n1, pods on it, and objects.
func cluster(pods []*v1.Pod, objects ...runtime.Object) *state.State {
	s := state.New()
	all := []runtime.Object{&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"}}}
	for i, p := range pods {
		if p.Name == "p" {
			build.Named(fmt.Sprint("q", i))(p)
		}
		all = append(all, p)
	}
	plugintest.Set(s, append(all, objects...)...)
	return s
}

func waiting(options ...build.PodOption) *model.Pod { return model.NewPod(build.Pod(options...)) }

// n1 returns a pod on the node for each text of claims.
func n1(names ...string) []*v1.Pod {
	var all []*v1.Pod
	for _, name := range names {
		all = append(all, build.Pod(build.NodeName("n1"), claims(name)))
	}
	return all
}

// inShort abbreviates the reasons.
func inShort(ruling string) string {
	return strings.NewReplacer("U node(s) exceed max volume count", "count", " CSI driver is not installed on the node", " is missing").Replace(ruling)
}

// threeVolumes are v1, v2 and v3 of driver d, bound to the claims c1, c2 and c3.
func threeVolumes(more ...runtime.Object) []runtime.Object {
	for _, i := range []string{"1", "2", "3"} {
		more = append(more, pv("v"+i, "phase=Bound csi=d/v"+i), pvc("c"+i, "bound=v"+i))
	}
	return more
}

// The rows L are the worked examples of the plugin; L12 is about events.
func TestFilter(t *testing.T) {
	two := csiNode("n1", "d=2")
	must := driverObject("d", "preventPodSchedulingIfMissing")
	mustEBS := driverObject("ebs.csi.aws.com", "preventPodSchedulingIfMissing")
	a1, a2 := attached("a1", "attacher=d node=n1 volume=v1"), attached("a2", "attacher=d node=n1 volume=v2")
	having := func(objects ...runtime.Object) []runtime.Object { return objects }
	later := having(class("slow", "provisioner=d"), pvc("u", "class=slow"), pvc("w", "class=slow"), pvc("x", "class=gone"), pvc("y", ""),
		pvc("lost", "volume=gone class=slow"), pvc("p-scratch", "class=slow owner=p"))
	ebs := having(pv("in", "phase=Bound ebs=aws://us-east-1a/vol-1"), pvc("cin", "bound=in"), pv("out", "phase=Bound csi=ebs.csi.aws.com/vol-1"),
		pvc("cout", "bound=out"))
	ebsClass := having(class("ebs", "provisioner=kubernetes.io/aws-ebs"), pvc("u", "class=ebs"))
	ebs1 := csiNode("n1", "ebs.csi.aws.com=1")
	on1 := build.NodeName("n1")
	stolen := func() []*v1.Pod { return []*v1.Pod{build.Pod(on1, build.Named("q"), ephemeral("scratch"))} }
	broken := func() []*v1.Pod { return []*v1.Pod{build.Pod(on1, disks("ebs=aws://z/disk"))} }
	const (
		notOwner  = `E PVC default/q-scratch was not created for pod default/q (pod is not owner)`
		untrans   = "E converting volume(v0) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/disk)"
		noSuchC4  = `UU looking up PVC default/c4: persistentvolumeclaim "c4" not found`
		ownsTwice = `E PVC default/p-scratch was not created for pod default/p (pod is not owner)`
	)
	for _, row := range []struct {
		name    string
		pods    []*v1.Pod
		objects []runtime.Object
		waiting []build.PodOption
		want    string
	}{
		{"no volumes", nil, nil, nil, "skip"},
		{"none that counts", nil, having(csiNode("n1", "file.csi.azure.com=0")), []build.PodOption{disks("azurefile=s/x vsphere=x csi=d")}, "skip"},
		{"L1", n1("c1"), threeVolumes(two, a1, a2), []build.PodOption{claims("c3")}, "count"},
		{"L2", n1("c1"), threeVolumes(two, a1, a2), []build.PodOption{claims("c2")}, "fits"},
		{"L2 with another", n1("c1"), threeVolumes(two, a1, a2), []build.PodOption{claims("c2 c3")}, "count"},
		{"L2 by handle", n1("c1"), threeVolumes(two, a1, a2, pv("again", "phase=Bound csi=d/v2"), pvc("again", "bound=again")), []build.PodOption{claims("again")}, "fits"},
		{"L2 by another driver", n1("c1"), threeVolumes(two, a1, attached("a2", "attacher=e node=n1 volume=v2"), pv("v4", "phase=Bound csi=d/v4"), pvc("c4", "bound=v4")), []build.PodOption{claims("c2 c4")}, "count"},
		{"L2 above the limit", n1("c1"), threeVolumes(csiNode("n1", "d=1"), a1, a2), []build.PodOption{claims("c2")}, "fits"},
		{"L2 attached elsewhere", n1("c1"), threeVolumes(csiNode("n1", "d=1"), attached("a", "attacher=d node=n2 volume=v2")), []build.PodOption{claims("c2")}, "count"},
		{"L3", n1("c1"), threeVolumes(two, a1, a2), []build.PodOption{claims("c1")}, "fits"},
		{"L4", n1("c1"), threeVolumes(csiNode("n1", "d=3"), a1, a2), []build.PodOption{claims("c2")}, "fits"},
		{"attached elsewhere", n1("c1"), threeVolumes(two, attached("a", "attacher=d node=n2 volume=v2")), []build.PodOption{claims("c3")}, "fits"},
		{"attached to an unknown volume", n1("c1"), threeVolumes(two, attached("a", "attacher=d node=n1 volume=gone")), []build.PodOption{claims("c3")}, "fits"},
		{"attached without volume", n1("c1"), threeVolumes(two, attached("a", "attacher=d node=n1")), []build.PodOption{claims("c3")}, "fits"},
		{"attached by another driver", n1("c1"), threeVolumes(two, attached("a", "attacher=e node=n1 volume=v2")), []build.PodOption{claims("c3")}, "fits"},
		{"in-tree volume attached", nil, append(ebs, ebs1, attached("a", "attacher=ebs.csi.aws.com node=n1 volume=in")), []build.PodOption{claims("cout")}, "fits"},
		{"L5", n1("c1", "c1"), threeVolumes(two), []build.PodOption{claims("c2")}, "fits"},
		{"L6", nil, threeVolumes(driverObject("d", "")), []build.PodOption{claims("c1")}, "fits"},
		{"L7", nil, threeVolumes(csiNode("n1", "e=5"), must), []build.PodOption{claims("c1")}, "U d is missing"},
		{"L7 without CSINode", nil, threeVolumes(must), []build.PodOption{claims("c1")}, "U d is missing"},
		{"L7 used there", n1("c1"), threeVolumes(csiNode("n1", "e=5"), must), []build.PodOption{claims("c1")}, "U d is missing"},
		{"L7 listed", nil, threeVolumes(csiNode("n1", "d="), must), []build.PodOption{claims("c1")}, "fits"},
		{"L7 before the limit of another", nil, append(append(threeVolumes(csiNode("n1", "d=0 e=0"), mustEBS), ebs...), must), []build.PodOption{claims("c1 cout")},
			"U ebs.csi.aws.com is missing"},
		{"in-tree volumes need no driver without CSINode", nil, append(ebs, mustEBS), []build.PodOption{claims("cin")}, "fits"},
		{"others do", nil, append(ebs, mustEBS), []build.PodOption{claims("cin cout")}, "U ebs.csi.aws.com is missing"},
		{"in-tree volumes need a driver with CSINode", nil, append(ebs, mustEBS, csiNode("n1", "")), []build.PodOption{claims("cin")}, "U ebs.csi.aws.com is missing"},
		{"L8", nil, threeVolumes(csiNode("n1", "d=0")), []build.PodOption{claims("c1")}, "count"},
		{"no limit", n1("c1 c2"), threeVolumes(csiNode("n1", "d= e=0")), []build.PodOption{claims("c3")}, "fits"},
		{"L9", []*v1.Pod{build.Pod(on1, claims("cin"))}, append(ebs, ebs1), []build.PodOption{claims("cout")}, "fits"},
		{"L9 both are the pod's", nil, append(ebs, ebs1), []build.PodOption{claims("cout cin")}, "fits"},
		{"L9 of another ID", []*v1.Pod{build.Pod(on1, disks("ebs=vol-2"))}, append(ebs, ebs1), []build.PodOption{claims("cin")}, "count"},
		{"L9 inline", []*v1.Pod{build.Pod(on1, disks("ebs=vol-2"))}, append(ebs, ebs1), []build.PodOption{disks("ebs=vol-3")}, "count"},
		{"L9 inline, the same", []*v1.Pod{build.Pod(on1, disks("ebs=vol-2"))}, append(ebs, ebs1), []build.PodOption{disks("ebs=vol-2")}, "fits"},
		{"L10", n1("u"), append(later, csiNode("n1", "d=1")), []build.PodOption{claims("u")}, "fits"},
		{"L10 two claims", n1("u"), append(later, csiNode("n1", "d=1")), []build.PodOption{claims("w")}, "count"},
		{"without class", nil, append(later, csiNode("n1", "d=0")), []build.PodOption{claims("x y")}, "skip"},
		{"volume not there yet", nil, append(later, csiNode("n1", "d=0")), []build.PodOption{claims("lost")}, "count"},
		{"ephemeral", n1("u"), append(later, csiNode("n1", "d=1")), []build.PodOption{ephemeral("scratch")}, "count"},
		{"the class of an in-tree plugin", nil, append(ebsClass, csiNode("n1", "ebs.csi.aws.com=0")), []build.PodOption{claims("u")}, "count"},
		{"L11", nil, having(csiNode("n1", "d=0"), pv("v", "phase=Bound nfs"), pvc("c", "bound=v")), []build.PodOption{claims("c")}, "skip"},
		{"vSphere is never counted", nil, having(csiNode("n1", "csi.vsphere.vmware.com=0"), pv("v", "phase=Bound vsphere=x"), pvc("c", "bound=v")), []build.PodOption{claims("c")}, "skip"},
		{"terminating pods count", []*v1.Pod{build.Pod(on1, build.Terminating, claims("c1 c2"))}, threeVolumes(two), []build.PodOption{claims("c3")}, "count"},
		{"placed pods' missing claims do not", n1("c1 gone"), threeVolumes(two), []build.PodOption{claims("c3")}, "fits"},
		{"the others of such a pod do", n1("gone c1"), threeVolumes(csiNode("n1", "d=1")), []build.PodOption{claims("c3")}, "count"},
		{"above the limit", n1("c1 c2 c3"), threeVolumes(two), []build.PodOption{claims("c1")}, "fits"},
		{"above the limit with another", n1("c1 c2"), threeVolumes(csiNode("n1", "d=1")), []build.PodOption{claims("c1 c3")}, "count"},
		{"missing claim", nil, threeVolumes(csiNode("n1", "d=0")), []build.PodOption{claims("c1 c4")}, noSuchC4},
		{"no name", nil, nil, []build.PodOption{func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}}
		}}, "E PersistentVolumeClaim had no name"},
		{"stolen claim", nil, having(pvc("p-scratch", "owner=x")), []build.PodOption{ephemeral("scratch")}, ownsTwice},
		{"stolen claim on the node", stolen(), append(threeVolumes(two), pvc("q-scratch", "owner=p")), []build.PodOption{claims("c1")}, notOwner},
		{"stolen, whatever the limit is of", stolen(), append(threeVolumes(csiNode("n1", "e=1")), pvc("q-scratch", "owner=p")), []build.PodOption{claims("c1")}, notOwner},
		{"stolen, but there is no limit", stolen(), append(threeVolumes(csiNode("n1", "d=")), pvc("q-scratch", "owner=p")), []build.PodOption{claims("c1")}, "fits"},
		{"stolen, but nothing counts", stolen(), having(two, pvc("q-scratch", "owner=p"), pv("v", "phase=Bound nfs"), pvc("c", "bound=v")), []build.PodOption{claims("c")}, "skip"},
		{"an EBS volume that is none", nil, having(two), []build.PodOption{disks("ebs=aws://z/disk")}, untrans},
		{"an EBS volume that is none, without CSINode", nil, nil, []build.PodOption{disks("ebs=aws://z/disk")}, "fits"},
		{"an EBS volume that is none, before a missing claim", nil, having(two), []build.PodOption{disks("ebs=aws://z/disk"), claims("c4")}, untrans},
		{"likewise without CSINode", nil, nil, []build.PodOption{disks("ebs=aws://z/disk"), claims("c4")}, noSuchC4},
		{"after a missing claim", nil, having(two), []build.PodOption{claims("c4"), disks("ebs=aws://z/disk")}, noSuchC4},
		{"an EBS volume that is none on the node", broken(), threeVolumes(two), []build.PodOption{claims("c1")}, untrans},
		{"an EBS volume that is none on the node, without CSINode", broken(), threeVolumes(), []build.PodOption{claims("c1")}, "fits"},
	} {
		s := cluster(row.pods, row.objects...)
		if got := inShort(plugintest.Ruling(New(), waiting(row.waiting...), s.View(), s.View())); got != row.want {
			t.Errorf("row %s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestDryRun(t *testing.T) {
	first, second := n1("c1")[0], n1("c2")[0]
	a1, a2 := attached("a1", "attacher=d node=n1 volume=v1"), attached("a2", "attacher=d node=n1 volume=v2")
	for _, row := range []struct {
		want    string
		objects []runtime.Object
		// Row L13
	}{{"count", threeVolumes(csiNode("n1", "d=2"), a1, a2)}, {"fits", threeVolumes(csiNode("n1", "d=2"))}} {
		s := cluster([]*v1.Pod{first, second}, row.objects...)
		d := s.View().DryRun(new(state.Draft))
		d.Remove(model.NewPod(second).Key())
		if got := inShort(plugintest.Ruling(New(), waiting(claims("c3")), s.View(), d.View())); got != row.want {
			t.Errorf("row L13: %s, want %s", got, row.want)
		}
	}
}

// A pod that is nominated to the node shares an unused volume with the waiting pod. With
// both on the node the volume counts once. In a turn in a draft the same holds for the
// draft's pods.
func TestSharedWithPodsThatAreNotPlaced(t *testing.T) {
	nominated := build.Pod(build.Named("nominee"), build.NominatedNodeName("n1"), claims("c1"))
	s := cluster(nil, threeVolumes(csiNode("n1", "d=1"), nominated)...)
	d := s.View().DryRun(new(state.Draft))
	d.Add(model.NewPod(nominated), 0)
	pod := waiting(claims("c1"))
	if got := plugintest.Ruling(New(), pod, s.View(), d.View()); got != "fits" {
		t.Errorf("beside the nominated pod: %s", got)
	}
	if got := inShort(plugintest.Ruling(New(), waiting(claims("c2")), s.View(), d.View())); got != "count" {
		t.Errorf("another volume beside the nominated pod: %s", got)
	}
	for _, option := range []build.PodOption{claims("c2"), disks("ebs=vol-1")} {
		s = cluster(nil, threeVolumes(csiNode("n1", "d=1 ebs.csi.aws.com=1"))...)
		draft := s.View().Draft()
		draft.Add(waiting(build.Named("member"), option), 0)
		if got := plugintest.Ruling(New(), waiting(option), draft.View(), draft.View()); got != "fits" {
			t.Errorf("beside a pod of the draft: %s", got)
		}
	}
	// A dry run may add a pod whose volumes cannot be counted.
	s = cluster(nil, threeVolumes(csiNode("n1", "d=1"))...)
	d = s.View().DryRun(new(state.Draft))
	d.Add(waiting(build.Named("nominee"), disks("ebs=aws://z/disk")), 0)
	if got := plugintest.Ruling(New(), pod, s.View(), d.View()); got != "E the volumes of a pod that is nominated to the node cannot be counted" {
		t.Errorf("beside a nominated pod that cannot be counted: %s", got)
	}
}

func TestNeed(t *testing.T) {
	s := cluster(n1("c3"), append(threeVolumes(), pv("other", "csi=e/v1"), pvc("other", "bound=other"), pv("in", "ebs=vol-1"), pvc("in", "bound=in"),
		pv("out", "csi=ebs.csi.aws.com/vol-2"), pvc("out", "bound=out"), pv("nfs", "nfs"), pvc("nfs", "bound=nfs"))...)
	type options = []build.PodOption
	for _, row := range []struct {
		name       string
		one, other options
		equal      bool
	}{
		{"claims of their own", options{claims("c1")}, options{claims("c2")}, true},
		{"repetition", options{claims("c1")}, options{claims("c2 c2")}, true},
		{"order", options{claims("c1 other")}, options{claims("other c2")}, true},
		{"what does not count", options{claims("c1")}, options{claims("c1 nfs"), disks("vsphere=x")}, true},
		{"in-tree, with a driver that need not be installed", options{claims("in")}, options{claims("out")}, true},
		{"inline", options{claims("in")}, options{disks("ebs=vol-3")}, true},
		{"number", options{claims("c1")}, options{claims("c1 c2")}, false},
		{"driver", options{claims("c1")}, options{claims("other")}, false},
		{"in use", options{claims("c1")}, options{claims("c3")}, false},
		{"errors", options{claims("gone")}, options{claims("lost")}, false},
		{"error or none", options{claims("c1")}, options{claims("c1"), disks("ebs=aws://z/disk")}, false},
	} {
		one, other := plugintest.NeedIn(New(), waiting(row.one...), s.View()), plugintest.NeedIn(New(), waiting(row.other...), s.View())
		if got := one == other; got != row.equal || one == "" {
			t.Errorf("%s: equal = %t, want %t: %s and %s", row.name, got, row.equal, one, other)
		}
	}
	for claim, driver := range map[string]string{"c1": "d", "in": "ebs.csi.aws.com"} {
		before := plugintest.NeedIn(New(), waiting(claims(claim)), s.View())
		plugintest.Set(s, driverObject(driver, "preventPodSchedulingIfMissing"))
		if plugintest.NeedIn(New(), waiting(claims(claim)), s.View()) == before {
			t.Errorf("the need does not say that driver %s must be installed", driver)
		}
	}
	if in, out := plugintest.NeedIn(New(), waiting(claims("in")), s.View()), plugintest.NeedIn(New(), waiting(claims("out")), s.View()); in == out {
		t.Errorf("in-tree volumes, which need no driver on nodes without CSINode, have the need %s of others", in)
	}
}

// A thousand pods with a claim each share one need, while a hundred others are on nodes.
func TestOneNeedForMany(t *testing.T) {
	var objects []runtime.Object
	for i := range 1100 {
		objects = append(objects, pv(fmt.Sprint("v", i), fmt.Sprint("csi=d/h", i)), pvc(fmt.Sprint("c", i), fmt.Sprint("bound=v", i)))
	}
	s := cluster(nil, objects...)
	for i := range 100 {
		plugintest.Set(s, build.Pod(build.Named(fmt.Sprint("q", i)), build.NodeName("n1"), claims(fmt.Sprint("c", 1000+i))))
	}
	needs := map[string]bool{}
	for i := range 1000 {
		needs[plugintest.NeedIn(New(), waiting(claims(fmt.Sprint("c", i))), s.View())] = true
	}
	if len(needs) != 1 {
		t.Errorf("%d needs", len(needs))
	}
}

func TestEventsToRegister(t *testing.T) {
	deleted := func(options ...build.PodOption) model.Event {
		return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: waiting(options...)}
	}
	driver := func(before, after string) model.Event {
		e := model.Event{Resource: model.CSIDriverEvent, Action: model.Update, OldObject: model.NewCSIDriver(driverObject("d", before))}
		if after == "gone" {
			e.Action = model.Delete
		} else {
			e.Object = model.NewCSIDriver(driverObject("d", after))
		}
		return e
	}
	claim := func(name, text string) model.Event {
		return model.Event{Resource: model.PersistentVolumeClaimEvent, Action: model.Add, Object: model.NewClaim(pvc(name, text))}
	}
	updated := func(before, now string) model.Event {
		return model.Event{Resource: model.CSINodeEvent, Action: model.Update, OldObject: model.NewCSINode(csiNode("n", before)), Object: model.NewCSINode(csiNode("n", now))}
	}
	on := build.NodeName("n")
	withClaim, withDisk, withEphemeral := waiting(claims("c"), disks("ebs=vol-1")), waiting(disks("ebs=vol-1")), waiting(ephemeral("e"))
	for _, row := range []struct {
		name    string
		waiting *model.Pod
		event   model.Event
		want    bool
	}{
		{"CSINode", withDisk, model.Event{Resource: model.CSINodeEvent, Action: model.Add, Object: model.NewCSINode(csiNode("n", ""))}, true},
		{"CSINode gone", withDisk, model.Event{Resource: model.CSINodeEvent, Action: model.Delete, OldObject: model.NewCSINode(csiNode("n", ""))}, true},
		{"L12 without a limit", withDisk, updated("", "d="), true},
		{"L12 with a limit", withDisk, updated("", "d=5"), true},
		{"limit 0, of a driver that may be required", withDisk, updated("", "d=0"), true},
		{"limit raised", withDisk, updated("d=1 e=3", "e=2 d=2"), true},
		{"limit lowered", withDisk, updated("d=2", "d=1"), false},
		{"limit lifted", withDisk, updated("d=2", "d="), true},
		{"limit set to 0", withDisk, updated("d=", "d=0"), false},
		{"limit set", withDisk, updated("d=", "d=1"), false},
		{"driver gone, with its limit", withDisk, updated("d=2", ""), true},
		{"driver without a limit gone", withDisk, updated("d=", ""), false},
		{"pod with a claim gone", withDisk, deleted(on, claims("x")), true},
		{"nominated pod gone", withDisk, deleted(build.NominatedNodeName("n"), claims("x")), true},
		{"pod that was nowhere gone", withDisk, deleted(claims("x")), false},
		{"pod with an ephemeral volume gone", withDisk, deleted(on, ephemeral("x")), true},
		{"pod with a disk gone", withDisk, deleted(on, disks("cinder=x")), true},
		{"pod with a disk that is never counted gone", withDisk, deleted(on, disks("vsphere=x")), true},
		{"pod with another disk gone", withDisk, deleted(on, disks("iscsi=x/0 csi=d emptydir")), false},
		{"pod without volumes gone", withDisk, deleted(on), false},
		{"claim", withClaim, claim("c", ""), true},
		{"other claim", withClaim, claim("d", ""), false},
		{"claim of another namespace", withClaim, claim("c", "namespace=b"), false},
		{"ephemeral claim", withEphemeral, claim("p-e", ""), true},
		{"claim, but the pod has none", withDisk, claim("c", ""), false},
		{"driver required no more", withClaim, driver("preventPodSchedulingIfMissing", ""), true},
		{"driver required", withClaim, driver("", "preventPodSchedulingIfMissing"), false},
		{"driver required as before", withClaim, driver("preventPodSchedulingIfMissing", "preventPodSchedulingIfMissing"), false},
		{"required driver gone", withClaim, driver("preventPodSchedulingIfMissing", "gone"), true},
		{"node", withClaim, model.Event{Resource: model.NodeEvent, Action: model.Add}, true},
	} {
		if got := plugintest.Helped(t, New(), row.waiting, row.event); got != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, got, row.want)
		}
		resource := row.event.Resource
		if found := plugintest.Found(New(), row.waiting, row.event); resource == model.PersistentVolumeClaimEvent && found != row.want {
			t.Errorf("%s: found = %t, want %t", row.name, found, row.want)
		}
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	s := cluster(append(n1("c1", "c2"), build.Pod(build.Named("q"), build.NodeName("n1"), ephemeral("e"))),
		threeVolumes(csiNode("n1", "d=5"), driverObject("d", "preventPodSchedulingIfMissing"), pvc("q-e", "owner=q"))...)
	broken := cluster([]*v1.Pod{build.Pod(build.Named("q"), build.NodeName("n1"), ephemeral("e"))}, threeVolumes(csiNode("n1", "d=5"), pvc("q-e", "owner=p"))...)
	for name, s := range map[string]*state.State{"counted": s, "stolen": broken} {
		found, _ := New().FilterNeedIn(s.View(), waiting(claims("c1 c3")))
		need := found.Need
		filter := need.Compile()
		if allocs := testing.AllocsPerRun(100, func() { filter.Filter(s.Node(0)) }); allocs != 0 {
			t.Errorf("%s: Filter allocates %v times", name, allocs)
		}
	}
}
