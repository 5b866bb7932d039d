package state

import "slices"

// index finds items by keys. Each item is filed under its own keys and stores its
// positions, so removing it costs as much as it has keys, however many other items share
// them. The zero value is empty.
//
// Invariant: an item is listed once under each of its keys, at its recorded position, and
// nowhere else. No list is empty.
type index[K comparable, T filed[K]] struct{ under map[K][]T }

// filed is an item that can be in an index.
type filed[K comparable] interface {
	comparable
	// filing returns the item's keys and positions; only the index writes them.
	filing() *filing[K]
}

// filing is the keys of an item, with its position under each. The zero value is filed
// nowhere.
type filing[K comparable] struct {
	keys []K
	at   []int32
}

// add files an item, which is filed nowhere, under distinct keys.
func (x *index[K, T]) add(item T, keys []K) {
	if x.under == nil {
		x.under = map[K][]T{}
	}
	f := item.filing()
	f.keys, f.at = keys, make([]int32, len(keys))
	for i, key := range keys {
		f.at[i] = int32(len(x.under[key]))
		x.under[key] = append(x.under[key], item)
	}
}

// remove removes an item.
func (x *index[K, T]) remove(item T) {
	f := item.filing()
	for i, key := range f.keys {
		list := x.under[key]
		last := len(list) - 1
		if last == 0 {
			delete(x.under, key)
			continue
		}
		moved := list[last]
		list[f.at[i]] = moved
		other := moved.filing()
		other.at[slices.Index(other.keys, key)] = f.at[i]
		list[last] = *new(T)
		x.under[key] = list[:last]
	}
	*f = filing[K]{}
}

// listed returns the number of items listed under the keys.
func (x *index[K, T]) listed(keys []K) int {
	n := 0
	for _, key := range keys {
		n += len(x.under[key])
	}
	return n
}
