package state

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// promised returns a state in which pod p is assumed on node a, and device d is promised
// to its claim c. The claim exists, or is to be created.
func promised(exists bool) (*State, *model.Pod) {
	s := New()
	pod := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "first"}})
	s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node("a"))}, {Kind: model.PodSet, Pod: pod}})
	promise := &devices.Promise{Allocation: oneDevice(), Made: &resourcev1.ResourceClaim{}}
	if exists {
		s.Apply([]model.Change{claimOfDevices("u", 1, false)})
		promise.UID, promise.Made = "u", nil
	}
	s.Assume(plan.Placement{Pod: pod, NodeName: "a", Holds: []plan.Hold{{Plugin: "D", Object: keyC.DeviceRef(), Value: promise}}})
	return s, pod
}

var keyC = model.ClaimKey{Namespace: "ns", Name: "c"}

func oneDevice() *resourcev1.AllocationResult {
	return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "drv", Pool: "p", Device: "d"}},
	}}
}

// claimOfDevices is a version of the claim c.
func claimOfDevices(uid types.UID, version int, allocated bool) model.Change {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: uid, ResourceVersion: fmt.Sprint(version)}}
	if allocated {
		c.Status.Allocation = oneDevice()
	}
	return compiled(model.NewResourceClaim(c))
}

// Devices promised to a claim of a deleted pod are taken until the pod's binding has
// ended: the allocation may be on its way.
func TestHoldsOfDevicesLinger(t *testing.T) {
	again := model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "second"}})
	for name, gone := range map[string]model.Change{
		"deleted": {Kind: model.PodGone, Key: model.PodKey{Namespace: "ns", Name: "p"}}, "replaced": {Kind: model.PodSet, Pod: again},
	} {
		for _, err := range []error{nil, errors.New("not found")} {
			s, pod := promised(true)
			s.Apply([]model.Change{gone})
			audited(t, s)
			if s.Held() != 1 || s.devices.Sizes().Used != 1 || s.Pods() != 0 {
				t.Errorf("%s: %d objects are held, %d devices used, %d pods placed", name, s.Held(), s.devices.Sizes().Used, s.Pods())
			}
			s.Apply([]model.Change{{Kind: model.BindDone, Bind: &model.BindingResult{Pod: pod, NodeName: "a", Err: err}}})
			audited(t, s)
			if s.Held() != 0 || s.devices.Sizes().Used != 0 {
				t.Errorf("%s, and the binding has ended: %d objects are held, %d devices used", name, s.Held(), s.devices.Sizes().Used)
			}
		}
	}
}

// A claim that a placement creates is known with the API server's response; a deleted
// claim does not come back.
func TestLearnedCreation(t *testing.T) {
	learned := func(uid types.UID, version int, allocated bool) model.Change {
		c := claimOfDevices(uid, version, allocated)
		c.Learned = true
		return c
	}
	gone := model.Change{Kind: model.ObjectGone, Ref: keyC.DeviceRef()}
	for steps, changes := range map[string][]model.Change{
		"v1":                 {learned("u", 1, false)},
		"v1 v2":              {learned("u", 1, false), learned("u", 2, true)},
		"v1 v2 v2 v3":        {learned("u", 1, false), learned("u", 2, true), claimOfDevices("u", 1, false), claimOfDevices("u", 3, true)},
		"v1 v1 v2":           {claimOfDevices("u", 1, false), learned("u", 1, false), learned("u", 2, true)},
		"v1 none none":       {learned("u", 1, false), gone, learned("u", 1, false)},
		"v1 none none again": {claimOfDevices("u", 1, false), gone, learned("u", 2, true)},
	} {
		s, _ := promised(false)
		var got []string
		for _, c := range changes {
			s.Apply([]model.Change{c})
			audited(t, s)
			if claim := s.devices.Claim(keyC); claim != nil {
				got = append(got, "v"+claim.Version())
			} else {
				got = append(got, "none")
			}
			if s.devices.Sizes().Used != 1 {
				t.Errorf("%s: %d devices are in use after %v", steps, s.devices.Sizes().Used, got)
			}
		}
		if want := strings.TrimSuffix(steps, " again"); strings.Join(got, " ") != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	s := New()
	if s.Apply([]model.Change{learned("u", 1, false)}); s.devices.Claim(keyC) != nil {
		t.Error("a claim that nobody was to make was learned")
	}
}

// A learned claim that the watch never shows, because it was deleted while the watch was
// interrupted, is forgotten when a newer version of another claim is shown. It is kept
// while devices are promised to it, or while its pod is on a node.
func TestClaimsThatAreNeverShown(t *testing.T) {
	yes := true
	claim := func(name string, version int) model.Change {
		return compiled(model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(version),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "first", Controller: &yes}},
		}}))
	}
	for _, row := range []struct {
		name, steps string
		kept        bool
	}{
		{"its pod is gone", "learn; pod gone; binding ended; newer", false},
		{"a newer version was shown before its pod is gone", "learn; newer; pod gone; binding ended", false},
		{"a newer version was shown before it was learned", "newer; learn; pod gone; binding ended", false},
		{"only older versions are shown", "learn; pod gone; binding ended; older", true},
		{"its pod is on a node", "learn; learn allocation; bound; newer", true},
		{"its binding has not ended", "learn; pod gone; newer", true},
		{"it was shown", "learn; shown; pod gone; binding ended; newer", true},
		{"it was allocated", "learn; learn allocation; pod gone; binding ended; newer", false},
	} {
		s, pod := promised(false)
		onNode := pod.Object.DeepCopy()
		onNode.Spec.NodeName = "a"
		learned, more := claim("c", 5), claim("c", 6)
		more.Compiled.(*model.ResourceClaim).Object.Status.Allocation = oneDevice()
		learned.Learned, more.Learned = true, true
		changes := map[string]model.Change{
			"learn": learned, "learn allocation": more, "shown": claim("c", 5), "older": claim("other", 4), "newer": claim("other", 7),
			"pod gone": podGone("p"), "binding ended": bindDone(pod, "a", errors.New("gone")), "bound": {Kind: model.PodSet, Pod: model.NewPod(onNode)},
		}
		for _, step := range strings.Split(row.steps, "; ") {
			s.Apply([]model.Change{changes[step]})
			audited(t, s)
		}
		if kept := s.devices.Claim(keyC) != nil; kept != row.kept {
			t.Errorf("%s: the claim is kept: %t", row.name, kept)
		}
	}
}
