package state

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestUse adds up hypothetical uses of a node.
func TestUse(t *testing.T) {
	s := New()
	gpu := func(name, node string) *model.Pod {
		p := podOn(name, name, node, 2).Pod.Object
		p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		return model.NewPod(p)
	}
	s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: gpu("p", "a")}})
	slot, _ := s.Slot("a")
	var use, other Use
	look := func(u *Use) string {
		used, pods := u.Used()
		n := s.View().NodeWith(slot, u)
		if n.Used() != used || n.PodCount() != pods || n.Name() != "a" {
			t.Errorf("the node with the use has %d pods and %+v", n.PodCount(), n.Used())
		}
		var scalars []string
		for _, x := range used.Scalars {
			scalars = append(scalars, fmt.Sprint(x.Value))
		}
		return fmt.Sprint(used.CPUMilli, " ", pods, " gpu ", strings.Join(scalars, ","))
	}
	step := func(what, want string, u *Use) {
		t.Helper()
		if got := look(u); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	use.Reset(s.View().Node(slot))
	step("the node's own", "2000 1 gpu 1", &use)
	pod := gpu("q", "")
	use.Add(pod, +1)
	step("with a pod", "4000 2 gpu 2", &use)
	band := Band{Pods: 2}
	band.Used.Add(&pod.Occupies, +1)
	band.Used.Add(&pod.Occupies, +1)
	use.RemoveBand(&band)
	step("without a band of two", "0 0 gpu 0", &use)
	use.Add(pod, +1)
	use.Add(pod, +1)
	other.Copy(&use)
	step("a copy", "4000 2 gpu 2", &other)
	other.Add(pod, -1)
	step("the copy without the pod", "2000 1 gpu 1", &other)
	step("what was copied", "4000 2 gpu 2", &use)
	use.Reset(s.View().Node(slot))
	step("the node's own again", "2000 1 gpu 1", &use)
	if used := s.Node(slot).Used(); used.CPUMilli != 2000 || used.Scalars[0].Value != 1 {
		t.Errorf("the state: %+v", used)
	}
}

// TestPriorities checks for pods of lower priority, on nodes and in drafts.
func TestPriorities(t *testing.T) {
	s := New()
	with := func(name, node string, priority int32) *model.Pod {
		p := podOn(name, name, node, 1).Pod.Object
		p.Spec.Priority = &priority
		return model.NewPod(p)
	}
	s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: with("p", "a", 10)}})
	slot, _ := s.Slot("a")
	draft := s.View().Draft()
	draft.Add(with("q", "", 5), slot)
	draft.Remove(model.PodKey{Namespace: "ns", Name: "p"})
	for priority, want := range map[int32]string{5: "false false", 6: "false true", 10: "false true", 11: "true true"} {
		if got := fmt.Sprint(s.View().PodsBelow(priority), draft.View().PodsBelow(priority)); got != want {
			t.Errorf("pods below %d in the state and in the draft: %s, want %s", priority, got, want)
		}
	}
	version := s.Node(slot).BandsVersion()
	if s.Apply([]model.Change{node("a")}); s.Node(slot).BandsVersion() != version {
		t.Error("a heartbeat of the node changes the version of its bands")
	}
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: with("p", "a", 3)}})
	if b := s.Node(slot).Bands(); s.Node(slot).BandsVersion() == version || len(b) != 1 || b[0].Priority != 3 || !s.View().PodsBelow(4) || s.View().PodsBelow(3) {
		t.Errorf("a pod of another priority: %+v", b)
	}
	audited(t, s)
}

