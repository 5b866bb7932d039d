#!/usr/bin/env bash
# How k8s.io/apimachinery v0.37.1 gives quantities beyond 64 bits as integers, without Berth. The script fails if that changes.
#
# Quantity.Value has no error. It returns 0 for 1e30, and 0 for the sum of two quantities of 7E, each of which it returns exactly.
# Quantity.Cmp and Quantity.AsInt64 are right: the sum is larger than each part, and it is no int64. So code that reads an amount by
# Value takes a pod that asks for more than any node has for one that asks for nothing.
set -euo pipefail
folder=$(mktemp -d)
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
cd "$folder"
go mod init finding >/dev/null 2>&1
go get k8s.io/apimachinery@v0.37.1 >/dev/null 2>&1
cat >main.go <<'GO'
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
go mod tidy >/dev/null 2>&1
got=$(go run .)
want="0 7000000000000000000 0 1 false"
echo "Value of 1e30, Value of 7E, Value of the sum of two 7E, the sum compared with 7E, the sum is an int64:"
echo "$got"
[ "$got" = "$want" ] || { echo "it has changed; it was: $want" >&2; exit 1; }
