package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// step is a part of a package's tests that runs in one process.
type step struct {
	names []string
	took  time.Duration // of the process, without a fault
	limit time.Duration // of the process, with a fault; a slower fault is found
}

// quick is the total time of the first step's tests. Each later step takes up to ten
// times as long. The first step finds most faults.
const quick = 300 * time.Millisecond

// ran matches tests, examples and seeds of fuzz targets with their seconds, and indented,
// with a slash in the name, their subtests.
var ran = regexp.MustCompile(`(?m)^(?:    )?--- (?:PASS|SKIP): (\w+)(/\S*)? \(([0-9.]+)s\)$`)

// stepsOf returns the steps of tests, fast ones first, from the output of a run.
func stepsOf(output string) (steps []step) {
	type timed struct {
		name string
		took time.Duration
	}
	var tests []timed
	// The time of a test excludes its parallel subtests, which are printed after it.
	subtests := time.Duration(0)
	for _, found := range ran.FindAllStringSubmatch(output, -1) {
		seconds, _ := strconv.ParseFloat(found[3], 64)
		took := time.Duration(seconds * float64(time.Second))
		if found[2] == "" {
			tests, subtests = append(tests, timed{found[1], took}), 0
			continue
		}
		subtests += took
		if last := len(tests) - 1; last >= 0 && tests[last].name == found[1] {
			tests[last].took = max(tests[last].took, subtests)
		}
	}
	slices.SortStableFunc(tests, func(a, b timed) int { return cmp.Compare(a.took, b.took) })
	limit, sum := quick, time.Duration(0)
	for i, t := range tests {
		sum += t.took
		if i == 0 || sum > limit {
			for sum > limit {
				limit *= 10
			}
			steps = append(steps, step{})
		}
		last := &steps[len(steps)-1]
		last.names = append(last.names, t.name)
	}
	return steps
}

// measure divides the tests of a binary into steps, and runs each without a fault. If the
// tests exceed the limit, it returns no steps if isLimited, and otherwise an error. A
// failure is an error, too.
func (p *source) measure(ctx context.Context, binary string, limit time.Duration, isLimited bool, patience time.Duration) ([]step, error) {
	began := time.Now()
	passed, output, err := p.run(ctx, binary, 0, limit, "-test.v")
	if err != nil {
		return nil, err
	}
	if !passed && isLimited && time.Since(began) >= limit {
		return nil, nil
	}
	if !passed {
		return nil, fmt.Errorf("its tests fail without a fault:\n%s", output)
	}
	steps := stepsOf(output)
	for i, s := range steps {
		if len(steps) > 1 {
			began = time.Now()
			if passed, output, err = p.run(ctx, binary, 0, slowest, s.only()); err != nil {
				return nil, err
			}
			if !passed {
				return nil, fmt.Errorf("some of its tests, without others, fail without a fault:\n%s", output)
			}
		}
		steps[i].took = time.Since(began)
		steps[i].limit = 5*steps[i].took + patience
	}
	return steps, nil
}

// only returns the flag that selects the tests of a step.
func (s step) only() string { return "-test.run=^(" + strings.Join(s.names, "|") + ")$" }

// timedOut begins go test's message about a timeout.
const timedOut = "panic: test timed out after "

// finds returns the outcome of a fault: whether the tests of a binary fail or time out
// with it.
func (p *source) finds(ctx context.Context, binary string, number int) (outcome, error) {
	for _, s := range p.steps {
		began := time.Now()
		passed, output, err := p.run(ctx, binary, number, s.limit, s.only())
		switch {
		case err != nil:
			return 0, err
		case !passed && (strings.Contains(output, timedOut) || time.Since(began) >= s.limit+grace):
			return late, nil
		case !passed:
			return found, nil
		}
	}
	return lived, nil
}

// grace is how long a process may take to report its timeout before it is killed.
const grace = 10 * time.Second

// run runs tests of a binary in a process of their own, in the package's folder, until
// one fails or the time is over. number is the active fault, or 0 for none. It returns
// whether all tests passed, and their output.
func (p *source) run(ctx context.Context, binary string, number int, limit time.Duration, flags ...string) (passed bool, output string, err error) {
	temporary, err := os.MkdirTemp(filepath.Dir(binary), "temporary")
	if err != nil {
		return false, "", err
	}
	defer os.RemoveAll(temporary)
	over, cancel := context.WithTimeout(ctx, limit+grace)
	defer cancel()
	command := exec.CommandContext(over, binary, slices.Concat([]string{"-test.failfast", "-test.timeout=" + limit.String()}, flags, p.flags)...)
	command.Dir, command.WaitDelay = p.Dir, 10*time.Second
	command.Env = append(os.Environ(), "TMPDIR="+temporary, fmt.Sprint(variable, "=", number))
	text, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return false, "", ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		return false, "", err
	}
	return err == nil, string(text), nil
}
