package kinds

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// maxShared limits the values in a pool, and maxSharedText the total bytes of their
// texts.
const (
	maxShared     = 16_384
	maxSharedText = 16 << 20
)

// pool deduplicates equal values. Pods of one template have equal labels and amounts, and
// a small map takes hundreds of bytes. It is safe for concurrent use. The values that it
// returns must never be written.
//
// A pool is bounded and drops values that were not used recently. When the recent half is
// full, it becomes the older half, and the old older half is dropped. A value in use
// moves to the recent half. So unique values (the labels of a Job's pod) evict only each
// other, and those of templates stay. A dropped value is built again, and is then in
// memory twice.
type pool[M any] struct {
	mu            sync.Mutex
	recent, older map[string]M // by text
	size          int          // of the texts of recent, in bytes
}

// share returns the first value that was built for the text.
func (p *pool[M]) share(text []byte, build func() M) M {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shared, ok := p.recent[string(text)]; ok {
		return shared
	}
	shared, ok := p.older[string(text)]
	if !ok {
		shared = build()
	}
	if p.recent == nil || len(p.recent) >= maxShared/2 || p.size+len(text) > maxSharedText/2 {
		p.recent, p.older, p.size = map[string]M{}, p.recent, 0
	}
	p.recent[string(text)] = shared
	p.size += len(text)
	return shared
}

// len returns the number of values; a value in both halves counts twice.
func (p *pool[M]) len() int { return len(p.recent) + len(p.older) }

// sharing holds the values that trimmed objects share.
type sharing struct {
	strings pool[map[string]string]
	amounts pool[v1.ResourceList]
	// Keyed by their bytes in protobuf: specs, affinities and labels of pods; nil for
	// bytes that cannot be decoded.
	templates  pool[*v1.PodSpec]
	affinities pool[*v1.Affinity]
	wired      pool[map[string]string]
}

// few is the maximum size of a map whose text is built without allocating.
const few = 16

// labels returns an equal map that other objects share, with shared strings.
func (s *sharing) labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m // an empty node selector differs from a missing one
	}
	var keySpace [few]string
	keys := keySpace[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var textSpace [512]byte
	text := textSpace[:0]
	for _, k := range keys {
		text = append(append(append(append(text, k...), 0), m[k]...), 0)
	}
	return s.strings.share(text, func() map[string]string {
		shared := make(map[string]string, len(m))
		for k, v := range m {
			shared[model.Interned(k)] = model.Interned(v)
		}
		return shared
	})
}

// list returns an equal list that other objects share.
func (s *sharing) list(list v1.ResourceList) v1.ResourceList {
	if len(list) == 0 {
		return list
	}
	var nameSpace [few]v1.ResourceName
	names := nameSpace[:0]
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	var textSpace [512]byte
	var digits [64]byte
	text := textSpace[:0]
	for _, name := range names {
		amount := list[name]
		number, suffix := amount.CanonicalizeBytes(digits[:0])
		text = append(append(append(append(append(text, name...), 0), number...), suffix...), 0)
	}
	return s.amounts.share(text, func() v1.ResourceList {
		shared := make(v1.ResourceList, len(list))
		for name, amount := range list {
			shared[v1.ResourceName(model.Interned(string(name)))] = amount
		}
		return shared
	})
}
