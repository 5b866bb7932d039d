package queued

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// world is a queue with a Lister. Its history has the rejections that the test made.
type world struct {
	testing.TB
	queue  *queue.Queue
	lister *Lister
	pods   []*v1.Pod
	past   *history.History
	now    time.Time
	// asked are the briefs that each call on the loop's goroutine read.
	asked []int
	// during is called in each call.
	during func()
}

// Brief counts the briefs of the present call.
func (w *world) Brief(now time.Time, key model.PodKey, uid types.UID) (queue.Brief, bool) {
	w.asked[len(w.asked)-1]++
	return w.queue.Brief(now, key, uid)
}

func (w *world) Events(profile, plugin string) []string { return w.queue.Events(profile, plugin) }

func (w *world) ask(_ context.Context, look func()) error {
	w.asked = append(w.asked, 0)
	if w.during != nil {
		w.during()
	}
	look()
	return nil
}

var begin = time.Unix(1_000_000, 0).UTC()

func newWorld(t testing.TB) *world {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, now: begin}
	if w.queue, err = queue.New(c.Queue(queue.DefaultMaxParked)); err != nil {
		t.Fatal(err)
	}
	now := func() time.Time { return w.now }
	if w.past, err = history.New(history.Config{Now: now}); err != nil {
		t.Fatal(err)
	}
	w.lister = New(Config{
		Ask: w.ask, Queue: w, History: w.past, Profiles: c.SchedulerNames(), Now: now, Wall: func() time.Time { return w.now.Add(time.Hour) },
		Pods: func() []*v1.Pod { return slices.Clone(w.pods) },
	})
	return w
}

// add adds a pod to the queue and to the informer's cache.
func (w *world) add(namespace, name string, with ...build.PodOption) {
	pod := build.Pod(append([]build.PodOption{build.Named(name), func(p *v1.Pod) {
		p.Namespace, p.UID, p.CreationTimestamp = namespace, types.UID(namespace+"/"+name), metav1.NewTime(w.now)
	}}, with...)...)
	w.pods = append(w.pods, pod)
	if pod.Spec.NodeName == "" && slices.Contains(w.lister.config.Profiles, pod.Spec.SchedulerName) {
		w.queue.Wake(w.now, state.Delta{Arrived: []*model.Pod{model.NewPod(pod)}})
	}
}

func owned(by string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: by, Controller: &yes}}
	}
}

func labelled(key, value string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Labels = map[string]string{key: value} }
}

func priority(n int32) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Priority = &n }
}

// reject gives the next n pods their turn, which this many nodes reject for one reason.
func (w *world) reject(n, nodes int, because string) {
	w.Helper()
	for range n {
		work, ok := w.queue.Pop(w.now)
		if !ok {
			w.Fatal("no pod is ready")
		}
		work.Conclude(plan.Decision{Outcome: plan.Unschedulable, Nodes: nodes, Rejection: &plan.Rejection{
			Plugins: []string{"NodeResourcesFit"}, Counts: []reason.Count{{Nodes: nodes, Reason: because}},
		}})
		w.queue.Settle(w.now, work)
		w.past.Round(&loop.Round{Attempt: work})
	}
}

func (w *world) answer(q Question) *Answer {
	w.Helper()
	a, err := w.lister.Answer(w.Context(), q)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// lines describes the groups of an answer.
func lines(a *Answer) (all []string) {
	for i := range a.Groups {
		g := &a.Groups[i]
		line := fmt.Sprintf("%s %s %d %s %q attempts %d-%d", g.Namespace, g.Owner, g.Count, g.Place, g.Reason, g.MinAttempts, g.MaxAttempts)
		if g.Position > 0 {
			line += fmt.Sprintf(" position %d", g.Position)
		}
		if g.Next != nil {
			line += " next " + g.Next.Sub(begin).String()
		}
		all = append(all, line)
	}
	return all
}

// fill adds pods that are parked, back off, are gated, are ready, belong to another
// scheduler, and have a node.
func fill(w *world) {
	for i := range 3 {
		w.add("shop", fmt.Sprintf("web-%d", i), owned("web"), labelled("app", "web"))
	}
	w.add("bank", "big")
	w.reject(3, 4, "Insufficient cpu")
	w.reject(1, 5, "Insufficient memory")
	w.now = w.now.Add(time.Minute)
	w.add("shop", "gated", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}} })
	w.add("shop", "low", owned("batch"), priority(-1))
	w.add("bank", "urgent", priority(9), owned("pay"))
	w.add("shop", "job-1", owned("batch"), labelled("app", "batch"))
	w.add("shop", "foreign", func(p *v1.Pod) { p.Spec.SchedulerName = "other" })
	w.add("shop", "runs", func(p *v1.Pod) { p.Spec.NodeName = "n" })
}

