package state

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// numberedNode is a node in one of three zones, with its own host name.
func numberedNode(i int) model.Change {
	n := node(fmt.Sprint("node-", i)).Node.Object.DeepCopy()
	n.Labels = map[string]string{"zone": fmt.Sprint(i % 3), "host": n.Name}
	return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
}

// webOn is a pod with a label, a port, an affinity term and a claim.
func webOn(i int, nodeName string) *model.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("web-", i), UID: types.UID(fmt.Sprint(i)), Labels: map[string]string{"app": "web"}}}
	p.Spec.NodeName = nodeName
	build.Claims(fmt.Sprint("claim-", i%20))(p)
	p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}}}}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}, TopologyKey: "host"},
	}}}
	return model.NewPod(p)
}

// TestSlotsAreGivenBack removes most nodes of a large cluster, in random order, and
// creates some again. Nodes, ghosts, pods (including an assumed one), tallies and terms
// must survive. The slots, and all slices by slot, must become few, in small steps.
func TestSlotsAreGivenBack(t *testing.T) {
	build.NotRaced(t)
	const nodes, left = 6000, 40
	s := New()
	var changes []model.Change
	for i := range nodes {
		changes = append(changes, numberedNode(i))
	}
	s.Apply(changes)
	r := rand.New(rand.NewPCG(1, 2))
	order := r.Perm(nodes)
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}})
	if err != nil {
		t.Fatal(err)
	}
	var tallies []*Tally
	for _, key := range []string{"zone", "host", ""} {
		tally := s.Tally(PodSet{Text: "web", Terms: []*model.Term{term}}, TopologyKey{Label: key}, NodeSet{})
		s.View().KeepLeast(tally)
		tallies = append(tallies, tally)
	}
	for i := range 20 {
		host := "host In " + s.node[order[i]].Object.Labels["host"]
		s.Apply([]model.Change{
			compiled(model.NewClaim(build.PersistentVolumeClaim(fmt.Sprint("claim-", i), fmt.Sprint("namespace=ns bound=used-", i)))),
			compiled(model.NewVolume(build.PersistentVolume(fmt.Sprint("used-", i), fmt.Sprint("phase=Bound csi=d/", i)))),
			compiled(model.NewVolume(build.PersistentVolume(fmt.Sprint("local-", i), "class=local", build.VolumeAffinity(host)))),
			compiled(model.NewVolume(build.PersistentVolume(fmt.Sprint("last-", i), "class=local", build.VolumeAffinity("host In "+s.node[order[nodes-1-i]].Object.Labels["host"])))),
		})
	}
	for i, n := range order[:left+10] { // ten of these nodes will leave ghosts
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: webOn(i, fmt.Sprint("node-", n))}})
	}
	s.Assume(plan.Placement{Pod: webOn(9999, ""), NodeName: fmt.Sprint("node-", order[0])})
	audited(t, s)
	compacted := func() {
		t.Helper()
		for s.Slots() > slotsKept {
			before, version := s.Slots(), s.Version()
			s.Apply(nil)
			if s.Slots() == before || before-s.Slots() > cutAtOnce {
				t.Fatalf("%d slots became %d with %d nodes", before, s.Slots(), s.Nodes())
			}
			if moved := (s.Version() - version) / 2; moved > movedAtOnce {
				t.Fatalf("%d nodes moved at once", moved)
			}
		}
		audited(t, s)
	}
	for i, n := range order[left:] {
		s.Apply([]model.Change{nodeGone(fmt.Sprint("node-", n))})
		if i%500 == 0 {
			audited(t, s)
		}
	}
	compacted()
	if s.Nodes() != left || s.Pods() != left+11 || tallies[0].Total() != left+1 || s.Assumed() != 1 {
		t.Errorf("%d nodes, %d pods, %d assumed, %d counted", s.Nodes(), s.Pods(), s.Assumed(), tallies[0].Total())
	}
	if largest := s.largestBySlot(); largest > 4*slotsKept {
		t.Errorf("something by slot has room for %d slots", largest)
	}
	s.Apply(changes) // the cluster grows again
	audited(t, s)
	if s.Nodes() != nodes || tallies[1].Total() != left+11 {
		t.Errorf("%d nodes and %d pods counted after the cluster has grown again", s.Nodes(), tallies[1].Total())
	}
	for _, n := range order[:nodes-left] {
		s.Apply([]model.Change{nodeGone(fmt.Sprint("node-", n))})
	}
	compacted()
}

