package scene

import (
	"fmt"
	"math"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Namespaces of workloads. The two in affinity terms have the names of scheduler_perf.
const (
	before   = "sched-0"
	measured = "sched-1"
	parked   = "parked"
)

// defaultNode is the node of scheduler_perf.
var defaultNode = room{"4", "32Gi", "110"}

// perNode is the number of default pods that fit on a default node.
const perNode = 40

// row is one line of the catalogue.
type row struct {
	name  string // test case and workload, as in scheduler_perf
	floor int    // pods/s
	needs string
	// numbers of nodes, existing pods and measured pods, before scaling
	nodes, before, measured int
	build                   func(s *Scene, c counts)
}

// counts are the counts of a row, scaled.
type counts struct {
	nodes, before, measured int
	scale                   float64
}

func (c counts) of(n int) int { return scaled(n, c.scale) }

func scaled(n int, scale float64) int {
	if n == 0 {
		return 0
	}
	return max(1, int(math.Round(float64(n)*scale)))
}

// catalogue lists the workloads of scheduler_perf in the order of upstream's files, then
// our own.
func catalogue() []row {
	return []row{
		{"SchedulingBasic/5000Nodes_10000Pods", 680, "", 5000, 1000, 10000, basic},
		{"SchedulingBasic/5000Nodes_50000Pods", 790, "", 5000, 5000, 50000, basic},
		{"SchedulingDaemonset/15000Nodes", 1100, "", 15000, 0, 30000, daemonSet},
		{"SchedulingWithMixedChurn/5000Nodes_10000Pods", 710, "", 5000, 0, 10000, mixedChurn},
		{"SchedulingWhileGated/1Node_10000GatedPods", 910, "", 1, 10000, 20000, whileGated},
		{"SchedulingDeletedPodsWithFinalizers/5000Node_5000DeletingPods", 830, "", 5000, 5000, 5000, deletedWithFinalizers},
		{"SchedulingWithExtendedResource/5000pods_5000nodes_DRAExtendedResourceEnabled", 180, "", 5000, 0, 5000, eachItsOwn},
		{"SchedulingPodAntiAffinity/5000Nodes_2000Pods", 180, "", 5000, 1000, 2000, demanding("green", apartByHost, plainNode, 1)},
		{"SchedulingPodMatchingAntiAffinity/5000Nodes_5000Pods", 540, "", 5000, 1000, 5000, matchingAntiAffinity},
		{"SchedulingPodAffinity/5000Nodes_5000Pods", 70, "", 5000, 5000, 5000, demanding("blue", nearByZone, inZones(1), perNode)},
		{"SchedulingPreferredPodAffinity/5000Nodes_5000Pods", 160, "", 5000, 5000, 5000, demanding("red", ratherByHost, plainNode, perNode)},
		{"SchedulingPreferredPodAntiAffinity/5000Nodes_5000Pods", 190, "", 5000, 5000, 5000, demanding("yellow", ratherApartByHost, plainNode, 1)},
		{"SchedulingNodeAffinity/5000Nodes_10000Pods", 540, "", 5000, 5000, 10000, demanding("", nodeAffinity, inZones(1), 1)},
		{"MixedSchedulingBasePod/5000Nodes_5000Pods", 540, "", 5000, 10000, 5000, mixedBase},
		{"SchedulingRequiredPodAntiAffinityWithNSSelector/5000Nodes_2000Pods", 140, "", 6000, 4000, 2000, acrossNamespaces("green", apartByHost, plainNode, 1)},
		{"SchedulingPreferredAntiAffinityWithNSSelector/5000Nodes_2000Pods", 180, "", 5000, 4000, 2000, acrossNamespaces("green", ratherApartByHost, plainNode, 1)},
		{"SchedulingRequiredPodAffinityWithNSSelector/5000Nodes_2000Pods", 180, "", 5000, 5000, 2000, acrossNamespaces("blue", nearByZone, inZones(1), perNode)},
		{"SchedulingPreferredAffinityWithNSSelector/5000Nodes_5000Pods", 190, "", 5000, 5000, 5000, acrossNamespaces("red", ratherByHost, plainNode, perNode)},
		{"SchedulingGatedPodsWithPodAffinityImpactForThroughput/1Node_10000GatedPods", 750, "", 1, 10000, 20000, gatedWithAffinity},
		{"TopologySpreading/5000Nodes_5000Pods", 460, "", 5000, 5000, 5000, spreading(v1.DoNotSchedule)},
		{"PreferredTopologySpreading/5000Nodes_5000Pods", 340, "", 5000, 5000, 5000, spreading(v1.ScheduleAnyway)},
		{"DefaultTopologySpreading/5000Nodes_50000Pods", 160, "", 5000, 5000, 50000, defaultSpreading},
		{"SchedulingWithNodeInclusionPolicy/5000Nodes", 270, "", 5000, 0, 4000, inclusionPolicy},
		{"SchedulingSecrets/5000Nodes_10000Pods", 790, "", 5000, 1000, 10000, secrets},
		{"SchedulingInTreePVs/5000Nodes_2000Pods", 290, "", 5000, 1000, 2000, withVolumes(inTreeDisk, false)},
		{"SchedulingMigratedInTreePVs/5000Nodes_5000Pods", 100, "", 5000, 5000, 5000, withVolumes(inTreeDisk, true, ebsInTree)},
		{"SchedulingCSIPVs/5000Nodes_5000Pods", 100, "", 5000, 5000, 5000, withVolumes(csiDisk, true)},
		{"PreemptionAsync/5000Nodes_AsyncAPICallsEnabled", 570, "", 5000, 20000, 5000, preemptionAsync},
		{"Unschedulable/5kNodes/100Init/10kPods", 590, "", 5000, 100, 10000, unschedulable},
		{"Unschedulable/5kNodes/20kInit/10kPods", 600, "", 5000, 20000, 10000, unschedulable},
		{"NodeDeclaredFeaturesEnabled/5000Nodes20DeclaredFeatures", 890, "", 5000, 5000, 50000, declaredFeatures(20)},
		{"SchedulingWithResourceClaimTemplate/2000pods_200nodes", 0, "", 200, 0, 1000, fromTemplate(1, nil, half)},
		{"SchedulingWithResourceClaimTemplate/5000pods_500nodes", 56, "", 500, 0, 2500, fromTemplate(1, nil, half)},
		{"SchedulingWithResourceClaimTemplate/empty_500nodes", 64, "", 500, 0, 1000, fromTemplate(1, nil, steady)},
		{"SchedulingWithResourceClaimTemplate/half_500nodes", 60, "", 500, 0, 1000, fromTemplate(1, nil, steady, half)},
		{"SchedulingWithResourceClaimTemplate/full_500nodes", 60, "", 500, 0, 1000, fromTemplate(1, nil, steady, full)},
		{"SchedulingWithResourceClaimTemplate/selector_empty_500nodes", 64, "", 500, 0, 1000, fromTemplate(1, selectingGPUs, steady)},
		{"SchedulingWithResourceClaimTemplate/match_empty_500nodes", 64, "", 500, 0, 1000, fromTemplate(gpusPerNode/gpuRoots, onSameRoot, steady)},
		{"ExtendedResource/Explicit_25classes_5000pods_500nodes", 120, "", 500, 2500, 2500, requesting(25, true)},
		{"ExtendedResource/Explicit_50classes_5000pods_500nodes", 130, "", 500, 2500, 2500, requesting(50, true)},
		{"ExtendedResource/Implicit_25classes_5000pods_500nodes", 130, "", 500, 2500, 2500, requesting(25, false)},
		{"ParkedChurn/0Parked", 0, "", 5000, 0, 10000, parkedChurn},
		{"ParkedChurn/10000Parked", 0, "", 5000, 10000, 10000, parkedChurn},
		{"HopelessPreemptors/0Parked", 0, "", 5000, 0, 10000, hopelessPreemptors},
		{"HopelessPreemptors/3000Parked", 0, "", 5000, 3000, 10000, hopelessPreemptors},
		{"WaitingForRoom/10000Waiting", 0, "", 5000, 10000, 10000, waitingForRoom},
		{"PreemptionBurst/5000Preemptors", 0, "", 5000, 20000, 5000, preemptionBurst},
		{"ManyTenants/1000Namespaces", 0, "", 5000, 5000, 5000, manyTenants},
		{"ManyApps/2000Services", 0, "", 5000, 5000, 10000, manyApps},
		{"WaitForFirstConsumerLocal/5000Volumes", 0, "", 5000, 0, 5000, local},
		{"OutsidePlugin/5000Nodes_5000Pods", 0, "", 5000, 1000, 5000, outsidePlugin},
		{"Gangs/625GangsOf8", 0, "", 5000, 1000, 5000, gangs(8)},
		{"Gangs/10GangsOf512", 0, "", 5000, 1000, 5120, gangs(512)},
		{"Restart/100000Running", 0, "", 5000, 100000, 100, restart},
	}
}

// WorkloadNames returns the names of the workloads, in the catalogue's order.
func WorkloadNames() []string {
	var names []string
	for _, r := range catalogue() {
		names = append(names, r.name)
	}
	return names
}

// Workloads returns the workloads of a name: one by its full name, all of a test case, or
// none if the name is unknown. Counts of nodes and pods are multiplied by scale, which
// must be greater than 0.
func Workloads(name string, scale float64) []*Scene {
	var scenes []*Scene
	for _, r := range catalogue() {
		if r.name != name && !strings.HasPrefix(r.name, name+"/") {
			continue
		}
		s := &Scene{Name: r.name, Kind: Workload, Needs: r.needs}
		if scale == 1 {
			s.Floor = r.floor
		}
		c := counts{scaled(r.nodes, scale), scaled(r.before, scale), scaled(r.measured, scale), scale}
		s.Site = &Site{Nodes: c.nodes, Node: plainNode, Namespaces: namespaces(nil, before, measured, parked)}
		s.Measured = Pods{Namespace: measured, Count: c.measured, Pod: defaultPod}
		r.build(s, c)
		scenes = append(scenes, s)
	}
	return scenes
}

func plainNode(i int) *v1.Node { return node(numbered("node", i), defaultNode, nil) }

// inZones makes default nodes in the given number of zones, in turns.
func inZones(zones int) func(i int) *v1.Node {
	return func(i int) *v1.Node {
		return node(numbered("node", i), defaultNode, map[string]string{v1.LabelTopologyZone: fmt.Sprintf("zone%d", 1+i%zones)})
	}
}

// hugeNode returns a node for any number of pods without requests.
func hugeNode(int) *v1.Node { return node("scheduler-perf-node", room{"4", "32Gi", "90000"}, nil) }

func defaultPod(i int) *v1.Pod { return pod(numbered("pod", i), "100m", "500Mi", nil) }

func lightPod(i int) *v1.Pod { return pod(numbered("light-pod", i), "", "", nil) }

// evenly puts pods on nodes in turns, the given number on one node before the next.
func evenly(nodes, together int) func(i int) int {
	return func(i int) int { return i / together % nodes }
}

// standing returns pods that run already, the given number on each node, as the scheduler
// would have placed them. Their namespace differs from the measured pods'.
func standing(c counts, together int, of func(i int) *v1.Pod) Pods {
	return Pods{Namespace: before, Count: c.before, Pod: of, Node: evenly(c.nodes, together)}
}

func basic(s *Scene, c counts) {
	s.Standing = []Pods{standing(c, 1, defaultPod)}
}

func daemonSet(s *Scene, c counts) {
	s.Site.Nodes++
	s.Site.Node = func(i int) *v1.Node {
		if i == c.nodes {
			return hugeNode(i)
		}
		return plainNode(i)
	}
	s.Measured.Pod = func(i int) *v1.Pod {
		p := lightPod(i)
		affinityOf(p).NodeAffinity = &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"scheduler-perf-node"},
				}},
			}},
		}}
		return p
	}
}

