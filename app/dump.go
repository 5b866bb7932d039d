package app

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/queue"
)

// holdings is the loop's state and queue. Read them only between two rounds.
type holdings struct {
	state *state.State
	queue *queue.Queue
	ours  func(schedulerName string) bool
	audit func() error
}

// dump logs the nodes and pods in state and queue, how they differ from the caches of the
// watches, and each violated invariant.
//
// A difference that a second dump repeats is a bug. Any other was a change that the loop
// had not applied yet. A violated invariant is always a bug.
func (h holdings) dump(log klog.Logger, pods []*v1.Pod, nodes []*v1.Node) {
	if missed, redundant := h.compareNodes(nodes); len(missed)+len(redundant) > 0 {
		log.Info("Cache mismatch", "missedNodes", missed, "redundantNodes", redundant)
	}
	if missed, redundant := h.comparePods(pods); len(missed)+len(redundant) > 0 {
		log.Info("Cache mismatch", "missedPods", missed, "redundantPods", redundant)
	}
	if err := h.audit(); err != nil {
		logViolations(log, err)
	} else {
		log.Info("All invariants hold")
	}
	log.Info("Dump of cached NodeInfo", "nodes", strings.Join(h.describeNodes(), "\n\n"))
	counts := h.queue.Counts()
	summary := fmt.Sprintf("activeQ:%d; backoffQ:%d; unschedulableEntities:%d", counts.Active, counts.BackingOff, counts.Parked+counts.Gated)
	log.Info("Dump of scheduling queue", "summary", summary, "pods", strings.Join(h.describeWaiting(pods), "\n"))
}

func (h holdings) compareNodes(nodes []*v1.Node) (missed, redundant []string) {
	shown := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		shown[node.Name] = true
		if slot, ok := h.state.Slot(node.Name); !ok || !h.state.Alive()[slot] {
			missed = append(missed, node.Name)
		}
	}
	for slot, alive := range h.state.Alive() {
		if alive && !shown[h.state.Node(int32(slot)).Name()] {
			redundant = append(redundant, h.state.Node(int32(slot)).Name())
		}
	}
	return sorted(missed), sorted(redundant)
}

// comparePods compares the pods on nodes, and the pending pods of our profiles.
func (h holdings) comparePods(pods []*v1.Pod) (missed, redundant []string) {
	shown := make(map[model.PodKey]bool, len(pods))
	for _, pod := range pods {
		key := model.PodKey{Namespace: pod.Namespace, Name: pod.Name}
		shown[key] = true
		_, _, placed := h.state.NodeOf(key)
		waits := pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && h.ours(pod.Spec.SchedulerName)
		if !placed && h.queue.PlaceOf(key) == "" && (pod.Spec.NodeName != "" || waits) {
			missed = append(missed, key.String())
		}
	}
	for slot := range h.state.Slots() {
		for pod := range h.state.PodsOn(int32(slot)) {
			if !shown[pod.Key()] {
				redundant = append(redundant, pod.Key().String())
			}
		}
	}
	return sorted(missed), sorted(redundant)
}

func (h holdings) describeNodes() []string {
	var lines []string
	for slot, alive := range h.state.Alive() {
		if !alive {
			continue
		}
		node := h.state.Node(int32(slot))
		var text strings.Builder
		fmt.Fprintf(&text, "Node name: %s\nRequested: cpu %dm, memory %d bytes\nAllocatable: cpu %dm, memory %d bytes\nScheduled Pods(number: %d):",
			node.Name(), node.Used().CPUMilli, node.Used().MemoryBytes, node.Allocatable().CPUMilli, node.Allocatable().MemoryBytes, node.PodCount())
		for pod := range h.state.PodsOn(int32(slot)) {
			_, confirmed, _ := h.state.NodeOf(pod.Key())
			fmt.Fprintf(&text, "\nname: %s, uid: %s, assumed: %t", pod.Key(), pod.UID, !confirmed)
		}
		lines = append(lines, text.String())
	}
	return sorted(lines)
}

// describeWaiting lists the pending pods, each with its place in the queue.
func (h holdings) describeWaiting(pods []*v1.Pod) []string {
	var lines []string
	for _, pod := range pods {
		if place := h.queue.PlaceOf(model.PodKey{Namespace: pod.Namespace, Name: pod.Name}); place != "" {
			lines = append(lines, fmt.Sprintf("name: %s/%s, uid: %s, %s", pod.Namespace, pod.Name, pod.UID, place))
		}
	}
	return sorted(lines)
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
