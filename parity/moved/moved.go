// Package moved registers plugins of sigs.k8s.io/scheduler-plugins for both schedulers.
// They are compiled from command move's copy, because v0.35.4-devel, the newest version
// on the module proxy, is for Kubernetes 1.35.
package moved

import (
	noderesourcesfitplus "github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/noderesourcefitplus"
	"github.com/koordinator-sh/koordinator/pkg/scheduler/plugins/scarceresourceavoidance"
	"sigs.k8s.io/scheduler-plugins/pkg/capacityscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/coscheduling"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/networkoverhead"
	"sigs.k8s.io/scheduler-plugins/pkg/networkaware/topologicalsort"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesources"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"
	"sigs.k8s.io/scheduler-plugins/pkg/podstate"
	"sigs.k8s.io/scheduler-plugins/pkg/preemptiontoleration"
	"sigs.k8s.io/scheduler-plugins/pkg/qos"
	"sigs.k8s.io/scheduler-plugins/pkg/sysched"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/loadvariationriskbalancing"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/lowriskovercommitment"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/peaks"
	"sigs.k8s.io/scheduler-plugins/pkg/trimaran/targetloadpacking"

	"github.com/berth-scheduler/berth/parity/plugged"
)

// Plugins returns the factories of these plugins and of package plugged, by name.
func Plugins() map[string]plugged.Factory {
	plugins := plugged.Plugins()
	for name, factory := range map[string]plugged.Factory{
		capacityscheduling.Name:         capacityscheduling.New,
		coscheduling.Name:               coscheduling.New,
		loadvariationriskbalancing.Name: loadvariationriskbalancing.New,
		lowriskovercommitment.Name:      lowriskovercommitment.New,
		networkoverhead.Name:            networkoverhead.New,
		noderesources.AllocatableName:   noderesources.NewAllocatable,
		noderesourcetopology.Name:       noderesourcetopology.New,
		noderesourcesfitplus.Name:       noderesourcesfitplus.New,
		peaks.Name:                      peaks.New,
		podstate.Name:                   podstate.New,
		preemptiontoleration.Name:       preemptiontoleration.New,
		qos.Name:                        qos.New,
		scarceresourceavoidance.Name:    scarceresourceavoidance.New,
		sysched.Name:                    sysched.New,
		targetloadpacking.Name:          targetloadpacking.New,
		topologicalsort.Name:            topologicalsort.New,
	} {
		plugins[name] = factory
	}
	return plugins
}
