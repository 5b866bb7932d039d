//go:build !linux

package app

import "time"

// consumption is the CPU time and memory that the process has used so far. Only Linux
// reports it.
type consumption struct {
	known     bool
	cpu       time.Duration
	maxMemory int64 // bytes
}

func usageSoFar() consumption { return consumption{} }
