package plan

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/reason"
)

// Answer is everything the engine thinks about one pod: the decision, and each plugin's view of each node.
type Answer struct {
	Pod      *model.Pod
	Profile  string
	Decision Decision
	// Nodes are sorted by name.
	Nodes []NodeAnswer
}

// NodeAnswer is what the plugins think of one node.
type NodeAnswer struct {
	Name     string
	Feasible bool
	// Rejections are by every filter that objects, in the profile's order; the first is the one that is reported.
	Rejections []reason.Rejection
	// Scores are by every scorer that has a say, in the profile's order; only of feasible nodes, and only where there is a choice.
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

// Detail is what a decision about one pod came from.
type Detail struct {
	// Feasible is how many nodes would do, Best are the best of them, the one that was taken first. Of a single one nothing is scored.
	Feasible int
	Best     []NodeAnswer
	// Removed are the plugins that removed nodes, in the order in which they run.
	Removed []Removal
}

// Removal is how many nodes a filter was the first to reject; or how many nodes some PreFilter plugins together left out.
type Removal struct {
	Plugins []string
	Nodes   int
}
