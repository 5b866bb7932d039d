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
// while that no parked pod fits somewhere for longer than promptly. Preemptors whose
// victims are leaving are left out, as are pods that are excused.
func (a *auditor) nothingWaitsInVain(d time.Duration, advance func(time.Duration) error, excused func(*v1.Pod) bool) error {
	fits := map[types.UID]error{}
	for until := a.cluster.Now().Add(d); a.cluster.Now().Before(until); {
		if err := advance(promptly); err != nil {
			return err
		}
		now, before := a.known(), fits // with pods whose bindings are in flight, and room that is kept
		fits = map[types.UID]error{}
		for _, p := range now.Pods {
			if !waits(p) || excused(p) || !a.isParked(p) {
				continue
			}
			err := a.fits(now, p)
			if err != nil && before[p.UID] != nil {
				return fmt.Errorf("for more than %s: %w", promptly, err)
			}
			fits[p.UID] = err
		}
	}
	return nil
}

// isParked reports whether only an event can have a pod tried again.
func (a *auditor) isParked(p *v1.Pod) bool {
	d, ok := a.cluster.Loop().Queue().Describe(a.cluster.Now(), keyOf(p))
	return ok && d.Place == "parked" && len(d.Leaving) == 0
}
