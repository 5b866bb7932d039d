package podtopologyspread_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/state"
)

// The tables are written with these builders, so that a row fits on a line.

const (
	zone = v1.LabelTopologyZone
	host = v1.LabelHostname
)

// labelsOf reads "app=x tier=y".
func labelsOf(s string) map[string]string {
	set := map[string]string{}
	for _, field := range strings.Fields(s) {
		key, value, _ := strings.Cut(field, "=")
		set[key] = value
	}
	return set
}

type nodePart func(*v1.Node)

// zoned reads "a=z1 b=": node a in zone z1, node b without a zone. Each has its name as host name, and room for many pods.
func zoned(s string) []*v1.Node {
	var all []*v1.Node
	for _, field := range strings.Fields(s) {
		name, value, _ := strings.Cut(field, "=")
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{host: name}}}
		if value != "" {
			n.Labels[zone] = value
		}
		n.Status.Allocatable = v1.ResourceList{v1.ResourcePods: resource.MustParse("5000")}
		all = append(all, n)
	}
	return all
}

// with gives one of the nodes more labels, taints and the like.
func with(all []*v1.Node, name string, parts ...nodePart) []*v1.Node {
	for _, n := range all {
		for _, part := range parts {
			if n.Name == name {
				part(n)
			}
		}
	}
	return all
}

// also reads labels that come on top: "rack=r1".
func also(s string) nodePart {
	return func(n *v1.Node) {
		for key, value := range labelsOf(s) {
			n.Labels[key] = value
		}
	}
}

func without(key string) nodePart { return func(n *v1.Node) { delete(n.Labels, key) } }

func tainted(n *v1.Node) {
	n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "a", Value: "b", Effect: v1.TaintEffectNoSchedule})
}

func cordoned(n *v1.Node) { n.Spec.Unschedulable = true }

type podPart func(*v1.Pod)

func pod(parts ...podPart) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}, Spec: v1.PodSpec{SchedulerName: "default-scheduler"}}
	for _, part := range parts {
		part(p)
	}
	return p
}

// fill reads "a=2 b=1": so many such pods on each node.
func fill(s string, parts ...podPart) []*v1.Pod {
	var all []*v1.Pod
	for _, field := range strings.Fields(s) {
		name, count, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			panic(err)
		}
		for range n {
			all = append(all, pod(append(slices.Clone(parts), on(name))...))
		}
	}
	return all
}

func on(node string) podPart { return func(p *v1.Pod) { p.Spec.NodeName = node } }

func nominated(node string) podPart { return func(p *v1.Pod) { p.Status.NominatedNodeName = node } }

func wearing(s string) podPart { return func(p *v1.Pod) { p.Labels = labelsOf(s) } }

func in(namespace string) podPart { return func(p *v1.Pod) { p.Namespace = namespace } }

func ending(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{} }

func nodeSelector(s string) podPart { return func(p *v1.Pod) { p.Spec.NodeSelector = labelsOf(s) } }

func tolerating(keys ...string) podPart {
	return func(p *v1.Pod) {
		for _, key := range keys {
			p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
		}
	}
}

func ownedBy(apiVersion, kind, name string) podPart {
	return func(p *v1.Pod) {
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, Controller: &yes}}
	}
}

// choose reads "absent", "everything", labels ("app=x tier=y"), or one requirement ("app In x,y").
func choose(s string) *metav1.LabelSelector {
	switch {
	case s == "absent":
		return nil
	case s == "everything":
		return &metav1.LabelSelector{}
	case strings.Contains(s, "="):
		return &metav1.LabelSelector{MatchLabels: labelsOf(s)}
	}
	words := strings.Fields(s)
	r := metav1.LabelSelectorRequirement{Key: words[0], Operator: metav1.LabelSelectorOperator(words[1])}
	if len(words) > 2 {
		r.Values = strings.Split(words[2], ",")
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{r}}
}

type constraintPart func(*v1.TopologySpreadConstraint)

// hard adds a DoNotSchedule constraint with maxSkew 1, unless the parts say otherwise.
func hard(key, selector string, parts ...constraintPart) podPart {
	return spread(v1.DoNotSchedule, key, selector, parts)
}

