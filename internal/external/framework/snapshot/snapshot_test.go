package snapshot_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var (
	seeds = flag.Int("seeds", 10, "how many seeds")
	seed  = flag.Uint64("seed", 0, "the only seed")
)

// TestNodeInfosEqualTheSumOfTheirPods changes a random cluster. Each node's NodeInfo, in
// the lister and in a draft, must equal a NodeInfo whose pods were added one by one.
func TestNodeInfosEqualTheSumOfTheirPods(t *testing.T) {
	random.EverySeed(t, "./internal/external/framework/snapshot", *seeds, *seed, func(t *testing.T, seed uint64) {
		w := world{T: t, r: random.New(seed), s: state.New(), shown: snapshot.New(nil), imagesOf: map[int64]bool{}}
		for step := range 40 {
			for range 1 + w.r.IntN(8) {
				w.change(step)
			}
			w.shown.Update(w.s.View())
			w.check(w.shown.Lister(), w.s.View())
			w.checkDraft()
			if t.Failed() {
				t.Fatalf("after step %d", step)
			}
		}
	})
}

// world is a cluster that changes at random.
type world struct {
	*testing.T
	r        *rand.Rand
	s        *state.State
	shown    *snapshot.Snapshot
	pods     []*model.Pod // placed
	made     int
	imagesOf map[int64]bool // generations whose images were read
}

func (w *world) change(step int) {
	name := fmt.Sprintf("node-%d", w.r.IntN(90))
	switch n := w.r.IntN(100); {
	case n < 20 || step == 0:
		w.s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(random.Node(w.r, w.r.IntN(90)))}})
	case n < 25:
		w.s.Apply([]model.Change{{Kind: model.NodeGone, Name: name}})
	case n < 60:
		w.made++
		placed := w.pod(name)
		w.pods = append(w.pods, model.NewPod(placed))
		w.s.Apply([]model.Change{{Kind: model.PodSet, Pod: w.pods[len(w.pods)-1]}})
	case n < 75:
		w.assume(name)
	case len(w.pods) == 0:
	case n < 88:
		i := w.r.IntN(len(w.pods))
		w.s.Apply([]model.Change{{Kind: model.PodGone, Key: w.pods[i].Key()}})
		w.pods = slices.Delete(w.pods, i, i+1)
	default:
		i := w.r.IntN(len(w.pods))
		newer := w.pods[i].Object.DeepCopy()
		if newer.Spec.NodeName == "" { // assumed until now
			newer.Spec.NodeName, _, _ = w.s.NodeOf(w.pods[i].Key())
		}
		newer.Annotations = map[string]string{"version": fmt.Sprint(step)}
		w.pods[i] = model.NewPod(newer)
		w.s.Apply([]model.Change{{Kind: model.PodSet, Pod: w.pods[i]}})
	}
}

func (w *world) pod(node string) *v1.Pod {
	if w.r.IntN(2) == 0 {
		return random.StoragePlacedPod(w.r, w.made, node)
	}
	p := random.TopologyPod(w.r, w.made)
	p.Spec.NodeName = node
	return p
}

func (w *world) assume(node string) {
	if _, ok := w.s.Slot(node); !ok {
		return
	}
	w.made++
	pod := model.NewPod(w.pod(""))
	w.s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}})
	w.s.Assume(plan.Placement{Pod: pod, NodeName: node})
	w.pods = append(w.pods, pod)
}

func (w *world) check(l *snapshot.Lister, v state.View) {
	w.Helper()
	all, err := l.NodeInfos().List()
	if err != nil || len(all) != w.s.Nodes() {
		w.Errorf("%d nodes are listed of %d: %v", len(all), w.s.Nodes(), err)
	}
	var affinity, antiAffinity []string
	claims := map[string]bool{}
	for slot, alive := range w.s.Alive() {
		if !alive {
			continue
		}
		node := v.Node(int32(slot))
		want := w.same(v, int32(slot), w.shown.NodeInfoIn(v, int32(slot)))
		if got, err := l.Get(node.Name()); err != nil || got != w.shown.NodeInfoIn(v, int32(slot)) || !slices.Contains(all, got) {
			w.Errorf("%s is %v: %v", node.Name(), got, err)
		}
		if len(want.GetPodsWithAffinity()) > 0 {
			affinity = append(affinity, node.Name())
		}
		if len(want.GetPodsWithRequiredAntiAffinity()) > 0 {
			antiAffinity = append(antiAffinity, node.Name())
		}
		for key := range want.GetPVCRefCounts() {
			claims[key] = true
		}
		w.checkImages(v, node)
	}
	w.checkList("affinity", affinity, l.HavePodsWithAffinityList)
	w.checkList("anti-affinity", antiAffinity, l.HavePodsWithRequiredAntiAffinityList)
	for key := range claims {
		if !l.IsPVCUsedByPods(key) {
			w.Errorf("claim %s is not used", key)
		}
	}
	if l.IsPVCUsedByPods("default/none") {
		w.Error("a claim is used that nobody names")
	}
	if _, err := l.Get("none"); err == nil || err.Error() != `nodeinfo not found for node name "none"` {
		w.Error(err)
	}
}

