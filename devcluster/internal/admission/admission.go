// Package admission decides whether a kubelet would admit a pod.
//
// It takes a node, the pods that the node has admitted, and one more pod; it gives the reason and the message with which a kubelet refuses
// the pod, or nothing. It owns no state. It never does I/O, and never copies the rules: it calls the admission handlers of the kubelet, so
// that a test of a scheduler does not depend on our understanding of them.
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

// Admit decides whether node admits pod beside the pods it has admitted before. An empty reason means yes; otherwise reason and message are
// those that a kubelet writes. The arguments are only read.
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

// predicates checks resources, host ports, node name, node selector and affinity, and NoExecute taints. A kubelet would evict other
// pods for a critical one; this one refuses it. There are no device plugins, so the node's allocatable is complete as it is.
func predicates(node *v1.Node) lifecycle.PodAdmitHandler {
	return lifecycle.NewPredicateAdmitHandler(
		func(context.Context, bool) (*v1.Node, error) { return node, nil },
		lifecycle.NewAdmissionFailureHandlerStub(),
		func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil },
	)
}

// features checks that the node declares the features that the pod needs.
func features(node *v1.Node) lifecycle.PodAdmitHandler {
	known := nodedeclaredfeatures.DefaultFramework
	return lifecycle.NewDeclaredFeaturesAdmitHandler(known, known.TryMap(node.Status.DeclaredFeatures), release)
}

// prepared copies those parts of a node that are changed for the decision. The kubelet's handler may add a label. A kubelet also skips
// extended resources that its node does not list, because a resource may belong to the cluster; here every resource belongs to a node,
// so a node that does not list one has none of it. Those that a claim of the scheduler's serves are not asked for by then: the handler
// reads that from the pod's status.
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
