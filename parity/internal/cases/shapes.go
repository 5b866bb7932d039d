package cases

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// Shapes returns all shapes, with those about single nodes first.
func Shapes() []Shape {
	hard := func(p *v1.Pod) { keepConstraints(p, v1.DoNotSchedule) }
	soft := func(p *v1.Pod) { keepConstraints(p, v1.ScheduleAnyway) }
	all := []Shape{
		{"resources", "requests of every form, resizes, pods per node", nodeLocal(keepResources)},
		{"amounts", "odd amounts: tiny, huge, in fractions, of resources that nobody knows", amounts},
		{"taints", "taints, tolerations, cordons", nodeLocal(keepTolerations)},
		{"node-affinity", "node selectors, required and preferred terms, names", nodeLocal(keepNodeAffinity)},
		{"ports", "host ports", nodeLocal(keepPorts)},
		{"images", "images that nodes have", nodeLocal(keepImages)},
		{"features", "features that nodes declare", nodeLocal(keepFeatures)},
		{"node-mixed", "all of these at once", nodeLocal(keepAll)},
		{"spread-hard", "DoNotSchedule constraints", spread(hard, nil)},
		{"spread-soft", "ScheduleAnyway constraints", spread(soft, nil)},
		{"spread-both", "both kinds of constraints, with node affinity and taints", spread(func(*v1.Pod) {}, nil)},
		{"spread-system", "system default constraints, by services and controllers", spread(noConstraints, systemDefaults)},
		{"spread-list", "listed default constraints, by services and controllers", spread(noConstraints, listedDefaults)},
		{"affinity", "pods that want to be near others", podTerms(onlyAffinity, noTerms)},
		{"anti-affinity", "pods that want to be far from others", podTerms(onlyAntiAffinity, noTerms)},
		{"existing-terms", "pods with terms run, pods without come", podTerms(noTerms, anyTerms)},
		{"namespaces", "namespace selectors, both ways", podTerms(inNamespaces, inNamespaces)},
		{"terms-both", "terms of all kinds, both ways", podTerms(anyTerms, anyTerms)},
		{"mixed", "everything at once", mixed},
		{"profiles", "everything at once, with two profiles and plugins in other orders", profiles},
		{"own-nomination", "a pod with a nominated node of its own", ownNomination},
		{"nominated", "pods that must leave room to others with a nominated node", nominated},
		{"broken", "terms, selectors and constraints that do not parse", broken},
		{"crowd", "hundreds of nodes, pods of a few templates", crowd},
	}
	return slices.Concat(all, VolumeShapes(), DeviceShapes(), PreemptShapes(), OutsideShapes(), releaseShapes())
}

// size is mostly small, so that coincidences occur. Sometimes it has no nodes or more
// than a hundred.
func size(r *rand.Rand) random.Size {
	s := random.Size{Nodes: 2 + r.IntN(20), Placed: r.IntN(50), Pending: 12}
	switch {
	case chance(r, 3):
		s.Nodes = r.IntN(2)
	case chance(r, 4):
		s = random.Size{Nodes: 100 + r.IntN(60), Placed: r.IntN(200), Pending: 4}
	}
	return s
}

// nodeLocal draws cases in which each node's result depends on that node only, and the
// changes of the functions.
func nodeLocal(keep func(c *oracle.Cluster), more ...func(r *rand.Rand, tc *Case)) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		tc := Case{Config: EmptyConfig(), Cluster: random.Cluster(r, size(r))}
		keep(&tc.Cluster)
		portsOnce(&tc)
		if chance(r, 60) {
			p := random.Profile(r)
			if chance(r, 50) { // the plugins about other pods are enabled, but skip
				delete(p.Disabled, "PodTopologySpread")
				delete(p.Disabled, "InterPodAffinity")
			}
			tc.Config = configText(profileOf(r, v1.DefaultSchedulerName, p))
		}
		for _, change := range more {
			change(r, &tc)
		}
		return tc
	}
}

