#!/usr/bin/env bash
# kwok simulates nodes and pods by stages. A stage selects objects by a jq query, an
# operator and values, which are strings: key .spec.priority, operator In, values
# ["1000"].
#
# Guess: a number matches the string that spells it, as a boolean does.
# Found: a number of an object never matches. It arrives as float64, and only strings,
# booleans and ints are compared. A stage for the pods of one priority selects none, and
# with NotIn it selects all. A number that jq computes itself is an int and matches;
# `tostring` helps, too.
#
# sigs.k8s.io/kwok v0.8.0, package pkg/utils/expression, on a pod with priority 1000,
# hostNetwork and one container.
. "$(dirname "$0")/lib/go.sh"

expect stage-selector-and-numbers '.spec.hostNetwork In [true]: true
.spec.priority In [1000]: false
.spec.priority NotIn [1000]: true
.spec.priority | tostring In [1000]: true
.spec.containers | length In [1]: true' \
	sigs.k8s.io/kwok/pkg/utils/expression@v0.8.0 k8s.io/api/core/v1@v0.37.1 <<'GO'
package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	"sigs.k8s.io/kwok/pkg/utils/expression"
)

func main() {
	priority := int32(1000)
	pod := &v1.Pod{Spec: v1.PodSpec{Priority: &priority, HostNetwork: true, Containers: []v1.Container{{Name: "main"}}}}
	for _, c := range []struct {
		key   string
		op    internalversion.SelectorOperator
		value string
	}{
		{".spec.hostNetwork", internalversion.SelectorOpIn, "true"},
		{".spec.priority", internalversion.SelectorOpIn, "1000"},
		{".spec.priority", internalversion.SelectorOpNotIn, "1000"},
		{".spec.priority | tostring", internalversion.SelectorOpIn, "1000"},
		{".spec.containers | length", internalversion.SelectorOpIn, "1"},
	} {
		requirement, err := expression.NewRequirement(c.key, c.op, []string{c.value})
		if err != nil {
			panic(err)
		}
		matches, err := requirement.Matches(context.Background(), pod)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %s [%s]: %v\n", c.key, c.op, c.value, matches)
	}
}
GO
