package oracle

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// Cluster is everything that the oracle takes into account besides the pod and the profile.
type Cluster struct {
	Nodes []*v1.Node
	// Pods with spec.nodeName set are placed, unless their phase is Succeeded or Failed. Of the others, only those count that
	// status.nominatedNodeName nominates to a node.
	Pods []*v1.Pod

	// Namespaces may lack the namespace of a pod, as a cache may. Such a namespace has no labels, and only the empty selector matches it.
	Namespaces []*v1.Namespace

	// Services and controllers are read only for the default constraints of PodTopologySpread, to find what a pod belongs to.
	Services               []*v1.Service
	ReplicationControllers []*v1.ReplicationController
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet

	// What the volume plugins read. Volumes and claims are as the scheduler sees them: its assumed versions, where it has any.
	PersistentVolumes      []*v1.PersistentVolume
	PersistentVolumeClaims []*v1.PersistentVolumeClaim
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	VolumeAttachments      []*storagev1.VolumeAttachment

	// DisruptionBudgets are what preemption prefers not to violate.
	DisruptionBudgets []*Budget
	// Evicted are pods on nodes whose eviction for another pod has been decided, and has neither failed nor been seen. They count like others.
	Evicted []types.UID
}

// Budget is a PodDisruptionBudget.
type Budget = policyv1.PodDisruptionBudget

// Profile is the set of plugins that run, with their arguments. It must be valid: package config checks arguments.
type Profile struct {
	Disabled map[string]bool  // names of plugins that are off at every extension point
	Weights  map[string]int64 // score weights, used as they are; a scorer that is missing here has its default weight

	// Arguments may be zero: then they mean the upstream defaults (LeastAllocated; cpu and memory with weight 1; System constraints;
	// a hard pod affinity weight of 1; low utilization of storage is best).
	Fit           configv1.NodeResourcesFitArgs
	Balanced      configv1.NodeResourcesBalancedAllocationArgs
	VolumeBinding configv1.VolumeBindingArgs
	Spread        configv1.PodTopologySpreadArgs
	PodAffinity   configv1.InterPodAffinityArgs

	// AddedAffinity is NodeAffinity's addedAffinity argument: what every pod must (required) and should (preferred) match besides its own.
	AddedAffinity *v1.NodeAffinity

	// StorageCapacityScoringOff is the state of that feature gate; when it is off, VolumeBinding scores nothing.
	StorageCapacityScoringOff bool
}

// DefaultProfile is the profile of an empty configuration file.
func DefaultProfile() Profile { return Profile{} }

// NodeLocalProfile is the default profile without the plugins whose result for a node depends on pods elsewhere.
func NodeLocalProfile() Profile {
	p := DefaultProfile()
	p.Disabled = map[string]bool{spreadName: true, podAffinityName: true}
	return p
}

// Rejection is one plugin's rejection of a node.
type Rejection struct {
	Plugin       string // empty when several plugins caused it: a node outside the set that PreFilters left, or sets without a common node
	Unresolvable bool   // UnschedulableAndUnresolvable: evicting pods would not help
	Reasons      []string
}

// Score is one plugin's score of one node.
type Score struct {
	Plugin string
	Weight int64
	Raw    int64 // as the plugin's Score returns it
	Score  int64 // after normalising, before the weight; 0 to 100
}

// NodeJudgment is the oracle's result for one node.
type NodeJudgment struct {
	Node     string
	Feasible bool
	// Rejections holds every plugin that rejects the node, in filter order. kube-scheduler stops at the first, so only that one is
	// reported and counted in the message.
	Rejections []Rejection
	Scores     []Score // of a feasible node, in profile order; a scorer whose PreScore skips is not listed
	Total      int64   // Σ Score × Weight
}

