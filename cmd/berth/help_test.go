package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelp has usage and examples first, at most 25 lines of prose, and lines that fit
// 120 columns. kubectl's flags are in options alone.
func TestHelp(t *testing.T) {
	const prose, width = 25, 120
	for _, cmd := range newCommand().Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "scheduler" || cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		code, got := transcript(t, cmd.Name(), "--help")
		usage, examples := strings.Index(got, "\nUsage:\n"), strings.Index(got, "\nExamples:\n")
		if code != 0 || usage < 0 || usage > 200 || examples >= 0 && examples < usage {
			t.Errorf("%s: exit code %d, usage at %d, examples at %d\n%s", cmd.Name(), code, usage, examples, got)
		}
		lines := 0
		for line := range strings.Lines(strings.TrimPrefix(cmd.Long, cmd.Short+".\n\n")) {
			if strings.TrimSpace(line) != "" {
				lines++
			}
		}
		if lines > prose {
			t.Errorf("%s: %d lines of prose, at most %d", cmd.Name(), lines, prose)
		}
		if strings.Contains(got, "--token") {
			t.Errorf("%s: shows kubectl's flags:\n%s", cmd.Name(), got)
		}
		for line := range strings.Lines(got) {
			if len([]rune(line)) > width+1 && !strings.Contains(line, "berth") {
				t.Errorf("%s: wider than %d: %s", cmd.Name(), width, line)
			}
		}
		if cmd.GroupID == "" && !strings.Contains("options man version", cmd.Name()) {
			t.Errorf("%s: in no group", cmd.Name())
		}
	}
	if code, got := transcript(t, "options"); code != 0 || !strings.Contains(got, "--token") || strings.Contains(got, "--config ") {
		t.Errorf("options: exit code %d\n%s", code, got)
	}
}

// TestHelpNamesTheCommandAsCalled names kubectl berth in the plugin, which has no
// scheduler.
func TestHelpNamesTheCommandAsCalled(t *testing.T) {
	for binary, want := range map[string][2]string{
		"berth":         {"\n  berth explain web-2 -n shop\n", "kubectl berth "},
		"kubectl-berth": {"\n  kubectl berth explain web-2 -n shop\n", "\n  berth "},
	} {
		var out, errs strings.Builder
		code := run(t.Context(), []string{binary, "explain", "--help"}, &out, &errs)
		if code != 0 || !strings.Contains(out.String(), want[0]) || strings.Contains(out.String(), want[1]) {
			t.Errorf("%s: exit code %d, want %q and no %q\n%s", binary, code, want[0], want[1], out.String())
		}
		out.Reset()
		run(t.Context(), []string{binary}, &out, &errs)
		if got := strings.Contains(out.String(), "\n  scheduler "); got != (binary == "berth") {
			t.Errorf("%s lists the scheduler: %v\n%s", binary, got, out.String())
		}
		if !strings.Contains(out.String(), "Inspect a cluster:\n") {
			t.Errorf("%s: no groups\n%s", binary, out.String())
		}
	}
}

// TestManPages writes a page for each command.
func TestManPages(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "man")
	if code, got := transcript(t, "man", folder); code != 0 {
		t.Fatal(got)
	}
	for _, name := range []string{"berth", "berth-explain", "berth-simulate", "berth-top", "berth-options"} {
		page, err := os.ReadFile(filepath.Join(folder, name+".1"))
		if err != nil || !strings.HasPrefix(string(page), ".TH "+strings.ToUpper(name)+" 1 ") || !strings.Contains(string(page), ".SH SYNOPSIS\n") {
			t.Errorf("%s: %v\n%.300s", name, err, page)
		}
		for line := range strings.Lines(string(page)) {
			if strings.HasPrefix(line, ".") && !strings.HasPrefix(line, ".TH ") && !strings.HasPrefix(line, ".SH ") && !strings.HasPrefix(line, ".TP") &&
				!strings.HasPrefix(line, ".B ") && line != ".nf\n" && line != ".fi\n" {
				t.Errorf("%s: a macro by mistake: %s", name, line)
			}
		}
	}
	if code, _ := transcript(t, "man"); code != 2 {
		t.Errorf("exit code %d without a folder", code)
	}
	file := filepath.Join(folder, "berth.1")
	if code, got := transcript(t, "man", filepath.Join(file, "x")); code != 1 || !strings.Contains(got, "create the directory for man pages: ") {
		t.Errorf("exit code %d for a folder in a file\n%s", code, got)
	}
}
