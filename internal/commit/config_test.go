package commit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// TestWrongConfigurations omits or spoils one field after the other, and compares the
// errors.
func TestWrongConfigurations(t *testing.T) {
	for _, row := range []struct {
		spoil func(c *commit.Config)
		want  string
	}{
		{func(*commit.Config) {}, "<nil>"},
		{func(c *commit.Config) { c.InFlight = 0 }, "writes in flight is 0: must be greater than 0"},
		{func(c *commit.Config) { c.MaxBindings = -1 }, "limit of waiting bindings is -1: must be greater than 0"},
		{func(c *commit.Config) { c.ReportsPerSecond = 0 }, "statuses and events per second is 0: must be greater than 0"},
		{func(c *commit.Config) { c.MaxReports = 0 }, "limit of waiting statuses and events is 0: must be greater than 0"},
		{func(c *commit.Config) { c.MaxSeries = 0 }, "limit of events that may repeat is 0: must be greater than 0"},
		{func(c *commit.Config) { c.Timeout = 0 }, "timeout of a write is 0: must be greater than 0"},
		{func(c *commit.Config) { c.EventPause = 0 }, "pause of events is 0: must be greater than 0"},
		{func(c *commit.Config) { c.Drain = 0 }, "time to finish writes is 0: must be greater than 0"},
		{func(c *commit.Config) { c.Binder = nil }, "the Bind plugins are missing"},
	} {
		c := commit.Config{Binder: binder, InFlight: 1, MaxBindings: 1, ReportsPerSecond: 1, MaxReports: 1, MaxSeries: 1, Timeout: 1, EventPause: 1, Drain: 1}
		row.spoil(&c)
		if _, err := commit.New(c); fmt.Sprint(err) != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	for _, row := range []struct {
		spoil func(c *commit.OutboxConfig)
		want  string
	}{
		{func(*commit.OutboxConfig) {}, "<nil>"},
		{func(c *commit.OutboxConfig) { c.Binder = nil }, "the Bind plugins are missing"},
		{func(c *commit.OutboxConfig) { c.MaxReports = 0 }, "limit of waiting statuses and events is 0: must be greater than 0"},
		{func(c *commit.OutboxConfig) { c.MaxSeries = 0 }, "limit of events that may repeat is 0: must be greater than 0"},
		{func(c *commit.OutboxConfig) { c.Budget.InFlight = 0 }, "statuses and events in flight are 0, of each kind 1: must be greater than 0"},
		{func(c *commit.OutboxConfig) { c.Budget.EachInFlight = 0 }, "statuses and events in flight are 1, of each kind 0: must be greater than 0"},
		{func(c *commit.OutboxConfig) { c.Budget.PerSecond = 0 }, "statuses and events per second are 0: must be greater than 0"},
		{func(c *commit.OutboxConfig) { c.Pause = 0 }, "pause of statuses and events is 0s: must be greater than 0"},
		{func(c *commit.OutboxConfig) { c.Jitter = nil }, "jitter is missing"},
	} {
		c := commit.OutboxConfig{
			Binder: binder, MaxReports: 1, MaxSeries: 1, Budget: commit.Budget{InFlight: 1, EachInFlight: 1, PerSecond: 1}, Pause: 1, Jitter: unchanged,
		}
		row.spoil(&c)
		if _, err := commit.NewOutbox(c); fmt.Sprint(err) != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
}

// TestOutboxOf lists the budget for a number of workers, and the fields that are copied
// unchanged.
func TestOutboxOf(t *testing.T) {
	for _, row := range []struct{ workers, inFlight, each int }{
		{1, 1, 1}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1}, {5, 2, 2}, {6, 2, 2}, {7, 3, 3}, {9, 4, 4}, {15, 7, 6}, {16, 7, 6}, {64, 31, 24},
	} {
		want := commit.Budget{InFlight: row.inFlight, EachInFlight: row.each, PerSecond: 9}
		if got := commit.OutboxOf(&commit.Config{InFlight: row.workers, ReportsPerSecond: 9}, unchanged).Budget; got != want {
			t.Errorf("the budget of %d workers is %+v, want %+v", row.workers, got, want)
		}
	}
	for worker, inFlight := range []int{3, 3, 3} {
		if got := commit.ReportsFirst(worker, inFlight); got != (worker == 0) {
			t.Errorf("worker %d of three takes reports first: %t", worker, got)
		}
	}
	if commit.ReportsFirst(0, 2) {
		t.Error("one of two workers takes reports first")
	}
	got := commit.OutboxOf(&commit.Config{Binder: func(string) *plugin.Bind { return nil }, InFlight: 1, MaxReports: 2, MaxSeries: 3, EventPause: 4, Announce: true}, unchanged)
	if got.Binder == nil || got.Binder("") != nil || got.MaxReports != 2 || got.MaxSeries != 3 || got.Pause != 4 || !got.Announce || got.Jitter(5) != 5 {
		t.Errorf("%+v", got)
	}
	got = commit.DefaultOutbox(binder, unchanged)
	got.Binder, got.Jitter = nil, nil
	budget := commit.Budget{InFlight: 31, EachInFlight: 24, PerSecond: 3_000}
	if want := fmt.Sprint(commit.OutboxConfig{Budget: budget, MaxReports: 100_000, MaxSeries: 100_000, Pause: 2 * time.Second, Announce: true}); fmt.Sprint(got) != want {
		t.Errorf("the defaults are %v, want %s", got, want)
	}
}
