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

// Group is the result of a pod group's turn on the cluster as it is. The members are
// placed one after another in the order of the scheduler, and the placements are
// reverted. A group that is held back is judged as if it were tried.
type Group struct {
	// Name is namespace/name of the PodGroup.
	Name string `json:"podGroup"`
	// Policy is gang or basic; empty if the PodGroup does not exist.
	Policy string `json:"policy,omitempty"`
	// MinCount is the number of members that must find a node: a gang's minCount,
	// otherwise 1.
	MinCount int `json:"minCount,omitempty"`
	// Running is the number of members on nodes. Waiting is the number of pending
	// members.
	Running int `json:"running"`
	Waiting int `json:"waiting"`
	// Held is the reason why the group is not tried; empty if it is tried. A held group
	// gets no condition.
	Held string `json:"held,omitempty"`
	// HeldMembers are the members that a PreEnqueue plugin holds back. Each of them holds
	// back the whole group.
	HeldMembers []HeldMember `json:"heldMembers,omitempty"`
	// Members are the pending members in the order in which they are tried. Each has its
	// own result, as if minCount were met.
	Members []Member `json:"members,omitempty"`
	// Fit is the number of pending members that fit at the same time. Starts reports
	// whether this is enough.
	Fit    int  `json:"fit"`
	Starts bool `json:"starts"`
	// Room is the number of further pods like the last member that would fit beside all
	// members, at most MaxRoom. It is nil unless the group starts with all its members.
	Room *int `json:"room,omitempty"`
	// Condition is PodGroupInitiallyScheduled as the turn would set it; nil if the group
	// has no turn.
	Condition *GroupCondition `json:"condition,omitempty"`
	// Blocker is the first member that finds no node; nil if all do. MoreBlockers are the
	// first members of further sorts, at most maxBlockers with Blocker.
	Blocker      *Blocker  `json:"blocker,omitempty"`
	MoreBlockers []Blocker `json:"moreBlockers,omitempty"`
	// Tree is the result of the turn of the tree of CompositePodGroups that the group
	// belongs to; nil if it belongs to none. In a tree, Fit, Starts and Members come from
	// that turn. Blocker and Room are not set, and changes that would let the tree start
	// are in Tree.
	Tree *Tree `json:"tree,omitempty"`
	// WouldStart are single changes. Each would let the group start if no member were
	// held back, or place more members of a running group. Each was applied and verified
	// by a decision.
	WouldStart []Help `json:"wouldStart,omitempty"`
	// Unfinished is set if the search for such changes was cut short.
	Unfinished bool `json:"unfinished,omitempty"`
}

// MaxRoom is the largest value of Group.Room.
const MaxRoom = 100

// HeldMember is a member that a PreEnqueue plugin holds back.
type HeldMember struct {
	Pod    string `json:"pod"`
	Plugin string `json:"plugin"`
	Reason string `json:"reason"`
}

// Member is one of the pending members. Message is the reason if it has no node.
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

// Blocker is the first member of its sort that finds no node while the members before it
// are placed.
type Blocker struct {
	Pod string `json:"pod"`
	// Alike is the number of equal members without a node, including this one.
	Alike int `json:"alike"`
	// Domain is the domain that was chosen for the group, if it must be in one. Only the
	// nodes of this domain are examined. Domain is empty if no member has a node and
	// several domains exist: none was chosen, and the nodes of all domains are examined.
	Domain string `json:"domain,omitempty"`
	// Demands are changes of this member alone, the smallest first. Each would give it a
	// node in this domain, and was verified by a decision.
	Demands []advice.Suggestion `json:"demands,omitempty"`
	// Objections count the nodes by the first plugin that rejects them, in the order in
	// which plugins run.
	Objections []Objection `json:"objections,omitempty"`
	// Summary is the summary of the member's explanation in this situation.
	Summary Summary `json:"-"`
}

// Objection is the number of nodes that a plugin is the first to reject. Plugin is empty
// for nodes on which no filter ran.
type Objection struct {
	Plugin string `json:"plugin"`
	Nodes  int    `json:"nodes"`
}

