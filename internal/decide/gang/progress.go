package gang

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// A topology key may have as many values as the cluster has nodes. Trying all members
// in each domain then takes seconds. So an attempt that uses up its budget of work for
// one round stops between two domain placements, with nothing assumed, and continues in
// a later round. The result for a domain placement stays valid until a change to
// something that it was computed from; then the placement is tried again. So the
// attempt ends like an attempt made at once in the final state.
//
// If the cluster changes faster than domain placements are tried, the attempt makes no
// progress. Each round that begins with no more results than before doubles the budget,
// until one round is enough.

// memberUnits is the cost of assuming a member and reverting that, in addition to the
// decision about the member.
const memberUnits = 3000

// progress holds the results of an attempt that continues in a later round.
type progress struct {
	// group, pods and placed identify the attempt. If they differ, the attempt starts
	// over.
	group  *model.PodGroup
	pods   []*model.Pod
	placed int
	// versions are the versions of the state at the end of the last round.
	versions state.Versions
	// elsewhere are the aspects that decisions about members read of nodes outside the
	// domain placement. local means that the decisions read nothing else outside.
	elsewhere model.Aspect
	local     bool
	// trials are the results by pass and domain placement. kept is the number of member
	// decisions that they store.
	trials map[trialKey]*trial
	kept   int
	// fresh counts the domain placements tried in this round. recalled counts the
	// decisions that this round has reused from earlier rounds so far.
	fresh    int
	recalled int64
	// known is the largest number of valid trials at the start of a round. stalls
	// counts the rounds that started with no more than known.
	known, stalls int
	used          uint64 // the number of the last attempt that used this progress
}

type trialKey struct {
	pass   int
	domain string
}

// trial is the result of trying one domain placement.
type trial struct {
	nodes *state.Restriction
	// short is the reason why too few members found a node, empty if enough did.
	short string
	// placed are the positions in Members of the members that found a node. members are
	// the decisions, nil if they were not kept.
	placed    []int32
	members   []plan.Decision
	decisions int64
}

// maxProgress bounds the groups whose progress is kept.
const maxProgress = 64

// resume returns the progress of an attempt, nil if the attempt cannot stop. Attempts
// cannot stop for a tree, for a group without domain placements, or if a member is
// malformed or has volumes or devices.
func (s *Searches) resume(a *attempt) *progress {
	if s == nil || a.tree != nil || a.profile == nil || a.profile.Placements == nil || a.Group.Object.Spec.SchedulingConstraints == nil {
		return nil
	}
	if slices.ContainsFunc(a.tried, func(i int) bool { return !isPlain(a.Members[i].Pod) }) {
		return nil
	}
	p := s.progress[a.Group.UID()]
	if p == nil {
		p = &progress{}
	}
	s.attempts++
	p.used, p.fresh, p.recalled = s.attempts, 0, 0
	p.begin(a)
	return p
}

// keep stores the progress of an unfinished attempt. The progress of a finished attempt
// is deleted.
func (s *Searches) keep(a *attempt) {
	if s == nil || a.progress == nil {
		return
	}
	uid := a.Group.UID()
	if a.Outcome != plan.Unfinished {
		delete(s.progress, uid)
		return
	}
	a.progress.versions = a.state.View().Versions()
	if s.progress == nil {
		s.progress = map[types.UID]*progress{}
	}
	if s.progress[uid] == nil && len(s.progress) == maxProgress {
		s.forgetOldest()
	}
	s.progress[uid] = a.progress
}

func (s *Searches) forgetOldest() {
	var oldest types.UID
	for uid, p := range s.progress {
		if oldest == "" || p.used < s.progress[oldest].used {
			oldest = uid
		}
	}
	delete(s.progress, oldest)
}

// begin drops the trials that became invalid since the last round, and counts a stall
// if no trial was gained.
func (p *progress) begin(a *attempt) {
	pods := make([]*model.Pod, len(a.tried))
	for n, i := range a.tried {
		pods[n] = a.Members[i].Pod
	}
	placed, now := a.state.View().GroupPlaced(a.Group.Key), a.state.View().Versions()
	if p.trials == nil || p.group != a.Group || p.placed != placed || !slices.Equal(p.pods, pods) || !p.follow(a.state, now) {
		p.trials, p.kept = map[trialKey]*trial{}, 0
		p.elsewhere, p.local = a.elsewhere(pods)
	}
	if p.group != nil {
		if len(p.trials) <= p.known {
			p.stalls++
		}
		p.known = max(p.known, len(p.trials))
	}
	p.group, p.pods, p.placed = a.Group, pods, placed
}

// follow drops the trials whose nodes have changed. It returns false if a change may
// affect all trials.
func (p *progress) follow(s *state.State, now state.Versions) bool {
	if p.versions == now {
		return true
	}
	was := p.versions
	// the journal lists these nodes
	was.Journal, was.Nominations, was.Devices = now.Journal, now.Nominations, now.Devices
	entries, ok := s.Since(p.versions.Journal)
	if !p.local || was != now || !ok {
		return false
	}
	changed := map[int32]bool{}
	for _, entry := range entries {
		if entry.Aspects&p.elsewhere != 0 {
			return false
		}
		changed[entry.Slot] = true
	}
	for key, t := range p.trials {
		if slices.ContainsFunc(t.nodes.Slots(), func(slot int32) bool { return changed[slot] }) {
			p.kept -= len(t.members)
			delete(p.trials, key)
		}
	}
	return true
}

