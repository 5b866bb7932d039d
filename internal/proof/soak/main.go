// Soak runs the real loop through weeks of a busy cluster and checks that neither memory
// nor work per change grows.
//
// It takes a number of nodes, a number of days and a seed. It writes a table of the days
// to standard output, progress to standard error, and a picture if a flag names the file.
// It owns a simulated world (package world) on a virtual clock, so a month takes minutes.
// Everything but real time and the heap is the same in every run with the same arguments.
// It fails if a figure that must stay flat rises; real time never fails it.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

const (
	exitFailed = 1
	exitUsage  = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the whole program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "soak: %v\n", err)
	if wrong := (usageError{}); errors.As(err, &wrong) {
		return exitUsage
	}
	return exitFailed
}

// usageError is a mistake in the flags.
type usageError struct{ error }

// options are the values of the flags.
type options struct {
	nodes, days int
	seed        uint64
	output, svg string
}

func command() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Run the scheduler for a simulated month and check that nothing grows",
		Long: `Run the scheduler for a simulated month and check that nothing grows.

Deployments are rolled out and scaled, jobs and tenants come and go, nodes join, leave, report their status and change, and pods wait
for room, at the same rate every day. After each day the heap is measured, what the scheduler keeps is counted, and its invariants
are audited. The first days, without day 1, are then compared with the last: memory, what is kept, and counted work per change and per
decision must not have grown. Real time is shown and fails nothing.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q: soak takes flags only", args[0])}
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			return o.soak(cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", 1000, "`number` of nodes; everything else is in proportion")
	f.IntVar(&o.days, "days", 30, "`number` of days")
	f.Uint64Var(&o.seed, "seed", 1, "`number` that decides what happens when; the same seed repeats it")
	f.StringVarP(&o.output, "output", "o", "table", "how to print the result: table, json or csv")
	f.StringVar(&o.svg, "svg", "", "`file` for a picture of all figures by day")
	return cmd
}

func (o *options) check() error {
	switch {
	case o.nodes < 20:
		return fmt.Errorf("--nodes %d: must be at least 20", o.nodes)
	case o.days < daysLeast:
		return fmt.Errorf("--days %d: must be at least %d, of which the first is not compared", o.days, daysLeast)
	case !slices.Contains(outputs, o.output):
		return fmt.Errorf("--output %q: must be %s", o.output, strings.Join(outputs, ", "))
	}
	return nil
}

// soak runs all days, prints them, and fails if a figure rises.
func (o *options) soak(stdout, stderr io.Writer) error {
	days, err := o.live(stderr)
	if err != nil {
		return err
	}
	if err := print(stdout, o.output, days); err != nil {
		return err
	}
	if err := o.draw(days); err != nil {
		return err
	}
	return flat(days)
}

// live runs all days.
func (o *options) live(progress io.Writer) ([]day, error) {
	s, err := newSoak(o.nodes, o.seed)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	var days []day
	for number := 1; number <= o.days; number++ {
		d, err := s.live(number)
		if err != nil {
			return nil, err
		}
		days = append(days, d)
		fmt.Fprintf(progress, "day %d of %d, %s: %s\n", number, o.days, time.Since(began).Round(time.Second), d.short())
	}
	return days, nil
}

// short is a line of progress.
func (d day) short() string {
	var parts []string
	for i, f := range figures() {
		if slices.Contains([]string{"changes", "decisions", "heap_mib", "tallies", "seconds"}, f.name) {
			parts = append(parts, text(d.values[i])+" "+f.name)
		}
	}
	return strings.Join(parts, ", ")
}

func (o *options) draw(days []day) error {
	if o.svg == "" {
		return nil
	}
	var picture bytes.Buffer
	if err := chart(&picture, days, o.nodes); err != nil {
		return err
	}
	if err := os.WriteFile(o.svg, picture.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}

// flat is an error that names the figures that rise.
func flat(days []day) error {
	var rising []string
	for _, t := range trends(days) {
		if t.rises() {
			rising = append(rising, fmt.Sprintf("%s rises from %s to %s", t.name, text(t.first), text(t.last)))
		}
	}
	if len(rising) > 0 {
		return errors.New(strings.Join(rising, "; "))
	}
	return nil
}
