package storage

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

// TestVolumeList inserts and removes volumes at random, up to thousands and down to none,
// and compares with a sorted slice.
func TestVolumeList(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 3))
		var l volumeList
		var want []*volume
		for phase := range 12 {
			target := []int{3000, 900, 10, 0}[phase%4] / (1 + phase/4)
			for len(want) != target {
				if len(want) < target {
					v := &volume{Volume: &model.Volume{Capacity: int64(r.IntN(1 + phase*40))}, name: fmt.Sprint(r.Uint64())}
					l.insert(v)
					at, _ := slices.BinarySearchFunc(want, v, bySize)
					want = slices.Insert(want, at, v)
				} else {
					at := r.IntN(len(want))
					l.remove(want[at])
					want = slices.Delete(want, at, at+1)
				}
				if len(want)%97 != 0 && len(want) > 5 {
					continue
				}
				size := int64(r.IntN(1 + phase*40))
				var have, fit []*model.Volume
				l.from(size, func(v *model.Volume) bool { have = append(have, v); return len(have) < 400 })
				for _, v := range want {
					if v.Capacity >= size && len(fit) < 400 {
						fit = append(fit, v.Volume)
					}
				}
				v := audit.Of("list")
				l.audit(v, "c")
				if !slices.Equal(have, fit) || l.isEmpty() != (len(want) == 0) || v.Err() != nil {
					t.Fatalf("seed %d: of %d volumes %d are listed from size %d on, want %d; %v", seed, len(want), len(have), size, len(fit), v.Err())
				}
			}
		}
		if cap(l.parts) > 64 {
			t.Errorf("an empty list keeps room for %d parts", cap(l.parts))
		}
	}
}

// TestListsGiveMemoryBack empties a long list in random order: each element has its
// position, and little memory is left.
func TestListsGiveMemoryBack(t *testing.T) {
	type element struct{ at int }
	r := rand.New(rand.NewPCG(1, 1))
	var list []*element
	for i := range 10_000 {
		list = append(list, &element{i})
	}
	for len(list) > 0 {
		list = drop(list, r.IntN(len(list)), func(moved *element, at int) { moved.at = at })
		if len(list)%100 == 0 {
			if i := slices.IndexFunc(list, func(e *element) bool { return list[e.at] != e }); i >= 0 {
				t.Fatalf("the element at position %d says %d", i, list[i].at)
			}
			if cap(list) > 64 && cap(list) > 4*len(list) {
				t.Fatalf("a list of %d has room for %d", len(list), cap(list))
			}
		}
	}
}
