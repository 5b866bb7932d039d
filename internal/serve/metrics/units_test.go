package metrics_test

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
)

// TestUnits observes the cost of turns, an unfinished turn, and the number of yielding
// namespaces.
func TestUnits(t *testing.T) {
	m, registry := build(t, time.Now)
	turn := model.NewPod(pod("p", "1"))
	m.Loop.Round(&loop.Round{Turn: turn, Unfinished: true, Cost: price.Bill{price.Nodes: 30, price.Devices: 5}})
	m.Loop.Round(&loop.Round{Turn: turn, Cost: price.Bill{price.Nodes: 12}})
	m.Loop.Standing(&loop.Standing{Accounts: 3, Yielding: 2})
	shown := scrape(t, registry)
	for name, want := range map[string]float64{
		"berth_scheduling_work_units_total{kind=nodes}":   42,
		"berth_scheduling_work_units_total{kind=devices}": 5,
		"berth_scheduling_work_units_total{kind=victims}": 0,
		"berth_unfinished_turns_total":                    1,
		"berth_scheduling_accounts{state=open}":           3,
		"berth_scheduling_accounts{state=yielding}":       2,
	} {
		if got, there := shown[name]; got != want || !there {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}
