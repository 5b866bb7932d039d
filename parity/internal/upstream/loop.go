//go:build !release138

package upstream

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// Gates are the feature gates that differ from their defaults.
type Gates uint8

const (
	// Defaults leaves every gate in its default state.
	Defaults Gates = iota
	// PodGroups enables GenericWorkload and the claims of pod groups. Preemption runs in
	// the turn and not after it, so that no turn depends on a goroutine.
	PodGroups
	// Trees enables the same, and the gates of domain placements and of composite pod
	// groups.
	Trees
)

// Set enables or disables these gates, for the whole process. No scheduler may be in use
// meanwhile.
func (g Gates) Set(on bool) error {
	groups := []featuregate.Feature{features.GenericWorkload, features.DRAWorkloadResourceClaims}
	of := [...][]featuregate.Feature{PodGroups: groups, Trees: append(slices.Clone(groups), features.TopologyAwareWorkloadScheduling, features.CompositePodGroup)}
	gates := map[string]bool{}
	for _, gate := range of[g] {
		gates[string(gate)] = on
	}
	if g != Defaults {
		gates[string(features.SchedulerAsyncPreemption)] = !on
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return fmt.Errorf("set the feature gates of kube-scheduler for pod groups: %w", err)
	}
	return nil
}

// Loop is kube-scheduler itself: its queue, its cache, and its cycles of pods and of pod
// groups, in this process. Objects are delivered one by one, the clock is manual, and
// Turn takes each turn. Its writes are only recorded; its bindings wait until Bound
// answers them. It is not safe for concurrent use.
type Loop struct {
	ctx       context.Context
	stop      context.CancelFunc
	scheduler *scheduler.Scheduler
	informers map[reflect.Type]*informer
	clock     *handClock
	client    *writes
	// choose returns one of equally good nodes.
	choose func(pod *v1.Pod, best []string) string
	turn   *Turn
	popped chan struct{} // a pod or group has been popped for the turn
}

// Turn is kube-scheduler's result for one pod or one pod group.
type Turn struct {
	// Group is namespace/name of the PodGroup, or of the CompositePodGroup at the root of
	// a tree. It is empty for a single pod.
	Group string
	// Members are the pods in the order of the queue.
	Members []Member
	// Tried are namespace/name of the pods with a search for nodes, in order.
	Tried []string
	// Conditions are the PodGroups' conditions after the turn, by namespace/name, if the
	// turn has written them.
	Conditions map[string]*metav1.Condition
	// Evicted are namespace/name of the deleted pods, sorted. Freed are the claims that
	// lost their allocation or a reservation, sorted. Claims are the other written
	// claims.
	Evicted, Freed []string
	Claims         map[string]*resourcev1.ResourceClaim
}

// Member is the result of a turn for one pod.
type Member struct {
	Pod *v1.Pod
	// Verdict is about the chosen node. It is nil without a search or without a node.
	Verdict *Verdict
	// NodeName is the node of the pod's pending binding, or empty.
	NodeName string
	// Notes are the texts of its events.
	Notes []string
	// Condition is the pod's PodScheduled condition after the turn, or nil.
	Condition *v1.PodCondition
	// Nominated is the pod's nominated node after the turn, if it is not going to be
	// bound.
	Nominated string
	chosen    map[string]*Verdict // by node
}

