package slab

import "testing"

// TestOne checks that slices do not share an element, even after appending to one.
func TestOne(t *testing.T) {
	var s Slab[int]
	slices := make([][]int, 3*chunk)
	for i := range slices {
		slices[i] = s.One(i)
		_ = append(slices[i], -1)
	}
	for i, one := range slices {
		if len(one) != 1 || one[0] != i {
			t.Fatalf("slice %d is %v", i, one)
		}
	}
	if allocations := testing.AllocsPerRun(10*chunk, func() { s.One(1) }); allocations != 0 {
		t.Errorf("a slice costs %v allocations", allocations)
	}
}
