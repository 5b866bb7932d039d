package neighbours

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

const (
	kueueModule    = "sigs.k8s.io/kueue"
	kueueNamespace = "kueue-system"
	kueueService   = "kueue-webhook-service"
	kueueSecret    = "kueue-webhook-server-cert"
)

var workloads = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "workloads"}

var kueue = neighbour{
	nodes:   6,
	install: installKueue,
	scenes: []scene{
		{"quota", playQuota},
		{"jobs", playJobs},
		{"pod-groups", playPodGroups},
		{"preemption", playQuotaPreemption},
		{"reclaim", playReclaim},
		{"topology", playTopology},
		{"more-quota-than-nodes", playMoreQuotaThanNodes},
		{"preempted-by-the-scheduler", playPreemptedByScheduler},
	},
}

// installKueue creates Kueue's definitions and webhooks and starts its manager. Kueue
// makes its own certificates. A kubelet would mount them; here the stage does.
func installKueue(ctx context.Context, s *stage) error {
	webhookPort, err := rig.FreePort()
	if err != nil {
		return err
	}
	toManager := func(client map[string]any) {
		service := client["service"].(map[string]any)
		service["namespace"], service["name"] = kueueNamespace, kueueService
		service["port"] = jsonInt(webhookPort)
	}
	// The API server calls webhooks of an ExternalName service at this name, by the
	// service's name in the certificate.
	if err := s.apply(ctx, fmt.Sprintf(`
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Secret
metadata: {name: %[2]s, namespace: %[1]s}
---
apiVersion: v1
kind: Service
metadata: {name: %[3]s, namespace: %[1]s}
spec: {type: ExternalName, externalName: localhost}
`, kueueNamespace, kueueSecret, kueueService)); err != nil {
		return err
	}
	if err := s.applyKueueDefinitions(ctx, toManager); err != nil {
		return err
	}
	if err := s.applyKueueWebhooks(ctx, toManager); err != nil {
		return err
	}
	certificates := filepath.Join(s.folder, "certificates")
	if err := os.Mkdir(certificates, 0o700); err != nil {
		return err
	}
	go s.mountSecret(ctx, kueueNamespace, kueueSecret, certificates)
	config, err := s.file("kueue.yaml", fmt.Sprintf(`
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: %s
health: {healthProbeBindAddress: "0"}
metrics: {bindAddress: "0"}
webhook: {port: %s, certDir: %s}
leaderElection: {leaderElect: false}
clientConnection: {qps: 300, burst: 500}
featureGates: {VisibilityOnDemand: false}
waitForPodsReady:
  timeout: 30s
  requeuingStrategy: {backoffBaseSeconds: 1, backoffLimitCount: 1}
integrations: {frameworks: [batch/job, pod, deployment]}
`, kueueNamespace, webhookPort, certificates))
	if err != nil {
		return err
	}
	process, err := s.start(nil, "kueue", "--kubeconfig", s.cluster.Kubeconfig, "--config", config)
	if err != nil {
		return err
	}
	err = poll(ctx, 2*time.Minute, func() error {
		if err := process.Failure(); err != nil {
			return err
		}
		return s.apply(ctx, "apiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: all}")
	})
	if err != nil {
		return fmt.Errorf("start Kueue: %w\n%s", err, process.Log())
	}
	s.collections = append(s.collections, workloads)
	return nil
}

func jsonInt(text string) any {
	var n int64
	_, _ = fmt.Sscan(text, &n)
	return n
}

