package gang

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// giver is a PostFilter plugin that releases resources for a group. It also records, for
// each member's turn, the number of members before it.
type giver struct {
	stuck
	// the member that it concerns, and the member whose turn has no note
	concerns, silent string
	done             bool
	asked            *[]string // the calls of FreeForGroup
}

// beside is the note of a giver.
type beside string

func (beside) IsGroupNote() {}

func (g giver) ConcernsGroup(_ state.View, member *model.Pod) bool { return member.Name == g.concerns }
func (g giver) Member(c plugin.Cycle, member *model.Pod) plugin.GroupNote {
	if member.Name == g.silent {
		return nil
	}
	return beside(fmt.Sprint(member.Name, " beside ", c.View().GroupPlaced(member.Group)))
}
func (g giver) FreeForGroup(v state.View, group *model.PodGroup, first *model.Pod, notes []plugin.GroupNote) (plugin.GroupFreed, error) {
	text := fmt.Sprint(notes)
	if notes == nil {
		text = "not shown"
	}
	*g.asked = append(*g.asked, fmt.Sprintf("%s, %s first, %d placed: %s", group.Key.Name, first.Name, v.GroupPlaced(group.Key), text))
	return plugin.GroupFreed{Done: g.done, Message: "given", Writes: []plan.Write{{Name: "given"}}}, nil
}

// TestFree has a gang of three, one more member that is being deleted, and room for two.
// Released resources are part of the decision about the first tried member. The members'
// turns are shown only if one of them has blocking objects. Each turn has the members
// before it in place, and leaves no trace.
func TestFree(t *testing.T) {
	const (
		preemption = ", pod group preemption: No preemption victims found for incoming preemptor"
		third      = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
	)
	for _, row := range []struct {
		name     string
		giver    giver
		key      string
		divided  bool  // the profile has domain placements
		minCount int32 // negative where members must not preempt
		asked    []string
		want     string
	}{
		{"it concerns nobody", giver{}, "", false, 3, []string{"g, m1 first, 0 placed: not shown"}, third + preemption},
		{"it concerns the last", giver{concerns: "m3"}, "", false, 3, []string{"g, m1 first, 0 placed: [m1 beside 0 m2 beside 1 m3 beside 2]"}, third + preemption},
		{"it concerns one that is being deleted", giver{concerns: "m0"}, "", false, 3, []string{"g, m1 first, 0 placed: not shown"}, third + preemption},
		{"nothing is noted of a turn", giver{concerns: "m2", silent: "m2"}, "", false, 3, []string{"g, m1 first, 0 placed: [m1 beside 0 m3 beside 2]"}, third + preemption},
		{"no further plugin is run", giver{done: true}, "", false, 3, []string{"g, m1 first, 0 placed: not shown"}, third + ", given"},
		{"a further plugin is run, which ends nothing", giver{}, "", false, -3, []string{"g, m1 first, 0 placed: not shown"}, third + ", given, pod group preemption: not eligible due to preemptionPolicy=Never."},
		{"nobody had a turn", giver{concerns: "m3"}, "", false, 4, []string{"g, m1 first, 0 placed: []"},
			"pod group is unschedulable, minCount (4) cannot be satisfied: 0 scheduled, 3 remaining" + preemption},
		{"a key, and nodes are not divided", giver{}, "rack", false, 3, []string{"g, m1 first, 0 placed: not shown"}, third + preemption},
		{"nodes are divided, and there is no key", giver{}, "", true, 3, []string{"g, m1 first, 0 placed: not shown"}, noneOf(1, third) + preemption},
		{"one domain of a key", giver{}, "rack", true, 3, nil, noneOf(1, third) + preemption},
	} {
		p := profileWith(t, 1, 1)
		if !row.divided {
			p.Placements = nil
		}
		var asked []string
		row.giver.asked = &asked
		// the last is DefaultPreemption
		p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(row.giver).PostFilter, p.PostFilters[len(p.PostFilters)-1]}
		c := racksOf(1, 2, 0, row.key)
		c.group = newGroup(max(row.minCount, -row.minCount), row.key)
		policy := v1.PreemptLowerPriority
		if row.minCount < 0 {
			policy = v1.PreemptNever
		}
		for i := range 4 {
			c.add(build.Container("cpu=4"), func(p *v1.Pod) { p.Spec.PreemptionPolicy = &policy })
			if i == 0 {
				build.Terminating(c.members[0])
			}
		}
		s := c.state(anyNode)
		d := decided(s, newEngine(t, p), c.work(p), nil)
		if !slices.Equal(asked, row.asked) || d.Message != row.want || (d.Preemption == nil) != row.giver.done {
			t.Errorf("%s: asked %q, preemption %v: %s\nwant %q: %s", row.name, asked, d.Preemption, d.Message, row.asked, row.want)
		}
		for i := range d.Members {
			if given := len(d.Members[i].Writes); (given == 1) != (i == 1 && row.asked != nil) {
				t.Errorf("%s: member %d has %d writes", row.name, i, given)
			}
		}
		if err := s.Audit(); err != nil || s.Assumed() > 0 {
			t.Errorf("%s: %d are assumed: %v", row.name, s.Assumed(), err)
		}
	}
	// Nothing is released for a tree.
	p := profileWith(t, 1, 1)
	var asked []string
	p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(giver{asked: &asked}).PostFilter}
	f := &forest{root: &branch{name: "root", min: 1, below: []*branch{leafOf("a", "", 1, 1)}}}
	f.nodes = append(f.nodes, build.Node("n", build.Allocatable("pods=9")))
	if d := decided(f.state(anyNode), newEngine(t, p), f.work(p), nil); d.Outcome != plan.Unschedulable || asked != nil {
		t.Errorf("a tree is %s, asked %q", d.Outcome, asked)
	}
}

