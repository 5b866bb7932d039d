#!/usr/bin/env bash
# How k8s.io/apimachinery v0.37.1 gives quantities beyond 64 bits as integers.
#
# Quantity.Value has no error. It returns 0 for 1e30, and 0 for the sum of two quantities
# of 7E, each of which it returns exactly. Quantity.Cmp and Quantity.AsInt64 are right:
# the sum is larger than each part, and it is no int64. So code that reads an amount by
# Value takes a pod that asks for more than any node has for one that asks for nothing.
#
# Output: Value of 1e30, of 7E and of the sum; the sum compared with 7E; whether the sum
# is an int64.
. "$(dirname "$0")/lib/go.sh"

expect quantity-value-beyond-64-bits "0 7000000000000000000 0 1 false" \
	k8s.io/apimachinery/pkg/api/resource@v0.37.1 <<'GO'
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	large, part := resource.MustParse("1e30"), resource.MustParse("7E")
	sum := part.DeepCopy()
	sum.Add(part)
	_, fits := sum.AsInt64()
	fmt.Println(large.Value(), part.Value(), sum.Value(), sum.Cmp(part), fits)
}
GO
