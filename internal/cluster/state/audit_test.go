package state

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/kit/steady"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// auditedState has some of everything that Audit checks: two nodes in two zones, one
// without the label, a ghost and a free slot; pods with a term, a port and an image, one
// of them assumed with a hold; a nominated pod; and a tally.
func auditedState(t *testing.T) (s *State, tally *Tally) {
	t.Helper()
	s = New()
	term := v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: "zone"}
	pod := func(name, node string) *model.Pod {
		p := podOn(name, name, node, 1).Pod.Object
		p.Labels = map[string]string{"app": "web"}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
		return model.NewPod(p)
	}
	labelled := func(name, zone string) model.Change {
		n := node(name).Node.Object.DeepCopy()
		n.Labels = map[string]string{"zone": zone}
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
	}
	parsed, err := model.NewTerm("ns", &term)
	if err != nil {
		t.Fatal(err)
	}
	s.Apply([]model.Change{labelled("a", "1"), labelled("b", "2"), node("c"), node("d"), node("e")})
	tally = s.Tally(PodSet{Text: "web", Terms: []*model.Term{parsed}}, TopologyKey{Label: "zone"}, NodeSet{})
	s.View().KeepLeast(tally)
	set := func(p *model.Pod) model.Change { return model.Change{Kind: model.PodSet, Pod: p} }
	nominated := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nominated", UID: types.UID("nominated")}}
	nominated.Status.NominatedNodeName = "a"
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "service"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	replicas := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{}}}
	s.Apply([]model.Change{
		set(pod("p", "a")), set(pod("q", "b")), set(pod("ghostly", "d")), set(model.NewPod(nominated)), nodeGone("d"), nodeGone("e"),
		{Kind: model.ObjectSet, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: "service"}, Object: service},
		{Kind: model.ObjectSet, Ref: model.Ref{Kind: model.ReplicaSetKind, Namespace: "ns", Name: "web"}, Object: replicas},
	})
	s.Assume(plan.Placement{
		Pod: pod("assumed", ""), NodeName: "a",
		Holds: []plan.Hold{{Plugin: "Volumes", Object: model.Ref{Name: "volume"}}},
	})
	for _, name := range []string{"x", "y"} {
		setBudget(s, budgetOf("ns", name, "app=web", 0))
	}
	s.Evict(plan.Eviction{Pod: s.placed[model.PodKey{Namespace: "ns", Name: "p"}].pod, NodeName: "a"})
	audited(t, s)
	return s, tally
}

