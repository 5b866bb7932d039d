package allocator

import (
	"context"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// MayMatch reports whether slices have a device that satisfies all selectors, or one of which that cannot be known. It looks at no node, taint or use.
func (a *Allocator) MayMatch(selectors []resourcev1.DeviceSelector, slices []*resourcev1.ResourceSlice) bool {
	if a.features.DerivedAttributes || a.features.CompatibilityGroups {
		return true // a device has more to be selected by than its slice says, or is usable with some others only
	}
	for _, slice := range slices {
		for i := range slice.Spec.Devices {
			if a.mayMatch(selectors, slice.Spec.Driver, &slice.Spec.Devices[i]) {
				return true
			}
		}
	}
	return false
}

func (a *Allocator) mayMatch(selectors []resourcev1.DeviceSelector, driver string, device *resourcev1.Device) bool {
	is, known := satisfies(a.silent, a.cel, selectors, cel.Device{
		Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity,
	})
	return is || !known // what cannot be evaluated fails a search that comes to the device
}

// satisfies reports whether a device satisfies all selectors; that is not known if one of them cannot be evaluated before another one is false.
func satisfies(ctx context.Context, cache *cel.Cache, selectors []resourcev1.DeviceSelector, device cel.Device) (is, known bool) {
	for i := range selectors {
		if selectors[i].CEL == nil {
			return false, false
		}
		compiled := cache.GetOrCompile(selectors[i].CEL.Expression)
		if compiled.Error != nil {
			return false, false
		}
		if matches, _, err := compiled.DeviceMatches(ctx, device); err != nil || !matches {
			return false, err == nil
		}
	}
	return true, true
}

// DriverOf returns the driver of all devices that satisfy the selectors, as far as these say so in so many words: device.driver == "gpu.example.com",
// and more. It is empty if they do not.
func (a *Allocator) DriverOf(selectors []resourcev1.DeviceSelector) string {
	for i := range selectors {
		if selectors[i].CEL == nil {
			continue
		}
		compiled := a.cel.GetOrCompile(selectors[i].CEL.Expression)
		if compiled.Error != nil {
			continue
		}
		parsed, issues := compiled.Environment.Parse(compiled.Expression)
		if issues != nil {
			continue
		}
		if driver := driverIn(parsed.NativeRep().Expr()); driver != "" {
			return driver
		}
	}
	return ""
}

// driverIn returns the driver that a device has for which the expression is true, empty if it may have any. Where a part of a conjunction is false, it is
// false although another part is an error.
func driverIn(e ast.Expr) string {
	if e.Kind() != ast.CallKind {
		return ""
	}
	call := e.AsCall()
	args := call.Args()
	switch call.FunctionName() {
	case operators.LogicalAnd:
		for _, part := range args {
			if driver := driverIn(part); driver != "" {
				return driver
			}
		}
	case operators.Equals:
		for i, side := range args {
			if isDriver(side) {
				return literal(args[1-i])
			}
		}
	}
	return ""
}

func isDriver(e ast.Expr) bool {
	if e.Kind() != ast.SelectKind {
		return false
	}
	s := e.AsSelect()
	return s.FieldName() == "driver" && !s.IsTestOnly() && s.Operand().Kind() == ast.IdentKind && s.Operand().AsIdent() == "device"
}

// literal returns the text that the expression is, empty if it is another expression.
func literal(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	text, _ := e.AsLiteral().(types.String)
	return string(text)
}
