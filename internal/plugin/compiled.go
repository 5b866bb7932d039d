package plugin

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// Text has a canonical text that identifies a need. AppendText appends the text, which is
// never empty. Needs with equal texts must get equal verdicts and scores.
type Text interface {
	AppendText(text []byte) []byte
}

// Preparing is implemented by needs that are expensive to compile. Prepare does the part
// of the compilation that depends on the need alone. It is called for needs with long
// texts, before the pod reaches the loop. The pod then keeps the need, and the loop
// compiles it later. Several engines may compile the same need, so the results of Prepare
// are read-only afterwards.
type Preparing interface {
	Text
	Prepare()
}

// FilterNeed is the part of a pod that the verdicts of a filter on single nodes depend
// on.
type FilterNeed interface {
	Text
	// Compile prepares the need for many nodes. It is called once for all needs with
	// equal texts. The result must not keep the pod in memory longer than necessary.
	Compile() *Verdicts
}

// Verdicts is a compiled FilterNeed. NodeVerdicts is required. Each other field is a
// property that only some verdicts have; it is nil or false for others.
type Verdicts struct {
	NodeVerdicts
	// Failures is set if codes may have the bit reason.Failed.
	Failures Failures
	// Request is set if verdicts only compare free resources: a node passes if and only
	// if it has room for one more pod and these amounts are free. Amounts of 0 or less
	// are ignored. It must not be changed.
	Request *model.Resources
	// Amounts is set if verdicts depend on a node's state.NodeAmounts alone. The column
	// is then filled in one call instead of one for each node.
	Amounts AmountVerdicts
	// Sparse is set if all but a few nodes may have the same verdict.
	Sparse Sparse
	// Variant is set if all but a few verdicts may equal those of another need.
	Variant Variant
	// Following is set if verdicts also depend on objects shared by many nodes.
	Following Following
	// Costly means that Filter has to search. The column is filled lazily: only for nodes
	// that a decision visits, in the order of slots, up to the first node that fails the
	// turn. If Filter returns reason.Unasked, the turn is unfinished.
	Costly bool
	// Pending is set if a code may be kube-scheduler's Pending, as for TurnVerdicts.
	Pending Pending
}

// NodeVerdicts are the verdicts of a need on single nodes.
type NodeVerdicts interface {
	// Filter returns the verdict on one node. It does not allocate, unless it has to
	// search, as for devices. A code with the bit reason.Failed is an error instead of a
	// verdict. It fails the pod's turn if no earlier filter rejects the node.
	Filter(node state.Node) reason.Code
	// Reasons returns kube-scheduler's texts for a code that Filter returned.
	Reasons(code reason.Code) []string
}

// Failures are the errors behind codes with the bit reason.Failed.
type Failures interface {
	// Err returns the error that a failed code stands for in the turn of a pod. It may
	// name objects of the pod, which pods with equal needs do not share.
	Err(v state.View, pod *model.Pod, code reason.Code) error
}

// Unasked is a placeholder for a score. It means that the plugin was not called, or did
// not finish within the budget of the turn, see ErrUnfinished.
const Unasked int32 = -1

// AmountVerdicts are the verdicts for the amounts of nodes.
type AmountVerdicts interface {
	// FilterAmounts writes the verdict on each node.
	FilterAmounts(nodes []state.NodeAmounts, codes []reason.Code)
}

// Sparse finds the few nodes that can have another verdict than all others. The column is
// then filled without a call of Filter on each node. For example, a cluster may have
// thousands of local volumes, each usable on one node.
type Sparse interface {
	// Sparse returns the slots of the nodes on which Filter must be called, and the
	// verdict on all others. ok is false if no such verdict is available. It is called in
	// the goroutine that owns the state.
	Sparse(s *state.State) (slots []int32, others reason.Code, ok bool)
}

