package e2e_test

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

const (
	claimDriver = "gangs.example.com"
	claimClass  = "of-gangs"
	// roomForClaims is the number of nodes with a device, one each.
	roomForClaims = 3
)

// shareClaims has gangs whose members share a claim for a device. The gangs are one more
// than the nodes with devices, and all exist before the devices. Each gang starts on one
// node, or not at all. The claim belongs to the group, and when that is deleted the last
// gang gets the device. Finally a gang starts although its claim has an unusable
// allocation.
func (g *gangs) shareClaims() {
	g.Helper()
	g.must(rig.DeletePods(g.ctx, g.client, gangNamespace))
	g.prepareClaims()
	names := []string{"sharing-a", "sharing-b", "sharing-c", "sharing-d"}
	for _, name := range names {
		g.sharing(name, schedulingv1beta1.PodGroupResourceClaim{ResourceClaimTemplateName: new("one")}, nil)
	}
	for _, name := range names {
		g.await(name+" is rejected", func() bool {
			return meta.IsStatusConditionFalse(g.group(name).Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		})
	}
	if counts := g.bound(); len(counts) > 0 {
		g.Errorf("%v are bound without devices", counts)
	}
	driver, err := g.cluster.StartDriver(nil, "--driver="+claimDriver, "--node-selector=only="+gangNamespace, "--devices=1")
	g.must(err)
	g.Cleanup(func() { g.must(driver.Stop()) })
	started := g.awaitComplete(roomForClaims)
	for _, name := range started {
		g.isShared(name, g.claimOf(name))
	}
	ended := started[0]
	claim := g.claimOf(ended).Name
	g.endSharing(ended)
	g.await("the claim of a group that is gone is gone", func() bool {
		list, err := g.client.ResourceV1().ResourceClaims(gangNamespace).List(g.ctx, metav1.ListOptions{})
		g.must(err)
		return !slices.ContainsFunc(list.Items, func(c resourcev1.ResourceClaim) bool { return c.Name == claim })
	})
	for _, name := range g.awaitComplete(roomForClaims) {
		g.isShared(name, g.claimOf(name))
		g.endSharing(name)
	}
	g.giveClaimBack()
}

// prepareClaims creates a class, and a template of claims for one device.
func (g *gangs) prepareClaims() {
	g.Helper()
	_, err := g.client.ResourceV1().DeviceClasses().Create(g.ctx, &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: claimClass}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", claimDriver)}}},
	}}, metav1.CreateOptions{})
	g.must(err)
	_, err = g.client.ResourceV1().ResourceClaimTemplates(gangNamespace).Create(g.ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "one"}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: oneDevice()},
	}, metav1.CreateOptions{})
	g.must(err)
}

func oneDevice() resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: claimClass, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
	}}}}
}

// sharing creates a gang with a claim, which its members use. A node has room for the
// members of several gangs.
func (g *gangs) sharing(name string, claim schedulingv1beta1.PodGroupResourceClaim, selector map[string]string) {
	g.Helper()
	claim.Name = "gpu"
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: gangSize}
	group.Spec.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{claim}
	_, err := g.client.SchedulingV1beta1().PodGroups(gangNamespace).Create(g.ctx, group, metav1.CreateOptions{})
	g.must(err)
	g.must(rig.CreatePods(g.ctx, g.client, gangNamespace, gangSize, func(i int) *v1.Pod {
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(name, "-", i), Labels: map[string]string{"gang": name}},
			Spec: v1.PodSpec{
				SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &name},
				NodeSelector:    selector,
				ResourceClaims: []v1.PodResourceClaim{{
					Name: "gpu", ResourceClaimName: claim.ResourceClaimName, ResourceClaimTemplateName: claim.ResourceClaimTemplateName,
				}},
				Containers: []v1.Container{{Name: "main", Image: "i", Resources: v1.ResourceRequirements{
					Requests: requests("100m", "100Mi").Requests, Claims: []v1.ResourceClaim{{Name: "gpu"}},
				}}},
			},
		}
	}))
}

