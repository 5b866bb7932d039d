#!/usr/bin/env bash
# A CEL selector of a device claim may compare an attribute with a literal of another
# type by mistake.
#
# Guess: the comparison is false, whatever the type of the attribute.
# Found: an int compared with a string is false without an error, so no device matches. A
# version compared with a string is an error. kube-scheduler then fails the whole attempt
# instead of trying other devices or nodes.
#
# k8s.io/dynamic-resource-allocation v0.37.1, package cel.
. "$(dirname "$0")/lib/go.sh"

expect a-version-is-no-string 'int 1 == "1": false, error: <nil>
version 1.2.0 == "1.2.0": false, error: no such overload
version 1.2.0 == semver("1.2.0"): true, error: <nil>' \
	k8s.io/dynamic-resource-allocation/cel@v0.37.1 <<'GO'
package main

import (
	"context"
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/cel"
)

func main() {
	one, version := int64(1), "1.2.0"
	device := cel.Device{Driver: "gpu.example.com", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
		"index": {IntValue: &one}, "firmware": {VersionValue: &version},
	}}
	for _, row := range [][2]string{
		{`int 1 == "1"`, `device.attributes["gpu.example.com"].index == "1"`},
		{`version 1.2.0 == "1.2.0"`, `device.attributes["gpu.example.com"].firmware == "1.2.0"`},
		{`version 1.2.0 == semver("1.2.0")`, `device.attributes["gpu.example.com"].firmware == semver("1.2.0")`},
	} {
		compiled := cel.GetCompiler(cel.Features{}).CompileCELExpression(row[1], cel.Options{})
		matches, _, err := compiled.DeviceMatches(context.Background(), device)
		fmt.Printf("%s: %t, error: %v\n", row[0], matches, err)
	}
}
GO
