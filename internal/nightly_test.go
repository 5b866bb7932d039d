package internal_test

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNightlyRunsEverything: the parts of make nightly call existing targets of make, and
// their slices together have every seed, every fuzz target and every share.
func TestNightlyRunsEverything(t *testing.T) {
	var calls []string
	for line := range strings.SplitSeq(nightly(t, "run"), "\n") {
		if call, ok := strings.CutPrefix(line, "called: --no-print-directory "); ok {
			calls = append(calls, call)
		}
	}
	targets := makeTargets(readTop(t, "Makefile"))
	for _, call := range calls {
		if target := strings.Fields(call)[0]; !targets[target] {
			t.Errorf("make %s: no such target", call)
		}
	}
	checkSeeds(t, calls, "simulate-faults SEEDS=", 500)
	checkSeeds(t, calls, "parity PARITY_FLAGS=-shapes shapes -seeds ", 100)
	checkSeeds(t, calls, "parity KUBERNETES=1.38 PARITY_FLAGS=-shapes shapes -seeds ", 50)
	checkFuzz(t, calls)
	for _, share := range []string{"random-tests SLICE=", "mutate SLICE=", "bench SLICE=", "WORKLOADS="} {
		checkShares(t, calls, share)
	}
	for _, whole := range []string{
		"lint-large LINTERS=", "reports", "soak", "parity PARITY_FLAGS=-shapes sequences",
		"parity KUBERNETES=1.38 PARITY_FLAGS=-shapes sequences -sequence-seeds 1", "parity138-rules",
		"neighbours NEIGHBOUR=descheduler", "neighbours NEIGHBOUR=kueue", "neighbours NEIGHBOUR=karpenter",
		"kubectl-size", "shadow-demo", "gang-bench", "compare QUICK=1",
	} {
		if !slices.Contains(calls, whole) {
			t.Errorf("make %s is missing", whole)
		}
	}
}

// checkSeeds fails unless the ranges after a prefix are 1..last together, in order.
func checkSeeds(t *testing.T, calls []string, prefix string, last int) {
	t.Helper()
	next := 1
	for _, call := range calls {
		rest, ok := strings.CutPrefix(call, prefix)
		if !ok {
			continue
		}
		first, end, _ := strings.Cut(rest, "..")
		if first != strconv.Itoa(next) {
			t.Fatalf("make %s: want seeds from %d on", call, next)
		}
		next, _ = strconv.Atoi(end)
		next++
	}
	if next != last+1 {
		t.Errorf("%s: the last seed is %d, want %d", prefix, next-1, last)
	}
}

// checkFuzz fails unless each fuzz target has about 30 million inputs.
func checkFuzz(t *testing.T, calls []string) {
	t.Helper()
	inputs := map[string]int{}
	call := regexp.MustCompile(`^fuzz FUZZ=(\w+) FUZZTIME=(\d+)x$`)
	for _, c := range calls {
		if words := call.FindStringSubmatch(c); words != nil {
			n, _ := strconv.Atoi(words[2])
			inputs[words[1]] += n
		}
	}
	walkGo(t, "..", func(_ string, source []byte) {
		for _, target := range regexp.MustCompile(`(?m)^func (Fuzz\w+)`).FindAllSubmatch(source, -1) {
			if n := inputs[string(target[1])]; n < 25_000_000 {
				t.Errorf("%s: %d inputs, want about 30 million", target[1], n)
			}
		}
	})
}

// checkShares fails unless the calls with a variable have its shares 1/n to n/n.
func checkShares(t *testing.T, calls []string, variable string) {
	t.Helper()
	var shares []string
	for _, call := range calls {
		if _, share, ok := strings.Cut(call, variable); ok {
			shares = append(shares, share)
		}
	}
	for i, share := range shares {
		if share != fmt.Sprintf("%d/%d", i+1, len(shares)) {
			t.Errorf("%s%s: want share %d of %d", variable, share, i+1, len(shares))
		}
	}
	if len(shares) < 2 {
		t.Errorf("%s: no shares", variable)
	}
}

// TestNightlyByCommit: over some hundred commits each part has its turn, and the chosen
// slices exist.
func TestNightlyByCommit(t *testing.T) {
	var commits []string
	for i := range 400 {
		commits = append(commits, fmt.Sprintf("%x", sha1.Sum([]byte{byte(i), byte(i >> 8)})))
	}
	chosen := strings.Fields(nightly(t, append([]string{"choose"}, commits...)...))
	times := map[string]int{}
	for _, slice := range chosen {
		part, _, _ := strings.Cut(slice, "-")
		times[part]++
	}
	list := strings.Split(strings.TrimSpace(nightly(t, "list")), "\n")[1:]
	for _, line := range list {
		part := strings.Fields(line)[0]
		if times[part] < 400/len(list)/2 {
			t.Errorf("%s runs after %d of 400 commits, %v", part, times[part], times)
		}
	}
	if len(chosen) != 400 || len(times) != len(list) {
		t.Errorf("chooses %d slices of %d parts, want 400 of %d", len(chosen), len(times), len(list))
	}
	nightly(t, append([]string{"run"}, slices.Compact(slices.Sorted(slices.Values(chosen)))...)...)
}

