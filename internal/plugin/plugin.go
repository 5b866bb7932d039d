package plugin

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// MaxScore is the best score of a node after normalization.
const MaxScore = 100

// Parts are a built-in plugin of one profile: its parts at the extension points. Parts
// that are nil do not exist.
type Parts struct {
	// Name is kube-scheduler's name of the plugin.
	Name string
	// Objects are the kinds of API objects besides pods and nodes that the plugin reads
	// at any point. They are watched. New adds the kinds in Filter.Reads.
	Objects []model.Kind

	QueueSort         *QueueSort
	PreEnqueue        *PreEnqueue
	EnqueueExtensions *EnqueueExtensions
	PreFilter         *PreFilter
	Filter            *Filter
	PostFilter        *PostFilter
	PreScore          *PreScore
	Score             *Score
	PlacementGenerate *PlacementGenerate
	PlacementScore    *PlacementScore
	Reserve           *Reserve
	Permit            *Permit
	PreBind           *PreBind
	Bind              *Bind
	PostBind          *PostBind
}

// New returns the plugin with its name in each of its parts. What its filter reads is
// added to Objects, and to the events of EnqueueExtensions.
func New(p Parts) *Parts {
	if p.Filter != nil {
		p.Filter.Name = p.Name
		for _, kind := range p.Filter.Reads.Objects {
			if !slices.Contains(p.Objects, kind) {
				p.Objects = append(slices.Clip(p.Objects), kind)
			}
		}
		p.addEvents()
	}
	if p.EnqueueExtensions != nil {
		p.EnqueueExtensions.Name = p.Name
	}
	if p.QueueSort != nil {
		p.QueueSort.Name = p.Name
	}
	if p.PreEnqueue != nil {
		p.PreEnqueue.Name = p.Name
	}
	if p.PreFilter != nil {
		p.PreFilter.Name = p.Name
	}
	if p.PostFilter != nil {
		p.PostFilter.Name = p.Name
	}
	if p.PreScore != nil {
		p.PreScore.Name = p.Name
	}
	if p.Score != nil {
		p.Score.Name = p.Name
	}
	if p.PlacementGenerate != nil {
		p.PlacementGenerate.Name = p.Name
	}
	if p.PlacementScore != nil {
		p.PlacementScore.Name = p.Name
	}
	if p.Reserve != nil {
		p.Reserve.Name = p.Name
	}
	if p.Permit != nil {
		p.Permit.Name = p.Name
	}
	if p.PreBind != nil {
		p.PreBind.Name = p.Name
	}
	if p.Bind != nil {
		p.Bind.Name = p.Name
	}
	if p.PostBind != nil {
		p.PostBind.Name = p.Name
	}
	return &p
}

// PreEnqueue decides whether a pod may be tried at all. Exactly one of Pod, In and Group
// is set; Tree is set with Group.
type PreEnqueue struct {
	Name string
	// Pod returns the reason to hold the pod back, or "". It depends on the pod alone.
	Pod func(pod *model.Pod) (reason string)
	// In is Pod for a plugin that reads the cluster, such as objects that the pod refers
	// to. The view shows the state without a draft.
	//
	// A pod that it holds is checked again on the events that the plugin has registered
	// for. A pod that has passed is checked again only when it is about to become active
	// or to back off, whatever changes in the cluster before.
	In func(v state.View, pod *model.Pod) (reason string)
	// Group decides about all members of a pod group. It returns the reason to hold the
	// group back, or "". all counts the members with and without a node.
	Group func(group *model.PodGroup, all int) (reason string)
	// Tree is Group for the groups below a composite group. all returns the number of
	// members of a group.
	Tree func(tree *model.GroupTree, all func(model.GroupKey) int) (reason string)
}

// QueueSort orders the pods in the active queue. All profiles have the same QueueSort.
type QueueSort struct {
	Name string
	// Less reports whether a goes before b. If neither does, the earlier arrival goes
	// first.
	Less func(a, b Queued) bool
}

// EnqueueExtensions registers the events that may make a rejected pod schedulable.
type EnqueueExtensions struct {
	Name string
	// Events are the events, with their hints and with the keys by which an event finds
	// the pods that it can help. New adds an event without a hint for each input of
	// Filter that no event covers, see Reads.
	Events []model.EventToRegister
	// Asked is set if hints depend on objects that a pod refers to, see model.AskedHint.
	// It returns the pod's demands on the cluster, as far as hints depend on them. It is
	// called when the plugin parks or holds the pod.
	Asked func(v state.View, pod *model.Pod) model.Need
}

