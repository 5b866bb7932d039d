package allocator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/go-logr/logr"
	celgo "github.com/google/cel-go/cel"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/kit/price"
)

// A search may take very long: the allocator tries combinations of devices, and evaluates
// CEL expressions that the authors of claims write. The allocator of package
// k8s.io/dynamic-resource-allocation does not count its work, so the work is counted
// where the allocator calls back. It calls Err of the context once for each device that
// it tries to allocate. It writes a log line for each device that it passes over, and a
// log line with the cost of each evaluation. Both calls run on the goroutine of the
// search, so either can also stop the search:
//
//   - A search that exceeds the rest of the round's budget is abandoned. The next round
//     runs it as a coroutine, on a copy of the allocations. The coroutine pauses when the
//     budget is used up and continues in a later round, without losing any work.
//   - A search that exceeds the configured limit times out. The limit is counted in the
//     same units, about a nanosecond each. So it does not depend on the machine or its
//     load: the same search always times out, or never.
//
// A single evaluation or compilation of an expression cannot be divided.

// Name identifies a search that a later round can continue. Need stands for the
// requirements, Devices for all other inputs of the result.
type Name struct{ Need, Devices [32]byte }

// ErrUnfinished means that the search continues in a later round.
var ErrUnfinished = errors.New("the search for devices goes on later")

// ErrTimeout means that the search exceeded the configured limit.
var ErrTimeout = errors.New("timed out trying to allocate devices")

// Prices of the steps of a search, in units.
const (
	searchPrice  = 10_000  // starting a search
	devicePrice  = 300     // each device in the slices
	triedPrice   = 1_000   // trying to allocate a device
	passedPrice  = 300     // passing over a device
	evalPrice    = 4_000   // beginning an evaluation
	compilePrice = 300_000 // beginning a compilation
	compileByte  = 10_000  // compiling a byte
)

// leastWork is the minimum work of a search in a round, whatever the round has spent
// before. So every search ends eventually.
const leastWork = price.Millisecond

// costPrice returns the price of a unit of CEL cost in an expression of a length. The CEL
// interpreter keeps the elements of literal lists on a stack that it walks. So the same
// cost takes longer in a longer expression.
func costPrice(length int) int64 { return 110 + int64(length)*2/7 }

// search is a search for devices. The searching code calls its methods.
type search struct {
	allocator *Allocator
	name      Name
	// spent is the work so far. When it reaches until, the search pauses or stops.
	// compiled is the part of spent for compiling expressions, which depends on the
	// expressions compiled before. The search times out when spent without compiled
	// exceeds limit; 0 means never.
	spent, until, compiled, limit int64
	// pause blocks until the search may continue, and returns false if the search is
	// dropped. It is nil for a search that cannot pause.
	pause   func() bool
	results []resourcev1.AllocationResult
	err     error
	// resume and drop are set for a search that can pause.
	resume func() (struct{}, bool)
	drop   func()
	used   uint64 // the allocator's clock when the search last ran
	bytes  int
}

// stopped is the panic value that makes a search leave the allocator's code.
type stopped struct{ err error }

// spend counts work.
func (s *search) spend(units int64) {
	s.spent += units
	if s.limit > 0 && s.spent-s.compiled > s.limit {
		panic(stopped{ErrTimeout})
	}
	if s.spent >= s.until && (s.pause == nil || !s.pause()) {
		panic(stopped{ErrUnfinished})
	}
}

// run searches until the search has a result or is stopped.
func (s *search) run(q *Question) {
	defer func() {
		if reason := recover(); reason != nil {
			why, ok := reason.(stopped)
			if !ok {
				panic(reason)
			}
			s.err = why.err
		}
	}()
	ctx := counted{Context: s.allocator.silent, of: s}
	s.spend(searchPrice + devicePrice*devicesIn(q.Slices))
	finder, err := structured.NewAllocator(ctx, s.allocator.features, q.Allocated, classes{q.Class}, q.Slices, s.allocator.expressions.cache)
	if err != nil {
		s.err = err
		return
	}
	s.results, s.err = finder.Allocate(ctx, q.Node, q.Claims)
}

func devicesIn(all []*resourcev1.ResourceSlice) (n int64) {
	for _, slice := range all {
		n += int64(len(slice.Spec.Devices))
	}
	return n
}

// counted is the context of a search, and is never canceled. Err counts its calls: the
// allocator calls Err once for each device that it tries to allocate. Done is nil, so
// that evaluations, which derive contexts, start no goroutines.
type counted struct {
	context.Context
	of *search
}

