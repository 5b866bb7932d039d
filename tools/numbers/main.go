// Command numbers measures the structure of the product's code. "make lint" runs it.
//
// It takes the Go files in git, without tests, generated files and internal/proof, and
// prints a table: the sizes of folders, packages, files, functions and interfaces. A
// number above its limit fails. Lower a limit when the code gets better; never raise one
// to pass. The goal of a number is where its limit should arrive.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"
	"text/tabwriter"
)

// rows are the rows of the table. Rows without a limit are printed and never fail: fewer
// lines or names are not always better.
var rows = []row{
	{name: "folders in internal", limited: true, limit: 14, goal: 16, measure: (*code).folders},
	{name: "packages below 100 lines", measure: (*code).smallPackages},
	{name: "lines", measure: (*code).lines},
	{name: "methods of the largest interface", limited: true, limit: 8, goal: 8, measure: (*code).largestInterface},
	{name: "interfaces of internal/plugin in type assertions", limited: true, limit: 1, goal: 1, measure: (*code).assertions},
	{name: "any in internal/plugin and internal/model/plan", limited: true, limit: 0, goal: 0, measure: (*code).anyInContracts},
	{name: "exported names of internal/model", measure: exportedOf("internal/model")},
	{name: "exported names of internal/cluster/state", measure: exportedOf("internal/cluster/state")},
	{name: "functions above 60 lines", limited: true, limit: 3, goal: 10, measure: (*code).longFunctions},
	{name: "files above 500 lines", measure: (*code).longFiles},
	{name: "columns of comments, 90th percentile", limited: true, limit: 90, goal: 90, measure: (*code).commentWidth},
}

type row struct {
	name        string
	limited     bool
	limit, goal int
	measure     func(*code) number
}

// number is a measured value with the places that it comes from.
type number struct {
	value    int
	examples []string
}

func main() {
	verbose := flag.Bool("v", false, "list where each number with a limit comes from")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: numbers [-v]\n\nMeasures the Go files of the git repository in the current folder.")
		flag.PrintDefaults()
	}
	if flag.Parse(); flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "numbers: unexpected argument %q; run it without arguments in the root of the repository\n", flag.Arg(0))
		os.Exit(2)
	}
	passed, err := run(os.Stdout, *verbose)
	if err != nil {
		fmt.Fprintln(os.Stderr, "numbers:", err)
		os.Exit(2)
	}
	if !passed {
		os.Exit(1)
	}
}

// run prints the table and, for each number above its limit or all with verbose, where it
// comes from.
func run(to io.Writer, verbose bool) (passed bool, err error) {
	files, err := product()
	if err != nil {
		return false, err
	}
	c, err := read(files)
	if err != nil {
		return false, err
	}
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NUMBER\tNOW\tLIMIT\tGOAL")
	var sources []string
	passed = true
	for _, r := range rows {
		n := r.measure(c)
		if !r.limited {
			fmt.Fprintf(table, "%s\t%d\t-\t-\n", r.name, n.value)
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\n", r.name, n.value, r.limit, r.goal)
		if n.value > r.limit {
			passed = false
		}
		if n.value > r.limit || verbose {
			sources = append(sources, fmt.Sprintf("\n%s: %d, limit %d\n  %s", r.name, n.value, r.limit, strings.Join(n.examples, "\n  ")))
		}
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	for _, text := range sources {
		fmt.Fprintln(to, text)
	}
	return passed, nil
}

// product returns the paths of the product's Go files in git.
func product() (files []string, err error) {
	out, err := exec.Command("git", "ls-files", "--", "internal", "cmd", "app", "framework").Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for file := range strings.Lines(string(out)) {
		if file = strings.TrimSpace(file); isProduct(file) {
			files = append(files, file)
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no Go file of the product is in git below the current folder; run numbers in the root of the repository")
	}
	return files, nil
}

func isProduct(file string) bool {
	switch {
	case path.Ext(file) != ".go", strings.HasSuffix(file, "_test.go"):
		return false
	case strings.HasPrefix(file, "internal/proof/"), strings.HasPrefix(file, "framework/compat/"):
		return false
	}
	return !strings.Contains(file, "/testdata/")
}
