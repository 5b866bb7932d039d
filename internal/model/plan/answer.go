package plan

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Answer is a full explanation for one pod: the decision, and the result of each plugin
// on each node.
type Answer struct {
	Pod      *model.Pod
	Profile  string
	Decision Decision
	// Nodes are sorted by name.
	Nodes []NodeAnswer
}

// NodeAnswer holds the plugins' results for one node.
type NodeAnswer struct {
	Name     string
	Feasible bool
	// Rejections come from every filter that rejects the node, in the profile's order.
	// The first is the reported one.
	Rejections []reason.Rejection
	// Scores are in the profile's order, without the plugins that skip the pod. They are
	// set on feasible nodes, and only if several nodes are feasible.
	Scores []Score
	// Total is the weighted sum of Scores.
	Total int64
}

// Score is one plugin's score of one node.
type Score struct {
	Plugin string
	Weight int64
	// Score is normalised to 0..100, before the weight.
	Score int64
}

// Detail explains one decision: the best nodes, and the filters that removed the others.
type Detail struct {
	// Feasible counts the feasible nodes. Best lists the best of them, the chosen node
	// first. A single feasible node is not scored.
	Feasible int
	Best     []NodeAnswer
	// Removed lists the plugins that removed nodes, in execution order.
	Removed []Removal
}

// Removal counts the nodes that one filter was the first to reject. For PreFilter
// plugins, it counts the nodes that several of them together left out.
type Removal struct {
	Plugins []string
	Nodes   int
}
