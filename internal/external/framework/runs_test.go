package framework_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// busy is a plugin that scores a node by its pods, unless it skips, and that reserves.
type busy struct {
	named
	skips    bool
	refuses  *fwk.Status
	reserved []string
}

func (b *busy) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	if b.skips {
		return status(fwk.Skip)
	}
	return nil
}

func (b *busy) Score(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	return int64(len(node.GetPods())), nil
}

func (*busy) ScoreExtensions() fwk.ScoreExtensions { return nil }

func (b *busy) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	b.reserved = append(b.reserved, fmt.Sprintf("%s: %s on %s", b.named, pod.Name, node))
	return b.refuses
}

func (b *busy) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	b.reserved = append(b.reserved, fmt.Sprintf("%s: not %s on %s", b.named, pod.Name, node))
}

// asked returns a world of two nodes with a pod on the first. PostFilter runs a function.
func asked(t *testing.T, b *busy, ask func(w *world, h fwk.Handle, state fwk.CycleState, pod *v1.Pod)) *world {
	t.Helper()
	p := &counts{named: "P", pods: 9}
	w := newWorld(t, 2, p, b)
	w.placed("placed", "n0", "2")
	p.post = func(p *counts, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
		ask(w, p.handle, state, pod)
		return nil, status(fwk.Unschedulable)
	}
	w.decide(w.pod("fits", "1"))
	p.pods = 0 // every pod is rejected
	w.decide(w.pod("p", "1"))
	p.pods = 9
	return w
}

