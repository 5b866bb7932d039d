package gang

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// TestSearchesInVainRest has groups that want a node for each member. Two nodes exist,
// each with 1,500 small pods of lower priority. Only a search that removes these finds
// that the members are too many.
func TestSearchesInVainRest(t *testing.T) {
	const perNode = 1500
	c := newGangCluster(t, 1)
	var objects []runtime.Object
	for i := range 2 {
		name := fmt.Sprint("n", i)
		objects = append(objects, build.Node(name, build.Allocatable("cpu=1500 pods=1500"), build.NodeLabels("kubernetes.io/hostname="+name)))
		for j := range perNode {
			objects = append(objects, build.Pod(build.Named(fmt.Sprint("p", i, "-", j)), build.NodeName(name), build.Container("cpu=1"), priority(1)))
		}
	}
	plugintest.Set(c.state, objects...)
	gang := func(name, cpu string, members int) turn {
		var pods []*v1.Pod
		for i := range members {
			pods = append(pods, build.Pod(build.Named(fmt.Sprint(name, i)), of(name), priority(100), build.Container("cpu="+cpu), build.Labels("of="+name), build.RequiredAntiAffinity(build.Term("kubernetes.io/hostname", "of="+name))))
		}
		return c.work(podGroup(name, int32(members), 100), pods...)
	}
	a, b, large, fits := gang("a", "1", 3), gang("b", "1", 3), gang("large", "1000", 3), gang("fits", "1", 2)
	const (
		short = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
		never = "minCount (3) cannot be satisfied, whichever pods are evicted"
		found = "found a placement for podgroup, preempting 2 victims"
	)
	var searches Searches
	now := time.Unix(1_000_000, 0)
	for _, step := range []struct {
		after    time.Duration
		work     turn
		want     string
		searched bool
	}{
		{0, a, short, true},
		{0, a, short, true}, // again
		{0, a, short, false},
		{0, b, searchLater, false},
		{0, large, never, false},
		{0, fits, searchLater, false},
		// groups without a search come first
		{2*perNode*perMoved - burst, a, short, false},
		{0, large, never, false},
		{0, fits, found, true}, // which leaves the others their turn
		{0, b, short, true},
		{0, fits, searchLater, false},
		{time.Minute, large, short, true},
		{0, a, short, true},
		// it shares the pause of groups that failed before, however long
		{0, b, short, false},
		{time.Minute, a, short, true},
		{0, b, short, false},
		{0, fits, found, true},        // and the first search for a group does not
		{-time.Hour, b, short, false}, // the clock was set back
		{maxRest, b, short, false},
		{maxRest, b, short, true},
	} {
		now = now.Add(step.after)
		c.state.SetNow(now)
		version := c.state.Version()
		d := decidedBy(searches.Decide, c.state, c.engine, step.work, nil)
		if searched := c.state.Version()-version > 2*perNode; !strings.HasSuffix(d.Message, preemptionPrefix+step.want) || searched != step.searched {
			t.Errorf("%s at %s: %q, searched: %t; want %q, %t", step.work.Group.Key.Name, now.UTC().Format(time.TimeOnly), d.Message, searched, step.want, step.searched)
		}
	}
	// After victims were found for a group, its earlier failure is no longer reported.
	third := func(options ...build.NodeOption) runtime.Object {
		return build.Node("n2", append(options, build.Allocatable("cpu=1500 pods=1500"), build.NodeLabels("kubernetes.io/hostname=n2"))...)
	}
	decide := func(work turn) string {
		now = now.Add(time.Minute)
		c.state.SetNow(now)
		d := decidedBy(searches.Decide, c.state, c.engine, work, nil)
		return strings.TrimPrefix(d.Message[strings.LastIndex(d.Message, preemptionPrefix):], preemptionPrefix)
	}
	plugintest.Set(c.state, third(), build.Pod(build.Named("p2"), build.NodeName("n2"), build.Container("cpu=1500"), priority(1)))
	if got := decide(a); got != "found a placement for podgroup, preempting 3 victims" {
		t.Errorf("with a third node: %q", got)
	}
	plugintest.Set(c.state, third(build.Unschedulable))
	// first searches pause for a minute, too, since the clock was set back
	for _, want := range []string{searchLater, short} {
		if got := decide(gang("new", "1", 3)); got != want {
			t.Errorf("without it, a new group: %q, want %q", got, want)
		}
	}
	now = now.Add(-time.Minute) // decide advances it
	if got := decide(a); got != searchLater {
		t.Errorf("while searches rest, the group for which somebody was found: %q, want %q", got, searchLater)
	}
	if _, known := searches.vain[fits.Group.UID()]; known || len(searches.vain) != 3 {
		t.Errorf("what was found in vain is known of %d groups, want 3", len(searches.vain))
	}
}

