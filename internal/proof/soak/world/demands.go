package world

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// demand is the constraints of an app's pods on nodes and other pods.
type demand struct {
	apply func(a *app, p *v1.Pod)
	// service means that the app has a Service.
	service bool
	// maxReplicas is the number of nodes needed for each replica, or 0 for no limit.
	maxReplicas int
}

// demands are the demands of large apps, in turns. Pods of an app without constraints of
// its own are spread by default.
var demands = []demand{
	{apply: func(*app, *v1.Pod) {}},
	{apply: func(*app, *v1.Pod) {}, service: true},
	{apply: spreadSoftly},
	{apply: spreadHard},
	{apply: apartByHost, maxReplicas: 5},
	{apply: nearByZone},
	{apply: ratherNear, service: true},
	{apply: inPools},
}

// tenantDemands are the demands of the small apps of tenants, in turns.
var tenantDemands = []demand{
	{apply: apartByHost},
	{apply: spreadHard},
	{apply: func(*app, *v1.Pod) {}, service: true},
	{apply: ratherAmongTeam},
}

func selecting(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

// spread adds a constraint that counts the pods of one version of the app.
func spread(a *app, p *v1.Pod, skew int32, key string, otherwise v1.UnsatisfiableConstraintAction) {
	p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
		MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: otherwise, LabelSelector: selecting(a.labels),
		MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
	})
}

func spreadSoftly(a *app, p *v1.Pod) {
	spread(a, p, 1, v1.LabelTopologyZone, v1.ScheduleAnyway)
	spread(a, p, 1, v1.LabelHostname, v1.ScheduleAnyway)
}

func spreadHard(a *app, p *v1.Pod) {
	spread(a, p, 1, v1.LabelTopologyZone, v1.DoNotSchedule)
	spread(a, p, 1, v1.LabelHostname, v1.ScheduleAnyway)
}

func apartByHost(a *app, p *v1.Pod) {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: selecting(a.labels), TopologyKey: v1.LabelHostname}},
	}}
}

func nearByZone(a *app, p *v1.Pod) {
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: selecting(a.labels), TopologyKey: v1.LabelTopologyZone}},
	}}
}

// ratherNear prefers zones with pods of the same version, as with matchLabelKeys: the API
// server puts their values into the selector.
func ratherNear(a *app, p *v1.Pod) {
	key := appsv1.DefaultDeploymentUniqueLabelKey
	p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: v1.PodAffinityTerm{
			TopologyKey: v1.LabelTopologyZone, MatchLabelKeys: []string{key},
			LabelSelector: &metav1.LabelSelector{MatchLabels: a.labels, MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: key, Operator: metav1.LabelSelectorOpIn, Values: []string{p.Labels[key]},
			}}},
		}}},
	}}
}

// ratherAmongTeam avoids hosts with the same app of other tenants of the team.
func ratherAmongTeam(a *app, p *v1.Pod) {
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{{Weight: 10, PodAffinityTerm: v1.PodAffinityTerm{
			TopologyKey: v1.LabelHostname, LabelSelector: selecting(a.labels), NamespaceSelector: selecting(map[string]string{teamLabel: teamOf(a.namespace)}),
		}}},
	}}
}

// inPools requires one of three pools, and prefers the first.
func inPools(a *app, p *v1.Pod) {
	in := func(pools ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: poolLabel, Operator: v1.NodeSelectorOpIn, Values: pools}}}
	}
	first, second, third := poolName(a.replicasBase), poolName(a.replicasBase+1), poolName(a.replicasBase+2)
	p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution:  &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{in(first, second, third)}},
		PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{{Weight: 10, Preference: in(first)}},
	}}
}
