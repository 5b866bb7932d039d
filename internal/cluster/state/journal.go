package state

import "github.com/berth-scheduler/berth/internal/model"

// Entry is a change of a node in some aspects. An entry about a slot that was cut off
// since has no aspects. Changes that concern all nodes together, such as how many have an
// image, have their own versions.
type Entry struct {
	Slot    int32
	Aspects model.Aspect
}

// journal is the ordered list of changes. Readers keep a version and catch up from it. A
// reader whose version is older than the entries kept starts over.
//
// Invariant: at most 2·journalKept entries are kept, and more than journalKept once some
// were dropped. Each has a slot and some aspect, in the journal of objects no aspect. An
// entry about a slot that was cut off has slot -1 and no aspect.
type journal struct {
	entries []Entry
	base    uint64 // version of entries[0]
}

// journalKept bounds the memory of the journal to a few hundred KiB. A reader that is
// further behind must read about as many nodes as the largest clusters have, so starting
// over costs it no more.
const journalKept = 1 << 15

func (j *journal) add(slot int32, aspects model.Aspect) {
	if len(j.entries) >= 2*journalKept {
		drop := len(j.entries) - journalKept
		j.entries = append(j.entries[:0], j.entries[drop:]...)
		j.base += uint64(drop)
	}
	j.entries = append(j.entries, Entry{slot, aspects})
}

// cut clears the entries about slots from n on, which no longer exist. A reader that is
// behind these entries has values only for slots that it drops.
func (j *journal) cut(n int) {
	for i := range j.entries {
		if int(j.entries[i].Slot) >= n {
			j.entries[i] = Entry{Slot: -1}
		}
	}
}

func (j *journal) version() uint64 { return j.base + uint64(len(j.entries)) }

func (j *journal) since(version uint64) (entries []Entry, ok bool) {
	if version < j.base || version > j.version() {
		return nil, false
	}
	return j.entries[version-j.base:], true
}
