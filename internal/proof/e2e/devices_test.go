package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// devicePods is the number of pods in tests with many devices.
var devicePods = flag.Int("device-pods", 60, "how many pods with a device each some tests have; 1000 to see many")

// fleet returns the number of nodes, and of devices on each, in tests with many devices:
// enough, with few to spare.
func fleet() (nodes, each int) {
	nodes = max(8, (*devicePods+49)/50)
	return nodes, (*devicePods + nodes - 1) / nodes
}

// TestDevicesComeToTheirPods runs pods with a claim from a template each, on nodes with
// hardly more devices.
func TestDevicesComeToTheirPods(t *testing.T) {
	nodes, each := fleet()
	w := newDevices(t, "devices", nodes)
	w.startDriver(each)
	w.template("one", 1)
	w.podsWith("pod", *devicePods, fromTemplate("one"))
	w.scheduler(nil)
	w.awaitRunning(*devicePods)
	w.devicesAreWell(*devicePods)
	w.eachPodBoundOnce(time.Time{})
}

// TestSchedulerDiesWithDevices kills the scheduler five times with SIGKILL during
// allocations. Its decisions are then only in the claims, and an allocated claim may
// belong to a pod that is not bound.
func TestSchedulerDiesWithDevices(t *testing.T) {
	const deaths = 5
	nodes, each := fleet()
	w := newDevices(t, "devices-deaths", nodes)
	w.startDriver(each)
	w.template("one", 1)
	bindings, err := cluster.WatchBindings(w.ctx, w.namespace, "")
	w.must(err)
	// few at a time, so that every process has work when it is killed
	share := *devicePods / (deaths + 1)
	for death := range deaths {
		p := w.scheduler(nil)
		w.podsWith(fmt.Sprint("pod-", death), share, fromTemplate("one"))
		w.must(bindings.Await(w.ctx, death*share+share/2, p))
		p.Kill()
		n, _ := w.bound()
		t.Logf("%s: killed when %d of %d pods were bound", clock(time.Now()), n, (death+1)*share)
	}
	killed := time.Now()
	if last := w.scheduler(nil); !incumbentRuns() {
		killed = w.awaitSync(last)
	}
	w.podsWith("pod", *devicePods-deaths*share, fromTemplate("one"))
	w.awaitRunning(*devicePods)
	w.devicesAreWell(*devicePods)
	w.eachPodBoundOnce(killed)
}

// TestPodsShareAClaim has pods share a claim, and expects them on the node of its
// devices. The last pod is created after another process has taken over. That process
// must write to the claim before it relies on the allocation, so that a late write of the
// earlier process fails.
func TestPodsShareAClaim(t *testing.T) {
	const pods = 6
	w := newDevices(t, "devices-shared-claim", 3)
	w.startDriver(2)
	w.claim("shared", 2)
	w.podsWith("pod", pods-1, named("shared"))
	p := w.scheduler(nil)
	w.awaitRunning(pods - 1)
	p.Kill()
	before := w.storedClaim("shared")
	killed := time.Now()
	if next := w.scheduler(nil); !incumbentRuns() {
		killed = w.awaitSync(next)
	}
	w.podsWith("last", 1, named("shared"))
	w.awaitRunning(pods)
	w.devicesAreWell(2)
	w.eachPodBoundOnce(killed)
	if !incumbentRuns() {
		w.isFenced(before)
	}
	on := map[string]bool{}
	for _, pod := range w.pods() {
		on[pod.Spec.NodeName] = true
	}
	if n := len(w.storedClaim("shared").Status.ReservedFor); n != pods || len(on) != 1 {
		t.Errorf("the claim is reserved for %d pods, on nodes %v", n, on)
	}
}

// isFenced checks that another process has written to the claim since this version, and
// that the API server refuses a write to this version.
func (w *devices) isFenced(before *resourcev1.ResourceClaim) {
	w.Helper()
	leader := w.storedClaim(before.Name).Annotations[model.LeaderAnnotation]
	if leader == "" || leader == before.Annotations[model.LeaderAnnotation] {
		w.Errorf("the leader of claim %s was %q and is %q", before.Name, before.Annotations[model.LeaderAnnotation], leader)
	}
	before.Status.ReservedFor = nil
	if _, err := w.client.ResourceV1().ResourceClaims(w.namespace).UpdateStatus(w.ctx, before, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		w.Errorf("a late write to claim %s: %v", before.Name, err)
	}
}

