package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

const quotas = "quotas.v1.example.com"

// quotaEvent is about a custom resource.
func quotaEvent(action model.Action) state.Delta { return otherEvent(quotas, action, "new") }

func otherEvent(resource string, action model.Action, object any) state.Delta {
	return state.Delta{Events: []model.Event{{
		Resource: model.OtherEvent, Action: action, Other: &model.OtherChange{Resource: resource, Old: "old", New: object},
	}}}
}

// outsider is an out-of-tree plugin. It gates the pods in holds, and registers for quotas
// with the name of a pod or "new".
type outsider struct {
	name  string
	holds map[string]bool
	asked int // calls at PreEnqueue
	hints int
}

func (o *outsider) Name() string { return o.name }

func (o *outsider) PreEnqueue(pod *model.Pod) string {
	o.asked++
	if o.holds[pod.Name] {
		return "no quota"
	}
	return ""
}

func (o *outsider) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.OtherEvent, Other: quotas, Actions: model.Add | model.Update,
		Hint: func(waiting *model.Pod, e model.Event) bool {
			o.hints++
			_, object := e.Objects()
			return object == "new" || object == waiting.Name
		},
		Alike: model.OfEachPod,
	}}
}

// defaults is a plugin with kube-scheduler's default events for plugins without
// registrations. everything registers for every event.
type defaults struct{}

func (defaults) Name() string                              { return "Defaults" }
func (defaults) EventsToRegister() []model.EventToRegister { return model.DefaultEvents() }

type everything struct{}

func (everything) Name() string { return "Everything" }
func (everything) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.AnyEvent, Actions: model.AllActions}}
}

type outsideQueue struct {
	*Queue
	quota *outsider
	t     *testing.T
}

