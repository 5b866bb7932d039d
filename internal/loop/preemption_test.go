package loop_test

import (
	"errors"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// held is a committer that carries nothing out: the test determines the result of each
// decision.
type held struct{ made []plan.Decision }

func (h *held) Start(d plan.Decision)         { h.made = append(h.made, d) }
func (*held) Allow(types.UID, string)         {}
func (*held) Reject(types.UID, string, error) {}
func (*held) Cancel(types.UID, error) bool    { return false }
func (*held) Room() <-chan struct{}           { return nil }

// preempting is a scheduler whose decisions the test carries out.
type preempting struct {
	*testing.T
	loop    *loop.Loop
	changes *ingest.Ingest
	commit  *held
	now     time.Time
}

// newPreempting has a node a that two pods of priority 0 fill. The pod high needs all of
// the node, and its decision evicts both pods, first before last. The given objects exist
// before.
func newPreempting(t *testing.T, others ...kinds.Object) *preempting {
	t.Helper()
	c, waiting, decider := defaultParts(t, true)
	p := &preempting{T: t, changes: ingest.New(c.Compile()), commit: &held{}, now: time.Unix(1_000_000, 0)}
	p.loop = loop.New(loop.Config{Source: p.changes, Queue: waiting, Engine: decider, Commit: p.commit})
	for _, o := range others {
		p.changes.Set(o)
	}
	p.changes.Set(build.Node("a", build.Allocatable("cpu=2 memory=8Gi pods=10")))
	p.changes.Set(lowly("first"))
	p.changes.Set(lowly("last"))
	p.round(false)
	p.preempts("high")
	return p
}

// ranks is a pod with a priority.
func ranks(name, cpu string, priority int32, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append(options, build.Named(name), build.Container("cpu="+cpu))...)
	p.UID, p.Spec.Priority = types.UID(name), &priority
	return p
}

// lowly is a pod that uses half of the node. first is more important than last.
func lowly(name string, options ...build.PodOption) *v1.Pod {
	p := ranks(name, "1", 0, append(options, build.NodeName("a"))...)
	started := map[string]int64{"first": 100, "last": 200}[name]
	p.Status.StartTime = &metav1.Time{Time: time.Unix(started, 0)}
	return p
}

func keyOf(name string) model.PodKey { return model.PodKey{Namespace: v1.NamespaceDefault, Name: name} }

// round runs one round with or without a decision, and checks every invariant.
func (p *preempting) round(decides bool) {
	p.Helper()
	if decided := p.loop.Once(p.now); decided != decides {
		p.Fatalf("decided: %t, want %t", decided, decides)
	}
	if err := p.loop.Audit(); err != nil {
		p.Fatal(err)
	}
}

// decided runs a round and returns its decision, which must be about the given pod.
func (p *preempting) decided(about string) *plan.Decision {
	p.Helper()
	p.round(true)
	d := &p.commit.made[len(p.commit.made)-1]
	if d.Pod.Name != about {
		p.Fatalf("the decision is about %s, want %s", d.Pod, about)
	}
	return d
}

// preempts creates a pod whose decision must evict both other pods.
func (p *preempting) preempts(name string) {
	p.Helper()
	p.changes.Set(ranks(name, "2", 10))
	p.evictsBoth(p.decided(name))
	p.place(name, "parked")
	p.round(false)
}

// evictsBoth checks a decision.
func (p *preempting) evictsBoth(d *plan.Decision) {
	p.Helper()
	pod := d.Pod
	var victims []string
	for _, e := range d.Evictions {
		victims = append(victims, e.Pod.Name+" from "+e.NodeName)
	}
	if len(victims) != 2 || victims[0] != "first from a" || victims[1] != "last from a" || d.NominationOf(pod) != (plan.Nomination{Pod: pod, Mode: plan.Set, NodeName: "a"}) {
		p.Fatalf("evicted for %s are %q, nominations %+v", pod, victims, d.Nominations)
	}
}

// bound checks that a decision places its pod on the node, and confirms the binding.
func (p *preempting) bound(d *plan.Decision, node string) {
	p.Helper()
	if d.Outcome != plan.Placed || d.Placement.NodeName != node {
		p.Fatalf("the decision is %s: %+v", d.Outcome, d.Placement)
	}
	p.changes.Bound(model.BindingResult{Pod: d.Placement.Pod, NodeName: node})
	p.round(false)
	p.place(d.Pod.Name, "")
}

func (p *preempting) place(name, want string) {
	p.Helper()
	if place := p.loop.Queue().PlaceOf(keyOf(name)); place != want {
		p.Fatalf("%s is in place %q, want %q", name, place, want)
	}
}

// terminates shows a victim as terminating; gone shows its deletion.
func (p *preempting) terminates(name string) { p.changes.Set(lowly(name, preempted)) }

