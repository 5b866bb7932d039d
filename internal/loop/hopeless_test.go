package loop_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/build"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/plan"
)

// newHopeless has nodes with a pod of high priority and two small ones each, and pods of the same high priority that need a whole node: they fit nowhere and
// can preempt nobody.
func newHopeless(t testing.TB, nodes, parked int) *full {
	t.Helper()
	c, waiting, decider := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	f := &full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Now()}
	f.loop = loop.New(changes, waiting, decider, f.commit)
	high := func(p *v1.Pod) *v1.Pod {
		priority := int32(1000)
		p.Spec.Priority = &priority
		return p
	}
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		changes.Set(build.Node(node, build.Allocatable("cpu=4 memory=32Gi pods=110")))
		changes.Set(high(f.pod(fmt.Sprintf("staying-%d", i), 100, build.NodeName(node))))
		for j := range 2 {
			changes.Set(f.pod(runningName(i+j*nodes), 100, build.NodeName(node)))
		}
	}
	for i := range parked {
		changes.Set(high(f.pod(fmt.Sprintf("hopeless-%d", i), 4000)))
	}
	f.rest()
	if counts := f.loop.Queue().Counts(); counts.Parked != parked || len(f.commit.last.Evictions) > 0 {
		t.Fatalf("%+v, want %d parked pods", counts, parked)
	}
	return f
}

// BenchmarkHopelessPreemptors measures what pods that fit nowhere and can preempt nobody cost the others: of two schedulers one has 3,000 of them, and both
// have their turns in the same run. Other pods are placed as fast as can be, and for each a pod ends, which may help any of those that are parked: they are
// tried as often as their backoffs allow.
func BenchmarkHopelessPreemptors(b *testing.B) {
	nodes, parked := build.Sized(5000), build.Sized(3000)
	alone, beside := newHopeless(b, nodes, 0), newHopeless(b, nodes, parked)
	compareAlone(b, alone, beside, 2*nodes, parked, 1)
}

// turn is how many pods a scheduler places before it is the other's turn, ofRound how many turns are a round: some seconds, as backoffs end with a whole second.
const turn, ofRound = 500, 40

// cpuTime returns how much processor time the process has used.
func cpuTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// perPod is how much time passes for a scheduler with each pod that it places, whatever the machine does besides.
const perPod = 50 * time.Microsecond

// compareAlone places pods in two schedulers in turns, for each a pod ends, and compares the processor time that both take. Of the rounds of each the fastest counts, because others may use the
// machine meanwhile; and time passes for the queues as if each placed 20,000 pods per second, so that there are as many attempts whatever the machine does. It reports how many pods per second each places, and how many attempts of those that wait beside are in vain. running is how many pods run that may
// end, an attempt is about so many pods.
func compareAlone(b *testing.B, alone, beside *full, running, waiting, podsOfAttempt int) {
	tried := beside.commit.made[plan.Unschedulable]
	least := map[*full]time.Duration{} // that a round took
	placedAll := 0
	b.ResetTimer()
	for left := b.N; left > 0; {
		took := map[*full]time.Duration{}
		placed := 0
		for range ofRound {
			n := min(turn, left)
			for _, f := range []*full{alone, beside} {
				began := cpuTime(b)
				for range n {
					f.now = f.now.Add(perPod)
					f.changes.Remove(keyOf(runningName(f.ended)).Ref())
					f.changes.Set(f.pod(runningName(f.ended+running), 100))
					f.ended++
					for placed := f.commit.made[plan.Placed]; f.commit.made[plan.Placed] == placed; {
						f.loop.Once(f.now)
					}
				}
				took[f] += cpuTime(b) - began
			}
			placed, left = placed+n, left-n
		}
		placedAll += placed
		if placed < turn*ofRound && len(least) > 0 {
			continue // too short to say anything
		}
		for f, d := range took {
			if d = d * turn * ofRound / time.Duration(placed); least[f] == 0 || d < least[f] {
				least[f] = d
			}
		}
	}
	rate := func(f *full) float64 { return turn * ofRound / least[f].Seconds() }
	b.ReportMetric(rate(alone), "pods/cpu-s-alone")
	b.ReportMetric(rate(beside), fmt.Sprint("pods/cpu-s-beside-", waiting))
	b.ReportMetric(100*(1-rate(beside)/rate(alone)), "%-lost")
	b.ReportMetric(float64(beside.commit.made[plan.Unschedulable]-tried)/float64(podsOfAttempt)/(perPod*time.Duration(placedAll)).Seconds(), "vain-attempts/s")
}
