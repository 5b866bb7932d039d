// Verbs measures the commands of kubectl-berth in a large cluster: simulated nodes and
// pods on a real API server.
//
// It takes the folder of built binaries and the numbers of nodes and pods. It prints a
// table of the time and peak memory of each command. It owns the cluster that it starts.
// No scheduler runs: the pods are created on their nodes.
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
	"strconv"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

func main() {
	var s sizes
	flag.StringVar(&s.bin, "bin", "bin", "`folder` with the binaries berth and devcluster")
	flag.IntVar(&s.nodes, "nodes", 5000, "`number` of nodes")
	flag.IntVar(&s.pods, "pods", 50_000, "`number` of pods on them")
	flag.IntVar(&s.pending, "pending", 200, "`number` of further pods that are pending, of which every second one is too large for any node")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := s.run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "verbs: %v\n", err)
		os.Exit(1)
	}
}

// sizes is the size of the cluster.
type sizes struct {
	bin                  string
	nodes, pods, pending int
	some                 []string // ten nodes
}

// namespace is the namespace of the pods, and perSet the number of pods in a ReplicaSet.
const (
	namespace = "size"
	perSet    = 100
)

func (s *sizes) run(ctx context.Context) (err error) {
	fmt.Fprintf(os.Stderr, "starting a cluster of %d nodes\n", s.nodes)
	stage, err := rig.SetUp(ctx, "verbs", s.bin, s.nodes, "--without-controllers", "--with-kwok=false")
	if err != nil {
		return err
	}
	defer stage.End(&err)
	client, err := stage.Client()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "creating %d pods\n", s.pods+s.pending)
	node, err := s.fill(ctx, client)
	if err != nil {
		return err
	}
	files, err := s.files(stage.Folder)
	if err != nil {
		return err
	}
	binary, err := filepath.Abs(filepath.Join(s.bin, "berth"))
	if err != nil {
		return err
	}
	const row = "%-62v %8v %12v %18v %10v\n"
	fmt.Printf(row, "COMMAND", "SECONDS", "CPU SECONDS", "PEAK MEMORY (MiB)", "EXIT CODE")
	for _, args := range [][]string{
		{"explain", "pending-1", "-n", namespace},
		{"simulate"},
		{"simulate", "-n", namespace, "-f", files.pod},
		{"fit", "-n", namespace, "-f", files.pod},
		{"drain", node},
		{"drain", "-l", "kubernetes.io/hostname in (" + strings.Join(s.some, ",") + ")"},
		{"compare", "--config", files.packing},
		{"compare", "--config", files.packing, "--owned"},
		{"preflight", "--as", "system:kube-scheduler"},
	} {
		m, err := measured(ctx, binary, stage.Kubeconfig, args)
		if err != nil {
			return err
		}
		text := strings.ReplaceAll(strings.Join(args, " "), stage.Folder+"/", "")
		if len(text) > 60 {
			text = text[:57] + "..."
		}
		fmt.Printf(row, text, tenths(m.wall), tenths(m.cpu), m.peakBytes>>20, m.code)
	}
	return nil
}

// tenths formats a time in seconds.
func tenths(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) }

// measurement is the cost of a command.
type measurement struct {
	wall, cpu time.Duration
	peakBytes int64
	code      int
}

// measured runs a command. An exit code that is an answer is not a failure.
func measured(ctx context.Context, binary, kubeconfig string, args []string) (measurement, error) {
	fmt.Fprintln(os.Stderr, "berth", strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, binary, append(args, "--kubeconfig", kubeconfig)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Run()
	m := measurement{wall: time.Since(began)}
	if cmd.ProcessState == nil {
		return m, err
	}
	m.code, m.cpu = cmd.ProcessState.ExitCode(), cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		m.peakBytes = usage.Maxrss << 10 // in KiB on Linux
	}
	if m.code != 0 && m.code != 3 || out.Len() == 0 {
		return m, fmt.Errorf("berth %s: exit code %d\n%s", strings.Join(args, " "), m.code, &errs)
	}
	return m, nil
}

// fill creates ReplicaSets with their pods on all nodes in turn, PodDisruptionBudgets for
// a tenth of them, and pending pods. It returns a node.
func (s *sizes) fill(ctx context.Context, client kubernetes.Interface) (node string, err error) {
	if _, err := client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	// No controller creates it.
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for i := range min(10, len(list.Items)) {
		s.some = append(s.some, list.Items[i*len(list.Items)/10].Name)
	}
	sets := make([]types.UID, (s.pods+perSet-1)/perSet)
	err = rig.InParallel(len(sets), func(i int) error {
		name := fmt.Sprintf("web-%d", i)
		labels := map[string]string{"app": name}
		set, err := client.AppsV1().ReplicaSets(namespace).Create(ctx, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32(perSet)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: shape("100m")},
		}}, metav1.CreateOptions{})
		if err != nil || i%10 != 0 {
			if err == nil {
				sets[i] = set.UID
			}
			return err
		}
		sets[i] = set.UID
		_, err = client.PolicyV1().PodDisruptionBudgets(namespace).Create(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromString("5%")), Selector: &metav1.LabelSelector{MatchLabels: labels},
		}}, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("create ReplicaSets: %w", err)
	}
	err = rig.CreatePods(ctx, client, namespace, s.pods, func(i int) *v1.Pod {
		set := fmt.Sprintf("web-%d", i/perSet)
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%d", set, i%perSet), Labels: map[string]string{"app": set},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: set, UID: sets[i/perSet], Controller: new(true)}},
		}, Spec: shape("100m")}
		pod.Spec.NodeName = list.Items[i%len(list.Items)].Name
		return pod
	})
	if err != nil {
		return "", fmt.Errorf("create pods: %w", err)
	}
	err = rig.CreatePods(ctx, client, namespace, s.pending, func(i int) *v1.Pod {
		cpu := "1"
		if i%2 == 1 {
			cpu = "5000"
		}
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pending-%d", i)}, Spec: shape(cpu)}
	})
	return list.Items[0].Name, err
}

// shape returns the spec of a pod that is spread over zones.
func shape(cpu string) v1.PodSpec {
	return v1.PodSpec{
		Containers: []v1.Container{{Name: "main", Image: "registry.example/web:1", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse("64Mi"),
		}}, Env: []v1.EnvVar{{Name: "SETTING", Value: strings.Repeat("x", 200)}}}},
		TopologySpreadConstraints: []v1.TopologySpreadConstraint{{
			MaxSkew: 5, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
		}},
	}
}

// inputs are the input files of the commands.
type inputs struct{ pod, packing string }

func (s *sizes) files(folder string) (inputs, error) {
	in := inputs{filepath.Join(folder, "pod.yaml"), filepath.Join(folder, "packing.yaml")}
	err := os.WriteFile(in.pod, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {containers: [{name: main, image: i, resources: {requests: {cpu: "1", memory: 1Gi}}}]}}`), 0o600)
	return in, errors.Join(err, os.WriteFile(in.packing, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]\n"), 0o600))
}
