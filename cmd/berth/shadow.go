package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/internal/answers/shadow"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// shadowFlags are the flags of the command.
type shadowFlags struct {
	kubeconfig, config, output, release string
	gates                               map[string]bool
	names                               []string
	grace, settle                       time.Duration
	disagreements                       string
	most                                int

	access   *server.Access
	began    time.Time // of the observation; zero before
	reported time.Time // when the verdict was last printed
	metrics  shadowMetrics
	kept     *snapshots
}

func newShadowCommand() *cobra.Command {
	f := &shadowFlags{}
	cmd := &cobra.Command{
		Use:   "shadow",
		Short: "Compare the bindings of a cluster's scheduler with Berth's decisions",
		Long: `Compare the bindings of a cluster's scheduler with Berth's decisions.

Nothing is written to the cluster: permission to list and watch is enough. Each binding has one of these results:
  agree       The node is among the best, or the pod is nominated to it.
  lesser      The node is feasible, but others are better.
  contradict  The node is infeasible for Berth. The output names plugin and reason.
  race        The disagreement disappears in another state that the other scheduler may have seen: without the last
              changes, or with bindings of its own that were stored later.
  failed      Berth's decision would have ended with an error.

Pods that stay pending although Berth finds a node for them are "placeable". The table is printed at the end, on
SIGINT or SIGTERM.

--disagreements writes the cluster, as it was before each binding that Berth disagrees with, to a file. "berth
explain --snapshot" reads the file and explains the decision that the binding was compared with. --secure-port
serves the counts as metrics berth_shadow_*, with the same authorization as the scheduler's metrics.`,
		Example: `  # Compare until Ctrl-C, with the configuration of the scheduler
  berth shadow --kubeconfig view.kubeconfig --config scheduler.yaml

  # Print one line of JSON for each decision
  berth shadow --kubeconfig view.kubeconfig -o json > decisions.jsonl

  # Keep snapshots. Why would Berth have chosen another node?
  berth shadow --kubeconfig view.kubeconfig --disagreements kept
  berth explain --snapshot kept/20261125T220501.123456789-contradict-shop-web-1.json --pod shop/web-1`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return wrong{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second signal ends the process at once
			return f.run(ctx, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "Kubeconfig file of the cluster (default: clientConnection.kubeconfig of the configuration, or else the service account of the pod).")
	flags.StringVar(&f.config, "config", "", "Configuration file of the other scheduler, a KubeSchedulerConfiguration (default: the default configuration).")
	flags.Var(cliflag.NewMapStringBool(&f.gates), "feature-gates", "Feature gates of the other scheduler, such as GenericWorkload=true (default: the defaults of its version).")
	flags.StringVar(&f.release, "release", "", "Kubernetes release whose scheduling behavior Berth follows: 1.37 or 1.38 (default: the release of the API server).")
	flags.StringSliceVar(&f.names, "scheduler-name", nil, "Compare only pods with this scheduler name, which a profile must have (default: the names of all profiles). May be given several times.")
	flags.DurationVar(&f.grace, "grace", time.Minute, "How long a pod must stay pending while Berth finds a node for it, before it is reported.")
	flags.DurationVar(&f.settle, "settle", 2*time.Second, "How long to wait for late watch events before a disagreement is reported.")
	flags.StringVar(&f.disagreements, "disagreements", "", "Directory for snapshots of the cluster before each binding that is lesser, contradict or failed.")
	flags.IntVar(&f.most, "disagreements-max", 20, "Maximum number of snapshots; at most half of them are for lesser. Each has the whole cluster.")
	f.access = server.NewAccess(0)
	var sets cliflag.NamedFlagSets
	f.access.AddFlags(&sets)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	flags.StringVarP(&f.output, "output", "o", "table", "Output format: table (at the end) or json (a line for each decision).")
	_ = cmd.MarkFlagFilename("kubeconfig")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check returns the mistakes in the flags.
func (f *shadowFlags) check() error {
	switch {
	case f.output != "table" && f.output != "json":
		return fmt.Errorf("--output %q: must be one of table, json", f.output)
	case f.grace <= 0:
		return fmt.Errorf("--grace %v: must be greater than 0, such as 1m", f.grace)
	case f.settle < 0:
		return fmt.Errorf("--settle %v: must be at least 0, such as 2s", f.settle)
	case f.most < 1:
		return fmt.Errorf("--disagreements-max %d: must be at least 1", f.most)
	}
	return errors.Join(f.access.Validate()...)
}

func (f *shadowFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return wrong{err}
	}
	release, err := parseRelease(f.release)
	if err != nil {
		return err
	}
	scheduler, err := loadConfig(f.config, f.gates, release, stdin)
	if err != nil {
		return wrong{err}
	}
	if f.kubeconfig == "" {
		f.kubeconfig = scheduler.Kubeconfig
	}
	access, err := kube.Access(kube.ClientConfig{Kubeconfig: f.kubeconfig, Version: app.Version(), ContentType: "application/vnd.kubernetes.protobuf"})
	if err != nil {
		return wrong{fmt.Errorf("--kubeconfig %q: %w", f.kubeconfig, err)}
	}
	if release == 0 {
		if scheduler, err = scheduler.For(servedRelease(ctx, access)); err != nil {
			return err
		}
	}
	out := bufio.NewWriter(stdout)
	lines := json.NewEncoder(out)
	c := shadow.Config{Scheduler: scheduler, SchedulerNames: f.names, Grace: f.grace, Settle: f.settle, MaxKeep: f.most, Report: func(d shadow.Decision) {
		if f.output == "json" {
			_ = lines.Encode(d) // out keeps the error, which Flush returns
		}
	}}
	if f.disagreements != "" {
		if f.kept, err = newSnapshots(f.disagreements); err != nil {
			return wrong{fmt.Errorf("--disagreements %q: must be a directory that can be written to: %w", f.disagreements, err)}
		}
		c.Keep = f.kept.keep
	}
	follower, err := shadow.New(c)
	if err != nil {
		return wrong{err}
	}
	for _, note := range slices.Concat(scheduler.Notes, scheduler.Unasked) {
		fmt.Fprintf(stderr, "Note: %s\n", note)
	}
	summary, err := f.follow(ctx, access, follower, scheduler, out, stderr)
	if err != nil {
		return err
	}
	to := stderr // stdout has the lines
	if f.output == "table" {
		to = out
	}
	printComparison(to, summary, f.observed())
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// follow compares until the context ends.
func (f *shadowFlags) follow(ctx context.Context, access *rest.Config, follower *shadow.Shadow, scheduler *config.Config, out *bufio.Writer, stderr io.Writer) (shadow.Summary, error) {
	var none shadow.Summary
	client, err := kube.Connect(access)
	if err != nil {
		return none, err
	}
	intake := shadow.NewIntake(scheduler.Compile())
	watch, err := kube.NewWatch(client, intake, scheduler.Reads(), nil)
	if err != nil {
		return none, err
	}
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, klog.Background()))
	synced := make(chan struct{})
	stop, err := f.serve(ctx, synced)
	if err != nil {
		cancel()
		return none, err
	}
	defer func() {
		cancel()
		watch.Stop()
		stop()
	}()
	watch.Start(ctx)
	if err := watch.Sync(ctx); err != nil {
		if ctx.Err() != nil { // a signal came first
			return none, nil
		}
		return none, err
	}
	follower.Apply(time.Now(), intake.Drain())
	follower.Synced()
	f.began = time.Now()
	close(synced)
	names := f.names
	if len(names) == 0 {
		names = scheduler.SchedulerNames()
	}
	counts := watch.Counts()
	fmt.Fprintf(stderr, "Following the bindings of %s; %d nodes, %d pods\n", quoted(names), counts.Nodes, counts.Pods)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			follower.Apply(time.Now(), intake.Drain())
			summary := follower.End(time.Now())
			return summary, f.failure()
		case <-intake.Ready():
			follower.Apply(time.Now(), intake.Drain())
		case <-tick.C:
			follower.Tick(time.Now())
			summary := follower.Summary()
			f.metrics.set(summary, f.observed())
			f.report(stderr, &summary)
			if err := f.failure(); err != nil {
				return none, err
			}
			if err := out.Flush(); err != nil {
				return none, fmt.Errorf("print: %w", err)
			}
		}
	}
}

