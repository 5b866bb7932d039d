package preempt

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// findings are what dry runs have found on nodes for pods that are alike: how good the candidate is, or why evicting all pods of lower priority is not
// enough. Where filters read more of pods than what they occupy, each takes a dry run of all filters, and those of very many nodes may be
// better than the bounds that follow from sums tell apart. They follow the journal and the budgets.
type findings struct {
	alike   plugin.Alike
	version uint64 // of the journal
	budgets uint64 // version of the budgets for which candidates hold
	used    uint64
	// bySlot has for each slot notTried, hasCandidate, or firstReason plus the position in texts of the reasons why it has none. positions finds these by
	// their text.
	bySlot    []uint8
	texts     [][]string
	positions map[string]uint8
	// ranks are those of the candidates, without ties; nil as long as none was found.
	ranks []rank
	// noted are the slots of which something was found or forgotten, other than for what the journal names.
	noted noted
}

type findingsKey struct {
	alike    any
	priority int32
}

const (
	notTried uint8 = iota
	hasCandidate
	firstReason
)

const (
	// fewFindings is for how many kinds of pods findings are kept at least, findingBytes how much memory all of them may take, where each takes
	// findingBytesPerSlot, and mostTexts how many different reasons are kept for one kind.
	fewFindings         = 8
	findingBytes        = 64 << 20
	findingBytesPerSlot = 41
	mostTexts           = 255 - firstReason
)

// findingsFor returns the findings for pods like the cycle's, up to date; nil if they are not kept.
func (m *memory) findingsFor(c plugin.Cycle, priority int32) *findings {
	alike, ok := c.Alike()
	if !ok {
		return nil
	}
	key := findingsKey{alike.Key, priority}
	f := m.findings[key]
	if f == nil {
		for len(m.findings) >= max(fewFindings, findingBytes/(findingBytesPerSlot*max(1, c.View().State().Slots()))) {
			forgotten := forgetOldest(m.findings, func(f *findings) uint64 { return f.used })
			m.forgetOrders(func(on basis) bool { return on.known == forgotten })
		}
		f = &findings{}
		m.findings[key] = f
	}
	f.used = m.clock
	f.sync(c.View(), alike)
	return f
}

// sync forgets what has changed: all if the counts that filters read have, and otherwise the nodes that the journal names and the candidates that other
// budgets have made wrong.
func (f *findings) sync(v state.View, alike plugin.Alike) {
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
	f.followBudgets(v)
}

func (f *findings) followBudgets(v state.View) {
	since := f.budgets
	if f.budgets = v.BudgetsVersion(); f.ranks == nil || since == f.budgets {
		return
	}
	if !v.BudgetedSince(since, f.forgetCandidate) {
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

// rankOf returns the rank of a slot's candidate, nil if it is not known.
func (f *findings) rankOf(slot int32) *rank {
	if f.bySlot[slot] != hasCandidate {
		return nil
	}
	return &f.ranks[slot]
}

// learn notes how good the candidate of a slot is.
func (f *findings) learn(slot int32, r rank) {
	if f.ranks == nil {
		f.ranks = make([]rank, len(f.bySlot))
	}
	r.tie = 0
	f.bySlot[slot], f.ranks[slot] = hasCandidate, r
	f.noted.note(slot)
}

// learnReasons notes why a slot has no candidate. It returns false if there are too many different reasons.
func (f *findings) learnReasons(slot int32, texts []string) bool {
	text := strings.Join(texts, "\n")
	at, known := f.positions[text]
	if !known {
		if len(f.texts) >= int(mostTexts) {
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
