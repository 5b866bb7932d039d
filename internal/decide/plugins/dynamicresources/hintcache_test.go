package dynamicresources

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func selecting(expressions ...string) (selectors []resourcev1.DeviceSelector) {
	for _, e := range expressions {
		selectors = append(selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return selectors
}

func class(name string, expressions ...string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{Selectors: selecting(expressions...)}}
}

// ofClass sets the class and the selectors of the claim's first request.
func ofClass(name string, expressions ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.DeviceClassName, c.Spec.Devices.Requests[0].Exactly.Selectors = name, selecting(expressions...)
	}
}

func ofDriver(driver string) func(*resourcev1.ResourceSlice) {
	return func(s *resourcev1.ResourceSlice) { s.Spec.Driver = driver }
}

func ofModel(name string) func(*resourcev1.ResourceSlice) {
	return func(s *resourcev1.ResourceSlice) {
		for i := range s.Spec.Devices {
			s.Spec.Devices[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &name}}
		}
	}
}

func sliceWith(node string, change ...func(*resourcev1.ResourceSlice)) *resourcev1.ResourceSlice {
	s := slice(node, "d0", "d1")
	for _, f := range change {
		f(s)
	}
	return s
}

// TestWhomAPoolHelps has pods with different requests, claims that release a device of a
// pool, and versions of its slice. Each row names the result for both events. By the
// cause alone, an event finds no pod that it cannot help.
func TestWhomAPoolHelps(t *testing.T) {
	const drv, modelA = `device.driver == "drv"`, `device.attributes["drv"].model == "a"`
	classes := []*resourcev1.DeviceClass{class("drv", drv), class("other", `"other" == device.driver && `+modelA), class("broken", `device.attributes["drv"].none == "a"`), class("any")}
	all := func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.AllocationMode, c.Spec.Devices.Requests[0].Exactly.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	either := func(classes ...string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			r := resourcev1.DeviceRequest{Name: "r"}
			for i, name := range classes {
				r.FirstAvailable = append(r.FirstAvailable, resourcev1.DeviceSubRequest{
					Name: fmt.Sprint("s", i), DeviceClassName: name, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				})
			}
			c.Spec.Devices.Requests = []resourcev1.DeviceRequest{r}
		}
	}
	for _, row := range []struct {
		what   string
		change []func(*resourcev1.ResourceClaim)
		// gives and slice are the results for an event about a claim and about a slice:
		// helps, no, or cause.
		gives, slice string
	}{
		{"the driver's", []func(*resourcev1.ResourceClaim){ofClass("drv")}, "helps", "helps"},
		{"the model's", []func(*resourcev1.ResourceClaim){ofClass("drv", modelA)}, "helps", "helps"},
		{"another model's", []func(*resourcev1.ResourceClaim){ofClass("drv", `device.attributes["drv"].model == "b"`)}, "no", "no"},
		{"another driver's", []func(*resourcev1.ResourceClaim){ofClass("other")}, "cause", "cause"},
		{"by the request another driver's", []func(*resourcev1.ResourceClaim){ofClass("any", `device.driver == "x" && true`)}, "cause", "cause"},
		{"one or another driver's", []func(*resourcev1.ResourceClaim){ofClass("any", `device.driver == "x" || device.driver == "y"`)}, "no", "no"},
		{"not the driver's", []func(*resourcev1.ResourceClaim){ofClass("any", `device.driver != "drv"`)}, "no", "no"},
		{"of whatever class", []func(*resourcev1.ResourceClaim){ofClass("any")}, "helps", "helps"},
		{"of a class that fails", []func(*resourcev1.ResourceClaim){ofClass("broken")}, "helps", "helps"},
		{"of a class that does not compile", []func(*resourcev1.ResourceClaim){ofClass("any", "device.")}, "helps", "helps"},
		{"of a class that is not there", []func(*resourcev1.ResourceClaim){ofClass("none")}, "cause", "cause"},
		{"an alternative of this driver", []func(*resourcev1.ResourceClaim){either("other", "drv")}, "helps", "helps"},
		{"alternatives of other drivers", []func(*resourcev1.ResourceClaim){either("other", "other")}, "cause", "cause"},
		{"all of another driver", []func(*resourcev1.ResourceClaim){ofClass("other"), all}, "cause", "helps"},
		{"nothing more", []func(*resourcev1.ResourceClaim){allocated("b", "x")}, "cause", "cause"},
	} {
		w := newWorld(t, sliceWith("a", ofModel("a")), claim("c", 1, row.change...))
		for _, c := range classes {
			w.set(c)
		}
		waiting := pod("p", "c")
		asked := w.plugin.AskedIn(w.View(), waiting)
		had := model.NewResourceClaim(claim("o", 1, allocated("a", "d0")))
		published := model.NewResourceSlice(sliceWith("a", ofModel("a")))
		for want, e := range map[string]model.Event{
			"claim " + row.gives: {Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: had},
			"slice " + row.slice: {Resource: model.ResourceSliceEvent, Action: model.Update, OldObject: published, Object: published},
		} {
			e.Pools = w.View().Devices().PoolsOf(e.OldObject, e.Object)
			kind, _, _ := strings.Cut(want, " ")
			got := kind + " no"
			for _, r := range w.plugin.EventsToRegister() {
				if r.Asked == nil || !r.Concerns(e) {
					continue
				}
				if plugintest.Meets(&r, r.Asked.Cause(asked), e) {
					if r.Asked.Hint(asked, e) {
						got = kind + " helps"
					}
				} else {
					got = kind + " cause"
				}
			}
			if got != want {
				t.Errorf("%s: %s, want %s", row.what, got, want)
			}
		}
		rule := model.Event{Resource: model.ResourceSliceEvent, Action: model.Update, OldObject: model.NewDeviceTaintRule(&resourcev1.DeviceTaintRule{})}
		if helps := w.helps(waiting, rule); helps != (asked != nothing) {
			t.Errorf("%s: a rule helps: %t", row.what, helps)
		}
	}
}

