package preempt

import (
	"github.com/berth-scheduler/berth/internal/cluster/state"
	ranked "github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// turn is the pod's turn after its filters, node by node. The engine implements it.
//
// Filters run in dry runs of the turn, in which pods are taken off a node and put back.
// Pods that are nominated to the node and that the pod does not outrank count too. As in
// kube-scheduler, a node must pass both with them and without them.
type turn interface {
	// Potential returns the slots, ascending, of the nodes whose rejection may be
	// resolved by evicting pods. A PreFilter rejection leaves none, or all nodes if it is
	// resolvable.
	Potential() []int32
	// Resolvable reports whether the node is a potential node.
	Resolvable(slot int32) bool
	// Rejected returns the reported rejection of a node in this turn.
	Rejected(slot int32) reason.Rejection
	// Objection returns the first objection to a node in a dry run of the turn's view.
	Objection(dryRun *state.Draft, slot int32) Objection
	// ObjectionWith returns the first objection to a node with another use.
	// Facts.OnlyUsage must be true.
	ObjectionWith(slot int32, use *state.Use) Objection
	// FitsWith reports whether a node that has just passed ObjectionWith also passes with
	// more use.
	FitsWith(slot int32, use *state.Use) bool
	// Reasons returns kube-scheduler's text of an objection, or the error that it stands
	// for.
	Reasons(o Objection) (texts []string, err error)
	// Alike returns the inputs of the filters' objections in dry runs, besides the pod's
	// priority. ok is false if they are unknown.
	Alike() (alike Alike, ok bool)
}

// Facts are the constants of a turn.
type Facts struct {
	View state.View
	// PotentialNodes is the number of potential nodes.
	PotentialNodes int
	// Rejection identifies the cached rejection of this turn, or is 0 without one.
	// Between two turns with the same number, a node starts or stops being potential only
	// if the journal names its slot with an aspect in Reads.
	Rejection uint64
	Reads     model.Aspect
	// Salt decides, with the place of each node, between equally good nodes.
	Salt uint64
	// Rules are the rules of the release.
	Rules plugin.PreemptionRules
	// Extenders are the profile's extenders, in calling order.
	Extenders []plugin.Extender
	// OnlyUsage means that the filters read only the resource usage of the pods on a
	// node. A Use of the node is then as precise as a dry run, and cheaper.
	OnlyUsage bool
	// Request are the resources that must be free on a node for it to pass. The node must
	// also have room for one more pod. Nil means that the amounts are unknown. Amounts of
	// 0 or less are ignored.
	Request *model.Resources
	// OnlyRequest means that all potential nodes lack part of Request, and that filters
	// read nothing else of the pods on a node. Nodes that lack the same amounts then have
	// the same objection.
	OnlyRequest bool
}

// cycle is the turn in which a search takes place.
type cycle struct {
	turn
	Facts
}

// tie returns the tie-breaker of a node: among equally good nodes, the highest wins.
func (c *cycle) tie(slot int32) uint64 { return ranked.Tie(c.Salt, c.place(slot)) }

// place returns the part of the tie-breaker that is the same in all turns.
func (c *cycle) place(slot int32) uint64 { return placeOf(c.View.State().NameHashes(), slot) }

func placeOf(hashes []uint64, slot int32) uint64 { return ranked.Mix(hashes[slot]) }

// Alike is the input of objections in dry runs of a turn. While Kind and Versions are
// equal, the objection to a node changes only if the journal names its slot with an
// aspect in Reads.
type Alike struct {
	Kind     Kind
	Versions []uint64
	Reads    model.Aspect
}

// Kind is a comparable value that identifies the pods with equal objections.
type Kind interface{ IsKind() }

// Objection identifies the first filter that rejects a node, by its position in the
// profile, and its verdict. The zero value means no objection.
type Objection struct {
	Filter int
	Code   reason.Code
}

// LeftOut is the Filter of an objection to a node that PreFilter plugins excluded.
const LeftOut = -1

// IsNone reports whether no filter objects.
func (o Objection) IsNone() bool { return o == Objection{} }

// Work counts the nodes that a search looked at: those that it considered, those whose
// lower bound it computed, and those on which it tried sets of victims.
type Work struct{ Looked, Rated, Tried int }
