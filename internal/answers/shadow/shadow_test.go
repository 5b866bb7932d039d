package shadow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// fixture is a shadow of a cluster of two nodes, a with 4 CPUs and b with 8.
type fixture struct {
	*testing.T
	*Shadow
	in   *Intake
	at   time.Time
	told []Decision
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, in: NewIntake(scheduler.Compile()), at: time.Unix(1000, 0)}
	f.Shadow, err = New(Config{Scheduler: scheduler, Grace: time.Minute, Settle: 2 * time.Second, Report: func(d Decision) { f.told = append(f.told, d) }})
	if err != nil {
		t.Fatal(err)
	}
	f.in.Set(build.Node("a", build.Allocatable("cpu=4 memory=8Gi")))
	f.in.Set(build.Node("b", build.Allocatable("cpu=8 memory=16Gi")))
	f.apply()
	f.Synced()
	return f
}

// apply passes the new changes to the shadow.
func (f *fixture) apply() { f.Apply(f.at, f.in.Drain()) }

// after advances the time.
func (f *fixture) after(d time.Duration) {
	f.at = f.at.Add(d)
	f.Tick(f.at)
}

func (f *fixture) pod(name, cpu string, options ...build.PodOption) *v1.Pod {
	return build.Pod(append(options, build.Named(name), build.Container("cpu="+cpu))...)
}

// bound creates a pod, and then binds it to a node.
func (f *fixture) bound(name, cpu, node string) {
	f.in.Set(f.pod(name, cpu))
	f.in.Set(f.pod(name, cpu, build.NodeName(node)))
}