// PreFilter runs before any node is checked.
type PreFilter struct {
	Name string
	// Run may restrict the pod to some nodes, or reject all nodes.
	Run func(v state.View, pod *model.Pod) PreFilterResult
	// Skips reports whether Run returns the zero result for the pod in every view. Run is
	// then not called in the pod's turns. Skips is called before the pod reaches the
	// loop, in the goroutine that compiles pods. Nil means that Run is always called.
	Skips func(pod *model.Pod) bool
	// Bars returns why the pod can never be bound, or "": it needs a feature that Berth
	// lacks. Only the stand-in of a missing plugin sets it.
	Bars func(pod *model.Pod, classes model.ClassResolver) string
	// Measured means that the plugin's calls are measured elsewhere: it is out-of-tree.
	Measured bool
}

// PreFilterResult is the result of a PreFilter plugin. The zero value restricts nothing.
type PreFilterResult struct {
	// Narrowed means that only Nodes are checked.
	Narrowed bool
	Nodes    []string
	// Rejection, unless it is empty, rejects every node. It is unresolvable unless
	// Resolvable is set.
	Rejection string
	// Resolvable means that evicting pods may resolve the rejection: kube-scheduler's
	// Unschedulable. The later plugins still run. An unresolvable rejection by a later
	// plugin is reported instead. Of several resolvable rejections, the last is reported.
	Resolvable bool
	// Err, unless it is nil, fails the pod's turn.
	Err error
}

// IsZero reports whether the result restricts nothing.
func (r *PreFilterResult) IsZero() bool { return !r.Narrowed && r.Rejection == "" && r.Err == nil }

// Filter decides on which nodes a pod may run. Exactly one of Need, NeedIn, Count and
// Turn is set. The filter is then a node filter, a state filter, a count filter or a turn
// filter.
type Filter struct {
	Name string
	// Reads are the inputs of the verdicts besides the pod. They are not set with Turn.
	Reads Reads
	// Need reduces the pod to the part that determines the verdict on any node. The
	// verdicts depend on the pod and one node. The engine stores them in a column for
	// each need. Nil means that every node passes: kube-scheduler's PreFilter Skip. It is
	// called before the pod reaches the loop.
	Need func(pod *model.Pod) FilterNeed
	// Varying is set, with Need, if the needs of some pods depend on more than the pod.
	// It returns the need of such a pod. For other pods varies is false, and Need
	// applies. It is called in each of a pod's turns.
	Varying func(v state.View, pod *model.Pod) (need FilterNeed, varies bool)
	// NeedIn is Need for a filter whose needs depend on more than the pod: on objects
	// that the pod refers to, such as its claims. It is called in each of the pod's
	// turns. A dry run reuses the needs of its turn, because only the usage of the node
	// itself differs there. An error fails the turn.
	NeedIn func(v state.View, pod *model.Pod) (StateNeed, error)
	// Count is Need for a filter whose verdicts depend on the pods around a node. It has
	// no column, because placing one pod changes a count that many nodes share.
	Count func(pod *model.Pod) CountNeed
	// Turn returns the verdicts of an out-of-tree plugin, which are not cached. In each
	// of the pod's turns the filter runs on the nodes that pass the built-in filters.
	//
	// The verdicts are for a view: the view of the pod's turn, or a dry run of it. In a
	// dry run, the plugin's AddPod and RemovePod have been applied for the pods that
	// differ. Nil means that every node passes: kube-scheduler's Skip at PreFilter. An
	// error fails the turn.
	Turn func(v state.View) (TurnVerdicts, error)
}

// StateNeed is the result of Filter.NeedIn. The zero value passes every node.
type StateNeed struct {
	Need FilterNeed
	// Rejection, unless it is empty, rejects every node.
	Rejection string
	// SharesDevices means that verdicts depend on changes of state.Versions.Devices. It
	// is set only if Verdicts.Following is.
	SharesDevices bool
}

// HasColumn reports whether verdicts depend on the pod and one node.
func (f *Filter) HasColumn() bool { return f.Need != nil || f.NeedIn != nil }

// PostFilter makes room for a pod without a feasible node, or explains why it cannot.
type PostFilter struct {
	Name string
	// Run may return pods to evict so that the pod fits on a node. The pod is then
	// nominated to that node. An error ends the chain. It becomes part of the rejection's
	// text and leaves the nomination unchanged.
	Run func(c Cycle, pod *model.Pod) (PostFilterResult, error)
	// Own reports whether the pod has objects of its own that Run reads. The result then
	// does not apply to other pods with equal needs. Nil means that Run reads no such
	// objects.
	Own func(v state.View, pod *model.Pod) bool
	// Group is set if the plugin evicts pods for pod groups.
	Group *GroupPreemption
	// Freeing is set if the plugin releases objects for pod groups.
	Freeing *GroupFreeing
	// Measured means that the plugin's calls are measured elsewhere: it is out-of-tree.
	Measured bool
}