func (w *world) checkList(what string, want []string, list func() ([]fwk.NodeInfo, error)) {
	nodes, err := list()
	var got []string
	for _, n := range nodes {
		got = append(got, n.Node().Name)
	}
	if err != nil || !slices.Equal(got, want) {
		w.Errorf("with pods of %s: %v, %v, want %v", what, got, err, want)
	}
}

// checkImages reads the images of a new NodeInfo, because they are computed once.
func (w *world) checkImages(v state.View, node state.Node) {
	shown := w.shown.NodeInfoIn(v, node.Slot())
	if w.imagesOf[shown.GetGeneration()] {
		return
	}
	w.imagesOf[shown.GetGeneration()] = true
	states := shown.GetImageStates()
	if len(states) != len(node.Model().Images) {
		w.Errorf("%s has %d images, want %d", node.Name(), len(states), len(node.Model().Images))
	}
	for name := range node.Model().Images {
		if _, nodes := v.ImageSpread(name); states[name].NumNodes != nodes || states[name].Nodes != nil {
			w.Errorf("%s: %+v, want %d nodes", name, states[name], nodes)
		}
	}
}

// checkDraft moves pods in a draft. Its nodes have the draft's pods, and the lister is
// unchanged.
func (w *world) checkDraft() {
	d := w.s.View().Draft()
	for range w.r.IntN(5) {
		if len(w.pods) == 0 {
			break
		}
		pod := w.pods[w.r.IntN(len(w.pods))]
		name, _, on := w.s.NodeOf(pod.Key())
		if slot, exists := w.s.Slot(name); on && exists && !d.View().IsTouched(slot) {
			d.Remove(pod.Key())
			d.Add(model.NewPod(random.PlacedPod(w.r, 10_000+int(slot), name)), slot)
		}
	}
	for _, slot := range d.View().Touched() {
		w.same(d.View(), slot, w.shown.NodeInfoIn(d.View(), slot))
		w.same(w.s.View(), slot, w.shown.NodeInfoIn(w.s.View(), slot))
	}
	if w.r.IntN(4) == 0 { // as in a group's turn
		w.shown.Update(d.View())
		for _, slot := range d.View().Touched() {
			got, _ := w.shown.Lister().Get(w.s.Node(slot).Name())
			w.same(d.View(), slot, got)
		}
		w.shown.Update(w.s.View())
	}
}

// same compares a NodeInfo with a new one and the node's pods added. It returns the
// latter.
func (w *world) same(v state.View, slot int32, got fwk.NodeInfo) *framework.NodeInfo {
	w.Helper()
	want := framework.NewNodeInfo()
	want.SetNode(v.Node(slot).Object())
	for pod := range v.PodsOn(slot) {
		object := pod.Object.DeepCopy()
		object.Spec.NodeName = pod.NodeName
		info, _ := framework.NewPodInfo(object)
		want.AddPodInfo(info)
	}
	expected, shown, copied := describe(want), describe(got), describe(got.Snapshot())
	if !reflect.DeepEqual(expected, shown) {
		w.Errorf("%s: -want +got\n%s", v.Node(slot).Name(), cmp.Diff(expected, shown))
	}
	if !reflect.DeepEqual(shown, copied) {
		w.Errorf("the copy of %s differs: %s", v.Node(slot).Name(), cmp.Diff(shown, copied))
	}
	return want
}

// described is all content of a NodeInfo except images and generation, without resources
// of amount 0.
type described struct {
	Node                                    *v1.Node
	Pods, Affinity, AntiAffinity, Features  []string
	Terms                                   [][]string
	Requested, NonZero, Allocatable, OfPods framework.Resource
	Ports                                   fwk.HostPortInfo
	Claims                                  map[string]int
}