func preempted(pod *v1.Pod) {
	build.Terminating(pod)
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler}}
}

func (p *preempting) gone(name string) { p.changes.Remove(keyOf(name).Ref()) }

// ends reports the result of the last preemption.
func (p *preempting) ends(result model.PreemptionResult) {
	for i := len(p.commit.made) - 1; i >= 0; i-- {
		d := &p.commit.made[i]
		if len(d.Evictions) == 0 {
			continue
		}
		result.Preemptor = d.Pod
		for _, e := range d.Evictions {
			result.Victims = append(result.Victims, e.Pod)
		}
		if result.Err != nil {
			result.Kept = result.Victims
		}
		p.changes.Preempted(result)
		return
	}
	p.Fatal("there was no preemption")
}

// TestPreemption follows a preemption whose victims leave one after the other. The
// preemptor is retried only when all are gone, and then placed on its nominated node.
func TestPreemption(t *testing.T) {
	p := newPreempting(t)
	for _, happens := range []func(){
		func() { p.terminates("first") }, func() { p.gone("first") }, func() { p.terminates("last") }, func() { p.ends(model.PreemptionResult{}) },
	} {
		happens()
		p.round(false)
		p.place("high", "parked")
	}
	p.gone("last")
	p.bound(p.decided("high"), "a")
	if left := p.loop.State().Nominated(); left != 0 {
		t.Errorf("%d pods are still nominated", left)
	}
}

// TestPreemptorsTogether has two preemptors wait, each for the victims on its node.
// Events of one node do not wake the preemptor of the other.
func TestPreemptorsTogether(t *testing.T) {
	other := func(options ...build.PodOption) *v1.Pod {
		return ranks("other", "2", 5, append(options, build.NodeName("b"))...)
	}
	p := newPreempting(t, build.Node("b", build.Allocatable("cpu=2 memory=8Gi pods=10")), other())
	p.changes.Set(ranks("too", "2", 10))
	if d := p.decided("too"); len(d.Evictions) != 1 || d.Evictions[0].Pod.Name != "other" {
		t.Fatalf("%+v", d)
	}
	p.terminates("first")
	p.terminates("last")
	p.changes.Set(other(preempted))
	p.round(false)
	p.gone("first")
	p.round(false)
	p.gone("other")
	p.bound(p.decided("too"), "b")
	p.place("high", "parked")
	p.gone("last")
	p.bound(p.decided("high"), "a")
	if n := len(p.commit.made); n != 4 {
		t.Errorf("%d decisions about two preemptors, want 4", n)
	}
}

// TestPreemptorIsTriedInVain deletes a pod that is no victim during the evictions, which
// may make room. The preemptor stays gated until its last victim terminates. From then on
// each deletion wakes it, as with kube-scheduler.
func TestPreemptorIsTriedInVain(t *testing.T) {
	p := newPreempting(t, build.Node("b", build.Allocatable("cpu=2 memory=8Gi pods=10")), ranks("elsewhere", "1", 10, build.NodeName("b")),
		ranks("stays", "1", 10, build.NodeName("b")))
	p.gone("elsewhere")
	p.round(false)
	p.place("high", "gated")
	vain := func() {
		t.Helper()
		d := p.decided("high")
		if d.Outcome != plan.Unschedulable || len(d.Evictions) > 0 || len(d.Nominations) > 0 ||
			d.PostFilter != "preemption: not eligible due to a terminating pod on the nominated node." {
			t.Fatalf("%+v", d)
		}
	}
	p.terminates("first")
	p.round(false)
	p.place("high", "gated")
	p.terminates("last")
	vain()
	p.gone("first")
	vain()
	p.gone("last")
	p.bound(p.decided("high"), "a")
}

// TestPreemptionEndsBeforeItIsSeen ends the evictions while the watch is behind. The
// preemptor waits until the watch shows the last deletion, and no pod is evicted twice.
func TestPreemptionEndsBeforeItIsSeen(t *testing.T) {
	p := newPreempting(t)
	p.gone("first")
	p.round(false)
	p.place("high", "parked")
	p.ends(model.PreemptionResult{})
	p.round(false)
	p.place("high", "parked")
	p.gone("last")
	p.bound(p.decided("high"), "a")
}

// TestPreemptionFails has evictions fail again and again. The preemptor is retried at
// once, then after growing backoffs. It chooses the same victims, whose evictions succeed
// in the end.
func TestPreemptionFails(t *testing.T) {
	p := newPreempting(t)
	refused := model.PreemptionResult{Err: errors.New("evict default/first: forbidden")}
	p.ends(refused)
	p.evictsBoth(p.decided("high"))
	for _, backoff := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
		p.ends(refused)
		p.round(false)
		p.place("high", "backing off after an error")
		p.now = p.now.Add(backoff)
		p.round(false)
		p.now = p.now.Add(time.Second) // backoffs end with the second
		p.evictsBoth(p.decided("high"))
	}
	p.gone("first")
	p.gone("last")
	p.ends(model.PreemptionResult{})
	p.bound(p.decided("high"), "a")
}

