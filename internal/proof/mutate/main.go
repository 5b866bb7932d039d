// Command mutate measures how many faults in a package its tests find.
//
// It takes packages. It puts small faults into their code, one at a time, runs the
// package's own tests with each, and prints the faults with which they pass. No file is
// changed: the compiler reads the changed code through its -overlay. The command owns
// only temporary files and two processes at a time.
//
// The faults of a package are compiled into one binary of its tests, and an environment
// variable selects the active one. That is impossible for faults outside of functions, as
// in constants and tables, and for faults in main and init. Each of these has a binary of
// its own, which takes seconds to compile.
//
// Each fault has a process of its own, with a limit of time and of memory. A fault that
// exceeds the time counts as found, but late, because it takes long and the tests do not
// show the reason. Fast tests run first, see step.
//
// Faults without an observable effect are listed, with the reason, in equivalent/, one
// file for each package. The same files have flags that make slow tests do less if only a
// sample of the faults is tried. The command exits with status 1 if the tests of a
// package found less than 90 % of its faults, and, for a sample, if that is unlikely to
// be chance.
//
//	go run ./internal/proof/mutate [-sample N] [-seed S] [-changed REVISION]
//		[-for DURATION [-at-least N] [-slow DURATION]] ./internal/model/report
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
	"syscall"
	"time"
)

// Options are the values of the command line.
type Options struct {
	Packages []string // patterns of `go list`
	// Sample is the number of faults to try in each package, 0 for all. Seed selects
	// them.
	Sample int
	Seed   uint64
	// Changed, if set, limits the packages to those whose code differs from this
	// revision; see changed.
	Changed string
	// For, if set, limits the time: no fault is started after it, unless fewer than
	// AtLeast have been tried in all packages together.
	For     time.Duration
	AtLeast int
	// Slow is the time that a package's tests may take without a fault if For is set.
	// Slower packages are skipped: a fault that lives takes as long, and a sample of one
	// or two has no meaning.
	Slow time.Duration
	// Patience is the time that tests may take with a fault, in addition to five times
	// their time without one. A fault that exceeds it, or hangs, is found.
	Patience time.Duration
	// Least is the minimum percentage of a package's faults that its tests must find.
	Least int
	// Equivalent is the folder with the lists of equivalent faults and of flags for
	// samples, in PACKAGE.txt.
	Equivalent string
	Out        io.Writer
	Progress   io.Writer
}

// enough is the number of tried faults below which a percentage has no meaning.
const enough = 10

// portion is the number of faults of a package in one binary. With a time limit, the
// packages take turns by portions.
const portion = 50

// memory limits the address space of each process, in bytes. It is more than a process
// uses.
const memory = 8 << 30

func main() {
	o := Options{Out: os.Stdout, Progress: os.Stderr}
	flag.IntVar(&o.Sample, "sample", 0, "how many faults of each package to try; 0 for all")
	flag.Uint64Var(&o.Seed, "seed", 1, "which faults are in the sample, and in which order they are tried when time is limited")
	flag.StringVar(&o.Changed, "changed", "", "only packages whose code differs from this `revision`; from the last commits where nothing differs, or where there is no such revision")
	flag.DurationVar(&o.For, "for", 0, "start no fault after this time; 0 for no limit")
	flag.IntVar(&o.AtLeast, "at-least", enough, "with -for: try so many faults, of all packages together, however long it takes, unless their tests are too slow")
	flag.DurationVar(&o.Slow, "slow", 15*time.Second, "with -for: pass over packages whose tests take longer without a fault")
	flag.DurationVar(&o.Patience, "patience", 15*time.Second, "how long tests may take with a fault, in addition to five times what they take without one")
	flag.IntVar(&o.Least, "least", 90, "fail if less than this percentage of a package's faults is found, or so little of a sample of ten or more that it is no accident")
	flag.StringVar(&o.Equivalent, "equivalent", "internal/proof/mutate/equivalent", "folder that lists, in PACKAGE.txt, faults which nobody could notice")
	flag.Parse()
	o.Packages = flag.Args()
	// With a fault, a loop may allocate memory without end.
	if err := syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memory, Max: memory}); err != nil {
		fmt.Fprintln(os.Stderr, "limit the memory of tests:", err)
		os.Exit(2)
	}
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

