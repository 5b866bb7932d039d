package simulate_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var faultSeeds = flag.String("fault-seeds", "", "the seeds of the simulations with faults, such as 1..500 or 7, with progress and a table; if empty 1..6 without them, or 1 under the race detector")

// TestFaults runs the whole loop on clusters with all faults of design/failures.md,
// audited after every round. A while after the faults end, every pod that fits is placed.
// When all pods are deleted, no memory of them is left. A check that every fault has
// occurred needs a dozen seeds, which do not run by default.
func TestFaults(t *testing.T) {
	first, last, err := seedRange(*faultSeeds)
	if err != nil {
		t.Fatal(err)
	}
	report := &faultReport{verbose: *faultSeeds != "", began: time.Now(), total: last - first + 1, happened: map[string]int{}}
	eachSeed(t, first, last, func(n uint64) error {
		trial, err := runFaults(n)
		report.add(trial)
		return err
	})
	report.print()
	if want := 2_000 * report.total; report.events < want {
		t.Errorf("%d events in %d simulations; want thousands in each", report.events, report.total)
	}
	if report.total >= 12 {
		for _, kind := range wantHappened {
			if report.happened[kind] == 0 {
				t.Errorf("%q never happened", kind)
			}
		}
	}
}

// wantHappened are faults that must occur in a dozen seeds.
var wantHappened = []string{
	"bind: conflict", "bind: forbidden", "bind: denied", "bind: throttled", "bind: unavailable", "bind: internal", "bind: refused",
	"bind: lost", "bind: dropped", "bind: timed-out", "bind: late", "bind: NotFound, in earnest", "bind: Conflict, in earnest",
	"ask: forbidden", "ask: refused", "ask: dropped", "patch: unavailable", "patch: dropped", "record: unavailable", "record: dropped", "record: AlreadyExists, in earnest",
	"mark: conflict", "mark: forbidden", "mark: dropped", "mark: NotFound, in earnest", "delete: forbidden", "delete: lost", "delete: dropped", "delete: unavailable",
	"preemption: done", "preemption: failed", "preemption: done, in memory", "kubelet: a pod stays",
	"repeat: unavailable", "repeat: dropped", "repeat: NotFound, in earnest",
	"watch: broken", "watch: resumed", "watch: listed anew", "watch: deletion missed", "watch: replacement missed", "watch: event shown twice",
	"watch: deletion missed, and versions before it", "watch: deletion and creation shown as one", "watch: finished pod shown as deleted",
	"informer: tombstone", "informer: tombstone without an object", "informer: update under another UID", "informer: update without a change",
	"informer: update with nothing new to scheduling",
	"API server: gone", "API server: back", "process: killed", "process: stopped", "clock: set", "clock: jumped with a stalled process",
	"pod deleted while active", "pod deleted while backing off", "pod deleted while backing off after an error", "pod deleted while parked",
	"pod deleted while gated", "pod deleted while binding", "pod replaced while binding", "pod updated while binding",
	"pod terminating while binding", "node gone under assumed pods",
	"call at Reserve: failed", "call at PreBind: failed", "call at PreBind: cancelled", "call at Bind: begun", "call at Bind: failed", "call at Bind: skipped",
	"call at PostBind: begun", "undo call at Reserve: begun", "Permit: failed", "Permit: rejected", "Permit: passed",
}

// eachSeed runs the simulations of seeds, as many concurrently as processors exist.
func eachSeed(t *testing.T, first, last uint64, run func(n uint64) error) {
	work := make(chan uint64)
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for n := range work {
				if err := run(n); err != nil {
					t.Errorf("seed %d: %v\nreplay: make simulate-faults SEEDS=%d", n, err, n)
				}
			}
		})
	}
	for n := first; n <= last; n++ {
		work <- n
	}
	close(work)
	workers.Wait()
}

