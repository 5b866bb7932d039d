package kinds

import (
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// sharedMax is how many different values a pool holds, sharedTextMax how many bytes their texts may have together. A value that was dropped
// is built again, and is then in memory twice.
const (
	sharedMax     = 16_384
	sharedTextMax = 16 << 20
)

// pool replaces equal values by one. Pods of one template have equal labels and amounts, and a small map takes hundreds of bytes. It is safe
// for concurrent use. The values that it returns must never be written.
type pool[M any] struct {
	mu     sync.Mutex
	byText map[string]M
	size   int // of all texts, in bytes
}

// share returns what was first built under the text.
func (p *pool[M]) share(text []byte, build func() M) M {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shared, ok := p.byText[string(text)]; ok {
		return shared
	}
	if p.byText == nil || len(p.byText) >= sharedMax || p.size+len(text) > sharedTextMax {
		p.byText, p.size = map[string]M{}, 0
	}
	shared := build()
	p.byText[string(text)] = shared
	p.size += len(text)
	return shared
}

// sharing holds the values that trimmed objects share.
type sharing struct {
	strings pool[map[string]string]
	amounts pool[v1.ResourceList]
	// By their bytes in protobuf: specs, affinities and labels of pods; nil for bytes that cannot be decoded.
	templates  pool[*v1.PodSpec]
	affinities pool[*v1.Affinity]
	wired      pool[map[string]string]
}

// few is how many entries a map may have so that its text is built without allocating.
const few = 16

// labels returns an equal map that other objects share, with shared strings.
func (s *sharing) labels(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m // an empty node selector is not the same as none
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
