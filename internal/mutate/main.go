// Command mutate measures how much the tests of a package notice.
//
// It takes packages; it puts one small fault after another into their code, by `go test -overlay`, so that no file is changed, runs the package's own tests
// with each, and prints the faults with which they pass. It owns nothing but temporary files. Faults that change nothing that anybody could observe are listed, with the
// reason, in equivalent/, a file for each package. It exits with status 1 if a fault lived that is not listed.
//
//	go run ./internal/mutate [-sample N] [-seed S] ./internal/report
package main

import (
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
	Packages []string
	// Sample is how many faults of each package are tried, 0 for all; Seed chooses them.
	Sample int
	Seed   uint64
	// Equivalent is the folder that lists, in PACKAGE.txt, faults which nobody could notice.
	Equivalent string
	Out        io.Writer
}

func main() {
	o := Options{Out: os.Stdout}
	flag.IntVar(&o.Sample, "sample", 0, "how many faults of each package to try; 0 for all")
	flag.Uint64Var(&o.Seed, "seed", 1, "which faults are in the sample")
	flag.StringVar(&o.Equivalent, "equivalent", "internal/mutate/equivalent", "folder that lists, in PACKAGE.txt, faults which nobody could notice")
	flag.Parse()
	o.Packages = flag.Args()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	lived, err := run(ctx, o)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case lived > 0:
		os.Exit(1)
	}
}

// run tries the faults of all packages and returns how many lived that are not listed.
func run(ctx context.Context, o Options) (lived int, err error) {
	if len(o.Packages) == 0 {
		return 0, fmt.Errorf("no package was named")
	}
	for _, name := range o.Packages {
		n, err := runPackage(ctx, o, name)
		if err != nil {
			return 0, fmt.Errorf("put faults into %s: %w", name, err)
		}
		lived += n
	}
	return lived, nil
}

// source is a package as `go list` describes it.
type source struct {
	Dir, ImportPath string
	GoFiles         []string
}

func runPackage(ctx context.Context, o Options, name string) (lived int, err error) {
	text, err := exec.CommandContext(ctx, "go", "list", "-json=Dir,ImportPath,GoFiles", name).Output()
	if err != nil {
		return 0, fmt.Errorf("list the package: %w", err)
	}
	var p source
	if err := json.Unmarshal(text, &p); err != nil {
		return 0, fmt.Errorf("read its description: %w", err)
	}
	var faults []fault
	for _, file := range p.GoFiles {
		path := filepath.Join(p.Dir, file)
		code, err := os.ReadFile(path)
		if err != nil {
			return 0, err
		}
		found, err := faultsOf(path, code)
		if err != nil {
			return 0, err
		}
		faults = append(faults, found...)
	}
	listed, err := readEquivalent(filepath.Join(o.Equivalent, filepath.Base(p.ImportPath)+".txt"))
	if err != nil {
		return 0, err
	}
	if o.Sample == 0 {
		for id := range listed {
			if !slices.ContainsFunc(faults, func(f fault) bool { return f.id == id }) {
				fmt.Fprintf(o.Out, "listed as equivalent, but there is no such fault: %s\n", id)
				lived++
			}
		}
	}
	all := len(faults)
	if o.Sample > 0 && o.Sample < all {
		r := rand.New(rand.NewPCG(o.Seed, 0))
		r.Shuffle(all, func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		faults = faults[:o.Sample]
		slices.SortFunc(faults, func(a, b fault) int {
			return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.begin, b.begin), strings.Compare(a.id, b.id))
		})
	}
	began := time.Now()
	if verdict, output, err := test(ctx, name, fault{}, 10*time.Minute); err != nil || verdict != passed {
		return 0, fmt.Errorf("its tests fail without a fault: %w\n%s", err, output)
	}
	// A fault that makes the tests take this much longer is noticed.
	limit := 30*time.Second + 5*time.Since(began)
	count := map[verdict]int{}
	equivalent := 0
	for _, f := range faults {
		if _, known := listed[f.id]; known {
			equivalent++
			continue
		}
		v, _, err := test(ctx, name, f, limit)
		if err != nil {
			return 0, err
		}
		count[v]++
		if v == passed {
			lived++
			fmt.Fprintf(o.Out, "LIVED %s:%d: %s\n", f.path, f.line, f.id)
		}
	}
	fmt.Fprintf(o.Out, "%s: %d of %d faults tried: %d found, %d lived, %d do not compile, %d equivalent\n",
		p.ImportPath, len(faults), all, count[failed], count[passed], count[broken], equivalent)
	return lived, nil
}

// verdict is what tests say of a fault.
type verdict uint8

const (
	passed verdict = iota
	failed
	broken // it does not compile
)

// test runs the tests of a package with a fault; the zero fault is none.
func test(ctx context.Context, name string, f fault, limit time.Duration) (verdict, string, error) {
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
	command := exec.CommandContext(ctx, "go", append(arguments, name)...)
	command.WaitDelay = 10 * time.Second
	output, err := command.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case err == nil:
		return passed, string(output), nil
	case strings.Contains(string(output), "[build failed]"):
		return broken, string(output), nil
	}
	return failed, string(output), nil
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
