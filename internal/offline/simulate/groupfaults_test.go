package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestFaultsOfGroups is a seeded simulation of all faults between the decision about a
// pod group and its bindings. The loop is audited after every round. Members are decided
// about together, with their PodGroup. No decision leaves a gang with fewer placed
// members than its minCount. In the end no group waits that could run, and no memory is
// left.
func TestFaultsOfGroups(t *testing.T) {
	countTrials(t, func(n uint64) ([]map[string]int, error) {
		trial, err := runGroupFaults(n, false)
		return trial.counts(), err
	}, []string{
		"group placed", "group placed in part", "group rejected", "group failed", "members terminating", "member alone placed beside others", "pod deleted while binding", "pod finished",
		"pod gated", "pod ungated", "group deleted", "group deleted while binding", "minCount changed", "node gone while binding", "killed while binding", "condition True", "condition Unschedulable",
		"condition SchedulerError", "group preempts", "group preempts a whole group", "group waits for victims", "eviction for a group failed", "evictions for a group done", "killed while evicting",
	})
}

// groupTrial is one simulation of pod groups. All pods have the same requests, so free
// room is a count of pods.
type groupTrial struct {
	r        *rand.Rand
	c        *simulate.Cluster
	a        *auditor
	happened map[string]int
	nodes    []*v1.Node // each may be absent
	pods     int
	evicting int // preemptions of this process that have not ended
	trees    bool
}

const groupsOfTrial = 6

// counts returns the counters of the trial and its surroundings, or nil without a trial.
func (t *groupTrial) counts() []map[string]int {
	if t == nil {
		return nil
	}
	return []map[string]int{t.happened, t.c.Happened()}
}

func runGroupFaults(n uint64, trees bool) (*groupTrial, error) {
	t, err := newGroupTrial(n, trees)
	if err != nil {
		return t, err
	}
	for range 2 {
		for step := range 80 {
			if step%20 == 0 {
				t.c.SetFaults(t.faults())
			}
			what, err := t.disturb()
			if err == nil {
				err = t.c.AdvanceTo(t.c.Now().Add(pause(t.r)), t.audit)
			}
			if err != nil {
				return t, fmt.Errorf("step %d (%s), %s after the start: %w", step, what, t.c.Elapsed(), err)
			}
		}
		if err := t.rested(); err != nil {
			return t, fmt.Errorf("at rest, %s after the start: %w", t.c.Elapsed(), err)
		}
	}
	if err := t.emptied(); err != nil {
		return t, fmt.Errorf("without pods, %s after the start: %w", t.c.Elapsed(), err)
	}
	return t, nil
}

func newGroupTrial(n uint64, trees bool) (*groupTrial, error) {
	gates, err := feature.With(map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": trees, "CompositePodGroup": trees})
	if err != nil {
		return nil, err
	}
	scheduler, err := config.Read(config.Request{Gates: gates})
	if err != nil {
		return nil, err
	}
	c, err := simulate.New(taped(simulate.Config{Scheduler: scheduler, Seed: n, Audit: true, Trim: n%2 == 0, Slice: []int{0, 1, 3}[n%3], MaxParked: 24 * time.Hour, EventHints: n%3 == 1}))
	if err != nil {
		return nil, err
	}
	t := &groupTrial{r: random.New(n), c: c, a: newAuditor(c, oracle.DefaultProfile()), happened: map[string]int{}, trees: trees}
	t.a.judged = 1 << 30 // the oracle does not cover groups
	for i := range 4 {
		t.nodes = append(t.nodes, node(fmt.Sprint("n", i), fmt.Sprint(1+i)))
		c.SetNode(t.nodes[i].DeepCopy())
	}
	t.setComposites()
	for i := range groupsOfTrial {
		t.setGroup(i)
	}
	return t, nil
}

// priorityOf returns the priority of a group's members. Two groups can preempt others.
func priorityOf(group int) int32 {
	if group == 1 || group == 2 {
		return 10
	}
	return 0
}

// setGroup creates or changes a group. The last group has another priority than its
// members. One of the groups that can be preempted can only be preempted as a whole.
func (t *groupTrial) setGroup(i int) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("g", i)}}
	if have, ok := t.c.Object(groupRef(i)).(*schedulingv1beta1.PodGroup); ok {
		g = have.DeepCopy()
		g.Generation++
	}
	g.Spec.Priority = new(priorityOf(i))
	switch i {
	case groupsOfTrial - 1:
		g.Spec.Priority = new(int32(5))
	case 3:
		g.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	}
	g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(1 + t.r.IntN(5))}}
	if i == 0 {
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	}
	t.setParent(g, i)
	_ = t.c.SetObject(g)
}