// TestAnswers groups the waiting pods of a queue, for all namespaces, one namespace and
// a selector.
func TestAnswers(t *testing.T) {
	w := newWorld(t)
	fill(w)
	all := w.answer(Question{})
	want := []string{
		`bank ReplicaSet/pay 1 active "" attempts 0-0 position 1`,
		`shop ReplicaSet/batch 2 active "" attempts 0-0 position 2`,
		`bank Pod/big 1 parked "Insufficient memory" attempts 1-1`,
		`shop ReplicaSet/web 3 parked "Insufficient cpu" attempts 1-1`,
		`shop Pod/gated 1 gated "" attempts 0-0`,
	}
	if got := lines(all); !slices.Equal(got, want) || all.Pods != 8 || all.Version != Version || !all.At.Equal(begin.Add(time.Hour+time.Minute)) {
		t.Errorf("%d pods at %v:\n%s\nwant\n%s", all.Pods, all.At, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	web := &all.Groups[3]
	if web.Message != "0/4 nodes are available: 4 Insufficient cpu." || !web.WaitsForEvent || !slices.Equal(web.Rejectors, []string{"NodeResourcesFit"}) || !web.Since.Equal(begin) || web.Pods != nil {
		t.Errorf("%+v", web)
	}
	if len(all.WaitsFor) != 2 || all.WaitsFor[0].Plugin != "NodeResourcesFit" || !slices.Contains(all.WaitsFor[0].Events, "NodeAdd") || all.WaitsFor[1].Plugin != "SchedulingGates" {
		t.Errorf("pods wait for %+v", all.WaitsFor)
	}
	if got := lines(w.answer(Question{Namespace: "bank"})); !slices.Equal(got, []string{want[0], want[2]}) {
		t.Errorf("bank: %q", got)
	}
	if got := lines(w.answer(Question{Namespace: "shop", Selector: "app in (web, batch)"})); !slices.Equal(got, []string{`shop ReplicaSet/batch 1 active "" attempts 0-0 position 2`, want[3]}) {
		t.Errorf("by label: %q", got)
	}
	if got := w.answer(Question{Namespace: "none"}); got.Pods != 0 || got.Groups == nil || got.WaitsFor != nil {
		t.Errorf("an empty namespace: %+v", got)
	}
	var wrong *SelectorError
	if _, err := w.lister.Answer(t.Context(), Question{Selector: "a in"}); !errors.As(err, &wrong) {
		t.Errorf("a wrong selector: %v", err)
	}
}

// TestAnswerListsPods lists the pods of groups, with the end of their backoff.
func TestAnswerListsPods(t *testing.T) {
	w := newWorld(t)
	fill(w)
	w.queue.Activate(w.now, []model.PodKey{{Namespace: "shop", Name: "web-0"}})
	w.reject(1, 6, "Insufficient cpu") // urgent
	work, _ := w.queue.Pop(w.now)
	work.Conclude(plan.Decision{Outcome: plan.Failed, Err: errors.New("broken")})
	w.queue.Settle(w.now, work)
	a := w.answer(Question{Pods: true, Selector: "app=web"})
	want := []string{
		`shop ReplicaSet/web 1 backing off after an error "Insufficient cpu" attempts 2-2 next 1h1m1s`,
		`shop ReplicaSet/web 2 parked "Insufficient cpu" attempts 1-1`,
	}
	if got := lines(a); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	listed := 0
	for i := range a.Groups {
		listed += len(a.Groups[i].Pods)
		for _, p := range a.Groups[i].Pods {
			if !p.Created.Equal(begin) || !strings.HasPrefix(p.Name, "web-") || p.Attempts == 0 {
				t.Errorf("%+v", p)
			}
		}
	}
	if listed != 3 {
		t.Errorf("%d pods are listed in %+v", listed, a)
	}
}

// TestSlices reads 20,000 pods in bounded slices, and shares one reading among questions
// that wait for it.
func TestSlices(t *testing.T) {
	const pods, questions = 20_000, 8
	w := newWorld(t)
	for i := range pods {
		w.add("shop", fmt.Sprintf("p%05d", i), owned(fmt.Sprint("set", i%3)))
	}
	hold := make(chan struct{})
	w.during = func() { <-hold }
	var wg sync.WaitGroup
	for range questions {
		wg.Go(func() {
			if a, err := w.lister.Answer(t.Context(), Question{}); err != nil || a.Pods != pods || len(a.Groups) != 3 {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
	for w.lister.asking.Load() < questions {
		time.Sleep(time.Millisecond)
	}
	close(hold)
	wg.Wait()
	if len(w.asked) != pods/sliceOf || slices.Max(w.asked) > sliceOf {
		t.Errorf("%d calls read up to %d pods, want %d calls", len(w.asked), slices.Max(w.asked), pods/sliceOf)
	}
	if w.lister.last != nil {
		t.Error("the last question keeps the snapshot")
	}
	w.during = nil
	w.answer(Question{})
	if len(w.asked) != 2*pods/sliceOf {
		t.Errorf("a later question reads nothing new: %d calls", len(w.asked))
	}
}

// TestAnswerIsBounded leaves out the groups and the pods beyond the limits, and counts
// them.
func TestAnswerIsBounded(t *testing.T) {
	s := &snapshot{}
	for i := range maxGroups + 7 {
		s.pods = append(s.pods, waiting{pod: build.Pod(build.Named(fmt.Sprint("p", i)))})
	}
	for i := range maxPods {
		s.pods = append(s.pods, waiting{pod: build.Pod(build.Named(fmt.Sprint("w", i)), owned("web"))})
	}
	w := &Lister{config: Config{Now: time.Now, Wall: time.Now}, turn: make(chan struct{}, 1), last: s}
	s.at = time.Now()
	s.pods = append(s.pods[maxGroups+7:], s.pods[:maxGroups+7]...)
	a, err := w.Answer(t.Context(), Question{Pods: true})
	if err != nil || len(a.Groups) != maxGroups || a.Groups[0].Count != maxPods || len(a.Groups[0].Pods) != maxPods || a.Groups[1].Pods != nil ||
		a.GroupsLeftOut != 8 || a.PodsLeftOut != maxGroups+7 || a.Pods != maxPods+maxGroups+7 {
		t.Errorf("%d groups, %d and %d left out of %d pods, %v", len(a.Groups), a.GroupsLeftOut, a.PodsLeftOut, a.Pods, err)
	}
}

// TestAnswerWaits ends with the context, while another question reads the queue and
// while the loop is busy.
func TestAnswerWaits(t *testing.T) {
	w := newWorld(t)
	w.lister.turn <- struct{}{}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	if _, err := w.lister.Answer(ctx, Question{}); !errors.Is(err, gone) {
		t.Error(err)
	}
	<-w.lister.turn
	w.add("shop", "p")
	w.lister.config.Ask = func(ctx context.Context, _ func()) error { return context.Cause(ctx) }
	if _, err := w.lister.Answer(ctx, Question{}); !errors.Is(err, gone) || w.lister.asking.Load() != 0 {
		t.Error(err, w.lister.asking.Load())
	}
}

// TestMembersShareAPosition counts the members of a group as one place in the order.
func TestMembersShareAPosition(t *testing.T) {
	w := newWorld(t)
	w.add("shop", "a")
	w.add("shop", "b")
	w.add("shop", "c", priority(-1))
	s, err := w.lister.snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.pods[1].brief.Turn, s.pods[1].brief.Group = s.pods[0].brief.Turn, model.GroupKey{Namespace: "shop", Name: "g"}
	s.order()
	var got []int
	for i := range s.pods {
		got = append(got, s.pods[i].position)
	}
	if !reflect.DeepEqual(got, []int{1, 1, 3}) {
		t.Errorf("positions %v", got)
	}
}

// TestLongTextsAreCut: tenants write the names of owners, and askers the selector.
func TestLongTextsAreCut(t *testing.T) {
	w := newWorld(t)
	w.add("shop", "p", owned(strings.Repeat("ö", 1<<20)))
	owner := w.answer(Question{}).Groups[0].Owner
	if len(owner) > maxOwner+len("…") || !utf8.ValidString(owner) || !strings.HasSuffix(owner, "ö…") {
		t.Errorf("the owner has %d bytes, and ends with %q", len(owner), owner[len(owner)-8:])
	}
	long := "a in (" + strings.Repeat("b,", maxSelector) + "b)"
	var invalid *SelectorError
	if _, err := w.lister.Answer(t.Context(), Question{Selector: long}); !errors.As(err, &invalid) {
		t.Errorf("a long selector: %v", err)
	}
}
