package simulate_test

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// version is one version of a pod.
type version struct {
	uid             types.UID
	resourceVersion string
}

// TestSeriesCountEveryRejection rejects pods at random times, while writes of events fail
// in every transient way. In the end the events of each version of a pod count each of
// its rejections once, with far fewer writes than rejections.
func TestSeriesCountEveryRejection(t *testing.T) {
	build.NotRaced(t)
	const huge, small = 4, 150
	for seed := range uint64(5) {
		r := random.New(seed)
		config := defaults(t)
		config.EventTTL = 100 * 24 * time.Hour // none expires before the end
		s := smallOf(t, config)
		n := node("a", "1000")
		n.Status.Allocatable["pods"] = n.Status.Allocatable["cpu"]
		s.c.SetNode(n)
		s.c.SetFaults(simulate.Faults{MaxBindDelay: 200 * time.Millisecond, Kinds: []commit.RequestKind{commit.Record, commit.Repeat}, Requests: map[simulate.Fault]int{
			simulate.Throttled: 5, simulate.Unavailable: 5, simulate.Internal: 10, simulate.Refused: 5, simulate.Lost: 10, simulate.Dropped: 5, simulate.TimedOut: 2,
		}})
		told, rejections := map[version]int{}, 0
		advance := func(d time.Duration) {
			err := s.c.AdvanceTo(s.c.Now().Add(d), func(round simulate.Round) error {
				if round.Decided && round.Decisions[0].Outcome != plan.Placed {
					pod := round.Decisions[0].Pod
					told[version{pod.UID, pod.Object.ResourceVersion}]++
					rejections++
				}
				return s.a.audit(round)
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for i := range small {
			s.c.SetPod(pod(fmt.Sprint("small-", i), "1", 0))
		}
		for i := range huge {
			s.c.SetPod(pod(fmt.Sprint("huge-", i), "5000", 1))
		}
		advance(time.Minute)
		for i := range small { // each deletion wakes the others, which are rejected again
			s.c.DeletePod(key(fmt.Sprint("small-", i)))
			wait := time.Duration(r.IntN(20_000)) * time.Millisecond
			if r.IntN(30) == 0 {
				wait = 15 * time.Minute
			}
			advance(wait)
		}
		for i := range huge {
			s.c.DeletePod(key(fmt.Sprint("huge-", i)))
		}
		s.c.SetFaults(simulate.Faults{})
		advance(forgotten)
		counted := map[version]int{}
		for _, event := range s.c.Events() {
			if event.Reason == "FailedScheduling" {
				counted[version{event.Subject.UID, event.Subject.ResourceVersion}] += event.Count
			}
		}
		if got, want := fmt.Sprint(counted), fmt.Sprint(told); got != want {
			t.Errorf("seed %d: the events count %s, the rejections are %s", seed, got, want)
		}
		did := s.c.Happened()
		if done := did["record: done"] + did["repeat: done"] - small; rejections < 400 || done > rejections/3 {
			t.Errorf("seed %d: %d rejections took %d writes: %v", seed, rejections, done, did)
		}
	}
}
