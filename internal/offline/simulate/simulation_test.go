package simulate_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

var (
	seeds = flag.Int("seeds", 40, "how many seeded simulations to run; of the default a quarter under the race detector")
	seed  = flag.Uint64("seed", 0, "the only seed to run, to replay a failure")
)

// TestSimulation runs the whole loop on random clusters that keep changing, audited after
// every round. Bindings fail, watch events are late and duplicated, nodes vanish under
// assumed pods, and processes die.
func TestSimulation(t *testing.T) {
	t.Cleanup(func() { // after all seeds
		if *seed == 0 && !t.Failed() && conditionsCompared.Load() == 0 {
			t.Error("no condition was compared with a decision")
		}
	})
	count := *seeds
	if build.Raced && count == 40 { // the default
		count = 10
	}
	random.EverySeed(t, "./internal/offline/simulate", count, *seed, func(t *testing.T, n uint64) {
		if err := run(n); err != nil {
			t.Error(err)
		}
	})
}

// run runs one simulation: disturbance, then rest, in which every pod that fits must be
// placed.
func run(n uint64) error {
	r := random.New(n)
	start := random.TopologyCluster(r, random.Size{Nodes: r.IntN(9), Placed: r.IntN(12), Pending: r.IntN(10)})
	profile := oracle.DefaultProfile()
	if r.IntN(2) > 0 {
		profile = random.TopologyProfile(r)
	}
	scheduler, err := enginetest.Config(profile)
	if err != nil {
		return err
	}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: n, Faults: faults(r), Audit: true})
	if err != nil {
		return err
	}
	if err := fill(c, start); err != nil {
		return err
	}
	a := newAuditor(c, profile)
	for step := range 60 {
		what, err := disturb(r, c, a)
		if err == nil {
			err = c.AdvanceTo(c.Now().Add(pause(r)), a.audit)
		}
		if err != nil {
			return fmt.Errorf("step %d (%s), %s after the start: %w", step, what, c.Elapsed(), err)
		}
	}
	c.SetFaults(simulate.Faults{})
	return rest(c, a)
}

func fill(c *simulate.Cluster, start oracle.Cluster) error {
	for _, node := range start.Nodes {
		c.SetNode(node)
	}
	for _, object := range start.Others() {
		if err := c.SetObject(object); err != nil {
			return err
		}
	}
	for _, pod := range start.Pods {
		c.SetPod(pod)
	}
	return nil
}

// rest lets the cluster run without disturbance until nothing changes. Then no feasible
// pod may be pending.
func rest(c *simulate.Cluster, a *auditor) error {
	advance := func(d time.Duration) error { return c.AdvanceTo(c.Now().Add(d), a.audit) }
	if err := a.nothingWaitsInVain(40*time.Second, advance, a.byOracle(nobody)); err != nil {
		return fmt.Errorf("at rest, %s after the start: %w", c.Elapsed(), err)
	}
	// A parked pod is retried after five minutes at the latest, at the next half minute.
	// The result may make another pod feasible without waking it.
	for placed := -1; placed != a.placedPods(); {
		placed = a.placedPods()
		if err := c.AdvanceTo(c.Now().Add(6*time.Minute), a.audit); err != nil {
			return fmt.Errorf("at rest, %s after the start: %w", c.Elapsed(), err)
		}
	}
	if err := a.checkSeen(); err != nil {
		return err
	}
	// nothing has failed since the rest began, so every condition is written
	compared, err := a.checkConditions()
	conditionsCompared.Add(int64(compared))
	if err != nil {
		return err
	}
	return a.nothingFits(nobody)
}

// conditionsCompared counts over all seeds.
var conditionsCompared atomic.Int64

func nobody(*v1.Pod) bool { return false }

