package neighbours

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

const karpenterModule = "sigs.k8s.io/karpenter"

var (
	nodePools  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}
	nodeClaims = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
)

var karpenter = neighbour{
	nodes:   1,
	gates:   "GenericWorkload=true",
	install: installKarpenter,
	scenes: []scene{
		{"scale-up", playScaleUp},
		{"one-per-node", playOnePerNode},
		{"zones", playZones},
		{"soft-zones", playSoftZones},
		{"preferred-zone", playPreferredZone},
		{"gated", playGated},
		{"impossible", playImpossible},
		{"preemptor", playPreemptor},
		{"volume-zone", playVolumeZone},
		{"group", playGroup},
		{"empty-nodes", playEmptyNodes},
		{"consolidation", playConsolidation},
	},
}

// installKarpenter creates Karpenter's definitions and starts it with its kwok provider,
// whose instances are Node objects. The development cluster keeps these alive.
func installKarpenter(ctx context.Context, s *stage) error {
	for _, path := range []string{
		"pkg/apis/crds/karpenter.sh_nodepools.yaml",
		"pkg/apis/crds/karpenter.sh_nodeclaims.yaml",
		"pkg/apis/crds/karpenter.sh_nodeoverlays.yaml",
		"pkg/apis/crds/autoscaling.x-k8s.io_capacitybuffers.yaml",
		"kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
	} {
		text, err := moduleFile(ctx, "karpenter", karpenterModule, strings.Split(path, "/")...)
		if err != nil {
			return err
		}
		if err := s.apply(ctx, string(text)); err != nil {
			return err
		}
	}
	if err := s.apply(ctx, "apiVersion: karpenter.kwok.sh/v1alpha1\nkind: KWOKNodeClass\nmetadata: {name: default}"); err != nil {
		return err
	}
	s.t.Setenv("KUBECONFIG", s.cluster.Kubeconfig) // it has no flag
	metrics, err := rig.FreePort()
	if err != nil {
		return err
	}
	health, err := rig.FreePort()
	if err != nil {
		return err
	}
	process, err := s.start(nil, "karpenter", "--disable-leader-election=true", "--metrics-port", metrics, "--health-probe-port", health,
		"--log-output-paths=stderr", "--batch-max-duration=3s")
	if err != nil {
		return err
	}
	// A NodePool becomes ready by its manager's work.
	s.namespace = metav1.NamespaceDefault
	if err := s.pool(ctx, "first", "Never"); err != nil {
		return err
	}
	err = poll(ctx, 2*time.Minute, func() error {
		if err := process.Failure(); err != nil {
			return err
		}
		pool, err := s.dynamic.Resource(nodePools).Get(ctx, "first", metav1.GetOptions{})
		if err == nil && !strings.Contains(conditions(pool), "Ready (Ready)") {
			err = fmt.Errorf("the NodePool is not ready: %s", conditions(pool))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("start Karpenter: %w\n%s", err, process.Log())
	}
	return s.dynamic.Resource(nodePools).Delete(ctx, "first", metav1.DeleteOptions{})
}

// pool creates a NodePool, for pods that select it by its name. A scene's pool has the
// name of the scene.
func (s *stage) pool(ctx context.Context, name, consolidateAfter string) error {
	return s.apply(ctx, fmt.Sprintf(`
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: %s}
spec:
  limits: {cpu: 500}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: %s, budgets: [{nodes: "100%%"}]}
  template:
    spec:
      expireAfter: Never
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.kwok.sh/instance-family, operator: In, values: [c]}
      - {key: karpenter.kwok.sh/instance-size, operator: NotIn, values: [1x, 2x]}
`, name, consolidateAfter))
}

// ownPool creates the scene's pool and returns a selector for pods. Pool and nodes are
// deleted at the end of the scene.
func (s *stage) ownPool(ctx context.Context, consolidateAfter string) (string, error) {
	s.cleanup = append(s.cleanup, s.deletePools)
	return fmt.Sprintf("nodeSelector: {karpenter.sh/nodepool: %s}, ", s.namespace), s.pool(ctx, s.namespace, consolidateAfter)
}

func (s *stage) deletePools(ctx context.Context) error {
	err := s.dynamic.Resource(nodePools).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	if err != nil {
		return err
	}
	return poll(ctx, 2*time.Minute, func() error {
		list, err := s.dynamic.Resource(nodeClaims).List(ctx, metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d NodeClaims are left", len(list.Items))
		}
		return err
	})
}

// poolState is a text of the scene's nodes and pods: types of nodes with the numbers of
// their pods, and the conditions of pending pods.
func (s *stage) poolState(ctx context.Context) (string, error) {
	pods, err := s.list(ctx)
	if err != nil {
		return "", err
	}
	nodes, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + s.namespace})
	if err != nil {
		return "", err
	}
	counts, lines := map[string]int{}, []string{}
	for _, pod := range pods {
		if pod.Spec.NodeName != "" {
			counts[pod.Spec.NodeName]++
			continue
		}
		nominated := ""
		if pod.Status.NominatedNodeName != "" {
			nominated = ", nominated"
		}
		lines = append(lines, "pending: "+scheduled(&pod)+nominated)
	}
	for _, node := range nodes.Items {
		lines = append(lines, fmt.Sprintf("node %s with %d pods", node.Labels[v1.LabelInstanceTypeStable], counts[node.Name]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// notePool notes the state of the pool once it has not changed for a time.
func (s *stage) notePool(ctx context.Context, what string, quiet time.Duration) error {
	if err := s.settle(ctx, quiet, s.poolState); err != nil {
		return err
	}
	state, err := s.poolState(ctx)
	s.note("%s:\n%s", what, state)
	return err
}

// batch is longer than Karpenter collects pending pods.
const batch = 8 * time.Second

// grow creates a Deployment for a new pool and notes the nodes once all pods are bound.
func (s *stage) grow(ctx context.Context, replicas, cpus int, spec string) error {
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("web", replicas, selector+spec+containers(cpus))); err != nil {
		return err
	}
	if err := s.bound(ctx, replicas); err != nil {
		return err
	}
	return s.notePool(ctx, "all pods are bound", batch)
}

func playScaleUp(ctx context.Context, s *stage) error { return s.grow(ctx, 6, 4, "") }

func playOnePerNode(ctx context.Context, s *stage) error {
	return s.grow(ctx, 3, 2, "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
		"[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}]}}, ")
}

func zoneSpread(unsatisfiable string) string {
	return "topologySpreadConstraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: " + unsatisfiable +
		", labelSelector: {matchLabels: {app: web}}}], "
}

func playZones(ctx context.Context, s *stage) error {
	if err := s.grow(ctx, 4, 4, zoneSpread("DoNotSchedule")); err != nil {
		return err
	}
	return s.noteState(ctx, byLabel(v1.LabelTopologyZone))
}

// playSoftZones: Karpenter takes the preference for a requirement, so it adds nodes in
// several zones. By its other preferences, the scheduler may leave a node empty.
func playSoftZones(ctx context.Context, s *stage) error {
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("web", 4, selector+zoneSpread("ScheduleAnyway")+containers(4))); err != nil {
		return err
	}
	if err := s.bound(ctx, 4); err != nil {
		return err
	}
	nodes, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + s.namespace})
	if err != nil {
		return err
	}
	zones := map[string]bool{}
	for _, node := range nodes.Items {
		zones[node.Labels[v1.LabelTopologyZone]] = true
	}
	s.note("nodes in more than one zone: %t", len(zones) > 1)
	return nil
}

