package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// heeding is a committer that carries nothing out and records the calls about waits.
type heeding struct {
	held
	told []string
}

func (h *heeding) note(what string, pod types.UID, rest ...any) {
	h.told = append(h.told, fmt.Sprint(append([]any{what, " ", pod}, rest...)...))
}

func (h *heeding) Allow(pod types.UID, plugin string) { h.note("allow", pod, " for ", plugin) }
func (h *heeding) Reject(pod types.UID, plugin string, reason error) {
	h.note("reject", pod, " for ", plugin, ": ", reason)
}
func (h *heeding) Cancel(pod types.UID, reason error) bool {
	h.note("cancel", pod, ": ", reason)
	return pod == "there"
}

// patient is a Permit plugin that lets each pod wait for the objects of the test, until
// the test ends the wait. Pods without objects do not wait, or call an out-of-tree plugin
// if their name requests it.
type patient struct {
	objects map[string][]model.Ref
	done    map[string]bool
	err     map[string]error
	asked   []string // pods of its calls
}

func (*patient) Name() string { return "Patient" }

// IsCall makes the plugin a call that nothing can run.
func (*patient) IsCall() {}

func (p *patient) Permit(_ state.View, placement *plan.Placement) ([]plan.Step, error) {
	name := placement.Pod.Name
	if name == "calls" {
		return []plan.Step{{Call: p}}, nil
	}
	if refs := p.objects[name]; refs != nil {
		return []plan.Step{{Wait: &plan.Wait{Timeout: time.Minute, For: refs}}}, nil
	}
	return nil, nil
}

func (p *patient) Done(_ state.View, placement *plan.Placement) (bool, error) {
	name := placement.Pod.Name
	p.asked = append(p.asked, name)
	return p.done[name], p.err[name]
}

// foreign is another Permit plugin, whose waits end only from outside.
type foreign struct{}

func (foreign) Name() string { return "Foreign" }
func (foreign) Permit(_ state.View, p *plan.Placement) ([]plan.Step, error) {
	if p.Pod.Name != "foreign" {
		return nil, nil
	}
	return []plan.Step{{Wait: &plan.Wait{Timeout: time.Minute, For: []model.Ref{claim}}}}, nil
}

// The objects that pods wait for.
var (
	claim   = model.ClaimKey{Namespace: "default", Name: "c"}.Ref()
	another = model.ClaimKey{Namespace: "default", Name: "another"}.Ref()
	nodeA   = model.Ref{Kind: model.NodeKind, Name: "a"}
	leader  = keyOf("leader").Ref()
)

// awaiting is a loop that has decided about pods that wait, with a committer that has not
// bound them.
type awaiting struct {
	*testing.T
	*patient
	loop    *loop.Loop
	changes *ingest.Ingest
	commit  *heeding
	now     time.Time
}

// newAwaiting decides about pods with these names, in this order.
func newAwaiting(t *testing.T, p *patient, names ...string) *awaiting {
	t.Helper()
	c, waiting, decider := defaultParts(t, true)
	c.Profiles[0].Permit = []*plugin.Permit{plugintest.PartsOf(p).Permit, plugintest.PartsOf(foreign{}).Permit}
	a := &awaiting{T: t, patient: p, changes: ingest.New(c.Compile()), commit: &heeding{}, now: time.Unix(1_000_000, 0)}
	a.loop = loop.New(loop.Config{Source: a.changes, Queue: waiting, Engine: decider, Commit: a.commit})
	a.changes.Set(build.Node("a", build.Allocatable("cpu=10 memory=8Gi pods=10")))
	for _, name := range names {
		a.decides(name, name)
	}
	return a
}

// decides shows the loop a pod and has it decide about it.
func (a *awaiting) decides(name, uid string) {
	a.Helper()
	pod := ranks(name, "1", 0)
	pod.UID = types.UID(uid)
	a.changes.Set(pod)
	before := len(a.commit.made)
	a.round()
	if len(a.commit.made) != before+1 || a.commit.made[before].Outcome != plan.Placed {
		a.Fatalf("decisions %+v", a.commit.made[before:])
	}
}

