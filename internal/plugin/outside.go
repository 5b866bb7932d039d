package plugin

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Plugins from outside are written by users against k8s.io/kube-scheduler/framework. They are no pure functions: they see whole API objects and a
// snapshot of the cluster, keep what they like, and do I/O. So nothing that they say is kept from one turn to the next, and they have extension points
// of their own here: TurnFilter, TurnScore, PreScore. At PreEnqueue, QueueSort, EnqueueExtensions, PreFilter, PostFilter, Reserve, Permit, PreBind and
// PostBind they implement the interfaces of built-in plugins.

// Outside runs the plugins from outside of one profile. It knows the pod whose turn it is; all of its plugins belong to that turn.
type Outside interface {
	// Begin begins a pod's turn in a view, before any of the profile's PreFilter plugins. The plugins get a new CycleState and a snapshot that stays as
	// the view is now until the next turn begins.
	Begin(v state.View, pod *model.Pod)
	// End ends the turn, however it ended. A placement that goes on to its binding has what it needs in its steps.
	End()
	// Nominations returns the nominations that plugins have changed since the turn's view was made: a
	// pod and its node, or none where the nomination has ended. The slice is valid until the turn ends.
	Nominations() []plan.Nomination
	// Bare has the plugins score nodes as if nothing was on them, until the turn ends: an extender returned whole nodes.
	Bare()
	// Steps returns the steps at Reserve, Bind or PostBind that no single plugin of the profile answers for. They come after those of the stage before, at
	// PostBind after those of the PostBind plugins; it is asked for the three in this order, once the Reserve plugins have run.
	Steps(stage plan.Stage, p *plan.Placement) []plan.Step
	// Unreserve undoes what the Reserve plugins from outside did for a placement that does not go on, in reverse order.
	Unreserve(p *plan.Placement)
}

// TurnFilter is a filter whose verdicts are not kept: it is asked about nodes that the built-in filters pass, in each of the pod's turns.
type TurnFilter interface {
	Filter
	// FilterTurn returns the verdicts in a view: that of the pod's turn, or a dry run of it, in which a plugin sees pods added and removed as by its
	// AddPod and RemovePod. Nil means that every node passes (kube-scheduler's Skip at PreFilter). An error fails the turn.
	FilterTurn(v state.View) (TurnVerdicts, error)
}

// TurnVerdicts are the verdicts of a TurnFilter in one view. Codes are numbers of distinct statuses, so that many nodes share one: the same status has
// the same code in all views of a turn. They are valid until the turn ends.
type TurnVerdicts interface {
	Verdicts
	Failures
	// FilterAll writes the verdicts on the nodes in these slots, by position. It is Filter for all of them in one call.
	FilterAll(slots []int32, codes []reason.Code)
	// IsPending reports whether a code is kube-scheduler's Pending: the plugin waits for something outside of the cluster, and the pod skips its backoff
	// when the plugin says that it may be tried.
	IsPending(code reason.Code) bool
}

// PreScore runs before nodes are scored.
type PreScore interface {
	Plugin
	// PreScore is called with the feasible nodes, of which there are at least two. An error fails the pod's turn.
	PreScore(v state.View, slots []int32) error
}

// TurnScore rates the feasible nodes in one of a pod's turns. Nothing of it is kept.
type TurnScore interface {
	Score
	// ScoreTurn writes the normalised score, 0 to MaxScore, of each slot, by position. It returns false when it adds nothing to any node (kube-scheduler's
	// Skip at PreScore). An error, which is complete in kube-scheduler's words, fails the pod's turn.
	ScoreTurn(v state.View, slots []int32, scores []int64) (bool, error)
}

// Refusal is the error of a Reserve or Permit plugin that rejects the node that was chosen: the pod is parked under the plugin, and no PostFilter plugin is
// run.
type Refusal struct {
	Plugin string
	// Reasons are counted one by one in the rejection's text.
	Reasons []string
	// Pending is as TurnVerdicts.IsPending.
	Pending bool
}

// Error joins the reasons as kube-scheduler does.
func (r *Refusal) Error() string { return strings.Join(r.Reasons, ", ") }

// Extender is a service that is asked about pods and nodes over HTTP. All profiles have the same, in the order of the configuration with those last that
// may be ignored. It is safe for concurrent use.
type Extender interface {
	// Name identifies it in texts: its URL.
	Name() string
	// IsInterested reports whether it judges the pod: it manages no resources, or the pod asks for one of these.
	IsInterested(pod *v1.Pod) bool
	// IsIgnorable reports whether the turn goes on without it when it cannot be asked.
	IsIgnorable() bool
	// Filters, Prioritizes, Preempts and Binds report which verbs it has.
	Filters() bool
	Prioritizes() bool
	Preempts() bool
	Binds() bool
	// Filter returns which of the nodes pass.
	Filter(pod *v1.Pod, nodes []*v1.Node) (ExtenderVerdicts, error)
	// Prioritize returns what to add to the totals of nodes, by name: score times weight, on the scale of totals.
	Prioritize(pod *v1.Pod, nodes []*v1.Node) (map[string]int64, error)
	// ProcessPreemption returns which of the candidates, by node, are left, with which victims: names and UIDs as the extender sent them, which may be
	// of no node and no pod. Values may be nil.
	ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims) (map[string]*extenderv1.MetaVictims, error)
	// Bind binds a pod.
	Bind(binding *v1.Binding) error
}

// ExtenderVerdicts is an extender's answer at Filter.
type ExtenderVerdicts struct {
	// Passed are the names of the nodes that pass.
	Passed []string
	// Failed and Unresolvable have the reasons of the nodes that do not, by name; a node may be in neither.
	Failed, Unresolvable map[string]string
	// Bare means that the extender returned whole nodes: as in kube-scheduler, these are scored as if no pods were on them.
	Bare bool
}

// ExtenderName is the name under which pods are parked that an extender rejected.
const ExtenderName = "Extender"

// BindSteps binds pods otherwise than by a Bind plugin's object: an extender, or a Bind plugin from outside.
type BindSteps interface {
	Plugin
	// BindSteps returns the step by which the pod is bound, which has a Call. None means that this plugin does not bind the pod, and so does a Call that
	// was skipped: the next plugin does, and at the end the first of the Bind plugins. An error sends the pod back to the queue.
	BindSteps(v state.View, p *plan.Placement) ([]plan.Step, error)
}
