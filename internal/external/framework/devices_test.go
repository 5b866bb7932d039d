package framework_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// counting is a plugin that reads devices in its PreFilter.
type counting struct {
	h       fwk.Handle
	devices fwk.SharedDRAManager
	look    func(fwk.SharedDRAManager)
}

func (c *counting) Name() string { return "Counting" }

func (c *counting) take(h fwk.Handle) { c.h, c.devices = h, h.SharedDRAManager() }

func (c *counting) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	c.look(c.devices)
	return nil, nil
}

func (c *counting) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// show applies versions of objects to the state.
func (w *world) show(objects ...runtime.Object) {
	for _, o := range objects {
		w.apply(kinds.Of(o).Change(o.(kinds.Object)))
	}
}

func (w *world) remove(kind model.Kind, namespace, name string) {
	w.apply(model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: kind, Namespace: namespace, Name: name}})
}

func classOf(name, extended string, created int64) *resourcev1.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0)}}
	if extended != "" {
		c.Spec.ExtendedResourceName = &extended
	}
	return c
}

func sliceOf(name string, devices ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "drv", NodeName: ptr.To("n0"), Pool: resourcev1.ResourcePool{Name: "pool", Generation: 1, ResourceSliceCount: 1},
	}}
	for _, d := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: d})
	}
	return s
}

func taintOf(name, device string) *resourcev1.DeviceTaintRule {
	return &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1.DeviceTaintSelector{Device: &device}, Taint: resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule},
	}}
}

func allocationOf(devices ...string) *resourcev1.AllocationResult {
	a := &resourcev1.AllocationResult{}
	for _, d := range devices {
		a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: "drv", Pool: "pool", Device: d})
	}
	return a
}

func claimOf(name, version string, devices ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: version}}
	if len(devices) > 0 {
		c.Status.Allocation = allocationOf(devices...)
	}
	return c
}

// holding is a placement that promises devices to a claim.
func holding(pod *model.Pod, claim string, devicesOf ...string) plan.Placement {
	return plan.Placement{Pod: pod, NodeName: "n0", Holds: []plan.Hold{{
		Plugin: "DynamicResources", Object: model.ClaimKey{Namespace: "ns", Name: claim}.DeviceRef(),
		Value: &devices.Promise{UID: types.UID("uid-" + claim), Allocation: allocationOf(devicesOf...)},
	}}}
}

// pictured describes all device data that a plugin can read.
func pictured(t *testing.T, m fwk.SharedDRAManager) string {
	t.Helper()
	var all []string
	note := func(err error, text string, parts ...any) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf(text, parts...))
	}
	claims, err := m.ResourceClaims().List()
	for _, c := range claims {
		same, err := m.ResourceClaims().Get(c.Namespace, c.Name)
		if same != c {
			t.Errorf("claim %s is %v when it is got: %v", c.Name, same, err)
		}
		note(err, "claim %s@%s", c.Name, c.ResourceVersion)
		if pending := m.ResourceClaims().GetPendingAllocation(c.UID); pending != nil {
			note(nil, "gets %s", pending.Devices.Results[0].Device)
		}
	}
	note(err, "%d claims", len(claims))
	state, err := m.ResourceClaims().GatherAllocatedState()
	note(err, "in use")
	var used []string
	for id := range state.AllocatedDevices {
		used = append(used, id.String())
	}
	slices.Sort(used)
	all = append(all, used...)
	if devices, err := m.ResourceClaims().ListAllAllocatedDevices(); err != nil || !devices.Equal(state.AllocatedDevices) {
		t.Errorf("%v are allocated, %v; gathered are %v", devices, err, state.AllocatedDevices)
	}
	list, err := m.ResourceSlices().ListWithDeviceTaintRules()
	note(err, "%d slices", len(list))
	for _, s := range list {
		for _, d := range s.Spec.Devices {
			note(nil, "%s/%s%s", s.Name, d.Name, strings.Repeat("!", len(d.Taints)))
		}
	}
	classes, err := m.DeviceClasses().List()
	note(err, "%d classes", len(classes))
	for _, c := range classes {
		same, err := m.DeviceClasses().Get(c.Name)
		if same != c {
			t.Errorf("class %s is %v when it is got: %v", c.Name, same, err)
		}
		note(err, "%s", c.Name)
	}
	for _, name := range []v1.ResourceName{"ex.com/gpu", v1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu"), "cpu"} {
		if class := m.DeviceClassResolver().GetDeviceClass(name); class != nil {
			note(nil, "%s=%s", name, class.Name)
		}
	}
	return strings.Join(all, " ")
}