func groupRef(i int) model.Ref {
	return model.GroupKey{Namespace: "default", Name: fmt.Sprint("g", i)}.Ref()
}

// faults draws the faults for a while.
func (t *groupTrial) faults() simulate.Faults {
	upTo := func(d time.Duration) time.Duration { return time.Duration(t.r.Int64N(int64(d))) }
	f := simulate.Faults{
		MaxWatchDelay: upTo(2 * time.Second), MaxBindDelay: upTo(time.Second), DuplicatePercent: t.r.IntN(10), ReplacedPercent: t.r.IntN(100), KeyOnlyPercent: t.r.IntN(50), StuckPercent: t.r.IntN(20),
		Requests: map[simulate.Fault]int{},
	}
	for fault := simulate.Conflict; fault <= simulate.Late; fault++ {
		f.Requests[fault] = t.r.IntN(5)
	}
	return f
}

// disturb makes one change to the cluster or the process.
func (t *groupTrial) disturb() (string, error) {
	switch k := t.r.IntN(100); {
	case k < 40:
		return t.createPod(), nil
	case k < 57:
		return t.endPod(), nil
	case k < 68:
		return t.disturbGroup(), nil
	case k < 74:
		return t.disturbNode(), nil
	case k < 80:
		return t.ungate(), nil
	case k < 85:
		t.c.BreakWatch(t.c.Reads()[t.r.IntN(len(t.c.Reads()))])
		return "watch broken", nil
	case k < 92:
		t.mend()
		return "watches mended", nil
	case k < 95:
		return "restart", t.restart()
	}
	return "nothing", nil
}

func (t *groupTrial) mend() {
	for _, kind := range t.c.Reads() {
		t.c.MendWatch(kind, t.r.IntN(2) == 0)
	}
}

// createPod creates some members of a group at once, or a pod without a group.
func (t *groupTrial) createPod() string {
	group, count := t.r.IntN(groupsOfTrial+1), 1+t.r.IntN(3)
	if group == groupsOfTrial {
		count = 1
	}
	for range count {
		t.pods++
		p := pod(fmt.Sprint("web-", t.pods), "1", t.pods)
		if group < groupsOfTrial {
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: new(fmt.Sprint("g", group))}
			p.Spec.Priority = new(priorityOf(group))
		}
		if t.r.IntN(12) == 0 {
			p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "wait"}}
			t.happened["pod gated"]++
		}
		t.c.SetPod(p)
	}
	return fmt.Sprintf("%d pods of group %d created", count, group)
}

func (t *groupTrial) isBinding(p *v1.Pod) bool {
	return t.c.Loop().Queue().PlaceOf(keyOf(p)) == "binding"
}

func (t *groupTrial) note(what string, binding bool) {
	if binding {
		what += " while binding"
	}
	t.happened[what]++
}

// endPod deletes a pod, or finishes it if it runs, with a preference for pods with a
// binding in flight.
func (t *groupTrial) endPod() string {
	all := t.c.Pods()
	if len(all) == 0 {
		return t.createPod()
	}
	if binding := slices.DeleteFunc(slices.Clone(all), func(p *v1.Pod) bool { return !t.isBinding(p) }); len(binding) > 0 && t.r.IntN(2) == 0 {
		all = binding
	}
	p := all[t.r.IntN(len(all))]
	switch k := t.r.IntN(3); {
	case k == 0 && p.Spec.NodeName != "":
		finished := p.DeepCopy()
		finished.Status.Phase = v1.PodSucceeded
		t.c.SetPod(finished)
		t.happened["pod finished"]++
		return "pod finished: " + p.Name
	case k == 1:
		if p.Spec.NodeName == "" { // a finalizer keeps it
			going := p.DeepCopy()
			going.DeletionTimestamp = new(metav1.NewTime(t.c.Now()))
			t.c.SetPod(going)
			break
		}
		if t.r.IntN(2) == 0 {
			t.c.HoldPod(keyOf(p))
		}
		t.c.Terminate(keyOf(p))
	default:
		t.note("pod deleted", t.isBinding(p))
		t.c.DeletePod(keyOf(p))
		return "pod deleted: " + p.Name
	}
	t.note("pod terminated", t.isBinding(p))
	return "pod terminated: " + p.Name
}

