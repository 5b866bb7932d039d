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

// auditor keeps its own record of the scheduler's input and decisions, and compares it
// with the scheduler after every round: the pods and nodes, their places and their
// versions. The scheduler's own Audit checks that its sums and indexes follow from those.
type auditor struct {
	cluster *simulate.Cluster
	profile oracle.Profile

	nodes map[string]*v1.Node
	pods  map[model.PodKey]*v1.Pod
	// others are the objects of other kinds.
	others map[model.Ref]runtime.Object
	// ours are pods that the scheduler has placed, and that no watch has shown on a node
	// yet.
	ours map[model.PodKey]placed
	// unpromised are versions of pods that were placed by then, or later. Their promises
	// are fulfilled.
	unpromised map[model.PodKey]*v1.Pod
	// promises are the writes of placements to volumes and claims, while their pods are
	// placed.
	promises map[model.PodKey][]plan.Write
	// boundTo is the node to which each pod was first bound, by UID.
	boundTo map[string]string
	// judged is the interval of decisions that are compared with the oracle. At 0 or 1,
	// all are.
	judged, decided int
	// nominated has the nominations by decisions about pods that were shown before. The
	// scheduler counts them before they are stored.
	nominated map[model.PodKey]nomination
	// said has the message of the last decision about each pending pod, or of its failed
	// binding.
	said    map[model.PodKey]said
	audited bool // since forget
	rounds  int  // that were audited
	// occupied caches the pods' requests. Computing them for every pod in every round
	// would be the most expensive part of the audit.
	occupied map[*v1.Pod]*model.Resources
}

// said is a pod's reason for being pending, with its UID.
type said struct {
	uid     types.UID
	message string
}

type placed struct {
	pod       *v1.Pod // with its node
	confirmed bool
}

// nomination is the nominated node of a pending pod.
type nomination struct {
	uid      types.UID
	nodeName string
	shown    bool // in the pod's status, at that time
}

func newAuditor(c *simulate.Cluster, profile oracle.Profile) *auditor {
	a := &auditor{cluster: c, profile: profile, boundTo: map[string]string{}}
	a.forget()
	return a
}

// forget clears the record, as for a new process.
func (a *auditor) forget() {
	a.nodes, a.pods, a.ours = map[string]*v1.Node{}, map[model.PodKey]*v1.Pod{}, map[model.PodKey]placed{}
	a.others, a.unpromised = map[model.Ref]runtime.Object{}, map[model.PodKey]*v1.Pod{}
	a.promises, a.nominated = map[model.PodKey][]plan.Write{}, map[model.PodKey]nomination{}
	a.said = map[model.PodKey]said{}
	a.occupied, a.audited = map[*v1.Pod]*model.Resources{}, false
}

// forgetGone drops the entries of deleted pods.
func (a *auditor) forgetGone() {
	clear(a.occupied)
	clear(a.boundTo)
}

// occupies returns a pod's requests.
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

// ownAuditEvery is the interval, in rounds, of the scheduler's own Audit. It counts all
// sums and indexes from nothing, which took half of the time of a simulation. An
// inconsistency stays until a later round finds it.
const ownAuditEvery = 4