// elsewhere returns the aspects of nodes that decisions about the pods read outside a
// domain placement, see engine.Elsewhere. local is false if the decisions may read
// more, or if the pods are of too many kinds.
func (a *attempt) elsewhere(pods []*model.Pod) (aspects model.Aspect, local bool) {
	kinds := map[engine.Kind]bool{}
	for _, pod := range pods {
		kind := engine.KindOf(pod)
		if kinds[kind] {
			continue
		}
		if kinds[kind] = true; len(kinds) > maxForeseen {
			return 0, false
		}
		own, ok := a.engine.Elsewhere(a.state.View(), pod)
		if !ok {
			return 0, false
		}
		aspects |= own
	}
	return aspects, true
}

// trialOn returns the trial of the i-th domain placement, made now or in an earlier
// round. Afterwards no member is assumed, unless the placement is the only one and has
// room. An error ends the attempt; plugin.ErrUnfinished ends only this round.
func (a *attempt) trialOn(i int, placement *plugin.DomainPlacement, only bool) (*trial, error) {
	p := a.progress
	key := trialKey{a.pass, placement.Name}
	if p != nil {
		if t := p.trials[key]; t != nil {
			// The first placement without room is reported, so its decisions are needed.
			reported := i == 0 && t.short != "" && t.members == nil
			if !reported && slices.Equal(t.nodes.Slots(), placement.Nodes.Slots()) {
				p.recalled += t.decisions
				return t, nil
			}
			p.kept -= len(t.members)
			delete(p.trials, key)
		}
		if p.fresh > 0 && a.state.Meter().IsOver() {
			return nil, plugin.ErrUnfinished
		}
		p.fresh++
	}
	before := a.engine.Counters().Decisions
	short, err := unschedulable, error(nil)
	if i == 0 || !a.isForeseen(placement.Nodes) {
		short, err = a.tryOn(placement.Nodes)
	}
	if err != nil {
		return nil, err
	}
	if a.observer != nil {
		a.observer.Evaluated(short == "")
	}
	t := &trial{nodes: placement.Nodes, short: short, decisions: a.engine.Counters().Decisions - before}
	if short == "" && only {
		return t, nil
	}
	if short == "" {
		t.placed = a.placedPositions()
	}
	if i == 0 && short != "" || short == "" && a.keeps(p) {
		t.members = slices.Clone(a.Members)
	}
	a.revert()
	if p != nil {
		p.trials[key] = t
		p.kept += len(t.members)
	}
	return t, nil
}

// isForeseen reports whether sums of free resources show that too few members find a node
// in a domain placement. Then the members need not be tried. The first placement is
// always tried, because the message of a rejection has its details. Sums are computed
// only behind a placement without room, since they cost time too.
func (a *attempt) isForeseen(nodes *state.Restriction) bool {
	if !a.shortBefore {
		return false
	}
	if a.sameKind == nil {
		a.sameKind = a.sorts()
		if a.sameKind == nil || slices.ContainsFunc(a.sameKind, func(s sort) bool { return !isPlain(s.pod) }) {
			a.sameKind = []sort{} // too many kinds, or a decision may fail
		}
	}
	if len(a.sameKind) == 0 {
		return false
	}
	_, known := a.foreseeOn(nodes, a.sameKind, func(int32, *state.Use) {})
	return known != unknown
}

// keeps reports whether the decisions about the members may be kept for another domain
// placement.
func (a *attempt) keeps(p *progress) bool {
	if p != nil {
		return p.kept+len(a.Members) <= a.maxKept
	}
	a.left -= len(a.Members)
	return a.left >= 0
}

// placedPositions returns the positions of the members that are assumed.
func (a *attempt) placedPositions() []int32 {
	positions := make([]int32, 0, a.placed)
	for _, i := range a.tried {
		if a.Members[i].Outcome == plan.Placed {
			positions = append(positions, int32(i))
		}
	}
	return positions
}

// podsAt returns the members at the given positions.
func (a *attempt) podsAt(positions []int32) []*model.Pod {
	pods := make([]*model.Pod, len(positions))
	for n, i := range positions {
		pods[n] = a.Members[i].Pod
	}
	return pods
}

// takeOver copies decisions into this attempt, about the members of the present round.
// The decisions may be from an earlier round. No member is assumed.
func (a *attempt) takeOver(members []plan.Decision) {
	for i := range a.Members {
		present := a.Members[i].Member
		a.Members[i] = members[i]
		m := &a.Members[i]
		m.Member = present
		if m.Outcome == plan.Undecided {
			m.Nodes = a.state.Nodes()
		}
		if m.Outcome == plan.Placed {
			m.Placement.Pod = m.Pod
		}
	}
}

// spendOn charges memberUnits for one member.
func (a *attempt) spendOn() { a.state.Meter().Spend(price.Placements, memberUnits) }