// serve serves the metrics, if a port is set, until the returned function is called. It
// is ready when synced is closed.
func (f *shadowFlags) serve(ctx context.Context, synced <-chan struct{}) (stop func(), err error) {
	f.access.Authentication.RemoteKubeConfigFile = cmp.Or(f.access.Authentication.RemoteKubeConfigFile, f.kubeconfig)
	f.access.Authorization.RemoteKubeConfigFile = cmp.Or(f.access.Authorization.RemoteKubeConfigFile, f.kubeconfig)
	return f.access.StartMetrics(f.metrics.handler(), healthz.NewShutdownHealthz(ctx.Done()), server.Synced(synced))
}

// failure returns the error of the first disagreement that could not be written.
func (f *shadowFlags) failure() error {
	if f.kept == nil {
		return nil
	}
	return f.kept.err
}

// observed returns how long bindings were observed.
func (f *shadowFlags) observed() time.Duration {
	if f.began.IsZero() {
		return 0
	}
	return time.Since(f.began)
}

// verdictPeriod is the pause between two lines with the verdict.
const verdictPeriod = time.Hour

// report prints the verdict once an hour, for the log of a Deployment.
func (f *shadowFlags) report(w io.Writer, s *shadow.Summary) {
	if now := time.Now(); now.Sub(cmp.Or(f.reported, f.began)) >= verdictPeriod {
		f.reported = now
		fmt.Fprintln(w, verdictOn(s, f.observed()))
	}
}

