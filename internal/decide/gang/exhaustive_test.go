package gang

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

var (
	greedyClusters = flag.Int("clusters", 300, "how many random clusters of each shape TestGreedyAgainstExhaustive decides about")
	greedyWrite    = flag.Bool("write", false, "write the table of TestGreedyAgainstExhaustive to docs/gangs.md")
)

// gangShapes are random clusters of a few nodes with a gang that needs all its members.
var gangShapes = []struct {
	name string
	draw func(r *rand.Rand, c *cluster, members int)
}{
	{"equal members", func(r *rand.Rand, c *cluster, members int) {
		size := fmt.Sprintf("cpu=%dm", 500*(1+r.IntN(4)))
		for range members {
			c.add(build.Container(size))
		}
	}},
	{"mixed sizes", func(r *rand.Rand, c *cluster, members int) {
		for range members {
			c.add(build.Container(fmt.Sprintf("cpu=%dm", 500*(1+r.IntN(6)))))
		}
	}},
	{"mixed sizes of two resources", func(r *rand.Rand, c *cluster, members int) {
		for range members {
			c.add(build.Container(fmt.Sprintf("cpu=%dm memory=%dMi", 500*(1+r.IntN(5)), 512*(1+r.IntN(5)))))
		}
	}},
	{"some members pick a zone", func(r *rand.Rand, c *cluster, members int) {
		for range members {
			own := []build.PodOption{build.Container(fmt.Sprintf("cpu=%dm", 500*(1+r.IntN(4))))}
			if r.IntN(2) == 0 {
				own = append(own, build.NodeSelector("zone="+string(rune('a'+r.IntN(2)))))
			}
			c.add(own...)
		}
	}},
	{"members that must be beside another", func(r *rand.Rand, c *cluster, members int) {
		leader := r.IntN(members)
		for i := range members {
			own := []build.PodOption{build.Container(fmt.Sprintf("cpu=%dm", 500*(1+r.IntN(4)))), build.Labels("role=worker")}
			if i == leader {
				own[1] = build.Labels("role=leader")
			} else if r.IntN(2) == 0 {
				own = append(own, requires("role=leader", "zone"))
			}
			c.add(own...)
		}
	}},
	{"members spread over zones", func(r *rand.Rand, c *cluster, members int) {
		for range members {
			c.add(build.Container(fmt.Sprintf("cpu=%dm", 500*(1+r.IntN(5)))), build.Labels("app=gang"), build.DoNotSchedule("zone", "app=gang"))
		}
	}},
}

// requires makes a pod go where pods with a label are, by a topology key.
func requires(label, key string) build.PodOption {
	return func(p *v1.Pod) {
		term := v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: build.LabelSet(label)}, TopologyKey: key}
		p.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{term}}}
	}
}

func (c *cluster) add(options ...build.PodOption) {
	c.members = append(c.members, newMember(fmt.Sprint("m", len(c.members)), options...))
}

// drawGang draws three or four nodes in two zones, partly full, and a gang of three to
// five.
func drawGang(shape int, r *rand.Rand) *cluster {
	c := &cluster{}
	for i := range 3 + r.IntN(2) {
		name := fmt.Sprint("n", i)
		c.nodes = append(c.nodes, build.Node(name, build.NodeLabels("zone="+string(rune('a'+i%2))), build.Allocatable(fmt.Sprintf("cpu=%d memory=%dGi pods=10", 2+r.IntN(3), 2+r.IntN(3)))))
		if r.IntN(3) == 0 {
			c.pods = append(c.pods, build.Pod(build.Named("on-"+name), build.NodeName(name), build.Container("cpu=500m memory=512Mi")))
		}
	}
	members := 3 + r.IntN(3)
	c.group = newGroup(int32(members), "")
	gangShapes[shape].draw(r, c, members)
	return c
}

// search is the exhaustive search: every member on every node, in every order.
type search struct {
	engine *engine.Engine
	state  *state.State
	work   turn
	seen   map[string]bool
}

func (s *search) finds(nodes []string, left int) bool {
	if left == 0 {
		return true
	}
	if key := strings.Join(nodes, " "); s.seen[key] {
		return false
	} else {
		s.seen[key] = true
	}
	for i, at := range nodes {
		if at != "-" {
			continue
		}
		pod := s.work.Pods[i]
		for slot, alive := range s.state.Alive() {
			if !alive {
				continue
			}
			if passes, err := s.engine.Passes(s.state.View(), pod.Pod, int32(slot)); err != nil || !passes {
				continue
			}
			on := plan.Placement{Pod: pod.Pod, NodeName: s.state.Node(int32(slot)).Name()}
			s.state.Assume(on)
			nodes[i] = on.NodeName
			found := s.finds(nodes, left-1)
			nodes[i] = "-"
			s.state.Unassume(on)
			if found {
				return true
			}
		}
	}
	return false
}

