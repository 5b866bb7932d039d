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

// Observer receives the progress of a group's domain placements. It may measure the time
// between two calls, as this package has no clock.
type Observer interface {
	// Generated is called with the number of domain placements, before the first is
	// tried.
	Generated(placements int)
	// Evaluated is called after each tried domain placement, with the result.
	Evaluated(feasible bool)
}

// Witness is an Observer that also receives decisions about members, before they take
// effect. Engine and state are as they were for the decision. It must not change them.
type Witness interface {
	Observer
	// Decided is called after each decision about a member that may become the group's
	// result, in the view of the decision. It is not called in searches for victims. It
	// returns the key of the details that it keeps, for Decision.Details.
	//
	// among bounds the decisions about this member, so that a witness can share its
	// memory among them: it is the number of domain placements of the member's own group
	// still to be compared, including this one.
	Decided(run *engine.Run, v state.View, d *plan.Decision, among int) uint64
}

// unschedulable is the message of a group for which no domain placement has room, without
// numbers.
const unschedulable = "pod group is unschedulable"

// maxKept bounds the decisions about members that are kept while domain placements are
// compared. The decisions of the best are needed again, but the best is known only at the
// end. Beyond the bound the best placement is tried once more.
const maxKept = 1 << 14

// found is a domain placement with room.
type found struct {
	plugin.Proposal
	// members are the decisions, nil if they were not kept.
	members []plan.Decision
}

// try finds nodes for the members, as tryOn does. If the profile generates domain
// placements for the group, it tries each separately and takes the best feasible one. If
// none is feasible, no member is assumed, and the decisions are those of the first
// placement.
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
	a.left, a.shortBefore, a.assumed = a.maxKept, false, false
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

// noneOf returns the message that no domain placement has room, with the reason for the
// first.
func noneOf(placements int, firstShort string) string {
	return unschedulable + ", 0/" + strconv.Itoa(placements) + " placements are available, first placement status: " + statusOf(firstShort)
}

// begin clears the members' decisions; none may be assumed. From here on, placed members
// are assumed.
func (a *attempt) begin() {
	for _, i := range a.tried {
		m := &a.Members[i]
		*m = plan.Decision{Member: m.Member, Nodes: a.state.Nodes()}
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
		if placements, err = generator.Run(a.state.View(), tree, within); err != nil {
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
			pods = append(pods, m.Pod)
		}
	}
	return pods
}

// statusOf returns the status to report for the first domain placement. It is the reason
// why too few members found a node, shortened if the group had too few members from the
// start.
func statusOf(short string) string {
	if strings.HasPrefix(short, unschedulable) {
		return unschedulable
	}
	return short
}

// takeBest assumes the members on the nodes of the best domain placement.
func (a *attempt) takeBest(feasible []found) (short string, err error) {
	at, err := a.best(model.TreeOf(a.Group), feasible)
	if err != nil {
		a.begin() // the error does not concern the decisions in one placement
		return "", err
	}
	best := &feasible[at]
	if best.members == nil {
		a.among = 1
		return a.tryOn(best.Nodes)
	}
	a.takeOver(best.members)
	a.assume()
	return "", nil
}

// best returns the position of a group's domain placement with the highest weighted
// score. Ties are broken by a hash of seed, group and name.
func (a *attempt) best(tree *model.GroupTree, feasible []found) (at int, err error) {
	if len(feasible) == 1 {
		return 0, nil
	}
	proposals, totals, scores := make([]plugin.Proposal, len(feasible)), make([]int64, len(feasible)), make([]int64, len(feasible))
	for i := range feasible {
		proposals[i] = feasible[i].Proposal
	}
	for _, p := range a.profile.Placements.Scores {
		if err := p.Run(a.state.View(), tree, proposals, scores); err != nil {
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
