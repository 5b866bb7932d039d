package price

import "math"

// Kind is a kind of work.
type Kind uint8

// The kinds.
const (
	// Nodes is work on nodes: plugin calls, and slots visited by scans and rankings.
	Nodes Kind = iota
	// Counts is counting pods by domain, and looking up the counts of affinity terms and
	// spread constraints.
	Counts
	// Devices is searching for devices, including the CEL expressions that select them.
	Devices
	// Victims is searching for pods to evict.
	Victims
	// Placements is trying the members of a pod group in one domain after another,
	// without the cost of the decisions about the members.
	Placements
	Kinds
)

var kindNames = [Kinds]string{"nodes", "counts", "devices", "victims", "placements"}

// String returns the name of the kind in metrics.
func (k Kind) String() string { return kindNames[k] }

// Millisecond is the approximate number of units in a millisecond of work.
const Millisecond = 1_000_000

// Bill is the cost of work, in units by kind.
type Bill [Kinds]int64

// Total returns the units of all kinds.
func (b *Bill) Total() (units int64) {
	for _, of := range b {
		units += of
	}
	return units
}

// Most returns the most expensive kind.
func (b *Bill) Most() (most Kind) {
	for kind, units := range b {
		if units > b[most] {
			most = Kind(kind)
		}
	}
	return most
}

// Meter counts work. Its zero value has no turn and no budget. Only the goroutine that
// owns the state uses it.
type Meter struct {
	bill Bill
	// total is the sum of bill. The budget is used up once total reaches limit.
	total, limit int64
	// budget is the budget of the turn for this round.
	budget int64
	// began is the bill at the beginning of the turn.
	began Bill
	// limited means that the turn has a budget.
	limited bool
}

// Spend counts work of a kind.
func (m *Meter) Spend(kind Kind, units int64) {
	m.bill[kind] += units
	m.total += units
}

// Begin starts a turn with a budget of units for this round. A budget of 0 or less
// means no limit.
func (m *Meter) Begin(budget int64) {
	m.began, m.limited = m.bill, budget > 0
	m.budget, m.limit = max(budget, 0), m.total+budget
}

// Double doubles the budget of the turn the given number of times, at most 20.
func (m *Meter) Double(times int) {
	m.limit += m.budget * (1<<min(times, 20) - 1)
}

// End ends the turn and its budget, and returns the bill of the turn.
func (m *Meter) End() (bill Bill) {
	for kind := range bill {
		bill[kind] = m.bill[kind] - m.began[kind]
	}
	m.limited = false
	return bill
}

// IsOver reports whether the budget of the turn is used up. Without a budget it returns
// false.
func (m *Meter) IsOver() bool { return m.limited && m.total >= m.limit }

// Lift suspends the budget of the turn until end is called, for work that cannot stop.
func (m *Meter) Lift() (end func()) {
	before := m.limited
	m.limited = false
	return func() { m.limited = before }
}

// Left returns the remaining units of the budget, at least 0. Without a budget it
// returns math.MaxInt64.
func (m *Meter) Left() int64 {
	if !m.limited {
		return math.MaxInt64
	}
	return max(m.limit-m.total, 0)
}

// Total returns all units spent so far, in turns and outside of turns.
func (m *Meter) Total() int64 { return m.total }

// Aside starts work that belongs to no turn and has no budget. end restores the meter,
// so the work is not counted.
func (m *Meter) Aside() (end func()) {
	before := *m
	m.limited = false
	return func() { *m = before }
}