func (t *groupTrial) ungate() string {
	for _, p := range t.c.Pods() {
		if len(p.Spec.SchedulingGates) > 0 {
			p = p.DeepCopy()
			p.Spec.SchedulingGates = nil
			t.c.SetPod(p)
			t.happened["pod ungated"]++
			return "pod ungated: " + p.Name
		}
	}
	return "nothing"
}

// disturbGroup deletes, creates or changes a PodGroup.
func (t *groupTrial) disturbGroup() string {
	if t.trees && t.r.IntN(3) == 0 {
		return t.disturbComposite()
	}
	i := t.r.IntN(groupsOfTrial)
	isBinding := func(i int) bool {
		return slices.ContainsFunc(t.c.Pods(), func(p *v1.Pod) bool { return t.isBinding(p) && groupOf(p) == groupRef(i).Name })
	}
	for n := range groupsOfTrial { // preferably a group with bindings in flight
		if at := (i + n) % groupsOfTrial; isBinding(at) {
			i = at
			break
		}
	}
	if t.c.Object(groupRef(i)) != nil && t.r.IntN(2) == 0 {
		t.note("group deleted", isBinding(i))
		t.c.DeleteObject(groupRef(i))
		return fmt.Sprint("group deleted: ", i)
	}
	t.happened["minCount changed"]++
	t.setGroup(i)
	return fmt.Sprint("group set: ", i)
}

func groupOf(p *v1.Pod) string {
	if p.Spec.SchedulingGroup == nil {
		return ""
	}
	return *p.Spec.SchedulingGroup.PodGroupName
}

// disturbNode deletes a node with its pods, or restores it.
func (t *groupTrial) disturbNode() string {
	n := t.nodes[t.r.IntN(len(t.nodes))]
	if t.c.Node(n.Name) == nil {
		t.c.SetNode(n.DeepCopy())
		return "node back: " + n.Name
	}
	t.note("node gone", slices.ContainsFunc(t.c.Pods(), t.isBinding))
	t.c.DeleteNode(n.Name)
	for _, p := range t.c.Pods() {
		if p.Spec.NodeName == n.Name {
			t.c.DeletePod(keyOf(p))
		}
	}
	return "node gone: " + n.Name
}

// restart kills or stops the process, and starts another when the first has nothing in
// flight.
func (t *groupTrial) restart() error {
	if slices.ContainsFunc(t.c.Pods(), t.isBinding) {
		t.happened["killed while binding"]++
	}
	if t.evicting > 0 {
		t.happened["killed while evicting"]++
	}
	t.evicting = 0
	pause := 6 * time.Second
	if t.r.IntN(3) > 0 {
		t.c.Kill()
	} else {
		t.c.Stop()
		pause += commit.DefaultDrain
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(pause), t.audit); err != nil {
		return err
	}
	t.a.forget()
	return t.c.Restart()
}

func (t *groupTrial) audit(r simulate.Round) error {
	for _, shown := range r.Shown {
		if ended := shown.Preempted; ended != nil {
			t.evicting--
			if ended.Err != nil {
				t.happened["eviction for a group failed"]++
			} else {
				t.happened["evictions for a group done"]++
			}
		}
	}
	if r.Decided {
		if err := t.checkDecisions(r.Decisions); err != nil {
			return err
		}
	}
	return t.a.audit(r)
}

