package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// During PostFilter, plugins may run the other plugins of the profile through the Handle.
// Out-of-tree plugins run directly on the caller's goroutine. Built-in plugins run behind
// the gate.

// preScoredKey is the CycleState key of the nodes in the last RunPreScorePlugins.
const preScoredKey fwk.StateKey = "berth.dev/pre-scored"

// preScored are names of nodes. It never changes.
type preScored struct{ nodes []string }

// Clone returns the same names.
func (p *preScored) Clone() fwk.StateData { return p }

// neverSkip are scores of kube-scheduler's plugins without Skip at PreScore. Where
// Berth's plugin skips the pod, kube-scheduler's adds this score to each node.
var neverSkip = map[string]int64{"DynamicResources": 0, "ImageLocality": 0, "NodeResourcesFit": 0, "TaintToleration": plugin.MaxScore, "VolumeBinding": 0}

// RunPreScorePlugins runs the PreScore plugins of the profile. For built-in ones it
// determines which skip the pod.
func (h *Handle) RunPreScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	scores, err := h.gate.scores(state, pod, nodes)
	if err != nil {
		return fwk.AsStatus(err)
	}
	skipped := sets.New[string]()
	defer func() { state.SetSkipScorePlugins(skipped) }()
	for i, s := range h.r.profile.Scores {
		ours := h.r.adapters.scores[s.Score] != nil
		if _, scored := neverSkip[s.Name]; !ours && !scored && scores[i] == nil {
			skipped.Insert(s.Name)
		}
	}
	for _, p := range h.r.preScores {
		o := read(p.plugin.PreScore(ctx, state, pod, nodes), PreScore, success|failing|rejecting|skips)
		if o.code == fwk.Skip {
			skipped.Insert(p.name)
		} else if err := o.asError(); err != nil {
			return fwk.AsStatus(fmt.Errorf("running PreScore plugin %q: %w", p.name, err))
		}
	}
	state.Write(preScoredKey, &preScored{namesOf(nodes)})
	return nil
}

// RunScorePlugins returns the nodes' normalized and weighted scores by plugin, and their
// sums. RunPreScorePlugins must have been called for the nodes before. RawScores are not
// set.
func (h *Handle) RunScorePlugins(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, *fwk.Status) {
	names := namesOf(nodes)
	data, _ := state.Read(preScoredKey)
	if before, ok := data.(*preScored); !ok || !slices.Equal(before.nodes, names) {
		return nil, fwk.AsStatus(errors.New("RunScorePlugins of the Handle needs RunPreScorePlugins with the same nodes before it"))
	}
	builtIn, err := h.gate.scores(state, pod, nodes)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	list := make([]fwk.NodePluginScores, len(nodes))
	for at, name := range names {
		list[at].Name, list[at].Scores = name, []fwk.PluginScore{}
	}
	skipped := state.GetSkipScorePlugins()
	for i, s := range h.r.profile.Scores {
		if skipped.Has(s.Name) {
			continue
		}
		scores := builtIn[i]
		if own := h.r.adapters.scores[s.Score]; own != nil {
			scores = make([]int64, len(nodes))
			if r := own.score(ctx, state, pod, nodes, scores); r.err != nil {
				return nil, fwk.AsStatus(own.failed(r))
			} else if err := own.checkRange(scores); err != nil {
				return nil, fwk.AsStatus(err)
			}
		} else if scores == nil {
			scores = slices.Repeat([]int64{neverSkip[s.Name]}, len(nodes))
		}
		for at := range list {
			weighted := scores[at] * s.Weight
			list[at].Scores = append(list[at].Scores, fwk.PluginScore{Name: s.Name, Score: weighted})
			list[at].TotalScore += weighted
		}
	}
	return list, nil
}

func namesOf(nodes []fwk.NodeInfo) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		if node := n.Node(); node != nil {
			names[i] = node.Name
		}
	}
	return names
}

// scores returns the built-in plugins' scores, by plugin and by position in nodes. The
// nodes have the pods of the NodeInfos and the CycleState.
func (g *gate) scores(cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (scores [][]int64, err error) {
	defer recovered(&err)
	asked := questionAbout(pod, cycle, nodes...)
	g.mu.Lock()
	defer g.mu.Unlock()
	slots, err := g.slotsOf(&asked)
	if err != nil {
		return nil, err
	}
	ascending := slices.Compact(slices.Sorted(slices.Values(slots)))
	if len(ascending) < len(slots) {
		return nil, errors.New("nodes can only be scored once each")
	}
	bySlot, err := g.cycle.ScoresIn(g.arrange(&asked, slots), ascending)
	if err != nil {
		return nil, err
	}
	scores = make([][]int64, len(bySlot))
	for i, of := range bySlot {
		if of == nil {
			continue
		}
		scores[i] = make([]int64, len(slots))
		for at, slot := range slots {
			position, _ := slices.BinarySearch(ascending, slot)
			scores[i][at] = of[position]
		}
	}
	return scores, nil
}

// recovered converts a panic to an error: on a plugin's goroutine, a panic ends the
// process.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("running built-in plugins: panicked: %s", textOf(r))
	}
}

// RunReservePluginsReserve runs the Reserve plugins of the profile for a node. Built-in
// plugins only check whether they could reserve, because the state must not change.
func (h *Handle) RunReservePluginsReserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	if err := h.gate.reserve(nil, pod, nodeName); err != nil {
		return fwk.AsStatus(err)
	}
	for _, p := range h.r.profile.Reserve {
		var o outcome
		if own := h.r.adapters.reserves[p]; own != nil {
			o = read(own.plugin.Reserve(ctx, state, pod, nodeName), Reserve, success|failing|rejecting)
		} else {
			o = outcomeOf(h.gate.reserve(p, pod, nodeName))
		}
		switch {
		case o.isRejection():
			return fwk.NewStatus(o.code, o.reasons...).WithPlugin(p.Name)
		case o.err != nil:
			h.r.config.Log.Error(o.err, "Plugin failed", "plugin", p.Name, "pod", klog.KObj(pod))
			return fwk.AsStatus(fmt.Errorf("running Reserve plugin %q: %w", p.Name, o.err))
		}
	}
	return nil
}

// RunReservePluginsUnreserve calls Unreserve of the out-of-tree plugins, the last first.
func (h *Handle) RunReservePluginsUnreserve(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) {
	for _, p := range slices.Backward(h.r.reserves) {
		p.plugin.Unreserve(ctx, state, pod, nodeName)
	}
}

// reserve checks whether a built-in plugin could reserve on a node. Without a plugin it
// checks whether the call is allowed.
func (g *gate) reserve(p *plugin.Reserve, pod *v1.Pod, nodeName string) (err error) {
	defer recovered(&err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, err := g.slotsOf(&question{pod: pod}); err != nil {
		return err
	}
	slot, ok := g.cycle.View().Slot(nodeName)
	if !ok {
		return fmt.Errorf("plugins can only be run for nodes of the snapshot; %q is not one", nodeName)
	}
	if p != nil {
		_, err = p.Holds(g.cycle.View(), g.pod, slot)
	}
	return err
}

// outcomeOf returns the error of a built-in plugin as an outcome.
func outcomeOf(err error) outcome {
	var refusal *plugin.Refusal
	switch {
	case err == nil:
		return outcome{}
	case errors.As(err, &refusal) && refusal.Pending:
		return outcome{code: fwk.Pending, reasons: refusal.Reasons}
	case errors.As(err, &refusal):
		return outcome{code: fwk.Unschedulable, reasons: refusal.Reasons}
	}
	return outcome{code: fwk.Error, err: err}
}
