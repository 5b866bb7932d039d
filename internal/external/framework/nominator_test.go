package framework_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// TestNominator makes a plugin change nominations. It sees the changes at once, and the
// queue receives them.
func TestNominator(t *testing.T) {
	p := &counts{named: "P", pods: 9}
	w := newWorld(t, 2, p)
	first := w.pod("first", "1", build.NominatedNodeName("n0"))
	w.apply(model.Change{Kind: model.PodSet, Pod: first})
	w.decide(w.pod("p", "1"))
	on := func(node string) []string { return nominatedTo(p.handle, node) }
	if got := on("n0"); !slices.Equal(got, []string{"first"}) {
		t.Errorf("nominated to n0: %v", got)
	}
	info, err := public.NewPodInfo(w.object("second", "1"))
	if err != nil {
		t.Fatal(err)
	}
	p.handle.AddNominatedPod(klog.Logger{}, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n0"})
	if got := on("n0"); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("nominated to n0: %v", got)
	}
	p.handle.DeleteNominatedPodIfExists(first.Object)
	p.handle.DeleteNominatedPodIfExists(first.Object)
	p.handle.UpdateNominatedPod(klog.Logger{}, info.GetPod(), info)
	if got := on("n0"); !slices.Equal(got, []string{"second"}) {
		t.Errorf("nominated to n0: %v", got)
	}
	if want := []string{"second@n0", "first@", "second@n0"}; !slices.Equal(w.nominated, want) {
		t.Errorf("the queue was told %v, want %v", w.nominated, want)
	}
}

// TestKeptRoomIsNoNomination checks that plugins do not see pods with reserved space,
// which the API does not show.
func TestKeptRoomIsNoNomination(t *testing.T) {
	p := &counts{named: "P", pods: 9}
	w := newWorld(t, 2, p)
	w.apply(model.Change{Kind: model.PodSet, Pod: w.pod("first", "1", build.NominatedNodeName("n0"))})
	g := model.GroupKey{Namespace: "default", Name: "g"}
	w.state.HoldRoom(model.RootKey{Key: g}, []model.GroupKey{g}, []plan.Nomination{
		{Pod: w.pod("second", "1"), Mode: plan.Set, NodeName: "n0"}, {Pod: w.pod("third", "1"), Mode: plan.Set, NodeName: "n1"},
	})
	w.decide(w.pod("p", "1"))
	if got := append(nominatedTo(p.handle, "n0"), nominatedTo(p.handle, "n1")...); !slices.Equal(got, []string{"first"}) {
		t.Errorf("nominated: %v, want the first pod alone", got)
	}
}

// TestNominationsOfUnknownPods makes a plugin nominate pods that are not in the queue, in
// turns and between them. The nominations are visible at once and until the next turn has
// ended, and are then dropped. Nominations that the plugin deletes stay deleted until the
// queue has applied that.
func TestNominationsOfUnknownPods(t *testing.T) {
	p := &counts{named: "P", pods: 9}
	w := newWorld(t, 2, p)
	first := w.pod("first", "1", build.NominatedNodeName("n0"))
	w.apply(model.Change{Kind: model.PodSet, Pod: first})
	nominate := func(name, node string) { w.nominate(p.handle, w.object(name, "1"), node) }
	var during []string // during the next turn
	p.pre = func() { during = nominatedTo(p.handle, "n0") }
	turn := func(want ...string) {
		t.Helper()
		w.decide(w.pod("p", "1"))
		if !slices.Equal(during, want) {
			t.Errorf("in the turn, nominated to n0 are %v; want %v", during, want)
		}
	}
	turn("first")
	nominate("between", "n0")
	p.handle.DeleteNominatedPodIfExists(first.Object)
	turn("between")
	p.pre = func() { nominate("within", "n0"); during = nominatedTo(p.handle, "n0") }
	turn("first", "within") // the state still has the nomination of first
	p.pre = func() { during = nominatedTo(p.handle, "n0") }
	turn("first")

	for i := range 30_000 {
		// The nodes differ, because each node has its own list.
		nominate(fmt.Sprint("many", i), fmt.Sprint("n", i))
	}
	kept := 0
	for i := range 30_000 {
		kept += len(p.handle.NominatedPodsForNode(fmt.Sprint("n", i)))
	}
	if kept < 1_000 || kept > 10_001 {
		t.Errorf("without a turn, %d nominations of unknown pods are kept; want 10,000 and that of the state", kept)
	}
	turn("first")
	turn("first")
	if got := nominatedTo(p.handle, "n29999"); got != nil {
		t.Errorf("%v is nominated still", got)
	}
}

// TestNominationsWithinATurn makes plugins change nominations in a turn. Its later
// filters leave room for nominated pods, including pods from AddPod, and use the space of
// a nomination that has ended.
func TestNominationsWithinATurn(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(w *world, p *counts)
		want   string
		added  []string
	}{
		{"nothing", func(*world, *counts) {}, "on n1", nil},
		{"a pod is nominated", func(w *world, p *counts) { w.nominate(p.handle, w.object("second", "4"), "n1") },
			"0/2 nodes are available: 2 Insufficient cpu. NodeResourcesFit", nil},
		{"a nomination moves", func(w *world, p *counts) { w.nominate(p.handle, w.object("first", "4"), "n1") },
			"on n0", nil},
		{"a nomination ends", func(w *world, p *counts) {
			p.handle.DeleteNominatedPodIfExists(w.object("first", "4"))
			w.nominate(p.handle, w.object("second", "4"), "n1")
		}, "on n0", nil},
		{"a nominated pod has a lower priority", func(w *world, p *counts) {
			w.nominate(p.handle, w.object("second", "4", prioritized(-1)), "n1")
		}, "on n1", nil},
		{"a nominated pod is on a node", func(w *world, p *counts) {
			w.nominate(p.handle, w.object("placed", "4", build.NodeName("n0")), "n1")
		}, "on n1", nil},
		{"the node does not exist", func(w *world, p *counts) { w.nominate(p.handle, w.object("second", "4"), "n9") },
			"on n1", nil},
		{"AddPod is called", func(w *world, p *counts) { w.nominate(p.handle, w.object("second", "1"), "n1") },
			"on n1", []string{"+1 second n1 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := &counts{named: "P", pods: 9}
			w := newWorld(t, 2, p)
			w.apply(model.Change{Kind: model.PodSet, Pod: w.pod("first", "4", build.NominatedNodeName("n0"))})
			w.placed("placed", "n0", "0")
			p.pre = func() { test.change(w, p) }
			d := w.decide(w.pod("p", "1"))
			if got := describe(&d); got != test.want {
				t.Errorf("the pod is %s; want %s", got, test.want)
			}
			slices.Sort(p.extended)
			if got := slices.Compact(p.extended); !slices.Equal(got, test.added) {
				t.Errorf("AddPod was called for %q; want %q", got, test.added)
			}
		})
	}
}

