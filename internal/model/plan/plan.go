// Package plan defines scheduling decisions.
//
// It holds the values that pass between queue, engine, state, commit, report and explain.
// An Attempt has the pods to decide about. The Decision about each is its Placement, or
// the Rejection that explains why it has none. The package owns nothing and has no
// effects.
package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// QueuedPod is a pod popped from the queue for its turn, with its queueing history.
type QueuedPod struct {
	Pod *model.Pod
	// Attempt counts the pod's turns, including this one.
	Attempt int
	// Since is the time at which the pod first became ready to be scheduled.
	Since time.Time
	// AfterFlush means that no event could have helped the pod. The pod is retried
	// because it was parked for a long time.
	AfterFlush bool
	// Popped is the start of this turn.
	Popped time.Time
	// Woken is the end of the pod's last wait.
	Woken Woken
}

// Woken describes the event that made a pod, or its group, ready for an attempt.
type Woken struct {
	// Event is kube-scheduler's name of the event, such as AssignedPodDelete or
	// UnscheduledPodAdd.
	Event string
	// Plugin is the rejecting plugin whose event registration matched. It is empty if no
	// registration was consulted.
	Plugin string
}

// Attempt is a pod, or a pod group with its members, to decide about in one turn. A pod
// is an attempt with one member. The queue makes it, and the engine or the group's
// algorithm decides about its members. It is valid until the end of the round.
//
// Invariant: Members has at least one element, and exactly one without a group.
type Attempt struct {
	// Group is the pod group of the members. It is nil for a pod that is decided about
	// alone.
	Group *model.PodGroup
	// Tree is the tree of groups that contains the members. It is nil for a group outside
	// of any composite group. Group then represents the whole tree.
	Tree *model.GroupTree
	// Rounds counts the earlier rounds of the turn, which ended unfinished.
	Rounds int
	// Members are the decisions about the pods, undecided at first. Once decided, those
	// of a tree are in placement order. One of them contains the group's evictions.
	Members []Decision
	// Outcome is the outcome of the pod or the group. A group is Placed if enough members
	// have a node, and Unschedulable if they do not. It is Failed after an error, and
	// Terminating if all waiting members are being deleted.
	Outcome Outcome
	// Message explains a group's outcomes Unschedulable and Failed.
	Message string
	// Below are the parts of a tree's attempt: the PodGroups that have members among
	// Members, in the tree's order. Their members are parts of Members.
	Below []Attempt
	// Preemption is the result of the search for victims of a group. It is nil if no
	// search was made.
	Preemption *GroupPreemption
}

// ForPod returns an attempt for a pod alone. Its only member is part of the attempt, so
// that both are one allocation.
func ForPod(pod QueuedPod) *Attempt {
	a := &struct {
		Attempt
		only [1]Decision
	}{}
	a.only[0].QueuedPod = pod
	a.Members = a.only[:]
	return &a.Attempt
}

// ForGroup returns an attempt for the members of a group or, unless the tree is nil, of
// all groups of a tree.
func ForGroup(group *model.PodGroup, tree *model.GroupTree, pods []QueuedPod) *Attempt {
	a := &Attempt{Group: group, Tree: tree, Members: make([]Decision, len(pods))}
	for i := range pods {
		a.Members[i].QueuedPod = pods[i]
	}
	return a
}

// Conclude sets the decision about the only member, and its outcome as the attempt's.
func (a *Attempt) Conclude(d Decision) {
	d.Member = a.Members[0].Member
	a.Members[0], a.Outcome = d, d.Outcome
}

// First returns the first pod.
func (a *Attempt) First() *model.Pod { return a.Members[0].Pod }

// Root identifies the group or tree of the members.
func (a *Attempt) Root() model.RootKey {
	return model.RootKey{Key: a.Group.Key, Composite: a.Tree != nil}
}

