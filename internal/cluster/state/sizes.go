package state

import (
	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
)

// Sizes has the sizes of a state's collections besides nodes, pods and tallies. Each
// number follows the objects that exist; some entries stay unused for a while.
type Sizes struct {
	// Terms are the affinity terms that pods on nodes carry. Topologies are the keys that
	// define domains of nodes.
	Terms, Topologies int
	// Images are the names of images on nodes.
	Images int
	// Selectors are services and controllers of pods, Namespaces those with known labels.
	Selectors, Namespaces int
	// LabelSets are the label sets that have pods.
	LabelSets int
	// Learned are the objects whose learned version the watch has not shown yet.
	Learned int
	// Storage has the sizes of the volume store.
	Storage storage.Sizes
	// Devices has the sizes of the device store.
	Devices devices.Sizes
}

// Sizes returns the sizes of the state's collections.
func (s *State) Sizes() Sizes {
	selectors := len(s.selectorSources.controllers) + len(s.selectorSources.services.byName)
	terms := len(s.terms.byKey)
	for _, l := range s.terms.all {
		terms += len(l.terms)
	}
	return Sizes{
		Terms: terms, Topologies: len(s.topologies), Images: len(s.images), Selectors: selectors, Namespaces: len(s.namespaces),
		LabelSets: len(s.population.sets) - s.population.empty, Learned: len(s.learned), Storage: s.storage.Sizes(),
		Devices: s.devices.Sizes(),
	}
}

// TermsAsked returns how often an affinity term of a pod on a node was matched against a
// pending pod.
func (s *State) TermsAsked() int64 { return s.terms.asked }

// TallyVisits returns the number of label sets and pods visited to build tallies.
func (s *State) TallyVisits() int64 { return s.tallies.visited }

// NodesMatched returns how often a node was matched against a node set of tallies.
func (s *State) NodesMatched() int64 { return s.tallies.matched }
