package allocator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/kit/price"
)

// twoCards returns a slice with virtual functions of two network cards, and a claim that
// no combination of them satisfies. The last two requests must be on the same card, and
// on different cards. The allocator tries all devices for the requests before them.
func twoCards(devices int, before int64) (*resourcev1.ResourceSlice, *resourcev1.ResourceClaim) {
	slice := sliceOf("p")
	for i := range devices {
		card := fmt.Sprint("card", 2*i/devices)
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name: fmt.Sprint("vf", i), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"parent": {StringValue: &card}},
		})
	}
	claim := claimOf("a", "gpu", before)
	parent := resourcev1.FullyQualifiedName("x.drv/parent")
	for card, name := range []string{"s", "t"} {
		r := *claimOf("a", "gpu", 1).Spec.Devices.Requests[0].DeepCopy()
		r.Name = name
		r.Exactly.Selectors = selectors(fmt.Sprintf(`device.attributes["x.drv"].parent == "card%d"`, card))
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, r)
	}
	claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{Requests: []string{"s", "t"}, MatchAttribute: &parent}}
	return slice, claim
}

// costly returns an expression that takes long to evaluate and that the API server
// admits.
func costly(tail string) string {
	body := "true"
	for level := range 4 {
		body = fmt.Sprintf("[1,2,3,4,5,6,7,8,9,10].all(v%d, %s)", level, body)
	}
	return body + tail
}

// turns repeats a question, each time in a turn with a budget, until the search ends.
func turns(t testing.TB, a *Allocator, q *Question, budget int64, between func()) (results []resourcev1.AllocationResult, costs []int64, err error) {
	t.Helper()
	var meter price.Meter
	q.Name, q.Meter = Name{Need: [32]byte{1}, Devices: [32]byte{2}}, &meter
	for len(costs) < 10_000 {
		meter.Begin(budget)
		results, err = a.Allocate(q)
		bill := meter.End()
		costs = append(costs, bill[price.Devices])
		if !errors.Is(err, ErrUnfinished) {
			return results, costs, err
		}
		between()
	}
	t.Fatal("the search does not end")
	return nil, nil, nil
}

// TestSearchGoesOnLater runs a search that needs many turns. No turn exceeds its budget
// by more than a step. The result is the same as in a single turn, and devices allocated
// meanwhile are ignored. Only the work of the first turn is done twice.
func TestSearchGoesOnLater(t *testing.T) {
	const budget, step = 2 * price.Millisecond, price.Millisecond
	for _, row := range []struct {
		what    string
		devices int
		before  int64
		remove  bool // the constraint, so that a solution exists
	}{
		{"no solution", 14, 3, false},
		{"a solution", 14, 3, true},
	} {
		slice, claim := twoCards(row.devices, row.before)
		if row.remove {
			claim.Spec.Devices.Constraints = nil
			claim.Spec.Devices.Requests[0].Exactly.Selectors = selectors(costly(""))
		}
		whole := &price.Meter{}
		q := question([]*resourcev1.ResourceSlice{slice}, claim)
		q.Meter = whole
		want, err := New(Features{}, 0).Allocate(q)
		if err != nil || (want == nil) == row.remove {
			t.Fatalf("%s: %q, %v", row.what, devicesOf(want), err)
		}
		a := New(Features{}, 0)
		q = question([]*resourcev1.ResourceSlice{slice}, claim)
		turn := 0
		got, costs, err := turns(t, a, q, budget, func() {
			if turn++; turn == 1 {
				return // from the second turn on, the search reads a copy
			}
			for i := range slice.Spec.Devices { // another pod gets all devices
				q.Allocated.AllocatedDevices.Insert(structured.MakeDeviceID("x.drv", "p", slice.Spec.Devices[i].Name))
			}
		})
		if devicesOf(got) != devicesOf(want) || err != nil {
			t.Errorf("%s: in %d turns %q, %v, want %q", row.what, len(costs), devicesOf(got), err, devicesOf(want))
		}
		var sum int64
		for turn, cost := range costs {
			if sum += cost; cost > budget+step+costPrice(200)*40_000 {
				t.Errorf("%s: turn %d costs %d units of %d", row.what, turn, cost, budget)
			}
		}
		if once := whole.Total(); len(costs) < 5 || sum > costs[0]+once+step {
			t.Errorf("%s: %d turns cost %d units, one costs %d", row.what, len(costs), sum, once)
		}
		if searches, bytes := a.Waiting(); searches != 0 || bytes != 0 {
			t.Errorf("%s: %d searches of %d bytes stand still", row.what, searches, bytes)
		}
	}
}

