package simulate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// claims is a plugin with steps. A pod claims the namespaces in its annotations. It holds
// them, writes its name into their label "claimed", waits until their label "ready" has
// the same value, and writes it into the label "used" after the binding. A pod with the
// annotation "permit" waits at Permit until that namespace has the label "open".
type claims struct{ timeout time.Duration }

const claimPlugin = "Claims"

func (c *claims) Name() string { return claimPlugin }

func claimRef(name string) model.Ref { return model.Ref{Kind: model.NamespaceKind, Name: name} }

func label(claim, key, value string) *plan.Write {
	return &plan.Write{
		Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Name: claim, Type: types.StrategicMergePatchType,
		Data: fmt.Appendf(nil, `{"metadata":{"uid":%q,"labels":{%q:%s}}}`, "uid of "+claim, key, value),
	}
}

func claimed(pod *model.Pod) (claims []string) {
	for _, key := range []string{"first", "second"} {
		if claim := pod.Object.Annotations[key]; claim != "" {
			claims = append(claims, claim)
		}
	}
	return claims
}

func (c *claims) Reserve(v state.View, pod *model.Pod, _ int32) ([]plan.Hold, error) {
	var holds []plan.Hold
	for _, claim := range claimed(pod) {
		if holders := v.Holders(claimRef(claim)); len(holders) > 0 {
			return nil, fmt.Errorf("%s is held by %s", claim, holders[0].Pod)
		}
		holds = append(holds, plan.Hold{Plugin: claimPlugin, Object: claimRef(claim)})
	}
	return holds, nil
}

func (c *claims) Permit(_ state.View, p *plan.Placement) (steps []plan.Step, err error) {
	if open := p.Pod.Object.Annotations["permit"]; open != "" {
		steps = append(steps, plan.Step{Wait: &plan.Wait{Timeout: c.timeout, For: []model.Ref{claimRef(open)}}})
	}
	return steps, nil
}

func (c *claims) PreBind(_ state.View, p *plan.Placement) (steps []plan.Step, err error) {
	var refs []model.Ref
	for _, claim := range claimed(p.Pod) {
		refs = append(refs, claimRef(claim))
		steps = append(steps, plan.Step{Write: label(claim, "claimed", fmt.Sprintf("%q", p.Pod.Name)), Undo: label(claim, "claimed", "null")})
	}
	if len(refs) > 0 && p.Pod.Object.Annotations["permit"] == "" {
		steps = append(steps, plan.Step{Wait: &plan.Wait{Timeout: c.timeout, For: refs}})
	}
	return steps, nil
}

func (c *claims) PostBind(_ state.View, p *plan.Placement) (steps []plan.Step, err error) {
	for _, claim := range claimed(p.Pod) {
		steps = append(steps, plan.Step{Write: label(claim, "used", fmt.Sprintf("%q", p.Pod.Name))})
	}
	return steps, nil
}

// Done reports whether the gate is open, or all claims of the pod are ready.
func (c *claims) Done(v state.View, p *plan.Placement) (bool, error) {
	if gate := p.Pod.Object.Annotations["permit"]; gate != "" {
		open := v.State().Namespace(gate)["open"]
		if open == "never" {
			return false, errors.New("it will never open")
		}
		return open != "", nil
	}
	for _, hold := range p.Holds {
		if v.State().Namespace(hold.Object.Name)["ready"] != p.Pod.Name {
			return false, nil
		}
	}
	return true, nil
}

// stepping is a small cluster whose pods have steps.
type stepping struct{ *small }

func newStepping(t *testing.T, faults simulate.Faults, seed uint64) stepping {
	t.Helper()
	config := defaults(t)
	config.Faults, config.Seed = faults, seed
	profile, plugins := config.Scheduler.Profiles[0], &claims{timeout: 10 * time.Second}
	profile.Reserve, profile.Permit = append(profile.Reserve, plugintest.PartsOf(plugins).Reserve), append(profile.Permit, plugintest.PartsOf(plugins).Permit)
	profile.PreBind, profile.PostBind = append(profile.PreBind, plugintest.PartsOf(plugins).PreBind), append(profile.PostBind, plugintest.PartsOf(plugins).PostBind)
	c, err := simulate.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := stepping{&small{t, c, newAuditor(c, oracle.DefaultProfile())}}
	c.SetNode(node("a", "1"))
	return s
}

