package main

import (
	"time"

	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// reading is the input of figures at one time.
type reading struct {
	at     *simulate.Cluster
	series int
	// Set at the end of a day: its real time, the counters, and the heap in bytes.
	took time.Duration
	did  totals
	heap uint64
}

// group is the subject of figures.
type group string

const (
	// traffic is the activity of the world in a day, standing the number of its objects.
	// Both must be constant, or the other figures mean nothing.
	traffic  group = "traffic"
	standing group = "standing"
	// memory and kept are the scheduler's memory and caches; work is counted, per change
	// or per decision. All must stay flat.
	memory group = "memory"
	kept   group = "kept"
	work   group = "work"
	// clock is real time, which depends on other load on the machine. It is shown but
	// never fails the run.
	clock group = "time"
)

// figure is one number of a day.
type figure struct {
	// name is the figure's name in CSV and JSON. head is its column in the table; without
	// a head it is not in the table.
	name, head string
	group      group
	// slack is the permitted rise in addition to maxRise, because small numbers vary by
	// chance.
	slack float64
	of    func(r *reading) float64
}

// figures returns all figures of a day, in display order.
func figures() []figure {
	return []figure{
		{"changes", "CHANGES", traffic, 0, func(r *reading) float64 { return float64(r.did.changes) }},
		{"decisions", "DECISIONS", traffic, 0, func(r *reading) float64 { return float64(r.did.decisions) }},
		{"placed", "PLACED", traffic, 0, func(r *reading) float64 { return float64(r.did.placed) }},
		{"nodes", "", standing, 2, func(r *reading) float64 { return float64(r.at.Loop().State().Nodes()) }},
		{"pods", "PODS", standing, 50, func(r *reading) float64 { return float64(r.at.Loop().State().Pods()) }},
		{"waiting", "WAITING", standing, 50, func(r *reading) float64 { return float64(waiting(r)) }},

		{"heap_mib", "HEAP MiB", memory, 8, func(r *reading) float64 { return mebi(float64(r.heap)) }},
		{"tally_mib", "", kept, 1, func(r *reading) float64 { return mebi(float64(r.at.Loop().State().TallyBytes())) }},

		{"tallies", "TALLIES", kept, 20, func(r *reading) float64 { return float64(r.at.Loop().State().Tallies()) }},
		{"terms", "TERMS", kept, 20, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Terms) }},
		{"topologies", "TOPOL.", kept, 5, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Topologies) }},
		{"images", "IMAGES", kept, 100, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Images) }},
		{"selectors", "", kept, 20, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Selectors) }},
		{"namespaces", "", kept, 5, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Namespaces) }},
		{"slots", "", kept, 10, func(r *reading) float64 { return float64(r.at.Loop().State().Slots()) }},
		{"label_sets", "", kept, 100, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().LabelSets) }},
		{"claims", "", kept, 50, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Storage.Claims) }},
		{"volumes", "", kept, 50, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Storage.Volumes) }},
		{"volume_groups", "", kept, 20, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Storage.Groups) }},
		// A reach is kept for a while after its last volume left it.
		{"volume_reaches", "", kept, 40, func(r *reading) float64 { return float64(r.at.Loop().State().Sizes().Storage.Reaches) }},
		// A column is dropped after a long time without a decision that uses it.
		{"columns", "COLUMNS", kept, 512, func(r *reading) float64 { return float64(r.at.Loop().Engine().Columns()) }},
		// Compiled needs are a cache of at most 4,096 entries; half of them are evicted
		// at once.
		{"compiled_needs", "COMPILED", kept, 4096, func(r *reading) float64 { return float64(r.at.Loop().Engine().Compiled()) }},
		{"outbox", "OUTBOX", kept, 50, func(r *reading) float64 { return float64(r.at.Outbox().Remembered()) }},
		{"series", "SERIES", kept, 20, func(r *reading) float64 { return float64(r.series) }},

		{"hints_per_change", "HINTS/CH", work, 0.1, perChange(func(t *totals) int64 { return t.hints })},
		{"tally_updates_per_change", "UPDATES/CH", work, 0.1, perChange(func(t *totals) int64 { return t.tallyUpdates })},
		{"asked_per_decision", "ASKED/DEC", work, 10, perDecision(func(t *totals) int64 { return t.asked })},
		{"visited_per_decision", "VISITED/DEC", work, 10, perDecision(func(t *totals) int64 { return t.visited })},
		{"columns_filled_per_decision", "", work, 0.05, perDecision(func(t *totals) int64 { return t.filled })},
		{"tallies_built_per_decision", "", work, 0.05, perDecision(func(t *totals) int64 { return t.talliesBuilt })},
		{"tally_visits_per_decision", "", work, 1, perDecision(func(t *totals) int64 { return t.tallyVisits })},
		{"terms_asked_per_decision", "TERMS/DEC", work, 1, perDecision(func(t *totals) int64 { return t.termsAsked })},

		{"microseconds_per_change", "µs/CH", clock, 0, func(r *reading) float64 { return micros(r.did.applying, r.did.changes) }},
		{"microseconds_per_decision", "µs/DEC", clock, 0, func(r *reading) float64 { return micros(r.did.deciding, r.did.decisions) }},
		{"seconds", "SECONDS", clock, 0, func(r *reading) float64 { return r.took.Seconds() }},
	}
}