// TestSearchIsGivenUpByItsWork checks that the limit of a search is counted work. Every
// run reaches the limit at the same point, however it is divided into turns. A search
// that needs a little less has a result.
func TestSearchIsGivenUpByItsWork(t *testing.T) {
	slice, claim := twoCards(14, 3)
	of := func() *Question { return question([]*resourcev1.ResourceSlice{slice}, claim) }
	known := New(Features{}, 0)
	var whole int64
	for range 2 { // the second run counts: its expressions are compiled already
		var meter price.Meter
		q := of()
		q.Meter = &meter
		if _, err := known.Allocate(q); err != nil {
			t.Fatal(err)
		}
		whole = meter.Total()
	}
	for _, row := range []struct {
		limit int64
		is    error
	}{{whole - 1, ErrTimeout}, {whole, nil}} {
		for _, budget := range []int64{0, 2 * price.Millisecond, 3 * price.Millisecond} {
			_, _, err := turns(t, New(Features{}, time.Duration(row.limit)), of(), budget, func() {})
			if !errors.Is(err, row.is) {
				t.Errorf("limit %d of %d units, budget %d: %v, want %v", row.limit, whole, budget, err, row.is)
			}
		}
	}
}

// TestSearchThatTriesNothingStops has many devices, and slow selectors that match none of
// them. The allocator evaluates the selectors in turn without trying a device. Each turn
// ends at most an evaluation too late.
func TestSearchThatTriesNothingStops(t *testing.T) {
	slice := sliceOf("p")
	for i := range 20 {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("d", i)})
	}
	claim := claimOf("a", "gpu", 1)
	claim.Spec.Devices.Requests[0].Exactly.Selectors = selectors(costly(""), costly(" && true"), "false")
	const budget = 5 * price.Millisecond
	results, costs, err := turns(t, New(Features{}, 0), question([]*resourcev1.ResourceSlice{slice}, claim), budget, func() {})
	if results != nil || err != nil || len(costs) < 10 {
		t.Errorf("in %d turns: %q, %v", len(costs), devicesOf(results), err)
	}
	evaluation := evalPrice + 40_000*costPrice(len(costly(" && true"))) + CompilationUnits(200)
	for turn, cost := range costs {
		if cost > budget+evaluation {
			t.Errorf("turn %d costs %d units of %d", turn, cost, budget)
		}
	}
}

// TestCostOfExpressionsIsCounted compares the counted work of a search with CEL's own
// cost of its only selector. It also compares a new expression with a compiled
// expression.
func TestCostOfExpressionsIsCounted(t *testing.T) {
	expression := costly("")
	compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(expression, cel.Options{})
	_, details, err := compiled.DeviceMatches(t.Context(), cel.Device{Driver: "x.drv"})
	if err != nil || *details.ActualCost() < 10_000 {
		t.Fatal(err, details.ActualCost())
	}
	a := New(Features{}, 0)
	spent := func(expression string) int64 {
		var meter price.Meter
		claim := claimOf("a", "gpu", 1)
		claim.Spec.Devices.Requests[0].Exactly.Selectors = selectors(expression)
		q := question([]*resourcev1.ResourceSlice{sliceOf("p", "d0")}, claim)
		q.Meter = &meter
		if _, err := a.Allocate(q); err != nil {
			t.Fatal(err)
		}
		return meter.Total()
	}
	spent("true")
	ground, first, again := spent("true"), spent(expression), spent(expression)
	want := int64(*details.ActualCost()) * costPrice(len(expression))
	if got := again - ground; got < want || got > want+want/100 {
		t.Errorf("an expression of cost %d counts %d units, want %d", *details.ActualCost(), got, want)
	}
	if got, want := first-again, CompilationUnits(len(expression)); got != want {
		t.Errorf("its compilation counts %d units, want %d", got, want)
	}
}

