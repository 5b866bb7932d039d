package config

import configv1 "k8s.io/kube-scheduler/config/v1"

// point is an extension point. The order is kube-scheduler's when it assembles points,
// because errors have the same order.
type point uint8

const (
	preFilter point = iota
	filter
	postFilter
	reserve
	preScore
	score
	preBind
	bind
	postBind
	permit
	preEnqueue
	queueSort
	placementGenerate
	placementScore
	podGroupPostFilter
	points // the number of points
)

// pointNames are the fields of the configuration, and the names of the point's plugins in
// errors.
var pointNames = [points]struct{ field, plugin string }{
	preFilter:          {"preFilter", "PreFilterPlugin"},
	filter:             {"filter", "FilterPlugin"},
	postFilter:         {"postFilter", "PostFilterPlugin"},
	reserve:            {"reserve", "ReservePlugin"},
	preScore:           {"preScore", "PreScorePlugin"},
	score:              {"score", "ScorePlugin"},
	preBind:            {"preBind", "PreBindPlugin"},
	bind:               {"bind", "BindPlugin"},
	postBind:           {"postBind", "PostBindPlugin"},
	permit:             {"permit", "PermitPlugin"},
	preEnqueue:         {"preEnqueue", "PreEnqueuePlugin"},
	queueSort:          {"queueSort", "QueueSortPlugin"},
	placementGenerate:  {"placementGenerate", "PlacementGeneratePlugin"},
	placementScore:     {"placementScore", "PlacementScorePlugin"},
	podGroupPostFilter: {"podGroupPostFilter", "PodGroupPostFilterPlugin"},
}

// in returns the point's plugin set.
func (p point) in(plugins *configv1.Plugins) *configv1.PluginSet {
	return [points]*configv1.PluginSet{
		preFilter:          &plugins.PreFilter,
		filter:             &plugins.Filter,
		postFilter:         &plugins.PostFilter,
		reserve:            &plugins.Reserve,
		preScore:           &plugins.PreScore,
		score:              &plugins.Score,
		preBind:            &plugins.PreBind,
		bind:               &plugins.Bind,
		postBind:           &plugins.PostBind,
		permit:             &plugins.Permit,
		preEnqueue:         &plugins.PreEnqueue,
		queueSort:          &plugins.QueueSort,
		placementGenerate:  &plugins.PlacementGenerate,
		placementScore:     &plugins.PlacementScore,
		podGroupPostFilter: &plugins.PodGroupPostFilter,
	}[p]
}

// pointSet is a set of points.
type pointSet uint32

func at(list ...point) pointSet {
	var set pointSet
	for _, p := range list {
		set |= 1 << p
	}
	return set
}

func (s pointSet) has(p point) bool { return s&(1<<p) != 0 }
