package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// fault is one change to a file.
type fault struct {
	// id identifies the fault without a line number, so that it stays the same while
	// other code changes: file, function, change, and a number if several are alike.
	id    string
	path  string
	line  int
	begin int       // offset of the replaced text
	code  []byte    // of the whole file, with the fault
	in    *function // nil if the fault is in no function that can be replaced
}

// function is a function with faults. All offsets are in the file without a fault.
type function struct {
	name       string
	begin, end int // of the declaration
	nameAt     int
	receiver   string   // its type, or empty
	typed      string   // type parameters, with brackets and constraints
	typeNames  string   // without constraints
	parameters []string // their types
	results    []string
}

// swaps has the replacements of operators.
var swaps = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.LAND: token.LOR, token.LOR: token.LAND,
}

// finder collects the faults of a file.
type finder struct {
	path     string
	code     []byte
	files    *token.FileSet
	function string
	in       *function
	seen     map[string]int
	faults   []fault
}

// faultsOf returns the possible faults of a file. Conditions are negated, operators
// swapped, constants changed, statements and cases dropped, and functions return zero
// values at once. Some faults do not compile. The texts of audits are left as they are.
func faultsOf(path string, code []byte) ([]fault, error) {
	f := &finder{path: path, code: code, files: token.NewFileSet(), seen: map[string]int{}}
	file, err := parser.ParseFile(f.files, path, code, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			f.function, f.in = d.Name.Name, f.standIn(d)
			if d.Body != nil && len(d.Body.List) > 0 {
				f.returns(d)
				ast.Inspect(d.Body, f.inspect)
			}
		case *ast.GenDecl:
			f.function, f.in = d.Tok.String(), nil
			if d.Tok == token.CONST || d.Tok == token.VAR {
				ast.Inspect(d, f.inspect)
			}
		}
	}
	return f.faults, nil
}

func (f *finder) offset(p token.Pos) int { return f.files.Position(p).Offset }

// add adds a fault that replaces the text between two positions.
func (f *finder) add(kind string, from, to token.Pos, text string) {
	begin, end := f.offset(from), f.offset(to)
	id := fmt.Sprintf("%s:%s: %s %s", f.path[strings.LastIndex(f.path, "/")+1:], f.function, kind, short(string(f.code[begin:end])))
	if f.seen[id]++; f.seen[id] > 1 {
		id += fmt.Sprint(" #", f.seen[id])
	}
	f.faults = append(f.faults, fault{
		id: id, path: f.path, line: f.files.Position(from).Line, begin: begin, code: slices.Concat(f.code[:begin], []byte(text), f.code[end:]), in: f.in,
	})
}

// short shortens a text to one short line.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > 70 {
		return string(runes[:70]) + "..."
	}
	return text
}

// audits reports whether the file checks invariants. Tests check that a broken invariant
// is reported, but not the words of the report.
func (f *finder) audits() bool {
	return strings.HasPrefix(f.path[strings.LastIndex(f.path, "/")+1:], "audit")
}

func (f *finder) text(n ast.Node) string { return string(f.code[f.offset(n.Pos()):f.offset(n.End())]) }

// types returns the type of each parameter or result of a list.
func (f *finder) types(list *ast.FieldList) (types []string) {
	if list == nil {
		return nil
	}
	for _, field := range list.List {
		for range max(1, len(field.Names)) {
			types = append(types, f.text(field.Type))
		}
	}
	return types
}

// standIn describes a function that can be replaced. It returns nil for main and init,
// which cannot be renamed, and for a function with an unnamed type parameter.
func (f *finder) standIn(d *ast.FuncDecl) *function {
	if d.Recv == nil && (d.Name.Name == "main" || d.Name.Name == "init") {
		return nil
	}
	in := &function{
		name: d.Name.Name, begin: f.offset(d.Pos()), end: f.offset(d.End()), nameAt: f.offset(d.Name.Pos()), parameters: f.types(d.Type.Params), results: f.types(d.Type.Results),
	}
	if d.Recv != nil {
		in.receiver = f.text(d.Recv.List[0].Type)
	}
	if list := d.Type.TypeParams; list != nil {
		var names []string
		for _, field := range list.List {
			for _, name := range field.Names {
				if name.Name == "_" {
					return nil
				}
				names = append(names, name.Name)
			}
		}
		in.typed, in.typeNames = f.text(list), "["+strings.Join(names, ", ")+"]"
	}
	return in
}

// returns adds the fault that a function returns zero values at once.
func (f *finder) returns(d *ast.FuncDecl) {
	values := f.types(d.Type.Results)
	for i, of := range values {
		values[i] = "*new(" + of + ")"
	}
	at := d.Body.Lbrace + 1
	f.add("return at once", at, at, " if true { return "+strings.Join(values, ", ")+" };")
}

func (f *finder) inspect(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if to, ok := swaps[n.Op]; ok {
			f.swap(n, to)
		}
	case *ast.IfStmt:
		f.add("negate", n.Cond.Pos(), n.Cond.End(), "!("+f.text(n.Cond)+")")
	case *ast.ForStmt:
		if n.Cond != nil {
			f.add("never", n.Cond.Pos(), n.Cond.End(), "false && ("+f.text(n.Cond)+")")
		}
	case *ast.BasicLit:
		if n.Kind == token.INT {
			f.add("one more than", n.Pos(), n.End(), "("+n.Value+" + 1)")
		}
		if n.Kind == token.STRING && n.Value != `""` && !f.audits() {
			if value, err := strconv.Unquote(n.Value); err == nil {
				f.add("another text than", n.Pos(), n.End(), strconv.Quote(value+"~"))
			}
		}
	case *ast.Ident:
		switch n.Name {
		case "true":
			f.add("not", n.Pos(), n.End(), "false")
		case "false":
			f.add("not", n.Pos(), n.End(), "true")
		}
	case *ast.BlockStmt:
		f.drop(n.List)
	case *ast.CaseClause:
		f.add("drop", n.Pos(), n.End(), "")
		f.drop(n.Body)
	case *ast.CommClause:
		f.add("drop", n.Pos(), n.End(), "")
		f.drop(n.Body)
	case *ast.ImportSpec, *ast.Field: // tags and types
		return false
	}
	return true
}

// swap replaces an operator.
func (f *finder) swap(n *ast.BinaryExpr, to token.Token) {
	text := f.text(n.X) + " " + to.String() + " " + f.text(n.Y)
	f.add("swap "+n.Op.String()+" in", n.Pos(), n.End(), text)
}

// drop drops each statement of a list that declares nothing.
func (f *finder) drop(list []ast.Stmt) {
	for _, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.DeferStmt, *ast.GoStmt, *ast.BranchStmt:
			f.add("drop", s.Pos(), s.End(), "")
		case *ast.AssignStmt:
			if s.Tok != token.DEFINE {
				f.add("drop", s.Pos(), s.End(), "")
			}
		}
	}
}