// TestTriesAreCounted checks that each tried device and each passed device is counted.
func TestTriesAreCounted(t *testing.T) {
	spent := func(devices, taken int) int64 {
		var meter price.Meter
		slice := sliceOf("p")
		var names []string
		for i := range devices {
			name := fmt.Sprint("d", i)
			slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{Name: name})
			if i < taken {
				names = append(names, name)
			}
		}
		q := question([]*resourcev1.ResourceSlice{slice}, claimOf("a", "gpu", int64(devices-taken)))
		q.Allocated, q.Meter = allocatedOf(names...), &meter
		if results, err := New(Features{}, 0).Allocate(q); len(results) != 1 || err != nil {
			t.Fatal(devicesOf(results), err)
		}
		return meter.Total() - devicePrice*int64(devices)
	}
	if few, more := spent(3, 2), spent(30, 29); more-few < 27*passedPrice {
		t.Errorf("passing over 2 devices counts %d units, over 29 %d", few, more)
	}
	// Before the n-th device is tried, n-1 devices in use are passed over. The log line
	// about its allocation counts, too. The ends of the request, the claim and the search
	// count as tries.
	const n = 20
	if got, want := spent(n, 0), int64(searchPrice+triedPrice*(n+3)+passedPrice*(n*(n-1)/2+n)); got != want {
		t.Errorf("trying %d devices counts %d units, want %d", n, got, want)
	}
}

// TestSearchesThatStandStillAreBounded begins more searches than memory allows. Waiting
// searches continue, and the others start anew until memory is free. Abandoned searches
// are forgotten.
func TestSearchesThatStandStillAreBounded(t *testing.T) {
	slice, claim := twoCards(14, 3)
	a := New(Features{}, 0)
	var meter price.Meter
	ask := func(need int) error {
		q := question([]*resourcev1.ResourceSlice{slice}, claim)
		q.Name, q.Meter = Name{Need: [32]byte{byte(need), byte(need >> 8), 1}}, &meter
		meter.Begin(price.Millisecond)
		defer meter.End()
		_, err := a.Allocate(q)
		return err
	}
	const needs = 300
	for round := range 2 {
		for need := range needs {
			if err := ask(need); !errors.Is(err, ErrUnfinished) {
				t.Fatal(err)
			}
			if searches, bytes := a.Waiting(); bytes > maxWaiting || searches > maxWaiting/(256<<10) {
				t.Fatalf("round %d: %d searches of %d bytes stand still", round, searches, bytes)
			}
		}
	}
	before, _ := a.Waiting()
	if before == 0 || before == needs {
		t.Fatalf("%d of %d searches stand still", before, needs)
	}
	for range 10_000 {
		if err := ask(0); err == nil {
			break
		}
	}
	if after, _ := a.Waiting(); after != before-1 {
		t.Errorf("%d searches stand still after one of %d has ended", after, before)
	}
	a.clock += forgottenAfter + 1
	for need := range 5 {
		_ = ask(needs + need) // memory is free for the search, or is freed
	}
	if searches, bytes := a.Waiting(); searches > 5+1 || bytes > maxWaiting {
		t.Errorf("%d searches of %d bytes stand still, of which nobody asks for most", searches, bytes)
	}
}

// TestExpressionsAreBounded evaluates very many different expressions. The bytes of
// compiled expressions stay bounded.
func TestExpressionsAreBounded(t *testing.T) {
	e := newExpressions(cel.Features{})
	text := strings.Repeat(" ", 10<<10)
	for i := range 10_000 {
		if _, units := e.price(fmt.Sprint(i, text), 0); units < CompilationUnits(len(text)) {
			t.Fatalf("expression %d counts %d units", i, units)
		}
		if e.trim(); e.bytes > maxExpressions {
			t.Fatalf("%d expressions take %d bytes", len(e.known), e.bytes)
		}
	}
	_, first := e.price("0", 0)
	if _, again := e.price("0", 0); first == 0 || again != 0 {
		t.Errorf("an expression counts %d units when it is new, %d when it is known", first, again)
	}
}
