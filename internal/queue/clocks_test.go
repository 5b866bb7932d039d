package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestClocks plays events of the pod p. After each step it states all data that the queue
// stores about p:
//   - its place
//   - the times in seconds when its wait began, when it could first be tried, and when
//     its backoff ends
//   - its attempts, rejections, and errors in a row
//   - whether the next attempt is due to idleness alone
//
// A step begins with its time. Then follows the event:
//   - arrive
//   - wake: a pod was deleted
//   - pop
//   - other, popother: a pod of higher priority arrives, and is popped
//   - none: Pop returns nothing
//   - reject: the plugin that registered for deletions rejects the pod
//   - affinity: a plugin without registrations rejects the pod
//   - fail
//   - place
//   - unbind: the binding fails
//   - flush: idle pods are moved, and none is popped
func TestClocks(t *testing.T) {
	for _, test := range []struct {
		name  string
		steps [][2]string
	}{
		{"errors", [][2]string{
			{"0.5 arrive", "active 0.5 0.5 - 0/0/0"},
			{"0.6 pop", "deciding 0.5 0.5 - 1/0/0 popped 0.6 since 0.5 #1 false"},
			{"0.7 fail", "backing off after an error 0.7 0.5 1 1/0/1"},
			{"0.9 none", "backing off after an error 0.7 0.5 1 1/0/1"},
			{"1.9 none", "backing off after an error 0.7 0.5 1 1/0/1"},
			{"2 pop", "deciding 0.7 0.5 1 2/0/1 popped 2 since 0.5 #2 false"},
			{"2.2 fail", "backing off after an error 2.2 0.5 4 2/0/2"},
			{"4.99 none", "backing off after an error 2.2 0.5 4 2/0/2"},
			{"5 pop", "deciding 2.2 0.5 4 3/0/2 popped 5 since 0.5 #3 false"},
			{"5 reject", "parked 5 0.5 6 3/1/0"},
			{"5.1 wake", "backing off 5 0.5 6 3/1/0"},
			{"5.2 pop", "deciding 5 0.5 6 4/1/0 popped 5.2 since 0.5 #4 false"},
			{"5.3 fail", "backing off after an error 5.3 0.5 6 4/1/1"},
			{"6.9 none", "backing off after an error 5.3 0.5 6 4/1/1"},
			{"7 pop", "deciding 5.3 0.5 6 5/1/1 popped 7 since 0.5 #5 false"},
			{"7 place", "binding 5.3 0.5 6 5/1/1"},
			{"7.5 unbind", "backing off after an error 7.5 0.5 9 5/1/2"},
			{"9.9 none", "backing off after an error 7.5 0.5 9 5/1/2"},
			{"10 pop", "deciding 7.5 0.5 9 6/1/2 popped 10 since 0.5 #6 false"},
		}},
		{"rejections", [][2]string{
			{"0 arrive", "active 0 0 - 0/0/0"},
			{"0.5 pop", "deciding 0 0 - 1/0/0 popped 0.5 since 0 #1 false"},
			{"0.7 reject", "parked 0.7 0 1 1/1/0"},
			{"0.8 none", "parked 0.7 0 1 1/1/0"},
			{"0.9 wake", "backing off 0.7 0 1 1/1/0"},
			{"1 pop", "deciding 0.7 0 1 2/1/0 popped 1 since 0 #2 false"},
			{"1.2 reject", "parked 1.2 0 3 2/2/0"},
			{"30 wake", "active 1.2 0 3 2/2/0"},
			{"31 pop", "deciding 1.2 0 3 3/2/0 popped 31 since 0 #3 false"},
			{"31.5 reject", "parked 31.5 0 35 3/3/0"},
			{"31.6 wake", "backing off 31.5 0 35 3/3/0"},
			{"31.7 wake", "backing off 31.5 0 35 3/3/0"},
			{"31.8 pop", "deciding 31.5 0 35 4/3/0 popped 31.8 since 0 #4 false"},
		}},
		{"woken while it backs off, and behind another", [][2]string{
			{"0 arrive", "active 0 0 - 0/0/0"},
			{"0 pop", "deciding 0 0 - 1/0/0 popped 0 since 0 #1 false"},
			{"0.4 reject", "parked 0.4 0 1 1/1/0"},
			{"0.5 wake", "backing off 0.4 0 1 1/1/0"},
			{"0.6 other", "backing off 0.4 0 1 1/1/0"},
			{"0.7 popother", "backing off 0.4 0 1 1/1/0"},
			{"1.9 other", "backing off 0.4 0 1 1/1/0"},
			{"2 popother", "active 0.4 0 1 1/1/0"},
			{"2.1 pop", "deciding 0.4 0 1 2/1/0 popped 2.1 since 0 #2 false"},
			{"2.1 reject", "parked 2.1 0 4 2/2/0"},
		}},
		{"idle for five minutes", [][2]string{
			{"0 arrive", "active 0 0 - 0/0/0"},
			{"0 pop", "deciding 0 0 - 1/0/0 popped 0 since 0 #1 false"},
			{"1 affinity", "parked 1 0 2 1/1/0"},
			{"300.9 none", "parked 1 0 2 1/1/0"},
			{"301 none", "parked 1 0 2 1/1/0"},
			{"329 none", "parked 1 0 2 1/1/0"},
			{"331 pop", "deciding 1 0 2 2/1/0 popped 331 since 0 #2 true"},
			{"332 affinity", "parked 332 0 334 2/2/0"},
			{"632 none", "parked 332 0 334 2/2/0"},
			{"662 pop", "deciding 332 0 334 3/2/0 popped 662 since 0 #3 true"},
			{"662 fail", "backing off after an error 662 0 663 3/2/1"},
			{"663.9 none", "backing off after an error 662 0 663 3/2/1"},
			{"664 pop", "deciding 662 0 663 4/2/1 popped 664 since 0 #4 false"},
		}},
		{"idle, and woken before its attempt", [][2]string{
			{"0 arrive", "active 0 0 - 0/0/0"},
			{"0 pop", "deciding 0 0 - 1/0/0 popped 0 since 0 #1 false"},
			{"1 reject", "parked 1 0 2 1/1/0"},
			{"331 flush", "active 1 0 2 1/1/0 idle"},
			{"331 wake", "active 1 0 2 1/1/0 idle"},
			{"331.1 pop", "deciding 1 0 2 2/1/0 popped 331.1 since 0 #2 true"},
			{"331.1 place", "binding 1 0 2 2/1/0"},
		}},
		{"the clock is set back", [][2]string{
			{"1000 arrive", "active 1000 1000 - 0/0/0"},
			{"1000 pop", "deciding 1000 1000 - 1/0/0 popped 1000 since 1000 #1 false"},
			{"1000.5 fail", "backing off after an error 1000.5 1000 1001 1/0/1"},
			{"10 pop", "deciding 1000.5 1000 1001 2/0/1 popped 10 since 1000 #2 false"},
			{"10 fail", "backing off after an error 10 1000 12 2/0/2"},
			{"11 none", "backing off after an error 10 1000 12 2/0/2"},
			{"13 pop", "deciding 10 1000 12 3/0/2 popped 13 since 1000 #3 false"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQueue(t)
			var work, others *plan.Attempt
			for _, step := range test.steps {
				var seconds float64
				var what string
				if _, err := fmt.Sscan(step[0], &seconds, &what); err != nil {
					t.Fatal(err)
				}
				now := at(seconds)
				switch what {
				case "arrive":
					q.Wake(now, arrived(pod("p", 0)))
				case "other":
					q.Wake(now, arrived(pod("other", 100)))
				case "wake":
					q.Wake(now, podDeleted)
				case "pop":
					work = pop(t, q, now, "p")
				case "popother":
					others = pop(t, q, now, "other")
					SettlePod(q, now, others, plan.Decision{Outcome: plan.Terminating})
				case "none":
					pop(t, q, now, "")
				case "flush":
					q.flush(now)
				case "reject":
					reject(q, now, work, "Fit")
				case "affinity":
					reject(q, now, work, "Affinity")
				case "fail":
					fail(q, now, work)
				case "place":
					SettlePod(q, now, work, plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{Pod: work.First(), NodeName: "n"}})
				case "unbind":
					q.fail(now, work.First())
				default:
					t.Fatal(what)
				}
				if err := q.Audit(); err != nil {
					t.Fatal(err)
				}
				got := clocksOf(q, what, work)
				if got != step[1] {
					t.Errorf("%s: %s, want %s", step[0], got, step[1])
				}
			}
		})
	}
}

// clocksOf formats the stored times and counts of the pod p, and the attempt of a pop.
func clocksOf(q *Queue, what string, work *plan.Attempt) string {
	e := q.entries[pod("p", 0).Key()]
	second := func(at time.Time) string {
		if at.IsZero() {
			return "-"
		}
		return fmt.Sprintf("%g", at.Sub(start).Seconds())
	}
	words := []string{e.place.String(), second(e.since), second(e.ready), second(e.until), fmt.Sprintf("%d/%d/%d", e.attempts, e.rejections, e.errors)}
	if e.afterFlush {
		words = append(words, "idle")
	}
	if what == "pop" {
		p := work.Members[0]
		words = append(words, fmt.Sprintf("popped %s since %s #%d %t", second(p.Popped), second(p.Since), p.Attempt, p.AfterFlush))
	}
	return strings.Join(words, " ")
}
