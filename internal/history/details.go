package history

import "github.com/berth-scheduler/berth/internal/plan"

// details are those of the last decisions that were recorded, numbered from 1 in their order, the oldest forgotten first.
type details struct {
	// Invariant: kept has the details from number first+1 on, of which gone are forgotten; bytes is the sum of what the others take, at most bytesMax.
	kept            []kept
	gone            int
	first           uint64
	bytes, bytesMax int
}

type kept struct {
	detail plan.Detail
	bytes  int
}

// add keeps details and returns their number, 0 if they take more than there is.
func (k *details) add(d *plan.Detail) uint64 {
	size := sizeOfDetail(d)
	if size > k.bytesMax {
		return 0
	}
	for k.bytes+size > k.bytesMax {
		k.bytes -= k.kept[k.gone].bytes
		k.kept[k.gone] = kept{}
		k.gone++
	}
	if k.gone > 64 && k.gone > len(k.kept)/2 { // each is moved up once for one that was forgotten
		n := copy(k.kept, k.kept[k.gone:])
		clear(k.kept[n:])
		k.kept, k.first, k.gone = k.kept[:n], k.first+uint64(k.gone), 0
	}
	k.kept = append(k.kept, kept{*d, size})
	k.bytes += size
	return k.first + uint64(len(k.kept))
}

// of returns the details with a number, nil if they are forgotten or there never were any.
func (k *details) of(number uint64) *plan.Detail {
	if number <= k.first+uint64(k.gone) || number > k.first+uint64(len(k.kept)) {
		return nil
	}
	return &k.kept[number-k.first-1].detail
}

// What parts of details take, about; texts are shared.
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
