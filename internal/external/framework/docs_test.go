package framework_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	fwk "k8s.io/kube-scheduler/framework"
)

// TestDocumentationOfTheHandle compares the table of docs/plugin-api.md with the
// interface. The table must have each method, and "not supported" for exactly those that
// fail.
func TestDocumentationOfTheHandle(t *testing.T) {
	text, err := os.ReadFile("../../../docs/plugin-api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "\n## Handle\n")
	section, _, more := strings.Cut(after, "\n## ")
	if !ok || !more {
		t.Fatal("docs/plugin-api.md has no section Handle")
	}
	named := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z][^|]*) \| ([^|]*) \|`).FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			named[name] = true
			if refused, want := refusals[name] != nil, strings.HasPrefix(row[2], "not supported"); refused != want {
				t.Errorf("docs/plugin-api.md says of the Handle's %s: %s; tests show that it is not supported: %t", name, row[2], refused)
			}
		}
	}
	handle := reflect.TypeFor[fwk.Handle]()
	for method := range handle.Methods() {
		if !named[method.Name] {
			t.Errorf("docs/plugin-api.md does not say what the Handle's %s does", method.Name)
		}
		delete(named, method.Name)
	}
	for name := range named {
		t.Errorf("docs/plugin-api.md has a method %s, which the Handle does not", name)
	}
}
