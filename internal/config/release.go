package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Release is a minor version of Kubernetes 1. The answers of the plugins depend on it.
type Release int

// The releases with different answers. The zero value of a request means Release37.
const (
	Release37 Release = 37
	Release38 Release = 38
)

// Releases returns the releases, the oldest first.
func Releases() []Release { return []Release{Release37, Release38} }

// String returns "1.37".
func (r Release) String() string { return fmt.Sprintf("1.%d", int(r)) }

// ParseRelease parses "1.37" or "1.38".
func ParseRelease(text string) (Release, error) {
	var names []string
	for _, r := range Releases() {
		if text == r.String() {
			return r, nil
		}
		names = append(names, r.String())
	}
	return 0, fmt.Errorf("%q: must be %s", text, strings.Join(names, " or "))
}

// ReleaseFor returns the release whose answers suit an API server of a minor version: the
// oldest for older servers, the newest for newer ones.
func ReleaseFor(minor int) Release {
	all := Releases()
	return Release(min(max(minor, int(all[0])), int(all[len(all)-1])))
}

// rules are the answers that differ between releases. Each is an argument of one plugin's
// constructor. The zero value has the answers of the oldest release.
type rules struct {
	spreadEmptySelector   bool
	budgetEmptySelector   bool
	budgetUnlabelledPods  bool
	victimsByUID          bool
	nodesWithoutVictims   bool
	scorePodLevelRequests bool
	declaredFeatures38    bool
}

// preemption returns the rules of DefaultPreemption.
func (r rules) preemption() plugin.PreemptionRules {
	return plugin.PreemptionRules{
		Budgets:   model.BudgetRules{EmptySelector: r.budgetEmptySelector, UnlabelledPods: r.budgetUnlabelledPods},
		TiesByUID: r.victimsByUID, WithoutVictims: r.nodesWithoutVictims,
	}
}

// Rule is an answer that differs between releases.
type Rule struct {
	// Name is the field's name in code, and the row's name in docs/versions.md.
	Name string
	// Since is the first release with the new answer.
	Since Release
	// Before and After are the two answers.
	Before, After string
	// Affects names the objects that have another answer.
	Affects string
	// Scenario has both answers; empty if no scenario can.
	Scenario string

	field func(*rules) *bool
}

// Rules returns the table of the answers that differ, in the order of docs/versions.md.
func Rules() []Rule {
	return []Rule{
		{
			Name: "spreadEmptySelector", Since: Release38,
			Before:   "a spread constraint with `labelSelector: {}` counts no pods",
			After:    "it counts all pods of the namespace",
			Affects:  "pods with such a constraint",
			Scenario: "release-spread-empty-selector",
			field:    func(r *rules) *bool { return &r.spreadEmptySelector },
		},
		{
			Name: "budgetEmptySelector", Since: Release38,
			Before:   "preemption ignores a PodDisruptionBudget with `selector: {}`",
			After:    "such a budget protects all pods of its namespace",
			Affects:  "preemptors of pods in namespaces with such a budget",
			Scenario: "release-budget-empty-selector",
			field:    func(r *rules) *bool { return &r.budgetEmptySelector },
		},
		{
			Name: "budgetUnlabelledPods", Since: Release38,
			Before:   "preemption ignores budgets of pods without labels",
			After:    "a budget that selects them protects them",
			Affects:  "preemptors of pods without labels",
			Scenario: "release-budget-unlabelled-pods",
			field:    func(r *rules) *bool { return &r.budgetUnlabelledPods },
		},
		{
			Name: "victimsByUID", Since: Release38,
			Before:   "equal victims are taken in no certain order; Berth spares the first by name longest",
			After:    "the first by UID is spared longest",
			Affects:  "preemptors that need part of such pods",
			Scenario: "release-victims-by-uid",
			field:    func(r *rules) *bool { return &r.victimsByUID },
		},
		{
			Name: "nodesWithoutVictims", Since: Release38,
			Before:  "preemption fails: `expected at least one victim pod on node …`",
			After:   "an extender with `preemptVerb` may add victims; else `No preemption victims found for incoming pod`",
			Affects: "pods that only extenders reject",
			field:   func(r *rules) *bool { return &r.nodesWithoutVictims },
		},
		{
			Name: "scorePodLevelRequests", Since: Release38,
			Before:   "NodeResourcesFit scores a pod by the requests of its containers",
			After:    "it scores the pod by its pod-level requests",
			Affects:  "pods with `spec.resources`",
			Scenario: "release-score-pod-level-requests",
			field:    func(r *rules) *bool { return &r.scorePodLevelRequests },
		},
		{
			Name: "declaredFeatures38", Since: Release38,
			Before:   "pods with an ML-DSA pod certificate or an OCI seccomp profile fit on any node",
			After:    "they need a node that declares the feature",
			Affects:  "pods with such a certificate or profile",
			Scenario: "release-declared-features",
			field:    func(r *rules) *bool { return &r.declaredFeatures38 },
		},
	}
}

// rulesOf returns the rules of a release.
func rulesOf(release Release) (on rules) {
	for _, rule := range Rules() {
		*rule.field(&on) = release >= rule.Since
	}
	return on
}

// Release returns the release whose answers the profiles give.
func (c *Config) Release() Release { return c.release }

// For returns the configuration with the answers of a release. Out-of-tree plugins must
// not be built yet.
func (c *Config) For(release Release) (*Config, error) {
	if release == c.release {
		return c, nil
	}
	full, err := c.with(rulesOf(release))
	if err == nil {
		full.release = release
	}
	return full, err
}

// ForRule returns the configuration with one rule as in its first release, and all others
// as in the release before.
func (c *Config) ForRule(name string) (*Config, error) {
	table := Rules()
	i := slices.IndexFunc(table, func(r Rule) bool { return r.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("no rule is named %q", name)
	}
	on := rulesOf(table[i].Since - 1)
	*table[i].field(&on) = true
	return c.with(on)
}

// with builds the profiles again, with other rules.
func (c *Config) with(on rules) (*Config, error) {
	full := *c
	full.Source = c.Source.DeepCopy()
	full.known = builtIn(c.gates, on)
	full.known.external, full.known.scheme = c.known.external, c.known.scheme
	full.Profiles, full.Missing, full.Barring, full.reads = nil, nil, nil, nil
	if err := full.addProfiles(nil); err != nil {
		return nil, fmt.Errorf("initializing profiles: %w", err)
	}
	full.askExtenders()
	return &full, nil
}
