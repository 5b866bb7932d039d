package sequence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// runGroups plays a script with pod groups. kube-scheduler runs whole, with its own
// queue. It receives the same objects as Berth's loop at the same time, and takes a turn
// whenever Berth does. Its bindings end as Berth's do. If the turns are about different
// pods or groups, the states diverge and the run ends.
func runGroups(script Script, seed uint64, told func(decisions, created, pods int)) (Result, error) {
	play := script.drawGroups(seed)
	cluster, check, err := newGroups(play, seed)
	if err != nil {
		return Result{}, err
	}
	defer check.theirs.Close()
	err = play.run(cluster, func(r simulate.Round) error {
		if r.Decided && told != nil {
			told(check.result.Passed+check.result.Failed, min(play.made, play.pods), play.pods)
		}
		return check.round(r)
	})
	return check.result, err
}

// newGroups returns a cluster with Berth, and kube-scheduler beside it.
func newGroups(play *groupPlay, seed uint64) (*simulate.Cluster, *groupCheck, error) {
	text, faults := play.config, play.faults
	gates, err := feature.With(map[string]bool{"GenericWorkload": true, "DRAWorkloadResourceClaims": true, "TopologyAwareWorkloadScheduling": play.trees, "CompositePodGroup": play.trees})
	if err != nil {
		return nil, nil, err
	}
	scheduler, err := config.ParseWith("configuration", text, config.Request{Gates: gates})
	if err != nil {
		return nil, nil, fmt.Errorf("reading of the configuration by Berth: %w", err)
	}
	cluster, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: seed, Faults: faults, MaxParked: 1000 * time.Hour, Pace: time.Millisecond})
	if err != nil {
		return nil, nil, err
	}
	theirs, err := upstream.NewLoop(text, func(pod *v1.Pod, best []string) string { return engine.Preferred(seed, keyOf(pod), best) }, func(group string, best []string) string {
		return slices.MaxFunc(best, func(a, b string) int { return cmp.Compare(engine.TieOf(seed, group, a), engine.TieOf(seed, group, b)) })
	})
	if err != nil {
		return nil, nil, err
	}
	return cluster, &groupCheck{cluster: cluster, theirs: theirs, objects: map[model.Ref]runtime.Object{}, written: map[types.UID]string{}, late: map[string]bool{}}, nil
}

// groupCheck checks the rounds of a loop with pod groups.
type groupCheck struct {
	cluster *simulate.Cluster
	theirs  *upstream.Loop
	objects map[model.Ref]runtime.Object
	// late are the PodGroups that arrived after some of their members.
	late map[string]bool
	// written are Berth's last writes of the conditions of PodGroups.
	written map[types.UID]string
	result  Result
	over    bool
	// merged means that Berth applied changes of this round together, while
	// kube-scheduler applied them one by one with another result.
	merged bool
}

func (c *groupCheck) round(r simulate.Round) error {
	if c.over || !r.Ran {
		return nil
	}
	c.theirs.SetNow(r.At)
	c.merged = c.isMerged(r.Shown)
	for i := range r.Shown {
		if err := c.show(&r.Shown[i]); err != nil {
			return err
		}
	}
	if r.Decided {
		return c.turn(r.Decisions)
	}
	if active := c.theirs.Active(); len(active) > 0 {
		if c.merged || c.holds(active[0]) {
			c.over = true
			return nil
		}
		c.differ(active[0], "waits", "has its turn"+c.where(), "not")
		c.result.Failed++
		c.over = true
	}
	return nil
}

func (c *groupCheck) differ(pod, what, theirs, ours string) {
	if theirs != ours && len(c.result.Differences) < differencesMax {
		c.result.Differences = append(c.result.Differences, compare.Difference{Pod: pod, What: what, KubeScheduler: theirs, Berth: ours})
	}
}

// show delivers Berth's input to kube-scheduler.
func (c *groupCheck) show(what *simulate.Shown) error {
	switch {
	case what.Object != nil:
		if g, ok := what.Object.(*schedulingv1beta1.PodGroup); ok {
			c.notice(g)
		}
		if ref, ok := kinds.RefOf(what.Object); ok {
			c.objects[ref] = what.Object
		}
		return c.theirs.Set(what.Object)
	case what.Bound != nil:
		pod := what.Bound.Pod
		answered, err := c.theirs.Bound(pod.UID, what.Bound.Err)
		if err == nil && !answered {
			c.differ(pod.String(), "binding", "none", "ended")
		}
		return err
	case what.Learned != nil || what.Preempted != nil || what.Written != nil:
		return nil
	}
	gone := c.objects[what.Gone]
	delete(c.objects, what.Gone)
	if gone == nil {
		return nil
	}
	return c.theirs.Remove(gone)
}