// Waits reports whether a group waits for its victims, of this attempt or an earlier one.
func (a *Attempt) Waits() bool {
	return a.Outcome == Unschedulable && a.Preemption != nil && a.Preemption.Status == StatusSuccess
}

// Member is a pod to decide about, alone or with the other members of its group.
type Member struct {
	QueuedPod
	// Group is the pod's own pod group. It is nil for a pod that is decided about alone.
	Group *model.PodGroup
	// Tree is the tree of groups that contains the pod, if its group is in one.
	Tree *model.GroupTree
}

// Alone returns a pod that is decided about alone and does not come from the queue.
func Alone(pod *model.Pod) Member { return Member{QueuedPod: QueuedPod{Pod: pod}} }

// Outcome is the result of a decision.
type Outcome uint8

const (
	// Undecided is the zero value: the decision has not been made.
	Undecided Outcome = iota
	// Placed means that the pod, or enough members of a group, have a node.
	Placed
	// Unschedulable means that no node is feasible. Rejection explains why.
	Unschedulable
	// Failed means that an error, Err, prevented a decision. The pods are retried after a
	// backoff.
	Failed
	// Terminating means that the pod is being deleted. It was not tried and will not be.
	Terminating
	// NoNodes means that the cluster has no nodes. As in kube-scheduler, the pods are
	// retried after a backoff.
	NoNodes
	// Unfinished means that the turn has used up its budget of work for one round.
	// Nothing was decided. The pods are ready at once, and the turn continues in a later
	// round.
	Unfinished
)

var outcomeNames = [...]string{"undecided", "placed", "unschedulable", "failed", "terminating", "no nodes", "unfinished"}

// String returns the name of the outcome.
func (o Outcome) String() string { return outcomeNames[o] }

// Decision is the result for one member of an attempt.
type Decision struct {
	Member
	Outcome Outcome
	// Placement is set if the outcome is Placed.
	Placement Placement
	// Evictions are the pods to remove so that the pod, which is nominated, fits. In the
	// decision about a group member, they make room for the whole group.
	Evictions []Eviction
	// Writes come from PostFilter plugins and make room besides evictions. No binding
	// waits for them. Pods whose claims they release do.
	Writes []Write
	// Advice is a sentence that suggests how to get the pod a node, used only in the
	// pod's event. It is empty if no suggestion was found or requested.
	Advice string
	// Deferral, unless it is nil, is added to the pod's event and explains the price of
	// its turns.
	Deferral *Deferral
	// PostFilter is the text that PostFilter plugins add to the rejection. It may be
	// empty.
	PostFilter string
	// PostFilterErr is the error of a PostFilter plugin. PostFilter contains its text.
	// The error does not change the outcome, which the filters determine.
	PostFilterErr error
	// Nominations change status.nominatedNodeName. Pods that are not listed keep theirs.
	Nominations []Nomination
	// Rejection is set if the outcome is Unschedulable.
	Rejection *Rejection
	// Err is set if the outcome is Failed.
	Err error
	// Details is the key under which a witness of the loop stores the details of the
	// decision. It is 0 if no witness stores them.
	Details uint64
	// Nodes counts all nodes. Feasible counts the feasible ones.
	Nodes, Feasible int
}

// GroupPreemption is the result of preemption for a pod group.
type GroupPreemption struct {
	// Status is kube-scheduler's name of the result. Ongoing means that the status is
	// Success because victims of an earlier attempt are still terminating.
	Status  string
	Ongoing bool
	// Victims counts the evicted pods. Disruptions counts the victims that are members of
	// a group, where a group that is evicted as a whole counts once. Violations counts
	// the victims whose eviction violates a PodDisruptionBudget.
	Victims, Disruptions, Violations int
}

// Status values of GroupPreemption. Success: pods are evicted, or earlier victims are
// still terminating. Unschedulable: no eviction helps. Unresolvable: no pod can be
// evicted. Error: the search for victims failed.
const (
	StatusSuccess       = "Success"
	StatusUnschedulable = "Unschedulable"
	StatusUnresolvable  = "UnschedulableAndUnresolvable"
	StatusError         = "Error"
)

