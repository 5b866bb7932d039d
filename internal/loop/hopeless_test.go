package loop_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// newHopeless has nodes with a pod of high priority and two small pods each. Parked pods
// of the same high priority need a whole node: they fit nowhere and can preempt no pod.
func newHopeless(t testing.TB, nodes, parked int) *full {
	t.Helper()
	c, waiting, decider := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	f := &full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Now()}
	f.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: f.commit})
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

// BenchmarkHopelessPreemptors measures how pods that fit nowhere and can preempt no pod
// slow down other pods. The second of two schedulers has 3,000 such pods; both have their
// turns in the same run. Other pods are placed as fast as possible, and each time a pod
// ends, which may help any parked pod. So the parked pods are retried as often as their
// backoffs allow.
func BenchmarkHopelessPreemptors(b *testing.B) {
	nodes, parked := build.Sized(5000), build.Sized(3000)
	alone, beside := newHopeless(b, nodes, 0), newHopeless(b, nodes, parked)
	compareAlone(b, alone, beside, 2*nodes, parked, 1)
}

// turn is the number of pods that a scheduler places before the other's turn. ofRound is
// the number of turns in a round. A round is some seconds long, because backoffs end with
// a whole second.
const turn, ofRound = 500, 40

// cpuTime returns the CPU time of the process so far.
func cpuTime(t testing.TB) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// perPod is the virtual time of a scheduler for each placed pod, independent of the
// machine.
const perPod = 50 * time.Microsecond

// compareAlone places pods in two schedulers in turns. For each placed pod a running pod
// ends. It compares the CPU time of the schedulers and reports their throughput, and the
// failed attempts of waiting pods.
//
// The fastest round of each scheduler counts, because other processes may use the
// machine. For the queues, virtual time passes as if each scheduler placed 20,000 pods
// per second, so the number of attempts does not depend on the machine. running is the
// number of running pods that may end, podsOfAttempt the approximate number of pods in an
// attempt.
func compareAlone(b *testing.B, alone, beside *full, running, waiting, podsOfAttempt int) {
	tried := beside.commit.made[plan.Unschedulable]
	least := map[*full]time.Duration{} // of a round
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
			continue // too short to measure
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
