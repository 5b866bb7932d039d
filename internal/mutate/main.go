// Command mutate measures how much the tests of a package notice.
//
// It takes packages; it puts one small fault after another into their code, by `go test -overlay`, so that no file is changed, runs the package's own tests
// with each, and prints the faults with which they pass. It owns nothing but temporary files. Faults that change nothing that anybody could observe are listed, with the
// reason, in equivalent/, a file for each package. It exits with status 1 if the tests of a package found less than 90 % of its faults, or so few of a sample that it is no accident.
//
//	go run ./internal/mutate [-sample N] [-seed S] [-changed REVISION] [-for DURATION] ./internal/report
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options are what the command line says.
type Options struct {
	Packages []string // patterns of `go list`
	// Sample is how many faults of each package are tried, 0 for all; Seed chooses them.
	Sample int
	Seed   uint64
	// Changed, if it is not empty, leaves those packages whose code differs from this revision, see changed.
	Changed string
	// For, if it is not 0, is how long faults are tried: none is started after it.
	For time.Duration
	// Least is the least percentage of a package's faults that its tests must find.
	Least int
	// Equivalent is the folder that lists, in PACKAGE.txt, faults which nobody could notice.
	Equivalent string
	Out        io.Writer
	Progress   io.Writer
}

// enough is how many faults of a package must have been tried for its percentage to mean anything.
const enough = 10

// portion is how many faults of a package are tried before it is another package's turn, where time is limited.
const portion = enough

func main() {
	o := Options{Out: os.Stdout, Progress: os.Stderr}
	flag.IntVar(&o.Sample, "sample", 0, "how many faults of each package to try; 0 for all")
	flag.Uint64Var(&o.Seed, "seed", 1, "which faults are in the sample, and in which order they are tried when time is limited")
	flag.StringVar(&o.Changed, "changed", "", "only packages whose code differs from this `revision`; from the last commits where nothing differs, or where there is no such revision")
	flag.DurationVar(&o.For, "for", 0, "start no fault after this time; 0 for no limit")
	flag.IntVar(&o.Least, "least", 90, "fail if less than this percentage of a package's faults is found, or so little of a sample of ten or more that it is no accident")
	flag.StringVar(&o.Equivalent, "equivalent", "internal/mutate/equivalent", "folder that lists, in PACKAGE.txt, faults which nobody could notice")
	flag.Parse()
	o.Packages = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	packages, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	if problems := verdicts(packages, o.Least); len(problems) > 0 {
		fmt.Fprintln(os.Stderr, strings.Join(problems, "\n"))
		os.Exit(1)
	}
}

// source is a package: what `go list` says of it, its faults, and what came of them.
type source struct {
	Dir, ImportPath string
	GoFiles         []string

	faults   []fault // to be tried
	all      int     // faults that there are
	listed   map[string]string
	outdated []string      // ids that are listed and do not exist
	limit    time.Duration // of its tests with a fault; 0 before they have run without one
	flags    []string      // of its tests
	count    [outcomes]int
}

// tried is how many faults were put in and compiled.
func (p *source) tried() int { return p.count[found] + p.count[lived] }

// run tries the faults of all packages, prints those that lived and a table, and returns the packages.
func run(ctx context.Context, o Options) ([]*source, error) {
	packages, err := list(ctx, o.Packages)
	if err != nil {
		return nil, err
	}
	if o.Changed != "" {
		if packages, err = changed(ctx, packages, o.Changed); err != nil {
			return nil, fmt.Errorf("find the packages that have changed since %s: %w", o.Changed, err)
		}
	}
	r := rand.New(rand.NewPCG(o.Seed, 0))
	for _, p := range packages {
		if err := p.read(o, r); err != nil {
			return nil, fmt.Errorf("find the faults of %s: %w", p.ImportPath, err)
		}
	}
	if o.For > 0 {
		r.Shuffle(len(packages), func(i, j int) { packages[i], packages[j] = packages[j], packages[i] })
	}
	began, left := time.Now(), 0
	for _, turn := range turns(packages, o.For > 0) {
		if o.For > 0 && time.Since(began) > o.For {
			left += len(turn.faults)
			continue
		}
		for i, f := range turn.faults {
			if o.For > 0 && time.Since(began) > o.For {
				left += len(turn.faults) - i
				break
			}
			if err := turn.of.try(ctx, o, f); err != nil {
				return nil, fmt.Errorf("put faults into %s: %w", turn.of.ImportPath, err)
			}
		}
	}
	slices.SortFunc(packages, func(a, b *source) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	if err := table(o.Out, packages); err != nil {
		return nil, err
	}
	if left > 0 {
		fmt.Fprintf(o.Out, "%d faults were not tried: the time of %s was over\n", left, o.For)
	}
	return packages, nil
}

// turn is a part of a package's faults.
type turn struct {
	of     *source
	faults []fault
}

// turns divides the faults: package by package; or, where time is limited, in portions, so that each package has some.
func turns(packages []*source, limited bool) []turn {
	var all []turn
	for at, more := 0, true; more; at += portion {
		more = false
		for _, p := range packages {
			if !limited && at == 0 {
				all = append(all, turn{p, p.faults})
			}
			if limited && at < len(p.faults) {
				all = append(all, turn{p, p.faults[at:min(at+portion, len(p.faults))]})
				more = true
			}
		}
	}
	return all
}

// list returns the packages of patterns.
func list(ctx context.Context, patterns []string) ([]*source, error) {
	if len(patterns) == 0 {
		return nil, fmt.Errorf("no package was named")
	}
	text, err := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,GoFiles"}, patterns...)...).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var packages []*source
	for d := json.NewDecoder(bytes.NewReader(text)); ; {
		p := &source{}
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		packages = append(packages, p)
	}
}

// read finds the faults of a package, and leaves those that are to be tried, in the order in which they are.
func (p *source) read(o Options, r *rand.Rand) error {
	for _, file := range p.GoFiles {
		path := filepath.Join(p.Dir, file)
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		faults, err := faultsOf(path, code)
		if err != nil {
			return err
		}
		p.faults = append(p.faults, faults...)
	}
	var err error
	if p.listed, err = readEquivalent(filepath.Join(o.Equivalent, filepath.Base(p.ImportPath)+".txt")); err != nil {
		return err
	}
	for id := range p.listed {
		if !slices.ContainsFunc(p.faults, func(f fault) bool { return f.id == id }) {
			p.outdated = append(p.outdated, id)
		}
	}
	slices.Sort(p.outdated)
	p.all = len(p.faults)
	sampled := o.Sample > 0 && o.Sample < p.all
	if sampled || o.For > 0 {
		r.Shuffle(p.all, func(i, j int) { p.faults[i], p.faults[j] = p.faults[j], p.faults[i] })
	}
	if sampled {
		p.faults = p.faults[:o.Sample]
	}
	if o.For == 0 {
		slices.SortFunc(p.faults, func(a, b fault) int {
			return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.begin, b.begin), strings.Compare(a.id, b.id))
		})
	}
	return nil
}

