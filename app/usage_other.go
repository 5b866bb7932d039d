//go:build !linux

package app

import "time"

// consumption is what the process has taken so far. It is known on Linux only.
type consumption struct {
	known     bool
	cpu       time.Duration
	memoryMax int64 // bytes
}

func usageSoFar() consumption { return consumption{} }