// Help is a change that would let a group start. Apart from Like and Alike, exactly one
// field is set.
type Help struct {
	// MinCount is the value to lower the gang's minCount to.
	MinCount int `json:"minCount,omitempty"`
	// MinGroupCount is the value to lower minGroupCount of the CompositePodGroup at the
	// top to.
	MinGroupCount int `json:"minGroupCount,omitempty"`
	// Nodes is the number of empty nodes to add, Members the number of pods to add to the
	// group. Like names the node or member that the new ones resemble.
	Nodes   int `json:"nodes,omitempty"`
	Members int `json:"members,omitempty"`
	// Change is a change of one sort of members without a node, and Alike the number of
	// these members.
	Change *advice.Change `json:"change,omitempty"`
	Alike  int            `json:"alike,omitempty"`
	// Like is the name of the node, or namespace/name of the pod.
	Like string `json:"like,omitempty"`
}

// The limits of a search for changes that would help.
const (
	// maxDecisions limits the decisions about single members.
	maxDecisions = 20_000
	// At most maxNodeKinds kinds of nodes are tried, maxNodes nodes of a kind are added,
	// and maxNodeHelps kinds are suggested.
	maxNodeKinds, maxNodes, maxNodeHelps = 8, 256, 3
	// At most maxBlockers sorts of members without a node are reported, and maxDemands
	// changes of each.
	maxBlockers, maxDemands = 3, 3
)

// groupTurn is the turn of one group or tree. For a tree, MinCount is the minGroupCount
// at the top.
type groupTurn struct {
	*Snapshot
	*Group
	// pods are the members, of the PodGroup or of all groups of the tree.
	pods     []plan.QueuedPod
	podGroup *model.PodGroup
	tree     *model.GroupTree
	// left is the number of decisions about single members that may still be made.
	left int
}

// Group explains a pod group that pods of the snapshot name, even if it does not exist.
func (s *Snapshot) Group(key model.GroupKey) (*Group, error) {
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
	t := groupTurn{Snapshot: s, Group: g, podGroup: object, left: maxDecisions}
	for _, pod := range members {
		t.pods = append(t.pods, plan.QueuedPod{Pod: s.judged(pod)})
	}
	if err := t.explain(); err != nil {
		return nil, fmt.Errorf("explain pod group %s: %w", key, err)
	}
	return g, nil
}

// judged returns the pod to judge. If a missing ResourceClaim holds the pod back, this is
// a copy without ResourceClaims.
func (s *Snapshot) judged(pod *model.Pod) *model.Pod {
	if by, _ := s.profiles[pod.SchedulerName].RunPreEnqueue(s.state.View(), pod); by == dynamicresources.Name {
		without := *pod
		without.Devices = nil
		return &without
	}
	return pod
}

// held returns the reason why a group is not tried, and its members that are held back.
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
		if pre.Group != nil {
			if reason := pre.Group(object, all); reason != "" {
				return reason, nil
			}
		}
	}
	return "", nil
}

// groupHold is the reason why a group is not tried.
type groupHold struct {
	why     string
	members []HeldMember
}

// similarGroup suggests the PodGroup of the namespace with the most similar name; empty
// if none is similar.
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
	real := t.decide(t.pods, t.MinCount)
	t.Starts = real.Outcome == plan.Placed
	if t.Held == "" {
		t.Condition = conditionAfter(real)
	}
	each := real // Each member's result if a single member were enough.
	if real.Outcome == plan.Unschedulable && t.MinCount > 1 {
		each = t.decide(t.pods, 1)
	}
	var blockers []int // the first member of each sort
	alike := map[int]int{}
	for i := range each.Members {
		m := &each.Members[i]
		member := Member{Pod: m.Pod.String()}
		switch m.Outcome {
		case plan.Placed:
			member.Node = m.Placement.NodeName
			t.Fit++
		default:
			member.Message = report.Message(m)
			if m.Outcome == plan.Unschedulable && m.Rejection.Group == "" {
				blockers = countSort(each, blockers, alike, i)
			}
		}
		t.Members = append(t.Members, member)
	}
	for _, at := range blockers {
		blocker, err := t.block(each, at)
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
		t.countRoom(each)
	case real.Outcome == plan.Unschedulable:
		t.search()
	}
	return nil
}

