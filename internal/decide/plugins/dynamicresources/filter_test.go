package dynamicresources

import (
	"errors"
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

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

func TestFilter(t *testing.T) {
	selecting := func(expression string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: expression}}}
		}
	}
	ofClass := func(name string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly.DeviceClassName = name }
	}
	late := func(c *resourcev1.ResourceClaim) {
		c.Status.Allocation.AllocationTimestamp = &metav1.Time{Time: turn.Add(-10*time.Minute - time.Second)}
	}
	invalid := slice("b", "d0", "d0")
	incomplete := slice("b", "d0")
	incomplete.Spec.Pool.ResourceSliceCount = 2
	all := func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly.AllocationMode, c.Spec.Devices.Requests[0].Exactly.Count = resourcev1.DeviceAllocationModeAll, 0
	}
	for _, row := range []struct {
		name    string
		objects []runtime.Object
		claims  []string
		want    string
	}{
		{"nothing", nil, nil, "any"},
		{"no claim", nil, []string{"c"}, `all: could not find ResourceClaim "ns/c"`},
		{"being deleted", []runtime.Object{claim("c", 1, func(c *resourcev1.ResourceClaim) { c.DeletionTimestamp = &metav1.Time{Time: turn} })}, []string{"c"}, `all: resourceclaim "c" is being deleted`},
		{"no class", []runtime.Object{claim("c", 1, ofClass("tpu"))}, []string{"c"}, "all: request r: device class tpu does not exist"},
		{"no class of an alternative", []runtime.Object{claim("c", 1, func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly = nil
			for _, class := range []string{"gpu", "tpu", "npu"} {
				c.Spec.Devices.Requests[0].FirstAvailable = append(c.Spec.Devices.Requests[0].FirstAvailable, resourcev1.DeviceSubRequest{Name: class, DeviceClassName: class})
			}
		})}, []string{"c"}, "all: request r/tpu: device class tpu does not exist"},
		{"empty class", []runtime.Object{claim("c", 1, ofClass(""))}, []string{"c"}, "error: request r: unsupported request type"},
		{"unknown request", []runtime.Object{claim("c", 1, func(c *resourcev1.ResourceClaim) { c.Spec.Devices.Requests[0].Exactly = nil })}, []string{"c"}, "all: resource claim ns/c, request r: unknown request type"},
		{"one node has enough", []runtime.Object{slice("a", "d0"), slice("b", "d0", "d1"), claim("c", 2)}, []string{"c"}, "a: cannot allocate all claims; b"},
		{"another claim has the device", []runtime.Object{slice("a", "d0"), slice("b", "d0"), claim("c", 1), claim("o", 1, allocated("a", "d0"))}, []string{"c"}, "a: cannot allocate all claims; b"},
		{"two claims", []runtime.Object{slice("a", "d0"), slice("b", "d0", "d1"), claim("c", 1), claim("o", 1)}, []string{"c", "o"}, "a: cannot allocate all claims; b"},
		{"allocated", []runtime.Object{slice("a", "d0"), slice("b", "d0"), claim("c", 1, allocated("b", "d0"))}, []string{"c"}, "a: resourceclaim not available on the node; b"},
		{"allocated, and the class is gone", []runtime.Object{claim("c", 1, ofClass("tpu"), allocated("b", "d0"))}, []string{"c"}, "a: resourceclaim not available on the node; b"},
		{"the same claim twice", []runtime.Object{slice("a", "d0"), slice("b", "d0", "d1"), claim("c", 1)}, []string{"c", "c"}, "a: cannot allocate all claims; b"},
		{"allocated for all", []runtime.Object{claim("c", 0, allocated("b"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation.NodeSelector = nil })}, []string{"c"}, "a; b"},
		{"allocated and another that fits nowhere", []runtime.Object{slice("a", "d0"), slice("b", "d0"), claim("c", 1, allocated("b", "d0")), claim("o", 1)}, []string{"c", "o"}, "a: resourceclaim not available on the node; b: cannot allocate all claims"},
		{"ready", []runtime.Object{claim("c", 1, allocated("b", "d0"), prepared("Ready"), late)}, []string{"c"}, "a: resourceclaim not available on the node; b"},
		{"not ready yet", []runtime.Object{claim("c", 1, allocated("b", "d0"), prepared())}, []string{"c"}, "a: resourceclaim not available on the node; b"},
		{"not ready for too long", []runtime.Object{claim("c", 1, allocated("b", "d0"), prepared(), late)}, []string{"c"}, "a: resourceclaim not available on the node; b: resourceclaim not available on the node"},
		{"broken", []runtime.Object{claim("c", 1, allocated("b", "d0"), prepared("Ready", "Broken"))}, []string{"c"}, "a: resourceclaim not available on the node; b: resourceclaim not available on the node"},
		{"broken behind one that is not ready", []runtime.Object{claim("c", 2, allocated("b", "d0", "d1"), prepared("Broken"), func(c *resourcev1.ResourceClaim) { c.Status.Devices[0].Conditions = nil })}, []string{"c"}, "a: resourceclaim not available on the node; b"},
		{"broken, with nothing to wait for", []runtime.Object{claim("c", 1, allocated("b", "d0"), prepared("Broken"), func(c *resourcev1.ResourceClaim) { c.Status.Allocation.Devices.Results[0].BindingConditions = nil })}, []string{"c"}, "a: resourceclaim not available on the node; b"},
		{"a share is broken", []runtime.Object{claim("c", 1, allocated("b", "d0"), prepared("Broken"), func(c *resourcev1.ResourceClaim) {
			c.Status.Allocation.Devices.Results[0].ShareID = ptr.To(types.UID("s"))
		})}, []string{"c"}, "a: resourceclaim not available on the node; b: resourceclaim not available on the node"},
		{"invalid pool", []runtime.Object{slice("a", "d0"), invalid, claim("c", 1)}, []string{"c"}, "a; b: invalid resource pools were encountered"},
		{"all of an incomplete pool", []runtime.Object{slice("a", "d0"), incomplete, claim("c", 1, all)}, []string{"c"}, "a; b error: claim ns/c, request r: asks for all devices, but resource pool drv/b-pool is currently being updated"},
		{"selected", []runtime.Object{slice("a", "d0"), slice("b", "d0"), claim("c", 1, selecting(`device.driver == "other"`))}, []string{"c"}, "a: cannot allocate all claims; b: cannot allocate all claims"},
		{"broken selector", []runtime.Object{slice("a", "d0"), claim("c", 1, selecting(`device.attributes["drv"].index > 1`))}, []string{"c"}, "a error: claim ns/c: selector #0 on device drv/a-pool/d0: CEL runtime error: "},
	} {
		w := newWorld(t, row.objects...)
		if got := w.filter(t, pod("p", row.claims...)); got != row.want && (!strings.HasSuffix(row.want, "error: ") || !strings.HasPrefix(got, row.want)) {
			t.Errorf("%s: %s\nwant %s", row.name, got, row.want)
		}
	}
}

