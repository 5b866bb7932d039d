package oracle

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The rows F and S come from design/rules/topology.md#spread-filter and #spread-score;
// the others follow the rules there.

func TestSpreadFilter(t *testing.T) {
	app := wearing("app=x")
	x := func(s string) []*v1.Pod { return fill(s, app) }
	four := func() []*v1.Node { return zoned("a=z1 b=z1 c=z2 d=z3") }
	one := x("a=1 b=1 c=1")
	threeZones := func() []*v1.Node { return zoned("a=z1 b=z2 c=z3") }
	disks := func() []*v1.Node {
		return with(with(with(threeZones(), "a", labelled("disk=ssd")), "b", labelled("disk=ssd")), "c", labelled("disk=hdd"))
	}
	taintedZone := func() []*v1.Node { return with(threeZones(), "c", tainted("a=b:NoSchedule")) }
	racks := func() []*v1.Node {
		return with(with(zoned("a=z1 b=z2 e=z1"), "a", labelled("rack=r1")), "b", labelled("rack=r2"))
	}
	both := append(x("a=1 b=1"), fill("a=2", app, ending)...)
	hashes := append(fill("a=3", wearing("app=x hash=v1")), fill("b=1", wearing("app=x hash=v2"))...)
	sameHost := with(with(zoned("a=z1 b=z1 c=z2"), "a", labelled(host+"=h")), "b", labelled(host+"=h"))
	tests := []struct {
		row   string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		want  string
	}{
		{"F1", four(), one, pod(app, hard(zone, "app=x")), "skew skew skew fits"},
		{"F2", four(), one, pod(wearing("app=y"), hard(zone, "app=x")), "skew skew fits fits"},
		{"F3 min 3", zoned("a=z1 b=z2"), x("a=1 b=1"), pod(app, hard(zone, "app=x", domains(3))), "skew skew"},
		{"F3 min 2", zoned("a=z1 b=z2"), x("a=1 b=1"), pod(app, hard(zone, "app=x", domains(2))), "fits fits"},
		{"F4", zoned("a=z1 b=z1 c=z2 d="), one, pod(app, hard(zone, "app=x")), "skew skew fits label"},
		{"F5", zoned("a=z1 b=z2 e="), x("a=1 e=4"), pod(app, hard(zone, "app=x"), hard(host, "app=x")), "skew fits label"},
		{"F6 zone first", racks(), x("a=2"), pod(app, hard(zone, "app=x"), hard("rack", "app=x")), "skew fits skew"},
		{"F6 rack first", racks(), x("a=2"), pod(app, hard("rack", "app=x"), hard(zone, "app=x")), "skew fits label"},
		{"F7 honor", disks(), x("a=1 b=1"), pod(app, nodeSelector("disk=ssd"), hard(zone, "app=x", affinityPolicy("Honor"))), "fits fits selector"},
		{"F7 default", disks(), x("a=1 b=1"), pod(app, nodeSelector("disk=ssd"), hard(zone, "app=x")), "fits fits selector"},
		{"F7 ignore", disks(), x("a=1 b=1"), pod(app, nodeSelector("disk=ssd"), hard(zone, "app=x", affinityPolicy("Ignore"))), "skew skew selector"},
		{"F8 ignore", taintedZone(), x("a=1 b=1"), pod(app, hard(zone, "app=x")), "skew skew taint"},
		{"F8 honor", taintedZone(), x("a=1 b=1"), pod(app, hard(zone, "app=x", taintsPolicy("Honor"))), "fits fits taint"},
		{"F9", zoned("a=z1 b=z2"), both, pod(app, hard(zone, "app=x")), "fits fits"},
		{"F10 everything", zoned("a=z1 b=z2"), x("a=10"), pod(app, hard(zone, "everything")), "fits fits"},
		{"F10 absent", zoned("a=z1 b=z2"), x("a=10"), pod(app, hard(zone, "absent")), "fits fits"},
		{"F11", zoned("a=z1 b=z2"), hashes, pod(wearing("app=x hash=v2"), hard(zone, "app=x", matchKeys("hash"))), "fits skew"},
		{"keys that the pod lacks do not count", zoned("a=z1 b=z2"), hashes, pod(app, hard(zone, "app=x", matchKeys("hash"))), "skew fits"},
		{"everything and a key is the key", zoned("a=z1 b=z2"), hashes, pod(wearing("hash=v2"), hard(zone, "everything", matchKeys("hash"))), "fits skew"},
		{"nothing and a key is nothing", zoned("a=z1 b=z2"), hashes, pod(wearing("hash=v2"), hard(zone, "absent", matchKeys("hash"))), "fits fits"},
		{"merged by the API server", zoned("a=z1 b=z2"), hashes, pod(wearing("hash=v2"), hard(zone, "app=x hash=v2", matchKeys("hash"))), "fits fits"},
		{"merged, then relabelled: nothing matches", zoned("a=z1 b=z2"), hashes, pod(wearing("hash=v2"), hard(zone, "hash=v1", matchKeys("hash"))), "fits fits"},
		{"other namespaces do not count", zoned("a=z1 b=z2"), fill("a=3", app, in("other")), pod(app, hard(zone, "app=x")), "fits fits"},
		{"finished pods do not count", zoned("a=z1 b=z2"), fill("a=3", app, phase("Succeeded")), pod(app, hard(zone, "app=x")), "fits fits"},
		{"pods on unknown nodes do not count", zoned("a=z1 b=z2"), x("gone=3 a=1 b=1"), pod(app, hard(zone, "app=x")), "fits fits"},
		{"host names are labels", sameHost, x("a=1 b=1 c=1"), pod(app, hard(host, "app=x")), "skew skew fits"},
		{"an empty value is a domain", with(zoned("a=z1 b="), "b", labelled(zone+"=")), x("a=1"), pod(app, hard(zone, "app=x")), "skew fits"},
		{"no domain at all", zoned("a= b="), x("a=1"), pod(app, hard(zone, "app=x")), "label label"},
		{"soft keys play no role", zoned("a=z1 b=z2"), x("a=1"), pod(app, hard(zone, "app=x"), soft("rack", "app=x")), "skew fits"},
		{"only soft constraints", zoned("a=z1 b="), x("a=9"), pod(app, soft(zone, "app=x")), "fits fits"},
		{"skew of 3", zoned("a=z1 b=z2"), x("a=2"), pod(app, hard(zone, "app=x", skew(3))), "fits fits"},
		{"skew of 3 exceeded", zoned("a=z1 b=z2"), x("a=3"), pod(app, hard(zone, "app=x", skew(3))), "skew fits"},
	}
	for _, tt := range tests {
		if got := inShort(Judge(cluster(tt.nodes, tt.pods...), tt.pod, DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// A node that does not count is still filtered, with the count of its domain. Only
// PodTopologySpread runs here.
func TestSpreadJudgesNodesThatDoNotCount(t *testing.T) {
	nodes := with(zoned("a=z1 b=z1 c=z2"), "b", tainted("a=b:NoSchedule"))
	p := pod(wearing("app=x"), hard(zone, "app=x", taintsPolicy("Honor")))
	profile := Profile{Disabled: map[string]bool{"TaintToleration": true}}
	for counted, want := range map[string]string{"b=5 c=1": "fits fits skew", "a=1 b=5": "skew skew fits"} {
		if got := inShort(Judge(cluster(nodes, fill(counted, wearing("app=x"))...), p, profile)); got != want {
			t.Errorf("%s: got %s, want %s", counted, got, want)
		}
	}
}

func TestSpreadDryRun(t *testing.T) {
	app := wearing("app=x")
	running, terminating := fill("a=2 b=1", app), append(fill("a=1", app), fill("a=1", app, ending)...)
	everything := fill("a=1", app)
	tests := []struct {
		row           string
		pods          []*v1.Pod
		pod           *v1.Pod
		dryRun        DryRun
		before, after string
	}{
		{"F12", running, pod(app, hard(zone, "app=x")), DryRun{Node: "a", Removed: running[:1]}, "skew fits", "fits"},
		{"F13", terminating, pod(app, hard(zone, "app=x")), DryRun{Node: "a", Removed: terminating[1:]}, "skew fits", "fits"},
		{"added", nil, pod(app, hard(zone, "app=x")), DryRun{Node: "a", Added: []*v1.Pod{pod(app)}}, "fits fits", "skew"},
		{"added elsewhere", nil, pod(app, hard(zone, "app=x")), DryRun{Node: "a", Added: []*v1.Pod{pod(app, in("other"))}}, "fits fits", "fits"},
		{"a selector for everything counts changes", everything, pod(app, hard(zone, "everything")), DryRun{Node: "b", Removed: everything}, "fits fits", "fits"},
		{"and additions", nil, pod(app, hard(zone, "everything")), DryRun{Node: "a", Added: []*v1.Pod{pod(wearing("z=y"))}}, "fits fits", "skew"},
	}
	for _, tt := range tests {
		c := cluster(zoned("a=z1 b=z2"), tt.pods...)
		if got := inShort(Judge(c, tt.pod, DefaultProfile())); got != tt.before {
			t.Errorf("row %s, before: got %s, want %s", tt.row, got, tt.before)
		}
		after, err := JudgeDryRun(c, tt.pod, DefaultProfile(), tt.dryRun)
		if got := word(after); got != tt.after || err != nil {
			t.Errorf("row %s, after: got %s %v, want %s", tt.row, got, err, tt.after)
		}
	}
}

// A count may fall below zero, and then the skew is measured from there.
func TestSpreadDryRunBelowZero(t *testing.T) {
	terminating := fill("a=1", wearing("app=x"), ending)
	c := cluster(zoned("a=z1 b=z1 c=z2"), terminating...)
	cy := newCycle(c, pod(wearing("app=x"), hard(zone, "app=x")), DefaultProfile())
	cy.dryRun = DryRun{Node: "a", Removed: terminating}
	check := spreadFilter(cy)
	// -1 + 1 - -1 = 1, and 0 + 1 - -1 = 2.
	for i, want := range []string{"fits", "fits", "skew"} {
		got := "fits"
		if check(cy.nodes[i]) != nil {
			got = "skew"
		}
		if got != want {
			t.Errorf("node %s: got %s, want %s", cy.nodes[i].Name, got, want)
		}
	}
}

func TestSpreadScore(t *testing.T) {
	app := wearing("app=x")
	x := func(s string) []*v1.Pod { return fill(s, app) }
	abc := func() []*v1.Node { return zoned("a=z1 b=z2 c=") }
	five := zoned("a=z1 b=z1 c=z2 d=z2 e=z3")
	three := with(with(zoned("a=z1 b=z1 c=z2 d=z2 e=z3"), "d", cordoned), "e", cordoned)
	own := pod(app, soft(zone, "app=x"), soft(host, "app=x"))
	zoneOnly := func(parts ...constraintPart) *v1.Pod { return pod(app, soft(zone, "app=x", parts...)) }
	sameHost := with(with(zoned("a=z1 b=z1"), "a", labelled(host+"=h")), "b", labelled(host+"=h"))
	noHost := zoned("a=z1 b=z1 c=z2")
	delete(noHost[2].Labels, host)
	halfHost := zoned("a=z1 b=z1 c=z2")
	delete(halfHost[1].Labels, host)
	tests := []struct {
		row   string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		want  string
	}{
		{"S1", zoned("a=z1 b=z1 c=z2"), x("a=2 b=1"), pod(app), "13 12 6 -> 46 53 100"},
		{"S2", abc(), nil, pod(app), "6 6 2 -> 33 33 100"},
		{"S3", abc(), x("a=1 b=1 c=1"), pod(app), "9 9 4 -> 44 44 100"},
		{"S4", three, x("a=1 d=4 e=9"), own, "3 1 6 -> 66 100 16"},
		{"S5", five, x("a=1 d=4 e=9"), own, "4 2 6 14 32 -> 93 100 87 62 6"},
		{"S6", abc(), x("a=3 b=1"), zoneOnly(), "4 1 0 -> 25 100 0"},
		{"S7", zoned("a=z1 b=z2"), nil, zoneOnly(), "0 0 -> 100 100"},
		{"S8", zoned("a=z1 b=z2"), x("a=9"), pod(app, soft(zone, "everything", skew(4))), "3 3 -> 100 100"},
		{"S9 skew 1", zoned("a=z1 b=z2"), x("a=5 b=2"), zoneOnly(), "7 3 -> 42 100"},
		{"S9 skew 2", zoned("a=z1 b=z2"), x("a=5 b=2"), zoneOnly(skew(2)), "8 4 -> 50 100"},
		{"S9 skew 5", zoned("a=z1 b=z2"), x("a=5 b=2"), zoneOnly(skew(5)), "11 7 -> 63 100"},
		{"no constraints, no service", abc(), x("a=1"), pod(wearing("app=y")), "skip"},
		{"hard ones alone keep the defaults away", zoned("a=z1 b=z2"), nil, pod(app, hard(zone, "app=x")), "skip"},
		{"all ignored", zoned("a= b="), x("a=3"), zoneOnly(), "0 0 -> 0 0"},
		// 2 ln 4, ln 4.
		{"host names are nodes", sameHost, x("a=2 b=1"), pod(app, soft(host, "app=x")), "3 1 -> 33 100"},
		// Hosts ln 5, zones ln 4.
		{"and weigh as nodes, labels or not", noHost, x("a=1 c=5"), pod(app), "9 7 11 -> 81 100 63"},
		// Hosts ln 4
		{"ignored nodes do not weigh", noHost, x("a=1 c=5"), pod(app, soft(host, "app=x")), "1 0 0 -> 0 100 0"},
		// 2 ln 4
		{"ignored for another key, pods too", abc(), x("a=1 b=0 c=7"), own, "3 0 0 -> 0 100 0"},
		// Zones and hosts ln 4.
		{"ignored in a zone that is not", halfHost, x("b=5 c=1"), own, "0 0 3 -> 100 0 0"},
		// Hosts and zones ln 5.
		{"no zone is a zone to the weight", abc(), x("a=3 b=3 c=3"), pod(app), "16 16 7 -> 43 43 100"},
		{"minDomains plays no role", zoned("a=z1 b=z2"), x("a=5 b=2"), zoneOnly(skew(2), domains(9)), "8 4 -> 50 100"},
	}
	for _, tt := range tests {
		c := cluster(tt.nodes, tt.pods...)
		c.Services = []*v1.Service{service(labelsOf("app=x"))}
		if got := marks(Judge(c, tt.pod, DefaultProfile()), spreadName); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// With the System defaults an absent zone is the domain "", which a node can also have by
// label.
func TestSpreadScoreEmptyZone(t *testing.T) {
	c := cluster(with(zoned("a=z1 b= c="), "c", labelled(zone+"=")), fill("b=3", wearing("app=x"))...)
	c.Services = []*v1.Service{service(labelsOf("app=x"))}
	// hosts weigh ln 5, zones ln 4: a 2 + 4, b 3 ln 5 + 2, c 2 + 3 ln 4 + 4.
	if got, want := marks(Judge(c, pod(wearing("app=x")), DefaultProfile()), spreadName), "6 7 10 -> 100 90 60"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// In scoring, the policies choose the nodes whose pods count for a domain, but a host's
// own pods always count.
func TestSpreadScorePolicies(t *testing.T) {
	nodes := with(zoned("a=z1 b=z1 c=z2"), "b", tainted("a=b:NoSchedule"))
	c := cluster(nodes, fill("a=1 b=4 c=2", wearing("app=x"))...)
	profile := Profile{Disabled: map[string]bool{"TaintToleration": true}}
	tests := []struct {
		constraint podPart
		want       string
	}{
		{soft(zone, "app=x"), "7 7 3 -> 42 42 100"}, // zones ln 4
		{soft(zone, "app=x", taintsPolicy("Honor")), "1 1 3 -> 100 100 33"},
		{soft(host, "app=x", taintsPolicy("Honor")), "2 6 3 -> 100 33 83"}, // hosts ln 5
	}
	for i, tt := range tests {
		if got := marks(Judge(c, pod(wearing("app=x"), tt.constraint), profile), spreadName); got != tt.want {
			t.Errorf("row %d: got %s, want %s", i, got, tt.want)
		}
	}
}

func listed(constraints ...v1.TopologySpreadConstraint) Profile {
	return Profile{Spread: configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting, DefaultConstraints: constraints}}
}

func TestSpreadListDefaults(t *testing.T) {
	hardZone := v1.TopologySpreadConstraint{TopologyKey: zone, MaxSkew: 1, WhenUnsatisfiable: v1.DoNotSchedule, MatchLabelKeys: []string{"hash"}}
	softZone := v1.TopologySpreadConstraint{TopologyKey: zone, MaxSkew: 1, WhenUnsatisfiable: v1.ScheduleAnyway}
	app := wearing("app=x hash=v2")
	tests := []struct {
		name     string
		profile  Profile
		pod      *v1.Pod
		verdicts string
		marks    string
	}{
		{"empty list", listed(), pod(app), "fits fits fits", "skip"},
		{"hard; its matchLabelKeys do nothing", listed(hardZone), pod(app), "skew fits label", "skip"},
		// Zones ln 4
		{"soft: an absent label is not forgiven", listed(softZone), pod(app), "fits fits fits", "1 0 0 -> 0 100 0"},
		{"both", listed(softZone, hardZone), pod(app), "skew fits label", "0 -> 100"},
		{"own constraints of the other action", listed(hardZone), pod(app, soft(zone, "app=x")), "fits fits fits", "1 0 0 -> 0 100 0"},
		{"no service", listed(hardZone, softZone), pod(wearing("app=y")), "fits fits fits", "skip"},
	}
	for _, tt := range tests {
		c := cluster(zoned("a=z1 b=z2 c="), fill("a=1 c=3", wearing("app=x hash=v1"))...)
		c.Services = []*v1.Service{service(labelsOf("app=x"))}
		a := Judge(c, tt.pod, tt.profile)
		if got := inShort(a); got != tt.verdicts {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.verdicts)
		}
		if got := marks(a, spreadName); got != tt.marks {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.marks)
		}
	}
}

// The rules come from design/rules/topology.md#derived-selector. The expected selector
// is written as the pods that it selects. "all" means that no default constraints apply.
func TestDerivedSelector(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	elsewhere := service(labelsOf("app=x"))
	elsewhere.Namespace = "other"
	x, tier, empty, none := service(labelsOf("app=x")), service(labelsOf("tier=t")), service(labelsOf("")), service(nil)
	c := Cluster{
		ReplicationControllers: []*v1.ReplicationController{{ObjectMeta: meta("rc"), Spec: v1.ReplicationControllerSpec{Selector: labelsOf("app=y")}}},
		ReplicaSets: []*appsv1.ReplicaSet{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "rs"}, Spec: appsv1.ReplicaSetSpec{Selector: choose("app=z")}},
			{ObjectMeta: meta("rs"), Spec: appsv1.ReplicaSetSpec{Selector: choose("tier Exists")}},
			{ObjectMeta: meta("nil")},
		},
		StatefulSets: []*appsv1.StatefulSet{{ObjectMeta: meta("set"), Spec: appsv1.StatefulSetSpec{Selector: choose("app NotIn x")}}},
	}
	samples := []string{"app=x", "app=x tier=t", "app=y", "tier=t"}
	tests := []struct {
		name     string
		services []*v1.Service
		owner    podPart
		want     string
	}{
		{"nothing", nil, nil, "all"},
		{"a service", []*v1.Service{x}, nil, "[app=x app=x tier=t]"},
		{"two services", []*v1.Service{x, tier}, nil, "[app=x tier=t]"},
		{"services that add nothing", []*v1.Service{none, empty, elsewhere, service(labelsOf("app=y"))}, nil, "all"},
		{"replication controller", nil, ownedBy("v1", "ReplicationController", "rc"), "[app=y]"},
		{"replication controller overrides", []*v1.Service{x, tier}, ownedBy("v1", "ReplicationController", "rc"), "[]"},
		{"replica set", nil, ownedBy("apps/v1", "ReplicaSet", "rs"), "[app=x tier=t tier=t]"},
		{"replica set and service", []*v1.Service{x}, ownedBy("apps/v1", "ReplicaSet", "rs"), "[app=x tier=t]"},
		{"replica set without selector", []*v1.Service{x}, ownedBy("apps/v1", "ReplicaSet", "nil"), "[app=x app=x tier=t]"},
		{"replica set without selector, alone", nil, ownedBy("apps/v1", "ReplicaSet", "nil"), "all"},
		{"stateful set", nil, ownedBy("apps/v1", "StatefulSet", "set"), "[app=y tier=t]"},
		{"stateful set against service", []*v1.Service{x}, ownedBy("apps/v1", "StatefulSet", "set"), "[]"},
		{"unknown owner", nil, ownedBy("apps/v1", "ReplicaSet", "gone"), "all"},
		{"other kind", nil, ownedBy("batch/v1", "Job", "rs"), "all"},
		{"other version", nil, ownedBy("apps/v1beta1", "ReplicaSet", "rs"), "all"},
		{"owner that is not the controller", nil, func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs"}}
		}, "all"},
	}
	for _, tt := range tests {
		c.Services = tt.services
		p := pod(wearing("app=x tier=t"))
		if tt.owner != nil {
			tt.owner(p)
		}
		s := newCycle(c, p, DefaultProfile()).defaultSelector()
		got := "all"
		if !s.everything() {
			var chosen []string
			for _, sample := range samples {
				if s.matches(labelsOf(sample)) {
					chosen = append(chosen, sample)
				}
			}
			got = fmt.Sprint(chosen)
		}
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A malformed selector of a hard constraint fails the cycle before any node is filtered.
// A soft constraint's selector fails it when nodes are scored.
func TestSpreadSelectorThatDoesNotParse(t *testing.T) {
	two := zoned("a=z1 b=z2")
	a := Judge(cluster(two), pod(hard(zone, "app In")), DefaultProfile())
	if want := `running PreFilter plugin "PodTopologySpread": get constraints from pod: label "app": In without values`; a.Err == nil || a.Err.Error() != want || a.Nodes != nil {
		t.Errorf("hard: got %v, %v", a.Err, a.Nodes)
	}
	a = Judge(cluster(two), pod(soft(zone, "app In")), DefaultProfile())
	if want := `running PreScore plugin "PodTopologySpread": label "app": In without values`; a.Err == nil || a.Err.Error() != want || a.Feasible != 2 {
		t.Errorf("soft: got %v, %d", a.Err, a.Feasible)
	}
	if a = Judge(cluster(two[:1]), pod(soft(zone, "app In")), DefaultProfile()); a.Err != nil || len(a.Best) != 1 {
		t.Errorf("soft, one node: got %v, %v", a.Err, a.Best)
	}
}