// countTrials runs a trial for each seed, and fails if some wanted event has not occurred
// in a dozen seeds. A trial returns its counters.
func countTrials(t *testing.T, trial func(n uint64) ([]map[string]int, error), wanted []string) {
	t.Helper()
	first, last, err := seedRange(*faultSeeds)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	happened := map[string]int{}
	eachSeed(t, first, last, func(n uint64) error {
		all, err := trial(n)
		mu.Lock()
		defer mu.Unlock()
		for _, counts := range all {
			for kind, n := range counts {
				happened[kind] += n
			}
		}
		return err
	})
	if t.Failed() || last-first+1 < 12 {
		return
	}
	for _, kind := range wanted {
		if happened[kind] == 0 {
			t.Errorf("%q has not happened: %v", kind, happened)
		}
	}
}

func seedRange(text string) (first, last uint64, err error) {
	switch {
	case text == "":
		return 1, uint64(build.UnlessRaced(6, 1)), nil
	}
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	if first, err = strconv.ParseUint(from, 10, 64); err == nil {
		last, err = strconv.ParseUint(to, 10, 64)
	}
	if err != nil || first == 0 || last < first {
		return 0, 0, fmt.Errorf("seeds %q: must be a number greater than 0, or a range such as 1..500", text)
	}
	return first, last, nil
}

// faultReport counts the trials.
type faultReport struct {
	verbose  bool
	began    time.Time
	total    uint64
	mu       sync.Mutex
	done     uint64
	events   uint64
	virtual  time.Duration
	happened map[string]int
}

func (r *faultReport) add(t *faultTrial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done++
	if t == nil {
		return
	}
	r.events += t.events
	r.virtual += t.c.Elapsed()
	for kind, n := range t.c.Happened() {
		r.happened[kind] += n
		for _, prefix := range []string{"bind: ", "ask: ", "patch: ", "record: ", "repeat: ", "mark: ", "delete: "} {
			if strings.HasPrefix(kind, prefix) {
				r.events += uint64(n)
			}
		}
	}
	for kind, n := range t.happened {
		r.happened[kind] += n
	}
	if r.verbose && (r.done%25 == 0 || r.done == r.total) {
		fmt.Fprintf(os.Stderr, "%d of %d seeds, %d events, %s of virtual time, %s\n", r.done, r.total, r.events, r.virtual.Round(time.Minute),
			time.Since(r.began).Round(time.Second))
	}
}

func (r *faultReport) print() {
	if !r.verbose {
		return
	}
	fmt.Printf("%d simulations, %d events, %s of virtual time\n\n", r.done, r.events, r.virtual.Round(time.Minute))
	for _, kind := range slices.Sorted(maps.Keys(r.happened)) {
		fmt.Printf("%10d  %s\n", r.happened[kind], kind)
	}
}

// faultTrial is one simulation with faults.
type faultTrial struct {
	r        *rand.Rand
	c        *simulate.Cluster
	a        *auditor
	events   uint64
	happened map[string]int
	restless bool                // changes may happen between any two rounds
	pods     int                 // number of names so far
	cursed   map[string]bool     // pods whose bindings are always denied
	lost     map[string]*v1.Node // deleted nodes that may return
	startAt  time.Time           // time of the next start of a process; zero while one runs
	backAt   time.Time           // time of the API server's return; zero while it is there
	external *external
	each     func(simulate.Round) error // called after each round instead of audit, if set
}

// runFaults runs one simulation: disturbance and rest three times, then the deletion of
// all pods.
func runFaults(n uint64) (*faultTrial, error) {
	t, err := newFaultTrial(n)
	if err != nil {
		return nil, err
	}
	return t, t.run()
}

func (t *faultTrial) run() error {
	for range 3 {
		if err := t.disturbed(); err != nil {
			return err
		}
		if err := t.rested(); err != nil {
			return err
		}
	}
	return t.emptied()
}

