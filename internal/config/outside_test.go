package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// The plugins of these tests, by the points that they extend. A named plugin extends none.
type (
	named    string
	filters  struct{ named }
	nameless struct{ filters }
	scores   struct{ named }
	both     struct {
		filters
		preFilters
		preScores
		scoring
	}
	preFilters   struct{}
	preScores    struct{}
	scoring      struct{}
	sorts        struct{ named }
	binds        struct{ named }
	prefiltering struct {
		named
		preFilters
	}
	prescoring struct {
		named
		preScores
	}
	late struct { // at the points after a node is chosen
		named
		reserves
		permits
		preBinds
		postBinds
	}
	reserves  struct{}
	permits   struct{}
	preBinds  struct{}
	postBinds struct{}
	early     struct { // at PreEnqueue and PostFilter
		named
		preEnqueues
		postFilters
	}
	preEnqueues struct{}
	postFilters struct{}
	closes      struct {
		filters
		closed *[]string
		err    error
	}
)

func (n named) Name() string { return string(n) }
func (filters) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}
func (scores) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}
func (scores) ScoreExtensions() fwk.ScoreExtensions { return nil }
func (scoring) Score(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) (int64, *fwk.Status) {
	return 0, nil
}
func (scoring) ScoreExtensions() fwk.ScoreExtensions { return nil }
func (preFilters) PreFilter(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return nil, nil
}
func (preFilters) PreFilterExtensions() fwk.PreFilterExtensions { return nil }
func (preScores) PreScore(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodeInfo) *fwk.Status {
	return nil
}
func (sorts) Less(fwk.QueuedEntityInfo, fwk.QueuedEntityInfo) bool { return false }
func (binds) Bind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	return nil
}
func (reserves) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }
func (reserves) Unreserve(context.Context, fwk.CycleState, *v1.Pod, string)           {}
func (permits) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return nil, 0
}
func (preBinds) PreBind(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }
func (preBinds) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}
func (postBinds) PostBind(context.Context, fwk.CycleState, *v1.Pod, string) {}
func (preEnqueues) PreEnqueue(context.Context, *v1.Pod) *fwk.Status         { return nil }
func (postFilters) PostFilter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	return nil, nil
}
func (nameless) Name() string { panic("no name") }
func (c closes) Close() error { *c.closed = append(*c.closed, c.Name()); return c.err }

// adapter stands for what a plugin does at one point.
type adapter struct{ name string }

func (a adapter) Name() string                            { return a.name }
func (adapter) Less(a, b plugin.Queued) bool              { return false }
func (adapter) PreEnqueue(*model.Pod) string              { return "" }
func (adapter) EventsToRegister() []model.EventToRegister { return nil }
func (adapter) Reads() []model.Kind                       { return []model.Kind{model.NamespaceKind} }
func (adapter) PreFilter(state.View, *model.Pod) plugin.PreFilterResult {
	return plugin.PreFilterResult{}
}
func (adapter) FilterTurn(state.View) (plugin.TurnVerdicts, error) { return nil, nil }
func (adapter) PostFilter(plugin.Cycle, *model.Pod) (plugin.PostFilterResult, error) {
	return plugin.PostFilterResult{}, nil
}
func (adapter) PreScore(state.View, []int32) error                   { return nil }
func (adapter) ScoreTurn(state.View, []int32, []int64) (bool, error) { return false, nil }
func (adapter) Reserve(state.View, *model.Pod, int32) ([]plan.Hold, error) {
	return nil, nil
}
func (adapter) Permit(state.View, *plan.Placement) ([]plan.Step, error)   { return nil, nil }
func (adapter) PreBind(state.View, *plan.Placement) ([]plan.Step, error)  { return nil, nil }
func (adapter) PostBind(state.View, *plan.Placement) ([]plan.Step, error) { return nil, nil }
func (adapter) Begin(state.View, *model.Pod)                              {}
func (adapter) Bare()                                                     {}
func (adapter) End()                                                      {}
func (adapter) Steps(plan.Stage, *plan.Placement) []plan.Step             { return nil }
func (adapter) Unreserve(*plan.Placement)                                 {}

var _ reason.Code // adapters of filters give codes

// testHost adapts every plugin at every point that it extends, and remembers what it was asked for.
type testHost struct {
	asked    []string
	complete []*plugin.Profile
	orders   []Order
	err      error
}

