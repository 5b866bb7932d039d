// Package prioritysort orders waiting pods: by priority, and among equals by how long they have waited.
//
// It takes two queued pods; it gives which of them goes first. It owns nothing. It never breaks a tie: pods that are equal in both have no order
// here.
package prioritysort

import "github.com/berth-scheduler/berth/internal/plugin"

// Name is the plugin's name in the configuration.
const Name = "PrioritySort"

// Plugin orders pods by priority and time.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "PrioritySort".
func (*Plugin) Name() string { return Name }

// Less reports whether a goes before b.
func (*Plugin) Less(a, b plugin.Queued) bool {
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	return a.Since.Before(b.Since)
}
