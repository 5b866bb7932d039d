package simulate_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestFaultsFoundWithDevices runs seeds that found faults: a claim was created again
// without waking its pod (624), and a promised device was freed without an event, because
// another scheduler allocated a different one (564).
func TestFaultsFoundWithDevices(t *testing.T) {
	build.NotRaced(t)
	for _, n := range []uint64{564, 624} {
		if _, err := runDeviceFaults(n); err != nil {
			t.Errorf("seed %d: %v", n, err)
		}
	}
}

// TestFaultsOfDevices is a seeded simulation of all faults between a decision about
// devices and the binding. The loop is audited after every round. No device is allocated
// twice. No pod is bound unless its claims are allocated for its node and reserved for
// it. In the end no pod waits that could run, nothing is promised, and no memory is left.
func TestFaultsOfDevices(t *testing.T) {
	build.NotRaced(t)
	countTrials(t, func(n uint64) ([]map[string]int, error) {
		trial, err := runDeviceFaults(n)
		return trial.counts(), err
	}, []string{
		"claim: made from a template", "claim: deallocated", "claim: deleted", "write: lost", "write: dropped", "write: Invalid, in earnest", "read: done", "response: learned",
		"PreBind: passed", "PreBind: failed", "undo: done", "pod deleted while binding", "pod deleted", "pod finished", "claim deleted", "claim deleted while binding",
		"claim allocated by another scheduler", "node gone while binding", "killed while binding", "slice gone", "slice changed", "devices tainted", "device prepared",
		"device broken", "shared device allocated twice", "claim given back", "claim made", "slow API server", "taken over at once",
	})
}

// deviceTrial is one simulation of pods with devices.
type deviceTrial struct {
	r *rand.Rand
	// slow, if set, makes requests take up to 10 s at random, and lets other processes
	// take over at once where they may. It has random numbers of its own, so that other
	// seeds do not change.
	slow     *rand.Rand
	c        *simulate.Cluster
	a        *auditor
	happened map[string]int
	nodes    []*v1.Node                  // each may be absent
	slices   []*resourcev1.ResourceSlice // each may be absent
	pods     int
	foreign  int // allocations by another scheduler
	calm     bool
}

const gpuDriver, netDriver = "gpu.example.com", "net.example.com"

// extendedGPU is the extended resource that devices of the class gpu provide.
const extendedGPU = "example.com/gpu"

// counts returns the counters of the trial and its surroundings, or nil without a trial.
func (t *deviceTrial) counts() []map[string]int {
	if t == nil {
		return nil
	}
	return []map[string]int{t.happened, t.c.Happened()}
}

// TestDeallocationInFlight is seed 136 of TestFaultsOfDevices. The node of an allocation
// that is being released gets room before the write has ended, and a pod was bound
// without its devices.
func TestDeallocationInFlight(t *testing.T) {
	if _, err := runDeviceFaults(136); err != nil {
		t.Error(err)
	}
}

// TestPreparedBesideUnwritten is seed 23 of TestFaultsOfDevices. One claim of a pod has
// prepared devices, and another has yet to be allocated. The binding waited for a change
// of the first, and timed out again and again.
func TestPreparedBesideUnwritten(t *testing.T) {
	if _, err := runDeviceFaults(23); err != nil {
		t.Error(err)
	}
}

// TestDeletionAfterFailedWrite is seed 400 of TestFaultsOfDevices. A claim was deleted
// although the removal of its finalizer had failed, and kept its pod gated forever.
func TestDeletionAfterFailedWrite(t *testing.T) {
	if _, err := runDeviceFaults(400); err != nil {
		t.Error(err)
	}
}

func runDeviceFaults(n uint64) (*deviceTrial, error) {
	t, err := newDeviceTrial(n)
	if err != nil {
		return t, err
	}
	for range 2 {
		t.calm = false
		for step := range 80 {
			if step%20 == 0 {
				t.c.SetFaults(t.faults())
			}
			what, err := t.disturb()
			if err == nil {
				err = t.c.AdvanceTo(t.c.Now().Add(pause(t.r)), t.audit)
			}
			if err != nil {
				return t, fmt.Errorf("step %d (%s), %s after the start: %w", step, what, t.c.Elapsed(), err)
			}
		}
		if err := t.rested(); err != nil {
			return t, fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
		}
	}
	if err := t.emptied(); err != nil {
		return t, fmt.Errorf("without pods, %s after the start: %w", t.c.Elapsed(), err)
	}
	return t, nil
}

