package explain

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/advice"
	"github.com/berth-scheduler/berth/internal/engine/group"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/report"
	"github.com/berth-scheduler/berth/internal/spelling"
)

// Group is what the turn of a pod group would come to on the cluster as it is: its members are placed one after another in the order of the scheduler, and
// taken back. Where the group is not tried, it is judged as if it were.
type Group struct {
	// Name is namespace/name of the PodGroup.
	Name string `json:"podGroup"`
	// Policy is gang or basic; empty if there is no such PodGroup.
	Policy string `json:"policy,omitempty"`
	// MinCount is how many members must have a node: a gang's minCount, otherwise 1.
	MinCount int `json:"minCount,omitempty"`
	// Running is how many members are on nodes, Waiting how many are pending.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Held is why the group is not tried, empty if it is. Nothing is written of it then.
	Held string `json:"held,omitempty"`
	// HeldMembers are the members that a PreEnqueue plugin holds back, and the whole group with them.
	HeldMembers []HeldMember `json:"heldMembers,omitempty"`
	// Members are those that wait, in the order in which they are tried. Each has the result of its own as if minCount were met.
	Members []Member `json:"members,omitempty"`
	// Fit is how many of them have a node at the same time, Starts whether that is enough.
	Fit    int  `json:"fit"`
	Starts bool `json:"starts"`
	// Room is, of a group that starts with all its members, how many more like the last one would find a node beside them; nil for any other. It is not counted
	// beyond RoomMax.
	Room *int `json:"room,omitempty"`
	// Condition is PodGroupInitiallyScheduled as the turn would leave it; nil if the group has no turn.
	Condition *GroupCondition `json:"condition,omitempty"`
	// Blocker is the first member that finds no node; nil if there is none.
	Blocker *Blocker `json:"blocker,omitempty"`
	// Tree is what the turn of the tree of composite groups would come to that the group belongs to; nil if it belongs to none. Fit, Starts and Members are then those of that
	// turn; Blocker and Room are not looked for, and what would let the tree start is in Tree.
	Tree *Tree `json:"tree,omitempty"`
	// WouldStart are single changes with each of which the group would start if no member were held back, or more of it if it runs already. Each was made, and the
	// group decided about again.
	WouldStart []Help `json:"wouldStart,omitempty"`
	// Unfinished says that the search for such changes was cut short.
	Unfinished bool `json:"unfinished,omitempty"`
}

// RoomMax is up to how many further members are counted.
const RoomMax = 100

