package advice_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/proof/explaintest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// adviceSeeds is the number of clusters in TestAdvice.
var adviceSeeds = flag.Uint64("advice-seeds", 400, "how many random clusters TestAdvice makes")

// TestAdvice compares suggestions in random clusters with the oracle. With each suggested
// change the pod must get the named node. Smaller changes of the kinds in checkNoLesser
// must not help, unless they are suggested.
func TestAdvice(t *testing.T) {
	found := map[advice.Kind]int{}
	for seed := range *adviceSeeds {
		r := random.New(seed)
		size := random.Size{Nodes: 1 + r.IntN(6), Placed: r.IntN(13), Pending: 4}
		var c oracle.Cluster
		switch seed % 4 {
		case 0:
			c = random.Cluster(r, size)
		case 1:
			c = random.TopologyCluster(r, size)
		case 2:
			c = random.StorageCluster(r, size)
		default:
			c = random.PreemptionCluster(r, size)
		}
		s := explaintest.Snapshot(t, c.Nodes, c.Pods, c.Others()...)
		before := explaintest.Answers(t, s)
		for _, pod := range s.Pending() {
			a, err := s.Of(pod)
			if err != nil {
				t.Fatal(err)
			}
			s.Advise(a, 0)
			if a.Advice == nil {
				continue
			}
			x := &exam{t: t, name: fmt.Sprintf("seed %d, %s", seed, pod), c: c, pod: pod.Object, advice: a.Advice}
			for i := range a.Advice.Suggestions {
				x.checkSuggestion(&a.Advice.Suggestions[i])
				found[a.Advice.Suggestions[i].Changes[0].Kind]++
				if len(a.Advice.Suggestions[i].Changes) > 1 {
					found["pair"]++
				}
			}
			if !a.Advice.CutShort {
				x.checkNoLesser(a)
			}
		}
		for name, after := range explaintest.Answers(t, s) {
			if after != before[name] {
				t.Errorf("seed %d: the search has changed what is said about %s from\n%s\nto\n%s", seed, name, before[name], after)
			}
		}
	}
	for _, kind := range []advice.Kind{advice.Selector, advice.Tolerate, advice.Request, advice.Skew, advice.Uncordon, advice.Label, advice.Widen, advice.DropSelector, advice.DropAffinity,
		advice.DropAntiAffinity, advice.DropPort, advice.Remove, advice.AddNode, advice.Priority, advice.Claim, "pair"} {
		if found[kind] == 0 {
			t.Errorf("nothing of kind %s was suggested: the test says nothing about it", kind)
		}
	}
	t.Log(found)
}

// exam checks the advice for one pod.
type exam struct {
	t      *testing.T
	name   string
	c      oracle.Cluster
	pod    *v1.Pod
	advice *advice.Advice
}

// fits reports the oracle's result for a version of the pod in a cluster.
func (x *exam) fits(c oracle.Cluster, pod *v1.Pod) (oracle.Judgment, bool) {
	c.Pods = slices.Clone(c.Pods)
	for i := range c.Pods {
		if c.Pods[i].Namespace == pod.Namespace && c.Pods[i].Name == pod.Name {
			c.Pods[i] = pod
		}
	}
	j := oracle.Judge(c, pod, oracle.DefaultProfile())
	return j, j.Err == nil && j.Feasible > 0
}

// with reports whether the oracle finds a node for an edited pod.
func (x *exam) with(edit func(*v1.Pod)) bool {
	pod := x.pod.DeepCopy()
	edit(pod)
	_, ok := x.fits(x.c, pod)
	return ok
}