func describe(n fwk.NodeInfo) described {
	d := described{
		Node: n.Node(), Ports: n.GetUsedPorts(), Claims: n.GetPVCRefCounts(),
		Pods: names(n.GetPods()), Affinity: names(n.GetPodsWithAffinity()), AntiAffinity: names(n.GetPodsWithRequiredAntiAffinity()),
		Requested: nonZero(n.GetRequested()), NonZero: nonZero(n.GetNonZeroRequested()), Allocatable: *n.GetAllocatable().(*framework.Resource),
		Features: []string{fmt.Sprint(n.GetNodeDeclaredFeatures())},
	}
	for _, p := range n.GetPods() {
		r := p.CalculateResource()
		d.OfPods.MilliCPU += r.Resource.GetMilliCPU()
		d.OfPods.Memory += r.Non0Mem
		terms := []string{p.GetPod().Spec.NodeName}
		for _, term := range slices.Concat(p.GetRequiredAffinityTerms(), p.GetRequiredAntiAffinityTerms()) {
			terms = append(terms, term.TopologyKey+" "+term.Selector.String())
		}
		for _, term := range slices.Concat(p.GetPreferredAffinityTerms(), p.GetPreferredAntiAffinityTerms()) {
			terms = append(terms, fmt.Sprint(term.TopologyKey, " ", term.Selector, " ", term.Weight))
		}
		d.Terms = append(d.Terms, terms)
	}
	return d
}

func names(pods []fwk.PodInfo) []string {
	all := []string{}
	for _, p := range pods {
		all = append(all, fmt.Sprint(p.GetPod().Namespace, "/", p.GetPod().Name, p.GetPod().Annotations))
	}
	return all
}

func nonZero(r fwk.Resource) framework.Resource {
	c := *r.(*framework.Resource).Clone()
	maps.DeleteFunc(c.ScalarResources, func(_ v1.ResourceName, amount int64) bool { return amount == 0 })
	if len(c.ScalarResources) == 0 {
		c.ScalarResources = nil
	}
	return c
}

// threeZones is a state with nodes in three zones and pods on them.
func threeZones(nodes, pods int) *state.State {
	s := state.New()
	changes := make([]model.Change, 0, nodes+pods)
	for i := range nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprintf("node-%d", i),
			build.NodeLabels(fmt.Sprintf("zone=%d", i%3)), build.Allocatable("cpu=32 memory=128Gi pods=110 hugepages-2Mi=0 example.com/gpu=8")))})
	}
	for i := range pods {
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: crowdPod(i, nodes)})
	}
	s.Apply(changes)
	return s
}

func crowdPod(i, nodes int) *model.Pod {
	return model.NewPod(build.Pod(build.Named(fmt.Sprint("pod-", i)), build.NodeName(fmt.Sprintf("node-%d", i%nodes)), build.Container("cpu=100m memory=128Mi"), build.Labels("app=web")))
}

// TestOnlyChangedNodesAreMadeAgain counts the NodeInfos that changes cost.
func TestOnlyChangedNodesAreMadeAgain(t *testing.T) {
	const nodes = 300
	s := threeZones(nodes, 3*nodes)
	shown := snapshot.New(nil)
	shown.Update(s.View())
	if shown.Built() != nodes {
		t.Fatalf("%d NodeInfos for %d nodes", shown.Built(), nodes)
	}
	set := func(pod *model.Pod) func() { return func() { s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}}) } }
	newer := crowdPod(7, nodes)
	for _, row := range []struct {
		what   string
		change func()
		made   int
	}{
		{"nothing", func() {}, 0},
		{"a pod", set(crowdPod(10_000, nodes)), 1},
		{"two pods of one node", func() { set(crowdPod(20_007, nodes))(); set(crowdPod(20_007+nodes, nodes))() }, 1},
		{"a version of a pod", set(newer), 1},
		{"the same version", set(newer), 0},
		{"a pod that waits", set(model.NewPod(build.Pod(build.Named("waiting")))), 0},
		{"a nomination", set(model.NewPod(build.Pod(build.Named("waiting"), build.NominatedNodeName("node-3")))), 0},
		{"a node's labels", func() {
			s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node("node-9", build.NodeLabels("zone=9")))}})
		}, 1},
		{"a node's end", func() { s.Apply([]model.Change{{Kind: model.NodeGone, Name: "node-9"}}) }, 0},
		{"its return", func() { s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node("node-9"))}}) }, 1},
	} {
		before, generations := shown.Built(), generationsOf(t, shown)
		row.change()
		shown.Update(s.View())
		if made := shown.Built() - before; made != row.made {
			t.Errorf("%s: %d NodeInfos are made, want %d", row.what, made, row.made)
		}
		changed := 0
		for name, now := range generationsOf(t, shown) {
			switch had, ok := generations[name]; {
			case !ok || now > had:
				changed++
			case now < had:
				t.Errorf("%s: the generation of %s went from %d to %d", row.what, name, had, now)
			}
		}
		if changed != row.made {
			t.Errorf("%s: %d nodes have another generation, want %d", row.what, changed, row.made)
		}
	}
}

