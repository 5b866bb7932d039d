// Package plugged is the plugins that two schedulers are built with, so that the same plugins run in both: kube-scheduler and Berth.
//
// They are plugins that are in use elsewhere, from their own modules, and some that are written here against k8s.io/kube-scheduler/framework alone. The
// programs kube-scheduler and berth below this folder have them all; none is enabled before a configuration says so.
package plugged

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Factory makes a plugin. Both schedulers' options take it as it is.
type Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error)

// Plugins are the factories of all plugins, by name.
func Plugins() map[string]Factory {
	return map[string]Factory{
		TrivialName:        newTrivial,
		OrderedName:        newOrdered,
		GangName:           newGang,
		QuotaName:          newQuota,
		LoadName:           newLoad,
		ZonesName:          newZones,
		SkippingBinderName: newSkippingBinder,
		CustomBinderName:   newCustomBinder,
		GateName:           newGate,
		NominatorName:      newNominator,
		RecordName:         newRecord,
		ProbeName:          newProbe,
	}
}
