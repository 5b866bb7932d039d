package sequence

import (
	"fmt"
	"math/rand/v2"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// GroupScripts returns the scripts with pod groups, for the feature gate GenericWorkload.
// They have a fifth of the given number of pods, because most pods have several turns.
// Some scripts preempt; there all pods are in groups, because the victims of single pods
// may differ between equally good ones.
func GroupScripts(pods int) []Script {
	script := func(name, about string, change func(p *groupPlay)) Script {
		return Script{Name: name, About: about, drawGroups: func(seed uint64) *groupPlay {
			p := &groupPlay{r: cases.Source(name, seed), config: cases.UntimedConfig(), pods: max(1, pods/5), groups: 6, member: plainMember}
			change(p)
			return p
		}}
	}
	trees := script("seq-tree", "composite pod groups, of pods with and without different needs, more than there is room for", func(p *groupPlay) {
		p.trees, p.alone = true, true
		if p.r.IntN(2) == 0 {
			p.member = mixedMember
		}
	})
	racks := script("seq-tree-racks", "the same, with groups whose pods must share a zone", func(p *groupPlay) { p.trees, p.alone, p.racks = true, true, true })
	treesPreempt := script("seq-tree-preempt", "trees that evict others, pod by pod or as a whole, some of them for one zone", func(p *groupPlay) {
		p.trees, p.alone, p.preempts = true, true, true
		if p.racks = p.r.IntN(2) == 0; p.r.IntN(2) == 0 {
			p.member = mixedMember
		}
	})
	trees.trees, racks.trees, treesPreempt.trees = true, true, true
	return []Script{
		script("seq-gang", "pod groups and single pods of equal needs, more than there is room for", func(*groupPlay) {}),
		script("seq-gang-mixed", "the same, with members of different needs", func(p *groupPlay) { p.member = mixedMember }),
		script("seq-gang-spread", "the same, with spread constraints, affinity and anti-affinity among members", func(p *groupPlay) { p.member = relatedMember }),
		script("seq-gang-ranks", "the same, with priorities, of which some are not the group's; nobody preempts", func(p *groupPlay) {
			p.member, p.ranks, p.config = mixedMember, true, cases.WithoutPreemption()
		}),
		script("seq-gang-never", "the same, with members whose preemption policy is Never", func(p *groupPlay) { p.ranks, p.never = true, true }),
		// None of these has single pods: Berth retries some when a binding is answered,
		// kube-scheduler when the watch shows it.
		script("seq-gang-late", "groups of all kinds, with late and repeated events", func(p *groupPlay) {
			p.member, p.alone = relatedMember, true
			p.faults = simulate.Faults{MaxWatchDelay: 300 * time.Millisecond, MaxBindDelay: 500 * time.Millisecond, DuplicatePercent: 5}
		}),
		script("seq-gang-preempt", "groups that evict members of others, one by one or all of a group, with budgets", func(p *groupPlay) {
			p.ranks, p.alone, p.preempts = true, true, true
			if p.r.IntN(2) == 0 {
				p.member = mixedMember
			}
		}),
		script("seq-gang-preempt-spread", "the same, with spread constraints, affinity and anti-affinity among members", func(p *groupPlay) {
			p.member, p.ranks, p.alone, p.preempts = relatedMember, true, true, true
		}),
		script("seq-gang-claims", "groups of which the members share a claim for devices, of which there are too few", func(p *groupPlay) {
			p.member, p.alone, p.claims = claimingMember, true, true
		}),
		trees, racks, treesPreempt,
	}
}

// groupPlay is the plan of one run with pod groups.
type groupPlay struct {
	r      *rand.Rand
	config []byte
	faults simulate.Faults
	groups int
	pods   int // number to create
	made   int
	// member sets the properties of a pod in a group.
	member func(p *groupPlay, pod *v1.Pod)
	ranks  bool // groups have priorities
	never  bool // pods have a preemption policy
	alone  bool // all pods are in groups
	trees  bool // groups belong to composite groups, all created at the start.
	racks  bool // groups have a topology key
	claims bool // groups have claims for devices
	// preempts means that priorities differ, and that pods are preempted for groups.
	// started pods have unique start times, after that of the play.
	preempts bool
	started  int
	began    time.Time
}

const groupZones = 3

// run executes the play, and calls each after every round of the scheduler.
func (p *groupPlay) run(c *simulate.Cluster, each func(simulate.Round) error) error {
	if err := c.SetObject(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default", Labels: map[string]string{v1.LabelMetadataName: "default"}}}); err != nil {
		return err
	}
	if p.preempts {
		p.began = c.Now()
		seen := each
		each = func(r simulate.Round) error {
			p.start(c, &r)
			return seen(r)
		}
	}
	if p.claims {
		if err := p.install(c); err != nil {
			return err
		}
	}
	for i := range 5 {
		c.SetNode(p.node(i))
	}
	if p.trees {
		if err := p.plantTrees(c); err != nil {
			return err
		}
	}
	for p.made < p.pods {
		for range 1 + p.r.IntN(2) {
			if err := p.act(c); err != nil {
				return err
			}
		}
		if err := c.AdvanceTo(c.Now().Add(pick(p.r, time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, time.Second, 2500*time.Millisecond)), each); err != nil {
			return err
		}
	}
	return c.AdvanceTo(c.Now().Add(20*time.Second), each)
}

func (p *groupPlay) node(i int) *v1.Node {
	name := fmt.Sprint("node-", i)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: fmt.Sprint("zone-", i%groupZones)}},
		Status: v1.NodeStatus{Allocatable: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(fmt.Sprint(2 + p.r.IntN(3))), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

// act makes one change of users, controllers or kubelets.
func (p *groupPlay) act(c *simulate.Cluster) error {
	switch k := p.r.IntN(100); {
	case k < 40:
		p.create(c, p.r.IntN(p.groups))
	case k < 48 && !p.alone:
		p.create(c, p.groups)
	case k < 75:
		p.end(c)
	case k < 90:
		return p.setGroup(c, p.r.IntN(p.groups))
	case k < 94:
		p.ungate(c)
	case k < 96 && p.preempts:
		return p.setBudget(c)
	case k < 98 && p.claims:
		return p.strand(c)
	default:
		p.changeNode(c)
	}
	return nil
}

// create creates some members of a group, or a pod without a group.
func (p *groupPlay) create(c *simulate.Cluster, group int) {
	count := 1
	if group < p.groups {
		count += p.r.IntN(4)
	}
	for range count {
		pod := &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("pod-", p.made), Labels: map[string]string{"app": fmt.Sprint("group-", group), "kind": kindOf(group)}},
			Spec: v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{
				{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}},
		}
		p.made++
		if group < p.groups {
			pod.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: ptr(fmt.Sprint("group-", group))}
		}
		p.member(p, pod)
		if p.preempts {
			pod.Spec.Priority = p.priorityOf(group)
			pod.Spec.TerminationGracePeriodSeconds = pick(p.r, ptr(int64(0)), ptr(int64(1)), ptr(int64(3)))
		}
		if p.ranks {
			pod.Spec.Priority = priorityOf(group)
			if chance(p.r, 4) && !p.preempts {
				pod.Spec.Priority = ptr(int32(7))
			}
		}
		if p.never {
			pod.Spec.PreemptionPolicy = ptr(v1.PreemptNever)
		}
		if chance(p.r, 6) {
			pod.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
		}
		c.SetPod(pod)
	}
}