// GroupPreemption are the settings of the PostFilter plugin that evicts pods for pod
// groups. Package decide/gang chooses the victims, because it runs the group's turn.
type GroupPreemption struct {
	// OwnPolicy means that the group's own preemption policy applies, instead of the
	// policies of its members.
	OwnPolicy bool
	// Rules are the rules of the release.
	Rules PreemptionRules
}

// GroupFreeing releases objects for a pod group. It runs after the group's attempt has
// failed. Member is first called for each tried member, in a cycle with the earlier
// members where that attempt had placed them.
type GroupFreeing struct {
	// Concerns reports whether the member has objects that require a call of Member. If
	// no member has such objects, Member is not called at all.
	Concerns func(v state.View, member *model.Pod) bool
	// Member returns the plugin's note on the cycle of a member, which may have found a
	// node. Nil means that kube-scheduler's plugin would not have run in that cycle.
	Member func(c Cycle, member *model.Pod) GroupNote
	// Free returns the objects to release for a group that has no member on a node. notes
	// are the results of Member that are not nil; there are none if Concerns was false
	// for all members. first is the first member that was tried. An error fails the
	// attempt.
	Free func(v state.View, group *model.PodGroup, first *model.Pod, notes []GroupNote) (GroupFreed, error)
}

// GroupNote is the note of a GroupFreeing plugin on one member, a type of the plugin.
type GroupNote interface{ IsGroupNote() }

// GroupFreed is the result of a GroupFreeing plugin.
type GroupFreed struct {
	// Done ends the chain: kube-scheduler's UnschedulableAndUnresolvable.
	Done bool
	// Message is added to the text of the group's rejection.
	Message string
	// Writes are sent when the decision is carried out, like those in a PostFilterResult.
	Writes []plan.Write
}

// PostFilterResult is the result of a PostFilter plugin. The zero value is
// kube-scheduler's Unschedulable without a reason: the plugin found nothing, adds no
// text, and leaves the nomination unchanged.
type PostFilterResult struct {
	// Done ends the chain: kube-scheduler's Success and UnschedulableAndUnresolvable.
	Done bool
	// Message is added to the text of the pod's rejection.
	Message string
	// Nomination is the change of the pod's nominated node. If it is Set, NodeName is the
	// node.
	Nomination plan.NominationMode
	NodeName   string
	// Evictions are the pods to evict from that node.
	Evictions []plan.Eviction
	// Writes are sent when the decision is carried out, whatever the other plugins
	// return. Their results are not reported to the pod; the changes that they cause may
	// wake it. The pod may be tried again before, so each write must name the version or
	// the UID that it applies to.
	Writes []plan.Write
	// Outranked are pods that lose their nomination to that node.
	Outranked []*model.Pod
	// Transient means that the result must not be cached, because an out-of-tree plugin
	// or an extender contributed to it.
	Transient bool
}

// Cycle is the pod's turn after its filters, for use by PostFilter plugins. It is valid
// until PostFilter returns.
type Cycle interface {
	// View is the cluster in which the turn takes place.
	View() state.View
	// PreFiltered reports whether kube-scheduler's plugin of that name has run at
	// PreFilter in this turn. These plugins run in order until one rejects the pod.
	PreFiltered(plugin string) bool
	// Rejected returns the reported rejection of a node in this turn. If PreFilter
	// rejected the pod, all nodes have the same rejection.
	Rejected(slot int32) reason.Rejection
	// Unexamined returns the rejection of nodes that no filter has checked, because
	// PreFilter rejected the pod or excluded the nodes.
	Unexamined() reason.Rejection
	// RejectionIn returns the filters' rejection of a node in a dry run of View, without
	// the pods nominated to the node. It is zero if the node passes. The error is a
	// filter's, or explains why filters cannot run.
	RejectionIn(dryRun *state.Draft, slot int32) (reason.Rejection, error)
	// ScoresIn returns the normalised scores of nodes in a dry run of View. The first
	// index is the plugin's position among the profile's Scores, the second the position
	// in slots, which must ascend. The entry is empty for a plugin with Turn, or one that
	// skips the pod.
	ScoresIn(dryRun *state.Draft, slots []int32) ([][]int64, error)
	// Preempt searches for the best node and the pods to evict from it, by
	// kube-scheduler's rules of DefaultPreemption. An error means that the search found
	// nothing, and failed on some nodes or in an extender.
	Preempt(rules PreemptionRules) (Preemption, error)
}

