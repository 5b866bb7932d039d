package plugged

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Custom resources of NetworkOverhead, TopologicalSort and SySched.
var (
	appGroups         = schema.GroupVersionResource{Group: "appgroup.diktyo.x-k8s.io", Version: "v1alpha1", Resource: "appgroups"}
	networkTopologies = schema.GroupVersionResource{Group: "networktopology.diktyo.x-k8s.io", Version: "v1alpha1", Resource: "networktopologies"}
	seccompProfiles   = schema.GroupVersionResource{Group: "security-profiles-operator.x-k8s.io", Version: "v1beta1", Resource: "seccompprofiles"}
)

// object creates a custom resource in the script's namespace.
func (s *stage) object(ctx context.Context, resource schema.GroupVersionResource, kind, name string, fields map[string]any) error {
	object := map[string]any{"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name}}
	for field, value := range fields {
		object[field] = value
	}
	_, err := s.dynamic.Resource(resource).Namespace(s.namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// workload returns a reference to a workload of an AppGroup.
func workload(name string) map[string]any {
	return map[string]any{"kind": "Deployment", "name": name, "selector": name, "apiVersion": "apps/v1"}
}

// application creates an AppGroup whose later workloads depend on the first, each with
// its maximum cost. The group's order is reversed: the last workload is the first.
func (s *stage) application(ctx context.Context, costs map[string]int64, names ...string) error {
	var workloads, order []any
	for i, name := range names {
		one := map[string]any{"workload": workload(name)}
		if i > 0 {
			one["dependencies"] = []any{map[string]any{"workload": workload(names[0]), "maxNetworkCost": costs[name]}}
		}
		workloads = append(workloads, one)
		order = append(order, map[string]any{"workload": workload(name), "index": int64(len(names) - i)})
	}
	return s.object(ctx, appGroups, "AppGroup", "application", map[string]any{
		"spec":   map[string]any{"numMembers": int64(len(names)), "topologySortingAlgorithm": "KahnSort", "workloads": workloads},
		"status": map[string]any{"topologyOrder": order},
	})
}

// part adds a pod to a workload of the AppGroup.
func part(name string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Labels["appgroup.diktyo.x-k8s.io"], p.Labels["appgroup.diktyo.x-k8s.io.workload"] = "application", name
	}
}

// network puts each node into its own zone. From the first node's zone, the second is
// near and the third far.
func network(ctx context.Context, s *stage) error {
	var origins []any
	for i, cost := range []int64{0, 5, 20} {
		zone := fmt.Sprintf("network-%d", i)
		for label, value := range map[string]string{v1.LabelTopologyRegion: "network", v1.LabelTopologyZone: zone} {
			if err := s.labelNode(ctx, s.nodes[i], label, value); err != nil {
				return err
			}
		}
		if i > 0 {
			origins = append(origins, map[string]any{
				"origin": zone, "costList": []any{map[string]any{"destination": "network-0", "networkCost": cost}},
			})
		}
	}
	err := s.object(ctx, networkTopologies, "NetworkTopology", "network", map[string]any{"spec": map[string]any{
		"configmapName": "none", "weights": []any{map[string]any{
			"name": "UserDefined", "topologyList": []any{map[string]any{"topologyKey": v1.LabelTopologyZone, "originList": origins}},
		}},
	}})
	if err != nil {
		return err
	}
	return s.application(ctx, map[string]int64{"near": 30, "next": 30, "close": 1}, "base", "near", "next", "close")
}

// networkScript has pods that depend on a pod on the first node. One fits beside it. One
// goes to the cheapest node when the first is full. One would cost too much on any other
// node.
func networkScript(ctx context.Context, s *stage) error {
	for _, pod := range []*v1.Pod{s.pod("base", 20, part("base"), at(s.nodes[0])), s.pod("near", 10, part("near")), s.pod("next", 10, part("next"))} {
		if err := s.create(ctx, pod); err != nil {
			return err
		}
		if err := s.bound(ctx, pod.Name); err != nil {
			return err
		}
	}
	if err := s.create(ctx, s.pod("close", 10, part("close"))); err != nil {
		return err
	}
	return s.pending(ctx, "close", "does not meet several network requirements")
}

// orderedApplication has two workloads, the second first in order.
func orderedApplication(ctx context.Context, s *stage) error {
	return s.application(ctx, nil, "a", "b")
}

// topologicalScript has two pods of an AppGroup wait for a node with room for one.
func topologicalScript(ctx context.Context, s *stage) error {
	return s.firstOf(ctx, "pod-1", s.pod("pod-0", 20, part("a")), s.pod("pod-1", 20, part("b")))
}

// confined gives a pod a seccomp profile.
func (s *stage) confined(profile string) func(*v1.Pod) {
	path := fmt.Sprintf("operator/%s/%s.json", s.namespace, profile)
	return func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &path}}
	}
}

// callers runs a pod with many system calls on the first node and a pod with few on the
// second.
func callers(ctx context.Context, s *stage) error {
	for i, profile := range []string{"many", "few"} {
		calls := []any{"read", "write", "mount", "ptrace", "bpf", "setns"}[:6-4*i]
		err := s.object(ctx, seccompProfiles, "SeccompProfile", profile, map[string]any{"spec": map[string]any{
			"defaultAction": "SCMP_ACT_ERRNO", "syscalls": []any{map[string]any{"action": "SCMP_ACT_ALLOW", "names": calls}},
		}})
		if err != nil {
			return err
		}
		pod := s.pod("placed-"+profile, 1, s.confined(profile))
		pod.Spec.NodeName = s.nodes[i]
		if err := s.create(ctx, pod); err != nil {
			return err
		}
		if _, err := s.until(ctx, pod.Name, "running", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }); err != nil {
			return err
		}
	}
	return nil
}

// callersScript checks that pods go to nodes with pods of the same system calls.
func callersScript(ctx context.Context, s *stage) error {
	for _, profile := range []string{"few", "many"} {
		if err := s.create(ctx, s.pod(profile, 1, s.confined(profile))); err != nil {
			return err
		}
		if err := s.bound(ctx, profile); err != nil {
			return err
		}
	}
	return nil
}
