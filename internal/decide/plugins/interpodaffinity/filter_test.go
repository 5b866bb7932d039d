package interpodaffinity_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// verdicts lists the filter's verdicts by node: fits, affinity (unresolvable), anti or
// existing.
func verdicts(answer plan.Answer) string {
	words := map[string]string{
		"true node(s) didn't match pod affinity rules":                   "affinity",
		"false node(s) didn't match pod anti-affinity rules":             "anti",
		"false node(s) didn't satisfy existing pods anti-affinity rules": "existing",
	}
	var all []string
	for _, n := range answer.Nodes {
		word := "fits"
		for _, r := range n.Rejections {
			word = words[map[bool]string{true: "true ", false: "false "}[r.Unresolvable]+r.Message()]
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

// Rows A come from design/rules/topology.md#affinity-filter.
func TestFilter(t *testing.T) {
	db, web := wearing("app=db"), wearing("app=web")
	zoneDB, hostDB, zoneC := term(zone, "app=db"), term(host, "app=db"), term(zone, "tier=c")
	toZone, toBoth := pod(db, near(zoneDB)), pod(db, near(zoneDB, hostDB))
	a5 := append(fill("n1=1", db), fill("n1=1", wearing("tier=c"))...)
	a6 := append(fill("n1=1", db), fill("n4=1", wearing("app=db tier=c"))...)
	nominated := pod(apart(hostDB), func(p *v1.Pod) { p.Status.NominatedNodeName = "n1" })
	tests := []struct {
		row  string
		pods []*v1.Pod
		pod  *v1.Pod
		want string
	}{
		{"A1", nil, toZone, "fits affinity fits fits"},
		{"A2", fill("n2=1", db), toZone, "fits affinity fits fits"},
		{"A3", fill("n1=1", db), toZone, "fits affinity affinity fits"},
		{"A4", fill("n1=1", db), toBoth, "fits affinity affinity affinity"},
		{"A5", a5, pod(web, near(zoneDB, zoneC)), "affinity affinity affinity affinity"},
		{"A6", a6, pod(web, near(zoneDB, zoneC)), "fits affinity affinity fits"},
		{"A7", fill("n1=1", web, ending), pod(apart(term(zone, "app=web"))), "anti fits fits anti"},
		{"A8", fill("n1=1", apart(hostDB)), pod(db), "existing fits fits fits"},
		{"A10", append(fill("n3=1", web), fill("n1=1", db)...), pod(web, near(hostDB), apart(term(zone, "app=web"))), "fits affinity affinity affinity"},
		{"A11", []*v1.Pod{nominated}, pod(db), "fits fits fits fits"},
		{"A12", fill("n1=1", db), pod(db, near(term(zone, "absent"))), "affinity affinity affinity affinity"},
		{"first, but not like itself", nil, pod(web, near(zoneDB)), "affinity affinity affinity affinity"},
		{"first, but not like all its terms", nil, pod(db, near(zoneDB, zoneC)), "affinity affinity affinity affinity"},
		{"first, but not in a namespace of the term", nil, pod(db, near(term(zone, "app=db", inNamespaces("other")))), "affinity affinity affinity affinity"},
		{"first, in a listed namespace", nil, pod(db, near(term(zone, "app=db", inNamespaces("other", "default")))), "fits affinity fits fits"},
		{"first, with a key no node has", nil, pod(db, near(zoneDB, term("rack", "app=db"))), "affinity affinity affinity affinity"},
		{"not first where one term has a pod", fill("n2=1", db), toBoth, "affinity affinity affinity affinity"},
		{"different pods serve different terms", append(fill("n1=1", db), fill("n3=1", db)...), toBoth, "fits affinity fits affinity"},
		{"two terms of one key", a6, pod(web, near(zoneC, zoneDB, zoneC)), "fits affinity affinity fits"},
		{"other namespaces do not count", fill("n1=1", db, in("other")), pod(apart(zoneDB)), "fits fits fits fits"},
		{"own anti-affinity without the key", fill("n2=1", db), pod(apart(zoneDB)), "fits fits fits fits"},
		{"own anti-affinity, two terms", append(fill("n2=1", db), fill("n3=1", web)...), pod(apart(hostDB, term(zone, "app=web"))), "fits anti anti fits"},
		{"existing without the key", fill("n2=1", apart(zoneDB)), pod(db), "fits fits fits fits"},
		{"existing by zone", fill("n1=1", apart(zoneDB)), pod(db), "existing fits fits existing"},
		{"existing by zone and by host", append(fill("n1=1", apart(zoneDB)), fill("n2=1", apart(hostDB))...), pod(db), "existing existing fits existing"},
		{"existing, two terms of one key", append(fill("n1=1", apart(zoneDB)), fill("n3=2", apart(term(zone, "app Exists")))...), pod(db), "existing fits existing existing"},
		{"existing terms of other kinds do not reject", fill("n1=1", near(zoneDB), likes(1, zoneDB), dislikes(1, hostDB)), pod(db), "fits fits fits fits"},
		{"own before existing", fill("n1=1", db, apart(hostDB)), pod(db, apart(zoneDB)), "anti fits fits anti"},
		{"everything is every pod of the namespace", fill("n1=1", web), pod(apart(term(host, "everything"))), "anti fits fits fits"},
		{"nothing is no pod", fill("n1=1", web), pod(apart(term(host, "absent"))), "fits fits fits fits"},
	}
	for _, tt := range tests {
		answer := judge(t, tt.row, cluster(zoned("n1=z1 n2= n3=z2 n4=z1"), tt.pods...), tt.pod, configv1.InterPodAffinityArgs{})
		if got := verdicts(answer); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// An empty label value is a value like any other.
func TestFilterByEmptyValue(t *testing.T) {
	nodes := zoned("n1=z1 n2=z2 n3=z3 n4=z1")
	nodes[0].Labels[zone], nodes[1].Labels[zone] = "", ""
	answer := judge(t, "empty", cluster(nodes, fill("n1=1", wearing("app=db"))...), pod(near(term(zone, "app=db"))), configv1.InterPodAffinityArgs{})
	if got := verdicts(answer); got != "fits fits affinity affinity" {
		t.Errorf("got %s", got)
	}
}

// The namespaces that a term selects: the other pod is in namespace a, the pending pod in
// b. Rows A9 come from design/rules/topology.md#affinity-filter.
func TestFilterByNamespace(t *testing.T) {
	x, bare := []*v1.Namespace{namespace("a", "team=x"), namespace("b", "team=x")}, []*v1.Namespace{namespace("a", ""), namespace("b", "")}
	tests := []struct {
		row        string
		namespaces []*v1.Namespace
		term       v1.PodAffinityTerm
		own        string
		theirs     string
	}{
		{"A9 team=x", x, term(zone, "app=db", whereNamespace("team=x")), "anti fits fits anti", "existing fits fits existing"},
		{"A9 unlabelled", bare, term(zone, "app=db", whereNamespace("team=x")), "fits fits fits fits", "fits fits fits fits"},
		{"nothing said: the owner's", x, term(zone, "app=db"), "fits fits fits fits", "fits fits fits fits"},
		{"listed", x, term(zone, "app=db", inNamespaces("a", "b")), "anti fits fits anti", "existing fits fits existing"},
		{"listed, others", x, term(zone, "app=db", inNamespaces("c")), "fits fits fits fits", "fits fits fits fits"},
		{"listed or selected", bare, term(zone, "app=db", inNamespaces("a", "b"), whereNamespace("team=x")), "anti fits fits anti", "existing fits fits existing"},
		{"any", x, term(zone, "app=db", whereNamespace("everything")), "anti fits fits anti", "existing fits fits existing"},
		{"any, unknown", nil, term(zone, "app=db", whereNamespace("everything")), "anti fits fits anti", "existing fits fits existing"},
		{"without a label", bare, term(zone, "app=db", whereNamespace("team NotIn x")), "anti fits fits anti", "existing fits fits existing"},
		{"without a label, unknown", nil, term(zone, "app=db", whereNamespace("team NotIn x")), "fits fits fits fits", "existing fits fits existing"},
	}
	for _, tt := range tests {
		c := cluster(zoned("n1=z1 n2= n3=z2 n4=z1"), pod(in("a"), wearing("app=db"), on("n1")))
		c.Namespaces = tt.namespaces
		if got := verdicts(judge(t, tt.row, c, pod(in("b"), apart(tt.term)), configv1.InterPodAffinityArgs{})); got != tt.own {
			t.Errorf("row %s, own term: got %s, want %s", tt.row, got, tt.own)
		}
		c.Pods = cluster(nil, pod(in("a"), on("n1"), apart(tt.term))).Pods
		if got := verdicts(judge(t, tt.row, c, pod(in("b"), wearing("app=db")), configv1.InterPodAffinityArgs{})); got != tt.theirs {
			t.Errorf("row %s, their term: got %s, want %s", tt.row, got, tt.theirs)
		}
	}
}

// A namespace selector does not imply the own namespace, and the first-pod rule applies
// only in namespaces that exist.
func TestFirstPodByNamespace(t *testing.T) {
	first := func(selector string) *v1.Pod {
		return pod(wearing("app=db"), near(term(zone, "app=db", whereNamespace(selector))))
	}
	tests := []struct {
		row        string
		namespaces []*v1.Namespace
		pod        *v1.Pod
		want       string
	}{
		{"own namespace not selected", []*v1.Namespace{namespace("default", ""), namespace("other", "team=x")}, first("team=x"), "affinity affinity"},
		{"own namespace selected", []*v1.Namespace{namespace("default", "team=x")}, first("team=x"), "fits fits"},
		{"own namespace without labels", []*v1.Namespace{namespace("default", "")}, first("team NotIn x"), "fits fits"},
		{"own namespace unknown", nil, first("team NotIn x"), "affinity affinity"},
		{"own namespace unknown, any selected", nil, first("everything"), "fits fits"},
	}
	for _, tt := range tests {
		c := cluster(zoned("n1=z1 n2=z2"))
		c.Namespaces = tt.namespaces
		if got := verdicts(judge(t, tt.row, c, tt.pod, configv1.InterPodAffinityArgs{})); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// A pod is the first only if no wanted pod is on a node with any of the keys. Here a
// wanted pod is in a zone, without a rack.
func TestFirstPodByKey(t *testing.T) {
	db := wearing("app=db")
	byZone, byRack := term(zone, "app=db"), term("rack", "app=db")
	nodes := build.With(zoned("n1=z1 n2=z2 n3=z1"), "n2", build.NodeLabels("rack=r2"))
	nodes = build.With(nodes, "n3", build.NodeLabels("rack=r3"))
	for name, p := range map[string]*v1.Pod{"zone first": pod(db, near(byZone, byRack)), "rack first": pod(db, near(byRack, byZone))} {
		if got := verdicts(judge(t, name, cluster(nodes, fill("n1=1", db)...), p, configv1.InterPodAffinityArgs{})); got != "affinity affinity affinity" {
			t.Errorf("%s: got %s", name, got)
		}
		if got := verdicts(judge(t, name, cluster(nodes), p, configv1.InterPodAffinityArgs{})); got != "affinity fits fits" {
			t.Errorf("%s, nobody is there: got %s", name, got)
		}
	}
}

// Whether the pod may be the first changes with its namespace's labels, even while other
// pods' anti-affinity selects it.
func TestFirstPodFollowsItsNamespace(t *testing.T) {
	c := cluster(zoned("n1=z1 n2=z2"), fill("n2=1", apart(term(host, "app=db")))...)
	pair := pairOf(t, c, configv1.InterPodAffinityArgs{})
	p := pod(wearing("app=db"), near(term(zone, "app=db", whereNamespace("team=x"))))
	for i, step := range []struct{ labels, want string }{{"", "affinity affinity"}, {"team=x", "fits existing"}, {"team=y", "affinity affinity"}, {"team=x", "fits existing"}} {
		pair.State.Apply(enginetest.Changes(oracle.Cluster{Namespaces: []*v1.Namespace{namespace("default", step.labels)}}))
		if got := verdicts(answer(t, pair, p)); got != step.want {
			t.Errorf("step %d, with the labels %q: got %s, want %s", i, step.labels, got, step.want)
		}
	}
}

// A malformed term of any kind rejects the pod as a whole, with kube-scheduler's message.
func TestTermsThatCannotBeParsed(t *testing.T) {
	broken, brokenNamespace := term(zone, "app In"), term(zone, "app=a", whereNamespace("team Near x"))
	const inWithoutValues = `values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty`
	tests := []struct {
		pod  *v1.Pod
		want string
	}{
		{pod(near(broken, brokenNamespace)), "parsing pod: requiredAffinityTerms: " + inWithoutValues},
		{pod(apart(broken)), "parsing pod: requiredAntiAffinityTerms: " + inWithoutValues},
		{pod(likes(1, broken)), "parsing pod: preferredAffinityTerms: " + inWithoutValues},
		{pod(dislikes(1, brokenNamespace)), `parsing pod: preferredAntiAffinityTerms: "Near" is not a valid label selector operator`},
		{pod(dislikes(1, broken), near(broken)), "parsing pod: [requiredAffinityTerms: " + inWithoutValues + ", preferredAntiAffinityTerms: " + inWithoutValues + "]"},
	}
	for i, tt := range tests {
		d := decide(t, cluster(zoned("n1=z1 n2=z2")), tt.pod)
		if d.Rejection == nil || d.Rejection.PreFilter != tt.want || strings.Join(d.Rejection.Plugins, " ") != "InterPodAffinity" {
			t.Errorf("row %d: got %+v, want %s", i, d.Rejection, tt.want)
		}
	}
}

// Arguments are checked as in kube-scheduler.
func TestNewChecksArguments(t *testing.T) {
	for weight, want := range map[int32]string{
		-1: "hardPodAffinityWeight: Invalid value: -1: not in valid range [0, 100]", 0: "", 100: "",
		101: "hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]",
	} {
		_, err := newWithWeight(weight)
		if got := errorText(err); got != want {
			t.Errorf("weight %d: got %q, want %q", weight, got, want)
		}
	}
}

// The three codes differ in their texts and in being resolvable.
func TestReasonsAndCodes(t *testing.T) {
	c := cluster(zoned("n1=z1 n2= n3=z2"), append(fill("n1=1", wearing("app=web"), apart(term(host, "app=db"))), fill("n3=1", wearing("app=x"))...)...)
	answer := judge(t, "all", c, pod(wearing("app=db"), near(term(zone, "app Exists")), apart(term(zone, "app=x"))), configv1.InterPodAffinityArgs{})
	want := []reason.Rejection{
		{Plugin: "InterPodAffinity", Reasons: []string{"node(s) didn't satisfy existing pods anti-affinity rules"}},
		{Plugin: "InterPodAffinity", Unresolvable: true, Reasons: []string{"node(s) didn't match pod affinity rules"}},
		{Plugin: "InterPodAffinity", Reasons: []string{"node(s) didn't match pod anti-affinity rules"}},
	}
	for i, n := range answer.Nodes {
		if len(n.Rejections) != 1 || n.Rejections[0].Message() != want[i].Message() || n.Rejections[0].StatusCode() != want[i].StatusCode() {
			t.Errorf("%s: got %+v, want %+v", n.Name, n.Rejections, want[i])
		}
	}
}
