package main

import (
	"fmt"
	"runtime"
	"time"

	"k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/soak/world"
	berthmetrics "github.com/berth-scheduler/berth/internal/serve/metrics"
)

// soak is a world and the measurements of its scheduler.
type soak struct {
	world    *world.World
	registry metrics.KubeRegistry
	so       totals // far
}

// totals are counters that only grow.
type totals struct {
	changes, decisions, placed                                 int64
	asked, visited, filled                                     int64
	hints, tallyUpdates, talliesBuilt, tallyVisits, termsAsked int64
	applying, deciding                                         time.Duration
}

// Round sums the work of the loop's rounds; it makes the soak an observer of the loop.
func (s *soak) Round(r *loop.Round) {
	s.so.changes += int64(r.Changes)
	s.so.applying += r.Applying
	if r.Attempt != nil {
		s.so.deciding += r.Popping + r.Deciding + r.Settling
		for i := range r.Attempt.Members {
			if r.Attempt.Members[i].Outcome == plan.Placed {
				s.so.placed++
			}
		}
	}
}

// Standing does nothing: the state is read at the end of a day.
func (s *soak) Standing(*loop.Standing) {}

// newSoak builds a world whose scheduler also fills its series.
func newSoak(nodes int, seed uint64) (*soak, error) {
	scheduler, err := config.Default()
	if err != nil {
		return nil, err
	}
	s := &soak{registry: metrics.NewKubeRegistry()}
	series, err := berthmetrics.New(berthmetrics.Config{
		Register: s.registry.Register,
		Enabled:  func(string) bool { return false },
		Now:      func() time.Time { return s.world.Cluster().Now() },
		Version:  "soak",
	})
	if err != nil {
		return nil, err
	}
	s.world, err = world.New(world.Config{Nodes: nodes, Simulation: simulate.Config{
		Scheduler: scheduler, Seed: seed, Observers: []loop.Observer{series.Loop, s}, OnPhase: series.Loop.Enter,
	}})
	return s, err
}

// live runs one day and measures it. It audits everything at the end.
func (s *soak) live(number int) (day, error) {
	d, before, began := newDay(number), s.so, time.Now()
	for range hours {
		if err := s.world.Run(world.Day / hours); err != nil {
			return d, fmt.Errorf("day %d: %w", number, err)
		}
		r, err := s.read()
		if err != nil {
			return d, err
		}
		d.hour(&r)
	}
	took := time.Since(began)
	if err := s.world.Cluster().Audit(); err != nil {
		return d, fmt.Errorf("day %d: %w", number, err)
	}
	s.count()
	end, err := s.read()
	end.took, end.did, end.heap = took, s.so.since(before), heapInUse()
	d.end(&end)
	return d, err
}

// read reads the present state.
func (s *soak) read() (reading, error) {
	families, err := s.registry.Gather()
	if err != nil {
		return reading{}, fmt.Errorf("gather the series: %w", err)
	}
	r := reading{at: s.world.Cluster()}
	for _, f := range families {
		r.series += len(f.GetMetric())
	}
	return r, nil
}

// count reads the counters of work.
func (s *soak) count() {
	l := s.world.Cluster().Loop()
	work, state := l.Engine().Counters(), l.State()
	s.so.decisions, s.so.asked, s.so.visited, s.so.filled = work.Decisions, work.Asked, work.Visited, work.Filled
	s.so.hints, s.so.termsAsked = l.Queue().HintsAsked(), state.TermsAsked()
	s.so.tallyUpdates, s.so.talliesBuilt = state.TallyWork()
	s.so.tallyVisits = state.TallyVisits()
}

func (t totals) since(before totals) totals {
	return totals{
		changes: t.changes - before.changes, decisions: t.decisions - before.decisions, placed: t.placed - before.placed,
		asked: t.asked - before.asked, visited: t.visited - before.visited, filled: t.filled - before.filled,
		hints: t.hints - before.hints, tallyUpdates: t.tallyUpdates - before.tallyUpdates,
		talliesBuilt: t.talliesBuilt - before.talliesBuilt, tallyVisits: t.tallyVisits - before.tallyVisits, termsAsked: t.termsAsked - before.termsAsked,
		applying: t.applying - before.applying, deciding: t.deciding - before.deciding,
	}
}

// heapInUse returns the bytes of all reachable objects, including the cluster's own.
func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // the first runs cleanups, which release interned values
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