func newFaultTrial(n uint64) (*faultTrial, error) {
	scheduler, err := config.Default()
	if err != nil {
		return nil, err
	}
	r, out := random.New(n), newExternal(n)
	scheduler.Profiles[0].Permit = append(scheduler.Profiles[0].Permit, plugintest.PartsOf(out).Permit)
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: n, Audit: true, Slice: []int{0, 1, 2, 5}[n%4], External: out.steps, Trim: n%2 == 0, EventHints: n%3 == 1})
	if err != nil {
		return nil, err
	}
	a := newAuditor(c, oracle.DefaultProfile())
	a.judged = 5
	t := &faultTrial{r: r, c: c, a: a, happened: map[string]int{}, cursed: map[string]bool{}, lost: map[string]*v1.Node{}, external: out}
	out.c = c
	for i := range 3 + r.IntN(8) {
		c.SetNode(t.newNode(fmt.Sprint("node-", i)))
	}
	return t, nil
}

// disturbed makes a hundred changes to the cluster.
func (t *faultTrial) disturbed() error {
	t.restless, t.external.restless = true, true
	defer func() { t.restless, t.external.restless = false, false }()
	for step := range 100 {
		if step%20 == 0 {
			t.c.SetFaults(t.faults())
		}
		what, err := t.disturb()
		if err == nil {
			err = t.advance(pause(t.r))
		}
		if err != nil {
			return fmt.Errorf("step %d (%s), %s after the start: %w", step, what, t.c.Elapsed(), err)
		}
	}
	return nil
}

// advance moves the time. At their times, a process starts again and the API server
// returns.
func (t *faultTrial) advance(d time.Duration) error {
	until := t.c.Now().Add(d)
	for {
		next := until
		for _, at := range []time.Time{t.startAt, t.backAt} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
		if next.After(t.c.Now()) || next == until {
			each := t.audit
			if t.each != nil {
				each = t.each
			}
			if err := t.c.AdvanceTo(next, each); err != nil {
				return err
			}
		}
		if err := t.resume(); err != nil {
			return err
		}
		if !t.c.Now().Before(until) {
			return nil
		}
	}
}

// resume starts the process and reconnects the API server, if due.
func (t *faultTrial) resume() error {
	if !t.backAt.IsZero() && !t.c.Now().Before(t.backAt) {
		t.backAt = time.Time{}
		t.c.Reconnect(time.Duration(t.r.IntN(3000)) * time.Millisecond)
	}
	if !t.startAt.IsZero() && !t.c.Now().Before(t.startAt) {
		t.startAt = time.Time{}
		t.a.forget()
		t.external.forget()
		return t.c.Restart()
	}
	return nil
}

// rested ends all faults, and checks that after a while no pod waits that fits somewhere.
func (t *faultTrial) rested() error {
	t.c.SetFaults(simulate.Faults{})
	t.c.ReleasePods()
	t.c.ReleaseCalls()
	t.c.Reconnect(0)
	t.backAt = time.Time{}
	if !t.startAt.IsZero() {
		if err := t.advance(t.startAt.Sub(t.c.Now())); err != nil {
			return fmt.Errorf("until a process starts, %s after the start: %w", t.c.Elapsed(), err)
		}
	}
	for _, kind := range t.c.Reads() {
		t.c.MendWatch(kind, t.r.IntN(2) == 0)
	}
	if err := t.a.nothingWaitsInVain(settled, t.advance, t.a.byOracle(t.isCursed)); err != nil {
		return fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
	}
	if err := t.a.checkSeen(); err != nil {
		return fmt.Errorf("%v after the last disturbance: %w", settled, err)
	}
	if err := t.a.nothingFits(t.isCursed); err != nil {
		return fmt.Errorf("%v after the last disturbance: %w", settled, err)
	}
	for placed := -1; placed != t.a.placedPods(); {
		placed = t.a.placedPods()
		if err := t.advance(6 * time.Minute); err != nil {
			return fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
		}
	}
	return t.a.nothingFits(t.isCursed)
}

// settled is the time until every pod that fits must have a node. A request that hangs
// takes half a minute. A preemptor is woken half a minute after the end of another's
// victim. Backoffs take eleven seconds each.
const settled = 110 * time.Second