// round runs one round and checks every invariant.
func (a *awaiting) round() {
	a.Helper()
	a.loop.Once(a.now)
	if err := a.loop.Audit(); err != nil {
		a.Fatal(err)
	}
}

// expects checks the pods of the plugin's calls since the last check, the calls of
// commit, and the number of placements that have not ended.
func (a *awaiting) expects(asked, told string, waiting int) {
	a.Helper()
	slices.Sort(a.asked)
	if got := fmt.Sprint(a.asked); got != asked {
		a.Errorf("asked about %s, want %s", got, asked)
	}
	if got := fmt.Sprint(a.commit.told); got != told {
		a.Errorf("commit was told %s\nwant %s", got, told)
	}
	if got := a.loop.Waiting(); got != waiting {
		a.Errorf("%d placements have not ended, want %d", got, waiting)
	}
	a.asked, a.commit.told = nil, nil
}

func waitsFor(refs ...model.Ref) *patient {
	return &patient{objects: map[string][]model.Ref{"p": refs, "q": {nodeA}}, done: map[string]bool{}, err: map[string]error{}}
}

// TestWhatAWaitHearsOf has one pod wait for a claim, its node and another pod, named
// twice, and another for its node alone. Each change checks the waits that it touches,
// once.
func TestWhatAWaitHearsOf(t *testing.T) {
	pod := func(name string, options ...build.PodOption) *v1.Pod { return ranks(name, "1", 0, options...) }
	for _, row := range []struct {
		name  string
		shows func(a *awaiting)
		asked string
		told  string
	}{
		{"nothing", func(*awaiting) {}, "[]", "[]"},
		{"the claim", func(a *awaiting) { a.changes.Set(build.PersistentVolumeClaim("c", "version=2")) }, "[p]", "[]"},
		{"the claim is deleted", func(a *awaiting) {
			a.changes.Set(build.PersistentVolumeClaim("c", ""))
			a.round()
			a.asked = nil
			a.changes.Remove(claim)
		}, "[p]", "[]"},
		{"another claim", func(a *awaiting) { a.changes.Set(build.PersistentVolumeClaim("d", "")) }, "[]", "[]"},
		{"a volume for the claim", func(a *awaiting) { a.changes.Set(build.PersistentVolume("v", "claim=default/c")) }, "[p]", "[]"},
		{"a volume for another claim", func(a *awaiting) { a.changes.Set(build.PersistentVolume("v", "claim=default/d")) }, "[]", "[]"},
		{"a volume for none", func(a *awaiting) { a.changes.Set(build.PersistentVolume("v", "")) }, "[]", "[]"},
		{"the node", func(a *awaiting) { a.changes.Set(build.Node("a", build.Allocatable("cpu=9"))) }, "[p q]", "[]"},
		{"the node is deleted", func(a *awaiting) { a.changes.Remove(nodeA) }, "[p q]", "[]"},
		{"another node", func(a *awaiting) { a.changes.Set(build.Node("b")) }, "[]", "[]"},
		{"the claim and the node", func(a *awaiting) {
			a.changes.Set(build.PersistentVolumeClaim("c", "version=2"))
			a.changes.Set(build.Node("a", build.Allocatable("cpu=9")))
		}, "[p q]", "[]"},
		{"the pod that it waits for", func(a *awaiting) { a.changes.Set(pod("leader", build.NodeName("a"))) }, "[p]", "[]"},
		{"that pod is deleted", func(a *awaiting) {
			a.changes.Set(pod("leader", build.NodeName("a")))
			a.round()
			a.asked = nil
			a.changes.Remove(leader)
		}, "[p]", "[]"},
		{"that pod's binding ends", func(a *awaiting) {
			a.changes.Bound(model.BindingResult{Pod: model.NewPod(pod("leader")), NodeName: "a"})
		}, "[p]", "[]"},
		{"another pod", func(a *awaiting) { a.changes.Set(pod("other", build.NodeName("a"))) }, "[]", "[]"},
		{"the pod itself, bound where it is to go", func(a *awaiting) { a.changes.Set(pod("p", build.NodeName("a"))) }, "[]", "[]"},
		{"it is bound elsewhere", func(a *awaiting) { a.changes.Set(pod("p", build.NodeName("b"))) }, "[]", "[cancel p: the pod is bound to b]"},
		{"it changes", func(a *awaiting) { a.changes.Set(pod("p", build.Labels("x=y"))) }, "[]", "[]"},
		{"it is being deleted", func(a *awaiting) { a.changes.Set(pod("p", build.Terminating)) }, "[]", "[cancel p: the pod is being deleted]"},
		{"it is deleted", func(a *awaiting) { a.changes.Remove(keyOf("p").Ref()) }, "[]", "[cancel p: the pod is being deleted]"},
		{"it is deleted, and another has its name", func(a *awaiting) {
			replaced := pod("p", build.NodeName("a"))
			replaced.UID = "new"
			a.changes.Set(replaced)
		}, "[]", "[cancel p: the pod is being deleted]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := newAwaiting(t, waitsFor(claim, nodeA, leader, claim), "p", "q")
			a.expects("[p q]", "[]", 2) // the wait may be over already
			row.shows(a)
			a.round()
			a.expects(row.asked, row.told, 2)
			if asked := a.loop.WaitsAsked(); asked < 2 {
				t.Errorf("plugins were asked %d times", asked)
			}
		})
	}
}