// TestNominationsBetweenPostFilters has a PostFilter plugin that nominates a pod before
// DefaultPreemption runs. Preemption then does not make enough room.
func TestNominationsBetweenPostFilters(t *testing.T) {
	for _, nominates := range []bool{false, true} {
		p := &counts{named: "P", pods: 9}
		w := newWorld(t, 1, p)
		w.profile.PostFilters = append(w.profile.PostFilters, enginetest.Profile(t, oracle.DefaultProfile()).PostFilters...)
		w.placed("victim", "n0", "4")
		p.post = func(*counts, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
			if nominates {
				w.nominate(p.handle, w.object("second", "4", prioritized(5)), "n0")
			}
			return nil, status(fwk.Unschedulable)
		}
		d := w.decide(w.pod("p", "1", prioritized(5)))
		if evicts := len(d.Evictions) > 0; evicts == nominates {
			t.Errorf("a pod is nominated: %v; pods are evicted: %v, %s", nominates, evicts, d.PostFilter)
		}
	}
}

// TestPreemptionEndsNominations has DefaultPreemption evict a pod from a node to which a
// pod of lower priority is nominated. As in kube-scheduler, the nomination ends if it
// stands in the API. A nomination that only a plugin has made stays.
func TestPreemptionEndsNominations(t *testing.T) {
	for _, test := range []struct {
		name             string
		api              string // the node that the API shows
		earlier, present string // the node to which the plugin nominates the pod, by attempt
		stays            string
		shown            string // by the API afterwards
	}{
		{"in the API", "a", "", "", "", ""},
		{"by the plugin, in this attempt", "", "", "a", "a", ""},
		{"by the plugin, in an earlier attempt", "", "a", "", "a", ""},
		{"moved here, in this attempt", "b", "", "a", "", ""},
		{"moved here, in an earlier attempt", "b", "a", "", "", ""},
		{"moved away, in this attempt", "a", "", "b", "b", "a"},
		{"moved away, in an earlier attempt", "a", "b", "", "b", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			nominate := map[string]string{"earlier": test.earlier, "urgent": test.present}
			var nominated map[string][]string // after the preemption
			p := &probe{}
			nominee := podOf("nominee", "1").NodeSelector(map[string]string{"none": "none"})
			p.preFilter = func(_ fwk.CycleState, pod *v1.Pod) {
				if node := nominate[pod.Name]; node != "" {
					addNominated(t, p.h, nominee.Obj(), node)
					nominate[pod.Name] = ""
				}
				nominated = map[string][]string{"a": nominatedTo(p.h, "a"), "b": nominatedTo(p.h, "b")}
			}
			c := probed(t, one(p))
			c.Schedule(podOf("victim", "3").Node("a").Obj())
			c.Schedule(podOf("guard", "3").Priority(9).Node("b").Obj())
			c.Schedule(nominee.Obj())
			if test.api != "" {
				c.Set(nominee.NominatedNodeName(test.api).Obj())
			}
			c.Schedule(podOf("earlier", "10m").Priority(9).Obj())
			if test.api == "" { // a new version without a nomination changes nothing
				c.Set(nominee.Label("changed", "yes").Obj())
			}
			c.Schedule(podOf("urgent", "2").Priority(5).Obj())
			c.Advance(time.Minute)
			if node := c.Pod("shop", "urgent").Spec.NodeName; node != "a" {
				t.Fatalf("the pod is on %q", node)
			}
			for _, node := range []string{"a", "b"} {
				if got := slices.Contains(nominated[node], "nominee"); got != (node == test.stays) {
					t.Errorf("nominated to %s are %v; the pod should be nominated to %q", node, nominated[node], test.stays)
				}
			}
			if got := c.Pod("shop", "nominee").Status.NominatedNodeName; got != test.shown {
				t.Errorf("in the API the pod is nominated to %q, want %q", got, test.shown)
			}
		})
	}
}

func prioritized(priority int32) build.PodOption {
	return func(p *v1.Pod) { p.Spec.Priority = &priority }
}

// nominate has a plugin nominate a pod.
func (w *world) nominate(h fwk.Handle, pod *v1.Pod, node string) { addNominated(w, h, pod, node) }

func addNominated(t testing.TB, h fwk.Handle, pod *v1.Pod, node string) {
	info, err := public.NewPodInfo(pod)
	if err != nil {
		t.Fatal(err)
	}
	h.AddNominatedPod(klog.Logger{}, info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
}

func nominatedTo(h fwk.Handle, node string) (names []string) {
	for _, p := range h.NominatedPodsForNode(node) {
		names = append(names, p.GetPod().Name)
	}
	return names
}
