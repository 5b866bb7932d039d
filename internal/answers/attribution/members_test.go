package attribution_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var gang = model.GroupKey{Namespace: v1.NamespaceDefault, Name: "g"}

// withGroups returns the default configuration with groups of pods scheduled together.
func withGroups(t *testing.T) *config.Config {
	t.Helper()
	gates, err := feature.With(map[string]bool{"GenericWorkload": true})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.ParseWith("config", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"), config.Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func podGroup(minCount int32) *schedulingv1beta1.PodGroup {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: gang.Namespace, Name: gang.Name, UID: "g"}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: minCount}
	return g
}

func member(name, requests string, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append([]build.PodOption{build.Named(name), build.Container(requests)}, options...)...)
	p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &gang.Name}
	return p
}

// replaced returns objects with some of a kind replaced, and some deleted.
func replaced[T any](all []T, set, gone []kinds.Object) (kept []T) {
	is := func(o any, of kinds.Object) bool {
		a, ok := kinds.RefOf(o.(kinds.Object))
		b, _ := kinds.RefOf(of)
		return ok && a == b
	}
	for _, o := range all {
		if !slices.ContainsFunc(slices.Concat(set, gone), func(of kinds.Object) bool { return is(o, of) }) {
			kept = append(kept, o)
		}
	}
	for _, o := range set {
		if of, ok := any(o).(T); ok {
			kept = append(kept, of)
		}
	}
	return kept
}

