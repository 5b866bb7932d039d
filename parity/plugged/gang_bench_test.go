package plugged

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

const (
	gangSize   = 64
	gangOthers = 1000
)

// BenchmarkGang starts a Coscheduling gang of 64 among 1,000 other pods on 100 nodes,
// under both schedulers in turn. It reports, for each scheduler, the seconds from the
// first pod's creation until the gang, and until all pods, are bound. "make gang-bench"
// runs it.
func BenchmarkGang(b *testing.B) {
	bin := os.Getenv(binEnv)
	if bin == "" {
		b.Skipf("%s does not name a folder of built programs, as make gang-bench does", binEnv)
	}
	ctx, must := b.Context(), mustOf(b)
	f := openFloor(ctx, b, bin, 100)
	must(f.define(ctx, podGroups, "PodGroup", "Namespaced"))
	must(os.WriteFile(f.config, []byte(gangConfiguration(f.cluster.Kubeconfig)), 0o600))
	seconds := map[string][]float64{}
	run := 0
	for b.Loop() {
		for _, program := range []string{"moved-kube-scheduler", "moved-berth"} {
			run++
			gang, all, err := f.startGang(ctx, program, fmt.Sprintf("gang-%d", run))
			must(err)
			seconds[program+"-gang-s"] = append(seconds[program+"-gang-s"], gang)
			seconds[program+"-all-s"] = append(seconds[program+"-all-s"], all)
		}
	}
	for unit, list := range seconds {
		slices.Sort(list)
		b.ReportMetric(list[len(list)/2], unit)
		b.Logf("%s: %.2f", unit, list)
	}
}

func gangConfiguration(kubeconfig string) string {
	return fmt.Sprintf(`
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}
leaderElection: {leaderElect: false}
profiles:
- schedulerName: gangs
  plugins: {queueSort: {disabled: [{name: "*"}], enabled: [{name: Coscheduling}]}, multiPoint: {enabled: [{name: Coscheduling}]}}
  pluginConfig: %s
`, kubeconfig, args("Coscheduling", "permitWaitingTimeSeconds: 60"))
}

// startGang creates the pods under a scheduler, with the gang's members spread among the
// others. It returns the seconds until the gang, and until all pods, are bound.
func (f *floor) startGang(ctx context.Context, program, namespace string) (gang, all float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	s := &stage{clients: f.clients, dynamic: f.dynamic, scheduler: "gangs", namespace: namespace, seen: map[string]*v1.Pod{}}
	if _, err := f.clients.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return 0, 0, err
	}
	if err := s.group(ctx, "gang", gangSize); err != nil {
		return 0, 0, err
	}
	process, err := rig.Start(nil, filepath.Join(f.bin, program), "--config", f.config, "--secure-port=0")
	if err != nil {
		return 0, 0, err
	}
	defer process.End()
	defer func() { _ = rig.DeletePods(context.WithoutCancel(ctx), f.clients, namespace) }()
	bindings, err := f.cluster.WatchBindings(ctx, namespace, "")
	if err != nil {
		return 0, 0, err
	}
	free := func(pod *v1.Pod) *v1.Pod { pod.Spec.NodeSelector = nil; return pod }
	// its binding shows that the scheduler has begun
	if err := s.create(ctx, free(s.pod("first", 1))); err != nil {
		return 0, 0, err
	}
	if err := bindings.Await(ctx, 1, process); err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", program, err, process.Log())
	}
	const total = gangSize + gangOthers
	began := time.Now()
	err = rig.CreatePods(ctx, f.clients, namespace, total, func(i int) *v1.Pod {
		if member := i * gangSize / total; i == 0 || member != (i-1)*gangSize/total {
			return free(s.member("gang", member, 1))
		}
		return free(s.pod(fmt.Sprintf("other-%d", i), 1))
	})
	if err == nil {
		err = bindings.Await(ctx, 1+total, process)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", program, err, process.Log())
	}
	for name, at := range bindings.Times() {
		took := at.Sub(began).Seconds()
		if all = max(all, took); len(name) > 5 && name[:5] == "gang-" {
			gang = max(gang, took)
		}
	}
	return gang, all, nil
}
