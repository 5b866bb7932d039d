package gang

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-scheduler/berth/framework"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// scheduler is a Handle, and calls the plugin like a scheduler. Pods that find room wait
// at Permit until they are allowed or rejected.
type scheduler struct {
	fwk.Handle // nil: methods that the plugin does not use panic
	t          *testing.T
	client     *fake.Clientset
	factory    informers.SharedInformerFactory
	plugin     *Gang

	mu        sync.Mutex
	waits     map[types.UID]*waitingPod
	activated map[string]bool
	free      int
}

func newScheduler(t *testing.T, free int, args GangArgs, pods ...*v1.Pod) *scheduler {
	objects := make([]runtime.Object, len(pods))
	for i, pod := range pods {
		objects[i] = pod
	}
	s := &scheduler{t: t, client: fake.NewClientset(objects...), waits: map[types.UID]*waitingPod{}, activated: map[string]bool{}, free: free}
	s.factory = informers.NewSharedInformerFactory(s.client, 0)
	setDefaults(&args)
	made, err := New(t.Context(), &args, s)
	if err != nil {
		t.Fatal(err)
	}
	s.plugin = made.(*Gang)
	ctx, cancel := context.WithCancel(t.Context())
	s.factory.Start(ctx.Done())
	s.factory.WaitForCacheSync(ctx.Done())
	t.Cleanup(func() {
		cancel()
		s.factory.Shutdown()
		if err := s.plugin.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *scheduler) SharedInformerFactory() informers.SharedInformerFactory { return s.factory }

func (s *scheduler) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range pods {
		s.activated[name] = true
	}
}

func (s *scheduler) IterateOverWaitingPods(callback func(fwk.WaitingPod)) {
	s.mu.Lock()
	waits := slices.Collect(maps.Values(s.waits))
	s.mu.Unlock()
	for _, p := range waits {
		callback(p)
	}
}

// try schedules a pod and returns the result: "waits", "placed", or the reason of a
// rejection.
func (s *scheduler) try(pod *v1.Pod) string {
	ctx, state, g := context.Background(), framework.NewCycleState(), s.plugin
	if _, status := g.PreFilter(ctx, state, pod, nil); status.IsRejected() {
		g.PostFilter(ctx, state, pod, nil)
		return status.Message()
	}
	s.mu.Lock()
	full := s.free == 0
	if !full {
		s.free--
	}
	s.mu.Unlock()
	if full {
		_, status := g.PostFilter(ctx, state, pod, nil)
		return "no room; " + status.Message()
	}
	g.Reserve(ctx, state, pod, "n")
	status, timeout := g.Permit(ctx, state, pod, "n")
	if !status.IsWait() {
		return "placed"
	}
	w := &waitingPod{scheduler: s, pod: pod}
	s.mu.Lock()
	s.waits[pod.UID] = w
	s.mu.Unlock()
	time.AfterFunc(timeout, func() { w.Reject("", "timeout") })
	return "waits"
}

func (s *scheduler) waiting() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.waits {
		names = append(names, p.pod.Name)
	}
	slices.Sort(names)
	return names
}

// takeActivated returns the pods that were activated since the last call.
func (s *scheduler) takeActivated() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.activated))
	clear(s.activated)
	return names
}

type waitingPod struct {
	fwk.WaitingPod
	scheduler *scheduler
	pod       *v1.Pod
}

func (w *waitingPod) GetPod() *v1.Pod { return w.pod }

func (w *waitingPod) end() bool {
	w.scheduler.mu.Lock()
	defer w.scheduler.mu.Unlock()
	_, waits := w.scheduler.waits[w.pod.UID]
	delete(w.scheduler.waits, w.pod.UID)
	return waits
}

func (w *waitingPod) Allow(string) { w.end() }

func (w *waitingPod) Reject(string, string) bool {
	if !w.end() {
		return false
	}
	w.scheduler.mu.Lock()
	w.scheduler.free++
	w.scheduler.mu.Unlock()
	w.scheduler.plugin.Unreserve(context.Background(), nil, w.pod, "n")
	return true
}

// members are the pods of a gang that wants all of them, or as many as min names.
func members(gang string, n int, min string) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", gang, i)
		pods[i] = &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: name, UID: types.UID(name), Labels: map[string]string{NameLabel: gang, MinLabel: min},
		}}
	}
	return pods
}

func (s *scheduler) expect(got, want string) {
	s.t.Helper()
	if exact := want == "waits" || want == "placed"; exact && got != want || !strings.Contains(got, want) {
		s.t.Errorf("got %q, want %q", got, want)
	}
}

