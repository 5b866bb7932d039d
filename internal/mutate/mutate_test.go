package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRun puts all faults into a small package whose tests miss three of them, one of which is listed as equivalent.
func TestRun(t *testing.T) {
	list := filepath.Join(t.TempDir(), "small.txt")
	const twin = "small.go:Bounded: swap > in n > Most : the result is the same where n is Most"
	if err := os.WriteFile(list, []byte("# none\n"+twin+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	lived, err := run(t.Context(), Options{Packages: []string{"./testdata/small"}, Equivalent: filepath.Dir(list), Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	got := out.String()
	// Nobody counts a zero, or a one.
	for _, want := range []string{
		"small.go:18: small.go:Counted: swap > in n > 0", "small.go:18: small.go:Counted: one more than 0",
		"9 of 9 faults tried: 6 found, 2 lived, 0 do not compile, 1 equivalent",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if lived != 2 {
		t.Errorf("%d lived, want 2:\n%s", lived, got)
	}
}

// TestEquivalentNeedsAReason reads a list without a reason, and those that are checked in.
func TestEquivalentNeedsAReason(t *testing.T) {
	list := filepath.Join(t.TempDir(), "small.txt")
	if err := os.WriteFile(list, []byte("small.go:Bounded: swap > in n > Most\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readEquivalent(list); err == nil || !strings.Contains(err.Error(), ":1: a fault without a reason") {
		t.Errorf("error %v", err)
	}
	lists, err := filepath.Glob("equivalent/*.txt")
	if err != nil || len(lists) == 0 {
		t.Fatalf("%d lists are checked in: %v", len(lists), err)
	}
	for _, list := range lists {
		if _, err := readEquivalent(list); err != nil {
			t.Error(err)
		}
	}
}
