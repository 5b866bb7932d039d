package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/host"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// mischief is a plugin at every extension point that misbehaves by seed while it is
// restless. It panics, ends its goroutine, does not return, returns errors, invalid
// statuses and invalid results, and changes its arguments. The scheduler's own Runtime
// runs it.
type mischief struct {
	h fwk.Handle

	mu       sync.Mutex
	r        *rand.Rand
	restless bool
	released chan struct{} // closed to make hanging calls return
	did      map[string]int
}

// The kinds of misbehaviour that are common to all points.
var ways = []string{"panic", "panic", "error", "error", "hang", "hang for ever", "exit", "status", "status", "reject", "skip", "mutate", "mutate"}

// act draws the misbehaviour of a call, and hangs or panics if drawn. The caller applies
// the returned part as its point allows.
func (m *mischief) act(ctx context.Context, point string, pod *v1.Pod) (*fwk.Status, string) {
	m.mu.Lock()
	way := ""
	if m.restless && m.r.IntN(100) < 3 {
		way = ways[m.r.IntN(len(ways))]
		m.did[point+": "+way]++
	}
	code, released := fwk.Code(m.r.IntN(9)), m.released
	m.mu.Unlock()
	text := "mischief: " + way + " at " + point
	switch way {
	case "panic":
		panic(text)
	case "exit":
		runtime.Goexit()
	case "hang":
		select {
		case <-ctx.Done():
		case <-released:
		}
	case "hang for ever":
		<-released
	case "error":
		return fwk.AsStatus(errors.New(text)), way
	case "status":
		return fwk.NewStatus(code, text), way
	case "reject":
		return fwk.NewStatus(fwk.Unschedulable, text), way
	case "skip":
		return fwk.NewStatus(fwk.Skip), way
	case "mutate":
		if pod != nil {
			pod.Name, pod.Namespace, pod.UID, pod.Spec.NodeName = "other", "elsewhere", "", "nowhere"
			clear(pod.Labels)
			pod.Spec.Containers, pod.Spec.Priority = nil, nil
			pod.Status = v1.PodStatus{}
		}
	}
	return nil, way
}

func (m *mischief) draw(n int) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.r.IntN(n)
}

// set changes whether the plugin misbehaves. Hanging calls return.
func (m *mischief) set(restless bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.restless = restless; !restless {
		close(m.released)
		m.released = make(chan struct{})
	}
}

// spoil changes a NodeInfo.
func (m *mischief) spoil(info fwk.NodeInfo, pod *v1.Pod) {
	for _, p := range info.GetPods() {
		if m.draw(2) == 0 {
			_ = info.RemovePod(klog.Background(), p.GetPod())
		} else {
			info.AddPodInfo(p)
		}
	}
}

func (*mischief) Name() string { return "Mischief" }
func (m *mischief) PreEnqueue(ctx context.Context, p *v1.Pod) *fwk.Status {
	s, _ := m.act(ctx, "PreEnqueue", p)
	return s
}
func (m *mischief) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	hint := func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
		s, way := m.act(context.Background(), "QueueingHint", pod)
		if way == "mutate" {
			for _, object := range []any{before, after} {
				if n, ok := object.(*v1.Node); ok && n != nil {
					clear(n.Status.Allocatable)
				}
			}
		}
		if m.restlessNow() {
			return fwk.QueueingHint(m.draw(3)), s.AsError()
		}
		return fwk.Queue, nil
	}
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: fwk.WildCard, ActionType: fwk.All}, QueueingHintFn: hint}}, nil
}

func (m *mischief) restlessNow() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.restless
}

