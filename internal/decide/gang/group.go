package gang

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// attempt is the turn of a group.
type attempt struct {
	*plan.Attempt
	state   *state.State
	engine  *engine.Engine
	profile *plugin.Profile // of the first member; nil without such a profile
	// tried are the positions in Members of the members that are not being deleted.
	tried []int
	// pass numbers the further passes from 1; 0 is the first pass. tie differs between
	// passes that choose different nodes among equally good ones.
	pass int
	tie  uint64
	// need is the required number of members with a node, scheduled the present number,
	// and remaining the number of members not yet tried.
	need, scheduled, remaining int
	// placed counts the members that found a node in this turn.
	placed int
	// hopeless means that the group had too few members from the start.
	hopeless bool
	// assumed means that the members that found a node are assumed there.
	assumed  bool
	observer Observer
	// witness, unless nil, receives decisions about members. among is the number of
	// domain placements still to be compared, including the present one.
	witness  Witness
	among    int
	searches *Searches // nil for no limit
	progress *progress // nil if the attempt cannot go on in a later round
	// maxKept bounds the decisions about members that are kept while domain placements
	// are compared.
	maxKept int
	// left is the rest of maxKept, for an attempt that cannot go on in a later round.
	left int
	// shortBefore means that the domain placement before the present one had no room for
	// the group. sameKind are the members by kind: those of one kind have equal
	// decisions. It is empty if they are of too many kinds.
	shortBefore bool
	sameKind    []sort
	// shows, unless nil, is called before the decision about each tried member.
	shows func(v state.View, member *model.Pod)
	// within are the nodes to choose among, nil for all.
	within *state.Restriction
	// tree is set in the attempt of all groups of a tree. root is its top, once it was
	// tried. part is set in the attempt of one of its PodGroups.
	tree       *model.GroupTree
	root, part *node
}

// Decide places the members of a group one after another, each as if the members before
// it were on their nodes. If enough members find a node, they are assumed there on
// return; otherwise none is. As in kube-scheduler a single pass follows the order of the
// members. Further passes run only if that pass places too few, see retry. The observer
// may be nil.
func Decide(s *state.State, e *engine.Engine, of *plan.Attempt, observer Observer) {
	decide(s, e, of, observer, nil, maxKept)
}

func decide(s *state.State, e *engine.Engine, of *plan.Attempt, observer Observer, searches *Searches, maxKept int) {
	s.BeginGroupTurn()
	defer s.EndGroupTurn()
	a := attempt{Attempt: of, state: s, engine: e, observer: observer, searches: searches, maxKept: maxKept, tree: of.Tree, among: 1}
	a.witness, _ = observer.(Witness)
	a.assign()
	for i := range a.Members {
		a.Members[i].Nodes = s.Nodes()
		a.tried = append(a.tried, i)
	}
	defer a.divide()
	a.profile = e.Profile(a.First().SchedulerName)
	if err := a.refuses(); err != nil {
		a.fail(err)
		return
	}
	a.tried = slices.DeleteFunc(a.tried, func(i int) bool {
		leaves := a.Members[i].Pod.Terminating
		if leaves {
			a.Members[i].Outcome = plan.Terminating
		}
		return leaves
	})
	if len(a.tried) == 0 {
		a.Outcome = plan.Terminating
		return
	}
	a.progress = searches.resume(&a)
	if a.progress != nil {
		s.Meter().Double(a.progress.stalls)
	} else {
		// an attempt that keeps no progress must end in one round
		s.Meter().Double(a.Rounds)
	}
	a.place()
	searches.keep(&a)
}

// assign assigns each member to its group. Members of a tree are put in placement order.
func (a *attempt) assign() {
	if a.tree != nil {
		a.assignInTree()
		return
	}
	for i := range a.Members {
		m := &a.Members[i]
		*m = plan.Decision{Member: plan.Member{QueuedPod: m.QueuedPod, Group: a.Group}}
	}
}

// enforces reports whether the profile of the group's pods has GangScheduling. Without it
// a gang is only a group.
func (a *attempt) enforces() bool {
	return a.profile != nil && slices.ContainsFunc(a.profile.PreEnqueue, func(x *plugin.PreEnqueue) bool { return x.Name == "GangScheduling" })
}

