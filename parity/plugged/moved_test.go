package plugged

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// These scripts run plugins of sigs.k8s.io/scheduler-plugins, which parity/moved compiles
// into both schedulers.

// coschedulingPoints are Coscheduling's extension points, without QueueSort, because all
// profiles share one.
const coschedulingPoints = `{preFilter: {enabled: [{name: Coscheduling}]}, postFilter: {enabled: [{name: Coscheduling}]}, ` +
	`reserve: {enabled: [{name: Coscheduling}]}, permit: {enabled: [{name: Coscheduling}]}}`

// args returns a plugin's arguments with the type for decoding in both schedulers.
func args(plugin, fields string) string {
	return fmt.Sprintf("[{name: %s, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: %sArgs, %s}}]", plugin, plugin, fields)
}

var movedScripts = map[string]script{
	"coscheduling": {nodes: 1, plugins: coschedulingPoints, config: args("Coscheduling", "permitWaitingTimeSeconds: 30"), run: coschedulingScript},
	"allocatable": {nodes: 3, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesAllocatable}]}}`,
		config:  args("NodeResourcesAllocatable", "mode: Least, resources: [{name: cpu, weight: 1}]"),
		objects: unequalNodes, run: allocatableScript},
	"podstate": {nodes: 2, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: PodState}]}}`, run: podStateScript},
	"packing": {nodes: 3, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: TargetLoadPacking}]}}`,
		config: args("TargetLoadPacking", "watcherAddress: WATCHER, targetUtilization: 60"), run: packingScript},
	"variation": {nodes: 3, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: LoadVariationRiskBalancing}]}}`,
		config: args("LoadVariationRiskBalancing", "watcherAddress: WATCHER"), run: packingScript},
	"overcommit": {nodes: 3, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: LowRiskOverCommitment}]}}`,
		config: args("LowRiskOverCommitment", "watcherAddress: WATCHER"), run: overcommitScript},
	"peaks": {nodes: 3, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: Peaks}]}}`,
		config: args("Peaks", "WatcherAddress: WATCHER, NodePowerModel: {NODE0: {k1: 10, k2: 0.01}, NODE1: {k1: 1, k2: 0.01}, NODE2: {k1: 5, k2: 0.01}}"), run: packingScript},
	"network": {nodes: 3, plugins: `{preFilter: {enabled: [{name: NetworkOverhead}]}, filter: {enabled: [{name: NetworkOverhead}]}, score: {disabled: [{name: "*"}], enabled: [{name: NetworkOverhead}]}}`,
		config: args("NetworkOverhead", "namespaces: [network-upstream, network-berth-01], networkTopologyName: network"), objects: network, run: networkScript},
	"callers": {nodes: 2, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: SySched}]}}`,
		config: args("SySched", "defaultProfileName: none"), objects: callers, run: callersScript},
	"fit-plus": {nodes: 3, plugins: scoringAlone("NodeResourcesFitPlus"),
		config: args("NodeResourcesFitPlus", "resources: {cpu: {type: MostAllocated, weight: 2}, memory: {type: LeastAllocated, weight: 1}}"), run: fitPlusScript},
	"scarce": {nodes: 2, plugins: scoringAlone("ScarceResourceAvoidance"),
		config: args("ScarceResourceAvoidance", "resources: ["+scarceResource+"]"), objects: scarceNode, run: scarceScript},
	"capacity":   {nodes: 1, plugins: replacingPreemption("CapacityScheduling"), objects: elasticQuota, run: capacityScript},
	"toleration": {nodes: 1, plugins: replacingPreemption("PreemptionToleration"), config: args("PreemptionToleration", "minCandidateNodesPercentage: 10, minCandidateNodesAbsolute: 100"), objects: tolerantClass, run: tolerationScript},
	"topology": {nodes: 2, plugins: `{multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}`, config: args("NodeResourceTopologyMatch", "scoringStrategy: {type: LeastAllocated}"),
		objects: nodeTopology, run: topologyScript},
}

// podGroups is the custom resource of Coscheduling.
var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// coschedulingScript has a group that is created at once, and one whose last member is
// late.
func coschedulingScript(ctx context.Context, s *stage) error {
	for _, group := range []string{"complete", "late"} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": podGroups.GroupVersion().String(), "kind": "PodGroup", "metadata": map[string]any{"name": group}, "spec": map[string]any{"minMember": int64(3)},
		}}
		if _, err := s.dynamic.Resource(podGroups).Namespace(s.namespace).Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	member := func(group string, i int) *v1.Pod {
		return s.pod(fmt.Sprintf("%s-%d", group, i), 1, labelled("scheduling.x-k8s.io/pod-group", group))
	}
	if err := s.create(ctx, member("late", 0)); err != nil {
		return err
	}
	// The plugin has seen the groups now and rejects a member because of its group's
	// size.
	if err := s.pending(ctx, "late-0", "current pods number: 1, minMember of group: 3"); err != nil {
		return err
	}
	if err := s.create(ctx, member("complete", 0), member("complete", 1), member("complete", 2)); err != nil {
		return err
	}
	// The last member wakes the rejected ones.
	for i := range 2 {
		if err := s.create(ctx, member("late", 1+i)); err != nil {
			return err
		}
		if i == 0 {
			if err := s.pending(ctx, "late-1", "current pods number: 2, minMember of group: 3"); err != nil {
				return err
			}
		}
	}
	return s.bound(ctx, "late-0", "late-1", "late-2")
}

// unequalNodes removes CPUs from two of three nodes.
func unequalNodes(ctx context.Context, s *stage) error {
	for i, cpus := range []string{"16", "8"} {
		patch := fmt.Appendf(nil, `{"status":{"allocatable":{"cpu":%q}}}`, cpus)
		if _, err := s.clients.CoreV1().Nodes().Patch(ctx, s.nodes[i], types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	return nil
}

// allocatableScript fills the nodes from the smallest to the largest.
func allocatableScript(ctx context.Context, s *stage) error {
	for i := range 5 {
		name := fmt.Sprintf("pod-%d", i)
		if err := s.create(ctx, s.pod(name, 8)); err != nil {
			return err
		}
		if err := s.bound(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// podStateScript has two nodes, with a pod that stays in deletion on one of them.
func podStateScript(ctx context.Context, s *stage) error {
	const finalizer = "plugged.example.com/stay"
	leaving := s.pod("leaving", 1, at(s.nodes[1]))
	leaving.Finalizers = []string{finalizer}
	if err := s.create(ctx, leaving); err != nil {
		return err
	}
	if err := s.bound(ctx, "leaving"); err != nil {
		return err
	}
	if err := s.remove(ctx, "leaving"); err != nil {
		return err
	}
	err := s.create(ctx, s.pod("next-to-it", 1))
	if err == nil {
		err = s.bound(ctx, "next-to-it")
	}
	_, stop := s.clients.CoreV1().Pods(s.namespace).Patch(ctx, "leaving", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	if err == nil {
		err = stop
	}
	return err
}

// overcommitScript has nodes with different loads, with pods whose limits exceed their
// requests.
func overcommitScript(ctx context.Context, s *stage) error {
	overcommits := func(p *v1.Pod) {
		limit := p.Spec.Containers[0].Resources.Requests.Cpu().DeepCopy()
		limit.Add(limit)
		p.Spec.Containers[0].Resources.Limits = v1.ResourceList{v1.ResourceCPU: limit}
	}
	for i := range 3 {
		name := fmt.Sprintf("placed-%d", i)
		if err := s.create(ctx, s.pod(name, 8, overcommits, at(s.nodes[i]))); err != nil {
			return err
		}
		if err := s.bound(ctx, name); err != nil {
			return err
		}
	}
	if err := s.create(ctx, s.pod("pod", 1, overcommits)); err != nil {
		return err
	}
	return s.bound(ctx, "pod")
}

// packingScript has nodes with different loads, from the load-watcher stub.
func packingScript(ctx context.Context, s *stage) error {
	if err := s.create(ctx, s.pod("pod", 1)); err != nil {
		return err
	}
	return s.bound(ctx, "pod")
}

// scoringAlone has a plugin as the only one that scores nodes.
func scoringAlone(name string) string {
	return fmt.Sprintf(`{preScore: {enabled: [{name: %s}]}, score: {disabled: [{name: "*"}], enabled: [{name: %s}]}}`, name, name)
}

// requesting gives a pod a request besides its CPUs.
func requesting(name v1.ResourceName, amount string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		resources := &p.Spec.Containers[0].Resources
		resources.Requests[name] = resource.MustParse(amount)
		if name == scarceResource { // the API demands equal limits of extended resources
			resources.Limits = v1.ResourceList{name: resources.Requests[name]}
		}
	}
}

// fitPlusScript fills nodes differently: pods pack CPUs and spread memory.
func fitPlusScript(ctx context.Context, s *stage) error {
	for i, pod := range []*v1.Pod{
		s.pod("cpus", 16, at(s.nodes[1])), s.pod("few-cpus", 8, requesting(v1.ResourceMemory, "1Gi"), at(s.nodes[0])),
		s.pod("packed", 4), s.pod("with-memory", 1, requesting(v1.ResourceMemory, "100Gi")), s.pod("spread", 1, requesting(v1.ResourceMemory, "50Gi")),
	} {
		if err := s.create(ctx, pod); err != nil {
			return err
		}
		if err := s.bound(ctx, pod.Name); err != nil {
			return fmt.Errorf("pod %d: %w", i, err)
		}
	}
	return nil
}

// scarceResource is a resource of few nodes.
const scarceResource = "plugged.example.com/scarce"

// scarceNode gives it to the first node.
func scarceNode(ctx context.Context, s *stage) error {
	patch := fmt.Appendf(nil, `{"status":{"capacity":{%q:"4"},"allocatable":{%q:"4"}}}`, scarceResource, scarceResource)
	_, err := s.clients.CoreV1().Nodes().Patch(ctx, s.nodes[0], types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// scarceScript has pods that avoid the node with the scarce resource, and one that needs
// it.
func scarceScript(ctx context.Context, s *stage) error {
	for _, pod := range []*v1.Pod{s.pod("avoids", 1), s.pod("needs", 1, requesting(scarceResource, "1")), s.pod("avoids-too", 1)} {
		if err := s.create(ctx, pod); err != nil {
			return err
		}
		if err := s.bound(ctx, pod.Name); err != nil {
			return err
		}
	}
	return nil
}
