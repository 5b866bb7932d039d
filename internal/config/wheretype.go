package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

var (
	wrongType     = regexp.MustCompile(`cannot unmarshal (\w+)(?: (\S+))? into Go (?:struct field \w+\.(\S+) of type (\S+)|value of type (\S+))`)
	wrongDuration = regexp.MustCompile(`time: (?:invalid duration|missing unit in duration|unknown unit ".*" in duration) "([^"]*)"`)
)

// mustBe describes the type that a Go type needs in the file.
func mustBe(goType string) string {
	switch {
	case strings.HasPrefix(goType, "int"), strings.HasPrefix(goType, "uint"):
		return "must be an integer in the range of " + goType
	case strings.HasPrefix(goType, "float"):
		return "must be a number"
	case goType == "bool":
		return "must be true or false"
	case goType == "string":
		return "must be a string"
	case strings.HasPrefix(goType, "[]"):
		return "must be a list"
	}
	return "must be a mapping"
}

// wrongTypes returns the fields whose values have the wrong type. The decoder names a
// field without the indexes of lists, so the values in the text are compared.
func (f *finder) wrongTypes(err error) []mistake {
	text := err.Error()
	base := ""
	if args := argsField.FindStringSubmatch(text); args != nil {
		base = args[1] + ".args"
	}
	if m := wrongType.FindStringSubmatch(text); m != nil {
		is, literal, path, want := m[1], m[2], m[3], m[4]+m[5]
		hint := mustBe(want)
		found := f.values(base, strings.FieldsFunc(path, func(r rune) bool { return r == '.' }))
		i := slices.IndexFunc(found, func(v value) bool { return v.isA(is, literal) })
		if i < 0 {
			return nil
		}
		return []mistake{{path: found[i].path, hint: hint}}
	}
	if m := wrongDuration.FindStringSubmatch(text); m != nil {
		all := f.values(base, nil)
		i := slices.IndexFunc(all, func(v value) bool { return v.is == any(m[1]) })
		if i >= 0 {
			return []mistake{{path: all[i].path, hint: "must be a duration, such as 15s"}}
		}
	}
	return nil
}

// value is a value of the text, with its path.
type value struct {
	path string
	is   any
}

// isA reports whether a value has a JSON type, and the literal of a number unless it is
// empty.
func (v value) isA(kind, literal string) bool {
	switch is := v.is.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "bool"
	case json.Number:
		return kind == "number" && (literal == "" || is.String() == literal || !isInteger(is))
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// isInteger reports whether a number fits into 64 bits.
func isInteger(n json.Number) bool {
	_, err := n.Int64()
	return err == nil
}

// values returns the values below base with the names of fields, in each element of
// lists, in the decoder's order: of names, and of indexes. Without names it returns all
// values below base.
func (f *finder) values(base string, names []string) (found []value) {
	data, err := yaml.YAMLToJSON(f.text)
	if err != nil {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var root any
	if decoder.Decode(&root) != nil {
		return nil
	}
	all := len(names) == 0
	var walk func(path string, is any, names []string)
	walk = func(path string, is any, names []string) {
		inBase := strings.HasPrefix(path, base) || strings.HasPrefix(base, path)
		if !inBase {
			return
		}
		below := len(path) >= len(base)
		if below && (all || len(names) == 0) {
			found = append(found, value{path, is})
			if !all {
				return
			}
		}
		switch is := is.(type) {
		case []any:
			for i := range is {
				walk(fmt.Sprintf("%s[%d]", path, i), is[i], names)
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(is)) {
				of := is[name]
				at := strings.TrimPrefix(path+"."+name, ".")
				switch {
				case all, !below:
					walk(at, of, names)
				case name == names[0]:
					walk(at, of, names[1:])
				case !has(is, names[0]) && len(names) > 1 && name == names[1]: // an embedded struct
					walk(at, of, names[2:])
				}
			}
		}
	}
	walk("", root, names)
	return found
}

func has(fields map[string]any, name string) bool {
	_, ok := fields[name]
	return ok
}
