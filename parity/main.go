// Parity compares Berth's decisions with kube-scheduler's, in one process and without an
// API server.
//
// It takes shapes and seeds. On standard output it prints a table with a line for each
// shape, "N passed, N failed", and each failure's first differences with the command that
// reproduces them. Progress goes to standard error. Any difference is a failure. Berth
// runs as in "berth explain" and "berth simulate". kube-scheduler 1.37's own plugins run
// for the same pods and nodes. A flag names a program that has the plugins of another
// release. It owns only the files of clusters with a difference, which a flag demands,
// and that program's process. It never decides which of the two is right.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/remote"
	"github.com/berth-scheduler/berth/parity/internal/sequence"
)

func main() {
	klog.SetLogger(logr.Discard()) // kube-scheduler's code logs every configuration
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	os.Exit(parity(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes.
const (
	same    = 0
	differs = 1 // or something failed
	misused = 2
)

func parity(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return same
	case err != nil:
		fmt.Fprintf(stderr, "parity: %v\n", err)
		return misused
	}
	end, err := o.start(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "parity: %v\n", err)
		return differs
	}
	report, err := run(ctx, o, stderr)
	if err = errors.Join(err, end()); err != nil {
		fmt.Fprintf(stderr, "parity: %v\n", err)
		return differs
	}
	if err := report.print(stdout, o.output); err != nil {
		fmt.Fprintf(stderr, "parity: print: %v\n", err)
		return differs
	}
	if report.Failed > 0 {
		return differs
	}
	return same
}

// options are the values of the flags.
type options struct {
	shapes    []cases.Shape
	scripts   []sequence.Script
	seeds     seeds // of shapes
	runs      seeds // of sequences
	shown     int   // differences for each shape
	shrink    bool
	folder    string
	output    string
	podsGiven int
	program   string // of kube-scheduler, if it is not this one
	release   config.Release
	rule      string
	devices   bool // the changed ones too
	pair      compare.Pair
}

// seeds is the range from first to last.
type seeds struct{ first, last uint64 }

// parseOptions parses the flags. Printing its error is the caller's part.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("parity", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	names := flags.String("shapes", "", "`names` of shapes and sequences, separated by commas, such as spread-hard,seq-mixed; "+
		"\"shapes\" and \"sequences\" stand for all of a kind, \"volumes\", \"devices\", \"preemption\", \"groups\" and \"external\" (plugins and extenders) for those of both kinds that are about these, and nothing for all of both")
	of := flags.String("seeds", "1..100", "`range` of the seeds of shapes, FIRST..LAST or one number")
	runs := flags.String("sequence-seeds", "1..2", "`range` of the seeds of sequences")
	one := flags.String("seed", "", "the only `seed`, of shapes and sequences")
	flags.IntVar(&o.podsGiven, "pods", 1000, "`number` of pods in each sequence; a seed means another sequence with another number")
	flags.IntVar(&o.shown, "differences", 3, "`number` of differences to print for each shape")
	flags.BoolVar(&o.shrink, "shrink", false, "look for a smaller cluster with a difference; takes as many comparisons as it needs")
	flags.StringVar(&o.folder, "write", "", "`folder` to write the first cluster with a difference of each shape to, for \"berth explain\"")
	flags.StringVar(&o.output, "o", "table", "how to print: table, json or yaml")
	flags.StringVar(&o.program, "kube-scheduler", "", "`program` with kube-scheduler of another release, such as bin/parity138; pod groups are then not compared")
	release := flags.String("release", "", "`release` of Berth's answers; by default kube-scheduler's")
	flags.BoolVar(&o.devices, "changed-devices", false, "keep the devices that 1.38 allocates in another way than 1.37, and Berth as in 1.37")
	flags.StringVar(&o.rule, "rule", "", "`rule` of 1.38 that Berth has in addition to 1.37's answers, as in docs/versions.md")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			usage(flags, stderr)
		}
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("there are no arguments, got %q: name shapes with -shapes", flags.Args())
	}
	if *one != "" {
		*of, *runs = *one, *one
	}
	var err error
	if o.seeds, err = parseSeeds("-seeds", *of); err != nil {
		return o, err
	}
	if o.runs, err = parseSeeds("-sequence-seeds", *runs); err != nil {
		return o, err
	}
	if o.podsGiven < 1 {
		return o, fmt.Errorf("-pods must be at least 1, got %d", o.podsGiven)
	}
	if *release != "" {
		if o.release, err = config.ParseRelease(*release); err != nil {
			return o, fmt.Errorf("-release %w", err)
		}
	}
	if o.output != "table" && o.output != "json" && o.output != "yaml" {
		return o, fmt.Errorf("-o must be table, json or yaml, got %q", o.output)
	}
	return o, o.choose(*names)
}

