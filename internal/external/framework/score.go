package framework

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
)

type preScore struct {
	external
	plugin fwk.PreScorePlugin
}

// nodesOf returns the NodeInfos of slots, in a new slice.
func (r *Runtime) nodesOf(slots []int32) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, len(slots))
	for i, slot := range slots {
		if nodes[i] = r.nodeInfo(slot); r.turn.bare {
			nodes[i] = r.config.Types.NewNodeInfo(nodes[i].Node())
		}
	}
	return nodes
}

// run runs the plugin.
func (p *preScore) run(_ state.View, slots []int32) error {
	t := p.r.turn
	nodes, cycle, object := p.r.nodesOf(slots), t.state, t.object
	o, err := call(p.r.lane, PreScore, p.name, func(ctx context.Context) outcome {
		return read(p.plugin.PreScore(ctx, cycle, object, nodes), PreScore, success|failing|rejecting|skips)
	})
	p.observe(PreScore, o.code, 1, err)
	if err == nil {
		err = o.asError()
	}
	switch {
	case err != nil:
		return err
	case o.code == fwk.Skip:
		t.skippedScores.Insert(p.name)
		t.state.SetSkipScorePlugins(t.skippedScores.Clone())
	}
	return nil
}

type score struct {
	external
	plugin fwk.ScorePlugin
}

// run scores nodes and normalizes the scores, in one call. The errors have
// kube-scheduler's texts.
func (p *score) run(_ state.View, slots []int32, scores []int64) (bool, error) {
	t := p.r.turn
	if t.skippedScores.Has(p.name) {
		return false, nil
	}
	b := p.r.batchOf(slots)
	nodes, points, cycle, object := b.nodes, b.pointsOf(len(slots)), t.state, t.object
	if t.bare {
		nodes = p.r.nodesOf(slots)
	}
	found, err := call(p.r.lane, Score, p.name, func(ctx context.Context) scored { return p.score(ctx, cycle, object, nodes, points) })
	var code fwk.Code
	if found.err != nil {
		code = fwk.Error
	}
	p.observe(Score, code, len(nodes), err)
	switch {
	case err != nil:
		p.r.batch = nil
		return false, fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.name, err)
	case found.err != nil:
		return false, p.failed(found)
	}
	copy(scores, points)
	return true, p.checkRange(points)
}

// scored is the result of a call of Score and NormalizeScore.
type scored struct {
	err       error
	normalize bool // whether err is NormalizeScore's
}

// score calls the plugin for nodes. It writes the normalized scores to points.
func (p *score) score(ctx context.Context, cycle fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo, points []int64) scored {
	for i, node := range nodes {
		var status *fwk.Status
		if points[i], status = p.plugin.Score(ctx, cycle, pod, node); status == nil {
			continue
		}
		if o := read(status, Score, success|failing|rejecting); o.code != fwk.Success {
			return scored{err: o.asError()}
		}
	}
	extensions := p.plugin.ScoreExtensions()
	if extensions == nil {
		return scored{}
	}
	list := make(fwk.NodeScoreList, len(nodes))
	for i, node := range nodes {
		list[i] = fwk.NodeScore{Name: node.Node().Name, Score: points[i]}
	}
	o := read(extensions.NormalizeScore(ctx, cycle, pod, list), Normalize, success|failing|rejecting)
	for i := range list {
		points[i] = list[i].Score
	}
	return scored{err: o.asError(), normalize: true}
}

// failed returns the error of such a call with kube-scheduler's text.
func (p *score) failed(of scored) error {
	if of.normalize {
		return fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", p.name, of.err)
	}
	return fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.name, of.err)
}

// checkRange returns an error if a normalized score is out of range.
func (p *score) checkRange(points []int64) error {
	for _, n := range points {
		if n < fwk.MinScore || n > fwk.MaxScore {
			return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
				p.name, n, fwk.MinScore, fwk.MaxScore)
		}
	}
	return nil
}