// TestWaitEnds ends waits. Commit receives one call, and the plugin is not called again.
func TestWaitEnds(t *testing.T) {
	touch := func(a *awaiting, version int) {
		a.changes.Set(build.PersistentVolumeClaim("c", fmt.Sprint("version=", version)))
		a.round()
	}
	for _, row := range []struct {
		name string
		ends func(p *patient)
		told string
	}{
		{"over", func(p *patient) { p.done["p"] = true }, "[allow p for Patient]"},
		{"in vain", func(p *patient) { p.err["p"] = errors.New("the claim is lost") }, "[reject p for Patient: the claim is lost]"},
		{"both are said", func(p *patient) { p.done["p"], p.err["p"] = true, errNo }, "[reject p for Patient: no]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := waitsFor(claim, nodeA)
			a := newAwaiting(t, p, "p", "q")
			a.expects("[p q]", "[]", 2)
			touch(a, 2)
			a.expects("[p]", "[]", 2)
			row.ends(p)
			touch(a, 3)
			a.expects("[p]", row.told, 2) // the placement has not ended
			touch(a, 4)
			a.expects("[]", "[]", 2)
			a.changes.Set(build.Node("a", build.Allocatable("cpu=9")))
			a.round()
			a.expects("[q]", "[]", 2)
		})
		t.Run(row.name+" from the beginning", func(t *testing.T) {
			p := waitsFor(claim)
			row.ends(p)
			a := newAwaiting(t, p, "p")
			a.expects("[p]", row.told, 1)
			touch(a, 2)
			a.expects("[]", "[]", 1)
		})
	}
	a := newAwaiting(t, waitsFor(claim), "p", "q")
	if asked := a.loop.WaitsAsked(); asked != 2 {
		t.Errorf("%d questions are counted, want 2", asked)
	}
}

var errNo = errors.New("no")

