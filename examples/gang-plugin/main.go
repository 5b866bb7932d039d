// Gang-scheduler is a scheduler with the plugin Gang among the built-in ones.
package main

import (
	"os"

	"github.com/berth-scheduler/berth/app"
	"k8s.io/component-base/cli"

	"example.com/gang-plugin/gang"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(gang.Name, gang.New), app.WithScheme(gang.AddToScheme))))
}