func newDeviceTrial(n uint64) (*deviceTrial, error) {
	scheduler, err := config.Default()
	if err != nil {
		return nil, err
	}
	// Without an event, pods are not retried. That reveals events for which the plugin
	// does not register.
	c, err := simulate.New(taped(simulate.Config{Scheduler: scheduler, Seed: n, Audit: true, Trim: n%2 == 0, Slice: []int{0, 1, 3}[n%3], MaxParked: 24 * time.Hour, EventHints: n%3 == 1}))
	if err != nil {
		return nil, err
	}
	t := &deviceTrial{r: random.New(n), c: c, a: newAuditor(c, oracle.DefaultProfile()), happened: map[string]int{}}
	if n%2 == 1 {
		t.slow = random.New(1_000_000 + n)
	}
	t.a.judged = 1 << 30 // the oracle does not cover devices
	for i := range 5 {
		name := fmt.Sprint("n", i)
		node := node(name, "4")
		node.Labels = map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("z", i%2)}
		t.nodes = append(t.nodes, node)
		t.slices = append(t.slices, gpus(name, 1+i%3))
	}
	t.slices = append(t.slices,
		sliceOf("rack", netDriver, resourcev1.ResourceSliceSpec{NodeSelector: inZone("z0")}, resourcev1.Device{Name: "r0"}, resourcev1.Device{Name: "r1"}),
		sliceOf("everywhere", netDriver, resourcev1.ResourceSliceSpec{AllNodes: new(true)}, sharedDevice("s0"), sharedDevice("s1")))
	for _, node := range t.nodes {
		c.SetNode(node.DeepCopy())
	}
	for _, slice := range t.slices {
		_ = c.SetObject(slice.DeepCopy())
	}
	for name, expression := range map[string]string{
		"gpu":  fmt.Sprintf("device.driver == %q", gpuDriver),
		"big":  fmt.Sprintf("device.driver == %q && device.attributes[%[1]q].size == 1", gpuDriver),
		"rack": fmt.Sprintf("device.driver == %q && !device.allowMultipleAllocations", netDriver),
		"net":  fmt.Sprintf("device.driver == %q && device.allowMultipleAllocations", netDriver),
	} {
		class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}}
		class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		if name == "gpu" {
			class.Spec.ExtendedResourceName = new(extendedGPU)
		}
		_ = c.SetObject(class)
	}
	for name, spec := range t.asks() {
		template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		template.Spec.Spec = spec
		c.SetTemplate(template)
	}
	return t, nil
}

// gpus returns the devices of a node. The last of three has to be prepared.
func gpus(node string, count int) *resourcev1.ResourceSlice {
	var devices []resourcev1.Device
	for i := range count {
		size := int64(i % 2)
		d := resourcev1.Device{Name: fmt.Sprint("d", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"size": {IntValue: &size}}}
		if i == 2 {
			d.BindingConditions, d.BindingFailureConditions = []string{"Ready"}, []string{"Broken"}
		}
		devices = append(devices, d)
	}
	return sliceOf("gpus-"+node, gpuDriver, resourcev1.ResourceSliceSpec{NodeName: &node}, devices...)
}

func sliceOf(name, driver string, spec resourcev1.ResourceSliceSpec, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	spec.Driver, spec.Pool, spec.Devices = driver, resourcev1.ResourcePool{Name: name, Generation: 1, ResourceSliceCount: 1}, devices
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func sharedDevice(name string) resourcev1.Device {
	return resourcev1.Device{Name: name, AllowMultipleAllocations: new(true), Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{
		"bandwidth": {Value: resource.MustParse("10G"), RequestPolicy: &resourcev1.CapacityRequestPolicy{Default: new(resource.MustParse("3G"))}},
	}}
}

func inZone(zone string) *v1.NodeSelector {
	return &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
		{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}},
	}}}}
}

