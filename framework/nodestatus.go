package framework

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

var _ fwk.NodeToStatusReader = (*NodeToStatus)(nil)

// NodeToStatus holds the reasons why nodes were rejected: explicit ones by name, and a
// shared status for all others.
type NodeToStatus struct {
	byName map[string]*fwk.Status
	absent *fwk.Status
}

// NewDefaultNodeToStatus returns a NodeToStatus without explicit nodes. All nodes are
// UnschedulableAndUnresolvable.
func NewDefaultNodeToStatus() *NodeToStatus {
	return NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
}

// NewNodeToStatus returns a NodeToStatus with explicit statuses by name, and the status
// of all other nodes. It keeps the map.
func NewNodeToStatus(byName map[string]*fwk.Status, absent *fwk.Status) *NodeToStatus {
	return &NodeToStatus{byName: byName, absent: absent}
}

// Get returns the node's explicit status, or the shared one.
func (n *NodeToStatus) Get(name string) *fwk.Status {
	if status, ok := n.byName[name]; ok {
		return status
	}
	return n.absent
}

// Set sets a node's status.
func (n *NodeToStatus) Set(name string, status *fwk.Status) {
	if n.byName == nil {
		n.byName = map[string]*fwk.Status{}
	}
	n.byName[name] = status
}

// Len returns the number of explicit nodes.
func (n *NodeToStatus) Len() int { return len(n.byName) }

// AbsentNodesStatus returns the status of all other nodes.
func (n *NodeToStatus) AbsentNodesStatus() *fwk.Status { return n.absent }

// SetAbsentNodesStatus sets the status of all other nodes.
func (n *NodeToStatus) SetAbsentNodesStatus(status *fwk.Status) { n.absent = status }

// ForEachExplicitNode calls fn with each explicit node, in no particular order.
func (n *NodeToStatus) ForEachExplicitNode(fn func(name string, status *fwk.Status)) {
	for name, status := range n.byName {
		fn(name, status)
	}
}

// NodesForStatusCode returns the lister's nodes whose status has the code. They are in
// the lister's order; if only explicit nodes can match, they are sorted by name. Names
// that the lister lacks are skipped.
func (n *NodeToStatus) NodesForStatusCode(lister fwk.NodeInfoLister, code fwk.Code) ([]fwk.NodeInfo, error) {
	var nodes []fwk.NodeInfo
	if n.absent.Code() == code {
		all, err := lister.List()
		if err != nil || len(n.byName) == 0 {
			return all, err
		}
		for _, node := range all {
			if n.Get(node.Node().Name).Code() == code {
				nodes = append(nodes, node)
			}
		}
		return nodes, nil
	}
	var names []string
	for name, status := range n.byName {
		if status.Code() == code {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if node, err := lister.Get(name); err == nil {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}

// ExtenderName is the plugin name of extenders in statuses.
const ExtenderName = "Extender"

// Diagnosis explains why no node is feasible.
type Diagnosis struct {
	NodeToStatus *NodeToStatus
	// UnschedulablePlugins rejected the pod. PendingPlugins are a subset that waits for
	// something outside of the cluster.
	UnschedulablePlugins, PendingPlugins sets.Set[string]
	// PreFilterMsg is set if a PreFilter plugin rejected the pod as a whole.
	PreFilterMsg  string
	PostFilterMsg string
}

// AddPluginStatus adds the status's plugin to the plugins that rejected the pod, if the
// status is a rejection.
func (d *Diagnosis) AddPluginStatus(status *fwk.Status) {
	if !status.IsRejected() || status.Plugin() == "" {
		return
	}
	add := func(to *sets.Set[string]) {
		if *to == nil {
			*to = sets.New[string]()
		}
		to.Insert(status.Plugin())
	}
	add(&d.UnschedulablePlugins)
	if status.Code() == fwk.Pending {
		add(&d.PendingPlugins)
	}
}

// FitError reports that a pod fits on no node.
type FitError struct {
	Pod         *v1.Pod
	NumAllNodes int
	Diagnosis   Diagnosis
}

// NoNodeAvailableMsg is the format of the beginning of messages.
const NoNodeAvailableMsg = "0/%v nodes are available"

// Error returns kube-scheduler's message: the number of nodes for each reason, sorted by
// text.
func (f *FitError) Error() string {
	text := fmt.Sprintf(NoNodeAvailableMsg+":", f.NumAllNodes)
	if f.Diagnosis.PreFilterMsg != "" {
		text += " " + f.Diagnosis.PreFilterMsg + "."
	} else if reasons := f.Diagnosis.reasons(f.NumAllNodes); len(reasons) > 0 {
		text += " " + strings.Join(reasons, ", ") + "."
	}
	if f.Diagnosis.PostFilterMsg != "" {
		text += " " + f.Diagnosis.PostFilterMsg
	}
	return text
}

// reasons returns each reason with its number of nodes, sorted as texts.
func (d *Diagnosis) reasons(nodes int) []string {
	if d.NodeToStatus == nil {
		return nil
	}
	counts := map[string]int{}
	for _, status := range d.NodeToStatus.byName {
		for _, reason := range status.Reasons() {
			counts[reason]++
		}
	}
	if absent := d.NodeToStatus.absent; absent != nil && nodes > d.NodeToStatus.Len() {
		for _, reason := range absent.Reasons() {
			counts[reason] += nodes - d.NodeToStatus.Len()
		}
	}
	texts := make([]string, 0, len(counts))
	for reason, n := range counts {
		texts = append(texts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(texts)
	return texts
}
