package metrics

import (
	"errors"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
)

// countDeviceWait observes the end of a wait for binding conditions: the duration for
// each device of the pod's claims, and each device with conditions. Other waits have no
// devices.
func countDeviceWait(f *families, profile string, w *commit.WaitEnd) {
	allocations, durations := f.counterVecs["scheduler_dra_bindingconditions_allocations_total"], f.histogramVecs["scheduler_dra_bindingconditions_wait_duration_seconds"]
	if allocations == nil { // without the feature gate
		return
	}
	status := "error"
	switch {
	case w.Err == nil:
		status = "success"
	case errors.Is(w.Err, dynamicresources.ErrBindingTimeout):
		status = "timeout"
	case errors.Is(w.Err, dynamicresources.ErrBindingFailed):
		status = "failure"
	}
	for _, device := range w.Wait.Devices {
		durations.WithLabelValues(profile, device.Driver, status).Observe(w.Took.Seconds())
		if device.Awaited {
			allocations.WithLabelValues(profile, device.Driver, status).Inc()
		}
	}
}

// claimCreated counts a claim that was to be created for a pod's extended resources. It
// counts once, even if the request was repeated. The caller holds mu.
func (c *Commit) claimCreated(err error) {
	creates := c.families.counterVecs["dynamic_resource_allocation_resourceclaim_creates_total"]
	if creates == nil { // without the feature gate
		return
	}
	status := "success"
	if err != nil {
		status = "failure"
	}
	creates.WithLabelValues(status, "false", "", "Pod").Inc()
}
