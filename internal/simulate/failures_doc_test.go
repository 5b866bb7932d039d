package simulate_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFailureTableNamesTests checks that each row of docs/failures.md names a test, or a scenario, that exists.
func TestFailureTableNamesTests(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "failures.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	err = filepath.WalkDir(filepath.Join(root, "internal"), func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, match := range declared.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named, rows := regexp.MustCompile("`(Test\\w+)(?:/([\\w-]+))?` \\|$"), 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| test |") {
			continue
		}
		rows++
		match := named.FindStringSubmatch(line)
		switch {
		case match == nil:
			t.Errorf("a row names no test: %s", line)
		case !tests[match[1]]:
			t.Errorf("there is no test %s, which a row names: %s", match[1], line)
		case match[2] != "":
			if _, err := os.Stat(filepath.Join(root, "internal", "scenario", "testdata", match[2]+".scenario")); err != nil {
				t.Errorf("there is no such scenario: %v", err)
			}
		}
	}
	if rows < 30 {
		t.Errorf("the tables have %d rows; the page is not read as it is written", rows)
	}
}
