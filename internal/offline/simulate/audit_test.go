package simulate_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// auditor keeps books of its own of what the scheduler was shown and has decided, and compares after every round: the pods and nodes, their places
// and their versions. That the scheduler's sums and indexes follow from those is for its own Audit to check.
type auditor struct {
	cluster *simulate.Cluster
	profile oracle.Profile

	nodes map[string]*v1.Node
	pods  map[model.PodKey]*v1.Pod
	// others are the objects of other kinds.
	others map[model.Ref]runtime.Object
	// ours are pods that the scheduler has placed and the watch has not shown on a node yet.
	ours map[model.PodKey]placed
	// unpromised are versions of pods that were placed when they were shown, or later: what they were promised, they have had.
	unpromised map[model.PodKey]*v1.Pod
	// promises are the writes of placements to volumes and claims, for as long as their pods are placed.
	promises map[model.PodKey][]plan.Write
	// boundTo is where each pod was first seen bound by the API server, by UID.
	boundTo map[string]string
	// judged is which part of the decisions the oracle is asked about: every one if 0 or 1, else every n-th.
	judged, decided int
	// nominated is what decisions have said of the nominations of pods that were shown before, by pod; the scheduler knows it before it is stored.
	nominated map[model.PodKey]nomination
	// said is why each pod is pending, in the words of the last decision about it, or of its binding that failed.
	said    map[model.PodKey]said
	audited bool // since the books were started
	// occupied remembers what pods occupy: adding it up anew for every pod in every round is what an audit would cost most.
	occupied map[*v1.Pod]*model.Resources
}

// said is a pod's reason for being pending, and the pod's UID.
type said struct {
	uid     types.UID
	message string
}

type placed struct {
	pod       *v1.Pod // with its node
	confirmed bool
}

// nomination is where a pending pod is nominated to.
type nomination struct {
	uid      types.UID
	nodeName string
	shown    bool // by the pod's status, at that time
}

func newAuditor(c *simulate.Cluster, profile oracle.Profile) *auditor {
	a := &auditor{cluster: c, profile: profile, boundTo: map[string]string{}}
	a.forget()
	return a
}

// forget starts new books, as a new process does.
func (a *auditor) forget() {
	a.nodes, a.pods, a.ours = map[string]*v1.Node{}, map[model.PodKey]*v1.Pod{}, map[model.PodKey]placed{}
	a.others, a.unpromised = map[model.Ref]runtime.Object{}, map[model.PodKey]*v1.Pod{}
	a.promises, a.nominated = map[model.PodKey][]plan.Write{}, map[model.PodKey]nomination{}
	a.said = map[model.PodKey]said{}
	a.occupied, a.audited = map[*v1.Pod]*model.Resources{}, false
}

// forgetGone drops what is remembered of pods that are gone.
func (a *auditor) forgetGone() {
	clear(a.occupied)
	clear(a.boundTo)
}

// occupies returns what a pod takes on its node.
func (a *auditor) occupies(pod *v1.Pod) *model.Resources {
	occupied := a.occupied[pod]
	if occupied == nil {
		if len(a.occupied) > 5_000 {
			clear(a.occupied)
		}
		sum := model.Occupied(pod)
		occupied = &sum
		a.occupied[pod] = occupied
	}
	return occupied
}