// audit records a round and checks everything.
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
			return fmt.Errorf("decision about %s: %w", d.Pod, err)
		}
		a.decide(d)
	}
	if a.rounds++; a.rounds%ownAuditEvery == 1 {
		if err := a.cluster.Audit(); err != nil {
			return err
		}
	}
	for _, check := range []func() error{a.checkPlaces, a.checkNominations, a.checkVersions, a.checkBindings, a.checkPromises} {
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
		// the watch shows learned objects, too
		if s.Preempted != nil || s.Written != nil || s.Learned != nil {
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

// nominate records the nomination in a version of a pod. If neither this version nor the
// last one has a nomination, a decision in between may still have made one.
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
	switch d.Outcome {
	case plan.Placed, plan.Terminating:
		delete(a.said, d.Pod.Key())
	default:
		a.said[d.Pod.Key()] = said{d.Pod.UID, report.Message(&d)}
	}
	if d.Outcome == plan.Placed {
		p := &d.Placement
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

// known returns the cluster in the scheduler's view: the objects that it was shown and
// the pods that it placed.
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
	assumed, _ := a.promised() // checkPromises reports its errors
	for ref, object := range a.others {
		if promised := assumed[ref]; promised != nil {
			object = promised
		}
		c.Add(object)
	}
	return c
}

// stored returns the API server's objects.
func stored(c *simulate.Cluster) oracle.Cluster {
	now := oracle.Cluster{Nodes: c.Nodes(), Pods: c.Pods()}
	for _, object := range c.Objects() {
		now.Add(object)
	}
	return now
}

// placedPods counts the stored pods with a node.
func (a *auditor) placedPods() int {
	placed := 0
	for _, p := range a.cluster.Pods() {
		if p.Spec.NodeName != "" {
			placed++
		}
	}
	return placed
}

// checkDecision compares a decision with the oracle's, on the record before the decision.
func (a *auditor) checkDecision(d plan.Decision) error {
	pod := d.Pod
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
			return a.checkRoom(now, &d.Placement)
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
	case d.Outcome == plan.Placed && !slices.Contains(want.Best, d.Placement.NodeName):
		return fmt.Errorf("it goes to %s; the oracle's best are %v (%s)", d.Placement.NodeName, want.Best, want.Rejected)
	case d.Outcome == plan.Placed:
		return a.checkRoom(now, &d.Placement)
	case d.Rejection != nil && message != want.Rejected && !bothUnparsable(message, want.Rejected):
		return fmt.Errorf("it is rejected with\n%q; the oracle says\n%q, best %v", message, want.Rejected, want.Best)
	case d.Outcome == plan.NoNodes && (len(now.Nodes) > 0 || message != want.Rejected):
		return fmt.Errorf("there are %d nodes; the oracle says %q", len(now.Nodes), want.Rejected)
	case d.Outcome == plan.Failed && want.Err == nil:
		return fmt.Errorf("it fails with %w; the oracle's best are %v (%s)", d.Err, want.Best, want.Rejected)
	}
	return nil
}

// checkEvictions checks that victims have lower priority and are on the same node, and
// that the pod fits there without them.
func (a *auditor) checkEvictions(now oracle.Cluster, d *plan.Decision) error {
	if len(d.Evictions) == 0 {
		return nil
	}
	pod, nodeName := d.Pod, d.Evictions[0].NodeName
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
		// as in kube-scheduler, removal in a dry run lowers counts of spread constraints
		// that did not include the pod
		return nil
	}
	there := pod.Object.DeepCopy()
	there.Status.NominatedNodeName = nodeName
	if answer := oracle.Judge(without, there, a.profile); answer.Nominated != nodeName {
		return fmt.Errorf("%d pods are evicted on %s, and the pod does not fit there then: %s", len(d.Evictions), nodeName, answer.Message)
	}
	return nil
}

// bothUnparsable reports whether both messages are about unparsable terms of the pod. The
// oracle words the details differently.
func bothUnparsable(message, want string) bool {
	const mark = "parsing pod: "
	head, _, ok := strings.Cut(message, mark)
	wantHead, _, wantOK := strings.Cut(want, mark)
	return ok && wantOK && head == wantHead
}

// checkRoom checks by plain arithmetic that the node has room for the pod's requests, and
// no conflicting host port.
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
		// provide it, as nodes of these simulations have none
		devices := a.cluster.Loop().State().View().Devices().ClassFor(s.Name) != nil
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
			wantPlaces = append(a.waitingPlaces(pod), "") // dropped at its turn
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

// hasGroups reports whether the loop has seen a PodGroup and all composite groups above
// it.
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

// waitingPlaces returns the valid places of a pod without a node.
func (a *auditor) waitingPlaces(pod *v1.Pod) []string {
	if of := pod.Spec.SchedulingGroup; of != nil && slices.Contains(a.cluster.Reads(), model.PodGroupKind) && !a.hasGroups(pod.Namespace, *of.PodGroupName) {
		return []string{"incomplete", "gated"}
	}
	return []string{"active", "backing off", "backing off after an error", "parked", "gated"}
}

// checkNominations checks that exactly the right pods are nominated, to the right nodes.
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

// checkConditions compares the stored condition of each pending pod with the last
// decision about it, when nothing is in motion. It returns the number of comparisons.
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

// checkVersions checks that nodes and their pods have the versions that the scheduler was
// shown last, or decided about.
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

// checkPromises checks that no volume and no claim is promised to two pods in different
// ways.
func (a *auditor) checkPromises() error {
	_, err := a.promised()
	return err
}

// nothingFits checks that the oracle has no node for any waiting pod, except for excused
// pods.
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