func (s *scheduler) expectWaiting(want ...string) {
	s.t.Helper()
	if got := s.waiting(); !slices.Equal(got, want) {
		s.t.Errorf("%v wait, want %v", got, want)
	}
}

func TestGangGoesWhenItIsComplete(t *testing.T) {
	a := members("a", 3, "3")
	s := newScheduler(t, 5, GangArgs{}, a...)
	s.expect(s.try(a[0]), "waits")
	if got, want := s.takeActivated(), []string{"team/a-0", "team/a-1", "team/a-2"}; !slices.Equal(got, want) {
		t.Errorf("activated %v, want %v", got, want)
	}
	s.expect(s.try(a[1]), "waits")
	s.expectWaiting("a-0", "a-1")
	s.expect(s.try(a[2]), "placed")
	s.expectWaiting()
}

func TestSmallGangsAreToldWhatTheyLack(t *testing.T) {
	for _, row := range []struct {
		pods int
		min  string
		want string
	}{
		{2, "3", "gang team/a has 2 of 3 pods"},
		{2, "0", `label gang.example.com/min-available is "0": must be a whole number from 1 on`},
		{2, "many", `label gang.example.com/min-available is "many": must be a whole number from 1 on`},
		{2, "", `label gang.example.com/min-available is "": must be a whole number from 1 on`},
		{2, "1", "placed"},
	} {
		a := members("a", row.pods, row.min)
		s := newScheduler(t, 5, GangArgs{}, a...)
		s.expect(s.try(a[0]), row.want)
	}
}

func TestPodsWithoutGangPass(t *testing.T) {
	s := newScheduler(t, 1, GangArgs{})
	s.expect(s.try(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "alone"}}), "placed")
}

func TestAnotherGangWaitsForItsTurn(t *testing.T) {
	a, b := members("a", 2, "2"), members("b", 2, "2")
	s := newScheduler(t, 5, GangArgs{}, append(a, b...)...)
	s.expect(s.try(a[0]), "waits")
	s.expect(s.try(b[0]), "gang team/b waits until gang team/a is placed")
	s.takeActivated()
	s.expect(s.try(a[1]), "placed")
	if got, want := s.takeActivated(), []string{"team/b-0", "team/b-1"}; !slices.Equal(got, want) {
		t.Errorf("activated %v, want %v", got, want)
	}
	s.expect(s.try(b[1]), "waits")
	s.expect(s.try(b[0]), "placed")
}

func TestGangThatDoesNotFitLosesAllItsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := members("a", 3, "3"), members("b", 2, "2")
		s := newScheduler(t, 2, GangArgs{}, append(a, b...)...)
		s.expect(s.try(a[0]), "waits")
		s.expect(s.try(b[0]), "waits until")
		s.expect(s.try(a[1]), "waits")
		s.takeActivated()
		s.expect(s.try(a[2]), "no room; gang team/a does not fit")
		s.expectWaiting()
		if got, want := s.takeActivated(), []string{"team/b-0", "team/b-1"}; !slices.Equal(got, want) {
			t.Errorf("activated %v, want %v", got, want)
		}
		s.expect(s.try(a[0]), "did not fit, and is tried again later")
		s.expect(s.try(b[0]), "waits")
		s.expect(s.try(b[1]), "placed")
		s.takeActivated()

		// It is retried after its backoff.
		time.Sleep(1100 * time.Millisecond)
		if got, want := s.takeActivated(), []string{"team/a-0", "team/a-1", "team/a-2"}; !slices.Equal(got, want) {
			t.Errorf("activated %v, want %v", got, want)
		}
		s.expect(s.try(a[0]), "no room; gang team/a does not fit")
		time.Sleep(1100 * time.Millisecond) // the second backoff takes 2 s
		s.expect(s.try(a[0]), "did not fit, and is tried again later")
	})
}

func TestRoomIsKeptForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := members("a", 3, "3")
		s := newScheduler(t, 5, GangArgs{PermitSeconds: new(int32(5))}, a...)
		s.expect(s.try(a[0]), "waits")
		time.Sleep(4 * time.Second)
		s.expect(s.try(a[1]), "waits")
		s.expectWaiting("a-0", "a-1")
		time.Sleep(1500 * time.Millisecond)
		s.expectWaiting()
		if s.free != 5 {
			t.Errorf("%d of 5 are free again", s.free)
		}
	})
}

