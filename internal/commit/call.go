package commit

import (
	"context"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Call is the code of an out-of-tree plugin in a step of a binding. It runs once, on a
// goroutine of its own. It may take any time, but should return soon after the context is
// done.
type Call interface {
	plan.Call
	Run(ctx context.Context) CallResult
}

// CallResult is the result of a call. The zero value is success.
type CallResult struct {
	// Err, if not nil, fails the step. It has kube-scheduler's words and the plugin's
	// name.
	Err error
	// Rejected means, at PreBind and Bind, that Err is a plugin's rejection
	// (kube-scheduler's Unschedulable) and not a fault.
	Rejected bool
	// Skipped means, at Bind, that this plugin does not bind the pod; the next plugin
	// gets its turn.
	Skipped bool
	// Works means, at Reserve, that a PreBind plugin has work for the pod. The node is
	// then written as the pod's nominated node first.
	Works bool
}
