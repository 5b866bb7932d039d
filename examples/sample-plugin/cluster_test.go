package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/examples/trial"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"example.com/sample-plugin/sample"
)

const (
	scheduler = "sample-scheduler"
	filtering = "sample-filter"
	namespace = "shop"
)

// TestManifestsHoldTheConfiguration compares deploy/config.yaml with config.yaml.
func TestManifestsHoldTheConfiguration(t *testing.T) {
	if err := trial.HoldsFile("deploy/config.yaml", "config.yaml"); err != nil {
		t.Error(err)
	}
}

// shop is a running cluster with the scheduler's manifests applied.
type shop struct {
	*testing.T
	*trial.Cluster
	deployed *trial.Deployed
	ctx      context.Context
	binary   string
	replicas []*trial.Replica
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		for i, r := range s.replicas {
			s.Logf("the end of the log of replica %d:\n%s", i, r.Log())
		}
		s.Fatal(err)
	}
}

func newShop(t *testing.T) *shop {
	bin, ok := trial.Bin()
	if !ok {
		t.Skipf("%s has no devcluster: run `make bin/devcluster` at the top, or set %s", bin, trial.BinEnv)
	}
	s := &shop{T: t, binary: filepath.Join(t.TempDir(), "scheduler")}
	s.must(trial.Build(t.Context(), ".", s.binary))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	c, err := trial.Start(ctx, bin, 5, nil)
	s.must(err)
	t.Cleanup(func() { s.must(c.Stop()) })
	s.Cluster, s.ctx = c, ctx
	s.deployed, err = c.Apply(ctx, "deploy")
	s.must(err)
	s.must(c.Namespace(ctx, namespace))
	return s
}

// start starts another replica.
func (s *shop) start() *trial.Replica {
	s.Helper()
	r, err := s.deployed.Run(s.binary)
	s.must(err)
	s.replicas = append(s.replicas, r)
	s.Cleanup(r.End)
	return r
}

func (s *shop) create(name, profile string, annotations map[string]string) {
	s.Helper()
	_, err := s.Client.CoreV1().Pods(namespace).Create(s.ctx, trial.Pod(name, profile, 1, nil, annotations), metav1.CreateOptions{})
	s.must(err)
}

// expectOn waits until the pod runs, and checks its node and annotations.
func (s *shop) expectOn(name, node string, annotations map[string]string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Minute)
	defer cancel()
	pod, err := s.AwaitPod(ctx, namespace, name, "running", trial.Runs)
	s.must(err)
	if pod.Spec.NodeName != node {
		s.Errorf("pod %s is on %s, want %s", name, pod.Spec.NodeName, node)
	}
	for key, want := range annotations {
		if pod.Annotations[key] != want {
			s.Errorf("pod %s: annotation %s is %q, want %q", name, key, pod.Annotations[key], want)
		}
	}
}

// expectPending waits until a pod is pending for a reason.
func (s *shop) expectPending(name, reason string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Minute)
	defer cancel()
	_, err := s.AwaitPod(ctx, namespace, name, "pending because of "+reason, func(pod *v1.Pod) bool {
		return pod.Spec.NodeName == "" && strings.Contains(trial.Message(pod), reason)
	})
	s.must(err)
}

func (s *shop) expectUnbound(name string) {
	s.Helper()
	pod, err := s.Client.CoreV1().Pods(namespace).Get(s.ctx, name, metav1.GetOptions{})
	s.must(err)
	if pod.Spec.NodeName != "" {
		s.Errorf("pod %s is on %s already", name, pod.Spec.NodeName)
	}
}

// seat returns the annotations that PreBind writes.
func seat(number int, profile string) map[string]string {
	return map[string]string{sample.SeatAnnotation: fmt.Sprint(number), sample.ProfileAnnotation: profile}
}

// TestOnACluster runs the scheduler from the manifests: two replicas with the
// Deployment's arguments and the rights of its service account.
func TestOnACluster(t *testing.T) {
	s := newShop(t)
	nodes, err := s.Client.CoreV1().Nodes().List(s.ctx, metav1.ListOptions{})
	s.must(err)
	var names []string
	for i, number := range []string{"42", "500", "900", "42", "500"} {
		name := nodes.Items[i].Name
		names = append(names, name)
		s.must(s.Label(s.ctx, name, map[string]string{
			sample.ColorLabel: []string{"blue", "blue", "blue", "green", "green"}[i], sample.NumberLabel: number,
		}))
	}
	if n := s.deployed.Replicas(); n != 2 {
		t.Fatalf("the Deployment has %d replicas, want 2", n)
	}
	first := s.start()
	s.must(first.AwaitReady(s.ctx))
	leader, err := s.AwaitLeader(s.ctx, "kube-system", scheduler, "")
	s.must(err)
	second := s.start()
	s.must(second.AwaitReady(s.ctx))

	// Filter leaves three nodes, Score prefers the node with the favorite number, Reserve
	// assigns seats.
	wantsThanks := map[string]string{sample.WantsThanksAnnotation: ""}
	s.create("thanked-late", scheduler, wantsThanks) // see below: it takes a while
	s.create("first", scheduler, nil)
	s.expectOn("first", names[0], seat(2, scheduler)) // the waiting pod has a seat
	s.create("second", scheduler, nil)
	s.expectOn("second", names[0], seat(3, scheduler))
	s.must(s.Client.CoreV1().Pods(namespace).Delete(s.ctx, "first", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))

	// The pod's own color.
	s.create("green", scheduler, map[string]string{sample.ColorAnnotation: "green"})
	s.expectOn("green", names[3], seat(1, scheduler))
	s.create("purple", scheduler, map[string]string{sample.ColorAnnotation: "purple"})
	s.expectPending("purple", "0/5 nodes are available: 5 node(s) had another color than purple.")
	s.must(s.Label(s.ctx, names[4], map[string]string{sample.ColorLabel: "purple"}))
	s.expectOn("purple", names[4], seat(1, scheduler))

	// The second profile has the filter only, and green as its favorite color.
	s.create("filtered", filtering, wantsThanks)
	s.expectOn("filtered", names[3], map[string]string{sample.SeatAnnotation: ""})

	// Permit: a pod waits for thanks.
	s.create("thanked", scheduler, wantsThanks)
	time.Sleep(time.Second)
	s.expectUnbound("thanked")
	s.must(s.Annotate(s.ctx, namespace, "thanked", sample.ThanksAnnotation, "Bob"))
	time.Sleep(time.Second)
	s.expectUnbound("thanked")
	s.must(s.Annotate(s.ctx, namespace, "thanked", sample.ThanksAnnotation, "Ada"))
	s.expectOn("thanked", names[0], map[string]string{sample.ProfileAnnotation: scheduler})

	// After the timeout, a pod frees its seat. Thanks then retry it.
	s.expectPending("thanked-late", "timeout")
	s.must(s.Annotate(s.ctx, namespace, "thanked-late", sample.ThanksAnnotation, "Ada"))
	s.expectOn("thanked-late", names[0], map[string]string{sample.ProfileAnnotation: scheduler})

	// The second replica takes over.
	first.Kill()
	s.create("after", scheduler, nil)
	_, err = s.AwaitLeader(s.ctx, "kube-system", scheduler, leader)
	s.must(err)
	s.expectOn("after", names[0], seat(1, scheduler)) // seats are in memory
	s.must(second.Stop())
}