// claim creates a namespace, or changes its labels.
func (s stepping) claim(name string, labels map[string]string) {
	s.Helper()
	o := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name), Labels: labels}}
	if err := s.c.SetObject(o); err != nil {
		s.Fatal(err)
	}
}

func (s stepping) labels(name string) map[string]string {
	for _, o := range s.c.Objects() {
		if ns, ok := o.(*v1.Namespace); ok && ns.Name == name {
			return ns.Labels
		}
	}
	return nil
}

func (s stepping) pod(name string, annotations map[string]string) {
	p := pod(name, "1", 0)
	p.Annotations = annotations
	s.c.SetPod(p)
}

// expectClaim checks the owner of a namespace, and the number of held objects.
func (s stepping) expectClaim(name, claimed string, held int) {
	s.Helper()
	if got := s.labels(name)["claimed"]; got != claimed || s.c.Loop().State().Held() != held {
		s.Fatalf("%s after the start, %s is claimed by %q and %d objects are held; want %q and %d",
			s.c.Elapsed(), name, got, s.c.Loop().State().Held(), claimed, held)
	}
}

// forgotten checks that no memory is left once the pod is gone.
func (s stepping) forgotten(name string) {
	s.Helper()
	s.c.DeletePod(key(name))
	s.advance(forgotten)
	l := s.c.Loop()
	if n := s.c.Outbox().Remembered(); n != 0 || l.Waiting() != 0 || l.State().Held() != 0 || l.State().Pods() != 0 {
		s.Errorf("%d things are remembered, %d pods wait, %d objects are held, %d pods are there", n, l.Waiting(), l.State().Held(), l.State().Pods())
	}
}

// TestFailedPreBindIsUndone fails the second of two steps. The first is undone, the pod's
// holds are released, and it waits out its error backoff. Once the step succeeds, the pod
// is bound.
func TestFailedPreBindIsUndone(t *testing.T) {
	s := newStepping(t, simulate.Faults{}, 1)
	s.claim("x", nil)
	s.pod("web", map[string]string{"first": "x", "second": "y"})
	s.advance(0)
	s.expect("web", "", "", errorBackoff)
	s.expectClaim("x", "", 0)
	told := s.c.Pod(key("web")).Status.Conditions
	if len(told) != 1 || told[0].Reason != v1.PodReasonSchedulerError || told[0].Message != `running PreBind plugin "Claims": namespaces "y" not found` {
		t.Errorf("the conditions are %+v", told)
	}
	s.claim("y", nil)
	s.advance(2 * time.Second)
	s.expectClaim("x", "web", 2)
	s.expect("web", "", "a", binding)
	s.claim("x", map[string]string{"claimed": "web", "ready": "web"})
	s.advance(0)
	s.expect("web", "", "a", binding)
	s.claim("y", map[string]string{"claimed": "web", "ready": "web"})
	s.advance(0)
	s.expect("web", "a", "a", "")
	if used := s.labels("y")["used"]; used != "web" {
		t.Errorf("after the binding, y is used by %q", used)
	}
	s.expectClaim("x", "web", 2) // while the pod exists
	s.forgotten("web")
}

// TestWaitsEnd ends the wait of a pod in each way.
func TestWaitsEnd(t *testing.T) {
	for _, row := range []struct {
		name  string
		ends  func(s stepping)
		node  string
		place string
	}{
		{"a change", func(s stepping) { s.claim("x", map[string]string{"claimed": "web", "ready": "web"}) }, "a", ""},
		{"another object's change", func(s stepping) { s.claim("other", map[string]string{"ready": "web"}) }, "", binding},
		{"the timeout", func(s stepping) { s.advance(10 * time.Second) }, "", errorBackoff},
		{"cancelled", func(s stepping) {
			if !s.c.Loop().Cancel(s.c.Pod(key("web")).UID, errors.New("its place is needed")) {
				s.Error("it cannot be cancelled")
			}
		}, "", errorBackoff},
		{"the pod is deleted", func(s stepping) { s.c.DeletePod(key("web")) }, "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStepping(t, simulate.Faults{}, 1)
			s.claim("x", nil)
			s.pod("web", map[string]string{"first": "x"})
			s.advance(0)
			s.expect("web", "", "a", binding)
			s.expectClaim("x", "web", 1)
			row.ends(s)
			s.advance(0)
			claimed, held := "web", 1
			if row.place != binding && row.node == "" {
				claimed, held = "", 0
			}
			on := row.node
			if row.place == binding {
				on = "a"
			}
			s.expect("web", row.node, on, row.place)
			s.expectClaim("x", claimed, held)
			s.forgotten("web")
		})
	}
}