func (t *faultTrial) isCursed(pod *v1.Pod) bool { return t.cursed[pod.Name] }

// emptied deletes all pods, and checks that no memory is left of them.
func (t *faultTrial) emptied() error {
	for _, pod := range t.c.Pods() {
		t.c.DeletePod(keyOf(pod))
	}
	if err := t.advance(forgotten); err != nil {
		return fmt.Errorf("without pods, %s after the start: %w", t.c.Elapsed(), err)
	}
	s, q, d := t.c.Loop().State(), t.c.Loop().Queue().Counts(), t.c.Outbox()
	waiting := q.Active + q.BackingOff + q.Parked + q.Gated + q.Binding
	if s.Pods() != 0 || s.Assumed() != 0 || waiting != 0 || d.Remembered() != 0 || t.c.Unseen() != 0 {
		return fmt.Errorf("all pods are gone; the state has %d (%d of them assumed), the queue %+v, the outbox %d things, ingest %d changes",
			s.Pods(), s.Assumed(), q, d.Remembered(), t.c.Unseen())
	}
	for app := range 3 {
		probe := t.newPod("probe")
		probe.Labels = map[string]string{"app": fmt.Sprint("app-", app)}
		if terms := s.TermsMatching(model.NewPod(probe)); len(terms) > 0 {
			return fmt.Errorf("all pods are gone, and %d groups of terms are kept", len(terms))
		}
	}
	if most := 2 * (len(t.c.Nodes()) + len(t.lost)); s.Slots() > most {
		return fmt.Errorf("the state has %d slots for %d nodes", s.Slots(), s.Nodes())
	}
	return nil
}

// audit checks a round against the auditor's record, and the stored pods against the API
// server's nodes.
func (t *faultTrial) audit(r simulate.Round) error {
	t.events += uint64(len(r.Shown))
	for _, pod := range r.Stored {
		if err := t.checkTruth(pod); err != nil {
			return fmt.Errorf("the API server stored that %s is bound to %s: %w", pod.Name, pod.Spec.NodeName, err)
		}
	}
	if err := t.external.audit(r, !t.startAt.IsZero()); err != nil {
		return err
	}
	if err := t.a.audit(r); err != nil || !t.restless || !r.Decided || t.r.IntN(20) > 0 {
		return err
	}
	// Between two rounds, changes also hit pods that are about to be tried.
	_, err := t.disturbPod()
	return err
}

// checkTruth checks that a node has room for the pods that are bound to it in the API
// server. No one else binds pods and no node shrinks, so this must always hold, whatever
// the watches show.
func (t *faultTrial) checkTruth(pod *v1.Pod) error {
	node := t.c.Node(pod.Spec.NodeName)
	if node == nil {
		return nil // the node is gone, which the API server allows
	}
	var used model.Sum
	count := int64(0)
	var held []model.HostPort
	for _, p := range t.c.Pods() {
		if p.Spec.NodeName != node.Name || p.Status.Phase == v1.PodSucceeded {
			continue
		}
		used.Add(t.a.occupies(p), 1)
		count++
		for _, port := range model.HostPortsOf(p) {
			if slices.ContainsFunc(held, port.Conflicts) {
				return fmt.Errorf("port %v is taken twice", port)
			}
			held = append(held, port)
		}
	}
	free := model.ResourcesOf(node.Status.Allocatable)
	if used.CPUMilli > free.CPUMilli || used.MemoryBytes > free.MemoryBytes || count > model.AllowedPods(node.Status.Allocatable) {
		return fmt.Errorf("its %d pods take %+v of %+v", count, used, free)
	}
	return nil
}

func (t *faultTrial) newNode(name string) *v1.Node {
	n := node(name, "4")
	n.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("zone-", len(name)%2+t.r.IntN(2))}
	n.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("8Gi")
	n.Status.Allocatable[v1.ResourcePods] = resource.MustParse("12")
	return n
}