func (counted) Deadline() (deadline time.Time, ok bool) { return deadline, false }
func (counted) Done() <-chan struct{}                   { return nil }

// Err counts a tried device.
func (c counted) Err() error {
	c.of.spend(triedPrice)
	return nil
}

// Value returns the search's own logger, and otherwise the context's values.
func (c counted) Value(key any) any {
	if logger, ok := c.Context.Value(key).(logr.Logger); ok {
		return logger.WithSink(lines{c.of})
	}
	return c.Context.Value(key)
}

// lineLevel is the level of the allocator's lines about single devices.
const lineLevel = 7

// lines is the sink of a search's logger. It writes nothing and counts the lines about
// single devices.
type lines struct{ of *search }

func (lines) Init(logr.RuntimeInfo)            {}
func (lines) Enabled(level int) bool           { return level == lineLevel }
func (lines) Error(error, string, ...any)      {}
func (l lines) WithValues(...any) logr.LogSink { return l }
func (l lines) WithName(string) logr.LogSink   { return l }
func (l lines) Info(_ int, msg string, about ...any) {
	if msg != "CEL result" {
		l.of.spend(passedPrice)
		return
	}
	var cost uint64
	var expression string
	for i := 0; i+1 < len(about); i += 2 {
		switch about[i] {
		case "actualCost":
			cost, _ = about[i+1].(uint64)
		case "expression":
			expression, _ = about[i+1].(string)
		}
	}
	evaluated, compiled := l.of.allocator.expressions.price(expression, cost)
	l.of.compiled += compiled
	l.of.spend(evaluated + compiled)
}

// Allocate returns an allocation for each claim, or none without an error if the node
// cannot satisfy the claims. Errors other than ErrInvalidPools concern more than the
// node: kube-scheduler fails the pod's turn. After ErrUnfinished, a question with the
// same name continues the search.
func (a *Allocator) Allocate(q *Question) ([]resourcev1.AllocationResult, error) {
	if !a.features.ConsumableCapacity && len(q.Allocated.AllocatedSharedDeviceIDs) > 0 {
		own := *q
		own.Allocated = withoutShares(q)
		q = &own
	}
	s := a.begin(q)
	before := s.spent
	s.until = math.MaxInt64
	if q.Meter != nil && q.Meter.Left() < math.MaxInt64 {
		s.until = before + max(q.Meter.Left(), leastWork)
	}
	going := false
	if s.resume != nil {
		_, going = s.resume()
	} else {
		s.run(q)
	}
	if q.Meter != nil {
		q.Meter.Spend(price.Devices, s.spent-before)
	}
	a.expressions.trim()
	if going {
		return nil, ErrUnfinished
	}
	a.end(s)
	results, err := s.results, s.err
	switch {
	case errors.Is(err, ErrTimeout):
		return nil, fmt.Errorf("node %s: %w", q.Node.Name, ErrTimeout)
	case errors.Is(err, ErrUnfinished):
		a.goOnLater(q)
		return nil, ErrUnfinished
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, ErrInvalidPools
	case err != nil:
		return nil, err
	}
	for i := range results {
		nameShares(q.Claims[i].UID, &results[i])
	}
	return results, nil
}

// maxWaiting bounds the memory of waiting searches. A single search may need more.
const maxWaiting = 32 << 20

// forgottenAfter is the number of other searches after which a waiting search counts as
// abandoned.
const forgottenAfter = 1 << 16

// begin returns the waiting search of a question, as a coroutine, or else a new search.
func (a *Allocator) begin(q *Question) *search {
	a.clock++
	s := a.waiting[q.Name]
	if s == nil {
		return &search{allocator: a, name: q.Name, limit: a.limit}
	}
	if s.used = a.clock; s.resume != nil {
		return s
	}
	own := *q
	own.Slices = slices.Clone(q.Slices)
	own.Allocated = copyOf(q)
	s.resume, s.drop = iter.Pull(func(yield func(struct{}) bool) {
		s.pause = func() bool { return yield(struct{}{}) }
		s.run(&own)
	})
	return s
}

