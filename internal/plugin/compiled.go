package plugin

import (
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Text has a canonical text that identifies a need. AppendText appends the text, which is
// never empty. Needs with equal texts must get equal verdicts and scores.
type Text = model.Text

// Preparing is implemented by needs that are expensive to compile. Prepare does the part
// of the compilation that depends on the need alone. It is called for needs with long
// texts, before the pod reaches the loop. The pod then keeps the need, and the loop
// compiles it later. The results of Prepare are only read afterwards, since several
// engines may compile the same need.
type Preparing interface {
	Text
	Prepare()
}

// FilterNeed is the part of a pod that a NodeFilter or a StateFilter judges.
type FilterNeed interface {
	Text
	// Compile prepares the need for many nodes. It is called once for all needs with equal texts. What it returns must not keep the pod in
	// memory longer than necessary.
	Compile() Verdicts
}

// Verdicts is a compiled FilterNeed.
type Verdicts interface {
	// Filter returns the verdict on one node. It allocates nothing, unless it has to search, as for devices. A code with the bit reason.Failed means that there is no verdict because of
	// an error, which fails the pod's turn if no filter before it rejects the node.
	Filter(node state.Node) reason.Code
	// Reasons returns kube-scheduler's texts for a code that Filter returned.
	Reasons(code reason.Code) []string
}

// Failures is implemented by Verdicts whose codes may have the bit reason.Failed.
type Failures interface {
	// Err returns the error that a failed code stands for.
	Err(code reason.Code) error
}

// PodFailures is implemented by Failures whose errors name objects of the pod, which pods with equal needs do not share.
type PodFailures interface {
	Failures
	// ErrOf returns the error that a failed code stands for in the turn of a pod.
	ErrOf(v state.View, pod *model.Pod, code reason.Code) error
}

// Unasked is not a score. It means that the plugin was not called, or did not finish
// within the budget of the turn, see ErrUnfinished.
const Unasked int32 = -1

// Costly is implemented by Verdicts and NodeScores that may have to search. A column
// calls them only for nodes that a decision looks at, in the order of slots, up to the
// first node that fails the turn. If they return Unasked, here or in package reason, the
// turn is unfinished.
type Costly interface {
	// IsCostly reports whether a search is needed.
	IsCostly() bool
}

// Requests is implemented by Verdicts that pass a node if and only if there is room for one more pod, and as much free as requested.
type Requests interface {
	Verdicts
	// Request returns what must be free. Amounts of 0 or less are not asked for. It must not be changed.
	Request() *model.Resources
}

// Sparse is implemented by Verdicts that may know the verdict on all nodes but few: a column for them is filled without asking about each node. A local
// volume, of which there are thousands, can be used on one node.
type Sparse interface {
	// Sparse returns the slots of the nodes that must be asked about, and the verdict on all others; ok is false if it does not know. It is called by
	// the goroutine that owns the state.
	Sparse(s *state.State) (slots []int32, others reason.Code, ok bool)
}

// Variant is implemented by Verdicts that may be those of another need on all nodes but few: a column for them is a copy, corrected there. A volume that
// pods share is used on few nodes, and on the others counts as any does.
type Variant interface {
	// Variant returns the other need, in whose verdicts codes mean the same, and the slots of the nodes that must be asked about; ok is false if there is
	// none such. It is called by the goroutine that owns the state.
	Variant(s *state.State) (of FilterNeed, slots []int32, ok bool)
}

// Following is implemented by Verdicts and NodeScores that depend also on what many nodes share, such as devices which all of them can use. A change of that is not
// journalled on each of the nodes: with every placement that would be as many as there are. It is called by the goroutine that decides.
type Following interface {
	// Filled notes that all nodes have just been asked about.
	Filled(s *state.State)
	// Follow appends the slots of nodes for which the value may have changed with what they share since Filled or Follow was last called, and returns how many
	// nodes it asked about itself.
	Follow(s *state.State, to []int32) (slots []int32, asked int)
}

// SharedNeed is implemented by needs of a StateFilter whose Verdicts are Following.
type SharedNeed interface {
	// SharesDevices reports whether verdicts depend on what changes with state.Versions.Devices.
	SharesDevices() bool
}

// CountNeed is the part of a pod that a CountFilter judges.
type CountNeed interface {
	Text
	// Compile prepares the need. It is called once for all needs of equal text.
	Compile() Counting
}

// Counting is the compiled form of a CountNeed: it gives rules about counts.
type Counting interface {
	// PreFilter finds, in the view of the pod's turn, the counts that the rules are about. It returns false when there is nothing to check. That
	// holds for the whole turn: as in kube-scheduler, whose PreFilter then returns Skip, Rules is not called, whatever pods a dry run adds. A
	// rejection that is not empty rejects every node as unresolvable; an error means that the pod's demands are invalid.
	PreFilter(v state.View) (check bool, rejection string, err error)
	// Rules appends the rules that hold in a view, which is that of PreFilter or a dry run of it; the first rule that rejects a node gives the
	// verdict. They are valid until the state changes or PreFilter is called again. Rules only reads, so several goroutines may call it.
	Rules(v state.View, to []CountRule) []CountRule
	// Reasons puts a rule's code into kube-scheduler's words.
	Reasons(code reason.Code) []string
}

// Versioned is implemented by Counting whose rules are known not to have changed, although pods or nodes have. What it rejected is then looked at
// again on the nodes that changed, and on no others.
type Versioned interface {
	Counting
	// AppendVersions appends the versions of the tallies and the terms that PreFilter found. In views without differences the rules reject the same
	// domains, and nodes are in the same domains, while these are equal, and what state.Versions has besides the journal.
	AppendVersions(to []uint64) []uint64
}

// CountRule rejects nodes whose domain counts fewer pods than Min or more than Max.
type CountRule struct {
	// Domains holds the domain of each slot, -1 for none.
	Domains []int32
	// Counts by domain; a domain beyond its end counts nothing. Differences are added to them.
	Counts      []int32
	Differences []state.Difference
	Min, Max    int32
	// Code is the verdict on a node whose count is out of range, Missing the verdict on a node without a domain.
	Code, Missing reason.Code
	// Layout is that of the domains, Counted what is counted. A rule that does not say what is counted has nodes scanned for.
	Layout  state.Layout
	Counted state.Counted
}

// Verdict returns the verdict on the node in a slot.
func (r *CountRule) Verdict(slot int32) reason.Code {
	domain := r.Domains[slot]
	if domain < 0 {
		return r.Missing
	}
	var count int32
	if int(domain) < len(r.Counts) {
		count = r.Counts[domain]
	}
	for _, d := range r.Differences {
		if d.Domain == domain {
			count += d.Pods
		}
	}
	if count < r.Min || count > r.Max {
		return r.Code
	}
	return reason.None
}

// ScoreNeed is the part of a pod that a NodeScore depends on.
type ScoreNeed interface {
	Text
	// Compile prepares the need for many nodes. It is called once for all needs with equal texts. An error fails the pod's turn.
	Compile() (NodeScores, error)
}

// NodeScores is a compiled ScoreNeed.
type NodeScores interface {
	// Score returns the raw score of one node; if the scores are ClassScores, the node's class. It allocates nothing, unless it has to search.
	Score(node state.Node) int32
}

// ClassScores is implemented by NodeScores that depend on facts about all nodes together: if these change, so may the score of every node. Score
// then returns the class of a node, which depends on the node alone, and Classes the raw score of each class. So a change of the facts costs as much
// as there are classes, and of nodes only those are asked about again that changed themselves.
type ClassScores interface {
	NodeScores
	// Classes returns the raw score of each class that Score has returned so far, by class. That of class 0 is 0. The slice is valid until the
	// next call. It is called by the goroutine that decides.
	Classes(v state.View) []int32
}

// SetNeed is the part of a pod that a SetScore depends on.
type SetNeed interface {
	Text
	// Compile prepares the need. It is called once for all needs of equal text. An error fails the pod's turn.
	Compile() (SetScores, error)
}

// SetScores scores all feasible nodes together.
type SetScores interface {
	// Score writes the normalised score, 0 to MaxScore, of each slot. It returns false when it adds nothing to any node.
	Score(v state.View, slots []int32, scores []int64) (bool, error)
}

// Axis is the domains of the nodes under a topology key, and a count for each.
type Axis struct {
	// Present, unless it is empty, is negative by slot for the nodes that lack the key, for which the domain does not matter. It is the same wherever the domains are.
	Present []int32
	// Domains are those of each slot, -1 for none; Counts are by domain, and a domain beyond its end counts nothing.
	Domains, Counts []int32
	// ByDomain means that also which domains there are matters: nodes of different ones are not alike, whatever the counts.
	ByDomain bool
	// Layout is that of the domains. Counted is what is counted; it is zero where nothing is, or nodes of different domains are not alike.
	Layout  state.Layout
	Counted state.Counted
}

// AlikeScores is implemented by SetScores that score those nodes alike that on each of some axes have the same domain, or the same count in domains of their own. So one
// node can stand for many.
type AlikeScores interface {
	SetScores
	// Axes appends the axes in a view; known is false if it cannot tell them. The arrays of two turns are the same if they hold the same domains. It is called by the goroutine that
	// decides.
	Axes(v state.View, to []Axis) (axes []Axis, known bool)
	// ScoreAlike is Score where each slot stands for so many nodes like it as sizes says by position.
	ScoreAlike(v state.View, slots []int32, sizes []int, scores []int64) (bool, error)
}