func soft(key, selector string, parts ...constraintPart) podPart {
	return spread(v1.ScheduleAnyway, key, selector, parts)
}

func spread(action v1.UnsatisfiableConstraintAction, key, selector string, parts []constraintPart) podPart {
	c := constraint(action, key, parts...)
	c.LabelSelector = choose(selector)
	return func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, c) }
}

func constraint(action v1.UnsatisfiableConstraintAction, key string, parts ...constraintPart) v1.TopologySpreadConstraint {
	c := v1.TopologySpreadConstraint{TopologyKey: key, WhenUnsatisfiable: action, MaxSkew: 1}
	for _, part := range parts {
		part(&c)
	}
	return c
}

func skew(most int32) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.MaxSkew = most }
}

func domains(least int32) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &least }
}

func affinityPolicy(policy v1.NodeInclusionPolicy) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.NodeAffinityPolicy = &policy }
}

func taintsPolicy(policy v1.NodeInclusionPolicy) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.NodeTaintsPolicy = &policy }
}

func matchKeys(keys ...string) constraintPart {
	return func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

// service is in the default namespace.
func service(name, selector string) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: v1.ServiceSpec{Selector: labelsOf(selector)}}
}

// serving is a cluster with the service app=x.
func serving(nodes []*v1.Node, pods []*v1.Pod) oracle.Cluster {
	return oracle.Cluster{Nodes: nodes, Pods: pods, Services: []*v1.Service{service("x", "app=x")}}
}

// listed is a profile with default constraints.
func listed(constraints ...v1.TopologySpreadConstraint) oracle.Profile {
	p := spreadAlone()
	p.Spread = configv1.PodTopologySpreadArgs{DefaultingType: configv1.ListDefaulting, DefaultConstraints: constraints}
	return p
}

// spreadAlone is the default profile without InterPodAffinity.
func spreadAlone() oracle.Profile {
	return oracle.Profile{Disabled: map[string]bool{"InterPodAffinity": true}}
}

// bench is an engine with the plugin, and the cluster that it decides about.
type bench struct {
	state   *state.State
	engine  *engine.Engine
	profile *engine.Profile
}

func newBench(t testing.TB, c oracle.Cluster, profile oracle.Profile) *bench {
	t.Helper()
	b := &bench{state: state.New(), profile: enginetest.Profile(t, profile)}
	var err error
	if b.engine, err = engine.New(engine.Config{Profiles: []*engine.Profile{b.profile}, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for i, p := range c.Pods {
		p.Name = fmt.Sprintf("pod-%d", i)
	}
	b.state.Apply(enginetest.Changes(c))
	return b
}

func (b *bench) compile(p *v1.Pod) *model.Pod {
	compiled := model.NewPod(p)
	b.profile.Compile(compiled)
	return compiled
}

// answer is the engine's, by node name.
func (b *bench) answer(t testing.TB, p *v1.Pod) plan.Answer {
	t.Helper()
	a, err := b.engine.Answer(b.state, b.compile(p))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inShort is what happened to each node, in a word each.
func inShort(a plan.Answer) string {
	var words []string
	for _, n := range a.Nodes {
		word := "fits"
		if len(n.Rejections) > 0 {
			text := fmt.Sprintf("%s %s", n.Rejections[0].StatusCode(), n.Rejections[0].Message())
			word = map[string]string{
				"Unschedulable node(s) didn't match pod topology spread constraints":                                         "skew",
				"UnschedulableAndUnresolvable node(s) didn't match pod topology spread constraints (missing required label)": "label",
				"UnschedulableAndUnresolvable node(s) had untolerated taint(s)":                                              "taint",
				"UnschedulableAndUnresolvable node(s) didn't match Pod's node affinity/selector":                             "selector",
			}[text]
			if word == "" {
				word = text
			}
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// marks are the plugin's scores of the feasible nodes, or "skip".
func marks(a plan.Answer) string {
	var all []string
	for _, n := range a.Nodes {
		for _, s := range n.Scores {
			if s.Plugin == podtopologyspread.Name {
				all = append(all, fmt.Sprint(s.Score))
			}
		}
	}
	if all == nil {
		return "skip"
	}
	return strings.Join(all, " ")
}
