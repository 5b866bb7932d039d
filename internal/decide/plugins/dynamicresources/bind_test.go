package dynamicresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// stored returns the claim as an API server stores it after a write, or the error of a
// rejected write.
func stored(t testing.TB, of *resourcev1.ResourceClaim, write *plan.Write) (*resourcev1.ResourceClaim, error) {
	t.Helper()
	before, err := json.Marshal(of)
	if err != nil {
		t.Fatal(err)
	}
	var after []byte
	if write.Type == types.JSONPatchType {
		patch, err := jsonpatch.DecodePatch(write.Data)
		if err != nil {
			t.Fatal(err)
		}
		if after, err = patch.Apply(before); err != nil {
			return nil, err
		}
	} else if after, err = strategicpatch.StrategicMergePatch(before, write.Data, of); err != nil {
		t.Fatal(err)
	}
	now := &resourcev1.ResourceClaim{}
	if err := json.Unmarshal(after, now); err != nil {
		t.Fatal(err)
	}
	if now.UID != of.UID {
		return nil, fmt.Errorf("the UID in the precondition is %s", now.UID)
	}
	return now, nil
}

// describe describes the state of a claim.
func describe(c *resourcev1.ResourceClaim) string {
	text := "free"
	if a := c.Status.Allocation; a != nil {
		text = "has"
		for _, r := range a.Devices.Results {
			text += " " + r.Pool + "/" + r.Device
		}
	}
	for _, r := range c.Status.ReservedFor {
		text += " for " + r.Name
	}
	if len(c.Finalizers) > 0 {
		text += ", kept"
	}
	return text
}

