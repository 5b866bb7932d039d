package manifest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes/scheme"
)

// locate reports every field of js that kind k does not have or cannot hold. It is slow
// and used only for invalid objects. The decoder stops at the first such field, and often
// cannot report its position.
func locate(k *kind, js []byte, r *report) {
	o, err := scheme.Scheme.New(k.gvk)
	if err != nil {
		r.add("", "%v", err)
		return
	}
	l := locator{report: r}
	l.value(reflect.TypeOf(o).Elem(), js, "")
}

type locator struct{ report *report }

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	decoderType  = reflect.TypeFor[json.Unmarshaler]()
	bytesType    = reflect.TypeFor[[]byte]()
)

// value reports the parts of text that do not fit a t.
func (l *locator) value(t reflect.Type, text json.RawMessage, path string) {
	switch {
	case string(text) == "null":
	case t == quantityType:
		l.quantity(text, path)
	case reflect.PointerTo(t).Implements(decoderType), t == bytesType:
		l.leaf(t, text, path)
	case t.Kind() == reflect.Pointer:
		l.value(t.Elem(), text, path)
	case t.Kind() == reflect.Struct:
		l.structure(t, text, path)
	case t.Kind() == reflect.Map:
		l.mapping(t, text, path)
	case t.Kind() == reflect.Slice:
		l.sequence(t, text, path)
	default:
		l.leaf(t, text, path)
	}
}

func (l *locator) quantity(text []byte, path string) {
	token := strings.Trim(string(text), `"`)
	if enormous([]byte(token)) {
		l.report.add(path, "%s has too large an exponent; write a number with an optional suffix, as in 500m, 2 or 1.5Gi", token)
		return
	}
	if _, err := resource.ParseQuantity(token); err != nil {
		l.report.add(path, "%s is not a valid quantity; write a number with an optional suffix, as in 500m, 2 or 1.5Gi", sample(text))
	}
}

func (l *locator) leaf(t reflect.Type, text []byte, path string) {
	if json.Unmarshal(text, reflect.New(t).Interface()) != nil {
		l.report.add(path, "%s is not valid here; want %s", sample(text), wanted(t))
	}
}

// wanted describes the values of type t, for messages.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "text (put numbers, true and false in quotes)"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8:
		return "a whole number of the range of " + t.Kind().String()
	}
	switch t.Name() {
	case "Time", "MicroTime":
		return "a time such as 2006-01-02T15:04:05Z"
	case "IntOrString":
		return "a whole number or text"
	}
	return t.Name()
}

func (l *locator) structure(t reflect.Type, text []byte, path string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		l.report.add(path, "%s is not valid here; want an object with named fields", sample(text))
		return
	}
	fields := map[string]reflect.Type{}
	fieldsOf(t, fields)
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if field, ok := fields[name]; ok {
			l.value(field, members[name], child(path, name))
			continue
		}
		known := map[string]bool{}
		for field := range fields {
			known[field] = true
		}
		l.report.add(child(path, name), "unknown field%s", suggest(name, known))
	}
}

// fieldsOf collects the JSON fields of t, including those of inlined structs.
func fieldsOf(t reflect.Type, fields map[string]reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-":
		case name == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			fieldsOf(f.Type, fields)
		case name != "":
			fields[name] = f.Type
		}
	}
}

func (l *locator) mapping(t reflect.Type, text []byte, path string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		l.report.add(path, "%s is not valid here; want an object with keys and values", sample(text))
		return
	}
	for _, key := range slices.Sorted(maps.Keys(members)) {
		l.value(t.Elem(), members[key], fmt.Sprintf("%s[%s]", path, key))
	}
}

func (l *locator) sequence(t reflect.Type, text []byte, path string) {
	var elements []json.RawMessage
	if json.Unmarshal(text, &elements) != nil {
		l.report.add(path, "%s is not valid here; want an array", sample(text))
		return
	}
	for i, element := range elements {
		l.value(t.Elem(), element, fmt.Sprintf("%s[%d]", path, i))
	}
}

func child(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
