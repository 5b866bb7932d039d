// Command berth is Berth, as a drop-in for kube-scheduler, with the plugins of package moved.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"sigs.k8s.io/scheduler-plugins/apis/config"
	configv1 "sigs.k8s.io/scheduler-plugins/apis/config/v1"

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/parity/moved"
)

func main() {
	// The plugins take the internal version of their arguments; a configuration has v1.
	options := []app.Option{app.WithScheme(config.AddToScheme), app.WithScheme(configv1.AddToScheme)}
	for name, factory := range moved.Plugins() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}
