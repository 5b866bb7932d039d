package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// A tree of groups is decided as one, as in kube-scheduler. The groups below a composite
// group take turns, first created first. A group that finds too few nodes is reverted at
// once, so that the next can have its space. When fewer groups than minGroupCount can
// still succeed, the composite group has failed, and all groups below it are reverted.
//
// The attempt has the members of all PodGroups, one PodGroup after the other. It is the
// attempt of a single group that they all belong to, with the name, priority and
// preemption policy of the root. Only the search for nodes differs, and is in this file.

// node is one group of a tree in an attempt.
type node struct {
	*model.GroupTree
	// first (inclusive) and end (exclusive) bound the positions of the attempt's members
	// in this group and the groups below it.
	first, end int
	// below are the groups directly below it; turns are the same, in the order of their
	// turns.
	below, turns []*node
	// leaf is the attempt of a PodGroup, nil for a composite group. Its decisions about
	// members are those in the tree's attempt.
	leaf *attempt
	// tried means that the group has had its turn. short is the reason why too few
	// members found nodes then, empty if enough did.
	tried bool
	short string
}

// assignInTree assigns the members to the groups of the tree. They are put in the order
// of the groups; the members of each keep their order.
func (a *attempt) assignInTree() {
	byGroup := map[model.GroupKey][]int{}
	for i := range a.Members {
		of := a.Members[i].Pod.Group
		byGroup[of] = append(byGroup[of], i)
	}
	members := make([]plan.Decision, 0, len(a.Members))
	for group := range a.tree.Leaves {
		for _, i := range byGroup[group.Key] {
			members = append(members, plan.Decision{Member: plan.Member{QueuedPod: a.Members[i].QueuedPod, Group: group, Tree: a.tree}})
		}
	}
	a.Members = members
}

// newNode builds the nodes of a tree whose first member has the given position.
func (a *attempt) newNode(tree *model.GroupTree, first int) *node {
	n := &node{GroupTree: tree, first: first, end: first}
	if tree.Group != nil {
		for n.end < len(a.Members) && a.Members[n.end].Group == tree.Group {
			n.end++
		}
		n.leaf = a.partOf(n)
		return n
	}
	for _, below := range tree.Below {
		of := a.newNode(below, n.end)
		n.below, n.end = append(n.below, of), of.end
	}
	n.turns = a.turns(n.below)
	return n
}

// turns returns groups in the order of their turns. In the first pass the first created
// comes first. Further passes start with the largest, the smallest or the youngest, or
// use a random order, a different one each time.
func (a *attempt) turns(groups []*node) []*node {
	if a.pass == 0 {
		return groups
	}
	turns := slices.Clone(groups)
	members := func(n *node) int { return n.end - n.first }
	// so that each order meets different orders of members
	switch n := a.pass - 1; (n + n/orders) % orders {
	case 0:
		slices.SortStableFunc(turns, func(x, y *node) int { return cmp.Compare(members(y), members(x)) })
	case 1:
		slices.SortStableFunc(turns, func(x, y *node) int { return cmp.Compare(members(x), members(y)) })
	case 2:
		slices.Reverse(turns)
	default:
		key := func(n *node) uint64 {
			return a.engine.Tie(a.Group.Key.String(), n.Key().String()+" "+strconv.Itoa(a.pass))
		}
		slices.SortStableFunc(turns, func(x, y *node) int { return cmp.Compare(key(x), key(y)) })
	}
	return turns
}

// partOf returns the attempt of a PodGroup of the tree.
func (a *attempt) partOf(n *node) *attempt {
	part := *a
	part.Attempt = &plan.Attempt{Group: n.Group, Members: a.Members[n.first:n.end:n.end]}
	part.tree, part.root, part.part, part.tried = nil, nil, n, nil
	for _, i := range a.tried {
		if i >= n.first && i < n.end {
			part.tried = append(part.tried, i-n.first)
		}
	}
	return &part
}

