package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// bound is a committer whose API server answers each binding at once, with the error
// refuses if set.
type bound struct {
	changes *ingest.Ingest
	refuses error
	last    plan.Decision
}

func (b *bound) Start(d plan.Decision) {
	b.last = d
	if d.Outcome == plan.Placed {
		b.changes.Bound(model.BindingResult{Pod: d.Pod, NodeName: d.Placement.NodeName, Err: b.refuses})
	}
}
func (*bound) Allow(types.UID, string)         {}
func (*bound) Reject(types.UID, string, error) {}
func (*bound) Cancel(types.UID, error) bool    { return false }
func (*bound) Room() <-chan struct{}           { return nil }

// scheduler is a loop with a history.
type scheduler struct {
	testing.TB
	loop    *loop.Loop
	history *History
	changes *ingest.Ingest
	commit  *bound
	now     time.Time
}

func newScheduler(t testing.TB, kept *History) *scheduler {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	return newSchedulerOf(t, kept, c)
}

func newSchedulerOf(t testing.TB, kept *History, c *config.Config) *scheduler {
	t.Helper()
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{TB: t, history: kept, changes: ingest.New(c.Compile()), now: time.Unix(1_000_000, 0)}
	s.commit = &bound{changes: s.changes}
	observers := []loop.Observer{kept}
	if kept == nil {
		observers = nil
	}
	s.loop = loop.New(loop.Config{Source: s.changes, Queue: waiting, Engine: decider, Commit: s.commit, Observers: observers})
	return s
}

