// Command prose checks the English of comments and pages. "make lint" runs it.
//
// It counts, for each package of Go files and each Markdown page, the markers of a
// private dialect per 1,000 words, sentences of more than 40 words, and lines that are
// too wide. The file limits.txt lists the packages and pages that do not reach the goal
// yet, with their present numbers. A number above its limit fails; -update lowers limits
// and never raises one, so the list only gets shorter.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	update := flag.Bool("update", false, "lower the limits to the present numbers")
	limits := flag.String("limits", "tools/prose/limits.txt", "`file` with the limits of packages and pages above the goal")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: prose [-update] [-limits FILE] [PATH...]\n\nWithout a path, all Go files and pages in git are checked.")
		flag.PrintDefaults()
	}
	flag.Parse()
	passed, err := run(*limits, *update, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(2)
	}
	if !passed {
		os.Exit(1)
	}
}

// run checks the files and prints each number above its limit.
func run(limitsFile string, update bool, paths []string) (passed bool, err error) {
	files, err := tracked(paths)
	if err != nil {
		return false, err
	}
	rooms, err := roomsOf(files)
	if err != nil {
		return false, err
	}
	known, err := readLimits(limitsFile)
	if err != nil {
		return false, err
	}
	if update {
		return true, writeLimits(limitsFile, lowered(known, rooms))
	}
	passed = true
	for _, name := range slices.Sorted(keys(rooms)) {
		r, limit := rooms[name], known[name].orGoal()
		for _, problem := range r.above(limit) {
			fmt.Printf("%s: %s\n", name, problem)
			passed = false
		}
	}
	if !passed {
		fmt.Println("Rewrite what is new: the field's noun first, one idea a sentence. Each example above names a file and a line.")
	}
	return passed, nil
}

// tracked returns the Go files and pages in git below the paths, without generated ones.
func tracked(paths []string) (files []string, err error) {
	out, err := exec.Command("git", append([]string{"ls-files", "--"}, paths...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w", err)
	}
	for file := range strings.Lines(string(out)) {
		file = strings.TrimSpace(file)
		if strings.Contains("/"+file, "/testdata/") {
			continue
		}
		if ext := filepath.Ext(file); ext == ".go" || ext == ".md" {
			files = append(files, file)
		}
	}
	return files, nil
}
