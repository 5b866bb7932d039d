package oracle

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The tables below are written with these builders, so that a row fits on a line. Lists of resources read "cpu=500m memory=256Mi".

func list(s string) v1.ResourceList {
	l := v1.ResourceList{}
	for _, field := range strings.Fields(s) {
		name, quantity, _ := strings.Cut(field, "=")
		l[v1.ResourceName(name)] = resource.MustParse(quantity)
	}
	return l
}

type podPart func(*v1.Pod)

func pod(parts ...podPart) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
	for _, part := range parts {
		part(p)
	}
	return p
}

// run adds a container; its name is its position, counted over containers and init containers.
func run(requests string) podPart {
	return func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, container(p, requests)) }
}

func initial(requests string) podPart {
	return func(p *v1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, container(p, requests)) }
}

func sidecar(requests string) podPart {
	return func(p *v1.Pod) {
		c := container(p, requests)
		always := v1.ContainerRestartPolicyAlways
		c.RestartPolicy = &always
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
}

func container(p *v1.Pod, requests string) v1.Container {
	name := fmt.Sprint("c", len(p.Spec.Containers)+len(p.Spec.InitContainers))
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list(requests)}}
}

func overhead(requests string) podPart {
	return func(p *v1.Pod) { p.Spec.Overhead = list(requests) }
}

func podLevel(requests string) podPart {
	return func(p *v1.Pod) { p.Spec.Resources = &v1.ResourceRequirements{Requests: list(requests)} }
}

// status gives the container at that position its allocated and actual resources.
func status(position int, allocated, actual string) podPart {
	return func(p *v1.Pod) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
			Name: fmt.Sprint("c", position), AllocatedResources: list(allocated), Resources: &v1.ResourceRequirements{Requests: list(actual)},
		})
	}
}

func podStatus(allocated, actual string) podPart {
	return func(p *v1.Pod) {
		p.Status.AllocatedResources = list(allocated)
		p.Status.Resources = &v1.ResourceRequirements{Requests: list(actual)}
	}
}

func resize(reason string) podPart {
	return func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: v1.PodResizePending, Reason: reason})
	}
}

func on(nodeName string) podPart { return func(p *v1.Pod) { p.Spec.NodeName = nodeName } }

func phase(ph v1.PodPhase) podPart { return func(p *v1.Pod) { p.Status.Phase = ph } }

func tolerate(tolerations ...v1.Toleration) podPart {
	return func(p *v1.Pod) { p.Spec.Tolerations = tolerations }
}

func nodeSelector(key, value string) podPart {
	return func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{key: value} }
}

func require(terms ...v1.NodeSelectorTerm) podPart {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: terms},
		}}
	}
}

func prefer(terms ...v1.PreferredSchedulingTerm) podPart {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

// labelTerm reads "zone In a,b": expressions are parted by "; ".
func labelTerm(s string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: parseRequirements(s)}
}

func fieldTerm(s string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: parseRequirements(s)}
}

func parseRequirements(s string) []v1.NodeSelectorRequirement {
	var all []v1.NodeSelectorRequirement
	for _, one := range strings.Split(s, "; ") {
		words := strings.Fields(one)
		r := v1.NodeSelectorRequirement{Key: words[0], Operator: v1.NodeSelectorOperator(words[1])}
		if len(words) > 2 {
			r.Values = strings.Split(words[2], ",")
		}
		all = append(all, r)
	}
	return all
}

type nodePart func(*v1.Node)

// newNode is a node with room for 110 pods, unless the parts say otherwise.
func newNode(name string, parts ...nodePart) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{Allocatable: list("pods=110")}}
	for _, part := range parts {
		part(n)
	}
	return n
}

func has(allocatable string) nodePart {
	return func(n *v1.Node) {
		for name, q := range list(allocatable) {
			n.Status.Allocatable[name] = q
		}
	}
}

// labelled reads "zone=a disk=ssd".
func labelled(s string) nodePart {
	return func(n *v1.Node) {
		n.Labels = map[string]string{}
		for _, field := range strings.Fields(s) {
			key, value, _ := strings.Cut(field, "=")
			n.Labels[key] = value
		}
	}
}

// tainted reads "a=b:NoSchedule c:NoExecute".
func tainted(s string) nodePart {
	return func(n *v1.Node) {
		for _, field := range strings.Fields(s) {
			keyValue, effect, _ := strings.Cut(field, ":")
			key, value, _ := strings.Cut(keyValue, "=")
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)})
		}
	}
}

func cordoned(n *v1.Node) { n.Spec.Unschedulable = true }

func declares(features ...string) nodePart {
	return func(n *v1.Node) { n.Status.DeclaredFeatures = features }
}

// stores reads "nginx:latest=500", in Mi.
func stores(s string) nodePart {
	return func(n *v1.Node) {
		for _, field := range strings.Fields(s) {
			name, size, _ := strings.Cut(field, "=")
			q := resource.MustParse(size + "Mi")
			n.Status.Images = append(n.Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: q.Value()})
		}
	}
}

func cluster(nodes []*v1.Node, pods ...*v1.Pod) Cluster { return Cluster{Nodes: nodes, Pods: pods} }

func nodes(all ...*v1.Node) []*v1.Node { return all }

// verdict shortens a node's first rejection: "fits", "U reason, reason" or "UU reason".
func verdict(n NodeAnswer) string {
	if len(n.Rejections) == 0 {
		return "fits"
	}
	code := "U "
	if n.Rejections[0].Unresolvable {
		code = "UU "
	}
	return code + strings.Join(n.Rejections[0].Reasons, ", ")
}

// verdicts gives one per node, by node name.
func verdicts(a Answer) []string {
	var all []string
	for _, n := range a.Nodes {
		all = append(all, verdict(n))
	}
	return all
}

// scored gives what one scorer says on each feasible node, raw and normalised; nothing when it skipped.
func scored(a Answer, plugin string) (raw, normalised []int64) {
	for _, n := range a.Nodes {
		for _, s := range n.Scores {
			if s.Plugin == plugin {
				raw = append(raw, s.Raw)
				normalised = append(normalised, s.Score)
			}
		}
	}
	return raw, normalised
}

// scoreAll asks a scorer about all nodes as though all were feasible, which tables about overfull nodes need.
func scoreAll(t *testing.T, score func(*cycle) (scores, error), c Cluster, p *v1.Pod, profile Profile) []int64 {
	t.Helper()
	cy := newCycle(c, p, profile)
	cy.feasible = cy.nodes
	s, err := score(cy)
	if err != nil {
		t.Fatal(err)
	}
	return s.normalised
}
