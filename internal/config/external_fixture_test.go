package config

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// The plugins of these tests, by the points that they extend. A named plugin extends
// none.
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

// adapter is the adapter of a plugin at one point.
type adapter struct{ name string }

func (a adapter) Name() string                            { return a.name }
func (adapter) Less(a, b plugin.Queued) bool              { return false }
func (adapter) PreEnqueue(*model.Pod) string              { return "" }
func (adapter) EventsToRegister() []model.EventToRegister { return nil }
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
func (adapter) Nominations() []plan.Nomination                            { return nil }

var _ reason.Code // adapters of filters return codes

// testHost adapts every plugin at every point that it extends, and records its calls.
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
	of.External = adapter{"outside"}
	p.complete = append(p.complete, of)
	p.testHost.complete = p.complete
}
func (p testProfile) Adapt(o Order) (Adapters, error) {
	p.orders = append(p.orders, o)
	p.testHost.orders = p.orders
	a := Adapters{
		QueueSort: adapted[*plugin.QueueSort, fwk.QueueSortPlugin](o), PreEnqueue: adapted[*plugin.PreEnqueue, fwk.PreEnqueuePlugin](o),
		EnqueueExtensions: adapted[*plugin.EnqueueExtensions, fwk.FilterPlugin](o), PreFilter: adapted[*plugin.PreFilter, fwk.PreFilterPlugin](o),
		Filter: adapted[*plugin.Filter, fwk.FilterPlugin](o), PostFilter: adapted[*plugin.PostFilter, fwk.PostFilterPlugin](o),
		PreScore: adapted[*plugin.PreScore, fwk.PreScorePlugin](o), Score: adapted[*plugin.Score, fwk.ScorePlugin](o),
		Reserve: adapted[*plugin.Reserve, fwk.ReservePlugin](o), Permit: adapted[*plugin.Permit, fwk.PermitPlugin](o),
		PreBind: adapted[*plugin.PreBind, fwk.PreBindPlugin](o), PostBind: adapted[*plugin.PostBind, fwk.PostBindPlugin](o),
	}
	a.Objects = map[string][]model.Kind{}
	for name := range a.EnqueueExtensions {
		a.Objects[name] = []model.Kind{model.NamespaceKind}
	}
	return a, nil
}

// adapted returns adapters of the plugins that implement an interface of a point.
func adapted[T, F any](o Order) map[string]T {
	adapters := map[string]T{}
	for name, p := range o.Plugins {
		if _, ok := p.(F); !ok {
			continue
		}
		a := plugintest.PartsOf(adapter{p.Name()})
		for _, part := range []any{a.QueueSort, a.PreEnqueue, a.EnqueueExtensions, a.PreFilter, a.Filter, a.PostFilter, a.PreScore, a.Score, a.Reserve, a.Permit, a.PreBind, a.PostBind} {
			if part, ok := part.(T); ok {
				adapters[name] = part
			}
		}
	}
	return adapters
}

// just returns a factory of one plugin.
func just(p fwk.Plugin) framework.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }
}

// fromExternal are the plugins that the configurations of these tests may name.
func fromExternal(t *testing.T) *External {
	t.Helper()
	o, err := NewExternal([]Registered{
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
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// ours reads a configuration that may name out-of-tree plugins.
func ours(profiles string, o *External) (*Config, error) {
	return ParseWith("f", []byte(header+"profiles: ["+profiles+"]\n"), Request{External: o})
}

// ranAt lists a profile's plugins at each point.
func ranAt(p *plugin.Profile) map[string]string {
	at := map[string]string{"queueSort": p.QueueSort.Name}
	add := func(point, name string) { at[point] = strings.TrimSpace(at[point] + " " + name) }
	for _, x := range p.PreEnqueue {
		add("preEnqueue", x.Name)
	}
	for _, x := range p.PreFilters {
		add("preFilter", x.Name)
	}
	for _, x := range p.Filters {
		add("filter", x.Name)
	}
	for _, x := range p.PostFilters {
		add("postFilter", x.Name)
	}
	for _, x := range p.PreScores {
		add("preScore", x.Name)
	}
	for _, x := range p.Scores {
		at["score"] = strings.TrimSpace(fmt.Sprintf("%s %s=%d", at["score"], x.Name, x.Weight))
	}
	for _, x := range p.Reserve {
		add("reserve", x.Name)
	}
	for _, x := range p.Permit {
		add("permit", x.Name)
	}
	for _, x := range p.PreBind {
		add("preBind", x.Name)
	}
	for _, x := range p.Bind {
		add("bind", x.Name)
	}
	for _, x := range p.PostBind {
		add("postBind", x.Name)
	}
	return at
}