// TestPermitEnds lets a pod wait at Permit. An allowed pod is bound. A rejected pod is
// parked under the plugin, as unschedulable.
func TestPermitEnds(t *testing.T) {
	s := newStepping(t, simulate.Faults{}, 1)
	s.claim("gate", nil)
	s.pod("web", map[string]string{"permit": "gate", "first": "x"})
	s.claim("x", nil)
	s.advance(time.Second)
	s.expect("web", "", "a", binding)
	s.expectClaim("x", "", 1)
	s.claim("gate", map[string]string{"open": "never"})
	s.advance(0)
	s.expect("web", "", "", "parked")
	s.expectClaim("x", "", 0)
	v, _ := s.c.Verdict(key("web"))
	if want := "0/1 nodes are available: 1 it will never open."; v.Message() != want || v.Report.Condition.Reason != v1.PodReasonUnschedulable {
		t.Errorf("the message is %q, the condition %+v", v.Message(), v.Report.Condition)
	}
	s.claim("gate", map[string]string{"open": "yes"})
	s.advance(6 * time.Minute) // no event is registered
	s.expect("web", "a", "a", "")
	s.expectClaim("x", "web", 1)
	s.forgotten("web")
}

// TestStopAmidSteps stops or kills the process while one pod waits and another's step is
// in flight. The next process repeats the steps, and both pods are bound.
func TestStopAmidSteps(t *testing.T) {
	for name, end := range map[string]func(s stepping){
		"stop": func(s stepping) { s.c.Stop() },
		"kill": func(s stepping) { s.c.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStepping(t, simulate.Faults{}, 1)
			s.c.SetNode(node("a", "2"))
			s.claim("x", nil)
			s.claim("y", nil)
			s.pod("waits", map[string]string{"first": "x"})
			s.advance(time.Second)
			s.c.SetFaults(simulate.Faults{MaxBindDelay: time.Second})
			s.pod("flies", map[string]string{"first": "y"})
			s.advance(time.Millisecond)
			end(s)
			s.advance(10 * time.Second)
			s.a.forget()
			if err := s.c.Restart(); err != nil {
				t.Fatal(err)
			}
			s.advance(3 * time.Second)
			s.expectClaim("x", "waits", 2)
			s.expectClaim("y", "flies", 2)
			s.claim("x", map[string]string{"claimed": "waits", "ready": "waits"})
			s.claim("y", map[string]string{"claimed": "flies", "ready": "flies"})
			s.advance(5 * time.Second)
			s.expect("waits", "a", "a", "")
			s.expect("flies", "a", "a", "")
		})
	}
}

