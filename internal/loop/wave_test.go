package loop_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// atOnce is a committer whose API server answers each binding at once.
type atOnce struct {
	changes *ingest.Ingest
	last    plan.Decision
	made    map[plan.Outcome]int
	// attempts, if not nil, receives the last attempt of each pod.
	attempts map[string]int
}

func (a *atOnce) Start(d plan.Decision) {
	a.last = d
	a.made[d.Outcome]++
	if a.attempts != nil {
		a.attempts[d.Pod.Name] = d.Attempt
	}
	if d.Outcome == plan.Placed {
		a.changes.Bound(model.BindingResult{Pod: d.Pod, NodeName: d.Placement.NodeName})
	}
}
func (*atOnce) Allow(types.UID, string)         {}
func (*atOnce) Reject(types.UID, string, error) {}
func (*atOnce) Cancel(types.UID, error) bool    { return false }
func (*atOnce) Room() <-chan struct{}           { return nil }

// full is a scheduler of a full cluster. Pods of several shapes are parked because no
// node has room for them.
type full struct {
	loop    *loop.Loop
	engine  *engine.Engine
	changes *ingest.Ingest
	commit  *atOnce
	now     time.Time
	ended   int // number of pods that have ended
}

// fourToANode is the request of a pod that uses a quarter of a node. Parked pods request
// at least a quarter of that.
const fourToANode = 8000

// defaultParts returns the default configuration, with a queue and an engine for it.
func defaultParts(t testing.TB, audit bool) (*config.Config, *queue.Queue, *engine.Engine) {
	t.Helper()
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	decider, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, Audit: audit})
	if err != nil {
		t.Fatal(err)
	}
	return c, waiting, decider
}

// newFull fills the nodes and parks pods. Shapes differ in their requests. Four pods of
// the smallest shape fit in the place of an ended pod.
func newFull(t testing.TB, nodes, parked, shapes int, audit bool) *full {
	t.Helper()
	c, waiting, decider := defaultParts(t, audit)
	changes := ingest.New(c.Compile())
	f := &full{engine: decider, changes: changes, commit: &atOnce{changes: changes, made: map[plan.Outcome]int{}}, now: time.Unix(1_000_000, 0)}
	f.loop = loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: f.commit})
	for i := range nodes {
		node := fmt.Sprintf("node-%05d", i)
		changes.Set(build.Node(node, build.Allocatable(fmt.Sprintf("cpu=%dm memory=64Gi", 4*fourToANode))))
		for j := range 4 {
			changes.Set(f.pod(runningName(i*4+j), fourToANode, build.NodeName(node)))
		}
	}
	for i := range parked {
		changes.Set(f.pod(fmt.Sprintf("parked-%d", i), fourToANode/4+int64(i%shapes), build.Labels(fmt.Sprintf("app=app-%d", i%shapes))))
	}
	f.rest()
	if counts := f.loop.Queue().Counts(); counts.Parked != parked {
		t.Fatalf("%+v, want %d parked pods", counts, parked)
	}
	f.now = f.now.Add(time.Minute) // backoffs have ended
	return f
}

func runningName(i int) string { return fmt.Sprintf("running-%d", i) }

func (*full) pod(name string, cpuMilli int64, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append(options, build.Container(fmt.Sprintf("cpu=%dm memory=100Mi", cpuMilli)))...)
	p.Name, p.UID = name, types.UID(name)
	return p
}

// rest runs rounds until no work is left.
func (f *full) rest() {
	for f.loop.Once(f.now) || f.changes.Waiting() > 0 {
	}
}

// endOne ends a running pod, which wakes all parked pods.
func (f *full) endOne() {
	f.changes.Remove(model.PodKey{Namespace: v1.NamespaceDefault, Name: runningName(f.ended)}.Ref())
	f.ended += 4 // the next is on another node
}

// BenchmarkWave ends one pod in a full cluster while many pods are parked for room.
// kube-scheduler's hint wakes all of them; a few are placed and the others are rejected
// again. It measures the time until the queue is at rest, and until the decision about a
// new pod that arrives right after the event. That pod comes last, because its wait is
// the shortest.
func BenchmarkWave(b *testing.B) {
	for _, size := range []struct{ nodes, parked, shapes int }{
		{build.Sized(5000), build.Sized(20000), build.Sized(500)}, {build.Sized(5000), build.Sized(20000), build.Sized(20000)}, {build.Sized(50000), build.Sized(20000), build.Sized(500)},
	} {
		b.Run(fmt.Sprintf("nodes=%d/parked=%d/shapes=%d", size.nodes, size.parked, size.shapes), func(b *testing.B) {
			f := newFull(b, size.nodes, size.parked, size.shapes, false)
			var newcomers time.Duration
			before := f.engine.Counters()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				began := time.Now()
				f.endOne()
				name := fmt.Sprintf("new-%d", i)
				f.changes.Set(f.pod(name, 4*fourToANode))
				for decided := false; !decided; decided = f.commit.last.Pod.Name == name {
					f.loop.Once(f.now)
				}
				newcomers += time.Since(began)
				f.rest()
				b.StopTimer()
				f.changes.Remove(model.PodKey{Namespace: v1.NamespaceDefault, Name: name}.Ref())
				f.rest()
				f.now = f.now.Add(time.Minute)
				b.StartTimer()
			}
			after := f.engine.Counters()
			b.ReportMetric(float64(newcomers.Milliseconds())/float64(b.N), "ms-to-new-pod")
			b.ReportMetric(float64(after.Decisions-before.Decisions)/float64(b.N), "decisions")
		})
	}
}

