// Package plugged holds plugins that are compiled into two schedulers, kube-scheduler and
// Berth, so that both run the same plugins.
//
// Some are plugins in use elsewhere, from their own modules. Others are written here
// against k8s.io/kube-scheduler/framework alone. The programs kube-scheduler and berth
// below this folder have them all. Only a configuration enables them.
package plugged

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Factory makes a plugin. Both schedulers' options accept it unchanged.
type Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error)

// Plugins returns all plugins' factories, by name.
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
