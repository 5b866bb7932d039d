package history

import "github.com/berth-scheduler/berth/internal/model/plan"

// details has the details of the last recorded decisions, numbered from 1. The oldest are
// dropped first.
type details struct {
	// Invariant: kept has the details from number first+1 on, and the first gone of them
	// are dropped. bytes is the total size of the others, at most maxBytes.
	kept            []kept
	gone            int
	first           uint64
	bytes, maxBytes int
}

type kept struct {
	detail plan.Detail
	bytes  int
}

// add stores details and returns their number, 0 if they exceed the limit.
func (k *details) add(d *plan.Detail) uint64 {
	size := sizeOfDetail(d)
	if size > k.maxBytes {
		return 0
	}
	for k.bytes+size > k.maxBytes {
		k.bytes -= k.kept[k.gone].bytes
		k.kept[k.gone] = kept{}
		k.gone++
	}
	// each move of an element pays for one dropped element
	if k.gone > 64 && k.gone > len(k.kept)/2 {
		n := copy(k.kept, k.kept[k.gone:])
		clear(k.kept[n:])
		k.kept, k.first, k.gone = k.kept[:n], k.first+uint64(k.gone), 0
	}
	k.kept = append(k.kept, kept{*d, size})
	k.bytes += size
	return k.first + uint64(len(k.kept))
}

// of returns the details with a number, nil if they were dropped or never existed.
func (k *details) of(number uint64) *plan.Detail {
	if number <= k.first+uint64(k.gone) || number > k.first+uint64(len(k.kept)) {
		return nil
	}
	return &k.kept[number-k.first-1].detail
}

// The approximate sizes of the parts of details. Texts are shared and not counted.
const (
	detailBytes  = 128
	nodeBytes    = 128
	scoreBytes   = 48
	removalBytes = 64
)

func sizeOfDetail(d *plan.Detail) int {
	size := detailBytes + removalBytes*len(d.Removed)
	for i := range d.Best {
		size += nodeBytes + scoreBytes*len(d.Best[i].Scores)
	}
	return size
}