// largestBySlot returns the largest capacity of all slices by slot.
func (s *State) largestBySlot() int {
	largest := max(cap(s.alive), cap(s.node), cap(s.name), cap(s.nameHash), cap(s.used), cap(s.nonZero), cap(s.pods), cap(s.ports), cap(s.free))
	largest = max(largest, cap(s.absent.of))
	for _, c := range s.tallies.chosen {
		largest = max(largest, cap(c.has))
	}
	for _, t := range s.topologies {
		largest = max(largest, cap(t.of))
	}
	for _, m := range s.tallies.memberships {
		largest = max(largest, cap(m.in))
	}
	return largest
}

// TestSteadyClustersMoveNothing replaces each node of a large cluster, several times, at
// most a half at once.
func TestSteadyClustersMoveNothing(t *testing.T) {
	s := New()
	const nodes = 2000
	for i := range nodes {
		s.Apply([]model.Change{numberedNode(i)})
	}
	for rollout := range 4 {
		var gone, come []model.Change
		for i := range nodes / 2 {
			gone = append(gone, nodeGone(fmt.Sprint("node-", rollout*nodes/2+i)))
			come = append(come, numberedNode((rollout+2)*nodes/2+i))
		}
		s.Apply(gone)
		version := s.Version()
		s.Apply(nil)
		if s.Version() != version || s.Slots() != nodes {
			t.Fatalf("nodes moved; there are %d slots", s.Slots())
		}
		s.Apply(come)
	}
	if s.Slots() != nodes {
		t.Errorf("there are %d slots for %d nodes", s.Slots(), nodes)
	}
	audited(t, s)
}

// TestWhenSlotsAreGivenBack keeps some nodes, the first or the last ones, and takes one
// step. Nothing happens up to 1,024 slots, or if more than a quarter of them are in use.
// Otherwise at most 8 nodes move, and at most 4,096 slots are cut off.
func TestWhenSlotsAreGivenBack(t *testing.T) {
	var come []model.Change
	for i := range 5200 {
		come = append(come, model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprint("n", i)))})
	}
	for _, row := range []struct {
		slots, stay int
		atTheEnd    bool
		left, moved int
	}{
		{1024, 1, true, 1024, 0},
		{1025, 1, false, 1024, 0},
		{1025, 1, true, 1024, 1},
		{1028, 257, false, 1024, 0},
		{1028, 258, false, 1028, 0},
		{1100, 50, true, 1092, 8},
		{1026, 9, true, 1024, 2},
		{4400, 1100, false, 1100, 0},
		{5200, 1, false, 1104, 0},
		{5200, 1, true, 1104, 1},
	} {
		s := New()
		var gone []model.Change
		for i := range row.slots {
			if stays := i < row.stay; row.atTheEnd && i < row.slots-row.stay || !row.atTheEnd && !stays {
				gone = append(gone, nodeGone(fmt.Sprint("n", i)))
			}
		}
		s.Apply(come[:row.slots])
		s.Apply(gone)
		version := s.Version()
		s.Apply(nil)
		if moved := int(s.Version()-version) / 2; s.Slots() != row.left || moved != row.moved || s.Nodes() != row.stay {
			t.Errorf("%d slots and %d nodes, at the end: %t: %d slots are left, %d nodes moved, want %d, %d", row.slots, row.stay, row.atTheEnd, s.Slots(), moved, row.left, row.moved)
		}
		audited(t, s)
	}
}