func mixedChurn(s *Scene, _ counts) {
	s.Churn = []Churn{recreated(time.Second)}
}

func whileGated(s *Scene, c counts) {
	s.Site.Nodes, s.Site.Node = 1, hugeNode
	s.Standing = []Pods{{Namespace: parked, Count: c.before, Pod: gated(lightPod)}}
	leaving := Pods{Namespace: before, Count: c.of(20000), Pod: lightPod, Node: evenly(1, 1)}
	s.Fresh = []Pods{leaving}
	s.Measured.Pod = lightPod
	s.Churn = []Churn{deleted(leaving, 50)}
}

func gated(of func(i int) *v1.Pod) func(i int) *v1.Pod {
	return func(i int) *v1.Pod {
		p := of(i)
		p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/hold"}}
		return p
	}
}

// finalizer keeps deleted pods in place.
const finalizer = "example.com/keep"

func deletedWithFinalizers(s *Scene, c counts) {
	leaving := Pods{Namespace: parked, Count: c.before, Pod: func(i int) *v1.Pod {
		p := lightPod(i)
		p.Finalizers = []string{finalizer}
		return p
	}}
	s.Fresh = []Pods{leaving}
	s.Measured.Pod = lightPod
	s.Churn = []Churn{deleted(leaving, 100)}
}

