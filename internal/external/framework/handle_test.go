package framework_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	st "github.com/berth-scheduler/berth/framework/testing"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
)

// effects are tests of each Handle method's effect, through a running plugin. Tests of
// unsupported methods are in refusals.
var effects = map[string]func(t *testing.T){
	"SnapshotSharedLister": func(t *testing.T) {
		var saw []string
		p := &probe{}
		p.preFilter = func(_ fwk.CycleState, pod *v1.Pod) {
			for _, name := range []string{"a", "b"} {
				node, err := p.h.SnapshotSharedLister().NodeInfos().Get(name)
				if err != nil {
					t.Error(err)
					return
				}
				for _, other := range node.GetPods() {
					saw = append(saw, pod.Name+" saw "+other.GetPod().Name+" on "+name)
				}
			}
		}
		c := probed(t, one(p))
		r := c.Schedule(podOf("first", "1").Obj())
		c.Schedule(podOf("second", "1").Obj())
		equal(t, saw, "second saw first on "+r.Node)
	},
	"MutableSnapshotSharedLister": func(t *testing.T) {
		var notes []string
		p := &probe{}
		p.preFilter = func(fwk.CycleState, *v1.Pod) {
			l := p.h.MutableSnapshotSharedLister()
			node, err := l.NodeInfos().Get("a")
			if err != nil {
				t.Error(err)
				return
			}
			notes = append(notes, node.Node().Name)
			info, _ := public.NewPodInfo(podOf("other", "1").Obj())
			for _, err := range []error{l.StartMutations(), l.AddPod(info, "a"), l.RemovePod(klog.Background(), info.GetPod(), "a"), l.EndMutations()} {
				if err == nil || !strings.Contains(err.Error(), "the snapshot cannot be changed") {
					t.Errorf("a change returned %v", err)
				}
			}
		}
		probed(t, one(p)).Schedule(podOf("pod", "1").Obj())
		equal(t, notes, "a")
	},
	"IterateOverWaitingPods": func(t *testing.T) {
		c, p := waiting(t)
		var pods []string
		p.h.IterateOverWaitingPods(func(w fwk.WaitingPod) { pods = append(pods, w.GetPod().Name); w.Allow("Probe") })
		c.Settle()
		equal(t, pods, "first", "second")
		if r := c.Result(podOf("second", "1").Obj()); !r.Bound {
			t.Errorf("allowed, and not bound: %+v", r)
		}
	},
	"GetWaitingPod": func(t *testing.T) {
		c, p := waiting(t)
		w := p.h.GetWaitingPod("first")
		if w == nil || p.h.GetWaitingPod("other") != nil {
			t.Fatalf("got %v for a pod that waits, and %v for another", w, p.h.GetWaitingPod("other"))
		}
		equal(t, w.GetPendingPlugins(), "Probe")
		if !w.Reject("Probe", "nobody comes") {
			t.Error("not rejected")
		}
		c.Settle()
		if r := c.Result(podOf("first", "1").Obj()); r.Node != "" || !strings.Contains(r.Message, "nobody comes") || !slices.Equal(r.Rejectors, []string{"Probe"}) {
			t.Errorf("rejected, and now %+v", r)
		}
	},
	"RejectWaitingPod": func(t *testing.T) {
		c, p := waiting(t)
		if !p.h.RejectWaitingPod("first") || p.h.RejectWaitingPod("first") || p.h.RejectWaitingPod("other") {
			t.Error("only the first call for a pod that waits rejects it")
		}
		c.Settle()
		if r := c.Result(podOf("first", "1").Obj()); r.Node != "" || r.Waiting != nil || !strings.Contains(r.Message, "removed") {
			t.Errorf("rejected, and now %+v", r)
		}
	},
	"GetPodInPreBind": func(t *testing.T) {
		p := &probe{}
		p.preBind = func(_ context.Context, pod *v1.Pod) *fwk.Status {
			if at := p.h.GetPodInPreBind(pod.UID); at == nil || !at.CancelPod("not like this") {
				t.Error("the pod at PreBind is not found, or not cancelled")
			}
			return nil
		}
		r := probed(t, one(p)).Schedule(podOf("pod", "1").Obj())
		if r.Bound || r.Err == nil || !strings.Contains(r.Err.Error(), "not like this") {
			t.Errorf("got %+v, want it cancelled", r)
		}
		if p.h.GetPodInPreBind("pod") != nil {
			t.Error("the pod is at PreBind still")
		}
	},
	"AddPodInPreBind": func(t *testing.T) {
		c, p := waiting(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		p.h.AddPodInPreBind("first", cancel)
		at := c.Handle("default-scheduler").GetPodInPreBind("first")
		if at == nil || !at.CancelPod("changed my mind") || !at.CancelPod("twice") || at.MarkPrebound() || fmt.Sprint(context.Cause(ctx)) != "changed my mind" {
			t.Errorf("%v was not cancelled, once: %v", at, context.Cause(ctx))
		}
		p.h.AddPodInPreBind("second", func(error) { t.Error("cancelled after it was marked") })
		if at := p.h.GetPodInPreBind("second"); at == nil || !at.MarkPrebound() || at.CancelPod("late") {
			t.Errorf("%v could not be marked, or could be cancelled then", at)
		}
	},
	"RemovePodInPreBind": func(t *testing.T) {
		p := &probe{}
		h := bare(t, framework.Config{})
		h.AddPodInPreBind("pod", func(error) {})
		if h.RemovePodInPreBind("pod"); h.GetPodInPreBind("pod") != nil {
			t.Error("the pod is at PreBind still")
		}
		p.preBind = func(_ context.Context, pod *v1.Pod) *fwk.Status {
			if p.h.RemovePodInPreBind(pod.UID); p.h.GetPodInPreBind(pod.UID) == nil {
				t.Error("the scheduler's own pod was removed")
			}
			return nil
		}
		probed(t, one(p)).Schedule(podOf("pod", "1").Obj())
	},
	"Activate": func(t *testing.T) {
		p := &probe{}
		var may atomic.Bool
		p.filter = func(*v1.Pod, fwk.NodeInfo) *fwk.Status {
			if !may.Load() {
				return status(fwk.Unschedulable, "not yet")
			}
			return nil
		}
		c := probed(t, one(p))
		pod := podOf("pod", "1").Obj()
		c.Schedule(pod)
		may.Store(true)
		c.Advance(time.Minute)
		if r := c.Result(pod); r.Bound || r.Attempts != 1 {
			t.Errorf("got %+v, want it parked", r)
		}
		p.h.Activate(klog.Background(), map[string]*v1.Pod{"shop/pod": pod, "shop/none": nil})
		c.Settle()
		if r := c.Result(pod); !r.Bound || r.Attempts != 2 {
			t.Errorf("got %+v, want it bound", r)
		}
	},
	"ClientSet": func(t *testing.T) {
		p := &probe{}
		p.preBind = func(ctx context.Context, pod *v1.Pod) *fwk.Status {
			_, err := p.h.ClientSet().CoreV1().ConfigMaps(pod.Namespace).Create(ctx, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-" + pod.Name}}, metav1.CreateOptions{})
			return fwk.AsStatus(err)
		}
		c := probed(t, one(p))
		if r := c.Schedule(podOf("pod", "1").Obj()); !r.Bound {
			t.Errorf("got %+v", r)
		}
		if _, err := c.ClientSet().CoreV1().ConfigMaps("shop").Get(t.Context(), "of-pod", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	},
	"KubeConfig": func(t *testing.T) {
		h := bare(t, framework.Config{KubeConfig: &restclient.Config{Host: "https://cluster"}})
		h.KubeConfig().Host = "https://elsewhere"
		equal(t, []string{h.KubeConfig().Host}, "https://cluster")
		if got := bare(t, framework.Config{}).KubeConfig(); got != nil {
			t.Errorf("got %v without an access", got)
		}
	},
	"EventRecorder": func(t *testing.T) {
		p := &probe{}
		p.preFilter = func(_ fwk.CycleState, pod *v1.Pod) {
			p.h.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, "Considered", "Considering", "by %s", "Probe")
		}
		c := probed(t, one(p))
		c.Schedule(podOf("pod", "1").Obj())
		want := st.Event{Pod: "shop/pod", Type: "Normal", Reason: "Considered", Action: "Considering", Note: "by Probe", Count: 1}
		if !slices.Contains(c.Events(), want) {
			t.Errorf("events %+v lack %+v", c.Events(), want)
		}
	},
	"SharedInformerFactory": func(t *testing.T) {
		var pods corelisters.PodLister
		p := &probe{made: func(h fwk.Handle) { pods = h.SharedInformerFactory().Core().V1().Pods().Lister() }}
		var saw []string
		p.preFilter = func(_ fwk.CycleState, pod *v1.Pod) {
			if found, err := pods.Pods("shop").Get(pod.Name); err == nil {
				saw = append(saw, string(found.UID))
			}
		}
		probed(t, one(p)).Schedule(podOf("pod", "1").Obj())
		equal(t, saw, "pod")
	},
	"SharedDRAManager": func(t *testing.T) {
		p := &probe{made: func(h fwk.Handle) { h.SharedDRAManager() }}
		p.filter = func(*v1.Pod, fwk.NodeInfo) *fwk.Status {
			if claims, err := p.h.SharedDRAManager().ResourceClaims().List(); err != nil || len(claims) > 0 {
				t.Errorf("there are %v, %v", claims, err)
			}
			return nil
		}
		// TestDevicesOfATurn has more checks.
		if r := probed(t, one(p)).Schedule(podOf("pod", "1").Obj()); r.Node == "" {
			t.Errorf("got %+v", r)
		}
		// If devices are not watched, methods must not return an empty answer.
		for method, call := range map[string]func(fwk.SharedDRAManager){
			"ResourceClaims":      func(m fwk.SharedDRAManager) { m.ResourceClaims() },
			"ResourceSlices":      func(m fwk.SharedDRAManager) { m.ResourceSlices() },
			"DeviceClasses":       func(m fwk.SharedDRAManager) { m.DeviceClasses() },
			"DeviceClassResolver": func(m fwk.SharedDRAManager) { m.DeviceClassResolver() },
		} {
			func() {
				defer func() {
					want := "SharedDRAManager()." + method + " of the Handle is not supported: devices are not watched"
					if got := fmt.Sprint(recover()); !strings.HasPrefix(got, want) {
						t.Errorf("%s: %s, want %s", method, got, want)
					}
				}()
				call(bare(t, framework.Config{}).SharedDRAManager())
			}()
		}
	},
	"SharedCSIManager": func(t *testing.T) {
		driver := storagev1.CSINodeDriver{Name: "disks", NodeID: "b"}
		for name, nodes := range map[string]fwk.CSIManager{"when it is made": nil, "not until a turn": nil} {
			p := &probe{}
			if name == "when it is made" {
				p.made = func(h fwk.Handle) { nodes = h.SharedCSIManager() }
			}
			p.filter = func(_ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
				if nodes == nil {
					nodes = p.h.SharedCSIManager()
				}
				csi, err := nodes.CSINodes().Get(node.Node().Name)
				if apierrors.IsNotFound(err) {
					return status(fwk.Unschedulable, "no driver")
				} else if err != nil {
					return fwk.AsStatus(err)
				}
				if all, err := nodes.CSINodes().List(); err != nil || len(all) != 1 || all[0] != csi || csi.Spec.Drivers[0].Name != "disks" {
					t.Errorf("%s: the list is %v, %v; got %v", name, all, err, csi)
				}
				return nil
			}
			c := probed(t, one(p), st.WithObjects(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{driver}}}))
			r := c.Schedule(podOf("pod", "1").Obj())
			if p.made == nil {
				if r.Err == nil || !strings.Contains(r.Err.Error(), "SharedCSIManager of the Handle has no CSINodes yet: call it when the plugin is made") {
					t.Errorf("%s: got %+v, want an error", name, r)
				}
			} else if r.Node != "b" {
				t.Errorf("%s: got %+v, want it on b", name, r)
			}
		}
		if _, err := bare(t, framework.Config{}).SharedCSIManager().CSINodes().List(); err == nil {
			t.Error("without informers there is no error")
		}
	},
	"RunFilterPlugins": func(t *testing.T) {
		p, notes := inPostFilter(t, func(p *probe, state fwk.CycleState, pod *v1.Pod, say func(...any)) {
			for _, name := range []string{"a", "b"} {
				node, _ := p.h.SnapshotSharedLister().NodeInfos().Get(name)
				changed := node.Snapshot()
				for _, other := range node.GetPods() {
					if err := changed.RemovePod(klog.Background(), other.GetPod()); err != nil {
						t.Error(err)
					}
				}
				for _, info := range []fwk.NodeInfo{node, changed} {
					s := p.h.RunFilterPlugins(t.Context(), state, pod, info)
					say(name, len(info.GetPods()), rejection(s))
				}
			}
		})
		equal(t, *notes, "a 1 NodeResourcesFit: Insufficient cpu", "a 0 fits", "b 0 Other: no", "b 0 Other: no")
		node, _ := p.h.SnapshotSharedLister().NodeInfos().Get("a")
		if s := p.h.RunFilterPlugins(t.Context(), public.NewCycleState(), podOf("web", "2").Obj(), node); !s.IsError() || !strings.Contains(s.Message(), "can only be run during PostFilter") {
			t.Errorf("after PostFilter: %v", s)
		}
	},
	"RunFilterPluginsWithNominatedPods": func(t *testing.T) {
		_, notes := inPostFilter(t, func(p *probe, state fwk.CycleState, pod *v1.Pod, say func(...any)) {
			node, _ := p.h.SnapshotSharedLister().NodeInfos().Get("a")
			empty := node.Snapshot()
			for _, other := range node.GetPods() {
				if err := empty.RemovePod(klog.Background(), other.GetPod()); err != nil {
					t.Error(err)
				}
			}
			// The nominated pod has a lower priority than the pod, and then a higher one.
			for _, priority := range []int32{-1, 10} {
				info, _ := public.NewPodInfo(podOf("nominee", "3").Priority(priority).Obj())
				p.h.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "a"})
				s := p.h.RunFilterPluginsWithNominatedPods(t.Context(), state, pod, empty)
				say(priority, rejection(s))
			}
			say(rejection(p.h.RunFilterPlugins(t.Context(), state, pod, empty)))
		})
		equal(t, *notes, "-1 fits", "10 NodeResourcesFit: Insufficient cpu", "fits")
	},
	"RunPreScorePlugins":             runsScores,
	"RunScorePlugins":                runsScores,
	"RunReservePluginsReserve":       runsReserves,
	"RunReservePluginsUnreserve":     runsReserves,
	"RunPreFilterExtensionAddPod":    func(t *testing.T) { extends(t, true) },
	"RunPreFilterExtensionRemovePod": func(t *testing.T) { extends(t, false) },
	"Extenders": func(t *testing.T) {
		h := bare(t, framework.Config{Extenders: framework.Hand(extendersOf(t), nil)})
		clear(h.Extenders()) // a copy
		equal(t, []string{h.Extenders()[0].Name()[:7]}, "http://")
	},
	"Parallelizer": func(t *testing.T) {
		var met [2]chan struct{}
		p := &probe{}
		p.preFilter = func(fwk.CycleState, *v1.Pod) {
			met = [2]chan struct{}{make(chan struct{}), make(chan struct{})}
			p.h.Parallelizer().Until(t.Context(), 2, func(i int) { // each waits for the other
				close(met[i])
				<-met[1-i]
			}, "meet")
		}
		p.filter = func(*v1.Pod, fwk.NodeInfo) *fwk.Status {
			p.h.Parallelizer().Until(t.Context(), 9, func(i int) {
				if i == 7 {
					panic("seven")
				}
			}, "break")
			return nil
		}
		r := probed(t, one(p)).Schedule(podOf("pod", "1").Obj())
		if met[0] == nil || r.Err == nil || !strings.Contains(r.Err.Error(), `plugin "Probe" at Filter: panicked: seven`) {
			t.Errorf("got %+v, want the panic of a piece of work", r)
		}
	},
	"ProfileName": func(t *testing.T) {
		c := probed(t, one(&probe{}), st.WithConfig(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- {schedulerName: one, plugins: {multiPoint: {enabled: [{name: Probe}]}}}
- {schedulerName: two, plugins: {multiPoint: {enabled: [{name: Probe}]}}}
`))
		equal(t, []string{c.Handle("one").ProfileName(), c.Handle("two").ProfileName()}, "one", "two")
	},
	"NominatedPodsForNode": func(t *testing.T) {
		var saw []string
		p := &probe{}
		p.preFilter = func(_ fwk.CycleState, pod *v1.Pod) {
			if pod.Name == "web" {
				saw = append(nominatedTo(p.h, "a"), nominatedTo(p.h, "b")...)
			}
		}
		c := probed(t, one(p))
		for _, name := range []string{"low", "lower"} {
			c.Schedule(podOf(name, "4").Obj())
		}
		if r := c.Schedule(podOf("high", "4").Priority(9).Obj()); r.Nominated == "" {
			t.Errorf("got %+v, want it to preempt", r)
		}
		c.Schedule(podOf("web", "1").Obj())
		equal(t, saw, "high")
	},
	"AddNominatedPod":            func(t *testing.T) { nominates(t, 1) },
	"UpdateNominatedPod":         func(t *testing.T) { nominates(t, 2) },
	"DeleteNominatedPodIfExists": func(t *testing.T) { nominates(t, 3) },
}

// rejection returns the plugin and the reason of a rejection.
func rejection(s *fwk.Status) string {
	if s == nil {
		return "fits"
	}
	return s.Plugin() + ": " + s.Message()
}

func equal(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// bare returns the Handle of a Runtime without plugins.
func bare(t *testing.T, config framework.Config) fwk.Handle {
	config.Profile, config.Snapshot = name, snapshot.New(nil)
	r, err := framework.New(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r.Handle()
}

// waiting returns a cluster where the pods first and second wait at Permit for the plugin
// Probe.
func waiting(t *testing.T) (*st.Cluster, *probe) {
	p := &probe{permit: func(*v1.Pod) (*fwk.Status, time.Duration) { return status(fwk.Wait), time.Minute }}
	c := probed(t, one(p))
	for _, name := range []string{"first", "second"} {
		if r := c.Schedule(podOf(name, "1").Obj()); !slices.Equal(r.Waiting, []string{"Probe"}) {
			t.Fatalf("%s does not wait: %+v", name, r)
		}
	}
	return c, p
}

// inPostFilter runs a function during a plugin's PostFilter, and returns its output. The
// pod web, with 2 cpu and priority 0, is rejected everywhere. When filters run through
// the Handle, another plugin rejects node b. On node a is the pod old, with 3 cpu.
func inPostFilter(t *testing.T, ask func(p *probe, state fwk.CycleState, pod *v1.Pod, say func(...any))) (*probe, *[]string) {
	t.Helper()
	notes, asking := new([]string), false
	p, other := &probe{name: "Probe"}, &probe{name: "Other"}
	p.filter = func(pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
		if asking || pod.Name != "web" {
			return nil
		}
		return status(fwk.Unschedulable, "not now")
	}
	other.filter = func(pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
		if node.Node().Name == "b" {
			return status(fwk.Unschedulable, "no")
		}
		return nil
	}
	p.postFilter = func(state fwk.CycleState, pod *v1.Pod) {
		asking = true
		ask(p, state, pod, func(a ...any) {
			*notes = append(*notes, strings.TrimSuffix(fmt.Sprintln(a...), "\n"))
		})
		other.mu.Lock()
		defer other.mu.Unlock()
		p.extended = other.extended
	}
	c := probed(t, []*probe{p, other}, st.WithConfig(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Probe}, {name: Other}]}, postFilter: {disabled: [{name: DefaultPreemption}]}}
`))
	c.Schedule(podOf("old", "3").Node("a").Obj())
	if r := c.Schedule(podOf("web", "2").Obj()); !asking || r.Bound {
		t.Fatalf("PostFilter was not asked: %+v", r)
	}
	return p, notes
}

