package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// devicesLabel marks the nodes with devices. Its value is the namespace of the test.
const devicesLabel = "devices.example.com/test"

// devices is a world with devices on some nodes, and their history.
type devices struct {
	*world
	driver  string   // also the prefix of its annotations
	class   string   // a DeviceClass of all its devices
	nodes   []string // with devices, sorted
	shared  string   // the pool of all nodes, or empty if each node has its own
	history *rig.History
}

// newDevices assigns devices to n nodes. They are published by startDriver.
func newDevices(t *testing.T, namespace string, n int) *devices {
	t.Helper()
	w := &devices{world: newWorld(t, namespace), driver: namespace + ".example.com", class: namespace}
	w.nodes = w.roomyNodes(n)
	w.record()
	w.onEachNode(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, devicesLabel, namespace))
	w.Cleanup(func() {
		w.onEachNode(fmt.Sprintf(`{"metadata":{"labels":{%q:null},"annotations":{%q:null,%q:null}}}`, devicesLabel, w.driver+"/taint", w.driver+"/attach"))
	})
	w.deviceClass(w.class, "")
	return w
}

// record starts the history of the test's namespace. It ends with the test.
func (w *devices) record() {
	w.Helper()
	ctx, stop := context.WithCancel(context.Background())
	history, err := rig.Record(ctx, w.client, w.namespace)
	if err != nil {
		stop()
		w.Fatal(err)
	}
	w.history = history
	w.Cleanup(func() {
		stop()
		history.Wait()
	})
}

// roomyNodes returns n nodes without taints and with room for many pods.
func (w *devices) roomyNodes(n int) []string {
	w.Helper()
	list, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{})
	w.must(err)
	on := w.podsByNode()
	var roomy []string
	for i := range list.Items {
		if node := &list.Items[i]; len(node.Spec.Taints) == 0 && node.Status.Allocatable.Pods().Value()-on[node.Name] >= 60 {
			roomy = append(roomy, node.Name)
		}
	}
	slices.Sort(roomy)
	if len(roomy) < n {
		w.Fatalf("%d nodes have room, want %d", len(roomy), n)
	}
	return roomy[:n]
}

// onEachNode patches the nodes with devices, even after the test's timeout.
func (w *devices) onEachNode(patch string) {
	w.Helper()
	for _, node := range w.nodes {
		_, err := w.client.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		w.must(err)
	}
}

// annotate sets an annotation of the driver on all nodes with devices. An empty text
// removes it.
func (w *devices) annotate(name, text string) {
	w.Helper()
	value, err := json.Marshal(text)
	w.must(err)
	if text == "" {
		value = []byte("null")
	}
	w.onEachNode(fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, w.driver+"/"+name, value))
}

// deviceClass creates a class of all the driver's devices, optionally with an extended
// resource. It is deleted when the test ends.
func (w *devices) deviceClass(name, extendedResource string) {
	w.Helper()
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", w.driver)}}},
	}}
	if extendedResource != "" {
		class.Spec.ExtendedResourceName = &extendedResource
	}
	_, err := w.client.ResourceV1().DeviceClasses().Create(w.ctx, class, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		w.must(gone(w.client.ResourceV1().DeviceClasses().Delete(context.Background(), name, metav1.DeleteOptions{})))
	})
}

// startDriver starts the driver and waits until it has published the given number of
// devices on each node, or in the pool of all nodes.
func (w *devices) startDriver(each int, args ...string) *rig.Process {
	w.Helper()
	p := w.launchDriver(each, args...)
	w.awaitSlices(p, w.expected(each)...)
	return p
}

// launchDriver starts the driver. It is stopped after the test's claims are gone.
func (w *devices) launchDriver(each int, args ...string) *rig.Process {
	w.Helper()
	args = append([]string{"--driver=" + w.driver, "--node-selector=" + devicesLabel + "=" + w.namespace, fmt.Sprint("--devices=", each)}, args...)
	if w.shared != "" {
		args = append(args, "--shared-pool="+w.shared)
	}
	p, err := cluster.StartDriver(nil, args...)
	w.must(err)
	w.Cleanup(func() {
		select {
		case <-p.Exited(): // the test has killed it
			return
		default:
		}
		w.clear()
		if err := p.Stop(); err != nil {
			w.Error(err)
		}
		if left := w.slices(); len(left) > 0 {
			w.Errorf("the driver has left ResourceSlices: %q", left)
		}
	})
	return p
}

// expected returns the slices of a driver without tainted devices, as slices describes
// them. Each has at most 64 devices.
func (w *devices) expected(each int) []string {
	const most = 64
	var all []string
	for _, node := range w.nodes {
		pool, where := node, "node "+node
		if w.shared != "" {
			pool, where = w.shared, fmt.Sprintf("nodes with %s=%s", devicesLabel, w.namespace)
		}
		for left := each; left > 0; left -= most {
			all = append(all, fmt.Sprintf("%s of %d on %s: %d devices", pool, (each+most-1)/most, where, min(left, most)))
		}
		if w.shared != "" {
			break
		}
	}
	slices.Sort(all)
	return all
}

