package framework_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// byRank orders pods by a label, as plugins for quotas and groups do.
type byRank struct {
	named
	compared int
	shown    map[*v1.Pod]bool // the objects that it was given
}

func (p *byRank) Less(a, b fwk.QueuedEntityInfo) bool {
	p.compared++
	rank := func(q fwk.QueuedEntityInfo) string {
		pod := q.(interface{ GetPodInfo() fwk.PodInfo }).GetPodInfo().GetPod()
		if p.shown != nil {
			p.shown[pod] = true
		}
		return pod.Labels["rank"]
	}
	return rank(a) < rank(b)
}

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// ranked returns a queue that a plugin orders, and pods in random order of their ranks.
func ranked(t testing.TB, w *world, sort *plugin.QueueSort, pods int) (*queue.Queue, []*model.Pod) {
	w.profile.QueueSort = sort
	q, err := queue.New(queue.Config{Profiles: []*plugin.Profile{w.profile}, BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ranks := rand.New(rand.NewPCG(1, 1)).Perm(pods)
	all := make([]*model.Pod, pods)
	for i := range all {
		all[i] = w.pod(fmt.Sprint("p", i), "100m", build.Labels(fmt.Sprintf("rank=%06d", ranks[i])))
	}
	return q, all
}

// BenchmarkQueueSort adds 20,000 pods and then pops all of them: in the order of an
// out-of-tree plugin that reads their labels, and of the built-in one.
func BenchmarkQueueSort(b *testing.B) {
	const pods = 20_000
	for _, name := range []string{"PrioritySort", "FromOutside"} {
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, 1)
			sort, external := w.profile.QueueSort, &byRank{named: "ByRank"}
			if name == "FromOutside" {
				points, err := w.runtime.Adapt(external)
				if err != nil {
					b.Fatal(err)
				}
				sort = points.QueueSort
			}
			var pushing, popping time.Duration
			for b.Loop() {
				q, all := ranked(b, w, sort, pods)
				began := time.Now()
				q.Wake(noon, state.Delta{Arrived: all})
				pushed := time.Now()
				for range all {
					work, ok := q.Pop(noon)
					if !ok {
						b.Fatal("a pod is missing")
					}
					work.Conclude(plan.Decision{Outcome: plan.Terminating})
					q.Settle(noon, work)
				}
				pushing, popping = pushing+pushed.Sub(began), popping+time.Since(pushed)
			}
			each := float64(pods * b.N)
			b.ReportMetric(float64(pushing)/each, "ns/push")
			b.ReportMetric(float64(popping)/each, "ns/pop")
			b.ReportMetric(float64(external.compared)/each, "comparisons/pod")
		})
	}
}