// demand adds a demand with the term to a pod.
type demand func(p *v1.Pod, term v1.PodAffinityTerm)

func apartByHost(p *v1.Pod, term v1.PodAffinityTerm) {
	term.TopologyKey = v1.LabelHostname
	apart(p, term)
}

func nearByZone(p *v1.Pod, term v1.PodAffinityTerm) {
	term.TopologyKey = v1.LabelTopologyZone
	near(p, term)
}

func ratherByHost(p *v1.Pod, term v1.PodAffinityTerm) {
	term.TopologyKey = v1.LabelHostname
	rather(p, 1, term)
}

func ratherApartByHost(p *v1.Pod, term v1.PodAffinityTerm) {
	term.TopologyKey = v1.LabelHostname
	ratherApart(p, 1, term)
}

func nodeAffinity(p *v1.Pod, _ v1.PodAffinityTerm) {
	inOneOf(p, v1.LabelTopologyZone, "zone1", "zone2")
}

// coloured makes default pods with a color label, and an affinity term that selects pods
// of this color. Without a selector of namespaces, the term names the namespaces of the
// measured pods and of the pods before.
func coloured(colour string, ask demand, selector map[string]string) func(i int) *v1.Pod {
	return func(i int) *v1.Pod {
		p := defaultPod(i)
		if colour != "" {
			p.Name = numbered(colour, i)
			p.Labels = map[string]string{"color": colour}
		}
		term := v1.PodAffinityTerm{LabelSelector: selecting(p.Labels)}
		if selector != nil {
			term.NamespaceSelector = selecting(selector)
		} else {
			term.Namespaces = []string{measured, before}
		}
		ask(p, term)
		return p
	}
}

