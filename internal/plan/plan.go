// Package plan says what was decided.
//
// It gives the words that pass between queue, engine, explain and commit: Work (a pod whose turn it is), Decision (where
// it goes, or why nowhere), Rejection. Values only: it owns nothing, computes nothing and has no effects.
package plan

import (
	"errors"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/reason"
)

// Work is a pod whose turn it is.
type Work struct {
	Pod *model.Pod
	// Attempt counts the pod's turns, this one included.
	Attempt int
	// Since is when the pod first became ready to be scheduled.
	Since time.Time
	// AfterFlush says that nothing happened that could help the pod: it is tried because it was parked for long.
	AfterFlush bool
	// Popped is when this turn began.
	Popped time.Time
}

// Decision is the answer to one Work. Exactly one of NodeName, Rejection and Err is set.
type Decision struct {
	Work
	// NodeName is where the pod goes.
	NodeName string
	// Rejection says why no node will do.
	Rejection *Rejection
	// Err says why no answer could be found. It is not a rejection: the pod is tried again after a backoff.
	Err error

	// Nodes is how many nodes there are, Feasible how many of them would do.
	Nodes, Feasible int
	// Total is the winner's weighted score; 0 when there was no choice to make.
	Total int64
}

// Rejection is a decision's "no": what each node objected to, or what ruled out all of them at once.
type Rejection struct {
	// PreFilter is the message of a plugin that ruled out every node before any was looked at.
	PreFilter string
	// Counts says how many nodes were rejected for each reason, when PreFilter is empty. Sorted as kube-scheduler prints them.
	Counts []reason.Count
	// Plugins are the names of the plugins that must change their mind before another try is worth it, sorted.
	Plugins []string
}

// Settled reports whether the pod was given a node.
func (d *Decision) Settled() bool { return d.NodeName != "" }

// ErrTerminating is the outcome for a pod that is being deleted: it is not tried, and not tried again.
var ErrTerminating = errors.New("the pod is being deleted")

// ErrNoNodes is the outcome in an empty cluster. It counts as an error, as in kube-scheduler: there was no node to ask.
var ErrNoNodes = errors.New("no nodes available to schedule pods")