// A pod that waits for the result of a promise is helped by any released devices, since
// no event reports a broken promise.
func TestWhoWaitsForAPromise(t *testing.T) {
	w := newWorld(t, sliceWith("a"), claim("c", 1), claim("o", 1, allocated("b", "x")))
	placement, err := w.place(t, pod("first", "c"), "a")
	if err != nil {
		t.Fatal(err)
	}
	w.Assume(*placement)
	waiting := pod("second", "c")
	if got := w.filter(t, waiting); !strings.Contains(got, "in the process of being allocated") {
		t.Fatal(got)
	}
	had, has := model.NewResourceClaim(claim("o", 1, allocated("b", "x"))), model.NewResourceClaim(claim("o", 1))
	for _, row := range []struct {
		before, after model.Compiled
		helps         bool
	}{{had, has, true}, {had, nil, true}, {had, had, false}, {has, has, false}} {
		if helps := w.helps(waiting, model.Event{Resource: model.ResourceClaimEvent, Action: model.Update, OldObject: row.before, Object: row.after}); helps != row.helps {
			t.Errorf("%v, %v: helps %t", row.before, row.after, helps)
		}
	}
}

// TestNobodyHopefulIsLeft changes worlds at random. A pod without a feasible node is
// retried when an event helps it. If no event helps, every node must still reject the
// pod.
func TestNobodyHopefulIsLeft(t *testing.T) {
	helped, kept := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		one := func(list ...string) string { return list[r.IntN(len(list))] }
		w := newWorld(t, class("x", `device.driver == "x.drv"`), class("y", `device.driver == "y.drv" && device.attributes["y.drv"].model == "a"`), class("any"), class("b", `device.attributes["x.drv"].?model.orValue("") == "b"`))
		var waiting []*model.Pod
		for i := range 8 {
			name := fmt.Sprint("own-", i)
			c := claim(name, int64(1+r.IntN(2)), ofClass(one("x", "y", "any", "b")))
			if r.IntN(3) == 0 {
				c.Spec.Devices.Requests[0].Exactly.Selectors = selecting(one(`device.driver == "y.drv"`, `device.driver != "x.drv"`, `device.attributes["x.drv"].?model.orValue("") == "a"`))
			}
			if r.IntN(4) == 0 {
				first := c.Spec.Devices.Requests[0].Exactly
				c.Spec.Devices.Requests[0] = resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{
					{Name: "s0", DeviceClassName: first.DeviceClassName, Selectors: first.Selectors, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: first.Count},
					{Name: "s1", DeviceClassName: one("x", "y", "b"), AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
				}}
			}
			w.set(c)
			waiting = append(waiting, pod(fmt.Sprint("waiting-", i), name))
		}
		asked := make([]model.Need, len(waiting))
		fits := func(p *model.Pod) bool {
			got := w.filter(t, p)
			return strings.HasPrefix(got, "a;") || strings.HasSuffix(got, "; b")
		}
		park := func() {
			for i, p := range waiting {
				asked[i] = w.plugin.AskedIn(w.View(), p)
			}
		}
		park()
		for range 40 {
			node, driver := one("a", "b"), one("x.drv", "y.drv")
			var change model.Change
			switch r.IntN(3) {
			case 0:
				s := sliceWith(node, ofDriver(driver), ofModel(one("a", "b")))
				s.Name += driver
				switch r.IntN(4) {
				case 0: // wide
					s.Name, s.Spec.Pool.Name = driver, "wide-pool"
					s.Spec.NodeName, s.Spec.AllNodes = nil, ptr.To(true)
				case 1: // devices with shared counters
					s.Spec.Pool.ResourceSliceCount = 2
					counters := s.DeepCopy()
					counters.Name += "-counters"
					counters.Spec.Devices = nil
					counters.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "set", Counters: map[string]resourcev1.Counter{"n": {Value: resource.MustParse("1")}}}}
					for i := range s.Spec.Devices {
						s.Spec.Devices[i].ConsumesCounters = []resourcev1.DeviceCounterConsumption{{CounterSet: "set", Counters: map[string]resourcev1.Counter{"n": {Value: resource.MustParse("1")}}}}
					}
					if r.IntN(2) == 0 {
						s = counters
					}
				case 2:
					s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "k", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
				}
				change = kinds.Of(s).Change(s)
			case 1:
				c := claim(one("o0", "o1", "o2"), 1)
				allocated(node, one("d0", "d1"))(c)
				c.Status.Allocation.Devices.Results[0].Driver = driver
				if r.IntN(4) == 0 {
					c.Status.Allocation.Devices.Results[0].Pool = "wide-pool"
				}
				change = kinds.Of(c).Change(c)
			case 2:
				c := claim(one("o0", "o1", "o2"), 1)
				if change = kinds.Of(c).Change(c); r.IntN(2) == 0 {
					change = model.Change{Kind: model.ObjectGone, Ref: change.Ref}
				}
			}
			before := make([]bool, len(waiting))
			for i, p := range waiting {
				before[i] = fits(p)
			}
			events := w.Apply([]model.Change{change}).Events
			for i, p := range waiting {
				helps := false
				for _, e := range events {
					helps = helps || w.helpsAsking(asked[i], p, e)
				}
				if helps {
					helped++
				} else {
					kept++
				}
				if !before[i] && fits(p) && !helps {
					t.Fatalf("seed %d: pod %s, which asks %s, would be placed after a change of %v, and is not tried again: %s", seed, p, asked[i], change, w.filter(t, p))
				}
			}
		}
	}
	if helped < 1000 || kept < 1000 {
		t.Errorf("%d times an event helped, %d times not: the worlds are too dull", helped, kept)
	}
}
