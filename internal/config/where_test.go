package config

import (
	"errors"
	"testing"
)

// TestWhere finds the line and the field of mistakes, and the name that was meant.
func TestWhere(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"paralelism: 3\n", "line 3: paralelism, did you mean parallelism?"},
		{"parallelism: 3\n\nprofiles:\n- plugins:\n    filters: {}\n", "line 7: profiles[0].plugins.filters, did you mean filter?"},
		{"zzz: 1\n", "line 3: zzz"},
		{"Parallelism: 3\nleaderElection: {leaseDurations: 1s}\n",
			"line 3: Parallelism, did you mean parallelism?; line 4: leaderElection.leaseDurations, did you mean leaseDuration?"},
		{"parallelism: 0\npercentageOfNodesToScore: 101\n", "line 3: parallelism; line 4: percentageOfNodesToScore"},
		{"profiles:\n- schedulerName: a\n- schedulerName: a\n", "line 5: profiles[1].schedulerName"},
		{"extenders:\n- urlPrefix: https://a\n  prioritizeVerb: p\n  weight: -1\n", "line 6: extenders[0].weight"},
		{"profiles:\n- plugins:\n    score:\n      enabled:\n      - name: NodeAffinity\n      - name: NodeResourceFit\n",
			"line 8: profiles[0].plugins.score.enabled[1].name, did you mean NodeResourcesFit?"},
		{"profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins:\n    multiPoint:\n      enabled: [{name: Mine}]\n",
			"line 8: profiles[1].plugins.multiPoint.enabled[0].name"},
		{"profiles:\n- plugins:\n    score:\n      enabled: [{name: NodeName}]\n", "line 6: profiles[0].plugins.score.enabled[0].name"},
		{"profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: {}\n  - name: NodeResourcesFit\n    args:\n      scoringStrateg: {}\n",
			"line 9: profiles[0].pluginConfig[1].args.scoringStrateg, did you mean scoringStrategy?"},
		{"profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        typo: x\n",
			"line 8: profiles[0].pluginConfig[0].args.scoringStrategy.typo, did you mean type?"},
		{"profiles:\n- schedulerName: b\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        type: Most\n        resources:\n        - name: cpu\n          weight: 1000\n",
			"line 9: profiles[0].pluginConfig[0].args.scoringStrategy.type; line 12: profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].weight"},
		{"profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: 101}\n", "line 6: profiles[0].pluginConfig[0].args.hardPodAffinityWeight"},
		{"parallelism: 3\nprofiles:\n- a: [\n", ""}, // no YAML
		{"parallelism: many\n", "line 3: parallelism, must be an integer in the range of int32"},
		{"clientConnection:\n  burst: 3\n  qps: x\n", "line 5: clientConnection.qps, must be a number"},
		{"leaderElection: {leaderElect: true}\npodMaxBackoffSeconds: 1.5\n", "line 4: podMaxBackoffSeconds, must be an integer in the range of int64"},
		{"percentageOfNodesToScore: 99999999999\n", "line 3: percentageOfNodesToScore, must be an integer in the range of int32"},
		{"podMaxBackoffSeconds: 99999999999999999999\n", "line 3: podMaxBackoffSeconds, must be an integer in the range of int64"},
		{"parallelism: 3\nenableProfiling: \"yes\"\n", "line 4: enableProfiling, must be true or false"},
		{"leaderElection:\n  renewDeadline: 10s\n  leaseDuration: 5\n", "line 5: leaderElection.leaseDuration, must be a duration, such as 15s"},
		{"leaderElection:\n  renewDeadline: 10s\n  leaseDuration: lots\n", "line 5: leaderElection.leaseDuration, must be a duration, such as 15s"},
		{"leaderElection: {retryPeriod: 5x}\n", "line 3: leaderElection.retryPeriod, must be a duration, such as 15s"},
		{"profiles: x\n", "line 3: profiles, must be a list"},
		{"profiles:\n- schedulerName: a\n- schedulerName: 3\n", "line 5: profiles[1].schedulerName, must be a string"},
		{"extenders:\n- httpTimeout: 3s\n- httpTimeout: soon\n", "line 5: extenders[1].httpTimeout, must be a duration, such as 15s"},
		{"profiles:\n- plugins:\n    score:\n      enabled:\n      - {name: NodeAffinity, weight: 1}\n      - {name: ImageLocality, weight: big}\n",
			"line 8: profiles[0].plugins.score.enabled[1].weight, must be an integer in the range of int32"},
		{"profiles:\n- plugins: {score: {enabled: [{name: NodeAffinity, weight: x}]}}\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        resources:\n        - {name: cpu, weight: 1}\n        - {name: memory, weight: x}\n",
			"line 4: profiles[0].plugins.score.enabled[0].weight, must be an integer in the range of int32"},
		{"profiles:\n- pluginConfig:\n  - name: InterPodAffinity\n    args: {hardPodAffinityWeight: 3}\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        resources:\n        - {name: cpu, weight: 1}\n        - {name: memory, weight: x}\n",
			"line 12: profiles[0].pluginConfig[1].args.scoringStrategy.resources[1].weight, must be an integer in the range of int64"},
		{"profiles:\n- pluginConfig:\n  - name: VolumeBinding\n    args: 3\n", "line 6: profiles[0].pluginConfig[0].args, must be a mapping"},
		{"profiles:\n- pluginConfig:\n  - name: DynamicResources\n    args:\n      filterTimeout: soon\n",
			"line 7: profiles[0].pluginConfig[0].args.filterTimeout, must be a duration, such as 15s"},
		{"profiles:\n- pluginConfig:\n  - name: DynamicResources\n    args:\n      filterTimeout: 10\n",
			"line 7: profiles[0].pluginConfig[0].args.filterTimeout, must be a duration, such as 15s"},
		{"profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy: {type: 5}\n",
			"line 7: profiles[0].pluginConfig[0].args.scoringStrategy.type, must be a string"},
		{"profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args:\n      defaultingType: [List]\n",
			"line 7: profiles[0].pluginConfig[0].args.defaultingType, must be a string"},
		{"profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args:\n      defaultConstraints: [{whenUnsatisfiable: ScheduleAnyway}, {whenUnsatisfiable: true}]\n",
			"line 7: profiles[0].pluginConfig[0].args.defaultConstraints[1].whenUnsatisfiable, must be a string"},
		{"profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args:\n      addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{operator: 5}]}]}}\n",
			"line 7: profiles[0].pluginConfig[0].args.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator, must be a string"},
		{"profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy: LeastAllocated\n",
			"line 7: profiles[0].pluginConfig[0].args.scoringStrategy, must be a mapping"},
		{"extenders:\n- tlsConfig: {insecure: true, certData: 5}\n", "line 4: extenders[0].tlsConfig.certData, must be a string in base64"},
	} {
		_, err := Parse("f", []byte(header+test.text))
		var own *Error
		if !errors.As(err, &own) || own.Where != test.want {
			t.Errorf("%s\n got %v\nwant %s", test.text, err, test.want)
		}
	}
}