// PreEnqueue gates a pod until its claim from a template exists. The claim must belong to
// the pod.
func TestClaimOfTemplate(t *testing.T) {
	made := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "uid-p"}, Spec: v1.PodSpec{
		ResourceClaims: []v1.PodResourceClaim{{Name: "e", ResourceClaimTemplateName: ptr.To("t")}},
	}}
	named := made.DeepCopy()
	named.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "e", ResourceClaimName: ptr.To("c")}}
	without := made.DeepCopy()
	without.Status.ResourceClaimStatuses = []v1.PodResourceClaimStatus{{Name: "e"}}
	own := claim("c", 1, func(c *resourcev1.ResourceClaim) {
		c.OwnerReferences = []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "uid-p", Controller: ptr.To(true)}}
	})
	for _, row := range []struct {
		name    string
		pod     *v1.Pod
		objects []runtime.Object
		want    string
	}{
		{"no status", made, nil, `pod "ns/p": ResourceClaim not created yet`},
		{"no claim", named, nil, `could not find ResourceClaim "ns/c"`},
		{"its own", named, []runtime.Object{own}, ""},
		{"another's", named, []runtime.Object{claim("c", 1)}, "ResourceClaim ns/c was not created for Pod ns/p (Pod is not owner)"},
		{"none needed", without, nil, ""},
		{"nothing said", &v1.Pod{ObjectMeta: made.ObjectMeta, Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "x"}}}}, nil, `pod "ns/p", spec.resourceClaim "x": none of the supported fields are set`},
	} {
		w := newWorld(t, row.objects...)
		p := model.NewPod(row.pod)
		if got := w.plugin.PreEnqueueIn(w.View(), p); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
		if got := w.plugin.PreFilter(w.View(), p).Rejection; got != row.want {
			t.Errorf("%s: PreFilter says %q, want %q", row.name, got, row.want)
		}
	}
}

