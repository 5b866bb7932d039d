package config

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

func TestRegistration(t *testing.T) {
	make := just(named("x"))
	add := func(*runtime.Scheme) error { return nil }
	for _, test := range []struct {
		name    string
		plugins []Registered
		types   []func(*runtime.Scheme) error
		want    string
	}{
		{"fine", []Registered{{"A", make}, {"B", make}}, []func(*runtime.Scheme) error{add, add}, ""},
		{"twice", []Registered{{"A", make}, {"B", make}, {"A", make}}, nil, "a plugin named A already exists"},
		{"built-in", []Registered{{"NodeAffinity", make}}, nil, "a plugin named NodeAffinity already exists"},
		{"built-in by gate", []Registered{{"GangScheduling", make}}, nil, "a plugin named GangScheduling already exists"},
		{"no name", []Registered{{"", make}}, nil, "a plugin without a name cannot be registered"},
		{"no factory", []Registered{{"A", nil}}, nil, "the factory of plugin A is nil"},
		{"no function", nil, []func(*runtime.Scheme) error{add, nil}, "(function 2 of 2): the function is nil"},
		{"types fail", nil, []func(*runtime.Scheme) error{func(*runtime.Scheme) error { return errors.New("no types") }}, "no types"},
		{"types clash", nil, []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(configv1.SchemeGroupVersion.WithKind("NodeAffinityArgs"), &mineArgs{})
			return nil
		}}, "Double registration of different types"},
	} {
		o, err := NewExternal(test.plugins, test.types, nil)
		if test.want == "" && (err != nil || !slices.Equal(o.Names(), []string{"A", "B"})) {
			t.Errorf("%s: names %v, error %v", test.name, o.Names(), err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
	if names := (*External)(nil).Names(); names != nil {
		t.Errorf("nothing has the names %v", names)
	}
}

// mineArgs and internalArgs are the arguments of a plugin, in the written and in the
// internal version.
type mineArgs struct {
	metav1.TypeMeta `json:",inline"`
	Level           *int32 `json:"level,omitempty"`
	Zone            string `json:"zone,omitempty"`
}

type internalArgs struct {
	metav1.TypeMeta
	Level int32
	Zone  string
}

func (a *mineArgs) DeepCopyObject() runtime.Object     { b := *a; return &b }
func (a *internalArgs) DeepCopyObject() runtime.Object { b := *a; return &b }

// addMine registers the written version and its default, and addInternal the internal
// one.
func addMine(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(configv1.SchemeGroupVersion.WithKind("MineArgs"), &mineArgs{})
	s.AddTypeDefaultingFunc(&mineArgs{}, func(object any) {
		if args := object.(*mineArgs); args.Level == nil {
			args.Level = new(int32)
			*args.Level = 5
		}
	})
	return nil
}

func addInternal(s *runtime.Scheme) error {
	s.AddKnownTypeWithName(schema.GroupVersion{Group: configv1.GroupName, Version: runtime.APIVersionInternal}.WithKind("MineArgs"), &internalArgs{})
	return s.AddConversionFunc((*mineArgs)(nil), (*internalArgs)(nil), func(a, b any, _ conversion.Scope) error {
		from, to := a.(*mineArgs), b.(*internalArgs)
		if from.Zone == "nowhere" {
			return errors.New("no such zone")
		}
		to.Level, to.Zone = *from.Level, "in "+from.Zone
		return nil
	})
}

func TestArgumentsOfExternal(t *testing.T) {
	types := []func(*runtime.Scheme) error{addMine}
	converted := []func(*runtime.Scheme) error{addMine, addInternal}
	typed := func(level int32, zone string) *mineArgs {
		return &mineArgs{metav1.TypeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "MineArgs"}, &level, zone}
	}
	raw := func(json string) *runtime.Unknown {
		return &runtime.Unknown{Raw: []byte(json), ContentType: runtime.ContentTypeJSON}
	}
	for _, test := range []struct {
		name, config string
		types        []func(*runtime.Scheme) error
		want         runtime.Object
		written      string // in the written configuration
		err          string
	}{
		{"none, no type", ``, nil, nil, "", ""},
		{"empty, no type", `{name: Mine}`, nil, nil, "", ""},
		{"null, no type", `{name: Mine, args: null}`, nil, nil, "", ""},
		{"no type", `{name: Mine, args: {zone: a, any: 3}}`, nil, raw(`{"any":3,"zone":"a"}`), "- args:\n      any: 3\n      zone: a\n    name: Mine", ""},
		{"none", ``, types, typed(5, ""), "- args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: MineArgs\n      level: 5\n    name: Mine", ""},
		{"some", `{name: Mine, args: {zone: a}}`, types, typed(5, "a"), "level: 5\n      zone: a", ""},
		{"all", `{name: Mine, args: {level: 7, zone: a}}`, types, typed(7, "a"), "level: 7\n      zone: a", ""},
		{"named type", `{name: Mine, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: MineArgs, zone: a}}`, types, typed(5, "a"), "zone: a", ""},
		{"none, converted", ``, converted, &internalArgs{Level: 5, Zone: "in "}, "kind: MineArgs\n      level: 5", ""},
		{"some, converted", `{name: Mine, args: {zone: a}}`, converted, &internalArgs{Level: 5, Zone: "in a"}, "level: 5\n      zone: a", ""},
		{"conversion fails", `{name: Mine, args: {zone: nowhere}}`, converted, nil, "", `f: converting .Profiles[0].PluginConfig[0].Args into internal type: no such zone`},
		{"unknown field", `{name: Mine, args: {zones: a}}`, types, nil, "",
			`strict decoding error: decoding .profiles[0].pluginConfig[0]: strict decoding error: decoding args for plugin Mine: strict decoding error: unknown field "zones"`},
		{"field twice", `{name: Mine, args: {zone: a, zone: b}}`, types, nil, "", `key "zone" already set in map`},
		{"of the wrong type", `{name: Mine, args: {level: high}}`, types, nil, "", `decoding .profiles[0].pluginConfig[0]: decoding args for plugin Mine: `},
		{"another kind", `{name: Mine, args: {apiVersion: kubescheduler.config.k8s.io/v1, kind: NodeAffinityArgs}}`, types, nil, "",
			"args for plugin Mine were not of type MineArgs.kubescheduler.config.k8s.io, got NodeAffinityArgs.kubescheduler.config.k8s.io"},
		{"another version", `{name: Mine, args: {apiVersion: kubescheduler.config.k8s.io/v2, kind: MineArgs}}`, types, nil, "", `no kind "MineArgs" is registered for version "kubescheduler.config.k8s.io/v2"`},
		{"twice", `{name: Mine, args: {zone: a}}, {name: Mine, args: {zone: a}}`, types, nil, "", `profiles[0].pluginConfig[1]: Duplicate value: "Mine"`},
	} {
		got, calls := runtime.Object(nil), 0
		o, err := NewExternal([]Registered{{"Mine", func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			got, calls = args, calls+1
			return filters{named(h.ProfileName())}, nil
		}}}, test.types, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ours("{pluginConfig: ["+test.config+"], plugins: {filter: {enabled: [{name: Mine}]}}}", o)
		if err == nil {
			var text strings.Builder
			if err := c.Write(&text); err != nil || !strings.Contains(text.String(), test.written) || test.written == "" && strings.Contains(text.String(), "- args:\n    name: Mine") {
				t.Errorf("%s: written is, with error %v, not %q:\n%s", test.name, err, test.written, text.String())
			}
			if calls != 0 {
				t.Errorf("%s: the factory was called before Build", test.name)
			}
			_, err = c.Build(t.Context(), &testHost{})
		}
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if diff := cmp.Diff(test.want, got); diff != "" || calls != 1 {
			t.Errorf("%s: %d calls (-want +got):\n%s", test.name, calls, diff)
		}
	}
}

// A program that imports kube-scheduler's own packages has their defaults of the whole
// configuration in the scheme. These must have no effect.
func TestForeignDefaultsHaveNoEffect(t *testing.T) {
	o, err := NewExternal(nil, []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
		s.AddTypeDefaultingFunc(&configv1.KubeSchedulerConfiguration{}, func(object any) {
			object.(*configv1.KubeSchedulerConfiguration).ClientConnection.QPS = 50
		})
		return nil
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ours("{}", o); err != nil || c.QPS != 0 {
		t.Errorf("QPS %v, error %v", c.QPS, err)
	}
}
