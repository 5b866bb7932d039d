package app

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// logAt returns a logger of a verbosity, and the lines that it has got, without their
// headers.
func logAt(t *testing.T, verbosity int) (klog.Logger, func() []string) {
	t.Helper()
	log := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(verbosity)))
	return log, func() (lines []string) {
		for _, e := range log.GetSink().(ktesting.Underlier).GetBuffer().Data() {
			line := fmt.Sprintf("%d %s", e.Verbosity, e.Message)
			for i := 0; i+1 < len(e.ParameterKVList); i += 2 {
				line += fmt.Sprintf(" %s=%v", e.ParameterKVList[i], e.ParameterKVList[i+1])
			}
			lines = append(lines, line)
		}
		return lines
	}
}

// logsOf runs the loop until it is idle, on two nodes with room for a pod, with the
// logger of a verbosity.
func logsOf(t *testing.T, verbosity int, objects func(*simulate.Cluster)) []string {
	t.Helper()
	gates, err := feature.With(map[string]bool{"GenericWorkload": true})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := config.Read(config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	counted, err := metrics.New(metrics.Config{Register: componentmetrics.NewKubeRegistry().Register, Enabled: func(string) bool { return true }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	log, lines := logAt(t, verbosity)
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Observers: []loop.Observer{newVerbose(log, counted.Loop.Phases), counted.Loop}, OnPhase: counted.Loop.Enter})
	if err != nil {
		t.Fatal(err)
	}
	c.SetNode(build.Node("a", build.Allocatable("cpu=2 memory=4Gi pods=9")))
	c.SetNode(build.Node("b", build.Allocatable("cpu=4 memory=4Gi pods=9")))
	objects(c)
	if err := c.Settle(nil); err != nil {
		t.Fatal(err)
	}
	return lines()
}

// inShop returns a pod of the namespace shop.
func inShop(name string, options ...build.PodOption) *v1.Pod {
	return build.Pod(append(options, build.InNamespace("shop"), build.Named(name))...)
}

// TestAttemptsAreLogged: attempts, scores and moves have kube-scheduler's texts at its
// levels.
func TestAttemptsAreLogged(t *testing.T) {
	arrive := func(c *simulate.Cluster) {
		c.SetPod(inShop("web", build.Container("cpu=1")))
		c.SetPod(inShop("large", build.Container("cpu=9")))
		c.SetPod(inShop("gated", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}} }))
	}
	const (
		attempt = "3 Attempting to schedule pod pod=shop/web"
		failed  = "3 Pod moved to an internal scheduling queue pod=shop/large event=ScheduleAttemptFailure queue=Unschedulable unschedulable plugins=[NodeResourcesFit]"
		short   = "4 Best nodes for pod pod=shop/web feasibleNodes=2 nodes=b "
		moved   = "5 Entity moved to an internal scheduling queue type=pod entity=shop/web event=UnscheduledPodAdd queue=Active"
		gated   = "5 Entity moved to an internal scheduling queue, because it is gated type=pod entity=shop/gated event=UnscheduledPodAdd queue=Unschedulable"
		scored  = "10 Plugin scored node for pod pod=shop/web plugin=NodeResourcesFit node=a score="
		summed  = "10 Calculated node's final score for pod pod=shop/web node=b score="
	)
	for verbosity, want := range map[int][]string{
		2: nil, 3: {attempt, failed}, 4: {attempt, failed, short}, 5: {attempt, failed, short, moved, gated}, 10: {attempt, failed, moved, gated, scored, summed},
	} {
		lines := logsOf(t, verbosity, arrive)
		for _, line := range []string{attempt, failed, short, moved, gated, scored, summed} {
			has := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, line) })
			if has != slices.Contains(want, line) {
				t.Errorf("-v=%d: logged is %v: %s\n%s", verbosity, has, line, strings.Join(lines, "\n"))
			}
		}
		if verbosity == 2 && len(lines) > 0 {
			t.Errorf("-v=2: %q", lines)
		}
	}
}