func (x *exam) checkSuggestion(s *advice.Suggestion) {
	if len(s.Changes) == 2 {
		x.checkPair(s)
	}
	pod, c := x.after(s)
	if s.Changes[0].Kind == advice.Priority {
		j, ok := x.fits(c, pod)
		if ok || j.Preemption == nil {
			x.t.Errorf("%s: %s: the pod preempts nobody: %+v", x.name, s.Changes[0].Text, j)
		}
		for _, name := range s.Changes[0].Pods {
			namespace, name, _ := strings.Cut(name, "/")
			c = without(c, namespace, name)
		}
		// Terminating pods are deleted before the others.
		c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *v1.Pod) bool { return p.Spec.NodeName == s.Node && p.DeletionTimestamp != nil })
	}
	x.checkBudgets(&s.Changes[0])
	j, ok := x.fits(c, pod)
	if !ok || len(j.Best) > 0 && !slices.Contains(j.Best, s.Node) {
		x.t.Errorf("%s: %s: suggested with node %s; the oracle has %d feasible nodes, the best %v: %s %v", x.name, texts(s), s.Node, j.Feasible, j.Best, j.Message, j.Err)
	}
}

// checkBudgets expects that no PodDisruptionBudget protects a pod to remove.
func (x *exam) checkBudgets(change *advice.Change) {
	for _, b := range x.c.DisruptionBudgets {
		if b.Status.ObservedGeneration == 0 && b.Status.DisruptionsAllowed == 0 {
			continue // The status of this budget is computed first.
		}
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		disrupted := int32(0)
		for _, p := range x.c.Pods {
			if _, already := b.Status.DisruptedPods[p.Name]; !already && p.Namespace == b.Namespace && slices.Contains(change.Pods, nameOf(p)) && selector.Matches(labels.Set(p.Labels)) {
				disrupted++
			}
		}
		if disrupted > max(0, b.Status.DisruptionsAllowed) {
			x.t.Errorf("%s: %s: PodDisruptionBudget %s allows %d", x.name, change.Text, b.Name, b.Status.DisruptionsAllowed)
		}
	}
}

// checkPair expects that neither change of a pair helps alone, and that neither is larger
// than necessary beside the other.
func (x *exam) checkPair(s *advice.Suggestion) {
	for i := range s.Changes {
		change, rest := &s.Changes[i], advice.Suggestion{Changes: s.Changes[1-i : 2-i]}
		pod, c := x.after(&rest)
		if _, ok := x.fits(c, pod); ok {
			x.t.Errorf("%s: %s: %s is enough", x.name, texts(s), texts(&rest))
		}
		switch change.Kind {
		case advice.Request:
			name := v1.ResourceName(change.Resource)
			from, to := amountOf(name, resource.MustParse(change.From)), amountOf(name, resource.MustParse(change.To))
			if request(pod, name, to+1); to+1 < from {
				if _, ok := x.fits(c, pod); ok {
					x.t.Errorf("%s: %s: it fits with a larger request for %s", x.name, texts(s), name)
				}
			}
		case advice.Skew:
			to, _ := strconv.Atoi(change.To)
			whole, _ := x.after(s)
			for j := range whole.Spec.TopologySpreadConstraints {
				if skew := &pod.Spec.TopologySpreadConstraints[j].MaxSkew; *skew != whole.Spec.TopologySpreadConstraints[j].MaxSkew {
					*skew = int32(to) - 1
				}
			}
			if _, ok := x.fits(c, pod); ok {
				x.t.Errorf("%s: %s: it fits with a smaller maxSkew", x.name, texts(s))
			}
		}
	}
}

// after returns the pod and the cluster after a suggestion.
func (x *exam) after(s *advice.Suggestion) (*v1.Pod, oracle.Cluster) {
	pod, set, gone := s.Apply(x.pod)
	c := x.c
	for _, o := range set {
		c = put(c, o)
	}
	for _, o := range gone {
		c = without(c, o.GetNamespace(), o.GetName())
	}
	return pod, c
}

func texts(s *advice.Suggestion) string {
	var all []string
	for i := range s.Changes {
		all = append(all, s.Changes[i].Text)
	}
	return strings.Join(all, ", and ")
}

