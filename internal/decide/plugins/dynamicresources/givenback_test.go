package dynamicresources

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestClaimGivenBackIsNoAllocation releases a claim of two pods. Until the write has
// ended, neither pod is tried, and the device stays in use.
func TestClaimGivenBackIsNoAllocation(t *testing.T) {
	w := newWorld(t, slice("a", "d"), slice("b", "d"), claim("c", 1, allocated("a", "d")))
	one, two, other := pod("one", "c"), pod("two", "c"), pod("other", "d")
	given := w.View().Devices().Claim(model.ClaimKey{Namespace: "ns", Name: "c"})
	w.set(claim("d", 1, allocated("b", "d")))
	write := *deallocate(given)
	w.GiveBack(write)
	for _, p := range []*model.Pod{one, two} {
		if got := w.plugin.PreEnqueueIn(w.View(), p); got != givenBack {
			t.Errorf("PreEnqueue of pod %s: %q", p.Name, got)
		}
		if got := w.filter(t, p); got != "all: "+givenBack {
			t.Errorf("filter of pod %s: %s", p.Name, got)
		}
	}
	if got := w.plugin.PreEnqueueIn(w.View(), other); got != "" {
		t.Errorf("PreEnqueue of a pod with another claim: %q", got)
	}
	if !slices.Contains(w.View().Devices().Allocated().AllocatedDevices.UnsortedList(), structured.MakeDeviceID("drv", "a-pool", "d")) {
		t.Error("the device is free before the write has ended")
	}
	delta := w.Apply([]model.Change{{Kind: model.WriteDone, Write: &model.WriteResult{Object: write.GivesBack, Decisions: 1}}})
	if got := w.plugin.PreEnqueueIn(w.View(), one); got != "" {
		t.Errorf("PreEnqueue in the end: %q", got)
	}
	if len(delta.Events) != 1 || !delta.Events[0].OnlyHeld || !w.helps(one, delta.Events[0]) || !w.helps(two, delta.Events[0]) || w.helps(other, delta.Events[0]) {
		t.Errorf("events in the end: %+v", delta.Events)
	}
	if err := w.Audit(); err != nil {
		t.Error(err)
	}
}

// TestFenceAfterATakeover places pods with allocated claims, in the minute after a
// takeover and later. In that minute, a placement first writes a fence to the claim,
// unless this process has already written it.
func TestFenceAfterATakeover(t *testing.T) {
	const fenced = `resourceclaims c "" {"metadata":{"uid":"uid-c","resourceVersion":"1","annotations":{"scheduler.berth.dev/leader":"me"}}}`
	const reserves = `resourceclaims c "status" {"metadata":{"uid":"uid-c"},"status":{"reservedFor":[{"resource":"pods","name":"p","uid":"uid-p"}]}}`
	by := func(leader string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) { c.Annotations = map[string]string{model.LeaderAnnotation: leader} }
	}
	for _, row := range []struct {
		name  string
		claim *resourcev1.ResourceClaim
		since time.Duration // the takeover; negative for none
		want  string
	}{
		{"no takeover", claim("c", 1, allocated("a", "d"), reserved("p")), -1, ""},
		{"allocated and reserved", claim("c", 1, allocated("a", "d"), reserved("p")), 0, fenced},
		{"allocated", claim("c", 1, allocated("a", "d")), 0, fenced + "; " + reserves},
		{"changed by the process before", claim("c", 1, allocated("a", "d"), reserved("p"), by("you")), 0, fenced},
		{"changed by this process", claim("c", 1, allocated("a", "d"), reserved("p"), by("me")), 0, ""},
		{"at the end", claim("c", 1, allocated("a", "d"), reserved("p")), time.Minute - time.Second, fenced},
		{"later", claim("c", 1, allocated("a", "d"), reserved("p")), time.Minute, ""},
	} {
		w := newWorld(t, slice("a", "d"), row.claim)
		if row.since >= 0 {
			w.TakeOver("me", w.View().Now().Add(-row.since))
		}
		placement, err := w.place(t, pod("p", "c"), "a")
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		if got := writesIn(placement); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
	w := newWorld(t, slice("a", "d"), claim("c", 1))
	w.TakeOver("me", w.View().Now())
	placement, err := w.place(t, pod("p", "c"), "a")
	if err != nil || strings.Contains(writesIn(placement), model.LeaderAnnotation) {
		t.Errorf("a claim without an allocation: %s, %v", writesIn(placement), err)
	}
}

// TestFenceThatIsStored checks when a stored object counts as the fence: only while the
// claim has the allocation and the reservation that the placement relies on.
func TestFenceThatIsStored(t *testing.T) {
	w := newWorld(t, slice("a", "d", "e"), claim("c", 1, allocated("a", "d"), reserved("p")))
	w.TakeOver("me", w.View().Now())
	placement, err := w.place(t, pod("p", "c"), "a")
	if err != nil {
		t.Fatal(err)
	}
	stored := placement.Steps[0].Write.Stored
	mine := func(c *resourcev1.ResourceClaim) { c.Annotations = map[string]string{model.LeaderAnnotation: "me"} }
	for name, row := range map[string]struct {
		claim *resourcev1.ResourceClaim
		want  bool
	}{
		"as it was":             {claim("c", 1, allocated("a", "d"), reserved("p")), false},
		"fenced":                {claim("c", 1, allocated("a", "d"), reserved("p"), mine), true},
		"fenced, and shared":    {claim("c", 1, allocated("a", "d"), reserved("q", "p"), mine), true},
		"without an allocation": {claim("c", 1, mine), false},
		"with another device":   {claim("c", 1, allocated("a", "e"), reserved("p"), mine), false},
		"without a reservation": {claim("c", 1, allocated("a", "d"), mine), false},
		"another claim":         {claim("c", 1, allocated("a", "d"), reserved("p"), mine, func(c *resourcev1.ResourceClaim) { c.UID = "other" }), false},
	} {
		if got := stored(row.claim); got != row.want {
			t.Errorf("%s: stored: %t", name, got)
		}
	}
}

// writesIn returns the writes of a placement in words.
func writesIn(placement *plan.Placement) string {
	var writes []string
	for _, s := range placement.Steps {
		if s.Write != nil {
			writes = append(writes, fmt.Sprintf("%s %s %q %s", s.Write.Resource.Resource, s.Write.Name, s.Write.Subresource, s.Write.Data))
		}
	}
	return strings.Join(writes, "; ")
}
