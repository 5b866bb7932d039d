package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// variable is the environment variable with the number of the active fault.
const variable = "MUTATE_FAULT"

// numbered matches the numbers of faults in compiler errors. They are in the file names
// that common gives to faults.
var numbered = regexp.MustCompile(`\bfault([0-9]+)\.go:`)

// build compiles the tests of a package with all faults into one binary in a folder. It
// returns the binary's path and which faults it contains; faults that do not compile are
// left out. The number of a fault is its index plus one.
func (p *source) build(ctx context.Context, folder string, faults []fault) (binary string, in []bool, err error) {
	in = slices.Repeat([]bool{true}, len(faults))
	for {
		replace, err := p.common(faults, in)
		if err != nil {
			return "", nil, err
		}
		binary, output, err := p.compile(ctx, folder, replace)
		if err == nil {
			return binary, in, nil
		}
		removed := false
		for _, found := range numbered.FindAllStringSubmatch(output, -1) {
			if n, _ := strconv.Atoi(found[1]); in[n-1] {
				in[n-1], removed = false, true
			}
		}
		if !removed {
			return "", nil, fmt.Errorf("compile its tests: %w\n%s", err, output)
		}
	}
}

// common returns the package's files with faults, by path. Each function with faults is
// renamed and copied once for each fault. A new function in its place calls the copy of
// the active fault.
func (p *source) common(faults []fault, in []bool) (map[string][]byte, error) {
	numbers := map[*function][]int{}
	functions, copies := map[string][]*function{}, map[string]*bytes.Buffer{}
	for i, f := range faults {
		if !in[i] {
			continue
		}
		if numbers[f.in] == nil {
			functions[f.path] = append(functions[f.path], f.in)
		}
		numbers[f.in] = append(numbers[f.in], i+1)
		if copies[f.path] == nil {
			copies[f.path] = &bytes.Buffer{}
		}
		// The text after the function is as long as without the fault.
		end := len(f.code) - (len(p.code[f.path]) - f.in.end)
		named := f.in.nameAt + len(f.in.name)
		fmt.Fprintf(copies[f.path], "\n//line fault%d.go:1\n%s__%d%s\n", i+1, f.code[f.in.begin:named], i+1, f.code[named:end])
	}
	replace := map[string][]byte{}
	for path, changed := range functions {
		slices.SortFunc(changed, func(a, b *function) int { return a.begin - b.begin })
		var text bytes.Buffer
		at := 0
		for _, f := range changed {
			named := f.nameAt + len(f.name)
			text.Write(p.code[path][at:named])
			text.WriteString("__0")
			at = named
		}
		text.Write(p.code[path][at:])
		for _, f := range changed {
			text.WriteString(f.choice(numbers[f]))
		}
		text.Write(copies[path].Bytes())
		replace[path] = text.Bytes()
	}
	if len(replace) > 0 {
		replace[filepath.Join(p.Dir, "zz_mutate_fault.go")] = fmt.Appendf(nil, "package %s\n\nimport (\n\t\"os\"\n\t\"strconv\"\n)\n\nvar fault__, _ = strconv.Atoi(os.Getenv(%q))\n", p.Name, variable)
	}
	return replace, nil
}

// choice returns the text of the function that replaces one with faults.
func (f *function) choice(numbers []int) string {
	var head, call strings.Builder
	head.WriteString("\nfunc ")
	called := f.name
	if f.receiver != "" {
		fmt.Fprintf(&head, "(receiver__ %s) ", f.receiver)
		called = "receiver__." + called
	}
	fmt.Fprintf(&head, "%s%s(", f.name, f.typed)
	fmt.Fprintf(&call, "%s(", f.typeNames)
	for i, of := range f.parameters {
		fmt.Fprintf(&head, "p%d__ %s, ", i, of)
		fmt.Fprintf(&call, "p%d__", i)
		if strings.HasPrefix(of, "...") {
			call.WriteString("...")
		}
		call.WriteString(", ")
	}
	call.WriteString(")")
	fmt.Fprintf(&head, ") (%s) {\n\tswitch fault__ {\n", strings.Join(f.results, ", "))
	before, after := "return ", ""
	if len(f.results) == 0 {
		before, after = "", "; return"
	}
	for _, n := range numbers {
		fmt.Fprintf(&head, "\tcase %d:\n\t\t%s%s__%d%s%s\n", n, before, called, n, call.String(), after)
	}
	fmt.Fprintf(&head, "\t}\n\t%s%s__0%s\n}\n", before, called, call.String())
	return head.String()
}

// compile compiles the tests of a package into a folder, with other texts for some files.
// If that fails, it returns the compiler's output with all errors.
func (p *source) compile(ctx context.Context, folder string, replace map[string][]byte) (binary, output string, err error) {
	paths := map[string]string{}
	for path, text := range replace {
		paths[path] = filepath.Join(folder, filepath.Base(path))
		if err := os.WriteFile(paths[path], text, 0o600); err != nil {
			return "", "", err
		}
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": paths})
	if err != nil {
		return "", "", err
	}
	list := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		return "", "", err
	}
	binary = filepath.Join(folder, "tests")
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-trimpath", "-gcflags=all=-dwarf=false", "-gcflags="+p.ImportPath+"=-dwarf=false -e",
		// without DWARF and symbols, as in the Makefile, so that the imported packages
		// are compiled already
		"-ldflags=-s", "-overlay", list, "-o", binary, p.ImportPath)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	text, err := command.CombinedOutput()
	if ctx.Err() != nil {
		return "", "", ctx.Err()
	}
	return binary, string(text), err
}

// flagsFor returns flags that keep the tests of a package from writing into its folder.
// Package rapid stores the inputs of failures there, and would repeat them in every later
// run, whatever the later failure is about.
func flagsFor(ctx context.Context, name string) ([]string, error) {
	imports, err := exec.CommandContext(ctx, "go", "list", "-deps", "-test", name).Output()
	if err != nil {
		return nil, fmt.Errorf("list what its tests import: %w", err)
	}
	if slices.Contains(strings.Fields(string(imports)), "pgregory.net/rapid") {
		return []string{"-rapid.nofailfile"}, nil
	}
	return nil, nil
}