// TestDevicesComeBack has more pods than devices. Other pods get the devices of deleted
// ones.
func TestDevicesComeBack(t *testing.T) {
	w := newDevices(t, "devices-come-back", 2)
	w.startDriver(4)
	w.template("one", 1)
	w.podsWith("pod", 12, fromTemplate("one"))
	w.scheduler(nil)
	for _, step := range []struct{ deleted, running, waiting int }{{0, 8, 4}, {3, 8, 1}, {2, 7, 0}} {
		for _, pod := range w.runningPods()[:step.deleted] {
			w.deletePod(pod.Name)
		}
		w.awaitWaiting(step.running, step.waiting)
	}
	w.await("the devices of pods that are gone are free", func() bool {
		list, err := w.client.ResourceV1().ResourceClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
		w.must(err)
		return len(list.Items) == 7
	})
	w.devicesAreWell(7)
	w.eachPodBoundOnce(time.Time{})
}

// TestPodsWithSeveralDevices fills nodes with claims for 1, 2 and 3 devices, until no
// further claim fits.
func TestPodsWithSeveralDevices(t *testing.T) {
	w := newDevices(t, "devices-several", 2)
	w.startDriver(3)
	for n := range int64(3) {
		w.template(fmt.Sprint("of-", n+1), n+1)
	}
	w.scheduler(nil)
	w.podsWith("three", 1, fromTemplate("of-3"))
	w.awaitWaiting(1, 0)
	w.podsWith("two", 1, fromTemplate("of-2"))
	w.awaitWaiting(2, 0)
	w.podsWith("two-more", 1, fromTemplate("of-2"))
	w.awaitWaiting(2, 1)
	w.podsWith("one", 1, fromTemplate("of-1"))
	w.awaitWaiting(3, 1)
	w.devicesAreWell(6)
	w.deletePod("three-0")
	w.awaitWaiting(3, 0)
	w.eachPodBoundOnce(time.Time{})
}

// TestExtendedResources has pods request devices as an extended resource. The scheduler
// creates their claims.
func TestExtendedResources(t *testing.T) {
	const name v1.ResourceName = "example.com/gpu"
	w := newDevices(t, "devices-extended", 2)
	w.startDriver(4)
	w.deviceClass(w.class+"-extended", string(name))
	request := func(container *v1.Container, n int64) {
		container.Resources.Requests[name] = *resource.NewQuantity(n, resource.DecimalSI)
		container.Resources.Limits = v1.ResourceList{name: *resource.NewQuantity(n, resource.DecimalSI)}
	}
	create := func(name string, perContainer ...int64) {
		w.must(rig.CreatePods(w.ctx, w.client, w.namespace, 1, func(int) *v1.Pod {
			pod := w.pod(name, "10m")
			pod.Spec.Containers = nil
			for i, n := range perContainer {
				c := w.pod(name, "10m").Spec.Containers[0]
				c.Name = fmt.Sprint("c", i)
				if n > 0 {
					request(&c, n)
				}
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
			return pod
		}))
	}
	w.scheduler(nil)
	create("four", 1, 0, 3)
	create("none", 0)
	create("two", 2)
	w.awaitWaiting(3, 0)
	create("five", 5)
	create("three", 3)
	w.awaitWaiting(3, 2)
	w.devicesAreWell(6)
	w.eachPodBoundOnce(time.Time{})
	for pod, want := range map[string]string{"four": "c0=1 c2=3", "two": "c0=2", "none": "", "five": "", "three": ""} {
		if got := w.mapped(pod); got != want {
			t.Errorf("pod %s: the claim for its extended resources gives %q, want %q", pod, got, want)
		}
	}
	w.deletePod("two")
	w.awaitWaiting(3, 1)
	if got := w.mapped("three"); got != "c0=3" {
		t.Errorf("pod three: %q", got)
	}
	w.await("the claim of the pod that is gone is gone", func() bool {
		list, err := w.client.ResourceV1().ResourceClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
		w.must(err)
		return len(list.Items) == 2
	})
	w.devicesAreWell(7)
}

// mapped describes the devices of a pod's containers in the claim that the scheduler
// created for the pod: "c0=1 c2=3".
func (w *devices) mapped(pod string) string {
	w.Helper()
	p, err := w.client.CoreV1().Pods(w.namespace).Get(w.ctx, pod, metav1.GetOptions{})
	w.must(err)
	status := p.Status.ExtendedResourceClaimStatus
	if status == nil {
		return ""
	}
	claim := w.storedClaim(status.ResourceClaimName)
	if owner := metav1.GetControllerOf(claim); owner == nil || owner.UID != p.UID {
		w.Errorf("claim %s belongs to %v", claim.Name, owner)
	}
	if claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		w.Errorf("claim %s has annotations %v", claim.Name, claim.Annotations)
	}
	var got []string
	for _, m := range status.RequestMappings {
		n := 0
		for _, result := range rig.Allocated(claim) {
			if result.Request == m.RequestName {
				n++
			}
		}
		got = append(got, fmt.Sprint(m.ContainerName, "=", n))
	}
	slices.Sort(got)
	return strings.Join(got, " ")
}

