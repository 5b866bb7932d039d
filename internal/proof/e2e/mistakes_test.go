package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

var updateMistakes = flag.Bool("update-mistakes", false, "write the transcript of TestTwelveMistakes into docs/pending.md")

// mistakes is a separate cluster of 500 nodes with Berth, so that the output is the same
// in each run.
type mistakes struct {
	*testing.T
	ctx        context.Context
	client     *kubernetes.Clientset
	dynamic    dynamic.Interface
	kubeconfig string
	// path is a folder with kubectl, and Berth as its plugin.
	path string
	// shown are the code blocks that docs/pending.md must show.
	shown []string
}

// mistake is one of the twelve mistakes.
type mistake struct {
	title string
	// before makes room, if set. made are the objects that make the mistake. pod is the
	// pod that then waits.
	before    func()
	made, pod string
	// says is the suggestion in its explanation. fix are the commands that follow it.
	says string
	fix  []string
}

func newMistakes(t *testing.T) *mistakes {
	t.Helper()
	bin := os.Getenv(binEnv)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	m := &mistakes{T: t, ctx: ctx, path: t.TempDir()}
	binary, err := filepath.Abs(filepath.Join(bin, "berth"))
	m.must(err)
	kubectl, err := filepath.Abs(filepath.Join(bin, "kubectl"))
	m.must(err)
	m.must(os.Symlink(binary, filepath.Join(m.path, "kubectl-berth")))
	m.must(os.Symlink(kubectl, filepath.Join(m.path, "kubectl")))
	c, err := rig.StartCluster(ctx, bin, nil, "--nodes", "500", "--data-dir", filepath.Join(t.TempDir(), "cluster"),
		"--feature-gates", "GenericWorkload=true", "--runtime-config", schedulingv1beta1.SchemeGroupVersion.String()+"=true")
	m.must(err)
	t.Cleanup(func() { m.must(c.Stop()) })
	access, err := rig.Config(c.Kubeconfig)
	m.must(err)
	// with every answer, that the version of PodGroups will be deprecated
	access.WarningHandler = rest.NoWarnings{}
	m.client, err = kubernetes.NewForConfig(access)
	m.must(err)
	m.dynamic, err = dynamic.NewForConfig(access)
	m.must(err)
	m.kubeconfig = c.Kubeconfig
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	m.must(os.WriteFile(file, fmt.Appendf(nil, quickly, c.SchedulerKubeconfig), 0o600))
	p, err := rig.Start(nil, binary, "scheduler", "--config", file, "--secure-port=0", "--feature-gates=GenericWorkload=true")
	m.must(err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of Berth's log:\n%s", p.Log())
		}
	})
	m.await("the node controller is done with the taints and labels of new nodes", func() bool {
		nodes, err := m.client.CoreV1().Nodes().List(m.ctx, metav1.ListOptions{})
		m.must(err)
		return len(nodes.Items) == 500 && !slices.ContainsFunc(nodes.Items, func(n v1.Node) bool {
			return n.Labels["beta.kubernetes.io/os"] == "" || n.Labels["beta.kubernetes.io/arch"] == "" ||
				slices.ContainsFunc(n.Spec.Taints, func(taint v1.Taint) bool { return strings.HasPrefix(taint.Key, "node.kubernetes.io/") })
		})
	})
	m.await("the namespace has its service account", func() bool {
		_, err := m.client.CoreV1().ServiceAccounts("default").Get(m.ctx, "default", metav1.GetOptions{})
		return err == nil
	})
	return m
}

func (m *mistakes) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *mistakes) await(what string, condition func() bool) {
	m.Helper()
	await(m.ctx, m, what, condition)
}

// resources are the resources of the kinds that the test creates.
var resources = map[string]schema.GroupVersionResource{
	"Pod": v1.SchemeGroupVersion.WithResource("pods"), "PersistentVolume": v1.SchemeGroupVersion.WithResource("persistentvolumes"),
	"PersistentVolumeClaim": v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
	"StorageClass":          {Group: "storage.k8s.io", Version: "v1", Resource: "storageclasses"},
	"PriorityClass":         {Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"},
	"DeviceClass":           {Group: "resource.k8s.io", Version: "v1", Resource: "deviceclasses"},
	"ResourceSlice":         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceslices"},
	"ResourceClaim":         {Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"},
	"PodGroup":              schedulingv1beta1.SchemeGroupVersion.WithResource("podgroups"),
}

// in returns the client for the objects of a kind.
func (m *mistakes) in(object *unstructured.Unstructured) dynamic.ResourceInterface {
	resource, ok := resources[object.GetKind()]
	if !ok {
		m.Fatalf("no resource for kind %q", object.GetKind())
	}
	switch object.GetKind() {
	case "Pod", "PersistentVolumeClaim", "ResourceClaim", "PodGroup":
		return m.dynamic.Resource(resource).Namespace("default")
	}
	return m.dynamic.Resource(resource)
}

// create creates the objects in a text.
func (m *mistakes) create(text string) {
	m.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return
		}
		m.must(err)
		if len(object.Object) > 0 {
			_, err = m.in(&object).Create(m.ctx, &object, metav1.CreateOptions{})
			m.must(err)
		}
	}
}