// asks returns the specs of claims, by the name of a template.
func (t *deviceTrial) asks() map[string]resourcev1.ResourceClaimSpec {
	exactly := func(class string, count int64) resourcev1.DeviceRequest {
		return resourcev1.DeviceRequest{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		}}
	}
	alternative := func(class string) resourcev1.DeviceSubRequest {
		return resourcev1.DeviceSubRequest{Name: class, DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	}
	either := resourcev1.DeviceRequest{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{alternative("big"), alternative("gpu")}}
	watch := exactly("gpu", 0)
	watch.Exactly.AllocationMode, watch.Exactly.AdminAccess = resourcev1.DeviceAllocationModeAll, new(true)
	asks := map[string]resourcev1.ResourceClaimSpec{}
	for name, request := range map[string]resourcev1.DeviceRequest{
		"one": exactly("gpu", 1), "two": exactly("gpu", 2), "either": either, "rack": exactly("rack", 1), "net": exactly("net", 1), "watch": watch,
	} {
		asks[name] = resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request}}}
	}
	return asks
}

// faults draws the faults for a while.
func (t *deviceTrial) faults() simulate.Faults {
	f := simulate.Faults{
		MaxWatchDelay: t.upTo(2 * time.Second), MaxBindDelay: t.upTo(time.Second), MaxControllerDelay: t.upTo(3 * time.Second), DuplicatePercent: t.r.IntN(10),
		ReplacedPercent: t.r.IntN(100), KeyOnlyPercent: t.r.IntN(50), Requests: map[simulate.Fault]int{},
	}
	for fault := simulate.Conflict; fault <= simulate.Late; fault++ {
		f.Requests[fault] = t.r.IntN(5)
	}
	if t.slow != nil && t.slow.IntN(2) == 0 {
		t.happened["slow API server"]++
		f.MaxBindDelay = time.Duration(t.slow.Int64N(int64(10 * time.Second)))
	}
	return f
}

func (t *deviceTrial) upTo(d time.Duration) time.Duration { return time.Duration(t.r.Int64N(int64(d))) }

// disturb makes one change to the cluster or the process.
func (t *deviceTrial) disturb() (string, error) {
	switch k := t.r.IntN(100); {
	case k < 38:
		return t.createPod(), nil
	case k < 52:
		return t.endPod(), nil
	case k < 58:
		return t.disturbClaim(), nil
	case k < 64:
		return t.disturbNode(), nil
	case k < 72:
		return t.disturbSlice(), nil
	case k < 77:
		return t.disturbTaints(), nil
	case k < 85:
		t.prepare()
		return "devices prepared", nil
	case k < 89:
		t.c.BreakWatch(t.c.Reads()[t.r.IntN(len(t.c.Reads()))])
		return "watch broken", nil
	case k < 94:
		t.mend()
		return "watches mended", nil
	case k < 97:
		return "restart", t.restart()
	}
	return "nothing", nil
}

func (t *deviceTrial) mend() {
	for _, kind := range t.c.Reads() {
		t.c.MendWatch(kind, t.r.IntN(2) == 0)
	}
}

// createPod creates a pod with claims: from templates, of its own, or shared.
func (t *deviceTrial) createPod() string {
	t.pods++
	name := fmt.Sprint("web-", t.pods)
	p := pod(name, fmt.Sprintf("%dm", 100*(1+t.r.IntN(8))), t.pods)
	if t.r.IntN(4) == 0 {
		p.Spec.NodeSelector = map[string]string{v1.LabelHostname: fmt.Sprint("n", t.r.IntN(5))}
	}
	if t.r.IntN(4) == 0 {
		requested := v1.ResourceList{v1.ResourceName([]string{extendedGPU, resourcev1.ResourceDeviceClassPrefix + "rack"}[t.r.IntN(2)]): *resource.NewQuantity(int64(1+t.r.IntN(2)), resource.DecimalSI)}
		p.Spec.InitContainers = []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Requests: requested, Limits: requested}}}
	}
	names := []string{"one", "one", "one", "two", "either", "rack", "net", "net", "watch"}
	for i := range t.r.IntN(3) {
		ask := names[t.r.IntN(len(names))]
		entry := v1.PodResourceClaim{Name: fmt.Sprint("c", i)}
		switch t.r.IntN(4) {
		case 0: // a shared claim
			claim := fmt.Sprint("shared-", t.r.IntN(4))
			entry.ResourceClaimName = &claim
			if t.c.Object(model.ClaimKey{Namespace: "default", Name: claim}.DeviceRef()) == nil {
				t.createClaim(claim, ask)
			}
		default:
			entry.ResourceClaimTemplateName = &ask
		}
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, entry)
	}
	t.c.SetPod(p)
	return "pod created: " + name
}