// applyKueueDefinitions creates the definitions of Kueue, with a webhook for conversion
// where its own kustomization has one.
func (s *stage) applyKueueDefinitions(ctx context.Context, toManager func(map[string]any)) error {
	crd := []string{"config", "components", "crd"}
	text, err := moduleFile(ctx, "kueue", kueueModule, append(crd, "kustomization.yaml")...)
	if err != nil {
		return err
	}
	var kustomization struct {
		Resources []string
		Patches   []struct{ Path string }
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return err
	}
	converted := map[string]bool{}
	for _, patch := range kustomization.Patches {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(patch.Path), "webhook_in_"), ".yaml")
		converted[name+".kueue.x-k8s.io"] = true
	}
	for _, path := range kustomization.Resources {
		text, err := moduleFile(ctx, "kueue", kueueModule, append(crd, path)...)
		if err != nil {
			return err
		}
		err = s.apply(ctx, string(text), func(definition *unstructured.Unstructured) {
			if !converted[definition.GetName()] {
				return
			}
			client := map[string]any{"service": map[string]any{"path": "/convert"}}
			toManager(client)
			definition.Object["spec"].(map[string]any)["conversion"] = map[string]any{
				"strategy": "Webhook",
				"webhook":  map[string]any{"conversionReviewVersions": []any{"v1"}, "clientConfig": client},
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// applyKueueWebhooks creates the webhooks of Kueue. As in its kustomization, they leave
// pods and jobs of the system's namespaces alone.
func (s *stage) applyKueueWebhooks(ctx context.Context, toManager func(map[string]any)) error {
	text, err := moduleFile(ctx, "kueue", kueueModule, "config", "components", "webhook", "manifests.yaml")
	if err != nil {
		return err
	}
	return s.apply(ctx, string(text), func(configuration *unstructured.Unstructured) {
		configuration.SetName("kueue-" + configuration.GetName())
		for _, hook := range configuration.Object["webhooks"].([]any) {
			hook := hook.(map[string]any)
			toManager(hook["clientConfig"].(map[string]any))
			group := hook["rules"].([]any)[0].(map[string]any)["apiGroups"].([]any)[0]
			if group != "kueue.x-k8s.io" {
				hook["namespaceSelector"] = map[string]any{"matchExpressions": []any{map[string]any{
					"key": v1.LabelMetadataName, "operator": "NotIn", "values": []any{"kube-system", kueueNamespace},
				}}}
			}
		}
	})
}

// mountSecret writes the data of a Secret into a folder whenever it changes, as a kubelet
// does for a volume.
func (s *stage) mountSecret(ctx context.Context, namespace, name, folder string) {
	version := ""
	for ctx.Err() == nil {
		secret, err := s.clients.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && secret.ResourceVersion != version {
			for file, data := range secret.Data {
				err = errors.Join(err, os.WriteFile(filepath.Join(folder, file), data, 0o600))
			}
			if err == nil {
				version = secret.ResourceVersion
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// queue creates a ClusterQueue with the scene's name and a LocalQueue "main" for it.
func (s *stage) queue(ctx context.Context, name, flavor string, cpus int, more string) error {
	return s.apply(ctx, fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s-%[2]s}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: %[3]s, resources: [{name: cpu, nominalQuota: %[4]d}]}]
  %[5]s
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[2]s}
spec: {clusterQueue: %[1]s-%[2]s}
`, s.namespace, name, flavor, cpus, more))
}

// queued returns a pod for a queue.
func queued(name, queue string, cpus int, labels, annotations, spec string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  labels: {kueue.x-k8s.io/queue-name: %s, %s}
  annotations: {%s}
spec: {terminationGracePeriodSeconds: 0, %s%s}
`, name, queue, labels, annotations, spec, containers(cpus))
}

// member returns a pod of a group.
func member(group string, i, of int, queue string, cpus int, annotations, spec string) string {
	return queued(fmt.Sprintf("%s-%d", group, i), queue, cpus, "kueue.x-k8s.io/pod-group-name: "+group,
		fmt.Sprintf("kueue.x-k8s.io/pod-group-total-count: '%d'%s", of, annotations), spec)
}

// gang returns the pods of a group.
func gang(group string, of int, queue string, cpus int, annotations, spec string) string {
	var text strings.Builder
	for i := range of {
		text.WriteString(member(group, i, of, queue, cpus, annotations, spec) + "\n---\n")
	}
	return text.String()
}

// state is a text of the scene's pods and workloads.
func (s *stage) state(ctx context.Context) (string, error) {
	pods, err := s.list(ctx)
	if err != nil {
		return "", err
	}
	lines := []string{}
	for _, pod := range pods {
		where := "bound, " + string(pod.Status.Phase)
		if pod.Spec.NodeName == "" {
			where = scheduled(&pod)
		}
		name := pod.Name
		if owner := metav1.GetControllerOf(&pod); owner != nil {
			name = "a pod of " + owner.Name // its own name is random
		}
		lines = append(lines, fmt.Sprintf("%s: %s", name, where))
	}
	list, err := s.dynamic.Resource(workloads).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, w := range list.Items {
		lines = append(lines, fmt.Sprintf("workload of %s: %s", owners(&w), conditions(&w)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), nil
}

// owners returns the names of an object's owners.
func owners(o *unstructured.Unstructured) string {
	var names []string
	for _, owner := range o.GetOwnerReferences() {
		names = append(names, owner.Name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// conditions returns the conditions of an object that hold, with their reasons.
func conditions(o *unstructured.Unstructured) string {
	list, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var texts []string
	for _, c := range list {
		c := c.(map[string]any)
		if c["status"] == string(metav1.ConditionTrue) {
			texts = append(texts, fmt.Sprintf("%s (%s)", c["type"], c["reason"]))
		}
	}
	slices.Sort(texts)
	return cmp.Or(strings.Join(texts, ", "), "none holds")
}

// noteAll notes the state after it has settled.
func (s *stage) noteAll(ctx context.Context, what string) error {
	if err := s.settle(ctx, 4*time.Second, s.state); err != nil {
		return err
	}
	state, err := s.state(ctx)
	s.note("%s:\n%s", what, state)
	return err
}

// remove deletes pods.
func (s *stage) remove(ctx context.Context, pods ...string) error {
	for _, pod := range pods {
		if err := s.clients.CoreV1().Pods(s.namespace).Delete(ctx, pod, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// playQuota has more pods than quota. Those without quota keep Kueue's gate.
func playQuota(ctx context.Context, s *stage) error {
	if err := s.queue(ctx, "main", "all", 4, ""); err != nil {
		return err
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := s.apply(ctx, queued(name, "main", 2, "", "", "")); err != nil {
			return err
		}
		if name != "c" {
			if err := s.until(ctx, isBound(name)); err != nil {
				return err
			}
		}
	}
	if err := s.noteAll(ctx, "quota for two of three"); err != nil {
		return err
	}
	if err := s.remove(ctx, "a"); err != nil {
		return err
	}
	return s.noteAll(ctx, "after one is deleted")
}

// isBound is a condition for until.
func isBound(name string) func([]v1.Pod) error {
	return func(pods []v1.Pod) error {
		for _, pod := range pods {
			if pod.Name == name && pod.Spec.NodeName != "" {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not bound", name)
	}
}

// playJobs has three Jobs with quota for one. All must complete, one after another.
func playJobs(ctx context.Context, s *stage) error {
	if err := s.queue(ctx, "main", "all", 4, ""); err != nil {
		return err
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := s.apply(ctx, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {kueue.x-k8s.io/queue-name: main}}
spec:
  parallelism: 2
  completions: 2
  suspend: true
  template:
    spec: {restartPolicy: Never, %s}
`, name, containers(2))); err != nil {
			return err
		}
	}
	err := poll(ctx, 2*time.Minute, func() error {
		list, err := s.clients.BatchV1().Jobs(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, job := range list.Items {
			if job.Status.Succeeded != 2 {
				return fmt.Errorf("job %s: %d pods have succeeded", job.Name, job.Status.Succeeded)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.note("pods: %d", s.created())
	return s.noteAll(ctx, "three jobs")
}

// playPodGroups has two groups with quota for one.
func playPodGroups(ctx context.Context, s *stage) error {
	if err := s.queue(ctx, "main", "all", 6, ""); err != nil {
		return err
	}
	if err := s.apply(ctx, member("first", 0, 3, "main", 2, "", "")); err != nil {
		return err
	}
	if err := s.noteAll(ctx, "one of three members exists"); err != nil {
		return err
	}
	if err := s.apply(ctx, gang("first", 3, "main", 2, "", "")); err != nil {
		return err
	}
	if err := s.bound(ctx, 3); err != nil {
		return err
	}
	if err := s.apply(ctx, gang("second", 3, "main", 2, "", "")); err != nil {
		return err
	}
	return s.noteAll(ctx, "quota for one of two groups")
}

// playQuotaPreemption: a pod of higher priority takes the quota of a lower one.
func playQuotaPreemption(ctx context.Context, s *stage) error {
	if err := s.priorities(ctx); err != nil {
		return err
	}
	if err := s.queue(ctx, "main", "all", 4, "preemption: {withinClusterQueue: LowerPriority}"); err != nil {
		return err
	}
	if err := s.apply(ctx, gang("low", 2, "main", 2, "", "priorityClassName: low, ")); err != nil {
		return err
	}
	if err := s.bound(ctx, 2); err != nil {
		return err
	}
	if err := s.apply(ctx, queued("high", "main", 2, "", "", "priorityClassName: high, ")); err != nil {
		return err
	}
	if err := s.until(ctx, isBound("high")); err != nil {
		return err
	}
	return s.noteAll(ctx, "a higher priority takes the quota")
}

func (s *stage) priorities(ctx context.Context) error {
	return s.apply(ctx, `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
`)
}

// playReclaim: a queue borrows the quota of its cohort and gives it back.
func playReclaim(ctx context.Context, s *stage) error {
	cohort := "cohortName: reclaim"
	if err := s.queue(ctx, "borrower", "all", 2, cohort); err != nil {
		return err
	}
	if err := s.queue(ctx, "owner", "all", 2, cohort+"\n  preemption: {reclaimWithinCohort: Any}"); err != nil {
		return err
	}
	for _, name := range []string{"own", "borrowed"} {
		if err := s.apply(ctx, queued(name, "borrower", 2, "", "", "")); err != nil {
			return err
		}
		if err := s.until(ctx, isBound(name)); err != nil {
			return err
		}
	}
	if err := s.noteAll(ctx, "a queue borrows"); err != nil {
		return err
	}
	if err := s.apply(ctx, queued("owners", "owner", 2, "", "", "")); err != nil {
		return err
	}
	if err := s.until(ctx, isBound("owners")); err != nil {
		return err
	}
	return s.noteAll(ctx, "the owner reclaims")
}

// playTopology has a group that must be in one rack, and a second for which no rack has
// room.
func playTopology(ctx context.Context, s *stage) error {
	for i, node := range s.nodes {
		if err := s.label(ctx, rack, string(rune('a'+i/2)), node); err != nil {
			return err
		}
	}
	if err := s.apply(ctx, `
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: racks}
spec: {levels: [{nodeLabel: `+rack+`}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: racks}
spec: {topologyName: racks, nodeLabels: {kubernetes.io/os: linux}}
`); err != nil {
		return err
	}
	if err := s.label(ctx, v1.LabelOSStable, "linux", s.nodes...); err != nil {
		return err
	}
	if err := s.queue(ctx, "main", "racks", 1000, ""); err != nil {
		return err
	}
	together := ", kueue.x-k8s.io/podset-required-topology: " + rack
	for _, group := range []string{"first", "second", "third"} {
		if err := s.apply(ctx, gang(group, 4, "main", 15, together, "")); err != nil {
			return err
		}
		for i := range 4 {
			if err := s.until(ctx, isBound(fmt.Sprintf("%s-%d", group, i))); err != nil {
				return err
			}
		}
		racks, err := s.racksOf(ctx, group)
		if err != nil {
			return err
		}
		s.note("%s is in %d rack", group, racks)
	}
	if err := s.apply(ctx, gang("fourth", 2, "main", 15, together, "")); err != nil {
		return err
	}
	if err := s.noteAll(ctx, "all racks are full"); err != nil {
		return err
	}
	return s.label(ctx, rack, "", s.nodes...)
}

// racksOf counts the racks of a group's pods.
func (s *stage) racksOf(ctx context.Context, group string) (int, error) {
	pods, err := s.list(ctx)
	if err != nil {
		return 0, err
	}
	racks := map[string]bool{}
	for _, pod := range pods {
		if !strings.HasPrefix(pod.Name, group+"-") {
			continue
		}
		node, err := s.clients.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
		if err != nil {
			return 0, err
		}
		racks[node.Labels[rack]] = true
	}
	return len(racks), nil
}

// playMoreQuotaThanNodes: quota is free, but no node has room. Kueue evicts the workload
// after its time, tries once more, and deactivates it.
func playMoreQuotaThanNodes(ctx context.Context, s *stage) error {
	if err := s.queue(ctx, "main", "all", 1000, ""); err != nil {
		return err
	}
	if err := s.apply(ctx, fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: large, labels: {kueue.x-k8s.io/queue-name: main}}
spec:
  suspend: true
  template:
    spec: {restartPolicy: Never, %s}
`, containers(64))); err != nil {
		return err
	}
	if err := s.until(ctx, func(pods []v1.Pod) error {
		for _, pod := range pods {
			if text := scheduled(&pod); strings.Contains(text, v1.PodReasonUnschedulable) {
				s.note("the pod is %s", text)
				return nil
			}
		}
		return errors.New("no pod is unschedulable")
	}); err != nil {
		return err
	}
	err := poll(ctx, 3*time.Minute, func() error {
		state, err := s.state(ctx)
		if err == nil && !strings.Contains(state, "Deactivated") {
			err = fmt.Errorf("the workload is not deactivated:\n%s", state)
		}
		return err
	})
	if err != nil {
		return err
	}
	s.note("pods: %d", s.created())
	return s.noteAll(ctx, "after two attempts")
}

// playPreemptedByScheduler: the scheduler preempts a pod that Kueue admitted, for a pod
// that Kueue does not manage.
func playPreemptedByScheduler(ctx context.Context, s *stage) error {
	if err := s.priorities(ctx); err != nil {
		return err
	}
	if err := s.queue(ctx, "main", "all", 1000, ""); err != nil {
		return err
	}
	for i := range 6 {
		if err := s.apply(ctx, queued(fmt.Sprintf("low-%d", i), "main", 30, "", "", "priorityClassName: low, ")); err != nil {
			return err
		}
	}
	if err := s.bound(ctx, 6); err != nil {
		return err
	}
	outside := strings.ReplaceAll(queued("high", "-", 20, "", "", "priorityClassName: high, "), "kueue.x-k8s.io/queue-name: -,", "")
	if err := s.apply(ctx, outside); err != nil {
		return err
	}
	if err := s.until(ctx, isBound("high")); err != nil {
		return err
	}
	if err := s.settle(ctx, 4*time.Second, s.state); err != nil {
		return err
	}
	pods, err := s.list(ctx)
	if err != nil {
		return err
	}
	phases := map[v1.PodPhase]int{}
	for _, pod := range pods {
		phases[pod.Status.Phase]++
	}
	s.note("pods: %v", phases)
	list, err := s.dynamic.Resource(workloads).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	states := map[string]int{}
	for _, w := range list.Items {
		states[conditions(&w)]++
	}
	s.note("workloads: %v", states)
	return nil
}
