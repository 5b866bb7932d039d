package app

import (
	"syscall"
	"time"
)

// consumption is the CPU time and memory that the process has used so far.
type consumption struct {
	known     bool
	cpu       time.Duration
	maxMemory int64 // bytes
}

func usageSoFar() consumption {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return consumption{}
	}
	return consumption{
		known:     true,
		cpu:       time.Duration(r.Utime.Nano() + r.Stime.Nano()),
		maxMemory: r.Maxrss << 10, // Linux counts in KiB
	}
}