// demanding builds a workload whose existing and measured pods all have the same demand.
func demanding(colour string, ask demand, node func(i int) *v1.Node, together int) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		s.Site.Node = node
		s.Measured.Pod = coloured(colour, ask, nil)
		s.Standing = []Pods{standing(c, together, s.Measured.Pod)}
	}
}

func matchingAntiAffinity(s *Scene, c counts) {
	s.Standing = []Pods{standing(c, 1, coloured("green", apartByHost, nil))}
	s.Measured.Pod = coloured("green", func(*v1.Pod, v1.PodAffinityTerm) {}, nil)
}

func mixedBase(s *Scene, c counts) {
	s.Site.Node = inZones(1)
	each := c
	each.before = max(1, c.before/5)
	s.Standing = []Pods{
		standing(each, 1, defaultPod),
		standing(each, 1, coloured("blue", nearByZone, nil)),
		standing(each, 1, coloured("green", apartByHost, nil)),
		standing(each, 1, coloured("red", ratherByHost, nil)),
		standing(each, 1, coloured("yellow", ratherApartByHost, nil)),
	}
}

// acrossNamespaces builds a workload whose existing pods are in many namespaces, which
// the terms select by a label.
func acrossNamespaces(colour string, ask demand, node func(i int) *v1.Node, together int) func(s *Scene, c counts) {
	team := map[string]string{"team": "devops"}
	return func(s *Scene, c counts) {
		s.Site.Node = node
		s.Measured.Pod = coloured(colour, ask, team)
		s.Site.Namespaces = namespaces(team, measured)
		spaces := c.of(100)
		each := max(1, c.before/spaces)
		for k := range spaces {
			space := numbered("init-ns", k)
			s.Site.Namespaces = append(s.Site.Namespaces, namespaces(team, space)...)
			place := evenly(c.nodes, together)
			s.Standing = append(s.Standing, Pods{
				Namespace: space, Count: each, Pod: s.Measured.Pod,
				Node: func(i int) int { return place(k*each + i) },
			})
		}
		s.Site.Namespaces = append(s.Site.Namespaces, namespaces(nil, before, parked)...)
	}
}

