package explain

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/gang"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/model/spelling"
	"github.com/berth-scheduler/berth/internal/plugin"
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
	// Blocker is the first member that finds no node; nil if there is none. MoreBlockers are the first ones of further sorts of members, at most blockersMax in all.
	Blocker      *Blocker  `json:"blocker,omitempty"`
	MoreBlockers []Blocker `json:"moreBlockers,omitempty"`
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

// Blocker is the first member of its sort that finds no node, with those before it on theirs.
type Blocker struct {
	Pod string `json:"pod"`
	// Alike is how many members that find no node are equal to it, itself included.
	Alike int `json:"alike"`
	// Domain is the domain that was chosen for the group, where it must be in one; the nodes of it alone are looked at. It is empty if no member has a node and there are several domains:
	// none was chosen, and the nodes of all of them are looked at.
	Domain string `json:"domain,omitempty"`
	// Demands are changes of this member alone with each of which it would have a node there, the smallest first: what it demands too much of. Each was made, and decided about again.
	Demands []advice.Suggestion `json:"demands,omitempty"`
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
	// Change is a change of the members that find no node and are equal to one, and Alike how many these are.
	Change *advice.Change `json:"change,omitempty"`
	Alike  int            `json:"alike,omitempty"`
	// Like is the name of that node, or namespace/name of that pod.
	Like string `json:"like,omitempty"`
}