// TestScoresAddUp: the logged scores of a node are weighted, and their sum is the node's.
func TestScoresAddUp(t *testing.T) {
	lines := logsOf(t, 10, func(c *simulate.Cluster) { c.SetPod(inShop("web", build.Container("cpu=1"))) })
	sums, finals := map[string]int{}, map[string]int{}
	for _, line := range lines {
		var plugin, node string
		var score int
		if n, _ := fmt.Sscanf(line, "10 Plugin scored node for pod pod=shop/web plugin=%s node=%s score=%d", &plugin, &node, &score); n == 3 {
			sums[node] += score
		}
		if n, _ := fmt.Sscanf(line, "10 Calculated node's final score for pod pod=shop/web node=%s score=%d", &node, &score); n == 2 {
			finals[node] = score
		}
	}
	if len(finals) != 2 || sums["a"] != finals["a"] || sums["b"] != finals["b"] || finals["b"] <= finals["a"] {
		t.Errorf("sums %v, totals %v\n%s", sums, finals, strings.Join(lines, "\n"))
	}
}

// TestGroupsAreLogged: a group is announced once, before its members.
func TestGroupsAreLogged(t *testing.T) {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "g"}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	member := func(name, cpu string) *v1.Pod {
		pod := build.Pod(build.InNamespace("ml"), build.Named(name), build.Container("cpu="+cpu))
		pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new("g")}
		return pod
	}
	for _, row := range []struct{ cpu, result string }{
		{"1", "2 Successfully scheduled a pod group podGroup=ml/g scheduledPods=2 unschedulablePods=0"},
		{"9", "2 Unable to schedule a pod group podGroup=ml/g unschedulablePods=2 err="},
	} {
		lines := logsOf(t, 5, func(c *simulate.Cluster) {
			if err := c.SetObject(group); err != nil {
				t.Fatal(err)
			}
			c.SetPod(member("one", "1"))
			c.SetPod(member("two", row.cpu))
		})
		at := -1
		for _, want := range []string{
			"3 Attempting to schedule pod group podGroupType=podgroup podGroup=ml/g", "4 Attempting to schedule a pod belonging to a pod group podGroup=ml/g pod=ml/one",
			row.result, "5 Entity moved to an internal scheduling queue type=podgroup entity=ml/g event=",
		} {
			found := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) })
			if found <= at {
				t.Errorf("line %d, want it after line %d: %s\n%s", found, at, want, strings.Join(lines, "\n"))
			}
			at = found
		}
	}
}

