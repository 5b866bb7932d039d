package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// cycle is the outcome of kube-scheduler's own code up to its filters.
type cycle struct {
	NodeName string
	// Message is the text of the rejection, and Plugins are the plugins that it gives to
	// the queue. Potential are the nodes whose rejection preemption may resolve.
	Message   string
	Plugins   []string
	Potential []string
}

// own is kube-scheduler itself, on a cluster that does not change.
type own struct {
	*scheduler.Scheduler
	snapshot *cache.Snapshot
}

func newOwn(t *testing.T, tc *cases.Case) own {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	t.Cleanup(cancel)
	object, _, err := configscheme.Codecs.UniversalDecoder().Decode(tc.Config, nil, nil)
	do(t, err)
	snapshot, client := cache.NewEmptySnapshot(), fake.NewClientset()
	all := informers.NewSharedInformerFactory(client, 0)
	s, err := scheduler.New(ctx, client, all, nil, events.NewEventBroadcasterAdapter(client).NewRecorder,
		scheduler.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"), scheduler.WithParallelism(1),
		scheduler.WithProfiles(object.(*config.KubeSchedulerConfiguration).Profiles...), scheduler.WithNodeInfoSnapshot(snapshot))
	do(t, err)
	for _, n := range tc.Nodes {
		s.Cache.AddNode(logr.Discard(), n)
	}
	for _, p := range tc.Pods {
		switch {
		case p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed:
		case p.Spec.NodeName != "":
			do(t, s.Cache.AddPod(logr.Discard(), p))
		case p.Status.NominatedNodeName != "": // it is read again
			do(t, all.Core().V1().Pods().Informer().GetStore().Add(p))
			s.SchedulingQueue.Add(ctx, p)
		}
	}
	do(t, s.Cache.UpdateSnapshot(logr.Discard(), snapshot))
	return own{s, snapshot}
}

// schedule runs the scheduling cycle up to the choice of a node.
func (o own) schedule(t *testing.T, pod *v1.Pod) cycle {
	t.Helper()
	ctx := klog.NewContext(context.Background(), logr.Discard())
	result, err := o.SchedulePod(ctx, o.Profiles[pod.Spec.SchedulerName], framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: infoOf(t, pod)})
	var fit *framework.FitError
	if !errors.As(err, &fit) {
		do(t, err)
		return cycle{NodeName: result.SuggestedHost}
	}
	potential, err := fit.Diagnosis.NodeToStatus.NodesForStatusCode(o.snapshot.NodeInfos(), fwk.Unschedulable)
	do(t, err)
	made := cycle{Message: fit.Error(), Plugins: sets.List(fit.Diagnosis.UnschedulablePlugins)}
	for _, n := range potential {
		made.Potential = append(made.Potential, n.Node().Name)
	}
	slices.Sort(made.Potential)
	return made
}

func infoOf(t *testing.T, p *v1.Pod) *framework.PodInfo {
	t.Helper()
	info, err := framework.NewPodInfo(p)
	do(t, err)
	return info
}

// filterConfig returns a configuration with these lists of filters.
func filterConfig(filters string) []byte {
	return []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: {filter: {" + filters + "}}}]\n")
}

