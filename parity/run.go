package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/sequence"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// task is one seed of one shape or sequence.
type task struct {
	line int // in the report
	seed uint64
	do   func(seed uint64, told func(what string)) (outcome, error)
	// gates are kube-scheduler's feature gates for it, which are global in a process.
	gates upstream.Gates
}

// outcome is the result of a task.
type outcome struct {
	passed, failed   int
	rejected, scored int
	preempted        int
	differences      []compare.Difference
	example          *cases.Case // the first case with a difference
}

// run runs all tasks, one at a time for each processor, and reports in the order of the
// flags.
func run(ctx context.Context, o options, stderr io.Writer) (*report, error) {
	start := time.Now()
	r, tasks := plan(o)
	outcomes := make([]outcome, len(tasks))
	fmt.Fprintf(stderr, "comparing Berth with kube-scheduler: %s and %s, %s in all\n",
		counted(len(o.shapes), "shape"), counted(len(o.scripts), "sequence"), counted(len(tasks), "seed"))
	bar := newProgress(stderr, len(tasks))
	for _, gates := range []upstream.Gates{upstream.Defaults, upstream.PodGroups, upstream.Trees} {
		if err := runThose(ctx, gates, r, tasks, outcomes, bar); err != nil {
			return nil, err
		}
	}
	bar.clear()
	for at := range tasks {
		r.add(o, &tasks[at], &outcomes[at])
	}
	r.Seconds = time.Since(start).Seconds()
	return r, r.examine(o)
}

// runThose runs the tasks with these feature gates.
func runThose(ctx context.Context, gates upstream.Gates, r *report, tasks []task, outcomes []outcome, bar *progress) error {
	if !slices.ContainsFunc(tasks, func(t task) bool { return t.gates == gates }) {
		return nil
	}
	if err := gates.Set(true); err != nil {
		return err
	}
	next, failures := make(chan int), make(chan error, len(tasks))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for at := range next {
				var err error
				name := fmt.Sprintf("%s, seed %d", r.Lines[tasks[at].line].Name, tasks[at].seed)
				if outcomes[at], err = tasks[at].do(tasks[at].seed, func(what string) { bar.show(name + ": " + what) }); err != nil {
					failures <- fmt.Errorf("%s: %w", name, err)
					cancel()
				}
				bar.done()
			}
		})
	}
	hand(ctx, tasks, gates, next)
	workers.Wait()
	if err := gates.Set(false); err != nil {
		return err
	}
	select {
	case err := <-failures:
		bar.clear()
		return err
	default:
	}
	if ctx.Err() != nil {
		bar.clear()
		return context.Cause(ctx)
	}
	return nil
}

// hand sends the numbers of the tasks with these gates, until the context ends.
func hand(ctx context.Context, tasks []task, gates upstream.Gates, next chan<- int) {
	defer close(next)
	for at := range tasks {
		if tasks[at].gates != gates {
			continue
		}
		select {
		case next <- at:
		case <-ctx.Done():
			return
		}
	}
}

// plan lists the tasks and adds a report line for each shape and sequence.
func plan(o options) (*report, []task) {
	r := &report{}
	var tasks []task
	add := func(name, unit string, s seeds, gates upstream.Gates, do func(seed uint64, told func(what string)) (outcome, error)) {
		r.Lines = append(r.Lines, line{Name: name, Unit: unit})
		for seed := s.first; ; seed++ {
			tasks = append(tasks, task{len(r.Lines) - 1, seed, do, gates})
			if seed == s.last {
				return
			}
		}
	}
	for _, s := range o.shapes {
		add(s.Name, "pods × nodes", o.seeds, upstream.Defaults, func(seed uint64, _ func(string)) (outcome, error) { return compareCase(s, seed, o.pair) })
	}
	for _, s := range o.scripts {
		add(s.Name, "decisions", o.runs, s.Gates(), func(seed uint64, told func(string)) (outcome, error) { return playSequence(s, seed, o.pair, told) })
	}
	return r, tasks
}

func compareCase(s cases.Shape, seed uint64, pair compare.Pair) (outcome, error) {
	tc := s.Draw(seed)
	c, err := pair.Case(tc)
	if err != nil {
		return outcome{}, err
	}
	made := outcome{passed: c.Passed, failed: c.Failed, rejected: c.Rejected, scored: c.Scored, preempted: c.Preempted, differences: c.Differences}
	if c.Failed > 0 {
		made.example = &tc
	}
	return made, nil
}

func playSequence(s sequence.Script, seed uint64, pair compare.Pair, told func(what string)) (outcome, error) {
	c, err := sequence.Run(s, seed, pair, func(decisions, created, pods int) {
		told(fmt.Sprintf("%d of %d pods created, %s compared", created, pods, counted(decisions, "decision")))
	})
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		passed: c.Passed, failed: c.Failed, rejected: c.Rejected, scored: c.Scored, preempted: c.Preempted, differences: c.Differences, example: c.Before,
	}, nil
}

// progress shows the progress as a line on a terminal. Elsewhere it prints a line at
// intervals, so a long run can be followed.
type progress struct {
	w        io.Writer
	terminal bool
	total    int
	mu       sync.Mutex
	made     int
	said     time.Time
	every    time.Duration
	last     string // last text shown
}

func newProgress(w io.Writer, total int) *progress {
	p := &progress{w: w, total: total, said: time.Now(), every: 20 * time.Second}
	if file, ok := w.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(file.Fd())) {
		p.terminal, p.every = true, 100*time.Millisecond
	}
	return p
}

// done counts one seed.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	p.say("")
}

// show shows the progress of one seed.
func (p *progress) show(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say("; " + what)
}

func (p *progress) say(what string) {
	if time.Since(p.said) < p.every {
		return
	}
	p.said = time.Now()
	text := fmt.Sprintf("comparing: %d of %d seeds done%s", p.made, p.total, what)
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	fmt.Fprintf(p.w, "\r%-*s", len(p.last), text)
	p.last = text
}

func (p *progress) clear() {
	if p.terminal {
		fmt.Fprintf(p.w, "\r%*s\r", len(p.last), "")
	}
}