func newOutsideQueue(t *testing.T, changes ...func(*plugin.Profile)) *outsideQueue {
	t.Helper()
	o := &outsider{name: "Quota", holds: map[string]bool{}}
	p := &plugin.Profile{
		QueueSort: prioritysort.New().Parts().QueueSort, PreEnqueue: []*plugin.PreEnqueue{plugintest.PartsOf(o).PreEnqueue},
		EnqueueExtensions: plugintest.Registering(o, &fit{}, defaults{}, everything{}),
	}
	for _, change := range changes {
		change(p)
	}
	q, err := New(Config{Profiles: []*plugin.Profile{p}, BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return &outsideQueue{q, o, t}
}

// in checks the place of a pod, and the invariants.
func (q *outsideQueue) in(name, want string) {
	q.t.Helper()
	if err := q.Audit(); err != nil {
		q.t.Fatal(err)
	}
	if got := q.PlaceOf(pod(name, 0).Key()); got != want {
		q.t.Fatalf("pod %s is %q, want %q", name, got, want)
	}
}

// rejects pops a pod and rejects it, and before that adds the pod if necessary.
func (q *outsideQueue) rejects(now time.Time, name string, plugins, pending []string) {
	q.t.Helper()
	if q.PlaceOf(pod(name, 0).Key()) == "" {
		q.Wake(now, arrived(pod(name, 0)))
	}
	w := pop(q.t, q.Queue, now, name)
	SettlePod(q.Queue, now, w, plan.Decision{Outcome: plan.Unschedulable, Rejection: &plan.Rejection{Plugins: plugins, Pending: pending}})
}

// TestPending wakes a pod by the events of plugins with and without the answer Pending.
// The pod is ready at once if a plugin that answered Pending accepts the event, and backs
// off otherwise.
func TestPending(t *testing.T) {
	both := []string{"Fit", "Quota"}
	for _, row := range []struct {
		what             string
		plugins, pending []string
		delta            state.Delta
		want             string
	}{
		{"it answered Pending", []string{"Quota"}, []string{"Quota"}, quotaEvent(model.Update), "active"},
		{"it rejected", []string{"Quota"}, nil, quotaEvent(model.Update), "backing off"},
		{"its hint does not agree", []string{"Quota"}, []string{"Quota"}, otherEvent(quotas, model.Update, "other"), "parked"},
		{"one of two answered Pending", both, []string{"Quota"}, quotaEvent(model.Add), "active"},
		{"the other one agrees", both, []string{"Quota"}, podDeleted, "backing off"},
		{"both agree", both, []string{"Quota"}, state.Delta{Events: append(slices.Clone(podDeleted.Events), quotaEvent(model.Add).Events...)}, "active"},
		{"an event about anything", []string{"Quota"}, []string{"Quota"}, state.Delta{Events: []model.Event{{Resource: model.AnyEvent, Action: model.Update}}}, "backing off"},
	} {
		q := newOutsideQueue(t)
		q.rejects(at(0), "p", row.plugins, row.pending)
		q.in("p", "parked")
		q.Wake(at(0.1), row.delta)
		if got := q.PlaceOf(pod("p", 0).Key()); got != row.want {
			t.Errorf("%s: the pod is %s, want %s", row.what, got, row.want)
		}
		if err := q.Audit(); err != nil {
			t.Error(err)
		}
	}
}

// TestPendingOwnUpdate updates a pod under a plugin that registered such updates. The pod
// is ready at once only if the plugin answered Pending.
func TestPendingOwnUpdate(t *testing.T) {
	for want, pending := range map[string][]string{"active": {"Everything"}, "backing off": nil} {
		q := newOutsideQueue(t)
		q.rejects(at(0), "p", []string{"Everything"}, pending)
		newer := pod("p", 0)
		newer.Object.Labels = map[string]string{"new": "label"}
		q.Wake(at(0.1), arrived(newer))
		q.in("p", want)
	}
}

// TestOtherEvents wakes pods by events about resources that Berth does not read, as their
// plugins register them.
func TestOtherEvents(t *testing.T) {
	claim := func(action model.Action) state.Delta {
		return state.Delta{Events: []model.Event{{Resource: model.ResourceClaimEvent, Action: action}}}
	}
	for _, row := range []struct {
		what, plugin string
		delta        state.Delta
		want         bool
	}{
		{"its resource", "Quota", quotaEvent(model.Add), true},
		{"an action that it does not register", "Quota", quotaEvent(model.Delete), false},
		{"another resource", "Quota", otherEvent("limits.v1.example.com", model.Add, "new"), false},
		{"a built-in resource", "Quota", podDeleted, false},
		{"a claim wakes by default", "Defaults", claim(model.Update), true},
		{"a slice does not", "Defaults", state.Delta{Events: []model.Event{{Resource: model.ResourceSliceEvent, Action: model.Update}}}, false},
		{"nor does a custom resource", "Defaults", quotaEvent(model.Add), false},
		{"nor an attachment", "Defaults", state.Delta{Events: []model.Event{{Resource: model.VolumeAttachmentEvent, Action: model.Delete}}}, false},
		{"a condition of a node does", "Defaults", state.Delta{Events: []model.Event{{Resource: model.NodeEvent, Action: model.UpdateNodeCondition}}}, true},
		{"everything: a custom resource", "Everything", quotaEvent(model.Delete), true},
		{"everything: a node", "Everything", state.Delta{Events: []model.Event{{Resource: model.NodeEvent, Action: model.UpdateNodeAnnotation}}}, true},
		{"too many events: all", "Quota", state.Delta{Events: []model.Event{{Resource: model.AnyEvent, Action: model.Update}}}, true},
		{"an extender is woken by default", plugin.ExtenderName, claim(model.Add), true},
		{"an extender is not woken by slices", plugin.ExtenderName, state.Delta{Events: []model.Event{{Resource: model.ResourceSliceEvent, Action: model.Add}}}, false},
	} {
		q := newOutsideQueue(t, func(p *plugin.Profile) { p.Extenders = make([]plugin.Extender, 1) })
		q.rejects(at(0), "p", []string{row.plugin}, nil)
		q.Wake(at(9), row.delta)
		if woken := q.PlaceOf(pod("p", 0).Key()) == "active"; woken != row.want {
			t.Errorf("%s: the pod was woken: %t", row.what, woken)
		}
	}
}

// TestHintOfEachPod calls the hint of an out-of-tree plugin for each pod separately.
func TestHintOfEachPod(t *testing.T) {
	q := newOutsideQueue(t)
	for i := range 3 {
		q.rejects(at(0), fmt.Sprint("p", i), []string{"Quota"}, nil)
	}
	q.Wake(at(9), otherEvent(quotas, model.Update, "p1"))
	q.in("p0", "parked")
	q.in("p1", "active")
	q.in("p2", "parked")
	if q.quota.hints != 3 {
		t.Errorf("the hint was asked %d times about 3 pods", q.quota.hints)
	}
}

// TestActivateInTurn activates pods that a plugin cannot wake: a pod that is activated in
// its own turn, or at Permit, waits for its backoff after a rejection.
func TestActivateInTurn(t *testing.T) {
	q := newOutsideQueue(t)
	keys := func(names ...string) (keys []model.PodKey) {
		for _, name := range names {
			keys = append(keys, pod(name, 0).Key())
		}
		return keys
	}
	q.rejects(at(0), "sibling", []string{"Fit"}, nil)
	q.Wake(at(0), arrived(pod("p", 0)))
	w := pop(t, q.Queue, at(0), "p")
	q.Activate(at(0), keys("p", "sibling", "unknown"))
	q.in("sibling", "active")
	q.in("p", "deciding")
	reject(q.Queue, at(0), w, "Fit")
	q.in("p", "backing off")

	q = newOutsideQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	w = pop(t, q.Queue, at(0), "p")
	SettlePod(q.Queue, at(0), w, plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{Steps: []plan.Step{{Stage: plan.Permit}}}})
	q.Activate(at(0.1), keys("p"))
	q.in("p", "binding")
	q.Wake(at(0.2), state.Delta{Failed: []state.Failure{{Pod: w.First(), Rejectors: []string{"Quota"}}}})
	q.in("p", "backing off")
	// popped early; the activation is over
	q.rejects(at(0.3), "p", []string{"Quota"}, nil)
	q.in("p", "parked")

	// A binding without Permit, and a successful binding, leave nothing behind.
	q = newOutsideQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	w = pop(t, q.Queue, at(0), "p")
	q.Activate(at(0), keys("p"))
	SettlePod(q.Queue, at(0), w, plan.Decision{Outcome: plan.Placed})
	q.in("p", "binding")
	q.Wake(at(0.1), state.Delta{Failed: []state.Failure{{Pod: w.First()}}})
	q.in("p", "backing off after an error")
	q.Activate(at(0.1), keys("p"))
	q.in("p", "active")
}

// TestGatedIsLookedAtAgain gates pods by an out-of-tree plugin. The plugin is called
// again for the events that it registered, and no others.
func TestGatedIsLookedAtAgain(t *testing.T) {
	q := newOutsideQueue(t)
	q.quota.holds["p"], q.quota.holds["other"] = true, true
	q.Wake(at(0), arrived(pod("p", 0), pod("other", 0), pod("free", 0)))
	q.in("p", "gated")
	q.in("free", "active")
	asked := q.quota.asked
	q.Wake(at(1), podDeleted)
	q.Wake(at(1), quotaEvent(model.Delete))
	if q.quota.asked != asked {
		t.Fatalf("events that the plugin did not register had it asked %d times", q.quota.asked-asked)
	}
	q.Wake(at(2), quotaEvent(model.Add))
	if q.in("p", "gated"); q.quota.asked != asked+2 {
		t.Fatalf("its event had the plugin asked %d times about 2 pods", q.quota.asked-asked)
	}
	delete(q.quota.holds, "p")
	delete(q.quota.holds, "other")
	q.Wake(at(3), otherEvent(quotas, model.Update, "p"))
	q.in("p", "active")
	q.in("other", "gated")
	n := 0
	q.EachUnschedulable(func(_, plugin string, pods int) {
		if n += pods; plugin != "Quota" {
			t.Errorf("%d pods are said to be rejected by %q", pods, plugin)
		}
	})
	if n != 1 {
		t.Errorf("%d pods are counted as gated, want 1", n)
	}
	q.Wake(at(4), state.Delta{Left: []model.PodKey{pod("other", 0).Key()}})
	q.in("other", "")
	if len(q.parked.byPlugin) > 0 {
		t.Errorf("gated pods are listed after they left: %v", q.parked.byPlugin)
	}
}

// follower is an outsider that registers for the labels of pods, and records its hints.
type follower struct {
	*outsider
	seen []string
}

func (f *follower) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{Resource: model.AnyPodEvent, Actions: model.UpdatePodLabel, Hint: func(waiting *model.Pod, e model.Event) bool {
		was, is := e.OldPod, e.Pod
		f.seen = append(f.seen, fmt.Sprintf("%s: %s to %s", waiting.Name, was.Object.Labels["go"], is.Object.Labels["go"]))
		return false
	}, Alike: model.OfEachPod}}
}

