package main

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// parsed returns the code of files that are given as path and text.
func parsed(t *testing.T, files map[string]string) *code {
	t.Helper()
	c := &code{token.NewFileSet(), map[string][]*file{}}
	for name, text := range files {
		syntax, err := parser.ParseFile(c.set, name, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		c.add(name, strings.Count(text, "\n"), syntax)
	}
	return c
}

// TestContracts counts embedded methods, assertions under any local name of the package,
// and any where a value has it.
func TestContracts(t *testing.T) {
	c := parsed(t, map[string]string{
		"internal/plugin/plugin.go": `package plugin
type Small interface{ A(); B() }
type Large interface { Small; C(x any) interface{} }
type Constraint[T any] interface{ D(T) }
type Struct struct{}
func (s *Struct) Exported() {}
func (s *hidden) NotExported() {}
type hidden struct{}
func inside() { var _ any }
`,
		"internal/decide/use.go": `package decide
import p "github.com/berth-scheduler/berth/internal/plugin"
type Small interface{ A() }
func f(x any) {
	_ = x.(p.Small)
	_, _ = x.(*p.Struct)
	_, _ = x.(Small)
	switch x.(type) {
	case p.Large, p.Small, nil:
	}
}
`,
	})
	if n := c.largestInterface(); n.value != 3 || len(n.examples) != 1 || !strings.HasSuffix(n.examples[0], ": Large") {
		t.Errorf("the largest interface: %+v", n)
	}
	if n := c.assertions(); n.value != 2 {
		t.Errorf("assertions: %+v", n)
	}
	if n := c.anyInContracts(); n.value != 2 {
		t.Errorf("any in contracts: %+v", n)
	}
	if n := exportedOf("internal/plugin")(c); n.value != 5 {
		t.Errorf("%d exported names, want 5", n.value)
	}
	if n := c.folders(); !slices.Equal(n.examples, []string{"decide", "plugin"}) {
		t.Errorf("folders: %+v", n)
	}
}

// TestSizes counts functions, files and packages at their limits.
func TestSizes(t *testing.T) {
	function := func(name string, lines int) string {
		return "func " + name + "() {" + strings.Repeat("\n", lines-1) + "}\n"
	}
	c := parsed(t, map[string]string{
		"app/a.go":     "package app\n" + function("at", 60) + function("above", 61),
		"app/b.go":     "package app\n" + strings.Repeat("\n", 499),
		"app/c.go":     "package app\n" + strings.Repeat("\n", 500),
		"cmd/x/x.go":   "package x\n" + strings.Repeat("\n", 98),
		"cmd/y/y.go":   "package y\n" + strings.Repeat("\n", 99),
		"cmd/y/doc.go": "// " + strings.Repeat("w", 97) + "\npackage y\n",
	})
	if n := c.longFunctions(); n.value != 1 || !strings.Contains(n.examples[0], "above: 61 lines") {
		t.Errorf("long functions: %+v", n)
	}
	if n := c.longFiles(); n.value != 1 || !strings.HasPrefix(n.examples[0], "app/c.go") {
		t.Errorf("long files: %+v", n)
	}
	if n := c.smallPackages(); n.value != 1 || !strings.HasPrefix(n.examples[0], "cmd/x") {
		t.Errorf("small packages: %+v", n)
	}
	if n := c.commentWidth(); n.value != 100 {
		t.Errorf("comments are %d columns wide, want 100", n.value)
	}
}

// TestProduct leaves out tests, the proof and other modules.
func TestProduct(t *testing.T) {
	for file, want := range map[string]bool{
		"internal/loop/loop.go": true, "internal/loop/loop_test.go": false, "internal/proof/oracle/oracle.go": false,
		"framework/framework.go": true, "framework/compat/main.go": false, "internal/x/testdata/y.go": false, "app/README.md": false,
	} {
		if isProduct(file) != want {
			t.Errorf("%s is part of the product: %t, want %t", file, !want, want)
		}
	}
}
