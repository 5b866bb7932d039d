package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
)

// comparison is a run of this program.
type comparison struct {
	options
	folder   string
	log      *os.File
	progress io.Writer
	rounds   []report.Round
	notRun   []report.NotRun
}

// compare runs every scene that was requested and prints the result.
func (o *options) compare(ctx context.Context, stdout, stderr io.Writer) (err error) {
	if o.list {
		return o.catalogue(stdout)
	}
	c := &comparison{options: *o, progress: stderr}
	if c.rounds, err = o.earlier(); err != nil {
		return err
	}
	if c.folder, err = os.MkdirTemp("", "berth-compare-"); err != nil {
		return fmt.Errorf("make a folder for the clusters: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(c.folder)) }()
	if c.log, err = os.Create(filepath.Join(c.folder, "compare.log")); err != nil {
		return err
	}
	defer c.log.Close()
	// The results before a failure are printed as well.
	err = c.playAll(ctx)
	return errors.Join(err, c.print(stdout), c.failed())
}

// step reports the progress of the run.
func (c *comparison) step(format string, args ...any) {
	fmt.Fprintf(c.progress, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}

// earlier reads the rounds of an earlier run, to continue it.
func (o *options) earlier() ([]report.Round, error) {
	if !o.resume {
		return nil, nil
	}
	file, err := os.Open(o.csv)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--resume: %w", err)
	}
	defer file.Close()
	rounds, err := report.ReadCSV(file)
	if err != nil {
		return nil, usageError{fmt.Errorf("--resume: %s: %w", o.csv, err)}
	}
	// Rounds that failed are run again.
	return slices.DeleteFunc(rounds, func(r report.Round) bool { return r.Failure != "" }), nil
}

// playAll runs the scenes, with one cluster for those that share a site.
func (c *comparison) playAll(ctx context.Context) error {
	scenes := c.scenes()
	for len(scenes) > 0 {
		n := 1
		for n < len(scenes) && scenes[n].Site == scenes[0].Site {
			n++
		}
		if err := c.playSite(ctx, scenes[:n]); err != nil {
			return err
		}
		scenes = scenes[n:]
	}
	return nil
}

// playSite runs the scenes of one site that have turns left.
func (c *comparison) playSite(ctx context.Context, scenes []*scene.Scene) (err error) {
	var left []*scene.Scene
	for _, s := range scenes {
		if s.Needs != "" {
			c.notRun = append(c.notRun, report.NotRun{Name: s.Name, Needs: s.Needs, Who: report.Berth})
		}
		if len(c.turns(s)) > 0 {
			left = append(left, s)
		}
	}
	if len(left) == 0 {
		return nil
	}
	c.step("%s: starting an API server with %d nodes", left[0].Name, left[0].Site.Nodes)
	st, err := c.openStage(ctx, left[0].Site)
	if err != nil {
		return fmt.Errorf("%s: %w", left[0].Name, err)
	}
	defer func() { err = errors.Join(err, st.close()) }()
	for _, s := range left {
		if err := c.play(ctx, st, s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// turn is a contender's round.
type turn struct {
	contender contender
	number    int // from 1
}

// turns returns the turns that a scene has left, in order. The first contender changes
// from round to round.
func (c *comparison) turns(s *scene.Scene) []turn {
	playing := slices.DeleteFunc(slices.Clone(c.chosenContenders), func(who contender) bool { return !who.plays(s) })
	for _, who := range contenders() {
		if who.restartOnly && who.plays(s) {
			playing = append(playing, who)
		}
	}
	var turns []turn
	for round := range c.options.rounds {
		for i := range playing {
			t := turn{playing[(round+i)%len(playing)], round + 1}
			done := slices.ContainsFunc(c.rounds, func(r report.Round) bool {
				return r.Case == caseOf(s) && r.Contender == t.contender.name && r.Number == t.number
			})
			if !done {
				turns = append(turns, t)
			}
		}
	}
	return turns
}

func caseOf(s *scene.Scene) report.Case {
	return report.Case{
		Kind: string(s.Kind), Name: s.Name, Nodes: s.Site.Nodes, Before: s.Before(), Pods: s.Measured.Count, Floor: s.Floor,
	}
}

// play runs the turns of a scene. The failure of a contender is recorded, and the others
// continue.
func (c *comparison) play(ctx context.Context, st *stage, s *scene.Scene) error {
	if err := st.furnish(ctx, c, s); err != nil {
		return err
	}
	for _, t := range c.turns(s) {
		name := fmt.Sprintf("%s, %d before, round %d of %d: %s", s.Name, s.Before(), t.number, c.options.rounds, t.contender.name)
		r := report.Round{Case: caseOf(s), Contender: t.contender.name, Number: t.number, Time: time.Now()}
		figures, lost, err := c.round(ctx, st, s, t.contender)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			r.Failure = err.Error()
			c.step("%s: failed: %v", name, err)
		default:
			r.Figures, r.LostEvents = figures, lost
			c.step("%s: %.0f pods/s, %.0f with events, %.2f ms of CPU per pod, first binding after %.1f s", name, figures.PodsPerSecond,
				figures.WithEvents, float64(figures.CPUPerPod.Microseconds())/1000, figures.FirstBind.Seconds())
		}
		c.rounds = append(c.rounds, r)
		if err := c.save(c.csv, func(w io.Writer) error { return report.WriteCSV(w, c.rounds) }); err != nil {
			return err
		}
		if err := st.clear(ctx, s); err != nil {
			return fmt.Errorf("clear the cluster for the next round: %w", err)
		}
	}
	return nil
}

// save writes a file that a flag names, atomically.
func (c *comparison) save(name string, write func(w io.Writer) error) error {
	if name == "" {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = errors.Join(write(file), file.Chmod(0o644), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(file.Name()))
	}
	return nil
}

// failed is an error if any round failed.
func (c *comparison) failed() error {
	failed := 0
	for _, r := range c.rounds {
		if r.Failure != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d rounds failed", failed, len(c.rounds))
	}
	return nil
}

// print writes the result in the requested format, and the chart.
func (c *comparison) print(w io.Writer) error {
	if len(c.rounds)+len(c.notRun) == 0 {
		return nil
	}
	summaries := report.Summarise(c.rounds)
	if err := c.save(c.svg, func(w io.Writer) error { return report.Chart(w, summaries) }); err != nil {
		return err
	}
	machine := thisMachine()
	if c.output == "table" {
		fmt.Fprintf(w, "%s\n\n", machine)
		return report.Table(w, summaries, c.notRun)
	}
	object := report.Object(machine, summaries, c.notRun)
	encode := func(v any) ([]byte, error) { return json.MarshalIndent(v, "", "  ") }
	if c.output == "yaml" {
		encode = yaml.Marshal
	}
	text, err := encode(object)
	if err != nil {
		return fmt.Errorf("print the result as %s: %w", c.output, err)
	}
	_, err = fmt.Fprintln(w, string(text))
	return err
}

// catalogue lists the scenes.
func (o *options) catalogue(w io.Writer) error {
	for _, name := range scene.ShapeNames() {
		if _, err := fmt.Fprintf(w, "shape     %s\n", name); err != nil {
			return err
		}
	}
	for _, name := range scene.WorkloadNames() {
		s := scene.Workloads(name, o.scale)[0]
		text := fmt.Sprintf("%d nodes, %d pods before, %d to place", s.Site.Nodes, s.Before(), s.Measured.Count)
		if s.Needs != "" {
			text += "; not run by berth: needs " + s.Needs
		}
		if _, err := fmt.Fprintf(w, "workload  %-80s %s\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