func gatedWithAffinity(s *Scene, c counts) {
	s.Site.Nodes, s.Site.Node = 1, hugeNode
	s.Measured.Pod = func(i int) *v1.Pod {
		return pod(numbered("pod", i), "", "", map[string]string{"app": "scheduler-perf"})
	}
	// Gated pods are in the namespace of the measured pods, because an affinity term
	// without namespaces selects its own.
	s.Standing = []Pods{{Namespace: measured, Count: c.before, Pod: gated(func(i int) *v1.Pod {
		p := s.Measured.Pod(i)
		p.Name = numbered("gated", i)
		near(p, v1.PodAffinityTerm{LabelSelector: selecting(p.Labels), TopologyKey: v1.LabelHostname})
		return p
	})}}
}

func spreading(otherwise v1.UnsatisfiableConstraintAction) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		s.Site.Node = inZones(3)
		s.Standing = []Pods{standing(c, 1, defaultPod)}
		s.Measured.Pod = func(i int) *v1.Pod {
			p := defaultPod(i)
			p.Labels = map[string]string{"color": "blue"}
			spread(p, 5, v1.LabelTopologyZone, otherwise)
			return p
		}
	}
}

func defaultSpreading(s *Scene, c counts) {
	s.Site.Node = inZones(3)
	labels := map[string]string{"app": "scheduler-perf"}
	s.Site.Services = []*v1.Service{service(measured, "service", labels)}
	s.Standing = []Pods{standing(c, 1, defaultPod)}
	s.Measured.Pod = func(i int) *v1.Pod { return pod(numbered("pod", i), "", "", labels) }
}

func inclusionPolicy(s *Scene, _ counts) {
	// Every fifth node is tainted.
	s.Site.Node = func(i int) *v1.Node {
		n := plainNode(i)
		if i%5 == 0 {
			n.Spec.Taints = []v1.Taint{{Key: "foo", Effect: v1.TaintEffectNoSchedule}}
		}
		return n
	}
	honor := v1.NodeInclusionPolicyHonor
	s.Measured.Pod = func(i int) *v1.Pod {
		p := defaultPod(i)
		p.Labels = map[string]string{"foo": "bar"}
		spread(p, 1, v1.LabelHostname, v1.DoNotSchedule)
		constraint := &p.Spec.TopologySpreadConstraints[0]
		constraint.NodeAffinityPolicy, constraint.NodeTaintsPolicy = &honor, &honor
		return p
	}
}

func secrets(s *Scene, c counts) {
	s.Measured.Pod = func(i int) *v1.Pod {
		p := defaultPod(i)
		p.Spec.Volumes = []v1.Volume{{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "secret"}}}}
		return p
	}
	s.Standing = []Pods{standing(c, 1, s.Measured.Pod)}
}

func declaredFeatures(features int) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		var names []string
		for i := range features {
			names = append(names, fmt.Sprintf("Feature%03d", i))
		}
		s.Site.Node = func(i int) *v1.Node {
			n := node(numbered("node", i), room{"128", "16Gi", "110"}, nil)
			n.Status.DeclaredFeatures = names
			return n
		}
		s.Measured.Pod = func(i int) *v1.Pod {
			p := pod(numbered("pod", i), "", "", nil)
			p.Spec.Resources = &v1.ResourceRequirements{Requests: room{"100m", "200Mi", "0"}.list()}
			delete(p.Spec.Resources.Requests, v1.ResourcePods)
			return p
		}
		s.Standing = []Pods{standing(c, 1, s.Measured.Pod)}
	}
}

// parkedChurn has pods that no event can help, and updates of nodes that help none of
// them. One half requests more CPUs than any node has, the other selects a label that no
// node has. The CPUs and labels of nodes change all the time.
func parkedChurn(s *Scene, c counts) {
	s.Standing = []Pods{{Namespace: parked, Count: c.before, Pod: func(i int) *v1.Pod {
		if i%2 == 0 {
			return pod(numbered(tooLargePrefix, i), "9", "500Mi", nil)
		}
		p := defaultPod(i)
		p.Spec.NodeSelector = map[string]string{"example.com/no-such": "label"}
		return p
	}}}
	s.Churn = []Churn{updated(100, s.Site)}
}

