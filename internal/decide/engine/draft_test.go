package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestDraftAgreesWithOracle removes pods from nodes and adds others, at random, in drafts
// of a changing state. On the draft the engine must agree with the oracle on a cluster
// with these changes. The state must not change.
func TestDraftAgreesWithOracle(t *testing.T) { draftsAgree(t, topologyPair, random.TopologyChange) }

// TestDraftAgreesWithOracleOnVolumes does the same with pods that have volumes.
func TestDraftAgreesWithOracleOnVolumes(t *testing.T) {
	draftsAgree(t, storagePair, random.StorageChange)
}

func topologyPair(t *testing.T, r *rand.Rand, n uint64, size random.Size) *enginetest.Pair {
	return newPair(t, r, n, random.TopologyCluster(r, size), random.TopologyProfile(r))
}

func storagePair(t *testing.T, r *rand.Rand, n uint64, size random.Size) *enginetest.Pair {
	return newVolumePair(t, r, n, size).Pair
}

type newPairOf func(t *testing.T, r *rand.Rand, n uint64, size random.Size) *enginetest.Pair

type changeOf func(r *rand.Rand, c oracle.Cluster) random.Mutation

func draftsAgree(t *testing.T, newPair newPairOf, change changeOf) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		pair := newPair(t, r, n, random.Size{Nodes: 1 + r.IntN(14), Placed: r.IntN(60), Pending: 8})
		for step := range 16 {
			version := pair.State.Version()
			draft := pair.State.View().Draft()
			changed := pair.Cluster
			changed.Pods = slices.Clone(changed.Pods)
			for range 1 + r.IntN(6) {
				changeDraft(r, pair, draft, &changed)
			}
			for _, pod := range enginetest.Pending(changed) {
				want := oracle.Judge(changed, pod, pair.Oracle)
				if diff := enginetest.Compare(draft.View(), pair.Engine, pair.Compile(pod), want); diff != "" {
					t.Fatalf("step %d, pod %s: engine on a draft (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
				}
				if diff := pair.Compare(pod); diff != "" {
					t.Fatalf("step %d, pod %s: engine on the draft's state (-) and oracle (+) differ:\n%s", step, pod.Name, diff)
				}
			}
			if pair.State.Version() != version {
				t.Fatal("a draft changed the journal")
			}
			if err := pair.State.Audit(); err != nil {
				t.Fatalf("step %d, beside a draft: %v", step, err)
			}
			m := change(r, pair.Cluster)
			pair.Cluster = m.After
			pair.State.Apply(enginetest.MutationChanges(m))
		}
	})
}

// changeDraft removes a pod from its node, or adds a pending one, in the draft and in the
// oracle's cluster.
func changeDraft(r *rand.Rand, pair *enginetest.Pair, draft *state.Draft, cluster *oracle.Cluster) {
	at := r.IntN(max(1, len(cluster.Pods)))
	if len(cluster.Pods) == 0 || len(cluster.Nodes) == 0 {
		return
	}
	pod := cluster.Pods[at]
	switch _, _, placed := pair.State.NodeOf(model.NewPod(pod).Key()); {
	case pod.Spec.NodeName == "" && pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed:
		on := pod.DeepCopy()
		on.Spec.NodeName = cluster.Nodes[r.IntN(len(cluster.Nodes))].Name
		slot, _ := pair.State.Slot(on.Spec.NodeName)
		draft.Add(model.NewPod(on), slot)
		cluster.Pods[at] = on
	case placed || slices.ContainsFunc(pair.Cluster.Pods, func(p *v1.Pod) bool { return p.UID == pod.UID && p.Spec.NodeName == "" }):
		draft.Remove(model.NewPod(pod).Key())
		cluster.Pods = slices.Delete(cluster.Pods, at, at+1)
		// an added pod is pending again, and may be nominated
		for _, p := range pair.Cluster.Pods {
			if p.UID == pod.UID && p.Spec.NodeName == "" {
				cluster.Pods = append(cluster.Pods, p)
			}
		}
	}
}

