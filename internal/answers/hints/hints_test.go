package hints_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// newCluster returns a simulated cluster with n nodes of 4 CPUs.
func newCluster(t testing.TB, hints bool, nodes int, observers ...loop.Observer) *simulate.Cluster {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: 1, EventHints: hints, Observers: observers})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		c.SetNode(build.Node(fmt.Sprintf("n%05d", i), build.Allocatable("cpu=4 memory=16Gi pods=110"), build.NodeLabels(fmt.Sprintf("zone=z%d", i%3))))
	}
	return c
}

func pod(name, requests string, options ...build.PodOption) *v1.Pod {
	p := build.Pod(append([]build.PodOption{build.Named(name), build.InNamespace("shop"), build.Container(requests)}, options...)...)
	p.UID = types.UID("uid-" + name)
	return p
}

func advance(t testing.TB, c *simulate.Cluster, by time.Duration) {
	t.Helper()
	if err := c.AdvanceTo(c.Now().Add(by), nil); err != nil {
		t.Fatal(err)
	}
}

// note returns the note of the last event about a pod.
func note(t *testing.T, c *simulate.Cluster, name string) string {
	t.Helper()
	verdict, ok := c.Verdict(model.PodKey{Namespace: "shop", Name: name})
	if !ok {
		t.Fatalf("nothing was decided about %s", name)
	}
	return verdict.Report.Event.Note
}

// TestHint expects a suggestion at the end of the first event about a pod that is too
// large. Neither the condition nor any event without the flag changes. A pod with the
// suggested change is placed on the named node.
func TestHint(t *testing.T) {
	for _, row := range []struct {
		name, want string
		pod        *v1.Pod
		changed    func(*v1.Pod)
	}{
		{"a request", "lower the cpu request from 8 to 4", pod("web", "cpu=8"), func(p *v1.Pod) { p.Spec.Containers[0].Resources.Requests = build.Resources("cpu=4") }},
		{"two containers", "lower the cpu request from 10 to 4", pod("web", "cpu=9", build.Container("cpu=1")), func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests, p.Spec.Containers[1].Resources.Requests = build.Resources("cpu=2"), build.Resources("cpu=2")
		}},
		{"a label that no node has", "change the node selector zone=z9 to zone=z0", pod("web", "cpu=1", build.NodeSelector("zone=z9")), func(p *v1.Pod) { p.Spec.NodeSelector["zone"] = "z0" }},
	} {
		t.Run(row.name, func(t *testing.T) {
			with, without := newCluster(t, true, 3), newCluster(t, false, 3)
			for _, c := range []*simulate.Cluster{with, without} {
				c.SetPod(row.pod.DeepCopy())
				advance(t, c, time.Second)
			}
			plain, got := note(t, without, "web"), note(t, with, "web")
			if want := plain + " Would fit on node n00000 with this change: " + row.want + "."; got != want {
				t.Fatalf("the note is %q, want %q", got, want)
			}
			for _, c := range []*simulate.Cluster{with, without} {
				if m := c.Pod(model.PodKey{Namespace: "shop", Name: "web"}).Status.Conditions[0].Message; m != plain {
					t.Errorf("the condition is %q, want %q", m, plain)
				}
			}
			changed := row.pod.DeepCopy()
			changed.Name, changed.UID = "changed", "uid-changed"
			row.changed(changed)
			changed.Spec.Affinity = nil
			with.SetPod(changed)
			advance(t, with, time.Second)
			if verdict, _ := with.Verdict(model.PodKey{Namespace: "shop", Name: "changed"}); verdict.Decision.Outcome != plan.Placed {
				t.Errorf("the pod was changed as the event says, and has no node: %s", verdict.Message())
			}
		})
	}
	if plain := newCluster(t, false, 3); plain.Hints().Steps != 0 {
		t.Error("searches without the flag")
	}
}

// TestNoHint has pods without a suggestion: no change of the pod helps, or it preempts
// pods.
func TestNoHint(t *testing.T) {
	high := func(p *v1.Pod) { p.Spec.Priority = new(int32(100)) }
	for _, row := range []struct {
		name  string
		fills bool // pods of low priority fill the nodes
		pod   *v1.Pod
	}{
		{"all nodes are cordoned", false, pod("web", "cpu=1")},
		{"pods are evicted for it", true, pod("web", "cpu=4", high)},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCluster(t, true, 1)
			if row.fills {
				c.SetPod(pod("low", "cpu=4"))
			} else {
				c.SetNode(build.Node("n00000", build.Allocatable("cpu=4 memory=16Gi pods=110"), build.Unschedulable))
			}
			advance(t, c, time.Second)
			c.SetPod(row.pod)
			if err := c.AdvanceTo(c.Now(), nil); err != nil {
				t.Fatal(err)
			}
			if got := note(t, c, "web"); strings.Contains(got, "Would fit") || got == "" {
				t.Errorf("the note is %q", got)
			}
		})
	}
}

