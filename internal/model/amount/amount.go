// Package amount computes with amounts of resources. It saturates where int64 would
// overflow.
//
// It takes quantities of the API, and amounts in the scheduler's units: thousandths of
// cpu, bytes, or whole units. It returns amounts between 0 and Max. It owns nothing.
//
// A quantity or a sum of quantities may exceed 64 bits. Quantity.Value returns 0 for such
// a quantity, and sums of int64 overflow. Without saturation, a pod that requests more
// than any node has would fit anywhere.
package amount

import (
	"math"
	"math/bits"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Max stands for itself and everything larger. No node has more.
const Max = math.MaxInt64

// milli is the number of thousandths in a unit.
const milli = 1000

var (
	maxWhole = resource.NewQuantity(Max, resource.DecimalSI)
	maxMilli = resource.NewMilliQuantity(Max, resource.DecimalSI)
)

// Whole returns a quantity in whole units, rounded up. It returns 0 for a negative
// quantity, which the API rejects.
func Whole(q resource.Quantity) int64 {
	if v, exact := q.AsInt64(); exact {
		return max(v, 0)
	}
	switch {
	case q.Sign() <= 0:
		return 0
	case q.Cmp(*maxWhole) >= 0:
		return Max
	}
	return q.Value()
}

// Milli returns a quantity in thousandths, rounded up. It returns 0 for a negative
// quantity.
func Milli(q resource.Quantity) int64 {
	if v, exact := q.AsInt64(); exact && v <= Max/milli {
		return max(v, 0) * milli
	}
	switch {
	case q.Sign() <= 0:
		return 0
	case q.Cmp(*maxMilli) >= 0:
		return Max
	}
	return q.MilliValue()
}

// CompareMilli compares two quantities in thousandths, rounded up. Beyond Max it compares
// exactly.
func CompareMilli(a, b resource.Quantity) int {
	x, y := Milli(a), Milli(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return +1
	case x == Max:
		return a.Cmp(b)
	}
	return 0
}

// Add returns the sum of two amounts.
func Add(a, b int64) int64 {
	sum := a + b
	if b >= 0 && sum < a {
		return Max
	}
	if b < 0 && sum > a {
		return math.MinInt64
	}
	return sum
}

// Percent returns the part in percent of the whole, rounded down. The part must be
// between 0 and the whole, which must be positive.
//
// For a whole below exactly, a division of floating point numbers gives the same result
// in half of the time. A quotient that is not a whole number is at least 1/exactly away
// from the next one, eight times the rounding error.
func Percent(part, whole int64) int64 {
	if whole < exactly {
		return int64(float64(part*hundred) / float64(whole))
	}
	return percentOfLarge(part, whole)
}

const (
	hundred = 100
	exactly = 1 << 44
)

func percentOfLarge(part, whole int64) int64 {
	if part <= Max/hundred {
		return part * hundred / whole
	}
	high, low := bits.Mul64(uint64(part), hundred)
	percent, _ := bits.Div64(high, low, uint64(whole))
	return int64(percent)
}
