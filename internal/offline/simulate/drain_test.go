package simulate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// drainNodes are two nodes of four cores in two zones.
const drainNodes = `
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {topology.kubernetes.io/zone: z1}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b, labels: {topology.kubernetes.io/zone: z2}}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}}
`

// podOf returns a running pod of one core. owner is KIND/NAME or empty; more has further
// fields of the spec.
func podOf(name, node, owner, more string) string {
	meta := fmt.Sprintf("name: %s, namespace: shop, labels: {app: %s}", name, strings.SplitN(name, "-", 2)[0])
	if kind, of, ok := strings.Cut(owner, "/"); ok {
		version := "apps/v1"
		if kind == "Node" {
			version, meta = "v1", meta+`, annotations: {kubernetes.io/config.mirror: x}`
		}
		meta += fmt.Sprintf(", ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: u-%s, controller: true}]", version, kind, of, of)
	}
	if node != "" {
		more += ", nodeName: " + node
	}
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {%s}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: \"1\"}}}]%s}, status: {phase: Running}}\n", meta, more)
}

func budgetOf(name, rule string) string {
	return fmt.Sprintf("---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %s, namespace: shop}, spec: {%s, selector: {matchLabels: {app: %s}}}}\n", name, rule, name)
}

func replicaSetOf(name string, replicas int) string {
	return fmt.Sprintf("---\n{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: %s, namespace: shop}, spec: {replicas: %d, selector: {matchLabels: {app: %s}}, template: {metadata: {labels: {app: %s}}}}}\n", name, replicas, name, name)
}

