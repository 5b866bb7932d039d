package interpodaffinity_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestDraftAgreesWithOracle removes and adds pods in drafts of random clusters, as for
// groups and in preemption. Terms of pods that only the draft has count like terms in the
// state. Terms whose pods were all removed do not count.
func TestDraftAgreesWithOracle(t *testing.T) {
	compared, rejected, scored := 0, 0, 0
	for n := range uint64(40) {
		r := random.New(n)
		pair := newPair(t, r, n)
		draft, changed := pair.State.View().Draft(), pair.Cluster
		changed.Pods = nil
		for _, pod := range pair.Cluster.Pods {
			_, _, placed := pair.State.NodeOf(model.NewPod(pod).Key())
			waits := pod.Spec.NodeName == "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
			switch {
			case placed && r.IntN(3) == 0:
				draft.Remove(model.NewPod(pod).Key())
				continue
			case waits && len(pair.Cluster.Nodes) > 0 && r.IntN(3) > 0:
				pod = pod.DeepCopy()
				pod.Spec.NodeName = pair.Cluster.Nodes[r.IntN(len(pair.Cluster.Nodes))].Name
				slot, _ := pair.State.Slot(pod.Spec.NodeName)
				draft.Add(model.NewPod(pod), slot)
			}
			changed.Pods = append(changed.Pods, pod)
		}
		for i := range 8 {
			pod := random.TopologyPod(r, 1000+i)
			want := oracle.Judge(changed, pod, pair.Oracle)
			if diff := enginetest.Compare(draft.View(), pair.Engine, pair.Compile(pod), want); diff != "" {
				t.Fatalf("seed %d, pod %s: engine on a draft (-) and oracle (+) differ:\n%s", n, pod.Name, diff)
			}
			answer, err := pair.Engine.Answer(draft.View(), pair.Compile(pod))
			if err != nil {
				t.Fatal(err)
			}
			compared++
			for _, node := range answer.Nodes {
				for _, why := range node.Rejections {
					if why.Plugin == "InterPodAffinity" {
						rejected++
					}
				}
				for _, s := range node.Scores {
					if s.Plugin == "InterPodAffinity" && s.Score > 0 {
						scored++
					}
				}
			}
		}
	}
	if rejected < 100 || scored < 100 {
		t.Errorf("of %d pods: nodes were rejected %d times, and had a score %d times", compared, rejected, scored)
	}
}
