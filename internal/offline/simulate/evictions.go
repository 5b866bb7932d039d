package simulate

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Eviction is a preempted pod.
type Eviction struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	Node      string `json:"node"`
	Priority  int32  `json:"priority"`
	// For is the preemptor, as namespace/name, and ForPriority its priority.
	For         string `json:"for"`
	ForPriority int32  `json:"forPriority"`
}

// victims are the pods that decisions preempted, in the order of the first decision.
type victims struct {
	list []victim
	at   map[types.UID]int
}

type victim struct {
	pod, preemptor *model.Pod
	nodeName       string
}

// take adds the victims of a round's decisions.
func (v *victims) take(r *Round) {
	for i := range r.Decisions {
		v.takeFrom(&r.Decisions[i])
	}
}

func (v *victims) takeFrom(d *plan.Decision) {
	for _, eviction := range d.Evictions {
		if eviction.Pod.Terminating {
			continue // it terminates already
		}
		if v.at == nil {
			v.at = map[types.UID]int{}
		}
		at, again := v.at[eviction.Pod.UID]
		if !again {
			at = len(v.list)
			v.at[eviction.Pod.UID] = at
			v.list = append(v.list, victim{})
		}
		v.list[at] = victim{eviction.Pod, d.Pod, eviction.NodeName}
	}
}

// evicted returns the victims that are gone or terminating. The others have stayed: their
// binding was canceled first, or their eviction failed.
func (v *victims) evicted(c *Cluster) []Eviction {
	var evicted []Eviction
	for i := range v.list {
		victim := &v.list[i]
		if now := c.store.pods[victim.pod.Key()]; now != nil && now.UID == victim.pod.UID && now.DeletionTimestamp == nil {
			continue
		}
		evicted = append(evicted, Eviction{
			Namespace: victim.pod.Namespace, Pod: victim.pod.Name, Node: victim.nodeName, Priority: victim.pod.Priority,
			For: victim.preemptor.String(), ForPriority: victim.preemptor.Priority,
		})
	}
	return evicted
}