// decide decides about members with a given minCount and reverts the placements.
func (t *groupTurn) decide(pods []plan.QueuedPod, minCount int) *plan.Attempt {
	t.left -= len(pods)
	a := plan.ForGroup(t.podGroup, t.tree, pods)
	if t.tree == nil {
		as := *t.podGroup
		as.MinCount = minCount
		a.Group = &as
	} else {
		tree, top := *t.tree, *t.tree.Composite
		top.MinGroupCount = minCount
		tree.Composite = &top
		a.Tree = &tree
	}
	t.takenBack(a)
	return a
}

// takenBack decides about a group or a tree and reverts the placements.
func (s *Snapshot) takenBack(a *plan.Attempt) {
	gang.Decide(s.state, s.engine, a, nil)
	if a.Outcome != plan.Placed {
		return
	}
	for i := range slices.Backward(a.Members) {
		if m := &a.Members[i]; m.Outcome == plan.Placed {
			s.state.Unassume(m.Placement)
		}
	}
}

// conditionAfter returns the condition of the PodGroup after a decision; nil if its
// members are not tried. A condition that is True never changes.
func conditionAfter(d *plan.Attempt) *GroupCondition {
	if d.Outcome == plan.Terminating {
		return nil
	}
	after := report.ConditionAfter(d)
	for i := range d.Group.Object.Status.Conditions {
		if had := &d.Group.Object.Status.Conditions[i]; had.Type == after.Type && had.Status == metav1.ConditionTrue {
			after = *had
		}
	}
	return &GroupCondition{Type: after.Type, Status: string(after.Status), Reason: after.Reason, Message: after.Message}
}

// countSort counts a member without a node. If it is equal to a blocker, it belongs to
// that blocker's sort; otherwise it becomes a blocker, up to maxBlockers.
func countSort(d *plan.Attempt, blockers []int, alike map[int]int, at int) []int {
	for _, first := range blockers {
		if engine.Equal(d.Members[first].Pod, d.Members[at].Pod) {
			alike[first]++
			return blockers
		}
	}
	if len(blockers) < maxBlockers {
		alike[at] = 1
		blockers = append(blockers, at)
	}
	return blockers
}

// block explains a member without a node while the members before it are placed.
func (t *groupTurn) block(d *plan.Attempt, at int) (Blocker, error) {
	domain, err := t.domainOf(d)
	if err != nil {
		return Blocker{}, err
	}
	before := placed(d.Members[:at])
	t.state.Assume(before...)
	defer t.state.Unassume(before...)
	pod := d.Members[at].Pod
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
		b.Demands = b.Demands[:min(maxDemands, len(b.Demands))]
	}
	return b, nil
}

// placed returns the placements of members.
func placed(members []plan.Decision) (all []plan.Placement) {
	for i := range members {
		if m := &members[i]; m.Outcome == plan.Placed {
			all = append(all, m.Placement)
		}
	}
	return all
}

