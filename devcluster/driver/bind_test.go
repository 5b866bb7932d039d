package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// now is the time of the checks, a second after the claims' allocation.
var now = time.Unix(1_000_000, 0)

// claim returns a claim with devices such as "gpu-0 gpu-1 other/gpu-0 plain-0". A prefix
// names another driver, and plain ones have no binding conditions. A share of a device is
// "gpu-0#share".
func claim(devices string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{}
	at := metav1.NewTime(now.Add(-time.Second))
	c.Status.Allocation = &resourcev1.AllocationResult{AllocationTimestamp: &at}
	for text := range strings.FieldsSeq(devices) {
		r := resourcev1.DeviceRequestAllocationResult{Driver: "d.example", Pool: "n"}
		if driver, rest, ok := strings.Cut(text, "/"); ok {
			r.Driver, text = driver, rest
		}
		if device, share, ok := strings.Cut(text, "#"); ok {
			r.ShareID, text = new(types.UID(share)), device
		}
		if r.Device = text; !strings.HasPrefix(text, "plain") {
			r.BindingConditions, r.BindingFailureConditions = []string{"powered", "attached"}, []string{"failed"}
		}
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, r)
	}
	return c
}

// conditions returns the conditions of a claim's devices.
func conditions(c *resourcev1.ResourceClaim) string {
	if c == nil {
		return "nothing"
	}
	var all []string
	for _, d := range c.Status.Devices {
		text := d.Device
		if d.ShareID != nil {
			text += "#" + *d.ShareID
		}
		for _, condition := range d.Conditions {
			text += fmt.Sprintf(" %s=%s", condition.Type, condition.Status)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestAnswers(t *testing.T) {
	for _, test := range []struct {
		devices, annotation, want string
	}{
		{"", "", "nothing"},
		{"plain-0 other/gpu-0", "", "nothing"},
		{"gpu-0", "", "gpu-0 powered=True attached=True"},
		{"gpu-0 plain-0 other/gpu-1 gpu-2", "", "gpu-0 powered=True attached=True, gpu-2 powered=True attached=True"},
		{"gpu-0#a gpu-0#b", "", "gpu-0#a powered=True attached=True, gpu-0#b powered=True attached=True"},
		{"gpu-0 gpu-1", "*=hold", "nothing"},
		{"gpu-0 gpu-1", "gpu-0=hold", "gpu-1 powered=True attached=True"},
		{"gpu-0 gpu-1", "*=hold,gpu-1=fail", "gpu-1 failed=True"},
		{"gpu-0 gpu-1", "gpu-1=fail,*=hold", "gpu-1 failed=True"},
		{"gpu-0", "*=fail", "gpu-0 failed=True"},
		{"gpu-0", "*=fial", "nothing"},
		{"gpu-0", "*", "nothing"},
	} {
		o, n := testOptions(t, "--binding-conditions"), node("n", "")
		n.Annotations = map[string]string{"d.example/attach": test.annotation}
		before := claim(test.devices)
		kept := before.DeepCopy()
		answered, later := o.answered(before, func(_, device string) verdict { return o.verdict(n, device) }, now)
		if got := conditions(answered); got != test.want || later != 0 {
			t.Errorf("%s with %q: %s in %v, want %s", test.devices, test.annotation, got, later, test.want)
		}
		if conditions(before) != conditions(kept) {
			t.Errorf("%s with %q: the claim in the cache has changed", test.devices, test.annotation)
		}
	}
}

// TestAnswersStay answers twice: with other annotations, beside another writer's
// condition, and after the claim has lost its devices.
func TestAnswersStay(t *testing.T) {
	o := testOptions(t, "--binding-conditions")
	answer := func(c *resourcev1.ResourceClaim, v verdict) *resourcev1.ResourceClaim {
		answered, _ := o.answered(c, func(string, string) verdict { return v }, now)
		return answered
	}
	failed := answer(claim("gpu-0"), fail)
	for _, v := range []verdict{attach, hold, fail} {
		if got := conditions(answer(failed, v)); got != "nothing" {
			t.Errorf("a device that failed then is answered with %s", got)
		}
	}
	failed.Status.Allocation.Devices.Results = append(failed.Status.Allocation.Devices.Results, claim("gpu-1").Status.Allocation.Devices.Results...)
	if got, want := conditions(answer(failed, attach)), "gpu-0 failed=True, gpu-1 powered=True attached=True"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	failed.Status.Allocation, failed.Status.Devices = nil, nil
	if got := conditions(answer(failed, attach)); got != "nothing" {
		t.Errorf("a claim without devices is answered with %s", got)
	}
	empty := claim("gpu-0")
	empty.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "d.example", Pool: "n", Device: "gpu-0"}}
	if got, want := conditions(answer(empty, fail)), "gpu-0 failed=True"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAnswersTakeTime(t *testing.T) {
	c, always := claim("gpu-0"), func(string, string) verdict { return attach }
	for delay, want := range map[string]time.Duration{"0s": 0, "1s": 0, "1500ms": 500 * time.Millisecond, "1m": 59 * time.Second} {
		answered, later := testOptions(t, "--binding-conditions --binding-delay "+delay).answered(c, always, now)
		if later != want || (answered == nil) != (want > 0) {
			t.Errorf("delay %s: %s in %v, want %v", delay, conditions(answered), later, want)
		}
	}
	c.Status.Allocation.AllocationTimestamp = nil
	if answered, later := testOptions(t, "--binding-conditions --binding-delay 1m").answered(c, always, now); answered == nil || later != 0 {
		t.Errorf("without a timestamp: %s in %v", conditions(answered), later)
	}
}

// TestVerdictOfSharedPool combines the verdicts of all nodes of a shared pool, and uses
// one node's for a pool with its name.
func TestVerdictOfSharedPool(t *testing.T) {
	nodes := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for name, annotation := range map[string]string{"a": "gpu-0=hold", "b": "gpu-0=fail,gpu-1=hold", "c": ""} {
		n := node(name, "")
		n.Annotations = map[string]string{"d.example/attach": annotation}
		if err := nodes.Add(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		args, pool, device string
		want               verdict
	}{
		{"--shared-pool rack", "rack", "gpu-0", fail},
		{"--shared-pool rack", "rack", "gpu-1", hold},
		{"--shared-pool rack", "rack", "gpu-2", attach},
		{"", "a", "gpu-0", hold},
		{"", "b", "gpu-0", fail},
		{"", "c", "gpu-0", attach},
		{"", "gone", "gpu-0", hold},
	} {
		b := &binder{options: testOptions(t, test.args), nodes: corelisters.NewNodeLister(nodes)}
		if got := b.verdict(test.pool, test.device); got != test.want {
			t.Errorf("%q: %s of pool %s: %q, want %q", test.args, test.device, test.pool, got, test.want)
		}
	}
}
