package group

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/price"
	"github.com/berth-scheduler/berth/internal/state"
)

// A topology key may have as many values as there are nodes, and to try all members in
// each takes seconds. So an attempt whose budget of work for one round is used up stops
// between two domain placements, with nothing assumed, and goes on in a later round. What
// was found in a domain placement holds until something changes that was read for it;
// then it is tried again. So the attempt ends as one would that is made at once, in the
// state in which it ends.
//
// Where the cluster changes faster than domain placements are tried, the budget doubles
// each time that no fewer are left than before: in the end one round is enough.

// memberUnits is what a member costs besides the decision about it: to assume it and to
// take it back.
const memberUnits = 3000

// progress is what an attempt has found that goes on in a later round.
type progress struct {
	// group, pods and placed are what the attempt is about: with others it begins anew.
	group  *model.PodGroup
	pods   []*model.Pod
	placed int
	// versions are those of the state when the last round ended.
	versions state.Versions
	// elsewhere are the aspects of nodes outside of a domain placement that decisions
	// about members read there; local says that they read nothing else of what is
	// outside.
	elsewhere model.Aspect
	local     bool
	// trials are what was found, by pass and by the name of the domain placement. kept is
	// how many decisions about members they have.
	trials map[trialKey]*trial
	kept   int
	// fresh is how many domain placements were tried in this round, recalled how many
	// decisions were made in earlier ones, as far as this one has come.
	fresh    int
	recalled int64
	// known is how many trials still held when a round began, at most; stalls how often
	// they were no more.
	known, stalls int
	used          uint64 // the number of the attempt that used it last
}

type trialKey struct {
	pass   int
	domain string
}

// trial is what was found in one domain placement.
type trial struct {
	nodes *state.Restriction
	// short is why too few members found a node, empty if enough did.
	short string
	// placed are those that did, by their position among Members; members are the
	// decisions, nil if they were not kept.
	placed    []int32
	members   []plan.Decision
	decisions int64
}

// progressMax is of how many groups it is kept what their attempts have found so far.
const progressMax = 64

// resume returns the progress of an attempt, nil if it cannot stop: it is that of a tree,
// or of a group without domain placements, or its members have objects of their own.
func (s *Searches) resume(a *attempt) *progress {
	if s == nil || a.tree != nil || a.profile == nil || a.profile.Placements == nil || a.Group.Object.Spec.SchedulingConstraints == nil {
		return nil
	}
	if slices.ContainsFunc(a.tried, func(i int) bool { return !isPlain(a.Members[i].Pods[0].Pod) }) {
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

// keep keeps the progress of an attempt that goes on in a later round, and forgets that
// of one that has ended.
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
	if s.progress[uid] == nil && len(s.progress) == progressMax {
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

// begin forgets what has changed since the last round.
func (p *progress) begin(a *attempt) {
	pods := make([]*model.Pod, len(a.tried))
	for n, i := range a.tried {
		pods[n] = a.Members[i].Pods[0].Pod
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

// follow forgets the trials for which something has changed; it returns false if that may
// be all of them.
func (p *progress) follow(s *state.State, now state.Versions) bool {
	if p.versions == now {
		return true
	}
	was := p.versions
	was.Journal, was.Nominations, was.Devices = now.Journal, now.Nominations, now.Devices // the journal names these nodes
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

// elsewhere returns what decisions about members read outside of a domain placement, see
// engine.Elsewhere.
func (a *attempt) elsewhere(pods []*model.Pod) (aspects model.Aspect, local bool) {
	kinds := map[engine.Kind]bool{}
	for _, pod := range pods {
		kind := engine.KindOf(pod)
		if kinds[kind] {
			continue
		}
		if kinds[kind] = true; len(kinds) > mostForeseen {
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

// trialOn returns what is found in a domain placement, the i-th, now or in an earlier
// round. The members are on no node then, unless the placement is the only one and has
// room. The error is one that ends the attempt, or says that it goes on in a later round.
func (a *attempt) trialOn(i int, placement *plugin.DomainPlacement, only bool) (*trial, error) {
	p := a.progress
	key := trialKey{a.pass, placement.Name}
	if p != nil {
		if t := p.trials[key]; t != nil && slices.Equal(t.nodes.Slots(), placement.Nodes.Slots()) {
			p.recalled += t.decisions
			return t, nil
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
	a.takeBack()
	if p != nil {
		p.trials[key] = t
		p.kept += len(t.members)
	}
	return t, nil
}

// isForeseen reports whether sums tell that too few members find a node in a domain
// placement behind the first, of which no more is said than that. Where the one before
// had room it is not looked at.
func (a *attempt) isForeseen(nodes *state.Restriction) bool {
	if !a.shortBefore {
		return false
	}
	if a.sameKind == nil {
		a.sameKind = a.sorts()
		if a.sameKind == nil || slices.ContainsFunc(a.sameKind, func(s sort) bool { return !isPlain(s.pod) }) {
			a.sameKind = []sort{} // too many, or one of them may fail
		}
	}
	if len(a.sameKind) == 0 {
		return false
	}
	_, known := a.foreseeOn(nodes, a.sameKind, func(int32, *state.Use) {})
	return known != unknown
}

// keeps reports whether the decisions about the members may be kept for one more domain
// placement.
func (a *attempt) keeps(p *progress) bool {
	if p != nil {
		return p.kept+len(a.Members) <= a.mostKept
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

// podsAt returns the members at some positions.
func (a *attempt) podsAt(positions []int32) []*model.Pod {
	pods := make([]*model.Pod, len(positions))
	for n, i := range positions {
		pods[n] = a.Members[i].Pods[0].Pod
	}
	return pods
}

// takeOver takes over decisions about members that may have been made in an earlier
// round. No member is assumed.
func (a *attempt) takeOver(members []plan.Decision) {
	for i := range a.Members {
		work := a.Members[i].Work
		a.Members[i] = members[i]
		m := &a.Members[i]
		m.Work = work
		if m.Outcome == plan.Undecided {
			m.Nodes = a.state.Nodes()
		}
		m.Placements = slices.Clone(m.Placements)
		for at := range m.Placements {
			m.Placements[at].QueuedPod = work.Pods[at]
		}
	}
}

// spendOn charges what a member costs besides the decision about it.
func (a *attempt) spendOn() { a.state.Meter().Spend(price.Placements, memberUnits) }
