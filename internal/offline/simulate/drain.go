package simulate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Further statuses of pods on drained nodes. An evicted pod that is recreated has the
// status of its replacement.
const (
	// Left: a DaemonSet or a kubelet would recreate the pod on the same node.
	Left Status = "Left"
	// Leaving: the pod is being deleted already, and its controller has created another.
	Leaving Status = "Leaving"
	// Gone: the pod is evicted and not recreated.
	Gone Status = "Gone"
	// Blocked: a PodDisruptionBudget refuses the eviction, and nothing in this drain
	// changes that.
	Blocked Status = "Blocked"
	// InTheWay: the drain of the node needs a flag because of this pod.
	InTheWay Status = "InTheWay"
)

// Drain has the nodes to drain and the options of kubectl drain.
type Drain struct {
	// Nodes are the names of nodes in the order of their drain. All are cordoned first.
	Nodes []string
	// IgnoreDaemonSets, DeleteEmptyDirData and Force allow a drain that kubectl refuses
	// otherwise: to leave pods of DaemonSets, to evict pods with emptyDir volumes, and to
	// evict pods without a controller.
	IgnoreDaemonSets, DeleteEmptyDirData, Force bool
	// DisableEviction means that pods are deleted in spite of PodDisruptionBudgets.
	DisableEviction bool
	// PodSelector selects the pods to evict; nil selects all.
	PodSelector labels.Selector
	// Prepare, if set, is called with each recreated pod before its creation.
	Prepare func(*v1.Pod)
}

// DrainedPod is the outcome for one pod on a drained node.
type DrainedPod struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Owner is KIND/NAME of the controller, or empty.
	Owner string `json:"owner,omitempty"`
	// From is the drained node. To is the node of the recreated pod, or empty.
	From   string `json:"from"`
	To     string `json:"to,omitempty"`
	Status Status `json:"status"`
	// Wave is the turn of its node in which the pod is evicted, from 1, or 0 without an
	// eviction. PodDisruptionBudgets can make several waves necessary.
	Wave int `json:"wave,omitempty"`
	// Message is the reason why the pod is not placed, or the PodDisruptionBudget that
	// delayed its eviction.
	Message string `json:"message,omitempty"`
}

// DrainedNode is the outcome for one node.
type DrainedNode struct {
	Node string `json:"node"`
	// Status is Drained, Blocked or Undrained.
	Status  Status `json:"status"`
	Evicted int    `json:"evicted"`
	Left    int    `json:"left"`
	// Message is the obstacle to the drain. For a refused node, it has the words of
	// kubectl drain.
	Message string `json:"message,omitempty"`
}

// The statuses of nodes, besides Blocked.
const (
	// Drained: all pods to evict are gone from the node.
	Drained Status = "Drained"
	// Undrained: no pod was evicted, because a flag is missing.
	Undrained Status = "Undrained"
)

// DrainResult is the outcome of a drain.
type DrainResult struct {
	Nodes []DrainedNode `json:"nodes"`
	// Pods are sorted by node in the order of Nodes, then by namespace and name.
	Pods []DrainedPod `json:"pods"`
	// Evictions are the pods that the scheduler preempted.
	Evictions []Eviction `json:"evictions,omitempty"`
	Summary   Summary    `json:"summary"`
	// Others is the number of further pending pods with a decision.
	Others int `json:"otherPending,omitempty"`
}

