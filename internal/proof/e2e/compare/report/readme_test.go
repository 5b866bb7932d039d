package report

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"testing"
)

var write = flag.Bool("write", false, "write the picture of README.md to docs/speed.svg")

// TestPictureOfReadme compares docs/speed.svg with its rows of docs/compare.csv: the
// cheapest case and the most realistic one. The chart of all cases is too tall for the
// first page.
func TestPictureOfReadme(t *testing.T) {
	const path = "../../../../../docs/"
	rows, err := os.Open(path + "compare.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	rounds, err := ReadCSV(rows)
	if err != nil {
		t.Fatal(err)
	}
	rounds = slices.DeleteFunc(rounds, func(r Round) bool {
		plain := r.Case.Name == "plain" && r.Case.Before == 0
		mixed := r.Case.Name == "mixed" && r.Case.Before == 30000
		return r.Case.Nodes != 5000 || !plain && !mixed
	})
	var want bytes.Buffer
	if err := Chart(&want, Summarise(rounds)); err != nil {
		t.Fatal(err)
	}
	if *write {
		if err := os.WriteFile(path+"speed.svg", want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path + "speed.svg"); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("docs/speed.svg is not the chart of docs/compare.csv (%v); -write writes it", err)
	}
}
