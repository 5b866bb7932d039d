package plugin

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// MaxScore is the best score of a node after normalization.
const MaxScore = 100

// Plugin is a built-in plugin of one profile, with its arguments already checked. It implements the interfaces of its extension points.
type Plugin interface {
	// Name is kube-scheduler's name of the plugin.
	Name() string
}

// PreEnqueue decides whether a pod may be tried at all. It is a PodPreEnqueue, a StatePreEnqueue or a GroupPreEnqueue.
type PreEnqueue interface{ Plugin }

// PodPreEnqueue is a PreEnqueue plugin that decides by the pod alone.
type PodPreEnqueue interface {
	PreEnqueue
	// PreEnqueue returns the reason why the pod must not be tried yet, or "".
	PreEnqueue(pod *model.Pod) (reason string)
}

// StatePreEnqueue is a PreEnqueue plugin that reads the cluster, such as objects that the pod refers to. A pod that it holds is looked at again when an
// event happens that the plugin has registered for. A pod that it has let pass is looked at again when the pod is next to become active or to back off, and
// not before, whatever becomes of the cluster.
type StatePreEnqueue interface {
	PreEnqueue
	// PreEnqueueIn returns the reason why the pod must not be tried yet, or "". The view is that of the state, without a draft.
	PreEnqueueIn(v state.View, pod *model.Pod) (reason string)
}

// GroupPreEnqueue is a PreEnqueue plugin that decides about the members of a pod group together.
type GroupPreEnqueue interface {
	PreEnqueue
	// PreEnqueueGroup returns the reason why a group must not be tried yet, or "". all is how many members it has, with and without a node.
	PreEnqueueGroup(group *model.PodGroup, all int) (reason string)
	// PreEnqueueTree returns the same of the groups below a composite one; all returns how many members one of them has.
	PreEnqueueTree(tree *model.GroupTree, all func(model.GroupKey) int) (reason string)
}

// AsPreEnqueue returns the plugin as a PreEnqueue plugin, if it is one of these kinds.
func AsPreEnqueue(p Plugin) (pre PreEnqueue, ok bool) {
	switch p.(type) {
	case PodPreEnqueue, StatePreEnqueue, GroupPreEnqueue:
		return p, true
	}
	return nil, false
}

// QueueSort orders the pods in the active queue. All profiles have the same.
type QueueSort interface {
	Plugin
	// Less reports whether a goes before b. If neither goes before the other, the pod that arrived first does.
	Less(a, b Queued) bool
}

// EnqueueExtensions registers the events that may make a pod schedulable that the plugin rejected.
type EnqueueExtensions interface {
	Plugin
	// EventsToRegister returns the events, with hints and with what lets them find the pods that they can help.
	EventsToRegister() []model.EventToRegister
}

// StateEnqueueExtensions are EnqueueExtensions with hints that depend on objects that a pod refers to: see model.AskedHint.
type StateEnqueueExtensions interface {
	EnqueueExtensions
	// AskedIn returns what the pod asks of the cluster, as far as hints depend on it. It is called when the pod is parked under the plugin, or held by it.
	AskedIn(v state.View, pod *model.Pod) model.Need
}

// PreFilter runs before any node is checked.
type PreFilter interface {
	Plugin
	// PreFilter may name the only nodes to check, or reject all.
	PreFilter(v state.View, pod *model.Pod) PreFilterResult
}

// PreFilterResult is the result of a PreFilter plugin. The zero value restricts nothing.
type PreFilterResult struct {
	// Narrowed means that only Nodes are to be checked.
	Narrowed bool
	Nodes    []string
	// Rejection, unless it is empty, rejects every node, as unresolvable unless Resolvable is set.
	Rejection string
	// Resolvable means that evicting pods may resolve the rejection (kube-scheduler's Unschedulable): the plugins behind are run all the same, and an
	// unresolvable rejection by one of them is reported instead, as is the last of several resolvable ones.
	Resolvable bool
	// Err, unless it is nil, fails the pod's turn.
	Err error
}

// IsZero reports whether the result restricts nothing.
func (r *PreFilterResult) IsZero() bool { return !r.Narrowed && r.Rejection == "" && r.Err == nil }

// PodPreFilter is a PreFilter plugin that can tell from the pod alone that it restricts nothing. It is then not run in the pod's turns.
type PodPreFilter interface {
	PreFilter
	// Skips reports whether PreFilter returns the zero result for the pod, in any view. It is called before the pod reaches the loop, on the
	// goroutine that compiles pods.
	Skips(pod *model.Pod) bool
}

// Filter decides on which nodes a pod may run. It is a NodeFilter, a StateFilter, a CountFilter or a TurnFilter.
type Filter interface{ Plugin }