// starts builds a snapshot with the given members, and reports whether berth explain lets
// the group start.
func starts(t *testing.T, scheduler *config.Config, o explain.Objects, members []*v1.Pod) bool {
	t.Helper()
	o.Pods = slices.DeleteFunc(slices.Clone(o.Pods), func(p *v1.Pod) bool { return p.Spec.SchedulingGroup != nil })
	s, err := explain.New(scheduler, o.Nodes, append(o.Pods, members...), o.Others, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := s.Group(gang)
	if err != nil {
		t.Fatal(err)
	}
	return g.Held == "" && g.Starts
}

// TestCausesOfGroups has random pairs of snapshots whose gang gets, loses, replaces and
// changes members. It applies every cause and lets berth explain decide about the gang
// again. With all differences of the cause the result must be as stated, and with no
// proper part of them.
func TestCausesOfGroups(t *testing.T) {
	scheduler := withGroups(t)
	seen := map[string]int{}
	for seed := range uint64(800) {
		r := random.New(seed)
		then, now := gangs(r)
		d := explain.DifferencesForGroup(scheduler, then, now, gang)
		result, err := explain.SinceForGroup(scheduler, then, now, gang, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		seen[string(result.Then.Verdict)+" "+string(result.Now.Verdict)]++
		want := &result.Then
		start := now
		if result.Direction == attribution.Apply {
			want, start = &result.Now, then
		}
		if want.Verdict != attribution.Placed || result.Direction == "" {
			continue // The explanation of a group does not report preemption.
		}
		if len(result.Causes) == 0 || result.CutShort {
			t.Errorf("seed %d: %d causes, cut short: %t", seed, len(result.Causes), result.CutShort)
		}
		leads := func(c *attribution.Cause) bool {
			members, set, gone := result.Make(d, c)
			o := start
			o.Nodes, o.Pods, o.Others = replaced(o.Nodes, set, gone), replaced(o.Pods, set, gone), replacedOthers(o.Others, set, gone)
			return starts(t, scheduler, o, members)
		}
		for i := range result.Causes {
			c := &result.Causes[i]
			for j := range c.Changes {
				seen[string(c.Changes[j].Kind)]++
			}
			if len(c.Changes) > 1 {
				seen["several"]++
			}
			if !leads(c) {
				t.Errorf("seed %d: %s %s is not enough", seed, result.Direction, texts(c))
			}
			if !c.Minimal || len(c.Changes) > 6 {
				continue
			}
			for mask := range 1<<len(c.Changes) - 1 {
				if part := c.Part(func(i int) bool { return mask&(1<<i) != 0 }); leads(part) {
					t.Errorf("seed %d: %s %s: %s is enough", seed, result.Direction, texts(c), texts(part))
				}
			}
		}
	}
	for _, what := range []string{"placed pending", "pending placed", "placed placed", "pending pending", "own", "memberNew", "memberGone", "podCame", "podLeft", "objectChanged", "several"} {
		if seen[what] == 0 {
			t.Errorf("%s: never seen: the test says nothing about it: %v", what, seen)
		}
	}
	t.Log(seen)
}

func replacedOthers(all []runtime.Object, set, gone []kinds.Object) []runtime.Object {
	return replaced(all, slices.DeleteFunc(slices.Clone(set), func(o kinds.Object) bool {
		switch o.(type) {
		case *v1.Node, *v1.Pod:
			return true
		}
		return false
	}), gone)
}

// gangs returns two snapshots of a random cluster with a gang, and random changes between
// them.
func gangs(r *rand.Rand) (then, now explain.Objects) {
	before := random.Cluster(r, random.Size{Nodes: 1 + r.IntN(4), Placed: r.IntN(10)})
	if r.IntN(2) == 0 {
		before = random.PreemptionCluster(r, random.Size{Nodes: 1 + r.IntN(3), Placed: r.IntN(8)})
	}
	settle(&before)
	after := before
	for range r.IntN(10) {
		after = random.Change(r, after).After
	}
	settle(&after)
	of := func(c oracle.Cluster, minCount int32, members []*v1.Pod) explain.Objects {
		return explain.Objects{Nodes: c.Nodes, Pods: append(slices.Clone(c.Pods), members...), Others: append(slices.Clone(c.Others()), podGroup(minCount))}
	}
	count := 2 + r.IntN(3)
	least := int32(max(1, count+1-r.IntN(3)))
	cpu := func() string { return fmt.Sprintf("cpu=%dm", 250*(1+r.IntN(12))) }
	asks := cpu()
	var was, is []*v1.Pod
	for i := range count {
		was = append(was, member(fmt.Sprint("m", i), asks))
	}
	prefix, leastNow, countNow := "m", least, count
	switch r.IntN(6) {
	case 0:
		prefix = "again"
	case 1:
		asks = cpu()
	case 2:
		countNow = max(1, count-2+r.IntN(5))
	case 3:
		leastNow = int32(1 + r.IntN(4))
	}
	for i := range countNow {
		is = append(is, member(fmt.Sprint(prefix, i), asks))
	}
	if r.IntN(4) == 0 && len(before.Nodes) > 0 { // The gang runs.
		for i := range was {
			was[i].Spec.NodeName = before.Nodes[i%len(before.Nodes)].Name
		}
	}
	return of(before, least, was), of(after, leastNow, is)
}

// TestMembersInPlaceOfOthers has a gang whose pods were recreated under other names, and
// a pod that has come since. Names and UIDs are no differences.
func TestMembersInPlaceOfOthers(t *testing.T) {
	node := build.Node("n", build.Allocatable("cpu=4 memory=8Gi pods=9"))
	of := func(pods ...*v1.Pod) explain.Objects {
		return explain.Objects{Nodes: []*v1.Node{node}, Pods: pods, Others: []runtime.Object{podGroup(2)}}
	}
	then := of(member("a", "cpu=2", build.NodeName("n")), member("b", "cpu=2", build.NodeName("n")))
	now := of(member("c", "cpu=2"), member("d", "cpu=2"), build.Pod(build.Named("big"), build.NodeName("n"), build.Container("cpu=3")))
	r, err := explain.SinceForGroup(withGroups(t), then, now, gang, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if r.PodGroup != "default/g" || r.Pod != "" || r.Then.Verdict != attribution.Placed || r.Then.Fit != 2 || r.Then.Members != 2 || r.Now.Verdict != attribution.Pending || r.Now.Message == "" {
		t.Errorf("%+v", r)
	}
	if r.Differences != 1 || len(r.Causes) != 1 || texts(&r.Causes[0]) != "[pod default/big came to node n (cpu 3)]" || !r.Causes[0].Exact {
		t.Errorf("%d differences, %+v", r.Differences, r.Causes)
	}
	// A snapshot without members uses the members of the other.
	if r, err = explain.SinceForGroup(withGroups(t), of(), now, gang, time.Time{}); err != nil || !r.OnlyNow || r.Then.Verdict != attribution.Placed || len(r.Causes) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	// A new member is a difference, and so is a deleted one.
	lone := of(member("a", "cpu=2"))
	if r, err = explain.SinceForGroup(withGroups(t), lone, then, gang, time.Time{}); err != nil || r.Then.Members != 1 || r.Then.Verdict != attribution.Gated || r.Now.Members != 2 || len(r.Causes) != 1 || texts(&r.Causes[0]) != "[member default/b is new]" {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = explain.SinceForGroup(withGroups(t), then, lone, gang, time.Time{}); err != nil || r.Then.Members != 2 || r.Now.Members != 1 || len(r.Causes) != 1 || texts(&r.Causes[0]) != "[member default/b is gone]" {
		t.Errorf("%+v, %v", r, err)
	}
	// The same change of all members is one difference.
	now = of(member("a", "cpu=3"), member("b", "cpu=3"))
	if r, err = explain.SinceForGroup(withGroups(t), then, now, gang, time.Time{}); err != nil || len(r.Causes) != 1 || texts(&r.Causes[0]) != "[2 members have other requests: cpu 3 instead of 2]" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err = explain.SinceForGroup(withGroups(t), of(), of(), gang, time.Time{}); err == nil {
		t.Error("no error about a group without members")
	}
}

// TestLargeGang has a gang whose 500 members would fill a node, and many pods that are on
// that node now. Each attempt takes 500 decisions, so the search stops at its limit of
// 20,000.
func TestLargeGang(t *testing.T) {
	node := build.Node("n", build.Allocatable("cpu=500m memory=8Gi pods=2000"))
	var members, others []*v1.Pod
	for i := range 500 {
		members = append(members, member(fmt.Sprintf("m%03d", i), "cpu=1m"))
	}
	for i := range 100 {
		others = append(others, build.Pod(build.Named(fmt.Sprintf("o%03d", i)), build.NodeName("n"), build.Container("cpu=1m")))
	}
	of := func(pods []*v1.Pod) explain.Objects {
		return explain.Objects{Nodes: []*v1.Node{node}, Pods: pods, Others: []runtime.Object{podGroup(500)}}
	}
	r, err := explain.SinceForGroup(withGroups(t), of(members), of(slices.Concat(members, others)), gang, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Then.Verdict != attribution.Placed || r.Then.Fit != 500 || r.Now.Verdict != attribution.Pending || !r.CutShort || len(r.Causes) != 0 || r.Decisions > 41 {
		t.Errorf("%s, %s, cut short: %t, %d causes, %d turns", r.Then.Verdict, r.Now.Verdict, r.CutShort, len(r.Causes), r.Decisions)
	}
}
