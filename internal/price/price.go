// Package price counts the work that decisions cost.
//
// It takes amounts of work from whoever does it: engine, state and plugins. It gives one
// number of units for each turn, by the kind of work, and says when the budget of a turn
// is used up. It owns nothing but its counts, and it never reads a clock: the same inputs
// cost the same units.
//
// A unit is about a nanosecond on ordinary hardware. BenchmarkUnits in package engine
// prints units beside time.
package price

import "math"

// Kind is a kind of work.
type Kind uint8

// The kinds.
const (
	// Nodes is looking at nodes: calls of plugins about one, and visits of their slots by
	// scans and rankings.
	Nodes Kind = iota
	// Counts is counting pods by domain, and looking up what affinity terms and spread
	// constraints count.
	Counts
	// Devices is searching for devices, with the CEL expressions that select them.
	Devices
	// Victims is searching for pods to evict.
	Victims
	// Placements is trying the members of a pod group in one domain after another, beyond
	// what the decisions about them cost.
	Placements
	Kinds
)

var kindNames = [Kinds]string{"nodes", "counts", "devices", "victims", "placements"}

// String returns the kind as the metric names it.
func (k Kind) String() string { return kindNames[k] }

// Millisecond is about how many units a millisecond of work has.
const Millisecond = 1_000_000

// Bill is what work cost, in units by kind.
type Bill [Kinds]int64

// Total returns the units of all kinds.
func (b *Bill) Total() (units int64) {
	for _, of := range b {
		units += of
	}
	return units
}

// Most returns the kind that cost most.
func (b *Bill) Most() (most Kind) {
	for kind, units := range b {
		if units > b[most] {
			most = Kind(kind)
		}
	}
	return most
}

// Meter counts work. Its zero value has no turn and no budget. One goroutine uses it: the
// one that owns the state.
type Meter struct {
	bill Bill
	// total is the sum of bill. Work that has reached limit is over budget.
	total, limit int64
	// budget is that of the turn.
	budget int64
	// began is what bill was when the turn began.
	began Bill
	// limited says that there is a budget.
	limited bool
}

// Spend counts work of a kind.
func (m *Meter) Spend(kind Kind, units int64) {
	m.bill[kind] += units
	m.total += units
}

// Begin begins a turn with a budget of units for this round; 0 or less means none.
func (m *Meter) Begin(budget int64) {
	m.began, m.limited = m.bill, budget > 0
	m.budget, m.limit = max(budget, 0), m.total+budget
}

// Double makes the budget of the turn twice as large, so many times.
func (m *Meter) Double(times int) {
	m.limit += m.budget * (1<<min(times, 20) - 1)
}

// End ends the turn, and its budget, and returns what it cost.
func (m *Meter) End() (bill Bill) {
	for kind := range bill {
		bill[kind] = m.bill[kind] - m.began[kind]
	}
	m.limited = false
	return bill
}

// IsOver reports whether the budget of the turn is used up. It never is where there is
// none.
func (m *Meter) IsOver() bool { return m.limited && m.total >= m.limit }

// Lift lifts the budget of the turn, for work that cannot stop, until the function that
// it returns is called.
func (m *Meter) Lift() (end func()) {
	before := m.limited
	m.limited = false
	return func() { m.limited = before }
}

// Left returns how many units of the budget are left, at least 0; math.MaxInt64 where
// there is none.
func (m *Meter) Left() int64 {
	if !m.limited {
		return math.MaxInt64
	}
	return max(m.limit-m.total, 0)
}

// Total returns how many units were spent so far, by all turns and besides.
func (m *Meter) Total() int64 { return m.total }

// Aside begins to count work that belongs to no turn, without a budget, until the
// function that it returns is called. None of it is kept.
func (m *Meter) Aside() (end func()) {
	before := *m
	m.limited = false
	return func() { *m = before }
}
