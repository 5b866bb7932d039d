package engine

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/state"
)

// MaxScore is the best score a plugin gives a node after normalising.
const MaxScore = 100

// Plugin is a built-in plugin of one profile, with its arguments already checked. What it does is told by the interfaces
// below; a plugin implements those that it has an answer for.
type Plugin interface {
	// Name is kube-scheduler's name of the plugin.
	Name() string
}

// Filterer says on which nodes a pod may run. It is a ColumnFilterer or a LayerFilterer.
type Filterer interface {
	Plugin
	// FilterNeed reduces the pod to what decides this plugin's verdict on any node: pods with equal needs get equal verdicts.
	// The zero Need means that every node passes (kube-scheduler's PreFilter Skip).
	FilterNeed(pod *model.Pod) model.Need
}

// ColumnFilterer gives verdicts that depend on the pod and one node.
type ColumnFilterer interface {
	Filterer
	// FilterReads names the aspects of a node that its verdicts depend on.
	FilterReads() model.Aspect
	// CompileFilter prepares the pod's demands for asking many nodes. It is called once for a need, and what it returns must
	// not hold on to the pod longer than it must.
	CompileFilter(pod *model.Pod) compiled.Filter
}

// LayerFilterer gives verdicts that depend on the pods around a node.
type LayerFilterer interface {
	Filterer
	// CompileLayers prepares the pod's demands. It is called once for a need.
	CompileLayers(pod *model.Pod) compiled.Layers
}

// Narrower rules out most nodes, or all of them, by looking at the pod alone (kube-scheduler's PreFilter result).
type Narrower interface {
	Plugin
	// Narrow returns the names of the only nodes worth looking at. narrowed is false when the pod names none. A non-empty
	// rejection rules out every node, for good.
	Narrow(pod *model.Pod) (names []string, narrowed bool, rejection string)
}

// Scorer says how good a node is for a pod. It is a ColumnScorer or a SetScorer.
type Scorer interface {
	Plugin
	// ScoreNeed reduces the pod to what decides this plugin's scores; the zero Need means that the plugin adds nothing to any
	// node (kube-scheduler's PreScore Skip).
	ScoreNeed(pod *model.Pod) model.Need
}

// ColumnScorer gives scores that depend on the pod and one node, and on the other nodes only through normalising.
type ColumnScorer interface {
	Scorer
	// ScoreReads names the aspects of a node that its scores depend on.
	ScoreReads() model.Aspect
	// CompileScore prepares the pod's wishes for asking many nodes. An error fails the pod's turn.
	CompileScore(pod *model.Pod) (compiled.Scorer, error)
	// Normalization says how raw scores become 0..MaxScore.
	Normalization() model.Normalization
}

// SetScorer scores all feasible nodes together.
type SetScorer interface {
	Scorer
	// CompileSet prepares the pod's wishes. An error fails the pod's turn.
	CompileSet(pod *model.Pod) (compiled.Set, error)
}

// Weighted is a scorer with its weight in the profile.
type Weighted struct {
	Scorer
	Weight int64
}

// Gate keeps a pod from being tried at all (kube-scheduler's PreEnqueue).
type Gate interface {
	Plugin
	// Gated returns why the pod must not be tried yet, or "".
	Gated(pod *model.Pod) string
}

// Waker names the events that may change a plugin's mind about a pod that it rejected.
type Waker interface {
	Plugin
	Interests() []model.Interest
	// Cause says what the rejection of the pod hinges on, so that events find the pods they can help.
	Cause(pod *model.Pod) model.Cause
}

// Reserver is a plugin that does something for a placement besides choosing it: kube-scheduler's Reserve, Permit, PreBind and PostBind. It
// adds what the placement holds and which steps are to be made for it. An error means that the pod must be tried again.
type Reserver interface {
	Plugin
	Reserve(s *state.State, placement *plan.Placement) error
}
