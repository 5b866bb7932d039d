package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// code is the parsed code, by package folder.
type code struct {
	set      *token.FileSet
	packages map[string][]*file
}

type file struct {
	path   string
	lines  int
	syntax *ast.File
	// imports has the folders of imported packages of this module, by local name.
	imports map[string]string
}

const module = "github.com/berth-scheduler/berth/"

// read parses the files, except for generated ones.
func read(paths []string) (*code, error) {
	c := &code{token.NewFileSet(), map[string][]*file{}}
	for _, name := range paths {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		syntax, err := parser.ParseFile(c.set, name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		if !ast.IsGenerated(syntax) {
			c.add(name, bytes.Count(text, []byte("\n")), syntax)
		}
	}
	return c, nil
}

func (c *code) add(name string, lines int, syntax *ast.File) {
	f := &file{name, lines, syntax, map[string]string{}}
	for _, spec := range syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		folder, ours := strings.CutPrefix(imported, module)
		if !ours {
			continue
		}
		local := path.Base(folder)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		f.imports[local] = folder
	}
	folder := path.Dir(name)
	c.packages[folder] = append(c.packages[folder], f)
}

// all yields each file.
func (c *code) all(yield func(*file) bool) {
	for _, folder := range slices.Sorted(maps.Keys(c.packages)) {
		for _, f := range c.packages[folder] {
			if !yield(f) {
				return
			}
		}
	}
}

func (c *code) at(p token.Pos) string {
	at := c.set.Position(p)
	return fmt.Sprintf("%s:%d", at.Filename, at.Line)
}

func (c *code) folders() (n number) {
	found := map[string]bool{}
	for folder := range c.packages {
		if rest, inside := strings.CutPrefix(folder, "internal/"); inside {
			first, _, _ := strings.Cut(rest, "/")
			found[first] = true
		}
	}
	return number{len(found), slices.Sorted(maps.Keys(found))}
}

func (c *code) smallPackages() (n number) {
	for folder, files := range c.packages {
		lines := 0
		for _, f := range files {
			lines += f.lines
		}
		if lines < 100 {
			n.value++
			n.examples = append(n.examples, fmt.Sprintf("%s: %d lines", folder, lines))
		}
	}
	slices.Sort(n.examples)
	return n
}

func (c *code) lines() (n number) {
	for f := range c.all {
		n.value += f.lines
	}
	return n
}

func (c *code) longFiles() (n number) {
	for f := range c.all {
		if f.lines > 500 {
			n.value++
			n.examples = append(n.examples, fmt.Sprintf("%s: %d lines", f.path, f.lines))
		}
	}
	return n
}

func (c *code) longFunctions() (n number) {
	for f := range c.all {
		for _, decl := range f.syntax.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := c.set.Position(function.End()).Line - c.set.Position(function.Pos()).Line + 1; lines > 60 {
				n.value++
				n.examples = append(n.examples, fmt.Sprintf("%s: %s: %d lines", c.at(function.Pos()), function.Name.Name, lines))
			}
		}
	}
	return n
}

// commentWidth is the 90th percentile of the columns of the lines of comments.
func (c *code) commentWidth() number {
	var columns []int
	for f := range c.all {
		for _, group := range f.syntax.Comments {
			for _, comment := range group.List {
				columns = append(columns, c.set.Position(comment.End()).Column-1)
			}
		}
	}
	slices.Sort(columns)
	return number{value: columns[len(columns)*9/10]}
}

// typeKey names a type of this module: its folder, and its name.
type typeKey struct{ folder, name string }

// keyOf returns the key of a type expression; the zero value for types of other modules.
func (f *file) keyOf(e ast.Expr) typeKey {
	switch e := e.(type) {
	case *ast.Ident:
		return typeKey{path.Dir(f.path), e.Name}
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok && f.imports[pkg.Name] != "" {
			return typeKey{f.imports[pkg.Name], e.Sel.Name}
		}
	}
	return typeKey{}
}

