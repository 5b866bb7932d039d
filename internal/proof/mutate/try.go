package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// outcome is the outcome of a fault.
type outcome uint8

const (
	lived      outcome = iota // the tests pass
	found                     // they fail
	late                      // they time out: the fault is found, but without a reason
	broken                    // it does not compile
	equivalent                // it is listed, so it was not tried
	outcomes
)

// slowest limits the time of a package's tests without a fault and without a time limit.
const slowest = 10 * time.Minute

// over reports whether the time is over. The zero time never is.
func over(end time.Time) bool { return !end.IsZero() && time.Now().After(end) }

// try runs the package's tests with each fault until the time is over, but for at least
// the first `least` faults. It returns the number of faults that were not tried.
func (p *source) try(ctx context.Context, o Options, faults []fault, end time.Time, least int) (left int, err error) {
	if p.isSlow {
		return len(faults), nil
	}
	var common, alone []fault
	for _, f := range faults {
		switch _, known := p.listed[f.id]; {
		case known:
			p.count[equivalent]++
		case f.in == nil:
			alone = append(alone, f)
		default:
			common = append(common, f)
		}
	}
	if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
		fmt.Fprintf(o.Progress, "%s has no tests\n", p.ImportPath)
		return 0, nil
	}
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	began := time.Now()
	binary, in, err := p.build(ctx, folder, common)
	if err != nil {
		return 0, err
	}
	took := time.Since(began)
	if p.steps == nil {
		if p.flags, err = flagsFor(ctx, p.ImportPath); err != nil {
			return 0, err
		}
		if o.Sample > 0 || o.For > 0 {
			p.flags = append(p.flags, p.fewer...)
		}
		limit := slowest
		if o.For > 0 {
			limit = o.Slow
		}
		if p.steps, err = p.measure(ctx, binary, limit, o.For > 0, o.Patience); err != nil {
			return 0, err
		}
		if p.isSlow = p.steps == nil; p.isSlow {
			fmt.Fprintf(o.Progress, "%s is passed over: its tests take longer than %s\n", p.ImportPath, limit)
			return len(faults), nil
		}
	}
	fmt.Fprintf(o.Progress, "%s: %d of %d faults, %d of them compiled at once in %s; its tests take", p.ImportPath, len(faults), p.all, len(common), took.Round(time.Second/10))
	for _, s := range p.steps {
		fmt.Fprintf(o.Progress, " %s", s.took.Round(time.Second/100))
	}
	fmt.Fprintln(o.Progress)

	var mutex sync.Mutex // guards p.count and the output
	return inParallel(ctx, end, least, len(common)+len(alone), func(ctx context.Context, i int) error {
		var f fault
		var result outcome
		var err error
		if i < len(common) {
			f = common[i]
			result, err = p.tryCommon(ctx, binary, in[i], i+1)
		} else {
			f = alone[i-len(common)]
			result, err = p.tryAlone(ctx, f)
		}
		if err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		p.count[result]++
		switch result {
		case lived:
			fmt.Fprintf(o.Out, "LIVED %s:%d: %s\n", f.path, f.line, f.id)
		case late:
			fmt.Fprintf(o.Progress, "late %s:%d: %s\n", f.path, f.line, f.id)
		}
		if n := p.tried() + p.count[broken]; n%100 == 0 {
			fmt.Fprintf(o.Progress, "%s: %d tried\n", p.ImportPath, n)
		}
		return nil
	})
}

// processes is the number of concurrent test processes, if as many processors exist.
const processes = 2

// inParallel runs n tasks until the time is over or one fails; the first ones run even
// after that time. It returns the number of tasks that were not begun.
func inParallel(ctx context.Context, end time.Time, first, n int, do func(context.Context, int) error) (left int, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan int)
	var workers sync.WaitGroup
	for range min(processes, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := range work {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	next := 0
	for ; next < n && (next < first || !over(end)) && ctx.Err() == nil; next++ {
		work <- next
	}
	close(work)
	workers.Wait()
	return n - next, context.Cause(ctx)
}

// tryCommon runs the tests with a fault in the common binary.
func (p *source) tryCommon(ctx context.Context, binary string, in bool, number int) (outcome, error) {
	if !in {
		return broken, nil
	}
	return p.finds(ctx, binary, number)
}

// tryAlone compiles the tests with one fault, and runs them.
func (p *source) tryAlone(ctx context.Context, f fault) (outcome, error) {
	folder, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)
	binary, _, err := p.compile(ctx, folder, map[string][]byte{f.path: f.code})
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return p.tryCommon(ctx, binary, err == nil, 0)
}
