package allocator

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/kit/price"
)

func selectors(expressions ...string) (s []resourcev1.DeviceSelector) {
	for _, e := range expressions {
		s = append(s, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: e}})
	}
	return s
}

// A device may match unless some selector is known to be false for it.
func TestMayMatch(t *testing.T) {
	model := "a"
	with := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"model": {StringValue: &model}}
	shared := true
	slices := []*resourcev1.ResourceSlice{
		{Spec: resourcev1.ResourceSliceSpec{Driver: "x.drv"}},
		{Spec: resourcev1.ResourceSliceSpec{Driver: "x.drv", Devices: []resourcev1.Device{{Name: "d0"}, {Name: "d1", Attributes: with, AllowMultipleAllocations: &shared}}}},
	}
	const isA = `device.attributes["x.drv"].?model.orValue("") == "a"`
	for _, row := range []struct {
		what      string
		features  Features
		selectors []resourcev1.DeviceSelector
		want      bool
	}{
		{"without selectors", Features{}, nil, true},
		{"the second device", Features{}, selectors(isA), true},
		{"both selectors of one device", Features{}, selectors(isA, `device.driver == "x.drv"`), true},
		{"of two selectors one", Features{}, selectors(isA, `device.driver == "y.drv"`), false},
		{"of two selectors the other", Features{}, selectors(`device.driver == "y.drv"`, isA), false},
		{"no device", Features{}, selectors(`device.attributes["x.drv"].?model.orValue("") == "b"`), false},
		{"shared devices", Features{ConsumableCapacity: true}, selectors(`device.allowMultipleAllocations`), true},
		{"an error for one device", Features{}, selectors(`device.attributes["x.drv"].model == "b"`), true},
		{"an error behind what is false", Features{}, selectors(`false`, `device.attributes["x.drv"].none == "b"`), false},
		{"an expression that does not compile", Features{}, selectors("device."), true},
		{"a selector of another kind", Features{}, []resourcev1.DeviceSelector{{}}, true},
		{"derived attributes", Features{DerivedAttributes: true}, selectors("false"), true},
		{"groups of devices", Features{CompatibilityGroups: true}, selectors("false"), true},
	} {
		left := Unlimited
		if got := NewHints(row.features).MayMatch(row.selectors, slices, &left); got != row.want {
			t.Errorf("%s: %t", row.what, got)
		}
	}
	if left := Unlimited; NewHints(Features{}).MayMatch(nil, slices[:1], &left) {
		t.Error("a slice without devices may match")
	}
}

// A driver is known only if no other driver can make an expression true.
func TestDriverOf(t *testing.T) {
	for _, row := range []struct {
		want      string
		selectors []resourcev1.DeviceSelector
	}{
		{"x", selectors(`device.driver == "x"`)},
		{"x", selectors(`"x" == device.driver`)},
		{"x", selectors(`true && (device.attributes["x"].a == 1 && device.driver == "x")`)},
		{"x", selectors(`true`, `device.driver == "x"`)},
		{"x", selectors("device.", `device.driver == "x"`)},
		{"x", append([]resourcev1.DeviceSelector{{}}, selectors(`device.driver == "x"`)...)},
		{"", nil},
		{"", selectors(`true`)},
		{"", selectors(`device.driver != "x"`)},
		{"", selectors(`device.driver == "x" || true`)},
		{"", selectors(`!(device.driver == "x")`)},
		{"", selectors(`device.driver == "x" ? true : true`)},
		{"", selectors(`device.driver == device.driver`)},
		{"", selectors(`"x" == "x"`)},
		{"", selectors(`1 == 1`)},
		{"", selectors(`device.attributes["d"].driver == "x"`)},
		{"", selectors(`["driver"].all(d, device.driver == "x" || d == "driver")`)},
	} {
		left := Unlimited
		if got := NewHints(Features{}).DriverOf(row.selectors, &left); got != row.want {
			t.Errorf("%s: %q, want %q", row.selectors, got, row.want)
		}
	}
}

// TestHintsAreCheap judges devices by selectors that take long to evaluate. Each hint
// exceeds its budget only a little, and the result is that the device may match.
func TestHintsAreCheap(t *testing.T) {
	slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: "x.drv"}}
	for i := range 128 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("d", i)})
	}
	long := "false" + strings.Repeat(" ", hintLength)
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("%d != %d", i, i+1))
	}
	const most = Work(2 * price.Millisecond)
	for _, row := range []struct {
		what      string
		selectors []resourcev1.DeviceSelector
		want      bool
	}{
		{"nested lists", selectors(costly(""), "false"), true},
		{"a long list", selectors("["+strings.Repeat("1,", 400)+"1].all(x, x == 1)", "false"), true},
		{"a long text", selectors(long), true},
		{"many selectors", append(selectors(many...), selectors("false")...), true},
		{"an ordinary one", selectors(`device.driver == "y.drv"`), false},
	} {
		h, left := NewHints(Features{}), most
		if row.want == false { // compiled before
			h.program(row.selectors[0].CEL, &left)
			left = most
		}
		got := h.MayMatch(row.selectors, []*resourcev1.ResourceSlice{slice}, &left)
		if one := Work(CompilationUnits(hintLength) + hintCost*costPrice(hintLength)); got != row.want || left < -one {
			t.Errorf("%s: %t, %d units over", row.what, got, -left)
		}
		left = most
		if h.DriverOf(row.selectors, &left); left < -Work(CompilationUnits(hintLength)) {
			t.Errorf("%s: finding the driver costs %d units too much", row.what, -left)
		}
	}
}