// audit takes in a round and checks everything.
func (a *auditor) audit(r simulate.Round) error {
	for _, s := range r.Shown {
		if err := a.checkShown(s); err != nil {
			return err
		}
		a.show(s)
	}
	if !r.Ran || !r.Decided && len(r.Shown) == 0 && a.audited {
		return nil
	}
	a.audited = true
	for _, d := range r.Decisions {
		if err := a.checkDecision(d); err != nil {
			return fmt.Errorf("decision about %s: %w", d.Pods[0].Pod, err)
		}
		a.decide(d)
	}
	for _, check := range []func() error{a.cluster.Audit, a.checkPlaces, a.checkNominations, a.checkVersions, a.checkBindings, a.checkPromises} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

func (a *auditor) show(s simulate.Shown) {
	switch o := s.Object.(type) {
	case *v1.Node:
		a.nodes[o.Name] = o
	case *v1.Pod:
		a.showPod(o)
	case nil:
		if s.Bound != nil {
			a.hear(s.Bound)
			return
		}
		if s.Preempted != nil || s.Written != nil || s.Learned != nil { // the watch shows what was learned, too
			return
		}
		a.remove(s.Gone)
	default:
		ref, _ := kinds.RefOf(o)
		a.others[ref] = o
	}
}

func (a *auditor) showPod(pod *v1.Pod) {
	key := keyOf(pod)
	if kinds.Finished(pod) {
		a.drop(key)
		return
	}
	if mine, ok := a.ours[key]; ok && (pod.Spec.NodeName != "" || mine.pod.UID != pod.UID) {
		delete(a.ours, key)
		if mine.pod.UID != pod.UID {
			delete(a.promises, key)
		}
	}
	if _, assumed := a.ours[key]; assumed {
		a.unpromised[key] = pod
	} else {
		a.nominate(key, pod)
	}
	a.pods[key] = pod
}

// nominate takes in where a version of a pod is nominated to. One that is not nominated, after another that was not, says nothing about what was
// decided meanwhile.
func (a *auditor) nominate(key model.PodKey, pod *v1.Pod) {
	node, before := pod.Status.NominatedNodeName, a.nominated[key]
	if node == "" && before.uid == pod.UID && !before.shown {
		node = before.nodeName
	}
	delete(a.nominated, key)
	if node != "" && pod.Spec.NodeName == "" {
		a.nominated[key] = nomination{pod.UID, node, pod.Status.NominatedNodeName != ""}
	}
}

func (a *auditor) remove(ref model.Ref) {
	switch ref.Kind {
	case model.PodKind:
		a.drop(model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
	case model.NodeKind:
		delete(a.nodes, ref.Name)
	default:
		delete(a.others, ref)
	}
}

func (a *auditor) hear(o *model.BindingResult) {
	mine, ok := a.ours[o.Pod.Key()]
	switch {
	case !ok || mine.pod.UID != o.Pod.UID || mine.confirmed:
	case o.Err != nil:
		a.said[o.Pod.Key()] = said{o.Pod.UID, o.Err.Error()}
		delete(a.ours, o.Pod.Key())
		delete(a.promises, o.Pod.Key())
	default:
		mine.confirmed = true
		a.ours[o.Pod.Key()] = mine
	}
}

func (a *auditor) drop(key model.PodKey) {
	delete(a.pods, key)
	delete(a.ours, key)
	delete(a.unpromised, key)
	delete(a.promises, key)
	delete(a.nominated, key)
	delete(a.said, key)
}

func (a *auditor) decide(d plan.Decision) {
	for i := range d.Pods {
		pod := d.Pods[i].Pod
		switch d.Outcome {
		case plan.Placed, plan.Terminating:
			delete(a.said, pod.Key())
		default:
			a.said[pod.Key()] = said{pod.UID, report.Message(&d)}
		}
	}
	for i := range d.Placements {
		p := &d.Placements[i]
		on := p.Pod.Object.DeepCopy()
		on.Spec.NodeName = p.NodeName
		a.ours[p.Pod.Key()] = placed{pod: on}
		a.unpromised[p.Pod.Key()] = a.pods[p.Pod.Key()]
		a.promise(p)
		delete(a.nominated, p.Pod.Key())
	}
	for i := range d.Nominations {
		n := &d.Nominations[i]
		key := n.Pod.Key()
		if _, ours := a.ours[key]; ours || n.Mode == plan.Keep || n.Pod.NominatedNode == n.NodeName && a.nominated[key].nodeName == n.NodeName {
			continue
		}
		delete(a.nominated, key)
		if n.Mode == plan.Set {
			a.nominated[key] = nomination{n.Pod.UID, n.NodeName, n.Pod.Object.Status.NominatedNodeName != ""}
		}
	}
}

// known is the cluster as the scheduler must believe it to be: what it was shown, and what it has placed.
func (a *auditor) known() oracle.Cluster {
	var c oracle.Cluster
	for _, name := range slices.Sorted(maps.Keys(a.nodes)) {
		c.Nodes = append(c.Nodes, a.nodes[name])
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.pods), compareKeys) {
		if mine, ok := a.ours[key]; ok {
			c.Pods = append(c.Pods, mine.pod)
		} else if pod := a.pods[key]; pod.Spec.NodeName == "" && pod.Status.NominatedNodeName != a.nominated[key].nodeName {
			pod = pod.DeepCopy()
			pod.Status.NominatedNodeName = a.nominated[key].nodeName
			c.Pods = append(c.Pods, pod)
		} else {
			c.Pods = append(c.Pods, pod)
		}
	}
	assumed, _ := a.promised() // checkPromises says what is wrong with them
	for ref, object := range a.others {
		if promised := assumed[ref]; promised != nil {
			object = promised
		}
		c.Add(object)
	}
	return c
}

// stored is the cluster as the API server has it.
func stored(c *simulate.Cluster) oracle.Cluster {
	now := oracle.Cluster{Nodes: c.Nodes(), Pods: c.Pods()}
	for _, object := range c.Objects() {
		now.Add(object)
	}
	return now
}

// placedPods counts the stored pods that have a node.
func (a *auditor) placedPods() int {
	placed := 0
	for _, p := range a.cluster.Pods() {
		if p.Spec.NodeName != "" {
			placed++
		}
	}
	return placed
}

// checkDecision compares with the oracle, on the books before the decision.
func (a *auditor) checkDecision(d plan.Decision) error {
	pod := d.Pods[0].Pod
	key := pod.Key()
	switch _, ours := a.ours[key]; {
	case a.pods[key] != pod.Object:
		return fmt.Errorf("it is not about the newest version of the pod that was shown")
	case ours:
		return fmt.Errorf("the pod has a node already")
	case d.Outcome == plan.Terminating:
		if pod.Object.DeletionTimestamp == nil {
			return fmt.Errorf("the pod is not being deleted")
		}
		return nil
	case len(pod.Object.Spec.SchedulingGates) > 0:
		return fmt.Errorf("the pod is gated")
	}
	now := a.known()
	if a.decided++; a.judged > 1 && a.decided%a.judged != 0 {
		if d.Outcome == plan.Placed {
			return a.checkRoom(now, &d.Placements[0])
		}
		return nil
	}
	asked := pod.Object.DeepCopy()
	asked.Status.NominatedNodeName = a.nominated[key].nodeName
	want := oracle.Judge(now, asked, a.profile)
	verdict, _ := a.cluster.Verdict(key)
	if err := a.checkEvictions(now, &d); err != nil {
		return err
	}
	message := strings.TrimSuffix(verdict.Message(), " "+d.PostFilter)
	switch {
	case d.Outcome == plan.Placed && !slices.Contains(want.Best, d.Placements[0].NodeName):
		return fmt.Errorf("it goes to %s; the oracle's best are %v (%s)", d.Placements[0].NodeName, want.Best, want.Rejected)
	case d.Outcome == plan.Placed:
		return a.checkRoom(now, &d.Placements[0])
	case d.Rejection != nil && message != want.Rejected && !bothUnparsable(message, want.Rejected):
		return fmt.Errorf("it is rejected with\n%q; the oracle says\n%q, best %v", message, want.Rejected, want.Best)
	case d.Outcome == plan.NoNodes && (len(now.Nodes) > 0 || message != want.Rejected):
		return fmt.Errorf("there are %d nodes; the oracle says %q", len(now.Nodes), want.Rejected)
	case d.Outcome == plan.Failed && want.Err == nil:
		return fmt.Errorf("it fails with %w; the oracle's best are %v (%s)", d.Err, want.Best, want.Rejected)
	}
	return nil
}

// checkEvictions checks that only pods of lower priority on the one node are evicted, and that the pod fits there without them.
func (a *auditor) checkEvictions(now oracle.Cluster, d *plan.Decision) error {
	if len(d.Evictions) == 0 {
		return nil
	}
	pod, nodeName := d.Pods[0].Pod, d.Evictions[0].NodeName
	if n := d.NominationOf(pod); n.Mode != plan.Set || n.NodeName != nodeName {
		return fmt.Errorf("pods are evicted on %s, and the nomination is %+v", nodeName, n)
	}
	without := now
	without.Pods = slices.Clone(now.Pods)
	for _, e := range d.Evictions {
		before := len(without.Pods)
		without.Pods = slices.DeleteFunc(without.Pods, func(p *v1.Pod) bool { return p.UID == e.Pod.UID && p.Spec.NodeName == nodeName })
		if len(without.Pods) != before-1 || e.NodeName != nodeName || e.Pod.Priority >= pod.Priority {
			return fmt.Errorf("%s with priority %d is evicted for priority %d; it is on the node: %t", e.Pod, e.Pod.Priority, pod.Priority, len(without.Pods) < before)
		}
	}
	if slices.ContainsFunc(now.Pods, func(p *v1.Pod) bool { return p.Spec.NodeName == nodeName && p.DeletionTimestamp != nil }) {
		return nil // as in kube-scheduler, one that is removed in a dry run lowers counts of spread constraints that it was not in
	}
	there := pod.Object.DeepCopy()
	there.Status.NominatedNodeName = nodeName
	if answer := oracle.Judge(without, there, a.profile); answer.Nominated != nodeName {
		return fmt.Errorf("%d pods are evicted on %s, and the pod does not fit there then: %s", len(d.Evictions), nodeName, answer.Message)
	}
	return nil
}

// bothUnparsable reports whether both say that the pod's terms cannot be parsed: the oracle has its own words for what is wrong with them.
func bothUnparsable(message, want string) bool {
	const mark = "parsing pod: "
	head, _, ok := strings.Cut(message, mark)
	wantHead, _, wantOK := strings.Cut(want, mark)
	return ok && wantOK && head == wantHead
}

// checkRoom checks by plain arithmetic that the node has room for what the pod asks for, and no conflicting host port.
func (a *auditor) checkRoom(now oracle.Cluster, d *plan.Placement) error {
	node := a.nodes[d.NodeName]
	var used model.Sum
	count := int64(0)
	for _, p := range now.Pods {
		if p.Spec.NodeName != d.NodeName {
			continue
		}
		count++
		used.Add(a.occupies(p), 1)
		for _, held := range model.HostPortsOf(p) {
			for _, wanted := range d.Pod.Ports {
				if !a.profile.Disabled["NodePorts"] && held.Conflicts(wanted) {
					return fmt.Errorf("its port %v conflicts with %v of %s on %s", wanted, held, p.Name, d.NodeName)
				}
			}
		}
	}
	if a.profile.Disabled["NodeResourcesFit"] {
		return nil
	}
	has, asks := model.ResourcesOf(node.Status.Allocatable), d.Pod.Asks
	if count+1 > model.AllowedPods(node.Status.Allocatable) {
		return fmt.Errorf("node %s has %d pods and takes no more", d.NodeName, count)
	}
	short := func(asked, has, used int64) bool { return asked > 0 && asked > has-used }
	if short(asks.CPUMilli, has.CPUMilli, used.CPUMilli) || short(asks.MemoryBytes, has.MemoryBytes, used.MemoryBytes) ||
		short(asks.EphemeralBytes, has.EphemeralBytes, used.EphemeralBytes) {
		return fmt.Errorf("it asks for %+v of %+v on %s, of which %+v are used", asks, has, d.NodeName, used)
	}
	for _, s := range asks.Scalars {
		ignored := len(a.profile.Fit.IgnoredResources)+len(a.profile.Fit.IgnoredResourceGroups) > 0
		devices := a.cluster.Loop().State().View().Devices().ClassFor(s.Name) != nil // stand for it, as nodes of these simulations have none
		if !ignored && !devices && short(s.Value, has.Scalar(s.Name), used.Scalar(s.Name)) {
			return fmt.Errorf("it asks for %d of %d %s on %s, of which %d are used", s.Value, has.Scalar(s.Name), s.Name.Value(), d.NodeName, used.Scalar(s.Name))
		}
	}
	return nil
}

// checkPlaces checks that every pod is in exactly one place, the right one.
func (a *auditor) checkPlaces() error {
	state, queue := a.cluster.Loop().State(), a.cluster.Loop().Queue()
	onNodes, waiting := 0, 0
	for key, pod := range a.pods {
		mine, isOurs := a.ours[key]
		wantNode, wantConfirmed, wantPlaces := pod.Spec.NodeName, pod.Spec.NodeName != "", []string{""}
		switch {
		case wantNode != "":
		case isOurs:
			if wantNode, wantConfirmed = mine.pod.Spec.NodeName, mine.confirmed; !mine.confirmed {
				wantPlaces = []string{"binding"}
			}
		case pod.Spec.SchedulerName != v1.DefaultSchedulerName:
		case pod.DeletionTimestamp != nil:
			wantPlaces = append(a.waitingPlaces(pod), "") // it is dropped when its turn comes
		default:
			wantPlaces = a.waitingPlaces(pod)
		}
		node, confirmed, _ := state.NodeOf(key)
		if node != wantNode || confirmed != wantConfirmed {
			return fmt.Errorf("pod %s is on node %q (confirmed: %t) in the state; it should be on %q (%t)", key, node, confirmed, wantNode, wantConfirmed)
		}
		place := queue.PlaceOf(key)
		if !slices.Contains(wantPlaces, place) {
			return fmt.Errorf("pod %s on node %q is in place %q of the queue; want one of %q", key, node, place, wantPlaces)
		}
		if wantNode != "" {
			onNodes++
		}
		if place != "" {
			waiting++
		}
	}
	n := queue.Counts()
	if inQueue := n.Active + n.BackingOff + n.Parked + n.Gated + n.Incomplete + n.Binding; inQueue != waiting || state.Pods() != onNodes {
		return fmt.Errorf("the queue has %d pods, the state %d; they should have %d and %d", inQueue, state.Pods(), waiting, onNodes)
	}
	return nil
}

// hasGroups reports whether the loop has seen a PodGroup and all composite groups above it.
func (a *auditor) hasGroups(namespace, name string) bool {
	group, ok := a.others[model.GroupKey{Namespace: namespace, Name: name}.Ref()].(*schedulingv1beta1.PodGroup)
	if !ok || !slices.Contains(a.cluster.Reads(), model.CompositePodGroupKind) {
		return ok
	}
	for parent := group.Spec.ParentCompositePodGroupName; parent != nil; {
		above, ok := a.others[compositeRef(*parent)].(*schedulingv1alpha3.CompositePodGroup)
		if !ok {
			return false
		}
		parent = above.Spec.ParentCompositePodGroupName
	}
	return true
}

// waitingPlaces are where a pod can be that has no node.
func (a *auditor) waitingPlaces(pod *v1.Pod) []string {
	if of := pod.Spec.SchedulingGroup; of != nil && slices.Contains(a.cluster.Reads(), model.PodGroupKind) && !a.hasGroups(pod.Namespace, *of.PodGroupName) {
		return []string{"incomplete", "gated"}
	}
	return []string{"active", "backing off", "backing off after an error", "parked", "gated"}
}

// checkNominations checks that the pods are nominated that should be, and to the right nodes.
func (a *auditor) checkNominations() error {
	nominated := 0
	for name, pods := range a.cluster.Loop().State().View().NominatedPods() {
		nominated += len(pods)
		for _, pod := range pods {
			if want := a.nominated[pod.Key()]; want.uid != pod.UID || want.nodeName != name {
				return fmt.Errorf("pod %s is nominated to %s in the state; it should be to %q", pod, name, want.nodeName)
			}
		}
	}
	if nominated != len(a.nominated) {
		return fmt.Errorf("%d pods are nominated in the state; they should be %d: %v", nominated, len(a.nominated), a.nominated)
	}
	return nil
}

// checkConditions checks, when nothing moves any more, that the condition which the API server has of each pending pod says what the last decision about it did. It returns
// how many it compared.
func (a *auditor) checkConditions() (compared int, err error) {
	for _, p := range a.cluster.Pods() {
		want, decided := a.said[keyOf(p)]
		if !decided || want.uid != p.UID || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			continue
		}
		compared++
		have := report.ScheduledCondition(p)
		if have == nil || have.Status != v1.ConditionFalse || have.Message != want.message {
			return compared, fmt.Errorf("the condition of pod %s is %v; the last decision says %q", keyOf(p), have, want.message)
		}
	}
	return compared, nil
}

