package interpodaffinity_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// marks lists the plugin's scores of the feasible nodes, by name, or skip.
func marks(answer plan.Answer) string {
	var all []string
	for _, n := range answer.Nodes {
		for _, s := range n.Scores {
			if s.Plugin == "InterPodAffinity" {
				all = append(all, fmt.Sprint(s.Score))
			}
		}
	}
	if all == nil {
		return "skip"
	}
	return strings.Join(all, " ")
}

// Rows B come from design/rules/topology.md#affinity-score.
func TestScore(t *testing.T) {
	a, b := wearing("app=a"), wearing("app=b")
	zoneA, zoneB := term(zone, "app=a"), term(zone, "app=b")
	three, two := zoned("n1=z1 n2=z2 n3=z3"), zoned("n1=z1 n2=z2")
	hardWeight := func(w int32) configv1.InterPodAffinityArgs {
		return configv1.InterPodAffinityArgs{HardPodAffinityWeight: &w}
	}
	ignoring := configv1.InterPodAffinityArgs{IgnorePreferredTermsOfExistingPods: true}
	none := configv1.InterPodAffinityArgs{}
	likeA := pod(likes(5, zoneA))
	tests := []struct {
		row   string
		nodes []*v1.Node
		pods  []*v1.Pod
		pod   *v1.Pod
		args  configv1.InterPodAffinityArgs
		want  string
	}{
		{"B1", three, fill("n1=2 n2=1", a), likeA, none, "100 50 0"},
		{"B2", cordoned(zoned("n1=z1 n2=z2 n3=z3"), "n3"), fill("n1=2 n2=1", a), likeA, none, "100 0"},
		{"B3", two, fill("n1=2", a), pod(dislikes(10, zoneA)), none, "0 100"},
		{"B4", three, append(fill("n1=1", a), fill("n2=1", b)...), pod(likes(100, zoneA), likes(29, zoneB)), none, "100 28 0"},
		{"B5", two, fill("n1=2 n2=2", a), likeA, none, "0 0"},
		{"B6 default", two, fill("n1=1", near(zoneA)), pod(a), none, "100 0"},
		{"B6 weight 1", two, fill("n1=1", near(zoneA)), pod(a), hardWeight(1), "100 0"},
		{"B6 weight 0", two, fill("n1=1", near(zoneA)), pod(a), hardWeight(0), "skip"},
		{"B7", two, fill("n1=1", dislikes(7, zoneA)), pod(a), none, "0 100"},
		{"B8 without", two, fill("n1=1", dislikes(7, zoneA)), pod(a), ignoring, "skip"},
		{"B8 with", two, fill("n1=1", dislikes(7, zoneA)), pod(a, likes(5, zoneB)), ignoring, "0 100"},
		{"B8 skips required terms too", two, fill("n1=1", near(zoneA)), pod(a), ignoring, "skip"},
		{"B9", two, fill("n1=1", a), pod(likes(5, zoneA), dislikes(5, zoneA)), none, "0 0"},
		{"B10", zoned("n1=z1 n2="), fill("n2=1", a), pod(likes(1, zoneA)), none, "skip"},
		{"hard weight beside a preferred term", two, append(fill("n1=1", near(zoneA)), fill("n2=1", likes(50, zoneA))...), pod(a), hardWeight(100), "100 0"},
		{"hard weight 0 leaves the others", two, append(fill("n1=1", near(zoneA)), fill("n2=1", likes(50, zoneA))...), pod(a), hardWeight(0), "0 100"},
		{"existing preferred affinity", two, fill("n2=1", likes(3, zoneA)), pod(a), none, "0 100"},
		{"one term, two weights", three, append(fill("n1=1", likes(3, zoneA)), fill("n2=1", likes(6, zoneA))...), pod(a), none, "50 100 0"},
		{"terms of several keys add up", zoned("n1=z1 n2=z1 n3=z2"), fill("n1=1", a), pod(likes(5, zoneA), likes(5, term(host, "app=a"))), none, "100 50 0"},
		{"the same term twice counts twice", three, append(fill("n1=1", a), fill("n2=1", b)...), pod(likes(5, zoneA), likes(5, zoneA), likes(5, zoneB)), none, "100 50 0"},
		{"both directions add up", three, append(fill("n1=1", a, likes(3, zoneA)), fill("n2=1", a)...), pod(a, likes(3, zoneA)), none, "100 50 0"},
		{"terminating pods count", two, fill("n1=1", a, ending), likeA, none, "100 0"},
		{"own required terms do not", two, fill("n1=1 n2=1", a), pod(near(zoneA)), none, "skip"},
		{"nor do existing required anti-affinity terms", two, fill("n1=1", apart(zoneB)), pod(a), none, "skip"},
		{"pods on infeasible nodes count", cordoned(zoned("n1=z1 n2=z2 n3=z2"), "n3"), fill("n3=1", a), likeA, none, "0 100"},
		{"a node without the key", zoned("n1=z1 n2= n3=z3"), fill("n1=1", a), likeA, none, "100 0 0"},
		{"a node without the key, negative", zoned("n1=z1 n2= n3=z3"), fill("n1=1", a), pod(dislikes(5, zoneA)), none, "0 100 100"},
		{"a weight of 0 is said, and says nothing", two, fill("n1=1", a), pod(likes(0, zoneA)), none, "0 0"},
		{"a required and a preferred term side by side", two, fill("n1=1 n2=2", a), pod(near(zoneA), likes(1, zoneA)), none, "0 100"},
	}
	for _, tt := range tests {
		if got := marks(judge(t, tt.row, cluster(tt.nodes, tt.pods...), tt.pod, tt.args)); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// The four cases of design/rules/topology.md#affinity-score where dividing first makes
// a difference, which are all up to 100. Each step adds one preferred pod to a node, so
// the raw scores are 0 to span. Clusters with fewer and with more nodes than steps use
// the division and the table.
func TestStretching(t *testing.T) {
	differs := map[[2]int]int{{29, 50}: 57, {29, 100}: 28, {57, 100}: 56, {58, 100}: 57}
	for span := 1; span <= 100; span++ {
		for _, nodes := range []int{3, span + 1} {
			var names []string
			for i := range nodes {
				names = append(names, fmt.Sprintf("n%03d=z%03d", i, i))
			}
			raws := make([]int, nodes) // the first node stays at 0, the last is at span
			for i := range raws {
				raws[i] = i * span / (nodes - 1)
			}
			var pods []*v1.Pod
			var terms []part
			for i, raw := range raws {
				pods = append(pods, fill(fmt.Sprintf("n%03d=1", i), wearing(fmt.Sprint("raw=is-", raw)))...)
				if raw > 0 && (i == 0 || raws[i-1] != raw) {
					terms = append(terms, likes(int32(raw), term(zone, fmt.Sprint("raw=is-", raw))))
				}
			}
			answer := marks(judgeFast(t, cluster(zoned(strings.Join(names, " ")), pods...), pod(terms...)))
			var want []string
			for _, raw := range raws {
				score, ok := differs[[2]int{raw, span}]
				if !ok {
					score = 100 * raw / span
				}
				want = append(want, fmt.Sprint(score))
			}
			if answer != strings.Join(want, " ") {
				t.Errorf("span %d, %d nodes: got %s, want %s", span, nodes, answer, want)
			}
		}
	}
}
