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

// NodeToStatus says why nodes were rejected: some by name, and all others alike.
type NodeToStatus struct {
	byName map[string]*fwk.Status
	absent *fwk.Status
}

// NewDefaultNodeToStatus returns one without names, in which nodes are UnschedulableAndUnresolvable.
func NewDefaultNodeToStatus() *NodeToStatus {
	return NewNodeToStatus(map[string]*fwk.Status{}, fwk.NewStatus(fwk.UnschedulableAndUnresolvable))
}

// NewNodeToStatus returns one with these statuses by name, and the status of all other nodes. The map is kept.
func NewNodeToStatus(byName map[string]*fwk.Status, absent *fwk.Status) *NodeToStatus {
	return &NodeToStatus{byName: byName, absent: absent}
}

// Get returns a node's status: that of all others if it has none by name.
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

// Len returns how many nodes have a status by name.
func (n *NodeToStatus) Len() int { return len(n.byName) }

// AbsentNodesStatus returns the status of all other nodes.
func (n *NodeToStatus) AbsentNodesStatus() *fwk.Status { return n.absent }

// SetAbsentNodesStatus sets it.
func (n *NodeToStatus) SetAbsentNodesStatus(status *fwk.Status) { n.absent = status }

// ForEachExplicitNode calls fn with each node that has a status by name, in no particular order.
func (n *NodeToStatus) ForEachExplicitNode(fn func(name string, status *fwk.Status)) {
	for name, status := range n.byName {
		fn(name, status)
	}
}

// NodesForStatusCode returns the nodes of the lister whose status has the code, in the lister's order, or in the order of their names where only nodes with a status by name can
// have it. Names that the lister does not know are left out.
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

// ExtenderName is the plugin name under which extenders reject.
const ExtenderName = "Extender"

// Diagnosis is why no node would do.
type Diagnosis struct {
	NodeToStatus *NodeToStatus
	// UnschedulablePlugins rejected the pod; PendingPlugins are those of them that wait for something outside of the cluster.
	UnschedulablePlugins, PendingPlugins sets.Set[string]
	// PreFilterMsg is set if a PreFilter plugin rejected the pod as a whole.
	PreFilterMsg  string
	PostFilterMsg string
}

// AddPluginStatus counts the plugin of a status among those that rejected the pod, if it did.
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

// FitError says that a pod fits on no node.
type FitError struct {
	Pod         *v1.Pod
	NumAllNodes int
	Diagnosis   Diagnosis
}

// NoNodeAvailableMsg is the format of how messages begin.
const NoNodeAvailableMsg = "0/%v nodes are available"

// Error returns kube-scheduler's message: how many nodes were rejected for which reasons, in the order of the texts.
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
