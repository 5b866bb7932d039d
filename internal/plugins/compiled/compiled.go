// Package compiled says what a plugin's compiled need looks like to the engine.
//
// It takes nothing and gives two interfaces: what the plugins return and the engine asks. It owns nothing. It stands apart because a plugin
// must name these types and never imports the engine.
package compiled

import (
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// Filter is one filter's need, ready to be asked about nodes.
type Filter interface {
	// Filter gives the verdict on one node. It allocates nothing.
	Filter(node state.Node) reason.Code
	// Reasons puts a code that Filter gave into kube-scheduler's words.
	Reasons(code reason.Code) []string
}

// Scorer is one scorer's need, ready to be asked about nodes.
type Scorer interface {
	// Score gives the raw score of one node. It allocates nothing.
	Score(node state.Node) int32
}

// Layer is a rule about a count: it rejects nodes whose domain counts fewer pods than Min or more than Max.
type Layer struct {
	// Domains holds the domain of each slot, -1 for none.
	Domains []int32
	// Counts by domain; a domain beyond its end counts nothing.
	Counts   []int32
	Min, Max int32
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
	if count < l.Min || count > l.Max {
		return l.Code
	}
	return reason.None
}

// Layers is a filter's need whose verdicts follow from counts of pods by domain.
type Layers interface {
	// Layers appends the rules that hold at present; the first that rejects a node gives the verdict. They are true until the state
	// changes. A rejection that is not empty rules out every node, for good; an error means that the pod's demands make no sense.
	Layers(s *state.State, to []Layer) (layers []Layer, rejection string, err error)
	// Reasons puts a layer's code into kube-scheduler's words.
	Reasons(code reason.Code) []string
}

// Set is a scorer's need that scores all feasible nodes together.
type Set interface {
	// Score writes the normalised score, 0 to 100, of each slot. It returns false when it has no say.
	Score(s *state.State, slots []int32, scores []int64) (bool, error)
}
