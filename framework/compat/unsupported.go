package compat

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
)

// PreEnqueuePlugins is not supported.
func (unsupported) PreEnqueuePlugins() []fwk.PreEnqueuePlugin {
	panic(errFramework("PreEnqueuePlugins"))
}

// EnqueueExtensions is not supported.
func (unsupported) EnqueueExtensions() []fwk.EnqueueExtensions {
	panic(errFramework("EnqueueExtensions"))
}

// QueueSortFunc is not supported.
func (unsupported) QueueSortFunc() fwk.LessFunc {
	panic(errFramework("QueueSortFunc"))
}

// RunPreFilterPlugins is not supported.
func (unsupported) RunPreFilterPlugins(context.Context, fwk.CycleState, *v1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string]) {
	panic(errFramework("RunPreFilterPlugins"))
}

// RunPostFilterPlugins is not supported.
func (unsupported) RunPostFilterPlugins(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	panic(errFramework("RunPostFilterPlugins"))
}

// GetNodeHint is not supported.
func (unsupported) GetNodeHint(context.Context, *v1.Pod, fwk.PodSignature, fwk.CycleState, int64) string {
	panic(errFramework("GetNodeHint"))
}

// StoreScheduleResults is not supported.
func (unsupported) StoreScheduleResults(context.Context, fwk.PodSignature, string, string, kube.SortedScoredNodes, int64) {
	panic(errFramework("StoreScheduleResults"))
}

// RunRawScorePlugins is not supported.
func (unsupported) RunRawScorePlugins(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) ([]fwk.PluginScore, *fwk.Status) {
	panic(errFramework("RunRawScorePlugins"))
}

// NormalizeScores is not supported.
func (unsupported) NormalizeScores(context.Context, fwk.CycleState, *v1.Pod, []fwk.NodePluginScores) *fwk.Status {
	panic(errFramework("NormalizeScores"))
}

// RunPlacementGeneratePlugins is not supported.
func (unsupported) RunPlacementGeneratePlugins(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, []fwk.NodeInfo) ([]*fwk.Placement, *fwk.Status) {
	panic(errFramework("RunPlacementGeneratePlugins"))
}

// RunPreBindPlugins is not supported.
func (unsupported) RunPreBindPlugins(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	panic(errFramework("RunPreBindPlugins"))
}

// RunPreBindPreFlights is not supported.
func (unsupported) RunPreBindPreFlights(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	panic(errFramework("RunPreBindPreFlights"))
}

// RunPostBindPlugins is not supported.
func (unsupported) RunPostBindPlugins(context.Context, fwk.CycleState, *v1.Pod, string) {
	panic(errFramework("RunPostBindPlugins"))
}

// RunPermitPlugins is not supported.
func (unsupported) RunPermitPlugins(context.Context, fwk.CycleState, *v1.Pod, string) (map[string]time.Duration, *fwk.Status) {
	panic(errFramework("RunPermitPlugins"))
}

// RunPlacementFeasiblePlugins is not supported.
func (unsupported) RunPlacementFeasiblePlugins(context.Context, fwk.PlacementCycleState, fwk.PodGroupInfo, kube.PlacementProgress) *fwk.Status {
	panic(errFramework("RunPlacementFeasiblePlugins"))
}

// AddWaitingPod is not supported.
func (unsupported) AddWaitingPod(*v1.Pod, map[string]time.Duration) {
	panic(errFramework("AddWaitingPod"))
}

// WillWaitOnPermit is not supported.
func (unsupported) WillWaitOnPermit(context.Context, *v1.Pod) bool {
	panic(errFramework("WillWaitOnPermit"))
}

// WaitOnPermit is not supported.
func (unsupported) WaitOnPermit(context.Context, *v1.Pod) *fwk.Status {
	panic(errFramework("WaitOnPermit"))
}

// RunBindPlugins is not supported.
func (unsupported) RunBindPlugins(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status {
	panic(errFramework("RunBindPlugins"))
}

// RunPlacementScorePlugins is not supported.
func (unsupported) RunPlacementScorePlugins(context.Context, fwk.PodGroupCycleState, fwk.PodGroupInfo, []*fwk.PodGroupAssignments, []fwk.PlacementCycleState) ([]fwk.PlacementPluginScores, *fwk.Status) {
	panic(errFramework("RunPlacementScorePlugins"))
}

// RunPodGroupPostFilterPlugins is not supported.
func (unsupported) RunPodGroupPostFilterPlugins(context.Context, *kube.CycleState, fwk.PodGroupInfo, fwk.PodGroupSchedulingFunc) (*fwk.PodGroupPostFilterResult, *fwk.Status) {
	panic(errFramework("RunPodGroupPostFilterPlugins"))
}

// HasFilterPlugins is not supported.
func (unsupported) HasFilterPlugins() bool {
	panic(errFramework("HasFilterPlugins"))
}

// HasPostFilterPlugins is not supported.
func (unsupported) HasPostFilterPlugins() bool {
	panic(errFramework("HasPostFilterPlugins"))
}

// HasScorePlugins is not supported.
func (unsupported) HasScorePlugins() bool {
	panic(errFramework("HasScorePlugins"))
}

// PodGroupPostFilterPlugins is not supported.
func (unsupported) PodGroupPostFilterPlugins() []fwk.PodGroupPostFilterPlugin {
	panic(errFramework("PodGroupPostFilterPlugins"))
}

// ListPlugins is not supported.
func (unsupported) ListPlugins() *config.Plugins {
	panic(errFramework("ListPlugins"))
}

// PercentageOfNodesToScore is not supported.
func (unsupported) PercentageOfNodesToScore() *int32 {
	panic(errFramework("PercentageOfNodesToScore"))
}

// SetPodNominator is not supported.
func (unsupported) SetPodNominator(fwk.PodNominator) {
	panic(errFramework("SetPodNominator"))
}

// SetPodActivator is not supported.
func (unsupported) SetPodActivator(fwk.PodActivator) {
	panic(errFramework("SetPodActivator"))
}

// SetAPICacher is not supported.
func (unsupported) SetAPICacher(fwk.APICacher) {
	panic(errFramework("SetAPICacher"))
}

// Close is not supported.
func (unsupported) Close() error {
	panic(errFramework("Close"))
}