// topology draws cases in which a node's result depends on the pods in its domains.
func topology(r *rand.Rand) Case {
	tc := Case{Config: EmptyConfig(), Cluster: random.TopologyCluster(r, size(r))}
	if chance(r, 60) {
		tc.Config = Config(r)
	}
	return tc
}

// spread draws cases with spread constraints. The profile, if set, replaces the drawn
// one.
func spread(change func(p *v1.Pod), profile func(r *rand.Rand) oracle.Profile) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		tc := topology(r)
		for _, p := range tc.Pods {
			noTerms(p)
			change(p)
		}
		if profile != nil {
			tc.Config = configText(profileOf(r, v1.DefaultSchedulerName, profile(r)))
		}
		return tc
	}
}

func systemDefaults(r *rand.Rand) oracle.Profile {
	p := random.TopologyProfile(r)
	delete(p.Disabled, "PodTopologySpread")
	p.Spread.DefaultingType, p.Spread.DefaultConstraints = pick(r, "", configv1.SystemDefaulting), nil
	return p
}

func listedDefaults(r *rand.Rand) oracle.Profile {
	for {
		p := random.TopologyProfile(r)
		if len(p.Spread.DefaultConstraints) > 0 && !p.Disabled["PodTopologySpread"] {
			return p
		}
	}
}

// podTerms draws cases with terms about other pods, in pending and in running pods.
func podTerms(waiting, running func(p *v1.Pod)) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		tc := topology(r)
		for _, p := range tc.Pods {
			noConstraints(p)
			if isPending(p) {
				waiting(p)
			} else {
				running(p)
			}
		}
		return tc
	}
}

func mixed(r *rand.Rand) Case { return topology(r) }

// profiles draws cases with two profiles, and pods of both.
func profiles(r *rand.Rand) Case {
	tc := topology(r)
	var all []configv1.KubeSchedulerProfile
	for _, name := range []string{v1.DefaultSchedulerName, "other-scheduler"} {
		p := profileOf(r, name, random.TopologyProfile(r))
		rearrange(r, &p)
		all = append(all, p)
	}
	tc.Config = configText(all...)
	for _, p := range tc.Pods {
		if chance(r, 50) {
			p.Spec.SchedulerName = "other-scheduler"
		}
	}
	return tc
}

// ownNomination draws cases with one nominated pod, whose node may be gone or infeasible.
func ownNomination(r *rand.Rand) Case {
	tc := topology(r)
	at := slices.IndexFunc(tc.Pods, isPending)
	tc.Pods = tc.Pods[:at+1]
	p := tc.Pods[at]
	p.Status.NominatedNodeName = "nowhere"
	if len(tc.Nodes) > 0 && chance(r, 90) {
		p.Status.NominatedNodeName = pick(r, tc.Nodes...).Name
	}
	return tc
}

// nominated draws cases with nominated pods, and others of lower, equal and higher
// priority.
func nominated(r *rand.Rand) Case {
	tc := topology(r)
	for _, p := range tc.Pods {
		if !isPending(p) || len(tc.Nodes) == 0 || chance(r, 40) {
			continue
		}
		p.Status.NominatedNodeName = pick(r, tc.Nodes...).Name
		if chance(r, 50) { // several on one node
			p.Status.NominatedNodeName = tc.Nodes[0].Name
		}
	}
	return tc
}

func broken(r *rand.Rand) Case {
	tc := topology(r)
	for _, set := range tc.ReplicaSets {
		if chance(r, 50) { // invalid in the API server
			set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn}}}
		}
	}
	for i, p := range tc.Pods {
		switch {
		case !isPending(p):
		case chance(r, 40):
			tc.Pods[i] = random.WithBrokenPreference(p)
		case chance(r, 70):
			tc.Pods[i] = random.WithBrokenSelector(r, p)
		}
	}
	return tc
}
