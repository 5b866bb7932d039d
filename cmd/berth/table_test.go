package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestTablePrintsNoControlCharacters: the API server accepts any name of an owner.
func TestTablePrintsNoControlCharacters(t *testing.T) {
	for _, width := range []int{0, 40} {
		table := table{columns: []column{{name: "OWNER"}, {name: "REASON", text: true}}}
		table.rows = append(table.rows, []string{"Job/a\x1b[31m", "no\x07 room"})
		var out bytes.Buffer
		if err := table.print(&out, width, true); err != nil {
			t.Fatal(err)
		}
		if text := out.String(); strings.ContainsAny(text, "\x1b\x07") || !strings.Contains(text, "Job/a\uFFFD[31m") {
			t.Errorf("width %d: %q", width, text)
		}
	}
}
