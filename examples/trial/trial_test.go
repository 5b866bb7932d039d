package trial

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestMissingBinaryIsAnError sets a folder without devcluster. This must not skip tests,
// and no other folder may be used.
func TestMissingBinaryIsAnError(t *testing.T) {
	empty := t.TempDir()
	t.Setenv(BinEnv, empty)
	bin, ok := Bin()
	if !ok || bin != empty {
		t.Fatalf("the folder is %s (%t), want %s", bin, ok, empty)
	}
	if c, err := Start(t.Context(), bin, 1, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("cluster %v, error %v", c, err)
	}
	// Without the variable, `make` decides the folder, as seen from an example or from
	// its demo's folder.
	t.Setenv(BinEnv, "")
	t.Chdir(empty)
	if bin, ok := Bin(); ok || filepath.Base(bin) != "bin" {
		t.Errorf("the folder is %s (%t)", bin, ok)
	}
}
