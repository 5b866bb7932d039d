package main

import (
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amount formats a quantity for people: cores, a count, or bytes in the largest unit with
// a value of at least 1.
func amount(name string, q resource.Quantity) string {
	bytes := q.Value()
	switch {
	case name == string(v1.ResourceCPU):
		return strconv.FormatFloat(float64(q.MilliValue())/1000, 'f', -1, 64)
	case name != string(v1.ResourceMemory) && name != string(v1.ResourceEphemeralStorage) || bytes < 1<<10:
		return strconv.FormatInt(bytes, 10)
	}
	units := []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
	value, unit := float64(bytes)/(1<<10), 0
	tenths := func() float64 { return math.Round(10*value) / 10 }
	for tenths() >= 1<<10 && unit < len(units)-1 {
		value /= 1 << 10
		unit++
	}
	return strconv.FormatFloat(tenths(), 'f', -1, 64) + units[unit]
}