// TestUnfinishedGroupsAreLogged: a member without a decision is not logged, and another
// group between the rounds of an attempt is announced.
func TestUnfinishedGroupsAreLogged(t *testing.T) {
	log, lines := logAt(t, 4)
	l := newVerbose(log, nil)
	round := func(group string, outcomes ...plan.Outcome) {
		g := &model.PodGroup{Key: model.GroupKey{Namespace: "ml", Name: group}}
		a := &plan.Attempt{Group: g, Outcome: plan.Placed}
		r := &loop.Round{}
		for i, outcome := range outcomes {
			d := plan.Decision{Member: plan.Alone(model.NewPod(inShop(group + "-" + strconv.Itoa(i)))), Outcome: outcome}
			d.Group, r.Turn, r.Unfinished = g, d.Pod, outcome == plan.Unfinished
			l.Decided(nil, state.View{}, &d, 1, 0)
			a.Members = append(a.Members, d)
		}
		if !r.Unfinished {
			r.Attempt = a
		}
		l.Round(r)
	}
	for range 3 {
		round("large", plan.Unfinished)
	}
	round("large", plan.Placed, plan.Unfinished)
	round("urgent", plan.Placed)
	got, want := lines(), []string{
		"3 Attempting to schedule pod group podGroupType=podgroup podGroup=ml/large",
		"4 Attempting to schedule a pod belonging to a pod group podGroup=ml/large pod=shop/large-0",
		"3 Attempting to schedule pod group podGroupType=podgroup podGroup=ml/urgent",
		"4 Attempting to schedule a pod belonging to a pod group podGroup=ml/urgent pod=shop/urgent-0",
		"2 Successfully scheduled a pod group podGroup=ml/urgent scheduledPods=1 unschedulablePods=0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSlowAttemptsAreLogged: an attempt that took 100 ms in all its rounds is logged with
// its phases.
func TestSlowAttemptsAreLogged(t *testing.T) {
	pod := inShop("web")
	pod.UID = "u"
	turn := model.NewPod(pod)
	log, lines := logAt(t, 2)
	l := newVerbose(log, func(whole time.Duration) map[string]time.Duration {
		return map[string]time.Duration{"Filter": whole - time.Millisecond, "PreFilter": time.Millisecond}
	})
	attempt := func(took time.Duration, rounds int) {
		l.Round(&loop.Round{Turn: turn, Deciding: took, Settling: time.Millisecond, Attempt: &plan.Attempt{Rounds: rounds, Members: []plan.Decision{{Member: plan.Alone(turn)}}}})
	}
	attempt(98*time.Millisecond, 0)
	if got := lines(); len(got) > 0 {
		t.Errorf("at 99 ms: %q", got)
	}
	l.Round(&loop.Round{Turn: turn, Deciding: 60 * time.Millisecond, Unfinished: true})
	attempt(50*time.Millisecond, 1)
	attempt(50*time.Millisecond, 0)
	want := []string{"2 Trace: Scheduling took long pod=shop/web total=111ms rounds=2 pop=0ms PreFilter=1ms Filter=49ms settle=1ms"}
	if got := lines(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 2 * maxEarlier {
		pod.UID = types.UID(strconv.Itoa(i))
		l.Round(&loop.Round{Turn: model.NewPod(pod), Unfinished: true})
	}
	if n := len(l.earlier); n > maxEarlier {
		t.Errorf("the time of %d unfinished turns is kept", n)
	}
}

// noDetail computes nothing, and fails the test if it is asked.
type noDetail struct{ t *testing.T }

func (n noDetail) Detail(state.View, *model.Pod, int) (plan.Detail, bool) {
	n.t.Error("scores are computed for no line")
	return plan.Detail{}, false
}

// TestQuietLogCostsNothing: at level 2 an attempt allocates nothing and computes no
// scores.
func TestQuietLogCostsNothing(t *testing.T) {
	turn := model.NewPod(inShop("web"))
	log, lines := logAt(t, 2)
	l := newVerbose(log, nil)
	r := &loop.Round{
		Turn: turn, Deciding: time.Millisecond, Moves: []queue.Move{{Queue: "active", Event: "UnscheduledPodAdd", Pods: 1, Pod: turn}},
		Attempt: &plan.Attempt{Members: []plan.Decision{{Member: plan.Alone(turn), Outcome: plan.Placed, Feasible: 5}}},
	}
	n := testing.AllocsPerRun(100, func() {
		l.Decided(noDetail{t}, state.View{}, &r.Attempt.Members[0], 1, time.Millisecond)
		l.Round(r)
	})
	if n != 0 || len(lines()) > 0 {
		t.Errorf("%v allocations, lines %q", n, lines())
	}
}

// TestLevelChanges: a level that is set while the scheduler runs counts from the next
// Standing.
func TestLevelChanges(t *testing.T) {
	level := ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2))
	log := ktesting.NewLogger(t, level)
	l := newVerbose(log, nil)
	if err := level.Verbosity().Set("3"); err != nil {
		t.Fatal(err)
	}
	l.Standing(nil)
	l.Decided(nil, state.View{}, &plan.Decision{Member: plan.Alone(model.NewPod(inShop("web")))}, 1, 0)
	if n := len(log.GetSink().(ktesting.Underlier).GetBuffer().Data()); n != 1 {
		t.Errorf("%d lines", n)
	}
}

// BenchmarkQuietLog measures an attempt at the default verbosity.
func BenchmarkQuietLog(b *testing.B) {
	turn := model.NewPod(inShop("web"))
	l := newVerbose(klog.Background(), nil)
	r := &loop.Round{
		Turn: turn, Deciding: time.Millisecond, Moves: []queue.Move{{Queue: "active", Event: "UnscheduledPodAdd", Pods: 1, Pod: turn}},
		Attempt: &plan.Attempt{Members: []plan.Decision{{Member: plan.Alone(turn), Outcome: plan.Placed, Feasible: 5}}},
	}
	b.ReportAllocs()
	for b.Loop() {
		l.Decided(nil, state.View{}, &r.Attempt.Members[0], 1, time.Millisecond)
		l.Round(r)
	}
}