// turn lets kube-scheduler take its turn, and compares it with Berth's decisions.
func (c *groupCheck) turn(decisions []plan.Decision) error {
	t, err := c.theirs.Turn()
	if err != nil {
		return err
	}
	same := theirTurn(t) == ourTurn(decisions)
	if !same && t != nil && t.Group != "" && c.holds(theirName(t.Members[0].Pod)) {
		c.over = true
		return nil
	}
	if c.isDrawn(t, decisions) || slices.ContainsFunc(decisions, func(d plan.Decision) bool { return isAllocating(&d) }) {
		c.over = true
		return nil
	}
	if theirs, ours := theirTurn(t), ourTurn(decisions); theirs != ours {
		if c.merged {
			c.over = true
			return nil
		}
		c.differ(decisions[0].Pod.String(), "turn", theirs+c.where(), ours)
		c.result.Failed++
		c.over = true
		return nil
	}
	before := len(c.result.Differences)
	c.order(t, decisions)
	first := decisions[0].Pod.String()
	c.differ(first, "evictions", strings.Join(t.Evicted, " "), strings.Join(evicted(decisions), " "))
	c.differ(first, "claims given back", strings.Join(t.Freed, " "), strings.Join(freed(decisions), " "))
	if len(t.Evicted) > 0 {
		c.result.Preempted++
	}
	if len(t.Freed) > 0 {
		c.result.Freed++
	}
	for i := range decisions {
		d := &decisions[i]
		pod := d.Pod
		at := slices.IndexFunc(t.Members, func(m upstream.Member) bool { return m.Pod.UID == pod.UID })
		if at < 0 {
			c.differ(pod.String(), "UID", t.Members[min(i, len(t.Members)-1)].Pod.Name+" of another UID", string(pod.UID))
		} else {
			c.member(&t.Members[at], d)
			if d.Outcome == plan.Placed {
				c.allocations(t, &d.Placement)
			}
		}
		if i == 0 && t.Group != "" {
			if err := c.conditions(t, decisions); err != nil {
				return err
			}
		}
		switch {
		case d.Outcome != plan.Placed:
			c.result.Rejected++
		case d.Placement.Feasible > 1:
			c.result.Scored++
		}
		if len(c.result.Differences) > before {
			c.result.Failed++
		} else {
			c.result.Passed++
		}
		before = len(c.result.Differences)
	}
	return nil
}

// evicted returns the sorted names of the decisions' victims, without terminating pods.
func evicted(decisions []plan.Decision) []string {
	var names []string
	for i := range decisions {
		for _, e := range decisions[i].Evictions {
			if !e.Pod.Terminating {
				names = append(names, e.Pod.String())
			}
		}
	}
	slices.Sort(names)
	return names
}

