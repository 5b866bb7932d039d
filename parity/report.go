package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
)

// report is the result of all tasks.
type report struct {
	Lines   []line  `json:"shapes"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Seconds float64 `json:"seconds"`
}

// line is the result of one shape or sequence.
type line struct {
	Name string `json:"name"`
	// Unit is the counted unit.
	Unit     string `json:"unit"`
	Passed   int    `json:"passed"`
	Failed   int    `json:"failed"`
	Rejected int    `json:"rejected"`
	Scored   int    `json:"scored"`
	// Preempted counts pods for which kube-scheduler finds victims.
	Preempted int       `json:"preempted"`
	Failures  []failure `json:"failures,omitempty"`
	// failed counts all seeds with failures.
	failed int
}

// failure is a seed with differences.
type failure struct {
	Seed uint64 `json:"seed"`
	// Differences are the first ones.
	Differences []compare.Difference `json:"differences"`
	// Replay is the command that reproduces them.
	Replay string `json:"replay"`
	// Notes are further findings about the first failure.
	Notes []string `json:"notes,omitempty"`

	example *cases.Case
}

// add adds one outcome. Only the first differences of a line are kept.
func (r *report) add(o options, t *task, from *outcome) {
	l := &r.Lines[t.line]
	l.Passed, l.Failed = l.Passed+from.passed, l.Failed+from.failed
	l.Rejected, l.Scored = l.Rejected+from.rejected, l.Scored+from.scored
	l.Preempted += from.preempted
	r.Passed, r.Failed = r.Passed+from.passed, r.Failed+from.failed
	if from.failed == 0 {
		return
	}
	l.failed++
	kept := 0
	for _, f := range l.Failures {
		kept += len(f.Differences)
	}
	if kept >= o.shown && len(l.Failures) > 0 {
		return
	}
	l.Failures = append(l.Failures, failure{
		Seed: t.seed, Differences: from.differences[:min(max(0, o.shown-kept), len(from.differences))], Replay: replay(o, l, t.seed), example: from.example,
	})
}

func replay(o options, l *line, seed uint64) string {
	flags := fmt.Sprintf("-shapes %s -seed %d", l.Name, seed)
	if l.Unit == "decisions" {
		flags += fmt.Sprintf(" -pods %d", o.podsGiven)
	}
	if o.rule != "" {
		flags += " -rule " + o.rule
	}
	if o.release != 0 {
		flags += " -release " + o.release.String()
	}
	if o.program != "" {
		return fmt.Sprintf("make parity KUBERNETES=1.38 PARITY_FLAGS='%s'", flags)
	}
	return fmt.Sprintf("make parity PARITY_FLAGS='%s'", flags)
}

// print prints the report.
func (r *report) print(w io.Writer, output string) error {
	switch output {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	case "yaml":
		data, err := yaml.Marshal(r)
		if err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	}
	var text strings.Builder
	if err := r.table(&text); err != nil {
		return err
	}
	r.failures(&text)
	_, err := io.WriteString(w, text.String())
	return err
}

func (r *report) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "SHAPE\tCOMPARED\tRESULT\tREJECTED\tSCORED\tPREEMPTED\n")
	for i := range r.Lines {
		l := &r.Lines[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Unit, result(l.Passed, l.Failed), grouped(l.Rejected), grouped(l.Scored), grouped(l.Preempted))
	}
	fmt.Fprintf(t, "total\t\t%s\t\t\t\n", result(r.Passed, r.Failed))
	if err := t.Flush(); err != nil {
		return err
	}
	missing, err := missing()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%.1f s. Compared for each pod and node: whether it is feasible; the plugin that rejects it, with status code and\n"+
		"reasons, and what every other plugin would say; each normalised score, its weight and the total. For each pod: the\n"+
		"message, any error, and that the chosen node is among the best; without one, what preemption chooses.\n", r.Seconds)
	if len(missing) > 0 {
		fmt.Fprintf(w, "Plugins that Berth does not have yet: %s.\n"+
			"kube-scheduler has them enabled.\n", strings.Join(missing, ", "))
	}
	return nil
}

// missing returns the default plugins that Berth does not have.
func missing() ([]string, error) {
	scheduler, err := config.Default()
	if err != nil {
		return nil, err
	}
	return scheduler.Missing, nil
}

func (r *report) failures(w io.Writer) {
	for i := range r.Lines {
		l := &r.Lines[i]
		if l.failed == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: differences with %s, the first are:\n", l.Name, counted(l.failed, "seed"))
		for _, f := range l.Failures {
			for _, d := range f.Differences {
				fmt.Fprintf(w, "  %s\n", d)
			}
			for _, note := range f.Notes {
				fmt.Fprintf(w, "  %s\n", note)
			}
			fmt.Fprintf(w, "  again: %s\n", f.Replay)
		}
	}
}

func result(passed, failed int) string {
	return fmt.Sprintf("%s passed, %s failed", grouped(passed), grouped(failed))
}

// counted writes a number of things.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return grouped(n) + " " + thing
}

// grouped writes a number with a comma after every three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// examine shrinks and writes the first failures, if flags demand it.
func (r *report) examine(o options) error {
	if !o.shrink && o.folder == "" {
		return nil
	}
	var errs []error
	for i := range r.Lines {
		l := &r.Lines[i]
		if len(l.Failures) == 0 || l.Failures[0].example == nil {
			continue
		}
		errs = append(errs, l.Failures[0].examine(o, l.Name))
	}
	return errors.Join(errs...)
}