// isShort reports whether too few nodes were found for a group in its last turn.
func (n *node) isShort() bool { return n.tried && n.short != "" }

// isPlaced reports whether enough nodes were found for a group in its last turn.
func (n *node) isPlaced() bool { return n.tried && n.short == "" }

// forget forgets the turns of a group and of all groups below it.
func (n *node) forget() {
	n.tried, n.short = false, ""
	for _, below := range n.below {
		below.forget()
	}
}

// revert unassumes the assumed members of a group and of all groups below it, last
// first.
func (n *node) revert() {
	if n.leaf != nil {
		n.leaf.revert()
	}
	for _, below := range slices.Backward(n.turns) {
		below.revert()
	}
}

// assume assumes the members of all groups below this one on the nodes found for them.
// Groups below a failed group have been reverted.
func (n *node) assume() {
	for _, below := range n.turns {
		switch {
		case !below.isPlaced():
		case below.leaf == nil:
			below.assume()
		default:
			below.leaf.assume()
		}
	}
}

// placed returns the members that are assumed.
func (n *node) placed() (pods []*model.Pod) {
	if n.leaf != nil && n.leaf.assumed {
		pods = n.leaf.placedMembers()
	}
	for _, below := range n.below {
		pods = append(pods, below.placed()...)
	}
	return pods
}

// tryTree finds nodes for all groups of the tree. On failure no member is assumed. On
// success the members of failed groups are already rejected.
func (a *attempt) tryTree() (short string, err error) {
	a.begin()
	a.root = a.newNode(a.tree, 0)
	short, err = a.tryNode(a.root, nil)
	// enough run already, and no other has found a node
	if err == nil && short == "" && len(a.root.placed()) == 0 {
		short = unschedulable
		a.root.short = short
	}
	if err != nil || short != "" {
		a.root.revert()
		a.assumed = false
		return short, err
	}
	a.rejectBelow(a.root, nil, room{})
	return "", nil
}

// rejectBelow ends the attempts of the PodGroups that are not placed, with the result of
// the search for victims for the tree. A PodGroup that failed has its own status. The
// others, and all their members, get the status of the lowest failed group above them.
func (a *attempt) rejectBelow(n, failed *node, found room) {
	switch {
	case n.isShort():
		failed = n
	case failed == nil && n.leaf != nil:
		n.leaf.Outcome = plan.Placed
	}
	for _, below := range n.below {
		a.rejectBelow(below, failed, found)
	}
	if n.leaf == nil || failed == nil {
		return
	}
	if failed == n {
		n.leaf.reject(n.short, found)
		return
	}
	n.leaf.begin()
	n.leaf.assumed = false
	n.leaf.reject(failed.short, found)
}

// rejectTree is reject for a tree.
func (a *attempt) rejectTree(short string, found room) {
	a.Outcome, a.Message = plan.Unschedulable, short+found.text
	a.rejectBelow(a.root, nil, found)
	a.Members[a.tried[0]].Evictions = found.evictions()
}

// divide splits the decision about a tree into decisions about its PodGroups.
func (a *attempt) divide() {
	if a.tree == nil {
		return
	}
	if a.root == nil || a.Outcome != plan.Placed && a.Outcome != plan.Unschedulable {
		a.root = a.newNode(a.tree, 0)
		a.root.each(func(n *node) {
			if n.leaf != nil {
				n.leaf.Outcome, n.leaf.Message = a.Outcome, a.Message
			}
		})
	}
	a.root.each(func(n *node) {
		if n.leaf != nil {
			a.Below = append(a.Below, *n.leaf.Attempt)
		}
	})
}