type testProfile struct {
	*testHost
	name string
}

type testHandle struct {
	fwk.Handle
	profile string
}

func (h testHandle) ProfileName() string { return h.profile }

func (h *testHost) Profile(name string) (HostedProfile, error) {
	h.asked = append(h.asked, name)
	return testProfile{h, name}, h.err
}

func (p testProfile) Handle() fwk.Handle { return testHandle{profile: p.name} }
func (p testProfile) Complete(of *plugin.Profile) {
	of.Outside = adapter{"outside"}
	p.complete = append(p.complete, of)
	p.testHost.complete = p.complete
}
func (p testProfile) Adapt(o Order) (Adapters, error) {
	p.orders = append(p.orders, o)
	p.testHost.orders = p.orders
	a := Adapters{
		QueueSort: adapted[plugin.QueueSort, fwk.QueueSortPlugin](o), PreEnqueue: adapted[plugin.PreEnqueue, fwk.PreEnqueuePlugin](o),
		EnqueueExtensions: adapted[plugin.EnqueueExtensions, fwk.FilterPlugin](o), PreFilter: adapted[plugin.PreFilter, fwk.PreFilterPlugin](o),
		Filter: adapted[plugin.TurnFilter, fwk.FilterPlugin](o), PostFilter: adapted[plugin.PostFilter, fwk.PostFilterPlugin](o),
		PreScore: adapted[plugin.PreScore, fwk.PreScorePlugin](o), Score: adapted[plugin.TurnScore, fwk.ScorePlugin](o),
		Reserve: adapted[plugin.Reserve, fwk.ReservePlugin](o), Permit: adapted[plugin.Permit, fwk.PermitPlugin](o),
		PreBind: adapted[plugin.PreBind, fwk.PreBindPlugin](o), PostBind: adapted[plugin.PostBind, fwk.PostBindPlugin](o),
	}
	return a, nil
}

// adapted returns adapters of the plugins that implement an interface of a point.
func adapted[T, F any](o Order) map[string]T {
	adapters := map[string]T{}
	for name, p := range o.Plugins {
		if _, ok := p.(F); ok {
			adapters[name] = any(adapter{p.Name()}).(T)
		}
	}
	return adapters
}

// just returns a factory of one plugin.
func just(p fwk.Plugin) framework.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
}

