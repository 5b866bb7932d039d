package advice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// nth returns the n-th name that is derived from a word.
func nth(word string, n int) string { return word + "-copy-" + strconv.Itoa(n+1) }

// ofPod returns a change of the pod.
func (t *trial) ofPod(kind Kind, size int64, edit func(*v1.Pod), format string, args ...any) Change {
	return Change{Kind: kind, Object: "pod " + t.Pod.Namespace + "/" + t.Pod.Name, Text: fmt.Sprintf(format, args...), Size: size, edit: edit}
}

// isCondition reports whether Kubernetes sets a taint for the node's present condition. A
// toleration would place the pod where it cannot run.
func isCondition(taint *v1.Taint) bool {
	return strings.HasPrefix(taint.Key, "node.kubernetes.io/") || strings.HasPrefix(taint.Key, "node.cloudprovider.kubernetes.io/")
}

// tolerations returns a change for each taint, the taints of the most nodes first.
func (t *trial) tolerations() []knob {
	nodes := map[v1.Taint]int{}
	for _, node := range t.Nodes {
		for i := range node.Spec.Taints {
			taint := node.Spec.Taints[i]
			if taint.TimeAdded = nil; taint.Effect != v1.TaintEffectPreferNoSchedule && !isCondition(&taint) {
				nodes[taint]++
			}
		}
	}
	taints := slices.SortedFunc(maps.Keys(nodes), func(a, b v1.Taint) int {
		return cmp.Or(cmp.Compare(nodes[b], nodes[a]), cmp.Compare(a.ToString(), b.ToString()))
	})
	var knobs []knob
	for _, taint := range firstOf(t, taints) {
		knobs = append(knobs, single("", t.ofPod(Tolerate, 1, func(p *v1.Pod) {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: taint.Key, Operator: v1.TolerationOpEqual, Value: taint.Value, Effect: taint.Effect})
		}, "tolerate the taint %s", taint.ToString())))
	}
	return knobs
}

// firstOf returns the candidates to try, and sets CutShort if some are left out.
func firstOf[T any](t *trial, all []T) []T {
	if len(all) > maxCandidates {
		t.advice.CutShort = true
	}
	return all[:min(maxCandidates, len(all))]
}

// skews returns two changes for each spread constraint: raise its maxSkew, or drop it.
func (t *trial) skews() []knob {
	var knobs []knob
	for i := range t.Pod.Spec.TopologySpreadConstraints {
		c := &t.Pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		group, from := fmt.Sprintf("spread %d", i), min(c.MaxSkew, math.MaxInt32-1)
		knobs = append(knobs, knob{kind: Skew, group: group, settings: min(skewMax, int(math.MaxInt32-from)), at: func(setting int) Change {
			to := from + int32(setting) + 1
			change := t.ofPod(Skew, int64(setting)+1, func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].MaxSkew = to },
				"raise the maxSkew of the spread constraint on %s from %d to %d", c.TopologyKey, from, to)
			change.From, change.To = strconv.Itoa(int(from)), strconv.Itoa(int(to))
			return change
		}})
		knobs = append(knobs, single(group, t.ofPod(DropSpread, 1, func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable = v1.ScheduleAnyway },
			"drop the spread constraint on %s (whenUnsatisfiable: ScheduleAnyway)", c.TopologyKey)))
	}
	return knobs
}

// skewMax limits the increase of a maxSkew. It exceeds the number of pods in a namespace.
const skewMax = 1 << 20

// affinities returns a change for each required term of the pod's affinity to other pods.
func (t *trial) affinities() []knob {
	return t.terms(DropAffinity, "drop the affinity to pods with %s by %s", func(a *v1.Affinity) *[]v1.PodAffinityTerm {
		if a == nil || a.PodAffinity == nil {
			return nil
		}
		return &a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	})
}

// antiAffinities returns a change for each required term of the pod's anti-affinity.
func (t *trial) antiAffinities() []knob {
	return t.terms(DropAntiAffinity, "drop the anti-affinity to pods with %s by %s, or make it preferred", func(a *v1.Affinity) *[]v1.PodAffinityTerm {
		if a == nil || a.PodAntiAffinity == nil {
			return nil
		}
		return &a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	})
}

// terms returns a change for each term: drop it. of returns the terms of an affinity; nil
// if it has none.
func (t *trial) terms(kind Kind, format string, of func(*v1.Affinity) *[]v1.PodAffinityTerm) []knob {
	all := of(t.Pod.Spec.Affinity)
	if all == nil {
		return nil
	}
	var knobs []knob
	for i := range *all {
		term := &(*all)[i]
		knobs = append(knobs, single("", t.ofPod(kind, 1, func(p *v1.Pod) {
			terms := of(p.Spec.Affinity)
			*terms = without(*terms, term)
		}, format, labelsOf(term), term.TopologyKey)))
	}
	return knobs
}

// without returns a list without one of its entries.
func without[T any](all []T, entry *T) []T {
	at := slices.IndexFunc(all, func(other T) bool { return equality.Semantic.DeepEqual(&other, entry) })
	if at < 0 {
		return all
	}
	return slices.Delete(slices.Clone(all), at, at+1)
}

// ports returns a change for each host port: drop it.
func (t *trial) ports() []knob {
	if t.Pod.Spec.HostNetwork { // Each container port is then a host port.
		return nil
	}
	var knobs []knob
	seen := map[int32]bool{}
	for i := range t.Pod.Spec.Containers {
		for j := range t.Pod.Spec.Containers[i].Ports {
			port := t.Pod.Spec.Containers[i].Ports[j].HostPort
			if port == 0 || seen[port] {
				continue
			}
			seen[port] = true
			knobs = append(knobs, single("", t.ofPod(DropPort, 1, func(p *v1.Pod) { dropPort(p, port) }, "drop the host port %d", port)))
		}
	}
	return knobs
}

func dropPort(p *v1.Pod, port int32) {
	for i := range p.Spec.Containers {
		for j := range p.Spec.Containers[i].Ports {
			if at := &p.Spec.Containers[i].Ports[j]; at.HostPort == port {
				at.HostPort = 0
			}
		}
	}
}

// labelsOf returns the selector of a term as text.
func labelsOf(term *v1.PodAffinityTerm) string {
	if term.LabelSelector == nil {
		return "no labels"
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(term.LabelSelector.MatchLabels)) {
		all = append(all, key+"="+term.LabelSelector.MatchLabels[key])
	}
	for _, e := range term.LabelSelector.MatchExpressions {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.Key, e.Operator, strings.Join(e.Values, ","))))
	}
	if len(all) == 0 {
		return "any labels"
	}
	return strings.Join(all, ", ")
}
