package interpodaffinity_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// PreFilter skips the filter if no pod of the view has a term that concerns the pod.
// Rules exist for terms of pods on a node with the topology key. The nodes are n1 in zone
// z1, and n2 without a zone.
func TestWhatThereIsToCheck(t *testing.T) {
	db := wearing("app=db")
	zoneDB, hostDB := term(zone, "app=db"), term(host, "app=db")
	for _, row := range []struct {
		name string
		// placed are pods of the state. In a draft, added are added to a node, and gone
		// placed pods are removed.
		placed, added []*v1.Pod
		gone          int
		pod           *v1.Pod
		check         bool
		rules         int
	}{
		{"no terms anywhere", fill("n1=1", db), nil, 0, pod(db), false, 0},
		{"preferred terms are no rules", fill("n1=1", db, likes(1, zoneDB), dislikes(1, hostDB)), nil, 0, pod(db, likes(1, zoneDB)), false, 0},
		{"required affinity of others is none", fill("n1=1", near(zoneDB)), nil, 0, pod(db), false, 0},
		{"own affinity", nil, nil, 0, pod(near(zoneDB)), true, 1},
		{"own affinity, one key twice", nil, nil, 0, pod(near(zoneDB, term(zone, "tier=c"))), true, 1},
		{"own affinity, two keys", nil, nil, 0, pod(near(zoneDB, hostDB)), true, 2},
		{"own anti-affinity that nothing meets", nil, nil, 0, pod(apart(zoneDB)), true, 0},
		{"own anti-affinity", fill("n1=1", db), nil, 0, pod(apart(zoneDB)), true, 1},
		{"own anti-affinity, of a pod that leaves", fill("n1=1", db), nil, 1, pod(apart(zoneDB)), true, 1},
		{"own anti-affinity, of a pod that comes", nil, fill("n1=1", db), 0, pod(apart(zoneDB)), true, 1},
		{"others' anti-affinity", fill("n1=1", apart(zoneDB)), nil, 0, pod(db), true, 1},
		{"others' anti-affinity selects others", fill("n1=1", apart(zoneDB)), nil, 0, pod(), false, 0},
		{"others' anti-affinity, without the key", fill("n2=1", apart(zoneDB)), nil, 0, pod(db), false, 0},
		{"others' anti-affinity, two keys", fill("n1=1", apart(zoneDB, hostDB)), nil, 0, pod(db), true, 2},
		{"others' anti-affinity, one key twice", fill("n1=1", apart(zoneDB, term(zone, "app Exists"))), nil, 0, pod(db), true, 1},
		{"others' anti-affinity, one of them leaves", fill("n1=2", apart(zoneDB)), nil, 1, pod(db), true, 1},
		{"others' anti-affinity, all of them leave", fill("n1=2", apart(zoneDB)), nil, 2, pod(db), false, 1},
		{"in a draft alone", nil, fill("n1=1", apart(zoneDB)), 0, pod(db), true, 1},
		{"in a draft alone, without the key", nil, fill("n2=1", apart(zoneDB)), 0, pod(db), false, 1},
		{"in a draft alone, preferred", nil, fill("n1=1", dislikes(1, zoneDB), likes(1, zoneDB), near(zoneDB)), 0, pod(db), false, 0},
	} {
		c := cluster(zoned("n1=z1 n2="), append(row.placed, row.added...)...)
		s := plugintest.Cluster(c.Nodes, c.Pods[:len(row.placed)]...)
		draft := s.View().Draft()
		for _, p := range row.added {
			slot, _ := s.Slot(p.Spec.NodeName)
			draft.Add(model.NewPod(p), slot)
		}
		for _, p := range row.placed[:row.gone] {
			draft.Remove(model.NewPod(p).Key())
		}
		rules := plugintest.Counting(newPlugin(t, nil), model.NewPod(row.pod))
		check, rejection, err := rules.PreFilter(draft.View())
		if check != row.check || rejection != "" || err != nil {
			t.Errorf("%s: check %t, want %t; %q, %v", row.name, check, row.check, rejection, err)
		}
		if got := len(rules.Rules(draft.View(), nil)); got != row.rules {
			t.Errorf("%s: %d rules, want %d", row.name, got, row.rules)
		}
	}
}

