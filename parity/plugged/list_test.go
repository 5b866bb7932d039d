package plugged

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Custom resources of CapacityScheduling and NodeResourceTopologyMatch.
var (
	elasticQuotas  = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "elasticquotas"}
	nodeTopologies = schema.GroupVersionResource{Group: "topology.node.k8s.io", Version: "v1alpha2", Resource: "noderesourcetopologies"}
)

// replacingPreemption enables a plugin instead of DefaultPreemption, and at all other
// points.
func replacingPreemption(name string) string {
	return fmt.Sprintf(`{multiPoint: {enabled: [{name: %s}]}, postFilter: {disabled: [{name: "*"}], enabled: [{name: %s}]}}`, name, name)
}

// elasticQuota gives the namespace 8 CPUs.
func elasticQuota(ctx context.Context, s *stage) error {
	cpus := map[string]any{"cpu": "8"}
	_, err := s.dynamic.Resource(elasticQuotas).Namespace(s.namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": elasticQuotas.GroupVersion().String(), "kind": "ElasticQuota",
		"metadata": map[string]any{"name": "quota"}, "spec": map[string]any{"min": cpus, "max": cpus},
	}}, metav1.CreateOptions{})
	return err
}

// prioritized gives a pod a priority class.
func prioritized(class string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.PriorityClassName = class }
}

// capacityScript uses up the quota: one pod is held back, and a pod of higher priority
// evicts another for its quota.
func capacityScript(ctx context.Context, s *stage) error {
	for i, name := range []string{"first", "second"} { // the second has the lower priority
		if err := s.create(ctx, s.pod(name, 4, prioritized(fmt.Sprintf("plugged-%d", 11-i)))); err != nil {
			return err
		}
		if err := s.bound(ctx, name); err != nil {
			return err
		}
	}
	if err := s.create(ctx, s.pod("beyond", 1, prioritized("plugged-10"))); err != nil {
		return err
	}
	if err := s.pending(ctx, "beyond", "is more than Max"); err != nil {
		return err
	}
	if err := s.remove(ctx, "beyond"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("urgent", 4, prioritized("plugged-20"))); err != nil {
		return err
	}
	if err := s.bound(ctx, "urgent"); err != nil {
		return err
	}
	return s.pods(ctx)
}

// tolerantClass creates a class whose pods only pods of priority 100 may evict.
func tolerantClass(ctx context.Context, s *stage) error {
	const prefix = "preemption-toleration.scheduling.x-k8s.io/"
	for name, value := range map[string]int32{"tolerant": 10, "hurried": 50, "urgent": 100} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if name == "tolerant" {
			class.Annotations = map[string]string{prefix + "minimum-preemptable-priority": "100", prefix + "toleration-seconds": "-1"}
		}
		_, err := s.clients.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// tolerationScript has a victim that an urgent pod may evict and a hurried pod may not.
func tolerationScript(ctx context.Context, s *stage) error {
	if err := s.create(ctx, s.pod("victim", 20, prioritized("tolerant"))); err != nil {
		return err
	}
	if err := s.bound(ctx, "victim"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("hurried", 20, prioritized("hurried"))); err != nil {
		return err
	}
	if err := s.pending(ctx, "hurried", "Insufficient cpu"); err != nil {
		return err
	}
	if err := s.remove(ctx, "hurried"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("urgent", 20, prioritized("urgent"))); err != nil {
		return err
	}
	if err := s.bound(ctx, "urgent"); err != nil {
		return err
	}
	return s.pods(ctx)
}

// guaranteed gives a pod the limits that make it Guaranteed.
func guaranteed(p *v1.Pod) {
	requests := p.Spec.Containers[0].Resources.Requests
	requests[v1.ResourceMemory] = resource.MustParse("1Gi")
	p.Spec.Containers[0].Resources.Limits = requests.DeepCopy()
}

// nodeTopology splits the first node's CPUs between two zones. The second node has one
// zone.
func nodeTopology(ctx context.Context, s *stage) error {
	for i, zones := range []int{2, 1} {
		var list []any
		for z := range zones {
			var resources []any
			for name, amount := range map[string]string{"cpu": fmt.Sprint(8 / zones), "memory": "64Gi"} {
				resources = append(resources, map[string]any{"name": name, "capacity": amount, "allocatable": amount, "available": amount})
			}
			list = append(list, map[string]any{"name": fmt.Sprintf("node-%d", z), "type": "Node", "resources": resources})
		}
		_, err := s.dynamic.Resource(nodeTopologies).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": nodeTopologies.GroupVersion().String(), "kind": "NodeResourceTopology", "metadata": map[string]any{"name": s.nodes[i]},
			"topologyPolicies": []any{"SingleNUMANodeContainerLevel"}, "zones": list,
			"attributes": []any{
				map[string]any{"name": "topologyManagerPolicy", "value": "single-numa-node"},
				map[string]any{"name": "topologyManagerScope", "value": "container"},
			},
		}}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// topologyScript has a pod that fits only in the second node's single zone, and one that
// fits nowhere.
func topologyScript(ctx context.Context, s *stage) error {
	if err := s.create(ctx, s.pod("fits", 6, guaranteed), s.pod("too-large", 9, guaranteed)); err != nil {
		return err
	}
	if err := s.bound(ctx, "fits"); err != nil {
		return err
	}
	return s.pending(ctx, "too-large", "nodes are available")
}
