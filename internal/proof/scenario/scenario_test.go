package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/config"
)

// TestScenario runs every scenario in testdata through the real loop, with the answers of
// each release.
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
			for _, release := range config.Releases() {
				if err := s.Run(release); err != nil {
					t.Errorf("%s\nwith the answers of %v: %v", s.Title, release, err)
				}
			}
		})
	}
}