// fromOutside are the plugins that the configurations of these tests may name.
func fromOutside(t *testing.T) *Outside {
	t.Helper()
	o, err := NewOutside([]Registered{
		{"Filters", just(filters{"Filters"})},
		{"Scores", just(scores{"Scores"})},
		{"Both", just(both{filters: filters{"Both"}})},
		{"Sorts", just(sorts{"Sorts"})},
		{"Binds", just(binds{"Binds"})},
		{"PreScores", just(prescoring{named: "PreScores"})},
		{"Late", just(late{named: "Late"})},
		{"Early", just(early{named: "Early"})},
		{"Nothing", just(named("Nothing"))},
		{"Alias", just(filters{"Other"})},
		{"PreAlias", just(prefiltering{named: "Other"})},
		{"ScoreAlias", just(scores{"Other"})},
		{"Fails", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return nil, errors.New("no CRD")
		}},
		{"Panics", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { panic("oh") }},
		{"Nil", just(nil)},
		{"Nameless", just(nameless{})},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// ours reads a configuration that may name plugins from outside.
func ours(profiles string, o *Outside) (*Config, error) {
	return parse("f", []byte(header+"profiles: ["+profiles+"]\n"), Request{Outside: o})
}

// ranAt lists a profile's plugins at each point.
func ranAt(p *plugin.Profile) map[string]string {
	at := map[string]string{"queueSort": p.QueueSort.Name()}
	add := func(point string, x plugin.Plugin) { at[point] = strings.TrimSpace(at[point] + " " + x.Name()) }
	for _, x := range p.PreEnqueue {
		add("preEnqueue", x)
	}
	for _, x := range p.PreFilters {
		add("preFilter", x)
	}
	for _, x := range p.Filters {
		add("filter", x)
	}
	for _, x := range p.PostFilters {
		add("postFilter", x)
	}
	for _, x := range p.PreScores {
		add("preScore", x)
	}
	for _, x := range p.Scores {
		at["score"] = strings.TrimSpace(fmt.Sprintf("%s %s=%d", at["score"], x.Name(), x.Weight))
	}
	for _, x := range p.Reserve {
		add("reserve", x)
	}
	for _, x := range p.Permit {
		add("permit", x)
	}
	for _, x := range p.PreBind {
		add("preBind", x)
	}
	for _, x := range p.Bind {
		add("bind", x)
	}
	for _, x := range p.PostBind {
		add("postBind", x)
	}
	return at
}

// few is a profile with few built-in plugins.
const few = `{name: PrioritySort}, {name: NodeName}, {name: NodeAffinity, weight: 2}, {name: DefaultBinder}`

// A pod that all Bind plugins skip is bound by nobody where the profile does not enable DefaultBinder, whether the plugins are made or not.
func TestOutsideWithoutDefaultBinder(t *testing.T) {
	read, err := ours(`{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: NodeName}]}, bind: {enabled: [{name: Binds}]}}}`, fromOutside(t))
	if err != nil {
		t.Fatal(err)
	}
	full, err := read.Build(t.Context(), &testHost{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{read, full} {
		if b := c.Binder("default-scheduler"); b != nil {
			t.Errorf("%s binds pods that all Bind plugins have skipped; the profile does not enable it", b.Name())
		}
	}
}

func TestOutsideAmongBuiltIn(t *testing.T) {
	const only = `multiPoint: {disabled: [{name: "*"}], enabled: [`
	for _, test := range []struct {
		plugins string
		want    map[string]string // of some points; the others are as without plugins from outside
	}{
		{only + few + `]}`, nil},
		{only + few + `, {name: Both}]}`, map[string]string{
			"preFilter": "NodeName NodeAffinity Both", "filter": "NodeName NodeAffinity Both", "preScore": "Both", "score": "NodeAffinity=2 Both=1",
		}},
		{only + `{name: Both, weight: 7}, ` + few + `]}`, map[string]string{
			"preFilter": "Both NodeName NodeAffinity", "filter": "Both NodeName NodeAffinity", "preScore": "Both", "score": "Both=7 NodeAffinity=2",
		}},
		{only + few + `, {name: Both, weight: 7}]}, score: {enabled: [{name: Both, weight: 3}]}`, map[string]string{
			"preFilter": "NodeName NodeAffinity Both", "filter": "NodeName NodeAffinity Both", "preScore": "Both", "score": "Both=3 NodeAffinity=2",
		}},
		{only + few + `, {name: Both}]}, score: {disabled: [{name: Both}]}, preFilter: {disabled: [{name: "*"}]}`, map[string]string{
			"preFilter": "", "filter": "NodeName NodeAffinity Both", "preScore": "Both",
		}},
		{only + few + `]}, filter: {enabled: [{name: Both}, {name: NodeAffinity}]}`, map[string]string{"filter": "NodeAffinity NodeName Both"}},
		{only + few + `]}, preScore: {enabled: [{name: PreScores}]}`, map[string]string{"preScore": "PreScores"}},
		{only + few + `]}, score: {enabled: [{name: Scores}]}`, map[string]string{"score": "NodeAffinity=2 Scores=1"}},
		{only + few + `, {name: Late}]}`, map[string]string{"reserve": "Late", "permit": "Late", "preBind": "Late", "postBind": "Late"}},
		{only + few + `, {name: Early}]}`, map[string]string{"preEnqueue": "Early", "postFilter": "Early"}},
		{only + few + `]}, bind: {enabled: [{name: Binds}]}`, map[string]string{}},
		{only + `{name: Binds}, ` + few + `]}`, nil},
		{only + `{name: PrioritySort}, {name: NodeName}, {name: NodeAffinity, weight: 2}]}, bind: {enabled: [{name: Binds}]}`, map[string]string{"bind": ""}},
		{only + `{name: NodeName}, {name: NodeAffinity, weight: 2}, {name: DefaultBinder}, {name: Sorts}]}`, map[string]string{"queueSort": "Sorts"}},
		{only + few + `]}, queueSort: {disabled: [{name: "*"}], enabled: [{name: Sorts}]}`, map[string]string{"queueSort": "Sorts"}},
		{only + few + `, {name: Nothing}]}`, nil},
		{only + few + `, {name: PreAlias}]}`, map[string]string{"preFilter": "NodeName NodeAffinity Other"}},
		{only + few + `, {name: Alias}]}`, map[string]string{"filter": "NodeName NodeAffinity Other"}},
	} {
		want := map[string]string{"queueSort": "PrioritySort", "preFilter": "NodeName NodeAffinity", "filter": "NodeName NodeAffinity", "score": "NodeAffinity=2", "bind": "DefaultBinder"}
		for point, names := range test.want {
			want[point] = names
		}
		read, err := ours("{plugins: {"+test.plugins+"}}", fromOutside(t))
		if err != nil {
			t.Errorf("%s: %v", test.plugins, err)
			continue
		}
		h := &testHost{}
		full, err := read.Build(t.Context(), h)
		if err != nil {
			t.Errorf("%s: %v", test.plugins, err)
			continue
		}
		if order := full.Profiles[0].PreFilterOrder; strings.Join(order, " ") != want["preFilter"] {
			t.Errorf("%s: the order at PreFilter is %v", test.plugins, order)
		}
		if len(h.orders) > 0 && slices.Contains(h.orders[0].Enabled, "Nothing") {
			t.Errorf("%s: a plugin that runs nowhere is to be adapted", test.plugins)
		}
		got := ranAt(full.Profiles[0])
		for _, at := range []map[string]string{want, got} {
			for point, names := range at {
				if names == "" {
					delete(at, point)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.plugins, diff)
		}
		if full.Missing != nil || full.Barring != nil {
			t.Errorf("%s: missing are %v, barring %v", test.plugins, full.Missing, full.Barring)
		}
		for point, names := range ranAt(read.Profiles[0]) {
			if strings.Contains(names, "Both") || strings.Contains(names, "Sorts") {
				t.Errorf("%s: before Build, %s has %s", test.plugins, point, names)
			}
		}
	}
}

func TestOutsideIsRefused(t *testing.T) {
	const profile = "creating profile for scheduler name default-scheduler: "
	const all = `multiPoint: {enabled: [{name: %s}]}`
	for _, test := range []struct{ plugins, want string }{
		{`filter: {enabled: [{name: Scores}]}`, profile + `plugin "Scores" does not extend FilterPlugin plugin`},
		{`score: {enabled: [{name: Filters}]}`, profile + `plugin "Filters" does not extend ScorePlugin plugin`},
		{`preScore: {enabled: [{name: Scores}]}`, profile + `plugin "Scores" does not extend PreScorePlugin plugin`},
		{`filter: {enabled: [{name: Filters}, {name: Filters}]}`, profile + `plugin "Filters" already registered as "FilterPlugin"`},
		{`multiPoint: {enabled: [{name: Filters}, {name: Filters}]}`, profile + `plugin "Filters" already registered as "FilterPlugin"`},
		{`filter: {enabled: [{name: Unknown}]}`, profile + `FilterPlugin "Unknown" does not exist`},
		{fmt.Sprintf(all, "Unknown"), profile + `PreFilterPlugin "Unknown" does not exist`},
		{fmt.Sprintf(all, "Fails"), profile + `initializing plugin "Fails": no CRD`},
		{fmt.Sprintf(all, "Panics"), profile + `initializing plugin "Panics": its factory panicked: oh`},
		{fmt.Sprintf(all, "Nameless"), profile + `initializing plugin "Nameless": its method Name panicked: no name`},
		{fmt.Sprintf(all, "Nil"), profile + `initializing plugin "Nil": its factory returned neither a plugin nor an error`},
		{fmt.Sprintf(all, "Sorts"), profile + `only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 2`},
		{`queueSort: {enabled: [{name: Sorts}, {name: PrioritySort}]}`, `only one queue sort plugin can be enabled`},
		{`multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Filters}]}`, profile + `only one queue sort plugin required for profile with scheduler name "default-scheduler", but got 0`},
		{`multiPoint: {disabled: [{name: DefaultBinder}], enabled: [{name: Filters}]}`, profile + `at least one bind plugin is needed for profile with scheduler name "default-scheduler"`},
		{fmt.Sprintf(all, "ScoreAlias"), profile + `score plugin "Other" is not configured with weight`},
	} {
		c, err := ours("{plugins: {"+test.plugins+"}}", fromOutside(t))
		if err == nil {
			_, err = c.Build(t.Context(), &testHost{})
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\n got %v\nwant %s", test.plugins, err, test.want)
		}
		if wrong := !strings.Contains(test.want, "initializing plugin"); errors.As(err, new(*Error)) != wrong {
			t.Errorf("%s: %v counts as a mistake in the file: %t", test.plugins, err, !wrong)
		}
	}
}

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
		{"no function", nil, []func(*runtime.Scheme) error{add, nil}, "(2. function of 2): the function is nil"},
		{"types fail", nil, []func(*runtime.Scheme) error{func(*runtime.Scheme) error { return errors.New("no types") }}, "no types"},
		{"types clash", nil, []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(configv1.SchemeGroupVersion.WithKind("NodeAffinityArgs"), &mineArgs{})
			return nil
		}}, "Double registration of different types"},
	} {
		o, err := NewOutside(test.plugins, test.types)
		if test.want == "" && (err != nil || !slices.Equal(o.Names(), []string{"A", "B"})) {
			t.Errorf("%s: names %v, error %v", test.name, o.Names(), err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s:\n got %v\nwant %s", test.name, err, test.want)
		}
	}
	if names := (*Outside)(nil).Names(); names != nil {
		t.Errorf("nothing has the names %v", names)
	}
}

// mineArgs and internalArgs are the arguments of a plugin, as they are written and as the plugin takes them.
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

// addMine registers the written form and its default, and addInternal the other.
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

func TestArgumentsOfOutside(t *testing.T) {
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
		o, err := NewOutside([]Registered{{"Mine", func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			got, calls = args, calls+1
			return filters{named(h.ProfileName())}, nil
		}}}, test.types)
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

// A program that imports kube-scheduler's own packages has their defaults of the whole configuration in the scheme; these must have no effect.
func TestForeignDefaultsHaveNoEffect(t *testing.T) {
	o, err := NewOutside(nil, []func(*runtime.Scheme) error{func(s *runtime.Scheme) error {
		s.AddTypeDefaultingFunc(&configv1.KubeSchedulerConfiguration{}, func(object any) {
			object.(*configv1.KubeSchedulerConfiguration).ClientConnection.QPS = 50
		})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ours("{}", o); err != nil || c.QPS != 0 {
		t.Errorf("QPS %v, error %v", c.QPS, err)
	}
}

// Each profile has its own instance; what is made before a failure is closed, the last first.
func TestInstances(t *testing.T) {
	var closed, made []string
	o, err := NewOutside([]Registered{
		{"Mine", func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			made = append(made, h.ProfileName())
			return closes{filters{named("Mine of " + h.ProfileName())}, &closed, nil}, nil
		}},
		{"Broken", just(closes{filters{"Broken"}, &closed, errors.New("stuck")})},
		{"Fails", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return nil, errors.New("no CRD")
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const mine, broken = `{plugins: {multiPoint: {enabled: [{name: Mine}]}}, schedulerName: %s}`, `{plugins: {multiPoint: {enabled: [{name: Mine}, {name: %s}]}}, schedulerName: c}`
	c, err := ours(fmt.Sprintf(mine, "a")+", {schedulerName: b}, "+fmt.Sprintf(broken, "Broken"), o)
	if err != nil {
		t.Fatal(err)
	}
	h := &testHost{}
	full, err := c.Build(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "c"}; !slices.Equal(made, want) || !slices.Equal(h.asked, want) {
		t.Errorf("made for %v, hosted are %v, want %v", made, h.asked, want)
	}
	if len(h.complete) != 2 || h.complete[0] != full.Profiles[0] || h.complete[1] != full.Profiles[2] {
		t.Errorf("%d profiles are complete", len(h.complete))
	}
	if full.Profiles[0].Outside == nil || full.Profiles[1].Outside != nil {
		t.Error("Outside is set where it should not be, or not where it should")
	}
	if order := h.orders[1]; !slices.Equal(order.Enabled, []string{"Mine", "Broken"}) || len(order.Plugins) != 2 {
		t.Errorf("the order of c is %+v", order)
	}
	if err := full.Close(); err == nil || err.Error() != "framework c failed to close: Broken failed to close: stuck" {
		t.Errorf("closing returned %v", err)
	}
	if want := []string{"Broken", "Mine of c", "Mine of a"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}

	closed = nil
	c, err = ours(fmt.Sprintf(mine, "a")+", "+fmt.Sprintf(broken, "Fails"), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(t.Context(), h); err == nil || err.Error() != `initializing profiles: creating profile for scheduler name c: initializing plugin "Fails": no CRD` {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"Mine of c", "Mine of a"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
}

// neverCloses is a plugin whose Close does not return.
type neverCloses struct{ filters }

func (neverCloses) Close() error { select {} }

// A plugin that does not close is left after a while, and the others are closed.
func TestCloseThatHangs(t *testing.T) {
	t.Parallel()
	var closed []string
	err := closeAll([]madeOutside{
		{"a", "First", closes{filters{"First"}, &closed, nil}}, {"a", "Hangs", neverCloses{}}, {"a", "Last", closes{filters{"Last"}, &closed, nil}},
	})
	if err == nil || err.Error() != "framework a failed to close: Hangs failed to close: it had not returned after 2s" {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"Last", "First"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
}

// A factory that waits for something that never comes ends with the context.
func TestFactoryThatHangs(t *testing.T) {
	o, err := NewOutside([]Registered{{"Hangs", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { select {} }}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ours(`{plugins: {multiPoint: {enabled: [{name: Hangs}]}}}`, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("enough")) })
	if _, err := c.Build(ctx, &testHost{}); err == nil || !strings.HasSuffix(err.Error(), `initializing plugin "Hangs": its factory had not returned when the scheduler was stopped: enough`) {
		t.Errorf("the error is %v", err)
	}
}

// All profiles have the same QueueSort plugin, with the same arguments.
func TestQueueSortOfAllProfiles(t *testing.T) {
	const everywhere = `multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Sorts}]}`
	const sorted = `queueSort: {disabled: [{name: "*"}], enabled: [{name: Sorts}]}`
	for _, test := range []struct{ first, second, want string }{
		{`plugins: {` + everywhere + `}`, `plugins: {` + everywhere + `}`, ""},
		{`plugins: {` + sorted + `}`, `plugins: {` + sorted + `}`, ""},
		{`plugins: {` + sorted + `}`, ``, "profiles[1].plugins.queueSort: Invalid value"},
		{`plugins: {` + everywhere + `}`, ``, `initializing profiles: different queue sort plugins for profile "b": "PrioritySort", first: "Sorts"`},
		{`plugins: {` + everywhere + `}, pluginConfig: [{name: Sorts, args: {a: 1}}]`, `plugins: {` + everywhere + `}`, `different queue sort plugin args for profile "b"`},
	} {
		c, err := ours(fmt.Sprintf("{schedulerName: a, %s}, {schedulerName: b, %s}", test.first, test.second), fromOutside(t))
		if err == nil {
			_, err = c.Build(t.Context(), &testHost{})
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s and %s:\n got %v\nwant %s", test.first, test.second, err, test.want)
		}
	}
}

// What adapters read is watched, and whole objects are kept where something needs them.
func TestWhatOutsideNeeds(t *testing.T) {
	const extender = "\nextenders: [{urlPrefix: \"http://x\", prioritizeVerb: p, weight: 1}]"
	for _, test := range []struct {
		name, profile, more string
		enables, whole      bool
	}{
		{"neither", `{}`, "", false, false},
		{"a plugin", `{plugins: {` + `multiPoint: {disabled: [{name: "*"}], enabled: [` + few + `, {name: Filters}]}}}`, "", true, true},
		{"an extender", `{}`, extender, false, true},
	} {
		c, err := parse("f", []byte(header+"profiles: ["+test.profile+"]"+test.more+"\n"), Request{Outside: fromOutside(t)})
		if err != nil {
			t.Fatal(err)
		}
		full, err := c.Build(t.Context(), &testHost{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Config{c, full} {
			if c.EnablesOutside() != test.enables || c.WholeObjects() != test.whole {
				t.Errorf("%s: enables %t, whole objects %t", test.name, c.EnablesOutside(), c.WholeObjects())
			}
		}
		if test.enables && (slices.Contains(c.Reads(), model.NamespaceKind) || !slices.Contains(full.Reads(), model.NamespaceKind)) {
			t.Errorf("%s: kinds are %v, and %v with what the adapters read", test.name, c.Reads(), full.Reads())
		}
	}
}
