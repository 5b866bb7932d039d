package amount

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// near returns the texts of quantities near the limits of 64 bits, and of ordinary
// quantities.
func near(r *rand.Rand) string {
	switch r.IntN(4) {
	case 0:
		return fmt.Sprint(r.IntN(1000), []string{"", "m", "n", "Mi", "k"}[r.IntN(5)])
	case 1:
		return fmt.Sprint(1+r.IntN(99), []string{"E", "Ei", "P", "Pi", "e30", "e18", "e15"}[r.IntN(7)])
	case 2:
		return fmt.Sprint(uint64(math.MaxInt64)-uint64(r.IntN(1001)), []string{"", "m", "u", "n"}[r.IntN(4)])
	}
	return fmt.Sprint("-", r.IntN(100), []string{"", "E", "m"}[r.IntN(3)])
}

// scaled is the quantity in 10 to the power of -places, rounded up, between 0 and Max.
func scaled(q resource.Quantity, places int) int64 {
	exact, ok := new(big.Rat).SetString(q.AsDec().String())
	if !ok {
		panic(q.String())
	}
	exact.Mul(exact, new(big.Rat).SetInt64(int64(math.Pow10(places))))
	n := new(big.Int).Neg(exact.Num())
	n.Div(n, exact.Denom()).Neg(n)
	switch {
	case n.Sign() < 0:
		return 0
	case !n.IsInt64():
		return Max
	}
	return n.Int64()
}

// TestQuantities is a property test: sums of random quantities are rounded up and
// saturate.
func TestQuantities(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b := resource.MustParse(near(r)), resource.MustParse(near(r))
		for range r.IntN(3) {
			a.Add(b)
		}
		if got, want := Whole(a), scaled(a, 0); got != want {
			t.Fatalf("seed %d: %s is %d in whole units, want %d", seed, a.String(), got, want)
		}
		if got, want := Milli(a), scaled(a, 3); got != want {
			t.Fatalf("seed %d: %s is %d in thousandths, want %d", seed, a.String(), got, want)
		}
		if got, x, y := CompareMilli(a, b), scaled(a, 3), scaled(b, 3); x != y && got > 0 != (x > y) ||
			x == y && x < Max && got != 0 || x == Max && y == Max && got != a.Cmp(b) {
			t.Fatalf("seed %d: %s compared with %s is %d", seed, a.String(), b.String(), got)
		}
	}
}

func TestAdd(t *testing.T) {
	for _, row := range [][3]int64{
		{1, 2, 3}, {Max, 1, Max}, {Max, Max, Max}, {Max - 1, 1, Max}, {5, -7, -2}, {Max, -Max, 0}, {math.MinInt64, -1, math.MinInt64},
	} {
		if got := Add(row[0], row[1]); got != row[2] {
			t.Errorf("%d + %d = %d, want %d", row[0], row[1], got, row[2])
		}
	}
}

func TestPercent(t *testing.T) {
	for seed := range uint64(20_000) {
		r := rand.New(rand.NewPCG(seed, 2))
		whole := 1 + r.Int64()>>r.IntN(63)
		part := r.Int64N(whole) + r.Int64N(2)
		n := big.NewInt(part)
		n.Mul(n, big.NewInt(100)).Div(n, big.NewInt(whole))
		if got := Percent(part, whole); got != n.Int64() {
			t.Fatalf("seed %d: %d of %d is %d%%, want %d", seed, part, whole, got, n)
		}
	}
}
