package preempt

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// outcomes are what dry runs have found on nodes for pods that are alike: how good the candidate is, or why evicting all pods of lower priority is not
// enough. Where filters read more of pods than what they occupy, each outcome takes a dry run of all filters, and the outcomes of very many nodes may be
// better than the bounds that follow from sums tell apart. They follow the journal and the budgets.
type outcomes struct {
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
}

type outcomesKey struct {
	alike    any
	priority int32
}

const (
	notTried uint8 = iota
	hasCandidate
	firstReason
)

const (
	// fewOutcomes is for how many kinds of pods outcomes are kept at least, outcomeBytes how much memory all of them may take, where each takes
	// outcomeBytesPerSlot, and mostTexts how many different reasons are kept for one kind.
	fewOutcomes         = 8
	outcomeBytes        = 64 << 20
	outcomeBytesPerSlot = 41
	mostTexts           = 255 - firstReason
)

// outcomesFor returns the outcomes for pods like the cycle's, up to date; nil if they are not kept.
func (m *memory) outcomesFor(c plugin.Cycle, priority int32) *outcomes {
	alike, ok := c.Alike()
	if !ok {
		return nil
	}
	key := outcomesKey{alike.Key, priority}
	o := m.outcomes[key]
	if o == nil {
		for len(m.outcomes) >= max(fewOutcomes, outcomeBytes/(outcomeBytesPerSlot*max(1, c.View().State().Slots()))) {
			forgetOldest(m.outcomes, func(o *outcomes) uint64 { return o.used })
		}
		o = &outcomes{}
		m.outcomes[key] = o
	}
	o.used = m.clock
	o.sync(c.View(), alike)
	return o
}

// sync forgets what has changed: all if the counts that filters read have, and otherwise the nodes that the journal names and the candidates that other
// budgets have made wrong.
func (o *outcomes) sync(v state.View, alike plugin.Alike) {
	s := v.State()
	entries, ok := s.Since(o.version)
	if !ok || len(o.bySlot) == 0 || len(entries) > s.Slots() || !slices.Equal(o.alike.Versions, alike.Versions) {
		o.bySlot, o.texts, o.positions, o.ranks = make([]uint8, s.Slots()), nil, map[string]uint8{}, nil
	} else {
		o.bySlot = resized(o.bySlot, s.Slots())
		if o.ranks != nil {
			o.ranks = resized(o.ranks, s.Slots())
		}
		for _, e := range entries {
			if e.Aspects&(alike.Reads|boundReads) != 0 && int(e.Slot) < len(o.bySlot) {
				o.bySlot[e.Slot] = notTried
			}
		}
	}
	o.alike, o.version = alike, s.Version()
	o.followBudgets(v)
}

func (o *outcomes) followBudgets(v state.View) {
	since := o.budgets
	if o.budgets = v.BudgetsVersion(); o.ranks == nil || since == o.budgets {
		return
	}
	if !v.BudgetedSince(since, o.forgetCandidate) {
		for slot := range o.bySlot {
			o.forgetCandidate(int32(slot))
		}
	}
}

func (o *outcomes) forgetCandidate(slot int32) {
	if o.bySlot[slot] == hasCandidate {
		o.bySlot[slot] = notTried
	}
}

// reasons returns the position in texts of the reasons why a slot has no candidate.
func (o *outcomes) reasons(slot int32) (at int, known bool) {
	at = int(o.bySlot[slot]) - int(firstReason)
	return at, at >= 0
}

// rankOf returns the rank of a slot's candidate, nil if it is not known.
func (o *outcomes) rankOf(slot int32) *rank {
	if o.bySlot[slot] != hasCandidate {
		return nil
	}
	return &o.ranks[slot]
}

// learn notes how good the candidate of a slot is.
func (o *outcomes) learn(slot int32, r rank) {
	if o.ranks == nil {
		o.ranks = make([]rank, len(o.bySlot))
	}
	r.tie = 0
	o.bySlot[slot], o.ranks[slot] = hasCandidate, r
}

// learnReasons notes why a slot has no candidate.
func (o *outcomes) learnReasons(slot int32, texts []string) {
	text := strings.Join(texts, "\n")
	at, known := o.positions[text]
	if !known {
		if len(o.texts) >= int(mostTexts) {
			return
		}
		at = uint8(len(o.texts))
		o.texts = append(o.texts, texts)
		o.positions[text] = at
	}
	o.bySlot[slot] = firstReason + at
}
