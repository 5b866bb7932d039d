// Property test: a hint is as precise as its filter. Whenever a change of the cluster
// lets a filter pass a node, the hints of its plugin must wake the pods that it rejected.
package engine_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

var hintSeeds = flag.Int("hint-seeds", 60, "how many random clusters TestHintsKnowWhatFiltersRead tries")

func TestHintsKnowWhatFiltersRead(t *testing.T) {
	woken := map[string]int{}
	for seed := range uint64(*hintSeeds) {
		r := random.New(seed)
		size := random.Size{Nodes: 1 + r.IntN(6), Placed: r.IntN(14), Pending: 6}
		h := hints{seed: seed, woken: woken}
		if seed%2 == 0 {
			h.cluster, h.change = random.TopologyCluster(r, size), random.TopologyChange
			h.run(t, r, random.TopologyProfile(r))
		} else {
			h.cluster, h.change = random.StorageCluster(r, size), random.StorageChange
			h.run(t, r, random.StorageProfile(r))
		}
	}
	for _, name := range []string{
		"InterPodAffinity", "NodeAffinity", "NodeDeclaredFeatures", "NodePorts", "NodeResourcesFit", "NodeUnschedulable",
		"NodeVolumeLimits", "PodTopologySpread", "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
	} {
		if woken[name] == 0 {
			t.Errorf("no change let a node pass %s: %v", name, woken)
		}
	}
}

// hints are the filters of a profile in a changing cluster.
type hints struct {
	seed    uint64
	cluster oracle.Cluster
	change  func(*rand.Rand, oracle.Cluster) random.Mutation
	state   *state.State
	woken   map[string]int
}

func (h *hints) run(t *testing.T, r *rand.Rand, of oracle.Profile) {
	h.state = state.New()
	h.state.Apply(enginetest.Changes(h.cluster))
	profile := enginetest.Profile(t, of)
	for step := range 60 {
		m := h.change(r, h.cluster)
		h.check(t, profile, m, step)
		h.cluster = m.After
	}
}

// check applies a change, and calls the hints of each filter that passes a node
// afterwards.
func (h *hints) check(t *testing.T, profile *plugin.Profile, m random.Mutation, step int) {
	type judged struct {
		pod    *model.Pod
		filter *plugin.Filter
		events *plugin.EnqueueExtensions
		asked  model.Need
		before map[string]bool
	}
	var all []judged
	for _, p := range enginetest.Pending(h.cluster) {
		if isSame(p, m.OldPod) {
			continue
		}
		pod := model.NewPod(p)
		for _, f := range profile.Filters {
			v := h.state.View()
			before := passing(profile, f, v, pod)
			if before == nil || !slices.Contains(valuesOf(before), false) {
				continue
			}
			j := judged{pod: pod, filter: f, events: eventsOf(profile, f.Name), before: before}
			if j.events.Asked != nil {
				j.asked = j.events.Asked(v, pod)
			}
			all = append(all, j)
		}
	}
	events := h.state.Apply(enginetest.MutationChanges(m)).Events
	for _, j := range all {
		for node, passes := range passing(profile, j.filter, h.state.View(), j.pod) {
			if !passes || j.before[node] {
				continue
			}
			h.woken[j.filter.Name]++
			if !slices.ContainsFunc(events, func(e model.Event) bool { return helps(j.events, j.pod, j.asked, e) }) {
				t.Errorf("seed %d, step %d (%s): %s passes node %s for pod %s, and no hint wakes the pod; events %v",
					h.seed, step, m, j.filter.Name, node, j.pod, labelsOf(events))
			}
		}
	}
}

func isSame(a, b *v1.Pod) bool { return b != nil && a.UID == b.UID }

func valuesOf(m map[string]bool) (values []bool) {
	for _, v := range m {
		values = append(values, v)
	}
	return values
}

func labelsOf(events []model.Event) (labels []string) {
	for i := range events {
		labels = append(labels, events[i].Label())
	}
	return labels
}

// eventsOf returns the registrations of a plugin.
func eventsOf(profile *plugin.Profile, name string) *plugin.EnqueueExtensions {
	i := slices.IndexFunc(profile.EnqueueExtensions, func(x *plugin.EnqueueExtensions) bool { return x.Name == name })
	return profile.EnqueueExtensions[i]
}

// helps reports whether an event wakes a pod that the plugin rejected: it finds the pod,
// and its hint is positive.
func helps(x *plugin.EnqueueExtensions, pod *model.Pod, asked model.Need, e model.Event) bool {
	return slices.ContainsFunc(x.Events, func(r model.EventToRegister) bool {
		switch {
		case !r.Concerns(e):
			return false
		case r.Asked != nil:
			return r.Asked.Hint(asked, e) && plugintest.Meets(&r, r.Asked.Cause(asked), e)
		case r.Hint != nil && !r.Hint(pod, e):
			return false
		}
		return r.Cause == nil || plugintest.Meets(&r, r.Cause(pod), e)
	})
}

// passing returns by name whether each node passes a filter, nil if the filter fails.
func passing(profile *plugin.Profile, f *plugin.Filter, v state.View, pod *model.Pod) map[string]bool {
	verdict := verdictsIn(f, v, pod)
	if verdict == nil {
		return nil
	}
	passes := map[string]bool{}
	for slot, alive := range v.State().Alive() {
		if !alive {
			continue
		}
		code := verdict(int32(slot))
		if code.IsFailed() {
			return nil
		}
		name := v.Node(int32(slot)).Object().Name
		passes[name] = code == reason.None
	}
	return passes
}

func verdictsIn(f *plugin.Filter, v state.View, pod *model.Pod) func(slot int32) reason.Code {
	var need plugin.FilterNeed
	switch {
	case f.NeedIn != nil:
		found, err := f.NeedIn(v, pod)
		if err != nil {
			return nil
		} else if found.Rejection != "" {
			return func(int32) reason.Code { return reason.Unresolvable }
		}
		need = found.Need
	case f.Need != nil:
		need = f.Need(pod)
		if f.Varying != nil {
			if other, varies := f.Varying(v, pod); varies {
				need = other
			}
		}
	case f.Count != nil:
		return countedIn(f.Count(pod), v)
	default:
		panic(f.Name + " is another kind of filter")
	}
	if need == nil {
		return func(int32) reason.Code { return reason.None }
	}
	verdicts := need.Compile()
	return func(slot int32) reason.Code { return verdicts.Filter(v.Node(slot)) }
}

func countedIn(need plugin.CountNeed, v state.View) func(slot int32) reason.Code {
	passes := func(int32) reason.Code { return reason.None }
	if need == nil {
		return passes
	}
	counting := need.Compile()
	check, rejection, err := counting.PreFilter(v)
	switch {
	case err != nil:
		return nil
	case rejection != "":
		return func(int32) reason.Code { return reason.Unresolvable }
	case !check:
		return passes
	}
	rules := counting.Rules(v, nil)
	return func(slot int32) reason.Code {
		for i := range rules {
			if code := rules[i].Verdict(slot); code != reason.None {
				return code
			}
		}
		return reason.None
	}
}
