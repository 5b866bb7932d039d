package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// header names the columns of the CSV.
func header() []string {
	return []string{
		"kind", "name", "nodes", "before", "pods", "floor", "contender", "round", "time", "pods_per_second", "pods_per_second_with_events",
		"cpu_ms_per_pod", "server_cpu_ms_per_pod", "first_bind_s", "p50_s", "p99_s", "peak_mib", "lost_events", "failure",
	}
}

// WriteCSV writes every round as one line.
func WriteCSV(w io.Writer, rounds []Round) error {
	c := csv.NewWriter(w)
	lines := [][]string{header()}
	for _, r := range rounds {
		f := r.Figures
		lines = append(lines, []string{
			r.Case.Kind, r.Case.Name, strconv.Itoa(r.Case.Nodes), strconv.Itoa(r.Case.Before), strconv.Itoa(r.Case.Pods), strconv.Itoa(r.Case.Floor),
			r.Contender, strconv.Itoa(r.Number), r.Time.UTC().Format(time.RFC3339),
			decimal(f.PodsPerSecond), decimal(f.WithEvents), decimal(inMilliseconds(f.CPUPerPod)), decimal(inMilliseconds(f.ServerCPUPerPod)),
			decimal(f.FirstBind.Seconds()), decimal(f.P50.Seconds()), decimal(f.P99.Seconds()), decimal(float64(f.PeakBytes) / (1 << 20)),
			strconv.Itoa(r.LostEvents), firstLine(r.Failure),
		})
	}
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("write rounds as CSV: %w", err)
	}
	return nil
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// ReadCSV reads the output of WriteCSV.
func ReadCSV(r io.Reader) ([]Round, error) {
	lines, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read rounds from CSV: %w", err)
	}
	if len(lines) == 0 || !slices.Equal(lines[0], header()) {
		return nil, fmt.Errorf("read rounds from CSV: the first line must be %q", strings.Join(header(), ","))
	}
	var rounds []Round
	for i, line := range lines[1:] {
		round, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("read rounds from CSV: line %d: %w", i+2, err)
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// parse reads one line. The CSV reader has checked the number of fields.
func parse(line []string) (Round, error) {
	l := fields{line: line}
	r := Round{
		Case:      Case{Kind: l.text("kind"), Name: l.text("name"), Nodes: l.int("nodes"), Before: l.int("before"), Pods: l.int("pods"), Floor: l.int("floor")},
		Contender: l.text("contender"),
		Number:    l.int("round"),
		Time:      l.time("time"),
		Figures: Figures{
			PodsPerSecond:   l.float("pods_per_second"),
			WithEvents:      l.float("pods_per_second_with_events"),
			CPUPerPod:       l.duration("cpu_ms_per_pod", time.Millisecond),
			ServerCPUPerPod: l.duration("server_cpu_ms_per_pod", time.Millisecond),
			FirstBind:       l.duration("first_bind_s", time.Second),
			P50:             l.duration("p50_s", time.Second),
			P99:             l.duration("p99_s", time.Second),
			PeakBytes:       int64(l.float("peak_mib") * (1 << 20)),
		},
		LostEvents: l.int("lost_events"),
		Failure:    l.text("failure"),
	}
	return r, errors.Join(l.errs...)
}

// fields reads a line's fields by the names of their columns.
type fields struct {
	line []string
	errs []error
}

func (l *fields) text(column string) string { return l.line[slices.Index(header(), column)] }

func (l *fields) wrong(column string, err error) {
	if err != nil {
		l.errs = append(l.errs, fmt.Errorf("%s %q: %w", column, l.text(column), err))
	}
}

func (l *fields) int(column string) int {
	n, err := strconv.Atoi(l.text(column))
	l.wrong(column, err)
	return n
}

func (l *fields) float(column string) float64 {
	f, err := strconv.ParseFloat(l.text(column), 64)
	l.wrong(column, err)
	return f
}

func (l *fields) duration(column string, unit time.Duration) time.Duration {
	return time.Duration(l.float(column) * float64(unit))
}

func (l *fields) time(column string) time.Time {
	t, err := time.Parse(time.RFC3339, l.text(column))
	l.wrong(column, err)
	return t
}