// TestHintFollowsTheCluster changes the cluster after a suggestion. A suggestion that may
// be outdated is no longer shown, and another replaces it.
func TestHintFollowsTheCluster(t *testing.T) {
	c := newCluster(t, true, 3)
	c.SetPod(pod("web", "cpu=8"))
	advance(t, c, time.Second)
	if got := note(t, c, "web"); !strings.Contains(got, "from 8 to 4.") {
		t.Fatalf("the note is %q", got)
	}
	for i := range 3 { // Two CPUs are free on each.
		c.SetPod(pod(fmt.Sprintf("beside-%d", i), "cpu=2"))
	}
	advance(t, c, 6*time.Minute) // The pod is retried after five minutes.
	if got := note(t, c, "web"); !strings.Contains(got, "from 8 to 2.") {
		t.Errorf("the note is %q", got)
	}
	for i := range 3 {
		c.DeleteNode(fmt.Sprintf("n%05d", i))
	}
	c.SetNode(build.Node("m", build.Allocatable("cpu=4 memory=16Gi pods=110"), build.Unschedulable))
	advance(t, c, 6*time.Minute)
	if got := note(t, c, "web"); strings.Contains(got, "Would fit") {
		t.Errorf("no change of the pod helps, and the note is %q", got)
	}
}

// TestReplicasShareASearch has 10,000 pods of one kind. One search runs, and nearly all
// events contain its result.
func TestReplicasShareASearch(t *testing.T) {
	pods := build.Sized(10_000)
	c := newCluster(t, true, 100)
	for i := range pods {
		c.SetPod(pod(fmt.Sprintf("web-%05d", i), "cpu=8", build.Controller("apps/v1", "ReplicaSet", "web")))
	}
	advance(t, c, time.Minute)
	counts := c.Hints()
	if counts.Searches != 1 || counts.Kinds != 1 {
		t.Errorf("%+v: want one search", counts)
	}
	if counts.Given < int64(pods)*9/10 {
		t.Errorf("%+v: of %d pods", counts, pods)
	}
	if counts.Steps > 100 {
		t.Errorf("%+v: a search takes some dozen steps", counts)
	}
	// The pods remain one kind after the cluster has changed and other numbers of nodes
	// reject them.
	c.SetNode(build.Node("small", build.Allocatable("cpu=1 memory=1Gi pods=1")))
	c.SetPod(pod("web-more", "cpu=8", build.Controller("apps/v1", "ReplicaSet", "web")))
	advance(t, c, time.Minute)
	if after := c.Hints(); after.Searches != 1 || after.Kinds != 1 || after.Given <= counts.Given || !strings.Contains(note(t, c, "web-more"), "0/101 nodes") || !strings.Contains(note(t, c, "web-more"), "Would fit") {
		t.Errorf("%+v, before %+v: %s", after, counts, note(t, c, "web-more"))
	}
}

// TestKindsByThemselves has pods that share no suggestion although their rejections are
// equal: one whose request changes, and one with the same requirement in another
// notation.
func TestKindsByThemselves(t *testing.T) {
	c := newCluster(t, true, 3)
	pinned := func(requests string) *v1.Pod {
		p := pod("pinned", requests)
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
			{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n00001"}}}}}}}}
		return p
	}
	for _, cpus := range []string{"8", "6"} {
		c.SetPod(pinned("cpu=" + cpus))
		advance(t, c, 6*time.Minute)
		if got := note(t, c, "pinned"); !strings.Contains(got, "node n00001 with this change: lower the cpu request from "+cpus+" to 4.") {
			t.Errorf("with %s cpu the note is %q", cpus, got)
		}
	}

	listens := func(name string, change func(*v1.PodSpec)) *v1.Pod {
		p := pod(name, "cpu=1")
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: 8080, Protocol: v1.ProtocolTCP}}
		change(&p.Spec)
		return p
	}
	for i := range 3 {
		c.SetPod(listens(fmt.Sprint("there-", i), func(s *v1.PodSpec) { s.NodeName = fmt.Sprintf("n%05d", i) }))
	}
	for _, row := range []struct {
		name   string
		change func(*v1.PodSpec)
		helps  bool
	}{{"mapped", func(*v1.PodSpec) {}, true}, {"host-network", func(s *v1.PodSpec) { s.HostNetwork = true }, false}} {
		c.SetPod(listens(row.name, row.change))
		advance(t, c, 6*time.Minute)
		if got := note(t, c, row.name); strings.Contains(got, "drop the host port") != row.helps {
			t.Errorf("%s: the note is %q", row.name, got)
		}
	}
}

