package noderesourcesfit

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// The texts are kube-scheduler's, as observed.
func TestArguments(t *testing.T) {
	const (
		least = configv1.LeastAllocated
		most  = configv1.MostAllocated
		ratio = configv1.RequestedToCapacityRatio
		name  = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character ` +
			`(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
		types = `supported values: "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"`
	)
	ignored := func(names ...string) *configv1.NodeResourcesFitArgs {
		return &configv1.NodeResourcesFitArgs{IgnoredResources: names}
	}
	groups := func(names ...string) *configv1.NodeResourcesFitArgs {
		return &configv1.NodeResourcesFitArgs{IgnoredResourceGroups: names}
	}
	several := strategy("X", "cpu=101")
	several.IgnoredResources, several.IgnoredResourceGroups = []string{"a b"}, []string{"a/b"}
	for _, row := range []struct {
		args *configv1.NodeResourcesFitArgs
		want string
	}{
		{nil, ""},
		{&configv1.NodeResourcesFitArgs{}, ""},
		{strategy(least, "cpu=1 cpu=1 foo=0 memory=100"), ""},
		{strategy(ratio, "", points(0, 0, 100, 10)...), ""},
		{ignored("ok.io/x", "foo"), ""},
		{ignored("ok.io/x", "bad name"), `ignoredResources[1]: Invalid value: "bad name": ` + name},
		{ignored(""), `[ignoredResources[0]: Invalid value: "": name part must be non-empty, ignoredResources[0]: Invalid value: "": ` + name + `]`},
		{groups("ok.io", "a/b"), `ignoredResourceGroups[1]: Invalid value: "a/b": resource group name can't contain '/'`},
		{groups("bad name"), `ignoredResourceGroups[0]: Invalid value: "bad name": ` + name},
		{strategy("", ""), `scoringStrategy.type: Unsupported value: "": ` + types},
		{strategy("Foo", ""), `scoringStrategy.type: Unsupported value: "Foo": ` + types},
		{strategy("Foo", "", points(0, 0)...), `[scoringStrategy.type: Unsupported value: "Foo": ` + types +
			`, scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio]`},
		{strategy(least, "cpu=-1 memory=101 foo=0 cpu=100"), `[scoringStrategy.resources[0].weight: Invalid value: -1: resource weight of cpu not in valid range (0, 100], ` +
			`scoringStrategy.resources[1].weight: Invalid value: 101: resource weight of memory not in valid range (0, 100]]`},
		{strategy(most, "", points()...), `scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio`},
		{strategy(ratio, ""), `scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio`},
		{strategy(ratio, "", points()...), `scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified`},
		{strategy(ratio, "", points(10, 0, 10, 1, 5, 3)...), `scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 10: values must be sorted in increasing order`},
		{strategy(ratio, "", points(101, 11, -1, -1)...), `[scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: -1: values must be sorted in increasing order, ` +
			`scoringStrategy.requestedToCapacityRatio.shape[0].utilization: Invalid value: 101: not in valid range [0, 100], ` +
			`scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10], ` +
			`scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: -1: not in valid range [0, 100], ` +
			`scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: -1: not in valid range [0, 10]]`},
		{strategy(ratio, "cpu=200", points(0, 11)...), `[scoringStrategy.resources[0].weight: Invalid value: 200: resource weight of cpu not in valid range (0, 100], ` +
			`scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]]`},
		{several, `[ignoredResources[0]: Invalid value: "a b": ` + name + `, ignoredResourceGroups[0]: Invalid value: "a/b": resource group name can't contain '/', ` +
			`scoringStrategy.type: Unsupported value: "X": ` + types + `, scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]]`},
	} {
		got := ""
		if _, err := New(row.args); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("New(%v) says\n%s\nwant\n%s", row.args, got, row.want)
		}
	}
}

func TestNewLeavesArgumentsAlone(t *testing.T) {
	args := strategy(configv1.LeastAllocated, "cpu=0")
	newPlugin(t, args)
	if args.ScoringStrategy.Resources[0].Weight != 0 {
		t.Error("New wrote defaults into the caller's arguments")
	}
}

func TestPlugin(t *testing.T) {
	p := newPlugin(t, nil)
	reads := p.Parts().Filter.Reads.Nodes
	if p.Name() != Name || reads != model.Usage|model.Allocatable || p.ScoreReads() != reads || p.Normalization() != model.AsIs {
		t.Errorf("%s reads %b and %b and normalises by %v", p.Name(), reads, p.ScoreReads(), p.Normalization())
	}
}
