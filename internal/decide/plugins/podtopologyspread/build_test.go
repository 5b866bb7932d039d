package podtopologyspread_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/plugins/podtopologyspread"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Abbreviations for the tables, so that a row fits on a line.

const (
	zone = v1.LabelTopologyZone
	host = v1.LabelHostname
)

type (
	podPart        = build.PodOption
	constraintPart = build.ConstraintOption
)

var (
	with     = build.With
	also     = build.NodeLabels
	without  = build.WithoutLabel
	tainted  = build.Taints("a=b:NoSchedule")
	cordoned = build.Unschedulable

	pod          = build.Pod
	fill         = build.PodsOnNodes
	on           = build.NodeName
	nominated    = build.NominatedNodeName
	wearing      = build.Labels
	in           = build.InNamespace
	ending       = build.Terminating
	nodeSelector = build.NodeSelector
	ownedBy      = build.Controller

	hard           = build.DoNotSchedule
	soft           = build.ScheduleAnyway
	constraint     = build.Constraint
	skew           = build.MaxSkew
	domains        = build.MinDomains
	affinityPolicy = build.NodeAffinityPolicy
	taintsPolicy   = build.NodeTaintsPolicy
	matchKeys      = build.MatchLabelKeys

	labelsOf = build.LabelSet
	choose   = build.Selector
)

// zoned returns nodes with space for many pods.
func zoned(text string) []*v1.Node { return build.NodesInZones(text, build.Allocatable("pods=5000")) }

func tolerating(keys ...string) podPart {
	var all []v1.Toleration
	for _, key := range keys {
		all = append(all, v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
	}
	return build.Tolerations(all...)
}

func service(name, selector string) *v1.Service { return build.Service(name, labelsOf(selector)) }

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

// bench is an engine with the plugin, and its cluster.
type bench struct {
	state   *state.State
	engine  *engine.Engine
	profile *plugin.Profile
}

func newBench(t testing.TB, c oracle.Cluster, profile oracle.Profile) *bench {
	t.Helper()
	b := &bench{state: state.New(), profile: enginetest.Profile(t, profile)}
	var err error
	if b.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{b.profile}, Seed: 1}); err != nil {
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

// answer returns the engine's answer, with nodes by name.
func (b *bench) answer(t testing.TB, p *v1.Pod) plan.Answer {
	t.Helper()
	a, err := b.engine.Answer(b.state.View(), b.compile(p))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inShort lists each node's result in a word.
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

// marks lists the plugin's scores of the feasible nodes, or "skip".
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
