package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
)

// scores is a plugin at PreScore and Score.
type scores struct {
	named
	pre       *fwk.Status
	score     func(node string) (int64, *fwk.Status)
	normalize func(list fwk.NodeScoreList) *fwk.Status
}

func (p *scores) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return p.pre
}
func (p *scores) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return p.score(node.Node().Name)
}
func (p *scores) ScoreExtensions() fwk.ScoreExtensions {
	if p.normalize == nil {
		return nil
	}
	return p
}
func (p *scores) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *v1.Pod, list fwk.NodeScoreList) *fwk.Status {
	return p.normalize(list)
}

// TestScore makes a plugin score nodes, and fail in every way.
func TestScore(t *testing.T) {
	best := func(node string) (int64, *fwk.Status) {
		if node == "n1" {
			return 100, nil
		}
		return 0, nil
	}
	points := func(n int64) func(string) (int64, *fwk.Status) {
		return func(string) (int64, *fwk.Status) { return n, nil }
	}
	for _, test := range []struct {
		p    scores
		want string
	}{
		{scores{score: best}, "on n1"},
		{scores{score: best, normalize: func(l fwk.NodeScoreList) *fwk.Status { return public.DefaultNormalizeScore(100, false, l) }}, "on n1"},
		{scores{pre: status(fwk.Skip), score: points(-7)}, "on "},
		{scores{pre: status(fwk.Unschedulable, "no"), score: best}, `failed: running PreScore plugin "P": no`},
		{scores{pre: status(fwk.Wait), score: best}, `failed: running PreScore plugin "P": returned Wait at PreScore`},
		{scores{score: func(string) (int64, *fwk.Status) { return 0, fwk.AsStatus(errors.New("broken")) }}, `failed: running Score plugins: plugin "P" failed with: broken`},
		{scores{score: points(5), normalize: func(fwk.NodeScoreList) *fwk.Status { return fwk.AsStatus(errors.New("broken")) }}, `failed: running Normalize on Score plugins: plugin "P" failed with: broken`},
		{scores{score: points(101)}, `failed: applying score defaultWeights on Score plugins: plugin "P" returns an invalid score 101, it should in the range of [0, 100] after normalizing`},
		{scores{score: points(-1)}, `failed: applying score defaultWeights on Score plugins: plugin "P" returns an invalid score -1, it should in the range of [0, 100] after normalizing`},
		{scores{score: func(string) (int64, *fwk.Status) { panic("boom") }}, `failed: running Score plugins: plugin "P" failed with: plugin "P" at Score: panicked: boom`},
	} {
		test.p.named = "P"
		w := newWorld(t, 3, &test.p)
		d := w.decide(w.pod("p", "1"))
		if got := describe(&d); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
}

// TestNormalizeFeasibleNodes has a plugin that scores, and four nodes, two of them
// feasible. It is called for these, in order, and normalizes only them. With one feasible
// node it is not called.
func TestNormalizeFeasibleNodes(t *testing.T) {
	for _, test := range []struct {
		full []string
		want string
	}{
		{[]string{"n0", "n2"}, "n1 n3 n1=1 n3=3"},
		{[]string{"n0", "n1", "n2"}, ""},
	} {
		var calls []string
		p := &scores{named: "P"}
		p.score = func(node string) (int64, *fwk.Status) {
			calls = append(calls, node)
			return int64(node[1] - '0'), nil
		}
		p.normalize = func(list fwk.NodeScoreList) *fwk.Status {
			for i := range list {
				calls = append(calls, fmt.Sprintf("%s=%d", list[i].Name, list[i].Score))
			}
			return public.DefaultNormalizeScore(100, false, list)
		}
		w := newWorld(t, 4, p)
		for _, node := range test.full {
			w.placed("on-"+node, node, "4")
		}
		d := w.decide(w.pod("p", "1"))
		if got := strings.Join(calls, " "); got != test.want || describe(&d) != "on n3" {
			t.Errorf("%v full: called %q, %s; want %q, on n3", test.full, got, describe(&d), test.want)
		}
	}
}
