package advice_test

import (
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
)

// withDevice makes a pod use a ResourceClaim.
func withDevice(claim string) build.PodOption {
	return func(p *v1.Pod) {
		p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
	}
}

func deviceClaim(name string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u"}}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "scanner", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
	return claim
}

// TestAdviceAboutDevices has one device, used by a pod. A pod that waits for a device is
// helped by the removal of the user with its claim, or by a node with another device. A
// pod with a missing claim is helped by creating it if a device is available for it. A
// missing class is only named. Pods that a PodDisruptionBudget protects, or that do not
// hold the claim, are never suggested for removal.
func TestAdviceAboutDevices(t *testing.T) {
	n1 := "n1"
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", NodeName: &n1, Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "d0"}}}}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "scanner"}}
	used := deviceClaim("used")
	used.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "device", Driver: "d", Pool: "n1", Device: "d0"}}}}
	used.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "user", UID: "user"}}
	odd := deviceClaim("odd")
	odd.Spec.Devices.Requests[0].Exactly.DeviceClassName = "scaner"
	user := build.Pod(build.Named("user"), build.NodeName("n1"), build.Labels("app=user"), withDevice("used"))
	usedBy := func(by resourcev1.ResourceClaimConsumerReference) *resourcev1.ResourceClaim {
		claim := used.DeepCopy()
		claim.Status.ReservedFor[0] = by
		return claim
	}
	budget := func(allowed int32) []runtime.Object {
		return []runtime.Object{&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"},
			Spec:   policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "user"}}},
			Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed}}}
	}
	remove, add := "remove pod default/user from node n1, which holds devices → n1", "add a node like n1 → n1-copy-1"
	for _, row := range []struct {
		name          string
		user          *v1.Pod
		used          *resourcev1.ResourceClaim
		claim         string
		others        []runtime.Object
		want, missing []string
	}{
		{"in use", user, used, "wanted", nil, []string{remove, add}, nil},
		{"no claim", nil, used, "none", nil, []string{"create ResourceClaim default/none (tried with one device of class scanner) → n1"}, nil},
		{"no class", user, used, "odd", nil, nil, []string{"DeviceClass scaner does not exist"}},
		{"a budget allows one", user, used, "wanted", budget(1), []string{remove, add}, nil},
		{"a budget protects it", user, used, "wanted", budget(0), []string{add}, nil},
		{"used by a pod that is gone", user, usedBy(resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: "user", UID: "before"}), "wanted", nil, []string{add}, nil},
		{"used by another kind", user, usedBy(resourcev1.ResourceClaimConsumerReference{Resource: "podgroups", Name: "user", UID: "user"}), "wanted", nil, []string{add}, nil},
		{"used by another API group", user, usedBy(resourcev1.ResourceClaimConsumerReference{APIGroup: "example.com", Resource: "pods", Name: "user", UID: "user"}), "wanted", nil, []string{add}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			pods := []*v1.Pod{build.Pod(build.Named("waits"), withDevice(row.claim))}
			others := append([]runtime.Object{deviceClaim("wanted"), odd, slice, class}, row.others...)
			if row.user != nil {
				pods, others = append(pods, row.user), append(others, row.used)
			}
			s := explaintest.Snapshot(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=4 pods=9")), build.Node("n2", build.Unschedulable)}, pods, others...)
			a, err := s.Of(s.Pending()[0])
			if err != nil {
				t.Fatal(err)
			}
			s.Advise(a, 0)
			if a.Advice == nil {
				t.Fatalf("no advice: %+v", a)
			}
			var got []string
			for i := range a.Advice.Suggestions {
				got = append(got, texts(&a.Advice.Suggestions[i])+" → "+a.Advice.Suggestions[i].Node)
			}
			if diff := cmp.Diff(row.want, got); diff != "" || !slices.Equal(a.Advice.Missing, row.missing) {
				t.Errorf("(- want, + got)\n%s\nmissing: %q\n%+v", diff, a.Advice.Missing, a)
			}
		})
	}
}
