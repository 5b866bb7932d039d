// Command kube-scheduler is kube-scheduler with the plugins of package moved.
package main

import (
	"os"

	_ "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config/scheme"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	// registers the plugins' arguments in kube-scheduler's scheme
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"

	"github.com/berth-scheduler/berth/parity/moved"
)

func main() {
	var options []app.Option
	for name, factory := range moved.Plugins() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}
