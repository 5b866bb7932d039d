package state

import (
	"github.com/berth-scheduler/berth/internal/devices"
	"github.com/berth-scheduler/berth/internal/storage"
)

// Kept is how much a state keeps besides nodes, pods and tallies. Each of these numbers follows what exists; some of them stay unused for a while.
type Kept struct {
	// Terms are the affinity terms that pods on nodes carry, Topologies the keys by which nodes are in domains.
	Terms, Topologies int
	// Images are the names of images on nodes.
	Images int
	// Selectors are services and controllers of pods, Namespaces those whose labels are known.
	Selectors, Namespaces int
	// LabelSets are the label sets that have pods.
	LabelSets int
	// Learned are the objects of which the watch has not shown the version yet that was learned.
	Learned int
	// Storage is how much the store of volumes keeps.
	Storage storage.Kept
	// Devices is how much the store of devices keeps.
	Devices devices.Kept
}

// Kept returns how much the state keeps.
func (s *State) Kept() Kept {
	selectors := len(s.selectorSources.controllers) + len(s.selectorSources.services.byName)
	terms := len(s.terms.byKey)
	for _, l := range s.terms.all {
		terms += len(l.terms)
	}
	return Kept{
		Terms: terms, Topologies: len(s.topologies), Images: len(s.images), Selectors: selectors, Namespaces: len(s.namespaces),
		LabelSets: len(s.population.sets) - s.population.empty, Learned: len(s.learned), Storage: s.storage.Kept(),
		Devices: s.devices.Kept(),
	}
}

// TermsAsked returns how often an affinity term of a pod on a node was matched against a pod that is to be placed.
func (s *State) TermsAsked() int64 { return s.terms.asked }

// TallyVisits returns how many label sets and pods were looked at to build tallies.
func (s *State) TallyVisits() int64 { return s.tallies.visited }

// NodesMatched returns how often a node was matched against a set of nodes that tallies count on.
func (s *State) NodesMatched() int64 { return s.tallies.matched }
