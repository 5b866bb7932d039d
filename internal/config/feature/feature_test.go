package feature

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
)

func TestDefaults(t *testing.T) {
	gates, err := Defaults()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[featuregate.Feature]bool{
		"StorageCapacityScoring":             true,  // beta
		"TaintTolerationComparisonOperators": false, // alpha
		"DynamicResourceAllocation":          true,  // locked
		"CoordinatedLeaderElection":          false, // beta, but off
		"DRAFractionalCapacityRange":         false, // on only where all components are at least at 1.37
		"WatchListClient":                    true,  // client-go's
		"ContextualLogging":                  true,  // component-base's
		"ComponentFlagz":                     true,
	} {
		if got := gates.Enabled(name); got != want {
			t.Errorf("%s is on: %v, want %v", name, got, want)
		}
	}
}

func TestWith(t *testing.T) {
	for _, test := range []struct {
		set  map[string]bool
		want string
	}{
		{map[string]bool{"StorageCapacityScoring": false, "TaintTolerationComparisonOperators": true}, ""},
		{map[string]bool{"Nonsense": true}, "unrecognized feature gate: Nonsense"},
		{map[string]bool{"NodeDeclaredFeatures": false}, "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true"},
		{map[string]bool{"CompositePodGroup": true}, "CompositePodGroup is enabled, but depends on features that are disabled: [GenericWorkload TopologyAwareWorkloadScheduling]"},
		{map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true}, ""},
	} {
		gates, err := With(test.set)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%v: %v", test.set, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%v: error %v, want %q", test.set, err, test.want)
		case test.want == "":
			for name, want := range test.set {
				if got := gates.Enabled(featuregate.Feature(name)); got != want {
					t.Errorf("%v: %s is on: %v", test.set, name, got)
				}
			}
		}
	}
}

// The process's gates include the gates of all libraries, and Process can be called more
// than once.
func TestProcess(t *testing.T) {
	for range 2 {
		gates, err := Process()
		if err != nil {
			t.Fatal(err)
		}
		if !gates.Enabled("APIServerIdentity") || !gates.Enabled("WatchListClient") || !gates.Enabled("VolumeLimitScaling") {
			t.Error("a gate of a library is unknown")
		}
		if got := gates.Versions().EmulationVersion().String(); got != "1.37" {
			t.Errorf("version %s is emulated", got)
		}
		var flags pflag.FlagSet
		gates.AddFlags(&flags)
		for _, name := range []string{"feature-gates", "emulated-version", "min-compatibility-version"} {
			if flags.Lookup(name) == nil {
				t.Errorf("there is no flag --%s", name)
			}
		}
		if usage := flags.Lookup("feature-gates").Usage; !strings.Contains(usage, "kube:DRADerivedAttributes=true|false (ALPHA - default=false)") {
			t.Errorf("the flag says %s", usage)
		}
	}
}

func TestReadRejects(t *testing.T) {
	for text, want := range map[string]string{
		"A: 1.30 alpha":              "want a version, a stage and a default",
		"A: ":                        "nothing is said of it",
		"A: x alpha off":             "x",
		"A: 1.30 gamma off":          `stage "gamma" is unknown`,
		"A: 1.30 beta maybe":         `default "maybe" must be on or off`,
		"A: 1.30 beta on tight":      `"tight" is neither locked nor compat=`,
		"A: 1.30 beta on compat=new": "new",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "feature gate A") {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
}

// TestNearGate suggests the gate that was meant.
func TestNearGate(t *testing.T) {
	for name, want := range map[string]string{
		"GenericWorkloads": "unrecognized feature gate: GenericWorkloads; did you mean GenericWorkload?",
		"Zzz":              "unrecognized feature gate: Zzz",
	} {
		if _, err := With(map[string]bool{name: true}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