func (t *deviceTrial) createClaim(name, ask string) {
	_ = t.c.SetObject(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: t.asks()[ask]})
}

// pick returns a pod, with a preference for pods with a binding in flight, or nil.
func (t *deviceTrial) pick() (p *v1.Pod, binding bool) {
	all := t.c.Pods()
	if len(all) == 0 {
		return nil, false
	}
	waiting := slices.DeleteFunc(slices.Clone(all), func(p *v1.Pod) bool { return !t.isBinding(p) })
	if len(waiting) > 0 && t.r.IntN(2) == 0 {
		all = waiting
	}
	p = all[t.r.IntN(len(all))]
	return p, t.isBinding(p)
}

func (t *deviceTrial) isBinding(p *v1.Pod) bool {
	return t.c.Loop().Queue().PlaceOf(keyOf(p)) == "binding"
}

func (t *deviceTrial) note(what string, binding bool) {
	if binding {
		what += " while binding"
	}
	t.happened[what]++
}

// endPod deletes a pod, or finishes it if it runs.
func (t *deviceTrial) endPod() string {
	p, binding := t.pick()
	if p == nil {
		return t.createPod()
	}
	if p.Spec.NodeName != "" && t.r.IntN(2) == 0 {
		t.happened["pod finished"]++
		now := p.DeepCopy()
		now.Status.Phase = v1.PodSucceeded
		t.c.SetPod(now)
		return "pod finished: " + p.Name
	}
	t.note("pod deleted", binding)
	t.c.DeletePod(keyOf(p))
	return "pod deleted: " + p.Name
}

// disturbClaim deletes a claim of a pod, writes to it, or allocates other devices to it,
// as another scheduler might.
func (t *deviceTrial) disturbClaim() string {
	p, binding := t.pick()
	claims := t.claimsOf(p)
	if len(claims) == 0 {
		return t.createPod()
	}
	claim := claims[t.r.IntN(len(claims))]
	switch now := claim.DeepCopy(); {
	case t.r.IntN(3) == 0:
		t.note("claim deleted", binding)
		t.c.DeleteObject(refOf(claim))
		return "claim deleted: " + claim.Name
	case t.r.IntN(2) == 0 && claim.Status.Allocation == nil && claim.DeletionTimestamp == nil:
		t.happened["claim allocated by another scheduler"]++
		t.foreign++
		now.Finalizers = []string{resourcev1.Finalizer}
		now.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "r", Driver: "other.example.com", Pool: "p", Device: fmt.Sprint("d", t.foreign)},
		}}}
		_ = t.c.SetObject(now)
		return "claim allocated by another scheduler: " + claim.Name
	default:
		metav1.SetMetaDataAnnotation(&now.ObjectMeta, "example.com/touched", t.c.Elapsed().String())
		_ = t.c.SetObject(now)
		return "claim touched: " + claim.Name
	}
}

// claimsOf returns the stored claims of a pod.
func (t *deviceTrial) claimsOf(p *v1.Pod) (claims []*resourcev1.ResourceClaim) {
	if p == nil {
		return nil
	}
	for _, key := range model.NewPod(p).Devices.Keys() {
		if claim, ok := t.c.Object(key.DeviceRef()).(*resourcev1.ResourceClaim); ok {
			claims = append(claims, claim)
		}
	}
	return append(claims, t.madeFor(p)...)
}

// madeFor returns the stored claims that were made for the pod's extended resources.
func (t *deviceTrial) madeFor(p *v1.Pod) (claims []*resourcev1.ResourceClaim) {
	for _, o := range t.c.Objects() {
		claim, ok := o.(*resourcev1.ResourceClaim)
		if ok && claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" && metav1.IsControlledBy(claim, p) {
			claims = append(claims, claim)
		}
	}
	return claims
}