// Pods whose claims have equal requests share columns, whatever the names. All inputs of
// verdicts make needs differ.
func TestNeeds(t *testing.T) {
	text := func(w *world, p *model.Pod) string {
		found, err := w.plugin.FilterNeedIn(w.View(), p)
		need := found.Need
		if err != nil {
			t.Fatal(err)
		}
		return string(need.AppendText(nil))
	}
	w := newWorld(t, slice("a", "d0", "d1"), slice("b", "d0", "d1"), claim("c", 1), claim("d", 1), claim("e", 2))
	base := text(w, pod("p", "c"))
	if other := text(w, pod("q", "d")); other != base {
		t.Errorf("claims that ask alike have different needs:\n%s\n%s", base, other)
	}
	if other := text(w, pod("q", "e")); other == base {
		t.Error("claims for one and two devices have one need")
	}
	w.set(claim("x", 1, allocated("a", "d0")))
	if other := text(w, pod("p", "c")); other != base {
		t.Errorf("what is allocated on a node changes a need:\n%s\n%s", base, other)
	}
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}}
	w.set(class)
	if other := text(w, pod("p", "c")); other == base {
		t.Error("another class does not change a need")
	}
	several := claim("several", 1, func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, *c.Spec.Devices.Requests[0].DeepCopy())
		c.Spec.Devices.Requests[1].Name, c.Spec.Devices.Requests[1].Exactly.DeviceClassName = "s", "second"
	})
	second := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "second"}}
	w.set(several, second)
	before := text(w, pod("p", "several"))
	second = second.DeepCopy()
	second.Spec.Selectors = class.Spec.Selectors
	w.set(second)
	if other := text(w, pod("p", "several")); other == before {
		t.Error("another second class does not change a need")
	}
	wide := slice("a", "d0")
	wide.Name, wide.Spec.NodeName, wide.Spec.AllNodes, wide.Spec.Pool.Name = "wide", nil, ptr.To(true), "wide"
	base = text(w, pod("p", "c"))
	w.set(wide)
	if other := text(w, pod("p", "c")); other != base {
		t.Error("devices of all nodes change a need")
	}
	given := text(w, pod("p", "x"))
	w.set(claim("x", 1, allocated("b", "d0")))
	if other := text(w, pod("p", "x")); other == given {
		t.Error("where an allocation can be used does not change a need")
	}
	given = text(w, pod("p", "x"))
	w.set(claim("x", 1, allocated("b", "d0"), prepared("Broken")))
	if other := text(w, pod("p", "x")); other == given {
		t.Error("that an allocation is broken does not change a need")
	}
}

