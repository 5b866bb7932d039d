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

// Cluster is the oracle's input except the pod and the profile.
type Cluster struct {
	Nodes []*v1.Node
	// Pods with spec.nodeName set are placed, unless their phase is Succeeded or Failed.
	// Other pods count only if status.nominatedNodeName nominates them to a node.
	Pods []*v1.Pod

	// Namespaces may lack the namespace of a pod, as a cache may. Such a namespace has no
	// labels, and only the empty selector matches it.
	Namespaces []*v1.Namespace

	// Services and controllers are read only for the default constraints of
	// PodTopologySpread, to find the services and the controller of a pod.
	Services               []*v1.Service
	ReplicationControllers []*v1.ReplicationController
	ReplicaSets            []*appsv1.ReplicaSet
	StatefulSets           []*appsv1.StatefulSet

	// The input of the volume plugins. Volumes and claims are in the scheduler's view:
	// assumed versions replace stored ones.
	PersistentVolumes      []*v1.PersistentVolume
	PersistentVolumeClaims []*v1.PersistentVolumeClaim
	StorageClasses         []*storagev1.StorageClass
	CSINodes               []*storagev1.CSINode
	CSIDrivers             []*storagev1.CSIDriver
	CSIStorageCapacities   []*storagev1.CSIStorageCapacity
	VolumeAttachments      []*storagev1.VolumeAttachment

	// DisruptionBudgets are the budgets that preemption prefers not to violate.
	DisruptionBudgets []*Budget
	// Evicted are placed pods whose preemption was decided and has neither failed nor
	// been observed. They count like others.
	Evicted []types.UID
}

// Budget is a PodDisruptionBudget.
type Budget = policyv1.PodDisruptionBudget

// Profile is the set of enabled plugins with their arguments. It must be valid: package
// config checks arguments.
type Profile struct {
	// Names of plugins that are disabled at every extension point.
	Disabled map[string]bool
	// Score weights, used unchanged; a missing scorer has its default weight.
	Weights map[string]int64

	// Arguments may be zero, which means the upstream defaults: LeastAllocated; cpu and
	// memory with weight 1; System constraints; a hard pod affinity weight of 1; low
	// utilization of storage is best.
	Fit           configv1.NodeResourcesFitArgs
	Balanced      configv1.NodeResourcesBalancedAllocationArgs
	VolumeBinding configv1.VolumeBindingArgs
	Spread        configv1.PodTopologySpreadArgs
	PodAffinity   configv1.InterPodAffinityArgs

	// AddedAffinity is NodeAffinity's addedAffinity argument. Every pod must match its
	// required terms and prefers its preferred terms, in addition to its own.
	AddedAffinity *v1.NodeAffinity

	// StorageCapacityScoringOff disables that feature gate, so that VolumeBinding scores
	// nothing.
	StorageCapacityScoringOff bool
}

// DefaultProfile is the profile of an empty configuration file.
func DefaultProfile() Profile { return Profile{} }

// NodeLocalProfile is the default profile without the plugins whose result for a node
// depends on pods elsewhere.
func NodeLocalProfile() Profile {
	p := DefaultProfile()
	p.Disabled = map[string]bool{spreadName: true, podAffinityName: true}
	return p
}

// Rejection is a plugin's rejection of a node.
type Rejection struct {
	// Empty if several plugins caused it: the node is outside the set that PreFilters
	// allow, or their sets have no common node.
	Plugin       string
	Unresolvable bool // UnschedulableAndUnresolvable: preemption would not help
	Reasons      []string
}

// Score is a plugin's score of a node.
type Score struct {
	Plugin string
	Weight int64
	Raw    int64 // result of the plugin's Score
	Score  int64 // after normalising, before the weight; 0 to 100
}

// NodeJudgment is the oracle's result for a node.
type NodeJudgment struct {
	Node     string
	Feasible bool
	// Rejections holds every plugin that rejects the node, in filter order.
	// kube-scheduler stops at the first, so only the first is reported and counted in the
	// message.
	Rejections []Rejection
	// Of a feasible node, in profile order; without scorers whose PreScore skips.
	Scores []Score
	Total  int64 // Σ Score × Weight
}

// Judgment is the result of one scheduling cycle.
type Judgment struct {
	Nodes    []NodeJudgment // sorted by node name
	Feasible int
	// PreFilter is set if a PreFilter rejected the pod as a whole. Every node then has
	// this rejection.
	PreFilter *Rejection
	// Narrowed names the plugins whose PreFilter narrowed the node set, sorted. A node
	// outside has one rejection, with an empty plugin name and the reason "node(s) didn't
	// satisfy plugin(s) [A B]".
	Narrowed []string
	// Message is the exact FailedScheduling text; empty if some node is feasible. If
	// preemption may choose among several nodes, it names the first; see Outcome.
	Message string
	// Rejected is the message without the part that preemption adds.
	Rejected string
	// Preemption is set if no node is feasible. Without nodes, or without
	// DefaultPreemption in the profile, it is nil. If a PreFilter rejected the pod and
	// the profile has DynamicResources, it has only the text "not found": that plugin
	// runs first, and fails because its PreFilter state is missing.
	Preemption *Preemption
	// Nominated is the pod's own nominated node, if it is feasible. It is chosen, and the
	// other nodes are not examined.
	Nominated string
	// Best holds the names of the nodes with the highest total, sorted. Any of them may
	// be chosen.
	Best []string
	// Err is set if the cycle fails. After an error in PreFilter or Filter, Nodes is
	// empty. After an error in scoring, with at least two feasible nodes, scores and Best
	// are empty. If Filter fails on several nodes, Err is the error of the first by name.
	Err error
}

// Judge runs one scheduling cycle for a pending pod.
//
// With exactly one feasible node kube-scheduler scores nothing and takes it. Judge still
// fills its scores, normalised over that one node, as an explanation. A scorer that would
// fail is then left out, since upstream does not run it.
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

// checks runs the PreFilters and returns a function for the rejections of a node: by a
// PreFilter that rejects the pod, by PreFilters that leave the node out, or by filters.
// Filters run with the pods nominated to the node, and then, if none rejects it, without
// them.
//
// The pod's own nominated node is checked before the narrowing: it gets its own
// rejections whatever the PreFilters allow. The message for nodes outside the set names
// the first narrowing plugin that rejects it. An error there is ignored, unless the node
// is in the set.
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

// outside is the rejection of a node outside the set that PreFilters allow.
func outside(named []string) Rejection {
	return Rejection{Unresolvable: true, Reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", named)}}
}

// besideNominated returns the plugins that reject the node together with the pods
// nominated to it that the pod does not outrank.
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
	feasible []node // by name; complete after filtering, for the scorers
	dryRun   DryRun // seen by Filter and not by PreFilter
}

// node is a node and its pods.
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

// filter runs the PreFilters, for a dry run. It returns a function for the rejections of
// a node: the rejection of the whole pod, the rejection by narrowing, or those by all
// filters.
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

// preFilter runs the PreFilters and returns the names of the allowed nodes; nil means
// all. It records whether they rejected the pod or failed, and which plugins narrowed.
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

// nothingLeft is the rejection of a pod whose PreFilters allow no common node.
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
// ends the cycle if no earlier filter rejects the node, because upstream stops at a
// rejection.
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

// message writes the rejection: a count per reason, sorted as text, so that "10 x" comes
// before "2 y".
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