// tryNode finds nodes for a group, and all groups below it, among some nodes, nil for
// all. The group's previous turn must be forgotten. On failure no member is assumed.
func (a *attempt) tryNode(n *node, within *state.Restriction) (short string, err error) {
	if n.leaf != nil {
		n.leaf.within = within
		n.short, err = n.leaf.try()
		if n.tried = true; n.short != "" || err != nil {
			n.leaf.revert()
		}
		return n.short, err
	}
	placements, err := a.generate(n.GroupTree, within)
	switch {
	case err != nil:
		return "", err
	case len(placements) == 0:
		n.tried, n.short = true, "no feasible placements found"
		return n.short, nil
	case len(placements) == 1:
		if short, err = a.tryBelow(n, placements[0].Nodes); short != "" {
			short = oneOf(1, short)
		}
	default:
		short, err = a.tryPlacements(n, placements)
	}
	if err == nil {
		n.tried, n.short = true, short
	}
	return short, err
}

func oneOf(placements int, short string) string {
	return unschedulable + ", 0/" + strconv.Itoa(placements) + " placements are available, first placement status: " + statusOf(short)
}

// tryPlacements tries each of several domain placements and takes the best feasible one.
func (a *attempt) tryPlacements(n *node, placements []plugin.DomainPlacement) (short string, err error) {
	var first *kept
	var firstShort string
	var feasible []found
	var all []*kept
	left := a.maxKept
	for i := range placements {
		short, err := a.tryBelow(n, placements[i].Nodes)
		if err != nil {
			return "", err
		}
		switch {
		case short == "":
			feasible = append(feasible, found{Proposal: plugin.Proposal{DomainPlacement: placements[i], Members: n.placed()}})
			if left -= n.end - n.first; left >= 0 {
				all = append(all, a.keep(n))
			} else {
				all = append(all, nil)
			}
		case i == 0:
			first, firstShort = a.keep(n), short
		}
		n.revert()
	}
	if len(feasible) == 0 {
		a.restore(n, first)
		return oneOf(len(placements), firstShort), nil
	}
	at, err := a.best(n.GroupTree, feasible)
	switch {
	case err != nil:
		return "", err
	case all[at] == nil:
		return a.tryBelow(n, feasible[at].Nodes)
	}
	a.restore(n, all[at])
	n.assume()
	return "", nil
}

// tryBelow runs the turns of the groups below a composite group among some nodes. All
// groups get a turn, even after enough have succeeded. When too few can succeed, all are
// reverted. The message has kube-scheduler's minCount in place of minGroupCount.
func (a *attempt) tryBelow(n *node, nodes *state.Restriction) (short string, err error) {
	for _, below := range n.below {
		below.forget()
	}
	need, done, left := 1, 0, len(n.below)
	if a.enforces() {
		need = n.Composite.MinGroupCount
	}
	for _, below := range n.turns {
		if done+left < need {
			break
		}
		short, err := a.tryNode(below, nodes)
		if err != nil {
			return "", fmt.Errorf("composite pod group evaluation failed due to child error: %w", err)
		}
		if left--; short == "" {
			done++
		}
	}
	if done < need {
		n.revert()
		return "minCount (" + strconv.Itoa(need) + ") cannot be satisfied: " + strconv.Itoa(done) + " scheduled, " + strconv.Itoa(left) + " remaining", nil
	}
	return "", nil
}

// kept is the result for a group and all groups below it in one domain placement.
type kept struct {
	members []plan.Decision
	nodes   []node // in order
}

func (a *attempt) keep(n *node) *kept {
	k := &kept{members: slices.Clone(a.Members[n.first:n.end])}
	n.each(func(of *node) { k.nodes = append(k.nodes, *of) })
	return k
}

// restore restores a stored result. Its members are on no node.
func (a *attempt) restore(n *node, k *kept) {
	copy(a.Members[n.first:n.end], k.members)
	n.each(func(of *node) {
		of.tried, of.short = k.nodes[0].tried, k.nodes[0].short
		k.nodes = k.nodes[1:]
	})
}

// each calls do with each group below this one, in order.
func (n *node) each(do func(*node)) {
	for _, below := range n.below {
		do(below)
		below.each(do)
	}
}
