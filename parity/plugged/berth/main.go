// Command berth is Berth as a drop-in for kube-scheduler, with the plugins of package
// plugged.
package main

import (
	"os"

	"k8s.io/component-base/cli"

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/parity/plugged"
)

func main() {
	var options []app.Option
	for name, factory := range plugged.Plugins() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}
