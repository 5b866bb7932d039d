package app

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register" // makes --logging-format=json known
	"k8s.io/component-base/term"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/queue"
)

// options are what flags say.
type options struct {
	config     string
	kubeconfig string
	master     string
	parkedMax  time.Duration
	seed       uint64
	inFlight   int
	logging    *logsapi.LoggingConfiguration
	gates      featuregate.MutableVersionedFeatureGate
}

// NewSchedulerCommand returns the command that runs the scheduler. It has kube-scheduler's flags, as far as there is something
// for them to do, and a few of its own that begin with "berth-". ExitCode says what to exit with when it fails.
func NewSchedulerCommand() *cobra.Command {
	o := &options{logging: logsapi.NewLoggingConfiguration(), gates: featuregate.NewFeatureGate()}
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run the scheduler",
		Long: `Run the scheduler: watch for pods that have no node, find the best node for each, and bind it.

It takes the place of kube-scheduler and reads the same configuration file. Pods are taken that name one of the
configuration's profiles, "default-scheduler" without a configuration. It stops on SIGINT or SIGTERM, after what it had begun to
write is written; a second signal ends it at once.`,
		Example: `  # Schedule the pods of the cluster of a kubeconfig file
  berth scheduler --kubeconfig scheduler.kubeconfig

  # With a configuration file, say what is decided about each pod
  berth scheduler --config scheduler.yaml -v=3`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(fmt.Errorf("%q does not take any arguments, got %q", cmd.CommandPath(), args))
			}
			return nil
		},
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	sets := o.flagSets()
	for _, name := range sets.Order {
		cmd.Flags().AddFlagSet(sets.FlagSets[name])
	}
	cmd.Flags().SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout())
	cliflag.SetUsageAndHelpFunc(cmd, sets, columns)
	return cmd
}

func (o *options) flagSets() cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets
	fs := sets.FlagSet("misc")
	fs.StringVar(&o.config, "config", "", "The path of the configuration file (KubeSchedulerConfiguration, "+
		"kubescheduler.config.k8s.io/v1). The flag --kubeconfig is ignored if it is given.")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "The path of the kubeconfig file that says how to reach the API server. Without "+
		"one, the service account of the pod that the scheduler runs in is used.")
	fs.StringVar(&o.master, "master", "", "The address of the API server. It overrides the one in the kubeconfig file.")
	fs = sets.FlagSet("deprecated")
	fs.DurationVar(&o.parkedMax, "pod-max-in-unschedulable-pods-duration", queue.DefaultParkedMax,
		"How long a pod that no node is feasible for waits for an event that may help before it is tried again all the same.")
	fs = sets.FlagSet("berth")
	fs.Uint64Var(&o.seed, "berth-seed", 1, "Chooses among nodes that are equally good. With the same seed, the same history leads to "+
		"the same decisions.")
	fs.IntVar(&o.inFlight, "berth-binds-in-flight", commit.DefaultInFlight, "How many writes are sent to the API server at the same time.")
	logsapi.AddFlags(o.logging, sets.FlagSet("logs"))
	return sets
}

// check finds what is wrong with the flags.
func (o *options) check() error {
	switch {
	case o.parkedMax <= 0:
		return fmt.Errorf("--pod-max-in-unschedulable-pods-duration %v: must be greater than 0, such as 5m", o.parkedMax)
	case o.inFlight <= 0:
		return fmt.Errorf("--berth-binds-in-flight %d: must be greater than 0", o.inFlight)
	}
	return nil
}

func (o *options) run(cmd *cobra.Command) error {
	if err := o.check(); err != nil {
		return usage(err)
	}
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := logsapi.AddFeatureGates(o.gates); err != nil {
		return fmt.Errorf("prepare logging: %w", err)
	}
	if err := logsapi.ValidateAndApply(o.logging, o.gates); err != nil {
		return usage(fmt.Errorf("logging flags: %w", err))
	}
	c, err := o.load()
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context(), os.Exit)
	defer stop()
	s, err := newScheduler(o, c)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

func (o *options) load() (*config.Config, error) {
	if o.config == "" {
		return config.Default()
	}
	c, err := config.Load(o.config)
	if wrong := (*config.Error)(nil); errors.As(err, &wrong) {
		return nil, usage(err)
	}
	return c, err
}