// try runs the package's tests with a fault, and before the first one without any.
func (p *source) try(ctx context.Context, o Options, f fault) error {
	if _, known := p.listed[f.id]; known {
		p.count[equivalent]++
		return nil
	}
	if p.limit == 0 {
		var err error
		if p.flags, err = flagsFor(ctx, p.ImportPath); err != nil {
			return err
		}
		began := time.Now()
		if v, output, err := test(ctx, p, fault{}, 10*time.Minute); err != nil || v != lived {
			return fmt.Errorf("its tests fail without a fault: %w\n%s", err, output)
		}
		// A fault that makes the tests take this much longer is noticed.
		p.limit = 30*time.Second + 5*time.Since(began)
		fmt.Fprintf(o.Progress, "%s: %d of %d faults, %s for each run of its tests\n", p.ImportPath, len(p.faults), p.all, time.Since(began).Round(time.Second/10))
	}
	v, _, err := test(ctx, p, f, p.limit)
	if err != nil {
		return err
	}
	p.count[v]++
	if v == lived {
		fmt.Fprintf(o.Out, "LIVED %s:%d: %s\n", f.path, f.line, f.id)
	}
	if n := p.tried() + p.count[broken]; n%20 == 0 {
		fmt.Fprintf(o.Progress, "%s: %d tried\n", p.ImportPath, n)
	}
	return nil
}

// flagsFor returns flags with which the tests of a package write nothing into its folder: package rapid keeps the inputs of failures there, and would try them in every
// later run, with whatever else is wrong then.
func flagsFor(ctx context.Context, name string) ([]string, error) {
	imports, err := exec.CommandContext(ctx, "go", "list", "-deps", "-test", name).Output()
	if err != nil {
		return nil, fmt.Errorf("list what its tests import: %w", err)
	}
	if slices.Contains(strings.Fields(string(imports)), "pgregory.net/rapid") {
		return []string{"-rapid.nofailfile"}, nil
	}
	return nil, nil
}

// outcome is what became of a fault.
type outcome uint8

const (
	lived      outcome = iota // the tests pass
	found                     // they fail
	broken                    // it does not compile
	equivalent                // it is listed, and was not tried
	outcomes
)

// test runs the tests of a package with a fault; the zero fault is none.
func test(ctx context.Context, p *source, f fault, limit time.Duration) (outcome, string, error) {
	arguments := []string{"test", "-vet=off", "-count=1", "-failfast", "-timeout", limit.String()}
	if f.path != "" {
		folder, err := os.MkdirTemp("", "mutate")
		if err != nil {
			return 0, "", err
		}
		defer os.RemoveAll(folder)
		changed, overlay := filepath.Join(folder, "changed.go"), filepath.Join(folder, "overlay.json")
		replace, err := json.Marshal(map[string]map[string]string{"Replace": {f.path: changed}})
		if err != nil {
			return 0, "", err
		}
		if err := os.WriteFile(changed, f.code, 0o600); err != nil {
			return 0, "", err
		}
		if err := os.WriteFile(overlay, replace, 0o600); err != nil {
			return 0, "", err
		}
		arguments = append(arguments, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", slices.Concat(arguments, []string{p.ImportPath}, p.flags)...)
	command.WaitDelay = 10 * time.Second
	output, err := command.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case err == nil:
		return lived, string(output), nil
	case strings.Contains(string(output), "[build failed]"):
		return broken, string(output), nil
	}
	return found, string(output), nil
}

// readEquivalent reads a list of faults: of each its id, " : ", and why nobody could notice it. Lines that begin with # are comments. A package without a list has none.
func readEquivalent(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the equivalent faults: %w", err)
	}
	listed := map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, why, ok := strings.Cut(line, " : ")
		if !ok || strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("%s:%d: a fault without a reason", path, i+1)
		}
		listed[id] = why
	}
	return listed, nil
}
