package explain_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestSameAsTheOracle compares explanations of random clusters with the oracle: verdicts,
// totals and the chosen node. An explanation must describe the actual decision.
func TestSameAsTheOracle(t *testing.T) {
	scored, leftOut := 0, 0
	for seed := range uint64(120) {
		r := random.New(seed)
		size := random.Size{Nodes: 1 + r.IntN(12), Placed: r.IntN(20), Pending: 5}
		c := random.TopologyCluster(r, size)
		if seed%2 == 0 {
			c = random.PreemptionCluster(r, size)
		}
		s := explaintest.Snapshot(t, c.Nodes, c.Pods, c.Others()...)
		for _, pod := range s.Pending() {
			a, err := s.Of(pod)
			if err != nil {
				t.Fatal(err)
			}
			j := oracle.Judge(c, pod.Object, oracle.DefaultProfile())
			if j.Err != nil || len(j.Nodes) != len(a.Nodes) {
				continue
			}
			for i := range j.Nodes {
				want, got := &j.Nodes[i], &a.Nodes[i]
				if got.Name != want.Node || got.Feasible != want.Feasible || got.Total != nil && *got.Total != want.Total {
					t.Errorf("seed %d, %s: %+v, want %+v", seed, pod, got, want)
				}
				if got.Total != nil {
					scored++
				}
				if len(got.Rejections) > 0 && got.Rejections[0].Plugin == "" {
					leftOut++
					if len(got.LeftOutBy) == 0 {
						t.Errorf("seed %d, %s: nobody has left out %s", seed, pod, got.Name)
					}
				}
			}
			if taken := s.Summarize(a).Taken; taken != "" && !slices.Contains(j.Best, taken) {
				t.Errorf("seed %d, %s: %s would be taken, want one of %v", seed, pod, taken, j.Best)
			}
		}
	}
	if scored == 0 || leftOut == 0 {
		t.Errorf("%d nodes were scored, %d left out", scored, leftOut)
	}
}

// TestPendingBeside counts the other pending pods of an owner.
func TestPendingBeside(t *testing.T) {
	of := func(name, owner string, options ...build.PodOption) *v1.Pod {
		return build.Pod(append([]build.PodOption{build.Named(name), build.Controller("apps/v1", "ReplicaSet", owner)}, options...)...)
	}
	pod := of("a", "web")
	for name, row := range map[string]struct {
		other *v1.Pod
		want  int
	}{
		"waits":                {of("b", "web"), 1},
		"itself":               {of("a", "web"), 0},
		"another owner":        {of("b", "db"), 0},
		"no owner":             {build.Pod(build.Named("b")), 0},
		"on a node":            {of("b", "web", build.NodeName("n1")), 0},
		"is being deleted":     {of("b", "web", build.Terminating), 0},
		"has ended":            {of("b", "web", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), 0},
		"of another namespace": {of("b", "web", build.InNamespace("other")), 0},
	} {
		if got := explain.PendingBeside(pod, []*v1.Pod{pod, row.other}); got != row.want {
			t.Errorf("%s: %d, want %d", name, got, row.want)
		}
	}
	if got := explain.PendingBeside(build.Pod(), []*v1.Pod{pod}); got != 0 {
		t.Errorf("without an owner: %d", got)
	}
}
