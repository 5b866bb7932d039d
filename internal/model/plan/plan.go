// Package plan defines scheduling decisions.
//
// It holds the values that pass between queue, engine, state, commit, report and explain.
// Work is the pods to decide about. Decision is their placement, or the Rejection that
// explains why they have none. The package owns nothing and has no effects.
package plan

import (
	"fmt"
	"slices"
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

// Work is the pods to decide about together: a single pod, or the members of a group in
// placement order.
//
// Invariant: Work has at least one pod.
type Work struct {
	Pods []QueuedPod
	// Group is the pod group of the pods. It is nil for a pod that is decided about
	// alone. The work of a single member has one pod and the group.
	Group *model.PodGroup
	// Tree is the tree of groups that contains the pods. It is nil for a group outside of
	// any composite group. Group then represents the whole tree. In the work of a single
	// member, Group is the member's own group.
	Tree *model.GroupTree
	// Rounds counts the earlier rounds of the turn, which ended unfinished.
	Rounds int
}

// WorkFor returns the work of deciding about a pod that does not come from the queue.
func WorkFor(pod *model.Pod) Work { return Work{Pods: []QueuedPod{{Pod: pod}}} }

// Outcome is the result of a decision.
type Outcome uint8

const (
	// Undecided is the zero value: the decision has not been made.
	Undecided Outcome = iota
	// Placed means that every pod has a node, listed in Placements.
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
	// Nothing was decided. The pods are ready at once, and their next turn continues this
	// one.
	Unfinished
)

var outcomeNames = [...]string{"undecided", "placed", "unschedulable", "failed", "terminating", "no nodes", "unfinished"}

// String returns the name of the outcome.
func (o Outcome) String() string { return outcomeNames[o] }

// Decision is the result of one Work.
type Decision struct {
	Work
	Outcome Outcome
	// Placements are in the order of Work.Pods. They are empty unless the outcome is
	// Placed.
	Placements []Placement
	// Evictions are the pods to remove so that the first pod, which is nominated, fits.
	// In the decision about a group member, they make room for the whole group.
	Evictions []Eviction
	// Writes come from PostFilter plugins and make room besides evictions. No binding
	// waits for them. Pods whose claims they release do.
	Writes []Write
	// Advice is a sentence that suggests how to get the pod a node, used only in the
	// pod's event. It is empty if no suggestion was found or requested.
	Advice string
	// Deferral, unless it is nil, is added to the first pod's event and explains the
	// price of its turns.
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
	// Details is the key under which a witness of the loop stores the details of a
	// decision about a group member. It is 0 if no witness stores them.
	Details uint64
	// Nodes counts all nodes. Feasible counts those that are feasible for the last pod
	// tried.
	Nodes, Feasible int
}

// GroupDecision is the result of a Work with a group.
type GroupDecision struct {
	Group *model.PodGroup
	// Tree is the work's tree. It is nil for a group outside of any composite group.
	Tree *model.GroupTree
	// Below are the decisions about the PodGroups of a tree that have members among
	// Members, in the tree's order. Their members are parts of Members.
	Below []GroupDecision
	// Outcome is Placed if enough members have a node, and Unschedulable if they do not.
	// It is Failed after an error, and Terminating if all waiting members are being
	// deleted.
	Outcome Outcome
	// Message explains the outcomes Unschedulable and Failed.
	Message string
	// Members are the decisions about the members, one pod each. Members of a tree are in
	// placement order. One decision contains the group's evictions.
	Members []Decision
	// Preemption is the result of the search for victims. It is nil if no search was
	// made.
	Preemption *GroupPreemption
}

// Root identifies the group or tree that the decision is about.
func (d *GroupDecision) Root() model.RootKey {
	return model.RootKey{Key: d.Group.Key, Composite: d.Tree != nil}
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

// Waits reports whether the group waits for its victims, of this attempt or an earlier
// one.
func (d *GroupDecision) Waits() bool {
	return d.Outcome == Unschedulable && d.Preemption != nil && d.Preemption.Status == StatusSuccess
}

// IsAbout reports whether the pod is among the pods of the decision.
func (d *Decision) IsAbout(pod *model.Pod) bool {
	return slices.ContainsFunc(d.Pods, func(other QueuedPod) bool { return other.Pod.UID == pod.UID })
}

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
	QueuedPod
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

// Nomination changes one pod's status.nominatedNodeName. The pod need not be among the
// pods of the decision.
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
	// Kept means that a node would be feasible if no room were reserved there for a pod
	// group.
	Kept bool
}

// Text returns kube-scheduler's sentence for a rejection by this number of nodes, without
// the text of PostFilter plugins.
func (r *Rejection) Text(nodes int) string {
	if r.Group != "" {
		return r.Group
	}
	var b strings.Builder
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
