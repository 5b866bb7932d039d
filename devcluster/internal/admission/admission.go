// Package admission decides whether a kubelet would admit a pod.
//
// It takes a node, its admitted pods and another pod. It returns a kubelet's reason and
// message for a refusal, or nothing. It owns no state and never does I/O. It calls the
// kubelet's own admission handlers, so a scheduler's test does not depend on our reading
// of the rules.
package admission

import (
	"context"
	"maps"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-helpers/nodedeclaredfeatures"
	corehelper "k8s.io/kubernetes/pkg/apis/core/v1/helper"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/devcluster/internal/shape"
)

// release is the version of every simulated kubelet.
var release = version.MustParse(shape.KubeletVersion)

// Admit decides whether node admits pod beside its admitted pods. An empty reason means
// yes; otherwise reason and message are a kubelet's. The arguments are only read.
func Admit(node *v1.Node, admitted []*v1.Pod, pod *v1.Pod) (reason, message string) {
	node = prepared(node, pod)
	attributes := &lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: admitted, Operation: lifecycle.AddOperation}
	for _, handler := range []lifecycle.PodAdmitHandler{predicates(node), features(node)} {
		if result := handler.Admit(context.Background(), attributes); !result.Admit {
			return result.Reason, result.Message
		}
	}
	return "", ""
}

// predicates checks resources, host ports, node name, node selector and affinity, and
// NoExecute taints. A kubelet evicts other pods for a critical one; this handler refuses
// it. Without device plugins the node's allocatable is already complete.
func predicates(node *v1.Node) lifecycle.PodAdmitHandler {
	return lifecycle.NewPredicateAdmitHandler(
		func(context.Context, bool) (*v1.Node, error) { return node, nil },
		lifecycle.NewAdmissionFailureHandlerStub(),
		func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil },
	)
}

// features checks that the node declares the pod's required features.
func features(node *v1.Node) lifecycle.PodAdmitHandler {
	known := nodedeclaredfeatures.DefaultFramework
	return lifecycle.NewDeclaredFeaturesAdmitHandler(known, known.TryMap(node.Status.DeclaredFeatures), release)
}

// prepared copies the parts of a node that change for the decision. The kubelet's handler
// may add a label. A kubelet also ignores extended resources that its node does not list,
// because a resource may belong to the cluster. Here every resource belongs to a node, so
// a node without the entry has none. A request that a claim of the scheduler satisfies is
// removed before: the handler reads the claim from the pod's status.
func prepared(node *v1.Node, pod *v1.Pod) *v1.Node {
	changed := *node
	changed.Labels = maps.Clone(node.Labels)
	changed.Status.Allocatable = maps.Clone(node.Status.Allocatable)
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name := range containers[i].Resources.Requests {
				if _, listed := changed.Status.Allocatable[name]; !listed && corehelper.IsExtendedResourceName(name) {
					if changed.Status.Allocatable == nil {
						changed.Status.Allocatable = v1.ResourceList{}
					}
					changed.Status.Allocatable[name] = resource.Quantity{}
				}
			}
		}
	}
	return &changed
}
