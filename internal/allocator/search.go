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

	"github.com/berth-scheduler/berth/internal/price"
)

// A search may take very long: the allocator tries combinations of devices, and evaluates CEL that the authors of claims write.
// The allocator of k8s.io/dynamic-resource-allocation counts none of that, so the work is counted from outside, where its code
// calls code of ours: the context, whose Err it calls once for each device that it tries to allocate, and the logger, which gets
// a line for each device that it passes over, and one with the cost of each evaluation. Both calls are made by the goroutine of
// the search, so either can also stop it:
//
//   - A search that exceeds what its turn has left is abandoned, and its next one runs as a coroutine, on a copy of what is
//     allocated. It stands still where the turn's work is used up, and goes on in a later turn; nothing of it is lost.
//   - A search that exceeds the configured limit is given up. The limit is counted in the same units, about a nanosecond each,
//     so it does not depend on the machine or its load: the same search is always given up, or never.
//
// One evaluation of an expression, and the compilation of one, cannot be divided.

// Name identifies a search that can go on later: what is searched for, and all that the result depends on besides.
type Name struct{ Need, Devices [32]byte }

// ErrUnfinished means that the search goes on in a later turn.
var ErrUnfinished = errors.New("the search for devices goes on later")

// ErrTimeout means that the search was given up.
var ErrTimeout = errors.New("timed out trying to allocate devices")

// Prices of what a search does, in units.
const (
	searchPrice  = 10_000  // beginning one
	devicePrice  = 300     // of each device that can be used
	triedPrice   = 1_000   // trying to allocate a device
	passedPrice  = 300     // passing over a device
	evalPrice    = 4_000   // beginning an evaluation
	compilePrice = 300_000 // beginning a compilation
	compileByte  = 10_000  // compiling a byte
)

// leastWork is what a search may do at least, so that it ends some time, whatever else a turn has cost before.
const leastWork = price.Millisecond

// costPrice returns the price of a unit of CEL cost in an expression of a length. The interpreter of CEL keeps the elements of
// literal lists on a stack that it walks, so the same cost takes longer in a longer expression.
func costPrice(length int) int64 { return 110 + int64(length)*2/7 }

// search is one search. Its methods are called by the code that searches.
type search struct {
	allocator *Allocator
	name      Name
	// spent is the work so far, and until where it may go before the search stands still. compiled is the part of it that depends on
	// which expressions were known before. The search is given up where the rest exceeds limit; 0 is nowhere.
	spent, until, compiled, limit int64
	// pause stands still until the search may go on; it returns false if it never will. It is nil for a search that cannot.
	pause   func() bool
	results []resourcev1.AllocationResult
	err     error
	// resume and drop belong to a search that can stand still.
	resume func() (struct{}, bool)
	drop   func()
	used   uint64 // the allocator's clock when the search last ran
	bytes  int
}

// stopped is what a search panics with to leave the allocator's code.
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

// run searches until there is a result, or the search is stopped.
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

// counted is the context of a search. It is never canceled: Err counts how often it is called. The allocator calls it once for each
// device that it tries to allocate. Done is nil, so that evaluations, which derive contexts, start no goroutines.
type counted struct {
	context.Context
	of *search
}

func (counted) Deadline() (deadline time.Time, ok bool) { return deadline, false }
func (counted) Done() <-chan struct{}                   { return nil }

// Err counts a device that is tried.
func (c counted) Err() error {
	c.of.spend(triedPrice)
	return nil
}

// Value returns the search's own logger, and else the context's values.
func (c counted) Value(key any) any {
	if logger, ok := c.Context.Value(key).(logr.Logger); ok {
		return logger.WithSink(lines{c.of})
	}
	return c.Context.Value(key)
}

// lineLevel is the level of the allocator's lines about single devices.
const lineLevel = 7

// lines is the sink of a search's logger: it writes nothing, and counts the lines about single devices.
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

// Allocate returns an allocation for each claim; none without an error if they cannot be satisfied on the node. An error that is
// not ErrInvalidPools is about more than the node: kube-scheduler fails the pod's turn. After ErrUnfinished, a question with the
// same name goes on with the search.
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

// waitingMax bounds the memory of searches that stand still, of which one may need more.
const waitingMax = 32 << 20

// forgottenAfter is after how many searches one that stands still has been given up by whoever wanted it.
const forgottenAfter = 1 << 16

// begin returns the search of a question: a new one, or the one that stands still.
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

// goOnLater notes that a search is to go on, as far as memory allows. One for which there is no room begins anew in its next turn:
// those that stand still end before, as each of them is bounded.
func (a *Allocator) goOnLater(q *Question) {
	if q.Name == (Name{}) {
		return
	}
	bytes := bytesOf(q)
	if a.waitingBytes+bytes > waitingMax {
		for name, other := range a.waiting {
			if name.Need == q.Name.Need || a.clock-other.used > forgottenAfter {
				a.forget(other)
			}
		}
	}
	if a.waitingBytes > 0 && a.waitingBytes+bytes > waitingMax {
		return
	}
	a.waiting[q.Name] = &search{allocator: a, name: q.Name, limit: a.limit, used: a.clock, bytes: bytes}
	a.waitingBytes += bytes
}

// bytesOf returns about how many bytes a search needs while it stands still: which request can be given which device, and its stack.
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

// forget drops a search that stands still.
func (a *Allocator) forget(s *search) {
	delete(a.waiting, s.name)
	a.waitingBytes -= s.bytes
	if s.drop != nil {
		s.drop()
	}
}

// Waiting returns how many searches stand still, and about how many bytes they need.
func (a *Allocator) Waiting() (searches, bytes int) { return len(a.waiting), a.waitingBytes }

// copyOf returns what is allocated of the slices' devices: a search that stands still reads it while other devices are allocated.
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
	// Invariant: known are those that the cache has, bytes is about what they need.
	known map[string]struct{}
	bytes int
}

const (
	// expressionsMax bounds the bytes of compiled expressions.
	expressionsMax = 32 << 20
	// compiledByte and compiledBytes are about how many bytes a compiled expression needs, for each byte of text and besides.
	compiledByte, compiledBytes = 64, 16 << 10
)

func newExpressions(features cel.Features) expressions {
	e := expressions{features: features, known: map[string]struct{}{}}
	e.cache = cel.NewCache(expressionsMax/compiledBytes, features)
	return e
}

// price returns the price of an evaluation that had a CEL cost, and of the compilation if that was the expression's first one.
func (e *expressions) price(expression string, cost uint64) (evaluated, compiled int64) {
	if _, known := e.known[expression]; !known {
		e.known[expression] = struct{}{}
		e.bytes += compiledBytes + compiledByte*len(expression)
		compiled = compilation(len(expression))
	}
	return evalPrice + int64(min(cost, math.MaxInt32))*costPrice(len(expression)), compiled
}

// compilation returns the price of compiling an expression of a length.
func compilation(length int) int64 { return compilePrice + compileByte*int64(length) }

// evaluation returns the price of an evaluation of an expression of a length.
func evaluation(length int, details *celgo.EvalDetails) int64 {
	units := int64(evalPrice)
	if cost := details.ActualCost(); cost != nil {
		units += int64(min(*cost, math.MaxInt32)) * costPrice(length)
	}
	return units
}

// trim drops all expressions once they need too many bytes. A search that stands still keeps the cache that it began with.
func (e *expressions) trim() {
	if e.bytes > expressionsMax {
		*e = newExpressions(e.features)
	}
}

// silentContext is a context whose logger is off: the allocator logs each step of a search.
func silentContext() context.Context { return klog.NewContext(context.Background(), logr.Discard()) }
