// Command berth is Berth with the plugins of package moved. Only the import of the app
// and one option differ from command kube-scheduler.
package main

import (
	"os"

	_ "github.com/koordinator-sh/koordinator/pkg/scheduler/apis/config/scheme"
	"k8s.io/component-base/cli"
	// registers the plugins' arguments in kube-scheduler's scheme
	_ "sigs.k8s.io/scheduler-plugins/apis/config/scheme"

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