// NodeFilter gives verdicts that depend on the pod and one node. The engine stores them in a column for each need.
type NodeFilter interface {
	Filter
	// FilterNeed reduces the pod to what determines the plugin's verdict on any node; nil means that every node passes, which is
	// kube-scheduler's PreFilter Skip. It is called before the pod reaches the loop.
	FilterNeed(pod *model.Pod) FilterNeed
	// FilterReads names the aspects of a node that verdicts depend on.
	FilterReads() model.Aspect
}

// VaryingFilter is a NodeFilter for some pods of which the need depends on more than the pod, as those of a StateFilter.
type VaryingFilter interface {
	NodeFilter
	// VaryingFilterNeed returns the need of such a pod; varies is false for all others, whose need FilterNeed has. It is called in each of a pod's turns.
	VaryingFilterNeed(v state.View, pod *model.Pod) (need FilterNeed, varies bool)
}

// StateFilter is a NodeFilter whose needs depend on more than the pod: on objects that the pod refers to, such as its claims.
// A dry run keeps the needs of its cycle: only what the node itself has in use differs there.
type StateFilter interface {
	Filter
	// FilterNeedIn is FilterNeed, called in each of the pod's turns. A rejection that is not empty rejects every node; an error fails the pod's
	// turn.
	FilterNeedIn(v state.View, pod *model.Pod) (need FilterNeed, rejection string, err error)
	// FilterReads names the aspects of a node that verdicts depend on.
	FilterReads() model.Aspect
}

// CountFilter gives verdicts that depend on the pods around a node. It has no column: placing a pod changes one count.
type CountFilter interface {
	Filter
	// CountNeed reduces the pod to what determines the plugin's verdicts; nil means that every node passes. It is called before the pod reaches
	// the loop.
	CountNeed(pod *model.Pod) CountNeed
	// CountReads declares what verdicts depend on.
	CountReads() Reads
}

// AsFilter returns the plugin as a filter, if it is one of the four kinds.
func AsFilter(p Plugin) (f Filter, ok bool) {
	switch p.(type) {
	case NodeFilter, StateFilter, CountFilter, TurnFilter:
		return p, true
	}
	return nil, false
}

// PostFilter makes room for a pod without a feasible node, or says why it cannot.
type PostFilter interface {
	Plugin
	// PostFilter may return pods to evict so that the pod fits on a node, which it is then nominated to. An error ends the chain; it becomes part of
	// the rejection's text, and leaves the nomination as it is.
	PostFilter(c Cycle, pod *model.Pod) (PostFilterResult, error)
}

// GroupPostFilter is the PostFilter plugin under whose name pods are evicted for pod groups. The eviction is decided by engine/group, which has the group's turn.
type GroupPostFilter interface {
	PostFilter
	// ByGroupPolicy reports whether a group's own preemption policy counts, and not that of its members.
	ByGroupPolicy() bool
}

// GroupFreeing is a PostFilter plugin that gives back what stands in the way of a pod group. It is asked when the group's attempt has failed, first about each member that was tried, with the
// group's earlier members where that attempt had them.
type GroupFreeing interface {
	PostFilter
	// ConcernsGroup reports whether the member has objects for which the plugin must be shown its turn. If that is so for none of them, Member is not called for any.
	ConcernsGroup(v state.View, member *model.Pod) bool
	// Member returns what the plugin notes of a member's turn, whether or not the member found a node in it; nil if kube-scheduler's plugin had no part in that turn.
	Member(c Cycle, member *model.Pod) any
	// FreeForGroup returns what is given back for a group of which none of the members that are tried is on a node. notes are what Member returned; they are nil
	// if the turns were not shown. first is the first member that was tried. An error fails the attempt.
	FreeForGroup(v state.View, group *model.PodGroup, first *model.Pod, notes []any) (GroupFreed, error)
}

// GroupFreed is what a GroupFreeing plugin gives back.
type GroupFreed struct {
	// Done means that no further plugin is run: kube-scheduler's UnschedulableAndUnresolvable.
	Done bool
	// Message is added to the text of the group's rejection.
	Message string
	// Writes are sent once the decision is carried out, as those of a PostFilterResult.
	Writes []plan.Write
}

// OwnPostFilter is a PostFilter that may look at objects which belong to the pod. What it finds for such a pod is not what it would find for another with equal
// needs.
type OwnPostFilter interface {
	PostFilter
	// LooksAtOwn reports whether the pod has such objects.
	LooksAtOwn(v state.View, pod *model.Pod) bool
}

