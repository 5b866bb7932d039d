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
	*plan.GroupDecision
	state   *state.State
	engine  *engine.Engine
	profile *plugin.Profile // of the first member; nil if there is no such profile
	// tried are the positions among Members of those that are not being deleted.
	tried []int
	// pass numbers the further passes from 1 on, 0 is the first one; tie is another for passes that choose other nodes among equally good ones.
	pass int
	tie  uint64
	// need is how many members must have a node, scheduled how many have one so far, remaining how many have not been tried.
	need, scheduled, remaining int
	// placed is how many found one in this turn.
	placed int
	// hopeless says that too few members were there to begin with.
	hopeless bool
	// assumed means that those who found one are assumed there.
	assumed  bool
	observer Observer
	// witness, unless it is nil, looks at decisions about members; among is how many domain placements are compared yet, the present one included.
	witness  Witness
	among    int
	searches *Searches // nil where there is no limit
	progress *progress // nil if the attempt cannot go on in a later round
	// mostKept is how many decisions about members are kept while domain placements are compared.
	mostKept int
	// left is how many more are, of an attempt that does not go on in a later round.
	left int
	// shortBefore says that the domain placement before the present one had no room;
	// sameKind are the members by what decides about them, empty if they are of too many
	// kinds.
	shortBefore bool
	sameKind    []sort
	// shows, unless it is nil, is called before each member that is tried is decided about.
	shows func(v state.View, member *model.Pod)
	// within are the nodes to choose among, nil for all.
	within *state.Restriction
	// tree is set if the attempt is that of all groups of a tree; root is its top, once it was tried. part is set in the attempt of one of its PodGroups.
	tree       *model.GroupTree
	root, part *node
}

// Decide places the members of a group one after another, each as if those before it were on their nodes. If that is enough of them they are assumed there
// when it returns, and otherwise none is. As in kube-scheduler there is one pass, in the order of the work; only if that places too
// few are there further ones, see retry. The observer may be nil.
func Decide(s *state.State, e *engine.Engine, work plan.Work, observer Observer) plan.GroupDecision {
	return decide(s, e, work, observer, nil, mostKept)
}

func decide(s *state.State, e *engine.Engine, work plan.Work, observer Observer, searches *Searches, mostKept int) (d plan.GroupDecision) {
	s.BeginGroupTurn()
	defer s.EndGroupTurn()
	d = plan.GroupDecision{Group: work.Group, Tree: work.Tree, Members: membersOf(work)}
	a := attempt{GroupDecision: &d, state: s, engine: e, observer: observer, searches: searches, mostKept: mostKept, tree: work.Tree, among: 1}
	a.witness, _ = observer.(Witness)
	for i := range d.Members {
		d.Members[i].Nodes = s.Nodes()
		a.tried = append(a.tried, i)
	}
	defer a.divide()
	a.profile = e.Profile(a.first().SchedulerName)
	if err := a.refuses(); err != nil {
		a.fail(err)
		return d
	}
	a.tried = slices.DeleteFunc(a.tried, func(i int) bool {
		leaves := d.Members[i].Pods[0].Pod.Terminating
		if leaves {
			d.Members[i].Outcome = plan.Terminating
		}
		return leaves
	})
	if len(a.tried) == 0 {
		d.Outcome = plan.Terminating
		return d
	}
	a.progress = searches.resume(&a)
	if a.progress != nil {
		s.Meter().Double(a.progress.stalls)
	} else {
		s.Meter().Double(work.Rounds) // an attempt that keeps no progress must end in one round
	}
	a.place()
	searches.keep(&a)
	return d
}

// membersOf returns the decisions about members, which are not made yet.
func membersOf(work plan.Work) []plan.Decision {
	if work.Tree != nil {
		return membersOfTree(work)
	}
	members := make([]plan.Decision, len(work.Pods))
	for i := range members {
		members[i].Work = plan.Work{Pods: work.Pods[i : i+1 : i+1], Group: work.Group}
	}
	return members
}

// first returns the first member.
func (a *attempt) first() *model.Pod { return a.Members[0].Pods[0].Pod }

// enforces reports whether the profile of the group's pods has GangScheduling, without which a gang is no more than a group.
func (a *attempt) enforces() bool {
	return a.profile != nil && slices.ContainsFunc(a.profile.PreEnqueue, func(x plugin.PreEnqueue) bool { return x.Name() == "GangScheduling" })
}