// checkVersions checks that nodes and the pods on them are in the versions that the scheduler was shown last, or has decided about.
func (a *auditor) checkVersions() error {
	state := a.cluster.Loop().State()
	if state.Nodes() != len(a.nodes) {
		return fmt.Errorf("the state has %d nodes; it should have %d", state.Nodes(), len(a.nodes))
	}
	for name := range a.nodes {
		slot, ok := state.Slot(name)
		if !ok {
			return fmt.Errorf("node %s is not in the state", name)
		}
		if state.Node(slot).Object() != a.nodes[name] {
			return fmt.Errorf("node %s is not in the state in its newest version", name)
		}
	}
	for slot := range state.Slots() {
		for pod := range state.PodsOn(int32(slot)) {
			newest := a.pods[pod.Key()]
			if mine, ours := a.ours[pod.Key()]; ours {
				newest = mine.pod
			}
			if newest == nil || newest.UID != pod.UID || !pod.Occupies.Equal(a.occupies(newest)) {
				return fmt.Errorf("pod %s occupies %+v of its node in the state; that is not its newest version", pod, pod.Occupies)
			}
		}
	}
	return nil
}

// checkBindings checks that no pod ever changes its node.
func (a *auditor) checkBindings() error {
	for _, p := range a.cluster.Pods() {
		if p.Spec.NodeName == "" {
			continue
		}
		if before, ok := a.boundTo[string(p.UID)]; ok && before != p.Spec.NodeName {
			return fmt.Errorf("pod %s was bound to %s and then to %s", p.Name, before, p.Spec.NodeName)
		}
		a.boundTo[string(p.UID)] = p.Spec.NodeName
	}
	return nil
}

