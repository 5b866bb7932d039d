package framework

import (
	"context"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

type preScore struct {
	outside
	plugin fwk.PreScorePlugin
}

var (
	_ plugin.PreScore  = (*preScore)(nil)
	_ plugin.TurnScore = (*score)(nil)
)

// nodesOf returns the NodeInfos of slots, in memory that nobody else has.
func (r *Runtime) nodesOf(slots []int32) []fwk.NodeInfo {
	nodes := make([]fwk.NodeInfo, len(slots))
	for i, slot := range slots {
		if nodes[i] = r.nodeInfo(slot); r.turn.bare {
			nodes[i] = r.config.Types.NewNodeInfo(nodes[i].Node())
		}
	}
	return nodes
}

// PreScore runs the plugin.
func (p *preScore) PreScore(_ state.View, slots []int32) error {
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
	outside
	plugin fwk.ScorePlugin
}

// ScoreTurn scores nodes and normalises the scores, in one call. The errors have kube-scheduler's words.
func (p *score) ScoreTurn(_ state.View, slots []int32, scores []int64) (bool, error) {
	t := p.r.turn
	if t.skippedScores.Has(p.name) {
		return false, nil
	}
	type result struct {
		err       error
		normalize bool // where err comes from
	}
	b := p.r.batchOf(slots)
	nodes, points, cycle, object := b.nodes, b.pointsOf(len(slots)), t.state, t.object
	if t.bare {
		nodes = p.r.nodesOf(slots)
	}
	found, err := call(p.r.lane, Score, p.name, func(ctx context.Context) (found result) {
		for i, node := range nodes {
			var status *fwk.Status
			if points[i], status = p.plugin.Score(ctx, cycle, object, node); status == nil {
				continue
			}
			if o := read(status, Score, success|failing|rejecting); o.code != fwk.Success {
				return result{err: o.asError()}
			}
		}
		extensions := p.plugin.ScoreExtensions()
		if extensions == nil {
			return result{}
		}
		list := make(fwk.NodeScoreList, len(nodes))
		for i, node := range nodes {
			list[i] = fwk.NodeScore{Name: node.Node().Name, Score: points[i]}
		}
		o := read(extensions.NormalizeScore(ctx, cycle, object, list), Normalize, success|failing|rejecting)
		for i := range list {
			points[i] = list[i].Score
		}
		return result{err: o.asError(), normalize: true}
	})
	var code fwk.Code
	if found.err != nil {
		code = fwk.Error
	}
	p.observe(Score, code, len(nodes), err)
	switch {
	case err != nil:
		p.r.batch = nil
		return false, fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.name, err)
	case found.err != nil && found.normalize:
		return false, fmt.Errorf("running Normalize on Score plugins: plugin %q failed with: %w", p.name, found.err)
	case found.err != nil:
		return false, fmt.Errorf("running Score plugins: plugin %q failed with: %w", p.name, found.err)
	}
	for i, points := range points {
		if points < fwk.MinScore || points > fwk.MaxScore {
			return false, fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %v, it should in the range of [%v, %v] after normalizing",
				p.name, points, fwk.MinScore, fwk.MaxScore)
		}
		scores[i] = points
	}
	return true, nil
}