// Variant finds another need whose verdicts are equal on all but a few nodes. The column
// is then a corrected copy of the other column. For example, a volume that pods share
// differs from an unused volume only on the few nodes that use it.
type Variant interface {
	// Variant returns the other need, whose codes have the same meaning, and the slots of
	// the nodes on which Filter must be called. ok is false if no such need exists. It is
	// called in the goroutine that owns the state.
	Variant(s *state.State) (of FilterNeed, slots []int32, ok bool)
}

// Following finds the nodes whose verdicts or scores change with objects shared by many
// nodes, such as devices usable on all of them. A change of these objects is not recorded
// in the journal of each node, since every placement would then touch all nodes. Its
// methods are called in the goroutine that decides.
type Following interface {
	// Filled notes that all nodes have just been evaluated.
	Filled(s *state.State)
	// Follow is called after shared objects, such as devices, may have changed. It
	// appends the slots of nodes whose value may differ from that at the last call of
	// Filled or Follow. asked is the number of nodes that it evaluated itself to find
	// these.
	Follow(s *state.State, to []int32) (slots []int32, asked int)
}

// Pending tells the codes apart that are kube-scheduler's Pending.
type Pending interface {
	// IsPending reports whether a code is kube-scheduler's Pending: the plugin waits for
	// something outside of the cluster. The pod skips its backoff when the plugin's hint
	// wakes it.
	IsPending(code reason.Code) bool
}

// CountNeed is the part of a pod that a filter with Count depends on.
type CountNeed interface {
	Text
	// Compile prepares the need. It is called once for all needs with equal texts.
	Compile() Counting
}

// Counting is a compiled CountNeed. It produces rules about counts of pods in domains.
type Counting interface {
	// PreFilter finds the counts for the rules, in the view of the pod's turn.
	//
	// It returns false if nothing has to be checked in the whole turn: kube-scheduler's
	// Skip. As in kube-scheduler, Rules is then not called, even if a dry run adds pods.
	// A non-empty rejection rejects every node as unresolvable. An error means that the
	// pod's demands are invalid.
	PreFilter(v state.View) (check bool, rejection string, err error)
	// Rules appends the rules that hold in a view: the view of PreFilter, or a dry run of
	// it. The first rule that rejects a node gives the verdict. The rules are valid until
	// the state changes or PreFilter is called again. Rules only reads, so several
	// goroutines may call it.
	Rules(v state.View, to []CountRule) []CountRule
	// Reasons returns kube-scheduler's texts for a rule's code.
	Reasons(code reason.Code) []string
	// AppendVersions appends the versions of the tallies and the terms that PreFilter
	// found. They show that the rules are unchanged although pods or nodes have changed.
	// Remembered rejections are then checked again only on the changed nodes.
	//
	// While these and state.Versions, apart from the journal, are equal, nodes stay in
	// their domains and the rules reject the same domains. This holds in views without
	// differences.
	AppendVersions(to []uint64) []uint64
}

