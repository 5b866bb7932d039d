package commit

import "context"

// Call is what a plugin from outside does in a step of a binding. It may take as long as it likes, and should end soon after the context is done. It is
// run once, on a goroutine of its own.
type Call interface {
	Run(ctx context.Context) CallResult
}

// CallResult is how a call ended. The zero value is success.
type CallResult struct {
	// Err fails the step, unless it is nil. It has kube-scheduler's words and the plugin's name.
	Err error
	// Rejected means, at PreBind and Bind, that Err is a plugin's "no" (kube-scheduler's Unschedulable) and nothing is broken.
	Rejected bool
	// Skipped means, at Bind, that this plugin does not bind the pod: the next does.
	Skipped bool
	// Works means, at Reserve, that a PreBind plugin has something to do for the pod: the node is announced as its nominated one before that.
	Works bool
}
