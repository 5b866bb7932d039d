#!/usr/bin/env bash
# The device plugin of NVIDIA uses go-gpuallocator to prefer GPUs. Its best-effort policy
# scores every division of the free GPUs into sets of the requested size, and returns the
# best set of the best division.
#
# Guess: of GPUs that are equal but for one pair with an NVLink bridge, a request for two
# gets this pair.
# Found: not with 14 free GPUs. The best division is kept as a slice, and divisions that
# are tried later overwrite the end of its array, where append found room. So the sixth
# and seventh set of the best division are lost, and another pair is returned. With 12
# free GPUs the pair is found.
#
# github.com/NVIDIA/go-gpuallocator v0.6.0. No GPU is needed, but a C compiler is.
CGO=1
. "$(dirname "$0")/lib/go.sh"

expect best-pair-lost '12 free GPUs, bridge between 10 and 11: the chosen pair has it: true
14 free GPUs, bridge between 12 and 13: the chosen pair has it: false' \
	github.com/NVIDIA/go-gpuallocator/gpuallocator@v0.6.0 <<'GO'
package main

import (
	"fmt"

	"github.com/NVIDIA/go-gpuallocator/gpuallocator"
)

// Types of links, as the internal package numbers them.
const (
	sameCPU   = 2
	oneBridge = 7
)

func choose(n int) {
	gpus := make([]*gpuallocator.Device, n)
	for i := range gpus {
		gpus[i] = &gpuallocator.Device{Index: i, Links: map[int][]gpuallocator.P2PLink{}}
	}
	for i, a := range gpus {
		for j, b := range gpus {
			if i != j {
				a.Links[j] = append(a.Links[j], gpuallocator.P2PLink{GPU: b, Type: sameCPU})
			}
		}
	}
	a, b := gpus[n-2], gpus[n-1]
	a.Links[n-1] = append(a.Links[n-1], gpuallocator.P2PLink{GPU: b, Type: oneBridge})
	b.Links[n-2] = append(b.Links[n-2], gpuallocator.P2PLink{GPU: a, Type: oneBridge})

	chosen := gpuallocator.NewBestEffortPolicy().Allocate(gpus, nil, 2)
	has := len(chosen[0].Links[chosen[1].Index]) == 2
	fmt.Printf("%d free GPUs, bridge between %d and %d: the chosen pair has it: %v\n", n, n-2, n-1, has)
}

func main() {
	choose(12)
	choose(14)
}
GO
