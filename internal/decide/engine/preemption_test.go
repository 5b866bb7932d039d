package engine_test

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

func preemptionPair(t *testing.T, r *rand.Rand, n uint64, size random.Size) *enginetest.Pair {
	cluster := random.PreemptionCluster(r, size)
	return newPair(t, r, n, cluster, random.PreemptionProfile(r, cluster))
}

// TestPreemptionAgreesWithOracle changes random clusters, with nodes too small for their
// pods, step by step. It compares the victims, their node, and the changes of
// nominations.
func TestPreemptionAgreesWithOracle(t *testing.T) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		size := random.Size{Nodes: 1 + r.IntN([]int{3, 8, 20}[r.IntN(3)]), Placed: r.IntN(60), Pending: 8}
		preemptionPair(t, r, n, size).Agree(t, r, 40, pending, random.PreemptionChange)
	})
}

// TestPreemptionOnDraftsAgreesWithOracle does the same on drafts, from which pods were
// removed and to which others were added.
func TestPreemptionOnDraftsAgreesWithOracle(t *testing.T) {
	draftsAgree(t, preemptionPair, random.PreemptionChange)
}

// TestRememberedPreemptionAgreesWithOracle decides about pods of few shapes over and
// over, with an engine that remembers rejections and with one that does not. Both must
// agree with the oracle, whatever priorities, policies and nominations the pods have.
func TestRememberedPreemptionAgreesWithOracle(t *testing.T) {
	var recalled, preempted atomic.Int64
	t.Cleanup(func() {
		if *seed == 0 && *seeds >= 20 && (recalled.Load() < 100 || preempted.Load() < 100) {
			t.Errorf("%d rejections were remembered, %d pods found room by preemption: too few to prove anything", recalled.Load(), preempted.Load())
		}
	})
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		pair := preemptionPair(t, r, n, random.Size{Nodes: 1 + r.IntN(6), Placed: r.IntN(40), Pending: 8})
		forgetful, err := engine.New(engine.Config{Seed: n, Profiles: []*plugin.Profile{pair.Profile}, RejectionBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		likes := shapesOf(r, pair.Cluster)
		for step := range 15 {
			for i := range likes {
				if r.IntN(2) > 0 {
					continue // to have more to follow the next time
				}
				before := pair.Engine.Counters().Recalled
				for again := range 2 {
					pod := anotherPreemptor(r, likes[i], pair.Cluster, again)
					want := oracle.Judge(pair.Cluster, pod, pair.Oracle)
					for name, e := range map[string]*engine.Engine{"remembering": pair.Engine, "forgetful": forgetful} {
						if diff := enginetest.Compare(pair.State.View(), e, pair.Compile(pod), want); diff != "" {
							t.Fatalf("step %d, pod %s: %s engine (-) and oracle (+) differ:\n%s", step, pod.Name, name, diff)
						}
					}
					if want.Preemption != nil && len(want.Preemption.Candidates) > 0 {
						preempted.Add(1)
					}
				}
				recalled.Add(pair.Engine.Counters().Recalled - before)
			}
			if err := pair.Engine.Audit(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			m := random.PreemptionChange(r, pair.Cluster)
			pair.Cluster = m.After
			pair.State.Apply(enginetest.MutationChanges(m))
		}
	})
}

// anotherPreemptor returns another pod of the same shape, which is not in the cluster.
func anotherPreemptor(r *rand.Rand, like *v1.Pod, c oracle.Cluster, number int) *v1.Pod {
	p := another(r, like, like.Name+[]string{"-x", "-y"}[number], c)
	if p.Spec.PreemptionPolicy = nil; r.IntN(10) == 0 {
		p.Spec.PreemptionPolicy = new(v1.PreemptNever)
	}
	return p
}

// TestPreemptionIsCarriedOut carries out decisions at once: pods are placed, nominated
// and evicted, as in the loop. The oracle sees the decisions, too. Evictions are seen
// later, in any order, or fail.
func TestPreemptionIsCarriedOut(t *testing.T) {
	var evicted, waited atomic.Int64
	t.Cleanup(func() {
		if *seed == 0 && *seeds >= 20 && (evicted.Load() < 50 || waited.Load() < 5) {
			t.Errorf("%d pods were evicted, %d waited for that: too few to prove anything", evicted.Load(), waited.Load())
		}
	})
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		pair := preemptionPair(t, r, n, random.Size{Nodes: 1 + r.IntN(6), Placed: 10 + r.IntN(30), Pending: 8})
		for step := range 30 {
			// the pods whose nominations are in the API server but not yet in the watch
			var unseen []types.UID
			for _, pod := range enginetest.Pending(pair.Cluster) {
				want := oracle.Judge(pair.Cluster, pod, pair.Oracle)
				if want.Preemption != nil && want.Preemption.Text == "preemption: not eligible due to a terminating pod on the nominated node." {
					waited.Add(1)
				}
				if diff := enginetest.Compare(pair.State.View(), pair.Engine, pair.Compile(pod), want); diff != "" {
					t.Fatalf("step %d, pod %s: engine (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
				}
				if r.IntN(3) == 0 {
					d := pair.Engine.Decide(pair.State.View(), plan.Alone(pair.Compile(pod)))
					evicted.Add(int64(len(d.Evictions)))
					unseen = append(unseen, carryOut(pair, &d)...)
				}
			}
			if err := pair.Engine.Audit(); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			for _, p := range pair.Cluster.Pods {
				if slices.Contains(unseen, p.UID) {
					pair.State.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(p)}})
				}
			}
			if len(pair.Cluster.Evicted) > 0 && r.IntN(2) == 0 {
				endEviction(r, pair)
			} else {
				m := random.PreemptionChange(r, pair.Cluster)
				pair.Cluster = m.After
				pair.State.Apply(enginetest.MutationChanges(m))
			}
			forgetEvictions(pair)
			if err := pair.State.Audit(); err != nil {
				t.Fatalf("after step %d: %v", step, err)
			}
		}
	})
}