// Judgment is the outcome of one scheduling cycle.
type Judgment struct {
	Nodes    []NodeJudgment // sorted by node name
	Feasible int
	// PreFilter is set when a PreFilter rejected the pod as a whole. Every node then carries that one rejection.
	PreFilter *Rejection
	// Narrowed names the plugins whose PreFilter narrowed the node set, sorted. A node outside has one rejection, with an empty
	// plugin name and the reason "node(s) didn't satisfy plugin(s) [A B]".
	Narrowed []string
	// Message is the exact FailedScheduling text; empty when some node is feasible. Where preemption has the choice among several nodes, it names the
	// first; see Outcome.
	Message string
	// Rejected is the message up to the part that preemption adds.
	Rejected string
	// Preemption is set when no node is feasible, unless there are no nodes or the profile lacks DefaultPreemption. A pod that is rejected before any
	// node is looked at is not preempted for: DynamicResources, which comes first, does not find what it would have written down, and says so.
	Preemption *Preemption
	// Nominated is the node that the pod itself is nominated to, if it is feasible: it is taken, and the other nodes are not examined.
	Nominated string
	// Best holds the names of the nodes with the highest total, sorted. The choice among them is free.
	Best []string
	// Err is set when the cycle fails: in PreFilter or in Filter, and then there are no Nodes, or in scoring, with two or more feasible nodes,
	// and then there are no scores and no Best. If Filter fails on several nodes, it is the error of the first by name.
	Err error
}

// Judge runs one scheduling cycle for a pending pod.
//
// With exactly one feasible node kube-scheduler scores nothing and takes it. Judge still fills its scores, normalised over that one node,
// as an explanation; a scorer that would fail is then left out, since upstream does not run it.
func Judge(c Cluster, p *v1.Pod, profile Profile) Judgment {
	cy := newCycle(c, p, profile)
	if len(cy.nodes) == 0 {
		const none = "no nodes available to schedule pods"
		return Judgment{Message: none, Rejected: none}
	}
	var a Judgment
	check := cy.checks(&a)
	if a.Err != nil {
		return a
	}
	for _, n := range cy.nodes {
		answer := NodeJudgment{Node: n.Name}
		var err error
		answer.Rejections, err = check(n)
		if a.Err == nil {
			a.Err = err
		}
		if err == nil && len(answer.Rejections) == 0 {
			answer.Feasible = true
			cy.feasible = append(cy.feasible, n)
			if n.Name == p.Status.NominatedNodeName {
				a.Nominated = n.Name
			}
		}
		a.Nodes = append(a.Nodes, answer)
	}
	if a.Err != nil && a.Nominated == "" {
		return Judgment{Narrowed: a.Narrowed, Err: a.Err}
	}
	a.Feasible = len(cy.feasible)
	switch {
	case a.Feasible > 0:
		cy.score(&a)
	case a.Nominated == "":
		a.Rejected = message(&a)
		a.Message = a.Rejected
		switch {
		case a.PreFilter != nil && !profile.Disabled[dynamicResourcesName]:
			a.Preemption = &Preemption{Text: "not found"}
			a.Message += " " + a.Preemption.Text
		case !profile.Disabled[preemptionName]:
			cy.preempt(&a)
		}
	}
	if a.Nominated != "" {
		a.Best, a.Err = []string{a.Nominated}, nil
	}
	return a
}

