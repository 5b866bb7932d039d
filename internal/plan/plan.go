// Package plan says what was decided.
//
// It gives the words that pass between queue, engine, state, commit, report and explain: Work (pods whose turn it is), Decision (where
// they go, or why nowhere), Rejection. Values only: it owns nothing, computes nothing and has no effects.
package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/reason"
)

// QueuedPod is a pod whose turn it is, with what the queue knows of it.
type QueuedPod struct {
	Pod *model.Pod
	// Attempt counts the pod's turns, this one included.
	Attempt int
	// Since is when the pod first became ready to be scheduled.
	Since time.Time
	// AfterFlush says that nothing happened that could help the pod: it is tried because it was parked for long.
	AfterFlush bool
	// Popped is when this turn began.
	Popped time.Time
	// Woken is what ended the pod's last wait.
	Woken Woken
}

// Woken is what made a pod, or its group, ready to be tried.
type Woken struct {
	// Event is kube-scheduler's name of the event, such as AssignedPodDelete or UnscheduledPodAdd.
	Event string
	// Plugin is that of the plugins that rejected the pod whose registration says that the event may help; empty where no registration was asked.
	Plugin string
}

// Work is the pods to be decided about together: one, or the members of a group, in the order in which they are placed. There is at least
// one.
type Work struct {
	Pods []QueuedPod
	// Group is the pod group whose members they are; nil for a pod that is decided about alone. A member by itself is work with one pod and the group.
	Group *model.PodGroup
	// Tree is the tree of groups that the pods belong to, of which Group is then what stands for all of it; in the work of a member by itself, Group is its own. It is nil
	// for a group that belongs to no composite one.
	Tree *model.GroupTree
	// Rounds counts the earlier rounds of the turn, all of which ended unfinished.
	Rounds int
}

// WorkFor returns the work of deciding about a pod that does not come from the queue.
func WorkFor(pod *model.Pod) Work { return Work{Pods: []QueuedPod{{Pod: pod}}} }

// Outcome is how a decision ended.
type Outcome uint8

const (
	// Undecided is the zero value: there is no decision.
	Undecided Outcome = iota
	// Placed means that every pod has a node. Placements says which.
	Placed
	// Unschedulable means that no node will do. Rejection says why.
	Unschedulable
	// Failed means that no answer could be found. Err says why. The pods are tried again after a backoff.
	Failed
	// Terminating means that the pod is being deleted. It was not tried and is not tried again.
	Terminating
	// NoNodes means that the cluster is empty. As in kube-scheduler, the pods are tried again after a backoff.
	NoNodes
	// Unfinished means that the turn has used up its budget of work for one round.
	// Nothing was decided: the pods are ready at once, and their next turn goes on where
	// this one stopped.
	Unfinished
)

var outcomeNames = [...]string{"undecided", "placed", "unschedulable", "failed", "terminating", "no nodes", "unfinished"}

// String returns the outcome in words.
func (o Outcome) String() string { return outcomeNames[o] }

// Decision is the answer to one Work.
type Decision struct {
	Work
	Outcome Outcome
	// Placements are in the order of Work.Pods if the outcome is Placed; otherwise there are none.
	Placements []Placement
	// Evictions are the pods to remove so that the first of the pods, which is nominated, finds room; in the decision about one member of a group, so that its group
	// does.
	Evictions []Eviction
	// Writes are what PostFilter plugins have written so that the pods find room, besides
	// evictions. No binding waits for them; pods whose claims they give back do.
	Writes []Write
	// Advice is a sentence about what would give the pod a node, for its event alone; empty if none is known, or none is asked for.
	Advice string
	// Deferral is what the first pod's event says of the price of its turns; nil if
	// nothing.
	Deferral *Deferral
	// PostFilter is what the PostFilter plugins add to the rejection's text; empty if they add nothing.
	PostFilter string
	// PostFilterErr is set if a PostFilter plugin failed; PostFilter has its text. The outcome is that of the filters all the same.
	PostFilterErr error
	// Nominations say what becomes of status.nominatedNodeName. A pod without one keeps what it has.
	Nominations []Nomination
	// Rejection is set if the outcome is Unschedulable.
	Rejection *Rejection
	// Err is set if the outcome is Failed.
	Err error
	// Details is the number under which a witness of the loop keeps what the decision about a member of a group came from; 0 if none does.
	Details uint64
	// Nodes is how many nodes there are, Feasible how many of them would do for the last pod that was looked at.
	Nodes, Feasible int
}

