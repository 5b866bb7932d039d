package engine_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/explain"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/oracle/random"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

var (
	seeds = flag.Int("seeds", 30, "how many random clusters to compare with the oracle")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestEngineAgreesWithOracle changes random clusters step by step and asks, after each change, for pods seen before and for new
// ones: the engine, from columns that follow the journal, must say of every node what the oracle says from nothing.
func TestEngineAgreesWithOracle(t *testing.T) {
	first, last := uint64(1), uint64(*seeds)
	if *seed != 0 {
		first, last = *seed, *seed
	}
	for n := first; n <= last; n++ {
		t.Run(fmt.Sprintf("seed-%d", n), func(t *testing.T) {
			t.Parallel()
			defer func() {
				if t.Failed() {
					t.Logf("replay: go test ./internal/engine -run TestEngineAgreesWithOracle -seed %d", n)
				}
			}()
			agree(t, n)
		})
	}
}

func agree(t *testing.T, n uint64) {
	r := random.New(n)
	cluster := random.Cluster(r, random.Size{Nodes: r.IntN(40), Placed: r.IntN(80), Pending: 6})
	profile := random.Profile(r)
	enginesProfile := profileOf(t, profile)
	// A small column budget makes eviction part of what is tested.
	e, err := engine.New(engine.Config{Profiles: []*engine.Profile{enginesProfile}, Seed: n, ColumnBytes: 4 * 40 * (4 + r.IntN(60))})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Apply(changesOf(cluster))
	for step := range 60 {
		for _, pod := range pendingOf(cluster) {
			compiled := model.NewPod(pod)
			enginesProfile.Compile(compiled)
			if diff := compare(s, e, compiled, oracle.Judge(cluster, pod, profile)); diff != "" {
				t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
			}
		}
		m := random.Change(r, cluster)
		cluster = m.After
		s.Apply(changesOfMutation(m))
	}
}

// pendingOf picks a few pods to ask about, the newest ones included.
func pendingOf(c oracle.Cluster) []*v1.Pod {
	var pending []*v1.Pod
	for _, p := range c.Pods {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			pending = append(pending, p)
		}
	}
	return pending[max(0, len(pending)-6):]
}

func changesOf(c oracle.Cluster) []model.Change {
	var changes []model.Change
	for _, n := range c.Nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" {
			changes = append(changes, setPod(p))
		}
	}
	return changes
}

func setPod(p *v1.Pod) model.Change {
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: p.Namespace, Name: p.Name}}
	}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
}

func changesOfMutation(m random.Mutation) []model.Change {
	switch {
	case m.NewNode != nil:
		return []model.Change{{Kind: model.NodeSet, Node: model.NewNode(m.NewNode)}}
	case m.OldNode != nil:
		return []model.Change{{Kind: model.NodeGone, Name: m.OldNode.Name}}
	case m.NewPod != nil:
		return []model.Change{setPod(m.NewPod)}
	case m.OldPod != nil:
		return []model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: m.OldPod.Namespace, Name: m.OldPod.Name}}}
	}
	return nil
}

// outcome is what engine and oracle must agree on, in one form.
type outcome struct {
	Nodes   []plan.NodeAnswer
	Message string
	Error   string
}

func compare(s *state.State, e *engine.Engine, pod *model.Pod, want oracle.Answer) string {
	answer, err := e.Answer(s, pod)
	if err != nil {
		return err.Error()
	}
	d := answer.Decision
	got := outcome{Nodes: answer.Nodes}
	if d.Rejection != nil {
		got.Message = explain.Message(d)
	}
	if d.Err != nil {
		got.Error = d.Err.Error()
	}
	expected := expectedOf(want)
	if expected.Error != "" && strings.HasPrefix(got.Error, "running PreScore plugin") {
		// The texts of parse errors are the library's; that the cycle fails is what matters. Scores do not exist then.
		return ""
	}
	if diff := cmp.Diff(got, expected); diff != "" {
		return diff
	}
	if d.NodeName != "" && !slices.Contains(want.Best, d.NodeName) {
		return fmt.Sprintf("chosen: %s, best: %v", d.NodeName, want.Best)
	}
	if (d.NodeName != "") != (want.Feasible > 0 && want.Err == nil) {
		return fmt.Sprintf("chosen: %q, feasible: %d", d.NodeName, want.Feasible)
	}
	return ""
}

func expectedOf(want oracle.Answer) outcome {
	o := outcome{Message: want.Message}
	if want.Err != nil {
		o.Error = want.Err.Error()
	}
	if len(want.Nodes) == 0 {
		o.Error, o.Message = o.Message, ""
	}
	for _, n := range want.Nodes {
		node := plan.NodeAnswer{Name: n.Node, Feasible: n.Feasible}
		for _, r := range n.Rejections {
			node.Rejections = append(node.Rejections, reason.Rejection{Plugin: r.Plugin, Unresolvable: r.Unresolvable, Reasons: r.Reasons})
		}
		if want.Feasible > 1 { // a single feasible node is not scored
			node.Total = n.Total
			for _, s := range n.Scores {
				node.Scores = append(node.Scores, plan.Score{Plugin: s.Plugin, Weight: s.Weight, Score: s.Score})
			}
		}
		o.Nodes = append(o.Nodes, node)
	}
	return o
}