// freed returns the sorted names of the claims that decisions release.
func freed(decisions []plan.Decision) []string {
	var names []string
	for i := range decisions {
		for _, w := range decisions[i].Writes {
			if w.Resource.Resource == "resourceclaims" {
				names = append(names, w.Namespace+"/"+w.Name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// allocations compares the allocations of a pod's claims with kube-scheduler's writes.
func (c *groupCheck) allocations(t *upstream.Turn, p *plan.Placement) {
	for _, hold := range p.Holds {
		promise, ok := hold.Value.(*devices.Promise)
		if !ok {
			continue
		}
		of, theirs := hold.Object.Namespace+"/"+hold.Object.Name, none
		if claim := t.Claims[of]; claim != nil {
			theirs = devicesText(claim.Status.Allocation)
		}
		c.differ(p.Pod.String(), "devices of "+of, theirs, devicesText(promise.Allocation))
	}
}

func devicesText(a *resourcev1.AllocationResult) string {
	var all []string
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		all = append(all, r.Request+" "+r.Driver+"/"+r.Pool+"/"+r.Device)
	}
	return strings.Join(all, ", ")
}

// holds reports whether Berth holds a pod's group because it has too few members.
// kube-scheduler checks that when a group begins to wait. If members leave later, or
// minCount is raised, it takes one more turn, which fails. Its backoff differs from then
// on, so the run ends there.
func (c *groupCheck) holds(pod string) bool {
	namespace, of, _ := strings.Cut(pod, "/")
	key := model.PodKey{Namespace: namespace, Name: of}
	object := c.cluster.Pod(key)
	return object != nil && object.Spec.SchedulingGroup != nil && len(object.Spec.SchedulingGates) == 0 && c.cluster.Loop().Queue().PlaceOf(key) == "gated"
}

// The messages of kube-scheduler, with DynamicResources, and of Berth about a group with
// too few members at the beginning of its turn. kube-scheduler's has the same effect: it
// backs off as after a rejection.
const (
	notFound = `error in "DynamicResources" PodGroupPostFilter plugins: not found`
	hopeless = "pod group is unschedulable, minCount ("
)

// isAllocating reports whether a pod waits for a write to a claim. kube-scheduler's
// writes count as stored at once, so it does not wait.
func isAllocating(d *plan.Decision) bool {
	return d.Rejection != nil && strings.Contains(d.Rejection.PreFilter, "is in the process of being allocated")
}

func isHopeless(d *plan.Decision) bool {
	return d.Outcome == plan.Unschedulable && strings.HasPrefix(d.Rejection.Group, hopeless)
}

func theirName(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

// isMerged reports whether the changes of one round undo each other: a node changes more
// than once, or members of a group are both added and deleted. Berth applies all changes
// of a round at once. It sees only the last version of a node, and a group that loses all
// members restarts with the new ones. Then the turns may differ, but nothing else.
func (c *groupCheck) isMerged(shown []simulate.Shown) bool {
	nodes, comes, goes := map[string]int{}, map[model.GroupKey]bool{}, map[model.GroupKey]bool{}
	for i := range shown {
		switch o := shown[i].Object.(type) {
		case *v1.Node:
			nodes[o.Name]++
		case *v1.Pod:
			if group := groupOf(o); c.objects[podRef(o)] == nil {
				comes[group] = true
			}
		case nil:
			gone := shown[i].Gone
			if gone.Kind == model.NodeKind && gone.Name != "" {
				nodes[gone.Name]++
			}
			if pod, ok := c.objects[gone].(*v1.Pod); ok {
				goes[groupOf(pod)] = true
			}
		}
	}
	delete(comes, model.GroupKey{})
	for group := range comes {
		if goes[group] {
			return true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Values(nodes)), func(changes int) bool { return changes > 1 })
}

func podRef(pod *v1.Pod) model.Ref {
	return model.Ref{Kind: model.PodKind, Namespace: pod.Namespace, Name: pod.Name}
}

// groupOf returns the group of a pod, or the zero key.
func groupOf(pod *v1.Pod) model.GroupKey {
	if pod.Spec.SchedulingGroup == nil {
		return model.GroupKey{}
	}
	return model.GroupKey{Namespace: pod.Namespace, Name: *pod.Spec.SchedulingGroup.PodGroupName}
}

// isDrawn reports whether kube-scheduler's turn is another one because a PodGroup arrived
// after its members. kube-scheduler then counts the group's waiting time from the arrival
// of any of them. From then on the states diverge.
func (c *groupCheck) isDrawn(t *upstream.Turn, decisions []plan.Decision) bool {
	if t == nil {
		return false
	}
	ours, theirs := "", t.Group
	priority := decisions[0].Pod.Priority
	if g := decisions[0].Group; g != nil {
		ours, priority = nameOf(&decisions[0]), g.Priority
	}
	return theirs != ours && (c.late[theirs] || c.late[ours]) && c.priorityOf(t) == priority
}

// priorityOf returns the priority of the pod or group in kube-scheduler's turn.
func (c *groupCheck) priorityOf(t *upstream.Turn) int32 {
	namespace, of, _ := strings.Cut(t.Group, "/")
	if group, ok := c.objects[model.GroupKey{Namespace: namespace, Name: of}.Ref()].(*schedulingv1beta1.PodGroup); ok {
		return priorityIn(group)
	}
	if priority := t.Members[0].Pod.Spec.Priority; priority != nil {
		return *priority
	}
	return 0
}

func priorityIn(g *schedulingv1beta1.PodGroup) int32 {
	if g.Spec.Priority == nil {
		return 0
	}
	return *g.Spec.Priority
}

// notice records a PodGroup that arrives after some of its members.
func (c *groupCheck) notice(g *schedulingv1beta1.PodGroup) {
	ref, _ := kinds.RefOf(g)
	if c.objects[ref] != nil {
		return
	}
	of := g.Namespace + "/" + g.Name
	delete(c.late, of)
	for _, pod := range c.cluster.Pods() {
		if group := pod.Spec.SchedulingGroup; group != nil && pod.Namespace == g.Namespace && *group.PodGroupName == g.Name && pod.Spec.NodeName == "" {
			c.late[of] = true
		}
	}
}

// where describes the places of pods in kube-scheduler's queue.
func (c *groupCheck) where() string {
	places := c.theirs.Places()
	var all []string
	for _, place := range slices.Sorted(maps.Keys(places)) {
		all = append(all, fmt.Sprintf("%s: %s", place, strings.Join(places[place], " ")))
	}
	return " (" + strings.Join(all, "; ") + ")"
}

// theirTurn describes kube-scheduler's turn, with the pods by name.
func theirTurn(t *upstream.Turn) string {
	if t == nil {
		return "nobody"
	}
	var pods []string
	for _, m := range t.Members {
		pods = append(pods, theirName(m.Pod))
	}
	return turnText(t.Group, pods)
}

func ourTurn(decisions []plan.Decision) string {
	group := ""
	if decisions[0].Group != nil {
		group = nameOf(&decisions[0])
	}
	var pods []string
	for i := range decisions {
		pods = append(pods, decisions[i].Pod.String())
	}
	return turnText(group, pods)
}

func turnText(group string, pods []string) string {
	slices.Sort(pods)
	return strings.TrimSpace(group + " " + strings.Join(pods, " "))
}

// order compares the order in which members are tried. kube-scheduler may end before it
// has tried all.
func (c *groupCheck) order(t *upstream.Turn, decisions []plan.Decision) {
	var ours []string
	for i := range decisions {
		if decisions[i].Outcome != plan.Terminating {
			ours = append(ours, decisions[i].Pod.String())
		}
	}
	// each once: members are tried in several domain placements, and again without the
	// possible victims
	var theirs []string
	for _, tried := range t.Tried {
		if !slices.Contains(theirs, tried) {
			theirs = append(theirs, tried)
		}
	}
	of := map[string]model.GroupKey{}
	for i := range decisions {
		of[decisions[i].Pod.String()] = decisions[i].Pod.Group
	}
	// Some groups of a tree are tried to the end only without the possible victims.
	in := func(names []string, group model.GroupKey) []string {
		return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return of[name] != group })
	}
	for _, group := range slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for _, key := range of {
			if !yield(key.Name) {
				return
			}
		}
	})) {
		key := model.GroupKey{Namespace: decisions[0].Pod.Namespace, Name: group}
		theirs, ours := in(theirs, key), in(ours, key)
		if n := min(len(theirs), len(ours)); n > 0 {
			c.differ(ours[0], "order", strings.Join(theirs, " "), strings.Join(ours[:n], " "))
		}
	}
}

