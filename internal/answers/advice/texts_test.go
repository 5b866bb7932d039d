package advice

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

var updateTexts = flag.Bool("update-texts", false, "write what TestTexts finds to testdata, to be reviewed, instead of comparing it")

// TestTexts compares the whole advice, field by field, for one cluster of each sort of
// change.
func TestTexts(t *testing.T) {
	n := func(name string, options ...build.NodeOption) *v1.Node {
		return build.Node(name, append([]build.NodeOption{build.Allocatable("cpu=4 memory=8Gi pods=9"), build.NodeLabels("kubernetes.io/hostname=" + name)}, options...)...)
	}
	on := func(name, node, cpu string, options ...build.PodOption) *v1.Pod {
		return build.Pod(append([]build.PodOption{build.Named(name), build.NodeName(node), build.Container("cpu=" + cpu), build.Labels("app=" + name)}, options...)...)
	}
	waits := func(options ...build.PodOption) *v1.Pod { return build.Pod(append(options, build.Named("waits"))...) }
	nodes := func(all ...*v1.Node) []*v1.Node { return all }
	pods := func(all ...*v1.Pod) []*v1.Pod { return all }
	gates := func(names ...string) build.PodOption {
		return func(p *v1.Pod) {
			for _, name := range names {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: name})
			}
		}
	}
	byName := func(p *v1.Pod) {
		requiring("a Exists")(p)
		term := &p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0]
		term.MatchExpressions, term.MatchFields = nil, build.Requirements("metadata.name In n2")
	}
	port := func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: v1.ProtocolTCP}, {HostPort: 80, ContainerPort: 80, Protocol: v1.ProtocolUDP}, {ContainerPort: 81}}
	}
	never := func(p *v1.Pod) { policy := v1.PreemptNever; p.Spec.PreemptionPolicy = &policy }
	priority := func(of int32) build.PodOption { return func(p *v1.Pod) { p.Spec.Priority = &of } }
	class := func(name string, isDefault bool, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
		c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/" + name, VolumeBindingMode: &mode}
		if isDefault {
			c.Annotations = map[string]string{isDefaultClass: "true"}
		}
		return c
	}
	nominated := func(node string) build.PodOption {
		return func(p *v1.Pod) { p.Status.NominatedNodeName = node }
	}
	devices := func(claims ...string) build.PodOption {
		return func(p *v1.Pod) {
			for _, claim := range claims {
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
			}
		}
	}
	ofTemplate := func(p *v1.Pod) { // The claim of the second is already created.
		template, made, other := "t", "made", "other"
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "unmade", ResourceClaimTemplateName: &template}, {Name: "device", ResourceClaimTemplateName: &template}}
		p.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "unmade"}, {Name: "another", ResourceClaimName: &other}, {Name: "device", ResourceClaimName: &made}}
	}
	deviceClaim := func(name, class string) *resourcev1.ResourceClaim {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
		return claim
	}
	used := func(claim *resourcev1.ResourceClaim, by ...string) *resourcev1.ResourceClaim {
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "device", Driver: "d", Pool: "n1", Device: "one"}}}}
		for _, pod := range by {
			claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod})
		}
		return claim
	}
	ownedBy := func(claim *resourcev1.ResourceClaim, pod *v1.Pod) *resourcev1.ResourceClaim {
		isController := true
		claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &isController}}
		return claim
	}
	on1 := "n1"
	one := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice"}, Spec: resourcev1.ResourceSliceSpec{Driver: "d", NodeName: &on1, Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "one"}}}}
	elsewhere := one.DeepCopy()
	elsewhere.Spec.Pool.Name = "shared"
	anyDevice := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "any"}}
	user, important := on("user", "n1", "1"), on("important", "n1", "1", priority(50))
	user.UID, important.UID = "", ""
	both, everywhere := one.DeepCopy(), one.DeepCopy()
	both.Spec.Devices = append(both.Spec.Devices, resourcev1.Device{Name: "two"})
	everywhere.Spec.NodeName, everywhere.Spec.AllNodes = nil, &[]bool{true}[0]
	second := func(claim *resourcev1.ResourceClaim) *resourcev1.ResourceClaim {
		claim.Status.Allocation.Devices.Results[0].Device = "two"
		return claim
	}
	const late = storagev1.VolumeBindingWaitForFirstConsumer
	small := build.Container("cpu=1")
	two := nodes(n("n1", build.NodeLabels("disk=ssd zone=a")), n("n2", build.NodeLabels("disk=hdd zone=b")))
	var got strings.Builder
	for _, row := range []struct {
		name    string
		nodes   []*v1.Node
		pods    []*v1.Pod
		others  []kinds.Object
		pending int
	}{
		{"a node will do", two, pods(waits(small)), nil, 3},
		{"one gate", two, pods(waits(small, gates("a"))), nil, 3},
		{"two gates", two, pods(waits(small, gates("a", "b"))), nil, 0},
		{"one container", two, pods(on("a", "n1", "1"), on("b", "n2", "2"), waits(build.Container("cpu=5"), never)), nil, 0},
		{"memory", two, pods(waits(build.Container("memory=10Gi"))), nil, 0},
		{"two containers", two, pods(waits(build.Container("cpu=4"), build.Container("cpu=6"))), nil, 0},
		{"the pod itself", two, pods(waits(build.PodRequests("cpu=6"), build.Container("cpu=5"))), nil, 0},
		{"the pod itself, its containers less", two, pods(waits(build.PodRequests("cpu=6"), small)), nil, 0},
		{"the pod itself requests memory", two, pods(waits(build.PodRequests("memory=4Gi"), build.Container("cpu=5"))), nil, 0},
		{"a value", two, pods(waits(small, build.NodeSelector("disk=sdd"))), nil, 2},
		{"a label", two, pods(waits(small, build.NodeSelector("dusk=ssd"))), nil, 0},
		{"a value that nodes have", nodes(n("n1", build.NodeLabels("disk=ssd"), build.Unschedulable), n("n2", build.NodeLabels("disk=hdd"))), pods(waits(small, build.NodeSelector("disk=ssd"))), nil, 0},
		{"in", two, pods(waits(small, requiring("disk In sdd,nvme; zone Exists"))), nil, 0},
		{"not in", two, pods(waits(small, requiring("disk NotIn ssd,hdd"))), nil, 0},
		{"not in one", two, pods(waits(small, requiring("disk NotIn ssd; zone NotIn b"))), nil, 0},
		{"does not exist", two, pods(waits(small, requiring("disk DoesNotExist"))), nil, 0},
		{"two terms", two, pods(waits(small, requiring("disk In nvme", "zone In c; disk In ssd"))), nil, 0},
		{"a name", nodes(n("n1"), n("n2", build.Unschedulable)), pods(waits(small, byName)), nil, 0},
		{"taints", nodes(n("n1", build.Taints("a=b:NoSchedule c:NoExecute")), n("n2", build.Taints("a=b:NoSchedule")), n("n3", build.Taints("node.kubernetes.io/not-ready:NoExecute"))), pods(waits(small)), nil, 0},
		{"cordoned", nodes(n("n1", build.Unschedulable, build.Taints("node.kubernetes.io/unschedulable:NoSchedule"))), pods(waits(small)), nil, 0},
		{"spread", two, pods(on("x", "n1", "1"), on("x2", "n1", "1", build.Labels("app=x")), on("full", "n2", "4"), waits(small, never, build.Labels("app=x"), build.DoNotSchedule("zone", "app=x"))), nil, 0},
		{"anti-affinity", two, pods(on("x", "n1", "1"), on("x2", "n2", "1", build.Labels("app=x")), waits(small, build.RequiredAntiAffinity(build.Term("zone", "app=x"), build.Term("zone", "absent")))), nil, 0},
		{"affinity", two, pods(waits(small, build.RequiredAffinity(build.Term("zone", "app In db,cache; tier Exists")))), nil, 0},
		{"affinity to any", two, pods(waits(small, build.RequiredAffinity(build.Term("rack", "everything")))), nil, 0},
		{"port", nodes(n("n1")), pods(on("x", "n1", "1", port), waits(small, port)), nil, 0},
		{"removal", nodes(n("n1")), pods(on("a", "n1", "1"), on("b", "n1", "1", priority(5)), on("c", "n1", "1"), on("d", "n1", "1"), waits(build.Container("cpu=4"))), nil, 4},
		{"removal without preemption", nodes(n("n1")), pods(on("a", "n1", "3"), waits(build.Container("cpu=2"), never)), nil, 0},
		{"one that is leaving", nodes(n("n1")), pods(on("a", "n1", "4", build.Terminating), waits(build.Container("cpu=4"))), nil, 0},
		{"two that are leaving, and one", nodes(n("n1")), pods(on("a", "n1", "1", build.Terminating), on("b", "n1", "1", build.Terminating), on("c", "n1", "2"), waits(build.Container("cpu=4"))), nil, 0},
		{"a system pod", nodes(n("n1")), pods(on("a", "n1", "4", priority(2_000_000_000)), waits(build.Container("cpu=4"))), nil, 0},
		{"a claim, with classes", nodes(n("n1")), pods(waits(build.Claims("data"))), []kinds.Object{class("a", false, late), class("b", true, late)}, 0},
		{"a claim, where volumes are made at once", nodes(n("n1")), pods(waits(build.Claims("data"))), []kinds.Object{class("a", false, storagev1.VolumeBindingImmediate)}, 0},
		{"a class", nodes(n("n1")), pods(waits(build.Claims("data"))), []kinds.Object{class("a", false, late), build.PersistentVolumeClaim("data", "class=fast storage=1Gi")}, 2},
		{"a class, and no other", nodes(n("n1")), pods(waits(build.Claims("data"))), []kinds.Object{build.PersistentVolumeClaim("data", "class=fast storage=1Gi")}, 0},
		{"two claims", nodes(n("n1")), pods(waits(build.Claims("data logs"))), []kinds.Object{build.PersistentVolume("v1", "storage=1Gi"), build.PersistentVolume("v2", "storage=1Gi")}, 0},
		{"two changes", nodes(n("n1", build.Taints("a=b:NoSchedule"))), pods(waits(build.Container("cpu=8"))), nil, 3},
		{"a pod that is nominated", nodes(n("n1")), pods(build.Pod(build.Named("first"), build.Container("cpu=2"), priority(10), nominated("n1")), waits(build.Container("cpu=3"), never)), nil, 0},
		{"nominated itself", nodes(n("n1")), pods(on("a", "n1", "2"), waits(build.Container("cpu=3"), never, nominated("n1"))), nil, 0},
		{"one page for each container", nodes(n("n1", build.Allocatable("cpu=4 memory=8Gi pods=9 hugepages-2Mi=4Mi"))), pods(waits(build.Container("hugepages-2Mi=8Mi"), build.Container("hugepages-2Mi=2Mi"))), nil, 0},
		{"as much as is left", nodes(n("n1"), n("n2")), pods(on("a", "n1", "3"), on("b", "n2", "4"), waits(build.Container("cpu=2"), never)), nil, 0},
		{"a device each", nodes(n("n1", build.Allocatable("cpu=4 pods=9 example.com/gpu=1")), n("n2", build.Allocatable("cpu=4 pods=9 example.com/gpu=2"))), pods(waits(build.Container("example.com/gpu=2"), build.Container("example.com/gpu=2"))), nil, 0},
		{"ephemeral storage", nodes(n("n1", build.Allocatable("cpu=4 ephemeral-storage=8Gi pods=9"))), pods(waits(build.Container("ephemeral-storage=10Gi"))), nil, 0},
		{"a label whose name is too far", nodes(n("n1", build.NodeLabels("storage=ssd"))), pods(waits(small, build.NodeSelector("disk=ssd"))), nil, 0},
		{"a label of a similar name", nodes(n("n1", build.NodeLabels("topology/storage-class=ssd"))), pods(waits(small, build.NodeSelector("topology/storageclasses=ssd"))), nil, 0},
		{"a label of a similar name rather than another value", nodes(n("n1", build.NodeLabels("disk=nvme")), n("n2", build.NodeLabels("dosk=ssd"))), pods(waits(small, build.NodeSelector("disk=ssd"))), nil, 0},
		{"a claim, with the default class first", nodes(n("n1")), pods(waits(build.Claims("data"))), []kinds.Object{class("a", true, late), class("b", false, late)}, 0},
		{"a label that is demanded, too", nodes(n("n1", build.NodeLabels("a=x b=x"))), pods(waits(small, build.NodeSelector("a=x b=y"))), nil, 0},
		{"a class that would not help", nodes(n("n1", build.Unschedulable, build.Taints("a:NoSchedule"))), pods(waits(build.Claims("data"))), []kinds.Object{build.PersistentVolumeClaim("data", "class=fast storage=1Gi")}, 0},
		{"a class that is there", nodes(n("n1", build.Unschedulable, build.Taints("a:NoSchedule"))), pods(waits(build.Claims("data"))), []kinds.Object{class("fast", false, late), build.PersistentVolumeClaim("data", "class=fast storage=1Gi")}, 0},
		{"a claim that has a volume", nodes(n("n1", build.Unschedulable, build.Taints("a:NoSchedule"))), pods(waits(build.Claims("data"))), []kinds.Object{build.PersistentVolumeClaim("data", "class=fast storage=1Gi volume=v1"), build.PersistentVolume("v1", "storage=1Gi class=fast claim=default/data")}, 0},
		{"a class, where others are of no use", nodes(n("n1")), pods(waits(build.Claims("data"))), []kinds.Object{
			&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner"}, class("a", false, late), build.PersistentVolumeClaim("data", "class=fast storage=1Gi")}, 0},
		{"two classes", nodes(n("n1")), pods(waits(build.Claims("data logs"))), []kinds.Object{build.PersistentVolumeClaim("data", "class=fast storage=1Gi"), build.PersistentVolumeClaim("logs", "class=slow storage=1Gi")}, 0},
		{"two claims for devices", nodes(n("n1")), pods(waits(devices("x", "y"))), []kinds.Object{anyDevice, elsewhere}, 0},
		{"a claim for a device that is not there", nodes(n("n1")), pods(waits(devices("x"))), []kinds.Object{anyDevice, one}, 0},
		{"claims of a template", nodes(n("n1")), pods(waits(ofTemplate)), []kinds.Object{deviceClaim("made", "none")}, 0},
		{"a claim of a pod that uses a device", nodes(n("n1")), pods(user, waits(devices("x"))), []kinds.Object{anyDevice, one, used(deviceClaim("its", "any"), "user"), deviceClaim("x", "any")}, 0},
		{"a claim that goes with its pod", nodes(n("n1")), pods(user, waits(devices("x"))), []kinds.Object{anyDevice, one, ownedBy(used(deviceClaim("its", "any"), "user"), user), deviceClaim("x", "any")}, 0},
		{"a claim that two pods use", nodes(n("n1")), pods(user, on("other", "n1", "1"), waits(devices("x"))), []kinds.Object{anyDevice, one, used(deviceClaim("its", "any"), "user", "other"), deviceClaim("x", "any")}, 0},
		{"a pod that preempts", nodes(n("n1")), pods(on("a", "n1", "4"), waits(build.Container("cpu=2"), priority(10))), []kinds.Object{everywhere}, 0},
		{"more taints than are suggested", nodes(n("n1", build.Taints("a:NoSchedule")), n("n2", build.Taints("b:NoSchedule")), n("n3", build.Taints("c:NoSchedule")), n("n4", build.Taints("d:NoSchedule"))), pods(waits(small)), nil, 0},
		{"one by which more would follow", nodes(n("n1", build.Taints("a:NoSchedule")), n("n2", build.Taints("b:NoSchedule")), n("n3", build.Taints("c:NoSchedule"))), pods(on("x", "n1", "3"), on("y", "n2", "1"), on("z", "n3", "2"), waits(small)), nil, 3},
		{"two thirds of a request", nodes(n("n1", build.Allocatable("cpu=2 memory=8Gi pods=9"))), pods(waits(build.Container("cpu=6"))), nil, 0},
		{"spread over a label that no node has", nodes(n("n1"), n("n2")), pods(waits(small, build.Labels("app=x"), build.DoNotSchedule("rack", "app=x"))), nil, 0},
		{"two constraints in the way", nodes(n("n1"), n("n2")), pods(waits(small, build.Labels("app=x"), build.DoNotSchedule("rack", "app=x"), build.DoNotSchedule("row", "app=x"))), nil, 0},
		{"a priority of its own", nodes(n("n1")), pods(on("a", "n1", "4", priority(7)), waits(build.Container("cpu=2"), priority(5))), nil, 0},
		{"none would follow", nodes(n("n1")), pods(on("x", "n1", "3"), waits(build.Container("cpu=2"), never)), nil, 2},
		{"the device of the lesser pod", nodes(n("n1")), pods(important, user, waits(devices("x"))), []kinds.Object{anyDevice, both,
			used(deviceClaim("a", "any"), "important"), second(used(deviceClaim("b", "any"), "user")), deviceClaim("x", "any")}, 0},
		{"nothing helps", nodes(n("n1", build.Taints("a:NoSchedule b:NoSchedule c:NoSchedule"))), pods(waits(small)), nil, 0},
	} {
		c, q := cluster(t, row.nodes, row.pods, row.others...)
		q.Pending, q.Preempts = row.pending, row.name == "a pod that preempts"
		a := For(c, q)
		fmt.Fprintf(&got, "# %s: %d decisions, cut short: %t, missing: %q\n", row.name, a.Decisions, a.CutShort, a.Missing)
		for _, s := range a.Suggestions {
			text, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			pod, set, gone := s.Apply(q.Pod)
			fmt.Fprintf(&got, "%s\n", text)
			for _, o := range set {
				text, err := json.Marshal(o)
				if err != nil {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "  set %T %s\n", o, text)
			}
			for _, o := range gone {
				fmt.Fprintf(&got, "  gone %T %s/%s\n", o, o.GetNamespace(), o.GetName())
			}
			if diff := cmp.Diff(q.Pod, pod); (diff == "") != (s.Changes[0].edit == nil && s.Changes[len(s.Changes)-1].edit == nil) {
				t.Errorf("%s: %s: the pod differs by\n%s", row.name, text, diff)
			}
		}
	}
	const file = "testdata/texts.txt"
	if *updateTexts {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
}