// extends makes a plugin add a pod to a node, or remove it, through the Handle. Another
// plugin's AddPod or RemovePod is called, and the built-in InterPodAffinity counts the
// change.
func extends(t *testing.T, add bool) {
	p, notes := inPostFilter(t, func(p *probe, state fwk.CycleState, pod *v1.Pod, say func(...any)) {
		node, _ := p.h.SnapshotSharedLister().NodeInfos().Get("a")
		info, _ := public.NewPodInfo(podOf("other", "1").Obj())
		run := p.h.RunPreFilterExtensionRemovePod
		if add {
			run = p.h.RunPreFilterExtensionAddPod
		}
		say(run(t.Context(), state, pod, info, node).IsSuccess())
		say(run(t.Context(), state, pod, info, public.NewNodeInfo()).Message())
	})
	equal(t, *notes, "true", "node not found")
	if add {
		equal(t, p.extended, "+other a")
	} else {
		equal(t, p.extended, "-other a")
	}
}

// nominates makes a plugin nominate a parked pod to both nodes in turn, update and
// un-nominate it, up to a number of steps. Plugins see each change at once. Built-in
// filters leave room for the pod from the next turn on.
func nominates(t *testing.T, steps int) {
	var may atomic.Bool
	p := &probe{filter: func(pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
		if pod.Name == "parked" && !may.Load() {
			return status(fwk.Unschedulable, "not yet")
		}
		return nil
	}}
	c := probed(t, one(p))
	parked := podOf("parked", "4").Priority(9).Obj()
	c.Schedule(parked)
	c.Schedule(podOf("full", "4").Node("b").Obj())
	info, err := public.NewPodInfo(c.Pod("shop", "parked"))
	if err != nil {
		t.Fatal(err)
	}
	p.h.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "a"})
	if steps >= 2 { // another version, without a nominated node
		newer := info.GetPod().DeepCopy()
		newer.Labels = map[string]string{"version": "2"}
		after, err := public.NewPodInfo(newer)
		if err != nil {
			t.Fatal(err)
		}
		p.h.UpdateNominatedPod(klog.Background(), info.GetPod(), after)
		if on := p.h.NominatedPodsForNode("a"); len(on) != 1 || on[0].GetPod().Labels["version"] != "2" {
			t.Errorf("nominated to a: %v, want the new version", on)
		}
	}
	equal(t, nominatedTo(p.h, "a"), "parked")
	if steps == 3 {
		p.h.DeleteNominatedPodIfExists(parked)
		equal(t, nominatedTo(p.h, "a"))
	}
	r := c.Schedule(podOf("web", "1").Obj())
	if steps < 3 && (r.Bound || !strings.Contains(r.Message, "2 Insufficient cpu")) || steps == 3 && r.Node != "a" {
		t.Errorf("after %d steps got %+v", steps, r)
	}
}

// TestEachMethodOfTheHandle requires a test of each method's effect, or of its failure.
func TestEachMethodOfTheHandle(t *testing.T) {
	handle := reflect.TypeFor[fwk.Handle]()
	for method := range handle.Methods() {
		effect, refusal := effects[method.Name], refusals[method.Name]
		switch {
		case effect == nil && refusal == nil:
			t.Errorf("%s has no test", method.Name)
		case effect != nil && refusal != nil:
			t.Errorf("%s is supported and not", method.Name)
		case refusal != nil:
			effect = refusal
			fallthrough
		default:
			t.Run(method.Name, effect)
		}
	}
	if n := len(effects) + len(refusals); n != handle.NumMethod() {
		t.Errorf("%d methods are tested; the Handle has %d", n, handle.NumMethod())
	}
}