// CountRule rejects nodes whose domain counts fewer pods than Min or more than Max.
type CountRule struct {
	// Domains holds the domain of each slot, -1 for none.
	Domains []int32
	// Counts is indexed by domain; domains beyond its end have the count 0. Differences
	// are added to the counts.
	Counts      []int32
	Differences []state.Difference
	Min, Max    int32
	// Code is the verdict on a node whose count is out of range. Missing is the verdict
	// on a node without a domain.
	Code, Missing reason.Code
	// Layout belongs to Domains. Counted identifies the counted pods. If Counted is zero,
	// the nodes are scanned instead of read from a ranking.
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

// ScoreNeed is the part of a pod that the scores of one plugin depend on.
type ScoreNeed interface {
	Text
	// Compile prepares the need for many nodes. It is called once for all needs with
	// equal texts. An error fails the pod's turn.
	Compile() (NodeScores, error)
}

// NodeScores is a compiled ScoreNeed. RawScores is required. Each other field is a
// property that only some scores have; it is nil or false for others.
type NodeScores struct {
	RawScores
	// Amounts is set if scores depend on a node's state.NodeAmounts alone. The column is
	// then filled in one call instead of one for each node.
	Amounts AmountScores
	// Classes is set if scores depend on facts about all nodes together.
	Classes ClassScores
	// Following is set if scores also depend on objects shared by many nodes.
	Following Following
	// Costly means that Score has to search, see Verdicts.Costly. A score may then be
	// Unasked.
	Costly bool
}

// RawScores returns the raw scores of a need.
type RawScores interface {
	// Score returns the raw score of one node, or its class if the NodeScores have
	// Classes. It does not allocate, unless it has to search.
	Score(node state.Node) int32
}

// AmountScores are the raw scores for the amounts of nodes.
type AmountScores interface {
	// ScoreAmounts writes the raw score of each node.
	ScoreAmounts(nodes []state.NodeAmounts, scores []int32)
	// BoundAmounts returns at least the score of every node in the box on which the pod
	// fits. It finds the best nodes without a look at most of them.
	BoundAmounts(box *AmountBox) int32
}

// AmountBox holds nodes: all their values are between those of two points.
type AmountBox struct{ Least, Most AmountPoint }

// AmountPoint has values of a node with cpu and memory, or bounds of such values. The
// values are rounded, so a bound allows for a relative error of 10⁻¹².
type AmountPoint struct {
	// CPUMilli and MemoryBytes are allocatable.
	CPUMilli, MemoryBytes float64
	// FreeCPU and FreeMemory are the shares of the allocatable amounts that
	// Node.NonZeroUsed leaves. Free is their sum. An overcommitted node has a negative
	// share.
	FreeCPU, FreeMemory, Free float64
	// Skew is the used share of cpu minus the used share of memory. No share counts as
	// more than 1.
	Skew float64
}

// ClassScores are the raw scores of the classes of nodes.
//
// If facts about all nodes change, every score may change. RawScores therefore returns
// the class of a node, which depends on the node alone, and Classes the raw score of each
// class. A change of the facts costs as much as the number of classes, and only changed
// nodes are evaluated again.
type ClassScores interface {
	// Classes returns the raw score of each class that Score has returned so far, by
	// class. Class 0 has the score 0. The slice is valid until the next call. It is
	// called in the goroutine that decides.
	Classes(v state.View) []int32
}

// SetNeed is the part of a pod that scores of all nodes together depend on.
type SetNeed interface {
	Text
	// Compile prepares the need. It is called once for all needs with equal texts. An
	// error fails the pod's turn.
	Compile() (SetScores, error)
}

// SetScores scores all feasible nodes together.
//
// Many nodes may have equal scores, so that one node can represent many. Two nodes are
// equal if, on each axis, they are in the same domain, or are alone in their domains and
// have the same count.
type SetScores interface {
	// Score writes the normalised score, 0 to MaxScore, of each slot. It returns false if
	// it adds nothing to any node.
	Score(v state.View, slots []int32, scores []int64) (bool, error)
	// Axes appends the axes in a view. known is false if they cannot be determined: every
	// node is then scored. The arrays of two turns are identical if they hold the same
	// domains. It is called in the goroutine that decides.
	Axes(v state.View, to []Axis) (axes []Axis, known bool)
	// ScoreAlike is Score in which each slot represents sizes[i] equal nodes, by position
	// i.
	ScoreAlike(v state.View, slots []int32, sizes []int, scores []int64) (bool, error)
}

// Axis is the partition of the nodes by a topology key, with a count for each domain.
type Axis struct {
	// Present, unless it is empty, is indexed by slot and negative for nodes without the
	// key, whose domain is ignored. Equal Domains have equal Present.
	Present []int32
	// Domains holds the domain of each slot, -1 for none. Counts is indexed by domain;
	// domains beyond its end have the count 0.
	Domains, Counts []int32
	// ByDomain means that nodes of different domains differ even if their counts are
	// equal.
	ByDomain bool
	// Layout belongs to Domains. Counted identifies the counted pods. It is zero if
	// nothing is counted, or if nodes of different domains always differ.
	Layout  state.Layout
	Counted state.Counted
}