// TestLimit: pauses begin once failures add up to more than a burst, and last at most a
// minute. For groups that are likely to fail they are twice as long, counted from the
// last failure.
func TestLimit(t *testing.T) {
	begin := time.Unix(1_000_000, 0)
	type noted struct{ at, rest time.Duration }
	for _, row := range []struct {
		name  string
		noted []noted
		// others and likely are the times after the beginning at which a group may begin
		// again: one that is not likely to fail, and one that is.
		others, likely time.Duration
	}{
		{"nothing", nil, 0, 0},
		{"a burst", []noted{{0, burst}}, 0, 0},
		{"more than a burst", []noted{{0, burst + time.Second}}, time.Second, 2 * time.Second},
		{"two that are more together", []noted{{0, burst}, {0, time.Second}}, time.Second, 2 * time.Second},
		{"later, so that the first has been rested for", []noted{{0, burst}, {burst, burst + time.Second}}, burst + time.Second, burst + 2*time.Second},
		{"later, in part", []noted{{0, burst}, {burst / 2, burst}}, burst, burst + burst/2},
		{"longer than a minute", []noted{{0, time.Hour}}, maxRest - burst, 2 * (maxRest - burst)},
		{"the clock was set back", []noted{{time.Hour, maxRest}}, maxRest - burst, 2 * (maxRest - burst)},
	} {
		var l limit
		for _, n := range row.noted {
			l.inVain(begin.Add(n.at), n.rest)
		}
		// the clock was set back, which shows from here on
		if len(row.noted) > 0 && row.noted[0].at > row.others {
			l.mayBegin(begin, false)
		}
		for likely, after := range map[bool]time.Duration{false: row.others, true: row.likely} {
			if !l.mayBegin(begin.Add(after), likely) {
				t.Errorf("%s: likely in vain: %t: it rests after %s", row.name, likely, after)
			}
			if after > 0 && l.mayBegin(begin.Add(after-1), likely) {
				t.Errorf("%s: likely in vain: %t: it may begin before %s", row.name, likely, after)
			}
		}
	}
}

// TestRestsAsDocumented expects the numbers of docs/gangs.md. Moving a pod off its node
// and back takes 20 µs. A failed move is followed by a pause ten times as long, beyond
// the 2,000 pods that may be moved at once.
func TestRestsAsDocumented(t *testing.T) {
	if perMoved != 10*20*time.Microsecond || burst/perMoved != 2000 || maxRest != time.Minute {
		t.Errorf("%s for each pod, %d at once, %s at most", perMoved, burst/perMoved, maxRest)
	}
	c := newGangCluster(t, 1)
	now := time.Unix(1_000_000, 0)
	c.state.SetNow(now)
	var searches Searches
	named := func(i int) *attempt {
		return &attempt{Attempt: &plan.Attempt{Group: model.NewPodGroup(podGroup(fmt.Sprint("g", i), 1, 0))}, state: c.state, engine: c.engine}
	}
	searches.inVain(now, named(0), []unit{{pods: make([]*model.Pod, 3)}, {pods: make([]*model.Pod, 4)}}, "x")
	if rest := searches.first.full.Sub(now); rest != 7*perMoved {
		t.Errorf("%s for seven pods of two units", rest)
	}
	before := c.engine.Counters()
	before.Decisions, before.Visited = before.Decisions-3, before.Visited-1000
	searches.passedInVain(named(0), before)
	if rest := searches.passes.full.Sub(now); rest != 3*40*time.Microsecond+1000*200*time.Nanosecond {
		t.Errorf("%s for three decisions that visited 1,000 nodes", rest)
	}
	// Failures are remembered for a bounded number of groups.
	for i := range maxVain {
		searches.inVain(now, named(i), nil, "x")
		searches.passedInVain(named(i), c.engine.Counters())
	}
	if len(searches.vain) != 4096 || len(searches.passed) != 4096 {
		t.Errorf("known of %d and of %d groups", len(searches.vain), len(searches.passed))
	}
	searches.inVain(now, named(maxVain), nil, "x")
	searches.passedInVain(named(maxVain), c.engine.Counters())
	if len(searches.vain) != 1 || len(searches.passed) != 1 {
		t.Errorf("after one more, known of %d and of %d groups", len(searches.vain), len(searches.passed))
	}
}