// TestManyWaitForOneObject ends the waits of pods for one object one after another, in
// several orders. The remaining waits are still checked.
func TestManyWaitForOneObject(t *testing.T) {
	names := []string{"p0", "p1", "p2", "p3"}
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
		p := &patient{objects: map[string][]model.Ref{}, done: map[string]bool{}}
		for i, name := range names {
			p.objects[name] = [][]model.Ref{{claim, another}, {another, claim}}[i%2]
		}
		a := newAwaiting(t, p, names...)
		a.expects("[p0 p1 p2 p3]", "[]", 4)
		left := slices.Clone(names)
		for n, i := range order {
			p.done[names[i]] = true
			a.changes.Set(build.PersistentVolumeClaim([]string{"c", "another"}[n%2], fmt.Sprint("version=", 2+n)))
			a.round()
			a.expects(fmt.Sprint(left), fmt.Sprintf("[allow %s for Patient]", names[i]), 4)
			left = slices.DeleteFunc(left, func(name string) bool { return name == names[i] })
		}
	}
}

// TestWaitEndsWithTheBinding ends the binding of a waiting pod, and of a namesake. Only
// its own binding ends the wait.
func TestWaitEndsWithTheBinding(t *testing.T) {
	a := newAwaiting(t, waitsFor(claim), "p", "q")
	a.expects("[p q]", "[]", 2)
	former := model.NewPod(ranks("p", "1", 0))
	former.UID = "former"
	a.changes.Bound(model.BindingResult{Pod: former, NodeName: "a", Err: errNo})
	a.round()
	a.expects("[]", "[]", 2)
	a.changes.Set(build.PersistentVolumeClaim("c", "version=2"))
	a.changes.Bound(model.BindingResult{Pod: a.commit.made[0].Pod, NodeName: "a"})
	a.changes.Set(build.PersistentVolumeClaim("c", "version=3"))
	a.round()
	a.expects("[]", "[]", 1)
	// already bound: nothing is left to cancel
	a.changes.Set(ranks("p", "1", 0, build.Terminating))
	a.round()
	a.expects("[]", "[]", 1)
}

// TestNextOfThatNameWaits deletes a waiting pod, and decides about a namesake before the
// first binding has ended. The waits belong to the second pod, and the end of the first
// binding does not end them.
func TestNextOfThatNameWaits(t *testing.T) {
	a := newAwaiting(t, waitsFor(claim), "p")
	a.expects("[p]", "[]", 1)
	first := a.commit.made[0].Pod
	a.changes.Remove(keyOf("p").Ref())
	a.round()
	a.expects("[]", "[cancel p: the pod is being deleted]", 1)
	a.decides("p", "second")
	a.commit.told = nil // the first is cancelled again
	a.expects("[p]", "[]", 1)
	a.changes.Bound(model.BindingResult{Pod: first, NodeName: "a", Err: errNo})
	a.changes.Set(build.PersistentVolumeClaim("c", "version=2"))
	a.round()
	a.expects("[p]", "[]", 1)
	a.changes.Remove(keyOf("p").Ref())
	a.round()
	a.expects("[]", "[cancel second: the pod is being deleted]", 1)
}

// TestOthersEndTheWait has pods wait for, or call, out-of-tree plugins. No plugin is
// called, and the bindings are cancelled when the pods are deleted.
func TestOthersEndTheWait(t *testing.T) {
	a := newAwaiting(t, waitsFor(), "foreign", "calls", "plain")
	a.expects("[]", "[]", 2)
	a.changes.Set(build.PersistentVolumeClaim("c", "version=2"))
	a.round()
	if asked := a.loop.WaitsAsked(); asked != 0 {
		t.Errorf("%d questions are counted", asked)
	}
	for _, name := range []string{"foreign", "calls", "plain"} {
		a.changes.Set(ranks(name, "1", 0, build.Terminating))
	}
	a.round()
	slices.Sort(a.commit.told)
	a.expects("[]", "[cancel calls: the pod is being deleted cancel foreign: the pod is being deleted]", 2)
	if a.loop.Cancel("p", errNo) || !a.loop.Cancel("there", errNo) {
		t.Error("Cancel does not say what commit says")
	}
	a.expects("[]", "[cancel p: no cancel there: no]", 2)
}
