package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/recording"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	printing
	config, release string
	gates           map[string]bool
	until           string
	snapshot        string
	changed         func(flag string) bool
}

func newReplayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Decide again from a recording, and compare with the recorded decisions",
		Long: `Decide again from a recording, and compare with the recorded decisions.

FILE was written by a scheduler with --berth-record DIRECTORY. It contains everything that decisions depend on: the
changes of the cluster, the results of writes, times, the seed and the configuration. The command feeds them to the
same scheduler in memory, and prints the first decision that differs.

With --config, --feature-gates or --release the decisions are those of another configuration, and the first
difference is where it would have decided otherwise. The recording's inputs follow from the recorded decisions, so the
replay ends there.

--until ends the replay at a time of the recording. --snapshot then writes the cluster as the scheduler knew it, for
the other commands: "berth explain --snapshot FILE", "berth queue -f FILE", "berth top nodes -f FILE".

Exit codes:
  0  All decisions are equal.
  1  The command failed, or the file is damaged.
  2  The input is wrong.
  3  A decision differs.`,
		Example: `  # Does this version decide as the recorded one?
  berth replay berth-20261129T031200.000000000Z.berth.zst

  # What was pending at 03:12, and why?
  berth replay recording.berth.zst --until 2026-11-29T03:12:00Z --snapshot then.json
  berth explain --snapshot then.json

  # Where would another configuration have decided otherwise first?
  berth replay recording.berth.zst --config packing.yaml`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrong{fmt.Errorf("%q takes one recording, got %q: name the file that --berth-record has written", cmd.CommandPath(), args)}
			}
			return nil
		},
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args[0], cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.printing = printing{prints: prints{outputs: []string{"table", "json", "yaml"}}}
	f.declare(flags)
	f.complete(cmd)
	f.changed = flags.Changed
	flags.StringVar(&f.config, "config", "", "Configuration file of the scheduler, a KubeSchedulerConfiguration; - is standard input (default: the recording's).")
	flags.Var(cliflag.NewMapStringBool(&f.gates), "feature-gates", "Feature gates of the scheduler, such as GenericWorkload=true (default: the recording's).")
	flags.StringVar(&f.release, "release", "", "Kubernetes release whose scheduling behavior is followed: 1.37 or 1.38 (default: the recording's).")
	flags.StringVar(&f.until, "until", "", "End the replay after this time, such as 2026-11-29T03:12:00Z.")
	flags.StringVar(&f.snapshot, "snapshot", "", "File for the cluster at the end of the replay, JSON; - is standard output.")
	_ = cmd.RegisterFlagCompletionFunc("feature-gates", completeGates)
	_ = cmd.MarkFlagFilename("config", "yaml", "yml", "json")
	return cmd
}

// differs is the error for a replay with another decision.
type differs struct{ error }

// ExitCode returns 3.
func (differs) ExitCode() int { return 3 }

func (f *replayFlags) run(ctx context.Context, file string, stdin io.Reader, stdout, stderr io.Writer) error {
	defer shortRun()()
	var until time.Time
	if f.until != "" {
		var err error
		if until, err = time.Parse(time.RFC3339, f.until); err != nil {
			return wrong{fmt.Errorf("--until %q: must be a time, such as 2026-11-29T03:12:00Z", f.until)}
		}
	}
	reader, err := recording.Open(file)
	if err != nil {
		return wrong{err}
	}
	defer func() { _ = reader.Close() }()
	scheduler, err := f.scheduler(&reader.Header, stdin)
	if err != nil {
		return wrong{err}
	}
	if err := checkReplay(&reader.Header, scheduler); err != nil {
		return wrong{err}
	}
	replay, err := recording.Replay(reader, scheduler)
	if err != nil {
		return err
	}
	bar := newProgress(stderr)
	defer bar.clear()
	if err := replay.Run(until, func() error { bar.reading(reader.Progress()); return ctx.Err() }); err != nil {
		return err
	}
	bar.clear()
	if f.snapshot != "" {
		if err := f.write(stdout, replay); err != nil {
			return err
		}
	}
	if f.snapshot != "-" {
		if err := f.print(stdout, &reader.Header, &replay.Result); err != nil {
			return err
		}
	}
	if d := replay.Result.Difference; d != nil {
		if f.snapshot != "" && !until.IsZero() {
			fmt.Fprintf(stderr, "Note: the snapshot is of %s, the time of the difference, not of --until\n", d.At.UTC().Format(time.RFC3339))
		}
		return differs{errors.New("a decision differs from the recording")}
	}
	return nil
}