// keysOf returns the claims that a bound pod must have.
func (t *deviceTrial) keysOf(p *v1.Pod) []model.ClaimKey {
	keys := model.NewPod(p).Devices.Keys()
	if len(p.Spec.InitContainers) > 0 { // an init container requests an extended resource
		name := ""
		if made := p.Status.ExtendedResourceClaimStatus; made != nil && len(made.RequestMappings) > 0 {
			name = made.ResourceClaimName
		}
		keys = append(keys, model.ClaimKey{Namespace: p.Namespace, Name: name})
	}
	return keys
}

// disturbNode deletes a node, with a preference for the node of a binding in flight, or
// restores it.
func (t *deviceTrial) disturbNode() string {
	node := t.nodes[t.r.IntN(len(t.nodes))]
	if p, binding := t.pick(); binding {
		on, _, _ := t.c.Loop().State().NodeOf(keyOf(p))
		for _, n := range t.nodes {
			if n.Name == on {
				node = n
			}
		}
	}
	if t.c.Node(node.Name) == nil {
		t.c.SetNode(node.DeepCopy())
		return "node back: " + node.Name
	}
	t.note("node gone", slices.ContainsFunc(t.c.Pods(), func(p *v1.Pod) bool {
		on, _, _ := t.c.Loop().State().NodeOf(keyOf(p))
		return on == node.Name && t.isBinding(p)
	}))
	t.c.DeleteNode(node.Name)
	return "node gone: " + node.Name
}

// disturbSlice deletes a slice, publishes it without a device or in a new generation, or
// restores it.
func (t *deviceTrial) disturbSlice() string {
	slice := t.slices[t.r.IntN(len(t.slices))]
	ref := refOf(slice)
	have, there := t.c.Object(ref).(*resourcev1.ResourceSlice)
	switch k := t.r.IntN(3); {
	case !there:
		_ = t.c.SetObject(slice.DeepCopy())
		return "slice back: " + slice.Name
	case k == 0:
		t.happened["slice gone"]++
		t.c.DeleteObject(ref)
		return "slice gone: " + slice.Name
	default:
		t.happened["slice changed"]++
		now := slice.DeepCopy()
		now.Spec.Pool.Generation = have.Spec.Pool.Generation + 1
		if k == 1 && len(now.Spec.Devices) > 1 {
			at := t.r.IntN(len(now.Spec.Devices))
			now.Spec.Devices = slices.Delete(now.Spec.Devices, at, at+1)
		}
		_ = t.c.SetObject(now)
		return "slice changed: " + slice.Name
	}
}

// disturbTaints taints devices by a rule, or deletes the rule.
func (t *deviceTrial) disturbTaints() string {
	name := fmt.Sprint("rule-", t.r.IntN(3))
	if t.c.DeleteObject(model.Ref{Kind: model.DeviceTaintRuleKind, Name: name}) {
		return "rule gone: " + name
	}
	t.happened["devices tainted"]++
	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: name}}
	rule.Spec.Taint = resourcev1.DeviceTaint{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoSchedule}
	rule.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new(gpuDriver)}
	if t.r.IntN(2) == 0 {
		rule.Spec.DeviceSelector.Pool = &t.slices[t.r.IntN(5)].Name
	}
	if t.r.IntN(2) == 0 {
		rule.Spec.DeviceSelector.Device = new(fmt.Sprint("d", t.r.IntN(3)))
	}
	_ = t.c.SetObject(rule)
	return "rule: " + name
}

// prepare makes the drivers prepare waiting devices. While faults are active, some break.
func (t *deviceTrial) prepare() {
	for _, o := range t.c.Objects() {
		claim, ok := o.(*resourcev1.ResourceClaim)
		if !ok || claim.Status.Allocation == nil || len(claim.Status.Devices) > 0 {
			continue
		}
		now := claim.DeepCopy()
		for _, r := range claim.Status.Allocation.Devices.Results {
			if len(r.BindingConditions) == 0 {
				continue
			}
			condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Prepared"}
			t.happened["device prepared"]++
			if !t.calm && t.r.IntN(3) == 0 {
				condition = metav1.Condition{Type: "Broken", Status: metav1.ConditionTrue, Reason: "Failed", Message: "it does not work"}
				t.happened["device broken"]++
			}
			now.Status.Devices = append(now.Status.Devices, resourcev1.AllocatedDeviceStatus{
				Driver: r.Driver, Pool: r.Pool, Device: r.Device, Conditions: []metav1.Condition{condition},
			})
		}
		if len(now.Status.Devices) > 0 {
			_ = t.c.SetObject(now)
		}
	}
}

