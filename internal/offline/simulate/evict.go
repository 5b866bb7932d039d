package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
)

// defaultGrace is the grace period, in seconds, that the API server sets for a pod
// without one.
const defaultGrace = int64(v1.DefaultTerminationGracePeriodSeconds)

// deletePod deletes a pod as the API server and the kubelet do. A pod on a node
// terminates for its grace period; another one is removed at once.
func (c *Cluster) deletePod(request commit.Request) commit.Response {
	key := request.Key()
	pod := c.store.pods[key]
	switch {
	case pod == nil:
		return commit.Response{Err: apierrors.NewNotFound(v1.Resource("pods"), key.Name)}
	case pod.UID != request.Pod.UID:
		return commit.Response{Err: apierrors.NewConflict(v1.Resource("pods"), key.Name, fmt.Errorf("the UID is another pod's"))}
	case pod.DeletionTimestamp == nil:
		c.Terminate(key)
	}
	return commit.Response{}
}

// Terminate begins the deletion of a pod with its own grace period. It reports whether
// the pod exists and was not terminating yet.
func (c *Cluster) Terminate(key model.PodKey) bool {
	pod := c.store.pods[key]
	if pod == nil || pod.DeletionTimestamp != nil {
		return false
	}
	grace := defaultGrace
	if own := pod.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = *own
	}
	if pod.Spec.NodeName == "" || grace == 0 {
		return c.DeletePod(key)
	}
	at := c.now.Add(time.Duration(grace) * time.Second)
	going := *pod
	going.DeletionTimestamp, going.DeletionGracePeriodSeconds = &metav1.Time{Time: at}, &grace
	c.changes++
	c.show(c.store.adoptPod(&going))
	if c.chaos.plan(key).stays || c.chaos.chance(c.chaos.StuckPercent) {
		c.happened["kubelet: a pod stays"]++
		c.stuck[key] = pod.UID
		return true
	}
	c.agenda.plan(at, 0, func() { c.goes(key, pod.UID) })
	return true
}

// goes ends the deletion of a pod.
func (c *Cluster) goes(key model.PodKey, uid types.UID) {
	if pod := c.store.pods[key]; pod != nil && pod.UID == uid {
		c.DeletePod(key)
	}
}

// HoldPod makes a terminating pod stay, as if its kubelet were dead.
func (c *Cluster) HoldPod(key model.PodKey) { c.chaos.plan(key).stays = true }

// ReleasePods removes all terminating pods that have stayed.
func (c *Cluster) ReleasePods() {
	for _, key := range slices.SortedFunc(maps.Keys(c.stuck), compareKeys) {
		uid := c.stuck[key]
		c.agenda.plan(c.now, 0, func() { c.goes(key, uid) })
	}
	clear(c.stuck)
}

// FailEviction makes the next requests of a kind for the eviction of a pod fail, or all
// of them if times is negative.
func (c *Cluster) FailEviction(key model.PodKey, kind commit.RequestKind, fault Fault, times int) {
	p := c.chaos.plan(key)
	p.evictKind, p.evictFault, p.evictTimes = kind, fault, times
}
