package loop_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

const giants = 10

// giant is a running pod with an affinity term for each of 2,000 label keys.
func giant(i int) *v1.Pod {
	affinity := &v1.PodAffinity{}
	for k := range 2000 {
		term := v1.PodAffinityTerm{TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: fmt.Sprintf("k%d-%d", i, k), Operator: metav1.LabelSelectorOpExists}}}}
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.WeightedPodAffinityTerm{Weight: 1, PodAffinityTerm: term})
	}
	p := ranks(fmt.Sprint("giant-", i), "1m", 0, build.NodeName("a"))
	p.Spec.Affinity = &v1.Affinity{PodAffinity: affinity}
	return p
}

// wide is a running pod with a list of 10,000 elements.
func wide(i int, fill func(p *v1.Pod, i, k int)) *v1.Pod {
	p := ranks(fmt.Sprint("giant-", i), "1m", 0, build.NodeName("a"))
	for k := range 10000 {
		fill(p, i, k)
	}
	return p
}

var giantShapes = map[string]func(i int) *v1.Pod{
	"terms": giant,
	"labels": func(i int) *v1.Pod {
		return wide(i, func(p *v1.Pod, i, k int) { metav1.SetMetaDataLabel(&p.ObjectMeta, fmt.Sprintf("k%d-%d", i, k), "") })
	},
	"claims": func(i int) *v1.Pod {
		return wide(i, func(p *v1.Pod, i, k int) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: fmt.Sprint(k), VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("c%d-%d", i, k)}}})
		})
	},
}

// TestGiantChangesAreHeld shows giant pods at once, and a small pod between them. No
// round applies more than two giants. The small pod is decided about before the last
// giant, and nothing is lost.
func TestGiantChangesAreHeld(t *testing.T) {
	for name, shape := range giantShapes {
		t.Run(name, func(t *testing.T) {
			c, waiting, decider := defaultParts(t, false)
			changes, commit, watch := ingest.New(c.Compile()), &held{}, &stopwatch{}
			l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: commit, Observers: []loop.Observer{watch}})
			now := time.Unix(1_000_000, 0)
			changes.Set(build.Node("a", build.Allocatable("cpu=8 memory=8Gi pods=110")))
			l.Once(now)
			for i := range giants {
				changes.Set(shape(i))
				if i == giants/2 {
					changes.Set(ranks("small", "1", 0))
				}
			}
			for rounds := 1; l.Once(now) || l.Unfinished(); rounds++ {
				if len(commit.made) > 0 && l.Held() == 0 && rounds < giants/2 {
					t.Errorf("all changes were applied in %d rounds", rounds)
				}
				if rounds > 2*giants {
					t.Fatalf("%d changes are held after %d rounds", l.Held(), rounds)
				}
			}
			decided := -1
			for i, r := range watch.rounds {
				if r.Changes > 3 {
					t.Errorf("round %d applied %d changes", i, r.Changes)
				}
				if r.Attempt != nil {
					decided = i
				}
			}
			if last := len(watch.rounds) - 1; decided < 1 || decided >= last {
				t.Errorf("the small pod was decided about in round %d of %d", decided, last)
			}
			if n := l.State().Pods(); n != giants+1 {
				t.Errorf("the state has %d pods, want %d giants and a small pod", n, giants)
			}
		})
	}
}

// TestFirstRoundAppliesAll shows giant pods before the first round, and before the first
// round of a leader that stood by. Both apply all changes before they decide.
func TestFirstRoundAppliesAll(t *testing.T) {
	c, waiting, decider := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}})
	for i := range giants {
		changes.Set(giant(i))
	}
	now := time.Unix(1_000_000, 0)
	if l.Once(now); l.Held() != 0 {
		t.Errorf("the first round held %d changes", l.Held())
	}
	for i := range giants {
		changes.Set(giant(giants + i))
	}
	if l.Once(now); l.Held() == 0 {
		t.Error("the second round held no changes")
	}
	l.TakeOver("another")
	if l.Once(now); l.Held() != 0 {
		t.Errorf("the first round of the leader held %d changes", l.Held())
	}
}

// TestRunAppliesHeldChanges runs a loop that gets no further signal from its source.
func TestRunAppliesHeldChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, changes, taken := newStandby(t, 0)
		close(taken.always)
		go l.Run(t.Context())
		err := l.Do(t.Context(), func() { // between two rounds
			for i := range giants {
				changes.Set(giant(i))
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		held, pods := -1, 0
		if err := l.Do(t.Context(), func() { held, pods = l.Held(), l.State().Pods() }); err != nil || held != 0 || pods != giants {
			t.Errorf("%d changes are held, the state has %d pods, %v", held, pods, err)
		}
	})
}

// TestNominationOfHeldPod has a plugin nominate a pod whose change is held. The
// nomination is applied when the pod exists.
func TestNominationOfHeldPod(t *testing.T) {
	c, waiting, decider := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}})
	now := time.Unix(1_000_000, 0)
	changes.Set(build.Node("a", build.Allocatable("cpu=8 memory=8Gi pods=110")))
	l.Once(now)
	for i := range giants {
		changes.Set(giant(i))
	}
	pod := ranks("nominated", "1", 0)
	// so that no decision ends the nomination
	pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/gate"}}
	changes.Set(pod)
	changes.Nominate(model.NominationRequest{Pod: model.PodKey{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID, NodeName: "a"})
	for l.Once(now) || l.Unfinished() {
	}
	if n := l.State().Nominated(); n != 1 {
		t.Errorf("%d pods are nominated, want 1", n)
	}
}

// TestHeldChangesAreBounded updates giant pods again and again while changes are held.
// The loop must not hold more than one batch.
func TestHeldChangesAreBounded(t *testing.T) {
	c, waiting, decider := defaultParts(t, false)
	changes := ingest.New(c.Compile())
	l := loop.New(loop.Config{Source: changes, Queue: waiting, Engine: decider, Commit: &held{}})
	now := time.Unix(1_000_000, 0)
	l.Once(now)
	for range giants {
		for i := range giants {
			changes.Set(giant(i))
		}
		if l.Once(now); l.Held() >= giants || changes.Waiting() > giants {
			t.Fatalf("%d changes are held, %d wait", l.Held(), changes.Waiting())
		}
	}
}
