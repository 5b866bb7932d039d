package plugintest

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// PartsOf returns the parts of a test's plugin, by its methods. A test then adds methods
// to a type and lists it at several points.
func PartsOf(p interface{ Name() string }) *plugin.Parts {
	parts := plugin.Parts{Name: p.Name()}
	if p, ok := p.(interface {
		PreFilter(v state.View, pod *model.Pod) plugin.PreFilterResult
	}); ok {
		parts.PreFilter = &plugin.PreFilter{Run: p.PreFilter}
		if p, ok := p.(interface{ Skips(pod *model.Pod) bool }); ok {
			parts.PreFilter.Skips = p.Skips
		}
	}
	parts.PostFilter = postFilterOf(p)
	if p, ok := p.(interface {
		PreEnqueue(pod *model.Pod) string
	}); ok {
		parts.PreEnqueue = &plugin.PreEnqueue{Pod: p.PreEnqueue}
	}
	if p, ok := p.(interface {
		PreEnqueueIn(v state.View, pod *model.Pod) string
	}); ok {
		parts.PreEnqueue = &plugin.PreEnqueue{In: p.PreEnqueueIn}
	}
	if p, ok := p.(interface {
		PreEnqueueGroup(group *model.PodGroup, all int) string
		PreEnqueueTree(tree *model.GroupTree, all func(model.GroupKey) int) string
	}); ok {
		parts.PreEnqueue = &plugin.PreEnqueue{Group: p.PreEnqueueGroup, Tree: p.PreEnqueueTree}
	}
	if p, ok := p.(interface {
		PreScore(v state.View, slots []int32) error
	}); ok {
		parts.PreScore = &plugin.PreScore{Run: p.PreScore}
	}
	if p, ok := p.(interface{ Less(a, b plugin.Queued) bool }); ok {
		parts.QueueSort = &plugin.QueueSort{Less: p.Less}
	}
	if p, ok := p.(interface {
		GeneratePlacements(v state.View, tree *model.GroupTree, within *state.Restriction) ([]plugin.DomainPlacement, error)
	}); ok {
		parts.PlacementGenerate = &plugin.PlacementGenerate{Run: p.GeneratePlacements}
	}
	if p, ok := p.(interface {
		ScorePlacements(v state.View, tree *model.GroupTree, proposals []plugin.Proposal, scores []int64) error
	}); ok {
		parts.PlacementScore = &plugin.PlacementScore{Run: p.ScorePlacements}
	}
	parts.Filter, parts.Score = filterOf(p), scoreOf(p)
	if p, ok := p.(interface {
		EventsToRegister() []model.EventToRegister
	}); ok {
		parts.EnqueueExtensions = &plugin.EnqueueExtensions{Events: p.EventsToRegister()}
	}
	bindingPartsOf(p, &parts)
	return plugin.New(parts)
}

// filterOf returns the Filter of a test's plugin. Verdicts in the turn and needs in the
// state come before needs of the pod, whose methods such a type may embed.
func filterOf(p any) *plugin.Filter {
	var part plugin.Filter
	if p, ok := p.(interface{ FilterReads() model.Aspect }); ok {
		part.Reads.Nodes = p.FilterReads()
	}
	switch p := p.(type) {
	case interface {
		FilterTurn(v state.View) (plugin.TurnVerdicts, error)
	}:
		part.Turn = p.FilterTurn
	case interface {
		FilterNeedIn(v state.View, pod *model.Pod) (plugin.StateNeed, error)
	}:
		part.NeedIn = p.FilterNeedIn
	case interface {
		FilterNeed(pod *model.Pod) plugin.FilterNeed
	}:
		part.Need = p.FilterNeed
	case interface {
		CountNeed(pod *model.Pod) plugin.CountNeed
	}:
		part.Count = p.CountNeed
	default:
		return nil
	}
	return &part
}

// Filters returns the Filter plugins of a test's profile.
func Filters(list ...interface{ Name() string }) []*plugin.Filter {
	filters := make([]*plugin.Filter, len(list))
	for i, p := range list {
		filters[i] = PartsOf(p).Filter
	}
	return filters
}