// PostFilterResult is what a PostFilter plugin found. The zero value is kube-scheduler's Unschedulable without a reason: it found nothing, has
// nothing to say, and leaves the nomination as it is.
type PostFilterResult struct {
	// Done means that no further plugin is run: kube-scheduler's Success and UnschedulableAndUnresolvable.
	Done bool
	// Message is added to the text of the pod's rejection.
	Message string
	// Nomination is what becomes of the pod's nominated node; NodeName is the node if the mode is Set.
	Nomination plan.NominationMode
	NodeName   string
	// Evictions are the pods to evict from that node.
	Evictions []plan.Eviction
	// Writes are sent once the decision is carried out, whatever other PostFilter plugins find. What they change wakes the pod, if anything does: their end is
	// not reported to it, and it may be tried again before, so they name what they apply to.
	Writes []plan.Write
	// Outranked are pods that lose their nomination to that node.
	Outranked []*model.Pod
	// Passing means that it holds in this turn alone, whatever stays as it is: it depends on what was said outside of the scheduler.
	Passing bool
}

// Cycle is a pod's turn after its filters, as PostFilter plugins see it. It is valid until PostFilter returns.
//
// Filters are asked in dry runs of the turn, in which pods are taken off a node and put back. As in kube-scheduler, a node must pass with the pods on
// it that are nominated to it and that the pod does not outrank, and without them.
type Cycle interface {
	// View is the cluster in which the turn takes place.
	View() state.View
	// Potential returns the slots, ascending, of the nodes whose rejection evicting pods may resolve. There are none if PreFilter rejected the pod.
	Potential() []int32
	// PotentialNodes returns how many these are, without a look at each.
	PotentialNodes() int
	// Remembered identifies the rejection of this turn, if it is remembered for pods like this one; 0 otherwise. While it is the same, a node is one of the potential nodes as before, unless the
	// journal names its slot with one of the aspects that are read.
	Remembered() (rejection uint64, reads model.Aspect)
	// Resolvable reports whether a node is one of these.
	Resolvable(slot int32) bool
	// PreFiltered reports whether kube-scheduler's plugin of that name has run at PreFilter in this turn: these run in order, until one rejects the pod.
	PreFiltered(plugin string) bool
	// Alike returns what the filters' objections in dry runs depend on, besides the pod's priority; ok is false if that is not known.
	Alike() (alike Alike, ok bool)
	// Tie returns a number for each node; of equally good ones, that with the highest is taken. It is rank.Tie of the turn's Salt and the node's Place, which is the same in all turns.
	Tie(slot int32) uint64
	Salt() uint64
	Place(slot int32) uint64
	// Objection returns the first objection to a node in a dry run of View.
	Objection(dryRun *state.Draft, slot int32) Objection
	// Reasons returns an objection in kube-scheduler's words, or the error that it stands for.
	Reasons(o Objection) (texts []string, err error)
	// Rejected returns why the filters rejected a node in this turn, as it was reported; if PreFilter rejected the pod, that is the same for all nodes.
	Rejected(slot int32) reason.Rejection
	// Unexamined returns the rejection of the nodes that no filter has looked at, because PreFilter
	// rejected the pod, or named other nodes.
	Unexamined() reason.Rejection
	// RejectionIn returns why the filters reject a node in a dry run of View as it is, without the pods that are nominated to it; zero if they do not.
	// The error is that of a filter, or says why filters cannot be run.
	RejectionIn(dryRun *state.Draft, slot int32) (reason.Rejection, error)
	// ScoresIn returns the normalised scores of nodes in a dry run of View: by the plugin's position
	// among the profile's Scores, then by position in slots, which ascend. A plugin that skips the pod
	// has none, nor has a TurnScore.
	ScoresIn(dryRun *state.Draft, slots []int32) ([][]int64, error)

	// Extenders returns the extenders of the profile, in the order in which they are asked.
	Extenders() []Extender

	// OnlyUsage reports whether the filters read nothing of the pods on a node but what they occupy. A Use of a node then says as much as a dry run,
	// and costs less.
	OnlyUsage() bool
	// ObjectionWith returns the first objection to a node with another use. OnlyUsage must be true.
	ObjectionWith(slot int32, use *state.Use) Objection
	// FitsWith reports whether the node that ObjectionWith was last asked about, and had no objection to, has none with more use either.
	FitsWith(slot int32, use *state.Use) bool
	// Request returns what must be free on a node, and room for one more pod, for any of the filters to pass it; nil if that is not known. Amounts of
	// 0 or less are not asked for.
	Request() *model.Resources
	// OnlyRequest reports whether the potential nodes were rejected for lack of that, and the filters read nothing else of the pods on a node: then
	// potential nodes that lack the same have the same objection.
	OnlyRequest() bool

	// Kept returns what the plugin of this name keeps from one turn to the next, which is built at first. It belongs to the engine, whose goroutine
	// alone uses it. What is found with it must not depend on it.
	Kept(plugin string, build func() any) any
	// Worked adds to the engine's counters: how many nodes were looked at, how many rated by numbers, and on how many it was tried which pods to evict.
	Worked(looked, rated, tried int)
}

