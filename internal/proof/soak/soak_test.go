package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestSoak is the short form of `make soak`: a few days of a small cluster.
func TestSoak(t *testing.T) {
	var out, progress strings.Builder
	if code := run([]string{"--nodes", "100", "--days", "5"}, &out, &progress); code != 0 {
		t.Errorf("exit code %d\n%s\n%s", code, progress.String(), out.String())
	}
}

// TestSameSeedSameDays runs a day twice. Everything but the heap and real time must be
// the same.
func TestSameSeedSameDays(t *testing.T) {
	var days []day
	for range 2 {
		o := options{nodes: 30, days: 1, seed: 3}
		lived, err := o.live(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		days = append(days, lived...)
	}
	for i, f := range figures() {
		if f.group != clock && f.name != "heap_mib" && days[0].values[i] != days[1].values[i] {
			t.Errorf("%s is %v, and %v with the same seed", f.name, days[0].values[i], days[1].values[i])
		}
	}
}

// flatDays returns days with equal figures, except for one figure that changes.
func flatDays(number int, figure string, of func(day int) float64) []day {
	var days []day
	for n := range number {
		d := day{number: n + 1}
		for _, f := range figures() {
			value := 500.0
			if f.name == figure {
				value = of(n + 1)
			}
			d.values = append(d.values, value)
		}
		days = append(days, d)
	}
	return days
}

func TestWhatRisesFails(t *testing.T) {
	leak := func(day int) float64 { return float64(1000 * day) }
	for _, row := range []struct {
		days   int
		figure string
		of     func(day int) float64
		want   string
	}{
		{30, "tallies", leak, "tallies rises from 4000 to 28000"},
		{5, "tallies", leak, "tallies rises from 2000 to 5000"},
		{30, "heap_mib", func(day int) float64 { return 100 + 2*float64(day) }, "heap_mib rises from 108 to 156"},
		{30, "heap_mib", func(day int) float64 { return 100 + float64(day%5) }, ""},
		{30, "visited_per_decision", leak, "visited_per_decision rises"},
		{30, "changes", leak, "changes rises"},
		{30, "microseconds_per_change", leak, ""},
		{30, "tallies", func(day int) float64 { return 1000 / float64(day) }, ""},
		{30, "outbox", func(day int) float64 { return float64(day) }, ""},
		{3, "terms", func(day int) float64 {
			if day == 1 {
				return 0
			}
			return 7
		}, ""},
	} {
		err := flat(flatDays(row.days, row.figure, row.of))
		if row.want == "" && err != nil || row.want != "" && (err == nil || !strings.HasPrefix(err.Error(), row.want)) {
			t.Errorf("%s over %d days: %v; want %q", row.figure, row.days, err, row.want)
		}
	}
}

func TestOutputs(t *testing.T) {
	days := flatDays(4, "tallies", func(day int) float64 { return float64(100 * day) })
	for output, want := range map[string][]string{
		"table": {"DAY   CHANGES   DECISIONS", "tallies", "RISES", "not judged"},
		"csv":   {"day,changes,decisions,", "\n4,500,"},
		"json":  {`"tallies": 400`, `"verdict": "RISES"`},
	} {
		var out strings.Builder
		if err := print(&out, output, days); err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(out.String(), text) {
				t.Errorf("%q is not in the %s\n%s", text, output, out.String())
			}
		}
		if output == "json" && !json.Valid([]byte(out.String())) {
			t.Errorf("not JSON:\n%s", out.String())
		}
	}
}

// TestPictureShowsEachFigure draws a picture and reads it as XML.
func TestPictureShowsEachFigure(t *testing.T) {
	o := options{nodes: 100, svg: filepath.Join(t.TempDir(), "soak.svg")}
	if err := o.draw(flatDays(30, "", nil)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.svg)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if have, want := strings.Count(string(text), "<polyline"), len(figures()); have != want {
		t.Errorf("%d curves, want %d", have, want)
	}
}

func TestFiguresHaveNamesOfTheirOwn(t *testing.T) {
	var names []string
	for _, f := range figures() {
		if slices.Contains(names, f.name) || f.group == "" || heads[f.group] == "" {
			t.Errorf("figure %q is of group %q, and there are %v before", f.name, f.group, names)
		}
		names = append(names, f.name)
	}
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"--nonsense": "unknown flag: --nonsense",
		"x":          `unexpected argument "x"`,
		"--nodes 3":  "--nodes 3: must be at least 20",
		"--days 2":   "--days 2: must be at least 3",
		"-o xml":     `--output "xml": must be table, json, csv`,
	} {
		var out, err strings.Builder
		if code := run(strings.Fields(args), &out, &err); code != exitUsage || !strings.Contains(err.String(), want) {
			t.Errorf("%s: exit code %d and\n%s\nwant %d and %q", args, code, err.String(), exitUsage, want)
		}
	}
}
