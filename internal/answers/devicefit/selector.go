package devicefit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/decide/allocator"
)

// refusal returns why selectors refuse a device, or "" if they do not. The first selector
// that is false or fails counts, as for the allocator. Without describe, the text does
// not name the part that is false.
func (x *Examiner) refusal(selectors []resourcev1.DeviceSelector, d *device, describe bool) string {
	for i := range selectors {
		if selectors[i].CEL == nil {
			return "a selector of a kind that this release does not know"
		}
		if !describe {
			is, why := x.evaluate(selectors[i].CEL.Expression, d)
			if why != "" {
				return why
			}
			if !is {
				return "a selector is false"
			}
			continue
		}
		part, why := x.falsePart(selectors[i].CEL.Expression, d)
		if part != nil {
			return Shown(part.text) + " is false" + part.values(d)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

// part is one operand of the top-level "&&" of an expression.
type part struct {
	text string
	expr ast.Expr
	info *ast.SourceInfo
}

// falsePart returns the first part of an expression that is false for a device. Without
// one, why is the reason why the expression cannot be evaluated. Both are empty if the
// device matches.
func (x *Examiner) falsePart(expression string, d *device) (first *part, why string) {
	is, why := x.evaluate(expression, d)
	if is || why != "" {
		return nil, why
	}
	all, _ := x.partsOf(expression)
	for i := range all {
		if is, why := x.evaluate(all[i].text, d); !is && why == "" {
			return &all[i], ""
		}
	}
	return &part{text: expression}, ""
}

// evaluate returns the value of an expression for a device, or why it has none.
func (x *Examiner) evaluate(expression string, d *device) (is bool, why string) {
	if x.left < -maxUnits {
		return false, "its selectors are too expensive to explain"
	}
	if !x.compiled[expression] {
		if len(x.compiled) >= maxExpressions {
			clear(x.compiled)
		}
		x.compiled[expression] = true
		x.left -= allocator.CompilationUnits(len(expression))
	}
	compiled := x.expressions.GetOrCompile(expression)
	if compiled.Error != nil {
		return false, Shown(expression) + ": " + Shown(compiled.Error.Detail)
	}
	is, details, err := compiled.DeviceMatches(x.ctx, d.cel())
	x.left -= allocator.EvaluationUnits(len(expression), details)
	if err != nil {
		return false, Shown(expression) + " fails: " + Shown(err.Error())
	}
	return is, ""
}

// Shown returns a tenant's text for a terminal: in one line, without control characters,
// and cut at maxShown.
func Shown(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxShown {
		return string(runes[:maxShown-1]) + "…"
	}
	return text
}

// maxShown bounds the text of an expression, in characters.
const maxShown = 200

// partsOf splits an expression at its top-level "&&". ok is false if that is impossible,
// as for macros such as exists, whose source the parser does not keep.
func (x *Examiner) partsOf(expression string) (all []part, ok bool) {
	if known, ok := x.parts[expression]; ok {
		return known, len(known) > 0
	}
	if len(x.parts) >= maxExpressions {
		clear(x.parts)
	}
	x.left -= allocator.CompilationUnits(len(expression))
	all = x.split(expression)
	x.parts[expression] = all
	return all, len(all) > 0
}

// split splits an expression at its top-level "&&". It returns nothing if a part has no
// text of its own.
func (x *Examiner) split(expression string) (all []part) {
	compiled := x.expressions.GetOrCompile(expression)
	if compiled.Error != nil {
		return nil
	}
	parsed, issues := compiled.Environment.Parse(expression)
	if issues != nil {
		return nil
	}
	native, failed := parsed.NativeRep(), false
	var add func(ast.Expr)
	add = func(e ast.Expr) {
		if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
			for _, arg := range e.AsCall().Args() {
				add(arg)
			}
			return
		}
		text, err := unparsed(e, native.SourceInfo())
		failed = failed || err != nil
		all = append(all, part{text, e, native.SourceInfo()})
	}
	if add(native.Expr()); failed {
		return nil
	}
	return all
}

// unparsed returns the text of an expression in one line.
func unparsed(e ast.Expr, info *ast.SourceInfo) (string, error) {
	return parser.Unparse(e, info, parser.WrapOnColumn(math.MaxInt32))
}

// joined is the expression of some parts.
func joined(parts []part) string {
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].text
		if e := parts[i].expr; len(parts) > 1 && e.Kind() == ast.CallKind && slices.Contains([]string{operators.LogicalOr, operators.Conditional}, e.AsCall().FunctionName()) {
			texts[i] = "(" + texts[i] + ")"
		}
	}
	return strings.Join(texts, " && ")
}