// TestAuditFindsEachViolation corrupts a state in one way after the other. The sentence
// names the violated invariant.
func TestAuditFindsEachViolation(t *testing.T) {
	a, assumedKey := int32(0), model.PodKey{Namespace: "ns", Name: "assumed"}
	boundKey, nominatedKey := model.PodKey{Namespace: "ns", Name: "p"}, model.PodKey{Namespace: "ns", Name: "nominated"}
	latest := func(change func(*model.Pod)) func(*State, *Tally) {
		return func(s *State, _ *Tally) {
			p := *s.placed[assumedKey].latest
			change(&p)
			s.placed[assumedKey].latest = &p
		}
	}
	term := func(s *State) *TermCounts { return s.placed[assumedKey].terms[0] }
	like := func(s *State) *labelSet { return s.placed[assumedKey].like }
	zones := func(s *State) *topology { return s.topologies[TopologyKey{Label: "zone"}] }
	counts := func(s *State) *podCounts { return s.tallies.bySet["web"] }
	services := func(s *State) *services { return &s.selectorSources.services }
	serving := func(s *State) *serviceSelector {
		return services(s).byName[model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: "service"}]
	}
	for _, row := range []struct {
		want    string
		corrupt func(s *State, t *Tally)
	}{
		{"the amounts of slot 0 are {CPUMilli:1 ", func(s *State, _ *Tally) { s.NodeAmounts()[0].CPUMilli = 1 }},
		{"pods has 4 slots, want 5", func(s *State, _ *Tally) { s.pods = s.pods[:4] }},
		{"node has 2 slots, want 5", func(s *State, _ *Tally) { s.node = s.node[:2] }},
		{"name has 4 slots, want 5", func(s *State, _ *Tally) { s.name = s.name[:4] }},
		{"nameHash has 4 slots, want 5", func(s *State, _ *Tally) { s.nameHash = s.nameHash[:4] }},
		{"used has 4 slots, want 5", func(s *State, _ *Tally) { s.used = s.used[:4] }},
		{"nonZero has 4 slots, want 5", func(s *State, _ *Tally) { s.nonZero = s.nonZero[:4] }},
		{"ports has 4 slots, want 5", func(s *State, _ *Tally) { s.ports = s.ports[:4] }},
		{"membership  zone has 6 slots, want 5", func(_ *State, t *Tally) { t.nodes.in = append(t.nodes.in, noDomain) }},
		{"topology zone has 6 slots", func(s *State, _ *Tally) { zones(s).of = append(zones(s).of, noDomain) }},
		{"node z is on slot 99 of 5", func(s *State, _ *Tally) { s.slotOf["z"] = 99 }},
		{"node z is on slot 5 of 5", func(s *State, _ *Tally) { s.slotOf["z"] = 5 }},
		{"a free node is on slot 7 of 5", func(s *State, _ *Tally) { s.free = append(s.free, 7) }},
		{"pod ns/assumed is on slot -1 of 5", func(s *State, _ *Tally) { s.placed[assumedKey].slot = -1 }},
		{"slot 0 is alive and has no node", func(s *State, _ *Tally) { s.node[a] = nil }},
		{"slot 4 is free twice", func(s *State, _ *Tally) { s.free = append(s.free, s.free[0]) }},
		{"free slot 0 is below 4 in the heap", func(s *State, _ *Tally) { s.free = append(s.free, a) }},
		{"free slot 2 is below 3 in the heap", func(s *State, _ *Tally) { s.free = lowestFirst{0, 3, 1, 2} }},
		{"slot 4 is free: false", func(s *State, _ *Tally) { s.free = nil }},
		{"slot 0 is free: true", func(s *State, _ *Tally) { s.free = append(s.free, a) }},
		{"slot 4 of node e, alive: false, has the node", func(s *State, _ *Tally) { s.node[4] = s.node[0] }},
		{"slot 0 of node other", func(s *State, _ *Tally) { s.name[a] = "other" }},
		{"which slotOf has on slot 1", func(s *State, _ *Tally) { s.slotOf["a"] = 1 }},
		{"slotOf has 5 names, 4 slots are in use", func(s *State, _ *Tally) { s.slotOf["e"] = 4 }},
		{"slot 0 has a hash", func(s *State, _ *Tally) { s.nameHash[a]++ }},
		{"nodes is 4, 3 slots are alive", func(s *State, _ *Tally) { s.nodes++ }},
		{"pod ns/assumed is at position 1 of slot 0; it says position 0", func(s *State, _ *Tally) { s.placed[assumedKey].index = 0 }},
		{"it says position 1 of slot 1", func(s *State, _ *Tally) { s.placed[assumedKey].slot = 1 }},
		{"placed has it: false", func(s *State, _ *Tally) { delete(s.placed, assumedKey) }},
		{"placed has 5 pods, 4 are on slots", func(s *State, _ *Tally) { s.placed[model.PodKey{}] = &placed{pod: &model.Pod{}} }},
		{`of node "b" is on slot 0`, func(s *State, _ *Tally) { s.placed[assumedKey].pod.NodeName = "b" }},
		{"assumed is 0, 1 pods are in that phase", func(s *State, _ *Tally) { s.assumed = 0 }},
		{"ns/nobody caused, which is not assumed", func(s *State, _ *Tally) {
			s.assumption = append(s.assumption, assumedEvent{pod: model.PodKey{Namespace: "ns", Name: "nobody"}})
		}},
		{"ns/p caused, which is not assumed", func(s *State, _ *Tally) { s.assumption = append(s.assumption, assumedEvent{pod: boundKey}) }},
		{"has a version to try again: false", func(s *State, _ *Tally) { s.placed[assumedKey].latest = nil }},
		{"shown on its node: true", func(s *State, _ *Tally) { s.placed[assumedKey].shown = true }},
		{"to try again is of pod", func(s *State, _ *Tally) { s.placed[assumedKey].latest = &model.Pod{} }},
		{"to try again is of pod ns/other, UID assumed", latest(func(p *model.Pod) { p.Name = "other" })},
		{"to try again is of pod ns/assumed, UID other", latest(func(p *model.Pod) { p.UID = "other" })},
		{`to try again is of pod ns/assumed, UID assumed, on node "a"`, latest(func(p *model.Pod) { p.NodeName = "a" })},
		{"used of slot 0 (a)", func(s *State, _ *Tally) { s.used[a].CPUMilli++ }},
		{"used of slot 4", func(s *State, _ *Tally) { s.used[4].MemoryBytes++ }},
		{"used of slot 0 (a) lists 0 gpu, which no pod has", func(s *State, _ *Tally) {
			s.used[a].Scalars = []model.Scalar{{Name: unique.Make("gpu")}}
		}},
		{"used of slot 0 (a) is", func(s *State, _ *Tally) { s.used[a].Scalars = []model.Scalar{{Name: unique.Make("gpu"), Value: 1}} }},
		{"bands has 4 slots, want 5", func(s *State, _ *Tally) { s.bands = s.bands[:4] }},
		{"banded has 4 slots, want 5", func(s *State, _ *Tally) { s.banded = s.banded[:4] }},
		{"slot 0 (a) has no band of priority 0", func(s *State, _ *Tally) { s.bands[a] = nil }},
		{"slot 0 (a) has a band of priority 7", func(s *State, _ *Tally) { s.bands[a] = append(s.bands[a], Band{Priority: 7}) }},
		{"behind that of 0", func(s *State, _ *Tally) { s.bands[a] = append(s.bands[a], s.bands[a]...) }},
		{"has 3 pods, 2 unstarted", func(s *State, _ *Tally) { s.bands[a][0].Pods++ }},
		{"has 2 pods, 1 unstarted", func(s *State, _ *Tally) { s.bands[a][0].Unstarted-- }},
		{"CPUMilli:2001", func(s *State, _ *Tally) { s.bands[a][0].Used.CPUMilli++ }},
		{"the band of priority 0 on slot 0 (a) lists 0 gpu", func(s *State, _ *Tally) {
			s.bands[a][0].Used.Scalars = []model.Scalar{{Name: unique.Make("gpu")}}
		}},
		{"which no pod of priority 0 on slot 0 (a) exceeds", func(s *State, _ *Tally) { s.bands[a][0].Most.CPUMilli = 999 }},
		{"which no pod of priority 0 on slot 0 (a) exceeds", func(s *State, _ *Tally) { s.bands[a][0].Most.MemoryBytes = -1 }},
		{"which no pod of priority 0 on slot 0 (a) exceeds", func(s *State, _ *Tally) { s.bands[a][0].Most.EphemeralBytes = -1 }},
		{"did at [5], not at or before [4 ", func(s *State, _ *Tally) {
			s.placed[assumedKey].pod.Object.Status.StartTime = &metav1.Time{Time: time.Unix(5, 0)}
			s.bands[a][0].Unstarted, s.bands[a][0].latest[0] = 1, 4
		}},
		{"did at [5], not at or before [4 6", func(s *State, _ *Tally) {
			s.placed[assumedKey].pod.Object.Status.StartTime = &metav1.Time{Time: time.Unix(5, 0)}
			s.bands[a][0].Unstarted, s.bands[a][0].latest[0], s.bands[a][0].latest[1] = 1, 4, 6
		}},
		{"did at [5 4], not at or before [5 6", func(s *State, _ *Tally) {
			s.placed[assumedKey].pod.Object.Status.StartTime = &metav1.Time{Time: time.Unix(5, 0)}
			s.placed[boundKey].pod.Object.Status.StartTime = &metav1.Time{Time: time.Unix(4, 0)}
			s.bands[a][0].Unstarted, s.bands[a][0].latest[0], s.bands[a][0].latest[1] = 0, 5, 6
		}},
		{"slot 0 (a) has pods, and bands that never changed", func(s *State, _ *Tally) { s.banded[a] = 0 }},
		{"slot 1 (b) has pods, and bands that never changed", func(s *State, _ *Tally) { s.banded[1] = 0 }},
		{"changed at the same time as those of a", func(s *State, _ *Tally) { s.banded[1] = s.banded[a] }},
		{"the bands of slot 0 (a) changed at 999 of", func(s *State, _ *Tally) { s.banded[a] = 999 }},
		{"priority 0 is that of 5 pods, recounted 4", func(s *State, _ *Tally) { s.byPriority[0]++ }},
		{"priority 3 is that of 0 pods, recounted 0", func(s *State, _ *Tally) { s.byPriority[3] = 0 }},
		{"pod ns/nobody, UID u, is to be evicted", func(s *State, _ *Tally) { s.evicted["u"] = leaving{model.PodKey{Namespace: "ns", Name: "nobody"}, 1} }},
		{"pod ns/p, UID other, is to be evicted", func(s *State, _ *Tally) { s.evicted["other"] = s.evicted["p"] }},
		{"pod ns/p, UID p, is to be evicted", func(s *State, _ *Tally) { s.placed[s.evicted["p"].key].pod.Terminating = true }},
		{`namespace "other" has no budgets`, func(s *State, _ *Tally) { s.budgets.byNamespace["other"] = nil }},
		{`budget x of namespace "ns" is listed under "other"`, func(s *State, _ *Tally) {
			s.budgets.byNamespace["other"] = s.budgets.byNamespace["ns"]
		}},
		{`budget x of namespace "ns" selects app=web, and is filed for app=db`, func(s *State, _ *Tally) {
			s.budgets.byNamespace["ns"][0].term.Selector = labels.SelectorFromSet(labels.Set{"app": "db"})
		}},
		{"budget ns/x is listed 0 times under {ns {app web}}", func(s *State, _ *Tally) { empty(&s.budgets.index.index.under) }},
		{"budget ns/x is listed 1 times under {ns {app web}}, want once at position 1", func(s *State, _ *Tally) {
			s.budgets.byNamespace["ns"][0].filed.at[0] = 1
		}},
		{`budget x of namespace "ns" is behind x`, func(s *State, _ *Tally) { s.budgets.byNamespace["ns"][1] = s.budgets.byNamespace["ns"][0] }},
		{`budget x of namespace "ns" is behind y`, func(s *State, _ *Tally) { slices.Reverse(s.budgets.byNamespace["ns"]) }},
		{"nonZero of slot 0 (a)", func(s *State, _ *Tally) { s.nonZero[a].MemoryBytes++ }},
		{"of slot 0 (a) counts 3 pods, recounted 2", func(s *State, _ *Tally) { s.ports[a].pods[0]++ }},
		{"of slot 0 (a) is not counted", func(s *State, _ *Tally) { s.ports[a] = portCounts{} }},
		{"of slot 0 (a) counts 0 pods, recounted 0", func(s *State, _ *Tally) {
			s.ports[a].ports, s.ports[a].pods = append(s.ports[a].ports, model.HostPort{}), append(s.ports[a].pods, 0)
		}},
		{"image img is on 4 nodes, recounted 3", func(s *State, _ *Tally) { s.images["img"].nodes++ }},
		{"image img is on 0 nodes, recounted 3", func(s *State, _ *Tally) { clear(s.images) }},
		{"image gone is on 0 nodes", func(s *State, _ *Tally) { s.images["gone"] = &image{} }},
		{"no pods are nominated to node b", func(s *State, _ *Tally) { s.nominations.byNode["b"] = nil }},
		{`listed under "b"`, func(s *State, _ *Tally) { s.nominations.byNode["b"] = s.nominations.byNode["a"] }},
		{"listed once: false", func(s *State, _ *Tally) {
			s.nominations.byNode["a"] = append(s.nominations.byNode["a"], s.nominations.byNode["a"]...)
		}},
		{"byPod has 1 nominated pods, byNode 0", func(s *State, _ *Tally) { clear(s.nominations.byNode) }},
		{"byPod has it: false; listed once: true", func(s *State, _ *Tally) { s.nominations.byPod[nominatedKey] = nominatedPod("nominated", "a", 0) }},
		{"and [] are listed", func(s *State, _ *Tally) {
			s.nominatedSlots()
			s.nominations.slots = nil
		}},
		{`is nominated to node "a" as /; it is on a node: false`, func(s *State, _ *Tally) { s.nominations.byPod[model.PodKey{}] = s.nominations.byPod[nominatedKey] }},
		{`is nominated to node "" as ns/nominated`, func(s *State, _ *Tally) { s.nominations.byPod[nominatedKey].NominatedNode = "" }},
		{"it is on a node: true", func(s *State, _ *Tally) { s.nominations.byPod[assumedKey] = s.placed[assumedKey].pod }},
		{"is held 0 times, recounted 1", func(s *State, _ *Tally) { clear(s.held) }},
		{"is held 1 times, recounted 0", func(s *State, _ *Tally) { s.placed[assumedKey].extras = nil }},
		{"nobody holds anything of", func(s *State, _ *Tally) { s.held[model.Ref{Name: "other"}] = nil }},
		{"has a selector of namespace ns", func(s *State, _ *Tally) { services(s).byName[model.Ref{Namespace: "other"}] = serving(s) }},
		{"of 2 services is listed as", func(s *State, _ *Tally) { serving(s).services++ }},
		{"of 1 services is listed as {namespace:ns text:none}", func(s *State, _ *Tally) { services(s).bySet[serviceSet{"ns", "none"}] = serving(s) }},
		{"of 0 services is listed as {namespace:ns text:none}", func(s *State, _ *Tally) {
			services(s).bySet[serviceSet{"ns", "none"}] = &serviceSelector{serviceSet: serviceSet{"ns", "none"}}
		}},
		{"2 selectors of services are listed by label and 1 by text", func(s *State, _ *Tally) {
			services(s).byLabel[serviceLabel{}] = &labelled{selectors: []*serviceSelector{serving(s)}}
		}},
		{"1 selectors of services are listed by label and 0 by text", func(s *State, _ *Tally) { clear(services(s).bySet) }},
		{"0 selectors of services are listed under", func(s *State, _ *Tally) { services(s).byLabel[serviceLabel{}] = &labelled{} }},
		{"in version 9 of 2", func(s *State, _ *Tally) { services(s).byLabel[serving(s).under].version = 9 }},
		{"is not at position 3 under", func(s *State, _ *Tally) { serving(s).at = 3 }},
		{"is not at position 1 under", func(s *State, _ *Tally) { serving(s).at = 1 }},
		{"is not at position 0 under", func(s *State, _ *Tally) { services(s).byLabel[serving(s).under].selectors[0] = &serviceSelector{} }},
		{"of namespace ns is listed under {namespace:x", func(s *State, _ *Tally) { serving(s).under.namespace = "x" }},
		{"of namespace ns is listed under {namespace:ns Label:{Key:app Value:db", func(s *State, _ *Tally) { serving(s).under.Value = "db" }},
		{`of namespace ns is listed under {namespace:ns Label:{Key:other`, func(s *State, _ *Tally) { serving(s).under.Key = "other" }},
		{"is not listed under its text other", func(s *State, _ *Tally) { serving(s).text = "other" }},
		{"selector app=web is not listed under its text", func(s *State, _ *Tally) { clear(services(s).bySet) }},
		{"selector app=web,tier=front is not listed under its text", func(s *State, _ *Tally) {
			serving(s).labels = labels.Set{"app": "web", "tier": "front"}
		}},
		{"selector  is not listed under its text ", func(s *State, _ *Tally) {
			x := serving(s)
			x.labels, x.text = nil, ""
			services(s).bySet[x.serviceSet] = x
		}},
		{"in version 9 of 2 has the selector", func(s *State, _ *Tally) { s.selectorSources.controllers[model.Ref{}] = controller{version: 9} }},
		{"in version 9 of 2 has the selector nil and the labels app=web", func(s *State, _ *Tally) {
			s.selectorSources.controllers[model.Ref{}] = controller{version: 9, labels: labels.Set{"app": "web"}}
		}},
		{"in version 0 of 2 has the selector", func(s *State, _ *Tally) { s.selectorSources.controllers[model.Ref{}] = controller{} }},
		{"node a is {slot 0, alive false", func(s *State, _ *Tally) { s.storage.SetNode(a, false, nil) }},
		{"a version of {8 ns c} was learned, which does not exist", func(s *State, _ *Tally) {
			s.learned[model.ClaimKey{Namespace: "ns", Name: "c"}.Ref()] = struct{}{}
		}},
		{"was never shown, and was not learned as a claim", func(s *State, _ *Tally) {
			s.unseen = map[model.Ref]struct{}{model.ClaimKey{Namespace: "ns", Name: "c"}.DeviceRef(): {}}
		}},
		{"the journal keeps", func(s *State, _ *Tally) { s.journal.base = 1 }},
		{"entry 0 of the journal of objects", func(s *State, _ *Tally) { s.objects.add(0, model.Usage) }},
		{"of the journal is about slot 9", func(s *State, _ *Tally) { s.journal.add(9, model.Usage) }},
		{"of the journal is about slot 5 of 5", func(s *State, _ *Tally) { s.journal.add(5, model.Usage) }},
		{"of the journal is about slot -2 of 5", func(s *State, _ *Tally) { s.journal.add(-2, 0) }},
		{"of the journal is about slot -1 of 5 and aspects 1", func(s *State, _ *Tally) { s.journal.add(-1, model.Usage) }},
		{"of the journal is about slot 0 of 5 and aspects 0", func(s *State, _ *Tally) { s.journal.add(0, 0) }},
		{"is listed as that of", func(s *State, _ *Tally) { s.topologies[TopologyKey{Label: "other"}] = zones(s) }},
		{"has nodes of 3 domains", func(s *State, _ *Tally) { zones(s).nodes = append(zones(s).nodes, 0) }},
		{`it should be in one: true, with the value "1"`, func(s *State, _ *Tally) { zones(s).of[a] = 1 }},
		{"it should be in one: false", func(s *State, _ *Tally) { zones(s).of[3] = 0 }},
		{`slot 0 (a) is in domain -1 of topology {Label:zone AbsentIsEmpty:false}; it should be in one: true`, func(s *State, _ *Tally) { zones(s).of[a] = noDomain }},
		{"slot 0 (a) is in domain 1 of topology {Label:other AbsentIsEmpty:true}", func(s *State, _ *Tally) {
			// The only domain has the nodes without the label.
			s.topology(TopologyKey{Label: "other", AbsentIsEmpty: true}).of[a] = 1
		}},
		{"which ids has as 7", func(s *State, _ *Tally) { zones(s).ids["1"] = 7 }},
		{"which ids has as 0 (false)", func(s *State, _ *Tally) { delete(zones(s).ids, "1") }},
		{"has ids for 3 values, 2 are in use", func(s *State, _ *Tally) { zones(s).ids["3"] = 3 }},
		{"has 1 nodes and is free 1 times", func(s *State, _ *Tally) { zones(s).free = []int32{0} }},
		{"domains with several nodes, recounted", func(s *State, _ *Tally) { zones(s).shared++ }},
		{"counts 2 nodes, recounted 1", func(s *State, _ *Tally) { zones(s).nodes[0]++ }},
		{`are listed as those of "other"`, func(s *State, _ *Tally) { s.tallies.bySet["other"] = counts(s) }},
		{"no tally needs the counts", func(s *State, _ *Tally) { counts(s).tallies = nil }},
		{"follows it twice", func(s *State, t *Tally) { counts(s).tallies = []*Tally{t, t} }},
		{"and is not kept", func(s *State, _ *Tally) { clear(s.tallies.byKey) }},
		{"does not follow the counts of its set", func(s *State, _ *Tally) { clear(s.tallies.bySet) }},
		{"uses a topology that is not followed", func(s *State, _ *Tally) { clear(s.topologies) }},
		{"dropped: true", func(_ *State, t *Tally) { t.dropped = true }},
		{"asked for at 9 of 1", func(_ *State, t *Tally) { t.used = 9 }},
		{"is listed as {pods:other", func(s *State, t *Tally) { s.tallies.byKey[tallyKey{pods: "other"}] = t }},
		{"uses a membership that is not followed", func(s *State, _ *Tally) { clear(s.tallies.memberships) }},
		{"uses a membership that is not followed", func(s *State, t *Tally) { t.nodes = &membership{topology: zones(s)} }},
		{"is listed as {nodes:other", func(s *State, t *Tally) { s.tallies.memberships[membershipKey{nodes: "other"}] = t.nodes }},
		{"or is used by 0 tallies, recounted 0", func(s *State, _ *Tally) { s.membership(NodeSet{Text: "other"}, TopologyKey{Label: "zone"}) }},
		{"or uses a topology that is not followed, or is used by 1 tallies, recounted 1", func(_ *State, t *Tally) {
			t.nodes.topology = &topology{key: TopologyKey{Label: "zone"}, of: make([]int32, 9)}
		}},
		{"used by 2 tallies, recounted 1", func(_ *State, t *Tally) { t.nodes.tallies++ }},
		{"has slot 0 (a) in domain 1, want 0", func(_ *State, t *Tally) { t.nodes.in[a] = 1 }},
		{"counts other nodes than 1 in domain 0", func(_ *State, t *Tally) { t.nodes.members[0]++ }},
		{"counts other nodes than 1 in domain 0", func(_ *State, t *Tally) { t.nodes.members[0] = 0 }},
		{"counts other nodes than 0 in domain 2", func(_ *State, t *Tally) { t.nodes.members = append(t.nodes.members, 1) }},
		{"has 3 domains, recounted 2", func(_ *State, t *Tally) { t.nodes.present++ }},
		{"1 tallies count no pod, recounted 0", func(s *State, _ *Tally) { s.tallies.idle++ }},
		{"memberships use", func(s *State, _ *Tally) { s.tallies.bytes++ }},
		{"select namespaces by label: true", func(s *State, _ *Tally) { s.tallies.selectNamespaces[counts(s)] = struct{}{} }},
		{"counts 3 pods in domain 0, recounted 2", func(_ *State, t *Tally) { t.counts.dense[0]++ }},
		{"counts no pods in domain 0, recounted 2", func(_ *State, t *Tally) { t.counts.dense[0] = 0 }},
		{"has 4 pods in total in 2 domains, recounted 3 in 2", func(_ *State, t *Tally) { t.counts.total++ }},
		{"has 3 pods in total in 3 domains, recounted 3 in 2", func(_ *State, t *Tally) { t.counts.some++ }},
		{"both as an array and as a list", func(_ *State, t *Tally) { t.counts.listed = []domainCount{} }},
		{"is not sorted, or has an empty domain", func(_ *State, t *Tally) { t.counts.listed = []domainCount{{2, 0}} }},
		{"is not sorted, or has an empty domain", func(_ *State, t *Tally) { t.counts.listed = []domainCount{{3, 1}, {2, 1}} }},
		{"keeps its least counts: false", func(_ *State, t *Tally) { t.counts.least = nil }},
		{"keeps the least count of 0 domains, and domain 0 has 2 pods", func(_ *State, t *Tally) { t.counts.least = &minima{} }},
		{"keeps 7 for domain 0 among the least counts, want 2", func(_ *State, t *Tally) { t.counts.least.tree[t.counts.least.size] = 7 }},
		{"of the tree of least counts has 9", func(_ *State, t *Tally) { t.counts.least.tree[1] = 9 }},
		{"set web is filed under []", func(s *State, _ *Tally) { counts(s).filed.keys = nil }},
		{"set web is listed 0 times under {ns {app web}}", func(s *State, _ *Tally) { empty(&s.tallies.index.index.under) }},
		{"set web is listed under {ns {x y}}, and not filed there", func(s *State, _ *Tally) {
			key := labelKey{"ns", model.Label{Key: "x", Value: "y"}}
			s.tallies.index.index.under.Of(key)[key] = []*podCounts{counts(s)}
		}},
		{"is filed under 1 keys, at 0 positions", func(s *State, _ *Tally) { counts(s).filed.at = nil }},
		{"term: under {ns {app web}} something is listed that is not kept", func(s *State, _ *Tally) {
			key := labelKey{"ns", model.Label{Key: "app", Value: "web"}}
			s.terms.index.index.under.Of(key)[key] = append(s.terms.index.index.under.Get(key), &TermCounts{})
		}},
		{"set: nothing is listed under {x { }}", func(s *State, _ *Tally) {
			key := labelKey{namespace: "x"}
			s.tallies.index.index.under.Of(key)[key] = nil
		}},
		{"which it does not demand", func(s *State, _ *Tally) { term(s).filed.keys = []labelKey{{namespace: "ns"}} }},
		{"1 label sets have no pods, recounted 0", func(s *State, _ *Tally) { s.population.empty++ }},
		{"label sets have 3 pods, placed has 4", func(s *State, _ *Tally) { like(s).pods = like(s).pods[:3] }},
		{"and says 9", func(s *State, _ *Tally) { s.placed[assumedKey].likeAt = 9 }},
		{"label set ns app=web is filed under [{ns { }}], want", func(s *State, _ *Tally) { like(s).filed.keys = like(s).filed.keys[:1] }},
		{"label set ns app=web is filed under [{ns { }} {ns { }}], want", func(s *State, _ *Tally) { like(s).filed.keys[1] = like(s).filed.keys[0] }},
		{"label set ns app=web is filed under [{ns { }} {x { }}], want", func(s *State, _ *Tally) { like(s).filed.keys[1] = labelKey{namespace: "x"} }},
		{`lists the set "web" 0 times, want 1`, func(s *State, _ *Tally) { like(s).sets = nil }},
		{`lists the set "web", which is not kept`, func(s *State, _ *Tally) { clear(s.tallies.bySet) }},
		{"namespaces count the label sets map[ns:2], recounted map[ns:1]", func(s *State, _ *Tally) { s.population.namespaces["ns"]++ }},
		{"is carried by 5 pods, recounted 4", func(s *State, _ *Tally) { term(s).pods++ }},
		{"which is not kept", func(s *State, _ *Tally) { clear(s.terms.byKey) }},
		{"is listed as {kind:0", func(s *State, _ *Tally) { s.terms.byKey[termKey{}] = term(s) }},
		{"is listed as {kind:1", func(s *State, _ *Tally) { term(s).Kind = model.PreferredAffinity }},
		{"is listed as {kind:1", func(s *State, _ *Tally) { term(s).Weight = 5 }},
		{"is listed as {kind:1", func(s *State, _ *Tally) { term(s).topology = &topology{} }},
		{"is carried by 0 pods, recounted 0", func(s *State, _ *Tally) { s.terms.byKey[termKey{}] = &TermCounts{Term: term(s).Term} }},
		{"does not carry its counts", func(s *State, _ *Tally) { s.placed[assumedKey].terms = nil }},
		{"carries the counts of 2 terms, it has 1", func(s *State, _ *Tally) {
			s.placed[assumedKey].terms = append(s.placed[assumedKey].terms, term(s))
		}},
		{"counts 3 pods in domain 0, recounted 2", func(s *State, _ *Tally) { term(s).counts.dense[0]++ }},
	} {
		s, tally := auditedState(t)
		row.corrupt(s, tally)
		err := s.Audit()
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}

// TestAuditChangesNothing audits a state twice, and checks collections that an audit
// could fill.
func TestAuditChangesNothing(t *testing.T) {
	s, _ := auditedState(t)
	before, version, topologies, built := s.everything(), s.Version(), len(s.topologies), s.tallies.built
	audited(t, s)
	if s.everything() != before || s.Version() != version || len(s.topologies) != topologies || s.tallies.built != built {
		t.Error("an audit changes the state")
	}
}

func empty[K comparable, V any](m *steady.Map[K, V]) { *m = steady.Map[K, V]{} }
