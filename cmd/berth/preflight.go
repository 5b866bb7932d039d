package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/live"
	"github.com/berth-scheduler/berth/internal/offline/preflight"
)

// preflightFlags are the flags of preflight.
type preflightFlags struct {
	*input
	to string
}

func newPreflightCommand() *cobra.Command {
	var p preflightFlags
	cmd := &cobra.Command{
		Use:   "preflight",
		Short: "Check whether Berth can replace a cluster's scheduler",
		Long: `Check whether Berth can replace a cluster's scheduler.

Nothing is written to the cluster. The checks are:
  version        The version of the API server is supported.
  scheduler      The flags of the running scheduler's pods, if they are visible, match the flags of this check.
  configuration  Berth supports each part of --config and --feature-gates: fields, plugins, extenders, gates.
  kinds          The API server serves the kinds that the plugins of this configuration read.
  rights         The scheduler has the permissions that it needs. The check uses your own permissions, so use the
                 kubeconfig of the scheduler. Or check another user with --as USER, such as system:kube-scheduler or
                 system:serviceaccount:kube-system:berth; for this you need permission to create
                 subjectaccessreviews.
  workloads      Pods that need a feature which Berth lacks, and pods whose scheduler name matches no profile.
  to RELEASE     With --to: objects that are scheduled differently in that release of Kubernetes, and
                 feature gates that it has removed.

Each row is pass, warn or fail, and names the next step.

Exit codes:
  0  No check failed.
  1  A check failed.
  2  The flags are wrong.`,
		Example: `  # Check with the configuration and the permissions of the scheduler
  kubectl berth preflight --config /etc/kubernetes/scheduler.yaml --as system:kube-scheduler

  # Before an upgrade of Kubernetes: what does it affect?
  kubectl berth preflight --config /etc/kubernetes/scheduler.yaml --to 1.38

  # Check for a service account of your own
  kubectl berth preflight --config berth.yaml --as system:serviceaccount:kube-system:berth -o json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: give the configuration with --config", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	p.input = newInput(flags, "", "", prints{outputs: rowOutputs, bare: true, jsonpath: "{.rows[*].check}", columns: "CHECK:.check,STATUS:.status"})
	_ = flags.MarkHidden("namespace") // has no effect, or is an error
	flags.StringVar(&p.to, "to", "", "Release of Kubernetes to upgrade to, such as 1.38. Lists the objects and gates that the upgrade affects.")
	p.complete(cmd)
	return cmd
}

// run checks and prints.
func (p *preflightFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	defer shortRun()()
	bar := newProgress(stderr)
	defer bar.clear()
	release, err := parseRelease(p.release)
	if err != nil {
		return err
	}
	var to config.Release
	if p.to != "" {
		if to, err = config.ParseRelease(p.to); err != nil {
			return wrong{fmt.Errorf("--to %w", err)}
		}
	}
	access, err := p.connection.access()
	if err != nil {
		return err
	}
	r := preflight.Request{To: to, File: p.config, Gates: p.gates, Of: preflight.Subject{Name: access.Impersonate.UserName, Groups: access.Impersonate.Groups}}
	// The user of --as is only the subject of the checks.
	access.Impersonate = rest.ImpersonationConfig{}
	r.Access = access
	if r.Scheduler, r.Mistake = loadConfig(p.config, p.gates, release, p.stdin); r.Mistake == nil {
		found, err := live.Read(ctx, live.Request{Access: access, Kinds: r.Scheduler.Reads(), Progress: bar.reading})
		if err != nil {
			r.Unread = fmt.Errorf("read the cluster: %w", err)
		} else {
			r.Cluster = found.Cluster
		}
	}
	report, err := preflight.Run(ctx, r)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	bar.clear()
	if err := p.print(stdout, report); err != nil {
		return err
	}
	if report.Fail > 0 {
		return errors.New("preflight: " + count(report.Fail, "check") + " failed: Berth should not replace this cluster's scheduler yet")
	}
	return nil
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (p *preflightFlags) print(w io.Writer, report *preflight.Report) error {
	checks := func() *table {
		t := newTable("CHECK", "STATUS", "MESSAGE", "WHAT TO DO~")
		for _, row := range report.Rows {
			t.add(row.Check, row.Status, row.Message, cmp.Or(row.Do, "-"))
		}
		return t
	}
	if done, err := p.printing.print(w, listing{object: report, rows: rowsOf(report.Rows), table: checks}); done {
		return err
	}
	b := p.blocks(w)
	if b.width > 0 {
		b.table(narrowChecks(report))
	} else {
		b.table(checks())
	}
	if !p.noHeaders {
		b.line("Checks: %d passed, %d warn, %d failed.", report.Pass, report.Warn, report.Fail)
	}
	return b.end()
}

// narrowChecks has the message and the remedy in one column, which wraps.
func narrowChecks(report *preflight.Report) *table {
	t := newTable("CHECK", "STATUS", "MESSAGE~")
	for _, row := range report.Rows {
		text := row.Message
		if row.Do != "" {
			text += ". Next: " + row.Do
		}
		t.add(row.Check, row.Status, text)
	}
	return t
}
