package podtopologyspread_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Rows F come from design/rules/topology.md#spread-filter; the others follow the rules
// there.

func TestFilter(t *testing.T) {
	app := wearing("app=x")
	x := func(s string) []*v1.Pod { return fill(s, app) }
	four := func() []*v1.Node { return zoned("a=z1 b=z1 c=z2 d=z3") }
	disks := with(with(with(zoned("a=z1 b=z2 c=z3"), "a", also("disk=ssd")), "b", also("disk=ssd")), "c", also("disk=hdd"))
	taintedZone := with(zoned("a=z1 b=z2 c=z3"), "c", tainted)
	racks := with(with(zoned("a=z1 b=z2 e=z1"), "a", also("rack=r1")), "b", also("rack=r2"))
	both := append(x("a=1 b=1"), fill("a=2", app, ending)...)
	hashes := append(fill("a=3", wearing("app=x hash=v1")), fill("b=1", wearing("app=x hash=v2"))...)
	sameHost := with(with(zoned("a=z1 b=z1 c=z2"), "a", also(host+"=h")), "b", also(host+"=h"))
	two := zoned("a=z1 b=z2")
	ssd := nodeSelector("disk=ssd")
	for _, tt := range []struct {
		row   string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		want  string
	}{
		{"F1", four(), x("a=1 b=1 c=1"), pod(app, hard(zone, "app=x")), "skew skew skew fits"},
		{"F2", four(), x("a=1 b=1 c=1"), pod(wearing("app=y"), hard(zone, "app=x")), "skew skew fits fits"},
		{"F3 min 3", two, x("a=1 b=1"), pod(app, hard(zone, "app=x", domains(3))), "skew skew"},
		{"F3 min 2", two, x("a=1 b=1"), pod(app, hard(zone, "app=x", domains(2))), "fits fits"},
		{"F4", zoned("a=z1 b=z1 c=z2 d="), x("a=1 b=1 c=1"), pod(app, hard(zone, "app=x")), "skew skew fits label"},
		{"F5", zoned("a=z1 b=z2 e="), x("a=1 e=4"), pod(app, hard(zone, "app=x"), hard(host, "app=x")), "skew fits label"},
		{"F6 zone first", racks, x("a=2"), pod(app, hard(zone, "app=x"), hard("rack", "app=x")), "skew fits skew"},
		{"F6 rack first", racks, x("a=2"), pod(app, hard("rack", "app=x"), hard(zone, "app=x")), "skew fits label"},
		{"F7 honor", disks, x("a=1 b=1"), pod(app, ssd, hard(zone, "app=x", affinityPolicy("Honor"))), "fits fits selector"},
		{"F7 default", disks, x("a=1 b=1"), pod(app, ssd, hard(zone, "app=x")), "fits fits selector"},
		{"F7 ignore", disks, x("a=1 b=1"), pod(app, ssd, hard(zone, "app=x", affinityPolicy("Ignore"))), "skew skew selector"},
		{"F8 ignore", taintedZone, x("a=1 b=1"), pod(app, hard(zone, "app=x")), "skew skew taint"},
		{"F8 honor", taintedZone, x("a=1 b=1"), pod(app, hard(zone, "app=x", taintsPolicy("Honor"))), "fits fits taint"},
		{"F9", two, both, pod(app, hard(zone, "app=x")), "fits fits"},
		{"F10 everything", two, x("a=10"), pod(app, hard(zone, "everything")), "fits fits"},
		{"F10 absent", two, x("a=10"), pod(app, hard(zone, "absent")), "fits fits"},
		{"F11", two, hashes, pod(wearing("app=x hash=v2"), hard(zone, "app=x", matchKeys("hash"))), "fits skew"},
		{"F12 before", two, x("a=2 b=1"), pod(app, hard(zone, "app=x")), "skew fits"},
		{"F12 after", two, x("a=1 b=1"), pod(app, hard(zone, "app=x")), "fits fits"},
		{"keys that the pod lacks do not count", two, hashes, pod(app, hard(zone, "app=x", matchKeys("hash"))), "skew fits"},
		{"everything and a key is the key", two, hashes, pod(wearing("hash=v2"), hard(zone, "everything", matchKeys("hash"))), "fits skew"},
		{"nothing and a key is nothing", two, hashes, pod(wearing("hash=v2"), hard(zone, "absent", matchKeys("hash"))), "fits fits"},
		{"merged by the API server", two, hashes, pod(wearing("hash=v2"), hard(zone, "app=x hash=v2", matchKeys("hash"))), "fits fits"},
		{"merged, then relabelled", two, hashes, pod(wearing("hash=v2"), hard(zone, "hash=v1", matchKeys("hash"))), "fits fits"},
		{"other namespaces do not count", two, fill("a=3", app, in("other")), pod(app, hard(zone, "app=x")), "fits fits"},
		{"pods on unknown nodes do not count", two, x("gone=3 a=1 b=1"), pod(app, hard(zone, "app=x")), "fits fits"},
		{"host names are labels", sameHost, x("a=1 b=1 c=1"), pod(app, hard(host, "app=x")), "skew skew fits"},
		{"an empty value is a domain", with(zoned("a=z1 b="), "b", also(zone+"=")), x("a=1"), pod(app, hard(zone, "app=x")), "skew fits"},
		{"no domain at all", zoned("a= b="), x("a=1"), pod(app, hard(zone, "app=x")), "label label"},
		{"everything still demands the label", zoned("a=z1 b="), nil, pod(app, hard(zone, "everything")), "fits label"},
		{"soft keys play no role", two, x("a=1"), pod(app, hard(zone, "app=x"), soft("rack", "app=x")), "skew fits"},
		{"only soft constraints", zoned("a=z1 b="), x("a=9"), pod(app, soft(zone, "app=x")), "fits fits"},
		{"skew of 3", two, x("a=2"), pod(app, hard(zone, "app=x", skew(3))), "fits fits"},
		{"skew of 3 exceeded", two, x("a=3"), pod(app, hard(zone, "app=x", skew(3))), "skew fits"},
		{"the largest skew", two, x("a=3 b=2"), pod(wearing("app=y"), hard(zone, "app=x", skew(1<<31-1))), "fits fits"},
	} {
		b := newBench(t, oracle.Cluster{Nodes: tt.nodes, Pods: tt.pods}, spreadAlone())
		if got := inShort(b.answer(t, tt.pod)); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// A node whose pods do not count is still judged, by the count of its domain. Here the
// profile has only PodTopologySpread.
func TestFilterJudgesNodesThatDoNotCount(t *testing.T) {
	nodes := with(zoned("a=z1 b=z1 c=z2"), "b", tainted)
	p := pod(wearing("app=x"), hard(zone, "app=x", taintsPolicy("Honor")))
	profile := spreadAlone()
	profile.Disabled["TaintToleration"] = true
	for counted, want := range map[string]string{"b=5 c=1": "fits fits skew", "a=1 b=5": "skew skew fits"} {
		b := newBench(t, oracle.Cluster{Nodes: nodes, Pods: fill(counted, wearing("app=x"))}, profile)
		if got := inShort(b.answer(t, p)); got != want {
			t.Errorf("%s: got %s, want %s", counted, got, want)
		}
	}
}

// Changes of the cluster after a need was compiled must show in the next result.
func TestFilterFollowsChanges(t *testing.T) {
	app := wearing("app=x")
	b := newBench(t, oracle.Cluster{Nodes: zoned("a=z1 b=z2"), Pods: fill("a=1", app)}, spreadAlone())
	waiting := pod(app, hard(zone, "app=x"))
	for _, step := range []struct {
		name    string
		changes []model.Change
		want    string
	}{
		{"at first", nil, "skew fits"},
		{"a pod on b", pods(named("new", app, on("b"))), "fits fits"},
		{"it ends", pods(named("new", app, on("b"), ending)), "skew fits"},
		{"another node in another zone", nodes(zoned("c=z3")), "skew fits fits"},
		{"a pod on it, which leaves b", pods(named("c", app, on("c"))), "skew fits skew"},
		{"and one on b", pods(named("b", app, on("b"))), "fits fits fits"},
		{"relabelled", pods(named("b", wearing("app=y"), on("b"))), "skew fits skew"},
		{"a node without a zone", nodes(zoned("b=")), "fits label fits"},
		{"gone", []model.Change{{Kind: model.NodeGone, Name: "c"}}, "fits label"},
	} {
		b.state.Apply(step.changes)
		if got := inShort(b.answer(t, waiting)); got != step.want {
			t.Errorf("%s: got %s, want %s", step.name, got, step.want)
		}
	}
}

func named(name string, parts ...podPart) *v1.Pod {
	p := pod(parts...)
	p.Name = name
	return p
}

func pods(all ...*v1.Pod) []model.Change { return enginetest.Changes(oracle.Cluster{Pods: all}) }

func nodes(all []*v1.Node) []model.Change { return enginetest.Changes(oracle.Cluster{Nodes: all}) }

func TestMessage(t *testing.T) {
	app := wearing("app=x")
	b := newBench(t, oracle.Cluster{Nodes: zoned("a=z1 b=z2 c="), Pods: fill("a=1 b=1", app)}, spreadAlone())
	d := b.engine.Decide(b.state.View(), plan.Alone(b.compile(pod(app, hard(zone, "app=x", domains(3))))))
	want := "0/3 nodes are available: 1 node(s) didn't match pod topology spread constraints (missing required label), " +
		"2 node(s) didn't match pod topology spread constraints."
	if got := d.Rejection.Text(d.Nodes); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A malformed hard selector fails the turn before any node is checked, a malformed soft
// selector when nodes are scored.
func TestSelectorThatCannotBeParsed(t *testing.T) {
	for _, tt := range []struct {
		nodes string
		pod   *v1.Pod
		want  string
	}{
		{"a=z1 b=z2", pod(hard(zone, "app In")), `running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod's hard topology spread constraints: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty`},
		{"a=z1 b=z2", pod(soft(zone, "app In")), `running PreScore plugin "PodTopologySpread": calculating preScoreState: obtaining pod's soft topology spread constraints: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty`},
		{"a=z1 b=z2", pod(wearing("v=1"), hard(zone, "app In", matchKeys("v"))), `running PreFilter plugin "PodTopologySpread": get constraints from pod: obtaining pod's hard topology spread constraints: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty`},
		{"a=z1", pod(soft(zone, "app In")), ""},
	} {
		b := newBench(t, oracle.Cluster{Nodes: zoned(tt.nodes)}, spreadAlone())
		d := b.engine.Decide(b.state.View(), plan.Alone(b.compile(tt.pod)))
		if got := ""; d.Err != nil {
			if got = d.Err.Error(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		} else if tt.want != "" || d.Placement.NodeName != "a" {
			t.Errorf("decided %+v, want the error %s", d, tt.want)
		}
	}
}

// Pods must not share tallies if they differ in the nodes that count for them.
func TestNodesThatCountAreTheirOwn(t *testing.T) {
	nodes := with(with(with(zoned("a=z1 b=z2 c=z3"), "a", also("disk=ssd")), "b", also("disk=ssd")), "c", tainted)
	b := newBench(t, oracle.Cluster{Nodes: nodes, Pods: fill("a=1 b=1", wearing("app=x"))}, spreadAlone())
	both := []constraintPart{taintsPolicy("Honor"), affinityPolicy("Honor")}
	for _, row := range []struct {
		parts []podPart
		want  string
	}{
		{nil, "fits fits taint"},
		{[]podPart{tolerating("a")}, "skew skew fits"},
		{[]podPart{tolerating("a"), nodeSelector("disk=ssd")}, "fits fits selector"},
		{[]podPart{tolerating("z")}, "fits fits taint"},
		{[]podPart{tolerating("a", "z")}, "skew skew fits"},
	} {
		p := pod(append(row.parts, wearing("app=x"), hard(zone, "app=x", both...))...)
		if got := inShort(b.answer(t, p)); got != row.want {
			t.Errorf("%d tolerations, %v: got %s, want %s", len(p.Spec.Tolerations), p.Spec.NodeSelector, got, row.want)
		}
	}
}

// In a dry run each constraint has the differences of its own domains. Here c's pod is
// removed, which empties its zone and its host.
func TestDryRunOfTwoConstraints(t *testing.T) {
	app := wearing("app=x")
	b := newBench(t, oracle.Cluster{Nodes: zoned("a=z1 b=z1 c=z2"), Pods: fill("a=1 c=1", app)}, spreadAlone())
	draft := b.state.View().Draft()
	draft.Remove(model.PodKey{Namespace: v1.NamespaceDefault, Name: "pod-1"})
	for _, row := range []struct {
		pod           *v1.Pod
		before, after string
	}{
		{pod(app, hard(zone, "app=x", skew(5)), hard(host, "app=x")), "skew fits skew", "skew fits fits"},
		{pod(app, hard(host, "app=x", skew(5)), hard(zone, "app=x")), "fits fits fits", "skew skew fits"},
		{pod(app, hard(host, "app=x"), hard(zone, "app=x")), "skew fits skew", "skew skew fits"},
	} {
		for range 2 { // counts of a dry run are not kept
			if got := inShort(b.answer(t, row.pod)); got != row.before {
				t.Errorf("before: got %s, want %s", got, row.before)
			}
			a, err := b.engine.Answer(draft.View(), b.compile(row.pod))
			if err != nil {
				t.Fatal(err)
			}
			if got := inShort(a); got != row.after {
				t.Errorf("in a dry run: got %s, want %s", got, row.after)
			}
		}
	}
}