// drained drains nodes of a cluster, and returns one line for each pod and each node.
func drained(t *testing.T, cluster string, drain Drain) (pods, nodes []string, result *DrainResult) {
	t.Helper()
	files, err := manifest.Decode("cluster.yaml", []byte(cluster))
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	if result, err = RunDrain(Config{Scheduler: scheduler}, files, drain, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range result.Pods {
		pods = append(pods, strings.TrimSpace(fmt.Sprintf("%s %s %s>%s wave %d %s", p.Pod, p.Status, p.From, p.To, p.Wave, p.Message)))
	}
	for _, n := range result.Nodes {
		nodes = append(nodes, strings.TrimSpace(fmt.Sprintf("%s %s %d evicted %d left %s", n.Node, n.Status, n.Evicted, n.Left, n.Message)))
	}
	return pods, nodes, result
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// mixed has a pod of each kind on node a.
var mixed = drainNodes + replicaSetOf("web", 2) + podOf("web-1", "a", "ReplicaSet/web", "") + podOf("web-2", "a", "ReplicaSet/web", "") +
	podOf("agent-1", "a", "DaemonSet/agent", "") + podOf("static-a", "a", "Node/a", "") + podOf("bare", "a", "", "") +
	podOf("cache-0", "a", "StatefulSet/cache", ", volumes: [{name: v, emptyDir: {}}]")

// TestDrainRefusesAsKubectl checks that a node keeps its pods if flags are missing, with
// kubectl's messages.
func TestDrainRefusesAsKubectl(t *testing.T) {
	pods, nodes, _ := drained(t, mixed, Drain{Nodes: []string{"a"}})
	expectLines(t, nodes, "a Undrained 0 evicted 6 left cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): shop/agent-1; "+
		"cannot delete Pods with local storage (use --delete-emptydir-data to override): shop/cache-0; cannot delete Pods that declare no controller (use --force to override): shop/bare")
	expectLines(t, pods,
		"agent-1 InTheWay a> wave 0 DaemonSet pod: use --ignore-daemonsets to leave it",
		"bare InTheWay a> wave 0 no controller: --force evicts it, and it is not recreated",
		"cache-0 InTheWay a> wave 0 has local storage: --delete-emptydir-data evicts it and deletes its emptyDir volumes",
		"static-a Left a> wave 0 is a static pod of the node's kubelet",
		"web-1 InTheWay a> wave 0 not evicted, because other pods block the drain of this node",
		"web-2 InTheWay a> wave 0 not evicted, because other pods block the drain of this node")
}

// TestDrainWithAllFlags moves all pods that can move.
func TestDrainWithAllFlags(t *testing.T) {
	pods, nodes, result := drained(t, mixed+budgetOf("web", "minAvailable: 1"), Drain{Nodes: []string{"a"}, IgnoreDaemonSets: true, DeleteEmptyDirData: true, Force: true})
	expectLines(t, nodes, "a Drained 4 evicted 2 left")
	expectLines(t, pods,
		"agent-1 Left a> wave 0 DaemonSet pod: it would be recreated on this node",
		"bare Gone a> wave 1 no controller: it is not recreated",
		"cache-0 Scheduled a>b wave 1",
		"static-a Left a> wave 0 is a static pod of the node's kubelet",
		"web-1 Scheduled a>b wave 1",
		"web-2 Scheduled a>b wave 2 waited: PodDisruptionBudget web allows no disruption")
	if s := result.Summary; s.Placed != 3 || s.Waiting != 0 || s.Unschedulable != 1 || len(s.Zones) != 2 || s.Zones[1].Resources[0].AfterPercent != 75 {
		t.Errorf("summary %+v", s)
	}
}

// TestDrainSelectsPods evicts the selected pods, and is not refused because of others.
func TestDrainSelectsPods(t *testing.T) {
	pods, nodes, _ := drained(t, mixed, Drain{Nodes: []string{"a"}, PodSelector: labels.SelectorFromSet(labels.Set{"app": "web"})})
	expectLines(t, nodes, "a Drained 2 evicted 0 left")
	expectLines(t, pods, "web-1 Scheduled a>b wave 1", "web-2 Scheduled a>b wave 1")
}

// TestDrainIsBlocked covers a budget that allows no disruption, and a budget whose pods
// find no other node.
func TestDrainIsBlocked(t *testing.T) {
	two := drainNodes + replicaSetOf("web", 2) + podOf("web-1", "a", "ReplicaSet/web", "") + podOf("web-2", "a", "ReplicaSet/web", "")
	pods, nodes, _ := drained(t, two+budgetOf("web", "minAvailable: 2"), Drain{Nodes: []string{"a"}})
	expectLines(t, nodes, "a Blocked 0 evicted 2 left PodDisruptionBudget web allows no disruption")
	expectLines(t, pods, "web-1 Blocked a> wave 0 PodDisruptionBudget web allows no disruption", "web-2 Blocked a> wave 0 PodDisruptionBudget web allows no disruption")

	pods, nodes, _ = drained(t, two+budgetOf("web", "minAvailable: 2"), Drain{Nodes: []string{"a"}, DisableEviction: true})
	expectLines(t, nodes, "a Drained 2 evicted 0 left")
	expectLines(t, pods, "web-1 Scheduled a>b wave 1", "web-2 Scheduled a>b wave 1")

	full := two + budgetOf("web", "maxUnavailable: 1")
	for i := range 4 {
		full += podOf(fmt.Sprintf("other-%d", i), "b", "ReplicaSet/other", "")
	}
	pods, nodes, result := drained(t, full, Drain{Nodes: []string{"a"}})
	expectLines(t, nodes, "a Blocked 1 evicted 1 left PodDisruptionBudget web allows no disruption")
	expectLines(t, pods,
		"web-1 Pending a> wave 1 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.",
		"web-2 Blocked a> wave 0 PodDisruptionBudget web allows no disruption")
	if result.Summary.Waiting != 1 {
		t.Errorf("waiting %d, want 1", result.Summary.Waiting)
	}

	both := two + budgetOf("web", "minAvailable: 0") + strings.Replace(budgetOf("web", "minAvailable: 0"), "name: web,", "name: more,", 1)
	_, nodes, _ = drained(t, both, Drain{Nodes: []string{"a"}})
	expectLines(t, nodes, "a Blocked 0 evicted 2 left the pod has more than one PodDisruptionBudget, which evictions do not support: more, web")
}

// TestDrainOfUnreadyPods covers pods that are not ready. Such a pod is evicted without
// budget if enough other pods are healthy, or if the budget's policy allows it. A pod
// that has not started is always evicted.
func TestDrainOfUnreadyPods(t *testing.T) {
	unready := strings.Replace(podOf("web-1", "a", "ReplicaSet/web", ""), "phase: Running", `phase: Running, conditions: [{type: Ready, status: "False"}]`, 1)
	for _, test := range []struct{ pod, rule, want string }{
		{unready, "minAvailable: 1", "web-1 Scheduled a>b wave 1"}, // web-2 suffices
		{unready, "minAvailable: 2", "web-1 Blocked a> wave 0 PodDisruptionBudget web allows no disruption"},
		{unready, "minAvailable: 2, unhealthyPodEvictionPolicy: AlwaysAllow", "web-1 Scheduled a>b wave 1"},
		{strings.Replace(unready, "phase: Running", "phase: Pending", 1), "minAvailable: 2", "web-1 Scheduled a>b wave 1"},
	} {
		pods, _, _ := drained(t, drainNodes+replicaSetOf("web", 2)+test.pod+podOf("web-2", "b", "ReplicaSet/web", "")+budgetOf("web", test.rule), Drain{Nodes: []string{"a"}})
		expectLines(t, pods, test.want)
	}
}

// TestDrainOfTwoNodes checks that all nodes are cordoned first: evicted pods and pending
// pods do not move to the second node.
func TestDrainOfTwoNodes(t *testing.T) {
	three := drainNodes + "---\n" + strings.ReplaceAll(strings.SplitN(drainNodes, "---", 2)[0], "name: a,", "name: c,") +
		podOf("web-1", "a", "ReplicaSet/web", "") + podOf("web-2", "b", "ReplicaSet/web", "") + strings.Replace(podOf("new", "", "", ""), "phase: Running", "phase: Pending", 1)
	pods, nodes, result := drained(t, three, Drain{Nodes: []string{"b", "a"}})
	expectLines(t, nodes, "b Drained 1 evicted 0 left", "a Drained 1 evicted 0 left")
	expectLines(t, pods, "web-2 Scheduled b>c wave 1", "web-1 Scheduled a>c wave 1")
	if result.Others != 1 || result.Summary.Unschedulable != 2 {
		t.Errorf("%d others, %d nodes unschedulable", result.Others, result.Summary.Unschedulable)
	}
	if zones := result.Summary.Zones; len(zones) != 2 || zones[0].Resources[0].AfterPercent != 37.5 {
		t.Errorf("zones %+v: the three pods should be on c", zones)
	}
}

// TestDrainOfAStatefulSet recreates a StatefulSet's pod when the old one is gone, and
// another controller's pod at once. The latter therefore avoids the zone of the old pod.
func TestDrainOfAStatefulSet(t *testing.T) {
	apart := `, affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: db}}}}]}}`
	nodes := drainNodes + "---\n" + strings.ReplaceAll(strings.SplitN(drainNodes, "---", 2)[0], "name: a,", "name: a2,") + podOf("other-1", "b", "ReplicaSet/other", "") + podOf("other-2", "b", "ReplicaSet/other", "")
	pods, _, _ := drained(t, nodes+podOf("db-0", "a", "StatefulSet/db", apart), Drain{Nodes: []string{"a"}})
	expectLines(t, pods, "db-0 Scheduled a>a2 wave 1")
	pods, _, _ = drained(t, nodes+podOf("db-0", "a", "ReplicaSet/db", apart), Drain{Nodes: []string{"a"}})
	expectLines(t, pods, "db-0 Scheduled a>b wave 1")
}

// TestDrainTaints checks that a drained node has the taint of cordoned nodes, so it is no
// domain for pods that honor taints.
func TestDrainTaints(t *testing.T) {
	spread := `, topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, labelSelector: {matchLabels: {app: web}}}]`
	pods, _, _ := drained(t, drainNodes+podOf("web-1", "a", "ReplicaSet/web", spread)+podOf("web-2", "b", "ReplicaSet/web", spread), Drain{Nodes: []string{"a"}})
	expectLines(t, pods, "web-1 Scheduled a>b wave 1")
}

// TestDrainLeavesMirrorPods recognizes mirror pods by their annotation and by their
// owner.
func TestDrainLeavesMirrorPods(t *testing.T) {
	annotated := strings.Replace(podOf("etcd", "a", "", ""), "labels: {app: etcd}", "labels: {app: etcd}, annotations: {kubernetes.io/config.mirror: x}", 1)
	pods, nodes, _ := drained(t, drainNodes+annotated, Drain{Nodes: []string{"a"}})
	expectLines(t, nodes, "a Drained 0 evicted 1 left")
	expectLines(t, pods, "etcd Left a> wave 0 is a static pod of the node's kubelet")
}
