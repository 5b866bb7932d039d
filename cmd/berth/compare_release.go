package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// readSides reads the two configurations. Two releases need no configuration, or one for
// both.
func (c *compareFlags) readSides() (sides [2]*config.Config, err error) {
	twoReleases := len(c.releases) == 2
	switch n := len(c.configs); {
	case len(c.releases) > 2:
		return sides, wrong{fmt.Errorf("--release: must be given once or twice, got %q: name the two releases to compare", c.releases)}
	case n == 0 && twoReleases:
		c.configs = []string{"", ""}
	case n == 1 && twoReleases:
		c.configs = []string{c.configs[0], c.configs[0]}
	case n == 1:
		c.configs = []string{"", c.configs[0]}
	case n != 2:
		return sides, wrong{fmt.Errorf("--config: must be given once or twice, got %q: name the two configurations to compare", c.configs)}
	}
	for i, file := range c.configs {
		c.config = file
		if len(c.releases) > 0 {
			c.release = c.releases[min(i, len(c.releases)-1)]
		}
		if sides[i], err = c.readConfig(); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// simulate places the pods with one side.
func (c *compareFlags) simulate(scheduler *config.Config, cluster *manifest.Cluster, bar *progress, what string) (*simulate.Result, error) {
	return simulate.Run(simulate.Config{Scheduler: scheduler, Seed: c.seed}, cluster, func(decided, pending int) {
		bar.show(what, int64(decided), int64(pending))
	})
}

// addRules finds the rules behind the differences of two releases: it places the pods
// again with each rule alone, and compares the result with the older release.
func (c *compareFlags) addRules(sides [2]*config.Config, cluster *manifest.Cluster, comparison *simulate.Comparison, bar *progress) error {
	older, newer := sides[0], sides[1]
	if older.Release() > newer.Release() {
		older, newer = newer, older
	}
	if older.Release() == newer.Release() || c.configs[0] != c.configs[1] || len(comparison.Pods) == 0 {
		return nil
	}
	before, err := c.simulate(older, cluster, bar, "With "+older.Release().String())
	if err != nil {
		return err
	}
	for _, rule := range config.Rules() {
		if rule.Since <= older.Release() || rule.Since > newer.Release() {
			continue
		}
		alone, err := older.ForRule(rule.Name)
		if err != nil {
			return err
		}
		after, err := c.simulate(alone, cluster, bar, "With "+rule.Name)
		if err != nil {
			return err
		}
		changed := map[string]bool{}
		for _, pod := range simulate.Compare(cluster, c.by, before, after).Pods {
			changed[pod.Namespace+"/"+pod.Pod] = true
		}
		for i := range comparison.Pods {
			if p := &comparison.Pods[i]; changed[p.Namespace+"/"+p.Pod] {
				p.Rules = append(p.Rules, rule.Name)
			}
		}
	}
	return nil
}

// rulesOf returns the names of the rules, or "-".
func rulesOf(p *simulate.ComparedPod) string { return cmp.Or(strings.Join(p.Rules, ", "), "-") }
