package simulate_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A parked pod must not wait longer than promptly while it fits somewhere. Other places in
// the queue end by themselves: a backoff, a write in flight.
const promptly = 5 * time.Second

// nothingWaitsInVain lets a time pass in which nothing is disturbed, and checks all the
// while that no parked pod could run for longer than promptly. Preemptors whose victims are
// leaving are left out. judge returns a function for one instant, which returns an error for
// a pod that could run.
func (a *auditor) nothingWaitsInVain(d time.Duration, advance func(time.Duration) error, judge func() func(*v1.Pod) error) error {
	couldRun := map[types.UID]error{}
	for until := a.cluster.Now().Add(d); a.cluster.Now().Before(until); {
		if err := advance(promptly); err != nil {
			return err
		}
		before, check := couldRun, judge()
		couldRun = map[types.UID]error{}
		for _, p := range a.cluster.Pods() {
			if !waits(p) || !a.isParked(p) {
				continue
			}
			err := check(p)
			if err != nil && before[p.UID] != nil {
				return fmt.Errorf("for more than %s: %w", promptly, err)
			}
			couldRun[p.UID] = err
		}
	}
	return nil
}

// byOracle has the oracle judge pods, in view of bindings in flight and of room that is kept.
// Pods that are excused are left out.
func (a *auditor) byOracle(excused func(*v1.Pod) bool) func() func(*v1.Pod) error {
	return func() func(*v1.Pod) error {
		now := a.known()
		return func(p *v1.Pod) error {
			if excused(p) {
				return nil
			}
			return a.fits(now, p)
		}
	}
}

// isParked reports whether only an event can have a pod tried again.
func (a *auditor) isParked(p *v1.Pod) bool {
	d, ok := a.cluster.Loop().Queue().Describe(a.cluster.Now(), keyOf(p))
	return ok && d.Place == "parked" && len(d.Leaving) == 0
}