// kindOf returns the policy of a group.
func kindOf(group int) string { return []string{"gang", "gang", "basic"}[group%3] }

// priorityOf returns the priority of a group.
func priorityOf(group int) *int32 {
	return []*int32{nil, ptr(int32(0)), ptr(int32(10)), ptr(int32(5))}[group%4]
}

// priorityOf returns the priority of a group, or of the tree that it belongs to.
func (p *groupPlay) priorityOf(group int) *int32 {
	if !p.trees {
		return priorityOf(group)
	}
	return priorityOfTree(parentOf(group))
}

// parentOf returns the composite group that a group belongs to.
func parentOf(group int) string {
	return []string{"pair", "pair", "any", "any", "below", "below"}[group]
}

func priorityOfTree(composite string) *int32 {
	if composite == "pair" {
		return ptr(int32(10))
	}
	return ptr(int32(5))
}

// end finishes a running pod, or deletes a pod.
func (p *groupPlay) end(c *simulate.Cluster) {
	all := c.Pods()
	if len(all) == 0 {
		return
	}
	pod := all[p.r.IntN(len(all))]
	switch {
	case pod.Spec.NodeName == "" && chance(p.r, 50):
	// kube-scheduler does not check again whether its group is still held
	case pod.Spec.SchedulingGroup != nil && len(pod.Spec.SchedulingGates) > 0:
	// A finalizer keeps it. In kube-scheduler it counts for a gang meanwhile, and after
	// its turn its nomination does not count any more.
	case pod.Spec.NodeName == "" && chance(p.r, 30) && pod.Labels["kind"] != "gang" && pod.Status.NominatedNodeName == "":
		going := pod.DeepCopy()
		going.DeletionTimestamp = &metav1.Time{Time: c.Now()}
		c.SetPod(going)
	case pod.Spec.NodeName != "" && chance(p.r, 50):
		finished := pod.DeepCopy()
		finished.Status.Phase = v1.PodSucceeded
		c.SetPod(finished)
	default:
		c.DeletePod(keyOf(pod))
	}
}

func (p *groupPlay) ungate(c *simulate.Cluster) {
	for _, pod := range c.Pods() {
		if len(pod.Spec.SchedulingGates) > 0 {
			pod = pod.DeepCopy()
			pod.Spec.SchedulingGates = nil
			c.SetPod(pod)
			return
		}
	}
}