// checkDecisions checks the decisions of a round. They are about one pod without a group,
// or about members of one group, of which either enough or none are then placed.
func (t *groupTrial) checkDecisions(decisions []plan.Decision) error {
	first := &decisions[0]
	if first.Group == nil {
		if p := first.Pod; len(decisions) > 1 || p.Group != (model.GroupKey{}) {
			return fmt.Errorf("%d decisions, the first about %s of group %s, are made without a PodGroup", len(decisions), p, p.Group)
		}
		return nil
	}
	if first.Tree != nil {
		return t.checkTree(decisions)
	}
	outcomes := map[plan.Outcome]int{}
	for i := range decisions {
		d := &decisions[i]
		if p := d.Pod; p.Group != first.Group.Key || d.Group != first.Group {
			return fmt.Errorf("%s of group %s is decided about with group %s", p, p.Group, first.Group.Key)
		}
		outcomes[d.Outcome]++
		if err := t.checkEvictions(d); err != nil {
			return err
		}
		if d.Rejection != nil && strings.Contains(d.Rejection.Group, "ongoing preemption on nominated nodes") {
			t.happened["group waits for victims"]++
		}
	}
	have, placed := t.c.Loop().State().View().GroupPlaced(first.Group.Key), outcomes[plan.Placed]
	switch {
	case placed > 0 && have < first.Group.MinCount:
		return fmt.Errorf("group %s is half started: %d of its members are placed now, %d in all, of at least %d", first.Group.Key, placed, have, first.Group.MinCount)
	case placed > 0 && outcomes[plan.Failed] > 0:
		return fmt.Errorf("of group %s, %d members are placed and %d decisions failed", first.Group.Key, placed, outcomes[plan.Failed])
	case placed > 0 && outcomes[plan.Unschedulable] > 0:
		t.happened["group placed in part"]++
	case placed > 0:
		t.happened["group placed"]++
	case outcomes[plan.Failed] > 0:
		t.happened["group failed"]++
	case outcomes[plan.Terminating] == len(decisions):
		t.happened["members terminating"]++
	default:
		t.happened["group rejected"]++
	}
	if placed == 1 && len(decisions) == 1 && have > 1 {
		t.happened["member alone placed beside others"]++
	}
	return nil
}

// checkEvictions checks the victims of a group: they have lower priority, and a group
// that can only be preempted as a whole is complete.
func (t *groupTrial) checkEvictions(d *plan.Decision) error {
	if len(d.Evictions) == 0 {
		return nil
	}
	t.happened["group preempts"]++
	t.evicting++
	v := t.c.Loop().State().View()
	victims := map[model.PodKey]bool{}
	for _, e := range d.Evictions {
		if p := e.Pod; d.Outcome != plan.Unschedulable || v.PreemptionPriority(p) >= priorityIn(d) || victims[p.Key()] || p.NodeName != e.NodeName {
			return fmt.Errorf("group %s, of which the decision about a member is %s, evicts %s of priority %d from %s", d.Group.Key, d.Outcome, p, p.Priority, e.NodeName)
		}
		victims[e.Pod.Key()] = true
	}
	for _, e := range d.Evictions {
		unit := v.UnitOf(e.Pod)
		if unit == (state.Unit{}) {
			continue
		}
		if t.happened["group preempts a whole group"]++; unit.Composite {
			t.happened["group preempts a whole tree"]++
		}
		for p := range v.UnitMembers(unit) {
			if !victims[p.Key()] {
				return fmt.Errorf("group %s evicts %s, and of the same group not %s", d.Group.Key, e.Pod, p)
			}
		}
	}
	return nil
}

// rested ends all faults, and checks that after a while no pod waits that could run.
func (t *groupTrial) rested() error {
	t.c.SetFaults(simulate.Faults{})
	t.c.ReleasePods()
	for _, p := range t.c.Pods() {
		if p.Spec.NodeName == "" && p.DeletionTimestamp != nil {
			t.c.DeletePod(keyOf(p))
		}
	}
	t.mend()
	for _, node := range t.nodes {
		if t.c.Node(node.Name) == nil {
			t.c.SetNode(node.DeepCopy())
		}
	}
	t.setComposites()
	for i := range groupsOfTrial {
		if t.c.Object(groupRef(i)) == nil {
			t.setGroup(i)
		}
	}
	for t.ungate() != "nothing" {
	}
	for quiet, placed := 0, -1; quiet < 4; quiet++ { // until all requests are answered
		if err := t.c.AdvanceTo(t.c.Now().Add(time.Minute), t.audit); err != nil {
			return err
		}
		if placed != t.a.placedPods() || slices.ContainsFunc(t.c.Pods(), t.isBinding) {
			quiet, placed = 0, t.a.placedPods()
		}
	}
	if err := t.a.checkSeen(); err != nil {
		return err
	}
	return t.checkWaits()
}