// TestHeldPodChanges has a gated pod change its own labels. The hint of the plugin that
// gates it receives both versions, and the plugin is called again, whatever the hint
// returns.
func TestHeldPodChanges(t *testing.T) {
	f := &follower{outsider: &outsider{name: "Follower", holds: map[string]bool{"p": true}}}
	q := newOutsideQueue(t, func(p *plugin.Profile) {
		p.PreEnqueue, p.EnqueueExtensions = []*plugin.PreEnqueue{plugintest.PartsOf(f).PreEnqueue}, append(p.EnqueueExtensions, plugintest.PartsOf(f).EnqueueExtensions)
	})
	labelled := func(value string) *model.Pod {
		object := pod("p", 0).Object.DeepCopy()
		object.Labels = map[string]string{"go": value}
		return model.NewPod(object)
	}
	q.Wake(at(0), arrived(labelled("no")))
	q.in("p", "gated")
	q.Wake(at(1), arrived(labelled("soon")))
	q.in("p", "gated")
	f.holds["p"] = false
	q.Wake(at(2), arrived(labelled("yes")))
	q.in("p", "active")
	if want := []string{"p: no to soon", "p: soon to yes"}; !slices.Equal(f.seen, want) {
		t.Errorf("the hints get %q, want %q", f.seen, want)
	}
}