// NominationOf returns the nomination of a pod. Pods that are not listed keep theirs.
func (d *Decision) NominationOf(pod *model.Pod) Nomination {
	for i := range d.Nominations {
		if d.Nominations[i].Pod.UID == pod.UID {
			return d.Nominations[i]
		}
	}
	return Nomination{Pod: pod}
}

// Placement assigns one pod to a node.
type Placement struct {
	Pod      *model.Pod
	NodeName string
	// Total is the node's weighted score. It is 0 if only one node was feasible.
	Total int64
	// Nodes counts all nodes. Feasible counts the feasible ones.
	Nodes, Feasible int
	// Holds are reservations besides the node's resources.
	Holds []Hold
	// Steps are the plugins' actions before and after the binding, in order. Most pods
	// have none.
	Steps []Step
}

// Hold is a reservation besides the node's resources, such as a volume or devices for a
// claim. The state assumes it together with the pod, and releases it when the pod is
// forgotten.
type Hold struct {
	Plugin string
	// Object is the reserved object.
	Object model.Ref
	// Value identifies the reserved part of the object. Its type is private to the
	// plugin.
	Value Held
}

// Held is the value of a Hold, a type of one plugin.
type Held interface{ IsHeld() }

// Eviction is a pod to remove from its node.
type Eviction struct {
	// Pod may already be terminating; the eviction then needs no request.
	Pod      *model.Pod
	NodeName string
}

// NominationMode is a change of a pod's status.nominatedNodeName.
type NominationMode uint8

// The nomination modes.
const (
	// Keep leaves the nomination unchanged.
	Keep NominationMode = iota
	// Set replaces it with the name of a node.
	Set
	// Clear makes it empty.
	Clear
)

// Nomination changes one pod's status.nominatedNodeName. The pod need not be the
// decision's own.
type Nomination struct {
	Pod  *model.Pod
	Mode NominationMode
	// NodeName is set if the mode is Set.
	NodeName string
	// ByPlugin means that a plugin made the nomination by its Handle. No decision writes
	// it to the API.
	ByPlugin bool
}

// Rejection explains why no node is feasible: a reason for each node, or one for all.
type Rejection struct {
	// Group is the complete text for a member of a pod group that is rejected because its
	// group is. The other fields are then empty.
	Group string
	// PreFilter is the message of a plugin that rejected every node before filters ran.
	PreFilter string
	// Counts holds the number of rejected nodes for each reason, in kube-scheduler's
	// order. It is empty if PreFilter is set.
	Counts []reason.Count
	// Plugins are the names of the rejecting plugins, sorted. Only an event that may
	// change such a plugin's verdict justifies another attempt.
	Plugins []string
	// Pending are the Plugins that returned Pending, because they wait for something
	// outside of the cluster. A wake-up by such a plugin's hint skips the pod's backoff.
	Pending []string
	// HeldRoom means that a node would be feasible if no room were reserved there for a
	// pod group.
	HeldRoom bool
}

// Text returns kube-scheduler's sentence for a rejection by this number of nodes, without
// the text of PostFilter plugins.
func (r *Rejection) Text(nodes int) string {
	if r.Group != "" {
		return r.Group
	}
	var b strings.Builder
	length := len("0/100000 nodes are available:.")
	for _, c := range r.Counts {
		length += len(", 100000 ") + len(c.Reason)
	}
	b.Grow(length)
	fmt.Fprintf(&b, "0/%d nodes are available:", nodes)
	if r.PreFilter != "" {
		fmt.Fprintf(&b, " %s.", r.PreFilter)
		return b.String()
	}
	for i, c := range r.Counts {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(c.Nodes))
		b.WriteByte(' ')
		b.WriteString(c.Reason)
	}
	if len(r.Counts) > 0 {
		b.WriteByte('.')
	}
	return b.String()
}
