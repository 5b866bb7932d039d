package neighbours

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// runs is the number of descheduler's runs in a scene. Evictions in the second half
	// mean that descheduler and scheduler disagree for ever.
	runs     = 60
	interval = "250ms"

	rack = "example.com/rack"
	disk = "example.com/disk"
)

var descheduler = neighbour{
	nodes:   6,
	install: func(context.Context, *stage) error { return nil }, // it has no definitions
	scenes: []scene{
		{"duplicates", playDuplicates},
		{"taint", playTaint},
		{"affinity", playAffinity},
		{"affinity-nowhere-else", playAffinityNowhereElse},
		{"taint-nowhere-else", playTaintNowhereElse},
		{"preferred-affinity", playPreferredAffinity},
		{"anti-affinity", playAntiAffinity},
		{"spread", playSpread},
		{"soft-spread", playSoftSpread},
		{"low-utilization", playLowUtilization},
		{"packing", playPacking("packing")},
		{"packing-beside-default-constraints", playPacking("most-allocated")},
		{"packing-beside-spreading", playPacking("default-scheduler")},
		{"hard-spread-and-utilization", playHardSpreadAndUtilization},
	},
}

// deployment returns a Deployment. The spec of its pods is in YAML's flow style.
func deployment(name string, replicas int, spec string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {terminationGracePeriodSeconds: 0, %[3]s}
`, name, replicas, spec)
}

func containers(cpus int) string {
	return fmt.Sprintf("containers: [{name: main, image: registry.example.com/app, resources: {requests: {cpu: %d}}}]", cpus)
}

// policy returns a policy with one strategy.
func policy(extension, strategy, args, evictor string) string {
	return fmt.Sprintf(`
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: scene
  pluginConfig:
  - name: DefaultEvictor
    args: %[4]s
  - name: %[2]s
    args: %[3]s
  plugins:
    %[1]s: {enabled: [%[2]s]}
`, extension, strategy, args, evictor)
}

// evict runs descheduler, at first until half of its runs are over and then for the other
// half, and notes the state and the evictions. Evictions are counted as pods that were
// created again. Their exact number counts only where it does not depend on ties.
func (s *stage) evict(ctx context.Context, policy string, exact bool, group func(*v1.Node) string) error {
	path, err := s.file(s.namespace+".yaml", policy)
	if err != nil {
		return err
	}
	before := s.created()
	log := &runCounter{}
	process, err := s.start(log, "descheduler", "--kubeconfig", s.cluster.Kubeconfig, "--policy-config-file", path,
		"--descheduling-interval", interval, "--disable-metrics", "--secure-port=0", "--v=1")
	if err != nil {
		return err
	}
	counts := []int{}
	for _, until := range []int{runs / 2, runs} {
		err := poll(ctx, 2*time.Minute, func() error {
			if have := log.count(); have < until {
				return fmt.Errorf("descheduler has run %d times, want %d", have, until)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("%w\n%s", err, process.Log())
		}
		counts = append(counts, s.created()-before)
	}
	s.stop(process)
	s.t.Logf("%s: %d evictions after half of the runs, %d in the end", s.namespace, counts[0], counts[1])
	switch {
	case counts[0] != counts[1]:
		s.note("evictions go on")
		return nil
	case exact:
		s.note("evictions: %d", counts[0])
	case counts[0] > 0:
		s.note("evictions end")
	default:
		s.note("no evictions")
	}
	return s.noteState(ctx, group)
}

// runCounter counts descheduler's runs in its log.
type runCounter struct {
	mu   sync.Mutex
	rest []byte
	runs int
}

func (r *runCounter) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = append(r.rest, b...)
	for {
		line, rest, found := bytes.Cut(r.rest, []byte("\n"))
		if !found {
			return len(b), nil
		}
		if bytes.Contains(line, []byte(`"Number of evictions/requests"`)) {
			r.runs++
		}
		r.rest = rest
	}
}

func (r *runCounter) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.runs
}

// playDuplicates has all replicas on one node while the others are cordoned.
func playDuplicates(ctx context.Context, s *stage) error {
	if err := s.crowd(ctx, 1, deployment("web", 6, containers(1)), 6); err != nil {
		return err
	}
	return s.evict(ctx, policy("balance", "RemoveDuplicates", "{}", "{nodeFit: true}"), true, byNode)
}

// crowd creates a Deployment while only the first nodes are schedulable.
func (s *stage) crowd(ctx context.Context, nodes int, deployment string, replicas int) error {
	if err := s.cordon(ctx, true, s.nodes[nodes:]...); err != nil {
		return err
	}
	if err := s.apply(ctx, deployment); err != nil {
		return err
	}
	if err := s.bound(ctx, replicas); err != nil {
		return err
	}
	return s.cordon(ctx, false, s.nodes[nodes:]...)
}

// playTaint taints the node of a replica.
func playTaint(ctx context.Context, s *stage) error {
	if err := s.apply(ctx, deployment("web", 6, containers(1))); err != nil {
		return err
	}
	if err := s.bound(ctx, 6); err != nil {
		return err
	}
	if err := s.noteState(ctx, byNode); err != nil {
		return err
	}
	if err := s.change(ctx, s.nodes[0], `{"spec":{"taints":[{"key":"example.com/old","effect":"NoSchedule"}]}}`); err != nil {
		return err
	}
	if err := s.evict(ctx, policy("deschedule", "RemovePodsViolatingNodeTaints", "{}", "{nodeFit: true}"), true, byNode); err != nil {
		return err
	}
	return s.change(ctx, s.nodes[0], `{"spec":{"taints":null}}`)
}

const onDisks = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
	"{nodeSelectorTerms: [{matchExpressions: [{key: " + disk + ", operator: In, values: [ssd]}]}]}}}, "

// playAffinity has three nodes with a label that the pods require, and removes the label
// from the first node.
func playAffinity(ctx context.Context, s *stage) error {
	if err := s.label(ctx, disk, "ssd", s.nodes[:3]...); err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("db", 3, onDisks+containers(1))); err != nil {
		return err
	}
	if err := s.bound(ctx, 3); err != nil {
		return err
	}
	if err := s.label(ctx, disk, "", s.nodes[0]); err != nil {
		return err
	}
	if err := s.evict(ctx, policy("deschedule", "RemovePodsViolatingNodeAffinity",
		"{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}", "{nodeFit: true}"), true, byNode); err != nil {
		return err
	}
	return s.label(ctx, disk, "", s.nodes[:3]...)
}

// playAffinityNowhereElse is playAffinity without another such node. No pod is evicted,
// even without the check of the destination.
func playAffinityNowhereElse(ctx context.Context, s *stage) error {
	if err := s.label(ctx, disk, "ssd", s.nodes[0]); err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("db", 2, onDisks+containers(1))); err != nil {
		return err
	}
	if err := s.bound(ctx, 2); err != nil {
		return err
	}
	if err := s.label(ctx, disk, "", s.nodes[0]); err != nil {
		return err
	}
	for _, evictor := range []string{"{nodeFit: true}", "{}"} {
		if err := s.evict(ctx, policy("deschedule", "RemovePodsViolatingNodeAffinity",
			"{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}", evictor), true, byNode); err != nil {
			return err
		}
	}
	return nil
}

// playTaintNowhereElse taints the only node that the pods may use. Without the check of
// the destination they are evicted, and stay pending while the taint is there.
func playTaintNowhereElse(ctx context.Context, s *stage) error {
	if err := s.label(ctx, disk, "ssd", s.nodes[0]); err != nil {
		return err
	}
	if err := s.apply(ctx, deployment("db", 2, onDisks+containers(1))); err != nil {
		return err
	}
	if err := s.bound(ctx, 2); err != nil {
		return err
	}
	if err := s.change(ctx, s.nodes[0], `{"spec":{"taints":[{"key":"example.com/old","effect":"NoSchedule"}]}}`); err != nil {
		return err
	}
	for _, evictor := range []string{"{nodeFit: true}", "{}"} {
		if err := s.evict(ctx, policy("deschedule", "RemovePodsViolatingNodeTaints", "{}", evictor), true, byNode); err != nil {
			return err
		}
	}
	if err := s.change(ctx, s.nodes[0], `{"spec":{"taints":null}}`); err != nil {
		return err
	}
	if err := s.bound(ctx, 2); err != nil {
		return err
	}
	s.note("bound without the taint")
	return s.label(ctx, disk, "", s.nodes[0])
}

// playPreferredAffinity gives a node a label that the pods prefer.
func playPreferredAffinity(ctx context.Context, s *stage) error {
	preferred := "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: " +
		"[{weight: 100, preference: {matchExpressions: [{key: " + disk + ", operator: In, values: [ssd]}]}}]}}, "
	if err := s.apply(ctx, deployment("db", 1, preferred+containers(1))); err != nil {
		return err
	}
	if err := s.bound(ctx, 1); err != nil {
		return err
	}
	pods, err := s.list(ctx)
	if err != nil {
		return err
	}
	other := s.nodes[0]
	if pods[0].Spec.NodeName == other {
		other = s.nodes[1]
	}
	if err := s.label(ctx, disk, "ssd", other); err != nil {
		return err
	}
	if err := s.evict(ctx, policy("deschedule", "RemovePodsViolatingNodeAffinity",
		"{nodeAffinityType: [preferredDuringSchedulingIgnoredDuringExecution]}", "{nodeFit: true}"), true, byLabel(disk)); err != nil {
		return err
	}
	if pods, err = s.list(ctx); err != nil {
		return err
	}
	s.note("on the preferred node: %t", pods[0].Spec.NodeName == other)
	return s.label(ctx, disk, "", other)
}

// playAntiAffinity gives two pods that share a node the label that both repel.
func playAntiAffinity(ctx context.Context, s *stage) error {
	apart := "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"[{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {noisy: 'yes'}}}]}}, "
	if err := s.crowd(ctx, 1, deployment("web", 2, apart+containers(1)), 2); err != nil {
		return err
	}
	pods, err := s.list(ctx)
	if err != nil {
		return err
	}
	if err := s.labelPod(ctx, pods[0].Name, "noisy", "yes"); err != nil {
		return err
	}
	return s.evict(ctx, policy("deschedule", "RemovePodsViolatingInterPodAntiAffinity", "{}", "{nodeFit: true}"), true, byNode)
}

// playSpread gives two empty nodes the label of a third rack, so that a hard constraint
// that held is violated.
func playSpread(ctx context.Context, s *stage) error {
	return s.playRacks(ctx, "DoNotSchedule", "{}")
}

// playSoftSpread is playSpread with a soft constraint, which descheduler treats only with
// an argument.
func playSoftSpread(ctx context.Context, s *stage) error {
	return s.playRacks(ctx, "ScheduleAnyway", "{constraints: [ScheduleAnyway]}")
}

func (s *stage) playRacks(ctx context.Context, unsatisfiable, args string) error {
	if err := s.label(ctx, rack, "a", s.nodes[:2]...); err != nil {
		return err
	}
	if err := s.label(ctx, rack, "b", s.nodes[2:4]...); err != nil {
		return err
	}
	spread := "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"{nodeSelectorTerms: [{matchExpressions: [{key: " + rack + ", operator: Exists}]}]}}}, " +
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: " + rack + ", whenUnsatisfiable: " + unsatisfiable +
		", labelSelector: {matchLabels: {app: web}}}], "
	if err := s.apply(ctx, deployment("web", 6, spread+containers(1))); err != nil {
		return err
	}
	if err := s.bound(ctx, 6); err != nil {
		return err
	}
	if err := s.noteState(ctx, byLabel(rack)); err != nil {
		return err
	}
	if err := s.label(ctx, rack, "c", s.nodes[4:]...); err != nil {
		return err
	}
	if err := s.evict(ctx, policy("balance", "RemovePodsViolatingTopologySpreadConstraint", args, "{nodeFit: true}"), true, byLabel(rack)); err != nil {
		return err
	}
	return s.label(ctx, rack, "", s.nodes...)
}

// playLowUtilization fills half of the nodes while the others are cordoned.
func playLowUtilization(ctx context.Context, s *stage) error {
	if err := s.crowd(ctx, 3, deployment("web", 24, containers(4)), 24); err != nil {
		return err
	}
	return s.evict(ctx, policy("balance", "LowNodeUtilization",
		"{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}}", "{nodeFit: true}"), false, byNode)
}

// playPacking has one busy node and five with a small pod each. Pods of a scheduler that
// packs move to the busy node. A scheduler that spreads puts them back.
func playPacking(scheduler string) func(context.Context, *stage) error {
	profile := "schedulerName: " + scheduler + ", "
	return func(ctx context.Context, s *stage) error {
		if err := s.crowd(ctx, 1, deployment("large", 1, profile+containers(16)), 1); err != nil {
			return err
		}
		if err := s.cordon(ctx, true, s.nodes...); err != nil {
			return err
		}
		if err := s.apply(ctx, deployment("small", 0, profile+containers(2))); err != nil {
			return err
		}
		for i, node := range s.nodes[1:] {
			err := errors.Join(s.cordon(ctx, false, node), s.scale(ctx, "small", i+1), s.bound(ctx, i+2), s.cordon(ctx, true, node))
			if err != nil {
				return err
			}
		}
		if err := s.noteState(ctx, byNode); err != nil {
			return err
		}
		if err := s.cordon(ctx, false, s.nodes...); err != nil {
			return err
		}
		return s.evict(ctx, policy("balance", "HighNodeUtilization", "{thresholds: {cpu: 20}}", "{nodeFit: true}"), false, byNode)
	}
}

// playHardSpreadAndUtilization overloads the nodes of a rack whose pods may not leave it,
// by a constraint that descheduler's check of the destination does not read. Evictions
// end when its evictor leaves these pods alone.
func playHardSpreadAndUtilization(ctx context.Context, s *stage) error {
	if err := s.label(ctx, rack, "a", s.nodes[0]); err != nil {
		return err
	}
	if err := s.label(ctx, rack, "b", s.nodes[1:]...); err != nil {
		return err
	}
	spread := "topologySpreadConstraints: [{maxSkew: 1, topologyKey: " + rack + ", whenUnsatisfiable: DoNotSchedule" +
		", labelSelector: {matchLabels: {app: web}}}], "
	if err := s.apply(ctx, deployment("web", 12, spread+containers(4))); err != nil {
		return err
	}
	if err := s.bound(ctx, 12); err != nil {
		return err
	}
	if err := s.noteState(ctx, byLabel(rack)); err != nil {
		return err
	}
	for _, evictor := range []string{
		"{nodeFit: true}",
		"{nodeFit: true, labelSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}}",
	} {
		if err := s.evict(ctx, policy("balance", "LowNodeUtilization",
			"{thresholds: {cpu: 40}, targetThresholds: {cpu: 50}}", evictor), false, byLabel(rack)); err != nil {
			return err
		}
	}
	return s.label(ctx, rack, "", s.nodes...)
}