// TestTaintedDeviceIsNotGiven has the driver taint one of two devices, and remove the
// taint when a pod waits for the device.
func TestTaintedDeviceIsNotGiven(t *testing.T) {
	w := newDevices(t, "devices-tainted", 1)
	w.annotate("taint", "gpu-0=broken:NoSchedule")
	driver := w.launchDriver(2)
	w.awaitSlices(driver, w.expected(2)[0]+", gpu-0 broken=:NoSchedule")
	w.withoutFirstDevice(func() {
		w.annotate("taint", "")
		w.awaitSlices(driver, w.expected(2)...)
	})
}

// TestDeviceTaintedByARule is TestTaintedDeviceIsNotGiven with an administrator's rule.
func TestDeviceTaintedByARule(t *testing.T) {
	w := newDevices(t, "devices-tainted-by-rule", 1)
	w.startDriver(2)
	first := "gpu-0"
	rules := w.client.ResourceV1().DeviceTaintRules()
	rule, err := rules.Create(w.ctx, &resourcev1.DeviceTaintRule{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: resourcev1.DeviceTaintRuleSpec{
			DeviceSelector: &resourcev1.DeviceTaintSelector{Driver: &w.driver, Pool: &w.nodes[0], Device: &first},
			Taint:          resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule},
		},
	}, metav1.CreateOptions{})
	w.must(err)
	remove := func() { w.must(gone(rules.Delete(context.Background(), rule.Name, metav1.DeleteOptions{}))) }
	t.Cleanup(remove)
	w.withoutFirstDevice(remove)
}

// withoutFirstDevice runs two pods on a node with two devices. The first device is
// tainted until removeTaint.
func (w *devices) withoutFirstDevice(removeTaint func()) {
	w.Helper()
	w.template("one", 1)
	w.podsWith("pod", 2, fromTemplate("one"))
	w.scheduler(nil)
	w.awaitWaiting(1, 1)
	for _, pod := range w.runningPods() {
		if results := rig.Allocated(w.storedClaim(rig.ClaimsOf(&pod)[0])); results[0].Device != "gpu-1" {
			w.Errorf("pod %s has %+v", pod.Name, results)
		}
	}
	removeTaint()
	w.awaitWaiting(2, 0)
	w.devicesAreWell(2)
	w.eachPodBoundOnce(time.Time{})
}

// TestBindingConditions has the driver delay the conditions of devices. The pod has its
// devices, and is bound once the conditions are true.
func TestBindingConditions(t *testing.T) {
	w := newDevices(t, "devices-conditions", 2)
	w.annotate("attach", "*=hold")
	w.startDriver(2, "--binding-conditions")
	w.claim("held", 2)
	w.podsWith("pod", 1, named("held"))
	w.servingScheduler()
	w.await("the claim has its devices and is reserved", func() bool {
		claim := w.storedClaim("held")
		return len(rig.Allocated(claim)) == 2 && len(claim.Status.ReservedFor) == 1
	})
	w.await("an event says that the pod waits", func() bool {
		return slices.ContainsFunc(w.events("pod-0"), func(e eventsv1.Event) bool {
			return e.Type == v1.EventTypeNormal && e.Reason == "BindingConditionsPending" && e.Action == "Scheduling" &&
				strings.HasPrefix(e.Note, "waiting for binding conditions for device on node ")
		})
	})
	w.must(rig.CreatePods(w.ctx, w.client, w.namespace, 1, func(int) *v1.Pod { return w.pod("plain", "10m") }))
	w.await("a pod without devices does not wait", func() bool { return w.nodeOf("plain") != "" })
	if on := w.nodeOf("pod-0"); on != "" {
		t.Errorf("the pod is on %s, and its devices are not attached", on)
	}
	w.annotate("attach", "")
	w.awaitRunning(2)
	w.devicesAreWell(2) // this includes that the conditions were true when the pod was bound
	w.eachPodBoundOnce(time.Time{})
	s := w.scrape(w.clientOf(cluster.Kubeconfig))
	for _, name := range []string{"scheduler_dra_bindingconditions_allocations_total", "scheduler_dra_bindingconditions_wait_duration_seconds"} {
		if got := s.value(name, "profile=default-scheduler", "driver="+w.driver, "status=success"); got != 2 || len(s[name].GetMetric()) != 1 {
			t.Errorf("%s of two devices that were waited for is %v, of %v", name, got, s[name].GetMetric())
		}
	}
}

