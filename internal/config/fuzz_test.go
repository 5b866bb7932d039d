package config

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// FuzzParse checks that Parse returns either a configuration or a mistake with text, for
// any input. A written configuration must be read back unchanged.
func FuzzParse(f *testing.F) {
	defaults, err := os.ReadFile("testdata/defaults.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(defaults))
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for _, text := range []string{
		"", "{}", head, `{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"KubeSchedulerConfiguration"}`,
		head + "profiles:\n- schedulerName: a\n  percentageOfNodesToScore: 10\n  plugins:\n    score:\n      disabled: [{name: '*'}]\n      enabled: [{name: ImageLocality, weight: 3}]\n",
		head + "profiles:\n- plugins:\n    multiPoint:\n      disabled: [{name: NodePorts}]\n    filter:\n      enabled: [{name: NodePorts}]\n",
		head + "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 2}],\n" +
			"      requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}\n",
		head + "profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args: {defaultingType: List, defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}\n",
		head + "podInitialBackoffSeconds: 3\npodMaxBackoffSeconds: 2\nparallelism: -1\n",
		head + "extenders:\n- urlPrefix: http://a\n  filterVerb: filter\n  weight: 1\n  httpTimeout: 1s\n  managedResources: [{name: example.com/gpu}]\n",
		head + "leaderElection: {leaderElect: true, leaseDuration: 1s, renewDeadline: 2s}\nunknown: 1\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("fuzz", []byte(text))
		if (c == nil) == (err == nil) {
			t.Fatalf("configuration %v, error %v", c, err)
		}
		if err != nil {
			if mistake := (*Error)(nil); !errors.As(err, &mistake) || !strings.HasPrefix(err.Error(), "fuzz: ") || len(err.Error()) == len("fuzz: ") {
				t.Fatalf("error %q", err)
			}
			return
		}
		var once, again bytes.Buffer
		if err := c.Write(&once); err != nil {
			t.Fatal(err)
		}
		same, err := Parse("written", once.Bytes())
		if err != nil {
			t.Fatalf("%v in what was written:\n%s", err, once.String())
		}
		if err := same.Write(&again); err != nil {
			t.Fatal(err)
		}
		if once.String() != again.String() {
			t.Fatalf("it is written as\n%s\nand, read again, as\n%s", once.String(), again.String())
		}
	})
}