// TestWavesAreDecidedAlike runs wave after wave, and repeats the decision about every pod
// with a cached rejection.
func TestWavesAreDecidedAlike(t *testing.T) {
	f := newFull(t, 20, 300, 30, true)
	for range 10 {
		f.endOne()
		f.rest()
		if err := f.loop.Audit(); err != nil {
			t.Fatal(err)
		}
		f.now = f.now.Add(time.Minute)
	}
	if c := f.engine.Counters(); c.Recalled < c.Decisions/2 {
		t.Errorf("%+v", c)
	}
}

// TestWaveIsDecidedOncePerShape wakes many pods at once and checks each decision. Every
// pod has its own attempt, event and backoff. But each shape is decided once for each
// change of the cluster, and similar rejected pods share one rejection.
func TestWaveIsDecidedOncePerShape(t *testing.T) {
	const nodes, parked, shapes = 50, 1000, 20
	f := newFull(t, nodes, parked, shapes, false)
	f.commit.attempts = map[string]int{}
	before, placed := f.engine.Counters(), f.commit.made[plan.Placed]
	f.endOne()
	f.changes.Set(f.pod("new", 4*fourToANode))
	f.rest()
	after := f.engine.Counters()
	found := f.commit.made[plan.Placed] - placed
	if found < 3 || found > 4 {
		t.Errorf("%d pods found room, want 3 or 4", found)
	}
	changes := 1 + found
	decided := (after.Decisions - before.Decisions) - (after.Recalled - before.Recalled)
	if decided > int64(shapes+changes+1) {
		t.Errorf("%d decisions were made from nothing, want at most one for each of %d shapes, and for each of %d pods that were placed or new",
			decided, shapes, changes)
	}
	// After its first decision in the wave, a shape only checks the nodes of placed pods.
	if visited := after.Visited - before.Visited; visited > 2*decided*nodes {
		t.Errorf("%d slots were visited in %d decisions", visited, decided)
	}
	if n := len(f.commit.attempts); n != parked+1 {
		t.Errorf("%d pods were decided about, want %d", n, parked+1)
	}
	for name, attempt := range f.commit.attempts {
		if want := 2; attempt != want && name != "new" {
			t.Errorf("pod %s: attempt %d, want %d", name, attempt, want)
		}
	}
	if counts := f.loop.Queue().Counts(); counts.Parked != parked+1-found || counts.Active+counts.BackingOff != 0 {
		t.Errorf("%+v after the wave", counts)
	}
	// An event before the end of the backoff finds the pods backing off.
	f.endOne()
	f.loop.Queue().TakeMoves()
	f.now = f.now.Add(100 * time.Millisecond)
	f.loop.Once(f.now)
	if counts := f.loop.Queue().Counts(); counts.BackingOff < parked/2 {
		t.Errorf("%+v after an event during the backoff", counts)
	}
	if err := f.loop.Audit(); err != nil {
		t.Error(err)
	}
}

// TestFreedRoomIsTakenAtOnce ends pods while thousands wait, before and during the
// following wave. The first pod in turn takes the room in the round that frees it,
// however many pods remain to be woken.
func TestFreedRoomIsTakenAtOnce(t *testing.T) {
	const parked = 3000
	f := newFull(t, 50, parked, 1, false)
	for end := range 3 {
		f.endOne()
		before := f.commit.made[plan.Placed]
		for i := range 4 { // four pods fit in the place of an ended pod
			f.loop.Once(f.now)
			if placed := f.commit.made[plan.Placed] - before; placed != i+1 {
				t.Fatalf("end %d: %d pods are placed after %d rounds", end, placed, i+1)
			}
		}
		for range 100 {
			f.loop.Once(f.now)
		}
		if counts := f.loop.Queue().Counts(); counts.Active < parked/4 {
			t.Fatalf("end %d: %+v, want a wave that goes on", end, counts)
		}
	}
}
