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
		{"parallelism: many\n", ""}, // the decoder's error has no path
	} {
		_, err := Parse("f", []byte(header+test.text))
		var own *Error
		if !errors.As(err, &own) || own.Where != test.want {
			t.Errorf("%s\n got %v\nwant %s", test.text, err, test.want)
		}
	}
}
