package loop_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// tenant returns a pod in a given namespace.
func tenant(namespace, name string, priority int32, options ...build.PodOption) *v1.Pod {
	p := ranks(name, "1m", priority, options...)
	p.Namespace = namespace
	return p
}

// TestOthersBesideExpensivePods creates ten pods of one namespace whose turns cost 300
// ms each, and keeps creating cheap pods in other namespaces. Each cheap pod must be
// decided after little work. No round may cost more than its budget. The expensive pods
// must have their turns, too.
func TestOthersBesideExpensivePods(t *testing.T) {
	c := newCharging(t, nil)
	for i := range 10 {
		c.changes.Set(tenant("heavy", fmt.Sprint("heavy", i), 0, costs(300)))
	}
	r := rand.New(rand.NewPCG(1, 1))
	meter := c.State().Meter()
	arrived, late := map[string]int64{}, []int64{}
	heavy, rounds := 0, 0
	for heavy < 10 {
		if rounds++; rounds > 10_000 {
			t.Fatal("the expensive pods have no turns")
		}
		if r.IntN(4) == 0 && len(arrived) < 20 {
			name := fmt.Sprint("light", rounds)
			c.changes.Set(tenant(fmt.Sprint("light", rounds%7), name, 0))
			arrived[name] = meter.Total()
		}
		before := meter.Total()
		name := c.round()
		if cost := meter.Total() - before; cost > 21*price.Millisecond {
			t.Errorf("round %d cost %d units", rounds, cost)
		}
		if since, light := arrived[name]; light {
			late = append(late, meter.Total()-since)
			delete(arrived, name)
		} else if name != "" && name[0] == 'h' {
			heavy++
		}
	}
	slices.Sort(late)
	t.Logf("%d others, the last decided about after %d units, %d rounds", len(late), late[len(late)-1], rounds)
	if len(late) < 50 || late[len(late)-1] > 50*price.Millisecond {
		t.Errorf("%d others; one was decided about after %d units", len(late), late[len(late)-1])
	}
}

// TestUnfinishedTurnYieldsToHigherPriority creates a pod of higher priority during an
// unfinished turn: it goes first. A pod of lower priority waits, although the turn is
// expensive.
func TestUnfinishedTurnYieldsToHigherPriority(t *testing.T) {
	c := newCharging(t, nil)
	c.changes.Set(tenant("heavy", "heavy", 5, costs(50)))
	c.changes.Set(tenant("other", "low", 0))
	want := []string{"…heavy", "high", "…heavy", "heavy", "low", ""}
	for i := range want {
		if i == 1 {
			c.changes.Set(tenant("other", "high", 10))
		}
		if got := c.round(); got != want[i] {
			t.Fatalf("round %d: %q had its turn, want %q", i, got, want[i])
		}
	}
}

// TestUnfinishedTurnKeepsAnOutsideOrder uses an out-of-tree QueueSort plugin. An
// unfinished turn must continue before any other pod has its turn.
func TestUnfinishedTurnKeepsAnOutsideOrder(t *testing.T) {
	c := newCharging(t, func(c *config.Config) {
		c.Profiles[0].QueueSort = &plugin.QueueSort{Name: "Theirs", Less: c.Profiles[0].QueueSort.Less}
	})
	c.changes.Set(tenant("heavy", "heavy", 0, costs(50)))
	c.changes.Set(tenant("other", "other", 0))
	for i, want := range []string{"…heavy", "…heavy", "heavy", "other", ""} {
		if got := c.round(); got != want {
			t.Fatalf("round %d: %q had its turn, want %q", i, got, want)
		}
	}
}

// TestExpensiveTurnIsTold checks that an event reports the cost of an expensive turn,
// once per namespace.
func TestExpensiveTurnIsTold(t *testing.T) {
	c := newCharging(t, nil)
	c.costly.kind = price.Devices
	for i := range 3 {
		c.changes.Set(tenant("heavy", fmt.Sprint("heavy", i), 0, costs(30)))
	}
	c.changes.Set(tenant("other", "other", 0, costs(3)))
	for c.round() != "" {
	}
	var told []*plan.Deferral
	for i := range c.made.made {
		if d := &c.made.made[i]; d.Deferral != nil {
			told = append(told, d.Deferral)
		}
	}
	if len(told) != 1 || told[0].Units < 30*price.Millisecond || told[0].Units > 31*price.Millisecond || told[0].Kind != price.Devices {
		t.Errorf("told %d times: %+v", len(told), told)
	}
}

// BenchmarkTenantBesideExpensivePods keeps ten pods in one namespace whose turns take
// 300 ms each, and creates cheap pods in another, one after another. It prints the
// median and the 99th percentile of their waiting time, as time and as work. The wait
// of each cheap pod begins with a round that runs without it.
func BenchmarkTenantBesideExpensivePods(b *testing.B) {
	c := newCharging(b, nil)
	c.costly.burns = true
	meter, heavy := c.State().Meter(), 0
	var work []int64
	var took []time.Duration
	for i := range b.N {
		for ; heavy < 10+i/15; heavy++ { // finished pods are replaced
			c.changes.Set(tenant("heavy", fmt.Sprint("heavy", heavy), 0, costs(300)))
		}
		name := fmt.Sprint("light", i)
		began, before := time.Now(), meter.Total()
		c.Once(c.now)
		c.changes.Set(tenant("light", name, 0))
		for made := len(c.made.made); ; made = len(c.made.made) {
			c.Once(c.now)
			if len(c.made.made) > made && c.made.made[made].Pod.Name == name {
				break
			}
		}
		work, took = append(work, meter.Total()-before), append(took, time.Since(began))
	}
	slices.Sort(work)
	slices.Sort(took)
	at := func(percent int) int { return (len(work) - 1) * percent / 100 }
	b.ReportMetric(float64(work[at(50)])/price.Millisecond, "ms-of-work-p50")
	b.ReportMetric(float64(work[at(99)])/price.Millisecond, "ms-of-work-p99")
	b.ReportMetric(float64(took[at(50)].Microseconds())/1000, "ms-p50")
	b.ReportMetric(float64(took[at(99)].Microseconds())/1000, "ms-p99")
}