func isPlaceable(e *engine.Engine, s *state.State, work turn) bool {
	nodes := make([]string, len(work.Pods))
	for i := range nodes {
		nodes[i] = "-"
	}
	x := search{e, s, work, map[string]bool{}}
	return x.finds(nodes, len(nodes))
}

// TestGreedyAgainstExhaustive counts the gangs that are placed by one pass, as in
// kube-scheduler, by Berth, and by an exhaustive search.
//
// Berth places the gangs of a single pass with the same scores. It rejects the others
// with the same text, or places them where the exhaustive search finds room. Each member
// gets a node with the highest score. docs/gangs.md has the table for 300 clusters of
// each shape.
func TestGreedyAgainstExhaustive(t *testing.T) {
	p := profileWith(t, 1, 1)
	p.Placements = nil
	var table strings.Builder
	table.WriteString("| Gangs | fit | rejected by one pass | rejected by Berth |\n|---|---|---|---|\n")
	for shape := range gangShapes {
		r := rand.New(rand.NewPCG(1, uint64(shape)))
		fit, theirs, ours := 0, 0, 0
		for n := range *greedyClusters {
			c := drawGang(shape, r)
			work := c.work(p)
			onePass := newEngine(t, p)
			further, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: seed, GroupRetries: engine.DefaultGroupRetries})
			if err != nil {
				t.Fatal(err)
			}
			s := c.state(anyNode)
			one := decided(s, onePass, work, nil)
			if one.Outcome == plan.Placed {
				takeOff(s, &one)
			}
			d := decided(s, further, work, nil)
			switch {
			case one.Outcome == plan.Placed:
				fit++
				if have, want := placesOf(&d), placesOf(&one); have != want {
					t.Errorf("%s %d: placed as %s, in one pass as %s", gangShapes[shape].name, n, have, want)
				}
				continue
			case d.Outcome == plan.Placed:
				takeOff(s, &d)
			case d.Message != one.Message || placesOf(&d) != placesOf(&one):
				t.Errorf("%s %d: rejected as %q, in one pass as %q", gangShapes[shape].name, n, d.Message, one.Message)
			}
			if err := s.Audit(); err != nil || s.Assumed() > 0 {
				t.Fatalf("%d are assumed: %v", s.Assumed(), err)
			}
			if !isPlaceable(further, s, work) {
				if d.Outcome == plan.Placed {
					t.Errorf("%s %d: placed, and nothing is found: %s", gangShapes[shape].name, n, placesOf(&d))
				}
				continue
			}
			fit++
			theirs++
			if d.Outcome != plan.Placed {
				ours++
			}
		}
		fmt.Fprintf(&table, "| %s | %d | %d | %d |\n", gangShapes[shape].name, fit, theirs, ours)
		if shape == 0 && theirs > 0 || shape > 0 && *greedyClusters >= 300 && ours*2 > theirs {
			t.Errorf("%s: of %d gangs that fit one pass rejects %d, Berth %d", gangShapes[shape].name, fit, theirs, ours)
		}
	}
	t.Logf("of %d clusters each:\n%s", *greedyClusters, table.String())
	const path = "../../../docs/gangs.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(text), "<!-- table -->\n")
	have, after, ok := strings.Cut(rest, "<!-- end -->\n")
	switch {
	case !ok:
		t.Errorf("%s has no table", path)
	case *greedyWrite:
		if err := os.WriteFile(path, []byte(before+"<!-- table -->\n"+table.String()+"<!-- end -->\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case *greedyClusters == 300 && have != table.String():
		t.Errorf("%s has another table; -write writes this one", path)
	}
}

// takeOff unassumes the members that have a node.
func takeOff(s *state.State, d *plan.Attempt) {
	for i := range slices.Backward(d.Members) {
		if m := &d.Members[i]; m.Outcome == plan.Placed {
			s.Unassume(m.Placement)
		}
	}
}

// placesOf writes the members' nodes with their scores, or the members' rejections.
func placesOf(d *plan.Attempt) string {
	var b strings.Builder
	for i := range d.Members {
		m := &d.Members[i]
		if m.Outcome == plan.Placed {
			fmt.Fprintf(&b, "%s on %s with %d of %d; ", m.Pod.Name, m.Placement.NodeName, m.Placement.Total, m.Placement.Feasible)
			continue
		}
		fmt.Fprintf(&b, "%s: %s; ", m.Pod.Name, m.Rejection.Text(m.Nodes))
	}
	return b.String()
}
