package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// hopeless has rejected pods that are woken all the time. Each call of storm raises an
// event that may help all of them, and pops every pod that can be popped.
func hopeless(t *testing.T, pods int) (q *Queue, storm func(seconds float64, outcome plan.Outcome) int) {
	t.Helper()
	q = newQueue(t)
	for i := range pods {
		q.Wake(at(0), arrived(pod(fmt.Sprintf("p%d", i), 0)))
	}
	storm = func(seconds float64, outcome plan.Outcome) int {
		now := at(seconds)
		q.Wake(now, podDeleted)
		for popped := 0; ; popped++ {
			for q.Unfinished() {
				q.Wake(now, podDeleted)
			}
			work, ok := q.Pop(now)
			if !ok {
				return popped
			}
			SettlePod(q, now, work, plan.Decision{Outcome: outcome, Rejection: &plan.Rejection{Plugins: []string{"Fit"}}})
		}
	}
	return q, storm
}

// TestEarlyAttemptsInVainAreLimited wakes 3,000 pods a hundred times a second. Before
// their backoffs end, a burst of attempts fails, and then only as many as the limit
// allows. The end of its backoff is the latest time of a pod's attempt.
func TestEarlyAttemptsInVainAreLimited(t *testing.T) {
	q, storm := hopeless(t, 3000)
	if first := storm(0, plan.Unschedulable); first != 3000 {
		t.Fatalf("%d pods are tried first, want all 3000", first)
	}
	early := 0
	for i := 1; i <= 50; i++ { // no backoff is over
		early += storm(float64(i)/100, plan.Unschedulable)
	}
	if want := earlyBurst + int(500*time.Millisecond/earlyEvery); early < want-5 || early > want+5 {
		t.Errorf("%d attempts were early in half a second, want about %d", early, want)
	}
	next, ok := q.Next()
	if !ok || next.Before(at(0.5)) || next.After(at(0.5).Add(earlyEvery)) {
		t.Errorf("the next pod may be tried %v after the start, %t; want within %v of half a second", next.Sub(start), ok, earlyEvery)
	}
	if all := storm(30, plan.Unschedulable); all < 3000 {
		t.Errorf("%d pods are tried when all backoffs have ended, want all 3000", all)
	}
}

// TestEarlyAttemptsThatHelpAreNotLimited: feasible pods are placed at once, however many.
func TestEarlyAttemptsThatHelpAreNotLimited(t *testing.T) {
	_, storm := hopeless(t, 3000)
	storm(0, plan.Unschedulable)
	if placed := storm(0.1, plan.Placed); placed != 3000 {
		t.Errorf("%d pods are placed before their backoffs end, want all 3000", placed)
	}
}

// TestEarlyAttemptsAfterTheClockWasSetBack: failures at a time in the future count no
// longer than a burst takes.
func TestEarlyAttemptsAfterTheClockWasSetBack(t *testing.T) {
	var tries earlyTries
	for range earlyBurst {
		tries.inVain(at(3600), 1)
	}
	if tries.allowed(at(3600)) || tries.allowed(at(0)) {
		t.Error("a pod may be tried early after a burst was in vain")
	}
	if !tries.allowed(at(0).Add(earlyEvery)) {
		t.Error("no pod may be tried early after the clock was set back")
	}
}

// TestEarlyAttemptsOfManyPods: the failure of a group as large as a burst counts as long
// as the failures of all its pods, also after other failures.
func TestEarlyAttemptsOfManyPods(t *testing.T) {
	var tries earlyTries
	tries.inVain(at(0), earlyBurst/2)
	if !tries.allowed(at(0)) {
		t.Error("no pod may be tried early after half a burst was in vain")
	}
	tries.inVain(at(0), 5*earlyBurst)
	for _, row := range []struct {
		at   float64
		want bool
	}{{0, false}, {0.1, false}, {2.4, false}, {2.6, true}} {
		if got := tries.allowed(at(row.at)); got != row.want {
			t.Errorf("after %v s a pod may be tried early: %t, want %t", row.at, got, row.want)
		}
	}
}

// TestEarlyAttemptsOfExpensiveGroups: the failures of groups count by their pods or by
// their work, whichever is more.
func TestEarlyAttemptsOfExpensiveGroups(t *testing.T) {
	for _, row := range []struct {
		pods  int
		units int64
		want  int // attempts until the limit
	}{
		{8, 0, earlyBurst / 8},
		{8, 9 * earlyUnits, earlyBurst/9 + 1},
		{8, 100 * earlyUnits, earlyBurst / 100},
		{1, 1 << 62, 1},
	} {
		var tries earlyTries
		got := 0
		for ; tries.allowed(at(0)); got++ {
			tries.groupInVain(at(0), row.pods, row.units)
		}
		if got != row.want {
			t.Errorf("%d pods at %d units: %d attempts are allowed, want %d", row.pods, row.units, got, row.want)
		}
	}
}