func (m *mischief) PreFilter(ctx context.Context, _ fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	s, way := m.act(ctx, "PreFilter", p)
	if way == "mutate" {
		clear(nodes)
		return &fwk.PreFilterResult{NodeNames: sets.New("no-such-node", fmt.Sprint("node-", m.draw(4)))}, nil
	}
	return nil, s
}
func (m *mischief) PreFilterExtensions() fwk.PreFilterExtensions { return m }
func (m *mischief) AddPod(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	s, way := m.act(ctx, "AddPod", p)
	if way == "mutate" {
		m.spoil(n, p)
	}
	return s
}
func (m *mischief) RemovePod(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ fwk.PodInfo, n fwk.NodeInfo) *fwk.Status {
	s, way := m.act(ctx, "RemovePod", p)
	if way == "mutate" {
		m.spoil(n, p)
	}
	return s
}
func (m *mischief) Filter(ctx context.Context, _ fwk.CycleState, p *v1.Pod, n fwk.NodeInfo) *fwk.Status {
	s, way := m.act(ctx, "Filter", p)
	if way == "mutate" {
		m.spoil(n, p)
	}
	return s
}
func (m *mischief) PostFilter(ctx context.Context, state fwk.CycleState, p *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s, way := m.act(ctx, "PostFilter", p)
	switch {
	case way == "mutate":
		return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatingMode: fwk.NominatingMode(m.draw(3)), NominatedNodeName: "no-such-node"}}, nil
	case way == "" && m.draw(4) == 0:
		infos, err := m.h.SnapshotSharedLister().NodeInfos().List()
		if err != nil {
			return nil, fwk.AsStatus(err)
		}
		for _, info := range infos {
			trial, changed := info.Snapshot(), state.Clone()
			for _, other := range info.GetPods() {
				_ = trial.RemovePod(klog.Background(), other.GetPod())
				m.h.RunPreFilterExtensionRemovePod(ctx, changed, p, other, trial)
			}
			m.h.RunFilterPluginsWithNominatedPods(ctx, changed, p, trial)
		}
	}
	if s == nil {
		s = fwk.NewStatus(fwk.Unschedulable)
	}
	return nil, s
}
func (m *mischief) PreScore(ctx context.Context, _ fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	s, way := m.act(ctx, "PreScore", p)
	if way == "mutate" {
		clear(nodes)
	}
	return s
}
func (m *mischief) Score(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ fwk.NodeInfo) (int64, *fwk.Status) {
	s, way := m.act(ctx, "Score", p)
	if way == "mutate" {
		return int64(m.draw(1000)) - 500, nil
	}
	return int64(m.draw(100)), s
}
func (m *mischief) ScoreExtensions() fwk.ScoreExtensions { return m }
func (m *mischief) NormalizeScore(ctx context.Context, _ fwk.CycleState, p *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	s, way := m.act(ctx, "NormalizeScore", p)
	if way == "mutate" {
		for i := range scores {
			scores[i] = fwk.NodeScore{Name: "no-such-node", Score: -1 << 60}
		}
		return nil
	}
	for i := range scores {
		scores[i].Score = max(0, min(fwk.MaxScore, scores[i].Score))
	}
	return s
}
func (m *mischief) Reserve(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	s, _ := m.act(ctx, "Reserve", p)
	return s
}
func (m *mischief) Unreserve(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) {
	m.act(ctx, "Unreserve", p)
}
func (m *mischief) Permit(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.Status, time.Duration) {
	s, _ := m.act(ctx, "Permit", p)
	if s != nil || !m.restlessNow() {
		return s, -time.Second
	}
	m.h.IterateOverWaitingPods(func(w fwk.WaitingPod) {
		switch m.draw(6) {
		case 0:
			w.Allow(m.Name())
		case 1:
			w.Reject(m.Name(), "made to reject")
		case 2:
			w.Preempt(m.Name(), "made to preempt")
		}
	})
	if m.draw(4) == 0 {
		return fwk.NewStatus(fwk.Wait), time.Duration(m.draw(20)) * time.Second
	}
	return nil, 0
}
func (m *mischief) PreBindPreFlight(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	s, _ := m.act(ctx, "PreBindPreFlight", p)
	return nil, s
}
func (m *mischief) PreBind(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	s, _ := m.act(ctx, "PreBind", p)
	return s
}

// Bind leaves the pod to the next plugin. The one thing that it never does is to report a
// binding that it did not make, since the scheduler could not detect that.
func (m *mischief) Bind(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) *fwk.Status {
	if s, _ := m.act(ctx, "Bind", p); !s.IsSuccess() {
		return s
	}
	return fwk.NewStatus(fwk.Skip)
}
func (m *mischief) PostBind(ctx context.Context, _ fwk.CycleState, p *v1.Pod, _ string) {
	m.act(ctx, "PostBind", p)
}

// nuisance is the configuration that enables the plugin at every point but QueueSort,
// before DefaultBinder and before DefaultPreemption.
const nuisance = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: Mischief, weight: 3}]}
    postFilter: {enabled: [{name: Mischief}, {name: DefaultPreemption}], disabled: [{name: "*"}]}
    bind: {enabled: [{name: Mischief}, {name: DefaultBinder}], disabled: [{name: "*"}]}