// checks runs the PreFilters. It returns a function for the rejections of a node: that of the pod as a whole, that of the narrowing, or those of all
// filters that reject the node with the pods that are nominated to it or, if there is none, without them.
//
// The node that the pod itself is nominated to is checked before the narrowing: it has its own rejections whatever the PreFilters left, and the text of
// the nodes outside names the first plugin that rejects it among those that narrowed. An error there counts for nothing, unless the node is left.
func (cy *cycle) checks(a *Judgment) func(node) ([]Rejection, error) {
	allowed := cy.preFilter(a)
	switch {
	case a.Err != nil:
		return nil
	case a.PreFilter != nil:
		return func(node) ([]Rejection, error) { return []Rejection{*a.PreFilter}, nil }
	}
	filters := cy.filters()
	check := func(n node) ([]Rejection, error) {
		if beside, err := besideNominated(cy.cluster, cy.pod, cy.profile, n, (*cycle).filters); err != nil || len(beside) > 0 {
			return beside, err
		}
		return filters(n)
	}
	if len(a.Narrowed) == 0 {
		return check
	}
	named := slices.Clone(a.Narrowed)
	for _, n := range cy.nodes {
		if n.Name != cy.pod.Status.NominatedNodeName {
			continue
		}
		no, err := check(n)
		if err == nil {
			allowed = append(allowed, n.Name)
		}
		if len(no) > 0 && !slices.Contains(named, no[0].Plugin) {
			named = append(named, no[0].Plugin)
			slices.Sort(named)
		}
	}
	return func(n node) ([]Rejection, error) {
		if !slices.Contains(allowed, n.Name) {
			return []Rejection{outside(named)}, nil
		}
		return check(n)
	}
}

