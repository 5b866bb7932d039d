// Package reason says why a pod cannot run on a node, or at all.
//
// It takes nothing; it gives the small code that a column stores for each node, and the readable rejection that a code
// stands for. It owns no state and knows no plugin. A reason is never an error: "it does not fit" and "we could not find
// out" are different types, everywhere.
package reason

import "strings"

// Code is one plugin's verdict about one node: None when the plugin has no objection. What the other values stand for is
// known to the plugin that gave them, which turns them into a Rejection on request. The two highest bits are common to
// all plugins.
type Code uint32

const (
	// None means that the node is fine.
	None Code = 0
	// Unresolvable marks a rejection that removing pods from the node cannot cure.
	Unresolvable Code = 1 << 31
	// Failed marks a verdict that could not be found out. It is no rejection: it fails the pod's turn.
	Failed Code = 1 << 30
)

// IsUnresolvable reports whether removing pods from the node would not help.
func (c Code) IsUnresolvable() bool { return c&Unresolvable != 0 }

// IsFailed reports whether the code is a failure and no verdict.
func (c Code) IsFailed() bool { return c&Failed != 0 }

// Rejection is a plugin's "no" in words.
type Rejection struct {
	// Plugin is the name of the plugin, as in the configuration.
	Plugin string
	// Unresolvable rejections cannot be cured by evicting pods.
	Unresolvable bool
	// Reasons are kube-scheduler's texts, such as "Insufficient cpu".
	Reasons []string
}

// StatusCode returns kube-scheduler's name of the status: Unschedulable or UnschedulableAndUnresolvable.
func (r Rejection) StatusCode() string {
	if r.Unresolvable {
		return "UnschedulableAndUnresolvable"
	}
	return "Unschedulable"
}

// Message joins the reasons as kube-scheduler does.
func (r Rejection) Message() string { return strings.Join(r.Reasons, ", ") }

// Count says how many nodes were rejected for one reason.
type Count struct {
	Nodes  int
	Reason string
}