// domainOf returns the domain placement of the members; without a node set if groups are
// not restricted to domains. If no member has a node and several domains exist, none was
// chosen. The result then has no name and contains the nodes of all domains.
func (t *groupTurn) domainOf(d *plan.Attempt) (plugin.DomainPlacement, error) {
	profile := t.profiles[d.Members[0].Pod.SchedulerName]
	if profile == nil || profile.Placements == nil || profile.Placements.Generate == nil {
		return plugin.DomainPlacement{}, nil
	}
	all, err := profile.Placements.Generate.Run(t.state.View(), model.TreeOf(t.podGroup), nil)
	switch {
	case err != nil || len(all) == 0:
		return plugin.DomainPlacement{}, err
	case len(all) == 1:
		return all[0], nil
	}
	for i := range d.Members {
		if d.Members[i].Outcome != plan.Placed {
			continue
		}
		slot, _ := t.state.Slot(d.Members[i].Placement.NodeName)
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

// countRoom counts the further pods like the last member that fit beside all others.
func (t *groupTurn) countRoom(d *plan.Attempt) {
	all := placed(d.Members)
	t.state.Assume(all...)
	defer t.state.Unassume(all...)
	more := t.decide(t.likeLast(MaxRoom), 1)
	room := 0
	for i := range more.Members {
		if more.Members[i].Outcome == plan.Placed {
			room++
		}
	}
	t.Room = &room
}

// likeLast returns copies of the group's last member with other names and UIDs.
func (t *groupTurn) likeLast(n int) []plan.QueuedPod {
	last := t.pods[len(t.pods)-1].Pod
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

// search looks for single changes that would let the group start, the smallest change of
// each kind.
func (t *groupTurn) search() {
	have := t.Running + t.Fit
	if t.Policy == "gang" && t.Fit > 0 && have < t.MinCount && t.starts(t.pods, have) {
		// The members may also fit in other orders, so larger values are tried.
		most := have
		for most+1 < t.MinCount && t.starts(t.pods, most+1) {
			most++
		}
		t.WouldStart = append(t.WouldStart, Help{MinCount: most})
	}
	all := t.Running + t.Waiting
	if missing := t.MinCount - all; missing > 0 { // Nodes do not help then.
		if t.Waiting+missing > t.left {
			t.Unfinished = true
		} else if t.starts(append(slices.Clip(t.pods), t.likeLast(missing)...), t.MinCount) {
			t.WouldStart = append(t.WouldStart, Help{Members: missing, Like: t.Members[t.Waiting-1].Pod})
		}
		return
	}
	t.searchDemands()
	t.searchNodes(max(1, t.MinCount-have))
}

// searchDemands finds changes of members without a node that would let the group start.
// It suggests at most one change per sort, applied to all members of the sort.
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

// changed returns the members with a change applied to those without a node that are
// equal to the blocker.
func (t *groupTurn) changed(b *Blocker, by *advice.Suggestion) (pods []plan.QueuedPod, alike int) {
	pods = slices.Clone(t.pods)
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

// starts reports whether the group would start with these members. It is also false if
// the limit of decisions is reached.
func (t *groupTurn) starts(pods []plan.QueuedPod, minCount int) bool {
	if t.left < len(pods) {
		t.Unfinished = true
		return false
	}
	d := t.decide(pods, minCount)
	return d.Outcome == plan.Placed
}

// searchNodes finds, for each kind of node, how many more nodes would let the group
// start. missing is the number of members that lack a node; more nodes than this never
// help.
func (t *groupTurn) searchNodes(missing int) {
	pools := advice.Pools(t.nodes, t.others)
	if len(pools) > maxNodeKinds || missing > maxNodes {
		t.Unfinished = true
	}
	var helps []Help
	for _, pool := range pools[:min(maxNodeKinds, len(pools))] {
		like := pool.First
		with := func(n int) (starts bool) {
			t.withNodes(like, n, func() { starts = t.starts(t.pods, t.MinCount) })
			return starts
		}
		most := min(missing, maxNodes)
		if !with(most) {
			continue
		}
		// Bisection: `too` nodes do not suffice, `enough` nodes do.
		too, enough := 0, most
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
	t.WouldStart = append(t.WouldStart, helps[:min(maxNodeHelps, len(helps))]...)
}

// withNodes calls do while the cluster has n additional empty nodes like the given one.
// They have its drivers and devices, but no images.
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

// groupKeyOf returns the key of a PodGroup.
func groupKeyOf(g *schedulingv1beta1.PodGroup) model.GroupKey {
	return model.GroupKey{Namespace: g.Namespace, Name: g.Name}
}
