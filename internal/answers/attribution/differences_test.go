package attribution

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// changed returns a copy of an object with a change.
func changed[T any, P interface {
	*T
	DeepCopy() *T
}](of P, by func(P)) P {
	made := P(of.DeepCopy())
	by(made)
	return made
}

// written lists differences one per line: kind, nodes, fraction of a node, and text.
func written(d *Differences) string {
	var lines []string
	for i := range d.units {
		u := &d.units[i]
		lines = append(lines, fmt.Sprintf("%s %v %.2g %s", u.Kind, u.nodes, u.weight, u.Text))
	}
	return strings.Join(lines, "\n")
}

// TestDifferencesOfNodes expects the fields of a node that scheduling can read, aspect by
// aspect, and nothing else.
func TestDifferencesOfNodes(t *testing.T) {
	taint := func(key, value string, effect v1.TaintEffect) v1.Taint {
		return v1.Taint{Key: key, Value: value, Effect: effect}
	}
	node := build.Node("n", build.Allocatable("cpu=4 memory=8Gi pods=110"), build.NodeLabels("a=1 b=2 c=3 d=4"))
	tainted := changed(node, func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{taint("k", "v", v1.TaintEffectNoSchedule), taint("l", "", v1.TaintEffectNoExecute)}
	})
	cordon := func(n *v1.Node) {
		n.Spec.Unschedulable, n.Spec.Taints = true, append([]v1.Taint{taint(v1.TaintNodeUnschedulable, "", v1.TaintEffectNoSchedule)}, n.Spec.Taints...)
	}
	for _, row := range []struct {
		then, now *v1.Node
		want      string
	}{
		{node, node, ""},
		{nil, node, "nodeNew [n] 1 node n is new"},
		{node, nil, "nodeGone [n] 1 node n is gone"},
		{tainted, changed(tainted, func(n *v1.Node) {
			n.UID, n.ResourceVersion, n.Generation, n.CreationTimestamp = "other", "9", 9, metav1.Time{Time: time.Unix(9, 0)}
			n.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, LastHeartbeatTime: metav1.Time{Time: time.Unix(9, 0)}}}
			n.Spec.Taints[0].TimeAdded = &metav1.Time{Time: time.Unix(9, 0)}
		}), ""},
		{tainted, changed(tainted, cordon), "cordon [n] 1 node n was cordoned"},
		{changed(tainted, cordon), tainted, "cordon [n] 1 node n was uncordoned"},
		{node, changed(node, func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{taint(v1.TaintNodeUnschedulable, "", v1.TaintEffectNoSchedule)}
		}), "cordon [n] 1 node n was cordoned"},
		{node, tainted, "taints [n] 1 node n has the taint k=v:NoSchedule, has the taint l:NoExecute"},
		{tainted, changed(node, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{taint("k", "w", v1.TaintEffectNoSchedule)} }),
			"taints [n] 1 node n has the taint k=w:NoSchedule, is without the taint k=v:NoSchedule, is without the taint l:NoExecute"},
		{tainted, changed(tainted, func(n *v1.Node) { slices.Reverse(n.Spec.Taints) }), "taints [n] 1 node n has its taints in another order, or from another time"},
		{node, changed(node, func(n *v1.Node) { n.Labels = map[string]string{"a": "1", "b": "3", "d": "4", "e": "5"} }), "labels [n] 1 node n has other labels: b=3 instead of 2, without c=3, e=5"},
		{node, changed(node, func(n *v1.Node) { n.Labels = nil }), "labels [n] 1 node n has other labels: without a=1, without b=2, without c=3 and 1 more"},
		{node, changed(node, func(n *v1.Node) { n.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("3") }), "allocatable [n] 1 node n has another allocatable: cpu 3 instead of 4"},
		{node, changed(node, func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: []string{"image"}, SizeBytes: 5}} }), "nodeOther [n] 1 node n has other images or features"},
		{node, changed(node, func(n *v1.Node) { cordon(n); n.Labels["a"] = "9" }), "cordon [n] 1 node n was cordoned\nlabels [n] 1 node n has other labels: a=9 instead of 1"},
	} {
		if got := written(Between(objectsOf(row.then), objectsOf(row.now), model.PodKey{})); got != row.want {
			t.Errorf("got\n%s\nwant\n%s", got, row.want)
		}
	}
}

func objectsOf(node *v1.Node) (o Objects) {
	if node != nil {
		o.Nodes = []*v1.Node{node}
	}
	return o
}