// refuses returns an error if a group cannot be tried. Either its members, including
// those being deleted, do not belong together, or Berth does not support the group yet.
func (a *attempt) refuses() error {
	first := a.First()
	own := a.profile != nil && slices.ContainsFunc(a.profile.PostFilters, func(p *plugin.PostFilter) bool { return p.Group != nil && p.Group.OwnPolicy })
	check := func(pod *model.Pod) error {
		switch {
		case pod.SchedulerName != first.SchedulerName:
			return fmt.Errorf("all pods in a single pod group should have the same .spec.schedulerName set, got: %q and %q", first.SchedulerName, pod.SchedulerName)
		case pod.Priority != a.Group.Priority:
			return fmt.Errorf("all pods in a single pod group should have the same priority as the pod group's priority, got %d and %d", pod.Priority, a.Group.Priority)
		case own && pod.PreemptionPolicy() != a.Group.PreemptionPolicy():
			return fmt.Errorf("all pods in a single pod group should have the same preemption policy as the pod group's preemption policy, got %s and %s", pod.PreemptionPolicy(), a.Group.PreemptionPolicy())
		case !own && pod.PreemptionPolicy() != first.PreemptionPolicy():
			return fmt.Errorf("all pods in a single pod group should have the same preemption policy, got %s and %s", first.PreemptionPolicy(), pod.PreemptionPolicy())
		}
		return nil
	}
	for i := range a.Members {
		if err := check(a.Members[i].Pod); err != nil {
			return err
		}
	}
	var bad *model.Pod // the first by name
	var why error
	for pod := range a.members() {
		if err := check(pod); err != nil && (bad == nil || pod.Name < bad.Name) {
			bad, why = pod, err
		}
	}
	if why != nil {
		return why
	}
	if a.profile != nil && a.profile.External != nil {
		return errors.New("pod groups beside out-of-tree plugins are not part of this version of Berth")
	}
	return nil
}

// members returns the members that are on nodes, in unspecified order.
func (a *attempt) members() iter.Seq[*model.Pod] {
	if a.tree != nil {
		return a.state.View().TreeMembers(a.tree)
	}
	return a.state.View().GroupMembers(a.Group.Key)
}

// place ends the attempt. The members keep their nodes if enough found one.
func (a *attempt) place() {
	short, err := a.try()
	switch {
	case err != nil:
		a.revert()
		a.fail(err)
	case short != "":
		a.revert()
		placed, err := a.retry()
		switch {
		case err != nil:
			a.fail(err)
			return
		case placed:
			a.Outcome = plan.Placed
			return
		}
		defer a.state.Meter().Lift()() // the rest of the attempt cannot stop
		found, err := a.makeRoom(short)
		if err != nil {
			a.fail(err)
			return
		}
		a.reject(short, found)
	default:
		a.Outcome = plan.Placed
	}
}

// tryOn is the algorithm on some nodes, nil for all. Members that find a node are assumed
// on it. short is the reason why they are too few, empty if they are enough. Each
// member's decision has its own result, and stays undecided if the member was not tried.
func (a *attempt) tryOn(nodes *state.Restriction) (short string, err error) {
	a.begin()
	a.count()
	if a.hopeless = a.isShort(); a.hopeless {
		return "pod group is unschedulable, " + a.quorum(), nil
	}
	run, following := a.engine.NewRun(), a.following()
	run.Tie = a.tie
	for n, i := range a.tried {
		m := &a.Members[i]
		if a.shows != nil {
			a.shows(a.state.View().Restricted(nodes), m.Pod)
		}
		view := a.state.View().Restricted(nodes)
		*m = run.Decide(view, m.Member, following[n])
		if a.witness != nil {
			m.Details = a.witness.Decided(run, view, m, a.among)
		}
		a.remaining--
		a.spendOn()
		switch m.Outcome {
		case plan.Placed:
			a.state.Assume(m.Placement)
			a.scheduled++
			a.placed++
		case plan.Unschedulable:
		case plan.Unfinished:
			return "", plugin.ErrUnfinished
		default:
			return "", fmt.Errorf("failed to schedule other pod from a pod group: %s", report.Message(m))
		}
		if a.isShort() {
			return a.quorum(), nil
		}
	}
	// in a tree a group that runs already has succeeded
	if a.placed == 0 && (a.part == nil || a.scheduled < a.need) {
		return unschedulable, nil
	}
	return "", nil
}