// delete deletes a pod and waits until it is gone.
func (m *mistakes) delete(name string) {
	m.Helper()
	pods := m.client.CoreV1().Pods("default")
	m.must(pods.Delete(m.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	m.await("pod "+name+" is gone", func() bool {
		_, err := pods.Get(m.ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func (m *mistakes) nodeOf(name string) string {
	pod, err := m.client.CoreV1().Pods("default").Get(m.ctx, name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return pod.Spec.NodeName
}

func (m *mistakes) awaitBound(names ...string) {
	m.Helper()
	for _, name := range names {
		m.await("pod "+name+" has a node", func() bool { return m.nodeOf(name) != "" })
	}
}

// awaitWaiting waits until the scheduler has written why a pod waits.
func (m *mistakes) awaitWaiting(name string) {
	m.Helper()
	m.await("the condition of pod "+name+" says why it waits", func() bool {
		pod, err := m.client.CoreV1().Pods("default").Get(m.ctx, name, metav1.GetOptions{})
		m.must(err)
		if pod.Spec.NodeName != "" {
			m.Fatalf("pod %s has node %s", name, pod.Spec.NodeName)
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				return true
			}
		}
		return false
	})
}

// run runs a command line as a user would, with kubectl and its plugin in the PATH, and
// returns its output.
func (m *mistakes) run(line string) string {
	m.Helper()
	cmd := exec.CommandContext(m.ctx, "sh", "-c", line)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.kubeconfig, "PATH="+m.path+string(os.PathListSeparator)+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		m.Fatalf("%s: %v\n%s%s", line, err, out.String(), errs.String())
	}
	return out.String()
}

// explain runs kubectl berth explain; kubectl finds its plugin.
func (m *mistakes) explain(pod string) string {
	m.Helper()
	return m.run("kubectl berth explain " + pod + " --feature-gates GenericWorkload=true")
}

// podOf returns a pod with a cpu request and further fields of the spec.
func podOf(name, cpu, spec string) string {
	if spec != "" {
		spec += ", "
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {app: %s}}\nspec: {%scontainers: [{name: main, image: i, resources: {requests: {cpu: '%s', memory: 1Gi}}}]}\n---\n",
		name, strings.TrimRight(name, "-0123456789"), spec, cpu)
}

// gpuPod returns a pod for the nodes with GPUs.
func gpuPod(name, gpus, spec string) string {
	if spec != "" {
		spec += ", "
	}
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, labels: {gang: %s}}\nspec: {%stolerations: [{key: nvidia.com/gpu, operator: Exists}], "+
		"containers: [{name: main, image: i, resources: {requests: {cpu: '1'}, limits: {nvidia.com/gpu: '%s'}}}]}\n---\n", name, strings.TrimRight(name, "-0123456789"), spec, gpus)
}

// again returns the commands that recreate a pod after an edit of immutable fields.
func again(pod, edit string) []string {
	return []string{"kubectl get pod " + pod + " -o yaml | sed '" + edit + "' | kubectl replace --force -f -"}
}

// repeated returns the texts for the numbers below n.
func repeated(n int, text func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(text(i))
	}
	return b.String()
}

// The nodes of two pools.
const gpuNodes, computeNodes = 25, 50

// TestTwelveMistakes makes twelve classic mistakes, one after the other. Each must be
// explained in at most ten lines with a suggestion that names its cause. When the
// suggestion is followed with kubectl, the pod must get a node. docs/pending.md shows the
// output.
func TestTwelveMistakes(t *testing.T) {
	m := newMistakes(t)
	m.prepare()
	for i, x := range m.all() {
		if x.before != nil {
			x.before()
		}
		m.create(x.made)
		m.awaitWaiting(x.pod)
		// until the API shows the scheduler's decisions
		m.await("the other pods are bound", func() bool {
			pods, err := m.client.CoreV1().Pods("default").List(m.ctx, metav1.ListOptions{})
			m.must(err)
			return !slices.ContainsFunc(pods.Items, func(p v1.Pod) bool { return p.Spec.NodeName == "" && p.Name != x.pod && p.Spec.SchedulingGroup == nil })
		})
		out := m.explain(x.pod)
		t.Logf("%d. %s\n%s", i+1, x.title, out)
		if lines := strings.Count(out, "\n"); lines > 10 {
			t.Errorf("%s: %d lines", x.title, lines)
		}
		if !strings.Contains(out, x.says) {
			t.Errorf("%s: %q is not suggested", x.title, x.says)
		}
		fixed := ""
		for _, line := range x.fix {
			fixed += fmt.Sprintf("$ %s\n%s", line, m.run(line))
		}
		m.shown = append(m.shown, fmt.Sprintf("$ kubectl berth explain %s\n%s", x.pod, out), fixed)
		m.awaitBound(x.pod)
	}
	m.compare()
}

// compare compares the document's code blocks with the output, or writes them there. The
// text between the blocks belongs to the document and must contain each title.
func (m *mistakes) compare() {
	const path, begin, end = "../../../docs/pending.md", "<!-- The transcript of TestTwelveMistakes begins here. -->\n\n", "<!-- It ends here. -->"
	page, err := os.ReadFile(path)
	m.must(err)
	before, rest, ok := strings.Cut(string(page), begin)
	had, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		m.Fatalf("%s has no place for the transcript", path)
	}
	const fence = "```\n"
	parts := strings.Split(had, fence) // text and code blocks, in turn
	if len(parts) != 2*len(m.shown)+1 {
		m.Fatalf("%s has %d fences, want %d: two blocks of code for each mistake", path, len(parts)-1, 2*len(m.shown))
	}
	for i, x := range m.all() {
		if heading := fmt.Sprintf("### %d. %s\n", i+1, x.title); !strings.Contains(parts[4*i], heading) {
			m.Errorf("%s lacks the heading %q before its block of code", path, heading)
		}
	}
	for i, block := range m.shown {
		parts[2*i+1] = block
	}
	now := strings.Join(parts, fence)
	if *updateMistakes {
		m.must(os.WriteFile(path, []byte(before+begin+now+end+after), 0o600))
		return
	}
	// Which of several equal pods or nodes is named depends on which of them ran first.
	masked := func(text string) string { return regexp.MustCompile(`-\d+\b`).ReplaceAllString(text, "-N") }
	if diff := cmp.Diff(masked(had), masked(now)); diff != "" {
		m.Errorf("docs/pending.md differs from what is printed (- document, + printed); -update-mistakes writes it anew:\n%s", diff)
	}
}

// prepare creates the objects that precede the mistakes.
func (m *mistakes) prepare() {
	m.create(`
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk-b}, spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: "", hostPath: {path: /b},
  claimRef: {namespace: default, name: data},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [eu-1b]}]}]}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: disk-b, resources: {requests: {storage: 5Gi}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: disk-c}, spec: {capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], storageClassName: local, hostPath: {path: /c},
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [eu-1c]}]}]}}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: batch}, value: 100}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: service}, value: 1000}
---
{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: scanner}, spec: {selectors: [{cel: {expression: "device.driver == 'scanner.example.com'"}}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: scanners}, spec: {driver: scanner.example.com, nodeName: medium-00000,
  pool: {name: medium-00000, generation: 1, resourceSliceCount: 1}, devices: [{name: scanner-0}]}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: scan-0}, spec: {devices: {requests: [{name: scanner, exactly: {deviceClassName: scanner}}]}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: scan-1}, spec: {devices: {requests: [{name: scanner, exactly: {deviceClassName: scanner}}]}}}
`)
	m.await("claim data is bound", func() bool {
		claim, err := m.client.CoreV1().PersistentVolumeClaims("default").Get(m.ctx, "data", metav1.GetOptions{})
		m.must(err)
		return claim.Status.Phase == v1.ClaimBound
	})
}

func (m *mistakes) all() []mistake {
	const zone = v1.LabelTopologyZone
	typo := func(pool string) string { return podOf("typo", "1", "nodeSelector: {berth.dev/pool: "+pool+"}") }
	inZone := func(of string) string {
		return podOf("volume", "1", "nodeSelector: {"+zone+": "+of+"}, volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]")
	}
	spread := func(i, skew int) string {
		return podOf(fmt.Sprint("spread-", i), "1", fmt.Sprintf("topologySpreadConstraints: [{maxSkew: %d, topologyKey: %s, whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: Ignore, "+
			"labelSelector: {matchLabels: {app: spread}}}], nodeSelector: {%s: eu-1a}", skew, zone, zone))
	}
	scan := func(i int) string {
		return podOf(fmt.Sprint("scan-", i), "1", fmt.Sprintf("resourceClaims: [{name: scanner, resourceClaimName: scan-%d}]", i))
	}
	gang := repeated(30, func(i int) string {
		return gpuPod(fmt.Sprintf("train-%02d", i), "4", "schedulingGroup: {podGroupName: train}")
	}) + "{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: train, labels: {gang: train}}, spec: {schedulingPolicy: {gang: {minCount: 30}}}}\n---\n"
	return []mistake{
		{title: "A label that no node has", made: typo("lage"), pod: "typo", says: "change the node selector berth.dev/pool=lage to berth.dev/pool=large",
			fix: again("typo", "s/lage/large/")},
		{title: "A taint", made: podOf("taint", "1", "nodeSelector: {berth.dev/pool: gpu}"), pod: "taint", says: "tolerate the taint nvidia.com/gpu=present:NoSchedule",
			fix: []string{`kubectl patch pod taint --type json --patch '[{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}}]'`}},
		{title: "Room enough, but in pieces", made: repeated(gpuNodes, func(i int) string {
			return gpuPod(fmt.Sprintf("piece-%02d", i), "1", "nodeSelector: {"+v1.LabelHostname+": "+gpuNode(i)+"}")
		}) + gpuPod("whole", "4", ""), pod: "whole", says: "lower the nvidia.com/gpu request of container main from 4 to 3",
			fix: again("whole", `s/gpu: "4"/gpu: "3"/`)},
		{title: "A volume in another zone", made: inZone("eu-1a"), pod: "volume", says: "change the node selector " + zone + "=eu-1a to " + zone + "=eu-1b",
			fix: again("volume", "s/eu-1a/eu-1b/")},
		{title: "Too large for any node", made: podOf("giant", "100", ""), pod: "giant", says: "lower the cpu request of container main from 100 to 63770m",
			fix: again("giant", `s/cpu: "100"/cpu: 63770m/`)},
		{title: "Anti-affinity with too few nodes", made: repeated(computeNodes+1, func(i int) string {
			return podOf(fmt.Sprintf("quorum-%02d", i), "100m", "nodeSelector: {berth.dev/pool: compute}, "+
				"affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: "+v1.LabelHostname+", labelSelector: {matchLabels: {app: quorum}}}]}}")
		}), pod: fmt.Sprintf("quorum-%02d", computeNodes), says: "label node huge-00008 with berth.dev/pool=compute",
			fix: []string{"kubectl label node huge-00008 berth.dev/pool=compute --overwrite"}},
		{title: "A skew that cannot be kept", made: spread(0, 1) + spread(1, 1), pod: "spread-1", says: "raise the maxSkew of the spread constraint on " + zone + " from 1 to 2",
			fix: again("spread-1", "s/maxSkew: 1/maxSkew: 2/")},
		{title: "No device is left", made: scan(0) + scan(1), pod: "scan-1", says: "remove pod default/scan-0 from node medium-00000, which holds devices",
			fix: []string{"kubectl delete pod scan-0 --now"}},
		{title: "A priority that is too low", before: func() { m.deletePods(gpuNodes, "piece-%02d"); m.delete("whole") },
			made: repeated(gpuNodes, func(i int) string { return gpuPod(fmt.Sprintf("service-%02d", i), "4", "priorityClassName: service") }) + gpuPod("urgent", "1", "priorityClassName: batch"),
			pod:  "urgent", says: "raise its priority from 100 to 1001 or more",
			fix: append([]string{"kubectl create priorityclass urgent --value 1001"}, again("urgent", "s/priorityClassName: batch/priorityClassName: urgent/; /^  priority: /d")...)},
		{title: "A scheduling gate", made: podOf("gated", "1", "schedulingGates: [{name: example.com/quota}]"), pod: "gated", says: "remove the scheduling gate example.com/quota",
			fix: []string{`kubectl patch pod gated --type json --patch '[{"op": "remove", "path": "/spec/schedulingGates"}]'`}},
		{title: "A claim that does not exist", made: podOf("claimant", "1", "volumes: [{name: data, persistentVolumeClaim: {claimName: results}}]"), pod: "claimant",
			says: "create PersistentVolumeClaim default/results (tried with class local and 1Gi)",
			fix: []string{`kubectl create -f - <<END
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: results},
 spec: {accessModes: [ReadWriteOnce], storageClassName: local, resources: {requests: {storage: 1Gi}}}}
END`}},
		{title: "A gang that is too large", before: func() { m.deletePods(gpuNodes, "service-%02d"); m.delete("urgent") },
			made: gang, pod: "train-00", says: "minCount 25",
			fix: []string{"kubectl get podgroups,pods -l gang=train -o yaml | sed 's/minCount: 30/minCount: 25/' | kubectl replace --force -f - | grep podgroup"}},
	}
}

// deletePods deletes the existing pods of n names.
func (m *mistakes) deletePods(n int, format string) {
	m.Helper()
	for i := range n {
		if name := fmt.Sprintf(format, i); m.nodeOf(name) != "" {
			m.must(m.client.CoreV1().Pods("default").Delete(m.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		}
	}
}

// gpuNode returns the name of a node with GPUs.
func gpuNode(i int) string { return fmt.Sprintf("gpu-%05d", 20*i+7) }