// TestMemoryReturns fills a cluster with pods and empties it repeatedly. The retained
// memory must not grow.
func TestMemoryReturns(t *testing.T) {
	if build.Raced {
		t.Skip("it measures memory, which is another under the race detector: see make unit")
	}
	trial, err := newFaultTrial(1)
	if err != nil {
		t.Fatal(err)
	}
	var pods []*v1.Pod
	for i := range 150 {
		pods = append(pods, trial.newPod(fmt.Sprint("pod-", i)))
	}
	cycle := func() uint64 {
		for _, p := range pods {
			trial.c.SetPod(p.DeepCopy())
		}
		if err := trial.advance(30 * time.Second); err != nil {
			t.Fatal(err)
		}
		if err := trial.emptied(); err != nil {
			t.Fatal(err)
		}
		trial.a.forgetGone()
		trial.external.forget()
		trial.c.DeleteEvents()
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	// Some memory is kept for a while, such as tables of ranked nodes and grown buffers.
	// The least of several cycles is the retained memory.
	least := func(cycles int) uint64 {
		bytes := cycle()
		for range cycles - 1 {
			bytes = min(bytes, cycle())
		}
		return bytes
	}
	least(20)
	base := least(10)
	least(20)
	if grown := int64(least(10)) - int64(base); grown > 200<<10 {
		t.Errorf("30 times 150 pods have left %d KiB behind", grown>>10)
	} else {
		t.Logf("30 times 150 pods have left %d KiB behind", grown>>10)
	}
}

// TestFaultsRepeat runs a seed twice, concurrently, and expects the same history. The
// seed is a fast one.
func TestFaultsRepeat(t *testing.T) {
	if build.Raced {
		t.Skip("TestFaults runs simulations at the same time, too")
	}
	const seed = 3
	var histories [2][]string
	var runs sync.WaitGroup
	for i := range histories {
		runs.Go(func() {
			trial, err := newFaultTrial(seed)
			if err == nil {
				trial.each = func(r simulate.Round) error {
					histories[i] = append(histories[i], roundInWords(&r))
					return trial.audit(r)
				}
				err = trial.run()
			}
			if err != nil {
				t.Errorf("seed %d: %v", seed, err)
				return
			}
			histories[i] = append(histories[i], fmt.Sprint(trial.events, trial.c.Elapsed(), trial.happened, trial.c.Happened()))
		})
	}
	runs.Wait()
	if len(histories[0]) < 1000 {
		t.Errorf("seed %d took %d rounds", seed, len(histories[0]))
	}
	for at := range max(len(histories[0]), len(histories[1])) {
		if at >= len(histories[0]) || at >= len(histories[1]) || histories[0][at] != histories[1][at] {
			t.Fatalf("seed %d gives two histories, of %d and %d rounds, which differ from round %d on", seed, len(histories[0]), len(histories[1]), at)
		}
	}
}

// roundInWords describes the deliveries and decisions of a round.
func roundInWords(r *simulate.Round) string {
	var words strings.Builder
	fmt.Fprint(&words, r.At.UnixNano())
	for _, s := range r.Shown {
		switch {
		case s.Object != nil:
			ref, _ := kinds.RefOf(s.Object)
			fmt.Fprint(&words, " set ", ref, " ", s.Object.GetUID(), "/", s.Object.GetResourceVersion())
		case s.Bound != nil:
			fmt.Fprint(&words, " bound ", s.Bound.Pod.Key(), " ", s.Bound.NodeName, " ", s.Bound.Err)
		case s.Preempted != nil:
			fmt.Fprint(&words, " preempted ", len(s.Preempted.Kept))
		case s.Written != nil:
			fmt.Fprint(&words, " written ", s.Written.Object.Ref())
		default:
			fmt.Fprint(&words, " gone ", s.Gone)
		}
	}
	for i := range r.Decisions {
		d := &r.Decisions[i]
		fmt.Fprint(&words, " decided ", d.Pod.Key(), " ", d.Outcome)
		if d.Outcome == plan.Placed {
			fmt.Fprint(&words, " ", d.Placement.NodeName)
		}
	}
	return words.String()
}