// hopelessPreemptors has pods of high priority that fit nowhere and cannot preempt. Each
// needs a whole node, and each node has a pod that they do not outrank. Pods that they
// outrank are on every node, too, and end all the time. Each end may help any preemptor.
func hopelessPreemptors(s *Scene, c counts) {
	whole := func(prefix, cpu string) func(i int) *v1.Pod {
		return func(i int) *v1.Pod {
			p := pod(numbered(prefix, i), cpu, "500Mi", nil)
			p.Spec.PriorityClassName = HighPriority
			return p
		}
	}
	s.Standing = []Pods{{Namespace: parked, Count: c.before, Pod: whole("hopeless", defaultNode.cpu)}}
	ending := Pods{Namespace: before, Count: 2 * c.nodes, Node: evenly(c.nodes, 1), Pod: func(i int) *v1.Pod {
		return pod(numbered("ending", i), "100m", "500Mi", nil)
	}}
	s.Fresh = []Pods{{Namespace: before, Count: c.nodes, Node: evenly(c.nodes, 1), Pod: whole("staying", "100m")}, ending}
	s.Churn = []Churn{deleted(ending, 100)}
}

// waitingForRoom has full nodes with pods that end all the time. Each end makes room for
// one waiting pod, and may help any of them.
func waitingForRoom(s *Scene, c counts) {
	half := func(prefix string) func(i int) *v1.Pod {
		return func(i int) *v1.Pod { return pod(numbered(prefix, i), "2", "500Mi", nil) }
	}
	ending := Pods{Namespace: before, Count: 2 * c.nodes, Pod: half("ending"), Node: evenly(c.nodes, 1)}
	s.Fresh = []Pods{ending}
	s.Measured.Pod, s.Measured.Count = half("pod"), ending.Count
	s.Churn = []Churn{deleted(ending, 100)}
}

// outsidePlugin measures plain pods, all pending at the start, with an external plugin
// that accepts every node and scores it by its number of pods.
func outsidePlugin(s *Scene, c counts) {
	basic(s, c)
	s.Kind, s.Plugin = Shape, "Trivial"
}

// smallApp is the number of running pods of a small app, and of its added pods.
const smallApp = 5

// manyTenants has a small app in each of many namespaces. All apps have the same labels
// and the same demands, which concern their own pods only.
func manyTenants(s *Scene, c counts) {
	s.Site.Node = inZones(3)
	tenants := max(1, c.measured/smallApp)
	tenant := func(i int) string { return numbered("tenant", i/smallApp%tenants) }
	for k := range tenants {
		s.Site.Namespaces = append(s.Site.Namespaces, namespaces(nil, tenant(k*smallApp))...)
	}
	web := func(prefix string) func(i int) *v1.Pod {
		return func(i int) *v1.Pod {
			p := pod(numbered(prefix, i), "100m", "500Mi", map[string]string{"app": "web"})
			apartByHost(p, v1.PodAffinityTerm{LabelSelector: selecting(p.Labels)})
			spread(p, 1, v1.LabelTopologyZone, v1.DoNotSchedule)
			spread(p, 1, v1.LabelHostname, v1.ScheduleAnyway)
			return p
		}
	}
	running := standing(c, 1, web("running"))
	running.Count, running.In = tenants*smallApp, tenant
	s.Standing = []Pods{running}
	s.Measured.Pod, s.Measured.Count, s.Measured.In = web("pod"), tenants*smallApp, tenant
}

// manyApps has many small apps with a Service each, whose pods are spread by default.
func manyApps(s *Scene, c counts) {
	s.Site.Node = inZones(3)
	s.Standing = []Pods{standing(c, 1, defaultPod)}
	labels := func(i int) map[string]string { return newApp(i / smallApp).labels }
	for i := 0; i < c.measured; i += smallApp {
		s.Site.Services = append(s.Site.Services, service(measured, labels(i)["app"], labels(i)))
	}
	s.Measured.Pod = func(i int) *v1.Pod { return pod(numbered("pod", i), "100m", "500Mi", labels(i)) }
}

// restart measures the time until a scheduler's first binding in a large cluster.
func restart(s *Scene, c counts) {
	s.Kind = Restart
	s.Standing = []Pods{standing(c, 1, defaultPod)}
}
