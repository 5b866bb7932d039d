package config

import (
	configv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/utils/ptr"
)

// notes returns a note on each field that is accepted but has no effect, and why.
func notes(c *configv1.KubeSchedulerConfiguration) []string {
	const exact = " has no effect: every node is looked at, for every pod"
	var notes []string
	if ptr.Deref(c.PercentageOfNodesToScore, 0) != 0 {
		notes = append(notes, "percentageOfNodesToScore"+exact)
	}
	for i := range c.Profiles {
		if ptr.Deref(c.Profiles[i].PercentageOfNodesToScore, 0) != 0 {
			notes = append(notes, "percentageOfNodesToScore of profile "+*c.Profiles[i].SchedulerName+exact)
		}
	}
	if *c.Parallelism != defaultParallelism {
		notes = append(notes, "parallelism affects only the Parallelizer of out-of-tree plugins")
	}
	return notes
}
