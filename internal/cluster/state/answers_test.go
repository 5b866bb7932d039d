package state

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// The tests of this file, of drafts_test.go and of sizes_test.go cover cases that random
// histories rarely meet: bounds, and seldom-used methods.

// TestWhereAPodIs reads the node of pods in each phase.
func TestWhereAPodIs(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), podOn("bound", "1", "a", 1)})
	s.Assume(plan.Placement{Pod: podOn("assumed", "2", "", 1).Pod, NodeName: "a"})
	for name, want := range map[string]string{"bound": "a true true", "assumed": "a false true", "unknown": " false false"} {
		node, confirmed, ok := s.NodeOf(model.PodKey{Namespace: "ns", Name: name})
		if got := fmt.Sprint(node, " ", confirmed, " ", ok); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if s.Pods() != 2 || s.Assumed() != 1 || s.Nodes() != 1 || s.Slots() != 1 || !slices.Equal(s.Alive(), []bool{true}) || s.NameHashes()[0] != HashName("a") {
		t.Errorf("%d pods, %d assumed, %d nodes, %d slots", s.Pods(), s.Assumed(), s.Nodes(), s.Slots())
	}
}

// TestPodsThatMove shows pods on other nodes than before: they are reported as moved, and
// as evicted if they were to be evicted.
func TestPodsThatMove(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b"), podOn("p", "1", "a", 1), podOn("q", "2", "a", 1)})
	s.Evict(plan.Eviction{Pod: s.placed[model.PodKey{Namespace: "ns", Name: "q"}].pod, NodeName: "a"})
	delta := s.Apply([]model.Change{podOn("p", "1", "b", 1), podOn("q", "2", "b", 1), podOn("q", "2", "b", 1)})
	if !slices.Equal(delta.Moved, []types.UID{"1", "2"}) || !slices.Equal(delta.Evicted, []types.UID{"2"}) || len(delta.Left) > 0 {
		t.Errorf("moved %v, evicted %v, left %v", delta.Moved, delta.Evicted, delta.Left)
	}
	audited(t, s)
}

// TestLatestStart reads the start times of the pods of a band.
func TestLatestStart(t *testing.T) {
	var all bands
	pod := func(i int, started int64) *model.Pod {
		p := podOn(fmt.Sprint(i), fmt.Sprint(i), "a", 1).Pod.Object
		if started != 0 {
			p.Status.StartTime = &metav1.Time{Time: time.Unix(started, 0)}
		}
		return model.NewPod(p)
	}
	for i, started := range []int64{30, 10, 50, 0, 20, 40, 0} {
		all.count(pod(i, started), +1)
	}
	band := &all[0]
	for n, want := range []string{"0 false", "0 false", "0 false", "50 true", "40 true", "30 true", "20 true", "20 true"} {
		seconds, ok := band.LatestStart(int64(n))
		if got := fmt.Sprint(seconds, " ", ok); got != want {
			t.Errorf("of %d pods one started by %s, want %s", n, got, want)
		}
	}
	all.count(pod(5, 40), -1)
	if want := [fewLatest]int64{50, 30, 20, 20}; band.latest != want || band.Pods != 6 || band.Unstarted != 2 {
		t.Errorf("after the pod of 40 has left: %+v", *band)
	}
	if all.count(pod(3, 0), -1); band.Unstarted != 1 || band.Used.CPUMilli != 5000 {
		t.Errorf("after one without a start time has left: %+v", *band)
	}
}