// NewLoop builds the scheduler of an empty cluster from the text of a configuration.
// choose returns one of equally good nodes. chooseDomain returns one of equally good
// domain placements of a group, given as namespace/name. Domain placements are tried in
// the order of their names.
func NewLoop(text []byte, choose func(pod *v1.Pod, best []string) string, chooseDomain func(group string, best []string) string) (*Loop, error) {
	source, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("kube-scheduler's reading of the configuration: %w", err)
	}
	unused, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		return nil, fmt.Errorf("build a client for kube-scheduler: %w", err)
	}
	metrics.Register()
	ctx, stop := context.WithCancel(klog.NewContext(context.Background(), silent))
	l := &Loop{ctx: ctx, stop: stop, clock: newHandClock(), client: newWrites(unused), choose: choose, popped: make(chan struct{}, 1)}
	factory := informers.NewSharedInformerFactory(l.client, 0)
	l.informers = newInformers(factory, &v1.Pod{}, &v1.Node{}, &schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{})
	l.scheduler, err = scheduler.New(ctx, l.client, factory, nil, func(string) events.EventRecorderLogger { return noted{l.client} },
		scheduler.WithComponentConfigVersion(source.APIVersion),
		scheduler.WithProfiles(source.Profiles...),
		scheduler.WithPercentageOfNodesToScore(source.PercentageOfNodesToScore),
		scheduler.WithPodInitialBackoffSeconds(source.PodInitialBackoffSeconds),
		scheduler.WithPodMaxBackoffSeconds(source.PodMaxBackoffSeconds),
		// its timer uses the real clock
		scheduler.WithPodMaxInUnschedulablePodsDuration(1000*time.Hour),
		scheduler.WithParallelism(1),
		scheduler.WithClock(l.clock),
	)
	if err != nil {
		stop()
		return nil, fmt.Errorf("initialise kube-scheduler: %w", err)
	}
	find, fail := l.scheduler.SchedulePod, l.scheduler.FailureHandler
	l.scheduler.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		if l.turn != nil {
			l.turn.Tried = append(l.turn.Tried, pod.Pod.Namespace+"/"+pod.Pod.Name)
		}
		found, err := find(ctx, f, state, pod)
		if err == nil {
			err = l.settle(f, pod.Pod, state.Clone(), &found)
		}
		return found, err
	}
	l.scheduler.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		fail(ctx, f, pod, status, nominating, start)
		l.failed(pod.Pod.UID, nominating)
	}
	for name, f := range l.scheduler.Profiles {
		l.scheduler.Profiles[name] = inOrderOfNames{f, chooseDomain}
	}
	l.client.claim = l.claim
	l.scheduler.NextEntity = l.next
	l.scheduler.SchedulingQueue.Run(silent)
	<-l.clock.idle
	return l, nil
}

// Close ends kube-scheduler's goroutines.
func (l *Loop) Close() {
	if l.ctx.Err() == nil {
		l.stop()
		l.scheduler.SchedulingQueue.Close()
	}
}

// SetNow moves the clock, and activates pods whose backoff ends by then.
func (l *Loop) SetNow(now time.Time) {
	l.clock.set(now)
	l.clock.tick()
}

// Set delivers an object. A finished pod is delivered as deleted, since kube-scheduler
// does not watch it.
func (l *Loop) Set(object runtime.Object) error {
	of := l.informers[reflect.TypeOf(object)]
	if of == nil {
		return nil
	}
	if pod, ok := object.(*v1.Pod); ok && (pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed) {
		return of.remove(object)
	}
	return of.set(object)
}

// Remove delivers a deletion.
func (l *Loop) Remove(object runtime.Object) error {
	if of := l.informers[reflect.TypeOf(object)]; of != nil {
		return of.remove(object)
	}
	return nil
}

// Bound answers the binding of a pod, and returns when kube-scheduler has handled the
// answer. It reports whether there was a pending binding.
func (l *Loop) Bound(pod types.UID, err error) (bool, error) {
	if !l.client.answer(pod, err) {
		return false, nil
	}
	if err == nil {
		return true, nil // the rest of the goroutine changes nothing
	}
	if !l.client.await(func() bool { return l.client.ended[pod] }) {
		return true, fmt.Errorf("kube-scheduler has not settled the failed binding of pod %s for %s", pod, patience)
	}
	return true, nil
}

// Active returns namespace/name of the pods that could have their turn now, sorted,
// without those that back off.
func (l *Loop) Active() []string { return namesOf(l.scheduler.SchedulingQueue.PodsInActiveQ()) }

func namesOf(pods []*v1.Pod) []string {
	var names []string
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	return names
}

// Places returns the places of waiting pods: active, backing off, unschedulable or gated,
// or without their group.
func (l *Loop) Places() map[string][]string {
	q := l.scheduler.SchedulingQueue
	return map[string][]string{
		"active": namesOf(q.PodsInActiveQ()), "backing off": namesOf(q.PodsInBackoffQ()), "parked or gated": namesOf(q.UnschedulablePods()),
		"incomplete": namesOf(q.IncompletePodGroupPodsPods()),
	}
}

// Turn takes the next turn, or returns nil if no pod is ready. When it returns, all
// bindings of the turn have been sent.
func (l *Loop) Turn() (*Turn, error) {
	if len(l.Active()) == 0 && len(namesOf(l.scheduler.SchedulingQueue.PodsInBackoffQ())) == 0 {
		return nil, nil
	}
	l.client.begin()
	l.turn = nil
	select {
	case <-l.popped: // left from a turn that ended before it was read
	default:
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.scheduler.ScheduleOne(l.ctx)
	}()
	select {
	case <-done:
		return l.turn, l.finish()
	case <-l.popped:
	case <-time.After(patience / 10): // pods that back off after an error are not popped early
		l.Close()
		<-done
		return nil, nil
	}
	select {
	case <-done:
		return l.turn, l.finish()
	case <-time.After(patience):
		return nil, fmt.Errorf("a turn of kube-scheduler takes longer than %s", patience)
	}
}

