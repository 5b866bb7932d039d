package queue

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
)

// index holds the parked pods that one plugin of one profile rejected, for the events of
// a single registration.
type index struct {
	*model.EventToRegister
	plugin  string
	pending bool // the plugin answered Pending
	// Invariant: each bucket is listed under the need that its pods share.
	byAlike map[model.Need]*bucket
	all     posting
	wanting catalog // by the keys that causes want from an event's object
	keyed   catalog // by the keys of causes
}

// catalog lists buckets by key.
type catalog struct {
	// Invariant: no posting is empty, and each is listed under its key.
	byKey map[model.Key]*posting
	// always has the buckets that every event finds.
	always posting
}

// posting is a list of buckets. Its order depends only on the sequence of additions and
// removals.
type posting struct {
	in  *catalog // nil if the posting always exists
	key model.Key
	// Invariant: listed has each bucket with a spot here.
	listed []listing
}

// listing is a bucket in a posting, with the index of the corresponding spot of the
// bucket.
type listing struct {
	bucket *bucket
	spot   int
}

// spot is a position in a posting.
type spot struct {
	posting *posting
	at      int
}

func newIndex(registration *model.EventToRegister, plugin string, pending bool) *index {
	return &index{
		EventToRegister: registration, plugin: plugin, pending: pending, byAlike: map[model.Need]*bucket{},
		wanting: catalog{byKey: map[model.Key]*posting{}}, keyed: catalog{byKey: map[model.Key]*posting{}},
	}
}

// alikeOf returns the need on which the hint for a pod depends, for registrations without
// an AskedHint.
func (x *index) alikeOf(pod *model.Pod) (alike model.Need) {
	if x.Alike != nil {
		alike = x.Alike(pod)
	}
	return alike
}

// maxKeys bounds the keys of a cause under which a bucket is listed. With more keys,
// events find the bucket by the wants of its cause alone.
const maxKeys = 500

// bucketOf returns the bucket for pods like the given one.
func (x *index) bucketOf(pod *model.Pod, alike model.Need) *bucket {
	if b := x.byAlike[alike]; b != nil {
		return b
	}
	b := &bucket{index: x, alike: alike}
	x.byAlike[alike] = b
	x.all.list(b)
	if !x.hasCause() {
		return b
	}
	cause := x.causeOf(pod, alike)
	b.spots = slices.Grow(b.spots, len(cause.Wants)+max(1, len(cause.Keys)))
	x.wanting.listWays(b, cause.Wants)
	if len(cause.Keys) == 0 || len(cause.Keys) > maxKeys {
		x.keyed.always.list(b)
		return b
	}
	x.keyed.listKeys(b, cause.Keys)
	return b
}

// hasCause reports whether the pods have causes. Without causes an event may help any of
// them.
func (x *index) hasCause() bool { return x.Cause != nil || x.Asked != nil }

// causeOf returns the cause of a pod and of all pods in its bucket.
func (x *index) causeOf(pod *model.Pod, alike model.Need) model.Cause {
	if x.Asked != nil {
		return x.Asked.Cause(alike)
	}
	return x.Cause(pod)
}

// remove removes a bucket from the index.
func (x *index) remove(b *bucket) {
	delete(x.byAlike, b.alike)
	for _, s := range b.spots {
		s.posting.remove(s.at)
	}
	b.spots = nil
}

// listWays lists a bucket, for each way, under the keys of the clause with the fewest
// buckets so far.
func (c *catalog) listWays(b *bucket, ways []model.Way) {
	if len(ways) == 0 {
		c.always.list(b)
		return
	}
	if slices.ContainsFunc(ways, func(way model.Way) bool { return len(way) == 0 }) {
		c.always.list(b)
		return
	}
	for _, way := range ways {
		c.listKeys(b, c.fewest(way))
	}
}

// fewest returns the clause of a way under whose keys the fewest buckets are listed, the
// first of several.
func (c *catalog) fewest(way model.Way) model.Clause {
	if len(way) == 1 {
		return way[0]
	}
	best, fewest := 0, c.count(way[0])
	for i := 1; i < len(way); i++ {
		if n := c.count(way[i]); n < fewest {
			best, fewest = i, n
		}
	}
	return way[best]
}