// start builds the pair of schedulers. The returned function ends the other program.
func (o *options) start(ctx context.Context) (end func() error, err error) {
	o.pair, end = compare.InProcess(), func() error { return nil }
	if o.program != "" {
		client, err := remote.Start(ctx, o.program)
		if err != nil {
			return nil, err
		}
		o.pair.Sends, o.pair.SameDevices = true, !o.devices
		o.pair.New = func(config []byte) (compare.KubeScheduler, error) { return client.New(config) }
		if o.pair.Release, err = releaseOf(client.Version); err != nil {
			return nil, errors.Join(err, client.Close())
		}
		end = client.Close
		if slices.ContainsFunc(o.scripts, sequence.Script.Groups) {
			return nil, errors.Join(errors.New("pod groups run only with kube-scheduler of this program"), client.Close())
		}
	}
	o.pair.Release, o.pair.Rule = cmp.Or(o.release, o.pair.Release), o.rule
	return end, nil
}

// releaseOf returns the release of a version of k8s.io/kubernetes, such as v1.38.0.
func releaseOf(version string) (config.Release, error) {
	parsed, err := utilversion.ParseSemantic(version)
	if err != nil {
		return 0, fmt.Errorf("kube-scheduler's version: %w", err)
	}
	return config.ReleaseFor(int(parsed.Minor())), nil
}

func usage(flags *flag.FlagSet, w io.Writer) {
	fmt.Fprint(w, "Compares Berth's decisions with kube-scheduler's. The flags are:\n")
	flags.SetOutput(w)
	flags.PrintDefaults()
	fmt.Fprint(w, "\nThe shapes are:\n")
	for _, s := range cases.Shapes() {
		fmt.Fprintf(w, "  %-23s %s\n", s.Name, s.About)
	}
	fmt.Fprint(w, "\nThe sequences are:\n")
	for _, s := range sequence.Scripts(1) {
		fmt.Fprintf(w, "  %-23s %s\n", s.Name, s.About)
	}
}

// choose resolves a list of names to shapes and sequences.
func (o *options) choose(names string) error {
	shapes, scripts := o.compared()
	if names == "" {
		o.shapes, o.scripts = shapes, scripts
		return nil
	}
	for name := range strings.SplitSeq(names, ",") {
		found := true
		switch name {
		case "shapes":
			o.shapes = append(o.shapes, shapes...)
		case "sequences":
			o.scripts = append(o.scripts, scripts...)
		case "volumes":
			o.shapes, o.scripts = append(o.shapes, cases.VolumeShapes()...), append(o.scripts, sequence.VolumeScripts(o.podsGiven)...)
		case "devices":
			o.shapes, o.scripts = append(o.shapes, cases.DeviceShapes()...), append(o.scripts, sequence.DeviceScripts(o.podsGiven)...)
		case "preemption":
			o.shapes, o.scripts = append(o.shapes, cases.PreemptShapes()...), append(o.scripts, sequence.PreemptScripts(o.podsGiven)...)
		case "groups":
			o.scripts = append(o.scripts, sequence.GroupScripts(o.podsGiven)...)
		case "external":
			o.shapes = append(o.shapes, cases.OutsideShapes()...)
		default:
			found = o.chooseOne(name)
		}
		if !found {
			return fmt.Errorf("-shapes: there is no shape or sequence %q; -help lists them", name)
		}
	}
	return nil
}

// compared returns the shapes and sequences that must be equal. With another release's
// program, pod groups and sequences with devices are left out: Berth has only 1.37's
// answers for them.
func (o *options) compared() ([]cases.Shape, []sequence.Script) {
	shapes, scripts := cases.Shapes(), sequence.Scripts(o.podsGiven)
	if o.program == "" {
		return shapes, scripts
	}
	skipped := map[string]bool{}
	for _, s := range slices.Concat(sequence.DeviceScripts(o.podsGiven), sequence.GroupScripts(o.podsGiven)) {
		skipped[s.Name] = true
	}
	return shapes, slices.DeleteFunc(scripts, func(s sequence.Script) bool { return skipped[s.Name] })
}

// chooseOne adds the shape or sequence with this name; false if none has it.
func (o *options) chooseOne(name string) bool {
	shapes, scripts := cases.Shapes(), sequence.Scripts(o.podsGiven)
	if at := slices.IndexFunc(shapes, func(s cases.Shape) bool { return s.Name == name }); at >= 0 {
		o.shapes = append(o.shapes, shapes[at])
		return true
	}
	at := slices.IndexFunc(scripts, func(s sequence.Script) bool { return s.Name == name })
	if at >= 0 {
		o.scripts = append(o.scripts, scripts[at])
	}
	return at >= 0
}

func parseSeeds(name, text string) (seeds, error) {
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	first, err := strconv.ParseUint(from, 10, 64)
	if err == nil {
		var last uint64
		if last, err = strconv.ParseUint(to, 10, 64); err == nil && first <= last {
			return seeds{first, last}, nil
		}
	}
	return seeds{}, fmt.Errorf("%s must be a number or FIRST..LAST with FIRST not above LAST, got %q", name, text)
}
