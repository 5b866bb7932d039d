package queue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/gangscheduling"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// awaits is a PreEnqueue plugin that holds pods with a claim that a write in flight
// releases.
type awaits struct{}

func (awaits) Name() string { return "Awaits" }

func (awaits) PreEnqueueIn(v state.View, pod *model.Pod) string {
	if v.AwaitsWrite(pod) {
		return "a write is in flight"
	}
	return ""
}

func (awaits) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.ResourceClaimEvent, Actions: model.Update | model.Delete}}
}

func newAwaitingQueue(t *testing.T, slice int) *groupQueue {
	t.Helper()
	q, err := New(Config{
		Profiles: []*plugin.Profile{{
			QueueSort: prioritysort.New().Parts().QueueSort, PreEnqueue: []*plugin.PreEnqueue{plugintest.PartsOf(gate{}).PreEnqueue, plugintest.PartsOf(gangscheduling.New()).PreEnqueue, plugintest.PartsOf(awaits{}).PreEnqueue},
			EnqueueExtensions: plugintest.Registering(&fit{}, awaits{}),
		}},
		Groups: true, Slice: slice, BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	g := &groupQueue{T: t, Queue: q, now: start}
	g.apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.Allocatable("pods=99")))})
	return g
}

func claimSet(name string) (*model.ResourceClaim, model.Change) {
	claim := model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}})
	return claim, model.Change{Kind: model.ObjectSet, Compiled: claim}
}

// using adds a claim to the pod of a change.
func using(change model.Change, claim string) model.Change {
	object := change.Pod.Object.DeepCopy()
	object.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}}
	change.Pod = model.NewPod(object)
	return change
}

func podSet(name string) model.Change { return model.Change{Kind: model.PodSet, Pod: pod(name, 0)} }

// TestReadyPodsAwaitAWrite releases the claim that a ready pod, a pod that backs off
// and a parked pod use. The ready pod and the backing-off pod must not be tried before
// the write has ended. The end of the write must not wake the parked pod.
func TestReadyPodsAwaitAWrite(t *testing.T) {
	g := newAwaitingQueue(t, 0)
	claim, set := claimSet("c")
	g.apply(set, using(podSet("parked"), "c"))
	work, _ := g.pop()
	SettlePod(g.Queue, g.now, work, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{"Awaits"}}})
	g.apply(using(podSet("fails"), "c"))
	work, _ = g.pop()
	SettlePod(g.Queue, g.now, work, plan.Decision{Outcome: plan.Failed, Err: errors.New("no")})
	g.apply(using(podSet("ready"), "c"), podSet("free"))

	g.State().GiveBack(plan.Write{GivesBack: claim})
	if _, got := g.pop(); got != "free1" {
		t.Errorf("popped %q, want the pod that uses nothing of it", got)
	}
	g.now = g.now.Add(20 * time.Second) // the backoff has ended
	if _, got := g.pop(); got != "" {
		t.Errorf("popped %q while the write is in flight", got)
	}
	if got := g.places("ready", "fails", "parked"); got != "gated, gated, parked" {
		t.Errorf("meanwhile: %s", got)
	}
	g.apply(model.Change{Kind: model.WriteDone, Write: &model.WriteResult{Object: claim, Decisions: 1}})
	if got := g.places("ready", "fails", "parked"); got != "active, active, parked" {
		t.Errorf("in the end: %s", got)
	}
	for _, want := range []string{"fails2", "ready1"} {
		if _, got := g.pop(); got != want {
			t.Errorf("popped %q, want %q", got, want)
		}
	}
}

// TestReadyGroupsAwaitAWrite releases the claim of one member of a ready group. The
// group must not be tried before the write has ended.
func TestReadyGroupsAwaitAWrite(t *testing.T) {
	g := newAwaitingQueue(t, 0)
	claim, set := claimSet("c")
	g.apply(set, podGroup("g", 2, 0), memberOf("g", "one", 0), using(memberOf("g", "two", 0), "c"))
	g.State().GiveBack(plan.Write{GivesBack: claim})
	if _, got := g.pop(); got != "" {
		t.Errorf("popped %q while the write is in flight", got)
	}
	g.apply(model.Change{Kind: model.WriteDone, Write: &model.WriteResult{Object: claim, Decisions: 1}})
	if _, got := g.pop(); got != "g: one1 two1" {
		t.Errorf("popped %q in the end", got)
	}
}

// TestAwaitingPodsInSlices has more pods await a write than one round moves. The next
// rounds must continue, and the pod behind them must have its turn.
func TestAwaitingPodsInSlices(t *testing.T) {
	g := newAwaitingQueue(t, 3)
	claim, set := claimSet("c")
	g.apply(set)
	for i := range 10 {
		g.apply(using(podSet(fmt.Sprint("pod-", i)), "c"))
	}
	g.apply(podSet("last"))
	g.State().GiveBack(plan.Write{GivesBack: claim})
	var popped []string
	for len(popped) == 0 || popped[len(popped)-1] == "" && g.Unfinished() {
		_, got := g.pop()
		popped = append(popped, got)
	}
	if got := strings.Join(popped, ","); got != ",,last1" {
		t.Errorf("popped %q, want two rounds that move pods, and then the last", got)
	}
}

// TestParkedWhileAWriteIsInFlight has a profile without a PreEnqueue plugin that gates
// such pods. An attempt rejects the pod because a write releases its claim. The end of
// the write must wake the pod, and no pod that was parked for another reason.
func TestParkedWhileAWriteIsInFlight(t *testing.T) {
	for _, overflow := range []bool{false, true} {
		g := newAwaitingQueue(t, 0)
		claim, set := claimSet("c")
		g.apply(set)
		park := func(name string) {
			g.apply(using(podSet(name), "c"))
			work, _ := g.pop()
			// after the call of the PreEnqueue plugin
			g.State().GiveBack(plan.Write{GivesBack: claim})
			SettlePod(g.Queue, g.now, work, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{"Awaits"}}})
		}
		g.apply(using(podSet("before"), "c"))
		work, _ := g.pop()
		SettlePod(g.Queue, g.now, work, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: []string{"Awaits"}}})
		park("while")
		want := "parked, active"
		if overflow { // all parked pods are retried
			g.waking.pending, want = make([]pendingEvent, maxPending), "active, active"
		}
		g.now = g.now.Add(20 * time.Second) // the backoff has ended
		g.apply(model.Change{Kind: model.WriteDone, Write: &model.WriteResult{Object: claim, Decisions: 1}})
		if got := g.places("before", "while"); got != want {
			t.Errorf("in the end, too many events: %t: %s, want %s", overflow, got, want)
		}
	}
}