// RunDrain simulates kubectl drain. It puts the files' objects into a cluster, cordons
// the nodes, and runs the scheduler for the pods that are pending already. Then it evicts
// the pods of one node after another. Evictions that PodDisruptionBudgets refuse are
// retried when all evicted pods are placed or unschedulable. Each pod with a controller
// is recreated with the same spec: a StatefulSet's pod under the same name once the old
// one is gone, others at once. It calls progress, if set, after every eviction.
//
// A node with pods that kubectl drain would not evict without a flag keeps all its pods.
// Finished pods are not listed.
func RunDrain(config Config, files *manifest.Cluster, drain Drain, progress func(done, total int)) (*DrainResult, error) {
	config.Devices.Prepared = true
	config.GroupPatience, config.GroupRetries = DefaultGroupPatience, DefaultGroupRetries
	c, err := New(config)
	if err != nil {
		return nil, err
	}
	if err := c.take(files); err != nil {
		return nil, err
	}
	d := drainer{c: c, drain: drain, progress: progress}
	if err := d.cordon(); err != nil {
		return nil, err
	}
	pending, placed := divide(files.Pods)
	for _, pod := range append(placed, pending...) {
		c.SetPod(pod)
	}
	before := tallied(files.Nodes, placed)
	if err := d.settle(); err != nil {
		return nil, err
	}
	result := &DrainResult{Others: len(pending)}
	d.list()
	for i := range d.nodes {
		if err := d.empty(&d.nodes[i]); err != nil {
			return nil, err
		}
	}
	var again []Placement
	for i := range d.nodes {
		node, leaving := d.nodes[i].result(c)
		result.Nodes, result.Pods = append(result.Nodes, node), append(result.Pods, leaving...)
		for _, pod := range leaving {
			if pod.Wave > 0 && pod.Status != Gone {
				again = append(again, Placement{Status: pod.Status})
			}
		}
	}
	result.Evictions = d.victims.evicted(c)
	result.Summary = summarize(c.Nodes(), before, c.tallied(files.Nodes), again)
	result.Summary.Evicted = len(result.Evictions)
	return result, nil
}

// drainer drains nodes of a cluster.
type drainer struct {
	c        *Cluster
	drain    Drain
	progress func(done, total int)
	nodes    []drainingNode
	victims  victims
	evicted  int
	total    int
	// budgets are the stored PodDisruptionBudgets by namespace, sorted by name. None is
	// created or deleted during a drain.
	budgets map[string][]model.Ref
}

// drainingNode is a node that is being drained, with the pods that were on it.
type drainingNode struct {
	name    string
	pods    []drainingPod
	refusal string
}

// drainingPod is a pod on such a node. again is the key of its replacement, if it has
// been evicted and is recreated.
type drainingPod struct {
	pod   *v1.Pod
	out   DrainedPod
	again model.PodKey
	// blocks is the reason of the latest refusal of the eviction. waited has all
	// PodDisruptionBudgets that refused it.
	blocks string
	waited []string
}

// cordon makes nodes unschedulable, with the taint that the node lifecycle controller
// adds.
func (d *drainer) cordon() error {
	for _, name := range d.drain.Nodes {
		have := d.c.store.nodes[name]
		if have == nil {
			return fmt.Errorf("simulate: there is no node %q", name)
		}
		node := *have
		node.Spec.Unschedulable = true
		taint := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
		if !slices.ContainsFunc(node.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) }) {
			node.Spec.Taints = append(slices.Clone(node.Spec.Taints), taint)
		}
		d.c.SetNode(&node)
	}
	return nil
}

// settle runs the scheduler until no further progress is possible.
func (d *drainer) settle() error {
	return d.c.untilQuiet(func(r Round) error {
		d.victims.take(&r)
		return nil
	})
}

// list lists the pods of all nodes, and the budgets.
func (d *drainer) list() {
	on := make(map[string][]*v1.Pod, len(d.drain.Nodes))
	for _, name := range d.drain.Nodes {
		on[name] = []*v1.Pod{}
	}
	for _, pod := range d.c.Pods() {
		if on[pod.Spec.NodeName] == nil || kinds.Finished(pod) || d.drain.PodSelector != nil && !d.drain.PodSelector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		on[pod.Spec.NodeName] = append(on[pod.Spec.NodeName], pod)
	}
	for _, name := range d.drain.Nodes {
		d.enter(name, on[name])
	}
	d.budgets = map[string][]model.Ref{}
	for ref := range d.c.store.others {
		if ref.Kind == model.PodDisruptionBudgetKind {
			d.budgets[ref.Namespace] = append(d.budgets[ref.Namespace], ref)
		}
	}
	for _, refs := range d.budgets {
		slices.SortFunc(refs, compareRefs)
	}
}