// The first alternative counts 8, and each further alternative 1 less.
func TestScore(t *testing.T) {
	device := func(s *resourcev1.ResourceSlice, kinds ...string) *resourcev1.ResourceSlice {
		for i, kind := range kinds {
			s.Spec.Devices[i].Attributes = map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"kind": {StringValue: &kind}}
		}
		return s
	}
	prefer := func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly = nil
		for _, kind := range []string{"big", "mid", "small"} {
			c.Spec.Devices.Requests[0].FirstAvailable = append(c.Spec.Devices.Requests[0].FirstAvailable, resourcev1.DeviceSubRequest{
				Name: kind, DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
				Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: `device.attributes["drv"].kind == "` + kind + `"`}}},
			})
		}
	}
	given := func(c *resourcev1.ResourceClaim) {
		prefer(c)
		allocated("a", "d9")(c)
		c.Status.Allocation.Devices.Results[0].Request, c.Status.Allocation.NodeSelector = "r/small", nil
	}
	w := newWorld(t, device(slice("a", "d0", "d1"), "small", "mid"), device(slice("b", "d0"), "big"), claim("c", 0, prefer), claim("d", 0, prefer), claim("plain", 1), claim("given", 1, given))
	for _, row := range []struct {
		claims []string
		want   [2]int32
		none   bool
	}{
		{[]string{"c"}, [2]int32{7, 8}, false},
		{[]string{"c", "d"}, [2]int32{7 + 6, 0}, false},
		{[]string{"plain"}, [2]int32{}, true},
		{[]string{"given"}, [2]int32{}, true},
		{[]string{"given", "c"}, [2]int32{6 + 7, 6 + 8}, false},
		{[]string{"given", "plain"}, [2]int32{6, 6}, false},
		{nil, [2]int32{}, true},
	} {
		need, err := w.plugin.ScoreNeedIn(w.View(), pod("p", row.claims...))
		if err != nil || (need == nil) != row.none {
			t.Fatalf("%v: need %v, %v", row.claims, need, err)
		}
		if row.none {
			continue
		}
		scores, err := need.Compile()
		if err != nil {
			t.Fatal(err)
		}
		var got [2]int32
		for i, name := range []string{"a", "b"} {
			slot, _ := w.Slot(name)
			got[i] = scores.Score(w.View().Node(slot))
		}
		if got != row.want {
			t.Errorf("%v: %v, want %v", row.claims, got, row.want)
		}
	}
}

// Needs for scores differ by existing allocations and by requests. A single alternative
// suffices for a need.
func TestScoreNeedsDiffer(t *testing.T) {
	given := func(request string) func(*resourcev1.ResourceClaim) {
		return func(c *resourcev1.ResourceClaim) {
			c.Spec.Devices.Requests[0].Exactly = nil
			for _, name := range []string{"big", "small"} {
				c.Spec.Devices.Requests[0].FirstAvailable = append(c.Spec.Devices.Requests[0].FirstAvailable, resourcev1.DeviceSubRequest{Name: name, DeviceClassName: "gpu"})
			}
			allocated("a", "d9")(c)
			c.Status.Allocation.Devices.Results[0].Request, c.Status.Allocation.NodeSelector = request, nil
		}
	}
	alone := func(c *resourcev1.ResourceClaim) {
		c.Spec.Devices.Requests[0].Exactly = nil
		c.Spec.Devices.Requests[0].FirstAvailable = []resourcev1.DeviceSubRequest{{Name: "only", DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}
	}
	w := newWorld(t, slice("a", "d0", "d1"), claim("big", 1, given("r/big")), claim("small", 1, given("r/small")), claim("one", 1), claim("two", 2), claim("alone", 1, alone))
	seen := map[string]string{}
	for _, claims := range [][]string{{"big", "one"}, {"small", "one"}, {"big", "two"}, {"big", "small", "one"}, {"alone"}} {
		need, err := w.plugin.ScoreNeedIn(w.View(), pod("p", claims...))
		if err != nil || need == nil {
			t.Fatalf("%q: %v, %v", claims, need, err)
		}
		text := string(need.AppendText([]byte("x")))
		if other := seen[text]; other != "" || text[0] != 'x' {
			t.Errorf("%q and %s have the same need", claims, other)
		}
		seen[text] = strings.Join(claims, " ")
	}
	if need, err := w.plugin.ScoreNeedIn(w.View(), pod("p", "missing")); need != nil || errorText(err) != `could not find ResourceClaim "ns/missing"` {
		t.Errorf("a pod whose claim is missing has the need %v, %v", need, err)
	}
}

// Beyond the bound, further errors share the code of the last kept error.
func TestErrorsAreBounded(t *testing.T) {
	f := &finder{}
	for i := range 2 * maxErrs {
		err := fmt.Errorf("error %d", i)
		if code := f.fails(err); code != reason.Failed|reason.Code(min(i, maxErrs-1)) {
			t.Errorf("error %d has the code %d", i, code)
		}
	}
	if code := f.fails(errors.New("error 7")); code != reason.Failed|7 || len(f.errs) != maxErrs {
		t.Errorf("a known error has the code %d, and %d are kept", code, len(f.errs))
	}
}
