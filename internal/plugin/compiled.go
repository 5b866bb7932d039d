package plugin

import (
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Text is the canonical text of a need.
type Text interface {
	// AppendText appends the text: needs of equal texts must get equal answers. It is never empty.
	AppendText(text []byte) []byte
}

// FilterNeed is what a NodeFilter or a StateFilter needs to know of a pod.
type FilterNeed interface {
	Text
	// Compile prepares the need for asking many nodes. It is called once for all needs of equal text. What it returns must not hold on to
	// the pod longer than it must.
	Compile() Verdicts
}

// Verdicts gives the verdict on one node, and says what it stands for.
type Verdicts interface {
	// Filter gives the verdict on one node. It allocates nothing. A code with the bit reason.Failed says that the verdict could not be found
	// out, which fails the pod's turn if no filter before it objects to the node.
	Filter(node state.Node) reason.Code
	// Reasons puts a code that Filter gave into kube-scheduler's words.
	Reasons(code reason.Code) []string
}

// Failures is implemented by Verdicts whose codes may have the bit reason.Failed.
type Failures interface {
	// Err returns what a failure stands for.
	Err(code reason.Code) error
}

// CountNeed is what a CountFilter needs to know of a pod.
type CountNeed interface {
	Text
	// Compile prepares the need. It is called once for all needs of equal text.
	Compile() Counting
}

// Counting turns a pod's demands on the pods around a node into rules about counts.
type Counting interface {
	// PreFilter looks at the view in which the pod's turn takes place: it finds the counts that the rules are about. It returns false when
	// there is nothing to check, which holds for the whole turn: as in kube-scheduler, whose PreFilter then returns Skip, Layers is not
	// asked, whatever pods a dry run adds. A rejection that is not empty rules out every node, for good; an error means that the pod's
	// demands make no sense.
	PreFilter(v state.View) (check bool, rejection string, err error)
	// Layers appends the rules that hold in a view: that of PreFilter, or a dry run of it; the first rule that rejects a node gives the
	// verdict. They are valid until the state changes or PreFilter is called again. It only reads, so several goroutines may call it.
	Layers(v state.View, to []Layer) []Layer
	// Reasons puts a layer's code into kube-scheduler's words.
	Reasons(code reason.Code) []string
}

// Layer is a rule about a count: it rejects nodes whose domain counts fewer pods than Min or more than Max.
type Layer struct {
	// Domains holds the domain of each slot, -1 for none.
	Domains []int32
	// Counts by domain; a domain beyond its end counts nothing. Differences are to be added.
	Counts      []int32
	Differences []state.Difference
	Min, Max    int32
	// Code is the verdict on a node whose count is out of range, Missing the verdict on a node without a domain.
	Code, Missing reason.Code
}

// Verdict gives the verdict on one slot.
func (l *Layer) Verdict(slot int32) reason.Code {
	domain := l.Domains[slot]
	if domain < 0 {
		return l.Missing
	}
	var count int32
	if int(domain) < len(l.Counts) {
		count = l.Counts[domain]
	}
	for _, d := range l.Differences {
		if d.Domain == domain {
			count += d.Pods
		}
	}
	if count < l.Min || count > l.Max {
		return l.Code
	}
	return reason.None
}

// ScoreNeed is what a NodeScore needs to know of a pod.
type ScoreNeed interface {
	Text
	// Compile prepares the need for asking many nodes. It is called once for all needs of equal text. An error fails the pod's turn.
	Compile() (NodeScores, error)
}

// NodeScores gives raw scores.
type NodeScores interface {
	// Score gives the raw score of one node. It allocates nothing.
	Score(node state.Node) int32
}

// SetNeed is what a SetScore needs to know of a pod.
type SetNeed interface {
	Text
	// Compile prepares the need. It is called once for all needs of equal text. An error fails the pod's turn.
	Compile() (SetScores, error)
}

// SetScores scores all feasible nodes together.
type SetScores interface {
	// Score writes the normalised score, 0 to MaxScore, of each slot. It returns false when it has no say.
	Score(v state.View, slots []int32, scores []int64) (bool, error)
}
