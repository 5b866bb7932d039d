package dynamicresources

import (
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Bar rejects pods that need devices in a profile that has the plugin at some points and not at all that it takes: they would be bound without.
// kube-scheduler's plugin fails there, or binds the pod, as it happens.
type Bar struct{ missing []string }

// NewBar returns the bar of a profile that lacks the plugin at these points.
func NewBar(missing ...string) *Bar { return &Bar{missing} }

// Name returns "DynamicResources".
func (*Bar) Name() string { return Name }

// PreFilter rejects pods that need devices.
func (b *Bar) PreFilter(v state.View, pod *model.Pod) plugin.PreFilterResult {
	if pod.Devices == nil && !pod.Asks.AreDevices(v.Devices()) {
		return plugin.PreFilterResult{}
	}
	return plugin.PreFilterResult{Rejection: b.rejection()}
}

func (b *Bar) rejection() string {
	return "the pod needs devices, and DynamicResources is disabled at " + strings.Join(b.missing, ", ")
}

// Bars returns why a pending pod stays pending, empty if it needs no devices: neither by claims nor by extended resources for which the devices of a class stand.
func (b *Bar) Bars(pod *model.Pod, classes model.ClassResolver) string {
	if pod.Devices == nil && !pod.Asks.AreDevices(classes) {
		return ""
	}
	return b.rejection()
}

// Skips reports whether the pod needs no devices, whatever classes there are.
func (*Bar) Skips(pod *model.Pod) bool { return (*Plugin)(nil).Skips(pod) }

// EventsToRegister registers for nothing: a pod that needs devices is not helped. One whose extended resource is no longer of any class is tried again in time.
func (*Bar) EventsToRegister() []model.EventToRegister { return nil }