// member compares the outcomes for one pod.
func (c *groupCheck) member(m *upstream.Member, d *plan.Decision) {
	pod := d.Pod
	differ := func(what, theirs, ours string) { c.differ(pod.String(), what, theirs, ours) }
	if d.Outcome == plan.Placed {
		p := &d.Placement
		if m.NodeName == "" {
			differ("outcome", strings.Join(m.Notes, "; "), "takes "+p.NodeName)
			return
		}
		differ("node", m.NodeName, p.NodeName)
		if m.Verdict != nil && !(p.Feasible == 1 && p.NodeName == pod.NominatedNode) {
			differ("feasible nodes", fmt.Sprint(m.Verdict.Feasible), fmt.Sprint(p.Feasible))
			if m.Verdict.Feasible > 1 {
				at := slices.IndexFunc(m.Verdict.Nodes, func(n upstream.Node) bool { return n.Name == p.NodeName })
				differ("total of "+p.NodeName, fmt.Sprint(m.Verdict.Nodes[at].Total), fmt.Sprint(p.Total))
			}
		}
		return
	}
	if m.NodeName != "" {
		differ("outcome", "takes "+m.NodeName, report.Message(d))
		return
	}
	r := report.Of(d)
	if strings.Join(m.Notes, "; ") == notFound && isHopeless(d) {
		return
	}
	differ("event", strings.Join(m.Notes, "; "), r.Event.Note)
	if d.Outcome == plan.Terminating {
		return
	}
	ours := r.Condition
	if ours == nil {
		ours = r.Shown
	}
	differ("condition", podConditionText(m.Condition), podConditionText(ours))
	nominated := pod.NominatedNode
	switch r.Nomination.Mode {
	case plan.Set:
		nominated = r.Nomination.NodeName
	case plan.Clear:
		nominated = ""
	}
	differ("nominated node", m.Nominated, nominated)
}

