package config

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/kit/lines"
	"github.com/berth-scheduler/berth/internal/model/spelling"
)

// mistake is the place of a mistake in a file.
type mistake struct {
	path string
	near string // the name that was probably meant, or ""
	hint string // the values that the field takes, or ""
}

// finder finds the places of mistakes.
type finder struct {
	text   []byte
	source *configv1.KubeSchedulerConfiguration // as written; nil if it cannot be decoded
	scheme *runtime.Scheme
	known  registry
}

// maxMistakes limits the places in one error.
const maxMistakes = 5

// where returns the places of an error in the text, such as "line 3: parallelism". The
// error itself keeps kube-scheduler's words, which operators search for.
func (f *finder) where(err error) string {
	found := f.unknownFields(err)
	found = append(found, f.unknownPlugins(err)...)
	found = append(found, f.invalidFields(err)...)
	found = append(found, f.wrongTypes(err)...)
	text := lines.Parse(f.text)
	var all []string
	for _, m := range found {
		line := text.Line(m.path)
		if line == 0 {
			continue
		}
		at := fmt.Sprintf("line %d: %s", line, m.path)
		if m.near != "" {
			at += fmt.Sprintf(", did you mean %s?", m.near)
		}
		if m.hint != "" {
			at += ", " + m.hint
		}
		if !slices.Contains(all, at) && len(all) < maxMistakes {
			all = append(all, at)
		}
	}
	return strings.Join(all, "; ")
}

var (
	unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)
	argsField    = regexp.MustCompile(`decoding \.(profiles\[\d+\]\.pluginConfig\[\d+\]): .*decoding args for plugin (\S+): `)
	badPlugin    = regexp.MustCompile(`creating profile for scheduler name (.*?): (\w*)[pP]lugin "([^"]+)" (does not exist|does not extend|already registered)`)
	invalidArgs  = regexp.MustCompile(`creating profile for scheduler name (.*): initializing plugin "([^"]+)"`)
)

// unknownFields returns the fields that the decoder does not know.
func (f *finder) unknownFields(err error) (found []mistake) {
	base, of := f.decoded(err)
	if base != "" {
		base += "."
	}
	for _, m := range unknownField.FindAllStringSubmatch(err.Error(), -1) {
		parent, name := "", m[1]
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			parent, name = name[:i], name[i+1:]
		}
		near := spelling.Nearest(name, fieldNames(of, parent))
		found = append(found, mistake{path: base + m[1], near: near})
	}
	return found
}

// decoded returns the path and the type of the object that could not be decoded: the
// configuration, or the arguments of a plugin. The type is nil if it is not known.
func (f *finder) decoded(err error) (path string, of reflect.Type) {
	if args := argsField.FindStringSubmatch(err.Error()); args != nil {
		return args[1] + ".args", f.argsType(args[2])
	}
	return "", reflect.TypeFor[configv1.KubeSchedulerConfiguration]()
}

// argsType returns the type of a plugin's arguments, or nil.
func (f *finder) argsType(plugin string) reflect.Type {
	return f.scheme.AllKnownTypes()[configv1.SchemeGroupVersion.WithKind(plugin+"Args")]
}

// fieldNames returns the names of the fields of the type at a path.
func fieldNames(t reflect.Type, path string) []string {
	if t = typeAt(t, path); t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	fields := map[string]reflect.Type{}
	jsonFields(t, fields)
	return slices.Sorted(maps.Keys(fields))
}

// typeAt returns the type at a path below a type, or nil.
func typeAt(t reflect.Type, path string) reflect.Type {
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		switch t = element(t); {
		case t == nil:
			return nil
		case t.Kind() == reflect.Struct:
			fields := map[string]reflect.Type{}
			jsonFields(t, fields)
			t = fields[name]
		case t.Kind() == reflect.Slice, t.Kind() == reflect.Map:
			t = t.Elem()
		}
	}
	return element(t)
}

// element returns the type behind a pointer.
func element(t reflect.Type) reflect.Type {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// jsonFields collects the fields of a struct by their names in JSON.
func jsonFields(t reflect.Type, fields map[string]reflect.Type) {
	for i := range t.NumField() {
		of := t.Field(i)
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		switch {
		case name != "" && name != "-":
			fields[name] = of.Type
		case of.Anonymous && of.Type.Kind() == reflect.Struct:
			jsonFields(of.Type, fields)
		}
	}
}

// unknownPlugins returns the places of a plugin that does not exist, or that cannot be
// enabled there.
func (f *finder) unknownPlugins(err error) (found []mistake) {
	m := badPlugin.FindStringSubmatch(err.Error())
	i := -1
	if m != nil {
		i = f.profile(m[1])
	}
	if i < 0 || f.source.Profiles[i].Plugins == nil {
		return nil
	}
	var names []string
	for _, rows := range [][]row{f.known.byDefault, f.known.onRequest} {
		for j := range rows {
			names = append(names, rows[j].name)
		}
	}
	for j := range f.known.external {
		names = append(names, f.known.external[j].Name)
	}
	near := ""
	if m[4] == "does not exist" {
		near = spelling.Nearest(m[3], names)
	}
	points := reflect.ValueOf(f.source.Profiles[i].Plugins).Elem()
	for p := range points.NumField() {
		set, ok := points.Field(p).Interface().(configv1.PluginSet)
		if !ok {
			continue
		}
		point, _, _ := strings.Cut(points.Type().Field(p).Tag.Get("json"), ",")
		for j := range set.Enabled {
			if set.Enabled[j].Name == m[3] {
				path := fmt.Sprintf("profiles[%d].plugins.%s.enabled[%d].name", i, point, j)
				found = append(found, mistake{path: path, near: near})
			}
		}
	}
	return found
}

// profile returns the index of a profile by its scheduler name, or -1. An unnamed profile
// has the default name.
func (f *finder) profile(name string) int {
	if f.source == nil {
		return -1
	}
	return slices.IndexFunc(f.source.Profiles, func(p configv1.KubeSchedulerProfile) bool {
		return ptr.Deref(p.SchedulerName, DefaultSchedulerName) == name
	})
}

// invalidFields returns the fields with invalid values.
func (f *finder) invalidFields(err error) (found []mistake) {
	base := ""
	if m := invalidArgs.FindStringSubmatch(err.Error()); m != nil {
		i := f.profile(m[1])
		if i < 0 {
			return nil
		}
		j := slices.IndexFunc(f.source.Profiles[i].PluginConfig, func(c configv1.PluginConfig) bool { return c.Name == m[2] })
		if j < 0 {
			return nil
		}
		base = fmt.Sprintf("profiles[%d].pluginConfig[%d].args.", i, j)
	}
	var add func(err error)
	add = func(err error) {
		switch e := err.(type) { //nolint:errorlint // the tree of errors is walked here
		case nil:
		case *field.Error:
			found = append(found, mistake{path: base + e.Field})
		case interface{ Errors() []error }:
			for _, part := range e.Errors() {
				add(part)
			}
		case interface{ Unwrap() []error }:
			for _, part := range e.Unwrap() {
				add(part)
			}
		default:
			add(errors.Unwrap(err))
		}
	}
	add(err)
	return found
}
