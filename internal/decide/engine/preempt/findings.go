package preempt

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// findings are results of dry runs on nodes for pods that are alike: the rank of the
// candidate, or the reason why evicting all pods of lower priority is not enough. If
// filters read more than resource usage, each result takes a dry run of all filters. The
// bounds from sums alone then leave very many nodes to try. Findings follow the journal
// and the budgets.
type findings struct {
	alike   Alike
	version uint64 // of the journal
	budgets uint64 // version of the budgets for which candidates are valid
	used    uint64
	// bySlot has notTried, hasCandidate, or firstReason plus the position in texts of the
	// reasons for having no candidate. positions finds the position by text.
	bySlot    []uint8
	texts     [][]string
	positions map[string]uint8
	// ranks are the ranks of the candidates, without ties; nil before the first.
	ranks []rank
	// noted are the slots with new or dropped findings, unless the journal lists the
	// cause.
	noted noted
}

type findingsKey struct {
	alike    Kind
	priority int32
}

const (
	notTried uint8 = iota
	hasCandidate
	firstReason
)

const (
	// fewFindings is the number of kinds of pods whose findings are always kept.
	// findingBytes limits the memory of all findings, at findingBytesPerSlot for each
	// kind and slot. maxTexts bounds the different reasons of one kind.
	fewFindings         = 8
	findingBytes        = 64 << 20
	findingBytesPerSlot = 41
	maxTexts            = 255 - firstReason
)

// findingsFor returns the up-to-date findings for pods like the cycle's, or nil if they
// are not kept.
func (m *Memory) findingsFor(c *cycle, priority int32) *findings {
	alike, ok := c.Alike()
	if !ok {
		return nil
	}
	key := findingsKey{alike.Kind, priority}
	f := m.findings[key]
	if f == nil {
		for len(m.findings) >= max(fewFindings, findingBytes/(findingBytesPerSlot*max(1, c.View.State().Slots()))) {
			forgotten := forgetOldest(m.findings, func(f *findings) uint64 { return f.used })
			m.forgetOrders(func(on basis) bool { return on.known == forgotten })
		}
		f = &findings{}
		m.findings[key] = f
	}
	f.used = m.clock
	f.sync(c.View, m.rules.Budgets, alike)
	return f
}

// sync drops outdated findings. If the counts that filters read have changed, it drops
// all. Otherwise it drops those of nodes in the journal, and candidates that became wrong
// because budgets changed.
func (f *findings) sync(v state.View, rules model.BudgetRules, alike Alike) {
	s := v.State()
	entries, ok := s.Since(f.version)
	if !ok || len(f.bySlot) == 0 || len(entries) > s.Slots() || !slices.Equal(f.alike.Versions, alike.Versions) {
		f.bySlot, f.texts, f.positions, f.ranks = make([]uint8, s.Slots()), nil, map[string]uint8{}, nil
		f.noted.noteAll()
	} else {
		f.bySlot = resized(f.bySlot, s.Slots())
		if f.ranks != nil {
			f.ranks = resized(f.ranks, s.Slots())
		}
		for _, e := range entries {
			if e.Aspects&(alike.Reads|boundReads) != 0 {
				f.bySlot[e.Slot] = notTried
			}
		}
	}
	f.alike, f.version = alike, s.Version()
	f.followBudgets(v, rules)
}

func (f *findings) followBudgets(v state.View, rules model.BudgetRules) {
	since := f.budgets
	if f.budgets = v.BudgetsVersion(); f.ranks == nil || since == f.budgets {
		return
	}
	if !v.BudgetedSince(since, rules, f.forgetCandidate) {
		for slot := range f.bySlot {
			f.forgetCandidate(int32(slot))
		}
	}
}

func (f *findings) forgetCandidate(slot int32) {
	if f.bySlot[slot] == hasCandidate {
		f.bySlot[slot] = notTried
		f.noted.note(slot)
	}
}

// reasons returns the position in texts of the reasons why a slot has no candidate.
func (f *findings) reasons(slot int32) (at int, known bool) {
	at = int(f.bySlot[slot]) - int(firstReason)
	return at, at >= 0
}

// rankOf returns the rank of a slot's candidate, or nil if it is unknown.
func (f *findings) rankOf(slot int32) *rank {
	if f.bySlot[slot] != hasCandidate {
		return nil
	}
	return &f.ranks[slot]
}

// learn records the rank of a slot's candidate.
func (f *findings) learn(slot int32, r rank) {
	if f.ranks == nil {
		f.ranks = make([]rank, len(f.bySlot))
	}
	r.tie = 0
	f.bySlot[slot], f.ranks[slot] = hasCandidate, r
	f.noted.note(slot)
}

// learnReasons records the reasons why a slot has no candidate. It returns false after
// too many different reasons.
func (f *findings) learnReasons(slot int32, texts []string) bool {
	text := strings.Join(texts, "\n")
	at, known := f.positions[text]
	if !known {
		if len(f.texts) >= int(maxTexts) {
			return false
		}
		at = uint8(len(f.texts))
		f.texts = append(f.texts, texts)
		f.positions[text] = at
	}
	f.bySlot[slot] = firstReason + at
	f.noted.note(slot)
	return true
}
