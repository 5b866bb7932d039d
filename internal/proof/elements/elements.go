// Package elements counts what a value holds, so that tests can say that nothing of what is gone is kept, and that nothing was left out when they say so.
//
// It takes a pointer to a value of this project; it gives the number of elements of each map and slice that can be reached from it, in exported fields or
// not. It owns nothing, and never looks into functions, into what atomics and locks guard, or into values of other modules. It is for tests only.
package elements

import (
	"reflect"
	"strings"
)

// module is the beginning of the paths of the packages whose values are looked into.
const module = "github.com/berth-scheduler/berth"

// Of returns how many elements the maps, slices and channels have that can be reached from a value, by the type and the field that they are in: of all
// values of a type together.
func Of(value any) map[string]int {
	w := walk{seen: map[seen]bool{}, counts: map[string]int{}}
	w.value(reflect.ValueOf(value), "")
	return w.counts
}

// Reachable returns how many different values can be reached from a value by pointers, by their type: also in elements of slices beyond their length,
// which the garbage collector keeps.
func Reachable(value any) map[string]int {
	w := walk{seen: map[seen]bool{}, counts: map[string]int{}, beyond: true}
	w.value(reflect.ValueOf(value), "")
	byType := map[string]int{}
	for s := range w.seen {
		byType[s.is.String()]++
	}
	return byType
}

// seen is a value that was looked at: two of different types may have the same address.
type seen struct {
	at uintptr
	is reflect.Type
}

type walk struct {
	seen   map[seen]bool
	counts map[string]int
	beyond bool // the length of slices
}

func (w *walk) value(v reflect.Value, in string) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || w.seen[seen{v.Pointer(), v.Type()}] {
			return
		}
		w.seen[seen{v.Pointer(), v.Type()}] = true
		w.value(v.Elem(), in)
	case reflect.Interface:
		w.value(v.Elem(), in)
	case reflect.Struct:
		if of := v.Type(); of.PkgPath() == "" || strings.HasPrefix(of.PkgPath(), module) {
			for i := range v.NumField() {
				w.value(v.Field(i), of.String()+"."+of.Field(i).Name)
			}
		}
	case reflect.Map:
		w.counts[in] += v.Len()
		for all := v.MapRange(); all.Next(); {
			w.value(all.Key(), in+" keys")
			w.value(all.Value(), in+" values")
		}
	case reflect.Slice:
		w.counts[in] += v.Len()
		if w.beyond {
			v = v.Slice(0, v.Cap())
		}
		w.elements(v, in)
	case reflect.Array:
		w.elements(v, in)
	case reflect.Chan:
		w.counts[in] += v.Len()
	}
}

func (w *walk) elements(v reflect.Value, in string) {
	switch v.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.Chan:
		for i := range v.Len() {
			w.value(v.Index(i), in+" elements")
		}
	}
}
