package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// A PodGroup below a CompositePodGroup is explained by the turn of the whole tree,
// because its start depends on the other groups. Suggestions therefore let the tree
// start.

// Tree is the result of a tree's turn, for its PodGroups.
type Tree struct {
	// Name is namespace/name of the CompositePodGroup at the top. Starts reports whether
	// enough groups fit.
	Name   string      `json:"compositePodGroup"`
	Starts bool        `json:"starts"`
	Groups []TreeGroup `json:"groups"`
	// More is the number of further groups, which are not listed.
	More int `json:"more,omitempty"`
	// WouldStart are single changes that would let the tree start if no member were held
	// back, as for a group. Unfinished is set if the search for them was cut short.
	WouldStart []Help `json:"wouldStart,omitempty"`
	Unfinished bool   `json:"unfinished,omitempty"`
}

// maxTreeGroups limits the listed groups of a tree.
const maxTreeGroups = 100

// TreeGroup is one PodGroup of a tree, in the order of their turns.
type TreeGroup struct {
	Name    string `json:"podGroup"`
	Running int    `json:"running"`
	Waiting int    `json:"waiting"`
	// Fit is the number of pending members that would be placed.
	Fit int `json:"fit"`
	// Message is the reason why the group would not start; empty if it would.
	Message string `json:"message,omitempty"`
}

// rootOf returns the CompositePodGroup at the top of a group's tree; nil if it has none.
func (s *Snapshot) rootOf(object *model.PodGroup) (*model.CompositeGroup, error) {
	if !s.trees || object == nil {
		return nil, nil
	}
	return s.state.View().Root(object)
}

// heldInTree is held for a group of a tree.
func (s *Snapshot) heldInTree(root *model.CompositeGroup) (why string, held []HeldMember) {
	if known, ok := s.treeHolds[root.Key]; ok {
		return known.why, known.members
	}
	defer func() { s.treeHolds[root.Key] = groupHold{why, held} }()
	tree := s.state.View().Tree(root.Key)
	var first *model.Pod
	for below := range tree.Leaves {
		members := s.members[below.Key]
		if held = append(held, s.heldMembers(members)...); first == nil && len(members) > 0 {
			first = members[0]
		}
	}
	switch {
	case first == nil:
		return "", nil
	case len(held) > 0:
		return fmt.Sprintf("member %s of its tree is held back: %s", held[0].Pod, held[0].Reason), held
	}
	all := func(key model.GroupKey) int { return len(s.members[key]) + s.state.View().GroupPlaced(key) }
	for _, pre := range s.profiles[first.SchedulerName].PreEnqueue {
		if pre.Tree != nil {
			if reason := pre.Tree(tree, all); reason != "" {
				return reason, nil
			}
		}
	}
	return "", nil
}

// heldMembers returns the members that a PreEnqueue plugin holds back.
func (s *Snapshot) heldMembers(members []*model.Pod) (held []HeldMember) {
	for _, pod := range members {
		if by, reason := s.profiles[pod.SchedulerName].RunPreEnqueue(s.state.View(), pod); reason != "" {
			held = append(held, HeldMember{Pod: pod.String(), Plugin: by, Reason: reason})
		}
	}
	return held
}

// explainInTree explains a group by the turn of its tree.
func (s *Snapshot) explainInTree(g *Group, key model.GroupKey, root *model.CompositeGroup) {
	turn := s.turnOf(root)
	if turn == nil {
		return
	}
	d := turn.attempt
	g.Tree = &Tree{Name: root.Key.String(), Starts: d.Outcome == plan.Placed, More: max(0, len(d.Below)-maxTreeGroups), WouldStart: turn.wouldStart, Unfinished: turn.unfinished}
	for i := range d.Below {
		below := &d.Below[i]
		if i < maxTreeGroups {
			of := TreeGroup{Name: below.Group.Key.String(), Running: s.state.View().GroupPlaced(below.Group.Key), Waiting: len(below.Members), Message: below.Message}
			for j := range below.Members {
				if below.Members[j].Outcome == plan.Placed {
					of.Fit++
				}
			}
			g.Tree.Groups = append(g.Tree.Groups, of)
		}
		if below.Group.Key == key {
			s.explainPart(g, below)
		}
	}
}

// treeTurn is the attempt for the groups of a tree, and the changes that would let it
// start.
type treeTurn struct {
	attempt    *plan.Attempt
	wouldStart []Help
	unfinished bool
}

// turnOf returns the turn of a tree, with its placements reverted; nil if no pod of the
// tree is pending.
func (s *Snapshot) turnOf(root *model.CompositeGroup) *treeTurn {
	if known, ok := s.turns[root.Key]; ok {
		return known
	}
	tree := s.state.View().Tree(root.Key)
	var pods []plan.QueuedPod
	for below := range tree.Leaves {
		for _, pod := range s.members[below.Key] {
			pods = append(pods, plan.QueuedPod{Pod: s.judged(pod)})
		}
	}
	if len(pods) == 0 {
		return nil
	}
	slices.SortStableFunc(pods, func(a, b plan.QueuedPod) int { return cmp.Compare(b.Pod.Priority, a.Pod.Priority) })
	turn := &treeTurn{attempt: plan.ForGroup(tree.Root(), tree, pods)}
	s.takenBack(turn.attempt)
	if turn.attempt.Outcome == plan.Unschedulable {
		t := groupTurn{Snapshot: s, Group: &Group{MinCount: root.MinGroupCount}, podGroup: tree.Root(), tree: tree, pods: pods, left: maxDecisions}
		t.searchForTree()
		turn.wouldStart, turn.unfinished = t.WouldStart, t.Unfinished
	}
	s.turns[root.Key] = turn
	return turn
}

// searchForTree looks for single changes that would let the tree start, the smallest of
// each kind: a lower minGroupCount, and more nodes.
func (t *groupTurn) searchForTree() {
	for n := t.MinCount - 1; n > 0; n-- {
		if t.starts(t.pods, n) {
			t.WouldStart = append(t.WouldStart, Help{MinGroupCount: n})
			break
		}
	}
	t.searchNodes(len(t.pods))
}

// explainPart explains a group by its part of the decision about its tree.
func (s *Snapshot) explainPart(g *Group, d *plan.Attempt) {
	g.Starts = d.Outcome == plan.Placed && len(d.Members) > 0
	if g.Held == "" {
		g.Condition = conditionAfter(d)
	}
	for i := range d.Members {
		m := &d.Members[i]
		member := Member{Pod: m.Pod.String()}
		if m.Outcome == plan.Placed {
			member.Node = m.Placement.NodeName
			g.Fit++
		} else {
			member.Message = report.Message(m)
		}
		g.Members = append(g.Members, member)
	}
}