func playPreferredZone(ctx context.Context, s *stage) error {
	return s.grow(ctx, 2, 4, "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "+
		"[{weight: 1, preference: {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [test-zone-b]}]}}]}}, ")
}

// playGated: no node is added for a pod with a gate, and one is when the gate is gone.
func playGated(ctx context.Context, s *stage) error {
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, pod("gated", selector+"schedulingGates: [{name: example.com/wait}], "+containers(4))); err != nil {
		return err
	}
	if err := s.notePool(ctx, "gated", batch); err != nil {
		return err
	}
	gate := []byte(`{"spec":{"schedulingGates":null}}`)
	if _, err := s.clients.CoreV1().Pods(s.namespace).Patch(ctx, "gated", mergePatch, gate, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := s.bound(ctx, 1); err != nil {
		return err
	}
	return s.notePool(ctx, "without the gate", batch)
}

// pod returns a pod.
func pod(name, spec string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {terminationGracePeriodSeconds: 0, %s}\n", name, spec)
}

// playImpossible: no node is added for a pod that is larger than every instance.
func playImpossible(ctx context.Context, s *stage) error {
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, pod("huge", selector+containers(400))); err != nil {
		return err
	}
	return s.notePool(ctx, "larger than every instance", batch)
}

// playPreemptor: no node is added for a pod that preempts another. The controller creates
// the victim again, and a node is added for it.
func playPreemptor(ctx context.Context, s *stage) error {
	if err := s.priorities(ctx); err != nil {
		return err
	}
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("low", 1, selector+"priorityClassName: low, "+containers(3))); err != nil {
		return err
	}
	if err := s.bound(ctx, 1); err != nil {
		return err
	}
	if err := s.notePool(ctx, "one pod", batch); err != nil {
		return err
	}
	if err := s.apply(ctx, pod("high", selector+"priorityClassName: high, "+containers(3))); err != nil {
		return err
	}
	if err := s.bound(ctx, 2); err != nil {
		return err
	}
	if err := s.notePool(ctx, "after a preemption", batch); err != nil {
		return err
	}
	s.note("pods created: %d", s.created())
	return nil
}