// HeldMember is a member that a PreEnqueue plugin holds back.
type HeldMember struct {
	Pod    string `json:"pod"`
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

// Member is one of the members that wait. Without a node, Message says why.
type Member struct {
	Pod     string `json:"pod"`
	Node    string `json:"node,omitempty"`
	Message string `json:"message,omitempty"`
}

// GroupCondition is a condition of a PodGroup.
type GroupCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Blocker is the first member that finds no node, with those before it on theirs.
type Blocker struct {
	Pod string `json:"pod"`
	// Objections are the plugins that reject nodes as the first, in the order in which they run.
	Objections []Objection `json:"objections,omitempty"`
	// Summary is the summary of the explanation of the member as it is then.
	Summary Summary `json:"-"`
}

// Objection is how many nodes a plugin rejects that none before it does. Plugin is empty for nodes that no filter was asked about.
type Objection struct {
	Plugin string `json:"plugin"`
	Nodes  int    `json:"nodes"`
}

// Help is a change that would let a group start. One of its fields is set besides Like.
type Help struct {
	// MinCount is what the gang's minCount would have to be lowered to.
	MinCount int `json:"minCount,omitempty"`
	// MinGroupCount is what the minGroupCount of the composite group at the top of a tree would have to be lowered to.
	MinGroupCount int `json:"minGroupCount,omitempty"`
	// Nodes is how many empty nodes would have to be added that are like one of the cluster, Members how many pods to the group that are like one of its members.
	Nodes   int `json:"nodes,omitempty"`
	Members int `json:"members,omitempty"`
	// Like is the name of that node, or namespace/name of that pod.
	Like string `json:"like,omitempty"`
}

// The bounds of a search for what would help.
const (
	// decisionsMax is how many decisions about a member are made in all.
	decisionsMax = 20_000
	// nodeKindsMax is how many kinds of nodes are tried, nodesMax how many nodes of one kind are added, and nodeHelpsMax how many kinds are named.
	nodeKindsMax, nodesMax, nodeHelpsMax = 8, 256, 3
)

// groupTurn is the turn of one group, or of a tree, whose minGroupCount at the top is the MinCount then.
type groupTurn struct {
	*Snapshot
	*Group
	work plan.Work
	// left is how many decisions about a member may still be made.
	left int
}

// OfGroup explains a pod group, of which pods of the snapshot may be members, whether or not it exists.
func (s *Snapshot) OfGroup(key model.GroupKey) (*Group, error) {
	members := s.members[key]
	object := s.state.View().Group(key)
	g := &Group{Name: key.String(), Running: s.state.View().GroupPlaced(key), Waiting: len(members)}
	g.Held, g.HeldMembers = s.held(key)
	if object == nil {
		return g, nil
	}
	g.Policy, g.MinCount = "basic", object.MinCount
	if object.IsGang {
		g.Policy = "gang"
	}
	root, err := s.rootOf(object)
	switch {
	case root != nil:
		s.explainInTree(g, key, root)
		return g, nil
	case len(members) == 0 || err != nil:
		return g, nil
	}
	t := groupTurn{Snapshot: s, Group: g, work: plan.Work{Group: object}, left: decisionsMax}
	for _, pod := range members {
		t.work.Pods = append(t.work.Pods, plan.QueuedPod{Pod: s.judged(pod)})
	}
	if err := t.explain(); err != nil {
		return nil, fmt.Errorf("explain pod group %s: %w", key, err)
	}
	return g, nil
}

// judged is a pod as it is judged: without claims for devices if it is held back because one of them is not there.
func (s *Snapshot) judged(pod *model.Pod) *model.Pod {
	if by, _ := s.profiles[pod.SchedulerName].RunPreEnqueue(s.state.View(), pod); by == dynamicresources.Name {
		without := *pod
		without.Devices = nil
		return &without
	}
	return pod
}

// held returns why a group is not tried, and which of its members are held back.
func (s *Snapshot) held(key model.GroupKey) (why string, held []HeldMember) {
	if known, ok := s.holds[key]; ok {
		return known.why, known.members
	}
	defer func() { s.holds[key] = groupHold{why, held} }()
	members, object := s.members[key], s.state.View().Group(key)
	root, err := s.rootOf(object)
	if root != nil {
		return s.heldInTree(root)
	}
	held = s.heldMembers(members)
	switch {
	case object == nil:
		return fmt.Sprintf("PodGroup %s does not exist%s", key, s.similarGroup(key)), held
	case err != nil:
		return err.Error(), held
	case len(members) == 0:
		return "", nil
	case len(held) > 0:
		return fmt.Sprintf("member %s is held back: %s", held[0].Pod, held[0].Reason), held
	}
	all := len(members) + s.state.View().GroupPlaced(key)
	for _, pre := range s.profiles[members[0].SchedulerName].PreEnqueue {
		if of, ok := pre.(plugin.GroupPreEnqueue); ok {
			if reason := of.PreEnqueueGroup(object, all); reason != "" {
				return reason, nil
			}
		}
	}
	return "", nil
}

// groupHold is why a group is not tried.
type groupHold struct {
	why     string
	members []HeldMember
}

// similarGroup names the PodGroup of the same namespace whose name is nearest to one that does not exist; empty if none is near.
func (s *Snapshot) similarGroup(key model.GroupKey) string {
	best, least := "", max(2, len(key.Name)/4)+1
	for _, known := range s.groups {
		if far := spelling.Distance(known.Name, key.Name); known.Namespace == key.Namespace && far < least {
			best, least = known.Name, far
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + key.Namespace + "/" + best + "?"
}

func (t *groupTurn) explain() error {
	real := t.decide(t.work.Pods, t.MinCount)
	t.Starts = real.Outcome == plan.Placed
	if t.Held == "" {
		t.Condition = conditionAfter(&real)
	}
	each := real // what becomes of each member if as few as possible are enough
	if real.Outcome == plan.Unschedulable && t.MinCount > 1 {
		each = t.decide(t.work.Pods, 1)
	}
	blocker := -1
	for i := range each.Members {
		m := &each.Members[i]
		member := Member{Pod: m.Pods[0].Pod.String()}
		switch m.Outcome {
		case plan.Placed:
			member.Node = m.Placements[0].NodeName
			t.Fit++
		default:
			member.Message = report.Message(m)
			if m.Outcome == plan.Unschedulable && m.Rejection.Group == "" && blocker < 0 {
				blocker = i
			}
		}
		t.Members = append(t.Members, member)
	}
	if blocker >= 0 {
		if err := t.block(&each, blocker); err != nil {
			return err
		}
	}
	switch {
	case t.Starts && t.Fit == len(t.Members):
		t.countRoom(&each)
	case real.Outcome == plan.Unschedulable:
		t.search()
	}
	return nil
}

// decide decides about members with a minCount, and takes back what was assumed.
func (t *groupTurn) decide(pods []plan.QueuedPod, minCount int) plan.GroupDecision {
	t.left -= len(pods)
	work := plan.Work{Pods: pods}
	if t.work.Tree == nil {
		as := *t.work.Group
		as.MinCount = minCount
		work.Group = &as
	} else {
		tree, top := *t.work.Tree, *t.work.Tree.Composite
		top.MinGroupCount = minCount
		tree.Composite = &top
		work.Group, work.Tree = t.work.Group, &tree
	}
	return t.takenBack(work)
}

// takenBack is the decision about a group or a tree, whose members are on no node afterwards.
func (s *Snapshot) takenBack(work plan.Work) plan.GroupDecision {
	d := group.Decide(s.state, s.engine, work, nil)
	if d.Outcome == plan.Placed {
		for i := range slices.Backward(d.Members) {
			s.state.Unassume(d.Members[i].Placements...)
		}
	}
	return d
}

// conditionAfter is the condition of the PodGroup after a decision; nil if its members are not tried. Once it is True it stays so.
func conditionAfter(d *plan.GroupDecision) *GroupCondition {
	if d.Outcome == plan.Terminating {
		return nil
	}
	after := report.ConditionOfGroup(d)
	for i := range d.Group.Object.Status.Conditions {
		if had := &d.Group.Object.Status.Conditions[i]; had.Type == after.Type && had.Status == metav1.ConditionTrue {
			after = *had
		}
	}
	return &GroupCondition{Type: after.Type, Status: string(after.Status), Reason: after.Reason, Message: after.Message}
}

// block explains the member that finds no node, with those before it on theirs.
func (t *groupTurn) block(d *plan.GroupDecision, at int) error {
	var before []plan.Placement
	for i := range d.Members[:at] {
		before = append(before, d.Members[i].Placements...)
	}
	t.state.Assume(before...)
	defer t.state.Unassume(before...)
	pod := d.Members[at].Pods[0].Pod
	a, err := t.Snapshot.explain(pod, true)
	if err != nil {
		return err
	}
	t.Blocker = &Blocker{Pod: pod.String(), Summary: t.Summarize(a)}
	for _, stage := range t.Blocker.Summary.Funnel {
		if stage.First > 0 {
			t.Blocker.Objections = append(t.Blocker.Objections, Objection{stage.Plugin, stage.First})
		}
	}
	return nil
}

// countRoom counts how many more members like the last one find a node beside all others.
func (t *groupTurn) countRoom(d *plan.GroupDecision) {
	var all []plan.Placement
	for i := range d.Members {
		all = append(all, d.Members[i].Placements...)
	}
	t.state.Assume(all...)
	defer t.state.Unassume(all...)
	more := t.decide(t.likeLast(RoomMax), 1)
	room := 0
	for i := range more.Members {
		if more.Members[i].Outcome == plan.Placed {
			room++
		}
	}
	t.Room = &room
}

// likeLast returns pods that differ from the group's last member in name and UID alone.
func (t *groupTurn) likeLast(n int) []plan.QueuedPod {
	last := t.work.Pods[len(t.work.Pods)-1].Pod
	pods := make([]plan.QueuedPod, n)
	for i := range pods {
		object := *last.Object
		object.Name, object.UID = fmt.Sprintf("%s-copy-%d", last.Name, i+1), types.UID(fmt.Sprintf("%s-copy-%d", last.UID, i+1))
		like := *last
		like.Object, like.Name, like.UID, like.NominatedNode = &object, object.Name, object.UID, ""
		pods[i].Pod = &like
	}
	return pods
}

// search looks for single changes with which the group would start, the smallest of each sort.
func (t *groupTurn) search() {
	have := t.Running + t.Fit
	if t.Policy == "gang" && t.Fit > 0 && have < t.MinCount && t.starts(t.work.Pods, have) {
		most := have // of which the members find room in other orders, too
		for most+1 < t.MinCount && t.starts(t.work.Pods, most+1) {
			most++
		}
		t.WouldStart = append(t.WouldStart, Help{MinCount: most})
	}
	all := t.Running + t.Waiting
	if missing := t.MinCount - all; missing > 0 { // no node helps then
		if t.Waiting+missing > t.left {
			t.Unfinished = true
		} else if t.starts(append(slices.Clip(t.work.Pods), t.likeLast(missing)...), t.MinCount) {
			t.WouldStart = append(t.WouldStart, Help{Members: missing, Like: t.Members[t.Waiting-1].Pod})
		}
		return
	}
	t.searchNodes(max(1, t.MinCount-have))
}

// starts reports whether the group would start with these members; false, too, if the search has to end.
func (t *groupTurn) starts(pods []plan.QueuedPod, minCount int) bool {
	if t.left < len(pods) {
		t.Unfinished = true
		return false
	}
	d := t.decide(pods, minCount)
	return d.Outcome == plan.Placed
}

// searchNodes finds how many more nodes of each kind would let the group start in which so many members find no node. More than one node for each of these
// would not help.
func (t *groupTurn) searchNodes(missing int) {
	kinds := advice.Pools(t.nodes, nil)
	if len(kinds) > nodeKindsMax || missing > nodesMax {
		t.Unfinished = true
	}
	var helps []Help
	for _, kind := range kinds[:min(nodeKindsMax, len(kinds))] {
		like := kind.First
		with := func(n int) (starts bool) {
			t.withNodes(like, n, func() { starts = t.starts(t.work.Pods, t.MinCount) })
			return starts
		}
		most := min(missing, nodesMax)
		if !with(most) {
			continue
		}
		too, enough := 0, most // few nodes: the least number is above too and not above enough
		for enough-too > 1 {
			if middle := (too + enough) / 2; with(middle) {
				enough = middle
			} else {
				too = middle
			}
		}
		helps = append(helps, Help{Nodes: enough, Like: like.Name})
	}
	slices.SortStableFunc(helps, func(a, b Help) int { return cmp.Compare(a.Nodes, b.Nodes) })
	t.WouldStart = append(t.WouldStart, helps[:min(nodeHelpsMax, len(helps))]...)
}

// withNodes calls do while the cluster has n more nodes like one that it has, on which there is nothing. They have no images, no devices and no CSINode.
func (s *Snapshot) withNodes(like *v1.Node, n int, do func()) {
	var added []string
	for i := 1; len(added) < n; i++ {
		name := fmt.Sprintf("%s-copy-%d", like.Name, i)
		if _, exists := s.state.Slot(name); exists {
			continue
		}
		s.in.Set(advice.CopyOf(like, name))
		added = append(added, name)
	}
	s.state.Apply(s.in.Drain())
	do()
	for _, name := range added {
		s.in.Remove(model.Ref{Kind: model.NodeKind, Name: name})
	}
	s.state.Apply(s.in.Drain())
}

// groupKeyOf is the key of a PodGroup.
func groupKeyOf(g *schedulingv1beta1.PodGroup) model.GroupKey {
	return model.GroupKey{Namespace: g.Namespace, Name: g.Name}
}
