package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/berth-scheduler/berth/internal/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/e2e/rig"
)

// contender is a program that places pods, or at least lists them.
type contender struct {
	name string
	// binary is the name in the folder of binaries; empty for this program itself.
	binary string
	args   []string
	// shapesOnly is set for a contender that ignores the demands of pods, and so takes part only in shapes.
	shapesOnly bool
	// restartOnly is set for a contender that binds nothing.
	restartOnly bool
}

// noPort disables serving: metrics are not read here, and the port may be taken.
const noPort = "--secure-port=0"

func contenders() []contender {
	return []contender{
		{name: report.Binder, shapesOnly: true},
		{name: report.KubeScheduler, binary: "kube-scheduler", args: []string{noPort}},
		{name: report.Berth, binary: "berth", args: []string{"scheduler", noPort}},
		{name: report.Lister, restartOnly: true},
	}
}

// parts are the contenders that are part of this program.
func parts() map[string]func(ctx context.Context, kubeconfig string) error {
	return map[string]func(ctx context.Context, kubeconfig string) error{
		report.Binder: bindRoundRobin,
		report.Lister: listPods,
	}
}

// plays reports whether the contender takes part in a scene.
func (c *contender) plays(s *scene.Scene) bool {
	switch {
	case c.shapesOnly:
		return s.Kind == scene.Shape
	case c.restartOnly:
		return s.Kind == scene.Restart
	case c.name == report.Berth:
		return s.Needs == ""
	}
	return true
}

// start starts the contender on a cluster. Both schedulers get the same configuration file: their default configuration, with client limits
// that neither reaches, and without leader election.
func (c *contender) start(log io.Writer, bin, folder string, cluster *rig.Cluster) (*rig.Process, error) {
	if c.binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		return cluster.StartHelper(log, self, c.name)
	}
	file := filepath.Join(folder, "scheduler.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf(configuration, cluster.SchedulerKubeconfig)), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", c.name, err)
	}
	return rig.Start(log, filepath.Join(bin, c.binary), append(c.args, "--config", file)...)
}

// configuration is a KubeSchedulerConfiguration for a kubeconfig. Upstream's own benchmark allows 5,000 requests per second.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 10000
  burst: 20000
`