// playVolumeZone: the pod's volume is reachable from one zone only.
func playVolumeZone(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  storageClassName: manual
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: %[1]s, name: data}
  csi: {driver: volumes.example.com, volumeHandle: data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [test-zone-c]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
  storageClassName: manual
  volumeName: %[1]s
`, s.namespace)); err != nil {
		return err
	}
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, pod("db", selector+"volumes: [{name: data, persistentVolumeClaim: {claimName: data}}], "+containers(4))); err != nil {
		return err
	}
	if err := s.bound(ctx, 1); err != nil {
		return err
	}
	if err := s.notePool(ctx, "bound", batch); err != nil {
		return err
	}
	return s.noteZones(ctx)
}

// noteZones notes the zones of the pool's nodes.
func (s *stage) noteZones(ctx context.Context) error {
	nodes, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + s.namespace})
	if err != nil {
		return err
	}
	var zones []string
	for _, node := range nodes.Items {
		zones = append(zones, node.Labels[v1.LabelTopologyZone])
	}
	slices.Sort(zones)
	s.note("zones: %v", zones)
	return nil
}

// playEmptyNodes: a node whose pods are gone is removed.
func playEmptyNodes(ctx context.Context, s *stage) error {
	selector, err := s.ownPool(ctx, "2s")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("web", 2, selector+containers(8))); err != nil {
		return err
	}
	if err := s.bound(ctx, 2); err != nil {
		return err
	}
	if err := s.notePool(ctx, "with pods", batch); err != nil {
		return err
	}
	if err := s.scale(ctx, "web", 0); err != nil {
		return err
	}
	err = poll(ctx, time.Minute, func() error {
		state, err := s.poolState(ctx)
		if err == nil && state != "" {
			err = errors.New(state)
		}
		return err
	})
	if err == nil {
		s.note("without pods, without nodes")
	}
	return err
}

// playConsolidation: the pods of nodes that are hardly used move to one node. The other
// nodes are removed.
func playConsolidation(ctx context.Context, s *stage) error {
	selector, err := s.ownPool(ctx, "2s")
	if err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("large", 3, selector+"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "+
		"[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: large}}}]}}, "+containers(3))); err != nil {
		return err
	}
	if err := s.bound(ctx, 3); err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("small", 3, selector+containers(6))); err != nil {
		return err
	}
	if err := s.bound(ctx, 6); err != nil {
		return err
	}
	if err := s.scale(ctx, "large", 1); err != nil {
		return err
	}
	if err := s.settle(ctx, 40*time.Second, s.poolState); err != nil {
		return err
	}
	nodes, err := s.clients.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: "karpenter.sh/nodepool=" + s.namespace})
	if err != nil {
		return err
	}
	s.note("nodes: %d", len(nodes.Items))
	return s.bound(ctx, 4)
}

// playGroup: no node is added for members that wait for others of their group, and nodes
// for all once the group is complete.
func playGroup(ctx context.Context, s *stage) error {
	selector, err := s.ownPool(ctx, "Never")
	if err != nil {
		return err
	}
	members := func(from, to int) string {
		var text strings.Builder
		for i := from; i < to; i++ {
			text.WriteString(pod(fmt.Sprintf("train-%d", i), selector+"schedulingGroup: {podGroupName: train}, "+containers(20)) + "---\n")
		}
		return text.String()
	}
	group := "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: train}\n" +
		"spec: {schedulingPolicy: {gang: {minCount: 3}}}\n---\n"
	if err := s.apply(ctx, group+members(0, 2)); err != nil {
		return err
	}
	if err := s.notePool(ctx, "two of three members", batch); err != nil {
		return err
	}
	if err := s.apply(ctx, members(2, 3)); err != nil {
		return err
	}
	if err := s.bound(ctx, 3); err != nil {
		return err
	}
	return s.notePool(ctx, "all members", batch)
}
