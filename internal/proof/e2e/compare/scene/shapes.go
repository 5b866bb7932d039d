package scene

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Sizes are the sizes of the scenes that Shapes returns.
type Sizes struct {
	Nodes int
	// Running are the numbers of running pods, one scene for each.
	Running []int
	// Pods is the number of pods to place.
	Pods int
}

// bench is the namespace of these scenes.
const bench = "bench"

const (
	zones = 3
	pools = 10
	// poolLabel names the pool of a node.
	poolLabel = "example.com/pool"
	// appPods is the number of running pods of an app, as replicas of one Deployment.
	// Clusters with fewer than five times as many nodes have fewer, so that an app with
	// required anti-affinity fits.
	appPods     = 1000
	appPodsPart = 5
)

func zoneName(i int) string { return fmt.Sprintf("zone-%d", i%zones) }

// app is a set of pods that share labels and demands, like a Deployment's.
type app struct {
	number int
	labels map[string]string
}

func (a app) term(key string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{LabelSelector: selecting(a.labels), TopologyKey: key}
}

// shape is a kind of pods: a demand that is added to the pods of an app.
type shape struct {
	name  string
	apply func(pod *v1.Pod, a app)
	// zones returns the indexes of the zones in which running pods of the app may be; nil
	// for all.
	zones func(a app) []int
	// services means that each app has a Service.
	services bool
}

func oneZone(a app) []int { return []int{a.number % zones} }

// single has the kinds of pods with a single demand.
var single = []shape{
	{name: "plain", apply: func(*v1.Pod, app) {}},
	{
		name:  "node-affinity",
		zones: func(a app) []int { return []int{a.number % zones, (a.number + 1) % zones} },
		apply: func(pod *v1.Pod, a app) {
			inOneOf(pod, v1.LabelTopologyZone, zoneName(a.number), zoneName(a.number+1))
			pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []v1.PreferredSchedulingTerm{{
				Weight: 10,
				Preference: v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{
					Key: poolLabel, Operator: v1.NodeSelectorOpIn, Values: []string{poolName(a.number)},
				}}},
			}}
		},
	},
	{name: "spread", apply: func(pod *v1.Pod, _ app) {
		spread(pod, 1, v1.LabelTopologyZone, v1.DoNotSchedule)
		spread(pod, 1, v1.LabelHostname, v1.ScheduleAnyway)
	}},
	{name: "default-spread", services: true, apply: func(*v1.Pod, app) {}},
	{name: "affinity", zones: oneZone, apply: func(pod *v1.Pod, a app) { near(pod, a.term(v1.LabelTopologyZone)) }},
	{name: "preferred-affinity", zones: oneZone, apply: func(pod *v1.Pod, a app) { rather(pod, 10, a.term(v1.LabelTopologyZone)) }},
	{name: "anti-affinity", apply: func(pod *v1.Pod, a app) { apart(pod, a.term(v1.LabelHostname)) }},
}

func poolName(i int) string { return fmt.Sprintf("pool-%d", i%pools) }

// shapes returns all kinds of pods in display order.
func shapes() []shape {
	sizes := []string{"100m", "250m", "50m", "500m"}
	of := func(a app) shape { return single[a.number%len(single)] }
	mixed := shape{
		name: "mixed", services: true,
		apply: func(pod *v1.Pod, a app) {
			pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(sizes[a.number%len(sizes)])
			of(a).apply(pod, a)
		},
		zones: func(a app) []int {
			if zones := of(a).zones; zones != nil {
				return zones(a)
			}
			return nil
		},
	}
	return append(slices.Clone(single), mixed)
}

// ShapeNames returns the names of all kinds of pods.
func ShapeNames() []string {
	var names []string
	for _, s := range shapes() {
		names = append(names, s.name)
	}
	return names
}

// Shapes returns the scenes of a kind of pods, one for each number of running pods,
// ascending. The name must be one of ShapeNames.
func Shapes(name string, sizes Sizes) []*Scene {
	all := shapes()
	s := all[slices.IndexFunc(all, func(s shape) bool { return s.name == name })]
	perApp := max(1, min(appPods, sizes.Nodes/appPodsPart))
	site := &Site{Namespaces: namespaces(nil, bench), Nodes: sizes.Nodes, Node: uniform}
	running := slices.Sorted(slices.Values(sizes.Running))
	apps := func(running int) int { return max(1, parts(running, perApp), parts(sizes.Pods, perApp)) }
	if s.services {
		for i := range apps(running[len(running)-1]) {
			site.Services = append(site.Services, service(bench, numbered("app", i), newApp(i).labels))
		}
	}
	var scenes []*Scene
	for _, n := range running {
		scene := &Scene{Name: name, Kind: Shape, Site: site, Measured: Pods{Namespace: bench, Count: sizes.Pods, Pod: func(i int) *v1.Pod {
			// Pods of an app follow one another, as when a Deployment grows.
			return s.pod("pending", i, newApp(i*apps(n)/sizes.Pods))
		}}}
		if n > 0 {
			scene.Standing = []Pods{{
				Namespace: bench, Count: n,
				Pod:  func(i int) *v1.Pod { return s.pod("running", i, newApp(i/perApp)) },
				Node: func(i int) int { return s.place(i, newApp(i/perApp), sizes.Nodes) },
			}}
		}
		scenes = append(scenes, scene)
	}
	return scenes
}

// parts returns the number of parts of a size that n needs.
func parts(n, size int) int { return (n + size - 1) / size }

func newApp(i int) app {
	return app{i, map[string]string{"app": numbered("app", i)}}
}

// uniform returns a node of these scenes' site.
func uniform(i int) *v1.Node {
	return node(numbered("node", i), room{"32", "128Gi", "110"}, map[string]string{v1.LabelTopologyZone: zoneName(i), poolLabel: poolName(i)})
}

func (s shape) pod(prefix string, i int, a app) *v1.Pod {
	p := pod(numbered(prefix, i), "100m", "500Mi", a.labels)
	s.apply(p, a)
	return p
}

// place returns the node of the i-th running pod, evenly over the nodes that are allowed
// for it.
func (s shape) place(i int, a app, nodes int) int {
	if s.zones == nil || nodes < zones {
		return i % nodes
	}
	allowed := s.zones(a)
	if allowed == nil {
		return i % nodes
	}
	zone := allowed[i%len(allowed)]
	return zone + zones*(i/len(allowed)%(nodes/zones))
}
