// Package moved is plugins of sigs.k8s.io/scheduler-plugins, for both schedulers. They are compiled from a copy that command move has made: v0.34.1-devel, the
// newest version there is, is for Kubernetes 1.34, and most of its packages do not compile with 1.37.
package moved

import (
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/podstate"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	"github.com/berth-scheduler/berth/parity/plugged"
)

// Plugins are the factories of these plugins, by name, and those of package plugged.
func Plugins() map[string]plugged.Factory {
	plugins := plugged.Plugins()
	plugins[coscheduling.Name] = coscheduling.New
	plugins[noderesources.AllocatableName] = noderesources.NewAllocatable
	plugins[podstate.Name] = podstate.New
	plugins[targetloadpacking.Name] = targetloadpacking.New
	return plugins
}