// Alike is what the objections to nodes in dry runs of a turn depend on: while Key and Versions are equal, the objection to a node changes only when
// the journal names its slot with one of the aspects that are read.
type Alike struct {
	Key      any // comparable
	Versions []uint64
	Reads    model.Aspect
}

// Objection identifies the first filter that objects to a node, by its position in the profile, and its verdict. There is none if it is zero.
type Objection struct {
	Filter int
	Code   reason.Code
}

// LeftOut is the Filter of the objection to a node that PreFilter plugins did not name.
const LeftOut = -1

// IsNone reports whether no filter objects.
func (o Objection) IsNone() bool { return o == Objection{} }

// Score rates the nodes for a pod. It is a NodeScore, a StateScore, a SetScore or a TurnScore.
type Score interface{ Plugin }

// NodeScore gives scores that depend on the pod and one node, and on the other nodes only through normalization.
type NodeScore interface {
	Score
	// ScoreNeed reduces the pod to what determines the plugin's scores; nil means that it adds nothing to any node, which is kube-scheduler's
	// PreScore Skip. It is called before the pod reaches the loop.
	ScoreNeed(pod *model.Pod) ScoreNeed
	// ScoreReads names the aspects of a node that scores depend on.
	ScoreReads() model.Aspect
	// Normalization is how raw scores are scaled to 0..MaxScore.
	Normalization() model.Normalization
}

// VaryingScore is a NodeScore for some pods of which the need depends on more than the pod, as those of a StateScore.
type VaryingScore interface {
	NodeScore
	// VaryingScoreNeed returns the need of such a pod; varies is false for all others, whose need ScoreNeed has. It is called in each of the pod's turns in
	// which nodes are scored.
	VaryingScoreNeed(v state.View, pod *model.Pod) (need ScoreNeed, varies bool)
}

// StateScore is a NodeScore whose needs depend on more than the pod, as those of a StateFilter.
type StateScore interface {
	Score
	// ScoreNeedIn is ScoreNeed, called in each of the pod's turns in which nodes are scored. An error fails the turn.
	ScoreNeedIn(v state.View, pod *model.Pod) (ScoreNeed, error)
	// ScoreReads names the aspects of a node that scores depend on.
	ScoreReads() model.Aspect
	// Normalization is how raw scores are scaled to 0..MaxScore.
	Normalization() model.Normalization
}

// SetScore scores all feasible nodes together.
type SetScore interface {
	Score
	// SetNeed reduces the pod to what determines the plugin's scores; nil means that it adds nothing to any node. It is called before the pod
	// reaches the loop.
	SetNeed(pod *model.Pod) SetNeed
}

// AsScore returns the plugin as a Score plugin, if it is one of the four kinds.
func AsScore(p Plugin) (s Score, ok bool) {
	switch p.(type) {
	case NodeScore, StateScore, SetScore, TurnScore:
		return p, true
	}
	return nil, false
}

// Reserve reserves what a pod needs besides room on its node.
type Reserve interface {
	Plugin
	// Reserve returns what the pod holds if it is placed on the node, until it is forgotten. An error sends the pod back to the queue.
	Reserve(v state.View, pod *model.Pod, slot int32) ([]plan.Hold, error)
}

// Permit adds steps, such as waiting, before a placement goes on to its binding.
type Permit interface {
	Plugin
	// Permit returns a placement's steps, in order. An error sends the pod back to the queue.
	Permit(v state.View, p *plan.Placement) ([]plan.Step, error)
}

// PreBind adds steps between a decision and its binding, such as the binding of volumes.
type PreBind interface {
	Plugin
	// PreBind returns a placement's steps, in order. An error sends the pod back to the queue.
	PreBind(v state.View, p *plan.Placement) ([]plan.Step, error)
}

// Waiter is a Permit or PreBind plugin with steps that wait.
type Waiter interface {
	Plugin
	// Done reports whether the plugin's step of the placement need wait no longer. It is called when an object that the step names has changed.
	// An error means that the wait can never end.
	Done(v state.View, p *plan.Placement) (done bool, err error)
}

// Bind binds pods. Of a profile's Bind plugins the first binds all of its pods.
type Bind interface {
	Plugin
	// Binding returns the object to send to bind the pod to the node.
	Binding(pod *model.Pod, nodeName string) *v1.Binding
	// Tries returns how often a binding is sent before its failure is final.
	Tries() int
	// Retry reports whether to send a binding again after its try-th try, counted from 1, failed with err, and after which wait.
	Retry(err error, try int) (wait time.Duration, again bool)
}

// PostBind adds steps after the binding.
type PostBind interface {
	Plugin
	// PostBind returns a placement's steps, in order.
	PostBind(v state.View, p *plan.Placement) ([]plan.Step, error)
}
