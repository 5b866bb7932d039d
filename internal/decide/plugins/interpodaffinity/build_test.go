package interpodaffinity_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/decide/plugins/interpodaffinity"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Short names of topology keys.
const (
	zone = v1.LabelTopologyZone
	host = v1.LabelHostname
)

func newPlugin(t testing.TB, args *configv1.InterPodAffinityArgs) *interpodaffinity.Plugin {
	t.Helper()
	p, err := interpodaffinity.New(args)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Abbreviations for the tables, so that a row fits on a line.

type part = build.PodOption

var (
	zoned = build.NodesInZones

	fill    = build.PodsOnNodes
	in      = build.InNamespace
	on      = build.NodeName
	ending  = build.Terminating
	wearing = build.Labels

	// near and apart require, likes and dislikes prefer.
	near     = build.RequiredAffinity
	apart    = build.RequiredAntiAffinity
	likes    = build.PreferredAffinity
	dislikes = build.PreferredAntiAffinity

	term           = build.Term
	inNamespaces   = build.Namespaces
	whereNamespace = build.NamespaceSelector

	namespace = build.Namespace
	labelsOf  = build.LabelSet
)

// pod returns a pending pod with a container, which the API server requires; without it
// ImageLocality would have nothing to score.
func pod(parts ...part) *v1.Pod {
	return build.Pod(append([]part{build.Container("")}, parts...)...)
}

func newNode(name, in string) *v1.Node {
	return zoned(name+"="+in, build.Allocatable("cpu=64 memory=256Gi"))[0]
}

func cordoned(nodes []*v1.Node, name string) []*v1.Node {
	return build.With(nodes, name, build.Unschedulable)
}

// cluster returns a cluster, and names the pods.
func cluster(nodes []*v1.Node, pods ...*v1.Pod) oracle.Cluster {
	for i, p := range pods {
		p.Name, p.UID = fmt.Sprint("pod-", i), types.UID(fmt.Sprint("uid-", i))
	}
	return oracle.Cluster{Nodes: nodes, Pods: pods, Namespaces: []*v1.Namespace{namespace("default", "")}}
}

// pairOf returns an engine with these arguments, without PodTopologySpread, and the
// oracle.
func pairOf(t testing.TB, c oracle.Cluster, args configv1.InterPodAffinityArgs) *enginetest.Pair {
	profile := oracle.Profile{PodAffinity: args, Disabled: map[string]bool{"PodTopologySpread": true}}
	return enginetest.NewPair(t, c, profile, engine.Config{})
}

// judge returns the engine's answer for a pod, and fails if the oracle's differs.
func judge(t *testing.T, row string, c oracle.Cluster, p *v1.Pod, args configv1.InterPodAffinityArgs) plan.Answer {
	t.Helper()
	pair := pairOf(t, c, args)
	if diff := pair.Compare(p); diff != "" {
		t.Errorf("row %s: engine (-) and oracle (+) differ:\n%s", row, diff)
	}
	return answer(t, pair, p)
}

// decide returns the engine's decision, without the oracle.
func decide(t *testing.T, c oracle.Cluster, p *v1.Pod) plan.Decision {
	t.Helper()
	pair := pairOf(t, c, configv1.InterPodAffinityArgs{})
	return pair.Engine.Decide(pair.State.View(), plan.Alone(pair.Compile(p)))
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

// judgeFast returns the engine's answer, without the oracle.
func judgeFast(t *testing.T, c oracle.Cluster, p *v1.Pod) plan.Answer {
	t.Helper()
	return answer(t, pairOf(t, c, configv1.InterPodAffinityArgs{}), p)
}

func answer(t *testing.T, pair *enginetest.Pair, p *v1.Pod) plan.Answer {
	t.Helper()
	answer, err := pair.Engine.Answer(pair.State.View(), pair.Compile(p))
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
