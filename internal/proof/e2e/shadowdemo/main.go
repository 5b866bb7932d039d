// Shadowdemo runs the shadow beside kube-scheduler, while Deployments with priorities,
// spread and volumes are created, lose pods and are deleted.
//
// It takes the folder of built binaries and a number of bindings. It writes progress to
// standard error and the shadow's table to standard output. It owns the cluster, the
// scheduler and the shadow that it starts.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

func main() {
	var d demo
	flag.StringVar(&d.bin, "bin", "bin", "`folder` with the binaries berth, devcluster, provisioner and kube-scheduler")
	flag.IntVar(&d.nodes, "nodes", 500, "`number` of nodes")
	flag.IntVar(&d.bindings, "bindings", 10_000, "`number` of bindings at which it ends")
	flag.IntVar(&d.percent, "percentage", 100, "percentageOfNodesToScore of kube-scheduler: below 100 it looks at a part of the nodes; 0 is its default")
	flag.StringVar(&d.kept, "disagreements", "", "`folder` for the shadow's files of disagreements")
	flag.StringVar(&d.decisions, "decisions", "", "`file` for a line of JSON about each decision of the shadow")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := d.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "shadowdemo: %v\n", err)
		os.Exit(1)
	}
}

// demo has the flags and the client.
type demo struct {
	bin, kept, decisions     string
	nodes, bindings, percent int
	client                   kubernetes.Interface
}

const (
	namespace = "demo"
	driver    = "disks.example"
	perSet    = 30 // replicas of a Deployment
	lives     = 4  // rounds in the life of a Deployment
	deletes   = 25 // pods to delete in a round
)

func (d *demo) run(ctx context.Context) (err error) {
	step("starting a cluster of %d nodes", d.nodes)
	stage, err := rig.SetUp(ctx, "shadow", d.bin, d.nodes)
	if err != nil {
		return err
	}
	defer stage.End(&err)
	if d.client, err = stage.Client(); err != nil {
		return err
	}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	provisioner, err := stage.StartProvisioner(stage.Log, "--driver="+driver)
	if err != nil {
		return err
	}
	defer provisioner.End()
	config := filepath.Join(stage.Folder, "scheduler.yaml")
	err = os.WriteFile(config, fmt.Appendf(nil, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: false}\npercentageOfNodesToScore: %d\nclientConnection: {kubeconfig: %q}\n",
		d.percent, stage.SchedulerKubeconfig), 0o600)
	if err != nil {
		return err
	}
	bound, err := stage.WatchBindings(ctx, namespace, "")
	if err != nil {
		return err
	}
	s, err := d.startShadow(ctx, stage.Kubeconfig, config)
	if err != nil {
		return err
	}
	scheduler, err := stage.StartKubeScheduler(stage.Log, config)
	if err != nil {
		return errors.Join(err, s.end())
	}
	defer scheduler.End()
	err = errors.Join(d.churn(ctx, bound, scheduler), s.end())
	fmt.Print(s.table()) // also of an interrupted run
	return err
}

func step(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// prepare creates the namespace, priority classes and a storage class.
func (d *demo) prepare(ctx context.Context) error {
	_, err := d.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	for i, name := range []string{"low", "high"} {
		_, e := d.client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: int32(1000 * i)}, metav1.CreateOptions{})
		err = errors.Join(err, e)
	}
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	_, e := d.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: driver, VolumeBindingMode: &mode}, metav1.CreateOptions{})
	return errors.Join(err, e)
}

// churn creates Deployments, round by round. It deletes some of their pods, and the
// Deployments of old rounds, until enough pods have been bound.
func (d *demo) churn(ctx context.Context, bound *rig.Bindings, scheduler *rig.Process) error {
	for round := 0; ; round++ {
		have, _, _ := bound.Count()
		step("round %d: %d of %d bindings", round, have, d.bindings)
		if have >= d.bindings {
			return nil
		}
		for _, kind := range []string{"plain", "spread", "high", "apart"} {
			if err := d.deploy(ctx, fmt.Sprintf("%s-%d", kind, round), kind); err != nil {
				return err
			}
		}
		if err := d.stateful(ctx, fmt.Sprintf("disk-%d", round)); err != nil {
			return err
		}
		if round >= lives {
			if err := d.remove(ctx, round-lives); err != nil {
				return err
			}
		}
		if err := d.deletePods(ctx); err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		err := bound.Await(within, min(have+4*perSet, d.bindings), scheduler)
		cancel()
		if err != nil && (within.Err() == nil || ctx.Err() != nil) {
			return err // otherwise some pods are unschedulable; the next round makes room
		}
	}
}

