package interpodaffinity_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/engine"
	"github.com/berth-scheduler/berth/internal/engine/enginetest"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/oracle"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/state"
)

var (
	_ engine.LayerFilterer = (*interpodaffinity.Plugin)(nil)
	_ engine.SetScorer     = (*interpodaffinity.Plugin)(nil)
	_ engine.Waker         = (*interpodaffinity.Plugin)(nil)
)

// Short names of topology keys.
const (
	zone = v1.LabelTopologyZone
	host = v1.LabelHostname
)

func plugin(t testing.TB, args *configv1.InterPodAffinityArgs) *interpodaffinity.Plugin {
	t.Helper()
	p, err := interpodaffinity.New(args)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// profiles returns the oracle's default profile with these arguments and without PodTopologySpread, and the engine's that means the same.
func profiles(t testing.TB, args configv1.InterPodAffinityArgs) (oracle.Profile, *engine.Profile) {
	o := oracle.Profile{PodAffinity: args, Disabled: map[string]bool{"PodTopologySpread": true}}
	return o, enginetest.Profile(t, o)
}

// zoned makes nodes from a text such as "n1=z1 n2=": n1 in zone z1, n2 without a zone. Each has its own host name.
func zoned(text string) []*v1.Node {
	var nodes []*v1.Node
	for _, field := range strings.Fields(text) {
		name, in, _ := strings.Cut(field, "=")
		nodes = append(nodes, newNode(name, in))
	}
	return nodes
}

func newNode(name, in string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{host: "host-of-" + name}}}
	if in != "" {
		n.Labels[zone] = in
	}
	n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("64"), v1.ResourceMemory: resource.MustParse("256Gi"), v1.ResourcePods: resource.MustParse("110")}
	return n
}

func cordoned(nodes []*v1.Node, name string) []*v1.Node {
	for _, n := range nodes {
		n.Spec.Unschedulable = n.Spec.Unschedulable || n.Name == name
	}
	return nodes
}

type part func(*v1.Pod)

// pod makes a pending pod in the namespace default.
func pod(parts ...part) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pending", UID: "pending"}}
	p.Spec.SchedulerName = "default-scheduler"
	p.Spec.Containers = []v1.Container{{Name: "c", Image: "registry.example/c:1"}}
	for _, change := range parts {
		change(p)
	}
	return p
}

// fill places equal pods: "n1=2 n3=1" means two on n1 and one on n3.
func fill(text string, parts ...part) []*v1.Pod {
	var pods []*v1.Pod
	for _, field := range strings.Fields(text) {
		var count int
		name, number, _ := strings.Cut(field, "=")
		fmt.Sscan(number, &count)
		for range count {
			p := pod(parts...)
			p.Spec.NodeName = name
			pods = append(pods, p)
		}
	}
	return pods
}

func in(namespace string) part { return func(p *v1.Pod) { p.Namespace = namespace } }
func on(node string) part      { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func ending(p *v1.Pod)         { p.DeletionTimestamp = &metav1.Time{} }

// wearing gives labels, such as "app=db tier=c".
func wearing(text string) part { return func(p *v1.Pod) { p.Labels = labelsOf(text) } }

func labelsOf(text string) map[string]string {
	var labels map[string]string
	for _, field := range strings.Fields(text) {
		if labels == nil {
			labels = map[string]string{}
		}
		key, value, _ := strings.Cut(field, "=")
		labels[key] = value
	}
	return labels
}

func affinity(p *v1.Pod) *v1.PodAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.PodAffinity == nil {
		p.Spec.Affinity.PodAffinity = &v1.PodAffinity{}
	}
	return p.Spec.Affinity.PodAffinity
}

func antiAffinity(p *v1.Pod) *v1.PodAntiAffinity {
	if p.Spec.Affinity == nil {
		p.Spec.Affinity = &v1.Affinity{}
	}
	if p.Spec.Affinity.PodAntiAffinity == nil {
		p.Spec.Affinity.PodAntiAffinity = &v1.PodAntiAffinity{}
	}
	return p.Spec.Affinity.PodAntiAffinity
}

