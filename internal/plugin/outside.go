package plugin

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Out-of-tree plugins are written by users against k8s.io/kube-scheduler/framework. They
// are not pure functions: they read whole API objects and a snapshot of the cluster, keep
// state, and do I/O. Their results are therefore never cached across turns, and they have
// parts of their own here: Filter.Turn, Score.Turn and PreScore. At the other extension
// points they have the parts of built-in plugins.

// External runs the out-of-tree plugins of one profile. It holds the pod of the current
// turn, which all of its plugins share.
type External interface {
	// Begin starts a pod's turn in a view, before the profile's first PreFilter plugin.
	// The plugins get a new CycleState, and a snapshot of the view. The snapshot does not
	// change until the next turn begins.
	Begin(v state.View, pod *model.Pod)
	// End ends the turn, whatever its outcome. The steps of a placement contain
	// everything that its binding needs.
	End()
	// Nominations returns the nominations that plugins have changed since the turn's view
	// was made. The node is empty if the nomination has ended. The slice is valid until
	// the turn ends.
	Nominations() []plan.Nomination
	// Bare makes the plugins score nodes as if they were empty, until the turn ends,
	// because an extender returned whole nodes.
	Bare()
	// Steps returns the steps at Reserve, Bind or PostBind that belong to no single
	// plugin of the profile. They follow the steps of the previous stage, and at PostBind
	// the steps of the PostBind plugins. It is called for these stages in this order,
	// after the Reserve plugins have run.
	Steps(stage plan.Stage, p *plan.Placement) []plan.Step
	// Unreserve undoes the out-of-tree Reserve plugins for an abandoned placement, in
	// reverse order.
	Unreserve(p *plan.Placement)
}

// TurnVerdicts are the verdicts of Filter.Turn in one view, valid until the turn ends.
// Each code numbers a distinct status, so that many nodes share a code. Equal statuses
// have equal codes in all views of a turn.
type TurnVerdicts interface {
	NodeVerdicts
	Failures
	Pending
	// FilterAll writes the verdicts on the nodes in these slots, by position: Filter for
	// all of them in one call.
	FilterAll(slots []int32, codes []reason.Code)
}

// PreScore runs before nodes are scored.
type PreScore struct {
	Name string
	// Run is called with the feasible nodes, at least two. An error fails the pod's turn.
	Run func(v state.View, slots []int32) error
}

// Refusal is the error of a Reserve or Permit plugin that rejects the chosen node. The
// pod is parked under the plugin. No PostFilter plugin runs.
type Refusal struct {
	Plugin string
	// Reasons are counted separately in the rejection's text.
	Reasons []string
	// Pending has the meaning of Verdicts.Pending.
	Pending bool
}

// Error joins the reasons as kube-scheduler does.
func (r *Refusal) Error() string { return strings.Join(r.Reasons, ", ") }

// Extender is an HTTP extender. All profiles share the same extenders: first those that
// are not ignorable, then the ignorable ones, each in the order of the configuration. It
// is safe for concurrent use.
type Extender interface {
	// Traits are the constants of the extender's configuration.
	Traits() ExtenderTraits
	// IsInterested reports whether the extender handles the pod: it manages no resources,
	// or the pod requests a managed resource.
	IsInterested(pod *v1.Pod) bool
	// Filter returns which of the nodes pass.
	Filter(pod *v1.Pod, nodes []*v1.Node) (ExtenderVerdicts, error)
	// Prioritize returns the amounts to add to the nodes' totals, by name: score times
	// weight, on the scale of totals.
	Prioritize(pod *v1.Pod, nodes []*v1.Node) (map[string]int64, error)
	// ProcessPreemption returns the remaining candidates by node, with their victims.
	// Names and UIDs are as the extender sent them, so they may match no node and no pod.
	// Values may be nil.
	ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error)
	// Bind binds a pod.
	Bind(binding *v1.Binding) error
}

// ExtenderTraits are the constants of an extender.
type ExtenderTraits struct {
	// Name is the extender's URL, for messages.
	Name string
	// Ignorable means that the turn continues when the extender cannot be reached.
	Ignorable bool
	// Filters, Prioritizes, Preempts and Binds report which verbs the extender has.
	Filters, Prioritizes, Preempts, Binds bool
}

// ExtenderVerdicts is the result of an extender at Filter.
type ExtenderVerdicts struct {
	// Passed are the names of the nodes that pass.
	Passed []string
	// Failed and Unresolvable hold the reasons of the rejected nodes, by name. A rejected
	// node may be in neither.
	Failed, Unresolvable map[string]string
	// Bare means that the extender returned whole nodes. As in kube-scheduler, these are
	// scored as if they were empty.
	Bare bool
}

// ExtenderName is the plugin name under which pods rejected by an extender are parked.
const ExtenderName = "Extender"

// BindSteps binds pods without a Bind plugin's object: by an extender, or by an
// out-of-tree Bind plugin.
type BindSteps struct {
	Name string
	// Steps returns the step that binds the pod, which has a Call. If it returns no step,
	// or if its Call is skipped, the next BindSteps binds the pod, and finally the first
	// Bind plugin.
	Steps Steps
}
