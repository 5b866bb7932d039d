package feature

import (
	"fmt"

	clientfeatures "k8s.io/client-go/features"
	"k8s.io/component-base/featuregate"
)

// client makes the process's gates available to client-go, and registers client-go's own
// with them. client-go has its own types for gates, to avoid depending on component-base.
type client struct {
	gate featuregate.MutableVersionedFeatureGate
}

// Enabled reports whether the gate is on.
func (c client) Enabled(name clientfeatures.Feature) bool {
	return c.gate.Enabled(featuregate.Feature(name))
}

// AddVersioned registers gates.
func (c client) AddVersioned(features map[clientfeatures.Feature]clientfeatures.VersionedSpecs) error {
	all := make(map[featuregate.Feature]featuregate.VersionedSpecs, len(features))
	for name, history := range features {
		for _, stage := range history {
			spec := featuregate.FeatureSpec{Default: stage.Default, LockToDefault: stage.LockToDefault, Version: stage.Version}
			switch stage.PreRelease {
			case clientfeatures.Alpha:
				spec.PreRelease = featuregate.Alpha
			case clientfeatures.Beta:
				spec.PreRelease = featuregate.Beta
			case clientfeatures.GA:
				spec.PreRelease = featuregate.GA
			case clientfeatures.Deprecated:
				spec.PreRelease = featuregate.Deprecated
			default:
				return fmt.Errorf("feature gate %s of client-go has the unknown stage %q", name, stage.PreRelease)
			}
			all[featuregate.Feature(name)] = append(all[featuregate.Feature(name)], spec)
		}
	}
	return c.gate.AddVersioned(all)
}