// slices describes the driver's ResourceSlices, sorted: "POOL of COUNT on node NODE: N
// devices, gpu-1 key=value:Effect".
func (w *devices) slices() []string {
	w.Helper()
	list, err := w.client.ResourceV1().ResourceSlices().List(context.Background(), metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(resourcev1.ResourceSliceSelectorDriver, w.driver).String(),
	})
	w.must(err)
	var all []string
	for _, s := range list.Items {
		where := "nowhere"
		switch {
		case s.Spec.NodeName != nil:
			where = "node " + *s.Spec.NodeName
		case s.Spec.NodeSelector != nil:
			e := s.Spec.NodeSelector.NodeSelectorTerms[0].MatchExpressions[0]
			where = "nodes with " + e.Key + "=" + strings.Join(e.Values, ",")
		}
		text := fmt.Sprintf("%s of %d on %s: %d devices", s.Spec.Pool.Name, s.Spec.Pool.ResourceSliceCount, where, len(s.Spec.Devices))
		for _, d := range s.Spec.Devices {
			for _, taint := range d.Taints {
				text += fmt.Sprintf(", %s %s=%s:%s", d.Name, taint.Key, taint.Value, taint.Effect)
			}
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

// awaitSlices waits until exactly these slices are published.
func (w *devices) awaitSlices(driver *rig.Process, want ...string) {
	w.Helper()
	w.await(fmt.Sprintf("%d ResourceSlices are published: %q", len(want), want), func() bool {
		if err := driver.Failure(); err != nil {
			w.Fatalf("the driver failed: %v\n%s", err, driver.Log())
		}
		return slices.Equal(w.slices(), want)
	})
}

// template creates a template of claims for n devices.
func (w *devices) template(name string, n int64) {
	w.Helper()
	_, err := w.client.ResourceV1().ResourceClaimTemplates(w.namespace).Create(w.ctx, &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimTemplateSpec{Spec: w.claimSpec(n)},
	}, metav1.CreateOptions{})
	w.must(err)
}

// claim creates a claim for n devices.
func (w *devices) claim(name string, n int64) {
	w.Helper()
	_, err := w.client.ResourceV1().ResourceClaims(w.namespace).Create(w.ctx, &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: w.claimSpec(n),
	}, metav1.CreateOptions{})
	w.must(err)
}

func (w *devices) claimSpec(n int64) resourcev1.ResourceClaimSpec {
	return resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
		Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: w.class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: n},
	}}}}
}

func (w *devices) storedClaim(name string) *resourcev1.ResourceClaim {
	w.Helper()
	claim, err := w.client.ResourceV1().ResourceClaims(w.namespace).Get(w.ctx, name, metav1.GetOptions{})
	w.must(err)
	return claim
}

// podsWith creates n pods with a claim each, from a template or shared.
func (w *devices) podsWith(prefix string, n int, source v1.PodResourceClaim) {
	w.Helper()
	source.Name = "gpu"
	w.must(rig.CreatePods(w.ctx, w.client, w.namespace, n, func(i int) *v1.Pod {
		pod := w.pod(fmt.Sprint(prefix, "-", i), "10m")
		pod.Spec.ResourceClaims = []v1.PodResourceClaim{source}
		pod.Spec.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: source.Name}}
		return pod
	}))
}

func fromTemplate(name string) v1.PodResourceClaim {
	return v1.PodResourceClaim{ResourceClaimTemplateName: &name}
}

func named(name string) v1.PodResourceClaim { return v1.PodResourceClaim{ResourceClaimName: &name} }

// awaitWaiting waits for numbers of running and rejected pods.
func (w *devices) awaitWaiting(running, waiting int) {
	w.Helper()
	w.await(fmt.Sprintf("%d pods run and %d wait", running, waiting), func() bool {
		run, wait := 0, 0
		for _, pod := range w.pods() {
			w.must(rig.Refused(&pod))
			switch {
			case pod.Status.Phase == v1.PodRunning:
				run++
			case pod.Spec.NodeName == "" && rejected(&pod) != "":
				wait++
			}
		}
		return run == running && wait == waiting
	})
}

// runningPods returns the running pods.
func (w *devices) runningPods() []v1.Pod {
	w.Helper()
	return slices.DeleteFunc(w.pods(), func(p v1.Pod) bool { return p.Status.Phase != v1.PodRunning })
}

