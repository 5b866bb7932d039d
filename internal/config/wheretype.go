package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var (
	wrongType     = regexp.MustCompile(`cannot unmarshal (\w+)(?: (\S+))? into Go (?:struct field \w+\.(\S+) of type|value of type) \S+`)
	wrongDuration = regexp.MustCompile(`time: (?:invalid duration|missing unit in duration|unknown unit ".*" in duration) "([^"]*)"`)
)

const mustBeDuration = "must be a duration, such as 15s"

// mustBe describes the values in a file that decode to a type; "" if the type has its own
// decoder, or is not known.
func mustBe(t reflect.Type) string {
	switch {
	case t == nil:
		return ""
	case t == reflect.TypeFor[metav1.Duration]():
		return mustBeDuration
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		return ""
	case t == reflect.TypeFor[[]byte]():
		return "must be a string in base64"
	}
	switch kind := t.Kind(); kind {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "must be an integer in the range of " + kind.String()
	case reflect.Float32, reflect.Float64:
		return "must be a number"
	case reflect.Bool:
		return "must be true or false"
	case reflect.String:
		return "must be a string"
	case reflect.Slice:
		return "must be a list"
	case reflect.Struct, reflect.Map:
		return "must be a mapping"
	}
	return ""
}

// wrongTypes returns the fields whose values have the wrong type. The decoder names a
// field without the indexes of lists, so the values in the text are compared. Nor does it
// name the kind of a named type, which reflection finds.
func (f *finder) wrongTypes(err error) []mistake {
	text := err.Error()
	base, of := f.decoded(err)
	if m := wrongType.FindStringSubmatch(text); m != nil {
		is, literal, path := m[1], m[2], m[3]
		found := f.values(base, strings.FieldsFunc(path, func(r rune) bool { return r == '.' }))
		i := slices.IndexFunc(found, func(v value) bool { return v.isA(is, literal) })
		if i < 0 {
			return nil
		}
		at := found[i].path
		return []mistake{{path: at, hint: mustBe(typeAt(of, strings.TrimPrefix(at, base)))}}
	}
	if m := wrongDuration.FindStringSubmatch(text); m != nil {
		all := f.values(base, nil)
		i := slices.IndexFunc(all, func(v value) bool { return v.is == any(m[1]) })
		if i >= 0 {
			return []mistake{{path: all[i].path, hint: mustBeDuration}}
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

// values returns the values at a path below base. names are the fields along the path;
// from a list, the path continues in each of its elements. The result has the decoder's
// order: by name, and by index. Without names it returns all values below base.
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
