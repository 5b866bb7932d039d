//go:build !linux

package app

import "time"

// consumption is the CPU time and memory that the process has used so far. It is known on Linux only.
type consumption struct {
	known     bool
	cpu       time.Duration
	memoryMax int64 // bytes
}

func usageSoFar() consumption { return consumption{} }