// runsScores makes a plugin request scores during PostFilter. These are the scores of a
// pod that fits.
func runsScores(t *testing.T) {
	for _, skips := range []bool{false, true} {
		var got []string
		b := &busy{named: "B", skips: skips}
		w := asked(t, b, func(w *world, h fwk.Handle, state fwk.CycleState, pod *v1.Pod) { got = scoresBy(w, h, state, pod, nil) })
		if want := w.scores(); !slices.Equal(got, want) {
			t.Errorf("B skips: %v; the scores are\n%s\nwant\n%s", skips, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	var without, nominal []string
	w := asked(t, &busy{named: "B"}, func(w *world, h fwk.Handle, state fwk.CycleState, pod *v1.Pod) {
		without = scoresBy(w, h, state, pod, func(n fwk.NodeInfo) {
			for _, other := range n.GetPods() {
				if err := n.RemovePod(klog.Background(), other.GetPod()); err != nil {
					t.Error(err)
				}
			}
		})
	})
	empty := newWorld(t, 2, &counts{named: "P", pods: 9}, &busy{named: "B"})
	if nominal = empty.scores(); !slices.Equal(without, nominal) || slices.Equal(without, w.scores()) {
		t.Errorf("without the pods the scores are\n%s\nwant\n%s", strings.Join(without, "\n"), strings.Join(nominal, "\n"))
	}
}

// scoresBy returns the Handle's scores, with NodeInfos that may be changed.
func scoresBy(w *world, h fwk.Handle, state fwk.CycleState, pod *v1.Pod, change func(fwk.NodeInfo)) (lines []string) {
	nodes, err := h.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		w.Fatal(err)
	}
	nodes = slices.Clone(nodes)
	slices.Reverse(nodes) // any order
	for i := range nodes {
		if change != nil {
			nodes[i] = nodes[i].Snapshot()
			change(nodes[i])
		}
	}
	if _, s := h.RunScorePlugins(w.Context(), state, pod, nodes); !s.IsError() {
		w.Errorf("without PreScore: %v", s)
	}
	if s := h.RunPreScorePlugins(w.Context(), state, pod, nodes); !s.IsSuccess() {
		w.Error(s.AsError())
	}
	if _, s := h.RunScorePlugins(w.Context(), state, pod, nodes[:1]); !s.IsError() {
		w.Errorf("with other nodes than at PreScore: %v", s)
	}
	list, s := h.RunScorePlugins(w.Context(), state, pod, nodes)
	if !s.IsSuccess() {
		w.Error(s.AsError())
	}
	for _, node := range list {
		var total int64
		for _, s := range node.Scores {
			lines, total = append(lines, fmt.Sprintf("%s %s=%d", node.Name, s.Name, s.Score)), total+s.Score
		}
		if total != node.TotalScore {
			w.Errorf("the total of %s is %d, want %d", node.Name, node.TotalScore, total)
		}
	}
	slices.Sort(lines)
	return lines
}

// scores returns the scores in the explanation of a feasible pod. Plugins that never skip
// in kube-scheduler are included with their score for a skipped pod.
func (w *world) scores() (lines []string) {
	answer, err := w.engine.Answer(w.state.View(), w.pod("p", "1"))
	if err != nil {
		w.Fatal(err)
	}
	for _, node := range answer.Nodes {
		never := map[string]int64{}
		for _, p := range w.profile.Scores {
			switch p.Name {
			case "ImageLocality", "DynamicResources", "NodeResourcesFit", "VolumeBinding":
				never[p.Name] = 0
			case "TaintToleration":
				never[p.Name] = plugin.MaxScore * p.Weight
			}
		}
		for _, s := range node.Scores {
			never[s.Plugin] = s.Score * s.Weight
		}
		for name, score := range never {
			lines = append(lines, fmt.Sprintf("%s %s=%d", node.Name, name, score))
		}
	}
	slices.Sort(lines)
	return lines
}

// runsReserves makes a plugin run the Reserve plugins during PostFilter, and Unreserve
// afterwards.
func runsReserves(t *testing.T) {
	for _, test := range []struct {
		refuses *fwk.Status
		want    string
	}{
		{nil, "Success"},
		{status(fwk.Unschedulable, "no room"), "Unschedulable no room B"},
		{fwk.AsStatus(errors.New("broken")), `Error running Reserve plugin "B": broken `},
	} {
		b := &busy{named: "B", refuses: test.refuses}
		got := ""
		asked(t, b, func(_ *world, h fwk.Handle, state fwk.CycleState, pod *v1.Pod) {
			b.reserved = nil
			s := h.RunReservePluginsReserve(t.Context(), state, pod, "n1")
			if got = "Success"; s != nil {
				got = fmt.Sprint(s.Code(), " ", s.Message(), " ", s.Plugin())
			}
			h.RunReservePluginsUnreserve(t.Context(), state, pod, "n1")
			if s := h.RunReservePluginsReserve(t.Context(), state, pod, "n9"); !s.IsError() {
				t.Errorf("on a node that does not exist: %v", s)
			}
		})
		if got != test.want {
			t.Errorf("the plugins return %q, want %q", got, test.want)
		}
		if want := []string{"B: p on n1", "B: not p on n1"}; !slices.Equal(b.reserved, want) {
			t.Errorf("the plugin was called for %q, want %q", b.reserved, want)
		}
	}
}

// TestRunsAreOverAfterPostFilter requests scores and reservations when PostFilter has
// returned.
func TestRunsAreOverAfterPostFilter(t *testing.T) {
	var handle fwk.Handle
	var nodes []fwk.NodeInfo
	w := asked(t, &busy{named: "B"}, func(_ *world, h fwk.Handle, _ fwk.CycleState, _ *v1.Pod) { handle = h })
	nodes, _ = handle.SnapshotSharedLister().NodeInfos().List()
	pod, state := w.object("p", "1"), public.NewCycleState()
	for name, s := range map[string]*fwk.Status{
		"PreScore": handle.RunPreScorePlugins(t.Context(), state, pod, nodes),
		"Reserve":  handle.RunReservePluginsReserve(t.Context(), state, pod, "n1"),
	} {
		if !s.IsError() || !strings.Contains(s.Message(), "only be run during PostFilter") {
			t.Errorf("%s: %v", name, s)
		}
	}
}
