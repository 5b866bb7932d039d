package main

import (
	"bufio"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
)

// thisMachine describes the machine of the rounds.
func thisMachine() report.Machine {
	m := report.Machine{
		CPUs: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly),
		CPU: field("/proc/cpuinfo", "model name"),
	}
	if kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.MemoryGiB = (kib + 1<<19) >> 20
	}
	return m
}

// field returns the value of the first line "key : value" of a file, or "".
func field(file, key string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