// TestSlices: the slices of a list together have each line once.
func TestSlices(t *testing.T) {
	lines := strings.Split("TestA TestB TestC TestD TestE TestF TestG", " ")
	var got []string
	for k := 1; k <= 3; k++ {
		cmd := exec.Command("../tools/slice.sh", fmt.Sprintf("%d/3", k), "pattern")
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		pattern := regexp.MustCompile(strings.TrimSpace(string(out)))
		for _, line := range lines {
			if pattern.MatchString(line) {
				got = append(got, line)
			}
			if pattern.MatchString(line + "s") {
				t.Errorf("%s matches %ss", pattern, line)
			}
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, lines) {
		t.Errorf("the slices have %v, want %v", got, lines)
	}
}

// TestRunOfCI: CI runs make test, then a slice of make nightly. It ends with go test's
// lines and fails with either.
func TestRunOfCI(t *testing.T) {
	for _, test := range []struct {
		fails string
		code  int
		want  string
	}{
		{"none", 0, "called test\nok  \ta\ncalled nightly\nok  \ta\n\nSummary of go test:\nok  \ta\n"},
		{"nightly", 2, "called test\nok  \ta\ncalled nightly\nFAIL\tb\n\nSummary of go test:\nok  \ta\nFAIL\tb\n"},
		{"test", 2, "called test\nFAIL\tb\n\nSummary of go test:\nFAIL\tb\n"},
	} {
		bin := t.TempDir()
		program(t, bin, "make", `echo "called $1"
if [ "$1" = `+test.fails+` ]; then printf 'FAIL\tb\n'; exit 2; fi
printf 'ok  \ta\n'`)
		program(t, bin, "git", `echo 0123456789abcdef`)
		cmd := exec.Command("../.ci/run")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.Output()
		if code := cmd.ProcessState.ExitCode(); string(out) != test.want || code != test.code {
			t.Errorf("%s fails: %v, exit code %d; prints\n%s\nwant %d and\n%s", test.fails, err, code, out, test.code, test.want)
		}
	}
}

// TestNoTestDropped: the repository has at least as many tests as CONTRIBUTING.md counts.
func TestNoTestDropped(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (tests|fuzz targets|benchmarks) in ([^|]*) \| ([0-9,]+) \|`)
	rows := row.FindAllStringSubmatch(readTop(t, "CONTRIBUTING.md"), -1)
	if len(rows) < 6 {
		t.Fatalf("CONTRIBUTING.md has %d rows with numbers of tests", len(rows))
	}
	kind := map[string]string{"tests": "Test", "fuzz targets": "Fuzz", "benchmarks": "Benchmark"}
	for _, row := range rows {
		least, _ := strconv.Atoi(strings.ReplaceAll(row[3], ",", ""))
		function := regexp.MustCompile(`(?m)^func ` + kind[row[1]] + `[A-Z0-9]`)
		count := 0
		for _, folder := range regexp.MustCompile("`([^`]*)`").FindAllStringSubmatch(row[2], -1) {
			walkGo(t, filepath.Join("..", folder[1]), func(name string, source []byte) {
				if strings.HasSuffix(name, "_test.go") {
					count += len(function.FindAll(source, -1))
				}
			})
		}
		if count < least {
			t.Errorf("%s in %s: %d, and CONTRIBUTING.md counts %d", row[1], row[2], count, least)
		}
	}
}

// nightly runs tools/nightly.sh with a make that prints its arguments.
func nightly(t *testing.T, args ...string) string {
	t.Helper()
	// Reading the scripts makes them inputs of the test's cached result.
	for _, script := range []string{"tools/nightly.sh", "tools/slice.sh", ".ci/run"} {
		readTop(t, script)
	}
	bin := t.TempDir()
	program(t, bin, "make", `echo "called: $*"`)
	var errs bytes.Buffer
	cmd := exec.Command("../tools/nightly.sh", args...)
	cmd.Env = append(os.Environ(), "MAKE="+filepath.Join(bin, "make"))
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("nightly.sh %v: %v, %s", args, err, errs.String())
	}
	return string(out)
}

// program writes a script.
func program(t *testing.T, folder, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// readTop reads a file of the top folder.
func readTop(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