// TestSlotsThatAreCutOff cuts slots off twice: the structures by slot have none of them.
// Slots that come back, below the largest number so far, are in the journal.
func TestSlotsThatAreCutOff(t *testing.T) {
	s := New()
	s.ObjectsVersion()
	for _, name := range []string{"a", "b", "c"} {
		s.Apply([]model.Change{node(name), node(name)}) // the second is another object
	}
	s.Apply([]model.Change{nodeGone("b"), nodeGone("c")})
	s.resizeSlots(1)
	audited(t, s)
	for _, e := range s.objects.entries[1:] {
		if e.Slot != -1 {
			t.Errorf("the journal of objects has the slot %d", e.Slot)
		}
	}
	s.Apply([]model.Change{node("d"), nodeGone("d")})
	s.resizeSlots(1)
	for i, want := range []int{1, 1, 0} {
		version, all := s.Version(), 0
		s.Apply([]model.Change{podOn(fmt.Sprint("p", i), fmt.Sprint(i), fmt.Sprint("unknown-", i), 1)})
		entries, _ := s.Since(version)
		for _, e := range entries {
			if e.Aspects == model.AllAspects && e.Slot == int32(1+i) {
				all++
			}
		}
		if all != want {
			t.Errorf("the journal names all aspects of slot %d %d times, want %d", 1+i, all, want)
		}
		audited(t, s)
	}
}

// TestSlotsThatComeBack cuts off slots and grows again by a pod on an unknown node: a
// reader may still have a value of the slot.
func TestSlotsThatComeBack(t *testing.T) {
	s := New()
	s.cutFrom = 1
	version := s.Version()
	s.Apply([]model.Change{podOn("p", "p", "unknown", 1), podOn("q", "q", "another", 1)})
	entries, _ := s.Since(version)
	var all int
	for _, e := range entries {
		if e.Aspects == model.AllAspects {
			all++
		}
	}
	if all != 1 {
		t.Errorf("the journal names all aspects of %d slots, want the one that was cut off: %v", all, entries)
	}
	audited(t, s)
}

// TestResourcesThatComeAndGo places pods with a thousand extended resources on a node,
// one after the other. The node's use lists only the resources of its pods.
func TestResourcesThatComeAndGo(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("n")})
	with := func(name string, i int) model.Change {
		p := podOn(name, name, "n", 1).Pod.Object
		p.Spec.Containers[0].Resources.Requests[v1.ResourceName(fmt.Sprint("example.com/r", i))] = resource.MustParse("1")
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	s.Apply([]model.Change{with("stays", 0)})
	for i := range 1000 {
		s.Apply([]model.Change{with("p", i), podGone("p")})
		audited(t, s)
	}
	if used := s.Node(0).Used().Scalars; len(used) != 1 || cap(used) > 4 {
		t.Errorf("%d resources are listed in room for %d, want 1", len(used), cap(used))
	}
}