// checkWaits checks that every waiting pod has a reason: no room for it, a gang with
// fewer members than its minCount, or room for fewer.
func (t *groupTrial) checkWaits() error {
	free := int64(0)
	for _, n := range t.nodes {
		free += n.Status.Allocatable.Cpu().Value()
	}
	waiting, running, lower := map[string]int{}, map[string]int{}, int64(0)
	nominated, kept := map[string]int64{}, int64(0)
	for _, p := range t.c.Pods() {
		switch {
		case p.Spec.NodeName != "" && p.Status.Phase != v1.PodSucceeded:
			free--
			running[groupOf(p)]++
			if g, ok := t.c.Object(model.GroupKey{Namespace: "default", Name: groupOf(p)}.Ref()).(*schedulingv1beta1.PodGroup); ok && *g.Spec.Priority < 10 || !ok {
				lower++
			}
		case p.Spec.NodeName == "" && p.DeletionTimestamp == nil:
			waiting[groupOf(p)]++
			// as in kube-scheduler, a member without a feasible node keeps its nomination
			if p.Status.NominatedNodeName != "" {
				nominated[groupOf(p)]++
				kept++
			}
		}
	}
	if room := free - kept; waiting[""] > 0 && room > 0 {
		return fmt.Errorf("%d pods wait, and there is room for %d", waiting[""], room)
	}
	for i := range groupsOfTrial {
		g := t.c.Object(groupRef(i)).(*schedulingv1beta1.PodGroup)
		need := 1
		if gang := g.Spec.SchedulingPolicy.Gang; gang != nil {
			need = int(gang.MinCount)
		}
		condition := meta.FindStatusCondition(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
		if condition != nil {
			what := condition.Reason
			if condition.Status == metav1.ConditionTrue {
				what = "True"
			}
			t.happened["condition "+what]++
		}
		room := free - kept + nominated[g.Name]
		if priorityOf(i) > 0 {
			room += lower
		}
		fits := max(0, min(waiting[g.Name], int(room)))
		if t.isInTree(i) {
			if err := t.checkTreeWaits(g, waiting, running, int(free-kept)); err != nil {
				return err
			}
			continue
		}
		switch impossible := i == groupsOfTrial-1; {
		case fits > 0 && running[g.Name]+fits >= need && !impossible:
			return fmt.Errorf("group %s has %d members running and %d waiting, and there is room for %d, which is enough for minCount (%d)", g.Name, running[g.Name], waiting[g.Name], room, need)
		case impossible && running[g.Name] > 0:
			return fmt.Errorf("members of group %s run, whose priority is not theirs", g.Name)
		}
	}
	return nil
}

// emptied deletes all pods and groups, and checks that no memory is left of them.
func (t *groupTrial) emptied() error {
	for _, pod := range t.c.Pods() {
		t.c.DeletePod(keyOf(pod))
	}
	for i := range groupsOfTrial {
		t.c.DeleteObject(groupRef(i))
	}
	for name := range compositesOfTrial {
		t.c.DeleteObject(compositeRef(name))
	}
	if err := t.c.AdvanceTo(t.c.Now().Add(forgotten), t.audit); err != nil {
		return err
	}
	l := t.c.Loop()
	if n := t.c.Outbox().Remembered(); n != 0 || l.Waiting() != 0 || l.State().Held() != 0 || l.State().Pods() != 0 || t.c.Unseen() != 0 {
		return fmt.Errorf("%d things are remembered, %d pods wait, %d objects are held, the state has %d pods", n, l.Waiting(), l.State().Held(), l.State().Pods())
	}
	return nil
}
