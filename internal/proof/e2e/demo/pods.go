package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

const namespace = "shop"

// apply creates everything in a file and returns the number of replicas of its
// Deployments.
func apply(ctx context.Context, kubeconfig, file string) (pods int, err error) {
	config, err := rig.Config(kubeconfig)
	if err != nil {
		return 0, err
	}
	config.ContentType = ""
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return 0, err
	}
	open, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer open.Close()
	for documents := yaml.NewYAMLOrJSONDecoder(open, 4096); ; {
		var object unstructured.Unstructured
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return pods, nil
		} else if err != nil {
			return 0, fmt.Errorf("read %s: %w", file, err)
		}
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		if _, err := client.Resource(resource).Namespace(object.GetNamespace()).Create(ctx, &object, metav1.CreateOptions{}); err != nil {
			return 0, fmt.Errorf("apply %s: create %s %s: %w", file, object.GetKind(), object.GetName(), err)
		}
		if object.GetKind() == "Deployment" {
			replicas, _, err := unstructured.NestedInt64(object.Object, "spec", "replicas")
			if err != nil {
				return 0, fmt.Errorf("apply %s: Deployment %s: %w", file, object.GetName(), err)
			}
			pods += int(replicas)
		}
	}
}

// podWatch watches the example's pods and their nodes.
type podWatch struct {
	pods, nodes cache.Store
}

func watchPods(ctx context.Context, cluster *rig.Cluster) (*podWatch, error) {
	client, err := cluster.Client()
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods, nodes := factory.Core().V1().Pods().Informer(), factory.Core().V1().Nodes().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced, nodes.HasSynced) {
		return nil, context.Cause(ctx)
	}
	return &podWatch{pods: pods.GetStore(), nodes: nodes.GetStore()}, nil
}

// count returns the numbers of pods that exist, are on a node, and run. It returns an
// error if a node has refused a pod.
func (w *podWatch) count() (created, bound, running int, refused error) {
	for _, object := range w.pods.List() {
		pod := object.(*v1.Pod)
		if pod.Namespace != namespace {
			continue
		}
		created++
		if pod.Spec.NodeName != "" {
			bound++
		}
		if pod.Status.Phase == v1.PodRunning {
			running++
		}
		refused = cmp.Or(refused, rig.Refused(pod))
	}
	return created, bound, running, refused
}

// await shows progress until all pods run.
func (w *podWatch) await(ctx context.Context, berth *rig.Process, want int) error {
	live := term.IsTerminal(int(os.Stderr.Fd()))
	every := 2 * time.Second
	if live {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		created, bound, running, refused := w.count()
		if refused != nil {
			return refused
		}
		line := fmt.Sprintf("    %d of %d pods created, %d on a node, %d running", created, want, bound, running)
		if live {
			fmt.Fprintf(os.Stderr, "\r%-70s", line)
		} else {
			fmt.Fprintln(os.Stderr, line)
		}
		if running >= want {
			if live {
				fmt.Fprintln(os.Stderr)
			}
			return nil
		}
		select {
		case <-tick.C:
		case <-berth.Exited():
			return fmt.Errorf("berth ended with %d of %d pods running", running, want)
		case <-ctx.Done():
			return fmt.Errorf("%d of %d pods run: %w", running, want, context.Cause(ctx))
		}
	}
}

// report prints the placements of the pods.
func report(out io.Writer, w *podWatch, nodes int, took time.Duration) {
	zoneOf := map[string]string{}
	var cpu, memory, cpuUsed, memoryUsed resource.Quantity
	for _, object := range w.nodes.List() {
		node := object.(*v1.Node)
		zoneOf[node.Name] = node.Labels[v1.LabelTopologyZone]
		cpu.Add(*node.Status.Allocatable.Cpu())
		memory.Add(*node.Status.Allocatable.Memory())
	}
	perApp := map[string]map[string]int{}
	zones := map[string]bool{}
	running := 0
	for _, object := range w.pods.List() {
		pod := object.(*v1.Pod)
		if pod.Namespace != namespace || pod.Status.Phase != v1.PodRunning {
			continue
		}
		running++
		zone, app := zoneOf[pod.Spec.NodeName], pod.Labels["app"]
		zones[zone] = true
		if perApp[app] == nil {
			perApp[app] = map[string]int{}
		}
		perApp[app][zone]++
		for i := range pod.Spec.Containers {
			cpuUsed.Add(*pod.Spec.Containers[i].Resources.Requests.Cpu())
			memoryUsed.Add(*pod.Spec.Containers[i].Resources.Requests.Memory())
		}
	}
	fmt.Fprintf(out, "\nRunning:      %d pods on %d nodes, %.1f s from the first Deployment to the last running pod: %.0f pods/s\n",
		running, nodes, took.Seconds(), float64(running)/took.Seconds())
	fmt.Fprintf(out, "Utilisation:  cpu %.1f %% of %d cores, memory %.1f %% of %d Gi\n",
		100*cpuUsed.AsApproximateFloat64()/cpu.AsApproximateFloat64(), cpu.Value(),
		100*memoryUsed.AsApproximateFloat64()/memory.AsApproximateFloat64(), memory.Value()>>30)
	printZones(out, perApp, slices.Sorted(maps.Keys(zones)))
}

func printZones(out io.Writer, perApp map[string]map[string]int, zones []string) {
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "DEPLOYMENT")
	for _, zone := range zones {
		fmt.Fprintf(table, "\t%s", zone)
	}
	fmt.Fprintln(table, "\tPODS")
	for _, app := range slices.Sorted(maps.Keys(perApp)) {
		total := 0
		fmt.Fprint(table, app)
		for _, zone := range zones {
			fmt.Fprintf(table, "\t%d", perApp[app][zone])
			total += perApp[app][zone]
		}
		fmt.Fprintf(table, "\t%d\n", total)
	}
	table.Flush()
	fmt.Fprintln(out)
}

func createTooBig(ctx context.Context, client kubernetes.Interface) (*v1.Pod, error) {
	big := v1.ResourceList{v1.ResourceCPU: resource.MustParse("100"), "nvidia.com/gpu": resource.MustParse("1")}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "too-big", Namespace: namespace},
		Spec: v1.PodSpec{Containers: []v1.Container{{
			Name: "main", Image: "registry.example/shop/big:1", Resources: v1.ResourceRequirements{Requests: big, Limits: v1.ResourceList{"nvidia.com/gpu": big["nvidia.com/gpu"]}},
		}}},
	}
	created, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create a pod that fits nowhere: %w", err)
	}
	return created, nil
}

// awaitCondition waits until the scheduler has written a condition of the pod.
func awaitCondition(ctx context.Context, client kubernetes.Interface, pod *v1.Pod) (v1.PodCondition, error) {
	var found v1.PodCondition
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		now, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(now.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled })
		if i < 0 {
			return false, nil
		}
		found = now.Status.Conditions[i]
		return true, nil
	})
	if err != nil {
		return found, fmt.Errorf("wait for the PodScheduled condition of %s: %w", pod.Name, err)
	}
	return found, nil
}