func generationsOf(t *testing.T, shown *snapshot.Snapshot) map[string]int64 {
	t.Helper()
	all, err := shown.Lister().List()
	if err != nil {
		t.Fatal(err)
	}
	generations := map[string]int64{}
	for _, n := range all {
		generations[n.Node().Name] = n.GetGeneration()
	}
	return generations
}

// TestShownNodesStay reads old NodeInfos while the state changes. They are unchanged, and
// PodInfos of remaining pods are reused.
func TestShownNodesStay(t *testing.T) {
	const nodes = 100
	s := threeZones(nodes, 3*nodes)
	shown := snapshot.New(nil)
	if all, err := shown.Lister().List(); len(all) != 0 || err != nil {
		t.Errorf("before the first turn: %v, %v", all, err)
	}
	shown.Update(s.View())
	old, err := shown.Lister().Get("node-7")
	if err != nil {
		t.Fatal(err)
	}
	list, _ := shown.Lister().List()
	s.Apply([]model.Change{{Kind: model.PodGone, Key: crowdPod(7, nodes).Key()}, {Kind: model.PodSet, Pod: crowdPod(1007, nodes)}, {Kind: model.NodeGone, Name: "node-8"}})
	shown.Update(s.View())
	if n := old.GetRequested().GetMilliCPU(); n != 300 || len(old.GetPods()) != 3 || len(list) != nodes || old.GetUsedPorts().Len() != 0 {
		t.Errorf("node-7 has %d pods with %dm cpu in a list of %d, want 3, 300 and %d", len(old.GetPods()), n, len(list), nodes)
	}
	now, err := shown.Lister().Get("node-7")
	if err != nil || now == old || len(now.GetPods()) != 3 {
		t.Fatal(now, err)
	}
	kept := 0
	for _, p := range now.GetPods() {
		if slices.Contains(old.GetPods(), p) {
			kept++
		}
	}
	if kept != 2 {
		t.Errorf("%d PodInfos are kept, want those of the two pods that stay", kept)
	}
	if _, err := shown.Lister().Get("node-8"); err == nil {
		t.Error("node-8 is still there")
	}
}

// TestPluginsCannotSpoilTheState changes NodeInfos, as plugins must not. The node's next
// NodeInfo is correct again.
func TestPluginsCannotSpoilTheState(t *testing.T) {
	const nodes = 10
	s := threeZones(nodes, 3*nodes)
	shown := snapshot.New(nil)
	shown.Update(s.View())
	n, err := shown.Lister().Get("node-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := n.RemovePod(klog.Logger{}, n.GetPods()[0].GetPod()); err != nil {
		t.Fatal(err)
	}
	n.GetAllocatable().SetMaxResource(v1.ResourceList{v1.ResourceCPU: build.Resources("cpu=1000")[v1.ResourceCPU]})
	n.GetUsedPorts().Add("", "TCP", 80)
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: crowdPod(1001, nodes)}})
	shown.Update(s.View())
	n, err = shown.Lister().Get("node-1")
	if err != nil || len(n.GetPods()) != 4 || n.GetRequested().GetMilliCPU() != 400 || n.GetAllocatable().GetMilliCPU() != 32_000 || n.GetUsedPorts().Len() != 0 {
		t.Error(n, err)
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
}