// fickle is a filter that fails in turns in which its function returns true for the pods
// of a node.
type fickle struct {
	failing
	fails func(pods map[string]bool) bool
}

func (f fickle) FilterNeedIn(v state.View, _ *model.Pod) (plugin.StateNeed, error) {
	pods := map[string]bool{}
	for pod := range v.PodsOn(0) {
		pods[pod.Name] = true
	}
	if f.fails(pods) {
		return plugin.StateNeed{}, fmt.Errorf("no need")
	}
	return plugin.StateNeed{}, nil
}

// TestErrorsLeaveNothingBehind has a filter fail at some moment of a group's turn, on a
// node full of pods of lower priority. All members fail, and the pods are back on their
// nodes.
func TestErrorsLeaveNothingBehind(t *testing.T) {
	const (
		filter = `running PreFilter plugin "Failing": no need`
		member = "failed to schedule other pod from a pod group: "
		post   = `error in "DefaultPreemption" PodGroupPostFilter plugins: pod group preemption: `
	)
	for _, row := range []struct {
		name  string
		cpu   int // of the node
		fails func(pods map[string]bool) bool
		want  string
	}{
		{"after a member was placed", 4, func(pods map[string]bool) bool { return pods["m0"] }, member + filter},
		{"while nobody of lower priority is there", 3, func(pods map[string]bool) bool { return len(pods) == 0 }, post + member + filter},
		{"when the members have nodes", 3, func(pods map[string]bool) bool { return pods["m0"] && pods["m1"] && len(pods) == 2 }, post + filter},
		{"when one is back", 3, func(pods map[string]bool) bool { return pods["low-0"] && !pods["low-1"] }, post + filter},
	} {
		c := newGangCluster(t, 1, build.Node("n", build.Allocatable(fmt.Sprintf("cpu=%d pods=110", row.cpu))))
		p := c.engine.Profile("default-scheduler")
		p.Filters = append(slices.Clone(p.Filters), plugintest.Filters(fickle{fails: row.fails})...)
		e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			plugintest.Set(c.state, build.Pod(build.Named(fmt.Sprint("low-", i)), build.NodeName("n"), build.Container("cpu=1"), priority(1)))
		}
		work := c.work(podGroup("g", 2, 100),
			build.Pod(build.Named("m0"), of("g"), priority(100), build.Container("cpu=1"), hostPort(80)), build.Pod(build.Named("m1"), of("g"), priority(100), build.Container("cpu=1"), hostPort(81)))
		d := decided(c.state, e, work, nil)
		if d.Outcome != plan.Failed || d.Message != row.want {
			t.Errorf("%s: %s: %s\nwant %s", row.name, d.Outcome, d.Message, row.want)
		}
		if evicting := row.cpu == 3; evicting && (d.Preemption == nil || *d.Preemption != (plan.GroupPreemption{Status: plan.StatusError})) || !evicting && d.Preemption != nil {
			t.Errorf("%s: found %+v", row.name, d.Preemption)
		}
		for i := range d.Members {
			if m := &d.Members[i]; m.Outcome != plan.Failed || m.Placement.Pod != nil {
				t.Errorf("%s: member %d is %s, on %q", row.name, i, m.Outcome, m.Placement.NodeName)
			}
		}
		there := 0
		for range c.state.PodsOn(0) {
			there++
		}
		if err := c.state.Audit(); err != nil || there != 3 {
			t.Errorf("%s: %d pods are on the node, want 3: %v", row.name, there, err)
		}
	}
}
