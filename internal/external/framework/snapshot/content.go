package snapshot

import (
	"sync"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/model"
)

// content is the content of a lister. It never changes once it is published. Derived
// values are computed on first use.
type content struct {
	// chunks have the entries by slot. Unchanged chunks are shared with the previous
	// content.
	chunks []*chunk
	slots  int
	byName map[string]int32 // the slots of nodes
	types  *framework.Types

	listed, affinityListed, antiAffinityListed sync.Once
	list, affinity, antiAffinity               []fwk.NodeInfo
}

// chunkSize is the number of nodes in a chunk: a change of one node copies its chunk, and
// a pointer for each other chunk.
const chunkSize = 64

type chunk [chunkSize]entry

// entry is the content of a slot; empty without a node.
type entry struct {
	info *framework.NodeInfo
	// node and pods are the inputs of info. Plugins cannot change them.
	node *model.Node
	pods []fwk.PodInfo
}

func (e *entry) name() string {
	if e.node == nil {
		return ""
	}
	return e.node.Name
}

var noEntry entry

// at returns the entry of a slot, which must not be changed.
func (c *content) at(slot int32) *entry {
	if slot < 0 || int(slot) >= c.slots {
		return &noEntry
	}
	return &c.chunks[slot/chunkSize][slot%chunkSize]
}

// withSlots returns a content with the chunks of this one, cut off or extended with empty
// ones. Entries of slots that were cut off stay in the last chunk, which is harmless: a
// slot that returns is in the journal.
func (c *content) withSlots(slots int) *content {
	n := (slots + chunkSize - 1) / chunkSize
	next := &content{slots: slots, chunks: make([]*chunk, n), types: c.types}
	for i := copy(next.chunks, c.chunks); i < n; i++ {
		next.chunks[i] = new(chunk)
	}
	return next
}

// own returns the writable entry of a slot, in a chunk that is not shared with the
// previous content.
func (c *content) own(before *content, slot int32) *entry {
	i := slot / chunkSize
	if int(i) < len(before.chunks) && c.chunks[i] == before.chunks[i] {
		private := *c.chunks[i]
		c.chunks[i] = &private
	}
	return &c.chunks[i][slot%chunkSize]
}

// index finds the slots of all names.
func (c *content) index() {
	c.byName = make(map[string]int32, c.slots)
	for slot, e := range c.each {
		c.byName[e.node.Name] = slot
	}
}

// each calls yield with the nodes in the order of their slots.
func (c *content) each(yield func(int32, *entry) bool) {
	for slot := range int32(c.slots) {
		if e := c.at(slot); e.info != nil && !yield(slot, e) {
			return
		}
	}
}

// nodes returns all nodes, in the order of their slots.
func (c *content) nodes() []fwk.NodeInfo {
	c.listed.Do(func() {
		c.list = make([]fwk.NodeInfo, 0, len(c.byName))
		for _, e := range c.each {
			c.list = append(c.list, c.types.ShownNode(e.info))
		}
	})
	return c.list
}

func (c *content) withAffinity() []fwk.NodeInfo {
	c.affinityListed.Do(func() {
		c.affinity = c.having((*framework.NodeInfo).GetPodsWithAffinity)
	})
	return c.affinity
}

func (c *content) withRequiredAntiAffinity() []fwk.NodeInfo {
	c.antiAffinityListed.Do(func() {
		c.antiAffinity = c.having((*framework.NodeInfo).GetPodsWithRequiredAntiAffinity)
	})
	return c.antiAffinity
}

// having returns the nodes that have such pods.
func (c *content) having(pods func(*framework.NodeInfo) []fwk.PodInfo) []fwk.NodeInfo {
	var nodes []fwk.NodeInfo
	for _, e := range c.each {
		if len(pods(e.info)) > 0 {
			nodes = append(nodes, c.types.ShownNode(e.info))
		}
	}
	return nodes
}
