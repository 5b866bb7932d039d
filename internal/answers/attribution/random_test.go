package attribution_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// seeds is the number of pairs of snapshots in TestCauses.
var seeds = flag.Uint64("since-seeds", 250, "how many random pairs of snapshots TestCauses makes")

// TestCauses applies the differences of every cause in random pairs of snapshots, and
// compares the answers with the oracle. All differences of a cause lead to the other
// snapshot's answer, and no proper part of them does. Both snapshots are compared with
// the oracle, too.
func TestCauses(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for seed := range *seeds {
		r := random.New(seed)
		then, now := snapshots(r, seed)
		for _, key := range podsOf(then, now) {
			x := &exam{t: t, name: fmt.Sprintf("seed %d, %s", seed, key), then: then, now: now, key: key}
			x.d = explain.Differences(scheduler, objectsOf(then), objectsOf(now), key)
			x.r, err = explain.Since(scheduler, objectsOf(then), objectsOf(now), key, time.Time{})
			if err != nil {
				t.Fatal(x.name, err)
			}
			x.check(seen)
		}
	}
	for _, what := range []string{"own", "podCame", "podLeft", "podMoved", "podChanged", "nodeNew", "nodeGone", "cordon", "taints", "labels", "allocatable", "objectNew", "objectGone", "objectChanged",
		"undo", "apply", "elsewhere", "same", "placed", "preempts", "pending", "several", "only then", "only now", "lost"} {
		if seen[what] == 0 {
			t.Errorf("%s: never seen: the test says nothing about it", what)
		}
	}
	t.Log(seen)
}

// snapshots returns two snapshots of a random cluster, and random changes between them.
func snapshots(r *rand.Rand, seed uint64) (then, now oracle.Cluster) {
	size := random.Size{Nodes: 1 + r.IntN(6), Placed: r.IntN(13), Pending: 3}
	change := random.Change
	switch seed % 4 {
	case 0:
		then = random.Cluster(r, size)
	case 1:
		then, change = random.TopologyCluster(r, size), random.TopologyChange
	case 2:
		then, change = random.StorageCluster(r, size), random.StorageChange
	default:
		then, change = random.PreemptionCluster(r, size), random.PreemptionChange
	}
	settle(&then)
	now = then
	for range 1 + r.IntN(10) {
		now = change(r, now).After
	}
	settle(&now)
	if len(now.Pods) > 1 && r.IntN(3) == 0 { // A pod has other requirements than before.
		at, of := r.IntN(len(now.Pods)), r.IntN(len(now.Pods))
		p := now.Pods[at].DeepCopy()
		by := now.Pods[of].DeepCopy()
		p.Labels, p.Spec.Priority, p.Spec.SchedulingGates = by.Labels, by.Spec.Priority, by.Spec.SchedulingGates
		p.Spec.Containers, p.Spec.InitContainers, p.Spec.NodeSelector, p.Spec.Affinity = by.Spec.Containers, by.Spec.InitContainers, by.Spec.NodeSelector, by.Spec.Affinity
		p.Spec.Tolerations, p.Spec.TopologySpreadConstraints = by.Spec.Tolerations, by.Spec.TopologySpreadConstraints
		now.Pods = slices.Clone(now.Pods)
		now.Pods[at] = p
	}
	return then, now
}

// settle gives budgets a status that is not computed from the pods. It drops evictions,
// which the objects do not show. It also drops nominations of pods with ephemeral
// volumes, whose claims may belong to another pod. If such volumes cannot be counted on
// the node, the oracle fails, and the engine need not.
func settle(c *oracle.Cluster) {
	c.Pods = slices.Clone(c.Pods)
	for i, p := range c.Pods {
		if p.Status.NominatedNodeName != "" && slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return v.Ephemeral != nil }) {
			c.Pods[i] = p.DeepCopy()
			c.Pods[i].Status.NominatedNodeName = ""
		}
	}
	c.Evicted = nil
	c.DisruptionBudgets = slices.Clone(c.DisruptionBudgets)
	for i, b := range c.DisruptionBudgets {
		if b.Status.ObservedGeneration == 0 {
			c.DisruptionBudgets[i] = b.DeepCopy()
			c.DisruptionBudgets[i].Status.ObservedGeneration = 1
		}
	}
}

// podsOf returns the pods that are not finished in either snapshot; a pod may be missing
// in one.
func podsOf(then, now oracle.Cluster) []model.PodKey {
	var keys []model.PodKey
	ended := map[model.PodKey]bool{}
	for _, c := range []oracle.Cluster{then, now} {
		for _, p := range c.Pods {
			key := model.PodKey{Namespace: p.Namespace, Name: p.Name}
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
			ended[key] = ended[key] || kinds.Finished(p) || p.Spec.SchedulerName != v1.DefaultSchedulerName
		}
	}
	return slices.DeleteFunc(keys, func(key model.PodKey) bool { return ended[key] })
}

