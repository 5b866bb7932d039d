package plan

import "fmt"

// PluginError is the error of a plugin at an extension point, in kube-scheduler's words.
type PluginError struct {
	// Point is kube-scheduler's name of the extension point, such as PreFilter; FilterPoint for Filter, which has words of its own.
	Point  string
	Plugin string
	Err    error
}

// FilterPoint is the Point of errors at Filter.
const FilterPoint = "Filter"

// Error returns the text.
func (e *PluginError) Error() string {
	if e.Point == FilterPoint {
		return fmt.Sprintf("running %q filter plugin: %v", e.Plugin, e.Err)
	}
	return fmt.Sprintf("running %s plugin %q: %v", e.Point, e.Plugin, e.Err)
}

// Unwrap returns the plugin's error.
func (e *PluginError) Unwrap() error { return e.Err }