// TestNominatedOutside has a pod whose nominated node is excluded by PreFilter.
// kube-scheduler filters that node first. The pod may go there. The node keeps its own
// status, by which it may be a candidate for preemption. A filter that rejects it counts
// among the plugins that narrowed the nodes. Nodes a and b are full, c has a taint, and
// the pod may go to b only.
func TestNominatedOutside(t *testing.T) {
	const none = "0/3 nodes are available: "
	withoutAffinity, fitFirst := filterConfig("disabled: [{name: NodeAffinity}]"), filterConfig("enabled: [{name: NodeResourcesFit}]")
	for _, tt := range []struct {
		name, nominated string
		config          []byte
		cpu             string
		want            cycle
	}{
		{"not nominated", "", cases.EmptyConfig(), "1",
			cycle{Message: none + "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", Potential: []string{"b"}}},
		{"to a node that is gone", "gone", cases.EmptyConfig(), "1",
			cycle{Message: none + "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity].", Potential: []string{"b"}}},
		{"to the node that is left", "b", cases.EmptyConfig(), "1",
			cycle{Message: none + "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit].", Potential: []string{"b"}}},
		{"to another", "a", cases.EmptyConfig(), "1",
			cycle{Message: none + "1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, 1 node(s) didn't satisfy plugin(s) [NodeAffinity].",
				Potential: []string{"b"}}},
		{"to one that an earlier filter rejects", "c", cases.EmptyConfig(), "1",
			cycle{Message: none + "1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration], 1 node(s) had untolerated taint(s).",
				Potential: []string{"b"}}},
		{"the filter on resources is first", "a", fitFirst, "1",
			cycle{Message: none + "1 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit], 2 Insufficient cpu.", Potential: []string{"a", "b"}}},
		{"the filter is off", "a", withoutAffinity, "1",
			cycle{Message: none + "1 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit], 2 Insufficient cpu.", Potential: []string{"a", "b"}}},
		{"the filter is off, and there is room", "a", withoutAffinity, "0", cycle{NodeName: "a"}},
		{"there is room", "a", cases.EmptyConfig(), "0", cycle{NodeName: "b"}},
	} {
		tc := &cases.Case{Config: tt.config, Cluster: oracle.Cluster{
			Nodes: []*v1.Node{node("a", "2"), node("b", "2"), node("c", "2", v1.Taint{Key: "k", Effect: v1.TaintEffectNoSchedule})},
			Pods:  []*v1.Pod{pod("x", "2", "a"), pod("y", "2", "b")},
		}}
		p := pod("p", tt.cpu, "")
		p.Status.NominatedNodeName = tt.nominated
		cases.Pin(p, "b")
		got := newOwn(t, tc).schedule(t, p)
		got.Plugins = nil
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
		likeKubeScheduler(t, tt.name, tc, p)
	}
}

// TestLikeKubeScheduler compares the cycle of Judge with kube-scheduler's own.
func TestLikeKubeScheduler(t *testing.T) {
	shapes := cases.PreemptShapes()
	shape := shapes[slices.IndexFunc(shapes, func(s cases.Shape) bool { return s.Name == "preempt-pinned" })]
	for seed := range uint64(30) {
		tc := shape.Draw(seed)
		pending := slices.DeleteFunc(slices.Clone(tc.Pods), func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
		likeKubeScheduler(t, fmt.Sprintf("seed %d", seed), &tc, pending...)
	}
}

// likeKubeScheduler compares Judge's results for pods with kube-scheduler's own code.
func likeKubeScheduler(t *testing.T, name string, tc *cases.Case, pending ...*v1.Pod) {
	t.Helper()
	theirs, s := newOwn(t, tc), newUpstream(t, tc.Config)
	for _, n := range tc.Nodes {
		s.SetNode(n)
	}
	for _, p := range tc.Pods {
		do(t, s.SetPod(p))
	}
	for _, p := range pending {
		want, v := theirs.schedule(t, p), judged(t, s, p)
		if want.NodeName != "" {
			if !slices.Contains(v.Best, want.NodeName) {
				t.Errorf("%s: pod %s: kube-scheduler takes %s, Judge one of %v", name, p.Name, want.NodeName, v.Best)
			}
			continue
		}
		got := cycle{Message: v.MessageBefore, Plugins: v.Plugins}
		for _, n := range v.Nodes {
			if n.First != nil && n.First.Code == fwk.Unschedulable.String() {
				got.Potential = append(got.Potential, n.Name)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: pod %s: kube-scheduler %+v, Judge %+v", name, p.Name, want, got)
		}
	}
}