// declared is an interface with the file that declares it.
type declared struct {
	*ast.InterfaceType
	in *file
}

func (c *code) interfaces() map[typeKey]declared {
	found := map[typeKey]declared{}
	for f := range c.all {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if i, ok := spec.Type.(*ast.InterfaceType); ok {
					found[typeKey{path.Dir(f.path), spec.Name.Name}] = declared{i, f}
				}
			}
			return true
		})
	}
	return found
}

// largestInterface counts the methods of interfaces and of those they embed. Interfaces
// of other modules, which are embedded to be implemented, do not count.
func (c *code) largestInterface() (n number) {
	all := c.interfaces()
	var methods func(d declared) int
	methods = func(d declared) (count int) {
		for _, field := range d.Methods.List {
			if count += len(field.Names); len(field.Names) == 0 {
				if of, ok := all[d.in.keyOf(field.Type)]; ok {
					count += methods(of)
				}
			}
		}
		return count
	}
	for key, d := range all {
		count := methods(d)
		if count > n.value {
			n.value, n.examples = count, nil
		}
		if count == n.value {
			n.examples = append(n.examples, fmt.Sprintf("%s: %s", c.at(d.Pos()), key.name))
		}
	}
	slices.Sort(n.examples)
	return n
}

// assertions counts the interfaces of internal/plugin that type assertions and type
// switches look for. A field of a contract is better, because "go doc" shows it.
func (c *code) assertions() number {
	all, found := c.interfaces(), map[string]string{}
	for f := range c.all {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			var types []ast.Expr
			switch n := n.(type) {
			case *ast.TypeAssertExpr:
				types = []ast.Expr{n.Type}
			case *ast.TypeSwitchStmt:
				for _, clause := range n.Body.List {
					types = append(types, clause.(*ast.CaseClause).List...)
				}
			}
			for _, t := range types {
				if key := f.keyOf(t); key.folder == "internal/plugin" && all[key].InterfaceType != nil {
					found[key.name] = c.at(n.Pos())
				}
			}
			return true
		})
	}
	n := number{value: len(found)}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		n.examples = append(n.examples, found[name]+": "+name)
	}
	return n
}

// anyInContracts counts the uses of the type any, or interface{}, outside of function
// bodies.
func (c *code) anyInContracts() (n number) {
	for _, folder := range []string{"internal/plugin", "internal/model/plan"} {
		for _, f := range c.packages[folder] {
			ast.Inspect(f.syntax, func(node ast.Node) bool {
				var is bool
				switch node := node.(type) {
				case *ast.BlockStmt, *ast.FuncLit:
					return false
				case *ast.TypeSpec: // any as a constraint is no value
					return node.TypeParams == nil
				case *ast.Ident:
					is = node.Name == "any"
				case *ast.InterfaceType:
					is = len(node.Methods.List) == 0
				}
				if is {
					n.value++
					n.examples = append(n.examples, c.at(node.Pos()))
				}
				return true
			})
		}
	}
	return n
}

// exportedOf counts the exported types, functions, variables, constants and methods of
// exported types in a package.
func exportedOf(folder string) func(*code) number {
	return func(c *code) (n number) {
		for _, f := range c.packages[folder] {
			for _, decl := range f.syntax.Decls {
				n.value += exportedIn(decl)
			}
		}
		return n
	}
}

func exportedIn(decl ast.Decl) (count int) {
	names := []*ast.Ident{}
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil || ast.IsExported(receiver(decl)) {
			names = append(names, decl.Name)
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, spec.Name)
			case *ast.ValueSpec:
				names = append(names, spec.Names...)
			}
		}
	}
	for _, name := range names {
		if name.IsExported() {
			count++
		}
	}
	return count
}

// receiver returns the name of a method's type.
func receiver(f *ast.FuncDecl) string {
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}
