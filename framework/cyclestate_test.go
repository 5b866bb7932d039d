package framework_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
)

// number is data that counts.
type number struct{ n int }

func (n *number) Clone() fwk.StateData { return &number{n.n} }

func TestCycleStateClonesEverything(t *testing.T) {
	c := framework.NewCycleState()
	data := &number{1}
	c.Write("a", data)
	c.Write("nil", nil)
	pods := framework.NewPodsToActivate()
	c.Write(framework.PodsToActivateKey, pods)
	c.SetRecordPluginMetrics(true)
	c.SetSkipFilterPlugins(sets.New("filter"))
	c.SetSkipScorePlugins(sets.New("score"))
	c.SetSkipPreBindPlugins(sets.New("prebind"))
	c.SetParallelPreBindPlugins(sets.New("parallel"))
	c.SetSkipAllPostFilterPlugins(true)
	c.SetPodGroupSchedulingCycle(framework.NewCycleState())
	c.SetPlacementCycleState(framework.NewCycleState())
	clone := c.Clone()
	data.n = 2
	c.Delete("nil")
	c.SetSkipFilterPlugins(nil)
	if got, err := clone.Read("a"); err != nil || got.(*number).n != 1 {
		t.Error(got, err)
	}
	if got, err := clone.Read("nil"); got != nil || err != nil {
		t.Error(got, err)
	}
	if _, err := c.Read("nil"); !errors.Is(err, fwk.ErrNotFound) {
		t.Error(err)
	}
	if got, err := clone.Read(framework.PodsToActivateKey); err != nil || got != fwk.StateData(pods) {
		t.Error(got, err)
	}
	pods.Map[framework.GetPodNamespacedName(plain("a"))] = &v1.Pod{}
	if !clone.ShouldRecordPluginMetrics() || !clone.GetSkipFilterPlugins().Has("filter") || !clone.GetSkipScorePlugins().Has("score") ||
		!clone.GetSkipPreBindPlugins().Has("prebind") || !clone.GetParallelPreBindPlugins().Has("parallel") || !clone.ShouldSkipAllPostFilterPlugins() ||
		!clone.IsPodGroupSchedulingCycle() || clone.GetPodGroupSchedulingCycle() == nil || clone.GetPlacementCycleState() == nil {
		t.Errorf("the clone lacks something: %+v", clone)
	}
	var none *framework.CycleState
	if none.Clone() != nil || none.ShouldRecordPluginMetrics() {
		t.Error("the clone of nil is something")
	}
	if fresh := framework.NewCycleState(); fresh.IsPodGroupSchedulingCycle() || fresh.GetPodGroupSchedulingCycle() != nil || fresh.GetPlacementCycleState() != nil || fresh.GetSkipFilterPlugins() != nil {
		t.Error("a new state has something")
	}
}

// TestCycleStateFromManyGoroutines is for the race detector.
func TestCycleStateFromManyGoroutines(t *testing.T) {
	c := framework.NewCycleState()
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			key := fwk.StateKey(fmt.Sprint(i))
			for n := range 200 {
				c.Write(key, &number{n})
				c.SetSkipFilterPlugins(sets.New(string(key)))
				if got, err := c.Clone().Read(key); err != nil || got.(*number).n != n {
					t.Error(got, err)
				}
				if c.GetSkipFilterPlugins() == nil {
					t.Error("no plugins")
				}
			}
			c.Delete(key)
		})
	}
	done.Wait()
}
