package oracle

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// Abbreviations for the tables, so that a row fits on a line.

type (
	podPart  = build.PodOption
	nodePart = build.NodeOption
)

var (
	newNode  = build.Node
	has      = build.Allocatable
	labelled = build.NodeLabels
	tainted  = build.Taints
	cordoned = build.Unschedulable

	pod          = build.Pod
	run          = build.Container
	initial      = build.InitContainer
	sidecar      = build.Sidecar
	overhead     = build.Overhead
	podLevel     = build.PodRequests
	on           = build.NodeName
	tolerate     = build.Tolerations
	nodeSelector = build.NodeSelector

	list              = build.Resources
	parseRequirements = build.Requirements
)

// status sets the allocated and actual resources of the container at that position.
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

func phase(ph v1.PodPhase) podPart { return func(p *v1.Pod) { p.Status.Phase = ph } }

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

// labelTerm reads "zone In a,b"; "; " separates expressions.
func labelTerm(s string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchExpressions: parseRequirements(s)}
}

func fieldTerm(s string) v1.NodeSelectorTerm {
	return v1.NodeSelectorTerm{MatchFields: parseRequirements(s)}
}

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
func verdict(n NodeJudgment) string {
	if len(n.Rejections) == 0 {
		return "fits"
	}
	code := "U "
	if n.Rejections[0].Unresolvable {
		code = "UU "
	}
	return code + strings.Join(n.Rejections[0].Reasons, ", ")
}

// verdicts returns the verdict on each node, by node name.
func verdicts(a Judgment) []string {
	var all []string
	for _, n := range a.Nodes {
		all = append(all, verdict(n))
	}
	return all
}

// scored returns one plugin's raw and normalised scores of the feasible nodes; nothing
// when it skipped.
func scored(a Judgment, plugin string) (raw, normalised []int64) {
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

// scoreAll runs a scorer on all nodes as though all were feasible, which tables about
// overfull nodes need.
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
