package queue

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// needsVolume is a PreEnqueue plugin that reads the cluster. It gates pods until the
// volume of their label exists, and registers for volumes.
type needsVolume struct {
	asked, hints int
	now          time.Time // of the turn of its last call
}

func (*needsVolume) Name() string { return "NeedsVolume" }

func (p *needsVolume) PreEnqueueIn(v state.View, pod *model.Pod) string {
	p.asked++
	p.now = v.Now()
	if name := pod.Object.Labels["volume"]; name != "" && v.Storage().Volume(name) == nil {
		return "there is no volume " + name
	}
	return ""
}

func (p *needsVolume) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{{
		Resource: model.PersistentVolumeEvent, Actions: model.Add,
		Hint: func(pod *model.Pod, e model.Event) bool {
			p.hints++
			return e.Object.(*model.Volume).Name == pod.Object.Labels["volume"]
		},
		Alike: func(pod *model.Pod) model.Need { return model.NeedOf("volume " + pod.Object.Labels["volume"]) },
	}}
}

// TestPreEnqueueReadsTheCluster gates pods for missing objects. The plugin is called
// again when its hint accepts an event, once for each event and for no others. A pod that
// passed is not checked again while it is active or backs off.
func TestPreEnqueueReadsTheCluster(t *testing.T) {
	s, p := state.New(), &needsVolume{}
	q, err := New(Config{
		Profiles: []*plugin.Profile{{
			QueueSort: prioritysort.New().Parts().QueueSort, PreEnqueue: []*plugin.PreEnqueue{plugintest.PartsOf(gate{}).PreEnqueue, plugintest.PartsOf(p).PreEnqueue}, EnqueueExtensions: plugintest.Registering(&fit{}, p),
		}},
		State: s, BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	if q.State() != s {
		t.Fatal("the queue has another state")
	}
	needing := func(name, volume string) *model.Pod {
		object := pod(name, 0).Object.DeepCopy()
		object.Labels = map[string]string{"volume": volume}
		return model.NewPod(object)
	}
	now, asked := start, 0
	wake := func(delta state.Delta, changes ...model.Change) {
		t.Helper()
		now = now.Add(time.Second)
		s.SetNow(now)
		applied := s.Apply(changes)
		delta.Events = append(delta.Events, applied.Events...)
		q.Wake(now, delta)
		if err := q.Audit(); err != nil {
			t.Fatal(err)
		}
	}
	volume := func(name string) model.Change {
		return model.Change{Kind: model.ObjectSet, Compiled: model.NewVolume(build.PersistentVolume(name, ""))}
	}
	gone := func(name string) model.Change {
		return model.Change{Kind: model.ObjectGone, Ref: model.VolumeRef(name)}
	}
	expect := func(when string, asks int, places ...string) {
		t.Helper()
		if p.asked-asked != asks {
			t.Errorf("%s: the plugin was asked %d times, want %d", when, p.asked-asked, asks)
		}
		asked = p.asked
		for i := 0; i < len(places); i += 2 {
			if got := q.PlaceOf(pod(places[i], 0).Key()); got != places[i+1] {
				t.Errorf("%s: pod %s is %q, want %q", when, places[i], got, places[i+1])
			}
		}
	}
	wake(arrived(needing("a", "v"), needing("b", "v"), needing("c", "w"), needing("free", "")))
	expect("they arrive", 4, "a", "gated", "b", "gated", "c", "gated", "free", "active")
	if p.now != now {
		t.Errorf("the plugin is asked at %s, want %s", p.now, now)
	}
	wake(podDeleted)
	wake(state.Delta{}, volume("other"))
	expect("what does not help", 0, "a", "gated", "c", "gated")
	if p.hints != 2 {
		t.Errorf("%d hints were asked, want one for each volume that is waited for", p.hints)
	}
	wake(state.Delta{}, volume("v"))
	expect("the volume is there", 2, "a", "active", "b", "active", "c", "gated")
	wake(state.Delta{}, gone("v"))
	expect("the volume goes", 0, "a", "active", "b", "active")
	wake(state.Delta{}, volume("w"), gone("w"))
	expect("it has gone before they are looked at", 1, "c", "gated")
	wake(arrived(needing("c", "v")))
	expect("in a new version", 1, "c", "gated")
	wake(state.Delta{}, volume("v"))
	expect("the volume is there again", 1, "c", "active")

	w := pop(t, q, now, "a")
	fail(q, now, w) // it is admitted to its backoff
	expect("it backs off", 1, "a", "backing off after an error")
	wake(state.Delta{}, gone("v"))
	w = pop(t, q, now.Add(time.Hour), "b")
	reject(q, now, w, "Fit")
	expect("it is parked", 0, "a", "active", "b", "parked")
	wake(podDeleted)
	expect("it is woken, and held", 1, "b", "gated")
	wake(state.Delta{}, volume("v"))
	expect("and let pass", 1, "b", "active")
}
