package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/examples/trial"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/gang-plugin/gang"
)

const namespace = "team"

// TestManifestsHoldTheConfiguration compares deploy/config.yaml with config.yaml.
func TestManifestsHoldTheConfiguration(t *testing.T) {
	if err := trial.HoldsFile("deploy/config.yaml", "config.yaml"); err != nil {
		t.Error(err)
	}
}

// floor is a cluster with room for 16 members of 8 CPUs each: 4 gangs of 4.
type floor struct {
	*testing.T
	*trial.Cluster
	ctx     context.Context
	replica *trial.Replica
}

const (
	size  = 4
	cpus  = 8
	gangs = 4 // that fit
)

func newFloor(t *testing.T) *floor {
	bin, ok := trial.Bin()
	if !ok {
		t.Skipf("%s has no devcluster: run `make bin/devcluster` at the top, or set %s", bin, trial.BinEnv)
	}
	f := &floor{T: t}
	binary := filepath.Join(t.TempDir(), "scheduler")
	f.must(trial.Build(t.Context(), ".", binary))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	c, err := trial.Start(ctx, bin, 4, nil)
	f.must(err)
	t.Cleanup(func() { f.must(c.Stop()) })
	f.Cluster, f.ctx = c, ctx
	deployed, err := c.Apply(ctx, "deploy")
	f.must(err)
	f.must(c.Namespace(ctx, namespace))
	f.replica, err = deployed.Run(binary)
	f.must(err)
	t.Cleanup(f.replica.End)
	f.must(f.replica.AwaitReady(ctx))
	return f
}

func (f *floor) must(err error) {
	f.Helper()
	if err != nil {
		if f.replica != nil {
			f.Logf("the end of the scheduler's log:\n%s", f.replica.Log())
		}
		f.Fatal(err)
	}
}

// create creates a member of a gang of size members.
func (f *floor) create(name string, member int, cpus int64) {
	f.Helper()
	pod := trial.Pod(fmt.Sprintf("%s-%d", name, member), "gang-scheduler", cpus, map[string]string{gang.NameLabel: name, gang.MinLabel: fmt.Sprint(size)}, nil)
	_, err := f.Client.CoreV1().Pods(namespace).Create(f.ctx, pod, metav1.CreateOptions{})
	f.must(err)
}

func (f *floor) remove(name string) {
	f.Helper()
	f.must(f.Client.CoreV1().Pods(namespace).DeleteCollection(f.ctx, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: gang.NameLabel + "=" + name}))
}

// bound counts the members with a node by gang. A member that its node has rejected fails
// the test.
func (f *floor) bound() map[string]int {
	f.Helper()
	list, err := f.Client.CoreV1().Pods(namespace).List(f.ctx, metav1.ListOptions{})
	f.must(err)
	n := map[string]int{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase == v1.PodFailed {
			f.Errorf("%s: %s: %s", pod.Name, pod.Status.Reason, pod.Status.Message)
		}
		if pod.Spec.NodeName != "" {
			n[pod.Labels[gang.NameLabel]]++
		}
	}
	return n
}

// awaitComplete waits until this many gangs are complete and stay so for a moment, while
// no other gang has a member with a node.
func (f *floor) awaitComplete(want int) []string {
	f.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	full := func() []string {
		var names []string
		for name, n := range f.bound() {
			if n == size {
				names = append(names, name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	for len(full()) != want {
		if time.Now().After(deadline) {
			f.must(fmt.Errorf("%d gangs are complete, want %d: %v are bound", len(full()), want, f.bound()))
		}
		time.Sleep(100 * time.Millisecond)
	}
	before := full()
	time.Sleep(1500 * time.Millisecond)
	now := f.bound()
	if got := slices.Sorted(maps.Keys(now)); !slices.Equal(got, before) {
		f.Errorf("members of %v have a node, want those of %v and no others: %v", got, before, now)
	}
	return before
}

// TestGangsOnACluster creates more gangs at the same time than fit.
func TestGangsOnACluster(t *testing.T) {
	f := newFloor(t)
	const all = 7
	// All first members come before the second ones, so each gang could hold resources
	// that another needs.
	for member := range size {
		for i := range all {
			f.create(fmt.Sprintf("g%d", i), member, cpus)
		}
	}
	f.awaitComplete(gangs)

	// Each gang that ends lets another run.
	ran := map[string]bool{}
	for left := all; left > 0; left-- {
		complete := f.awaitComplete(min(left, gangs))
		for _, name := range complete {
			ran[name] = true
		}
		f.remove(complete[0])
		f.awaitGone(complete[0])
	}
	if len(ran) != all {
		t.Errorf("%v have run, want all %d", slices.Sorted(maps.Keys(ran)), all)
	}

	// A gang that lacks a member waits for it, and holds nothing.
	for member := range size - 1 {
		f.create("late", member, cpus)
	}
	f.expectPending("late-0", "of 4 pods") // the number of members depends on when its turn came
	f.awaitComplete(0)
	// A gang with a member that fits nowhere also holds nothing, and does not block the
	// others.
	for member := range size - 1 {
		f.create("huge", member, cpus)
	}
	f.create("huge", size-1, 33)
	f.expectPending("huge-3", "gang team/huge does not fit")
	f.create("late", size-1, cpus)
	f.awaitComplete(1)
	// It runs when a suitable node is added.
	f.must(f.AddNode(f.ctx, "large", 64))
	f.awaitComplete(2)
}

func (f *floor) awaitGone(name string) {
	f.Helper()
	for range 200 {
		if f.bound()[name] == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.must(fmt.Errorf("the pods of gang %s are still there", name))
}

func (f *floor) expectPending(name, reason string) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.ctx, 2*time.Minute)
	defer cancel()
	_, err := f.AwaitPod(ctx, namespace, name, "pending because of "+reason, func(pod *v1.Pod) bool {
		return pod.Spec.NodeName == "" && strings.Contains(trial.Message(pod), reason)
	})
	f.must(err)
}
