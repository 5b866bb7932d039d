package absent

import (
	"errors"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

const dynamicResources = "DynamicResources"

// PostFilter is what a missing plugin says after the filters about a pod that does not need it.
type PostFilter struct{}

// NewPostFilter returns the stand-in for DynamicResources at PostFilter.
func NewPostFilter() PostFilter { return PostFilter{} }

// Name returns "DynamicResources".
func (PostFilter) Name() string { return dynamicResources }

// errNotFound is the error of kube-scheduler's plugin that does not find what it writes down at PreFilter.
var errNotFound = errors.New("not found")

// PostFilter fails if another plugin rejected the pod at PreFilter before the missing one would have run. kube-scheduler then says only "not found", as
// in "persistentvolumeclaim "data" not found. not found"; no plugin behind it runs, and the pod keeps its nomination.
func (PostFilter) PostFilter(c plugin.Cycle, _ *model.Pod) (plugin.PostFilterResult, error) {
	if !c.PreFiltered(dynamicResources) {
		return plugin.PostFilterResult{}, errNotFound
	}
	return plugin.PostFilterResult{}, nil
}
