package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// TestOracleOfVolumes compares the oracle, which checks Berth's engine, with
// kube-scheduler about volumes.
func TestOracleOfVolumes(t *testing.T) {
	for _, shape := range cases.VolumeShapes() {
		t.Run(shape.Name, func(t *testing.T) {
			for seed := range (seedsOf(shape) + 2) / 3 {
				tc := shape.Draw(seed + 1)
				profile, scored := profileOf(t, &tc)
				if differs := oracleDiffers(t, tc, profile, scored); differs != "" {
					small := cases.Shrink(tc, func(tc cases.Case) bool { return oracleDiffers(t, tc, profile, scored) != "" })
					objects, err := yaml.Marshal(small.Objects())
					t.Errorf("seed %d: %s\n%s%v", seed+1, oracleDiffers(t, small, profile, scored), objects, err)
					return
				}
			}
		})
	}
}

// profileOf returns a case's profile for the oracle. The oracle cannot change the order
// of filters, so that is removed from the configuration. It cannot disable the score of a
// plugin alone; then scored is false, and scores are not compared.
func profileOf(t *testing.T, tc *cases.Case) (profile oracle.Profile, scored bool) {
	t.Helper()
	var c configv1.KubeSchedulerConfiguration
	if err := yaml.Unmarshal(tc.Config, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.Profiles) == 0 {
		return profile, true
	}
	p := &c.Profiles[0]
	if p.Plugins != nil && len(p.Plugins.MultiPoint.Enabled)+len(p.Plugins.Score.Enabled)+len(p.PluginConfig) > 2 {
		tc.Config = cases.EmptyConfig() // drawn for every plugin
		return profile, true
	}
	profile.Disabled, profile.Weights = map[string]bool{}, map[string]int64{}
	for _, off := range p.Plugins.MultiPoint.Disabled {
		profile.Disabled[off.Name] = true
	}
	for _, on := range p.Plugins.MultiPoint.Enabled {
		profile.Weights[on.Name] = int64(*on.Weight)
	}
	for _, args := range p.PluginConfig {
		if err := json.Unmarshal(args.Args.Raw, &profile.VolumeBinding); err != nil {
			t.Fatal(err)
		}
	}
	p.Plugins.Filter = configv1.PluginSet{}
	var err error
	if tc.Config, err = yaml.Marshal(map[string]any{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": c.Profiles}); err != nil {
		t.Fatal(err)
	}
	return profile, len(p.Plugins.Score.Disabled) == 0
}

// oracleDiffers returns the first difference.
func oracleDiffers(t *testing.T, tc cases.Case, profile oracle.Profile, scored bool) string {
	t.Helper()
	theirs, err := InProcess().load(tc.Clone())
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for _, p := range tc.Pods {
		if p.Spec.NodeName != "" || p.Spec.SchedulerName != v1.DefaultSchedulerName {
			continue
		}
		v, err := theirs.Explain(p)
		if err != nil {
			t.Fatal(err)
		}
		want, got := judgment(v, scored), oracleJudgment(oracle.Judge(tc.Cluster, p, profile), scored)
		for i := range want {
			if i >= len(got) || want[i] != got[i] && !(strings.HasSuffix(want[i], " …") && strings.HasPrefix(got[i], strings.TrimSuffix(want[i], " …"))) {
				return fmt.Sprintf("pod %s: kube-scheduler %s, oracle %s", p.Name, want[i], slices.Concat(got, make([]string, len(want)))[i])
			}
		}
	}
	return ""
}

// errorText returns an error without a library's words about a selector, which the oracle
// phrases differently.
func errorText(err error) string {
	before, _, _ := strings.Cut(err.Error(), ": values: Invalid value")
	before, _, _ = strings.Cut(before, `: label "`)
	return "error " + before
}

// inOrder sorts reasons that come in the order of a map.
func inOrder(plugin string, reasons []string) []string {
	if plugin == "NodeResourcesFit" {
		return slices.Sorted(slices.Values(reasons))
	}
	return reasons
}

func judgment(v *upstream.Verdict, scored bool) []string {
	text := []string{fmt.Sprint("message ", v.MessageBefore)}
	switch {
	case errors.Is(v.Err, upstream.ErrNoNodes):
		return []string{"message " + v.Err.Error()}
	case v.Err != nil:
		return []string{errorText(v.Err)}
	case scored:
		text = append(text, fmt.Sprint("best ", v.Best))
	}
	for _, n := range v.Nodes {
		all := n.All
		if all == nil && n.First != nil {
			all = []upstream.Rejection{*n.First}
		}
		line := n.Name
		for _, r := range all {
			line += fmt.Sprintf(" %s %t %q", r.Plugin, r.Code == "UnschedulableAndUnresolvable", inOrder(r.Plugin, r.Reasons))
		}
		if n.All == nil && n.First != nil {
			line += " …" // the others are unknown
		}
		for _, s := range n.Scores {
			if scored && s.Plugin != "DynamicResources" && (s.Normalised > 0 || s.Plugin != "VolumeBinding") {
				line += fmt.Sprintf(" %s %d", s.Plugin, s.Normalised)
			}
		}
		text = append(text, line)
	}
	return text
}

func oracleJudgment(j oracle.Judgment, scored bool) []string {
	text := []string{fmt.Sprint("message ", j.Rejected)}
	switch {
	case j.Err != nil:
		return []string{errorText(j.Err)}
	case len(j.Nodes) == 0:
		return text
	case scored:
		best := j.Best
		if j.Nominated != "" {
			best = []string{j.Nominated}
		}
		text = append(text, fmt.Sprint("best ", best))
	}
	for _, n := range j.Nodes {
		line := n.Node
		for _, r := range n.Rejections {
			line += fmt.Sprintf(" %s %t %q", r.Plugin, r.Unresolvable, inOrder(r.Plugin, r.Reasons))
		}
		for _, s := range n.Scores {
			if scored && j.Feasible > 1 && (s.Score > 0 || s.Plugin != "VolumeBinding") {
				line += fmt.Sprintf(" %s %d", s.Plugin, s.Score)
			}
		}
		text = append(text, line)
	}
	return text
}
