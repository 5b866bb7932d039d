package trial

import (
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
)

// TestMissingBinaryIsAnError names a folder without devcluster: nothing may be skipped for that, and no other folder be taken.
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
	// Without the variable it is where `make` builds it, seen from an example or from the folder of its demo.
	t.Setenv(BinEnv, "")
	t.Chdir(empty)
	if bin, ok := Bin(); ok || filepath.Base(bin) != "bin" {
		t.Errorf("the folder is %s (%t)", bin, ok)
	}
}