// A claim is protected from deletion, then allocated and reserved in one write. An
// allocated claim is only reserved, and a reserved claim is not written. Undoing removes
// the reservation.
func TestWrites(t *testing.T) {
	for _, row := range []struct {
		name   string
		claim  *resourcev1.ResourceClaim
		writes int
		want   string
		undone string
	}{
		{"new", claim("c", 1), 2, "has a-pool/d0 for p, kept", "has a-pool/d0, kept"},
		{"new, with its finalizer", claim("c", 1, protected), 1, "has a-pool/d0 for p, kept", "has a-pool/d0, kept"},
		{"allocated", claim("c", 1, allocated("a", "d1")), 1, "has a-pool/d1 for p, kept", "has a-pool/d1, kept"},
		{"reserved for another", claim("c", 1, allocated("a", "d1"), reserved("o")), 1, "has a-pool/d1 for p for o, kept", "has a-pool/d1 for o, kept"},
		{"reserved", claim("c", 1, allocated("a", "d1"), reserved("o", "p")), 0, "has a-pool/d1 for o for p, kept", ""},
	} {
		w := newWorld(t, slice("a", "d0", "d1"), row.claim)
		placement, err := w.place(t, pod("p", "c"), "a")
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if len(placement.Steps) != row.writes {
			t.Fatalf("%s: %d steps, want %d", row.name, len(placement.Steps), row.writes)
		}
		now := row.claim
		for i := range placement.Steps {
			step := &placement.Steps[i]
			if !step.Write.Learn {
				t.Errorf("%s: the answer to a write is not learned", row.name)
			}
			if now, err = stored(t, now, step.Write); err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			if want := map[bool]string{true: "status"}[step.Write.Stored != nil]; step.Write.Subresource != want || step.Write.Resource.Resource != "resourceclaims" {
				t.Errorf("%s: a write of %v, %q", row.name, step.Write.Resource, step.Write.Subresource)
			}
			if step.Write.Stored != nil && !step.Write.Stored(now) {
				t.Errorf("%s: %s is not taken for stored", row.name, describe(now))
			}
		}
		if got := describe(now); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
		for i := range placement.Steps {
			if undo := placement.Steps[i].Undo; undo != nil {
				if !undo.Learn {
					t.Errorf("%s: the answer to what is undone is not learned", row.name)
				}
				if now, err = stored(t, now, undo); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := describe(now); row.undone != "" && got != row.undone {
			t.Errorf("%s: undone, %s, want %s", row.name, got, row.undone)
		}
	}
}

// A claim that others have changed is not overwritten, and a write that was stored is
// recognized.
func TestWritesOfOthers(t *testing.T) {
	other := func(c *resourcev1.ResourceClaim) { c.UID = "other" }
	for _, row := range []struct {
		name      string
		seen, now *resourcev1.ResourceClaim
		refused   bool
		is        bool
	}{
		{"as it was", claim("c", 1), claim("c", 1, protected), false, true},
		{"without the finalizer, which whoever gave it back has removed", claim("c", 1), claim("c", 1), true, false},
		{"stored before", claim("c", 1), claim("c", 1, allocated("a", "d0"), reserved("p")), true, true},
		{"allocated elsewhere", claim("c", 1), claim("c", 1, allocated("b", "d0"), reserved("p")), true, false},
		{"allocated for another pod", claim("c", 1), claim("c", 1, allocated("a", "d0"), reserved("o")), true, false},
		{"another claim", claim("c", 1), claim("c", 1, other), true, false},
		{"allocated, as it was", claim("c", 1, allocated("a", "d0")), claim("c", 1, allocated("a", "d0")), false, true},
		{"another pod has it too", claim("c", 1, allocated("a", "d0")), claim("c", 1, allocated("a", "d0"), reserved("o")), false, true},
		{"another allocation", claim("c", 1, allocated("a", "d0")), claim("c", 1, allocated("b", "d0")), false, false},
		{"deallocated", claim("c", 1, allocated("a", "d0")), claim("c", 1), false, false},
	} {
		w := newWorld(t, slice("a", "d0"), row.seen)
		placement, err := w.place(t, pod("p", "c"), "a")
		if err != nil {
			t.Fatal(err)
		}
		write := placement.Steps[len(placement.Steps)-1].Write
		after, err := stored(t, row.now, write)
		if (err != nil) != row.refused {
			t.Errorf("%s: refused with %v", row.name, err)
		}
		if err != nil {
			after = row.now
		}
		if write.Stored(after) != row.is {
			t.Errorf("%s: %s is taken for stored: %t", row.name, describe(after), !row.is)
		}
	}
}

// Promised devices are not promised again, and a claim with a promise is in use by its
// pod alone.
func TestReserve(t *testing.T) {
	w := newWorld(t, slice("a", "d0", "d1"), claim("c", 1), claim("d", 1), claim("e", 1))
	devicesOf := func(p *plan.Placement) string {
		var c resourcev1.ResourceClaim
		now, err := stored(t, &c, &plan.Write{Type: types.JSONPatchType, Data: []byte(`[]`)})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range p.Holds {
			now.Status.Allocation = allocationIn(h)
		}
		return describe(now)
	}
	first, err := w.place(t, pod("p", "c"), "a")
	if err != nil || devicesOf(first) != "has a-pool/d0" {
		t.Fatalf("%v, %v", first, err)
	}
	if at := allocationIn(first.Holds[0]).AllocationTimestamp; at == nil || !at.Time.Equal(turn) {
		t.Errorf("allocated at %v", at)
	}
	w.Assume(*first)
	if got, want := w.filter(t, pod("q", "c")), "all: resource claim ns/c is in the process of being allocated"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	second, err := w.place(t, pod("q", "d"), "a")
	if err != nil || devicesOf(second) != "has a-pool/d1" {
		t.Fatalf("%v, %v", second, err)
	}
	w.Assume(*second)
	if got, want := w.filter(t, pod("r", "e")), "a: cannot allocate all claims; b: cannot allocate all claims"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := w.place(t, pod("r", "e"), "a"); err == nil || err.Error() != "the pod's claims cannot be allocated on node a any more" {
		t.Errorf("error %v", err)
	}
	w.Unassume(*first)
	if got, want := w.filter(t, pod("r", "e")), "a; b: cannot allocate all claims"; got != want {
		t.Errorf("after the first is forgotten: %s, want %s", got, want)
	}
	if err := w.Audit(); err != nil {
		t.Error(err)
	}
	if twice, err := newWorld(t, slice("a", "d0", "d1"), claim("c", 1)).place(t, pod("p", "c", "c"), "a"); err != nil || len(twice.Holds) != 1 || len(twice.Steps) != 2 {
		t.Errorf("a claim that is named twice: %+v, %v", twice, err)
	}
	placement := plan.Placement{Pod: pod("r", "e"), NodeName: "a"}
	if _, err := w.plugin.PreBind(w.View(), &placement); err == nil || !strings.Contains(err.Error(), "must be enabled at Reserve") {
		t.Errorf("a placement without devices goes on: %v", err)
	}
}

// Each of a pod's claims is written with its own promise, whichever of them have an
// allocation already, and in any order.
func TestEachClaimIsGivenItsOwn(t *testing.T) {
	has := claim("has", 1, allocated("a", "d3"))
	one, two := claim("one", 1), claim("two", 2)
	for _, names := range [][]string{{"has", "one", "two"}, {"one", "has", "two"}, {"two", "one", "has"}, {"two", "has", "one"}} {
		w := newWorld(t, slice("a", "d0", "d1", "d2", "d3"), has, one, two)
		placement, err := w.place(t, pod("p", names...), "a")
		if err != nil {
			t.Fatal(err)
		}
		now := map[string]*resourcev1.ResourceClaim{"has": has, "one": one, "two": two}
		for i := range placement.Steps {
			write := placement.Steps[i].Write
			if now[write.Name], err = stored(t, now[write.Name], write); err != nil {
				t.Fatalf("%q: %v", names, err)
			}
		}
		for name, devices := range map[string]int{"has": 1, "one": 1, "two": 2} {
			want := ""
			for _, h := range placement.Holds {
				if h.Object.Name == name {
					want = describe(&resourcev1.ResourceClaim{Status: resourcev1.ResourceClaimStatus{Allocation: allocationIn(h)}})
				}
			}
			if name == "has" {
				want = "has a-pool/d3"
			}
			if got := describe(now[name]); got != want+" for p, kept" || len(now[name].Status.Allocation.Devices.Results) != devices {
				t.Errorf("%q: the claim %s %s, want %s", names, name, got, want)
			}
		}
	}
}

// A pod waits for devices that must be prepared, and no longer than the timeout.
func TestWaitsForDevices(t *testing.T) {
	for _, row := range []struct {
		name string
		now  func(*resourcev1.ResourceClaim)
		done bool
		err  string
	}{
		{"nothing said", prepared(), false, ""},
		{"ready", prepared("Ready"), true, ""},
		{"something else", prepared("Other"), false, ""},
		{"another device is ready", func(c *resourcev1.ResourceClaim) {
			prepared("Ready")(c)
			c.Status.Devices[0].Device = "d9"
		}, false, ""},
		{"one of another pool is ready", func(c *resourcev1.ResourceClaim) {
			prepared("Ready")(c)
			c.Status.Devices[0].Pool = "other"
		}, false, ""},
		{"broken", prepared("Ready", "Broken"), false, `device binding failed: claim=c, reason=Because, message="it is so"`},
	} {
		before := claim("c", 1, allocated("a", "d0"), prepared())
		w := newWorld(t, before, claim("plain", 1, allocated("a", "d1")))
		placement, err := w.place(t, pod("p", "c", "plain"), "a")
		if err != nil {
			t.Fatal(err)
		}
		last := placement.Steps[len(placement.Steps)-1]
		if last.Wait == nil || last.Wait.Timeout != 10*time.Minute || !slices.Equal(last.Wait.For, []model.Ref{refOf("c"), refOf("plain")}) {
			t.Fatalf("%s: the last step is %+v", row.name, last)
		}
		if want := []plan.Device{{Driver: "drv", Awaited: true}, {Driver: "drv"}}; !slices.Equal(last.Wait.Devices, want) {
			t.Errorf("%s: the wait is for %v, want %v", row.name, last.Wait.Devices, want)
		}
		if text := last.Wait.Err.Error(); text != "device binding timeout: context deadline exceeded" || !errors.Is(last.Wait.Err, ErrBindingTimeout) {
			t.Errorf("%s: the wait ends with %s", row.name, text)
		}
		if want := (plan.PodEvent{Reason: "BindingConditionsPending", Action: "Scheduling", Note: "waiting for binding conditions for device on node a"}); *last.Wait.Event != want {
			t.Errorf("%s: the wait begins with %+v", row.name, last.Wait.Event)
		}
		w.set(claim("c", 1, allocated("a", "d0"), row.now, func(c *resourcev1.ResourceClaim) { c.ResourceVersion = "2" }))
		done, err := w.plugin.Done(w.View(), placement)
		if failed := errors.Is(err, ErrBindingFailed); failed != (row.err != "") {
			t.Errorf("%s: the driver has failed: %t", row.name, failed)
		}
		if text := errorText(err); done != row.done || text != row.err {
			t.Errorf("%s: done %t, %q; want %t, %q", row.name, done, text, row.done, row.err)
		}
	}
	w := newWorld(t, claim("c", 1, allocated("a", "d0")))
	if placement, err := w.place(t, pod("p", "c"), "a"); err != nil || placement.Steps[len(placement.Steps)-1].Wait != nil {
		t.Errorf("a device that need not be prepared is waited for: %+v, %v", placement, err)
	}
	w.set(claim("c", 1))
	if done, err := w.plugin.Done(w.View(), &plan.Placement{Pod: pod("p", "c")}); done || errorText(err) != "claim ns/c got deallocated elsewhere in the meantime" {
		t.Errorf("done %t, error %v", done, err)
	}
	if done, err := w.plugin.Done(w.View(), &plan.Placement{Pod: pod("p", "missing")}); done || errorText(err) != `could not find ResourceClaim "ns/missing"` {
		t.Errorf("done %t, error %v", done, err)
	}
}

// refOf returns the reference of a claim in these tests.
func refOf(claim string) model.Ref { return model.ClaimKey{Namespace: "ns", Name: claim}.DeviceRef() }

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A pod is retried when the names of all its claims are known.
func TestNamesOfClaims(t *testing.T) {
	made := pod("p", "c").Object.DeepCopy()
	made.Spec.ResourceClaims[0].ResourceClaimName = nil
	template := "t"
	made.Spec.ResourceClaims[0].ResourceClaimTemplateName = &template
	unnamed := model.NewPod(made)
	for _, row := range []struct {
		now   *model.Pod
		helps bool
	}{{unnamed, false}, {pod("p", "c"), true}, {pod("p"), true}} {
		helps := false
		for _, r := range defaults().EventsToRegister() {
			helps = helps || r.Helps(unnamed, model.Event{Resource: model.TargetPodEvent, Action: model.UpdatePodGeneratedResourceClaim, Pod: row.now})
		}
		if helps != row.helps {
			t.Errorf("helps %t, want %t", helps, row.helps)
		}
	}
}

// Hints: a claim that releases devices helps the pods that could get them. Another change
// helps only the pods that use the claim.
func TestHints(t *testing.T) {
	w := newWorld(t, slice("a", "d0"), claim("c", 1))
	version := func(c *resourcev1.ResourceClaim) model.Compiled { return model.NewResourceClaim(c) }
	waiting := pod("p", "c")
	for _, row := range []struct {
		name          string
		before, after *resourcev1.ResourceClaim
		helps         bool
	}{
		{"own is new", nil, claim("c", 1), true},
		{"another is new", nil, claim("o", 1), false},
		{"own is allocated", claim("c", 1), claim("c", 1, allocated("a", "d0")), true},
		{"another is allocated", claim("o", 1), claim("o", 1, allocated("a", "d0")), false},
		{"own has other labels", claim("c", 1), claim("c", 1, func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }), false},
		{"another gives devices back", claim("o", 1, allocated("a", "d0")), claim("o", 1), true},
		{"another with devices is gone", claim("o", 1, allocated("a", "d0")), nil, true},
		{"another without is gone", claim("o", 1), nil, false},
		{"another gives a device back of a pool that is gone", claim("o", 1, allocated("b", "d0")), claim("o", 1), false},
		{"another gives one of two devices back", claim("o", 2, allocated("a", "d0", "d1")), claim("o", 1, allocated("a", "d1")), true},
		{"another has other labels", claim("o", 1, allocated("a", "d0")), claim("o", 1, allocated("a", "d0"), func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }), false},
		{"own without is gone", claim("c", 1), nil, false},
		{"own with devices is gone", claim("c", 1, allocated("b", "d0")), nil, true},
	} {
		e := model.Event{Resource: model.ResourceClaimEvent, Action: model.Update}
		if row.before != nil {
			e.OldObject = version(row.before)
		} else {
			e.Action = model.Add
		}
		if row.after != nil {
			e.Object = version(row.after)
		} else {
			e.Action = model.Delete
		}
		if helps := w.helps(waiting, e); helps != row.helps {
			t.Errorf("%s: helps %t", row.name, helps)
		}
	}
}