// put returns the cluster with a new or replaced object.
func put(c oracle.Cluster, object kinds.Object) oracle.Cluster {
	switch o := object.(type) {
	case *v1.Node:
		c.Nodes = replaced(c.Nodes, o)
	case *storagev1.CSINode:
		c.CSINodes = replaced(c.CSINodes, o)
	case *v1.PersistentVolumeClaim:
		c.PersistentVolumeClaims = replaced(c.PersistentVolumeClaims, o)
	case *v1.PersistentVolume:
		c.PersistentVolumes = replaced(c.PersistentVolumes, o)
	case *storagev1.StorageClass:
		c.StorageClasses = replaced(c.StorageClasses, o)
	default:
		panic(fmt.Sprintf("%T", object))
	}
	return c
}

func replaced[T kinds.Object](all []T, o T) []T {
	all = slices.DeleteFunc(slices.Clone(all), func(was T) bool { return was.GetName() == o.GetName() && was.GetNamespace() == o.GetNamespace() })
	return append(all, o)
}

// without returns the cluster without a pod.
func without(c oracle.Cluster, namespace, name string) oracle.Cluster {
	c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *v1.Pod) bool { return p.Namespace == namespace && p.Name == name })
	return c
}

// of returns the single suggestions of some kinds.
func (x *exam) of(kinds ...advice.Kind) (all []advice.Change) {
	for i := range x.advice.Suggestions {
		if s := &x.advice.Suggestions[i]; len(s.Changes) == 1 && slices.Contains(kinds, s.Changes[0].Kind) {
			all = append(all, s.Changes[0])
		}
	}
	return all
}

// checkNoLesser expects a suggestion if one of these single changes helps: lower a
// request, replace or drop a node selector, label, uncordon, empty or add a node,
// tolerate a taint, or drop a spread constraint or an affinity term. No smaller change of
// a request or a maxSkew may help.
func (x *exam) checkNoLesser(a *explain.Explanation) {
	expect := func(helps bool, what string, kinds ...advice.Kind) {
		if helps != (len(x.of(kinds...)) > 0) {
			x.t.Errorf("%s: to %s helps: %t; suggested: %+v", x.name, what, helps, x.of(kinds...))
		}
	}
	x.checkRequests()
	x.checkSelectors()
	x.checkLabels()
	helps := false
	for _, node := range x.c.Nodes {
		for _, taint := range node.Spec.Taints {
			if taint.Effect != v1.TaintEffectPreferNoSchedule && !strings.Contains(taint.Key, "kubernetes.io/") {
				helps = helps || x.with(func(p *v1.Pod) {
					p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
				})
			}
		}
	}
	expect(helps, "tolerate a taint", advice.Tolerate)

	helps = false
	for i := range x.pod.Spec.TopologySpreadConstraints {
		if x.pod.Spec.TopologySpreadConstraints[i].WhenUnsatisfiable == v1.DoNotSchedule {
			helps = helps || x.with(func(p *v1.Pod) {
				p.Spec.TopologySpreadConstraints = slices.Delete(p.Spec.TopologySpreadConstraints, i, i+1)
			})
		}
	}
	expect(helps, "drop a spread constraint", advice.Skew, advice.DropSpread)
	for _, change := range x.of(advice.Skew) {
		x.checkSkew(change)
	}

	helps = false
	for key := range x.pod.Spec.NodeSelector {
		helps = helps || x.with(func(p *v1.Pod) { delete(p.Spec.NodeSelector, key) })
	}
	if len(x.pod.Spec.NodeSelector) > 0 && x.pod.Spec.Affinity == nil {
		expect(helps, "drop a node selector", advice.DropSelector)
	}
	if affinity := x.pod.Spec.Affinity; affinity != nil && affinity.PodAffinity != nil {
		helps = false
		for i := range affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			helps = helps || x.with(func(p *v1.Pod) {
				terms := &p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				*terms = slices.Delete(*terms, i, i+1)
			})
		}
		expect(helps, "drop a term of affinity", advice.DropAffinity)
	}
	if affinity := x.pod.Spec.Affinity; affinity != nil && affinity.PodAntiAffinity != nil {
		helps = false
		for i := range affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
			helps = helps || x.with(func(p *v1.Pod) {
				terms := &p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
				*terms = slices.Delete(*terms, i, i+1)
			})
		}
		expect(helps, "drop a term of anti-affinity", advice.DropAntiAffinity)
	}

	uncordoned, copied, emptied := false, false, false
	for _, node := range x.c.Nodes {
		if node.Spec.Unschedulable {
			after := node.DeepCopy()
			after.Spec.Unschedulable = false
			after.Spec.Taints = slices.DeleteFunc(after.Spec.Taints, func(taint v1.Taint) bool { return taint.Key == v1.TaintNodeUnschedulable })
			_, ok := x.fits(put(x.c, after), x.pod)
			uncordoned = uncordoned || ok
		}
		_, ok := x.fits(x.withCopyOf(node), x.pod)
		copied = copied || ok
		c := x.c
		c.Pods = slices.DeleteFunc(slices.Clone(c.Pods), func(p *v1.Pod) bool { return p.Spec.NodeName == node.Name })
		j, _ := x.fits(c, x.pod)
		for i := range j.Nodes {
			emptied = emptied || j.Nodes[i].Node == node.Name && j.Nodes[i].Feasible
		}
	}
	expect(uncordoned, "uncordon a node", advice.Uncordon)
	expect(copied, "add a node", advice.AddNode)
	// Preemption only examines nodes that evictions may make feasible, and counts as
	// kube-scheduler does meanwhile. Everything else that helps is found by other
	// changes.
	if emptied && len(x.c.DisruptionBudgets) == 0 && a.Preemption == nil && x.pod.Status.NominatedNodeName == "" && x.onlyUsage() && len(x.of(advice.Remove)) == 0 {
		x.t.Errorf("%s: to empty a node helps, and no pods are named: %+v", x.name, x.advice.Suggestions)
	}
}