// near and apart require, likes and dislikes prefer.
func near(terms ...v1.PodAffinityTerm) part {
	return func(p *v1.Pod) {
		to := &affinity(p).RequiredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, terms...)
	}
}

func apart(terms ...v1.PodAffinityTerm) part {
	return func(p *v1.Pod) {
		to := &antiAffinity(p).RequiredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, terms...)
	}
}

func likes(weight int32, term v1.PodAffinityTerm) part {
	return func(p *v1.Pod) {
		to := &affinity(p).PreferredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
	}
}

func dislikes(weight int32, term v1.PodAffinityTerm) part {
	return func(p *v1.Pod) {
		to := &antiAffinity(p).PreferredDuringSchedulingIgnoredDuringExecution
		*to = append(*to, v1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
	}
}

type termPart func(*v1.PodAffinityTerm)

func term(key, selector string, parts ...termPart) v1.PodAffinityTerm {
	t := v1.PodAffinityTerm{TopologyKey: key, LabelSelector: selectorOf(selector)}
	for _, change := range parts {
		change(&t)
	}
	return t
}

func inNamespaces(names ...string) termPart {
	return func(t *v1.PodAffinityTerm) { t.Namespaces = names }
}

func whereNamespace(selector string) termPart {
	return func(t *v1.PodAffinityTerm) { t.NamespaceSelector = selectorOf(selector) }
}

// selectorOf reads "absent", "everything", labels such as "app=db tier=c", or one expression such as "team NotIn x".
func selectorOf(text string) *metav1.LabelSelector {
	fields := strings.Fields(text)
	switch {
	case text == "absent":
		return nil
	case text == "everything":
		return &metav1.LabelSelector{}
	case strings.Contains(text, "="):
		return &metav1.LabelSelector{MatchLabels: labelsOf(text)}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: fields[0], Operator: metav1.LabelSelectorOperator(fields[1]), Values: fields[2:]},
	}}
}

func namespace(name, labels string) *v1.Namespace {
	return &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelsOf(labels)}}
}

// cluster gives the pods names.
func cluster(nodes []*v1.Node, pods ...*v1.Pod) oracle.Cluster {
	for i, p := range pods {
		p.Name, p.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("uid-", i))
	}
	return oracle.Cluster{Nodes: nodes, Pods: pods, Namespaces: []*v1.Namespace{namespace("default", "")}}
}

// judge asks the engine about a pod, and fails where the oracle says otherwise.
func judge(t *testing.T, row string, c oracle.Cluster, p *v1.Pod, args configv1.InterPodAffinityArgs) plan.Answer {
	t.Helper()
	o, profile := profiles(t, args)
	e, err := engine.New(engine.Config{Profiles: []*engine.Profile{profile}})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Apply(enginetest.Changes(c))
	asked := model.NewPod(p)
	profile.Compile(asked)
	if diff := enginetest.Compare(s, e, asked, oracle.Judge(c, p, o)); diff != "" {
		t.Errorf("row %s: engine (-) and oracle (+) differ:\n%s", row, diff)
	}
	answer, err := e.Answer(s, asked)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// decide asks the engine alone.
func decide(t *testing.T, c oracle.Cluster, p *v1.Pod) plan.Decision {
	t.Helper()
	_, profile := profiles(t, configv1.InterPodAffinityArgs{})
	e, err := engine.New(engine.Config{Profiles: []*engine.Profile{profile}})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Apply(enginetest.Changes(c))
	asked := model.NewPod(p)
	profile.Compile(asked)
	return e.Decide(s, plan.Work{Pod: asked})
}

func newWithWeight(weight int32) (*interpodaffinity.Plugin, error) {
	return interpodaffinity.New(&configv1.InterPodAffinityArgs{HardPodAffinityWeight: &weight})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// judgeFast asks the engine alone about all nodes.
func judgeFast(t *testing.T, c oracle.Cluster, p *v1.Pod) plan.Answer {
	t.Helper()
	_, profile := profiles(t, configv1.InterPodAffinityArgs{})
	e, err := engine.New(engine.Config{Profiles: []*engine.Profile{profile}})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	s.Apply(enginetest.Changes(c))
	asked := model.NewPod(p)
	profile.Compile(asked)
	answer, err := e.Answer(s, asked)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