// carryOut applies the evictions and nominations of a decision. In the oracle's cluster
// nominations are stored at once; their pods are returned.
func carryOut(pair *enginetest.Pair, d *plan.Decision) (nominated []types.UID) {
	pair.State.Evict(d.Evictions...)
	pair.State.Nominate(d.Nominations...)
	c := withOwnLists(pair.Cluster)
	for _, e := range d.Evictions {
		if !e.Pod.Terminating {
			c.Evicted = append(c.Evicted, e.Pod.UID)
		}
	}
	for _, n := range d.Nominations {
		for i, p := range c.Pods {
			if n.Mode != plan.Keep && p.UID == n.Pod.UID {
				c.Pods[i] = p.DeepCopy()
				c.Pods[i].Status.NominatedNodeName = n.NodeName
				nominated = append(nominated, p.UID)
			}
		}
	}
	pair.Cluster = c
	return nominated
}

// endEviction shows that an evicted pod is gone, or that its eviction has failed.
func endEviction(r *rand.Rand, pair *enginetest.Pair) {
	c := withOwnLists(pair.Cluster)
	uid := c.Evicted[r.IntN(len(c.Evicted))]
	for i, p := range c.Pods {
		if p.UID != uid {
			continue
		}
		if pod := model.NewPod(p); r.IntN(3) == 0 {
			at := slices.Index(c.Evicted, uid) // another preemption may evict it, too
			c.Evicted = slices.Delete(c.Evicted, at, at+1)
			pair.State.Apply([]model.Change{{Kind: model.PreemptionDone, Preemption: &model.PreemptionResult{Victims: []*model.Pod{pod}, Kept: []*model.Pod{pod}}}})
		} else {
			c.Pods = slices.Delete(c.Pods, i, i+1)
			pair.State.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}})
		}
		break
	}
	pair.Cluster = c
}

// forgetEvictions drops the evictions that have been seen.
func forgetEvictions(pair *enginetest.Pair) {
	c := withOwnLists(pair.Cluster)
	c.Evicted = slices.DeleteFunc(c.Evicted, func(uid types.UID) bool {
		at := slices.IndexFunc(c.Pods, func(p *v1.Pod) bool { return p.UID == uid })
		return at < 0 || c.Pods[at].DeletionTimestamp != nil || c.Pods[at].Status.Phase == v1.PodSucceeded || c.Pods[at].Status.Phase == v1.PodFailed
	})
	pair.Cluster = c
}

// withOwnLists returns a cluster whose pods and evictions can be changed.
func withOwnLists(c oracle.Cluster) oracle.Cluster {
	c.Pods, c.Evicted = slices.Clone(c.Pods), slices.Clone(c.Evicted)
	return c
}

// TestMalformedPodPreemptsNobody decides about an unreadable pod that could preempt on
// every node. Its needs are unknown, so no pod is evicted, and its nomination stays.
func TestMalformedPodPreemptsNobody(t *testing.T) {
	f := newFull(t, 3, 2, 1)
	pod := f.preemptor(0, 4000)
	f.preempt(t, pod, true)
	odd := &model.Pod{
		Object: pod.Object, UID: pod.UID, Namespace: pod.Namespace, Name: pod.Name, SchedulerName: pod.SchedulerName, Priority: pod.Priority, Malformed: "odd",
	}
	d := f.engine.Decide(f.state.View(), plan.Alone(odd))
	if d.Outcome != plan.Unschedulable || len(d.Evictions) > 0 || d.PostFilter != "" || d.PostFilterErr != nil || d.NominationOf(odd).Mode != plan.Keep {
		t.Errorf("%+v", d)
	}
}
