package metrics

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/metrics"
)

// TestTexts compares all registered series and their help texts with a list, because
// operators read them and they must not change by accident. To change a text, copy the
// test's output into the list.
func TestTexts(t *testing.T) {
	const list = "testdata/series.txt"
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, table := range []struct {
		prefix string
		rows   []series
	}{{schedulerPrefix, schedulerSeries()}, {"", claimSeries()}, {berthPrefix, berthSeries()}} {
		for _, s := range table.rows {
			line := fmt.Sprint(table.prefix, s.name, " ", [...]string{counter: "counter", gauge: "gauge", histogram: "histogram"}[s.kind], " ", s.stability)
			for what, value := range [...]string{"", strings.Join(s.labels, ","), s.gate, s.deprecated} {
				if value != "" {
					line += fmt.Sprint(" ", [...]string{"", "by", "if", "deprecated"}[what], " ", value)
				}
			}
			for i, b := range s.buckets {
				line += fmt.Sprint([...]string{" up to ", ","}[min(i, 1)], fmt.Sprintf("%.6g", b))
			}
			got = append(got, line+": "+s.help)
		}
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i := range max(len(got), len(want)) {
		have, listed := "", ""
		if i < len(got) {
			have = got[i]
		}
		if i < len(want) {
			listed = want[i]
		}
		if have != listed {
			t.Errorf("line %d of %s should be\n%s\nand is\n%s", i+1, list, have, listed)
		}
	}
}

// TestWrongConfiguration omits each part, and makes the registration fail.
func TestWrongConfiguration(t *testing.T) {
	registered := 0
	whole := Config{Register: func(metrics.Registerable) error { registered++; return nil }, Enabled: func(string) bool { return true }, Now: time.Now}
	const missing = "build the series: Register, Enabled and Now must be given"
	for _, row := range []struct {
		change func(c *Config)
		want   string
	}{
		{func(*Config) {}, "<nil>"},
		{func(c *Config) { c.Register = nil }, missing},
		{func(c *Config) { c.Enabled = nil }, missing},
		{func(c *Config) { c.Now = nil }, missing},
		{func(c *Config) { c.Register = func(metrics.Registerable) error { return errors.New("twice") } }, "register the series scheduler_schedule_attempts_total: twice"},
		{func(c *Config) {
			c.Register = func(r metrics.Registerable) error {
				if r.FQName() == "berth_resets" {
					return errors.New("twice")
				}
				return nil
			}
		}, "register the series berth_resets: twice"},
	} {
		c := whole
		row.change(&c)
		if _, err := New(c); fmt.Sprint(err) != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	if registered == 0 {
		t.Error("nothing was registered")
	}
	defer func() {
		if got := recover(); got != "metrics: a_x has the unknown kind 7" {
			t.Errorf("a family of an unknown kind: %v", got)
		}
	}()
	newFamilies().add("a_", &series{name: "x", kind: 7})
}