func waiting(r *reading) int {
	c := r.at.Loop().Queue().Counts()
	return c.Active + c.BackingOff + c.Parked + c.Gated + c.Binding
}

func mebi(bytes float64) float64 { return bytes / (1 << 20) }

func perChange(of func(*totals) int64) func(*reading) float64 {
	return func(r *reading) float64 { return float64(of(&r.did)) / float64(max(1, r.did.changes)) }
}

func perDecision(of func(*totals) int64) func(*reading) float64 {
	return func(r *reading) float64 { return float64(of(&r.did)) / float64(max(1, r.did.decisions)) }
}

func micros(d time.Duration, n int64) float64 {
	return float64(d.Nanoseconds()) / 1000 / float64(max(1, n))
}

// hourly reports whether a figure is a mean over the hours of a day, because caches fill
// and empty.
func (f *figure) hourly() bool { return f.group == standing || f.group == kept }

// day has the figures of one day.
type day struct {
	number int
	values []float64 // by figure
}

// newDay begins a day.
func newDay(number int) day { return day{number, make([]float64, len(figures()))} }

// hour adds the reading of one hour of a day.
func (d *day) hour(r *reading) {
	for i, f := range figures() {
		if f.hourly() {
			d.values[i] += f.of(r)
		}
	}
}

// end adds the reading at the end of the day.
func (d *day) end(r *reading) {
	for i, f := range figures() {
		if f.hourly() {
			d.values[i] /= hours
		} else {
			d.values[i] = f.of(r)
		}
	}
}

// hours is the number of readings in a day.
const hours = 24

// trend has a figure in the first and in the last days.
type trend struct {
	figure
	first, last float64
}

// maxRise is the share by which a figure may rise.
const maxRise = 0.3

// rises reports whether a figure that must stay flat rises.
func (t trend) rises() bool { return t.group != clock && t.last > (1+maxRise)*t.first+t.slack }

// trends compares the first fifth of the days with the last. The first day is left out,
// because the world fills up then.
func trends(days []day) []trend {
	if len(days) < daysLeast {
		return nil
	}
	days = days[1:]
	fifth := max(1, len(days)/5)
	var all []trend
	for i, f := range figures() {
		all = append(all, trend{f, mean(days[:fifth], i), mean(days[len(days)-fifth:], i)})
	}
	return all
}

// daysLeast is the smallest number of days with a comparison.
const daysLeast = 3

func mean(days []day, figure int) float64 {
	sum := 0.0
	for _, d := range days {
		sum += d.values[figure]
	}
	return sum / float64(len(days))
}
