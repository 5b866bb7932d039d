package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// failureRow is a row of the tables in design/failures.md.
type failureRow struct {
	text  string
	tests []string // as "TestName", or "TestScenario/name-of-the-scenario"
}

var (
	// namedTests matches the last cell of a row, with names of tests only.
	namedTests = regexp.MustCompile("\\| (`Test\\w+(?:/[\\w-]+)?`(?:, `Test\\w+(?:/[\\w-]+)?`)*) \\|$")
	oneTest    = regexp.MustCompile(`Test\w+(?:/[\w-]+)?`)
)

// failureRows reads the rows. A row whose last cell has other text has no tests.
func failureRows(page string) (rows []failureRow) {
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasSuffix(line, "| test |") {
			continue
		}
		row := failureRow{text: line}
		if cell := namedTests.FindStringSubmatch(line); cell != nil {
			row.tests = oneTest.FindAllString(cell[1], -1)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestTablesNameTests checks that each row of design/failures.md and design/limits.md
// names tests or scenarios, and that all of them exist.
func TestTablesNameTests(t *testing.T) {
	var rows []failureRow
	for _, name := range []string{"failures", "limits"} {
		page, err := os.ReadFile("../design/" + name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, failureRows(string(page))...)
	}
	if len(rows) < 100 {
		t.Errorf("the tables have %d rows; the pages are not read as they are written", len(rows))
	}
	tests := declaredTests(t)
	for _, row := range rows {
		if len(row.tests) == 0 {
			t.Errorf("a row names no test: %s", row.text)
		}
		for _, name := range row.tests {
			test, scenario, isScenario := strings.Cut(name, "/")
			if !tests[test] {
				t.Errorf("there is no test %s, which a row names: %s", test, row.text)
			}
			if !isScenario {
				continue
			}
			if _, err := os.Stat(filepath.Join("proof", "scenario", "testdata", scenario+".scenario")); err != nil {
				t.Errorf("there is no such scenario: %v", err)
			}
		}
	}
}

// TestFailureRowsNameSeveralTests reads rows with one test, with two, and with other
// text.
func TestFailureRowsNameSeveralTests(t *testing.T) {
	rows := failureRows("| failure | test |\n|---|---|\n| `TestElsewhere` fails | `TestOne` |\n| b | `TestOne`, `TestScenario/two-of-it` |\n| c | `TestOne`, and others |\n| d | |\n")
	var got []string
	for _, row := range rows {
		got = append(got, strings.Join(row.tests, "+"))
	}
	if want := "TestOne TestOne+TestScenario/two-of-it  "; strings.Join(got, " ") != want {
		t.Errorf("the rows name %q, want %q", strings.Join(got, " "), want)
	}
}

// declaredTests returns the names of all tests of the repository.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	walkGo(t, "..", func(name string, source []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, match := range declared.FindAllSubmatch(source, -1) {
			tests[string(match[1])] = true
		}
	})
	return tests
}
