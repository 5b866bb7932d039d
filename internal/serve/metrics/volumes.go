package metrics

import (
	"errors"

	"github.com/berth-scheduler/berth/internal/decide/plugins/volumebinding"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// volumeOperations are kube-scheduler's names of VolumeBinding's operations at the
// extension points.
var volumeOperations = map[string]string{plan.FilterPoint: "predicate", "Reserve": "assume", "PreBind": "bind"}

// countVolumeError counts an error, which may be nil, if it is VolumeBinding's. An error
// at Filter ends the attempt and is counted once. kube-scheduler counts it for each node
// on which the filter happened to run.
func countVolumeError(f *families, err error) {
	if err == nil {
		return
	}
	var of *plan.PluginError
	if !errors.As(err, &of) || of.Plugin != volumebinding.Name {
		return
	}
	if operation := volumeOperations[of.Point]; operation != "" {
		f.counterVecs["scheduler_volume_scheduling_stage_error_total"].WithLabelValues(operation).Inc()
	}
}
