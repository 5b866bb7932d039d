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

// The further statuses of pods on nodes that are drained. A pod that is evicted and made again has the status of its replacement.
const (
	// Left: a DaemonSet or a kubelet would make it again on the same node.
	Left Status = "Left"
	// Leaving: it is being deleted already, and its controller has made another.
	Leaving Status = "Leaving"
	// Gone: it is evicted, and nobody makes it again.
	Gone Status = "Gone"
	// Blocked: a PodDisruptionBudget allows no eviction, and nothing that happens here changes that.
	Blocked Status = "Blocked"
	// InTheWay: the node is not drained without a flag.
	InTheWay Status = "InTheWay"
)

// Drain is which nodes to drain, and how: as kubectl drain takes it.
type Drain struct {
	// Nodes are the names of nodes of the cluster, in the order in which they are drained. All are cordoned before.
	Nodes []string
	// IgnoreDaemonSets, DeleteEmptyDirData and Force allow what a node is not drained without: to leave pods of DaemonSets, to evict pods with emptyDir volumes,
	// and pods without a controller.
	IgnoreDaemonSets, DeleteEmptyDirData, Force bool
	// DisableEviction means that pods are deleted whatever PodDisruptionBudgets say.
	DisableEviction bool
	// PodSelector selects the pods that are evicted; nil selects all.
	PodSelector labels.Selector
	// Prepare, unless it is nil, is called with each pod that is made again, before it is created.
	Prepare func(*v1.Pod)
}

// DrainedPod is what becomes of one pod on a node that is drained.
type DrainedPod struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	// Owner is KIND/NAME of the controller; empty if there is none.
	Owner string `json:"owner,omitempty"`
	// From is the node that is drained, and To where the pod that is made again goes, if it goes anywhere.
	From   string `json:"from"`
	To     string `json:"to,omitempty"`
	Status Status `json:"status"`
	// Wave is in which turn of its node the pod is evicted, from 1; 0 if it is not. There are several where PodDisruptionBudgets have it wait.
	Wave int `json:"wave,omitempty"`
	// Message says why it goes nowhere, or which PodDisruptionBudget had it wait.
	Message string `json:"message,omitempty"`
}

// DrainedNode is what becomes of one node.
type DrainedNode struct {
	Node string `json:"node"`
	// Status is Drained, Blocked or Undrained.
	Status  Status `json:"status"`
	Evicted int    `json:"evicted"`
	Left    int    `json:"left"`
	// Message says what is in the way, for a node that is refused in the words of kubectl drain.
	Message string `json:"message,omitempty"`
}

// The statuses of nodes, besides Blocked.
const (
	// Drained: all pods that are to be evicted are gone from the node.
	Drained Status = "Drained"
	// Undrained: nothing was evicted, because a flag is missing.
	Undrained Status = "Undrained"
)

// DrainResult is the outcome of a drain.
type DrainResult struct {
	Nodes []DrainedNode `json:"nodes"`
	// Pods are by node in the order of Nodes, namespace and name.
	Pods []DrainedPod `json:"pods"`
	// Evictions are the pods that were evicted for others by the scheduler.
	Evictions []Eviction `json:"evictions,omitempty"`
	Summary   Summary    `json:"summary"`
	// Others is how many further pods were pending and were decided about as well.
	Others int `json:"otherPending,omitempty"`
}

// RunDrain puts what files hold into a cluster, cordons nodes, runs the scheduler until the pods that are pending already have been decided about, and evicts the pods of one
// node after another as kubectl drain does. Evictions that PodDisruptionBudgets do not allow are tried again when all that has been evicted has found another
// node, or none. Each pod with a controller is made again, with the same spec: that of a StatefulSet under the same name when the old one is gone, others at
// once. It calls progress, unless that is nil, after every eviction.
//
// A node with pods that kubectl drain would not evict without a flag keeps all its pods. Pods that have finished are not listed.
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
	// budgets are the stored PodDisruptionBudgets, by namespace and in the order of their names. None comes or goes during a drain.
	budgets map[string][]model.Ref
}

// drainingNode is a node that is being drained, with the pods that were on it.
type drainingNode struct {
	name    string
	pods    []drainingPod
	refusal string
}

// drainingPod is a pod on such a node. again is the key of the pod that is made in its place, if it has been evicted and somebody makes it again.
type drainingPod struct {
	pod   *v1.Pod
	out   DrainedPod
	again model.PodKey
	// blocks is what the eviction was refused for, most recently; waited are all PodDisruptionBudgets that it was refused for.
	blocks string
	waited []string
}

// cordon makes nodes unschedulable, with the taint that the node lifecycle controller adds.
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

// settle runs the scheduler until nothing more can come of it.
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

// enter takes in the pods of a node, by namespace and name, and finds what is in the way of its drain.
func (d *drainer) enter(name string, pods []*v1.Pod) {
	node := drainingNode{name: name}
	var refusals [3][]string // by kind, as kubectl drain words them
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
			refuse(0, "is of a DaemonSet: --ignore-daemonsets leaves it")
		case owner != nil && owner.Kind == "DaemonSet":
			p.out.Status, p.out.Message = Left, "is of a DaemonSet, which would make it again on this node"
		case mirror || owner != nil && owner.Kind == "Node":
			p.out.Status, p.out.Message = Left, "is a static pod of the node's kubelet"
		case local && !d.drain.DeleteEmptyDirData:
			refuse(1, "has local storage: --delete-emptydir-data evicts it, and what is in its emptyDir volumes is gone")
		case owner == nil && !d.drain.Force:
			refuse(2, "declares no controller: --force evicts it, and nobody makes it again")
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
				p.out.Status, p.out.Message = InTheWay, "nothing of the node is evicted as long as other pods are in the way of its drain"
			}
		}
	}
	d.nodes = append(d.nodes, node)
}

// controllerName is KIND/NAME of a pod's controller, empty if it has none.
func controllerName(pod *v1.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return owner.Kind + "/" + owner.Name
	}
	return ""
}

// empty evicts the pods of a node, those first that PodDisruptionBudgets allow, until no further eviction is allowed.
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

// evict begins the deletion of a pod, and has it made again.
func (d *drainer) evict(p *drainingPod) {
	c, key := d.c, keyOf(p.pod)
	c.Terminate(key)
	for _, budget := range d.budgetsOf(p.pod) { // what the eviction counts at once in the budget's status
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
		p.out.Status, p.out.Message = Gone, "declares no controller, and nobody makes it again"
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

// made returns the pod that a controller makes in the place of another.
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

// result is what became of the node, and of its pods.
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

// budgetsOf returns the PodDisruptionBudgets that select a pod, by name, as they are stored now.
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

// blocks returns why the API server refuses the eviction of a pod, "" if it does not.
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
