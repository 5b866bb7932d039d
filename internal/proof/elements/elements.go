// Package elements counts the elements that a value holds. Tests use it to detect leaks,
// and to check that a leak test covers every field.
//
// It takes a pointer to a value of this project. It returns the number of elements of
// each map and slice that is reachable from it, in exported fields or not. It owns
// nothing. It never looks into functions, into the values that atomics and locks guard,
// or into values of other modules. It is for tests only.
package elements

import (
	"reflect"
	"strings"
)

// module is the path prefix of the packages whose values are examined.
const module = "github.com/berth-scheduler/berth"

// Of returns the number of elements of all maps, slices and channels that are reachable
// from a value. They are grouped by type and field, and summed over all values of a type.
func Of(value any) map[string]int {
	w := walk{seen: map[seen]bool{}, counts: map[string]int{}}
	w.value(reflect.ValueOf(value), "")
	return w.counts
}

// Reachable returns the number of different values that pointers reach, by type. It
// includes elements beyond the length of slices, because the garbage collector keeps
// them.
func Reachable(value any) map[string]int {
	w := walk{seen: map[seen]bool{}, counts: map[string]int{}, beyond: true}
	w.value(reflect.ValueOf(value), "")
	byType := map[string]int{}
	for s := range w.seen {
		byType[s.is.String()]++
	}
	return byType
}

// seen is a visited value. Two values of different types may have the same address.
type seen struct {
	at uintptr
	is reflect.Type
}

type walk struct {
	seen   map[seen]bool
	counts map[string]int
	beyond bool // includes elements beyond the length of slices
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
