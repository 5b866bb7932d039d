package simulate

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// GroupResult is the outcome for a pod group with pending pods.
type GroupResult struct {
	Namespace string `json:"namespace"`
	PodGroup  string `json:"podGroup"`
	// Status is Scheduled if at least minCount members have a node.
	Status Status `json:"status"`
	// MinCount is a gang's minCount, otherwise 1. It is 0 if the PodGroup does not exist.
	MinCount int `json:"minCount"`
	// Members is the number of unfinished pods that name the group, Placed the number
	// with a node.
	Members int `json:"members"`
	Placed  int `json:"placed"`
	// Message is the reason why the group is not Scheduled: the message of its condition,
	// or why it is not tried.
	Message string `json:"message,omitempty"`
}

// groupResults collects the outcomes for pod groups. It is empty if members are decided
// about one by one.
type groupResults struct {
	c     *Cluster
	byKey map[model.GroupKey]*GroupResult
	order []*GroupResult
	// members are all unfinished pods that name a group, sorted by name.
	members map[model.GroupKey][]*v1.Pod
}

func (c *Cluster) newGroupResults() *groupResults {
	g := &groupResults{c: c, byKey: map[model.GroupKey]*GroupResult{}, members: map[model.GroupKey][]*v1.Pod{}}
	if !c.config.Scheduler.Groups {
		return g
	}
	for _, pod := range c.Pods() {
		if key, ok := groupKeyOf(pod); ok && !kinds.Finished(pod) && c.profiles[pod.Spec.SchedulerName] != nil {
			g.members[key] = append(g.members[key], pod)
		}
	}
	return g
}

func groupKeyOf(pod *v1.Pod) (key model.GroupKey, ok bool) {
	if of := pod.Spec.SchedulingGroup; of != nil && of.PodGroupName != nil {
		return model.GroupKey{Namespace: pod.Namespace, Name: *of.PodGroupName}, true
	}
	return model.GroupKey{}, false
}

// take adds the outcome for a pod that was pending. If the pod was never tried because of
// its group, its outcome is set to the group's.
func (g *groupResults) take(of *pendingPod, p *Placement) {
	key := of.group
	if key == (model.GroupKey{}) || len(g.members[key]) == 0 {
		return
	}
	r := g.byKey[key]
	if r == nil {
		r = g.result(key)
		g.byKey[key] = r
		g.order = append(g.order, r)
	}
	if p.Status == Failed && (r.Status == Gated || r.Status == Incomplete) {
		p.Status, p.Message = r.Status, r.Message
	}
}

// all returns the groups in the order of their first pods.
func (g *groupResults) all() []GroupResult {
	var all []GroupResult
	for _, r := range g.order {
		all = append(all, *r)
	}
	return all
}

// result computes the outcome for a group.
func (g *groupResults) result(key model.GroupKey) *GroupResult {
	members := g.members[key]
	r := &GroupResult{Namespace: key.Namespace, PodGroup: key.Name, Members: len(members)}
	for _, pod := range members {
		if pod.Spec.NodeName != "" {
			r.Placed++
		}
	}
	object, ok := g.c.Object(key.Ref()).(*schedulingv1beta1.PodGroup)
	if !ok {
		r.Status, r.Message = Incomplete, fmt.Sprintf("PodGroup %s does not exist", key)
		return r
	}
	group := model.NewPodGroup(object)
	root, err := g.rootOf(group)
	if err != nil {
		r.Status, r.Message = Incomplete, err.Error()
		return r
	}
	r.MinCount = group.MinCount
	if r.Placed >= r.MinCount {
		r.Status = Scheduled
		return r
	}
	gate := ""
	if root != nil {
		gate = g.gateOfTree(root)
	} else {
		gate = g.gate(group, members)
	}
	if gate != "" {
		r.Status, r.Message = Gated, gate
		return r
	}
	r.Status = Pending
	if condition := meta.FindStatusCondition(object.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); condition != nil {
		if r.Message = condition.Message; condition.Reason == schedulingv1beta1.PodGroupReasonSchedulerError {
			r.Status = Failed
		}
	}
	return r
}

// rootOf returns the CompositePodGroup at the top of a group's tree, or nil.
func (g *groupResults) rootOf(group *model.PodGroup) (*model.CompositeGroup, error) {
	if !g.c.config.Scheduler.Trees {
		return nil, nil
	}
	return g.c.Loop().State().View().Root(group)
}

// gateOfTree returns why the groups of a tree are not tried, or "".
func (g *groupResults) gateOfTree(root *model.CompositeGroup) string {
	var first *v1.Pod
	tree := g.c.Loop().State().View().Tree(root.Key)
	for below := range tree.Leaves {
		for _, pod := range g.members[below.Key] {
			if pod.Spec.NodeName != "" {
				continue
			}
			if reason := g.c.Gated(pod); reason != "" {
				return fmt.Sprintf("member %s of its tree is held back: %s", pod.Name, reason)
			}
			if first == nil {
				first = pod
			}
		}
	}
	if first == nil {
		return ""
	}
	for _, pre := range g.c.profiles[first.Spec.SchedulerName].PreEnqueue {
		if pre.Tree != nil {
			if reason := pre.Tree(tree, func(key model.GroupKey) int { return len(g.members[key]) }); reason != "" {
				return reason
			}
		}
	}
	return ""
}

// gate returns why a group is not tried, or "".
func (g *groupResults) gate(group *model.PodGroup, members []*v1.Pod) string {
	waits := slices.IndexFunc(members, func(pod *v1.Pod) bool { return pod.Spec.NodeName == "" })
	if waits < 0 {
		return ""
	}
	for _, pod := range members[waits:] {
		if pod.Spec.NodeName != "" {
			continue
		}
		if reason := g.c.Gated(pod); reason != "" {
			return fmt.Sprintf("member %s is held back: %s", pod.Name, reason)
		}
	}
	for _, pre := range g.c.profiles[members[waits].Spec.SchedulerName].PreEnqueue {
		if pre.Group != nil {
			if reason := pre.Group(group, len(members)); reason != "" {
				return reason
			}
		}
	}
	return ""
}
