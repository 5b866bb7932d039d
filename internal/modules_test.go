package internal_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// TestModulesShareVersions checks that the modules of this repository require the same
// version of each library, so that shared libraries are compiled once. A different
// version of a basic library makes all its importers, most of Kubernetes, compile twice,
// even if their own versions are equal.
func TestModulesShareVersions(t *testing.T) {
	apart := map[string]string{
		"tools/go.mod":         "the linter shares no library with what it looks at",
		"tools/release/go.mod": "it shares two packages",
		"tools/prose/go.mod":   "it requires no library",
		"tools/numbers/go.mod": "it requires no library",
		// not in make test
		"parity/release138/go.mod": "it has the libraries of another release",
	}
	files, err := exec.Command("git", "ls-files", "--full-name", "..").Output()
	if err != nil {
		t.Fatal("list the repository's files:", err)
	}
	required := regexp.MustCompile(`(?m)^(?:require )?\t?(\S+) (v\S+)`)
	type requirement struct{ version, file string }
	first := map[string]requirement{}
	modules := 0
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		if file != "go.mod" && !strings.HasSuffix(file, "/go.mod") || apart[file] != "" {
			continue
		}
		text, err := os.ReadFile("../" + file)
		if err != nil {
			t.Fatal(err)
		}
		modules++
		for _, found := range required.FindAllStringSubmatch(string(text), -1) {
			library, version := found[1], found[2]
			switch before, ok := first[library]; {
			case !ok:
				first[library] = requirement{version, file}
			case before.version != version:
				t.Errorf("%s requires %s %s, %s requires %s: the same version would be compiled once", file, library, version, before.file, before.version)
			}
		}
	}
	if modules < 2 || len(first) == 0 {
		t.Errorf("%d modules with %d libraries were found: the test finds none", modules, len(first))
	}
}