// checkSelectors expects a replacement of a node selector's value if another existing
// value helps, and none by a value further away.
func (x *exam) checkSelectors() {
	helps := false
	for key, value := range x.pod.Spec.NodeSelector {
		for _, node := range x.c.Nodes {
			other, ok := node.Labels[key]
			helps = helps || ok && other != value && x.with(func(p *v1.Pod) { p.Spec.NodeSelector[key] = other })
		}
	}
	if helps && len(x.of(advice.Selector, advice.Widen)) == 0 {
		x.t.Errorf("%s: another value of the node selector %v helps, and none is suggested", x.name, x.pod.Spec.NodeSelector)
	}
}

// checkLabels expects, for a pod with a node selector and no affinity, labels for a node
// if they help, and only labels that differ.
func (x *exam) checkLabels() {
	if x.pod.Spec.Affinity != nil {
		return
	}
	helps := false
	for _, node := range x.c.Nodes {
		after := node.DeepCopy()
		given := false
		for key, value := range x.pod.Spec.NodeSelector {
			if after.Labels[key] != value {
				given = given || strings.Contains(key, "kubernetes.io/")
				metav1.SetMetaDataLabel(&after.ObjectMeta, key, value)
			}
		}
		if !given {
			_, ok := x.fits(put(x.c, after), x.pod)
			helps = helps || ok
		}
	}
	if helps != (len(x.of(advice.Label)) > 0) {
		x.t.Errorf("%s: to label a node as %v helps: %t; suggested: %+v", x.name, x.pod.Spec.NodeSelector, helps, x.of(advice.Label))
	}
}

// onlyUsage reports whether other pods matter only by the resources that they occupy.
func (x *exam) onlyUsage() bool {
	related := func(p *v1.Pod) bool {
		return len(p.Spec.TopologySpreadConstraints) > 0 || len(p.Spec.Volumes) > 0 || p.Spec.Affinity != nil && (p.Spec.Affinity.PodAffinity != nil || p.Spec.Affinity.PodAntiAffinity != nil)
	}
	return !related(x.pod) && !slices.ContainsFunc(x.c.Pods, related)
}

// withCopyOf returns the cluster with a copy of a node and its drivers.
func (x *exam) withCopyOf(node *v1.Node) oracle.Cluster {
	after := node.DeepCopy()
	after.Name, after.UID, after.Status.Images = "another", types.UID("another"), nil
	for key, value := range after.Labels {
		if key == v1.LabelHostname || value == node.Name {
			after.Labels[key] = after.Name
		}
	}
	c := put(x.c, after)
	for _, csi := range x.c.CSINodes {
		if csi.Name == node.Name {
			another := csi.DeepCopy()
			another.Name = after.Name
			c = put(c, another)
		}
	}
	return c
}