// TestStepFaults is a seeded simulation of all faults while pods with claims are placed.
// In the end every pod is bound and has its claims, and no hold is left without a pod.
func TestStepFaults(t *testing.T) {
	happened := map[string]int{}
	for seed := range uint64(build.UnlessRaced(20, 3)) {
		random := rand.New(rand.NewPCG(seed, 7))
		s := newStepping(t, simulate.Faults{
			MaxWatchDelay: 300 * time.Millisecond, MaxBindDelay: 300 * time.Millisecond, DuplicatePercent: 10,
			Requests: map[simulate.Fault]int{
				simulate.Conflict: 3, simulate.Forbidden: 3, simulate.Throttled: 3, simulate.Unavailable: 3, simulate.Internal: 3, simulate.Refused: 3,
				simulate.Lost: 3, simulate.Dropped: 3, simulate.TimedOut: 3,
			},
		}, seed)
		s.c.SetNode(node("a", "100"))
		const pods = 15
		for i := range pods {
			s.claim(fmt.Sprint("x", i), nil)
			s.claim(fmt.Sprint("y", i), nil)
			s.pod(fmt.Sprint("web-", i), map[string]string{"first": fmt.Sprint("x", i), "second": fmt.Sprint("y", i)})
		}
		ready := func(slow bool) { // the reaction of another controller to claims
			for _, o := range s.c.Objects() {
				ns, ok := o.(*v1.Namespace)
				if ok && ns.Labels["claimed"] != ns.Labels["ready"] && (!slow || random.IntN(40) == 0) {
					s.claim(ns.Name, map[string]string{"claimed": ns.Labels["claimed"], "ready": ns.Labels["claimed"], "used": ns.Labels["used"]})
				}
			}
		}
		for range 1200 {
			s.advance(100 * time.Millisecond)
			ready(true)
			switch random.IntN(400) {
			case 0:
				s.c.Kill()
			case 1:
				s.c.Stop()
			case 2:
				s.c.Loop().Cancel(s.c.Pod(key(fmt.Sprint("web-", random.IntN(pods)))).UID, errors.New("its place is needed"))
				continue
			default:
				continue
			}
			s.advance(time.Duration(random.IntN(5)) * time.Second)
			s.a.forget()
			if err := s.c.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		for kind, n := range s.c.Happened() {
			happened[kind] += n
		}
		s.c.SetFaults(simulate.Faults{})
		for range 2000 {
			s.advance(100 * time.Millisecond)
			ready(false)
		}
		for i := range pods {
			name := fmt.Sprint("web-", i)
			s.expect(name, "a", "a", "")
			for _, claim := range []string{fmt.Sprint("x", i), fmt.Sprint("y", i)} {
				if got := s.labels(claim)["claimed"]; got != name {
					t.Fatalf("seed %d: %s is bound, and what it claims, %s, is claimed by %q", seed, name, claim, got)
				}
			}
			s.c.DeletePod(key(name))
		}
		s.advance(forgotten)
		l := s.c.Loop()
		if n := s.c.Outbox().Remembered(); n != 0 || l.Waiting() != 0 || l.State().Held() != 0 || l.State().Pods() != 0 {
			t.Fatalf("seed %d: %d things are remembered, %d pods wait, %d objects are held", seed, n, l.Waiting(), l.State().Held())
		}
	}
	for _, kind := range []string{"write: lost", "write: conflict", "write: timed-out", "undo: done", "undo: lost", "PreBind: failed", "PreBind: passed", "PostBind: passed"} {
		if !build.Raced && happened[kind] == 0 {
			t.Errorf("%q has not happened: %v", kind, happened)
		}
	}
}

// TestUnrelatedChangesAskNobody lets 20,000 pods wait for different objects. A change
// checks only the pods that wait for the changed object.
func TestUnrelatedChangesAskNobody(t *testing.T) {
	build.NotRaced(t)
	const pods = 20_000
	s := newStepping(t, simulate.Faults{}, 1)
	n := node("a", "100000")
	n.Status.Allocatable[v1.ResourcePods] = n.Status.Allocatable[v1.ResourceCPU]
	s.c.SetNode(n)
	for i := range pods {
		s.pod(fmt.Sprint("web-", i), map[string]string{"permit": fmt.Sprint("gate-", i)})
	}
	settle := func() {
		if err := s.c.Settle(nil); err != nil {
			t.Fatal(err)
		}
	}
	settle()
	l := s.c.Loop()
	if l.Waiting() != pods || l.WaitsAsked() != pods {
		t.Fatalf("%d pods wait, plugins were asked %d times", l.Waiting(), l.WaitsAsked())
	}
	for i := range 2_000 {
		s.claim(fmt.Sprint("other-", i), map[string]string{"open": "yes"})
		settle()
	}
	if asked := l.WaitsAsked() - pods; asked != 0 {
		t.Errorf("changes that nobody waits for asked plugins %d times", asked)
	}
	for i := range 100 {
		s.claim(fmt.Sprint("gate-", i), map[string]string{"open": "yes"})
	}
	settle()
	if asked := l.WaitsAsked() - pods; asked != 100 || l.Waiting() != pods-100 {
		t.Errorf("100 changes asked plugins %d times, %d pods wait", asked, l.Waiting())
	}
}
