package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/steady"
)

// index finds items by keys. Each item is filed under its own keys and stores its
// positions, so removing it costs as much as it has keys, however many other items share
// them. The zero value is empty.
//
// Invariant: an item is listed once under each of its keys, at its recorded position, and
// nowhere else. No list is empty.
type index[K comparable, T filed[K]] struct{ under steady.Map[K, []T] }

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

// manyKeys is the number of keys from which the lists of an item share one allocation.
// Few keys have a list each: most of them are of other items, too, so an array for all
// would be larger.
const manyKeys = 64

// add files an item, which is filed nowhere, under distinct keys.
func (x *index[K, T]) add(item T, keys []K) {
	f := item.filing()
	f.keys, f.at = keys, make([]int32, len(keys))
	var alone []T // backs the lists of keys that no other item has
	if len(keys) > manyKeys {
		alone = make([]T, len(keys))
	}
	for i, key := range keys {
		in := x.under.Of(key)
		list := in[key]
		if len(list) == 0 && alone != nil {
			list = alone[i : i : i+1]
		}
		f.at[i] = int32(len(list))
		in[key] = append(list, item)
	}
}

// remove removes an item.
func (x *index[K, T]) remove(item T) {
	f := item.filing()
	for i, key := range f.keys {
		in := x.under.Of(key)
		list := in[key]
		last := len(list) - 1
		if last == 0 {
			delete(in, key)
			continue
		}
		moved := list[last]
		list[f.at[i]] = moved
		other := moved.filing()
		other.at[slices.Index(other.keys, key)] = f.at[i]
		list[last] = *new(T)
		in[key] = list[:last]
	}
	*f = filing[K]{}
}

// listed returns the number of items listed under the keys.
func (x *index[K, T]) listed(keys []K) int {
	n := 0
	for _, key := range keys {
		n += len(x.under.Get(key))
	}
	return n
}