func (g *gangs) await(what string, condition func() bool) {
	g.Helper()
	await(g.ctx, g, what, condition)
}

func (g *gangs) group(name string) *schedulingv1beta1.PodGroup {
	g.Helper()
	group, err := g.client.SchedulingV1beta1().PodGroups(gangNamespace).Get(g.ctx, name, metav1.GetOptions{})
	g.must(err)
	return group
}

// claimOf returns the claim that was created for a gang. It must exist.
func (g *gangs) claimOf(name string) *resourcev1.ResourceClaim {
	g.Helper()
	list, err := g.client.ResourceV1().ResourceClaims(gangNamespace).List(g.ctx, metav1.ListOptions{})
	g.must(err)
	var own []*resourcev1.ResourceClaim
	for i := range list.Items {
		if owner := metav1.GetControllerOf(&list.Items[i]); owner != nil && owner.Kind == "PodGroup" && owner.Name == name {
			own = append(own, &list.Items[i])
		}
	}
	if len(own) != 1 {
		g.Fatalf("%d claims were made for %s, want one", len(own), name)
	}
	return own[0]
}

// isShared checks that all members of a gang run on the node of their claim's device, and
// that the claim is reserved for the group only.
func (g *gangs) isShared(name string, claim *resourcev1.ResourceClaim) {
	g.Helper()
	results := rig.Allocated(claim)
	if len(results) != 1 {
		g.Fatalf("claim %s of %s has %d devices, want one", claim.Name, name, len(results))
	}
	want := resourcev1.ResourceClaimConsumerReference{APIGroup: schedulingv1beta1.GroupName, Resource: "podgroups", Name: name, UID: g.group(name).UID}
	if got := claim.Status.ReservedFor; len(got) != 1 || got[0] != want {
		g.Errorf("claim %s is reserved for %+v, want %+v", claim.Name, got, want)
	}
	g.await("all members of "+name+" run", func() bool {
		list, err := g.client.CoreV1().Pods(gangNamespace).List(g.ctx, metav1.ListOptions{LabelSelector: "gang=" + name})
		g.must(err)
		running := 0
		for i := range list.Items {
			pod := &list.Items[i]
			g.must(rig.Refused(pod))
			if pod.Spec.NodeName != results[0].Pool {
				g.Fatalf("pod %s is on node %q, and the device of its claim on %s", pod.Name, pod.Spec.NodeName, results[0].Pool)
			}
			if pod.Status.Phase == v1.PodRunning {
				running++
			}
		}
		return running == gangSize
	})
}

// endSharing deletes a gang.
func (g *gangs) endSharing(name string) {
	g.Helper()
	g.must(rig.DeletePodsWith(g.ctx, g.client, gangNamespace, "gang="+name))
	g.must(g.client.SchedulingV1beta1().PodGroups(gangNamespace).Delete(g.ctx, name, metav1.DeleteOptions{}))
}

// giveClaimBack has a gang for one node, whose claim was allocated on another, as after a
// failed binding there. No pod uses it.
func (g *gangs) giveClaimBack() {
	g.Helper()
	elsewhere, here := fmt.Sprint("room-", roomForGangs-1), fmt.Sprint("room-", roomForGangs-2)
	claims := g.client.ResourceV1().ResourceClaims(gangNamespace)
	claim, err := claims.Create(g.ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Finalizers: []string{resourcev1.Finalizer}}, Spec: oneDevice(),
	}, metav1.CreateOptions{})
	g.must(err)
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: claimDriver, Pool: elsewhere, Device: "gpu-0"}}},
		NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{elsewhere}}},
		}}},
	}
	_, err = claims.UpdateStatus(g.ctx, claim, metav1.UpdateOptions{})
	g.must(err)
	g.sharing("moved", schedulingv1beta1.PodGroupResourceClaim{ResourceClaimName: &claim.Name}, map[string]string{v1.LabelHostname: here})
	g.awaitComplete(1)
	moved, err := claims.Get(g.ctx, claim.Name, metav1.GetOptions{})
	g.must(err)
	g.isShared("moved", moved)
	g.endSharing("moved")
}
