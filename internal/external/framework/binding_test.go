package framework_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// binds is a plugin from Reserve to PostBind that records its calls.
type binds struct {
	named
	calls   *[]string
	does    map[string]*fwk.Status // by point
	timeout time.Duration
	alike   bool
	exits   string // the point at which it ends its goroutine
}

func (p *binds) call(point string, pod *v1.Pod, node string) *fwk.Status {
	text := p.Name() + " " + point
	if pod.Spec.NodeName != node || node != "n0" {
		text += " for a pod on " + pod.Spec.NodeName
	}
	*p.calls = append(*p.calls, text)
	if p.exits == point {
		runtime.Goexit()
	}
	pod.Annotations = map[string]string{"written": "by a plugin"}
	return p.does[point]
}

func (p *binds) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call("Reserve", pod, node)
}
func (p *binds) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) {
	p.call("Unreserve", pod, node)
}
func (p *binds) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.Status, time.Duration) {
	return p.call("Permit", pod, node), p.timeout
}
func (p *binds) PreBindPreFlight(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return &fwk.PreBindPreFlightResult{AllowParallel: p.alike}, p.call("PreBindPreFlight", pod, node)
}
func (p *binds) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call("PreBind", pod, node)
}
func (p *binds) Bind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	return p.call("Bind", pod, node)
}
func (p *binds) PostBind(_ context.Context, state fwk.CycleState, pod *v1.Pod, node string) {
	p.call("PostBind", pod, node)
	if a, err := state.Read(public.PodsToActivateKey); err == nil {
		a := a.(*public.PodsToActivate)
		a.Lock()
		defer a.Unlock()
		a.Map["ns/after"] = &v1.Pod{}
		a.Map["ns/after"].Name = "after"
	}
}

// carryOut runs the calls of a placement's steps as commit does, and returns the result.
func carryOut(p *plan.Placement) string {
	ctx := context.Background()
	bound := false
	for i, step := range p.Steps {
		if step.Call == nil || bound && step.Stage == plan.Bind {
			continue
		}
		result := step.Call.(commit.Call).Run(ctx)
		bound = bound || step.Stage == plan.Bind && result.Err == nil && !result.Skipped
		if result.Err != nil {
			for _, undo := range slices.Backward(p.Steps[:i+1]) {
				if undo.UndoCall != nil {
					undo.UndoCall.(commit.Call).Run(ctx)
				}
			}
			return fmt.Sprintf("%s: %v (rejected: %v)", step.Stage, result.Err, result.Rejected)
		}
	}
	return fmt.Sprintf("bound by a plugin: %v", bound)
}

// TestFromReserveToPostBind has two plugins; the second returns each status at each
// point. It compares the calls in order.
func TestFromReserveToPostBind(t *testing.T) {
	at := func(point string, s *fwk.Status) map[string]*fwk.Status { return map[string]*fwk.Status{point: s} }
	const decided = "A Reserve,B Reserve,A Permit,B Permit,"
	const before = decided + "A PreBindPreFlight,B PreBindPreFlight,"
	const undone = ",B Unreserve,A Unreserve"
	for _, test := range []struct {
		does  map[string]*fwk.Status
		want  string
		calls string
	}{
		{nil, "bound by a plugin: true", before + "A PreBind,B PreBind,A Bind,A PostBind,B PostBind"},
		{at("Reserve", status(fwk.Unschedulable, "no")), "0/1 nodes are available: 1 no. B", "A Reserve,B Reserve" + undone},
		{at("Reserve", fwk.AsStatus(errors.New("broken"))), `failed: running Reserve plugin "B": broken`, "A Reserve,B Reserve" + undone},
		{at("Reserve", status(fwk.Skip)), `failed: running Reserve plugin "B": returned Skip at Reserve`, "A Reserve,B Reserve" + undone},
		{at("Permit", status(fwk.Unschedulable, "no")), "0/1 nodes are available: 1 no. B", strings.TrimSuffix(decided, ",") + undone},
		{at("Permit", status(fwk.Pending, "later", "or never")), "0/1 nodes are available: 1 later, 1 or never. B", strings.TrimSuffix(decided, ",") + undone},
		{at("Permit", fwk.AsStatus(errors.New("broken"))), `failed: running Permit plugin "B": broken`, strings.TrimSuffix(decided, ",") + undone},
		{at("PreBindPreFlight", status(fwk.Skip)), "bound by a plugin: true", before + "A PreBind,A Bind,A PostBind,B PostBind"},
		{at("PreBindPreFlight", fwk.AsStatus(errors.New("broken"))), `Reserve: running PreBindPreFlight "B": broken (rejected: false)`, strings.TrimSuffix(before, ",") + undone},
		{at("PreBindPreFlight", status(fwk.Unschedulable)), `Reserve: PreBindPreFlight B returned "Unschedulable", which is unsupported. It is supposed to return Success, Skip, or Error status (rejected: false)`, strings.TrimSuffix(before, ",") + undone},
		{at("PreBind", fwk.AsStatus(errors.New("broken"))), `PreBind: running PreBind plugin "B": broken (rejected: false)`, before + "A PreBind,B PreBind" + undone},
		{at("PreBind", status(fwk.Unschedulable, "no")), `PreBind: no (rejected: true)`, before + "A PreBind,B PreBind" + undone},
	} {
		var calls []string
		w := newWorld(t, 1, &binds{named: "A", calls: &calls}, &binds{named: "B", calls: &calls, does: test.does})
		pod := w.pod("p", "1")
		d := w.decide(pod)
		got := describe(&d)
		if d.Outcome == plan.Placed {
			got = carryOut(&d.Placement)
		}
		if !strings.HasPrefix(got, test.want) || strings.Join(calls, ",") != test.calls {
			t.Errorf("%s; want %s\n%s; want\n%s", got, test.want, strings.Join(calls, ","), test.calls)
		}
		if pod.Object.Annotations != nil || pod.Object.Spec.NodeName != "" {
			t.Error("a plugin has written to the state's pod")
		}
		if active := strings.HasPrefix(got, "bound"); active != slices.Equal(w.activated, []string{"after"}) {
			t.Errorf("%s: activated %v", got, w.activated)
		}
	}
}

