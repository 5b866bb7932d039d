package advice_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
)

// TestOwnersAreNamed: a gate or a node selector of a known controller is left to it, and
// labels of node pools are set on no other node.
func TestOwnersAreNamed(t *testing.T) {
	gated := func(gates ...string) build.PodOption {
		return func(p *v1.Pod) {
			for _, gate := range gates {
				p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: gate})
			}
		}
	}
	selecting := func(key, value string) build.PodOption {
		return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
	}
	for _, row := range []struct {
		name string
		pod  []build.PodOption
		want []string
	}{
		{"a gate of Kueue", []build.PodOption{gated("kueue.x-k8s.io/admission")},
			[]string{"let Kueue remove the scheduling gate kueue.x-k8s.io/admission (kubectl -n default get workloads.kueue.x-k8s.io) → n1"}},
		{"gates of several", []build.PodOption{gated("scheduling.volcano.sh/queue-allocation-gate", "gke-gcsfuse/bucket-scan-pending", "example.com/a", "example.com/b")}, []string{
			"let Volcano remove the scheduling gate scheduling.volcano.sh/queue-allocation-gate (kubectl get queues.scheduling.volcano.sh), " +
				"and let the Cloud Storage FUSE driver remove the scheduling gate gke-gcsfuse/bucket-scan-pending, " +
				"and remove the scheduling gates example.com/a, example.com/b, or let its owner do so → n1"}},
		{"a selector of Kueue", []build.PodOption{build.Labels("kueue.x-k8s.io/queue-name=q"), selecting("flavor", "spott")}, []string{
			"change the node selector flavor=spott to flavor=spot (Kueue may have set it from a ResourceFlavor) → n1",
			"label node n1 with flavor=spott → n1",
			"drop the node selector flavor=spott (Kueue may have set it from a ResourceFlavor) → n1"}},
		{"a label of Karpenter", []build.PodOption{selecting("karpenter.sh/nodepool", "large")}, []string{"drop the node selector karpenter.sh/nodepool=large → n1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			node := build.Node("n1", build.Allocatable("cpu=4 pods=9"), build.NodeLabels("flavor=spot"))
			s := explaintest.Snapshot(t, []*v1.Node{node}, []*v1.Pod{build.Pod(row.pod...)})
			_, got := suggested(t, s)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(- want, + got)\n%s", diff)
			}
		})
	}
}
