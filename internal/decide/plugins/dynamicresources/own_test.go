package dynamicresources

import (
	"slices"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestLooksAtOwn has pods whose own claims PostFilter may or may not release. Rejections
// of the former are not cached for others.
func TestLooksAtOwn(t *testing.T) {
	for _, row := range []struct {
		name   string
		claims []*resourcev1.ResourceClaim
		of     []string // the pod's claims
		want   bool
	}{
		{"none", nil, nil, false},
		{"not allocated", []*resourcev1.ResourceClaim{claim("c", 1)}, []string{"c"}, false},
		{"allocated", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, []string{"c"}, true},
		{"one of two", []*resourcev1.ResourceClaim{claim("c", 1), claim("d", 1, allocated("a", "d0"))}, []string{"c", "d"}, true},
		{"of another pod", []*resourcev1.ResourceClaim{claim("c", 1, allocated("a", "d0"))}, nil, false},
		{"made for it", []*resourcev1.ResourceClaim{made("p")}, nil, true},
		{"made for another", []*resourcev1.ResourceClaim{made("o")}, nil, false},
	} {
		w := newWorld(t)
		for _, c := range row.claims {
			w.set(c)
		}
		if got := w.plugin.LooksAtOwn(w.View(), pod("p", row.of...)); got != row.want {
			t.Errorf("%s: %t, want %t", row.name, got, row.want)
		}
	}
}

// TestEndOfAMadeClaimTouchesItsPod deletes claims. A claim created for a pod touches that
// pod alone, and other objects touch none.
func TestEndOfAMadeClaimTouchesItsPod(t *testing.T) {
	events := defaults().EventsToRegister()
	at := slices.IndexFunc(events, func(r model.EventToRegister) bool {
		return r.Resource == model.ResourceClaimEvent && r.Actions == model.Delete && r.Touches != nil
	})
	r := events[at]
	p, other := pod("p"), pod("o")
	if r.Alike(p) == r.Alike(other) {
		t.Error("pods of different UIDs are alike")
	}
	var touch model.Touch
	r.Touches(model.Event{Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: model.NewResourceClaim(made("p"))}, &touch)
	if want := r.Cause(p).Wants[0][0]; !slices.Equal(touch.Has, want) {
		t.Errorf("the end of the claim touches %v, want %v", touch.Has, want)
	}
	if not := r.Cause(other).Wants[0][0]; slices.Equal(touch.Has, not) {
		t.Errorf("it touches another pod: %v", touch.Has)
	}
	touch = model.Touch{}
	r.Touches(model.Event{Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: model.NewDeviceClass(&resourcev1.DeviceClass{})}, &touch)
	if len(touch.Has) > 0 {
		t.Errorf("an event without a claim touches %v", touch.Has)
	}
}

func TestEqual(t *testing.T) {
	a, b := new("a"), new("b")
	for _, row := range []struct {
		x, y *string
		want bool
	}{{nil, nil, true}, {a, nil, false}, {nil, a, false}, {a, b, false}, {a, new("a"), true}} {
		if got := equal(row.x, row.y); got != row.want {
			t.Errorf("%v and %v are equal: %t", row.x, row.y, got)
		}
	}
}

// An event about a claim touches the pods that wait for it, by its key.
func TestClaimsTouchWhoeverHasThem(t *testing.T) {
	found := 0
	for _, r := range defaults().EventsToRegister() {
		if r.Resource != model.ResourceClaimEvent || r.Touches == nil || r.Cause == nil || r.Actions&model.Update == 0 {
			continue
		}
		found++
		wants := r.Cause(pod("p", "c", "d")).Wants[0][0]
		for _, name := range []string{"c", "d", "e"} {
			var touch model.Touch
			now := model.NewResourceClaim(claim(name, 1))
			r.Touches(model.Event{Resource: model.ResourceClaimEvent, Action: model.Update, OldObject: now, Object: now}, &touch)
			if len(touch.Has) != 1 || slices.Contains(wants, touch.Has[0]) != (name != "e") {
				t.Errorf("a change of claim %s touches %v, of whoever wants %v", name, touch.Has, wants)
			}
		}
	}
	if found != 1 {
		t.Errorf("%d registrations are about changes of the pod's own claims", found)
	}
}

// TestRecreatedClaim has a claim of the waiting pod deleted and recreated, shown as one
// change with the same status. A pod waits while its claim is being deleted, so it is
// woken.
func TestRecreatedClaim(t *testing.T) {
	before := claim("c", 1)
	before.UID, before.DeletionTimestamp = "first", &metav1.Time{Time: time.Unix(1, 0)}
	for uid, want := range map[types.UID]bool{"first": false, "second": true} {
		now := claim("c", 1)
		now.UID = uid
		e := model.Event{Resource: model.ResourceClaimEvent, Action: model.Update, OldObject: model.NewResourceClaim(before), Object: model.NewResourceClaim(now)}
		if got := changesOwn(pod("p", "c"), e); got != want {
			t.Errorf("claim with UID %s: changes the pod's claim: %t, want %t", uid, got, want)
		}
	}
}