// none is the text of a condition that is not written.
const none = "none"

func podConditionText(c *v1.PodCondition) string {
	if c == nil {
		return none
	}
	return fmt.Sprintf("%s %s %q of generation %d", c.Status, c.Reason, c.Message, c.ObservedGeneration)
}

func conditionText(c *metav1.Condition) string {
	if c == nil {
		return none
	}
	return fmt.Sprintf("%s %s %q of generation %d", c.Status, c.Reason, c.Message, c.ObservedGeneration)
}

// expected returns kube-scheduler's condition of a PodGroup as Berth should write it.
// Until the watch has shown the last write, kube-scheduler repeats it, and even reverts
// True. Berth uses the answer to its write.
func (c *groupCheck) expected(object *schedulingv1beta1.PodGroup, theirs *metav1.Condition, ours string) string {
	text, last := conditionText(theirs), c.written[object.UID]
	if theirs != nil && theirs.Message == notFound && strings.Contains(ours, hopeless) {
		text = ours
	}
	if ours == none && (last == text || strings.HasPrefix(last, string(metav1.ConditionTrue)) && theirs != nil && theirs.Status == metav1.ConditionFalse) {
		return none
	}
	if ours != none {
		c.written[object.UID] = ours
	}
	return text
}

// nameOf returns namespace/name of a decision's group, or of the root of its tree.
func nameOf(d *plan.Decision) string {
	if d.Tree != nil {
		return d.Tree.Key().String()
	}
	return d.Group.Key.String()
}

// conditions compares the conditions of the PodGroup, or of all PodGroups of the tree.
func (c *groupCheck) conditions(t *upstream.Turn, decisions []plan.Decision) error {
	groups := []*model.PodGroup{decisions[0].Group}
	if tree := decisions[0].Tree; tree != nil {
		groups = slices.Collect(tree.Leaves)
	}
	for _, group := range groups {
		ours, err := c.ourCondition(group, decisions)
		if err != nil {
			return err
		}
		of := group.Key.String()
		theirs := t.Conditions[of]
		if theirs != nil {
			theirs = theirs.DeepCopy()
			theirs.Message = once(theirs.Message)
		}
		c.differ(decisions[0].Pod.String(), "condition of "+of, c.expected(group.Object, theirs, ours), ours)
	}
	return nil
}

// once removes repetitions of the PostFilter plugins' text. kube-scheduler adds it to
// each status of a tree, and some statuses are the same object, so that the text is
// repeated.
func once(text string) string {
	at := strings.LastIndex(text, ", pod group preemption: ")
	if at < 0 {
		return text
	}
	for said := text[at:]; strings.HasSuffix(text, said+said); {
		text = strings.TrimSuffix(text, said)
	}
	return text
}

// ourCondition returns the PodGroup's condition in the decisions' writes.
func (c *groupCheck) ourCondition(group *model.PodGroup, decisions []plan.Decision) (string, error) {
	var all []plan.Write
	for i := range decisions {
		all = append(all, decisions[i].Writes...)
	}
	for i := range all {
		w := &all[i]
		if w.Resource.Resource != "podgroups" || w.Namespace != group.Key.Namespace || w.Name != group.Key.Name {
			continue
		}
		patched, err := compare.Patched(group.Object, w)
		if err != nil {
			return "", fmt.Errorf("apply Berth's patch of pod group %s/%s: %w", w.Namespace, w.Name, err)
		}
		return conditionText(meta.FindStatusCondition(patched.(*schedulingv1beta1.PodGroup).Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)), nil
	}
	return conditionText(nil), nil
}