// GroupDecision is the answer to a Work with a group.
type GroupDecision struct {
	Group *model.PodGroup
	// Tree is that of the work; nil for a group that belongs to no composite one.
	Tree *model.GroupTree
	// Below are the decisions about the PodGroups of a tree that have members among Members, which theirs are parts of, in the order of the tree.
	Below []GroupDecision
	// Outcome is Placed if enough members have a node, Unschedulable if not, Failed if no answer could be found, and Terminating if all that wait are being deleted.
	Outcome Outcome
	// Message says why, for a group that is Unschedulable or Failed.
	Message string
	// Members are the decisions about its members, one pod each; those of a tree in the order in which they are placed. The evictions for the group are part of one of them.
	Members []Decision
	// Preemption is what was found about evicting pods for the group; nil if nobody looked.
	Preemption *GroupPreemption
}

// Root names what was decided about.
func (d *GroupDecision) Root() model.RootKey {
	return model.RootKey{Key: d.Group.Key, Composite: d.Tree != nil}
}

// GroupPreemption is what was found about evicting pods for a pod group.
type GroupPreemption struct {
	// Status is kube-scheduler's name of the result. Ongoing says that it is a success because pods that were evicted before are not gone yet.
	Status  string
	Ongoing bool
	// Victims is how many pods are evicted. Disruptions counts those that are members of a group, of one that is evicted as a whole only the group; Violations
	// those whose eviction violates a PodDisruptionBudget.
	Victims, Disruptions, Violations int
}

// What GroupPreemption.Status may be: pods are evicted, or were and are not gone yet; nothing helps; there is nobody to evict; it could not be found out.
const (
	StatusSuccess       = "Success"
	StatusUnschedulable = "Unschedulable"
	StatusUnresolvable  = "UnschedulableAndUnresolvable"
	StatusError         = "Error"
)

// Waits reports whether the group waits for pods that are evicted for it, or were and are not gone yet.
func (d *GroupDecision) Waits() bool {
	return d.Outcome == Unschedulable && d.Preemption != nil && d.Preemption.Status == StatusSuccess
}

// IsAbout reports whether the pod is one of those that were decided about.
func (d *Decision) IsAbout(pod *model.Pod) bool {
	return slices.ContainsFunc(d.Pods, func(other QueuedPod) bool { return other.Pod.UID == pod.UID })
}

// NominationOf returns what becomes of the pod's nomination.
func (d *Decision) NominationOf(pod *model.Pod) Nomination {
	for i := range d.Nominations {
		if d.Nominations[i].Pod.UID == pod.UID {
			return d.Nominations[i]
		}
	}
	return Nomination{Pod: pod}
}

// Placement is one pod's place on a node.
type Placement struct {
	QueuedPod
	NodeName string
	// Total is the node's weighted score; 0 when there was no choice to make.
	Total int64
	// Nodes is how many nodes there were, Feasible how many of them would have done.
	Nodes, Feasible int
	// Holds are what the placement reserves besides room on the node.
	Holds []Hold
	// Steps are what plugins do before and after the pod is bound, in order. Most pods have none.
	Steps []Step
}

// Hold is something besides room on the node that a placement reserves for its pod until the pod is forgotten: a volume for a claim,
// devices for a claim. The state assumes it with the pod and gives it back.
type Hold struct {
	Plugin string
	// Object is what is held.
	Object model.Ref
	// Value says what of the object is held. Only the plugin knows its type.
	Value any
}

// Eviction is a pod to be removed from its node.
type Eviction struct {
	// Pod may be being deleted already; then nothing is left to do.
	Pod      *model.Pod
	NodeName string
}

// NominationMode says what becomes of a pod's status.nominatedNodeName.
type NominationMode uint8

// The modes.
const (
	// Keep leaves it as it is.
	Keep NominationMode = iota
	// Set makes it the name of a node.
	Set
	// Clear makes it empty.
	Clear
)

// Nomination is what becomes of one pod's status.nominatedNodeName. The pod need not be one of those that the decision is about.
type Nomination struct {
	Pod  *model.Pod
	Mode NominationMode
	// NodeName is set if the mode is Set.
	NodeName string
}

// Rejection is a decision's "no": what each node objected to, or what ruled out all of them at once.
type Rejection struct {
	// Group is the whole text, for a member of a pod group that is rejected because its group is. Nothing else is set then.
	Group string
	// PreFilter is the message of a plugin that ruled out every node before any was looked at.
	PreFilter string
	// Counts says how many nodes were rejected for each reason, when PreFilter is empty. Sorted as kube-scheduler prints them.
	Counts []reason.Count
	// Plugins are the names of the plugins that must change their mind before another try is worth it, sorted.
	Plugins []string
	// Pending are those of Plugins that answered Pending: they wait for something outside of the cluster. When the hint of one of them says that the pod
	// may be tried, it is tried at once, without regard to its backoff.
	Pending []string
	// Kept means that some node would do but for room that is kept there for a pod group.
	Kept bool
}

// Text returns kube-scheduler's sentence about a rejection by so many nodes, without what PostFilter plugins add.
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
