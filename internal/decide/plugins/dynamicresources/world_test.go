package dynamicresources

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// world is a real state with the nodes a and b, and the class gpu, which selects all
// devices.
type world struct {
	*state.State
	plugin *Plugin
}

// turn is the time of all turns.
var turn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(t testing.TB, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{state.New(), defaults()}
	// The system's clock was set back after the process started.
	w.SetTimes(turn.Add(time.Hour), turn)
	for _, n := range build.NodesInZones("a=z1 b=z2") {
		w.set(n)
	}
	w.set(&resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}})
	w.set(objects...)
	return w
}

// set applies versions of objects to the state.
func (w *world) set(objects ...runtime.Object) {
	var changes []model.Change
	for _, o := range objects {
		changes = append(changes, kinds.Of(o).Change(o.(kinds.Object)))
	}
	w.Apply(changes)
}

// slice returns the slice of a node's pool, with devices.
func slice(node string, devices ...string) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: node + "-slice"},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: "drv", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node + "-pool", Generation: 1, ResourceSliceCount: 1},
		},
	}
	for _, name := range devices {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: name})
	}
	return s
}

// claim returns a claim with a request r for some devices of a class.
func claim(name string, count int64, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count},
		}}}},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// allocated allocates devices of a node's pool to a claim.
func allocated(node string, devices ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		c.Finalizers = []string{resourcev1.Finalizer}
		c.Status.Allocation = &resourcev1.AllocationResult{
			AllocationTimestamp: &metav1.Time{Time: turn},
			NodeSelector: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{node}}},
			}}},
		}
		for _, d := range devices {
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: "r", Driver: "drv", Pool: node + "-pool", Device: d,
			})
		}
	}
}

// reserved reserves a claim for pods.
func reserved(pods ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		for _, p := range pods {
			c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID("uid-" + p)})
		}
	}
}

// prepared gives each device of a claim a required condition and a failure condition.
// have are the conditions that it has.
func prepared(have ...string) func(*resourcev1.ResourceClaim) {
	return func(c *resourcev1.ResourceClaim) {
		for i := range c.Status.Allocation.Devices.Results {
			r := &c.Status.Allocation.Devices.Results[i]
			r.BindingConditions, r.BindingFailureConditions = []string{"Ready"}, []string{"Broken"}
			d := resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device}
			for _, kind := range have {
				d.Conditions = append(d.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Because", Message: "it is so"})
			}
			c.Status.Devices = append(c.Status.Devices, d)
		}
	}
}

// pod returns a pod that uses claims.
func pod(name string, claims ...string) *model.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for i, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: fmt.Sprint("entry-", i), ResourceClaimName: ptr.To(c)})
	}
	return model.NewPod(p)
}

// filter returns the plugin's result for the pod at PreFilter, or else for each node.
func (w *world) filter(t testing.TB, pod *model.Pod) string {
	t.Helper()
	v := w.View()
	if r := w.plugin.PreFilter(v, pod); !r.IsZero() {
		if r.Err != nil {
			return "error: " + r.Err.Error()
		}
		return "all: " + r.Rejection
	}
	found, err := w.plugin.FilterNeedIn(v, pod)
	need, rejection := found.Need, found.Rejection
	if err != nil || rejection != "" {
		t.Fatal(rejection, err)
	}
	if need == nil {
		return "any"
	}
	verdicts := need.Compile()
	var texts []string
	for _, name := range []string{"a", "b"} {
		slot, _ := w.Slot(name)
		switch code := verdicts.Filter(v.Node(slot)); {
		case code == reason.None:
			texts = append(texts, name)
		case code.IsFailed():
			texts = append(texts, name+" error: "+verdicts.Failures.Err(v, pod, code).Error())
		default:
			if !code.IsUnresolvable() {
				t.Errorf("%s is rejected as if evicting pods could help", name)
			}
			texts = append(texts, name+": "+strings.Join(verdicts.Reasons(code), ", "))
		}
	}
	return strings.Join(texts, "; ")
}

// helps reports whether a hint is positive for an event, for the pod's current requests.
// For an event about a claim or a slice it finds the pools.
func (w *world) helps(waiting *model.Pod, e model.Event) bool {
	if e.Pools == nil {
		e.Pools = w.View().Devices().PoolsOf(e.OldObject, e.Object)
	}
	return w.helpsAsking(w.plugin.AskedIn(w.View(), waiting), waiting, e)
}

// helpsAsking reports whether a hint is positive for an event, for the requests at
// rejection, and the queue would find the pod.
func (w *world) helpsAsking(asked model.Need, waiting *model.Pod, e model.Event) bool {
	for _, r := range w.plugin.EventsToRegister() {
		switch {
		case !r.Concerns(e):
		case r.Asked == nil && r.Helps(waiting, e), r.Asked != nil && plugintest.Meets(&r, r.Asked.Cause(asked), e) && r.Asked.Hint(asked, e):
			return true
		}
	}
	return false
}

// place reserves devices for a pod on a node, and returns the placement with its steps
// before the binding.
func (w *world) place(t testing.TB, pod *model.Pod, node string) (*plan.Placement, error) {
	t.Helper()
	slot, _ := w.Slot(node)
	placement := &plan.Placement{Pod: pod, NodeName: node}
	var err error
	if placement.Holds, err = w.plugin.Reserve(w.View(), pod, slot); err != nil {
		return nil, err
	}
	placement.Steps, err = w.plugin.PreBind(w.View(), placement)
	return placement, err
}

// allocationIn returns the allocation that a hold promises.
func allocationIn(h plan.Hold) *resourcev1.AllocationResult {
	return h.Value.(*devices.Promise).Allocation
}

// protected is a claim that cannot be deleted while devices are allocated to it.
func protected(c *resourcev1.ResourceClaim) { c.Finalizers = []string{resourcev1.Finalizer} }