// restart kills or stops the process, and starts another when the first has nothing in
// flight.
func (t *deviceTrial) restart() error {
	if slices.ContainsFunc(t.c.Pods(), t.isBinding) {
		t.happened["killed while binding"]++
	}
	pause := 6 * time.Second
	if t.slow != nil {
		pause = leaseEnds
	}
	if t.r.IntN(3) > 0 {
		t.c.Kill()
		if t.slow != nil && !slices.ContainsFunc(t.c.Pods(), t.isBinding) {
			t.happened["taken over at once"]++
			pause = 0
		}
	} else {
		t.c.Stop()
		pause += commit.DefaultDrain
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(pause), t.audit); err != nil {
		return err
	}
	t.a.forget()
	return t.c.Restart()
}

func (t *deviceTrial) audit(r simulate.Round) error {
	if r.Decided && r.Decisions[0].PostFilter != "" && len(r.Decisions[0].Writes) > 0 {
		t.happened["claim given back"]++
	}
	if err := t.checkDevices(); err != nil {
		return err
	}
	for _, pod := range r.Stored {
		if err := t.checkPrepared(pod); err != nil {
			return fmt.Errorf("the API server stored that %s is bound to %s: %w", pod.Name, pod.Spec.NodeName, err)
		}
	}
	for _, pod := range t.c.Pods() {
		if err := t.checkClaims(pod); err != nil {
			return fmt.Errorf("pod %s is bound to %s: %w", pod.Name, pod.Spec.NodeName, err)
		}
	}
	return t.a.audit(r)
}

// checkDevices checks that no device is allocated to two claims. Admin access is exempt,
// and shared devices must not exceed their capacity.
func (t *deviceTrial) checkDevices() error {
	users, consumed := map[string]string{}, map[string]int64{}
	for _, o := range t.c.Objects() {
		claim, ok := o.(*resourcev1.ResourceClaim)
		if !ok || claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			device := r.Driver + "/" + r.Pool + "/" + r.Device
			other, taken := users[device]
			switch {
			case r.AdminAccess != nil && *r.AdminAccess:
				continue
			case r.ShareID == nil && taken, taken && consumed[device] == 0:
				return fmt.Errorf("device %s is allocated to %s and to %s", device, other, claim.Name)
			case r.ShareID != nil:
				amount := r.ConsumedCapacity["bandwidth"]
				if taken {
					t.happened["shared device allocated twice"]++
				}
				if consumed[device] += amount.Value(); consumed[device] > 10_000_000_000 || amount.Sign() <= 0 {
					return fmt.Errorf("of device %s %d is allocated, %s of it to %s", device, consumed[device], amount.String(), claim.Name)
				}
			}
			users[device] = claim.Name
		}
	}
	return nil
}

// checkClaims checks that a bound, unfinished pod has its claims: allocated, usable on
// its node, and reserved for it.
func (t *deviceTrial) checkClaims(pod *v1.Pod) error {
	if pod.Spec.NodeName == "" || kinds.Finished(pod) {
		return nil
	}
	for _, key := range t.keysOf(pod) {
		claim, _ := t.c.Object(key.DeviceRef()).(*resourcev1.ResourceClaim)
		switch {
		case claim == nil:
			return fmt.Errorf("its claim %s is gone", key)
		case claim.Status.Allocation == nil:
			return fmt.Errorf("its claim %s is not allocated", key)
		case !slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool { return r.UID == pod.UID }):
			return fmt.Errorf("its claim %s is not reserved for it: %v", key, claim.Status.ReservedFor)
		}
		node, selector := t.c.Node(pod.Spec.NodeName), claim.Status.Allocation.NodeSelector
		if node == nil || selector == nil {
			continue
		}
		if parsed, err := nodeaffinity.NewNodeSelector(selector); err != nil || !parsed.Match(node) {
			return fmt.Errorf("its claim %s can be used on %v, %w", key, selector, err)
		}
	}
	return nil
}

