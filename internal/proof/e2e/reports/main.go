// Reports plays reports of operators on a real API server.
//
// It takes a folder of reports and the folder of built binaries. It returns the outcome
// of each report with Berth and with kube-scheduler, and maintains the table of outcomes
// in docs/reports.md. It owns the clusters and schedulers that it starts. It fails if
// Berth is wrong, or if kube-scheduler differs from the table.
//
// Scenarios with virtual time were considered and rejected: they cannot run
// kube-scheduler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	bin := flag.String("bin", "bin", "`folder` of the built binaries")
	folder := flag.String("reports", "internal/proof/e2e/reports/testdata", "`folder` of the reports")
	table := flag.String("table", "docs/reports.md", "`page` with the table")
	write := flag.Bool("write", false, "write the table instead of comparing it")
	only := flag.String("only", "", "play reports whose names contain this `text`, and leave the table alone")
	with := flag.String("with", berth+","+kubeScheduler, "`schedulers` to play with")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := run(ctx, &options{*bin, *folder, *table, *only, strings.Split(*with, ","), *write}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type options struct {
	bin, folder, table, only string
	with                     []string
	write                    bool
}

func run(ctx context.Context, o *options) error {
	reports, err := load(o.folder)
	if err != nil {
		return err
	}
	reports = slices.DeleteFunc(reports, func(r *Report) bool { return !strings.Contains(r.Name, o.only) })
	var failures []error
	for _, scheduler := range o.with {
		began := time.Now()
		outcomes, err := perform(ctx, o.bin, scheduler, reports)
		fmt.Printf("%s: %d reports in %.0f s\n", scheduler, len(reports), time.Since(began).Seconds())
		show(reports, outcomes)
		if err != nil {
			return err
		}
		switch {
		case scheduler == berth:
			failures = append(failures, wrong(reports, outcomes))
		case o.only == "":
			failures = append(failures, o.keep(page(reports, outcomes)))
		}
	}
	return errors.Join(failures...)
}

// show prints the reports that were not right.
func show(reports []*Report, outcomes map[string]string) {
	for _, r := range reports {
		if outcome := outcomes[r.Name]; outcome != isRight {
			fmt.Printf("  %-40s %s\n", r.Name, outcome)
		}
	}
}

// wrong returns an error if an outcome is not right.
func wrong(reports []*Report, outcomes map[string]string) error {
	var names []string
	for _, r := range reports {
		if outcomes[r.Name] != isRight {
			names = append(names, r.Name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("wrong with Berth: %d of %d reports: %s", len(names), len(reports), strings.Join(names, ", "))
}

// keep writes the table, or compares it with the file.
func (o *options) keep(text string) error {
	if o.write {
		return os.WriteFile(o.table, []byte(text), 0o644)
	}
	have, err := os.ReadFile(o.table)
	if err != nil {
		return err
	}
	if string(have) != text {
		return fmt.Errorf("%s differs from the outcomes with kube-scheduler; see above, or write it with -write", o.table)
	}
	return nil
}