func objectsOf(c oracle.Cluster) explain.Objects {
	return explain.Objects{Nodes: c.Nodes, Pods: c.Pods, Others: c.Others()}
}

// exam checks one pod.
type exam struct {
	t         *testing.T
	name      string
	then, now oracle.Cluster
	key       model.PodKey
	d         *attribution.Differences
	r         *attribution.Result
}

func (x *exam) check(seen map[string]int) {
	then, now := x.in(x.then), x.in(x.now)
	if then == nil {
		seen["only now"]++
		then = now
	}
	if now == nil {
		seen["only then"]++
		now = then
	}
	if x.r.OnlyThen != (x.in(x.now) == nil) || x.r.OnlyNow != (x.in(x.then) == nil) || x.r.Then.On != onNode(x.in(x.then)) || x.r.Now.On != onNode(x.in(x.now)) {
		x.t.Errorf("%s: %+v", x.name, x.r)
	}
	x.expect("then", x.then, then, &x.r.Then)
	x.expect("now", x.now, now, &x.r.Now)
	seen[string(x.r.Now.Verdict)]++
	seen[string(x.r.Direction)]++
	if len(x.r.Lost) > 0 {
		seen["lost"]++
	}
	switch {
	case x.r.Direction == "":
		seen["same"]++
		if len(x.r.Causes) > 0 {
			x.t.Errorf("%s: the answer is the same, and has causes: %+v", x.name, x.r.Causes)
		}
		return
	case x.elsewhere():
		seen["elsewhere"]++
	}
	if len(x.r.Causes) == 0 {
		x.t.Errorf("%s: no cause: %+v", x.name, x.r)
	}
	for i := range x.r.Causes {
		x.checkCause(&x.r.Causes[i], seen)
	}
}

// in returns the pod of one snapshot; nil if it has none.
func (x *exam) in(c oracle.Cluster) *v1.Pod {
	for _, p := range c.Pods {
		if p.Namespace == x.key.Namespace && p.Name == x.key.Name {
			return p
		}
	}
	return nil
}

func onNode(p *v1.Pod) string {
	if p == nil {
		return ""
	}
	return p.Spec.NodeName
}

func (x *exam) elsewhere() bool { return x.r.Then.Verdict == x.r.Now.Verdict }

// want returns the answer that a cause leads to.
func (x *exam) want() *attribution.Answer {
	if x.r.Direction == attribution.Undo {
		return &x.r.Then
	}
	return &x.r.Now
}

// expect compares an answer about the pod with the oracle's.
func (x *exam) expect(what string, c oracle.Cluster, pod *v1.Pod, got *attribution.Answer) {
	j := x.judge(c, waiting(pod))
	if verdict := verdictOf(pod, &j); verdict != got.Verdict || !mayBe(&j, got) || verdict != attribution.Gated && verdict != attribution.Failed && pod.Status.NominatedNodeName == "" && got.Feasible != j.Feasible {
		x.t.Errorf("%s, %s: %s, the oracle: %s, %d feasible, best %v, %s %v", x.name, what, textOf(got), verdict, j.Feasible, j.Best, j.Message, j.Err)
	}
}

// waiting returns the pod as it is judged.
func waiting(p *v1.Pod) *v1.Pod {
	p = p.DeepCopy()
	if p.Spec.NodeName != "" {
		p.Spec.NodeName, p.Status = "", v1.PodStatus{}
	}
	p.DeletionTimestamp = nil
	return p
}

// judge returns the oracle's result for a version of the pod in a cluster without other
// versions of it.
func (x *exam) judge(c oracle.Cluster, pod *v1.Pod) oracle.Judgment {
	c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *v1.Pod) bool { return p.Namespace == x.key.Namespace && p.Name == x.key.Name })
	c.Pods = append(c.Pods, pod)
	return oracle.Judge(c, pod, oracle.DefaultProfile())
}

func verdictOf(pod *v1.Pod, j *oracle.Judgment) attribution.Verdict {
	switch {
	case len(pod.Spec.SchedulingGates) > 0:
		return attribution.Gated
	case j.Err != nil:
		return attribution.Failed
	case j.Feasible > 0:
		return attribution.Placed
	case j.Preemption != nil && len(j.Preemption.Candidates) > 0:
		return attribution.Preempts
	}
	return attribution.Pending
}

