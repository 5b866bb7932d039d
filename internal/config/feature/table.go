package feature

import (
	_ "embed"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"
)

//go:embed gates.txt
var gates string

// table is the parsed content of gates.txt.
type table struct {
	specs map[featuregate.Feature]featuregate.VersionedSpecs
	needs map[featuregate.Feature][]featuregate.Feature
}

// read parses lines such as
//
//	DRASchedulerFilterTimeout: 1.34 beta on needs DynamicResourceAllocation
//
// Several stages of a gate are separated by commas.
func read(text string) (table, error) {
	t := table{specs: map[featuregate.Feature]featuregate.VersionedSpecs{}, needs: map[featuregate.Feature][]featuregate.Feature{}}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, ": ")
		history, needs, dependent := strings.Cut(rest, "needs ")
		history = strings.TrimSpace(history)
		gate := featuregate.Feature(name)
		if history == "" && !dependent {
			return table{}, fmt.Errorf("feature gate %s: nothing is said of it", name)
		}
		if dependent {
			for need := range strings.SplitSeq(needs, ", ") {
				t.needs[gate] = append(t.needs[gate], featuregate.Feature(need))
			}
		}
		if history == "" {
			continue
		}
		for stage := range strings.SplitSeq(history, ", ") {
			spec, err := readStage(strings.Fields(stage))
			if err != nil {
				return table{}, fmt.Errorf("feature gate %s: %q: %w", name, stage, err)
			}
			t.specs[gate] = append(t.specs[gate], spec)
		}
	}
	return t, nil
}

// readStage parses the state of a gate from a version on: version, stage, default, and
// further properties.
func readStage(words []string) (spec featuregate.FeatureSpec, err error) {
	if len(words) < 3 {
		return spec, fmt.Errorf("want a version, a stage and a default")
	}
	if spec.Version, err = version.ParseMajorMinor(words[0]); err != nil {
		return spec, err
	}
	switch words[1] {
	case "prealpha":
		spec.PreRelease = featuregate.PreAlpha
	case "alpha":
		spec.PreRelease = featuregate.Alpha
	case "beta":
		spec.PreRelease = featuregate.Beta
	case "ga":
		spec.PreRelease = featuregate.GA
	case "deprecated":
		spec.PreRelease = featuregate.Deprecated
	default:
		return spec, fmt.Errorf("stage %q is unknown", words[1])
	}
	switch words[2] {
	case "on":
		spec.Default = true
	case "off":
	default:
		return spec, fmt.Errorf("default %q must be on or off", words[2])
	}
	for _, word := range words[3:] {
		compat, ok := strings.CutPrefix(word, "compat=")
		switch {
		case word == "locked":
			spec.LockToDefault = true
		case ok:
			if spec.MinCompatibilityVersion, err = version.ParseMajorMinor(compat); err != nil {
				return spec, err
			}
		default:
			return spec, fmt.Errorf("%q is neither locked nor compat=", word)
		}
	}
	return spec, nil
}