// TestDifferencesOfPods expects the fields of another pod that scheduling can read.
func TestDifferencesOfPods(t *testing.T) {
	nodes := []*v1.Node{build.Node("n", build.Allocatable("cpu=4 memory=8Gi")), build.Node("m", build.Allocatable("cpu=1 memory=64Gi"))}
	pod := build.Pod(build.Named("p"), build.InNamespace("a"), build.NodeName("n"), build.Container("cpu=1 memory=1Gi example.com/none=0"))
	nominated := changed(pod, func(p *v1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "", "n" })
	with := func(by func(p *v1.Pod)) *v1.Pod { return changed(pod, by) }
	for _, row := range []struct {
		then, now *v1.Pod
		want      string
	}{
		{nil, pod, "podCame [n] 0.25 pod a/p came to node n (cpu 1, memory 1Gi)"},
		{nil, nominated, "podCame [n] 0.25 pod a/p is nominated to node n (cpu 1, memory 1Gi)"},
		{pod, nil, "podLeft [n] 0.25 pod a/p is no longer on node n (cpu 1, memory 1Gi)"},
		{nominated, nil, "podLeft [n] 0.25 pod a/p is no longer nominated to node n (cpu 1, memory 1Gi)"},
		{pod, with(func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), "podLeft [n] 0.25 pod a/p is no longer on node n (cpu 1, memory 1Gi)"},
		{nil, with(func(p *v1.Pod) { p.Spec.NodeName = "" }), ""},
		{nil, with(func(p *v1.Pod) { p.Spec.Containers = nil }), "podCame [n] 0 pod a/p came to node n"},
		{nil, with(func(p *v1.Pod) { p.Spec.NodeName = "unknown" }), "podCame [unknown] 0 pod a/p came to node unknown (cpu 1, memory 1Gi)"},
		{pod, with(func(p *v1.Pod) { p.Spec.NodeName = "m" }), "podMoved [n m] 1 pod a/p is on node m instead of n (cpu 1, memory 1Gi)"},
		{pod, with(func(p *v1.Pod) {
			p.ResourceVersion, p.Status.ObservedGeneration, p.Generation = "9", 9, 9
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
		}), ""},
		{pod, with(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2") }), "podChanged [n] 0.5 pod a/p on node n requests another amount: cpu 2 instead of 1"},
		{pod, with(func(p *v1.Pod) { p.UID = "other" }), "podChanged [n] 0.25 pod a/p on node n is another one of that name"},
		{pod, with(func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)} }), "podChanged [n] 0.25 pod a/p on node n is being deleted"},
		{pod, with(func(p *v1.Pod) { p.Spec.Priority = new(int32(7)) }), "podChanged [n] 0.25 pod a/p on node n has priority 7 instead of 0"},
		{pod, with(func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }), "podChanged [n] 0.25 pod a/p on node n has other labels: a=b"},
		{nominated, pod, "podChanged [n] 0.25 pod a/p on node n is bound, and was nominated"},
	} {
		then, now := Objects{Nodes: nodes}, Objects{Nodes: nodes}
		if row.then != nil {
			then.Pods = []*v1.Pod{row.then}
		}
		if row.now != nil {
			now.Pods = []*v1.Pod{row.now}
		}
		if got := written(Between(then, now, model.PodKey{})); got != row.want {
			t.Errorf("got\n%s\nwant\n%s", got, row.want)
		}
	}
}

// TestDifferencesOfThePod expects each part of the pod itself as a separate difference.
func TestDifferencesOfThePod(t *testing.T) {
	pod := build.Pod(build.Named("p"), build.InNamespace("a"), build.Container("cpu=1"), build.NodeSelector("a=b"))
	key := model.PodKey{Namespace: "a", Name: "p"}
	for _, row := range []struct {
		by   func(p *v1.Pod)
		want string
	}{
		{func(p *v1.Pod) {
			p.Spec.NodeName, p.Status.Phase, p.Status.NominatedNodeName, p.DeletionTimestamp = "n", v1.PodRunning, "m", &metav1.Time{Time: time.Unix(9, 0)}
		}, ""},
		{func(p *v1.Pod) {
			at := metav1.Time{Time: time.Unix(9, 0)}
			p.CreationTimestamp, p.Status.StartTime, p.Status.Conditions = at, &at, []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
		}, ""},
		{func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} }, "labels: a=b"},
		{func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("2") }, "requests: cpu 2 instead of 1"},
		{func(p *v1.Pod) { p.Spec.Containers[0].Image = "other" }, "containers"},
		{func(p *v1.Pod) { p.Spec.NodeSelector["a"] = "c" }, "node selector: a=c instead of b"},
		{func(p *v1.Pod) { p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}} }, "affinity"},
		{func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "k"}} }, "tolerations"},
		{func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1}} }, "topology spread constraints"},
		{func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, "volumes and claims"},
		{func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "r"}} }, "volumes and claims"},
		{func(p *v1.Pod) { p.Spec.Priority = new(int32(7)) }, "priority: 7 instead of 0"},
		{func(p *v1.Pod) { p.Spec.PreemptionPolicy = new(v1.PreemptNever) }, "preemption policy"},
		{func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}} }, "scheduling gates"},
		{func(p *v1.Pod) { p.Status.NominatedNodeName = "n" }, `nominated node: "n" instead of ""`},
		{func(p *v1.Pod) { p.Spec.SchedulerName = "other" }, "fields"},
		{func(p *v1.Pod) { p.UID = "other" }, "fields"},
	} {
		want := row.want
		if want != "" {
			want = "own [] 0 the pod has other " + want
		}
		d := Between(Objects{Pods: []*v1.Pod{pod}}, Objects{Pods: []*v1.Pod{changed(pod, row.by)}}, key)
		if got := written(d); got != want || len(d.asked[0].units) != len(d.units) {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}

// TestDifferencesOfOthers expects objects of other kinds by namespace and name, and
// objects that describe a node with the node.
func TestDifferencesOfOthers(t *testing.T) {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Provisioner: "p"}
	for _, row := range []struct {
		then, now kinds.Object
		want      string
	}{
		{nil, claim, "objectNew [] 1 PersistentVolumeClaim a/c is new"},
		{class, nil, "objectGone [] 1 StorageClass s is gone"},
		{claim, changed(claim, func(c *v1.PersistentVolumeClaim) { c.ResourceVersion = "9" }), ""},
		{claim, changed(claim, func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), "objectChanged [] 1 PersistentVolumeClaim a/c has changed"},
		{nil, build.CSINode("n", "d=3"), "objectNew [n] 1 CSINode n is new"},
	} {
		var then, now Objects
		if row.then != nil {
			then.Others = []kinds.Object{row.then}
		}
		if row.now != nil {
			now.Others = []kinds.Object{row.now}
		}
		if got := written(Between(then, now, model.PodKey{})); got != row.want {
			t.Errorf("got\n%s\nwant\n%s", got, row.want)
		}
	}
}