// next records the pod or group of the turn.
func (l *Loop) next(logger klog.Logger) (framework.QueuedEntityInfo, error) {
	entity, err := l.scheduler.SchedulingQueue.Pop(logger)
	if err != nil || entity == nil {
		return entity, err
	}
	t := &Turn{}
	if _, ok := entity.(*framework.QueuedPodGroupInfo); ok {
		t.Group = entity.GetNamespace() + "/" + entity.GetName()
	}
	entity.ForEachPodInfo(func(p *framework.QueuedPodInfo) bool {
		t.Members = append(t.Members, Member{Pod: p.Pod, Nominated: p.Pod.Status.NominatedNodeName})
		return true
	})
	l.turn = t
	l.popped <- struct{}{}
	return entity, nil
}

// member returns the pod's part of the turn, or nil.
func (l *Loop) member(pod types.UID) *Member {
	if l.turn == nil {
		return nil
	}
	for i := range l.turn.Members {
		if l.turn.Members[i].Pod.UID == pod {
			return &l.turn.Members[i]
		}
	}
	return nil
}

// inOrderOfNames tries domain placements in a known order, and chooses between equally
// good ones.
type inOrderOfNames struct {
	framework.Framework
	choose func(group string, best []string) string
}

// RunPlacementGeneratePlugins returns the domain placements by name.
func (f inOrderOfNames) RunPlacementGeneratePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, nodes []fwk.NodeInfo) ([]*fwk.Placement, *fwk.Status) {
	placements, status := f.Framework.RunPlacementGeneratePlugins(ctx, state, group, nodes)
	slices.SortFunc(placements, func(a, b *fwk.Placement) int { return strings.Compare(a.Name, b.Name) })
	return placements, status
}

// RunPlacementScorePlugins makes the chosen one of the best placements win.
func (f inOrderOfNames) RunPlacementScorePlugins(ctx context.Context, state fwk.PodGroupCycleState, group fwk.PodGroupInfo, placements []*fwk.PodGroupAssignments, states []fwk.PlacementCycleState) ([]fwk.PlacementPluginScores, *fwk.Status) {
	scores, status := f.Framework.RunPlacementScorePlugins(ctx, state, group, placements, states)
	var best []string
	var highest int64
	for i := range scores {
		switch s := &scores[i]; {
		case len(best) == 0 || s.TotalScore > highest:
			best, highest = []string{s.Placement.Name}, s.TotalScore
		case s.TotalScore == highest:
			best = append(best, s.Placement.Name)
		}
	}
	if len(best) > 1 {
		slices.Sort(best)
		chosen := f.choose(group.GetNamespace()+"/"+group.GetName(), best)
		scores[slices.IndexFunc(scores, func(s fwk.PlacementPluginScores) bool { return s.Placement.Name == chosen })].TotalScore++
	}
	return scores, status
}

// settle finds all nodes that are as good as the found one, and takes the chosen one.
func (l *Loop) settle(f framework.Framework, pod *v1.Pod, state fwk.CycleState, found *scheduler.ScheduleResult) error {
	nodes, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return fmt.Errorf("list the nodes of kube-scheduler's snapshot: %w", err)
	}
	nodes = slices.SortedFunc(slices.Values(within(f.SnapshotSharedLister(), nodes)), func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	p := &profile{Framework: f, weights: map[string]int64{}}
	for _, s := range f.ListPlugins().Score.Enabled {
		p.weights[s.Name] = int64(s.Weight)
	}
	c := &cycle{
		Scheduler: &Scheduler{ctx: l.ctx, logger: silent}, profile: p, pod: pod, state: state, nodes: nodes, verdict: &Verdict{}, rejected: map[int]fwk.NodeInfo{},
	}
	c.run()
	v := c.verdict
	switch {
	case v.Err != nil:
		return v.Err
	case !slices.Contains(v.Best, found.SuggestedHost) || v.Feasible != found.FeasibleNodes && found.FeasibleNodes > 1:
		return fmt.Errorf("kube-scheduler takes node %s of %d for pod %s/%s; the best of %d are %v", found.SuggestedHost, found.FeasibleNodes, pod.Namespace, pod.Name, v.Feasible, v.Best)
	}
	found.SuggestedHost = l.choose(pod, v.Best)
	if m := l.member(pod.UID); m != nil {
		if m.chosen == nil {
			m.chosen = map[string]*Verdict{}
		}
		// a pod is tried in several domain placements, and one is taken
		m.chosen[found.SuggestedHost] = v
	}
	return nil
}

