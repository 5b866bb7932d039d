package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMain is the program itself where the test's binary runs under the name berth, as
// make try does with the link that try makes.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "berth" {
		main()
	}
	os.Exit(m.Run())
}

// try returns the output of make try, run in the top folder with this test's binary.
func try(t *testing.T) (string, error) {
	t.Helper()
	// Reading the files makes them inputs of the test's cached result.
	for _, input := range []string{"Makefile", "examples/try.sh", "examples/cluster.yaml"} {
		if _, err := os.ReadFile(input); err != nil {
			return "", err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	bin := t.TempDir()
	berth := filepath.Join(bin, "berth")
	if err := os.Symlink(self, berth); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--old-file="+berth, "BIN="+bin, "try")
	// Without the variables of a make that runs this test.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w, %s", err, errs.String())
	}
	return strings.ReplaceAll(string(out), bin, "bin"), nil
}