// checkRequests expects, for each resource, the largest request that fits.
func (x *exam) checkRequests() {
	changes := x.of(advice.Request)
	if len(changes) == 3 {
		return // More may exist than are suggested.
	}
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "example.com/gpu", "example.com/fpga", "hugepages-2Mi"} {
		at := slices.IndexFunc(changes, func(c advice.Change) bool { return c.Resource == string(name) })
		if at < 0 {
			if n := x.asking(name); n > 0 && x.withRequest(name, amountOf(name, x.pod.Spec.Overhead[name])+n*unitOf(name)) {
				x.t.Errorf("%s: with nearly no request for %s it fits, and nothing is suggested", x.name, name)
			}
			continue
		}
		to := amountOf(name, resource.MustParse(changes[at].To))
		from := amountOf(name, resource.MustParse(changes[at].From))
		if !x.withRequest(name, to) {
			x.t.Errorf("%s: %s: it does not fit with that", x.name, changes[at].Text)
		}
		if to+1 < from && x.withRequest(name, to+1) {
			x.t.Errorf("%s: %s: it fits with more", x.name, changes[at].Text)
		}
	}
}

func amountOf(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func unitOf(name v1.ResourceName) int64 {
	if name == "hugepages-2Mi" {
		return 2 << 20
	}
	return 1
}

// asking returns the number of containers that request a resource. Each must keep a unit
// of it.
func (x *exam) asking(name v1.ResourceName) (n int64) {
	for _, list := range [][]v1.Container{x.pod.Spec.InitContainers, x.pod.Spec.Containers} {
		for i := range list {
			if q := list[i].Resources.Requests[name]; !q.IsZero() {
				n++
			}
		}
	}
	return n
}

// withRequest reports whether the oracle finds a node for the pod with another request.
func (x *exam) withRequest(name v1.ResourceName, amount int64) bool {
	return x.with(func(p *v1.Pod) { request(p, name, amount) })
}

// request moves the pod's whole request of a resource, with overhead, to the first
// container.
func request(p *v1.Pod, name v1.ResourceName, amount int64) {
	overhead := p.Spec.Overhead[name]
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if _, ok := list[i].Resources.Requests[name]; ok {
				list[i].Resources.Requests[name] = resource.Quantity{}
			}
		}
	}
	amount -= amountOf(name, overhead)
	q := *resource.NewQuantity(amount, resource.DecimalSI)
	if name == v1.ResourceCPU {
		q = *resource.NewMilliQuantity(amount, resource.DecimalSI)
	}
	if p.Spec.Resources != nil {
		if _, ok := p.Spec.Resources.Requests[name]; ok && name != v1.ResourceEphemeralStorage {
			p.Spec.Resources.Requests[name] = q
			return
		}
	}
	if p.Spec.Containers[0].Resources.Requests == nil {
		p.Spec.Containers[0].Resources.Requests = v1.ResourceList{}
	}
	p.Spec.Containers[0].Resources.Requests[name] = q
}

// checkSkew expects that a maxSkew smaller by one does not help.
func (x *exam) checkSkew(change advice.Change) {
	n, err := strconv.Atoi(change.To)
	if err != nil {
		x.t.Fatal(err)
	}
	to := int32(n)
	for i := range x.pod.Spec.TopologySpreadConstraints {
		c := &x.pod.Spec.TopologySpreadConstraints[i]
		if fmt.Sprintf("raise the maxSkew of the spread constraint on %s from %d to %d", c.TopologyKey, c.MaxSkew, to) == change.Text && to-1 > c.MaxSkew &&
			x.with(func(p *v1.Pod) { p.Spec.TopologySpreadConstraints[i].MaxSkew = to - 1 }) {
			x.t.Errorf("%s: %s: %d is enough", x.name, change.Text, to-1)
		}
	}
}

func nameOf(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