// Registering returns the EnqueueExtensions of a test's profile.
func Registering(list ...interface{ Name() string }) []*plugin.EnqueueExtensions {
	all := make([]*plugin.EnqueueExtensions, len(list))
	for i, p := range list {
		all[i] = PartsOf(p).EnqueueExtensions
	}
	return all
}

func postFilterOf(p any) *plugin.PostFilter {
	own, ok := p.(interface {
		PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error)
	})
	if !ok {
		return nil
	}
	part := &plugin.PostFilter{Run: own.PostFilter}
	if p, ok := p.(interface {
		LooksAtOwn(v state.View, pod *model.Pod) bool
	}); ok {
		part.Own = p.LooksAtOwn
	}
	if p, ok := p.(interface {
		ConcernsGroup(v state.View, member *model.Pod) bool
		Member(c plugin.Cycle, member *model.Pod) plugin.GroupNote
		FreeForGroup(v state.View, group *model.PodGroup, first *model.Pod, notes []plugin.GroupNote) (plugin.GroupFreed, error)
	}); ok {
		part.Freeing = &plugin.GroupFreeing{Concerns: p.ConcernsGroup, Member: p.Member, Free: p.FreeForGroup}
	}
	return part
}

func scoreOf(p any) *plugin.Score {
	var part plugin.Score
	if p, ok := p.(interface {
		ScoreReads() model.Aspect
		Normalization() model.Normalization
	}); ok {
		part.Reads, part.Normalization = p.ScoreReads(), p.Normalization()
	}
	if p, ok := p.(interface {
		VaryingScoreNeed(v state.View, pod *model.Pod) (plugin.ScoreNeed, bool)
	}); ok {
		part.Varying = p.VaryingScoreNeed
	}
	switch p := p.(type) {
	case interface {
		ScoreNeed(pod *model.Pod) plugin.ScoreNeed
	}:
		part.Need = p.ScoreNeed
	case interface {
		ScoreNeedIn(v state.View, pod *model.Pod) (plugin.ScoreNeed, error)
	}:
		part.NeedIn = p.ScoreNeedIn
	case interface {
		SetNeed(pod *model.Pod) plugin.SetNeed
	}:
		part.Set = p.SetNeed
	case interface {
		ScoreTurn(v state.View, slots []int32, scores []int64) (bool, error)
	}:
		part.Turn = p.ScoreTurn
	default:
		return nil
	}
	return &part
}

// bindingPartsOf adds the parts after a node is chosen.
func bindingPartsOf(p any, to *plugin.Parts) {
	var done plugin.Done
	if p, ok := p.(interface {
		Done(v state.View, placement *plan.Placement) (bool, error)
	}); ok {
		done = p.Done
	}
	if p, ok := p.(interface {
		Reserve(v state.View, pod *model.Pod, slot int32) ([]plan.Hold, error)
	}); ok {
		to.Reserve = &plugin.Reserve{Holds: p.Reserve}
	}
	if p, ok := p.(interface {
		Permit(v state.View, placement *plan.Placement) ([]plan.Step, error)
	}); ok {
		to.Permit = &plugin.Permit{Steps: p.Permit, Done: done}
	}
	if p, ok := p.(interface {
		PreBind(v state.View, placement *plan.Placement) ([]plan.Step, error)
	}); ok {
		to.PreBind = &plugin.PreBind{Steps: p.PreBind, Done: done}
	}
	if p, ok := p.(interface {
		PostBind(v state.View, placement *plan.Placement) ([]plan.Step, error)
	}); ok {
		to.PostBind = &plugin.PostBind{Steps: p.PostBind}
	}
	if p, ok := p.(interface {
		Binding(pod *model.Pod, nodeName string) *v1.Binding
		Tries() int
		Retry(err error, try int) (time.Duration, bool)
	}); ok {
		to.Bind = &plugin.Bind{Binding: p.Binding, Tries: p.Tries(), Retry: p.Retry}
	}
}
