// Command berth is Berth with the plugins of package moved. It differs from command kube-scheduler by the import of the app and one option.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme" // registers the plugins' arguments in kube-scheduler's own scheme

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/framework/compat"
	"github.com/berth-scheduler/berth/parity/moved"
)

func main() {
	options := []app.Option{app.WithTypes(compat.Types())}
	for name, factory := range moved.Plugins() {
		options = append(options, app.WithPlugin(name, factory))
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(options...)))
}