// enter adds the pods of a node, sorted by namespace and name, and finds the obstacles to
// its drain.
func (d *drainer) enter(name string, pods []*v1.Pod) {
	node := drainingNode{name: name}
	var refusals [3][]string // by kind, in the words of kubectl drain
	for _, pod := range pods {
		p := drainingPod{pod: pod, out: DrainedPod{Namespace: pod.Namespace, Pod: pod.Name, From: name, Owner: controllerName(pod)}}
		owner := metav1.GetControllerOfNoCopy(pod)
		_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
		refuse := func(kind int, why string) {
			p.out.Status, p.out.Message = InTheWay, why
			refusals[kind] = append(refusals[kind], pod.Namespace+"/"+pod.Name)
		}
		switch local := slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.EmptyDir != nil }); {
		case owner != nil && owner.Kind == "DaemonSet" && !d.drain.IgnoreDaemonSets:
			refuse(0, "DaemonSet pod: use --ignore-daemonsets to leave it")
		case owner != nil && owner.Kind == "DaemonSet":
			p.out.Status, p.out.Message = Left, "DaemonSet pod: it would be recreated on this node"
		case mirror || owner != nil && owner.Kind == "Node":
			p.out.Status, p.out.Message = Left, "is a static pod of the node's kubelet"
		case local && !d.drain.DeleteEmptyDirData:
			refuse(1, "has local storage: --delete-emptydir-data evicts it and deletes its emptyDir volumes")
		case owner == nil && !d.drain.Force:
			refuse(2, "no controller: --force evicts it, and it is not recreated")
		case pod.DeletionTimestamp != nil:
			p.out.Status, p.out.Message = Leaving, "is being deleted already"
		default:
			d.total++
		}
		node.pods = append(node.pods, p)
	}
	var texts []string
	for i, text := range []string{
		"cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore)",
		"cannot delete Pods with local storage (use --delete-emptydir-data to override)",
		"cannot delete Pods that declare no controller (use --force to override)",
	} {
		if len(refusals[i]) > 0 {
			texts = append(texts, text+": "+strings.Join(refusals[i], ", "))
		}
	}
	if node.refusal = strings.Join(texts, "; "); node.refusal != "" {
		for i := range node.pods {
			if p := &node.pods[i]; p.out.Status == "" {
				d.total--
				p.out.Status, p.out.Message = InTheWay, "not evicted, because other pods block the drain of this node"
			}
		}
	}
	d.nodes = append(d.nodes, node)
}

// controllerName returns KIND/NAME of a pod's controller, or "".
func controllerName(pod *v1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind + "/" + owner.Name
	}
	return ""
}

// empty evicts the pods of a node, those that PodDisruptionBudgets allow first, until no
// further eviction is allowed.
func (d *drainer) empty(node *drainingNode) error {
	for wave := 1; ; wave++ {
		evicted := false
		for i := range node.pods {
			p := &node.pods[i]
			if p.out.Status != "" || p.out.Wave > 0 {
				continue
			}
			stored := d.c.store.pods[keyOf(p.pod)]
			if stored == nil || stored.UID != p.pod.UID || stored.DeletionTimestamp != nil {
				p.out.Status, p.out.Message = Evicted, "was evicted by the scheduler for another pod"
				continue
			}
			if p.blocks = d.blocks(stored); p.blocks != "" && !d.drain.DisableEviction {
				if !slices.Contains(p.waited, p.blocks) {
					p.waited = append(p.waited, p.blocks)
				}
				continue
			}
			p.out.Wave, evicted = wave, true
			d.evict(p)
		}
		if !evicted {
			return nil
		}
		if err := d.settle(); err != nil {
			return err
		}
	}
}