// goOnLater registers a search to continue, if memory allows. Without memory, the search
// starts anew in the next round. Each waiting search is bounded, so memory becomes free
// eventually.
func (a *Allocator) goOnLater(q *Question) {
	if q.Name == (Name{}) {
		return
	}
	bytes := bytesOf(q)
	if a.waitingBytes+bytes > maxWaiting {
		for name, other := range a.waiting {
			if name.Need == q.Name.Need || a.clock-other.used > forgottenAfter {
				a.forget(other)
			}
		}
	}
	if a.waitingBytes > 0 && a.waitingBytes+bytes > maxWaiting {
		return
	}
	a.waiting[q.Name] = &search{allocator: a, name: q.Name, limit: a.limit, used: a.clock, bytes: bytes}
	a.waitingBytes += bytes
}

// bytesOf estimates the memory of a paused search, in bytes: its stack, and a table of
// the devices that suit each request.
func bytesOf(q *Question) int {
	requests := 0
	for _, claim := range q.Claims {
		for i := range claim.Spec.Devices.Requests {
			requests += max(1, len(claim.Spec.Devices.Requests[i].FirstAvailable))
		}
	}
	return 256<<10 + 128*requests*int(devicesIn(q.Slices))
}

// end forgets a search that has ended.
func (a *Allocator) end(s *search) {
	if a.waiting[s.name] == s {
		a.forget(s)
	}
}

// forget drops a waiting search.
func (a *Allocator) forget(s *search) {
	delete(a.waiting, s.name)
	a.waitingBytes -= s.bytes
	if s.drop != nil {
		s.drop()
	}
}

// Waiting returns the number of waiting searches, and their approximate bytes.
func (a *Allocator) Waiting() (searches, bytes int) { return len(a.waiting), a.waitingBytes }

// copyOf returns the allocations of the slices' devices. A paused search reads this copy
// while other devices are allocated.
func copyOf(q *Question) structured.AllocatedState {
	all := q.Allocated
	own := structured.AllocatedState{
		AllocatedDevices: sets.New[structured.DeviceID](), AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity: structured.ConsumedCapacityCollection{},
	}
	known := sets.New[structured.DeviceID]()
	for _, slice := range q.Slices {
		for i := range slice.Spec.Devices {
			id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name)
			known.Insert(id)
			if all.AllocatedDevices.Has(id) {
				own.AllocatedDevices.Insert(id)
			}
			if capacity, ok := all.AggregatedCapacity[id]; ok {
				own.AggregatedCapacity[id] = capacity.Clone()
			}
		}
	}
	for id := range all.AllocatedSharedDeviceIDs {
		if known.Has(id.GetDeviceID()) {
			own.AllocatedSharedDeviceIDs.Insert(id)
		}
	}
	return own
}

// expressions are compiled CEL expressions, bounded in bytes.
type expressions struct {
	features cel.Features
	cache    *cel.Cache
	// Invariant: known has the expressions in the cache, bytes their approximate size.
	known map[string]struct{}
	bytes int
}

const (
	// maxExpressions bounds the bytes of compiled expressions.
	maxExpressions = 32 << 20
	// compiledByte estimates the bytes of a compiled expression for each byte of its
	// text, compiledBytes the rest.
	compiledByte, compiledBytes = 64, 16 << 10
)

func newExpressions(features cel.Features) expressions {
	e := expressions{features: features, known: map[string]struct{}{}}
	e.cache = cel.NewCache(maxExpressions/compiledBytes, features)
	return e
}

// price returns the price of an evaluation with a CEL cost. For the first evaluation of
// an expression, compiled is the price of its compilation.
func (e *expressions) price(expression string, cost uint64) (evaluated, compiled int64) {
	if _, known := e.known[expression]; !known {
		e.known[expression] = struct{}{}
		e.bytes += compiledBytes + compiledByte*len(expression)
		compiled = CompilationUnits(len(expression))
	}
	return evalPrice + int64(min(cost, math.MaxInt32))*costPrice(len(expression)), compiled
}

// CompilationUnits returns the price of compiling an expression of a length.
func CompilationUnits(length int) int64 { return compilePrice + compileByte*int64(length) }

// EvaluationUnits returns the price of an evaluation of an expression of a length.
func EvaluationUnits(length int, details *celgo.EvalDetails) int64 {
	units := int64(evalPrice)
	if cost := details.ActualCost(); cost != nil {
		units += int64(min(*cost, math.MaxInt32)) * costPrice(length)
	}
	return units
}

// trim drops all expressions once they need too many bytes. A paused search keeps its old
// cache.
func (e *expressions) trim() {
	if e.bytes > maxExpressions {
		*e = newExpressions(e.features)
	}
}

// silentContext returns a context without logging: the allocator logs each step of a
// search.
func silentContext() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }
