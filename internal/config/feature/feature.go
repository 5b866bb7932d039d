package feature

import (
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/spf13/pflag"
	_ "k8s.io/apiserver/pkg/features" // registers its gates
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	zpagesfeatures "k8s.io/component-base/zpages/features"

	"github.com/berth-scheduler/berth/internal/model/spelling"
)

// Gates are feature gates, with the versions that determine their defaults.
type Gates struct {
	gate     featuregate.MutableVersionedFeatureGate
	registry basecompatibility.ComponentGlobalsRegistry
}

// process is the gates of this process, which has one set for all libraries.
var process = sync.OnceValues(register)

// Process returns the gates of this process, which client-go and apiserver read, too. All
// commands in a process set the same gates.
func Process() (*Gates, error) { return process() }

// register registers all gates with the process, and makes the libraries use these.
func register() (*Gates, error) {
	gate := utilfeature.DefaultMutableFeatureGate
	if err := add(gate); err != nil {
		return nil, err
	}
	clientfeatures.ReplaceFeatureGates(client{gate})
	return &Gates{gate: gate, registry: compatibility.DefaultComponentGlobalsRegistry}, nil
}

// Defaults returns separate gates in their default states.
func Defaults() (*Gates, error) { return With(nil) }

// With returns separate gates with the named ones set.
func With(set map[string]bool) (*Gates, error) {
	known, err := Process()
	if err != nil {
		return nil, err
	}
	gate := known.gate.DeepCopyAndReset()
	if err := gate.AddDependencies(known.gate.Dependencies()); err != nil { // the copy lacks them
		return nil, fmt.Errorf("copy what feature gates need: %w", err)
	}
	if err := gate.SetFromMap(set); err != nil {
		return nil, suggest(gate, err)
	}
	return &Gates{gate: gate}, nil
}

// add registers Kubernetes' own gates and those of client-go and component-base. The
// gates of apiserver register themselves.
func add(gate featuregate.MutableVersionedFeatureGate) error {
	table, err := read(gates)
	if err != nil {
		return err
	}
	if err := clientfeatures.AddVersionedFeaturesToExistingFeatureGates(client{gate}); err != nil {
		return fmt.Errorf("register the feature gates of client-go: %w", err)
	}
	if err := gate.AddVersioned(table.specs); err != nil {
		return fmt.Errorf("register the feature gates of Kubernetes: %w", err)
	}
	if err := gate.AddDependencies(table.needs); err != nil {
		return fmt.Errorf("register what feature gates of Kubernetes need: %w", err)
	}
	for _, library := range []struct {
		name string
		add  func(featuregate.MutableVersionedFeatureGate) error
	}{
		{"logging", func(g featuregate.MutableVersionedFeatureGate) error { return logsapi.AddFeatureGates(g) }},
		{"metrics", func(g featuregate.MutableVersionedFeatureGate) error { return metricsfeatures.AddFeatureGates(g) }},
		{"the pages about a process", func(g featuregate.MutableVersionedFeatureGate) error { return zpagesfeatures.AddFeatureGates(g) }},
	} {
		if err := library.add(gate); err != nil {
			return fmt.Errorf("register the feature gates of %s: %w", library.name, err)
		}
	}
	return nil
}

// Enabled reports whether the gate is on.
func (g *Gates) Enabled(name featuregate.Feature) bool { return g.gate.Enabled(name) }

// Gate returns the gates in the form that component-base's logging and metrics take.
func (g *Gates) Gate() featuregate.MutableFeatureGate { return g.gate }

// AddFlags adds the flags that set gates and versions; Set applies them. Only the
// process's gates have flags.
func (g *Gates) AddFlags(fs *pflag.FlagSet) { g.registry.AddFlags(fs) }

// Set applies the flags.
func (g *Gates) Set() error { return suggest(g.gate, g.registry.Set()) }

// unknown matches the error for a gate that does not exist.
var unknown = regexp.MustCompile(`unrecognized feature gate: (\S+)`)

// suggest adds the name that was probably meant to the error for an unknown gate.
func suggest(gate featuregate.MutableVersionedFeatureGate, err error) error {
	if err == nil {
		return nil
	}
	m := unknown.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	if near := spelling.Nearest(m[1], names(gate)); near != "" {
		return fmt.Errorf("%w; did you mean %s?", err, near)
	}
	return err
}

// names returns the names of the gates, sorted.
func names(gate featuregate.MutableVersionedFeatureGate) (all []string) {
	for name := range gate.GetAll() {
		all = append(all, string(name))
	}
	slices.Sort(all)
	return all
}

// Changed returns the gates that differ from their defaults.
func (g *Gates) Changed() (map[string]bool, error) {
	defaults, err := Defaults()
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, name := range g.Names() {
		if on := g.Enabled(featuregate.Feature(name)); on != defaults.Enabled(featuregate.Feature(name)) {
			changed[name] = on
		}
	}
	return changed, nil
}

// Names returns the names of all gates, sorted.
func (g *Gates) Names() []string { return names(g.gate) }

// Validate returns the errors in the combination of gates and versions.
func (g *Gates) Validate() []error { return g.registry.Validate() }

// Versions returns the version of the binary, and those that it emulates and is
// compatible with.
func (g *Gates) Versions() basecompatibility.EffectiveVersion {
	return g.registry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
}

// AddMetrics exports gates and versions as metrics.
func (g *Gates) AddMetrics() {
	g.gate.AddMetrics()
	g.registry.AddMetrics()
}