// deletePod deletes a pod without a grace period.
func (w *devices) deletePod(name string) {
	w.Helper()
	now := int64(0)
	w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// devicesAreWell checks that the running pods have exactly the allocated devices, that no
// device ever had two claims, and that each pod was bound once, when its claims were
// ready.
func (w *devices) devicesAreWell(inUse int) {
	w.Helper()
	claims, err := w.client.ResourceV1().ResourceClaims(w.namespace).List(w.ctx, metav1.ListOptions{})
	w.must(err)
	pods := w.pods()
	w.await("the history has come to now", func() bool {
		w.must(w.history.Failure())
		return !slices.ContainsFunc(claims.Items, func(c resourcev1.ResourceClaim) bool { return !w.history.Knows(&c) }) &&
			!slices.ContainsFunc(pods, func(p v1.Pod) bool { return !w.history.Knows(&p) })
	})
	byName, owner := map[string]*resourcev1.ResourceClaim{}, map[string]string{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		byName[claim.Name] = claim
		for _, result := range rig.Allocated(claim) {
			d := rig.Device(&result)
			if other, taken := owner[d]; taken {
				w.Errorf("claims %s and %s have %s", other, claim.Name, d)
			}
			owner[d] = claim.Name
		}
	}
	if len(owner) != inUse {
		w.Errorf("%d devices are in use, want %d", len(owner), inUse)
	}
	for i := range pods {
		for _, name := range rig.ClaimsOf(&pods[i]) {
			if pods[i].Spec.NodeName == "" {
				continue
			}
			if why := rig.Unusable(byName[name], &pods[i], w.reaches); why != "" {
				w.Errorf("pod %s runs on %s, and its claim %q %s", pods[i].Name, pods[i].Spec.NodeName, name, why)
			}
		}
	}
	wrong := append(w.history.UsedTwice(), w.history.BoundTooEarly(w.reaches)...)
	if len(wrong) > 0 {
		w.Errorf("%d things were wrong: %s", len(wrong), strings.Join(wrong[:min(20, len(wrong))], "; "))
	}
	w.Logf("%d devices are in use", len(owner))
}

// reaches reports whether a node can use a pool's devices.
func (w *devices) reaches(pool, node string) bool {
	if w.shared != "" {
		return pool == w.shared && slices.Contains(w.nodes, node)
	}
	return pool == node
}

// clear deletes the test's pods and claims, and waits until they are gone. A second call
// does nothing.
func (w *devices) clear() {
	w.Helper()
	ctx := context.Background()
	w.must(rig.DeletePods(ctx, w.client, w.namespace))
	claims := w.client.ResourceV1().ResourceClaims(w.namespace)
	list, err := claims.List(ctx, metav1.ListOptions{})
	w.must(err)
	w.must(rig.InParallel(len(list.Items), func(i int) error { return gone(claims.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{})) }))
	w.awaitGone("claims", func() (int, error) {
		list, err := claims.List(ctx, metav1.ListOptions{})
		return len(list.Items), err
	})
}

// TestDriverPublishes watches the driver's slices while nodes are added and deleted,
// devices are tainted, and the driver is killed.
func TestDriverPublishes(t *testing.T) {
	const each = 65 // more than fit in one slice
	w := newDevices(t, "driver", 2)
	first := w.startDriver(each)
	two := w.nodes

	made := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "z-made-by-the-test", Labels: map[string]string{devicesLabel: w.namespace}}}
	remove := func() {
		w.must(gone(w.client.CoreV1().Nodes().Delete(context.Background(), made.Name, metav1.DeleteOptions{})))
	}
	t.Cleanup(remove)
	for range 2 { // the second is another node of the same name
		_, err := w.client.CoreV1().Nodes().Create(w.ctx, made, metav1.CreateOptions{})
		w.must(err)
		w.nodes = append(slices.Clone(two), made.Name)
		w.awaitSlices(first, w.expected(each)...)
		w.nodes = two
		remove()
		w.awaitSlices(first, w.expected(each)...)
	}

	w.nodes = two[:1]
	w.annotate("taint", "gpu-3=broken:NoSchedule,gpu-64=hot=very:NoExecute")
	w.nodes = two
	tainted := w.expected(each)
	tainted[0] += ", gpu-64 hot=very:NoExecute"
	tainted[1] += ", gpu-3 broken=:NoSchedule"
	slices.Sort(tainted)
	w.awaitSlices(first, tainted...)

	// A node loses its devices while no driver runs.
	first.Kill()
	w.nodes = two[:1]
	w.onEachNode(fmt.Sprintf(`{"metadata":{"labels":{%q:null},"annotations":{%q:null}}}`, devicesLabel, w.driver+"/taint"))
	w.nodes = two[1:]
	second := w.startDriver(each)
	w.nodes = two
	w.onEachNode(fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, devicesLabel, w.namespace))
	w.awaitSlices(second, w.expected(each)...)
	w.annotate("taint", "gpu-99=broken:NoSchedule")
	w.await("the driver says what is wrong", func() bool {
		return strings.Contains(second.Log(), `there is no device "gpu-99" among the 65 of a pool`)
	})
	w.annotate("taint", "")
	w.awaitSlices(second, w.expected(each)...)
}