// TestPodsWithClaimsShareNoHint has two pods of a StatefulSet with equal rejections. A
// suggestion about one pod's claim is not valid for the other's.
func TestPodsWithClaimsShareNoHint(t *testing.T) {
	c := newCluster(t, true, 3)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.SetObject(build.StorageClass("late", "provisioner=disks.example.com")))
	for i := range 2 {
		claim := build.PersistentVolumeClaim(fmt.Sprint("data-", i), "class=late storage=1Gi")
		claim.Namespace = "shop"
		must(c.SetObject(claim))
		c.SetPod(pod(fmt.Sprint("db-", i), "cpu=8", build.Controller("apps/v1", "StatefulSet", "db"), build.Claims(claim.Name)))
		advance(t, c, time.Minute)
		if got := note(t, c, fmt.Sprint("db-", i)); !strings.Contains(got, "Would fit") {
			t.Errorf("the note is %q", got)
		}
	}
	if counts := c.Hints(); counts.Kinds != 2 || counts.Searches != 2 {
		t.Errorf("%+v: want two kinds", counts)
	}
}

// TestHintLeavesRoomForNominated has a pod that is nominated to the suggested node after
// the search for it. Another pod of its kind does not fit there.
func TestHintLeavesRoomForNominated(t *testing.T) {
	c := newCluster(t, true, 1)
	first := pod("first", "cpu=8")
	c.SetPod(first.DeepCopy())
	advance(t, c, time.Second)
	if got := note(t, c, "first"); !strings.Contains(got, "Would fit on node n00000") {
		t.Fatalf("the note is %q", got)
	}
	first.Status.NominatedNodeName = "n00000"
	c.SetPod(first)
	advance(t, c, 20*time.Second)
	c.SetPod(pod("second", "cpu=8"))
	advance(t, c, time.Minute)
	if got := note(t, c, "second"); strings.Contains(got, "Would fit") {
		t.Errorf("the room is promised to another pod, and the note is %q", got)
	}
}

// TestManyKinds has more kinds of pods than the limit. Memory stays bounded, searches
// take a hundredth of the time by counted work, and each search that begins also ends.
func TestManyKinds(t *testing.T) {
	kinds := 3000
	c := newCluster(t, true, 50)
	for i := range kinds {
		c.SetPod(pod(fmt.Sprintf("web-%05d", i), fmt.Sprintf("cpu=%d", 5+i)))
	}
	var last time.Duration
	for range 20 {
		advance(t, c, 10*time.Second)
		counts, elapsed := c.Hints(), c.Elapsed()
		if counts.Kinds > 1024 || counts.Waiting > counts.Kinds || counts.Unsorted > 1024 {
			t.Fatalf("%+v: at most 1024 kinds, and rejections of which it is not known of which kind they are", counts)
		}
		if most := elapsed/100 + 6*time.Millisecond; counts.Spent > most {
			t.Fatalf("after %s searches took %s, more than a hundredth: %+v", elapsed, counts.Spent, counts)
		}
		if counts.Spent <= last && counts.Waiting > 0 {
			t.Fatalf("after %s nothing is looked for any more: %+v", elapsed, counts)
		}
		last = counts.Spent
	}
	if counts := c.Hints(); counts.Searches < 1000 || counts.Kinds != 1024 {
		t.Errorf("%+v", counts)
	}
}

// TestHintsAreDeterministic runs the same twice, with more searches than the time allows.
// The notes are equal, and the decisions equal those without suggestions.
func TestHintsAreDeterministic(t *testing.T) {
	run := func(hints bool) (notes, outcomes []string) {
		c := newCluster(t, hints, 20)
		each := func(round simulate.Round) error {
			for i := range round.Decisions {
				d := &round.Decisions[i]
				outcome := d.Outcome.String() + " " + d.Pod.Name
				if d.Outcome == plan.Placed {
					outcome += " " + d.Placement.NodeName
				}
				outcomes = append(outcomes, outcome)
				if v, ok := c.Verdict(d.Pod.Key()); ok {
					notes = append(notes, v.Report.Event.Note)
				}
			}
			return nil
		}
		for i := range 300 {
			c.SetPod(pod(fmt.Sprintf("web-%d", i), fmt.Sprintf("cpu=%dm", 1000+50*i)))
			if err := c.AdvanceTo(c.Now().Add(20*time.Millisecond), each); err != nil {
				t.Fatal(err)
			}
		}
		return notes, outcomes
	}
	plain, decided := run(false)
	once, withHints := run(true)
	again, _ := run(true)
	if !slices.Equal(once, again) {
		t.Error("two runs have different notes")
	}
	if !slices.Equal(decided, withHints) {
		t.Error("hints change decisions")
	}
	count := func(notes []string) (n int) {
		for _, note := range notes {
			if strings.Contains(note, "Would fit") {
				n++
			}
		}
		return n
	}
	if n := count(once); n < 20 || n == len(once) || count(plain) > 0 {
		t.Errorf("%d of %d notes have hints, and %d without the flag", n, len(once), count(plain))
	}
}
