package snapshot

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// images counts the nodes that have each image. Few plugins use it, so it catches up with
// the lister only on use.
//
// Invariant: spread has exactly the images of the nodes in seen.
type images struct {
	lister *Lister
	mu     sync.Mutex
	spread map[string]*spread
	seen   content // chunks and slots only
}

// spread is the size of an image in bytes, as its first node reported it, and the number
// of nodes with the image.
type spread struct {
	sizeBytes int64
	nodes     int
}

// ImageStates returns a node's images. The numbers of nodes are as of the present turn.
func (i *images) ImageStates(node *model.Node) map[string]*fwk.ImageStateSummary {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.catchUp()
	states := make(map[string]*fwk.ImageStateSummary, len(node.Images))
	for name, size := range node.Images {
		// The node is gone, and may have been the image's only node.
		state := &fwk.ImageStateSummary{Size: size, NumNodes: 1}
		if s := i.spread[name]; s != nil {
			state.Size, state.NumNodes = s.sizeBytes, s.nodes
		}
		states[name] = state
	}
	return states
}

func (i *images) catchUp() {
	now := i.lister.content.Load()
	if i.spread == nil {
		i.spread = map[string]*spread{}
	}
	for at := range max(len(now.chunks), len(i.seen.chunks)) {
		if at < len(now.chunks) && at < len(i.seen.chunks) && now.chunks[at] == i.seen.chunks[at] && now.slots == i.seen.slots {
			continue
		}
		for slot := int32(at * chunkSize); slot < int32((at+1)*chunkSize); slot++ {
			if before, after := i.seen.at(slot).node, now.at(slot).node; before != after {
				i.count(imagesOf(before), imagesOf(after))
			}
		}
	}
	i.seen.chunks, i.seen.slots = now.chunks, now.slots
}

func imagesOf(node *model.Node) map[string]int64 {
	if node == nil {
		return nil
	}
	return node.Images
}

// count adds the images of a node's new version and subtracts the old version's. As in
// kube-scheduler, an image keeps its first reported size while several nodes have it.
func (i *images) count(before, after map[string]int64) {
	for name, size := range after {
		s := i.spread[name]
		if s == nil {
			s = &spread{sizeBytes: size}
			i.spread[name] = s
		}
		if _, had := before[name]; !had {
			s.nodes++
		} else if s.nodes == 1 {
			s.sizeBytes = size
		}
	}
	for name := range before {
		if _, has := after[name]; has {
			continue
		}
		if s := i.spread[name]; s.nodes > 1 {
			s.nodes--
		} else {
			delete(i.spread, name)
		}
	}
}