// count initialises the numbers of an attempt before any member is tried.
func (a *attempt) count() {
	a.need, a.scheduled, a.remaining, a.placed = 1, a.state.View().GroupPlaced(a.Group.Key), len(a.tried), 0
	if a.enforces() {
		a.need = a.Group.MinCount
	}
}

// following returns, for each tried member, how many equal members come next.
func (a *attempt) following() []int {
	n := make([]int, len(a.tried))
	for at := len(n) - 2; at >= 0; at-- {
		if engine.Equal(a.Members[a.tried[at]].Pod, a.Members[a.tried[at+1]].Pod) {
			n[at] = n[at+1] + 1
		}
	}
	return n
}

// isShort reports whether too few members can have a node, even if all remaining ones
// find one.
func (a *attempt) isShort() bool { return a.scheduled+a.remaining < a.need }

// quorum returns the message that too few members can have a node.
func (a *attempt) quorum() string {
	return "minCount (" + strconv.Itoa(a.need) + ") cannot be satisfied: " + strconv.Itoa(a.scheduled) + " scheduled, " + strconv.Itoa(a.remaining) + " remaining"
}

// revert unassumes the assumed members, last first. Their decisions stay.
func (a *attempt) revert() {
	if !a.assumed {
		return
	}
	a.assumed = false
	for _, i := range slices.Backward(a.tried) {
		if m := &a.Members[i]; m.Outcome == plan.Placed {
			a.state.Unassume(m.Placement)
		}
	}
}

// assume assumes the members that found a node. None may be assumed.
func (a *attempt) assume() {
	for _, i := range a.tried {
		if m := &a.Members[i]; m.Outcome == plan.Placed {
			a.state.Assume(m.Placement)
		}
	}
	a.assumed = true
}

// reject ends an attempt in which too few members found a node. Members that found none
// keep their own reasons, the others get the group's message. Members that had found a
// node also get the result of the search for victims; members that were not tried do not.
// In a part of a tree, that result is for all members of the tree.
func (a *attempt) reject(text string, found room) {
	if a.tree != nil {
		a.rejectTree(text, found)
		return
	}
	a.Outcome, a.Message = plan.Unschedulable, text+found.text
	fitting, untried := &plan.Rejection{Group: a.Message}, &plan.Rejection{Group: text}
	if !found.waits {
		fitting.Group = unschedulable + ", " + a.Message
	}
	first := 0
	if a.part != nil {
		first = a.part.first
	}
	for _, i := range a.tried {
		m := &a.Members[i]
		pod := m.Pod
		switch m.Outcome {
		case plan.Placed:
			m.Outcome, m.Placement, m.Rejection, m.Details = plan.Unschedulable, plan.Placement{}, fitting, 0
			if found.waits {
				break
			}
			if pod.NominatedNode != "" {
				m.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
			}
		case plan.Undecided:
			m.Outcome, m.Rejection = plan.Unschedulable, untried
		}
		if node, ok := found.nodes[first+i]; ok {
			m.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Set, NodeName: node}}
		}
	}
	if a.part == nil {
		a.Members[a.tried[0]].Evictions = found.evictions()
	}
}

// fail ends an attempt with an error, or leaves it unfinished. A member that failed
// itself keeps its own error.
func (a *attempt) fail(err error) {
	if errors.Is(err, plugin.ErrUnfinished) {
		a.Outcome = plan.Unfinished
		for i := range a.Members {
			m := &a.Members[i]
			*m = plan.Decision{Member: m.Member, Outcome: plan.Unfinished, Nodes: m.Nodes}
		}
		return
	}
	a.Outcome, a.Message = plan.Failed, err.Error()
	for _, i := range a.tried {
		m := &a.Members[i]
		if m.Outcome == plan.Failed || m.Outcome == plan.NoNodes {
			continue
		}
		pod := m.Pod
		m.Outcome, m.Err, m.Placement, m.Rejection, m.Nominations, m.Details = plan.Failed, err, plan.Placement{}, nil, nil, 0
		if pod.NominatedNode != "" {
			m.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
		}
	}
}