// TestMapsGiveMemoryBack fills a state and empties it again. Each map that grows with the
// cluster shrinks again.
func TestMapsGiveMemoryBack(t *testing.T) {
	build.NotRaced(t)
	const many = 5000
	s := New()
	ref := func(kind model.Kind, i int) model.Ref {
		return model.Ref{Kind: kind, Namespace: "ns", Name: fmt.Sprint(i)}
	}
	anywhere := v1.PodAffinityTerm{LabelSelector: build.Selector("app=any"), NamespaceSelector: &metav1.LabelSelector{}}
	s.Tally(setOfTerms(t, "anywhere", anywhere), TopologyKey{}, NodeSet{})
	for i := range many {
		name := fmt.Sprint(i)
		n := node("node-" + name).Node.Object.DeepCopy()
		n.Status.Images[0].Names[0] = name
		n.Labels = map[string]string{"zone": "x", "label-" + name: "x"}
		nominated := podOn("nominated-"+name, name, "", 1).Pod.Object
		nominated.Status.NominatedNodeName = "node-" + name
		victim := podOn("pod-"+name, name, "node-"+name, 1)
		for term := range longFrom {
			build.RequiredAntiAffinity(build.Term("absent-"+name, fmt.Sprint("app=", term)))(victim.Pod.Object)
		}
		victim.Pod = model.NewPod(victim.Pod.Object)
		victim.Pod.Priority = int32(i)
		budget := model.NewDisruptionBudget(budgetOf(name, "b", "app="+name, 0))
		s.Apply([]model.Change{
			{Kind: model.NodeSet, Node: model.NewNode(n)}, victim, {Kind: model.ObjectSet, Ref: budget.Ref(), Object: budget.Object, Compiled: budget},
			{Kind: model.PodSet, Pod: model.NewPod(nominated)},
			serviceOf("ns", name, map[string]string{"app": name}), replicaSet("ns", name, map[string]string{"app": name}),
			{Kind: model.ObjectSet, Ref: model.Ref{Kind: model.NamespaceKind, Name: name}, Object: build.Namespace(name, "name="+name)},
		})
		s.Evict(plan.Eviction{Pod: victim.Pod})
		learned := compiled(model.NewClaim(build.PersistentVolumeClaim(name, "version=2")))
		learned.Learned = true
		s.Apply([]model.Change{compiled(model.NewClaim(build.PersistentVolumeClaim(name, "version=1"))), learned})
		tenant := tenantOn(name, "node-"+name)
		group := model.NewPodGroup(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "g"}})
		s.Apply([]model.Change{compiled(group), compiled(compositeGroup(name, "c", "root"))})
		s.NoteGroupScheduled(group)
		tenant.Group = group.Key
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: tenant}})
		term, err := model.NewTerm(name, tenant.Terms[0].Source)
		if err != nil {
			t.Fatal(err)
		}
		s.Tally(PodSet{Text: name, Terms: []*model.Term{term}}, TopologyKey{}, NodeSet{})
		assumed := podOn("assumed-"+name, name, "", 1).Pod
		s.Assume(plan.Placement{
			Pod: assumed, NodeName: "node-" + name, Holds: []plan.Hold{{Object: ref(model.ServiceKind, i)}},
		})
	}
	for name, peak := range s.peaks.byName() {
		if peak < many-1 {
			t.Errorf("%s: the largest size is %d; the test must fill it", name, peak)
		}
	}
	nodesOfStorage := reflect.ValueOf(s.storage).Elem().FieldByName("peaks").FieldByName("nodes")
	if peak := nodesOfStorage.Int(); peak < many-1 {
		t.Errorf("the store of volumes: the largest number of nodes is %d; the test must fill it", peak)
	}
	for i := range many {
		name := fmt.Sprint(i)
		s.Apply([]model.Change{
			{Kind: model.PodGone, Key: model.PodKey{Namespace: name, Name: "tenant"}}, podGone("pod-" + name), podGone("nominated-" + name), podGone("assumed-" + name), nodeGone("node-" + name),
			{Kind: model.ObjectGone, Ref: ref(model.ServiceKind, i)}, {Kind: model.ObjectGone, Ref: ref(model.ReplicaSetKind, i)},
			{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.PodDisruptionBudgetKind, Namespace: name, Name: "b"}},
			{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.CompositePodGroupKind, Namespace: name, Name: "c"}},
			{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.NamespaceKind, Name: name}},
			{Kind: model.ObjectGone, Ref: model.ClaimKey{Namespace: "default", Name: name}.Ref()},
			{Kind: model.ObjectGone, Ref: model.GroupKey{Namespace: name, Name: "g"}.Ref()},
		})
	}
	s.Apply(nil)
	for name, peak := range s.peaks.byName() {
		if peak > 1024 {
			t.Errorf("%s is empty and has room for %d", name, peak)
		}
	}
	if peak := nodesOfStorage.Int(); peak > 1024 {
		t.Errorf("the store of volumes has no nodes and room for %d", peak)
	}
	audited(t, s)
}

// tenantOn is a pod with anti-affinity to the pods of its app, in its own namespace.
func tenantOn(namespace, node string) *model.Pod {
	p := podOn("tenant", namespace, node, 1).Pod.Object
	p.Namespace, p.Labels = namespace, map[string]string{"app": namespace}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels}},
	}}}
	return model.NewPod(p)
}

// byName returns each of the sizes.
func (p *peaks) byName() map[string]int {
	all, of := map[string]int{}, reflect.ValueOf(p).Elem()
	for i := range of.NumField() {
		all[of.Type().Field(i).Name] = int(of.Field(i).Int())
	}
	return all
}
