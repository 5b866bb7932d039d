package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// gangs is a cluster with Berth and the gates for pod groups, including composite ones.
// It has room for roomForGangs gangs.
type gangs struct {
	*testing.T
	ctx     context.Context
	cluster *rig.Cluster
	client  *kubernetes.Clientset
}

const (
	treeGates     = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true,CompositePodGroup=true,DRAWorkloadResourceClaims=true"
	gangSize      = 16
	roomForGangs  = 20
	gangNamespace = "gangs"
)

// quickly is a configuration with which a rejected gang of 16 waits at most 4 s, instead
// of 40.
const quickly = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: %s}
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 1
`

func newGangs(t *testing.T) *gangs {
	t.Helper()
	bin := os.Getenv(binEnv)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	g := &gangs{T: t, ctx: ctx}
	c, err := rig.StartCluster(ctx, bin, nil, "--nodes", "1", "--data-dir", filepath.Join(t.TempDir(), "cluster"),
		"--feature-gates", treeGates, "--runtime-config", schedulingv1beta1.SchemeGroupVersion.String()+"=true,"+schedulingv1alpha3.SchemeGroupVersion.String()+"=true")
	g.must(err)
	g.cluster = c
	t.Cleanup(func() { g.must(c.Stop()) })
	access, err := rig.Config(c.Kubeconfig)
	g.must(err)
	access.WarningHandler = rest.NoWarnings{} // with every answer, that the version will be deprecated
	g.client, err = kubernetes.NewForConfig(access)
	g.must(err)
	_, err = g.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gangNamespace}}, metav1.CreateOptions{})
	g.must(err)
	has := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(gangSize, resource.DecimalSI), v1.ResourceMemory: resource.MustParse("32Gi"), v1.ResourcePods: resource.MustParse("110")}
	g.must(rig.InParallel(roomForGangs, func(i int) error {
		name := fmt.Sprint("room-", i)
		_, err := g.client.CoreV1().Nodes().Create(ctx, &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, "only": gangNamespace}},
			Status: v1.NodeStatus{
				Capacity: has, Allocatable: has,
				Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}},
			},
		}, metav1.CreateOptions{})
		return err
	}))
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	g.must(os.WriteFile(file, fmt.Appendf(nil, quickly, c.SchedulerKubeconfig), 0o600))
	p, err := rig.Start(nil, filepath.Join(bin, "berth"), "scheduler", "--config", file, "--secure-port=0", "--feature-gates="+treeGates)
	g.must(err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of Berth's log:\n%s", p.Log())
		}
	})
	return g
}

func (g *gangs) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

func gangName(i int) string { return fmt.Sprintf("gang-%02d", i) }

// bound counts the members with a node, by gang. A member that its node refused fails the
// test.
func (g *gangs) bound() map[string]int {
	g.Helper()
	list, err := g.client.CoreV1().Pods(gangNamespace).List(g.ctx, metav1.ListOptions{})
	g.must(err)
	counts := map[string]int{}
	for i := range list.Items {
		pod := &list.Items[i]
		g.must(rig.Refused(pod))
		if pod.Spec.NodeName != "" {
			counts[*pod.Spec.SchedulingGroup.PodGroupName]++
		}
	}
	return counts
}

// awaitComplete waits until the given number of gangs have all members on nodes, and then
// for a moment, in which nothing may change. No other gang may have a member on a node.
func (g *gangs) awaitComplete(want int) []string {
	g.Helper()
	complete := func(counts map[string]int) (names []string) {
		for name, n := range counts {
			if n == gangSize {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	deadline, counts := time.Now().Add(2*time.Minute), g.bound()
	for ; len(complete(counts)) != want; counts = g.bound() {
		if time.Now().After(deadline) {
			g.Fatalf("%d gangs are complete, want %d: %v are bound", len(complete(counts)), want, counts)
		}
		time.Sleep(100 * time.Millisecond)
	}
	names := complete(counts)
	time.Sleep(1500 * time.Millisecond)
	counts = g.bound()
	if now := complete(counts); !slices.Equal(now, names) || len(counts) != want {
		g.Errorf("%v have members on nodes, want those of %v and no others, all of them", counts, names)
	}
	return names
}

// TestGangsContend has 50 gangs of 16 pods contend for room for 20. They are created one
// member of each at a time, so that each could hold the room of others. Then trees of
// gangs contend for the same room, and then gangs for devices.
func TestGangsContend(t *testing.T) {
	g := newGangs(t)
	g.contend()
	if !t.Failed() {
		g.contendAsTrees()
	}
	if !t.Failed() {
		g.shareClaims()
	}
}

func (g *gangs) contend() {
	const all = 50
	t := g.T
	t.Helper()
	for i := range all {
		group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: gangName(i)}}
		group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: gangSize}
		_, err := g.client.SchedulingV1beta1().PodGroups(gangNamespace).Create(g.ctx, group, metav1.CreateOptions{})
		g.must(err)
	}
	g.must(rig.CreatePods(g.ctx, g.client, gangNamespace, all*gangSize, func(i int) *v1.Pod {
		gang := gangName(i % all)
		return &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", gang, i/all), Labels: map[string]string{"gang": gang}},
			Spec: v1.PodSpec{
				SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &gang},
				NodeSelector:    map[string]string{"only": gangNamespace},
				Containers:      []v1.Container{{Name: "main", Image: "i", Resources: requests("1", "1Gi")}},
			},
		}
	}))
	ran := map[string]bool{}
	for left := all; left > 0; {
		names := g.awaitComplete(min(left, roomForGangs))
		left -= len(names)
		for _, name := range names {
			if ran[name] {
				t.Errorf("%s runs again", name)
			}
			ran[name] = true
			g.must(rig.DeletePodsWith(g.ctx, g.client, gangNamespace, "gang="+name))
		}
	}
	groups, err := g.client.SchedulingV1beta1().PodGroups(gangNamespace).List(g.ctx, metav1.ListOptions{})
	g.must(err)
	for _, group := range groups.Items {
		if !ran[group.Name] || !meta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled) {
			t.Errorf("%s ran: %t; its conditions are %+v", group.Name, ran[group.Name], group.Status.Conditions)
		}
	}
}

// contendAsTrees has three trees of two gangs contend for room for three gangs. One gang
// of the last tree is too big for the whole cluster. One tree that fits starts, and not a
// single pod of the others. When it ends, the other one starts. The big one never does.
func (g *gangs) contendAsTrees() {
	g.Helper()
	g.must(rig.InParallel(roomForGangs-3, func(i int) error {
		if err := g.client.CoreV1().Nodes().Delete(g.ctx, fmt.Sprint("room-", i), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete a node: %w", err)
		}
		return nil
	}))
	trees := []string{"tree-a", "tree-b", "tree-big"}
	sizes := map[string]int{}
	for _, tree := range trees {
		composite := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Name: tree}}
		composite.Spec.WorkloadRef = &schedulingv1alpha3.WorkloadReference{WorkloadName: tree, TemplateName: "all"}
		composite.Spec.SchedulingPolicy.Gang = &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}
		_, err := g.client.SchedulingV1alpha3().CompositePodGroups(gangNamespace).Create(g.ctx, composite, metav1.CreateOptions{})
		g.must(err)
		for half := range 2 {
			name := fmt.Sprintf("%s-%d", tree, half)
			if sizes[name] = gangSize; name == "tree-big-1" {
				sizes[name] = 4 * gangSize
			}
			group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
			group.Spec.ParentCompositePodGroupName = &tree
			group.Spec.WorkloadRef = &schedulingv1beta1.WorkloadReference{WorkloadName: tree, TemplateName: "half"}
			group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(sizes[name])}
			_, err := g.client.SchedulingV1beta1().PodGroups(gangNamespace).Create(g.ctx, group, metav1.CreateOptions{})
			g.must(err)
		}
	}
	for member := range 4 * gangSize { // one member of each at a time
		for name, size := range sizes {
			if member >= size {
				continue
			}
			_, err := g.client.CoreV1().Pods(gangNamespace).Create(g.ctx, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, member), Labels: map[string]string{"tree": name[:len(name)-2]}},
				Spec: v1.PodSpec{
					SchedulingGroup: &v1.PodSchedulingGroup{PodGroupName: &name},
					NodeSelector:    map[string]string{"only": gangNamespace},
					Containers:      []v1.Container{{Name: "main", Image: "i", Resources: requests("1", "1Gi")}},
				},
			}, metav1.CreateOptions{})
			g.must(err)
		}
	}
	ran := map[string]bool{}
	for range 2 {
		tree := g.awaitTree(ran)
		ran[tree] = true
		g.must(rig.DeletePodsWith(g.ctx, g.client, gangNamespace, "tree="+tree))
	}
	time.Sleep(1500 * time.Millisecond)
	if counts := g.bound(); len(counts) > 0 {
		g.Errorf("%v are bound of a tree of which one half has no room", counts)
	}
	for name := range sizes {
		group, err := g.client.SchedulingV1beta1().PodGroups(gangNamespace).Get(g.ctx, name, metav1.GetOptions{})
		g.must(err)
		if started := meta.IsStatusConditionTrue(group.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled); started != ran[name[:len(name)-2]] {
			g.Errorf("%s has started: %t; its conditions are %+v", name, started, group.Status.Conditions)
		}
	}
}

// awaitTree waits until both gangs of a tree are complete, and then for a moment. No pod
// of another tree may be bound at any time.
func (g *gangs) awaitTree(before map[string]bool) string {
	g.Helper()
	deadline, quiet := time.Now().Add(2*time.Minute), 0
	for {
		counts := g.bound()
		trees := map[string]int{}
		for name, n := range counts {
			trees[name[:len(name)-2]] += n
		}
		for tree, n := range trees {
			switch {
			case len(trees) > 1 || before[tree]:
				g.Fatalf("%v are bound, of more than one tree or of one that has ended", counts)
			case n == 2*gangSize:
				if quiet++; quiet == 10 {
					return tree
				}
			}
		}
		if time.Now().After(deadline) {
			g.Fatalf("no tree is complete: %v are bound", counts)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