// TestSlotsWith finds the nodes with a value of a label, if they are few.
func TestSlotsWith(t *testing.T) {
	s := New()
	for i, zone := range []string{"x", "y", "x", "", "x"} {
		n := build.Node(fmt.Sprint("n", i))
		if zone != "" {
			n.Labels = map[string]string{"zone": zone}
		}
		s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(n)}})
	}
	for _, row := range []struct {
		value string
		most  int
		want  string
	}{{"x", 3, "[7 0 2 4] true"}, {"x", 2, "[7] false"}, {"y", 1, "[7 1] true"}, {"y", 0, "[7] false"}, {"z", 0, "[7] true"}} {
		slots, ok := s.SlotsWith("zone", row.value, row.most, []int32{7})
		if got := fmt.Sprint(slots, " ", ok); got != row.want {
			t.Errorf("%s, at most %d: %s, want %s", row.value, row.most, got, row.want)
		}
	}
	sums := s.Sums(TopologyKey{Label: "zone", AbsentIsEmpty: true})
	if sums[0]++; len(sums) != 3 {
		t.Errorf("%d domains", len(sums))
	}
	if again := s.Sums(TopologyKey{Label: "zone", AbsentIsEmpty: true}); again[0] != 0 || &again[0] != &sums[0] {
		t.Error("sums are not zero, or in other memory")
	}
	domains := s.View().Domains(TopologyKey{Label: "zone", AbsentIsEmpty: true})
	if domains[0] != domains[2] || domains[0] == domains[1] || domains[3] < 0 || s.View().Domains(TopologyKey{Label: "zone"})[3] != -1 {
		t.Errorf("domains %v", domains)
	}
}

// TestImages counts the nodes that have an image.
func TestImages(t *testing.T) {
	s := New()
	with := func(name string, images ...string) model.Change {
		n := build.Node(name)
		for _, image := range images {
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{image}, SizeBytes: int64(len(n.Status.Images) + 1)})
		}
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(n)}
	}
	for _, step := range []struct {
		change  model.Change
		want    string // sizes and nodes of one and two, and whether the version changes
		changes bool
	}{
		{with("a", "one"), "1 1 0 0", true},
		{with("b", "two", "one"), "1 2 1 1", true},
		{with("b", "two", "one"), "1 2 1 1", false},
		{with("a", "two"), "1 1 1 2", true},
		// No other node has the image, so this node's size counts.
		{with("b", "x", "y", "one"), "3 1 1 1", true},
		{nodeGone("a"), "3 1 0 0", true},
	} {
		before := s.View().SpreadVersion()
		s.Apply([]model.Change{step.change})
		size, nodes := s.View().ImageSpread("one")
		otherSize, otherNodes := s.View().ImageSpread("two")
		if got := fmt.Sprint(size, nodes, otherSize, otherNodes); got != step.want || (s.View().SpreadVersion() != before) != step.changes {
			t.Errorf("%+v: %s, want %s; the version went from %d to %d", step.change, got, step.want, before, s.View().SpreadVersion())
		}
	}
}

// TestNominatedPodsOnNodes reads, in every way, the pods that are nominated to two
// neighbouring nodes.
func TestNominatedPodsOnNodes(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b"), node("c")})
	nominated := map[string]*model.Pod{}
	for i, to := range []string{"b", "a", "b", "gone"} {
		p := nominatedPod(fmt.Sprint("p", i), to, int32(10*i))
		nominated[p.Name] = p
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: p}})
	}
	a, _ := s.Slot("a")
	b, _ := s.Slot("b")
	v := s.View()
	names := func(pods []*model.Pod) (names []string) {
		for _, p := range pods {
			names = append(names, p.Name)
		}
		return names
	}
	asks := func(priority int32) *model.Pod {
		p := podOn("asks", "asks", "", 1).Pod
		p.Priority = priority
		return p
	}
	look := func(priority int32) string {
		var use Use
		v.AddNominated(b, priority, &use)
		_, pods := use.Used()
		each := ""
		v.EachNominated(asks(priority), func(slot int32, before []*model.Pod) { each += fmt.Sprintf(" %d%v", slot-a, names(before)) })
		return fmt.Sprintf("%v %v %d%s", names(v.NominatedBefore(asks(priority), b)), names(v.NominatedBelow(asks(priority), b)), pods, each)
	}
	for priority, want := range map[int32]string{
		0: "[p0 p2] [] 2 0[p1] 1[p0 p2]", 1: "[p2] [p0] 1 0[p1] 1[p2]", 20: "[p2] [p0] 1 1[p2]", 21: "[] [p0 p2] 0",
	} {
		if got := look(priority); got != want {
			t.Errorf("a pod of priority %d: %s, want %s", priority, got, want)
		}
	}
	if before := v.NominatedBefore(nominated["p0"], b); fmt.Sprint(names(before)) != "[p2]" {
		t.Errorf("before p0 come %v", names(before))
	}
	for name, want := range map[string]string{"p0": "1 true true", "p1": "0 true true", "p3": "0 false true", "asks": "0 false false"} {
		slot, ok := v.NominatedTo(model.PodKey{Namespace: "ns", Name: name})
		if got := fmt.Sprint(slot, " ", ok, " ", v.IsNominated(model.PodKey{Namespace: "ns", Name: name})); got != want {
			t.Errorf("%s is nominated to %s, want %s", name, got, want)
		}
	}
	if all := maps.Collect(v.NominatedPods()); len(all) != 3 || len(all["b"]) != 2 || v.Nominated() != 4 || s.Nominated() != 4 || v.NominatedNodes() != 2 {
		t.Errorf("nominated are %v, %d pods to %d nodes", all, v.Nominated(), v.NominatedNodes())
	}
	draft := v.Draft()
	draft.Add(nominated["p2"], a)
	v = draft.View()
	if got := look(0); got != "[p0] [] 1 0[p1] 1[p0]" {
		t.Errorf("with p2 on a node in the draft: %s", got)
	}
	v = s.View()
	for step, want := range []int{2, 1, 1, 0} {
		if v.NominatedNodes() != want {
			t.Errorf("%d nodes have nominated pods after %d are gone, want %d", v.NominatedNodes(), step, want)
		}
		s.Apply([]model.Change{podGone([]string{"p1", "p0", "p2", "p3"}[step])})
		if step == 1 {
			version := v.NominationsVersion()
			s.Apply([]model.Change{podGone("p1")})
			if v.NominationsVersion() != version {
				t.Error("a pod that is gone twice changes the version of the nominations")
			}
		}
	}
	audited(t, s)
}

