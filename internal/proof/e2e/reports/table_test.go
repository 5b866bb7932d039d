package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPage renders rows by area, with links to upstream issues.
func TestPage(t *testing.T) {
	reports := []*Report{
		{Name: "two", Area: "VolumeBinding", Right: "Right two.", Issue: "volcano-sh/volcano#7"},
		{Name: "one", Area: "NodePorts", Right: "Right one."},
	}
	got := page(reports, map[string]string{"one": isRight, "two": "`web` waits"})
	rows := strings.Split(strings.TrimSpace(strings.TrimPrefix(got, head)), "\n")
	want := []string{
		"| NodePorts | Right one. | right | [one](../internal/proof/e2e/reports/testdata/one.yaml) |",
		"| VolumeBinding | Right two. | `web` waits | [two](../internal/proof/e2e/reports/testdata/two.yaml), [volcano #7](https://github.com/volcano-sh/volcano/issues/7) |",
	}
	if len(rows) != 2 || rows[0] != want[0] || rows[1] != want[1] {
		t.Errorf("got %q", rows)
	}
}

// TestKeep rejects a different table, and writes one.
func TestKeep(t *testing.T) {
	o := &options{table: filepath.Join(t.TempDir(), "table.md")}
	if err := os.WriteFile(o.table, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if o.keep("new") == nil {
		t.Error("a table that differs is accepted")
	}
	o.write = true
	if err := o.keep("new"); err != nil {
		t.Fatal(err)
	}
	o.write = false
	if err := o.keep("new"); err != nil {
		t.Error(err)
	}
}

// TestPages compares the two pages. docs/reports.md is as "make reports" writes it.
// docs/differences.md links exactly the reports that kube-scheduler gets wrong.
func TestPages(t *testing.T) {
	reports, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../../../../docs/reports.md")
	if err != nil {
		t.Fatal(err)
	}
	differences, err := os.ReadFile("../../../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]string{}
	for _, r := range reports {
		row := "| " + r.Area + " | " + r.Right + " | "
		_, rest, ok := strings.Cut(string(table), row)
		if !ok {
			t.Errorf("docs/reports.md has no row of %s; run make reports", r.Name)
			continue
		}
		outcomes[r.Name], _, _ = strings.Cut(rest, " | ")
		wrong := outcomes[r.Name] != isRight
		if linked := strings.Contains(string(differences), "/"+r.Name+".yaml)"); linked != wrong {
			t.Errorf("%s: kube-scheduler is wrong: %v; docs/differences.md links it: %v", r.Name, wrong, linked)
		}
	}
	if diff := cmp.Diff(page(reports, outcomes), string(table)); diff != "" {
		t.Errorf("with the same outcomes, make reports writes (-), docs/reports.md has (+):\n%s", diff)
	}
}