func newHistory(t testing.TB, bytes int) *History {
	t.Helper()
	h, err := New(Config{Bytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// rest runs rounds until no work is left.
func (s *scheduler) rest() {
	for s.loop.Once(s.now) || s.changes.Waiting() > 0 {
	}
}

func (s *scheduler) of(name string) *Answer {
	return s.history.Of(model.PodKey{Namespace: v1.NamespaceDefault, Name: name}, s.loop.State(), s.loop.Queue(), func(string) bool { return false })
}

// TestWhyHere places a pod among nodes, one holding its image. The answer has that node
// with the total of the decision, the second node, and the margins.
func TestWhyHere(t *testing.T) {
	s := newScheduler(t, newHistory(t, 0))
	for i := range 6 {
		options := []build.NodeOption{build.Allocatable("cpu=4 memory=16Gi pods=100")}
		if i >= 4 {
			options = append(options, build.Taints("a=b:NoSchedule"))
		}
		if i == 2 {
			options = append(options, func(n *v1.Node) {
				n.Status.Images = []v1.ContainerImage{{Names: []string{"large:1"}, SizeBytes: 800 << 20}}
			})
		}
		s.changes.Set(build.Node(fmt.Sprintf("n%d", i), options...))
	}
	pod := build.Pod(build.Named("p"), build.Container("cpu=1 memory=1Gi"))
	pod.Spec.Containers[0].Image = "large:1"
	s.changes.Set(pod)
	s.rest()
	made := s.commit.last.Placement
	a := s.of("p")
	if a == nil || a.Decision == nil {
		t.Fatalf("%+v", a)
	}
	d := a.Decision
	if d.Node != "n2" || d.Node != made.NodeName || d.Total == nil || *d.Total != made.Total || d.Feasible != 4 || d.Nodes != 6 || len(d.Best) != bestKept || d.Best[0].Name != d.Node || d.Best[0].Total != *d.Total {
		t.Errorf("%+v, want node n2 with %d", d, made.Total)
	}
	if len(d.Tipped) != 1 || d.Tipped[0].Plugin != "ImageLocality" || d.Tipped[0].Points != d.Best[0].Total-d.Best[1].Total || d.Tipped[0].Points <= 0 {
		t.Errorf("tipped by %+v", d.Tipped)
	}
	if len(d.Removed) != 1 || d.Removed[0].Nodes != 2 || d.Removed[0].Plugins[0] != "TaintToleration" {
		t.Errorf("removed %+v", d.Removed)
	}
	if p := a.History; p.Place != placeOnNode || p.Attempts != 1 || len(p.Kept) != 1 || p.Kept[0].Node != "n2" || p.Forgotten || a.UID != "p" || a.Profile != v1.DefaultSchedulerName {
		t.Errorf("%+v, %+v", a, p)
	}
}

// TestWhyMembersAreHere places a gang. The details of each member have the best nodes
// with the earlier members on theirs, and the margins. For a gang without room, each
// rejected member has the nodes removed by each plugin.
func TestWhyMembersAreHere(t *testing.T) {
	gates, err := feature.With(map[string]bool{"GenericWorkload": true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ParseWith("config", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	kept := newHistory(t, 0)
	kept.now = func() time.Time { return time.Time{} } // recording takes no time
	s := newSchedulerOf(t, kept, c)
	for i := range 3 {
		s.changes.Set(build.Node(fmt.Sprintf("n%d", i), build.Allocatable("cpu=4 memory=16Gi pods=100")))
	}
	gang := func(name string, cpu ...int) {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name, UID: types.UID(name)}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(len(cpu))}
		s.changes.Set(group)
		for i, amount := range cpu {
			p := build.Pod(build.Named(fmt.Sprintf("%s-%d", name, i)), build.Container(fmt.Sprintf("cpu=%d memory=1Gi", amount)))
			p.UID, p.Spec.SchedulingGroup = types.UID(p.Name), &v1.PodSchedulingGroup{PodGroupName: &group.Name}
			s.changes.Set(p)
		}
		s.rest()
	}
	gang("fits", 2, 2, 2)
	for i, removed := range []int{0, 0, 0} {
		a := s.of(fmt.Sprintf("fits-%d", i))
		if a == nil || a.Decision == nil || a.Decision.NotRecorded != "" {
			t.Fatalf("member %d: %+v", i, a)
		}
		d := a.Decision
		if len(d.Best) != bestKept || d.Best[0].Name != d.Node || d.Total == nil || d.Best[0].Total != *d.Total || len(d.Removed) != removed {
			t.Errorf("member %d: %+v", i, d)
		}
		if tipped := len(d.Tipped) > 0; tipped != (d.Best[0].Total > d.Best[1].Total) {
			t.Errorf("member %d: tipped by %+v", i, d)
		}
	}
	if a, last := s.of("fits-0").Decision, s.of("fits-2").Decision; a.Best[0].Total <= last.Best[2].Total {
		t.Errorf("the last member was decided about with the others on their nodes: %+v, the first %+v", last, a)
	}
	gang("large", 1, 3)
	if a := s.of("large-1"); a.Decision != nil || len(a.History.Kept) != 1 || len(a.History.Kept[0].Removed) != 1 || a.History.Kept[0].Removed[0].Nodes != 3 {
		t.Errorf("%+v", a.History)
	}
	if a := s.of("large-0"); a.Decision != nil || len(a.History.Kept) != 1 || len(a.History.Kept[0].Removed) != 0 {
		t.Errorf("%+v", a.History)
	}
}

// TestWay follows a pod without room until it has room. Each attempt has the event and
// the plugin that woke it. While the pod waits, the answer has the events that it waits
// for.
func TestWay(t *testing.T) {
	s := newScheduler(t, newHistory(t, 0))
	s.changes.Set(build.Node("small", build.Allocatable("cpu=1 memory=16Gi pods=100")))
	s.changes.Set(build.Pod(build.Named("p"), build.Container("cpu=3")))
	s.rest()
	p := s.of("p").History
	if p.Place != "parked" || !slices.Equal(p.Rejectors, []string{"NodeResourcesFit"}) || len(p.WaitsFor) != 1 || !slices.Contains(p.WaitsFor[0].Events, "NodeAdd") || !slices.Contains(p.WaitsFor[0].Events, "AssignedPodDelete") {
		t.Errorf("%+v", p)
	}
	for i, allocatable := range []string{"cpu=3500m", "cpu=2", "cpu=4"} {
		s.now = s.now.Add(time.Minute)
		options := []build.NodeOption{build.Allocatable(allocatable + " memory=16Gi pods=100")}
		if i == 0 {
			options = append(options, build.Taints("a=b:NoSchedule"))
		}
		s.changes.Set(build.Node(fmt.Sprintf("n%d", i), options...))
		s.rest()
	}
	a := s.of("p")
	var got []string
	for _, x := range a.History.Kept {
		got = append(got, fmt.Sprintf("%d %s by %s for %s on %s, helped %t: %s", x.Number, x.Outcome, x.WokenBy, x.WokenFor, x.Node, x.Helped, x.Message))
	}
	want := []string{
		"1 unschedulable by UnscheduledPodAdd for  on , helped false: 0/1 nodes are available: 1 Insufficient cpu. preemption: ",
		"2 unschedulable by NodeAdd for NodeResourcesFit on , helped false: 0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). preemption: ",
		"3 unschedulable by NodeAdd for TaintToleration on , helped false: 0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. preemption: ",
		"4 placed by NodeAdd for NodeResourcesFit on n2, helped true: ",
	}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("attempts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if d := a.Decision; d == nil || d.Attempt != 4 || d.Node != "n2" {
		t.Errorf("%+v", d)
	}
}

// TestFailedBinding has a failing binding. The answer has the reason, and the end of the
// backoff.
func TestFailedBinding(t *testing.T) {
	s := newScheduler(t, newHistory(t, 0))
	s.commit.refuses = errors.New("etcd is full")
	s.changes.Set(build.Node("n", build.Allocatable("cpu=4 memory=16Gi pods=100")))
	s.changes.Set(build.Pod(build.Named("p"), build.Container("cpu=3")))
	s.rest()
	s.history.now = func() time.Time { return s.now }
	p := s.of("p").History
	if p.Place != "backing off after an error" || p.BackoffEnd == nil || len(p.Kept) != 1 || p.Kept[0].BindingFailed != "etcd is full" || p.Kept[0].Helped {
		t.Errorf("%+v", p)
	}
	if k := p.Kept[0]; k.Number != 1 || k.Node != "n" || k.Nodes != 1 || k.Feasible != 1 || p.Forgotten {
		t.Errorf("the turn of the failed binding is not that of the placement: %+v", p)
	}
	s.history.placed = newPlacements(1 << 10)
	if p := s.of("p").History; len(p.Kept) != 1 || p.Kept[0].Number != 0 || p.Attempts != 1 || !p.Forgotten {
		t.Errorf("the turn is forgotten: %+v", p)
	}
}

// TestAhead checks the number of pods whose turn is earlier, and the names of the first,
// without other namespaces.
func TestAhead(t *testing.T) {
	s := newScheduler(t, newHistory(t, 0))
	for i := range 40 {
		s.changes.Set(build.Pod(build.Named(fmt.Sprintf("p%02d", i)), func(p *v1.Pod) {
			priority := int32(i)
			p.Spec.Priority = &priority
			if i == 38 || i == 36 {
				p.Namespace = "secret"
			}
		}))
	}
	s.loop.Queue().Wake(s.now, s.loop.State().Apply(s.changes.Drain()))
	x := s.of("p30").History.Ahead
	if want := []string{"default/p39", "default/p37", "default/p35"}; x == nil || x.Pods != 9 || x.AtLeast || !slices.Equal(x.Next, want) {
		t.Errorf("%+v, want 9 pods, first %v", x, want)
	}
}

// TestUnordered checks the reason for an unknown order.
func TestUnordered(t *testing.T) {
	var p Past
	p.describe(&queue.Description{Pod: model.NewPod(build.Pod(build.Named("p"))), Unordered: true})
	if p.Ahead != nil || p.AheadUnknown == "" {
		t.Errorf("%+v", p)
	}
}

// TestUnknown has no answer about a pod that neither waits nor is on a node, and none
// about an earlier pod of the same name.
func TestUnknown(t *testing.T) {
	s := newScheduler(t, newHistory(t, 0))
	if a := s.of("p"); a != nil {
		t.Errorf("%+v", a)
	}
	s.changes.Set(build.Node("n", build.Allocatable("cpu=4 memory=16Gi pods=100")))
	first := build.Pod(build.Named("p"), build.Container("cpu=9"))
	first.UID = "first"
	s.changes.Set(first)
	s.rest()
	s.changes.Remove(model.PodKey{Namespace: first.Namespace, Name: first.Name}.Ref())
	s.rest()
	if a := s.of("p"); a != nil {
		t.Errorf("%+v of a pod that is gone", a)
	}
	second := build.Pod(build.Named("p"), build.NodeName("n"))
	second.UID = "second"
	s.changes.Set(second)
	s.rest()
	if a := s.of("p"); a == nil || a.UID != "second" || len(a.History.Kept) != 0 || a.Decision != nil {
		t.Errorf("%+v", a)
	}
}

// TestVictims names the victims in the namespace of the pod, and counts all.
func TestVictims(t *testing.T) {
	h := newHistory(t, 0)
	d := decision("p", 1, false)
	for _, namespace := range []string{"default", "secret", "default-2"} {
		d.Evictions = append(d.Evictions, plan.Eviction{Pod: model.NewPod(build.Pod(build.Named("v"), build.InNamespace(namespace))), NodeName: "n"})
	}
	d.Nominations = []plan.Nomination{{Pod: d.Pod, Mode: plan.Set, NodeName: "n"}}
	h.take(d)
	s := newScheduler(t, h)
	s.changes.Set(build.Pod(build.Named("p")))
	s.loop.Queue().Wake(s.now, s.loop.State().Apply(s.changes.Drain()))
	if a := s.of("p").History.Kept[0]; !slices.Equal(a.Victims, []string{"default/v"}) || a.Evictions != 3 || a.Nominated != "n" {
		t.Errorf("%+v", a)
	}
}