// verdictOn says whether Berth can take the place of the other scheduler.
func verdictOn(s *shadow.Summary, observed time.Duration) string {
	text := fmt.Sprintf("Verdict: %s, %s, %s: ", duration.HumanDuration(observed),
		counted(s.Bindings, "binding", "bindings"), counted(s.Contradict, "contradiction", "contradictions"))
	if obstacles := s.Obstacles(observed); len(obstacles) > 0 {
		return text + "not yet: " + strings.Join(obstacles, "; ") + "."
	}
	return text + "you can switch."
}

// raceText explains a kind of race in a line.
func raceText(kind string) string {
	switch resource, change, _ := strings.Cut(kind, " "); {
	case kind == "pods bound":
		return "the other scheduler had placed other pods that were stored later"
	case change == "gone":
		return "the other scheduler did not know yet that " + resource + " were deleted"
	case change == "new":
		return "the other scheduler did not know new " + resource + " yet"
	default:
		return "the other scheduler did not know changes of " + resource + " yet"
	}
}

// printComparison prints the counts as a table, and the verdict.
func printComparison(to io.Writer, s shadow.Summary, observed time.Duration) {
	share := func(n int) string {
		if s.Bindings == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(s.Bindings))
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "VERDICT\tBINDINGS\tSHARE\n")
	for _, row := range append(s.Verdicts(), shadow.VerdictCount{Verdict: "all", Bindings: s.Bindings}) {
		fmt.Fprintf(w, "%s\t%d\t%s\n", row.Verdict, row.Bindings, share(row.Bindings))
	}
	_ = w.Flush()
	var notes []string
	if s.Lesser > 0 {
		notes = append(notes, fmt.Sprintf("lesser nodes are %.1f points below the best on average, %d at most", float64(s.GapSum)/float64(s.Lesser), s.MaxGap))
	}
	if s.Feasible > 0 {
		notes = append(notes, fmt.Sprintf("lesser nodes that were infeasible just before the binding, and feasible in a state that the other scheduler can have decided on: %d", s.Feasible))
	}
	for _, kind := range slices.Sorted(maps.Keys(s.Races)) {
		notes = append(notes, fmt.Sprintf("races with %s: %d (%s)", kind, s.Races[kind], raceText(kind)))
	}
	notes = append(notes, fmt.Sprintf("pods that Berth would have placed and the other scheduler had not: %d since the start, %d now", s.Placeable, s.Pending),
		fmt.Sprintf("pods already bound at the start: %d", s.Unseen))
	if s.Unsearched > 0 {
		notes = append(notes, fmt.Sprintf("disagreements not checked for races: %d", s.Unsearched))
	}
	fmt.Fprintf(to, "\n%s\n\n%s\n", strings.Join(notes, "\n"), verdictOn(&s, observed))
}