// TestPortsAreCounted adds and removes host ports: a port that two pods hold is in use
// until both are gone.
func TestPortsAreCounted(t *testing.T) {
	var ports portCounts
	http := model.HostPort{Port: 80, Protocol: v1.ProtocolTCP, IP: model.AnyIP}
	dns := model.HostPort{Port: 53, Protocol: v1.ProtocolUDP, IP: "10.0.0.1"}
	for _, step := range []struct {
		port model.HostPort
		n    int32
		want string
	}{{http, 1, "true false"}, {dns, 1, "true true"}, {http, 1, "true true"}, {http, -1, "true true"}, {http, -1, "false true"}, {dns, -1, "false false"}} {
		ports.add([]model.HostPort{step.port}, step.n)
		if got := fmt.Sprint(model.PortConflicts(ports.ports, http), model.PortConflicts(ports.ports, dns)); got != step.want {
			t.Errorf("%+v %+d: in use %s, want %s", step.port, step.n, got, step.want)
		}
	}
	if len(ports.ports)+len(ports.pods) > 0 {
		t.Errorf("ports of no pod are listed: %v", ports)
	}
}

// TestBindingThatFailed checks the result for a failed binding: the newest version
// without its nomination, the error, and the plugins that rejected the pod.
func TestBindingThatFailed(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	pod := podOn("p", "1", "", 1).Pod
	s.Assume(plan.Placement{Pod: pod, NodeName: "a"})
	newer := pod.WithNominatedNode("a")
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: newer}})
	refused := errors.New("refused")
	done := bindDone(pod, "a", refused)
	done.Bind.Rejectors = []string{"Quota"}
	delta := s.Apply([]model.Change{done})
	if len(delta.Failed) != 1 || !errors.Is(delta.Failed[0].Err, refused) || !slices.Equal(delta.Failed[0].Rejectors, []string{"Quota"}) ||
		delta.Failed[0].Pod.NominatedNode != "" || delta.Failed[0].Pod.Object != newer.Object || len(delta.Left) > 0 {
		t.Errorf("failed: %+v, left %v", delta.Failed, delta.Left)
	}
}

