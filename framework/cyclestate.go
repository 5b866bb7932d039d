package framework

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

var (
	_ fwk.CycleState          = (*CycleState)(nil)
	_ fwk.PodGroupCycleState  = (*CycleState)(nil)
	_ fwk.PlacementCycleState = (*CycleState)(nil)
)

// CycleState holds the data that plugins share during a pod's attempt and its binding.
// The zero value is empty and usable. All methods are safe for concurrent use; plugins
// must protect their data themselves.
type CycleState struct {
	data sync.Map // fwk.StateKey to fwk.StateData: written once, read for each node

	mu    sync.RWMutex
	flags flags
}

// flags are the runtime's values besides data. Their sets are shared and never changed.
type flags struct {
	recordsMetrics, skipsPostFilter                     bool
	skipFilter, skipScore, skipPreBind, parallelPreBind sets.Set[string]
	group                                               fwk.PodGroupCycleState
	placement                                           fwk.PlacementCycleState
}

// NewCycleState returns an empty state.
func NewCycleState() *CycleState { return &CycleState{} }

// Read returns the data under a key, or the error fwk.ErrNotFound.
func (c *CycleState) Read(key fwk.StateKey) (fwk.StateData, error) {
	value, ok := c.data.Load(key)
	if !ok {
		return nil, fwk.ErrNotFound
	}
	data, _ := value.(fwk.StateData) // nil if nil was written
	return data, nil
}

// Write stores data under a key.
func (c *CycleState) Write(key fwk.StateKey, data fwk.StateData) { c.data.Store(key, data) }

// Delete deletes the data under a key, if any.
func (c *CycleState) Delete(key fwk.StateKey) { c.data.Delete(key) }

// Clone returns a state with a clone of all data; nil for nil.
func (c *CycleState) Clone() fwk.CycleState {
	if c == nil {
		return nil
	}
	clone := &CycleState{flags: c.read()}
	c.data.Range(func(key, value any) bool {
		if data, ok := value.(fwk.StateData); ok {
			value = data.Clone()
		}
		clone.data.Store(key, value)
		return true
	})
	return clone
}

func (c *CycleState) read() flags {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.flags
}

func (c *CycleState) change(change func(*flags)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.flags)
}

// ShouldRecordPluginMetrics reports whether plugin durations are recorded in this
// attempt.
func (c *CycleState) ShouldRecordPluginMetrics() bool { return c != nil && c.read().recordsMetrics }

// SetRecordPluginMetrics sets whether plugin durations are recorded.
func (c *CycleState) SetRecordPluginMetrics(records bool) {
	if c != nil {
		c.change(func(f *flags) { f.recordsMetrics = records })
	}
}

// GetSkipFilterPlugins returns the plugins whose Filter is skipped.
func (c *CycleState) GetSkipFilterPlugins() sets.Set[string] { return c.read().skipFilter }

// SetSkipFilterPlugins sets the plugins whose Filter is skipped. The set must not change
// afterwards.
func (c *CycleState) SetSkipFilterPlugins(plugins sets.Set[string]) {
	c.change(func(f *flags) { f.skipFilter = plugins })
}

// GetSkipScorePlugins returns the plugins whose Score is skipped.
func (c *CycleState) GetSkipScorePlugins() sets.Set[string] { return c.read().skipScore }

// SetSkipScorePlugins sets the plugins whose Score is skipped. The set must not change
// afterwards.
func (c *CycleState) SetSkipScorePlugins(plugins sets.Set[string]) {
	c.change(func(f *flags) { f.skipScore = plugins })
}

// GetSkipPreBindPlugins returns the plugins whose PreBind is skipped.
func (c *CycleState) GetSkipPreBindPlugins() sets.Set[string] { return c.read().skipPreBind }

// SetSkipPreBindPlugins sets the plugins whose PreBind is skipped. The set must not
// change afterwards.
func (c *CycleState) SetSkipPreBindPlugins(plugins sets.Set[string]) {
	c.change(func(f *flags) { f.skipPreBind = plugins })
}

// GetParallelPreBindPlugins returns the plugins whose PreBind may run in parallel with
// others.
func (c *CycleState) GetParallelPreBindPlugins() sets.Set[string] { return c.read().parallelPreBind }

// SetParallelPreBindPlugins sets the plugins whose PreBind may run in parallel. The set
// must not change afterwards.
func (c *CycleState) SetParallelPreBindPlugins(plugins sets.Set[string]) {
	c.change(func(f *flags) { f.parallelPreBind = plugins })
}

// ShouldSkipAllPostFilterPlugins reports whether PostFilter is skipped.
func (c *CycleState) ShouldSkipAllPostFilterPlugins() bool { return c.read().skipsPostFilter }

// SetSkipAllPostFilterPlugins sets whether PostFilter is skipped.
func (c *CycleState) SetSkipAllPostFilterPlugins(skip bool) {
	c.change(func(f *flags) { f.skipsPostFilter = skip })
}

// IsPodGroupSchedulingCycle reports whether the pod is tried as a member of its group.
func (c *CycleState) IsPodGroupSchedulingCycle() bool { return c.read().group != nil }

// GetPodGroupSchedulingCycle returns the state of the pod's group; nil outside of a
// group's attempt.
func (c *CycleState) GetPodGroupSchedulingCycle() fwk.PodGroupCycleState { return c.read().group }

// SetPodGroupSchedulingCycle sets the state of the pod's group.
func (c *CycleState) SetPodGroupSchedulingCycle(group fwk.PodGroupCycleState) {
	c.change(func(f *flags) { f.group = group })
}

// GetPlacementCycleState returns the state of the group's current placement; nil for
// none.
func (c *CycleState) GetPlacementCycleState() fwk.PlacementCycleState { return c.read().placement }

// GetParentPlacementCycleState returns, for a group's state, the state of the parent
// group's current placement; nil for none.
func (c *CycleState) GetParentPlacementCycleState() fwk.PlacementCycleState {
	return c.read().placement
}

// SetPlacementCycleState sets the result of GetPlacementCycleState and
// GetParentPlacementCycleState.
func (c *CycleState) SetPlacementCycleState(placement fwk.PlacementCycleState) {
	c.change(func(f *flags) { f.placement = placement })
}
