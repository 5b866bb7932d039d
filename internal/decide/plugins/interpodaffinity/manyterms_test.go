package interpodaffinity_test

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// ownTerms are shapes of a pending pod with n terms, all different. i makes the terms of
// different pods differ.
var ownTerms = map[string]func(p *v1.Pod, i, n int){
	"required anti-affinity by host": func(p *v1.Pod, i, n int) {
		for k := range n {
			apart(termWith(host, fmt.Sprintf("k%d-%d", i, k), metav1.LabelSelectorOpExists))(p)
		}
	},
	"required anti-affinity, keys that no node has": func(p *v1.Pod, i, n int) {
		for k := range n {
			apart(termWith(fmt.Sprintf("key-%d-%d", i, k), "app", metav1.LabelSelectorOpExists))(p)
		}
	},
	"required affinity, keys that no node has": func(p *v1.Pod, i, n int) {
		for k := range n {
			near(termWith(fmt.Sprintf("key-%d-%d", i, k), "app", metav1.LabelSelectorOpExists))(p)
		}
	},
	"required affinity that all pods meet": func(p *v1.Pod, i, n int) {
		for k := range n {
			near(termWith(zone, fmt.Sprintf("k%d-%d", i, k), metav1.LabelSelectorOpDoesNotExist))(p)
		}
	},
	"preferred by host, all pods": func(p *v1.Pod, i, n int) {
		for k := range n {
			likes(int32(1+k%100), termWith(host, fmt.Sprintf("k%d-%d", i, k), metav1.LabelSelectorOpDoesNotExist))(p)
		}
	},
	"preferred by zone, few pods": func(p *v1.Pod, i, n int) {
		for k := range n {
			dislikes(int32(1+k%100), term(zone, fmt.Sprintf("app=app-%d", k)))(p)
		}
	},
	"preferred, keys that no node has": func(p *v1.Pod, i, n int) {
		for k := range n {
			likes(1, termWith(fmt.Sprintf("key-%d-%d", i, k), "app", metav1.LabelSelectorOpExists))(p)
		}
	},
}

func termWith(key, label string, operator metav1.LabelSelectorOperator) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{
		TopologyKey: key, NamespaceSelector: &metav1.LabelSelector{},
		LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: operator}}},
	}
}

func (b *bench) withTerms(i, n int, shape func(p *v1.Pod, i, n int)) *model.Pod {
	return b.pending(wearing("app=own"), func(p *v1.Pod) { shape(p, i, n) })
}

// TestOwnTermsCostInProportion decides for the first time about pods with some terms and
// with four times as many, and places them. This allocates at most five times the bytes.
// Label sets are visited once for each topology key, however many terms have it.
func TestOwnTermsCostInProportion(t *testing.T) {
	build.NotRaced(t)
	for name, shape := range ownTerms {
		var bytes [2]uint64
		var visited [2]int64
		for i, n := range []int{500, 2000} {
			b := newBench(t, 200)
			b.pods = 1 << 20
			pod := b.withTerms(i, n, shape)
			before := b.state.TallyVisits()
			bytes[i] = allocated(func() {
				d := b.engine.Decide(b.state.View(), plan.Alone(pod))
				if d.Outcome == plan.Placed {
					b.state.Assume(d.Placement)
				}
			})
			visited[i] = b.state.TallyVisits() - before
			if have := b.state.Sizes().Topologies; have > 3 {
				t.Errorf("%s: %d terms keep %d topologies", name, n, have)
			}
			if err := b.state.Audit(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if bytes[1] > 5*bytes[0]+64<<10 {
			t.Errorf("%s: 500 terms allocate %d bytes, 2,000 terms %d", name, bytes[0], bytes[1])
		}
		if visited[1] > visited[0]+100 {
			t.Errorf("%s: 500 terms visit %d label sets and pods, 2,000 terms %d", name, visited[0], visited[1])
		}
	}
}

func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestWeighedTermsAreBounded decides about pods with many preferred terms, each pod with
// others. The cache for them is bounded in bytes, and is dropped when a namespace that
// they select changes.
func TestWeighedTermsAreBounded(t *testing.T) {
	build.NotRaced(t)
	b := newBench(t, 1000)
	for i := range 60 {
		b.place(t, b.withTerms(i, 2000, ownTerms["preferred by host, all pods"]))
	}
	if have := b.state.WeighedBytes(); have < 1<<20 || have > 34<<20 {
		t.Errorf("the sums of weighed terms use %d bytes", have)
	}
	if err := b.state.Audit(); err != nil {
		t.Error(err)
	}
}

// BenchmarkOwnTerms decides for the first time about a pod with 2,000 terms at 5,000
// nodes with ten pods each.
func BenchmarkOwnTerms(b *testing.B) {
	for name, shape := range ownTerms {
		b.Run(name, func(b *testing.B) {
			c := newBench(b, 5000)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				pod := c.withTerms(i, 2000, shape)
				b.StartTimer()
				c.engine.Decide(c.state.View(), plan.Alone(pod))
			}
		})
	}
}