// checkPrepared checks that the devices of a newly bound pod are ready.
func (t *deviceTrial) checkPrepared(pod *v1.Pod) error {
	for _, key := range t.keysOf(pod) {
		claim, _ := t.c.Object(key.DeviceRef()).(*resourcev1.ResourceClaim)
		if claim == nil || claim.Status.Allocation == nil {
			return fmt.Errorf("its claim %s is not allocated", key)
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			for _, want := range r.BindingConditions {
				ready := slices.ContainsFunc(claim.Status.Devices, func(d resourcev1.AllocatedDeviceStatus) bool {
					return d.Device == r.Device && d.Pool == r.Pool && slices.ContainsFunc(d.Conditions, func(c metav1.Condition) bool { return c.Type == want })
				})
				if !ready {
					return fmt.Errorf("device %s of its claim %s is not ready", r.Device, claim.Name)
				}
			}
		}
	}
	return nil
}

func (t *deviceTrial) advance(d time.Duration) error { return t.c.AdvanceTo(t.c.Now().Add(d), t.audit) }

// byAnswer returns a function that has a new engine judge pods. While bindings are in
// flight, also of deleted pods, the function accepts all pods, because the new engine has
// no promises of devices.
func (t *deviceTrial) byAnswer() func(*v1.Pod) error {
	if slices.ContainsFunc(t.c.Pods(), t.isBinding) || t.c.Loop().State().Held() > 0 {
		return func(*v1.Pod) error { return nil }
	}
	return t.checkWaits
}

// rested ends all faults, and checks that after a while no pod waits that could run.
func (t *deviceTrial) rested() error {
	t.calm = true
	t.c.SetFaults(simulate.Faults{})
	t.mend()
	for _, node := range t.nodes {
		if t.c.Node(node.Name) == nil {
			t.c.SetNode(node.DeepCopy())
		}
	}
	for _, slice := range t.slices {
		now := slice.DeepCopy()
		if have, ok := t.c.Object(refOf(slice)).(*resourcev1.ResourceSlice); ok {
			now.Spec.Pool.Generation = have.Spec.Pool.Generation + 1
		}
		_ = t.c.SetObject(now)
	}
	for i := range 3 {
		t.c.DeleteObject(model.Ref{Kind: model.DeviceTaintRuleKind, Name: fmt.Sprint("rule-", i)})
	}
	if err := t.a.nothingWaitsInVain(2*time.Minute, t.advance, t.byAnswer); err != nil {
		return err
	}
	// until all requests have ended and all devices are prepared
	for quiet, placed, minutes := 0, -1, 0; quiet < 4; minutes++ {
		t.prepare()
		if err := t.c.AdvanceTo(t.c.Now().Add(time.Minute), t.audit); err != nil {
			return err
		}
		if minutes == 600 {
			return errors.New("bindings have not ended for ten hours")
		}
		if quiet++; placed != t.a.placedPods() || slices.ContainsFunc(t.c.Pods(), t.isBinding) {
			quiet, placed = 0, t.a.placedPods()
		}
	}
	if err := t.a.checkSeen(); err != nil {
		return err
	}
	for _, o := range t.c.Objects() {
		if claim, ok := o.(*resourcev1.ResourceClaim); ok && t.c.Loop().State().View().Devices().IsPromised(refOf(claim).ClaimKey()) {
			return fmt.Errorf("nothing is being bound, and claim %s is promised devices", claim.Name)
		}
	}
	for _, pod := range t.c.Pods() {
		if err := errors.Join(t.checkWaits(pod), t.checkMade(pod)); err != nil {
			return err
		}
	}
	return nil
}

// isNominated reports whether another pod is nominated to a node, which reserves room. It
// may have been gated since its nomination.
func (t *deviceTrial) isNominated(node string, but *v1.Pod) bool {
	return slices.ContainsFunc(t.c.Pods(), func(p *v1.Pod) bool {
		return p.Name != but.Name && p.Spec.NodeName == "" && p.Status.NominatedNodeName == node
	})
}

