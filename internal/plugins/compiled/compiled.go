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