// The first term of a cluster counts, before any Namespace has arrived. Terms that come
// after the rules were compiled count too.
func TestFirstTermOfACluster(t *testing.T) {
	db := model.NewPod(pod(wearing("app=db")))
	nodes := zoned("n1=z1 n2=z2")
	for _, row := range []struct {
		name   string
		parts  part
		repels bool // otherwise it attracts
	}{
		{"anti-affinity", apart(term(zone, "app=db")), true},
		{"preferred affinity", likes(1, term(zone, "app=db")), false},
	} {
		for first := range 3 { // number of pods before the plugin is first called
			s := plugintest.Cluster(nodes)
			rules := plugintest.Counting(newPlugin(t, nil), db)
			scores, err := plugintest.SetScores(newPlugin(t, nil), db)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 4 {
				if i >= first {
					check, _, _ := rules.PreFilter(s.View())
					marks := []int64{0, 0}
					related, err := scores.Score(s.View(), []int32{0, 1}, marks)
					if check != (row.repels && i > 0) || related != (!row.repels && i > 0) || err != nil {
						t.Errorf("%s, asked from %d pods on, %d pods: checked %t, scored %t %v, %v", row.name, first, i, check, related, marks, err)
					}
				}
				// Each pod has a term of its own.
				p := cluster(nil, pod(on("n1"), row.parts, apart(term(host, fmt.Sprint("other=", i))))).Pods[0]
				p.Name = fmt.Sprint("pod-", i)
				s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
			}
		}
	}
}

// Without arguments, or without a weight in them, a required affinity term of a placed
// pod weighs as much as a preferred term of weight 1.
func TestDefaultWeight(t *testing.T) {
	zoneA := term(zone, "app=a")
	c := cluster(zoned("n1=z1 n2=z2 n3=z3"), append(fill("n1=1", near(zoneA)), fill("n2=1", likes(2, zoneA))...)...)
	if got := marks(judge(t, "no weight", c, pod(wearing("app=a")), configv1.InterPodAffinityArgs{})); got != "50 100 0" {
		t.Errorf("no weight: got %s", got)
	}
	scores, err := plugintest.SetScores(newPlugin(t, nil), model.NewPod(pod(wearing("app=a"))))
	if err != nil {
		t.Fatal(err)
	}
	got := []int64{7, 7, 7}
	if related, err := scores.Score(plugintest.Cluster(c.Nodes, c.Pods...).View(), []int32{0, 1, 2}, got); !related || err != nil || fmt.Sprint(got) != "[50 100 0]" {
		t.Errorf("no arguments: got %v, related %t, %v", got, related, err)
	}
}

// The versions change with any count that the rules use. These are counts of wanted or
// unwanted pods, and of each term that selects the pod, also if several terms share a
// key.
func TestVersionsOfAllCounts(t *testing.T) {
	zoneDB, zoneAny := term(zone, "app=db"), term(zone, "app Exists")
	s := plugintest.Cluster(zoned("n1=z1 n2=z2"))
	rules := plugintest.Counting(newPlugin(t, nil), model.NewPod(pod(wearing("app=db"), near(term(host, "tier=c")), apart(term(host, "tier=d")))))
	versions := func() string {
		if _, _, err := rules.PreFilter(s.View()); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(rules.AppendVersions(nil))
	}
	before, made := versions(), 0
	for _, row := range []struct {
		name    string
		pod     *v1.Pod
		changes bool
	}{
		{"one that is wanted", pod(wearing("tier=c")), true},
		{"one that is unwanted", pod(wearing("tier=d")), true},
		{"another", pod(wearing("tier=e")), false},
		{"a first term", pod(apart(zoneDB)), true},
		{"a second term of its key", pod(apart(zoneAny)), true},
		{"the first term again", pod(apart(zoneDB)), true},
		{"the second term again", pod(apart(zoneAny)), true},
		{"a term that selects others", pod(apart(term(zone, "app=web"))), false},
		{"a term of another key", pod(apart(term(host, "app=db"))), true},
		{"a preferred term", pod(dislikes(1, zoneDB)), false},
	} {
		on("n1")(row.pod)
		row.pod.Name = fmt.Sprint("p", made)
		made++
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(row.pod)}})
		now := versions()
		if (now != before) != row.changes {
			t.Errorf("%s: the versions were %s and are %s", row.name, before, now)
		}
		before = now
	}
}
