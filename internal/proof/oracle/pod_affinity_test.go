package oracle

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// The rows A and B come from design/rules/topology.md#affinity-filter and
// #affinity-score; the others follow the rules there.

func fourNodes() []*v1.Node { return zoned("n1=z1 n2= n3=z2 n4=z1") }

func TestPodAffinityFilter(t *testing.T) {
	db, web := wearing("app=db"), wearing("app=web")
	zoneDB, hostDB := term(zone, "app=db"), term(host, "app=db")
	toZone := pod(db, near(zoneDB))
	dbAndTier := pod(web, near(zoneDB, term(zone, "tier=c")))
	a5 := append(fill("n1=1", db), fill("n4=1", wearing("tier=c"))...)
	a6 := append(fill("n1=1", db), fill("n4=1", wearing("tier=c"), wearing("app=db tier=c"))...)
	a10 := pod(web, near(hostDB), apart(term(zone, "app=web")))
	first := func(t v1.PodAffinityTerm) *v1.Pod { return pod(db, near(t)) }
	tests := []struct {
		row  string
		pods []*v1.Pod
		pod  *v1.Pod
		want string
	}{
		{"A1", nil, toZone, "fits affinity fits fits"},
		{"A2", fill("n2=1", db), toZone, "fits affinity fits fits"},
		{"A3", fill("n1=1", db), toZone, "fits affinity affinity fits"},
		{"A4", fill("n1=1", db), pod(db, near(zoneDB, hostDB)), "fits affinity affinity affinity"},
		{"A5", a5, dbAndTier, "affinity affinity affinity affinity"},
		{"A6", a6, dbAndTier, "fits affinity affinity fits"},
		{"A7", fill("n1=1", web, ending), pod(apart(term(zone, "app=web"))), "anti fits fits anti"},
		{"A8", fill("n1=1", apart(hostDB)), pod(db), "existing fits fits fits"},
		{"A10", append(fill("n3=1", web), fill("n1=1", db)...), a10, "fits affinity affinity affinity"},
		{"A12", fill("n1=1", db), pod(db, near(term(zone, "absent"))), "affinity affinity affinity affinity"},
		{"first, but not like itself", nil, pod(web, near(zoneDB)), "affinity affinity affinity affinity"},
		{"first, but not in a namespace of the term", nil, first(term(zone, "app=db", inNamespaces("other"))), "affinity affinity affinity affinity"},
		{"first, in a listed namespace", nil, first(term(zone, "app=db", inNamespaces("other", "default"))), "fits affinity fits fits"},
		{"first, with keys for some nodes only", nil, pod(db, near(zoneDB, term("rack", "app=db"))), "affinity affinity affinity affinity"},
		{"different pods serve different terms", append(fill("n1=1", db), fill("n3=1", db)...), pod(db, near(zoneDB, hostDB)), "fits affinity fits affinity"},
		{"other namespaces do not count", fill("n1=1", db, in("other")), pod(apart(zoneDB)), "fits fits fits fits"},
		{"own anti-affinity without the key", fill("n2=1", db), pod(apart(zoneDB)), "fits fits fits fits"},
		{"existing anti-affinity without the key", fill("n2=1", apart(zoneDB)), pod(db), "fits fits fits fits"},
		{"existing anti-affinity by zone", fill("n1=1", apart(zoneDB)), pod(db), "existing fits fits existing"},
		{"existing anti-affinity of a finished pod", fill("n1=1", apart(zoneDB), phase("Failed")), pod(db), "fits fits fits fits"},
		{"own before existing", fill("n1=1", db, apart(hostDB)), pod(db, apart(zoneDB)), "anti fits fits anti"},
		{"everything means every pod of the namespace", fill("n1=1", web), pod(apart(term(host, "everything"))), "anti fits fits fits"},
		{"nothing repels nobody", fill("n1=1", web), pod(apart(term(host, "absent"))), "fits fits fits fits"},
	}
	for _, tt := range tests {
		if got := inShort(Judge(cluster(fourNodes(), tt.pods...), tt.pod, DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// The namespaces that a term selects: design/rules/topology.md#terms. The other pod is
// in namespace a, the pending pod in b.
func TestPodAffinityNamespaces(t *testing.T) {
	x, bare := []*v1.Namespace{namespace("a", "team=x"), namespace("b", "team=x")}, []*v1.Namespace{namespace("a", ""), namespace("b", "")}
	tests := []struct {
		row         string
		namespaces  []*v1.Namespace
		parts       []termPart
		own, theirs bool // whether the term selects the other pod
	}{
		{"A9 team=x", x, []termPart{whereNamespace("team=x")}, true, true},
		{"A9 unlabelled", bare, []termPart{whereNamespace("team=x")}, false, false},
		{"nothing said: the owner's", x, nil, false, false},
		{"listed", x, []termPart{inNamespaces("a", "b")}, true, true},
		{"listed, others", x, []termPart{inNamespaces("c")}, false, false},
		{"listed or chosen", bare, []termPart{inNamespaces("a", "b"), whereNamespace("team=x")}, true, true},
		{"any", x, []termPart{whereNamespace("everything")}, true, true},
		{"any, unknown", nil, []termPart{whereNamespace("everything")}, true, true},
		{"without a label", bare, []termPart{whereNamespace("team NotIn x")}, true, true},
		{"without a label, unknown", nil, []termPart{whereNamespace("team NotIn x")}, false, true},
	}
	want := map[bool]string{true: "repelled fits fits repelled", false: "fits fits fits fits"}
	for _, tt := range tests {
		c := cluster(fourNodes(), pod(in("a"), wearing("app=db"), on("n1")))
		c.Namespaces = tt.namespaces
		got := inShort(Judge(c, pod(in("b"), apart(term(zone, "app=db", tt.parts...))), DefaultProfile()))
		if want := strings.ReplaceAll(want[tt.own], "repelled", "anti"); got != want {
			t.Errorf("row %s, own term: got %s, want %s", tt.row, got, want)
		}
		c.Pods = []*v1.Pod{pod(in("a"), on("n1"), apart(term(zone, "app=db", tt.parts...)))}
		got = inShort(Judge(c, pod(in("b"), wearing("app=db")), DefaultProfile()))
		if want := strings.ReplaceAll(want[tt.theirs], "repelled", "existing"); got != want {
			t.Errorf("row %s, their term: got %s, want %s", tt.row, got, want)
		}
	}
}

// A namespace selector does not include the pod's own namespace unless it matches it.
func TestPodAffinitySelectorDoesNotImplyOwnNamespace(t *testing.T) {
	c := cluster(zoned("n1=z1"), pod(wearing("app=db"), on("n1")))
	c.Namespaces = []*v1.Namespace{namespace("default", ""), namespace("other", "team=x")}
	if got := inShort(Judge(c, pod(apart(term(zone, "app=db", whereNamespace("team=x")))), DefaultProfile())); got != "fits" {
		t.Errorf("got %s", got)
	}
}

func TestPodAffinityDryRun(t *testing.T) {
	db := wearing("app=db")
	nominated := pod(apart(term(host, "app=db")))
	placed := fill("n1=1", db, apart(term(zone, "app=db")))
	tests := []struct {
		row    string
		pods   []*v1.Pod
		pod    *v1.Pod
		dryRun DryRun
		want   string
	}{
		{"A11", nil, pod(db), DryRun{Node: "n1", Added: []*v1.Pod{nominated}}, "fits"},
		{"not skipped for own terms", nil, pod(db, apart(term(zone, "app=web"))), DryRun{Node: "n1", Added: []*v1.Pod{nominated}}, "existing"},
		{"not skipped for others' terms", fill("n3=1", apart(term(zone, "app=db"))), pod(db), DryRun{Node: "n1", Added: []*v1.Pod{nominated}}, "existing"},
		{"own anti-affinity with an added pod", nil, pod(apart(term(zone, "app=db"))), DryRun{Node: "n4", Added: []*v1.Pod{pod(db)}}, "anti"},
		{"affinity with an added pod", fill("n3=1", db), pod(near(term(zone, "app=db"))), DryRun{Node: "n1", Added: []*v1.Pod{pod(db)}}, "fits"},
		{"repelling pod removed", placed, pod(db), DryRun{Node: "n1", Removed: placed}, "fits"},
		{"last matching pod removed", placed, pod(wearing("app=web"), near(term(zone, "app=db"))), DryRun{Node: "n1", Removed: placed}, "affinity"},
		{"last matching pod removed: first again", placed, pod(db, near(term(zone, "app=db"))), DryRun{Node: "n1", Removed: placed}, "fits"},
		{"a node that does not exist", nil, pod(db), DryRun{Node: "n9"}, "fits"},
	}
	for _, tt := range tests {
		got, err := JudgeDryRun(cluster(fourNodes(), tt.pods...), tt.pod, DefaultProfile(), tt.dryRun)
		if word(got) != tt.want || err != nil {
			t.Errorf("row %s: got %s %v, want %s", tt.row, word(got), err, tt.want)
		}
	}
}

func TestPodAffinityScore(t *testing.T) {
	a, b := wearing("app=a"), wearing("app=b")
	zoneA, zoneB := term(zone, "app=a"), term(zone, "app=b")
	three, two := zoned("n1=z1 n2=z2 n3=z3"), zoned("n1=z1 n2=z2")
	withoutZ3 := with(zoned("n1=z1 n2=z2 n3=z3"), "n3", cordoned)
	hardWeight := func(w int32) Profile {
		return Profile{PodAffinity: configv1.InterPodAffinityArgs{HardPodAffinityWeight: &w}}
	}
	ignoring := Profile{PodAffinity: configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}}
	none := DefaultProfile()
	both := append(fill("n1=1", a), fill("n2=1", b)...)
	likeA := pod(likes(5, zoneA))
	cancel := pod(likes(5, zoneA), dislikes(5, zoneA))
	tests := []struct {
		row     string
		nodes   []*v1.Node
		pods    []*v1.Pod
		pod     *v1.Pod
		profile Profile
		want    string
	}{
		{"B1", three, fill("n1=2 n2=1", a), likeA, none, "10 5 0 -> 100 50 0"},
		{"B2", withoutZ3, fill("n1=2 n2=1", a), likeA, none, "10 5 -> 100 0"},
		{"B3", two, fill("n1=2", a), pod(dislikes(10, zoneA)), none, "-20 0 -> 0 100"},
		{"B4", three, both, pod(likes(100, zoneA), likes(29, zoneB)), none, "100 29 0 -> 100 28 0"},
		{"B5", two, fill("n1=2 n2=2", a), likeA, none, "10 10 -> 0 0"},
		{"B6 default", two, fill("n1=1", near(zoneA)), pod(a), none, "1 0 -> 100 0"},
		{"B6 weight 1", two, fill("n1=1", near(zoneA)), pod(a), hardWeight(1), "1 0 -> 100 0"},
		{"B6 weight 0", two, fill("n1=1", near(zoneA)), pod(a), hardWeight(0), "skip"},
		{"B6 weight 100", two, fill("n1=1", near(zoneA)), pod(a), hardWeight(100), "100 0 -> 100 0"},
		{"B7", two, fill("n1=1", dislikes(7, zoneA)), pod(a), none, "-7 0 -> 0 100"},
		{"B8 without", two, fill("n1=1", dislikes(7, zoneA)), pod(a), ignoring, "skip"},
		{"B8 with", two, fill("n1=1", dislikes(7, zoneA)), pod(a, likes(5, zoneB)), ignoring, "-7 0 -> 0 100"},
		{"B8 skips required terms too", two, fill("n1=1", near(zoneA)), pod(a), ignoring, "skip"},
		{"B9", two, fill("n1=1", a), cancel, none, "0 0 -> 0 0"},
		{"B10", zoned("n1=z1 n2="), fill("n2=1", a), pod(likes(1, zoneA)), none, "skip"},
		{"existing preferred affinity", two, fill("n2=1", likes(3, zoneA)), pod(a), none, "0 3 -> 0 100"},
		{"terms of several keys add up", two, fill("n1=1", a), pod(likes(5, zoneA), likes(2, term(host, "app=a"))), none, "7 0 -> 100 0"},
		{"both directions add up", two, fill("n1=1", a, likes(3, zoneA)), pod(a, likes(5, zoneA)), none, "8 0 -> 100 0"},
		{"terminating pods count", two, fill("n1=1", a, ending), likeA, none, "5 0 -> 100 0"},
		{"own required terms do not", two, fill("n1=1 n2=1", a), pod(near(zoneA)), none, "skip"},
		{"nor do existing required anti-affinity terms", two, fill("n1=1", apart(zoneB)), pod(a), none, "skip"},
		{"pods on infeasible nodes count for their zone", with(zoned("n1=z1 n2=z2 n3=z2"), "n3", cordoned), fill("n3=1", a), likeA, none, "0 5 -> 0 100"},
	}
	for _, tt := range tests {
		if got := marks(Judge(cluster(tt.nodes, tt.pods...), tt.pod, tt.profile), podAffinityName); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// The four cases of design/rules/topology.md#affinity-score where dividing first makes
// a difference, which are all up to 100.
func TestStretched(t *testing.T) {
	differs := map[[2]int64]int64{{29, 50}: 57, {29, 100}: 28, {57, 100}: 56, {58, 100}: 57}
	for span := int64(1); span <= 100; span++ {
		for s := range span + 1 {
			want, ok := differs[[2]int64{s, span}]
			if !ok {
				want = 100 * s / span
			}
			if got := stretched([]int64{0, s, span})[1]; got != want {
				t.Errorf("%d/%d: got %d, want %d", s, span, got, want)
			}
		}
	}
}

// A malformed term of any kind rejects the pod as a whole.
func TestPodAffinityTermThatDoesNotParse(t *testing.T) {
	broken, brokenNamespace := term(zone, "app In"), term(zone, "app=a", whereNamespace("team Near x"))
	tests := []struct {
		pod  *v1.Pod
		want string
	}{
		{pod(near(broken)), `label "app": In without values`},
		{pod(apart(broken)), `label "app": In without values`},
		{pod(likes(1, broken)), `label "app": In without values`},
		{pod(dislikes(1, brokenNamespace)), `label "team": unknown operator "Near"`},
	}
	for i, tt := range tests {
		a := Judge(cluster(zoned("a=z1 b=z2")), tt.pod, DefaultProfile())
		if want := "0/2 nodes are available: parsing pod: " + tt.want + "."; a.Rejected != want || !a.PreFilter.Unresolvable || a.PreFilter.Plugin != podAffinityName {
			t.Errorf("row %d: got %q, %v", i, a.Rejected, a.PreFilter)
		}
	}
}

// The two plugins are between NodeResourcesFit and NodeDeclaredFeatures, and, as scorers,
// before NodeResourcesBalancedAllocation.
func TestTopologyPluginsInOrder(t *testing.T) {
	needy := pod(run("cpu=1"), wearing("app=x"), hard(zone, "app=x"), near(term(zone, "app=y")), func(p *v1.Pod) {
		no := false
		p.Spec.HostNetwork, p.Spec.HostUsers = true, &no
	})
	var got []string
	for _, r := range Judge(cluster(zoned("a=")), needy, DefaultProfile()).Nodes[0].Rejections {
		got = append(got, r.Plugin)
	}
	if want := "[NodeResourcesFit PodTopologySpread InterPodAffinity NodeDeclaredFeatures]"; fmt.Sprint(got) != want {
		t.Errorf("filters: got %v, want %s", got, want)
	}
	got = nil
	p := pod(run("cpu=1"), wearing("app=x"), soft(zone, "app=x"), likes(1, term(zone, "app=x")))
	c := cluster([]*v1.Node{newNode("a", has("cpu=4 memory=4Gi"), labelled(zone+"=z1"))}, fill("a=1", wearing("app=x"))...)
	for _, s := range Judge(c, p, DefaultProfile()).Nodes[0].Scores {
		got = append(got, fmt.Sprint(s.Plugin, " ", s.Weight))
	}
	if want := "[TaintToleration 3 NodeResourcesFit 1 PodTopologySpread 2 InterPodAffinity 2 NodeResourcesBalancedAllocation 1 ImageLocality 1]"; fmt.Sprint(got) != want {
		t.Errorf("scorers: got %v, want %s", got, want)
	}
}

// Without a service, constraints or terms the two plugins skip. A profile with them then
// gives the same result as a profile without.
func TestTopologyPluginsSkip(t *testing.T) {
	c := cluster(zoned("a=z1 b=z2"), fill("a=2", wearing("app=x"))...)
	with, without := Judge(c, pod(wearing("app=x")), DefaultProfile()), Judge(c, pod(wearing("app=x")), NodeLocalProfile())
	if fmt.Sprintf("%+v", with) != fmt.Sprintf("%+v", without) {
		t.Errorf("got %+v and %+v", with, without)
	}
}