// count returns the number of buckets under the keys. A bucket counts for each key.
func (c *catalog) count(keys []model.Key) (n int) {
	if len(c.byKey) == 0 {
		return 0
	}
	for i := range keys {
		if at := c.byKey[keys[i]]; at != nil {
			n += len(at.listed)
		}
	}
	return n
}

// listKeys lists a bucket under each of the keys.
func (c *catalog) listKeys(b *bucket, keys []model.Key) {
	for _, key := range keys {
		at := c.byKey[key]
		if at == nil {
			at = &posting{in: c, key: key}
			c.byKey[key] = at
		}
		at.list(b)
	}
}

func (p *posting) list(b *bucket) {
	p.listed = append(p.listed, listing{b, len(b.spots)})
	b.spots = append(b.spots, spot{p, len(p.listed) - 1})
}

// remove removes the bucket at a position. The last bucket takes that position.
func (p *posting) remove(at int) {
	last := len(p.listed) - 1
	moved := p.listed[last]
	p.listed[at] = moved
	moved.bucket.spots[moved.spot].at = at
	p.listed[last] = listing{}
	if p.listed = p.listed[:last]; last == 0 && p.in != nil {
		delete(p.in.byKey, p.key)
	}
}

// find appends the buckets that the event may help, each once, in an order that depends
// on no map.
func (p *parkedIndex) find(x *index, event model.Event, to []*bucket) []*bucket {
	p.lookups++
	if !x.hasCause() {
		return p.take(&x.all, to)
	}
	touch := &p.touch
	touch.Has, touch.Seeks = touch.Has[:0], touch.Seeks[:0]
	x.Touches(event, touch)
	// Each of the two catalogs alone finds every bucket that the event can help.
	all := len(x.all.listed)
	wanting, keyed := lookup{found: p.wanting.found[:0]}, lookup{found: p.keyed.found[:0]}
	wanting.at(&x.wanting, touch.Has)
	if keyed.seek(&x.keyed, touch.Seeks) {
		keyed.buckets = all
	}
	p.wanting, p.keyed = wanting, keyed
	switch {
	case min(wanting.buckets, keyed.buckets) >= all:
		return p.take(&x.all, to)
	case wanting.buckets <= keyed.buckets:
		return p.takeFound(&x.wanting, wanting.found, to)
	}
	return p.takeFound(&x.keyed, keyed.found, to)
}

// lookup is the result of a lookup in a catalog.
type lookup struct {
	found   []*posting
	buckets int // in found and always; a bucket counts for each of its spots
}

// at looks up the keys.
func (l *lookup) at(c *catalog, keys []model.Key) {
	l.buckets = len(c.always.listed)
	l.add(c, keys)
}

// seek looks up the keys of one clause of each way. It returns true if every bucket of
// the catalog meets the ways.
func (l *lookup) seek(c *catalog, ways []model.Way) (all bool) {
	l.buckets = len(c.always.listed)
	for _, way := range ways {
		if len(way) == 0 {
			return true
		}
		l.add(c, c.fewest(way))
	}
	return len(ways) == 0
}

func (l *lookup) add(c *catalog, keys []model.Key) {
	if len(c.byKey) == 0 {
		return
	}
	for i := range keys {
		if at := c.byKey[keys[i]]; at != nil {
			l.found = append(l.found, at)
			l.buckets += len(at.listed)
		}
	}
}

// takeFound appends the buckets of the postings, and the buckets that every event finds.
// The postings may come from the labels of a map, so they are sorted first.
func (p *parkedIndex) takeFound(c *catalog, found []*posting, to []*bucket) []*bucket {
	if len(found) > 1 {
		slices.SortFunc(found, func(a, b *posting) int { return a.key.Compare(b.key) })
	}
	to = p.take(&c.always, to)
	for _, at := range found {
		to = p.take(at, to)
	}
	return to
}

// take appends the buckets of a posting that this lookup has not found yet.
func (p *parkedIndex) take(at *posting, to []*bucket) []*bucket {
	for i := range at.listed {
		if b := at.listed[i].bucket; b.lookup != p.lookups {
			b.lookup = p.lookups
			to = append(to, b)
		}
	}
	return to
}