// checkPromises checks that no volume and no claim is promised to two pods in different ways.
func (a *auditor) checkPromises() error {
	_, err := a.promised()
	return err
}

// nothingFits checks that no pod waits that the oracle has a node for. Pods that are excused are left out.
func (a *auditor) nothingFits(excused func(*v1.Pod) bool) error {
	now := stored(a.cluster)
	for _, p := range now.Pods {
		if !waits(p) || excused(p) {
			continue
		}
		if err := a.fits(now, p); err != nil {
			return err
		}
	}
	return nil
}

// waits reports whether a pod waits for a node.
func waits(p *v1.Pod) bool {
	return p.Spec.NodeName == "" && p.DeletionTimestamp == nil && len(p.Spec.SchedulingGates) == 0
}

// fits returns an error if the oracle has a node for a pod.
func (a *auditor) fits(now oracle.Cluster, p *v1.Pod) error {
	best := oracle.Judge(now, p, a.profile).Best
	if len(best) == 0 {
		return nil
	}
	verdict, _ := a.cluster.Verdict(keyOf(p))
	return fmt.Errorf("pod %s waits (%s, %s), and fits on %v", p.Name, a.cluster.Loop().Queue().PlaceOf(keyOf(p)), verdict.Message(), best)
}

func keyOf(pod *v1.Pod) model.PodKey { return model.PodKey{Namespace: pod.Namespace, Name: pod.Name} }

func compareKeys(a, b model.PodKey) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