// TestDraftHolds puts removed pods back: they have their holds again on the same node,
// and not on another.
func TestDraftHolds(t *testing.T) {
	volume, other := model.Ref{Name: "volume"}, model.Ref{Name: "other"}
	s := New()
	s.Apply([]model.Change{node("a"), node("b")})
	pod := podOn("p", "p", "", 1).Pod
	s.Assume(plan.Placement{Pod: pod, NodeName: "a", Holds: []plan.Hold{{Plugin: "Volumes", Object: volume, Value: numbered(1)}}})
	a, _ := s.Slot("a")
	b, _ := s.Slot("b")
	again, fresh, plain := podOn("p", "another", "", 1).Pod, podOn("fresh", "fresh", "", 1).Pod, podOn("plain", "plain", "a", 1).Pod
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: plain}})
	for _, row := range []struct {
		what string
		do   func(d *Draft)
		want int
	}{
		{"nothing", func(*Draft) {}, 1},
		{"taken off", func(d *Draft) { d.Remove(pod.Key()) }, 0},
		{"put back", func(d *Draft) { d.Remove(pod.Key()); d.Add(pod, a) }, 1},
		{"put back twice", func(d *Draft) { d.Remove(pod.Key()); d.Add(pod, a); d.Remove(pod.Key()); d.Add(pod, a) }, 1},
		{"on another node", func(d *Draft) { d.Remove(pod.Key()); d.Add(pod, b) }, 0},
		{"back from another node", func(d *Draft) { d.Remove(pod.Key()); d.Add(pod, b); d.Remove(pod.Key()); d.Add(pod, a) }, 0},
		{"a new pod, put back", func(d *Draft) {
			d.Add(fresh, a, plan.Hold{Plugin: "Volumes", Object: volume, Value: numbered(4)})
			d.Remove(fresh.Key())
			d.Add(fresh, a)
		}, 2},
		{"one without holds, put back", func(d *Draft) { d.Remove(plain.Key()); d.Add(plain, a) }, 1},
		{"another pod of the name", func(d *Draft) { d.Remove(pod.Key()); d.Add(again, a) }, 0},
		{"the pod after another of the name", func(d *Draft) { d.Remove(pod.Key()); d.Add(again, a); d.Remove(pod.Key()); d.Add(pod, a) }, 1},
		{"with another hold", func(d *Draft) { d.Remove(pod.Key()); d.Add(pod, a, plan.Hold{Plugin: "Volumes", Object: other}) }, 0},
		{"with another hold, taken off and put back", func(d *Draft) {
			d.Remove(pod.Key())
			d.Add(pod, a, plan.Hold{Plugin: "Volumes", Object: volume, Value: numbered(2)}, plan.Hold{Plugin: "Volumes", Object: volume, Value: numbered(3)})
			d.Remove(pod.Key())
			d.Add(pod, a)
		}, 2},
	} {
		d := s.View().Draft()
		row.do(d)
		if held := d.View().Holders(volume); len(held) != row.want {
			t.Errorf("%s: the volume is held by %+v", row.what, held)
		}
		if on := d.On(pod.Key()); on == (row.what == "taken off") {
			t.Errorf("%s: the pod is on a node: %t", row.what, on)
		}
	}
}

// TestDraftsBegunAnew reuses the memory of a draft: after the state has changed, with
// other differences, and from a draft.
func TestDraftsBegunAnew(t *testing.T) {
	s := New()
	zones := func(a, b string) {
		s.Apply([]model.Change{inZone("a", a), inZone("b", b)})
	}
	zones("x", "x")
	a, _ := s.Slot("a")
	b, _ := s.Slot("b")
	apart := func(name string) *model.Pod {
		p := build.Pod(build.Named(name), build.Labels("app=web"), build.RequiredAntiAffinity(build.Term("zone", "app=web")))
		p.UID = types.UID(name)
		return model.NewPod(p)
	}
	domains := func(v View) string {
		text := ""
		v.TermDifferences(apart("asks"), func(t Matching, differences []Difference) {
			text += fmt.Sprintf("%t%v%t%d", t.Domains()[a] == t.Domains()[b], differences, t.InState(), len(v.TermDifference(t.TermCounts)))
		})
		return text
	}
	d := new(Draft)
	s.View().DryRun(d)
	trail := d.View().Trail()
	d.Add(apart("p"), a)
	d.Add(apart("q"), b)
	if got := domains(d.View()); got != "true[{0 2}]false1" || d.View().Trail() != trail {
		t.Errorf("two nodes in one zone: %s", got)
	}
	key := TopologyKey{Label: "zone"}
	own := d.topologies[key]
	if own == nil || d.topology(key) != own || s.topologies[key] != nil {
		t.Error("the draft has no domains of its own, or the state has")
	}
	from := d.View().Draft()
	if got := domains(from.View()); got != "true[{0 2}]false1" || from.topology(key) != own {
		t.Errorf("a draft of the draft: %s", got)
	}
	s.View().DryRun(d)
	if got := domains(d.View()); got != "" || d.topologies[key] != own || d.View().Trail() == trail || !d.View().Trail().SameDraft(trail) {
		t.Errorf("begun anew: %q", got)
	}
	if s.View().Trail() != (Trail{}) || from.View().Trail().SameDraft(trail) {
		t.Error("the trails of a state and of another draft are those of the draft")
	}
	zones("x", "y")
	s.View().DryRun(d)
	d.Add(apart("p"), a)
	d.Add(apart("q"), b)
	if got := domains(d.View()); got != "false[{0 1} {1 1}]false2" {
		t.Errorf("two nodes in two zones: %s", got)
	}
	other := New()
	other.Apply([]model.Change{
		{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.NodeLabels("zone=x")))}, {Kind: model.NodeSet, Node: model.NewNode(build.Node("b", build.NodeLabels("zone=x")))},
	})
	for other.Version() < s.Version() {
		other.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.NodeLabels(fmt.Sprint("zone=x version=", other.Version()))))}})
	}
	other.View().DryRun(d)
	d.Add(apart("p"), a)
	d.Add(apart("q"), b)
	if got := domains(d.View()); got != "true[{0 2}]false1" || other.Version() != s.Version() {
		t.Errorf("of another state in version %d and %d: %s", other.Version(), s.Version(), got)
	}
}

