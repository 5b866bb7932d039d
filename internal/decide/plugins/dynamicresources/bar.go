package dynamicresources

import (
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Bar rejects pods that need devices in a profile that enables the plugin at some but not
// all of its extension points. Such pods would be bound without devices. kube-scheduler
// fails or binds the pod, depending on the points.
type Bar struct{ missing []string }

// NewBar returns the bar for a profile that lacks the plugin at the given points.
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

// Bars returns why a pod stays pending, or "" if it needs no devices. Devices are needed
// by claims, and by extended resources that a class provides.
func (b *Bar) Bars(pod *model.Pod, classes model.ClassResolver) string {
	if pod.Devices == nil && !pod.Asks.AreDevices(classes) {
		return ""
	}
	return b.rejection()
}

// Skips reports whether the pod needs no devices, whichever classes exist.
func (*Bar) Skips(pod *model.Pod) bool { return (*Plugin)(nil).Skips(pod) }

// EventsToRegister registers for nothing, since no event helps a pod that needs devices.
// If no class provides its extended resource any more, the pod is retried by time.
func (*Bar) EventsToRegister() []model.EventToRegister { return nil }
