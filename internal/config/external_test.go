package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// few is a profile with few built-in plugins.
const few = `{name: PrioritySort}, {name: NodeName}, {name: NodeAffinity, weight: 2}, {name: DefaultBinder}`

// If the profile does not enable DefaultBinder, a pod that all Bind plugins skip stays
// unbound, whether the plugins are built or not.
func TestExternalWithoutDefaultBinder(t *testing.T) {
	read, err := ours(`{plugins: {multiPoint: {disabled: [{name: "*"}], enabled: [{name: PrioritySort}, {name: NodeName}]}, bind: {enabled: [{name: Binds}]}}}`, fromExternal(t))
	if err != nil {
		t.Fatal(err)
	}
	full, err := read.Build(t.Context(), &testHost{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Config{read, full} {
		if b := c.Binder("default-scheduler"); b != nil {
			t.Errorf("%s binds pods that all Bind plugins have skipped; the profile does not enable it", b.Name)
		}
	}
}

func TestExternalAmongBuiltIn(t *testing.T) {
	const only = `multiPoint: {disabled: [{name: "*"}], enabled: [`
	for _, test := range []struct {
		plugins string
		want    map[string]string // of some points; the others are as without out-of-tree plugins
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
		read, err := ours("{plugins: {"+test.plugins+"}}", fromExternal(t))
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

func TestExternalIsRefused(t *testing.T) {
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
		c, err := ours("{plugins: {"+test.plugins+"}}", fromExternal(t))
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