// checkMade checks that a claim for extended resources has devices only if its pod is
// bound or not being tried.
func (t *deviceTrial) checkMade(pod *v1.Pod) error {
	for _, claim := range t.madeFor(pod) {
		of := pod.Status.ExtendedResourceClaimStatus
		if claim.Status.Allocation != nil && t.c.Loop().Queue().PlaceOf(keyOf(pod)) != "gated" && (pod.Spec.NodeName == "" || of == nil || of.ResourceClaimName != claim.Name) {
			verdict, _ := t.c.Verdict(keyOf(pod))
			return fmt.Errorf("pod %s on node %q (%s) has %v, and claim %s was made for it", pod.Name, pod.Spec.NodeName, verdict.Message(), of, claim.Name)
		}
		t.happened["claim made"]++
	}
	return nil
}

// checkWaits checks that a waiting pod has a reason. Its claim is missing or being
// deleted, or no node is feasible and no release of claims would make one feasible.
func (t *deviceTrial) checkWaits(pod *v1.Pod) error {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil {
		return nil
	}
	place, claims := t.c.Loop().Queue().PlaceOf(keyOf(pod)), t.claimsOf(pod)
	if place == "gated" {
		if compiled := model.NewPod(pod); compiled.Devices == nil || compiled.Devices.Err == nil && len(claims) == len(compiled.Devices.Keys()) &&
			!slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool { return c.DeletionTimestamp != nil }) {
			return fmt.Errorf("pod %s is gated (%s), and its claims are there", pod.Name, t.c.Gated(pod))
		}
		return nil
	}
	answer, err := t.c.Answer(keyOf(pod))
	if err != nil {
		return err
	}
	verdict, _ := t.c.Verdict(keyOf(pod))
	blocked := slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool {
		return c.Status.Allocation != nil && len(c.Status.ReservedFor) == 0
	})
	for _, node := range answer.Nodes {
		if node.Feasible && !t.isNominated(node.Name, pod) {
			return fmt.Errorf("pod %s waits (%s, %s), and fits on %s", pod.Name, place, verdict.Message(), node.Name)
		}
		if r := node.Rejections; blocked && len(r) == 1 && r[0].Plugin == "DynamicResources" && r[0].Message() == "resourceclaim not available on the node" &&
			!slices.ContainsFunc(claims, func(c *resourcev1.ResourceClaim) bool { return len(c.Status.ReservedFor) > 0 }) {
			return fmt.Errorf("pod %s waits (%s, %s); on %s claims are in the way that could be given back", pod.Name, place, verdict.Message(), node.Name)
		}
	}
	return nil
}

// emptied deletes all pods and claims, and checks that no memory is left of them.
func (t *deviceTrial) emptied() error {
	for _, pod := range t.c.Pods() {
		t.c.DeletePod(keyOf(pod))
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(forgotten), t.audit); err != nil {
		return err
	}
	for _, o := range t.c.Objects() {
		claim, ok := o.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		if len(claim.Status.ReservedFor) > 0 || len(claim.OwnerReferences) > 0 {
			return fmt.Errorf("all pods are gone, and claim %s of %v is reserved for %v", claim.Name, claim.OwnerReferences, claim.Status.ReservedFor)
		}
		t.c.DeleteObject(refOf(claim))
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(time.Minute), t.audit); err != nil {
		return err
	}
	l := t.c.Loop()
	if n := t.c.Outbox().Remembered(); n != 0 || l.Waiting() != 0 || l.State().Held() != 0 || l.State().Pods() != 0 || t.c.Unseen() != 0 {
		return fmt.Errorf("%d things are remembered, %d pods wait, %d objects are held, the state has %d pods", n, l.Waiting(), l.State().Held(), l.State().Pods())
	}
	if kept := l.State().View().Devices().Sizes(); kept.Claims != 0 || kept.Used != 0 {
		return fmt.Errorf("all claims are gone; the state has %d, and %d devices in use", kept.Claims, kept.Used)
	}
	return nil
}

func refOf(object kinds.Object) model.Ref { return kinds.Of(object).Ref(object) }
