package model

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/berth-scheduler/berth/internal/model/amount"
)

// unlimited is an exact sum of amounts by resource.
type unlimited map[ResourceKey]*big.Int

func (e unlimited) add(r *Resources, sign int64) {
	for key, value := range amountsOf(r) {
		if e[key] == nil {
			e[key] = new(big.Int)
		}
		e[key].Add(e[key], big.NewInt(sign*value))
	}
}

func amountsOf(r *Resources) map[ResourceKey]int64 {
	all := map[ResourceKey]int64{{kind: cpuKind}: r.CPUMilli, {kind: memoryKind}: r.MemoryBytes, {kind: ephemeralKind}: r.EphemeralBytes}
	for _, s := range r.Scalars {
		all[scalarKey(s.Name)] = s.Value
	}
	return all
}

// hugeOrNot returns random amounts, many of them close to the maximum of an amount.
func hugeOrNot(r *rand.Rand, scalars int) Resources {
	one := func() int64 {
		return []int64{0, 1, 1000, amount.Max, amount.Max - r.Int64N(5), 1<<62 + r.Int64N(3), r.Int64()}[r.IntN(7)]
	}
	all := Resources{CPUMilli: one(), MemoryBytes: one(), EphemeralBytes: one()}
	for i := range scalars {
		if r.IntN(2) == 0 {
			all.Scalars = append(all.Scalars, Scalar{ResourceNameOf(fmt.Sprintf("e.io/%02d", i)), one()})
		}
	}
	return all
}

// TestSumsAreExactAgain is a property test. Pods come and go in any order, also several
// at once. Each sum must equal the sum over the present pods, limited to amount.Max.
func TestSumsAreExactAgain(t *testing.T) {
	for seed := range uint64(2_000) {
		r := rand.New(rand.NewPCG(seed, 3))
		scalars := []int{0, 3, fewScalars + 5}[r.IntN(3)]
		var sum Sum
		var there []Resources
		want := unlimited{}
		for step := range 40 {
			switch n := len(there); {
			case n == 0 || r.IntN(5) < 3:
				there = append(there, hugeOrNot(r, scalars))
				sum.Add(&there[n], +1)
				want.add(&there[n], +1)
			case r.IntN(4) == 0: // all pods from one on, by their sum
				at := r.IntN(n)
				var part Sum
				for i := range there[at:] {
					part.Add(&there[at+i], +1)
					want.add(&there[at+i], -1)
				}
				if before := sum.Clone(); r.IntN(2) == 0 {
					sum.AddSum(&part, -1)
					sum.AddSum(&part, +1)
					if !sum.Equal(&before) {
						t.Fatalf("seed %d, step %d: %v without a part and with it is %v", seed, step, before, sum)
					}
				}
				sum.AddSum(&part, -1)
				there = there[:at]
			default:
				at := r.IntN(n)
				sum.Add(&there[at], -1)
				want.add(&there[at], -1)
				there[at] = there[n-1]
				there = there[:n-1]
			}
			if r.IntN(4) == 0 {
				copied := sum.Clone() // has its own memory
				copied.Add(&Resources{CPUMilli: amount.Max}, +1)
				copied.DropZeros()
			}
			for key, exact := range want {
				limited := int64(amount.Max)
				if exact.IsInt64() {
					limited = exact.Int64()
				}
				if got := key.In(&sum.Resources); got != limited {
					t.Fatalf("seed %d, step %d: %v is %d, want %d", seed, step, key, got, limited)
				}
			}
		}
	}
}