// evict begins the deletion of a pod and plans its recreation.
func (d *drainer) evict(p *drainingPod) {
	c, key := d.c, keyOf(p.pod)
	c.Terminate(key)
	for _, budget := range d.budgetsOf(p.pod) { // the eviction counts at once in the budget's status
		if c.budget.budgets != nil {
			c.budget.sync(refOf(budget))
		}
	}
	d.evicted++
	if d.progress != nil {
		d.progress(d.evicted, d.total)
	}
	owner := metav1.GetControllerOfNoCopy(p.pod)
	if owner == nil {
		p.out.Status, p.out.Message = Gone, "no controller: it is not recreated"
		return
	}
	again := made(p.pod)
	if d.drain.Prepare != nil {
		d.drain.Prepare(again)
	}
	p.again = keyOf(again)
	if again.Name != p.pod.Name {
		c.SetPod(again)
		return
	}
	at := c.now
	if going := c.store.pods[key]; going != nil && going.DeletionTimestamp != nil {
		at = going.DeletionTimestamp.Time
	}
	c.agenda.plan(at, 0, func() { // after the old one has gone
		if c.store.pods[key] == nil {
			c.SetPod(again)
		}
	})
}

// made returns the pod that a controller creates to replace another.
func made(pod *v1.Pod) *v1.Pod {
	again := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name + "-again", Labels: pod.Labels, OwnerReferences: pod.OwnerReferences,
	}, Spec: *pod.Spec.DeepCopy(), Status: v1.PodStatus{Phase: v1.PodPending}}
	if owner := metav1.GetControllerOfNoCopy(pod); owner.Kind == "StatefulSet" {
		again.Name = pod.Name
	}
	again.Spec.NodeName = ""
	return again
}

// result returns the outcomes for the node and its pods.
func (n *drainingNode) result(c *Cluster) (DrainedNode, []DrainedPod) {
	node := DrainedNode{Node: n.name, Status: Drained, Message: n.refusal}
	if n.refusal != "" {
		node.Status = Undrained
	}
	var pods []DrainedPod
	var blocks []string
	for i := range n.pods {
		p := &n.pods[i]
		switch {
		case p.out.Wave > 0:
			node.Evicted++
		case p.out.Status == "":
			p.out.Status, p.out.Message = Blocked, p.blocks
			if !slices.Contains(blocks, p.blocks) {
				blocks = append(blocks, p.blocks)
			}
			fallthrough
		case p.out.Status != Evicted:
			node.Left++
		}
		if p.again != (model.PodKey{}) {
			at := c.placement(p.again)
			p.out.Status, p.out.To, p.out.Message = at.Status, at.Node, at.Message
			if at.Status == Scheduled && len(p.waited) > 0 {
				p.out.Message = "waited: " + strings.Join(p.waited, "; ")
			}
		}
		pods = append(pods, p.out)
	}
	if len(blocks) > 0 {
		node.Status, node.Message = Blocked, strings.Join(blocks, "; ")
	}
	return node, pods
}

// budgetsOf returns the PodDisruptionBudgets that select a pod, by name, in their stored
// versions.
func (d *drainer) budgetsOf(pod *v1.Pod) []*policyv1.PodDisruptionBudget {
	var found []*policyv1.PodDisruptionBudget
	for _, ref := range d.budgets[pod.Namespace] {
		budget := d.c.store.others[ref].(*policyv1.PodDisruptionBudget)
		if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err == nil && selector.Matches(labels.Set(pod.Labels)) {
			found = append(found, budget)
		}
	}
	return found
}

// blocks returns why the API server refuses the eviction of a pod, or "".
func (d *drainer) blocks(pod *v1.Pod) string {
	unready := false
	for i := range pod.Status.Conditions {
		if at := &pod.Status.Conditions[i]; at.Type == v1.PodReady {
			unready = at.Status != v1.ConditionTrue
		}
	}
	if unready && pod.Status.Phase == v1.PodPending {
		return "" // it has not started: nothing is disrupted
	}
	budgets := d.budgetsOf(pod)
	if len(budgets) > 1 {
		var names []string
		for _, budget := range budgets {
			names = append(names, budget.Name)
		}
		return fmt.Sprintf("the pod has more than one PodDisruptionBudget, which evictions do not support: %s", strings.Join(names, ", "))
	}
	if len(budgets) == 0 {
		return ""
	}
	budget := budgets[0]
	if unready {
		if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow ||
			budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy {
			return ""
		}
	}
	if budget.Status.DisruptionsAllowed > 0 {
		return ""
	}
	return fmt.Sprintf("PodDisruptionBudget %s allows no disruption", budget.Name)
}
