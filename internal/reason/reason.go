// Package reason defines why a pod cannot run on a node, or at all.
//
// It takes nothing; it gives the small code that a column stores for each node, and the readable rejection that a code stands for. It owns no
// state and never depends on a plugin. A reason is never an error: "it does not fit" and "the check failed" are different types everywhere.
package reason

import (
	"slices"
	"strconv"
	"strings"
)

// Code is one plugin's verdict on one node: None if the plugin does not reject it. The other values are private to the plugin, which converts
// them to a Rejection on request. The two highest bits have the same meaning for all plugins.
type Code uint32

const (
	// None means that the plugin does not reject the node.
	None Code = 0
	// Unresolvable marks a rejection that evicting pods from the node cannot resolve.
	Unresolvable Code = 1 << 31
	// Failed means that the plugin returned an error instead of a verdict. It is no rejection: it fails the pod's turn.
	Failed Code = 1 << 30
	// Unasked is no verdict: the plugin was not asked, or could not find out within the budget of the turn, which goes on in a later round. It has the bit of Failed.
	Unasked = ^None
)

// IsUnresolvable reports whether evicting pods from the node cannot help.
func (c Code) IsUnresolvable() bool { return c&Unresolvable != 0 }

// IsFailed reports whether the code is an error and no verdict.
func (c Code) IsFailed() bool { return c&Failed != 0 }

// Rejection is a plugin's "no" with its reasons.
type Rejection struct {
	// Plugin is the name of the plugin, as in the configuration.
	Plugin string
	// Unresolvable rejections cannot be resolved by evicting pods.
	Unresolvable bool
	// Pending means that the plugin waits for something outside of the cluster. Such a rejection is unresolvable, too.
	Pending bool
	// Failed means that the plugin returned an error, which is the only reason. Only full answers have such: an error in a decision fails the turn.
	Failed bool
	// Reasons are kube-scheduler's texts, such as "Insufficient cpu".
	Reasons []string
}

// StatusCode returns kube-scheduler's name of the status: Unschedulable, UnschedulableAndUnresolvable, Pending or Error.
func (r Rejection) StatusCode() string {
	switch {
	case r.Failed:
		return "Error"
	case r.Pending:
		return "Pending"
	case r.Unresolvable:
		return "UnschedulableAndUnresolvable"
	}
	return "Unschedulable"
}

// Message joins the reasons as kube-scheduler does.
func (r Rejection) Message() string { return strings.Join(r.Reasons, ", ") }

// Count is how many nodes were rejected for one reason.
type Count struct {
	Nodes  int
	Reason string
}

// Counted returns how many nodes were rejected for each reason, sorted as kube-scheduler prints them: by the text "<nodes> <reason>", so that 10 comes
// before 2.
func Counted(nodes map[string]int) []Count {
	counts := make([]Count, 0, len(nodes))
	for text, n := range nodes {
		counts = append(counts, Count{Nodes: n, Reason: text})
	}
	slices.SortFunc(counts, func(a, b Count) int {
		if a.Nodes == b.Nodes { // as of all resources that no node has
			return strings.Compare(a.Reason, b.Reason)
		}
		return strings.Compare(strconv.Itoa(a.Nodes)+" ", strconv.Itoa(b.Nodes)+" ")
	})
	return counts
}
