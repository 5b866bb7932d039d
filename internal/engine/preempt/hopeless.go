package preempt

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// hopeless are the nodes on which evicting all pods of lower priority is not enough for pods that are alike, and why. Where filters read more of pods
// than what they occupy, that takes a dry run for each node, and a surplus replica of an application with one pod to a node would take one of every
// node whenever it is tried. They follow the journal.
type hopeless struct {
	alike   plugin.Alike
	version uint64 // of the journal
	used    uint64
	// bySlot has for each such node the position of its reasons in texts plus one, 0 for other nodes. positions finds them by their text.
	bySlot    []uint8
	texts     [][]string
	positions map[string]uint8
}

type hopelessKey struct {
	alike    any
	priority int32
}

const (
	// mostHopeless is for how many kinds of pods hopeless nodes are kept, mostTexts how many different reasons of one kind.
	mostHopeless = 16
	mostTexts    = 255
)

// hopelessFor returns the hopeless nodes for pods like the cycle's, up to date; nil if they are not kept.
func (m *memory) hopelessFor(c plugin.Cycle, priority int32) *hopeless {
	alike, ok := c.Alike()
	if !ok {
		return nil
	}
	key := hopelessKey{alike.Key, priority}
	h := m.hopeless[key]
	if h == nil {
		if len(m.hopeless) >= mostHopeless {
			forgetOldest(m.hopeless, func(h *hopeless) uint64 { return h.used })
		}
		h = &hopeless{}
		m.hopeless[key] = h
	}
	h.used = m.clock
	h.sync(c.View().State(), alike)
	return h
}

// sync forgets what has changed: all if the counts that filters read have, and otherwise the nodes that the journal names.
func (h *hopeless) sync(s *state.State, alike plugin.Alike) {
	entries, ok := s.Since(h.version)
	if !ok || len(h.bySlot) == 0 || len(entries) > s.Slots() || !slices.Equal(h.alike.Versions, alike.Versions) {
		h.bySlot, h.texts, h.positions = make([]uint8, s.Slots()), nil, map[string]uint8{}
	} else {
		h.bySlot = resized(h.bySlot, s.Slots())
		for _, e := range entries {
			if e.Aspects&alike.Reads != 0 && int(e.Slot) < len(h.bySlot) {
				h.bySlot[e.Slot] = 0
			}
		}
	}
	h.alike, h.version = alike, s.Version()
}

// learn notes why a node is hopeless.
func (h *hopeless) learn(slot int32, texts []string) {
	text := strings.Join(texts, "\n")
	at, known := h.positions[text]
	if !known {
		if len(h.texts) >= mostTexts {
			return
		}
		h.texts = append(h.texts, texts)
		at = uint8(len(h.texts))
		h.positions[text] = at
	}
	h.bySlot[slot] = at
}