// servingScheduler starts the scheduler with its endpoints.
func (w *devices) servingScheduler() {
	w.Helper()
	file := filepath.Join(w.TempDir(), "serving.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, incumbent, cluster.SchedulerKubeconfig), 0o600))
	args := []string{"--config", file, w.securePort(), "--authentication-kubeconfig", cluster.SchedulerKubeconfig, "--authorization-kubeconfig", cluster.SchedulerKubeconfig}
	if !incumbentRuns() {
		w.kubeScheduler(&transcript{}, args...)
		return
	}
	p, err := rig.Start(&transcript{}, filepath.Join(os.Getenv(binEnv), "kube-scheduler"), args...)
	w.must(err)
	w.Cleanup(p.End)
}

// TestBindingFails has the driver report that devices cannot be attached. The claim is
// deallocated, and allocated again until it works.
func TestBindingFails(t *testing.T) {
	w := newDevices(t, "devices-fail", 2)
	w.annotate("attach", "*=fail")
	w.startDriver(2, "--binding-conditions")
	w.claim("failing", 1)
	w.podsWith("pod", 1, named("failing"))
	w.scheduler(nil)
	w.await("an event says why the pod is not bound", func() bool {
		return slices.ContainsFunc(w.events("pod-0"), func(e eventsv1.Event) bool {
			return e.Type == v1.EventTypeWarning && e.Reason == "FailedScheduling" && strings.Contains(e.Note, "device binding failed: claim=failing")
		})
	})
	w.await("the claim gives the device back", func() bool {
		had, gaveBack := false, false
		w.history.Versions("failing", func(c *resourcev1.ResourceClaim) bool {
			had = had || len(rig.Allocated(c)) > 0
			gaveBack = had && len(rig.Allocated(c)) == 0 && len(c.Status.ReservedFor) == 0 && len(c.Status.Devices) == 0
			return !gaveBack
		})
		return gaveBack
	})
	if on := w.nodeOf("pod-0"); on != "" {
		t.Errorf("the pod is on %s, and its device could not be attached", on)
	}
	w.annotate("attach", "")
	w.awaitRunning(1)
	w.devicesAreWell(1)
	w.eachPodBoundOnce(time.Time{})
}

// TestPoolOfSeveralNodes has one pool for three nodes.
func TestPoolOfSeveralNodes(t *testing.T) {
	w := newDevices(t, "devices-pool", 3)
	w.shared = "rack"
	w.startDriver(5)
	w.template("one", 1)
	w.podsWith("pod", 7, fromTemplate("one"))
	w.scheduler(nil)
	w.awaitWaiting(5, 2)
	w.deletePod(w.runningPods()[0].Name)
	w.awaitWaiting(5, 1)
	w.devicesAreWell(5)
	w.eachPodBoundOnce(time.Time{})
}

// TestDevicesOfAFabric has devices within reach of three nodes. They have to be attached
// to the pod's node, which takes a second.
func TestDevicesOfAFabric(t *testing.T) {
	const pods = 4
	w := newDevices(t, "devices-fabric", 3)
	w.shared = "fabric/a"
	w.startDriver(pods, "--binding-conditions", "--binding-delay=1s")
	w.template("one", 1)
	w.podsWith("pod", pods, fromTemplate("one"))
	w.scheduler(nil)
	w.awaitRunning(pods)
	w.devicesAreWell(pods)
	w.eachPodBoundOnce(time.Time{})
	for _, pod := range w.pods() {
		selector, err := json.Marshal(w.storedClaim(rig.ClaimsOf(&pod)[0]).Status.Allocation.NodeSelector)
		w.must(err)
		if !strings.Contains(string(selector), fmt.Sprintf(`"values":[%q]`, pod.Spec.NodeName)) {
			t.Errorf("the device of pod %s on %s may be used on %s", pod.Name, pod.Spec.NodeName, selector)
		}
	}
}
