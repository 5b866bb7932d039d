// Command berth is a Kubernetes scheduler with commands to simulate and explain its
// decisions.
//
// It takes a subcommand and prints its result. Installed as kube-scheduler, it is only
// the scheduler. It owns the exit codes: 0, 1 for a failure, and 2 for a mistake in the
// user's input. Package app, not this package, runs the scheduler.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"

	"github.com/berth-scheduler/berth/app"
)

func main() { os.Exit(run(context.Background(), os.Args, os.Stdout, os.Stderr)) }

// run runs the command line and returns the exit code. The first argument is the name of
// the binary.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if called := strings.TrimSuffix(filepath.Base(args[0]), ".exe"); called == kubeScheduler {
		return runAsKubeScheduler(ctx, args[1:], stdout, stderr)
	}
	cmd := newCommandAs(strings.HasPrefix(filepath.Base(args[0]), kubectlPlugin))
	cmd.SetArgs(args[1:])
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "Error: %v\n", err)
	}
	return app.ExitCode(err)
}

// kubectlPlugin is the binary's name as a kubectl plugin, "kubectl berth".
const kubectlPlugin = "kubectl-berth"

// kubeScheduler is the binary's name as a scheduler only.
const kubeScheduler = "kube-scheduler"

// runAsKubeScheduler runs the scheduler with kube-scheduler's handling of errors. Every
// error has exit code 1, and for a wrong flag the usage is printed first.
func runAsKubeScheduler(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := app.NewSchedulerCommand()
	cmd.SetContext(ctx)
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	return cli.Run(cmd)
}

// newCommand returns the command of the binary under its own name.
func newCommand() *cobra.Command { return newCommandAs(false) }

// newCommandAs returns the command of the binary, as a plugin of kubectl or under its own
// name.
func newCommandAs(plugin bool) *cobra.Command {
	root := &cobra.Command{
		Use:                        "berth",
		Short:                      "Berth is a Kubernetes scheduler that is exact, incremental and deterministic, and explains its decisions",
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		SilenceErrors:              true,
		Args:                       subcommand,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.PersistentPreRunE = refuse
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return wrong{err} })
	root.AddCommand(app.NewSubcommand(), newSimulateCommand(), newExplainCommand(), newFitCommand(), newDrainCommand(), newQueueCommand(), newTopCommand(), newSnapshotCommand(), newCompareCommand(), newReplayCommand(), newPreflightCommand(), newShadowCommand(), newVersionCommand())
	addHelp(root, plugin)
	addVersionFlag(root)
	return root
}

// subcommand rejects unknown subcommands.
func subcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", near[0])
	}
	return wrong{fmt.Errorf("unknown command %q for %q: %s", args[0], cmd.CommandPath(), hint)}
}

// wrong is a mistake on the command line.
type wrong struct{ error }

// ExitCode returns 2.
func (wrong) ExitCode() int { return 2 }