// deploy creates a Deployment of a kind.
func (d *demo) deploy(ctx context.Context, name, kind string) error {
	labels := map[string]string{"app": name, "kind": kind}
	selects := &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	spec := v1.PodSpec{PriorityClassName: "low", Containers: []v1.Container{container(name)}, TerminationGracePeriodSeconds: new(int64(1))}
	switch kind {
	case "spread":
		spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selects},
			{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: selects},
		}
	case "high":
		spec.PriorityClassName = "high"
	case "apart":
		spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{TopologyKey: v1.LabelHostname, LabelSelector: selects}}}}
	}
	_, err := d.client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(perSet)), Selector: selects, Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
	}}, metav1.CreateOptions{})
	return err
}

func container(name string) v1.Container {
	return v1.Container{Name: "main", Image: "registry.example/" + strings.SplitN(name, "-", 2)[0] + ":1", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("250m"), v1.ResourceMemory: resource.MustParse("256Mi"),
	}}}
}

// stateful creates a StatefulSet whose pods have a disk each.
func (d *demo) stateful(ctx context.Context, name string) error {
	labels := map[string]string{"app": name}
	class := "disk"
	_, err := d.client.AppsV1().StatefulSets(namespace).Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(5)), ServiceName: name, PodManagementPolicy: appsv1.ParallelPodManagement, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: v1.PodSpec{Containers: []v1.Container{container(name)}, TerminationGracePeriodSeconds: new(int64(1))}},
		VolumeClaimTemplates: []v1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		}}},
	}}, metav1.CreateOptions{})
	return err
}

// remove deletes a round's objects.
func (d *demo) remove(ctx context.Context, round int) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{PropagationPolicy: &background}
	var err error
	for _, kind := range []string{"plain", "spread", "high", "apart"} {
		err = errors.Join(err, d.client.AppsV1().Deployments(namespace).Delete(ctx, fmt.Sprintf("%s-%d", kind, round), options))
	}
	return errors.Join(err, d.client.AppsV1().StatefulSets(namespace).Delete(ctx, fmt.Sprintf("disk-%d", round), options))
}

// deletePods deletes some pods, which their controllers recreate.
func (d *demo) deletePods(ctx context.Context) error {
	list, err := d.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 10 * deletes})
	if err != nil {
		return err
	}
	for i := 0; i < len(list.Items); i += 10 {
		if err := d.client.CoreV1().Pods(namespace).Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil && ctx.Err() != nil {
			return err // a pod that is gone already does not matter
		}
	}
	return nil
}

// following is a running shadow.
type following struct {
	cmd *exec.Cmd
	out bytes.Buffer
	err *watched
}

// startShadow starts the shadow and waits until it is ready.
func (d *demo) startShadow(ctx context.Context, kubeconfig, config string) (*following, error) {
	args := []string{"shadow", "--kubeconfig", kubeconfig, "--config", config}
	if d.kept != "" {
		args = append(args, "--disagreements", d.kept)
	}
	if d.decisions != "" {
		args = append(args, "-o", "json")
	}
	s := &following{cmd: exec.Command(filepath.Join(d.bin, "berth"), args...), err: &watched{word: "Following", seen: make(chan struct{})}}
	s.cmd.Stdout, s.cmd.Stderr = &s.out, s.err
	if d.decisions != "" {
		file, err := os.Create(d.decisions)
		if err != nil {
			return nil, err
		}
		defer file.Close() // the shadow has its own
		s.cmd.Stdout = file
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	select {
	case <-s.err.seen:
		return s, nil
	case <-ctx.Done():
	case <-time.After(time.Minute):
	}
	return nil, errors.Join(errors.New("the shadow does not follow: "+s.err.text.String()), s.end())
}

// table returns the table that the shadow prints at its end, on standard error if the
// decisions went to a file.
func (s *following) table() string {
	if s.out.Len() > 0 {
		return s.out.String()
	}
	_, table, _ := strings.Cut(s.err.text.String(), "VERDICT")
	return "VERDICT" + table
}

// end ends the shadow, which prints its table.
func (s *following) end() error {
	time.Sleep(3 * time.Second) // the last disagreements settle
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// watched is output with a notification when a word appears.
type watched struct {
	mu   sync.Mutex
	text bytes.Buffer
	word string
	seen chan struct{}
	done bool
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.text.Write(b)
	if !w.done && strings.Contains(w.text.String(), w.word) {
		w.done = true
		close(w.seen)
	}
	return len(b), nil
}
