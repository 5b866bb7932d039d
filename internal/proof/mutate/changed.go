package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// recent is the number of last commits to the packages that count as recent.
const recent = 10

// changed returns the packages whose non-test code has changed since the merge base with
// the revision, uncommitted changes included. If none has, as on the main branch, or if
// the revision does not exist, as in a clone of one branch, it returns the packages that
// the last commits changed.
func changed(ctx context.Context, packages []*source, revision string) ([]*source, error) {
	top, err := git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	top = strings.TrimSpace(top)
	if base, err := git(ctx, "merge-base", "HEAD", revision); err == nil {
		files, err := git(ctx, "diff", "--name-only", strings.TrimSpace(base))
		if err != nil {
			return nil, err
		}
		if touched := touchedBy(packages, top, files); len(touched) > 0 {
			return touched, nil
		}
	}
	// Commits begin with a NUL. The first commit, like the only one of a shallow clone,
	// has touched everything.
	history, err := git(ctx, "log", "--format=%x00", "--name-only", "-n", "1000")
	if err != nil {
		return nil, err
	}
	var files strings.Builder
	commits := 0
	for _, commit := range strings.Split(history, "\x00") {
		if len(touchedBy(packages, top, commit)) == 0 {
			continue
		}
		files.WriteString(commit)
		if commits++; commits == recent {
			break
		}
	}
	return touchedBy(packages, top, files.String()), nil
}

// touchedBy returns the packages that have one of the files, given as lines relative to
// the top folder. Tests do not count.
func touchedBy(packages []*source, top, files string) (touched []*source) {
	folders := map[string]bool{}
	for file := range strings.Lines(files) {
		file = strings.TrimSpace(file)
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			folders[filepath.Join(top, filepath.Dir(file))] = true
		}
	}
	for _, p := range packages {
		if folders[p.Dir] {
			touched = append(touched, p)
		}
	}
	return touched
}

// git returns the output of a git command.
func git(ctx context.Context, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "git", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(output), err
}
