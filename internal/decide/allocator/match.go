package allocator

import (
	"context"
	"math"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

// Hints decides by selectors whether a pending pod might get a device. If the decision
// would cost too much, the answer is yes. A wrong yes is safe: the pod is tried, and the
// allocator evaluates its selectors. So hints compile no long expressions, and their
// limit of CEL cost is lower than the allocator's. One goroutine at a time may use Hints.
type Hints struct {
	features Features
	compiler interface {
		CompileCELExpression(expression string, options cel.Options) cel.CompilationResult
	}
	silent context.Context
	// Invariant: programs has compiled expressions by text, bytes is their approximate
	// size.
	programs map[string]*program
	bytes    int
}

// program is a compiled expression.
type program struct {
	cel.CompilationResult
	// driver is the only driver whose devices can satisfy the expression, or "" if the
	// expression names none. parsed means that driver is valid.
	driver string
	parsed bool
}

const (
	// hintLength is the maximum length of an expression that hints evaluate, hintCost the
	// limit of its CEL cost.
	hintLength, hintCost = 1 << 10, 2_000
	// maxPrograms bounds the bytes of compiled expressions.
	maxPrograms = 16 << 20
)

// NewHints returns hints.
func NewHints(features Features) *Hints {
	return &Hints{features: features, compiler: cel.GetCompiler(celFeatures(features)), silent: silentContext(), programs: map[string]*program{}}
}

// Work is the remaining budget of hints, in units. The last step may exceed it, so Work
// may become negative.
type Work int64

func (w *Work) spend(units int64) { *w -= Work(units) }

// IsOver reports whether no work is left.
func (w *Work) IsOver() bool { return *w <= 0 }

// Unlimited is Work without a limit.
const Unlimited = Work(math.MaxInt64)

// MayMatch reports whether the slices may have a device that satisfies all selectors. It
// also returns true if a selector cannot be evaluated or the work runs out. Nodes, taints
// and allocations are ignored.
func (h *Hints) MayMatch(selectors []resourcev1.DeviceSelector, slices []*resourcev1.ResourceSlice, left *Work) bool {
	if h.features.DerivedAttributes || h.features.CompatibilityGroups {
		return true // selection depends on more than the device's slice
	}
	for _, slice := range slices {
		for i := range slice.Spec.Devices {
			if h.mayMatch(selectors, slice.Spec.Driver, &slice.Spec.Devices[i], left) || left.IsOver() {
				return true
			}
		}
	}
	return false
}

// mayMatch reports whether a device may satisfy all selectors. If a selector cannot be
// evaluated, the result is true: a search that reaches the device would fail.
func (h *Hints) mayMatch(selectors []resourcev1.DeviceSelector, driver string, device *resourcev1.Device, left *Work) bool {
	left.spend(passedPrice)
	for i := range selectors {
		p := h.program(selectors[i].CEL, left)
		if p == nil || p.Error != nil || left.IsOver() {
			return true
		}
		matches, details, err := p.DeviceMatches(h.silent, cel.Device{
			Driver: driver, AllowMultipleAllocations: device.AllowMultipleAllocations, Attributes: device.Attributes, Capacity: device.Capacity,
		})
		left.spend(EvaluationUnits(len(p.Expression), details))
		if err != nil || left.IsOver() {
			return true
		}
		if !matches {
			return false
		}
	}
	return true
}

// program returns a compiled selector, or nil if hints do not compile it.
func (h *Hints) program(selector *resourcev1.CELDeviceSelector, left *Work) *program {
	if selector == nil || len(selector.Expression) > hintLength {
		return nil
	}
	text := selector.Expression
	p := h.programs[text]
	if p == nil {
		limit := uint64(hintCost)
		p = &program{CompilationResult: h.compiler.CompileCELExpression(text, cel.Options{DisableCostEstimation: true, CostLimit: &limit})}
		left.spend(CompilationUnits(len(text)))
		if bytes := compiledBytes + compiledByte*len(text); h.bytes+bytes > maxPrograms {
			clear(h.programs)
			h.bytes = bytes
		} else {
			h.bytes += bytes
		}
		h.programs[text] = p
	}
	return p
}

// satisfies reports whether a device satisfies all selectors. known is false if a
// selector cannot be evaluated and none before it is false.
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

// DriverOf returns the driver of all devices that satisfy the selectors. It recognizes
// literal comparisons such as device.driver == "gpu.example.com", also in conjunctions.
// It returns "" if the selectors name no driver or the work runs out.
func (h *Hints) DriverOf(selectors []resourcev1.DeviceSelector, left *Work) string {
	for i := range selectors {
		if left.IsOver() {
			return ""
		}
		p := h.program(selectors[i].CEL, left)
		if p == nil || p.Error != nil {
			continue
		}
		if !p.parsed {
			p.parsed = true
			left.spend(CompilationUnits(len(p.Expression)))
			if parsed, issues := p.Environment.Parse(p.Expression); issues == nil {
				p.driver = driverIn(parsed.NativeRep().Expr())
			}
		}
		if p.driver != "" {
			return p.driver
		}
	}
	return ""
}

// driverIn returns the driver that a device must have for the expression to be true, or
// "" if any driver may do. A conjunction with a false part is false, even if another part
// is an error.
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

// literal returns the text of a string literal, or "" for other expressions.
func literal(e ast.Expr) string {
	if e.Kind() != ast.LiteralKind {
		return ""
	}
	text, _ := e.AsLiteral().(types.String)
	return string(text)
}
