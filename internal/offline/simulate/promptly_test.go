package simulate_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A parked pod must not wait longer than promptly while it fits somewhere. The other
// places in the queue are temporary: a backoff, a write in flight.
const promptly = 5 * time.Second

// nothingWaitsInVain lets time pass without disturbance, and checks meanwhile that no
// parked pod could run for longer than promptly. Preemptors whose victims are terminating
// are left out. judge returns a function for one instant, which returns an error for a
// pod that could run.
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

// byOracle has the oracle judge pods, with bindings in flight and reserved room taken
// into account. Excused pods are left out.
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

// isParked reports whether only an event can trigger a retry of the pod.
func (a *auditor) isParked(p *v1.Pod) bool {
	d, ok := a.cluster.Loop().Queue().Describe(a.cluster.Now(), keyOf(p))
	return ok && d.Place == "parked" && len(d.Leaving) == 0
}