// TestChangesOfADraft lists the changes of a draft, and its view of the changed nodes.
func TestChangesOfADraft(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b"), podOn("p", "p", "a", 2)})
	a, _ := s.Slot("a")
	b, _ := s.Slot("b")
	d := s.View().Draft()
	d.Remove(model.PodKey{Namespace: "ns", Name: "p"})
	d.Add(podOn("q", "q", "", 1).Pod, a)
	d.Add(podOn("r", "r", "", 1).Pod, a)
	d.Remove(model.PodKey{Namespace: "ns", Name: "r"})
	v := d.View()
	list := func(n int) (all string) {
		for c := range v.ChangesFrom(n) {
			if all += fmt.Sprintf("%+d%s@%d ", c.N, c.Pod.Name, c.Slot-a); c.Pod.Name == "stop" {
				break
			}
		}
		return all
	}
	for n, want := range []string{"-1p@0 +1q@0 +1r@0 -1r@0 ", "+1q@0 +1r@0 -1r@0 ", "+1r@0 -1r@0 ", "-1r@0 ", ""} {
		if got := list(n); got != want {
			t.Errorf("changes from %d on: %q, want %q", n, got, want)
		}
	}
	for range v.ChangesFrom(0) {
		break
	}
	for c := range s.View().ChangesFrom(0) {
		t.Errorf("the state has the change %+v", c)
	}
	changed := ""
	v.Node(a).Changes(func(pod *model.Pod, n int32) bool {
		changed += fmt.Sprintf("%+d%s ", n, pod.Name)
		return pod.Name != "q"
	})
	s.View().Node(a).Changes(func(pod *model.Pod, _ int32) bool { t.Errorf("the state has %s as a change", pod.Name); return true })
	if changed != "-1p +1q " {
		t.Errorf("changes of the node up to q: %q", changed)
	}
	pods := func(v View, slot int32) (names []string) {
		for pod := range v.PodsOn(slot) {
			names = append(names, pod.Name)
		}
		return names
	}
	if got := fmt.Sprint(pods(v, a), pods(v, b), pods(s.View(), a), v.Touched(), v.IsTouched(a), v.IsTouched(b), s.View().IsTouched(a), len(s.View().Touched())); got !=
		fmt.Sprint("[q] [] [p] ", []int32{a}, " true false false 0") {
		t.Errorf("pods on the nodes: %s", got)
	}
	for range v.PodsOn(a) {
		break
	}
	cpu, memory := v.Node(a).NonZeroUsed()
	before, _ := s.View().Node(a).NonZeroUsed()
	if cpu != 1000 || memory == 0 || before != 2000 || v.Node(a).Used().CPUMilli != 1000 || v.Node(a).PodCount() != 1 || !v.Node(a).PortInUse([]model.HostPort{{Port: 80, Protocol: v1.ProtocolTCP, IP: model.AnyIP}}) {
		t.Errorf("cpu %d, memory %d, before %d", cpu, memory, before)
	}
	if v.Node(b).PortInUse([]model.HostPort{{Port: 80, Protocol: v1.ProtocolTCP, IP: model.AnyIP}}) || v.Node(b).PodCount() != 0 {
		t.Error("the other node is in use")
	}
}

// TestWrongCallsPanic makes calls that no decision on this state can require: each
// panics, with the reason in its message.
func TestWrongCallsPanic(t *testing.T) {
	s := New()
	assumed := podOn("assumed", "1", "", 1).Pod
	s.Apply([]model.Change{node("a"), podOn("p", "p", "a", 2)})
	s.Assume(placementOf(assumed, "a"))
	pod := func(name, uid string) *model.Pod { return podOn(name, uid, "", 1).Pod }
	for want, wrong := range map[string]func(){
		"state: draft: add pod ns/p, which is on a node":                          func() { s.View().Draft().Add(pod("p", "p"), 0) },
		"state: draft: remove pod ns/q, which is on no node":                      func() { s.View().Draft().Remove(pod("q", "q").Key()) },
		"state: assume pod ns/x on node x: pod placed: false, node exists: false": func() { s.Assume(placementOf(pod("x", "x"), "x")) },
		"state: assume pod ns/p on node a: pod placed: true, node exists: true":   func() { s.Assume(placementOf(pod("p", "p"), "a")) },
		"state: unassume pod ns/p, which is not assumed":                          func() { s.Unassume(placementOf(pod("p", "p"), "a")) },
		"state: unassume pod ns/x, which is not assumed":                          func() { s.Unassume(placementOf(pod("x", "x"), "a")) },
		"state: unassume pod ns/assumed, which is not assumed":                    func() { s.Unassume(placementOf(pod("assumed", "2"), "a")) },
		"state: unknown kind of change 99":                                        func() { s.Apply([]model.Change{{Kind: 99}}) },
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); got != want {
					t.Errorf("the panic says %q, want %q", got, want)
				}
			}()
			wrong()
		}()
	}
	audited(t, s)
}