// TestDevicesOfATurn has a plugin that reads devices in each turn, while objects and
// promises to claims change. It gets the state at the beginning of the turn, until the
// next turn begins.
func TestDevicesOfATurn(t *testing.T) {
	p := &counting{}
	w := newWorld(t, 1, p)
	if _, err := p.devices.ResourceClaims().List(); err == nil || !strings.Contains(err.Error(), "has no devices yet") {
		t.Errorf("before the first turn: %v", err)
	}
	waits, other := w.pod("waits", "1"), w.pod("other", "1")
	promise := holding(waits, "new", "d2")
	w.show(classOf("gpu", "ex.com/gpu", 1), sliceOf("s", "d0", "d1", "d2"), claimOf("used", "1", "d0"), claimOf("new", "1"))
	turns := 0
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"at first", func() {}, "claim new@1 claim used@1 2 claims in use drv/pool/d0 1 slices s/d0 s/d1 s/d2 1 classes gpu ex.com/gpu=gpu deviceclass.resource.kubernetes.io/gpu=gpu"},
		{"nothing changes", func() {}, "claim new@1 claim used@1 2 claims in use drv/pool/d0 1 slices s/d0 s/d1 s/d2 1 classes gpu ex.com/gpu=gpu deviceclass.resource.kubernetes.io/gpu=gpu"},
		{"a promise and a rule", func() {
			w.state.Assume(promise)
			w.show(taintOf("rule", "d1"))
		}, "claim new@1 gets d2 claim used@1 2 claims in use drv/pool/d0 drv/pool/d2 1 slices s/d0 s/d1! s/d2 1 classes gpu ex.com/gpu=gpu deviceclass.resource.kubernetes.io/gpu=gpu"},
		{"it is kept, and newer classes of that name come", func() {
			w.show(claimOf("new", "2", "d2"), classOf("z", "ex.com/gpu", 5), classOf("a", "ex.com/gpu", 5), classOf("b", "ex.com/gpu", 4))
		}, "claim new@2 claim used@1 2 claims in use drv/pool/d0 drv/pool/d2 1 slices s/d0 s/d1! s/d2 4 classes a b gpu z ex.com/gpu=a deviceclass.resource.kubernetes.io/gpu=gpu"},
		{"much goes, and another slice comes", func() {
			w.remove(model.ResourceClaimKind, "ns", "used")
			w.remove(model.DeviceTaintRuleKind, "", "rule")
			w.remove(model.DeviceClassKind, "", "gpu")
			w.remove(model.ResourceSliceKind, "", "s")
			w.show(sliceOf("r", "d9"))
		}, "claim new@2 1 claims in use drv/pool/d2 1 slices r/d9 3 classes a b z ex.com/gpu=a"},
		{"a promise that is forgotten", func() {
			w.show(claimOf("later", "3"))
			lost := holding(other, "later", "d9")
			w.state.Assume(lost)
			w.state.Unassume(lost)
		}, "claim later@3 claim new@2 2 claims in use drv/pool/d2 1 slices r/d9 3 classes a b z ex.com/gpu=a"},
	} {
		before := ""
		if turns > 0 {
			before = pictured(t, p.devices)
		}
		step.change()
		if turns > 0 && pictured(t, p.devices) != before {
			t.Errorf("%s: it is seen before the next turn begins", step.name)
		}
		p.look = func(m fwk.SharedDRAManager) {
			turns++
			if got := pictured(t, m); got != step.want {
				t.Errorf("%s:\ngot  %s\nwant %s", step.name, got, step.want)
			}
		}
		w.decide(w.pod("pod", "1"))
	}
	if turns != 6 {
		t.Errorf("%d turns", turns)
	}
	claims := p.devices.ResourceClaims()
	if _, err := claims.Get("ns", "used"); !apierrors.IsNotFound(err) {
		t.Errorf("a claim that is gone: %v", err)
	}
	if _, err := p.devices.DeviceClasses().Get("gpu"); !apierrors.IsNotFound(err) {
		t.Errorf("a class that is gone: %v", err)
	}
	for method, err := range map[string]error{
		"SignalClaimPendingAllocation": claims.SignalClaimPendingAllocation("uid-later", claimOf("later", "3", "d9")),
		"AssumeClaimAfterAPICall":      claims.AssumeClaimAfterAPICall(claimOf("later", "4", "d9")),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), method+": ") || !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("%s: %v", method, err)
		}
	}
	claims.AssumedClaimRestore("ns", "later")
	if claims.MaybeRemoveClaimPendingAllocation("uid-later", true) {
		t.Error("a pending allocation was removed")
	}
}

// TestManyChangesOfDevices changes more objects between two turns than are recorded
// individually.
func TestManyChangesOfDevices(t *testing.T) {
	p := &counting{look: func(fwk.SharedDRAManager) {}}
	w := newWorld(t, 1, p)
	w.decide(w.pod("pod", "1"))
	const many = 10_100
	for i := range many {
		w.show(claimOf(fmt.Sprint(i), "1"))
	}
	w.decide(w.pod("pod", "1"))
	if list, err := p.devices.ResourceClaims().List(); err != nil || len(list) != many {
		t.Errorf("%d claims, %v", len(list), err)
	}
}

// TestDevicesFromAnyGoroutine has goroutines that keep reading while turns begin.
func TestDevicesFromAnyGoroutine(t *testing.T) {
	p := &counting{look: func(fwk.SharedDRAManager) {}}
	w := newWorld(t, 1, p)
	w.show(sliceOf("s", "d0"), claimOf("c", "1", "d0"), classOf("gpu", "ex.com/gpu", 1))
	w.decide(w.pod("pod", "1"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				m := p.h.SharedDRAManager()
				if used, err := m.ResourceClaims().GatherAllocatedState(); err != nil || len(used.AllocatedDevices) != 1 {
					t.Errorf("in use are %v, %v", used, err)
				}
				claims, _ := m.ResourceClaims().List()
				slices, _ := m.ResourceSlices().ListWithDeviceTaintRules()
				classes, _ := m.DeviceClasses().List()
				if len(claims) != 1 || len(slices) != 1 || len(classes) != 1 || m.DeviceClassResolver().GetDeviceClass("ex.com/gpu") != classes[0] {
					t.Errorf("there are %d claims, %d slices and %d classes", len(claims), len(slices), len(classes))
				}
				m.ResourceClaims().GetPendingAllocation("uid-c")
			}
		})
	}
	for i := range 200 {
		w.show(claimOf("c", fmt.Sprint(i+2), "d0"), taintOf("rule", fmt.Sprint("d", i%2)))
		w.decide(w.pod("pod", "1"))
	}
	cancel()
	readers.Wait()
}
