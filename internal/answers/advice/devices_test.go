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

	"github.com/berth-scheduler/berth/internal/answers/explain"
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

// suggested returns the suggestions for the only pending pod, as text.
func suggested(t *testing.T, s *explain.Snapshot) (a *explain.Explanation, all []string) {
	t.Helper()
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	if s.Advise(a, 0); a.Advice == nil {
		t.Fatalf("no advice: %+v", a)
	}
	for i := range a.Advice.Suggestions {
		all = append(all, texts(&a.Advice.Suggestions[i])+" → "+a.Advice.Suggestions[i].Node)
	}
	return a, all
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
		{"no class", user, used, "odd", nil, []string{
			"use device class scanner instead of scaner in request device of ResourceClaim default/odd, and " + remove,
			"use device class scanner instead of scaner in request device of ResourceClaim default/odd, and " + add,
		}, []string{"DeviceClass scaner does not exist"}},
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
			a, got := suggested(t, s)
			if diff := cmp.Diff(row.want, got); diff != "" || !slices.Equal(a.Advice.Missing, row.missing) {
				t.Errorf("(- want, + got)\n%s\nmissing: %q\n%+v", diff, a.Advice.Missing, a)
			}
		})
	}
}

// TestChangesOfDeviceClaims: each mistake in a claim has a change of the claim, or of its
// template, that gives the pod a node. Only changes that help are suggested.
func TestChangesOfDeviceClaims(t *testing.T) {
	const driver = "gpu.example.com"
	n1, template := "n1", "gpus"
	index, yes := int64(0), "1.2.0"
	gpu := resourcev1.Device{Name: "gpu0", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"index": {IntValue: &index}, "model": {StringValue: new("a100")}, "version": {VersionValue: &yes}}}
	second := resourcev1.Device{Name: "gpu1", Taints: []resourcev1.DeviceTaint{{Key: "broken", Value: "yes", Effect: resourcev1.DeviceTaintEffectNoSchedule}},
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: new("h100")}}}
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &n1, Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1}, Devices: []resourcev1.Device{gpu, second}}}
	selecting := func(expression string) func(*resourcev1.DeviceClaim) {
		return func(c *resourcev1.DeviceClaim) {
			c.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		}
	}
	const of = " request device of ResourceClaim default/c → n1"
	const attributes = `device.attributes["gpu.example.com"]`
	for _, row := range []struct {
		name string
		edit func(*resourcev1.DeviceClaim)
		want []string
	}{
		{"another type", selecting(attributes + `.index == "0" && ` + attributes + `.model == "a100"`), []string{
			"change " + attributes + `.index == "0" to ` + attributes + ".index == 0 in" + of, "drop the selector " + attributes + `.index == "0" from` + of}},
		{"two values", selecting(attributes + `.index == 7 && ` + attributes + `.model == "b200"`), []string{
			"change " + attributes + ".index == 7 && " + attributes + `.model == "b200" to ` + attributes + ".index == 0 && " + attributes + `.model == "a100" in` + of,
			"drop the selector " + attributes + ".index == 7 && " + attributes + `.model == "b200" from` + of}},
		{"a version is no string", selecting(attributes + `.version == "1.2.0"`), []string{
			"change " + attributes + `.version == "1.2.0" to ` + attributes + `.version == semver("1.2.0") in` + of, "drop the selector " + attributes + `.version == "1.2.0" from` + of}},
		{"no such attribute", selecting(attributes + `.numa == 0`), []string{"drop the selector " + attributes + ".numa == 0 from" + of}},
		{"or", selecting("(" + attributes + `.model == "x" || device.driver == "y") && ` + attributes + `.model == "h100" || false`), []string{
			"drop the selector (" + attributes + `.model == "x" || device.driver == "y") && ` + attributes + `.model == "h100" || false from` + of}},
		{"a macro is not lost", selecting(attributes + `.index == "0" && ["a100"].exists(m, m == ` + attributes + `.model)`), nil},
		{"taint", selecting(attributes + `.model == "h100"`), []string{
			"change " + attributes + `.model == "h100" to ` + attributes + `.model == "a100" in` + of, "tolerate the device taint broken=yes:NoSchedule in" + of, "drop the selector " + attributes + `.model == "h100" from` + of}},
		{"count", func(c *resourcev1.DeviceClaim) { c.Requests[0].Exactly.Count = 5 }, []string{"lower the count of request device of ResourceClaim default/c from 5 to 1 → n1"}},
		{"class", func(c *resourcev1.DeviceClaim) { c.Requests[0].Exactly.DeviceClassName = "nic" }, []string{"use device class gpu instead of nic in" + of}},
		{"constraint", func(c *resourcev1.DeviceClaim) {
			c.Requests[0].Exactly.Count = 2
			c.Requests[0].Exactly.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
			c.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: new(resourcev1.FullyQualifiedName(driver + "/model"))}}
		}, []string{"lower the count of request device of ResourceClaim default/c from 2 to 1 → n1", "drop the constraint matchAttribute gpu.example.com/model of ResourceClaim default/c → n1"}},
		{"template", func(c *resourcev1.DeviceClaim) { c.Requests[0].Exactly.Count = 2 }, []string{
			"tolerate the device taint broken=yes:NoSchedule in request device of ResourceClaimTemplate default/gpus → n1", "lower the count of request device of ResourceClaimTemplate default/gpus from 2 to 1 → n1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			claim := deviceClaim("c")
			claim.Spec.Devices.Requests[0].Exactly.DeviceClassName = "gpu"
			row.edit(&claim.Spec.Devices)
			pod := build.Pod(withDevice("c"))
			if row.name == "template" {
				pod.Spec.ResourceClaims[0] = v1.PodResourceClaim{Name: "device", ResourceClaimTemplateName: &template}
				pod.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: &claim.Name}}
				claim.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}}
			}
			class := func(name, selector string) *resourcev1.DeviceClass {
				return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
					Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}}}
			}
			s := explaintest.Snapshot(t, []*v1.Node{build.Node("n1", build.Allocatable("cpu=4 pods=9"))}, []*v1.Pod{pod},
				claim, slice, class("gpu", `device.driver == "gpu.example.com"`), class("nic", `device.driver == "nic.example.com"`))
			_, got := suggested(t, s)
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(- want, + got)\n%s", diff)
			}
		})
	}
}