// values describes the fields of a device that a part reads.
func (p *part) values(d *device) string {
	if p.expr == nil {
		return ""
	}
	var all []string
	for _, field := range fieldsIn(p.expr) {
		text := field.name + " " + field.describe(d)
		if against := field.comparedWith(p.expr); against != nil {
			if has := field.kind(d); has != "" && has != kindOf(against) {
				text += fmt.Sprintf(", not a %s", kindOf(against))
			}
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return ": " + strings.Join(all, ", ")
}

// field is a reference to an attribute, a capacity or the driver of the device. The name
// of the driver is "driver", without a domain.
type field struct {
	expr         ast.Expr
	of           string // "attributes", "capacity" or "driver"
	domain, name string
}

// fieldsIn returns the fields that an expression reads.
func fieldsIn(e ast.Expr) (all []field) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if f, ok := fieldOf(e); ok {
			all = append(all, f)
		}
	}))
	return all
}

// fieldOf recognizes device.driver and device.attributes["domain"].name, also with the
// name in brackets.
func fieldOf(e ast.Expr) (f field, ok bool) {
	inner, name, ok := member(e)
	if !ok {
		return f, false
	}
	if isDevice(inner) && name == "driver" {
		return field{expr: e, of: "driver", name: "driver"}, true
	}
	outer, domain, ok := member(inner)
	if !ok {
		return f, false
	}
	root, of, ok := member(outer)
	if !ok || !isDevice(root) || of != "attributes" && of != "capacity" {
		return f, false
	}
	return field{e, of, domain, name}, true
}

func isDevice(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == "device" }

// member returns the operand and the name of operand.name or operand["name"].
func member(e ast.Expr) (operand ast.Expr, name string, ok bool) {
	switch e.Kind() {
	case ast.SelectKind:
		return e.AsSelect().Operand(), e.AsSelect().FieldName(), true
	case ast.CallKind:
		call := e.AsCall()
		if call.FunctionName() == operators.Index && len(call.Args()) == 2 && call.Args()[1].Kind() == ast.LiteralKind {
			text, ok := call.Args()[1].AsLiteral().(types.String)
			return call.Args()[0], string(text), ok
		}
	}
	return nil, "", false
}

// attribute returns the attribute of a device by domain and name. Attributes without a
// domain have the driver's.
func (f *field) attribute(d *device) (a resourcev1.DeviceAttribute, ok bool) {
	return attributeOf(d, f.domain, f.name)
}

func attributeOf(d *device, domain, name string) (a resourcev1.DeviceAttribute, ok bool) {
	if a, ok = d.spec.Attributes[resourcev1.QualifiedName(domain+"/"+name)]; !ok && domain == d.driver {
		a, ok = d.spec.Attributes[resourcev1.QualifiedName(name)]
	}
	return a, ok
}

// describe describes the device's value.
func (f *field) describe(d *device) string {
	if f.of == "driver" {
		return "is " + strconv.Quote(d.driver)
	}
	if f.of == "capacity" {
		c, ok := d.spec.Capacity[resourcev1.QualifiedName(f.domain+"/"+f.name)]
		if !ok && f.domain == d.driver {
			c, ok = d.spec.Capacity[resourcev1.QualifiedName(f.name)]
		}
		if !ok {
			return "is not set"
		}
		return "is " + c.Value.String()
	}
	a, ok := f.attribute(d)
	if !ok {
		return "is not set"
	}
	if kind := kindOfAttribute(&a); kind != "" {
		return fmt.Sprintf("is the %s %s", kind, literalOf(&a))
	}
	return "is the list " + valuesText(&a)
}

// kind returns the type of the device's value; empty for lists and fields without a
// value.
func (f *field) kind(d *device) string {
	if f.of == "driver" {
		return "string"
	}
	if a, ok := f.attribute(d); ok && f.of == "attributes" {
		return kindOfAttribute(&a)
	}
	return ""
}

func kindOfAttribute(a *resourcev1.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return "int"
	case a.BoolValue != nil:
		return "bool"
	case a.StringValue != nil:
		return "string"
	case a.VersionValue != nil:
		return "version"
	}
	return ""
}

// literalOf returns the value of an attribute as a CEL expression.
func literalOf(a *resourcev1.DeviceAttribute) string {
	switch {
	case a.IntValue != nil:
		return strconv.FormatInt(*a.IntValue, 10)
	case a.BoolValue != nil:
		return strconv.FormatBool(*a.BoolValue)
	case a.StringValue != nil:
		return strconv.Quote(*a.StringValue)
	case a.VersionValue != nil:
		return fmt.Sprintf("semver(%q)", *a.VersionValue)
	}
	return ""
}

// comparedWith returns the literal that a comparison "field == literal" has; nil for
// other expressions.
func (f *field) comparedWith(e ast.Expr) ref.Val {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != operators.Equals {
		return nil
	}
	args := e.AsCall().Args()
	for i, arg := range args {
		if arg.ID() == f.expr.ID() && args[1-i].Kind() == ast.LiteralKind {
			return args[1-i].AsLiteral()
		}
	}
	return nil
}

// kindOf returns the type of a literal, in the words of kindOfAttribute where it has one.
func kindOf(literal ref.Val) string { return literal.Type().TypeName() }