// check compares the decisions, written "pod verdict[: moved]".
func (f *fixture) check(want ...string) {
	f.Helper()
	f.apply()
	f.after(2 * time.Second)
	var got []string
	for _, d := range f.told {
		line := d.Pod + " " + string(d.Verdict)
		if d.Moved != "" {
			line += fmt.Sprintf(": %s, later %t, first %s", d.Moved, d.Later, d.First)
		}
		got = append(got, line)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		f.Errorf("told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	s := f.Summary()
	if s.Bindings != s.Agree+s.Lesser+s.Contradict+s.Race+s.Failed+s.Open {
		f.Errorf("the counts do not add up: %+v", s)
	}
	for ref, o := range f.objects { // Undone changes must have been repeated.
		if o.pod != nil {
			if node, _, _ := f.state.NodeOf(o.pod.Key()); node != o.pod.NodeName {
				f.Errorf("%v is on node %q, in the state on %q", ref, o.pod.NodeName, node)
			}
		}
	}
}

func TestAgree(t *testing.T) {
	f := newFixture(t)
	f.bound("p", "1", "b")
	f.check("default/p agree")
}

func TestLesser(t *testing.T) {
	f := newFixture(t)
	f.bound("p", "1", "a")
	f.check("default/p lesser")
	if d := f.told[0]; d.Best != "b" || d.Node != "a" || d.Total >= d.BestTotal || d.Feasible != 2 || d.Nodes != 2 {
		t.Errorf("told %+v", d)
	}
	if s := f.Summary(); s.MaxGap != f.told[0].BestTotal-f.told[0].Total || s.GapSum != s.MaxGap {
		t.Errorf("the summary is %+v", s)
	}
}

func TestContradict(t *testing.T) {
	f := newFixture(t)
	f.bound("p", "6", "a")
	f.bound("q", "1", "gone")
	f.check("default/p contradict", "default/q contradict")
	if got := f.told[0].Rejections; len(got) != 1 || got[0] != (Rejection{"NodeResourcesFit", "Insufficient cpu"}) {
		t.Errorf("rejections %+v", got)
	}
	if got := f.told[1].Rejections; len(got) != 1 || got[0].Reason != "the node is not known" {
		t.Errorf("rejections %+v", got)
	}
}

// TestRaceWithAnEarlierChange: the other scheduler had not seen the taint of node a when
// it decided.
func TestRaceWithAnEarlierChange(t *testing.T) {
	f := newFixture(t)
	f.in.Set(f.pod("p", "1", build.NodeSelector("only=a")))
	f.in.Set(build.Node("a", build.Allocatable("cpu=4 memory=8Gi"), build.NodeLabels("only=a")))
	f.in.Set(build.Node("a", build.Allocatable("cpu=4 memory=8Gi"), build.NodeLabels("only=a"), build.Taints("x:NoSchedule")))
	f.in.Set(f.pod("p", "1", build.NodeSelector("only=a"), build.NodeName("a")))
	f.check("default/p race: nodes a changed, later false, first contradict")
	if got := f.Summary().Races["nodes changed"]; got != 1 {
		t.Errorf("races %v", f.Summary().Races)
	}
}

// TestRaceWithALaterChange: the watch delivers a node after the binding to it. Without
// the settle time it would be a contradiction.
func TestRaceWithALaterChange(t *testing.T) {
	f := newFixture(t)
	f.bound("p", "6", "c")
	f.apply()
	f.after(time.Second)
	if len(f.told) > 0 {
		t.Fatalf("told %+v before the disagreement has settled", f.told)
	}
	f.in.Set(build.Node("c", build.Allocatable("cpu=16 memory=32Gi")))
	f.check("default/p race: nodes c new, later true, first contradict")
}

// TestRaceWithABindingShownLater: the other scheduler had assumed q on b when it decided
// about p, and the bindings were stored in the reverse order.
func TestRaceWithABindingShownLater(t *testing.T) {
	f := newFixture(t)
	f.in.Set(f.pod("q", "7"))
	f.bound("p", "1", "a")
	f.in.Set(f.pod("q", "7", build.NodeName("b")))
	f.check("default/q agree", "default/p race: pod default/q bound to b, later true, first lesser")
}

// TestPodsWithoutBinding: pods of other schedulers, and pods created with a node, are no
// bindings.
func TestPodsWithoutBinding(t *testing.T) {
	f := newFixture(t)
	f.in.Set(f.pod("static", "1", build.NodeName("a")))
	other := f.pod("other", "1")
	other.Spec.SchedulerName = "other"
	f.in.Set(other)
	on := other.DeepCopy()
	on.Spec.NodeName = "a"
	f.in.Set(on)
	f.check()
	if s := f.Summary(); s.Bindings != 0 || s.Unseen != 1 {
		t.Errorf("the summary is %+v", s)
	}
}

func TestPlaceable(t *testing.T) {
	f := newFixture(t)
	f.in.Set(f.pod("fits", "1"))
	f.in.Set(f.pod("large", "20"))
	gated := f.pod("gated", "1")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
	f.in.Set(gated)
	f.apply()
	f.after(time.Minute) // first found
	f.check()
	f.after(time.Minute)
	f.check("default/fits placeable")
	if d := f.told[0]; d.Best != "b" || d.PendingSeconds < 120 {
		t.Errorf("told %+v", d)
	}
	f.after(time.Hour)
	f.check("default/fits placeable") // reported once
	if s := f.Summary(); s.Placeable != 1 || s.Pending != 3 {
		t.Errorf("the summary is %+v", s)
	}
	f.in.Set(f.pod("fits", "1", build.NodeName("b")))
	f.check("default/fits placeable", "default/fits agree")
}

// TestCostOfDisagreements: all bindings disagree, and could have been decided in any
// order. The search for races tries a bounded number of states for each.
func TestCostOfDisagreements(t *testing.T) {
	f := newFixture(t)
	pods := build.UnlessRaced(400, 120)
	for i := range pods {
		f.in.Set(f.pod(fmt.Sprintf("p%d", i), "6"))
	}
	for i := range pods {
		f.in.Set(f.pod(fmt.Sprintf("p%d", i), "6", build.NodeName("a")))
		f.apply()
	}
	f.End(f.at)
	s := f.Summary()
	decisions := f.engine.Counters().Decisions
	if s.Contradict != pods || s.Unsearched == 0 || decisions > int64(pods*(1+credit)+maxCredit+maxStatesContradict) {
		t.Errorf("%d decisions, %+v", decisions, s)
	}
	if len(f.steps) > kept || len(f.open) > 0 {
		t.Errorf("%d changes are kept, %d disagreements are open", len(f.steps), len(f.open))
	}
}

func TestIntakeIsBounded(t *testing.T) {
	f := newFixture(t)
	f.in.max = 3
	for range 10 {
		f.in.Set(f.pod("p", "1"))
	}
	if n := len(f.in.Drain()); n != 4 {
		t.Errorf("%d changes, want 3 in their order and the newest of the others", n)
	}
}

func TestWrongConfig(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Scheduler: scheduler}); err == nil {
		t.Error("no error without a grace time and a report")
	}
	_, err = New(Config{Scheduler: scheduler, Grace: 1, Report: func(Decision) {}, SchedulerNames: []string{"mine"}})
	if want := `--scheduler-name "mine": no profile has it; the profiles are ["default-scheduler"]`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestPodThatIsMadeAgainIsJudged: a pod is deleted and another one with its name is
// created. The search for a race undoes and repeats the first change, and must not lose
// the second pod.
func TestPodThatIsMadeAgainIsJudged(t *testing.T) {
	f := newFixture(t)
	second := func(p *v1.Pod) { p.UID = "second" }
	f.bound("web", "1", "b")
	f.check("default/web agree")
	f.bound("p", "1", "a") // open until it is settled
	f.in.Remove(model.PodKey{Namespace: "default", Name: "web"}.Ref())
	f.in.Set(f.pod("web", "1", second))
	f.check("default/web agree", "default/p lesser")
	f.in.Set(f.pod("web", "1", second, build.NodeName("b")))
	f.check("default/web agree", "default/p lesser", "default/web agree")
}

// TestOwnBindingsExplainNothing: without the binding of q the node of p would be among
// the best, but the other scheduler itself made that binding before.
func TestOwnBindingsExplainNothing(t *testing.T) {
	f := newFixture(t)
	f.in.Set(build.Node("b", build.Allocatable("cpu=4 memory=8Gi"))) // like a
	f.in.Set(f.pod("p", "1"))
	f.bound("q", "1", "a")
	f.in.Set(f.pod("p", "1", build.NodeName("a")))
	f.check("default/q agree", "default/p lesser")
}

// TestKeep stores the cluster as it was before a disagreeing binding, even if it has
// changed since. Races are not stored, and lesser nodes only half as often.
func TestKeep(t *testing.T) {
	f := newFixture(t)
	var kept []string
	f.maxKeep = 3
	f.keepObjects = func(d *Decision, objects []runtime.Object) string {
		text := d.Pod + " " + string(d.Verdict) + ":"
		for _, object := range objects {
			switch o := object.(type) {
			case *v1.Pod:
				text += " pod " + o.Name + "@" + o.Spec.NodeName
			case *v1.Node:
				text += " node " + o.Name
			}
		}
		kept = append(kept, text)
		return "file " + d.Pod
	}
	f.bound("small", "1", "b") // the best node
	f.bound("huge", "1", "gone")
	f.bound("later", "1", "b")
	f.apply()
	f.after(2 * time.Second)
	f.bound("lesser", "3", "a")
	f.bound("more", "1", "a")
	f.apply()
	f.after(2 * time.Second)
	want := []string{
		"default/huge contradict: pod huge@ pod small@b node a node b",
		"default/lesser lesser: pod huge@gone pod later@b pod lesser@ pod small@b node a node b",
	}
	if !slices.Equal(kept, want) {
		t.Errorf("kept\n%s\nwant\n%s", strings.Join(kept, "\n"), strings.Join(want, "\n"))
	}
	for _, d := range f.told {
		if (d.Snapshot != "") != (d.Pod == "default/huge" || d.Pod == "default/lesser") {
			t.Errorf("%s is kept in %q", d.Pod, d.Snapshot)
		}
	}
	f.check("default/small agree", "default/later agree", "default/huge contradict", "default/lesser lesser", "default/more lesser")
}