// TestDryRunAgreesWithOracle adds pods to a node and removes others, as preemption and
// nominations do, and compares the filters' verdicts on the node. Counts are updated as
// by kube-scheduler's AddPod and RemovePod.
func TestDryRunAgreesWithOracle(t *testing.T) {
	dryRunsAgree(t, topologyPair, random.TopologyChange, false)
}

// TestDryRunAgreesWithOracleOnVolumes does the same with pods that have volumes. As in
// production, added pods are nominated, so volumes that no node uses are known before the
// dry run.
func TestDryRunAgreesWithOracleOnVolumes(t *testing.T) {
	dryRunsAgree(t, storagePair, random.StorageChange, true)
}

func dryRunsAgree(t *testing.T, newPair newPairOf, change changeOf, onlyNominated bool) {
	var compared, differing sync.Map
	t.Cleanup(func() {
		if _, some := differing.Load(true); !some && *seed == 0 {
			t.Errorf("no dry run differed from the node as it is")
		}
		if _, some := compared.Load(true); !some && *seed == 0 {
			t.Error("no dry run was compared")
		}
	})
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n)
		pair := newPair(t, r, n, random.Size{Nodes: 1 + r.IntN(8), Placed: r.IntN(60), Pending: 8})
		var dryRun state.Draft
		for step := range 16 {
			for _, pod := range enginetest.Pending(pair.Cluster) {
				node := pair.Cluster.Nodes[r.IntN(len(pair.Cluster.Nodes))]
				slot, _ := pair.State.Slot(node.Name)
				d := pair.State.View().DryRun(&dryRun)
				want := oracle.DryRun{Node: node.Name}
				for _, other := range pair.Cluster.Pods {
					_, _, placed := pair.State.NodeOf(model.NewPod(other).Key())
					switch {
					case other.UID == pod.UID || r.IntN(3) > 0:
					case placed && other.Spec.NodeName == node.Name:
						d.Remove(model.NewPod(other).Key())
						want.Removed = append(want.Removed, other)
					case other.Spec.NodeName == "" && len(want.Added) < 3 && (other.Status.NominatedNodeName != "" || !onlyNominated):
						d.Add(model.NewPod(other), slot)
						want.Added = append(want.Added, other)
					}
				}
				got, ok := pair.Engine.DryRun(pair.State.View(), pair.Compile(pod), d, slot)
				rejections, err := oracle.JudgeDryRun(pair.Cluster, pod, pair.Oracle, want)
				if !ok || err != nil || slices.ContainsFunc(rejections, func(r oracle.Rejection) bool { return r.Plugin == "" }) {
					continue
				}
				compared.Store(true, true)
				if diff := cmp.Diff(enginetest.WithoutFailures(got), wordsOf(rejections), cmpopts.EquateEmpty()); diff != "" {
					t.Fatalf("step %d, pod %s, node %s, %d removed, %d added: engine (-) and oracle (+) differ:\n%s",
						step, pod.Name, node.Name, len(want.Removed), len(want.Added), diff)
				}
				if without, _ := pair.Engine.DryRun(pair.State.View(), pair.Compile(pod), pair.State.View().Draft(), slot); fmt.Sprint(without) != fmt.Sprint(got) {
					differing.Store(true, true)
				}
			}
			if err := pair.State.Audit(); err != nil {
				t.Fatalf("step %d, after dry runs: %v", step, err)
			}
			m := change(r, pair.Cluster)
			if len(m.After.Nodes) == 0 {
				continue
			}
			pair.Cluster = m.After
			pair.State.Apply(enginetest.MutationChanges(m))
		}
	})
}

func wordsOf(rejections []oracle.Rejection) []reason.Rejection {
	var all []reason.Rejection
	for _, r := range rejections {
		all = append(all, reason.Rejection{Plugin: r.Plugin, Unresolvable: r.Unresolvable, Reasons: r.Reasons})
	}
	return all
}