// source is a package with its faults and their outcomes. The exported fields are from
// `go list`.
type source struct {
	Dir, ImportPath string
	Name            string
	GoFiles         []string
	TestGoFiles     []string
	XTestGoFiles    []string

	code     map[string][]byte // of GoFiles, by path
	faults   []fault           // to be tried
	all      int               // number of possible faults
	listed   map[string]string
	outdated []string // listed ids without a fault
	fewer    []string // flags that make its tests do less
	flags    []string // of its tests
	steps    []step
	isSlow   bool // its tests take too long for a sample
	count    [outcomes]int
}

// tried returns the number of faults that were compiled and tested.
func (p *source) tried() int { return p.found() + p.count[lived] }

// found returns the number of faults that the tests found.
func (p *source) found() int { return p.count[found] + p.count[late] }

// run tries the faults of all packages, prints the surviving ones and a table, and
// returns the packages.
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
	var end time.Time
	if o.For > 0 {
		end = time.Now().Add(o.For)
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
	left, tried := 0, 0
	for _, turn := range turns(packages, o.For > 0) {
		least := o.AtLeast - tried
		if over(end) && least <= 0 {
			left += len(turn.faults)
			continue
		}
		before := turn.of.tried()
		n, err := turn.of.try(ctx, o, turn.faults, end, least)
		if err != nil {
			return nil, fmt.Errorf("put faults into %s: %w", turn.of.ImportPath, err)
		}
		left += n
		tried += turn.of.tried() - before
	}
	slices.SortFunc(packages, func(a, b *source) int { return strings.Compare(a.ImportPath, b.ImportPath) })
	if err := table(o.Out, packages); err != nil {
		return nil, err
	}
	if left > 0 {
		fmt.Fprintf(o.Out, "%d faults were not tried: the time of %s was over, or the package's tests take too long\n", left, o.For)
	}
	return packages, nil
}

// turn is a part of a package's faults.
type turn struct {
	of     *source
	faults []fault
}

// turns divides the faults by package. With a time limit it divides them into portions,
// so that each package has a share.
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

// list returns the packages that match the patterns.
func list(ctx context.Context, patterns []string) ([]*source, error) {
	if len(patterns) == 0 {
		return nil, fmt.Errorf("no package was named")
	}
	text, err := exec.CommandContext(ctx, "go", append([]string{"list", "-json=Dir,ImportPath,Name,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...).Output()
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

// read finds the faults of a package and selects those to try, in their order.
func (p *source) read(o Options, r *rand.Rand) error {
	p.code = map[string][]byte{}
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
		p.code[path] = code
	}
	var err error
	if p.listed, p.fewer, err = readEquivalent(filepath.Join(o.Equivalent, filepath.Base(p.ImportPath)+".txt")); err != nil {
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

// readEquivalent reads a list of equivalent faults. Each line has an id, " : ", and the
// reason why the fault is not observable. Instead of an id, a line may have "flags" and
// flags that make the tests do less for samples. Lines that begin with # are comments. A
// package need not have a list.
func readEquivalent(path string) (listed map[string]string, fewer []string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the equivalent faults: %w", err)
	}
	listed = map[string]string{}
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, why, ok := strings.Cut(line, " : ")
		if !ok || strings.TrimSpace(why) == "" {
			return nil, nil, fmt.Errorf("%s:%d: a fault without a reason", path, i+1)
		}
		if flags, ok := strings.CutPrefix(id, "flags "); ok {
			fewer = append(fewer, strings.Fields(flags)...)
			continue
		}
		listed[id] = why
	}
	return listed, fewer, nil
}