// The bounds of a search for what would help.
const (
	// decisionsMax is how many decisions about a member are made in all.
	decisionsMax = 20_000
	// nodeKindsMax is how many kinds of nodes are tried, nodesMax how many nodes of one kind are added, and nodeHelpsMax how many kinds are named.
	nodeKindsMax, nodesMax, nodeHelpsMax = 8, 256, 3
	// blockersMax is how many sorts of members are named that find no node, demandsMax how many changes of one.
	blockersMax, demandsMax = 3, 3
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
	var blockers []int // the first of each sort
	alike := map[int]int{}
	for i := range each.Members {
		m := &each.Members[i]
		member := Member{Pod: m.Pods[0].Pod.String()}
		switch m.Outcome {
		case plan.Placed:
			member.Node = m.Placements[0].NodeName
			t.Fit++
		default:
			member.Message = report.Message(m)
			if m.Outcome == plan.Unschedulable && m.Rejection.Group == "" {
				blockers = countSort(&each, blockers, alike, i)
			}
		}
		t.Members = append(t.Members, member)
	}
	for _, at := range blockers {
		blocker, err := t.block(&each, at)
		if err != nil {
			return err
		}
		blocker.Alike = alike[at]
		if t.Blocker == nil {
			t.Blocker = &blocker
		} else {
			t.MoreBlockers = append(t.MoreBlockers, blocker)
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
	d := gang.Decide(s.state, s.engine, work, nil)
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

// countSort counts a member that finds no node beside those that are equal to it, whose first is one of the blockers; it is one itself if there is none, and fewer than are named.
func countSort(d *plan.GroupDecision, blockers []int, alike map[int]int, at int) []int {
	for _, first := range blockers {
		if engine.Equal(d.Members[first].Pods[0].Pod, d.Members[at].Pods[0].Pod) {
			alike[first]++
			return blockers
		}
	}
	if len(blockers) < blockersMax {
		alike[at] = 1
		blockers = append(blockers, at)
	}
	return blockers
}

// block explains a member that finds no node, with those before it on theirs.
func (t *groupTurn) block(d *plan.GroupDecision, at int) (Blocker, error) {
	domain, err := t.domainOf(d)
	if err != nil {
		return Blocker{}, err
	}
	var before []plan.Placement
	for i := range d.Members[:at] {
		before = append(before, d.Members[i].Placements...)
	}
	t.state.Assume(before...)
	defer t.state.Unassume(before...)
	pod := d.Members[at].Pods[0].Pod
	a, err := t.Snapshot.explain(pod, true)
	if err != nil {
		return Blocker{}, err
	}
	if domain.Nodes != nil {
		a.Nodes = slices.DeleteFunc(a.Nodes, func(n Node) bool {
			slot, ok := t.state.Slot(n.Name)
			return !ok || !domain.Nodes.Has(slot)
		})
		a.decision.Nodes = len(a.Nodes)
	}
	b := Blocker{Pod: pod.String(), Domain: domain.Name, Summary: t.Summarize(a)}
	for _, stage := range b.Summary.Funnel {
		if stage.First > 0 {
			b.Objections = append(b.Objections, Objection{stage.Plugin, stage.First})
		}
	}
	if pod.Malformed == "" && a.Error == "" {
		question := t.question(a)
		question.OfPod, question.Within = true, domain.Nodes
		b.Demands = t.advise(question).Suggestions
		b.Demands = b.Demands[:min(demandsMax, len(b.Demands))]
	}
	return b, nil
}

// domainOf returns the domain placement that the members of a decision are in; all nodes where groups are not kept in domains. If there are several and no member has a node, none was chosen, and it is one
// without a name, of the nodes of all of them.
func (t *groupTurn) domainOf(d *plan.GroupDecision) (plugin.DomainPlacement, error) {
	profile := t.profiles[d.Members[0].Pods[0].Pod.SchedulerName]
	if profile == nil || profile.Placements == nil || profile.Placements.Generate == nil {
		return plugin.DomainPlacement{}, nil
	}
	all, err := profile.Placements.Generate.GeneratePlacements(t.state.View(), model.TreeOf(t.work.Group), nil)
	switch {
	case err != nil || len(all) == 0:
		return plugin.DomainPlacement{}, err
	case len(all) == 1:
		return all[0], nil
	}
	for i := range d.Members {
		if len(d.Members[i].Placements) == 0 {
			continue
		}
		slot, _ := t.state.Slot(d.Members[i].Placements[0].NodeName)
		for _, domain := range all {
			if domain.Nodes.Has(slot) {
				return domain, nil
			}
		}
	}
	var slots []int32
	for _, domain := range all {
		slots = append(slots, domain.Nodes.Slots()...)
	}
	slices.Sort(slots)
	return plugin.DomainPlacement{Nodes: state.RestrictTo(slots)}, nil
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
	t.searchDemands()
	t.searchNodes(max(1, t.MinCount-have))
}

// searchDemands finds changes of the members that find no node with which the group would start: one of each sort of members, made to all members of the sort that find none.
func (t *groupTurn) searchDemands() {
	var blockers []*Blocker
	if t.Blocker != nil {
		blockers = append(blockers, t.Blocker)
	}
	for i := range t.MoreBlockers {
		blockers = append(blockers, &t.MoreBlockers[i])
	}
	for _, b := range blockers {
		for i := range b.Demands {
			pods, alike := t.changed(b, &b.Demands[i])
			if t.starts(pods, t.MinCount) {
				t.WouldStart = append(t.WouldStart, Help{Change: &b.Demands[i].Changes[0], Alike: alike, Like: b.Pod})
				break
			}
		}
	}
}

// changed returns the members, with a change of those that find no node and are equal to one.
func (t *groupTurn) changed(b *Blocker, by *advice.Suggestion) (pods []plan.QueuedPod, alike int) {
	pods = slices.Clone(t.work.Pods)
	at := slices.IndexFunc(t.Members, func(m Member) bool { return m.Pod == b.Pod })
	one := pods[at].Pod
	for i := range pods {
		if t.Members[i].Node != "" || !engine.Equal(pods[i].Pod, one) {
			continue
		}
		after, _, _ := by.Apply(pods[i].Pod.Object)
		t.in.Set(after)
		pods[i].Pod = t.in.Drain()[0].Pod
		alike++
	}
	return pods, alike
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
	pools := advice.Pools(t.nodes, t.others)
	if len(pools) > nodeKindsMax || missing > nodesMax {
		t.Unfinished = true
	}
	var helps []Help
	for _, pool := range pools[:min(nodeKindsMax, len(pools))] {
		like := pool.First
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

// withNodes calls do while the cluster has n more nodes like one that it has, with its drivers and devices, on which there is nothing. They have no images.
func (s *Snapshot) withNodes(like *v1.Node, n int, do func()) {
	added := advice.Copies(like, n, s.others, func(name string) bool {
		_, exists := s.state.Slot(name)
		return exists
	})
	for _, object := range added {
		s.in.Set(object)
	}
	s.state.Apply(s.in.Drain())
	do()
	for _, object := range slices.Backward(added) {
		s.in.Remove(kinds.Of(object).Ref(object))
	}
	s.state.Apply(s.in.Drain())
}

// groupKeyOf is the key of a PodGroup.
func groupKeyOf(g *schedulingv1beta1.PodGroup) model.GroupKey {
	return model.GroupKey{Namespace: g.Namespace, Name: g.Name}
}
