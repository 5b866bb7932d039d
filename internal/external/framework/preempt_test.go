package framework_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultpreemption"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// dryRuns is a plugin with functions for the calls of a dry run; nil functions return
// nil.
type dryRuns struct {
	named
	add    func() *fwk.Status
	remove func() *fwk.Status
	filter func(node fwk.NodeInfo) *fwk.Status
}

func (p *dryRuns) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}

func (p *dryRuns) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p *dryRuns) AddPod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	if p.add == nil {
		return nil
	}
	return p.add()
}

func (p *dryRuns) RemovePod(context.Context, fwk.CycleState, *v1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	if p.remove == nil {
		return nil
	}
	return p.remove()
}

func (p *dryRuns) Filter(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.filter == nil {
		return nil
	}
	return p.filter(node)
}

// preempts schedules a pod that needs the space of another, among four, and may evict it.
func preempts(t *testing.T, p fwk.Plugin) plan.Decision {
	t.Helper()
	w := newWorld(t, 1, p)
	preemption, err := defaultpreemption.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	w.profile.PostFilters = append(w.profile.PostFilters, plugintest.PartsOf(preemption).PostFilter)
	for i := range 4 {
		w.placed(fmt.Sprintf("low%d", i), "n0", "1")
	}
	pod := model.NewPod(w.object("high", "1", func(p *v1.Pod) { p.Spec.Priority = new(int32(100)) }))
	w.profile.Compile(pod)
	return w.decide(pod)
}

// TestFailureEvictsNobody makes plugins fail while pods are put back in a dry run of
// preemption.
func TestFailureEvictsNobody(t *testing.T) {
	inReprieve := func(f func()) func(node fwk.NodeInfo) *fwk.Status {
		return func(node fwk.NodeInfo) *fwk.Status {
			if n := len(node.GetPods()); n > 0 && n < 4 {
				f()
			}
			return nil
		}
	}
	for _, test := range []struct {
		name   string
		plugin *dryRuns
		want   int
		says   string // PostFilter's error
	}{
		{"no failure", &dryRuns{}, 1, ""},
		{"AddPod fails", &dryRuns{add: func() *fwk.Status { return fwk.AsStatus(errors.New("cannot add")) }}, 0, `running AddPod on PreFilter plugin "P": cannot add`},
		{"RemovePod fails", &dryRuns{remove: func() *fwk.Status { return fwk.AsStatus(errors.New("cannot remove")) }}, 0, `running RemovePod on PreFilter plugin "P": cannot remove`},
		{"AddPod panics", &dryRuns{add: func() *fwk.Status { panic("boom") }}, 0, "panicked: boom"},
		{"Filter panics", &dryRuns{filter: inReprieve(func() { panic("boom") })}, 0, "panicked: boom"},
	} {
		test.plugin.named = "P"
		d := preempts(t, test.plugin)
		if len(d.Evictions) != test.want || len(d.Nominations) != test.want {
			t.Errorf("%s: evicted are %v, nominated %v; want %d", test.name, d.Evictions, d.Nominations, test.want)
		}
		if got := fmt.Sprint(d.PostFilterErr); (d.PostFilterErr != nil) != (test.says != "") || !strings.Contains(got, test.says) && test.says != "" {
			t.Errorf("%s: PostFilter ended with %s; want %s", test.name, got, test.says)
		}
	}
}

// TestHangInDryRun has a Filter plugin that goes on reading its NodeInfo after it was
// abandoned in a dry run. The NodeInfo no longer changes, because the dry run has failed.
func TestHangInDryRun(t *testing.T) {
	var calls atomic.Int32
	var stop atomic.Bool
	done := make(chan struct{})
	w := newWorldWithin(t, 2*time.Second, 1) // only the plugin takes this long
	points, err := w.runtime.Adapt(&dryRuns{named: "P", filter: func(node fwk.NodeInfo) *fwk.Status {
		if calls.Add(1) == 1 {
			defer close(done)
		}
		for !stop.Load() {
			_ = node.GetRequested().GetMilliCPU()
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	first, second := w.placed("first", "n0", "1"), w.placed("second", "n0", "1")
	v := w.state.View()
	w.runtime.Begin(v, w.pod("p", "1"))
	defer w.runtime.End()
	slot, _ := v.Slot("n0")
	var draft state.Draft
	dryRun := v.DryRun(&draft)
	for _, pod := range []*model.Pod{first, second} {
		dryRun.Remove(pod.Key())
		verdicts, err := points.Filter.Turn(dryRun.View())
		if err != nil {
			t.Fatal(err)
		}
		code := verdicts.Filter(dryRun.View().Node(slot))
		if err := verdicts.Err(v, nil, code); err == nil || !strings.Contains(err.Error(), "has not returned within") {
			t.Errorf("without %s: %v", pod, err)
		}
	}
	stop.Store(true)
	<-done
	if n := calls.Load(); n != 1 {
		t.Errorf("called %d times; want 1", n)
	}
}
