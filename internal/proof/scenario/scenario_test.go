package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestScenario runs every scenario in testdata through the real loop.
func TestScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/*.scenario")
	if err != nil || len(files) == 0 {
		t.Fatalf("list testdata/*.scenario: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".scenario"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := Parse(file, text)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Run(); err != nil {
				t.Errorf("%s\n%v", s.Title, err)
			}
		})
	}
}
