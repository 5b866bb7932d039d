// Sample-scheduler is a scheduler with the plugin Sample among the built-in ones.
package main

import (
	"os"

	"github.com/berth-scheduler/berth/app"
	"k8s.io/component-base/cli"

	"example.com/sample-plugin/sample"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(sample.Name, sample.New), app.WithScheme(sample.AddToScheme))))
}