// refuses returns why a group cannot be tried: its members do not belong together, those that are being deleted among them, or Berth cannot do it yet.
func (a *attempt) refuses() error {
	first := a.first()
	own := a.profile != nil && slices.ContainsFunc(a.profile.PostFilters, func(p plugin.PostFilter) bool {
		of, ok := p.(plugin.GroupPostFilter)
		return ok && of.ByGroupPolicy()
	})
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
		if err := check(a.Members[i].Pods[0].Pod); err != nil {
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
	if a.profile != nil && a.profile.Outside != nil {
		return errors.New("pod groups beside plugins from outside are not part of this version of Berth")
	}
	return nil
}

// members returns the members that are on nodes, in no particular order.
func (a *attempt) members() iter.Seq[*model.Pod] {
	if a.tree != nil {
		return a.state.View().TreeMembers(a.tree)
	}
	return a.state.View().GroupMembers(a.Group.Key)
}

// place ends the attempt: the members keep the nodes that they find if there are enough of them.
func (a *attempt) place() {
	short, err := a.try()
	switch {
	case err != nil:
		a.takeBack()
		a.fail(err)
	case short != "":
		a.takeBack()
		placed, err := a.retry()
		switch {
		case err != nil:
			a.fail(err)
			return
		case placed:
			a.Outcome = plan.Placed
			return
		}
		defer a.state.Meter().Lift()() // what follows cannot stop
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

// tryOn is the algorithm on some nodes, nil for all: the members that find a node are assumed on it, and short says why that is too few of them; it is empty if they
// are enough. What a member is told is in its decision, which stays undecided if the member was not tried.
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
			a.shows(a.state.View().Restricted(nodes), m.Pods[0].Pod)
		}
		view := a.state.View().Restricted(nodes)
		*m = run.Decide(view, m.Work, following[n])
		if a.witness != nil {
			m.Details = a.witness.Decided(run, view, m, a.among)
		}
		a.remaining--
		a.spendOn()
		switch m.Outcome {
		case plan.Placed:
			a.state.Assume(m.Placements...)
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
	if a.placed == 0 && (a.part == nil || a.scheduled < a.need) { // in a tree a group that runs already has succeeded
		return unschedulable, nil
	}
	return "", nil
}

// count takes the numbers of an attempt in which no member has been tried.
func (a *attempt) count() {
	a.need, a.scheduled, a.remaining, a.placed = 1, a.state.View().GroupPlaced(a.Group.Key), len(a.tried), 0
	if a.enforces() {
		a.need = a.Group.MinCount
	}
}

// following returns, for each member that is tried, how many that are equal to it come next.
func (a *attempt) following() []int {
	n := make([]int, len(a.tried))
	for at := len(n) - 2; at >= 0; at-- {
		if engine.Equal(a.Members[a.tried[at]].Pods[0].Pod, a.Members[a.tried[at+1]].Pods[0].Pod) {
			n[at] = n[at+1] + 1
		}
	}
	return n
}

// isShort reports whether too few members can have a node, even if all that have not been tried find one.
func (a *attempt) isShort() bool { return a.scheduled+a.remaining < a.need }

// quorum says that too few members can have a node.
func (a *attempt) quorum() string {
	return "minCount (" + strconv.Itoa(a.need) + ") cannot be satisfied: " + strconv.Itoa(a.scheduled) + " scheduled, " + strconv.Itoa(a.remaining) + " remaining"
}

// takeBack takes the members off their nodes that are assumed there, the last first. Their decisions stay.
func (a *attempt) takeBack() {
	if !a.assumed {
		return
	}
	a.assumed = false
	for _, i := range slices.Backward(a.tried) {
		a.state.Unassume(a.Members[i].Placements...)
	}
}

// reject ends an attempt in which too few members found a node. Members that found none keep their own reasons; the others are told the group's: with what was found
// about making room if they had found a node, without if they were not tried. What was found is about all members of the tree, if the group is a part of one.
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
		pod := m.Pods[0].Pod
		switch m.Outcome {
		case plan.Placed:
			m.Outcome, m.Placements, m.Rejection, m.Details = plan.Unschedulable, nil, fitting, 0
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
// itself keeps its own.
func (a *attempt) fail(err error) {
	if errors.Is(err, plugin.ErrUnfinished) {
		a.Outcome = plan.Unfinished
		for i := range a.Members {
			m := &a.Members[i]
			*m = plan.Decision{Work: m.Work, Outcome: plan.Unfinished, Nodes: m.Nodes}
		}
		return
	}
	a.Outcome, a.Message = plan.Failed, err.Error()
	for _, i := range a.tried {
		m := &a.Members[i]
		if m.Outcome == plan.Failed || m.Outcome == plan.NoNodes {
			continue
		}
		pod := m.Pods[0].Pod
		m.Outcome, m.Err, m.Placements, m.Rejection, m.Nominations, m.Details = plan.Failed, err, nil, nil, nil, 0
		if pod.NominatedNode != "" {
			m.Nominations = []plan.Nomination{{Pod: pod, Mode: plan.Clear}}
		}
	}
}