// TestEventsOfStorage stores two versions of an object of each kind and removes it,
// twice: each version and the removal is an event, with the objects before and after.
func TestEventsOfStorage(t *testing.T) {
	s := New()
	for want, version := range map[model.EventResource]func() model.Compiled{
		model.PersistentVolumeClaimEvent: func() model.Compiled { return model.NewClaim(build.PersistentVolumeClaim("c", "class=fast")) },
		model.PersistentVolumeEvent:      func() model.Compiled { return model.NewVolume(build.PersistentVolume("v", "class=fast")) },
		model.StorageClassEvent:          func() model.Compiled { return model.NewStorageClass(build.StorageClass("fast", "provisioner=d")) },
		model.CSINodeEvent:               func() model.Compiled { return model.NewCSINode(build.CSINode("a", "d=1")) },
		model.CSIDriverEvent:             func() model.Compiled { return model.NewCSIDriver(build.CSIDriver("d", "")) },
		model.CSIStorageCapacityEvent: func() model.Compiled {
			return model.NewStorageCapacity(build.CSIStorageCapacity("room", "class=fast capacity=1Gi", "zone=x"))
		},
		model.VolumeAttachmentEvent: func() model.Compiled {
			return model.NewVolumeAttachment(build.VolumeAttachment("at", "attacher=d node=b volume=v"))
		},
	} {
		first, second := version(), version()
		gone := model.Change{Kind: model.ObjectGone, Ref: first.Ref()}
		for i, step := range []struct {
			change        model.Change
			action        model.Action
			before, after model.Compiled
		}{{compiled(first), model.Add, nil, first}, {compiled(second), model.Update, first, second}, {gone, model.Delete, second, nil}, {gone, 0, nil, nil}} {
			events := s.Apply([]model.Change{step.change}).Events
			if step.action == 0 {
				if len(events) > 0 {
					t.Errorf("%v is removed twice: %+v", first.Ref(), events)
				}
				continue
			}
			if len(events) != 1 || events[0].Resource != want || events[0].Action != step.action || events[0].OldObject != step.before || events[0].Object != step.after {
				t.Errorf("%v, step %d: %+v", first.Ref(), i, events)
			}
		}
	}
}

// TestEvictedForSeveral evicts a pod for three others: it is leaving until the last of
// these preemptions has failed.
func TestEvictedForSeveral(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), podOn("v", "1", "a", 1)})
	victim := s.placed[model.PodKey{Namespace: "ns", Name: "v"}].pod
	eviction := plan.Eviction{Pod: victim, NodeName: "a"}
	s.Evict(eviction)
	s.Evict(eviction)
	s.Evict(eviction)
	for failed, want := range []bool{true, true, false, false} {
		delta := s.Apply([]model.Change{{Kind: model.PreemptionDone, Preemption: &model.PreemptionResult{Preemptor: victim, Kept: []*model.Pod{victim}}}})
		if got := s.View().IsLeaving(victim); got != want || len(delta.Preempted) != 1 {
			t.Errorf("after %d preemptions have failed the pod is leaving: %t", failed+1, got)
		}
		audited(t, s)
	}
}

// TestNodesThatGoAreInTheJournal removes a node: the journal reports a change of its slot
// in every aspect.
func TestNodesThatGoAreInTheJournal(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a")})
	if entries, ok := s.Since(0); !ok || !slices.Contains(entries, Entry{Slot: 0, Aspects: model.AllAspects}) {
		t.Errorf("of a node that has come the journal has %+v, %t", entries, ok)
	}
	before := s.Version()
	s.Apply([]model.Change{nodeGone("a")})
	if entries, ok := s.Since(before); !ok || !slices.Contains(entries, Entry{Slot: 0, Aspects: model.AllAspects}) {
		t.Errorf("the journal has %+v, %t", entries, ok)
	}
}

// TestFewTopologiesAreKept uses the domains of as many keys as are kept without a use,
// and of another.
func TestFewTopologiesAreKept(t *testing.T) {
	s := New()
	for i := range 64 + 1 {
		s.Domains(TopologyKey{Label: fmt.Sprint("key-", i), AbsentIsEmpty: true})
		want := i + 1
		if want > 64 {
			want = 0
		}
		if s.Apply(nil); len(s.topologies) != want {
			t.Fatalf("after %d keys %d topologies are kept, want %d", i+1, len(s.topologies), want)
		}
	}
}
