package app

import (
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"          // makes --logging-format=json known
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // counts requests, work queues and leadership
	_ "k8s.io/component-base/metrics/prometheus/version"  // shows the version as a metric
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/serve/server"
)

// about is the first part of the help text.
const about = `Run the scheduler: watch for pending pods, find the best node for each, and bind it.

The command replaces kube-scheduler 1.37: flags, configuration file, endpoints, metrics and leader election are the
same. It schedules the pods whose schedulerName matches a profile of the configuration; the default profile is
"default-scheduler".

On SIGINT or SIGTERM it finishes the writes in progress, releases the lease and exits. A second signal ends it at
once.`

// examples follow in the help of Berth's own command. They are not cobra's Example,
// because help with flags in sections does not print that field.
const examples = `

Examples:
  # Run a single replica against the cluster of a kubeconfig file
  berth scheduler --kubeconfig scheduler.kubeconfig --leader-elect=false

  # Use a configuration file, and log the decision about each pod
  berth scheduler --config scheduler.yaml -v=3`

// NewSchedulerCommand returns a program that behaves as kube-scheduler does. Run it with
// k8s.io/component-base/cli.Run.
//
// It has all flags of kube-scheduler; the names of Berth's own begin with "berth-".
// Options add plugins and the types of their arguments. Mistakes in options become the
// command's error when it runs.
func NewSchedulerCommand(options ...Option) *cobra.Command {
	return newCommand(server.Name, true, about, options)
}

// NewSubcommand returns the scheduler as a command of a larger program, which prints its
// errors.
//
// Only the exit codes differ from kube-scheduler. ExitCode returns the code of an error:
// 2 for wrong flags, arguments or files. A stop by a signal is a success, with and
// without leader election.
func NewSubcommand(options ...Option) *cobra.Command {
	return newCommand("scheduler", false, about+examples, options)
}

func newCommand(name string, standalone bool, long string, added []Option) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: "Run the scheduler",
		Long:  long,
		Args: func(cmd *cobra.Command, args []string) error {
			for _, arg := range args {
				if arg != "" {
					return usage(fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args))
				}
			}
			return nil
		},
	}
	o, err := newOptions()
	if err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return err }
		return cmd
	}
	o.standalone, o.added = standalone, added
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.run(cmd) }
	if !standalone {
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	}
	global := o.sets.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, name, logs.SkipLoggingConfigurationFlags())
	for _, group := range o.sets.Order {
		cmd.Flags().AddFlagSet(o.sets.FlagSets[group])
	}
	cmd.Flags().SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, o.sets, columns)
	if err := cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		cmd.RunE = func(*cobra.Command, []string) error { return err }
	}
	return cmd
}

// run runs the scheduler until a signal stops it. With --version or --write-config-to, it
// returns without starting the scheduler.
func (o *options) run(cmd *cobra.Command) error {
	if text, ok := versionText(cmd.Flags().Lookup("version").Value.String(), kubernetesVersion()); ok {
		_, err := fmt.Fprint(cmd.OutOrStdout(), text)
		return err
	}
	verflag.PrintAndExitIfRequested() // checks other values
	if err := labelBuild(kubernetesVersion()); err != nil {
		return err
	}
	if err := o.gates.Set(); err != nil {
		return usage(err)
	}
	if !o.standalone { // cli.Run has done it for a standalone program
		logs.InitLogs()
		defer logs.FlushLogs()
	}
	if err := logsapi.ValidateAndApply(o.logging, o.gates.Gate()); err != nil {
		return usage(fmt.Errorf("logging flags: %w", err))
	}
	printFlags(cmd.Flags())
	ctx, stop := untilSignal(cmd.Context(), os.Exit)
	defer stop()
	if err := o.check(); err != nil {
		return usage(err)
	}
	if err := o.addExternal(); err != nil {
		return err
	}
	c, err := o.configuration()
	if err != nil {
		return usage(err)
	}
	if err := o.writeConfig(c); err != nil || o.writeConfigTo != "" {
		return err
	}
	if err := o.checkRecord(c); err != nil {
		return usage(err)
	}
	if c.Extenders != nil {
		defer c.Extenders.Close()
	}
	for _, note := range c.Notes {
		klog.Background().Info("Configuration: " + note)
	}
	if names := o.external.Names(); len(names) > 0 {
		klog.Background().Info("Out-of-tree plugins are compiled in", "plugins", names)
	}
	s, err := newScheduler(ctx, o, c)
	if err != nil {
		return err
	}
	o.gates.AddMetrics()
	defer rarerCollection()()
	return s.run(ctx)
}

// gcPercent is GOGC while the scheduler runs; Go's default is 100. Most objects that are
// allocated during the first lists stay, so collecting half as often saves a fifth of the
// CPU for a sixth more memory. GOGC in the environment overrides gcPercent, and
// GOMEMLIMIT always applies.
const gcPercent = 200

// rarerCollection sets gcPercent, and returns a function that restores the old value.
func rarerCollection() func() {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	before := debug.SetGCPercent(gcPercent)
	return func() { debug.SetGCPercent(before) }
}
