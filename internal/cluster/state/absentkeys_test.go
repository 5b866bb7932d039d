package state

import (
	"fmt"
	"runtime"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// podWithKeys has n terms, each with its own topology key.
func podWithKeys(name, node string, n int) model.Change {
	p := build.Pod(build.Named(name), build.NodeName(node), build.Labels("app=web"))
	for k := range n {
		build.RequiredAntiAffinity(build.Term(fmt.Sprintf("key-%s-%d", name, k), "app=db"))(p)
	}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
}

// TestANodeChangeCostsItsLabels relabels a node while pods have 12,000 topology keys that
// no node has, in long and in short lists. The change reads only the topologies of the
// changed labels.
func TestANodeChangeCostsItsLabels(t *testing.T) {
	s := New()
	labels := func(text string) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.NodeLabels(text)))}
	}
	s.Apply([]model.Change{labels("zone=x disk=ssd"), labels("zone=x disk=ssd")})
	for i := range 4 {
		s.Apply([]model.Change{podWithKeys(fmt.Sprint("long-", i), "a", 3000)})
	}
	for i := range 100 {
		s.Apply([]model.Change{podWithKeys(fmt.Sprint("short-", i), "a", longFrom-1)})
	}
	s.Domains(TopologyKey{Label: "zone"})
	for _, row := range []struct {
		labels     string
		topologies int64
	}{{"zone=y disk=ssd", 1}, {"zone=y disk=hdd", 0}, {"zone=y", 0}, {"zone=y key-long-1-7=x", 1}, {"zone=y", 1}, {"key-short-5-3=x", 2}} {
		before := s.refound
		s.Apply([]model.Change{labels(row.labels)})
		if n := s.refound - before; n != row.topologies {
			t.Errorf("%s: the domains of the node were found in %d topologies, want %d", row.labels, n, row.topologies)
		}
		audited(t, s)
	}
	if kept := len(s.topologies); kept != 3 {
		t.Errorf("%d topologies are kept, want those of the zone and of two keys that the node had", kept)
	}
}

// TestKeysThatNoNodeHasTakeNoSlots counts the bytes of terms with keys that no node has,
// with few and with many nodes: they do not depend on the number of nodes.
func TestKeysThatNoNodeHasTakeNoSlots(t *testing.T) {
	build.NotRaced(t)
	for _, nodes := range []int{10, 5000} {
		s := New()
		for n := range nodes {
			s.Apply([]model.Change{{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprint("n", n), build.NodeLabels("zone=x")))}})
		}
		pods := []model.Change{podWithKeys("p", "n1", 3000), podWithKeys("q", "n2", 3000)}
		term, err := model.NewTerm("default", pods[0].Pod.Terms[0].Source)
		if err != nil {
			t.Fatal(err)
		}
		before := heapInUse()
		s.Apply(pods)
		for k := range 3000 {
			s.Domains(TopologyKey{Label: fmt.Sprint("key-", k)})
			s.Tally(PodSet{Text: "db", Terms: []*model.Term{term}}, TopologyKey{Label: fmt.Sprint("key-", k)}, NodeSet{})
		}
		if grown := heapInUse() - before; grown > 16<<20 {
			t.Errorf("6,000 keys take %d MiB beside %d nodes", grown>>20, nodes)
		}
		if s.Tallies() != 0 || len(s.topologies) != 0 || s.TermListBytes() < 1000*6000/4 {
			t.Errorf("%d nodes: %d tallies, %d topologies, %d bytes of lists are kept", nodes, s.Tallies(), len(s.topologies), s.TermListBytes())
		}
		audited(t, s)
	}
}

// TestPodsThatCarryOneList places pods with equal terms, one with others, and removes
// them.
func TestPodsThatCarryOneList(t *testing.T) {
	s := New()
	carrier := func(name, node, tier string) model.Change {
		p := build.Pod(build.Named(name), build.NodeName(node), build.Labels("app=web"))
		for k := range longFrom {
			build.RequiredAntiAffinity(build.Term([]string{"zone", v1.LabelHostname}[k%2], fmt.Sprintf("app NotIn v%d-%s", k, tier)))(p)
		}
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	asks := model.NewPod(build.Pod(build.Labels("app=web")))
	gone := func(name string) model.Change {
		return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: asks.Namespace, Name: name}}
	}
	for _, step := range []struct {
		what     string
		change   model.Change
		lists    int
		carriers []int64
	}{
		{"a node", inZone("a", "x"), 0, nil},
		{"the first", carrier("p", "a", "x"), 1, []int64{1}},
		{"a like one", carrier("q", "a", "x"), 1, []int64{2}},
		{"another", carrier("r", "a", "y"), 2, []int64{2, 1}},
		{"host names", model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.NodeLabels("zone=x "+v1.LabelHostname+"=a")))}, 2, []int64{2, 2, 1, 1}},
		{"a moved node", model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", build.NodeLabels("zone=y "+v1.LabelHostname+"=b")))}, 2, []int64{2, 2, 1, 1}},
		{"one gone", gone("q"), 2, []int64{1, 1, 1, 1}},
		{"another gone", gone("r"), 1, []int64{1, 1}},
		{"none", gone("p"), 0, nil},
	} {
		s.Apply([]model.Change{step.change})
		audited(t, s)
		var carriers []int64
		for _, m := range s.View().TermsMatching(asks) {
			carriers = append(carriers, m.Total())
		}
		if len(s.terms.all) != step.lists || fmt.Sprint(carriers) != fmt.Sprint(step.carriers) {
			t.Errorf("%s: %d lists, carriers %v; want %d, %v", step.what, len(s.terms.all), carriers, step.lists, step.carriers)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