// outside is the rejection of a node that PreFilters did not leave.
func outside(named []string) Rejection {
	return Rejection{Unresolvable: true, Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", named)}}
}

// besideNominated returns the plugins that reject the node when the pods nominated to it that the pod does not outrank are on it.
func besideNominated(c Cluster, p *v1.Pod, profile Profile, n node, check func(*cycle) func(node) ([]Rejection, error)) ([]Rejection, error) {
	nominated := nominatedBefore(c, p, n.Name)
	if len(nominated) == 0 {
		return nil, nil
	}
	cy := newCycle(c, p, profile)
	cy.dryRun = DryRun{Node: n.Name, Added: nominated}
	for _, seen := range cy.filtered() {
		if seen.Name == n.Name {
			return check(cy)(seen)
		}
	}
	return nil, nil
}

// nominatedBefore are the pods nominated to a node that the pod does not outrank.
func nominatedBefore(c Cluster, p *v1.Pod, nodeName string) []*v1.Pod {
	var nominated []*v1.Pod
	for _, other := range c.Pods {
		if other.Spec.NodeName == "" && other.Status.NominatedNodeName == nodeName && other.UID != p.UID && priority(other) >= priority(p) {
			nominated = append(nominated, other)
		}
	}
	return nominated
}

func priority(p *v1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}

// cycle is the input of every plugin. Plugins only read it.
type cycle struct {
	pod      *v1.Pod
	profile  Profile
	cluster  Cluster
	nodes    []node // by name
	feasible []node // by name; complete once filtering is over, for the scorers
	dryRun   DryRun // what Filter sees and PreFilter does not
}

// node is a node and the pods that occupy it.
type node struct {
	*v1.Node
	pods []*v1.Pod
}

func newCycle(c Cluster, p *v1.Pod, profile Profile) *cycle {
	cy := &cycle{pod: p, profile: profile, cluster: c}
	for _, n := range c.Nodes {
		cy.nodes = append(cy.nodes, node{Node: n, pods: placedOn(c.Pods, n.Name)})
	}
	slices.SortFunc(cy.nodes, func(a, b node) int { return cmp.Compare(a.Name, b.Name) })
	return cy
}

func placedOn(pods []*v1.Pod, name string) []*v1.Pod {
	var on []*v1.Pod
	for _, p := range pods {
		terminal := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
		if p.Spec.NodeName == name && !terminal {
			on = append(on, p)
		}
	}
	return on
}

func (cy *cycle) enabled() []plugin {
	var on []plugin
	for _, p := range plugins {
		if !cy.profile.Disabled[p.name] {
			on = append(on, p)
		}
	}
	return on
}

// filter runs the PreFilters, for a dry run. It returns a function for the rejections of a node: that of the pod as a whole, that of the narrowing, or
// those of all filters that reject the node.
func (cy *cycle) filter(a *Judgment) func(node) ([]Rejection, error) {
	allowed := cy.preFilter(a)
	switch {
	case a.Err != nil:
		return nil
	case a.PreFilter != nil:
		return func(node) ([]Rejection, error) { return []Rejection{*a.PreFilter}, nil }
	}
	filters := cy.filters()
	return func(n node) ([]Rejection, error) {
		if len(a.Narrowed) > 0 && !slices.Contains(allowed, n.Name) && n.Name != cy.pod.Status.NominatedNodeName {
			return []Rejection{outside(a.Narrowed)}, nil
		}
		return filters(n)
	}
}

// preFilter runs the PreFilters and returns the names of the nodes left; nil means all. It records in the answer whether they rejected the
// pod or failed, and which plugins narrowed.
func (cy *cycle) preFilter(a *Judgment) []string {
	var allowed []string
	for _, p := range cy.enabled() {
		if p.preFilter == nil {
			continue
		}
		names, no, err := p.preFilter(cy)
		if err != nil {
			a.Err = fmt.Errorf("running PreFilter plugin %q: %w", p.name, err)
			return nil
		}
		if no != nil {
			no.Plugin = p.name
			a.PreFilter = no
			return nil
		}
		if names == nil {
			continue
		}
		if len(a.Narrowed) == 0 {
			allowed = names
		} else {
			allowed = intersection(allowed, names)
		}
		a.Narrowed = append(a.Narrowed, p.name)
		slices.Sort(a.Narrowed)
		if len(allowed) == 0 {
			a.PreFilter = nothingLeft(a.Narrowed)
			return nil
		}
	}
	return allowed
}

// nothingLeft is the rejection of a pod whose PreFilters left no node name in common.
func nothingLeft(narrowed []string) *Rejection {
	if len(narrowed) == 1 {
		return &Rejection{Plugin: narrowed[0], Unresolvable: true, Reasons: []string{"node(s) didn't satisfy plugin " + narrowed[0]}}
	}
	return &Rejection{Unresolvable: true, Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", narrowed)}}
}

func intersection(a, b []string) []string {
	var both []string
	for _, s := range a {
		if slices.Contains(b, s) {
			both = append(both, s)
		}
	}
	return both
}

// filters prepares all filters and returns a function that runs them on a node. An error
// ends the cycle if no earlier filter rejects the node: behind a rejection upstream asks no further filter.
func (cy *cycle) filters() func(node) ([]Rejection, error) {
	var names []string
	var checks []func(node) (*Rejection, error)
	for _, p := range cy.enabled() {
		if p.filter != nil {
			names = append(names, p.name)
			checks = append(checks, p.filter(cy))
		}
	}
	return func(n node) ([]Rejection, error) {
		var all []Rejection
		for i, check := range checks {
			no, err := check(n)
			if err != nil && len(all) == 0 {
				return nil, fmt.Errorf("running %q filter plugin: %w", names[i], err)
			}
			if err == nil && no != nil {
				no.Plugin = names[i]
				all = append(all, *no)
			}
		}
		return all, nil
	}
}

// message writes the rejection: a count per reason, sorted as text, so that "10 x" comes before "2 y".
func message(a *Judgment) string {
	if a.PreFilter != nil {
		return fmt.Sprintf("0/%d nodes are available: %s.", len(a.Nodes), joined(a.PreFilter.Reasons))
	}
	reasons := map[string][]string{}
	for _, n := range a.Nodes {
		reasons[n.Node] = n.Rejections[0].Reasons
	}
	return histogram(len(a.Nodes), reasons)
}

// histogram counts the nodes by reason.
func histogram(nodes int, reasonsOf map[string][]string) string {
	text := fmt.Sprintf("0/%d nodes are available:", nodes)
	counts := map[string]int{}
	for _, reasons := range reasonsOf {
		for _, reason := range reasons {
			counts[reason]++
		}
	}
	var entries []string
	for reason, count := range counts {
		entries = append(entries, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(entries)
	return text + " " + joined(entries) + "."
}

func joined(texts []string) string {
	all := ""
	for i, t := range texts {
		if i > 0 {
			all += ", "
		}
		all += t
	}
	return all
}
