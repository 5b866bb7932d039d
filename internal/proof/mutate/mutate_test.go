package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRun tries all faults of a small package whose tests miss three of them, one of
// which is listed as equivalent. Without time, it tries none.
func TestRun(t *testing.T) {
	list := filepath.Join(t.TempDir(), "small.txt")
	const twin = "small.go:Bounded: swap > in n > Most : the result is the same where n is Most"
	if err := os.WriteFile(list, []byte("# none\n"+twin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	options := Options{Packages: []string{"./testdata/small"}, Equivalent: filepath.Dir(list), Slow: time.Minute, Patience: time.Minute, Progress: io.Discard}
	for _, limit := range []time.Duration{time.Hour, time.Nanosecond} {
		var out strings.Builder
		options.Out, options.For = &out, limit
		packages, err := run(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		// No test counts a zero, or a one.
		wants := []string{"small.go:18: small.go:Counted: swap > in n > 0", "small.go:18: small.go:Counted: one more than 0", " 9 8 6 0 2 0 1 75.0 % "}
		if limit == time.Nanosecond {
			wants = []string{" 9 0 0 0 0 0 0 - ", "9 faults were not tried: the time of 1ns was over"}
		}
		got := strings.Join(strings.Fields(out.String()), " ") + " "
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("with %v it does not say %q:\n%s", limit, want, out.String())
			}
		}
		if len(packages) != 1 || strings.Contains(got, "LIVED /") != (limit != time.Nanosecond) {
			t.Errorf("%d packages:\n%s", len(packages), out.String())
		}
	}
}

// TestSlowTests checks that, with a time limit, a package with slow tests is skipped once
// and does not fail.
func TestSlowTests(t *testing.T) {
	for slow, want := range map[time.Duration]string{
		time.Hour:              "/slow 2 2 2 0 0 0 0 100.0 %",
		500 * time.Millisecond: "/slow 2 0 0 0 0 0 0 - 2 faults were not tried: the time of 1h0m0s was over, or the package's tests take too long",
	} {
		var out, progress strings.Builder
		_, err := run(t.Context(), Options{Packages: []string{"./testdata/slow"}, For: time.Hour, AtLeast: 2, Slow: slow, Patience: time.Minute, Least: 90, Out: &out, Progress: &progress})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(out.String()), " "); !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", slow, got, want)
		}
		if got := strings.Count(progress.String(), "is passed over"); (got == 1) != (slow != time.Hour) {
			t.Errorf("%s: passed over %d times: %s", slow, got, progress.String())
		}
	}
}

