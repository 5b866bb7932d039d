package gang

import (
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Observer learns what becomes of a group's domain placements. It may measure the time between two calls, which this package does not know.
type Observer interface {
	// Generated is called with how many there are, before the first is tried.
	Generated(placements int)
	// Evaluated is called when one has been tried, and whether it has room.
	Evaluated(feasible bool)
}

// Witness is an Observer that also looks at decisions about members before anything comes of them: engine and state are as they were when a decision was made. It must not change them.
type Witness interface {
	Observer
	// Decided is called after each decision about a member that may stand, in the view in which it was made: not in searches for pods to evict. among is how many domain placements of the member's own group are compared, this one included: in each of
	// them the member is decided about, or in fewer. In a tree, domain placements of groups above may be compared besides. What it returns becomes Decision.Details, and is forgotten with the decision.
	Decided(run *engine.Run, v state.View, d *plan.Decision, among int) uint64
}

// unschedulable is the text of a group that no domain placement has room for, without numbers.
const unschedulable = "pod group is unschedulable"

// mostKept is how many decisions about members are kept while domain placements are compared: those of the best are needed again, and which is the best is known at
// the end. Beyond it the best is tried once more.
const mostKept = 1 << 14

// found is a domain placement with room.
type found struct {
	plugin.Proposal
	// members are the decisions, nil if they were not kept.
	members []plan.Decision
}

// try finds nodes for the members, as tryOn does; where the profile divides nodes for groups, in one of the group's domain placements: each is tried by itself,
// and the best of those with room is taken. When none has room no member is assumed, and the decisions are those of the first that was tried.
func (a *attempt) try() (short string, err error) {
	if a.tree != nil {
		return a.tryTree()
	}
	if a.profile == nil || a.profile.Placements == nil {
		return a.tryOn(a.within)
	}
	a.begin()
	placements, err := a.generate(model.TreeOf(a.Group), a.within)
	switch {
	case err != nil:
		return "", err
	case len(placements) == 0:
		return "no feasible placements found", nil
	}
	var first *trial
	var feasible []found
	a.left, a.shortBefore, a.assumed = a.mostKept, false, false
	for i := range placements {
		a.among = len(placements) - i
		t, err := a.trialOn(i, &placements[i], len(placements) == 1)
		switch {
		case err != nil:
			return "", err
		case t.short == "" && len(placements) == 1:
			return "", nil
		case t.short == "":
			of := plugin.Proposal{DomainPlacement: placements[i], Members: a.podsAt(t.placed)}
			feasible = append(feasible, found{Proposal: of, members: t.members})
		case i == 0:
			first = t
		}
		a.shortBefore = t.short != ""
	}
	if len(feasible) > 0 {
		return a.takeBest(feasible)
	}
	a.takeOver(first.members)
	return noneOf(len(placements), first.short), nil
}

// noneOf says that none of so many domain placements has room, the first for the given reason.
func noneOf(placements int, firstShort string) string {
	return unschedulable + ", 0/" + strconv.Itoa(placements) + " placements are available, first placement status: " + statusOf(firstShort)
}

// begin forgets what was decided about the members before, of whom none may be assumed. From now on those that find a node are.
func (a *attempt) begin() {
	for _, i := range a.tried {
		m := &a.Members[i]
		*m = plan.Decision{Work: m.Work, Nodes: a.state.Nodes()}
	}
	a.assumed = true
}

// generate returns the domain placements of a group among some nodes, nil for all.
func (a *attempt) generate(tree *model.GroupTree, within *state.Restriction) (placements []plugin.DomainPlacement, err error) {
	placements = []plugin.DomainPlacement{{Nodes: within}}
	if a.profile == nil || a.profile.Placements == nil {
		return placements, nil
	}
	if generator := a.profile.Placements.Generate; generator != nil {
		if placements, err = generator.GeneratePlacements(a.state.View(), tree, within); err != nil {
			return nil, err
		}
	}
	if a.observer != nil && len(placements) > 0 && (a.progress == nil || a.progress.known == 0) {
		a.observer.Generated(len(placements))
	}
	return placements, nil
}

// placedMembers returns the members that are assumed.
func (a *attempt) placedMembers() []*model.Pod {
	pods := make([]*model.Pod, 0, a.placed)
	for _, i := range a.tried {
		if m := &a.Members[i]; m.Outcome == plan.Placed {
			pods = append(pods, m.Pods[0].Pod)
		}
	}
	return pods
}

// statusOf returns what is told of the first domain placement: why too few members found a node; if too few were there from the start, only that.
func statusOf(short string) string {
	if strings.HasPrefix(short, unschedulable) {
		return unschedulable
	}
	return short
}

// takeBest assumes the members where the best domain placement has them.
func (a *attempt) takeBest(feasible []found) (short string, err error) {
	at, err := a.best(model.TreeOf(a.Group), feasible)
	if err != nil {
		a.begin() // what was found in one of them is not what the error is about
		return "", err
	}
	best := &feasible[at]
	if best.members == nil {
		a.among = 1
		return a.tryOn(best.Nodes)
	}
	a.takeOver(best.members)
	for _, i := range a.tried {
		a.state.Assume(a.Members[i].Placements...)
	}
	a.assumed = true
	return "", nil
}

// best returns the position of a group's domain placement with the highest weighted score. Between equal ones a hash of seed, group and name decides.
func (a *attempt) best(tree *model.GroupTree, feasible []found) (at int, err error) {
	if len(feasible) == 1 {
		return 0, nil
	}
	proposals, totals, scores := make([]plugin.Proposal, len(feasible)), make([]int64, len(feasible)), make([]int64, len(feasible))
	for i := range feasible {
		proposals[i] = feasible[i].Proposal
	}
	for _, p := range a.profile.Placements.Scores {
		if err := p.ScorePlacements(a.state.View(), tree, proposals, scores); err != nil {
			return 0, err
		}
		for i, score := range scores {
			totals[i] += score * p.Weight
		}
	}
	of := tree.Key().String()
	tie := a.engine.Tie(of, proposals[0].Name)
	for i := 1; i < len(totals); i++ {
		if totals[i] < totals[at] {
			continue
		}
		if own := a.engine.Tie(of, proposals[i].Name); totals[i] > totals[at] || own > tie {
			at, tie = i, own
		}
	}
	return at, nil
}