// PreemptionRules are the rules of DefaultPreemption that differ between releases. The
// zero value has the rules of Kubernetes 1.37.
type PreemptionRules struct {
	// Budgets choose the pods that PodDisruptionBudgets protect.
	Budgets model.BudgetRules
	// TiesByUID orders pods of equal priority and start by UID, instead of namespace and
	// name. The first is spared longest.
	TiesByUID bool
	// WithoutVictims passes nodes where no pod needs to be evicted to the extenders that
	// preempt, which may choose victims there. Without such an extender, the message
	// counts these nodes as nodes without victims. Otherwise such a node is an error.
	WithoutVictims bool
}

// Preemption is the result of a search for victims. At most one field is set, and none if
// extenders left no candidate.
type Preemption struct {
	// Ineligible is the reason why the pod must not preempt now.
	Ineligible string
	Candidate  *Candidate
	// Rejection has the reasons, node by node, why no candidate exists.
	Rejection *plan.Rejection
}

// Candidate is a node and the pods to evict from it, at least one.
type Candidate struct {
	Slot int32
	// Victims are sorted by importance, the most important first.
	Victims []*model.Pod
	// Violations counts the victims that violate a PodDisruptionBudget.
	Violations int
	// Outranked are the pods that lose their nominations to the node if a victim is
	// evicted. Cycle.Preempt sets them.
	Outranked []*model.Pod
}

// Score rates the nodes for a pod. Exactly one of Need, NeedIn, Set and Turn is set.
type Score struct {
	Name string
	// Reads are the aspects of a node that scores depend on, and Normalization defines
	// how raw scores are scaled to 0..MaxScore. They are set with Need and NeedIn, whose
	// scores depend on the pod and one node: other nodes matter only through
	// normalization.
	Reads         model.Aspect
	Normalization model.Normalization
	// Need reduces the pod to the part that determines the scores. Nil means that the
	// plugin adds nothing to any node: kube-scheduler's PreScore Skip. It is called
	// before the pod reaches the loop.
	Need func(pod *model.Pod) ScoreNeed
	// Varying is set, with Need, if the needs of some pods depend on more than the pod.
	// It returns the need of such a pod. For other pods varies is false, and Need
	// applies. It is called in each of the pod's turns that score nodes.
	Varying func(v state.View, pod *model.Pod) (need ScoreNeed, varies bool)
	// NeedIn is Need for a plugin whose needs depend on more than the pod, see
	// Filter.NeedIn. It is called in each of the pod's turns that score nodes. An error
	// fails the turn.
	NeedIn func(v state.View, pod *model.Pod) (ScoreNeed, error)
	// Set is Need for a plugin that scores all feasible nodes together. It is called
	// before the pod reaches the loop.
	Set func(pod *model.Pod) SetNeed
	// Turn writes the normalised score, 0 to MaxScore, of each slot, by position, in one
	// of the pod's turns. Its scores are not cached. False means that the plugin adds
	// nothing to any node: kube-scheduler's Skip at PreScore. An error fails the pod's
	// turn; its text is kube-scheduler's, complete.
	Turn func(v state.View, slots []int32, scores []int64) (bool, error)
}

// Reserve reserves objects for a pod besides the node's resources.
type Reserve struct {
	Name string
	// Holds returns the holds of a pod placed on the node, which last until the pod is
	// forgotten. An error sends the pod back to the queue.
	Holds func(v state.View, pod *model.Pod, slot int32) ([]plan.Hold, error)
	// Measured means that the plugin's calls are measured elsewhere: it is out-of-tree.
	Measured bool
}

// Steps returns the steps that a plugin adds to the binding of a placement, in order. An
// error sends the pod back to the queue.
type Steps func(v state.View, p *plan.Placement) ([]plan.Step, error)

// Done reports whether a plugin's step for the placement may stop waiting. It is called
// when an object that the step names has changed. An error means that the wait can never
// succeed.
type Done func(v state.View, p *plan.Placement) (done bool, err error)

// Permit adds steps, such as waiting, before the binding of a placement.
type Permit struct {
	Name  string
	Steps Steps
	// Done is set if steps wait.
	Done Done
}

// PreBind adds steps between a decision and its binding, such as binding volumes.
type PreBind struct {
	Name  string
	Steps Steps
	// Done is set if steps wait.
	Done Done
}

// Bind binds pods. The first Bind plugin of a profile binds all of its pods.
type Bind struct {
	Name string
	// Binding returns the object that binds the pod to the node.
	Binding func(pod *model.Pod, nodeName string) *v1.Binding
	// Tries is the number of attempts at a binding before its failure is final.
	Tries int
	// Retry reports whether, and after which wait, a binding is sent again when attempt
	// number try, counted from 1, has failed with err.
	Retry func(err error, try int) (wait time.Duration, again bool)
}

// PostBind adds steps after the binding.
type PostBind struct {
	Name  string
	Steps Steps
}
