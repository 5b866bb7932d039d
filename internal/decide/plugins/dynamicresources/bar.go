package dynamicresources

import (
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// bar rejects pods that need devices in a profile that enables the plugin at some but not
// all of its extension points. Such pods would be bound without devices. kube-scheduler
// fails or binds the pod, depending on the points.
type bar struct{ missing []string }

// NewBar returns the bar for a profile that lacks the plugin at the given points.
func NewBar(missing ...string) *plugin.PreFilter {
	b := &bar{missing}
	return &plugin.PreFilter{Name: Name, Run: b.preFilter, Skips: b.skips, Bars: b.bars}
}

// preFilter rejects pods that need devices.
func (b *bar) preFilter(v state.View, pod *model.Pod) plugin.PreFilterResult {
	if pod.Devices == nil && !pod.Asks.AreDevices(v.Devices()) {
		return plugin.PreFilterResult{}
	}
	return plugin.PreFilterResult{Rejection: b.rejection()}
}

func (b *bar) rejection() string {
	return "the pod needs devices, and DynamicResources is disabled at " + strings.Join(b.missing, ", ")
}

// bars returns why a pod stays pending, or "" if it needs no devices. Devices are needed
// by claims, and by extended resources that a class provides.
func (b *bar) bars(pod *model.Pod, classes model.ClassResolver) string {
	if pod.Devices == nil && !pod.Asks.AreDevices(classes) {
		return ""
	}
	return b.rejection()
}

// skips reports whether the pod needs no devices, whichever classes exist.
func (*bar) skips(pod *model.Pod) bool { return (*Plugin)(nil).Skips(pod) }
