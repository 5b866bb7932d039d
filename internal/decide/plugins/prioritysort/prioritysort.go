// Package prioritysort orders pending pods by priority, then by waiting time.
//
// It takes two queued pods and returns which goes first. It owns nothing. It never breaks
// a tie: pods that are equal in both have no order here.
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

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:      Name,
		QueueSort: &plugin.QueueSort{Less: p.Less},
	})
}

// Less reports whether a goes before b.
func (*Plugin) Less(a, b plugin.Queued) bool {
	if a.Pod.Priority != b.Pod.Priority {
		return a.Pod.Priority > b.Pod.Priority
	}
	return a.Since.Before(b.Since)
}