// mayBe reports whether a node is among the oracle's best nodes.
func mayBe(j *oracle.Judgment, a *attribution.Answer) bool {
	switch a.Verdict {
	case attribution.Placed:
		return len(j.Best) == 0 || slices.Contains(j.Best, a.Node)
	case attribution.Preempts:
		return slices.ContainsFunc(j.Preemption.Candidates, func(c oracle.Candidate) bool { return c.Node == a.Node })
	}
	return true
}

// checkCause applies the differences of a cause, and each proper part of them.
func (x *exam) checkCause(c *attribution.Cause, seen map[string]int) {
	for i := range c.Changes {
		seen[string(c.Changes[i].Kind)]++
	}
	if len(c.Changes) > 1 {
		seen["several"]++
	}
	if j, yes := x.leads(c); !yes {
		x.t.Errorf("%s: %s %s: want %s, the oracle: %d feasible, best %v, %s %v", x.name, x.r.Direction, texts(c), textOf(x.want()), j.Feasible, j.Best, j.Message, j.Err)
	}
	if x.r.CutShort {
		x.t.Errorf("%s: cut short after %d decisions", x.name, x.r.Decisions)
	}
	n := len(c.Changes)
	if !c.Minimal || c.Exact != (n <= 6) {
		x.t.Errorf("%s: %s: minimal %t, exact %t", x.name, texts(c), c.Minimal, c.Exact)
	}
	if !c.Exact {
		for left := range n {
			x.checkPart(c, c.Part(func(i int) bool { return i != left }))
		}
		return
	}
	for mask := range 1<<n - 1 {
		x.checkPart(c, c.Part(func(i int) bool { return mask&(1<<i) != 0 }))
	}
}

func (x *exam) checkPart(c, part *attribution.Cause) {
	j, yes := x.leads(part)
	if yes && x.elsewhere() && x.want().Verdict == attribution.Preempts && len(j.Preemption.Candidates) > 1 {
		return // The oracle does not decide among equally good candidates.
	}
	if yes {
		x.t.Errorf("%s: %s %s: %s is enough: %d feasible, best %v, %s", x.name, x.r.Direction, texts(c), texts(part), j.Feasible, j.Best, j.Message)
	}
}

// leads reports whether the oracle gives the wanted answer after the changes of a cause.
func (x *exam) leads(c *attribution.Cause) (oracle.Judgment, bool) {
	pods, set, gone := x.r.Make(x.d, c)
	pod := pods[0]
	cluster := x.now
	if x.r.Direction == attribution.Apply {
		cluster = x.then
	}
	for _, o := range gone {
		cluster = with(cluster, o, nil)
	}
	for _, o := range set {
		cluster = with(cluster, o, o)
	}
	j := x.judge(cluster, pod)
	want := x.want()
	switch {
	case verdictOf(pod, &j) != want.Verdict:
		return j, false
	case !x.elsewhere():
		return j, true
	case want.Verdict == attribution.Placed && len(j.Best) > 0:
		return j, engine.Preferred(0, x.key, j.Best) == want.Node
	}
	return j, mayBe(&j, want)
}

func textOf(a *attribution.Answer) string {
	return fmt.Sprintf("%s %s, %d of %d: %s", a.Verdict, a.Node, a.Feasible, a.Nodes, a.Message)
}

func texts(c *attribution.Cause) string {
	var all []string
	for i := range c.Changes {
		all = append(all, c.Changes[i].Text)
	}
	return "[" + strings.Join(all, "; ") + "]"
}

// with returns the cluster with another version of an object, or without it.
func with(c oracle.Cluster, object, now kinds.Object) oracle.Cluster {
	switch o := object.(type) {
	case *v1.Node:
		c.Nodes = other(c.Nodes, o, now)
	case *v1.Pod:
		c.Pods = other(c.Pods, o, now)
	case *storagev1.CSINode:
		c.CSINodes = other(c.CSINodes, o, now)
	default:
		all := c.Others()
		c = oracle.Cluster{Nodes: c.Nodes, Pods: c.Pods}
		for _, was := range all {
			if ref, _ := kinds.RefOf(was); ref != kinds.Of(o).Ref(o) {
				c.Add(was)
			}
		}
		if now != nil {
			c.Add(now)
		}
	}
	return c
}

func other[T kinds.Object](all []T, o T, now kinds.Object) []T {
	all = slices.DeleteFunc(slices.Clone(all), func(was T) bool { return was.GetName() == o.GetName() && was.GetNamespace() == o.GetNamespace() })
	if now != nil {
		all = append(all, now.(T))
	}
	return all
}