// TestPreemptionOfOneOfTwoFails has one victim leave and the other stay: only the second
// is chosen again.
func TestPreemptionOfOneOfTwoFails(t *testing.T) {
	p := newPreempting(t)
	evictions := p.commit.made[0].Evictions
	p.gone("first")
	p.changes.Preempted(model.PreemptionResult{
		Preemptor: p.commit.made[0].Pod, Victims: []*model.Pod{evictions[0].Pod, evictions[1].Pod}, Kept: []*model.Pod{evictions[1].Pod}, Err: errors.New("no"),
	})
	d := p.decided("high")
	if len(d.Evictions) != 1 || d.Evictions[0].Pod.Name != "last" {
		t.Fatalf("%+v", d)
	}
	p.gone("last")
	p.bound(p.decided("high"), "a")
}

// TestPreemptorIsDeleted deletes the preemptor during its evictions, and may create
// another pod of its name. The results of the evictions do not affect that pod, and any
// pod may take the room.
func TestPreemptorIsDeleted(t *testing.T) {
	for name, again := range map[string]bool{"deleted": false, "created again": true} {
		for outcome, result := range map[string]model.PreemptionResult{"evicted": {}, "failed": {Err: errors.New("forbidden")}} {
			t.Run(name+", "+outcome, func(t *testing.T) {
				p := newPreempting(t)
				p.gone("high")
				p.round(false)
				p.place("high", "")
				if n := p.loop.State().Nominated(); n != 0 {
					t.Fatalf("%d pods are nominated", n)
				}
				other := ranks("high", "2", 10)
				other.UID = "another"
				if again {
					p.changes.Set(other)
					p.evictsBoth(p.decided("high")) // no other node exists
					p.commit.made = p.commit.made[:1]
					p.place("high", "parked")
				}
				p.ends(result) // the result for the deleted pod
				p.round(false)
				if again {
					p.place("high", "parked")
					p.gone("first")
					p.round(false)
					p.place("high", "parked")
					p.gone("last")
					p.bound(p.decided("high"), "a")
					return
				}
				p.place("high", "")
				p.gone("first")
				p.changes.Set(ranks("modest", "1", 0))
				p.bound(p.decided("modest"), "a")
			})
		}
	}
}

// TestPreemptionInMemory evicts a pod that is not bound yet. Its binding is cancelled,
// which looks like a failed binding. The preemptor is ready at once, because no deletion
// will be seen.
func TestPreemptionInMemory(t *testing.T) {
	p := newPreempting(t)
	p.gone("first")
	p.gone("last")
	p.bound(p.decided("high"), "a")
	p.gone("high")
	p.changes.Set(ranks("assumed", "2", 0))
	placed := p.decided("assumed")
	p.place("assumed", "binding")
	p.changes.Set(ranks("higher", "2", 20))
	d := p.decided("higher")
	if len(d.Evictions) != 1 || d.Evictions[0].Pod.Name != "assumed" {
		t.Fatalf("%+v", d)
	}
	p.changes.Bound(model.BindingResult{Pod: placed.Placement.Pod, NodeName: "a", Err: errors.New("preempted by DefaultPreemption")})
	p.ends(model.PreemptionResult{InMemory: true})
	p.changes.Set(ranks("highest", "9", 30))
	p.decided("highest")
	p.place("higher", "active") // without a backoff
	p.bound(p.decided("higher"), "a")
	p.place("assumed", "backing off after an error")
}

// TestPreemptorFindsAnotherNode adds a node during the evictions. The preemptor stays
// gated until the last victim terminates, and is then placed on the new node.
func TestPreemptorFindsAnotherNode(t *testing.T) {
	node := build.Node("b", build.Allocatable("cpu=2 memory=8Gi pods=10"))
	for _, test := range []struct {
		name   string
		happen func(p *preempting)
	}{
		{"the node comes before a victim goes", func(p *preempting) { p.changes.Set(node); p.round(false); p.gone("first") }},
		{"the node comes after a victim has gone", func(p *preempting) { p.gone("first"); p.round(false); p.changes.Set(node) }},
		{"both at once", func(p *preempting) { p.gone("first"); p.changes.Set(node) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPreempting(t)
			test.happen(p)
			p.round(false)
			p.place("high", "gated")
			p.ends(model.PreemptionResult{})
			p.round(false)
			p.place("high", "gated")
			p.terminates("last")
			p.bound(p.decided("high"), "b")
			if n := p.loop.State().Nominated(); n != 0 {
				t.Errorf("%d pods are nominated", n)
			}
		})
	}
}