// scheduler returns the configuration of the flags, or the recording's.
func (f *replayFlags) scheduler(h *recording.Header, stdin io.Reader) (*config.Config, error) {
	if !f.changed("config") && !f.changed("feature-gates") && !f.changed("release") {
		return h.Scheduler()
	}
	release := f.release
	if release == "" {
		release = h.Release
	}
	follows, err := parseRelease(release)
	if err != nil {
		return nil, err
	}
	gates := f.gates
	if !f.changed("feature-gates") {
		gates = h.Gates
	}
	if f.changed("config") {
		return loadConfig(f.config, gates, follows, stdin)
	}
	return loadConfig("-", gates, follows, bytes.NewReader(h.Config))
}

// checkReplay returns an error if a configuration needs objects that the recorded one did
// not read: without them, all decisions would differ.
func checkReplay(h *recording.Header, scheduler *config.Config) error {
	recorded, err := h.Scheduler()
	if err != nil {
		return err
	}
	for _, name := range recorded.SchedulerNames() {
		if !slices.Contains(scheduler.SchedulerNames(), name) {
			return fmt.Errorf("--config: no profile has the scheduler name %q of the recording; the profiles are %q", name, scheduler.SchedulerNames())
		}
	}
	for _, kind := range scheduler.Reads() {
		if !slices.Contains(recorded.Reads(), kind) {
			return fmt.Errorf("the plugins of this configuration read %s, which the recording does not have: disable the plugins that need them",
				kinds.Get(kind).Resource.GroupResource())
		}
	}
	return nil
}

func (f *replayFlags) write(stdout io.Writer, replay *recording.Replayer) error {
	if f.snapshot == "-" {
		return writeObjects(stdout, replay.Objects(), nil)
	}
	if err := writeCluster(f.snapshot, replay.Objects()); err != nil {
		return fmt.Errorf("--snapshot %q: %w", f.snapshot, err)
	}
	return nil
}

func (f *replayFlags) print(w io.Writer, h *recording.Header, r *recording.Result) error {
	if f.output != "table" {
		return printObject(w, f.output, r)
	}
	if r.Rounds == 0 {
		fmt.Fprintln(w, "Nothing was recorded until then.")
		return nil
	}
	fmt.Fprintf(w, "Recording of Berth %s, compatible with kube-scheduler %s, from %s to %s.\n", h.Berth, h.Release,
		r.From.UTC().Format(time.RFC3339), r.To.UTC().Format(time.RFC3339))
	fmt.Fprintf(w, "Changes: %d. Equal decisions: %d, of these placements: %d.\n", r.Changes, r.Decisions, r.Placed)
	if r.Incomplete != "" {
		fmt.Fprintf(w, "The recording is not complete: %s.\n", r.Incomplete)
	}
	if d := r.Difference; d != nil {
		fmt.Fprintf(w, "\nFirst difference, at %s:\n  recorded: %s\n  replayed: %s\n", d.At.UTC().Format(time.RFC3339Nano), toldDecision(d.Recorded), toldDecision(d.Replayed))
	}
	return nil
}

func toldDecision(d *recording.Decision) string {
	if d == nil {
		return "no decision"
	}
	return d.String()
}
