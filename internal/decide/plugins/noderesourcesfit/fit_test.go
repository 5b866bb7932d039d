package noderesourcesfit

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// list parses "cpu=1 memory=2Gi".
var list = build.Resources

func nodeOf(allocatable string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1.NodeStatus{Allocatable: list(allocatable)}}
}

// podOf returns a pod with one container for each request.
func podOf(requests ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	for i, r := range requests {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Requests: list(r)},
		})
	}
	return pod
}

// strategy returns arguments; resources are "name=weight".
func strategy(kind configv1.ScoringStrategyType, resources string, shape ...configv1.UtilizationShapePoint) *configv1.NodeResourcesFitArgs {
	s := &configv1.ScoringStrategy{Type: kind}
	for _, entry := range strings.Fields(resources) {
		name, weight, _ := strings.Cut(entry, "=")
		w := resource.MustParse(weight)
		s.Resources = append(s.Resources, configv1.ResourceSpec{Name: name, Weight: w.Value()})
	}
	if shape != nil {
		s.RequestedToCapacityRatio = &configv1.RequestedToCapacityRatioParam{Shape: shape}
	}
	return &configv1.NodeResourcesFitArgs{ScoringStrategy: s}
}

func newPlugin(t testing.TB, args *configv1.NodeResourcesFitArgs) *Plugin {
	t.Helper()
	p, err := New(args)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