// TestGatedByTwo calls two plugins in turn. Only the registrations of the plugin that
// gates the pod can wake it.
func TestGatedByTwo(t *testing.T) {
	second := &outsider{name: "Second", holds: map[string]bool{"p": true}}
	q := newOutsideQueue(t, func(p *plugin.Profile) { p.PreEnqueue = append(p.PreEnqueue, plugintest.PartsOf(second).PreEnqueue) })
	q.quota.holds["p"] = true
	q.Wake(at(0), arrived(pod("p", 0)))
	delete(q.quota.holds, "p")
	// now gated by the second, which registers nothing
	q.Wake(at(1), quotaEvent(model.Add))
	q.in("p", "gated")
	delete(second.holds, "p")
	q.Wake(at(2), quotaEvent(model.Add))
	q.in("p", "gated")
	q.Activate(at(3), []model.PodKey{pod("p", 0).Key()})
	q.in("p", "active")
}

// byAttempts orders pods by their attempts.
type byAttempts struct{}

func (byAttempts) Name() string { return "ByAttempts" }
func (byAttempts) Less(a, b plugin.Queued) bool {
	x, y := a.Waiting, b.Waiting
	return sum(x.Turns()) > sum(y.Turns()) && x.Gate() == "" && !x.Ready().IsZero()
}

func sum(t plugin.Turns) int { return t.Attempts + t.Rejections + t.Errors }

// TestOutsideOrder orders pods by the attempts that the queue counts.
func TestOutsideOrder(t *testing.T) {
	q := newOutsideQueue(t, func(p *plugin.Profile) { p.QueueSort = plugintest.PartsOf(byAttempts{}).QueueSort })
	q.rejects(at(0), "tried", []string{"Fit", "Quota"}, []string{"Quota"})
	e := q.entries[pod("tried", 0).Key()]
	var known plugin.Waiting = e
	if !slices.Equal(known.Rejectors(), []string{"Fit", "Quota"}) || !slices.Equal(known.Pending(), []string{"Quota"}) ||
		known.Turns() != (plugin.Turns{Attempts: 1, Rejections: 1}) || !known.Ready().Equal(at(0)) || !known.BackoffEnd().Equal(at(1)) || known.Gate() != "" {
		t.Errorf("of the rejected pod is known %+v", *e)
	}
	q.Wake(at(5), arrived(pod("new", 9)))
	q.Wake(at(5), podDeleted)
	pop(t, q.Queue, at(5), "tried")
	pop(t, q.Queue, at(5), "new")
}

// turning is an order that contradicts itself.
type turning struct{ *rand.Rand }

func (turning) Name() string                   { return "Turning" }
func (o turning) Less(_, _ plugin.Queued) bool { return o.IntN(2) == 0 }

type noOutside struct{ plugin.External }

// TestContradictoryOrder uses an order that contradicts itself: no pod is lost, and none
// appears twice.
func TestContradictoryOrder(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := newOutsideQueue(t, func(p *plugin.Profile) {
			p.QueueSort, p.External = plugintest.PartsOf(turning{r}).QueueSort, noOutside{}
		})
		want, got := 0, map[string]int{}
		for i := range 300 {
			if r.IntN(3) > 0 {
				q.Wake(at(float64(i)), arrived(pod(fmt.Sprint("p", i), int32(r.IntN(3)))))
				want++
			} else if w, ok := q.Pop(at(float64(i))); ok {
				got[w.First().Name]++
				SettlePod(q.Queue, at(float64(i)), w, plan.Decision{Outcome: plan.Terminating})
			}
			if err := q.Audit(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		for w, ok := q.Pop(at(300)); ok; w, ok = q.Pop(at(300)) {
			got[w.First().Name]++
			SettlePod(q.Queue, at(300), w, plan.Decision{Outcome: plan.Terminating})
		}
		if len(got) != want {
			t.Fatalf("seed %d: %d of %d pods were popped", seed, len(got), want)
		}
	}
}

// TestAnyEventAtPermit has a pod at Permit miss the event that replaces an overflow of
// events.
func TestAnyEventAtPermit(t *testing.T) {
	q := newOutsideQueue(t)
	q.Wake(at(0), arrived(pod("p", 0)))
	w := pop(t, q.Queue, at(0), "p")
	SettlePod(q.Queue, at(0), w, plan.Decision{Outcome: plan.Placed, Placement: plan.Placement{Steps: []plan.Step{{Stage: plan.Permit}}}})
	q.Wake(at(0.1), state.Delta{Events: []model.Event{{Resource: model.AnyEvent, Action: model.Update}}})
	q.Wake(at(0.2), state.Delta{Failed: []state.Failure{{Pod: w.First(), Rejectors: []string{"Quota"}}}})
	if got := q.PlaceOf(pod("p", 0).Key()); got == "parked" {
		t.Errorf("p is %s: the event that stands for all that were lost does not help it", got)
	}
}