// TestFewer checks that the flags in a package's list make its tests do less for a
// sample.
func TestFewer(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "slow.txt"), []byte("flags -pause=1ms : nothing happens meanwhile\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for sample, want := range map[int]string{0: "", 1: "-pause=1ms"} {
		packages, err := run(t.Context(), Options{Packages: []string{"./testdata/slow"}, Sample: sample, Equivalent: folder, Patience: time.Minute, Out: io.Discard, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		p := packages[0]
		if got := strings.Join(p.flags, " "); got != want || len(p.outdated) > 0 || p.tried() == 0 || (p.steps[0].took < time.Second) != (sample > 0) {
			t.Errorf("a sample of %d: flags %q, want %q; tests take %s", sample, got, want, p.steps[0].took)
		}
	}
}

// TestForms tries all faults in functions of several forms: generic ones, methods,
// variadic ones, init. Two do not compile. All others are found, one of them because it
// never ends.
func TestForms(t *testing.T) {
	var out strings.Builder
	if _, err := run(t.Context(), Options{Packages: []string{"./testdata/forms"}, Patience: time.Second, Out: &out, Progress: io.Discard}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); !strings.HasSuffix(got, "/forms 30 28 28 1 0 2 0 100.0 %") {
		t.Errorf("%s", out.String())
	}
}

// TestAtLeast has no time and still tries some faults, with the second package supplying
// those that the first one lacks.
func TestAtLeast(t *testing.T) {
	for least, want := range map[int]int{0: 0, 3: 3, 9: 9, 20: 20} {
		packages, err := run(t.Context(), Options{Packages: []string{"./testdata/small", "./testdata/forms"}, For: time.Nanosecond, AtLeast: least, Slow: time.Minute, Patience: time.Second, Out: io.Discard, Progress: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, p := range packages {
			got += p.tried() + p.count[broken]
		}
		if got < want || got > want+2 { // faults that do not compile do not count
			t.Errorf("at least %d: %d were tried", least, got)
		}
	}
}

// TestSteps divides tests by their time, fast ones first.
func TestSteps(t *testing.T) {
	output := "=== RUN   TestA\n--- PASS: TestA (2.00s)\n    --- PASS: TestA/part (1.99s)\n--- PASS: TestB (0.20s)\n--- SKIP: TestC (0.00s)\n" +
		"--- PASS: ExampleD (0.05s)\n--- PASS: FuzzE (0.90s)\n--- PASS: TestF (0.00s)\n" +
		"    --- PASS: TestF/seed-1 (30.00s)\n        --- PASS: TestF/seed-1/part (30.00s)\n    --- PASS: TestF/seed-2 (10.00s)\nPASS\n"
	var got []string
	for _, s := range stepsOf(output) {
		got = append(got, s.only())
	}
	if want := "-test.run=^(TestC|ExampleD|TestB)$ -test.run=^(FuzzE)$ -test.run=^(TestA)$ -test.run=^(TestF)$"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// TestNothingIsWritten checks the flags for packages with and without rapid in their
// tests.
func TestNothingIsWritten(t *testing.T) {
	for name, want := range map[string]string{"../../decide/plugins/nodeaffinity": "-rapid.nofailfile", "./testdata/small": ""} {
		if flags, err := flagsFor(t.Context(), name); err != nil || strings.Join(flags, " ") != want {
			t.Errorf("%s: %q, %v, want %q", name, flags, err, want)
		}
	}
}

// TestTurns divides the faults of two packages.
func TestTurns(t *testing.T) {
	packages := []*source{{ImportPath: "a", faults: make([]fault, 2*portion+1)}, {ImportPath: "b", faults: make([]fault, 2)}}
	for limited, want := range map[bool]string{false: "a101 b2", true: "a50 b2 a50 a1"} {
		var got []string
		for _, turn := range turns(packages, limited) {
			got = append(got, fmt.Sprint(turn.of.ImportPath, len(turn.faults)))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("limited %v: %s, want %s", limited, got, want)
		}
	}
}

func TestVerdicts(t *testing.T) {
	all := func(foundFaults, livedFaults int) *source {
		return &source{ImportPath: "p", all: foundFaults + livedFaults + 7, count: [outcomes]int{found: foundFaults, lived: livedFaults, broken: 3, equivalent: 4}}
	}
	sample := func(foundFaults, livedFaults int) *source {
		p := all(foundFaults, livedFaults)
		p.all++
		return p
	}
	for _, test := range []struct {
		of   *source
		want string
	}{
		{all(0, 0), ""},
		{all(0, 9), ""}, // too few for a verdict
		{all(9, 1), ""},
		{&source{ImportPath: "p", all: 100, count: [outcomes]int{found: 80, late: 10, lived: 10}}, ""},
		{all(8, 2), "p: its tests found 8 of 10 faults, which is less than 90 %"},
		{all(899, 101), "p: its tests found 899 of 1000 faults, which is less than 90 %"},
		{sample(8, 2), ""},
		{sample(6, 4), ""},
		{sample(5, 5), "p: its tests found 5 of 10 faults, which is less than 90 %"},
		{sample(880, 120), ""},
		{sample(870, 130), "p: its tests found 870 of 1000 faults, which is less than 90 %"},
		{&source{ImportPath: "p", outdated: []string{"f"}}, "p: listed as equivalent, but there is no such fault: f"},
	} {
		if got := strings.Join(verdicts([]*source{test.of}, 90), "; "); got != test.want {
			t.Errorf("%v: %q, want %q", test.of.count, got, test.want)
		}
	}
}

// TestOutdatedList reads a list with a fault that does not exist.
func TestOutdatedList(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "small.txt"), []byte("small.go:Gone: drop x : it was there once\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	packages, err := run(t.Context(), Options{Packages: []string{"./testdata/small"}, Equivalent: folder, For: time.Nanosecond, Out: io.Discard, Progress: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if problems := verdicts(packages, 90); len(problems) != 1 || !strings.Contains(problems[0], "there is no such fault: small.go:Gone") {
		t.Errorf("problems %q", problems)
	}
}

// TestChanged finds the changed packages in a test repository: on a branch, in the
// working tree, on the main branch, and in a clone of one commit.
func TestChanged(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(top)
	var packages []*source
	for _, name := range []string{"a", "b", "c"} {
		packages = append(packages, &source{ImportPath: name, Dir: filepath.Join(top, name)})
	}
	do := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(revision, want string) {
		t.Helper()
		touched, err := changed(t.Context(), packages, revision)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range touched {
			names = append(names, p.ImportPath)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("changed since %s: %q, want %q", revision, got, want)
		}
	}
	do("init", "-q", "-b", "trunk", ".")
	for _, file := range []string{"a/a.go", "b/b.go", "c/c.go"} {
		write(file, "package x\n")
	}
	do("add", ".")
	do("commit", "-q", "-m", "all")
	check("trunk", "a b c")
	for i := range recent {
		write("b/b.go", fmt.Sprintf("package x // %d\n", i))
		write("a/a_test.go", fmt.Sprintf("package x // %d\n", i))
		do("add", ".")
		do("commit", "-q", "-m", "b, and a test of a")
	}
	check("trunk", "b")
	check("nothing-of-this-name", "b")
	do("checkout", "-q", "-b", "topic")
	write("a/a.go", "package x // topic\n")
	do("commit", "-q", "-a", "-m", "a")
	check("trunk", "a")
	write("c/c.go", "package x // not committed\n")
	check("trunk", "a c")
}

// TestEquivalentNeedsAReason reads a list without a reason, and the checked-in lists.
func TestEquivalentNeedsAReason(t *testing.T) {
	list := filepath.Join(t.TempDir(), "small.txt")
	if err := os.WriteFile(list, []byte("small.go:Bounded: swap > in n > Most\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := readEquivalent(list); err == nil || !strings.Contains(err.Error(), ":1: a fault without a reason") {
		t.Errorf("error %v", err)
	}
	lists, err := filepath.Glob("equivalent/*.txt")
	if err != nil || len(lists) == 0 {
		t.Fatalf("%d lists are checked in: %v", len(lists), err)
	}
	for _, list := range lists {
		if _, _, err := readEquivalent(list); err != nil {
			t.Error(err)
		}
	}
}

// TestListedFaultsExist checks that each fault in the lists exists in the package that
// the list is named after. Remove a line together with its code.
func TestListedFaultsExist(t *testing.T) {
	packages, err := list(t.Context(), []string{"../../...", "../../../app"})
	if err != nil {
		t.Fatal(err)
	}
	outdated, read := map[string][]string{}, map[string]bool{}
	for _, p := range packages {
		if _, err := os.Stat(filepath.Join("equivalent", path.Base(p.ImportPath)+".txt")); err != nil {
			continue
		}
		if err := p.read(Options{Equivalent: "equivalent"}, nil); err != nil {
			t.Fatal(err)
		}
		if name := path.Base(p.ImportPath); !read[name] {
			outdated[name], read[name] = p.outdated, true
		} else { // with several packages of that name, one of them must have the fault
			outdated[name] = slices.DeleteFunc(outdated[name], func(id string) bool { return !slices.Contains(p.outdated, id) })
		}
	}
	for name, ids := range outdated {
		for _, id := range ids {
			t.Errorf("equivalent/%s.txt: there is no such fault: %s", name, id)
		}
	}
	if len(read) < 10 {
		t.Errorf("%d lists were read", len(read))
	}
}
