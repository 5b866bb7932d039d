package noderesourcesfit

import (
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// wideFilter is a need with more scalars than a verdict has bits. It numbers the distinct
// sets of shortages as they occur, so unlike filter it allocates. Only a test is known to
// request 27 kinds of device.
//
// A node lists few of the scalars and lacks all others. So a verdict costs time in the
// node's scalars, and a set is identified by the sufficient ones among them.
type wideFilter struct {
	filter
	// at are the positions of the scalars that every node must have, by name.
	at map[model.ResourceName]int32
	// excused are the positions of the other scalars, by name: devices provide them on
	// nodes without them, or the requested amount is 0.
	excused map[model.ResourceName]int32
	// textBytes is the length of all texts about scalars.
	textBytes int

	mu    sync.Mutex
	codes map[string]reason.Code // by set, in the form of appendKey
	sets  []shortages            // by code, less 1
	found shortages              // scratch
	key   []byte                 // scratch
}

// shortages identifies what a node lacks, in few numbers. fixed are the failed checks
// besides scalars. A node lacks nearly all of the required scalars, so suffice lists the
// others, of which it has enough. Excused scalars count as sufficient, so not lists those
// that it lacks. Both lists are ascending.
type shortages struct {
	fixed        reason.Code
	suffice, not []int32
}

func (s *shortages) clone() shortages {
	return shortages{s.fixed, slices.Clone(s.suffice), slices.Clone(s.not)}
}

// appendKey appends a text that is equal exactly for equal sets.
func (s *shortages) appendKey(text []byte) []byte {
	text = binary.AppendUvarint(text, uint64(s.fixed))
	text = binary.AppendUvarint(text, uint64(len(s.suffice)))
	for _, list := range [...][]int32{s.suffice, s.not} {
		for _, at := range list {
			text = binary.AppendUvarint(text, uint64(at))
		}
	}
	return text
}

func widened(f filter) *wideFilter {
	w := &wideFilter{filter: f, at: make(map[model.ResourceName]int32, len(f.scalars)), excused: map[model.ResourceName]int32{}, codes: map[string]reason.Code{}}
	for i := range f.scalars {
		d := &f.scalars[i]
		w.textBytes += len(insufficient) + len(d.name.Value())
		if d.asked > 0 {
			d.bit = firstScalar // the set identifies the scalar
		}
		if d.devices || d.asked <= 0 {
			w.excused[d.name] = int32(i)
		} else {
			w.at[d.name] = int32(i)
		}
	}
	return w
}

// Filter checks everything, as filter does.
func (f *wideFilter) Filter(node state.Node) reason.Code {
	f.mu.Lock()
	defer f.mu.Unlock()
	size, used := node.Model(), node.Used()
	code := f.fixed(size, used, node.PodCount())
	found := &f.found
	found.fixed = code &^ reason.Unresolvable
	found.suffice, found.not = found.suffice[:0], found.not[:0]
	listed := 0
	for i := range size.Allocatable.Scalars {
		name := size.Allocatable.Scalars[i].Name
		if at, asked := f.at[name]; asked {
			listed++
			if short := f.scalars[at].shortage(size, used); short == reason.None {
				found.suffice = append(found.suffice, at)
			} else {
				code |= short
			}
		} else if at, excused := f.excused[name]; excused {
			if short := f.scalars[at].shortage(size, used); short != reason.None {
				found.not = append(found.not, at)
				code |= short
			}
		}
	}
	if listed < len(f.at) { // even the empty node lacks the others
		code |= firstScalar | reason.Unresolvable
	}
	if code == reason.None {
		return reason.None
	}
	slices.Sort(found.suffice)
	slices.Sort(found.not)
	return f.number(found) | code&reason.Unresolvable
}

// number returns the number of a set, the same each time.
func (f *wideFilter) number(found *shortages) reason.Code {
	f.key = found.appendKey(f.key[:0])
	code, ok := f.codes[string(f.key)]
	if !ok {
		f.sets = append(f.sets, found.clone())
		code = reason.Code(len(f.sets))
		f.codes[string(f.key)] = code
	}
	return code
}

// Reasons lists the shortages in filter's order.
func (f *wideFilter) Reasons(code reason.Code) []string {
	f.mu.Lock()
	set := f.sets[code&^reason.Unresolvable-1]
	f.mu.Unlock()
	texts := make([]string, 0, len(f.scalars))
	for bit := range fixedBits {
		if set.fixed&(1<<bit) != 0 {
			texts = append(texts, f.filter.text(bit))
		}
	}
	suffice, not := set.suffice, set.not
	var joined strings.Builder // backs all texts: an allocation for each costs more than the rest
	joined.Grow(f.textBytes)
	for i := range f.scalars {
		d := &f.scalars[i]
		short := d.asked > 0 && !d.devices
		switch at := int32(i); {
		case len(suffice) > 0 && suffice[0] == at:
			short, suffice = false, suffice[1:]
		case len(not) > 0 && not[0] == at:
			short, not = true, not[1:]
		}
		if short {
			start := joined.Len()
			joined.WriteString(insufficient)
			joined.WriteString(d.name.Value())
			texts = append(texts, joined.String()[start:])
		}
	}
	return texts
}
