// Package sequence checks every decision of Berth's real loop, one after another, against
// kube-scheduler.
//
// It takes a script and a seed. It returns the number of decisions, and the decisions
// that kube-scheduler would not have made. Berth runs in its own simulation. Before each
// decision, kube-scheduler receives exactly the objects that Berth's loop received, and
// its plugins run for the same pod. After it, kube-scheduler assumes Berth's placement.
// So both decide on the same state, for thousands of decisions. It owns the cluster and
// the kube-scheduler of one run, and never corrects either.
package sequence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// Result is the result of one run.
type Result struct {
	// Passed counts decisions that kube-scheduler could also have made, Failed the
	// others.
	Passed, Failed int
	// Rejected and Scored count the decisions for which kube-scheduler finds no node, and
	// those for which it scores several.
	Rejected, Scored int
	// Preempted counts the rejected pods for which kube-scheduler finds victims; with pod
	// groups, it counts turns.
	Preempted int
	// Freed counts the turns of pod groups that release claims.
	Freed       int
	Differences []compare.Difference
	// Before is the state before the first differing decision, with its pod pending, or
	// nil.
	Before *cases.Case
}

// differencesMax limits the differences to keep. After the first one, Berth's state may
// be invalid.
const differencesMax = 20

// Run plays a script with a pair of schedulers. It calls told, if set, after every
// decision with the numbers of compared decisions, created pods and all pods. Scripts
// with pod groups always run with kube-scheduler of this process.
func Run(script Script, seed uint64, pair compare.Pair, told func(decisions, created, pods int)) (Result, error) {
	if script.Groups() {
		return runGroups(script, seed, told)
	}
	play := script.draw(seed)
	scheduler, err := pair.Parse(play.config)
	if err != nil {
		return Result{}, err
	}
	cluster, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: seed, Faults: play.faults})
	if err != nil {
		return Result{}, err
	}
	theirs, err := pair.New(play.config)
	if err != nil {
		return Result{}, err
	}
	defer theirs.Close()
	c := &check{config: play.config, theirs: theirs, objects: map[model.Ref]runtime.Object{}, learned: map[model.Ref]bool{}, assumed: map[model.PodKey][]runtime.Object{}}
	err = play.run(cluster, func(r simulate.Round) error {
		if r.Decided && told != nil {
			told(c.result.Passed+c.result.Failed, min(play.created, play.pods), play.pods)
		}
		return c.round(r)
	})
	return c.result, err
}

// check checks the rounds of a loop.
type check struct {
	config  []byte
	theirs  compare.KubeScheduler
	objects map[model.Ref]runtime.Object
	learned map[model.Ref]bool // objects that Berth has learned and not been shown yet
	// assumed are kube-scheduler's assumed volumes and claims, by the pod that they are
	// reserved for.
	assumed map[model.PodKey][]runtime.Object
	result  Result
}

func (c *check) round(r simulate.Round) error {
	for i := range r.Shown {
		if err := c.show(&r.Shown[i]); err != nil {
			return err
		}
	}
	if !r.Decided {
		return nil
	}
	for i := range r.Decisions {
		if err := c.decision(&r.Decisions[i]); err != nil {
			return err
		}
	}
	return nil
}

// show delivers Berth's input to kube-scheduler.
func (c *check) show(what *simulate.Shown) error {
	switch o := what.Object.(type) {
	case *v1.Node:
		c.theirs.SetNode(o)
		return nil
	case *v1.Pod:
		return c.theirs.SetPod(o)
	case nil:
		switch {
		case what.Preempted != nil:
			for _, kept := range what.Preempted.Kept {
				c.theirs.Kept(kept.UID)
			}
			return nil
		case what.Learned != nil:
			return c.learn(what.Learned)
		case what.Written != nil:
			return nil
		case what.Bound == nil:
			return c.remove(what.Gone)
		}
		delete(c.assumed, keyOf(what.Bound.Pod.Object))
		if what.Bound.Err != nil {
			return c.theirs.Forget(what.Bound.Pod.Object)
		}
		return nil
	default:
		if ref, ok := kinds.RefOf(o); ok {
			if c.learned[ref] && isOlder(o, c.objects[ref].(kinds.Object)) {
				return nil
			}
			delete(c.learned, ref)
			c.objects[ref] = o
		}
		return c.set(o)
	}
}

// learn delivers the answer to a write, which kube-scheduler applies as Berth does: a
// newer version of an existing object. Older versions are skipped until the watch has
// caught up.
func (c *check) learn(object kinds.Object) error {
	ref, _ := kinds.RefOf(object)
	if known, ok := c.objects[ref].(kinds.Object); !ok || !isOlder(known, object) {
		return nil
	}
	c.objects[ref], c.learned[ref] = object, true
	return c.set(object)
}

// set delivers an object to kube-scheduler. A promise to a claim ends when the claim is
// seen with an allocation. kube-scheduler itself keeps the promise until PreBind has
// returned, and counts the shared part of a device twice until then.
func (c *check) set(object runtime.Object) error {
	if claim, ok := object.(*resourcev1.ResourceClaim); ok && claim.Status.Allocation != nil {
		c.theirs.Allocated(claim.UID)
	}
	return c.theirs.SetObject(object)
}

func isOlder(one, other kinds.Object) bool {
	order, err := resourceversion.CompareResourceVersion(one.GetResourceVersion(), other.GetResourceVersion())
	return err == nil && one.GetUID() == other.GetUID() && order < 0
}