func faults(r *rand.Rand) simulate.Faults {
	if r.IntN(3) == 0 {
		return simulate.Faults{}
	}
	return simulate.Faults{
		MaxWatchDelay: time.Duration(r.IntN(3000)) * time.Millisecond, MaxBindDelay: time.Duration(r.IntN(2000)) * time.Millisecond,
		DuplicatePercent: r.IntN(20),
		Requests: map[simulate.Fault]int{
			simulate.Conflict: r.IntN(20), simulate.Unavailable: r.IntN(20), simulate.Lost: r.IntN(10),
		},
	}
}

// pause draws the time until the next change: often zero, so that changes meet in one
// round.
func pause(r *rand.Rand) time.Duration {
	switch r.IntN(4) {
	case 0:
		return 0
	case 1:
		return time.Duration(r.IntN(100)) * time.Millisecond
	}
	return time.Duration(r.IntN(4000)) * time.Millisecond
}

// disturb makes one change to the cluster.
func disturb(r *rand.Rand, c *simulate.Cluster, a *auditor) (what string, err error) {
	now := stored(c)
	switch k := r.IntN(100); {
	case k < 2:
		a.forget()
		return "restart", c.Restart()
	case k < 14:
		return disturbPending(r, c, now, a)
	case k < 34:
		return createPod(r, c, now), nil
	}
	m := random.TopologyChange(r, now)
	switch {
	case m.NewNode != nil:
		c.SetNode(m.NewNode)
	case m.OldNode != nil:
		c.DeleteNode(m.OldNode.Name)
	case m.NewPod != nil:
		c.SetPod(m.NewPod)
	case m.OldPod != nil:
		c.DeletePod(keyOf(m.OldPod))
	case m.New != nil:
		err = c.SetObject(m.New.(runtime.Object))
	case m.Old != nil:
		ref, _ := kinds.RefOf(m.Old.(runtime.Object))
		c.DeleteObject(ref)
	}
	return m.String(), err
}

// createPod creates a pending pod. Some are gated, some have an unparsable preference or
// selector.
func createPod(r *rand.Rand, c *simulate.Cluster, now oracle.Cluster) string {
	number := 0
	for taken := true; taken; number++ {
		taken = false
		for _, p := range now.Pods {
			taken = taken || p.Name == fmt.Sprintf("pod-%d", number)
		}
	}
	pod := random.TopologyPod(r, number-1)
	switch r.IntN(12) {
	case 0:
		pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
	case 1:
		pod = random.WithBrokenPreference(pod)
	case 2:
		pod = random.WithBrokenSelector(r, pod)
	}
	c.SetPod(pod)
	return "pod created: " + pod.Name
}

// disturbPending deletes, replaces, ungates or changes a pod without a node, with a
// preference for pods with a binding in flight.
func disturbPending(r *rand.Rand, c *simulate.Cluster, now oracle.Cluster, a *auditor) (what string, err error) {
	var pending, binding []*v1.Pod
	for _, p := range now.Pods {
		if p.Spec.NodeName == "" {
			pending = append(pending, p)
			if _, ours := a.ours[keyOf(p)]; ours {
				binding = append(binding, p)
			}
		}
	}
	if len(binding) > 0 && r.IntN(3) > 0 {
		pending = binding
	}
	if len(pending) == 0 {
		return createPod(r, c, now), nil
	}
	old := pending[r.IntN(len(pending))]
	key := model.PodKey{Namespace: old.Namespace, Name: old.Name}
	pod := old.DeepCopy()
	switch r.IntN(5) {
	case 0:
		c.DeletePod(key)
		return "pending pod deleted: " + old.Name, nil
	case 1:
		c.DeletePod(key)
		pod.UID, pod.Status.Conditions = "", nil
		what = "pending pod replaced: "
	case 2:
		pod.Spec.SchedulingGates = nil
		what = "gate opened: "
	case 3:
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists})
		what = "pod tolerates everything: "
	default:
		at := metav1.NewTime(c.Now())
		pod.DeletionTimestamp = &at
		what = "deletion of pending pod requested: "
	}
	c.SetPod(pod)
	return what + old.Name, nil
}
