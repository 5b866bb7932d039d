package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// contender is a program that places pods, or at least lists them.
type contender struct {
	name string
	// binary is the name in the folder of binaries. It is empty for this program.
	binary string
	args   []string
	// plugged is the name of the binary with external plugins. It takes flags only.
	plugged string
	// noDecisions is set for a contender that makes no decisions. It takes part only in
	// shapes and in scenes with known answers.
	noDecisions bool
	// restartOnly is set for a contender that binds nothing.
	restartOnly bool
}

// noPort disables serving, because metrics are not read here and the port may be taken.
const noPort = "--secure-port=0"

func contenders() []contender {
	return []contender{
		{name: report.Binder, noDecisions: true},
		{name: report.KubeScheduler, binary: "kube-scheduler", args: []string{noPort}, plugged: "plugged-kube-scheduler"},
		{name: report.Berth, binary: "berth", args: []string{"scheduler", noPort}, plugged: "plugged-berth"},
		{name: report.Lister, restartOnly: true},
	}
}

// part is a contender that is part of this program. Its arguments are the kubeconfig,
// preceded by the workload and its scale for the binder in a workload.
type part func(ctx context.Context, args []string) error

// parts are the contenders that are part of this program.
func parts() map[string]part {
	return map[string]part{
		report.Binder: func(ctx context.Context, args []string) error {
			if len(args) == 3 {
				return bindArrivals(ctx, args[0], args[1], args[2])
			}
			return bindRoundRobin(ctx, args[len(args)-1])
		},
		report.Lister: func(ctx context.Context, args []string) error { return listPods(ctx, args[len(args)-1]) },
	}
}

// plays reports whether the contender takes part in a scene.
func (c *contender) plays(s *scene.Scene) bool {
	switch {
	case c.noDecisions:
		return s.Kind == scene.Shape || s.Answer != nil
	case c.restartOnly:
		return s.Kind == scene.Restart
	case c.name == report.Berth:
		return s.Needs == ""
	}
	return true
}

// binaryFor returns the binary that plays a scene.
func (c *contender) binaryFor(s *scene.Scene) string {
	if s.Plugin != "" {
		return c.plugged
	}
	return c.binary
}

// start starts the contender on a stage, for a scene at a scale. Both schedulers get the
// same configuration file: their default configuration, without leader election, and with
// client limits that neither reaches.
func (c *contender) start(log io.Writer, bin string, st *stage, s *scene.Scene, scale float64) (*rig.Process, error) {
	if c.binary == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		args := []string{c.name}
		if c.noDecisions && s.Answer != nil {
			args = append(args, s.Name, strconv.FormatFloat(scale, 'g', -1, 64))
		}
		return st.cluster.StartHelper(log, self, args...)
	}
	file := filepath.Join(st.folder, "scheduler.yaml")
	text, args := fmt.Sprintf(configuration, st.cluster.SchedulerKubeconfig), c.args
	if s.Plugin != "" {
		text, args = text+fmt.Sprintf(withPlugin, s.Plugin), []string{noPort}
	}
	args = slices.Concat(args, gatesFlag(s.Site))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of %s: %w", c.name, err)
	}
	return rig.Start(log, filepath.Join(bin, c.binaryFor(s)), append(args, "--config", file)...)
}

// configuration is a KubeSchedulerConfiguration for a kubeconfig. Upstream's own
// benchmark allows 5,000 requests per second.
const configuration = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: %q
  qps: 10000
  burst: 20000
`

// withPlugin is the part of a configuration that enables a plugin.
const withPlugin = `profiles:
- plugins:
    multiPoint:
      enabled:
      - name: %s
`
