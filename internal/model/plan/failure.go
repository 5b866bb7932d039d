package plan

import "fmt"

// PluginError is the error of a plugin at an extension point, with kube-scheduler's text.
type PluginError struct {
	// Point is kube-scheduler's name of the extension point, such as PreFilter.
	// FilterPoint selects the text of Filter errors, which differs from the others.
	Point  string
	Plugin string
	Err    error
}

// FilterPoint is the Point of errors at Filter.
const FilterPoint = "Filter"

// Error returns kube-scheduler's text.
func (e *PluginError) Error() string {
	if e.Point == FilterPoint {
		return fmt.Sprintf("running %q filter plugin: %v", e.Plugin, e.Err)
	}
	return fmt.Sprintf("running %s plugin %q: %v", e.Point, e.Plugin, e.Err)
}

// Unwrap returns the plugin's error.
func (e *PluginError) Unwrap() error { return e.Err }
