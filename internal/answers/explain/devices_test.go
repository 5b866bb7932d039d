package explain_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

const driver = "gpu.example.com"

// ofYAML decodes a part of an object.
func ofYAML[T any](t *testing.T, text string) (to T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), &to); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return to
}

func sliceOn(t *testing.T, node, spec string) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "slice-" + node}, Spec: ofYAML[resourcev1.ResourceSliceSpec](t, spec)}
	slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.Pool.Name = driver, &node, node
	slice.Spec.Pool.ResourceSliceCount = max(slice.Spec.Pool.ResourceSliceCount, 1)
	return slice
}

func deviceClass(name, selector string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: selector}}}}}
}

func claimOf(t *testing.T, name, spec string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	claim.Spec.Devices = ofYAML[resourcev1.DeviceClaim](t, spec)
	return claim
}

// allocated is a claim that has devices of a node, by name.
func allocated(t *testing.T, name, node string, names ...string) *resourcev1.ResourceClaim {
	claim := claimOf(t, name, "requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]")
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for _, device := range names {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: node, Device: device})
	}
	return claim
}

func using(claim string) build.PodOption {
	return func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "c", ResourceClaimName: &claim}} }
}

// explained explains a pod that uses claim c.
func explained(t *testing.T, nodes string, objects []runtime.Object) (*explain.Snapshot, *explain.Explanation) {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	s, err := explain.New(scheduler, build.NodesInZones(nodes), []*v1.Pod{build.Pod(using("c"))}, objects, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Of(s.Pending()[0])
	if err != nil {
		t.Fatal(err)
	}
	return s, a
}

// lackingOn returns what each node lacks that only DynamicResources rejects, the nearest
// node first, and the number of feasible nodes.
func lackingOn(t *testing.T, nodes string, objects []runtime.Object) (near []explain.NearNode, feasible int) {
	t.Helper()
	sum := func() explain.Summary { s, a := explained(t, nodes, objects); return s.Summarize(a) }()
	for _, n := range sum.Near {
		if n.Plugin == "DynamicResources" {
			near = append(near, n.Examples...)
		}
	}
	return near, sum.Feasible
}

// TestDevicesLacking explains a claim on a node for which the allocator finds nothing,
// for each check.
func TestDevicesLacking(t *testing.T) {
	const four = `{devices: [
		{name: gpu0, attributes: {model: {string: a100}, index: {int: 0}, numa: {int: 0}}, capacity: {memory: {value: 40Gi}}},
		{name: gpu1, attributes: {model: {string: a100}, index: {int: 1}, numa: {int: 0}}, capacity: {memory: {value: 40Gi}}},
		{name: gpu2, attributes: {model: {string: a100}, index: {int: 2}, numa: {int: 1}}, capacity: {memory: {value: 40Gi}}},
		{name: gpu3, attributes: {model: {string: h100}, index: {int: 3}, version: {version: 1.2.0}}, capacity: {memory: {value: 80Gi}}}]}`
	counters := []string{"{pool: {resourceSliceCount: 2}, sharedCounters: [{name: card, counters: {memory: {value: 40Gi}}}]}",
		`{pool: {resourceSliceCount: 2}, devices: [{name: a, consumesCounters: [{counterSet: card, counters: {memory: {value: 30Gi}}}]},
			{name: b, consumesCounters: [{counterSet: card, counters: {memory: {value: 30Gi}}}]}]}`}
	request := func(more string) string {
		return "requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1" + more + "}}]"
	}
	selecting := func(expression string) string {
		return request(fmt.Sprintf(", selectors: [{cel: {expression: %q}}]", expression))
	}
	two := "requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]\n"
	for _, test := range []struct {
		name   string
		slices []string
		claim  string
		used   []string // devices of other claims
		want   []string
	}{
		{"no device", nil, request(""), nil, []string{"claim c, request r, needs 1 of class gpu, and the node can use no device"}},
		{"incomplete pool", []string{"{pool: {resourceSliceCount: 2}, devices: [{name: a}]}"}, request(""), nil,
			[]string{"claim c, request r, device a: pool n1 has 1 of 2 slices; needs 1 of class gpu; of 1 on the node 1 in an incomplete or invalid pool"}},
		{"too many", []string{four}, request("")[:len(request(""))-4] + "9}}]", nil, []string{"claim c, request r, needs 9 of class gpu; of 4 on the node 4 free"}},
		{"another value", []string{four}, selecting(`device.attributes["gpu.example.com"].model == "b200"`), nil, []string{
			`claim c, request r, device gpu0: device.attributes["gpu.example.com"].model == "b200" is false: model is the string "a100"; needs 1 of class gpu; of 4 on the node 4 refused by the selector`}},
		{"another type", []string{four}, selecting(`device.driver == "gpu.example.com" && "0" == device.attributes["gpu.example.com"]["index"]`), nil, []string{
			`claim c, request r, device gpu0: "0" == device.attributes["gpu.example.com"]["index"] is false: index is the int 0, not a string; needs 1 of class gpu; of 4 on the node 4 refused by the selector`}},
		{"counters for one", counters, strings.Replace(request(""), "count: 1", "count: 2", 1), nil, []string{
			"claim c: request r needs 2 devices; the counters that the 2 free ones share are enough for 1"}},
		{"capacity in a selector", []string{four}, selecting(`device.capacity["gpu.example.com"].memory.compareTo(quantity("96Gi")) >= 0`), nil, []string{
			`claim c, request r, device gpu0: device.capacity["gpu.example.com"].memory.compareTo(quantity("96Gi")) >= 0 is false: memory is 40Gi; needs 1 of class gpu; of 4 on the node 4 refused by the selector`}},
		{"the rest is in use", []string{four}, selecting(`device.attributes["gpu.example.com"].model == "h100"`), []string{"gpu3"}, []string{
			"claim c, request r, device gpu3: is allocated to another claim; needs 1 of class gpu; of 4 on the node 3 refused by the selector, 1 allocated"}},
		{"taints", []string{"{devices: [{name: a, taints: [{key: broken, value: 'yes', effect: NoSchedule}, {key: other, effect: NoExecute}]}]}"},
			request(", tolerations: [{key: broken, operator: Exists}]"), nil,
			[]string{"claim c, request r, device a: has the taint other:NoExecute; needs 1 of class gpu; of 1 on the node 1 tainted"}},
		{"counters", counters, request(""), []string{"a"}, []string{
			"claim c, request r, device b: needs 30Gi of counter memory in set card, 10Gi left; needs 1 of class gpu; of 2 on the node 1 allocated, 1 without counters left"}},
		{"no value for two", []string{four}, two + "constraints: [{matchAttribute: gpu.example.com/numa}]", []string{"gpu0"}, []string{
			"claim c: matchAttribute gpu.example.com/numa needs 2 devices with one value; at most 1 have one (0); without it: gpu3"}},
		{"no value at all", []string{"{devices: [{name: a}, {name: b}]}"}, two + "constraints: [{matchAttribute: gpu.example.com/numa}]", nil, []string{
			"claim c: matchAttribute gpu.example.com/numa needs 2 devices with one value; no free device has the attribute; without it: a, b"}},
		{"two want the same", []string{"{devices: [{name: a}]}"}, "requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}, {name: s, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1}}]",
			nil, []string{"claim c: each request has devices, and not all of them together"}},
		{"none of all", []string{four}, `requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: All, selectors: [{cel: {expression: "false"}}]}}]`, nil, []string{
			"claim c, request r, device gpu0: false is false; needs all of class gpu; of 4 on the node 4 refused by the selector"}},
		{"all, and one is taken", []string{four}, `requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: All}}]`, []string{"gpu1"}, []string{
			"claim c, request r, device gpu1: is allocated to another claim; needs all of class gpu; of 4 on the node 1 allocated, 3 free"}},
		{"a shared device is used up", []string{"{devices: [{name: a, allowMultipleAllocations: true, capacity: {memory: {value: 40Gi, requestPolicy: {default: 30Gi, validValues: [20Gi, 30Gi]}}}}]}"},
			strings.Replace(request(""), "count: 1", "count: 2", 1), nil, []string{"claim c, request r, needs 2 of class gpu; of 1 on the node 1 free"}},
		{"a shared device is too small", []string{"{devices: [{name: a, allowMultipleAllocations: true, capacity: {memory: {value: 40Gi, requestPolicy: {default: 20Gi, validValues: [20Gi, 30Gi]}}}}]}"},
			request(", capacity: {requests: {memory: 35Gi}}"), nil,
			[]string{"claim c, request r, device a: capacity memory: 35Gi is more than one claim may have; needs 1 of class gpu; of 1 on the node 1 too small"}},
		{"neither alternative", []string{four}, "requests: [{name: r, firstAvailable: [{name: large, deviceClassName: gpu, allocationMode: ExactCount, count: 9}, {name: small, deviceClassName: net, allocationMode: ExactCount, count: 1}]}]",
			nil, []string{"claim c, request r/large, needs 9 of class gpu; of 4 on the node 4 free",
				`claim c, request r/small, device gpu0: device.driver == "net.example.com" is false: driver is "gpu.example.com"; needs 1 of class net; of 4 on the node 4 not of the class`}},
		{"a macro cannot be split", []string{four}, selecting("[\"b\"].exists(m, m == \"a\") &&\n\t\"0\" == \"1\""), nil, []string{
			`claim c, request r, device gpu0: ["b"].exists(m, m == "a") && "0" == "1" is false; needs 1 of class gpu; of 4 on the node 4 refused by the selector`}},
		{"not of the class", []string{"{devices: [{name: a}]}"}, strings.Replace(request(""), "gpu", "net", 1), nil, []string{
			`claim c, request r, device a: device.driver == "net.example.com" is false: driver is "gpu.example.com"; needs 1 of class net; of 1 on the node 1 not of the class`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			objects := []runtime.Object{deviceClass("gpu", `device.driver == "gpu.example.com"`), deviceClass("net", `device.driver == "net.example.com"`), claimOf(t, "c", test.claim)}
			for i, spec := range test.slices {
				slice := sliceOn(t, "n1", spec)
				slice.Name = fmt.Sprint("slice-", i)
				objects = append(objects, slice)
			}
			if len(test.used) > 0 {
				objects = append(objects, allocated(t, "d", "n1", test.used...))
			}
			near, feasible := lackingOn(t, "n1=z1", objects)
			if len(near) != 1 || feasible != 0 || !slices.Equal(near[0].InTheWay, test.want) {
				t.Errorf("%d feasible nodes, got %+v\nwant %q", feasible, near, test.want)
			}
		})
	}
}

// TestNearestDevices: the node whose device passes the most checks comes first.
func TestNearestDevices(t *testing.T) {
	claim := claimOf(t, "c", `requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 1, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "a"'}}]}}]`)
	near, _ := lackingOn(t, "n1=z1 n2=z1 n3=z1 n4=z1", []runtime.Object{
		deviceClass("gpu", "true"), claim,
		sliceOn(t, "n2", "{devices: [{name: d, attributes: {model: {string: b}}}]}"),
		sliceOn(t, "n3", "{devices: [{name: d, attributes: {model: {string: a}}}]}"), allocated(t, "d", "n3", "d"),
		sliceOn(t, "n4", "{pool: {resourceSliceCount: 2}, devices: [{name: d, attributes: {model: {string: a}}}]}"),
	})
	var names []string
	for _, n := range near {
		names = append(names, n.Name)
	}
	if got, want := strings.Join(names, " "), "n3 n2 n1 n4"; got != want {
		t.Errorf("the nodes are %s, want %s", got, want)
	}
}

// TestDevicesLackingAgreesWithTheAllocator compares random claims of one request with the
// allocator: a node has an explanation exactly if the allocator finds no devices there.
func TestDevicesLackingAgreesWithTheAllocator(t *testing.T) {
	rejected, placed, failed := 0, 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		one := func(of ...string) string { return of[r.IntN(len(of))] }
		constraint := one("", "", "{matchAttribute: gpu.example.com/numa}")
		constrained := constraint != ""
		objects := []runtime.Object{
			deviceClass("gpu", one("true", "true", `device.driver == "gpu.example.com"`, `device.attributes["gpu.example.com"].model != "x"`)),
			claimOf(t, "c", fmt.Sprintf("requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: %d%s%s}}]\nconstraints: [%s]", 1+r.IntN(12)/5,
				one("", "", `, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].model == "a"'}}]`, `, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].index == "1"'}}]`,
					`, selectors: [{cel: {expression: 'device.attributes["gpu.example.com"].index < 2 || device.attributes["gpu.example.com"].model == "b"'}}]`),
				one("", ", tolerations: [{key: t, operator: Exists}]"), constraint)),
		}
		for node := range 3 {
			name := fmt.Sprint("n", node+1)
			var devices, used []string
			for i := range r.IntN(6) {
				devices = append(devices, fmt.Sprintf("{name: d%d, attributes: {model: {string: %s}, index: {int: %d}%s}%s%s}", i, one("a", "a", "b", "x"), i,
					one("", fmt.Sprintf(", numa: {int: %d}", r.IntN(2))),
					one("", "", ", taints: [{key: t, effect: NoSchedule}]", ", taints: [{key: t, effect: None}]"),
					one("", ", consumesCounters: [{counterSet: card, counters: {memory: {value: 20Gi}}}]")))
				if r.IntN(5) == 0 {
					used = append(used, fmt.Sprint("d", i))
				}
			}
			count := cmp.Or(r.IntN(6), 3) / 5 // a sixth of the pools lack a slice
			objects = append(objects, sliceOn(t, name, fmt.Sprintf("{pool: {resourceSliceCount: %d}, devices: [%s]}", 2+count, strings.Join(devices, ", "))))
			shared := sliceOn(t, name, fmt.Sprintf("{pool: {resourceSliceCount: %d}, sharedCounters: [{name: card, counters: {memory: {value: 40Gi}}}]}", 2+count))
			shared.Name += "-counters"
			objects = append(objects, shared)
			if len(used) > 0 {
				objects = append(objects, allocated(t, "used-"+name, name, used...))
			}
		}
		s, a := explained(t, "n1=z1 n2=z1 n3=z1", objects)
		if a.Error != "" {
			failed++ // a selector cannot be evaluated
			continue
		}
		for _, n := range a.Nodes {
			lines := s.DevicesLacking(a, n.Name)
			// Constraints and counters together are not explained.
			if n.Feasible != (len(lines) == 0) && (n.Feasible || !constrained) {
				t.Errorf("seed %d: %s is feasible: %t, and its explanation is %q", seed, n.Name, n.Feasible, lines)
			}
			if n.Feasible {
				placed++
			} else {
				rejected++
			}
		}
	}
	t.Logf("%d nodes rejected, %d feasible, %d pods failed", rejected, placed, failed)
	if rejected < 200 || placed < 200 {
		t.Errorf("%d nodes are rejected and %d feasible, which tests too little", rejected, placed)
	}
}

// TestManyNodesAreNotExamined: nodes beyond the bound come after all examined nodes.
func TestManyNodesAreNotExamined(t *testing.T) {
	objects := []runtime.Object{deviceClass("gpu", "true"), claimOf(t, "c", "requests: [{name: r, exactly: {deviceClassName: gpu, allocationMode: ExactCount, count: 2}}]")}
	var nodes []string
	for i := range 205 {
		node := fmt.Sprintf("n%03d", i)
		nodes = append(nodes, node+"=z1")
		objects = append(objects, sliceOn(t, node, fmt.Sprintf("{devices: [{name: d, attributes: {uuid: {string: u%d}}}]}", i)))
	}
	near, _ := lackingOn(t, strings.Join(nodes, " "), objects)
	if near[0].Name != "n000" {
		t.Errorf("%s is nearest, and was not examined", near[0].Name)
	}
}