// within returns the nodes in the present domain placement, or all nodes.
func within(lister any, nodes []fwk.NodeInfo) []fwk.NodeInfo {
	snapshot, ok := lister.(interface{ GetPlacement() *fwk.Placement })
	if !ok || snapshot.GetPlacement() == nil {
		return nodes
	}
	return snapshot.GetPlacement().Nodes
}

// failed records the change of the nomination of a pod that is not bound, in a turn or
// after it.
func (l *Loop) failed(pod types.UID, nominating *fwk.NominatingInfo) {
	defer l.client.change(func() { l.client.ended[pod] = true })
	if m := l.member(pod); m != nil && nominating != nil && nominating.Mode() == fwk.ModeOverride {
		m.Nominated = nominating.NominatedNodeName
	}
}

// finish adds the writes to the turn, and waits for its bindings.
func (l *Loop) finish() error {
	if l.turn == nil {
		return nil
	}
	for i := range l.turn.Members {
		m := &l.turn.Members[i]
		assumed, err := l.scheduler.Cache.IsAssumedPod(m.Pod)
		if err != nil {
			return fmt.Errorf("look for pod %s/%s in kube-scheduler's cache: %w", m.Pod.Namespace, m.Pod.Name, err)
		}
		if assumed && !l.client.await(func() bool { return l.client.bindings[m.Pod.UID] != nil }) {
			return fmt.Errorf("kube-scheduler has not sent the binding of pod %s/%s for %s", m.Pod.Namespace, m.Pod.Name, patience)
		}
	}
	l.client.mu.Lock()
	defer l.client.mu.Unlock()
	for i := range l.turn.Members {
		m := &l.turn.Members[i]
		of := m.Pod.Namespace + "/" + m.Pod.Name
		if b := l.client.bindings[m.Pod.UID]; b != nil {
			m.NodeName, m.Verdict = b.nodeName, m.chosen[b.nodeName]
			continue
		}
		m.Notes = l.client.notes[of]
		patched, err := patchedBy(l.stored(m.Pod).(*v1.Pod), l.client.patches[of])
		if err != nil {
			return err
		}
		for j := range patched.Status.Conditions {
			if patched.Status.Conditions[j].Type == v1.PodScheduled {
				m.Condition = &patched.Status.Conditions[j]
			}
		}
	}
	for of, patches := range l.client.groups {
		namespace, name, _ := strings.Cut(of, "/")
		group := l.stored(&schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}).(*schedulingv1beta1.PodGroup)
		patched, err := patchedBy(group, patches)
		if err != nil {
			return err
		}
		if l.turn.Conditions == nil {
			l.turn.Conditions = map[string]*metav1.Condition{}
		}
		l.turn.Conditions[of] = meta.FindStatusCondition(patched.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
	}
	l.turn.Evicted, l.turn.Claims = slices.Sorted(slices.Values(l.client.evicted)), l.client.claims
	l.turn.Freed = slices.Compact(slices.Sorted(slices.Values(l.client.freed)))
	return l.client.refused
}

// claim returns the last delivered version of a claim, or nil.
func (l *Loop) claim(namespace, of string) *resourcev1.ResourceClaim {
	known, ok, err := l.informers[reflect.TypeOf(&resourcev1.ResourceClaim{})].GetStore().GetByKey(namespace + "/" + of)
	if err != nil || !ok {
		return nil
	}
	return known.(*resourcev1.ResourceClaim)
}

// stored returns the last delivered version of an object, or the object itself if it is
// gone.
func (l *Loop) stored(object runtime.Object) runtime.Object {
	if known, ok, err := l.informers[reflect.TypeOf(object)].GetStore().Get(object); err == nil && ok {
		return known.(runtime.Object)
	}
	return object
}

// patchedBy applies strategic merge patches to a copy.
func patchedBy[T any](object *T, patches [][]byte) (*T, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("write down a %T: %w", object, err)
	}
	for _, patch := range patches {
		if text, err = strategicpatch.StrategicMergePatch(text, patch, object); err != nil {
			return nil, fmt.Errorf("apply kube-scheduler's patch %s: %w", patch, err)
		}
	}
	patched := new(T)
	if err := json.Unmarshal(text, patched); err != nil {
		return nil, fmt.Errorf("read a patched %T: %w", object, err)
	}
	return patched, nil
}
