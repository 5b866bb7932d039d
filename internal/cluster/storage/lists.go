package storage

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
)

// shorter returns the list, in less memory if far more than needed is allocated.
func shorter[T any](list []T) []T {
	if cap(list) > 64 && len(list) < cap(list)/4 {
		return append(make([]T, 0, 2*len(list)), list...)
	}
	return list
}

// drop removes the element at a position and moves the last element there. It calls moved
// with the moved element.
func drop[T any](list []T, at int, moved func(T, int)) []T {
	last := len(list) - 1
	if at != last {
		list[at] = list[last]
		moved(list[at], at)
	}
	clear(list[last:])
	return shorter(list[:last])
}

// without removes an element of a short list, if present.
func without[T comparable](list []T, one T) []T {
	if i := slices.Index(list, one); i >= 0 {
		return drop(list, i, func(T, int) {})
	}
	return list
}

// volumeList has volumes by size and name, in parts of bounded length, so that inserting
// or removing a volume moves few others.
//
// Invariant: the volumes of the parts, one after the other, are sorted. No part is empty
// or longer than maxPart, and no two neighbours together have less than half of maxPart.
type volumeList struct{ parts [][]*volume }

const maxPart = 256

func bySize(a, b *volume) int {
	return cmp.Or(cmp.Compare(a.Capacity, b.Capacity), strings.Compare(a.name, b.name))
}

// partOf returns the first part that ends with the volume or after it; the last part if
// all end before.
func (l *volumeList) partOf(v *volume) int {
	p := sort.Search(len(l.parts), func(i int) bool { part := l.parts[i]; return bySize(part[len(part)-1], v) >= 0 })
	return min(p, len(l.parts)-1)
}

func (l *volumeList) isEmpty() bool { return len(l.parts) == 0 }

func (l *volumeList) insert(v *volume) {
	if len(l.parts) == 0 {
		l.parts = [][]*volume{{v}}
		return
	}
	p := l.partOf(v)
	at, _ := slices.BinarySearchFunc(l.parts[p], v, bySize)
	part := slices.Insert(l.parts[p], at, v)
	l.parts[p] = part
	if len(part) > maxPart {
		half := slices.Clone(part[maxPart/2:])
		clear(part[maxPart/2:])
		l.parts[p] = part[:maxPart/2]
		l.parts = slices.Insert(l.parts, p+1, half)
	}
}

// remove removes a volume, which must be listed with its current size.
func (l *volumeList) remove(v *volume) {
	p := l.partOf(v)
	at, _ := slices.BinarySearchFunc(l.parts[p], v, bySize)
	l.parts[p] = shorter(slices.Delete(l.parts[p], at, at+1))
	if len(l.parts[p]) == 0 {
		l.parts = shorter(slices.Delete(l.parts, p, p+1))
		return
	}
	l.merge(p)
	l.merge(p - 1)
}

// merge merges a part with the next one if they are short.
func (l *volumeList) merge(p int) {
	if p >= 0 && p+1 < len(l.parts) && len(l.parts[p])+len(l.parts[p+1]) < maxPart/2 {
		l.parts[p] = append(l.parts[p], l.parts[p+1]...)
		l.parts = shorter(slices.Delete(l.parts, p+1, p+2))
	}
}

// from calls yield with the volumes of at least a size.
func (l *volumeList) from(size int64, yield func(*model.Volume) bool) {
	first := sort.Search(len(l.parts), func(i int) bool { part := l.parts[i]; return part[len(part)-1].Capacity >= size })
	for p := first; p < len(l.parts); p++ {
		part := l.parts[p]
		if p == first {
			at, _ := slices.BinarySearchFunc(part, size, func(v *volume, size int64) int { return cmp.Compare(v.Capacity, size) })
			part = part[at:]
		}
		for _, v := range part {
			if !yield(v.Volume) {
				return
			}
		}
	}
}