// TestManyNodesComeAndGo grows a cluster, nearly empties it, so that slots are cut off,
// and grows it again.
func TestManyNodesComeAndGo(t *testing.T) {
	const nodes = 3000
	s := threeZones(nodes, nodes)
	shown := snapshot.New(nil)
	shown.Update(s.View())
	for i := range nodes - 5 {
		s.Apply([]model.Change{{Kind: model.PodGone, Key: crowdPod(i, nodes).Key()}, {Kind: model.NodeGone, Name: fmt.Sprintf("node-%d", i)}})
		if i%7 == 0 {
			shown.Update(s.View())
		}
	}
	for range 10 {
		s.Apply(nil)
		shown.Update(s.View())
	}
	if s.Slots() >= nodes {
		t.Fatalf("%d slots are left", s.Slots())
	}
	for i := range 5 {
		name := fmt.Sprintf("node-%d", nodes-1-i)
		if n, err := shown.Lister().Get(name); err != nil || n.Node().Name != name || len(n.GetPods()) != 1 {
			t.Error(n, err)
		}
	}
	for i := range nodes {
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprintf("node-%d", i)))}})
	}
	shown.Update(s.View())
	if all, _ := shown.Lister().List(); len(all) != nodes {
		t.Errorf("%d nodes are listed of %d", len(all), nodes)
	}
	for i := range nodes - 5 { // and their slots are cut off before the next turn
		s.Apply([]model.Change{{Kind: model.NodeGone, Name: fmt.Sprintf("node-%d", i)}})
	}
	for range 10 {
		s.Apply(nil)
	}
	shown.Update(s.View())
	if all, _ := shown.Lister().List(); len(all) != 5 {
		t.Errorf("%d nodes are listed of 5", len(all))
	}
	for i := range nodes {
		if n, err := shown.Lister().Get(fmt.Sprintf("node-%d", i)); (err == nil) != (i >= nodes-5) {
			t.Errorf("node-%d is %v: %v", i, n, err)
		}
	}
}

// TestGroupsAndMutations calls the methods that Berth does not support.
func TestGroupsAndMutations(t *testing.T) {
	l := snapshot.New(nil).Lister()
	_, group := l.PodGroups().Get("ns", "g")
	_, groupState := l.PodGroupStates().Get("ns", "g")
	_, composite := l.CompositePodGroups().Get("ns", "g")
	_, compositeState := l.CompositePodGroupStates().Get("ns", "g")
	for _, row := range []struct {
		err  error
		want string
	}{
		{group, "generic workload feature gate is disabled"},
		{groupState, "pod group state not found for pod group ns/g"},
		{composite, "composite pod group feature gate is disabled"},
		{compositeState, "composite pod group state not found for pod group ns/g"},
		{l.StartMutations(), "NodeInfo.Snapshot()"}, {l.EndMutations(), "NodeInfo.Snapshot()"}, {l.AddPod(nil, ""), "NodeInfo.Snapshot()"},
		{l.RemovePod(klog.Logger{}, nil, ""), "NodeInfo.Snapshot()"},
	} {
		if row.err == nil || !strings.Contains(row.err.Error(), row.want) {
			t.Errorf("%v, want %s", row.err, row.want)
		}
	}
}

// BenchmarkUpdate updates 5,000 nodes with 150,000 pods: all for the first time, and
// after a change of one pod on a node with 30.
func BenchmarkUpdate(b *testing.B) {
	nodes, pods := build.Sized(5000), build.Sized(150_000)
	s := threeZones(nodes, pods)
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			snapshot.New(nil).Update(s.View())
		}
	})
	b.Run("pod", func(b *testing.B) {
		shown := snapshot.New(nil)
		shown.Update(s.View())
		pod := crowdPod(1_000_017, nodes)
		set, gone := []model.Change{{Kind: model.PodSet, Pod: pod}}, []model.Change{{Kind: model.PodGone, Key: pod.Key()}}
		b.ReportAllocs()
		for b.Loop() { // two changes of the state, and two updates
			s.Apply(set)
			shown.Update(s.View())
			s.Apply(gone)
			shown.Update(s.View())
		}
	})
	b.Run("pod+List", func(b *testing.B) {
		shown := snapshot.New(nil)
		shown.Update(s.View())
		pod := crowdPod(1_000_017, nodes)
		set, gone := []model.Change{{Kind: model.PodSet, Pod: pod}}, []model.Change{{Kind: model.PodGone, Key: pod.Key()}}
		b.ReportAllocs()
		for b.Loop() {
			s.Apply(set)
			shown.Update(s.View())
			_, _ = shown.Lister().List()
			s.Apply(gone)
			shown.Update(s.View())
			_, _ = shown.Lister().List()
		}
	})
}