// TestExitInPreBind has two PreBind plugins that run in parallel; one ends its goroutine.
func TestExitInPreBind(t *testing.T) {
	var calls, others []string
	w := newWorld(t, 1, &binds{named: "A", calls: &calls, alike: true, exits: "PreBind"}, &binds{named: "B", calls: &others, alike: true})
	d := w.decide(w.pod("p", "1"))
	want := `PreBind: running PreBind plugin "A": plugin "A" at PreBind: called runtime.Goexit (rejected: false)`
	if got := carryOut(&d.Placement); got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// TestExitInUnreserve makes the first Unreserve end its goroutine, in the turn and during
// the binding. The others are still called.
func TestExitInUnreserve(t *testing.T) {
	for point, want := range map[string]string{
		"Permit":  "A Reserve,B Reserve,A Permit,B Unreserve,A Unreserve",
		"PreBind": "A Reserve,B Reserve,A Permit,B Permit,A PreBindPreFlight,B PreBindPreFlight,A PreBind,B Unreserve,A Unreserve",
	} {
		var calls []string
		does := map[string]*fwk.Status{point: fwk.AsStatus(errors.New("broken"))}
		w := newWorld(t, 1, &binds{named: "A", calls: &calls, does: does}, &binds{named: "B", calls: &calls, exits: "Unreserve"})
		d := w.decide(w.pod("p", "1"))
		if d.Outcome == plan.Placed {
			ended := make(chan struct{})
			go func() { // as commit does
				defer close(ended)
				carryOut(&d.Placement)
			}()
			<-ended
		}
		if got := strings.Join(calls, ","); got != want {
			t.Errorf("an error at %s: calls: %s; want %s", point, got, want)
		}
	}
}

// failingReserve is a built-in plugin.
type failingReserve struct{}

func (failingReserve) Name() string { return "BuiltIn" }
func (failingReserve) Reserve(state.View, *model.Pod, int32) ([]plan.Hold, error) {
	return nil, errors.New("broken")
}

// TestBuiltInReserveFails makes a built-in plugin fail at Reserve before the out-of-tree
// plugins run. Their Unreserve is still called.
func TestBuiltInReserveFails(t *testing.T) {
	var calls []string
	w := newWorld(t, 1, &binds{named: "A", calls: &calls}, &binds{named: "B", calls: &calls})
	w.profile.Reserve = slices.Insert(w.profile.Reserve, 0, plugintest.PartsOf(failingReserve{}).Reserve)
	d := w.decide(w.pod("p", "1"))
	if got, want := describe(&d), `failed: running Reserve plugin "BuiltIn": broken`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got, want := strings.Join(calls, ","), "B Unreserve,A Unreserve"; got != want {
		t.Errorf("calls: %s; want %s", got, want)
	}
}

// TestPermitWaits makes a plugin wait, for less and for more than the maximum.
func TestPermitWaits(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{time.Minute: time.Minute, time.Hour: 15 * time.Minute, 0: 1, -1: 1} {
		var calls []string
		w := newWorld(t, 1, &binds{named: "A", calls: &calls, does: map[string]*fwk.Status{"Permit": status(fwk.Wait)}, timeout: timeout})
		d := w.decide(w.pod("p", "1"))
		var waits []plan.Step
		for _, step := range d.Placement.Steps {
			if step.Wait != nil {
				waits = append(waits, step)
			}
		}
		if len(waits) != 1 || waits[0].Stage != plan.Permit || waits[0].Plugin != "A" || waits[0].Wait.Timeout != want {
			t.Errorf("%v: %+v; want %v", timeout, waits, want)
		}
	}
}

// TestBindInOrder makes the first Bind plugin skip.
func TestBindInOrder(t *testing.T) {
	for _, test := range []struct {
		a, b *fwk.Status
		want string
	}{
		{status(fwk.Skip), nil, "bound by a plugin: true"},
		{status(fwk.Skip), status(fwk.Skip), "bound by a plugin: false"},
		{fwk.AsStatus(errors.New("broken")), nil, `Bind: running Bind plugin "A": broken (rejected: false)`},
		{status(fwk.Unschedulable, "no"), nil, `Bind: no (rejected: true)`},
		{status(77), nil, `Bind: running Bind plugin "A": returned the status code 77 at Bind`},
	} {
		var calls []string
		w := newWorld(t, 1, &binds{named: "A", calls: &calls, does: map[string]*fwk.Status{"Bind": test.a}},
			&binds{named: "B", calls: &calls, does: map[string]*fwk.Status{"Bind": test.b}})
		d := w.decide(w.pod("p", "1"))
		if got := carryOut(&d.Placement); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
}