`

// newMischief returns a trial whose scheduler has the plugin.
func newMischief(t *testing.T, n uint64) (*faultTrial, *mischief, error) {
	m := &mischief{r: rand.New(rand.NewPCG(n, 11)), released: make(chan struct{}), did: map[string]int{}}
	added, err := config.NewExternal([]config.Registered{{Name: "Mischief", Factory: func(_ context.Context, _ apiruntime.Object, h fwk.Handle) (fwk.Plugin, error) {
		m.h = h
		return m, nil
	}}}, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(nuisance), 0o600); err != nil {
		return nil, nil, err
	}
	read, err := config.Read(config.Request{File: file, External: added})
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	var c *simulate.Cluster
	plugins := host.New(ctx, host.Config{
		Log: klog.New(nil), Deadline: 20 * time.Millisecond, Now: func() time.Time { return c.Now() }, Recorder: func(string) events.EventRecorderLogger { return nil },
		Bindings: func() framework.Bindings { return c.Bindings() },
		Activate: func(pods ...model.PodKey) bool { return c.Activate(pods...) },
		Nominate: func(request model.NominationRequest) bool { return c.Nominate(request) },
	})
	t.Cleanup(plugins.Close)
	scheduler, err := read.Build(ctx, plugins)
	if err != nil {
		return nil, nil, err
	}
	c, err = simulate.New(simulate.Config{Scheduler: scheduler, Seed: n, Audit: true, Patience: 20 * time.Millisecond})
	if err != nil {
		return nil, nil, err
	}
	a := newAuditor(c, oracle.DefaultProfile())
	a.judged = 1 << 40 // the oracle does not cover the plugin
	trial := &faultTrial{
		r: random.New(n), c: c, a: a, happened: map[string]int{}, cursed: map[string]bool{}, lost: map[string]*v1.Node{}, external: newExternal(n),
	}
	trial.external.c = c
	for i := range 3 + trial.r.IntN(5) {
		c.SetNode(trial.newNode(fmt.Sprint("node-", i)))
	}
	return trial, m, nil
}

// checkNamed checks that a failure because of the plugin names it and the extension
// point. Rejections have kube-scheduler's words, which do not.
func checkNamed(err error) error {
	if err == nil || strings.HasPrefix(err.Error(), "0/") {
		return nil
	}
	text := err.Error()
	_, said, blamed := strings.Cut(text, "mischief: ")
	way, point, _ := strings.Cut(said, " at ")
	if blamed && way != "panic" && way != "error" {
		return nil // a rejection, or a status that is one
	}
	if !blamed && !strings.Contains(text, "has not returned within") && !strings.Contains(text, "Goexit") && !strings.Contains(text, "ended the goroutine") {
		return nil
	}
	points := pointNames[point]
	switch {
	case !strings.Contains(text, "Mischief"):
		return fmt.Errorf("the failure %q does not name the plugin", text)
	case blamed && !slices.ContainsFunc(points, func(p string) bool { return strings.Contains(text, p) }):
		return fmt.Errorf("the failure %q does not name the extension point, one of %q", text, points)
	}
	return nil
}

// pointNames are kube-scheduler's words for the extension points, by the plugin's names.
// A point that is missing here has its own name.
var pointNames = map[string][]string{
	"PreFilter": {"PreFilter"}, "AddPod": {"AddPod", "RemovePod"}, "RemovePod": {"AddPod", "RemovePod"}, "Filter": {"filter plugin", "Filter"}, "PostFilter": {"PostFilter"},
	"PreScore": {"PreScore"}, "Score": {"Score"}, "NormalizeScore": {"Score"}, "Reserve": {"Reserve"}, "Permit": {"permit", "Permit"},
	"PreBindPreFlight": {"PreBindPreFlight"}, "PreBind": {"PreBind"}, "Bind": {"Bind"}, "PostBind": {"PostBind"},
}

// TestMisbehaviour runs the whole loop with an external plugin that misbehaves at every
// extension point, besides all faults of requests and watches. The misbehaviour must not
// lose a pod, bind one twice, reserve room for no pod or stop the loop. Failures because
// of it must name it.
func TestMisbehaviour(t *testing.T) {
	first, last, err := seedRange(*faultSeeds)
	switch {
	case err != nil:
		t.Fatal(err)
	case *faultSeeds == "":
		last = uint64(build.UnlessRaced(3, 1)) // hanging plugins take real time
	}
	did, decided := map[string]int{}, map[string]int{}
	for n := first; n <= last; n++ {
		trial, m, err := newMischief(t, n)
		// the plugin behaves while it is built, so this machine is too busy
		for tries := 1; tries < 20 && err != nil && strings.Contains(err.Error(), "has not returned within"); tries++ {
			trial, m, err = newMischief(t, n)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := misbehave(trial, m, decided); err != nil {
			t.Errorf("seed %d: %v\nreplay, perhaps: go test ./internal/offline/simulate -run TestMisbehaviour -fault-seeds %d", n, err, n)
		}
		m.set(false)
		m.mu.Lock()
		for what, times := range m.did {
			did[what] += times
		}
		m.mu.Unlock()
	}
	t.Log(decided)
	if 2*decided["failures that name the plugin"] < decided[fmt.Sprint(plan.Failed)] {
		t.Errorf("%d of %d failed decisions name the plugin, which nearly all of them are about", decided["failures that name the plugin"], decided[fmt.Sprint(plan.Failed)])
	}
	// a few seeds reach points depending on the speed of the machine: a hanging plugin is
	// not called any more
	var missed []string
	for _, point := range []string{
		"PreEnqueue", "QueueingHint", "PreFilter", "AddPod", "RemovePod", "Filter", "PostFilter", "PreScore", "Score", "NormalizeScore", "Reserve", "Unreserve", "Permit",
		"PreBindPreFlight", "PreBind", "Bind", "PostBind",
	} {
		ways := 0
		for what := range did {
			if strings.HasPrefix(what, point+": ") {
				ways++
			}
		}
		if ways == 0 {
			missed = append(missed, point)
		}
	}
	if seeds := last - first + 1; seeds >= 3 && len(missed) > 6 || seeds >= 24 && len(missed) > 0 {
		t.Errorf("the plugin has never misbehaved at %v: %v", missed, slices.Sorted(maps.Keys(did)))
	}
}

// misbehave disturbs the cluster with a misbehaving plugin, and expects order a while
// after it behaves again.
func misbehave(t *faultTrial, m *mischief, decided map[string]int) error {
	audit := t.audit
	each := func(r simulate.Round) error {
		if r.Decided {
			decided[fmt.Sprint(r.Decisions[0].Outcome)]++
			if r.Decisions[0].Outcome == plan.Failed {
				if err := checkNamed(r.Decisions[0].Err); err != nil {
					return err
				}
				if strings.Contains(r.Decisions[0].Err.Error(), "Mischief") {
					decided["failures that name the plugin"]++
				}
			}
		}
		for _, s := range r.Shown {
			if s.Bound != nil && s.Bound.Err != nil {
				decided["binding failed"]++
				if err := checkNamed(s.Bound.Err); err != nil {
					return err
				}
			}
		}
		return audit(r)
	}
	t.each = each
	for range 2 {
		m.set(true)
		if err := t.disturbed(); err != nil {
			return err
		}
		m.set(false)
		if err := t.restedAfterMischief(); err != nil {
			return err
		}
	}
	return t.emptied()
}

// restedAfterMischief ends all faults and changes a node, which wakes the pods that the
// plugin rejected. When even the pods that were parked without a reason have been
// retried, no pod may wait that fits somewhere. That is repeated: deadlines are short and
// in real time. On a busy machine the plugin misses some without a fault, and pods wait
// for the next attempt.
func (t *faultTrial) restedAfterMischief() error {
	t.c.SetFaults(simulate.Faults{})
	t.c.ReleasePods()
	t.c.Reconnect(0)
	t.backAt = time.Time{}
	if !t.startAt.IsZero() {
		if err := t.advance(t.startAt.Sub(t.c.Now())); err != nil {
			return err
		}
	}
	for _, kind := range t.c.Reads() {
		t.c.MendWatch(kind, t.r.IntN(2) == 0)
	}
	var waits error
	for i := range 50 {
		for _, node := range t.c.Nodes() {
			node = node.DeepCopy()
			node.Labels["nudge"] = fmt.Sprint(i, t.c.Elapsed())
			t.c.SetNode(node)
		}
		if err := t.advance(6 * time.Minute); err != nil {
			return fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
		}
		if waits = t.a.nothingFits(t.isCursed); waits == nil && i >= 2 {
			return nil
		}
	}
	return waits
}