func (c *check) remove(ref model.Ref) error {
	switch ref.Kind {
	case model.PodKind:
		delete(c.assumed, model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
		return c.theirs.RemovePod(ref.Namespace, ref.Name)
	case model.NodeKind:
		return c.theirs.RemoveNode(ref.Name)
	}
	gone := c.objects[ref]
	delete(c.objects, ref)
	delete(c.learned, ref)
	return c.theirs.RemoveObject(gone)
}

// decision compares the decision about one pod with kube-scheduler's verdict on the same
// pod and state.
func (c *check) decision(d *plan.Decision) error {
	pod := d.Pod
	if d.Outcome == plan.Terminating { // kube-scheduler does not try such a pod either
		c.result.Passed++
		c.result.Rejected++
		return nil
	}
	object := pod.Object
	// the API does not show the nomination yet
	if object.Status.NominatedNodeName != pod.NominatedNode {
		object = object.DeepCopy()
		object.Status.NominatedNodeName = pod.NominatedNode
	}
	verdict, err := c.theirs.Judge(object)
	if err != nil {
		return err
	}
	before := len(c.result.Differences)
	differ := func(what, theirs, ours string) {
		if theirs != ours {
			c.result.Differences = append(c.result.Differences, compare.Difference{Pod: pod.String(), What: what, KubeScheduler: theirs, Berth: ours})
		}
	}
	differ("nodes", fmt.Sprint(len(verdict.Nodes)), fmt.Sprint(nodesAsked(d, verdict)))
	if d.Outcome == plan.Placed {
		c.placement(&d.Placement, verdict, differ)
		if err := c.assume(&d.Placement, differ); err != nil {
			return err
		}
	} else {
		differ("no node", theirOutcome(verdict), ourOutcome(d))
		if d.Outcome == plan.Unschedulable && verdict.Preemption != nil {
			c.result.Differences = append(c.result.Differences, compare.PreemptionDifferences(d, pod, verdict)...)
		}
		if len(d.Writes) > 0 || verdict.Deallocated != nil {
			theirs, ours, err := c.claims().Deallocated(d, verdict)
			if err != nil {
				return err
			}
			differ("deallocated", theirs, ours)
		}
	}
	// For the next decision, before any watch shows it:
	for i := range d.Nominations {
		if err := c.nominate(&d.Nominations[i]); err != nil {
			return err
		}
	}
	for i := range d.Evictions {
		c.theirs.Evict(d.Evictions[i].Pod.Object)
	}
	switch {
	case len(verdict.Best) == 0:
		c.result.Rejected++
		if verdict.Preemption != nil && verdict.Preemption.Mode == upstream.Set {
			c.result.Preempted++
		}
	case verdict.Feasible > 1:
		c.result.Scored++
	}
	if len(c.result.Differences) == before {
		c.result.Passed++
		return nil
	}
	c.result.Failed++
	if c.result.Before == nil {
		c.result.Before = c.before(pod)
	}
	c.result.Differences = c.result.Differences[:min(differencesMax, len(c.result.Differences))]
	return nil
}

// before returns kube-scheduler's state before the decision.
func (c *check) before(pod *model.Pod) *cases.Case {
	tc := &cases.Case{Config: c.config, Cluster: oracle.Cluster{Nodes: c.theirs.Nodes()}}
	tc.Pods = append(slices.DeleteFunc(c.theirs.Placed(), func(p *v1.Pod) bool { return p.UID == pod.UID }), pod.Object)
	for _, p := range c.theirs.Nominated() {
		if p.UID != pod.UID {
			tc.Pods = append(tc.Pods, p)
		}
	}
	for _, ref := range slices.SortedFunc(maps.Keys(c.objects), compareRefs) {
		tc.Add(c.seen(c.objects[ref], keyOf(pod.Object)))
	}
	clone := tc.Clone()
	return &clone
}

func compareRefs(a, b model.Ref) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// nodesAsked returns the number of nodes that Berth filtered. A failed cycle reports
// none.
func nodesAsked(d *plan.Decision, verdict *upstream.Verdict) int {
	if verdict.Err != nil {
		return len(verdict.Nodes)
	}
	return d.Nodes
}

// nominate repeats Berth's nomination in kube-scheduler, unless the pod is on a node.
func (c *check) nominate(n *plan.Nomination) error {
	if n.Mode == plan.Keep || slices.ContainsFunc(c.theirs.Placed(), func(p *v1.Pod) bool { return p.UID == n.Pod.UID }) {
		return nil
	}
	return c.theirs.Nominate(n.Pod.Object, n.NodeName)
}

func (c *check) placement(d *plan.Placement, verdict *upstream.Verdict, differ func(what, theirs, ours string)) {
	if !slices.Contains(verdict.Best, d.NodeName) {
		differ("chosen node", theirOutcome(verdict), d.NodeName)
		return
	}
	if d.Feasible == 1 && d.NodeName == d.Pod.NominatedNode {
		return // the other nodes were not filtered
	}
	differ("feasible nodes", fmt.Sprint(verdict.Feasible), fmt.Sprint(d.Feasible))
	if verdict.Feasible < 2 {
		return
	}
	at := slices.IndexFunc(verdict.Nodes, func(n upstream.Node) bool { return n.Name == d.NodeName })
	differ("total of "+d.NodeName, fmt.Sprint(verdict.Nodes[at].Total), fmt.Sprint(d.Total))
}

func theirOutcome(v *upstream.Verdict) string {
	switch {
	case v.Err != nil:
		return fmt.Sprintf("error %q", v.Err)
	case v.Feasible > 0:
		return fmt.Sprintf("takes one of %s", strings.Join(v.Best, ", "))
	}
	return fmt.Sprintf("%q, waits for %q", v.MessageBefore, v.Plugins)
}

func ourOutcome(d *plan.Decision) string {
	if d.Outcome != plan.Unschedulable {
		return fmt.Sprintf("error %q", report.Message(d))
	}
	return fmt.Sprintf("%q, waits for %q", d.Rejection.Text(d.Nodes), d.Rejection.Plugins)
}
