// Package reason defines why a pod cannot run on a node, or at all.
//
// A Code is the small number that a column stores for each node. A Rejection is the
// readable form of a code. The package owns no state and never depends on a plugin. A
// reason is never an error: "it does not fit" and "the check failed" have different types
// everywhere.
package reason

import (
	"slices"
	"strconv"
	"strings"
)

// Code is one plugin's verdict on one node; None means that the node passes. The other
// values are private to the plugin, which converts them to a Rejection on request. The
// two highest bits have the same meaning for all plugins.
type Code uint32

const (
	// None means that the plugin does not reject the node.
	None Code = 0
	// Unresolvable marks a rejection that evicting pods from the node cannot resolve.
	Unresolvable Code = 1 << 31
	// Failed means that the plugin returned an error instead of a verdict. It fails the
	// pod's turn.
	Failed Code = 1 << 30
	// Unasked means that no verdict is available: the plugin was not called, or did not
	// finish within the budget of the turn, which continues in a later round. The bit
	// Failed is set.
	Unasked = ^None
)

// IsUnresolvable reports whether evicting pods from the node cannot help.
func (c Code) IsUnresolvable() bool { return c&Unresolvable != 0 }

// IsFailed reports whether the code is an error instead of a verdict.
func (c Code) IsFailed() bool { return c&Failed != 0 }

// Rejection is a plugin's "no" with its reasons.
type Rejection struct {
	// Plugin is the name of the plugin, as in the configuration.
	Plugin string
	// Unresolvable rejections cannot be resolved by evicting pods.
	Unresolvable bool
	// Pending means that the plugin waits for something outside of the cluster. Such a
	// rejection is also unresolvable.
	Pending bool
	// Failed means that the plugin returned an error, which is then the only reason. It
	// occurs only in full answers, because an error in a decision fails the turn.
	Failed bool
	// Reasons are kube-scheduler's texts, such as "Insufficient cpu".
	Reasons []string
}

// StatusCode returns kube-scheduler's name of the status: Unschedulable,
// UnschedulableAndUnresolvable, Pending or Error.
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

// Count is the number of nodes rejected for a reason.
type Count struct {
	Nodes  int
	Reason string
}

// Tally counts nodes by reason. The zero value is empty.
//
// A pod can lack ten thousand resources, each a reason. So reasons are sorted, not
// hashed: a plugin lists its reasons nearly in order, and a sorted list costs little to
// sort.
type Tally struct {
	counts []Count
	// distinct is the number of counts when equal reasons were last merged.
	distinct int
}

// manyCounts is the number of counts up to which equal reasons are merged only at the
// end.
const manyCounts = 1024

// Add counts nodes that are rejected for each of the reasons.
func (t *Tally) Add(nodes int, reasons ...string) {
	if len(t.counts)+len(reasons) > max(manyCounts, 2*t.distinct) {
		t.merge()
	}
	t.counts = slices.Grow(t.counts, len(reasons))
	for _, text := range reasons {
		t.counts = append(t.counts, Count{Nodes: nodes, Reason: text})
	}
}

// merge sorts by reason and adds up the counts of equal reasons.
func (t *Tally) merge() {
	slices.SortFunc(t.counts, func(a, b Count) int { return strings.Compare(a.Reason, b.Reason) })
	merged := t.counts[:0]
	for _, c := range t.counts {
		if last := len(merged) - 1; last >= 0 && merged[last].Reason == c.Reason {
			merged[last].Nodes += c.Nodes
		} else {
			merged = append(merged, c)
		}
	}
	t.counts, t.distinct = merged, len(merged)
}

// Counts returns the number of rejected nodes for each reason, and empties the tally. As
// in kube-scheduler, the order is by the text "<nodes> <reason>", so that 10 comes before
// 2.
func (t *Tally) Counts() []Count {
	t.merge()
	slices.SortStableFunc(t.counts, func(a, b Count) int {
		if a.Nodes == b.Nodes { // as for resources that no node has
			return 0
		}
		return strings.Compare(strconv.Itoa(a.Nodes)+" ", strconv.Itoa(b.Nodes)+" ")
	})
	counts := t.counts
	*t = Tally{}
	return counts
}