func TestLostMemberReleasesTheOthers(t *testing.T) {
	a := members("a", 3, "3")
	s := newScheduler(t, 5, GangArgs{}, a...)
	s.expect(s.try(a[0]), "waits")
	s.expect(s.try(a[1]), "waits")
	s.waits["a-1"].Reject("", "the pod is deleted")
	s.expectWaiting()
	if n := s.plugin.turns.reservedBy(keyOf(a[0])); len(n) != 0 {
		t.Errorf("still reserved: %v", n)
	}
}

func TestTurnGoesOnWhereTheNextGangDoesNotTakeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := members("a", 2, "2"), members("b", 2, "2"), members("c", 2, "2")
		s := newScheduler(t, 6, GangArgs{}, slices.Concat(a, b, c)...)
		s.expect(s.try(a[0]), "waits")
		s.expect(s.try(b[0]), "waits until")
		s.expect(s.try(c[0]), "waits until")
		s.takeActivated()
		s.expect(s.try(a[1]), "placed")
		s.takeActivated() // b, whose pods never come
		time.Sleep(nudgeAfter + time.Millisecond)
		if got, want := s.takeActivated(), []string{"team/c-0", "team/c-1"}; !slices.Equal(got, want) {
			t.Errorf("activated %v, want %v", got, want)
		}
	})
}

// awaitWatch waits until the informer watches. The fake API server loses changes between
// its list and its watch.
func (s *scheduler) awaitWatch() {
	for i := range 100 {
		probe := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "probes", Name: fmt.Sprint(i)}}
		if _, err := s.client.CoreV1().Pods(probe.Namespace).Create(s.t.Context(), probe, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		if _, err := s.plugin.pods.Pods(probe.Namespace).Get(probe.Name); err == nil {
			return
		}
	}
	s.t.Fatal("the informer does not watch")
}

func TestNothingIsKeptOfGangsThatAreGone(t *testing.T) {
	a := members("a", 2, "2")
	s := newScheduler(t, 5, GangArgs{}, a...)
	s.expect(s.try(a[0]), "waits")
	s.awaitWatch()
	for _, pod := range a {
		if err := s.client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		s.plugin.turns.mu.Lock()
		kept := len(s.plugin.turns.gangs)
		s.plugin.turns.mu.Unlock()
		if kept == 0 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("the gang is still known")
}

func TestArgumentsAreChecked(t *testing.T) {
	for _, row := range []struct {
		args runtime.Object
		want string
	}{
		{&GangArgs{PermitSeconds: new(int32(0))}, "arguments of plugin Gang: permitSeconds: Invalid value: 0: must be between 1 and 600, inclusive"},
		{&GangArgs{MaxBackoffSeconds: new(int32(601))}, "arguments of plugin Gang: maxBackoffSeconds: Invalid value: 601: must be between 1 and 600, inclusive"},
		{&runtime.Unknown{}, "arguments of plugin Gang: got *runtime.Unknown, want *GangArgs: give the program app.WithScheme(gang.AddToScheme)"},
		{nil, "arguments of plugin Gang: got <nil>, want *GangArgs"},
	} {
		if args, ok := row.args.(*GangArgs); ok {
			setDefaults(args)
		}
		if _, err := New(t.Context(), row.args, nil); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: error %v, want %q", row.args, err, row.want)
		}
	}
}

func TestTurnThatIsNotUsedEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := members("a", 2, "2"), members("b", 2, "2")
		s := newScheduler(t, 5, GangArgs{}, append(a, b...)...)
		if _, status := s.plugin.PreFilter(t.Context(), framework.NewCycleState(), a[0], nil); !status.IsSuccess() {
			t.Fatal(status)
		}
		s.expect(s.try(b[0]), "waits until") // a-0 fails without notice to the plugin
		time.Sleep(31 * time.Second)
		s.expect(s.try(b[0]), "waits")
		s.expect(s.try(b[1]), "placed")
	})
}

func TestLateUnreserveDoesNotEndTheNextTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := key{"team", "a"}, key{"team", "b"}
		turns := newTurns(time.Minute, time.Second, func(_, _ key) bool { return true })
		defer turns.close()
		turns.take(a)
		turns.reserve(a, "a-0")
		turns.reserve(a, "a-1")
		turns.fails(a)
		time.Sleep(1100 * time.Millisecond)
		if why := turns.take(a); why != "" {
			t.Fatal(why)
		}
		turns.reserve(a, "a-0")
		turns.unreserve(a, "a-1") // of the previous turn
		if why := turns.take(b); !strings.Contains(why, "waits until gang team/a is placed") {
			t.Errorf("gang b: %q, want that it waits for a", why)
		}
	})
}
