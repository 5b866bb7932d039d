package feature

import (
	"fmt"
	"sync"

	"github.com/spf13/pflag"
	_ "k8s.io/apiserver/pkg/features" // registers its gates with the process's
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientfeatures "k8s.io/client-go/features"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	zpagesfeatures "k8s.io/component-base/zpages/features"
)

// Gates are feature gates, and the versions that they follow.
type Gates struct {
	gate     featuregate.MutableVersionedFeatureGate
	registry basecompatibility.ComponentGlobalsRegistry
}

// process is the gates of this process. The libraries that ask for gates have one set of them, and so does the process.
var process = sync.OnceValues(register)

// Process returns the gates of this process, which client-go and apiserver ask too. Flags of two commands that were given to it
// are one and the same.
func Process() (*Gates, error) { return process() }

// register makes all gates known to the process, and the libraries ask these.
func register() (*Gates, error) {
	gate := utilfeature.DefaultMutableFeatureGate
	if err := add(gate); err != nil {
		return nil, err
	}
	clientfeatures.ReplaceFeatureGates(client{gate})
	return &Gates{gate: gate, registry: compatibility.DefaultComponentGlobalsRegistry}, nil
}

// Defaults returns gates of which each is as it is unless somebody says otherwise. They are nobody else's.
func Defaults() (*Gates, error) { return With(nil) }

// With returns gates of which the named ones are set. They are nobody else's.
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
		return nil, err
	}
	return &Gates{gate: gate}, nil
}

// add registers Kubernetes' own gates and those of client-go and component-base. Those of apiserver register themselves.
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

// Gate returns the gates as component-base's logging and metrics take them.
func (g *Gates) Gate() featuregate.MutableFeatureGate { return g.gate }

// AddFlags adds the flags that set gates and versions. What they say holds after Set. Only the process's gates have flags.
func (g *Gates) AddFlags(fs *pflag.FlagSet) { g.registry.AddFlags(fs) }

// Set takes in what the flags say.
func (g *Gates) Set() error { return g.registry.Set() }

// Validate returns what is wrong with the combination of gates and versions.
func (g *Gates) Validate() []error { return g.registry.Validate() }

// Versions returns the version of the binary, and those it emulates and is compatible with.
func (g *Gates) Versions() basecompatibility.EffectiveVersion {
	return g.registry.EffectiveVersionFor(basecompatibility.DefaultKubeComponent)
}

// AddMetrics shows gates and versions as metrics.
func (g *Gates) AddMetrics() {
	g.gate.AddMetrics()
	g.registry.AddMetrics()
}