// setGroup creates or deletes a PodGroup, or changes its minCount.
func (p *groupPlay) setGroup(c *simulate.Cluster, group int) error {
	ref := model.GroupKey{Namespace: "default", Name: fmt.Sprint("group-", group)}.Ref()
	stored, ok := c.Object(ref).(*schedulingv1beta1.PodGroup)
	switch {
	case ok && !p.trees && chance(p.r, 30):
		c.DeleteObject(ref)
		return nil
	case ok:
		stored = stored.DeepCopy()
		stored.Generation++
		if gang := stored.Spec.SchedulingPolicy.Gang; gang != nil {
			gang.MinCount = int32(1 + p.r.IntN(5))
		}
		return c.SetObject(stored)
	}
	made := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, Generation: 1}}
	made.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(1 + p.r.IntN(5))}
	if kindOf(group) == "basic" {
		made.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	}
	if p.ranks {
		made.Spec.Priority = priorityOf(group)
	}
	if p.preempts {
		made.Spec.Priority = p.priorityOf(group)
		p.disrupted(made)
	}
	if p.claims {
		p.claim(made, group)
	}
	if p.trees {
		made.CreationTimestamp = metav1.NewTime(c.Now().Add(time.Duration(p.r.IntN(3)) * time.Second))
		made.Spec.ParentCompositePodGroupName = ptr(parentOf(group))
	}
	if p.racks && chance(p.r, 50) {
		made.Spec.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: v1.LabelTopologyZone}}}
	}
	return c.SetObject(made)
}

// plantTrees creates the composite groups and the groups below them: a gang of two
// groups, and a group of any policy above two groups and another composite group.
func (p *groupPlay) plantTrees(c *simulate.Cluster) error {
	for _, name := range []string{"pair", "any", "below"} {
		made := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1}}
		made.CreationTimestamp = metav1.NewTime(c.Now().Add(time.Duration(p.r.IntN(3)) * time.Second))
		switch n := p.r.IntN(3); {
		case name == "pair":
			made.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
		case n > 0:
			made.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: int32(n)}
		default:
			made.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
		}
		if p.preempts {
			made.Spec.Priority = priorityOfTree(name)
			p.disruptedComposite(made)
		}
		if p.racks && chance(p.r, 30) {
			made.Spec.SchedulingConstraints = &schedulingv1alpha3.CompositePodGroupSchedulingConstraints{Topology: []schedulingv1alpha3.TopologyConstraint{{Key: v1.LabelTopologyZone}}}
		}
		if name == "below" {
			made.Spec.ParentCompositePodGroupName = ptr("any")
		}
		if err := c.SetObject(made); err != nil {
			return err
		}
	}
	for group := range p.groups {
		if err := p.setGroup(c, group); err != nil {
			return err
		}
	}
	return nil
}

// changeNode cordons, uncordons, deletes or restores a node.
func (p *groupPlay) changeNode(c *simulate.Cluster) {
	i := p.r.IntN(6)
	node := c.Node(fmt.Sprint("node-", i))
	switch {
	case node == nil:
		c.SetNode(p.node(i))
	case chance(p.r, 70):
		node = node.DeepCopy()
		node.Spec.Unschedulable = !node.Spec.Unschedulable
		c.SetNode(node)
	default:
		c.DeleteNode(node.Name)
		for _, pod := range c.Pods() {
			if pod.Spec.NodeName == node.Name {
				c.DeletePod(keyOf(pod))
			}
		}
	}
}

// plainMember leaves all pods equal.
func plainMember(*groupPlay, *v1.Pod) {}

// mixedMember gives pods different requests, and some a zone.
func mixedMember(p *groupPlay, pod *v1.Pod) {
	pod.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse(pick(p.r, "500m", "1", "1", "2", "3"))
	if chance(p.r, 20) {
		pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: fmt.Sprint("zone-", p.r.IntN(groupZones))}
	}
}

// relatedMember gives pods constraints about the other pods of their group.
func relatedMember(p *groupPlay, pod *v1.Pod) {
	if chance(p.r, 50) {
		mixedMember(p, pod)
	}
	if chance(p.r, 25) {
		pod.Labels["role"] = "lead"
	}
	ofGroup := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}}
	leads := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"], "role": "lead"}}
	term := func(selector *metav1.LabelSelector, key string) []v1.PodAffinityTerm {
		return []v1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: key}}
	}
	switch p.r.IntN(6) {
	case 0:
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: ofGroup}}
	case 1:
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(ofGroup, v1.LabelTopologyZone)}}
	case 2:
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(leads, v1.LabelTopologyZone)}}
	case 3:
		pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: term(leads, v1.LabelHostname)}}
	case 4:
		pod.Spec.Affinity = &v1.Affinity{PodAffinity: &v1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.WeightedPodAffinityTerm{
			{Weight: int32(1 + p.r.IntN(100)), PodAffinityTerm: term(ofGroup, v1.LabelHostname)[0]}}}}
	}
}
