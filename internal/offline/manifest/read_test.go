package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	watched "github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// read decodes text that must be valid.
func read(t *testing.T, text string) *Cluster {
	t.Helper()
	c, err := Decode("F", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Output of kubectl is decoded unchanged, in YAML and in JSON, split or as a whole.
func TestSnapshot(t *testing.T) {
	text := string(snapshot(3, 5))
	oneByOne := ""
	for i := range 3 {
		oneByOne += "---\n" + fmt.Sprintf(benchNode, i)
	}
	for i := range 5 {
		oneByOne += "---\n" + fmt.Sprintf(benchPod, i, i%3)
	}
	want := read(t, oneByOne)
	if len(want.Nodes) != 3 || len(want.Pods) != 5 || len(want.Namespaces) != 1 {
		t.Fatalf("%d nodes, %d pods, %d namespaces", len(want.Nodes), len(want.Pods), len(want.Namespaces))
	}
	var pod v1.Pod
	if err := yaml.UnmarshalStrict([]byte(fmt.Sprintf(benchPod, 4, 1)), &pod); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(&pod, want.Pods[4]) {
		t.Errorf("got\n%+v\nwant\n%+v", want.Pods[4], &pod)
	}
	js := string(indented(t, []byte(text)))
	for name, other := range map[string]string{
		"yaml list":    text,
		"crlf":         strings.ReplaceAll(text, "\n", "\r\n"),
		"bom":          "\ufeff" + text,
		"json list":    js,
		"one line":     string(must(yaml.YAMLToJSON([]byte(text)))),
		"json as yaml": "# comment\n" + js,
		"anchors":      strings.Replace(text, "architecture: amd64", "architecture: &arch amd64", 1),
		"list in list": "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n",
	} {
		if got := read(t, other); !reflect.DeepEqual(got, want) {
			t.Errorf("%s differs", name)
		}
	}
}

// An alias may refer from one element of a list to another.
func TestAlias(t *testing.T) {
	c := read(t, "kind: List\napiVersion: v1\nitems:\n- {kind: Node, apiVersion: v1, metadata: {name: a, labels: &l {x: z}}}\n- kind: Node\n  apiVersion: v1\n  metadata:\n    name: b\n    labels: *l\n")
	if len(c.Nodes) != 2 || c.Nodes[1].Labels["x"] != "z" {
		t.Errorf("got %+v", c.Nodes)
	}
}

// The items of a typed list may omit their kind, as in the API server's own lists.
func TestTypedList(t *testing.T) {
	c := read(t, `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}
{"kind":"PodList","apiVersion":"v1","items":null}`)
	if len(c.Nodes) != 2 || c.Nodes[1].Kind != "Node" {
		t.Errorf("got %+v", c.Nodes)
	}
}

// A name is derived from generateName, as for kubectl create: different for each object,
// and the same in each run.
func TestGenerateName(t *testing.T) {
	const text = "{kind: Pod, apiVersion: v1, metadata: {generateName: web-}, spec: {containers: [{name: c}]}}\n"
	c, again := read(t, text+"---\n"+text), read(t, text+"---\n"+text)
	a, b := c.Pods[0].Name, c.Pods[1].Name
	if a == b || len(a) != len("web-12345") || !strings.HasPrefix(a, "web-") || a != again.Pods[0].Name {
		t.Errorf("names %s, %s, again %s", a, b, again.Pods[0].Name)
	}
	if long := GeneratedName(strings.Repeat("n", 80), ""); len(long) != 63 {
		t.Errorf("%s has %d letters", long, len(long))
	}
}

func TestSkipped(t *testing.T) {
	c := read(t, "kind: List\napiVersion: v1\nitems:\n- {kind: ConfigMap, apiVersion: v1}\n- {kind: Ingress, apiVersion: networking.k8s.io/v1, spec: {odd: 1}}\n- {kind: ConfigMap, apiVersion: v1}\n")
	want := []Skipped{{"v1", "ConfigMap", 2}, {"networking.k8s.io/v1", "Ingress", 1}}
	if !reflect.DeepEqual(c.Skipped, want) {
		t.Errorf("got %+v", c.Skipped)
	}
}

// Finished pods occupy no node, and of many nodes three are named.
func TestWarningsOfMany(t *testing.T) {
	on := func(name, node, phase string) string {
		return "{kind: Pod, apiVersion: v1, metadata: {name: " + name + "}, spec: {nodeName: " + node + ", priorityClassName: lost, containers: [{name: c}]}, status: {phase: " + phase + "}}\n---\n"
	}
	for _, test := range []struct {
		text string
		want []string
	}{
		{on("a", "w", "Succeeded") + on("b", "w", "Failed"), []string{"PriorityClass lost is not in the files: priority 0 for 2 objects"}},
		{on("a", "w", "Running") + on("b", "v", "Running") + on("c", "w", "Running") + on("d", "a", "Running") + node,
			[]string{"PriorityClass lost is not in the files: priority 0 for 4 objects", "3 pods bound to 2 nodes not in the files: w, v"}},
		{on("a", "w", "Running") + on("b", "v", "Running") + on("c", "u", "Running") + on("d", "t", "Running") + on("e", "s", "Pending"),
			[]string{"PriorityClass lost is not in the files: priority 0 for 5 objects", "5 pods bound to 5 nodes not in the files: w, v, u and 2 more"}},
		{on("a", "w", "Running") + on("b", "v", "Running") + on("c", "u", "Running"),
			[]string{"PriorityClass lost is not in the files: priority 0 for 3 objects", "3 pods bound to 3 nodes not in the files: w, v, u"}},
		{pod + "  priorityClassName: z\n---\n{kind: PodGroup, apiVersion: scheduling.k8s.io/v1beta1, metadata: {name: g}, spec: {priorityClassName: b, schedulingPolicy: {basic: {}}}}",
			[]string{"PriorityClass b is not in the files: priority 0 for 1 object", "PriorityClass z is not in the files: priority 0 for 1 object"}},
	} {
		if got := read(t, test.text).Warnings; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %q, want %q", test.text, got, test.want)
		}
	}
}

func TestWarnings(t *testing.T) {
	c := read(t, pod+"  nodeName: gone\n  priorityClassName: lost\n")
	want := []string{"PriorityClass lost is not in the files: priority 0 for 1 object", "1 pod bound to 1 node not in the files: gone"}
	if !reflect.DeepEqual(c.Warnings, want) {
		t.Errorf("got %q", c.Warnings)
	}
}

// defaults has one row per default value: an object, the path and the value, as YAML.
var defaults = []struct{ name, text, want string }{
	{"namespace", pod, "metadata: {namespace: default}"},
	{"uid", pod, "metadata: {uid: 56f6ba8e-672b-bb8b-70fa-bed2816da961}"},
	{"schedulerName", pod, "spec: {schedulerName: default-scheduler}"},
	{"schedulerName given", pod + "  schedulerName: x\n", "spec: {schedulerName: x}"},
	{"phase", pod, "status: {phase: Pending}"},
	{"requests", ctr + "    resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 100m}}\n", "spec: {containers: [{resources: {requests: {cpu: 100m, memory: 1Gi}}}]}"},
	{"init requests", pod + "  initContainers: [{name: i, resources: {limits: {cpu: 1}}}]\n", "spec: {initContainers: [{resources: {requests: {cpu: '1'}}}]}"},
	{"pod requests", ctr + "    resources: {requests: {cpu: 100m}}\n  resources: {limits: {cpu: 1, memory: 1Gi}}\n", "spec: {resources: {requests: {cpu: 100m, memory: 1Gi}}}"},
	{"rounding", ctr + "    resources: {requests: {cpu: 100u}}\n", "spec: {containers: [{resources: {requests: {cpu: 1m}}}]}"},
	{"protocol", ctr + "    ports: [{containerPort: 80}]\n", "spec: {containers: [{ports: [{protocol: TCP}]}]}"},
	{"host ports", ctr + "    ports: [{containerPort: 80}]\n  hostNetwork: true\n", "spec: {containers: [{ports: [{hostPort: 80}]}]}"},
	{"tolerations", pod, "spec: {tolerations: [{key: node.kubernetes.io/not-ready, effect: NoExecute, tolerationSeconds: 300}, {key: node.kubernetes.io/unreachable}]}"},
	{"tolerations given", pod + "  tolerations: [{operator: Exists}]\n", "spec: {tolerations: [{operator: Exists}]}"},
	{"no priority", pod, "spec: {priority: 0, preemptionPolicy: PreemptLowerPriority}"},
	{"priority given", pod + "  priority: 7\n", "spec: {priority: 7}"},
	{"node critical", pod + "  priorityClassName: system-node-critical\n", "spec: {priority: 2000001000}"},
	{"cluster critical", pod + "  priorityClassName: system-cluster-critical\n", "spec: {priority: 2000000000}"},
	{"class", pod + "  priorityClassName: b\n---\n{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: b}, value: 9, preemptionPolicy: Never}", "spec: {priority: 9, preemptionPolicy: Never}"},
	{"default class", pod + "---\n{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: b}, value: 9, globalDefault: true}", "spec: {priority: 9, priorityClassName: b}"},
	{"allocatable", node + "status: {capacity: {cpu: 2}}\n", "status: {allocatable: {cpu: '2'}}"},
	{"namespace label", "{kind: Namespace, apiVersion: v1, metadata: {name: a}}", "metadata: {labels: {kubernetes.io/metadata.name: a}}"},
	{"binding mode", "{kind: StorageClass, apiVersion: storage.k8s.io/v1, provisioner: p, metadata: {name: a}}", "volumeBindingMode: Immediate"},
	{"claim", "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: a}}\n---\n{kind: StorageClass, apiVersion: storage.k8s.io/v1, provisioner: p, metadata: {name: s, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}}", "{spec: {storageClassName: s, volumeMode: Filesystem}, status: {phase: Pending}}"},
	{"selector", "{kind: ReplicationController, apiVersion: v1, metadata: {name: a}, spec: {template: {metadata: {labels: {x: z}}}}}", "spec: {selector: {x: z}}"},
	{"devices", "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: a}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}]}}}", "spec: {devices: {requests: [{exactly: {allocationMode: ExactCount, count: 1}}]}}"},
	{"requests without limits", ctr + "    resources: {requests: {cpu: 100m}}\n", "spec: {containers: [{resources: {requests: {cpu: 100m}, limits: null}}]}"},
	{"ports on the pod's network", ctr + "    ports: [{containerPort: 80, protocol: UDP}]\n", "spec: {containers: [{ports: [{protocol: UDP, hostPort: null}]}]}"},
	{"host ports given", ctr + "    ports: [{containerPort: 80, hostPort: 81}]\n  initContainers: [{name: i, ports: [{containerPort: 82}]}]\n  hostNetwork: true\n",
		"spec: {containers: [{ports: [{hostPort: 81}]}], initContainers: [{ports: [{hostPort: 82}]}]}"},
	{"pod requests given", ctr + "    resources: {requests: {cpu: 100m, memory: 1Gi, x: 3}}\n  resources: {requests: {cpu: 1}, limits: {cpu: 2}}\n", "spec: {resources: {requests: {cpu: '1', memory: 1Gi, x: null}}}"},
	{"pod requests without limits", ctr + "    resources: {requests: {cpu: 100m}}\n  resources: {requests: {memory: 1Gi}}\n", "spec: {resources: {requests: {cpu: null, memory: 1Gi}}}"},
	{"pod limits of anything", ctr + "  resources: {limits: {x: 1}}\n", "spec: {resources: {requests: null}}"},
	{"pod limits", ctr + "  resources: {limits: {hugepages-2Mi: 2Mi, x: 1}}\n", "spec: {resources: {requests: {hugepages-2Mi: 2Mi, x: null}}}"},
	{"tolerates not-ready", pod + "  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists}]\n",
		"spec: {tolerations: [{key: node.kubernetes.io/not-ready, effect: null}, {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 300}]}"},
	{"tolerates something else", pod + "  tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoSchedule}, {operator: Exists, effect: NoSchedule}, {key: x, effect: NoExecute}]\n",
		"spec: {tolerations: [{effect: NoSchedule}, {effect: NoSchedule}, {key: x}, {key: node.kubernetes.io/not-ready}, {key: node.kubernetes.io/unreachable}]}"},
	{"uid given", "{kind: Pod, apiVersion: v1, metadata: {name: a, uid: u, managedFields: [{manager: m}]}, spec: {containers: [{name: c}]}}", "metadata: {uid: u, managedFields: null}"},
	{"uid without a namespace", node, "metadata: {uid: c7b78fc7-7f10-ace6-15d7-6ef1cd6254d2}"},
	{"kind", "{kind: Node, apiVersion: v1, metadata: {name: a}}", "{kind: Node, apiVersion: v1}"},
	{"priority and policy given", pod + "  priority: 7\n  preemptionPolicy: Never\n  priorityClassName: lost\n", "spec: {priority: 7, preemptionPolicy: Never, priorityClassName: lost}"},
	{"policy given", pod + "  priorityClassName: b\n  preemptionPolicy: Never\n---\n{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: b}, value: 9}", "spec: {priority: 9, preemptionPolicy: Never}"},
	{"class that is not there", pod + "  priorityClassName: lost\n", "spec: {priority: 0, preemptionPolicy: PreemptLowerPriority, priorityClassName: lost}"},
	{"critical policy", pod + "  priorityClassName: system-node-critical\n", "spec: {preemptionPolicy: PreemptLowerPriority, priorityClassName: system-node-critical}"},
	{"critical policy of the cluster", pod + "  priorityClassName: system-cluster-critical\n", "spec: {preemptionPolicy: PreemptLowerPriority}"},
	{"lowest default class", pod + "---\n{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: b}, value: 9, globalDefault: true}\n---\n" +
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: c}, value: 3, globalDefault: true, preemptionPolicy: Never}\n---\n" +
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: d}, value: 5, globalDefault: true}\n---\n" +
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: e}, value: 1}", "spec: {priority: 3, priorityClassName: c, preemptionPolicy: Never}"},
	{"first of equal default classes", pod + "---\n{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: z}, value: 9, globalDefault: true}\n---\n" +
		"{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: c}, value: 9, globalDefault: true}", "spec: {priority: 9, priorityClassName: z}"},
	{"class's policy", "{kind: PriorityClass, apiVersion: scheduling.k8s.io/v1, metadata: {name: b}, value: 9}", "preemptionPolicy: PreemptLowerPriority"},
	{"group's class", "{kind: PodGroup, apiVersion: scheduling.k8s.io/v1beta1, metadata: {name: a}, spec: {priorityClassName: system-node-critical, schedulingPolicy: {gang: {minCount: 1}}}}", "spec: {priority: 2000001000, preemptionPolicy: PreemptLowerPriority}"},
	{"composite group's class", "{kind: CompositePodGroup, apiVersion: scheduling.k8s.io/v1alpha3, metadata: {name: a}, spec: {priorityClassName: system-node-critical}}", "spec: {priority: 2000001000}"},
	{"allocatable given", node + "status: {capacity: {cpu: 2}, allocatable: {cpu: 1}}\n", "status: {allocatable: {cpu: '1'}}"},
	{"namespace phase", "{kind: Namespace, apiVersion: v1, metadata: {name: a}}", "status: {phase: Active}"},
	{"volume", "{kind: PersistentVolume, apiVersion: v1, metadata: {name: a}}", "{spec: {volumeMode: Filesystem}, status: {phase: Pending}}"},
	{"volume given", "{kind: PersistentVolume, apiVersion: v1, metadata: {name: a}, spec: {volumeMode: Block}, status: {phase: Bound}}", "{spec: {volumeMode: Block}, status: {phase: Bound}}"},
	{"reclaim policy", "{kind: StorageClass, apiVersion: storage.k8s.io/v1, provisioner: p, metadata: {name: a}}", "reclaimPolicy: Delete"},
	{"storage class given", "{kind: StorageClass, apiVersion: storage.k8s.io/v1, provisioner: p, metadata: {name: a}, reclaimPolicy: Retain, volumeBindingMode: WaitForFirstConsumer}", "{reclaimPolicy: Retain, volumeBindingMode: WaitForFirstConsumer}"},
	{"selector given", "{kind: ReplicationController, apiVersion: v1, metadata: {name: a}, spec: {selector: {y: z}, template: {metadata: {labels: {x: z}}}}}", "spec: {selector: {y: z, x: null}}"},
	{"no selector", "{kind: ReplicationController, apiVersion: v1, metadata: {name: a}}", "spec: {selector: null}"},
	{"devices given", "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: a}, spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c, count: 2}}, {name: s, exactly: {deviceClassName: c, allocationMode: All}}]}}}",
		"spec: {devices: {requests: [{exactly: {allocationMode: ExactCount, count: 2}}, {exactly: {allocationMode: All, count: null}}]}}"},
	{"devices of a template", "{kind: ResourceClaimTemplate, apiVersion: resource.k8s.io/v1, metadata: {name: a}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: c}}, {name: s, firstAvailable: [{name: f, deviceClassName: c}]}]}}}}",
		"{metadata: {namespace: default}, spec: {spec: {devices: {requests: [{exactly: {allocationMode: ExactCount, count: 1}}, {firstAvailable: [{count: 1}]}]}}}}"},
	{"devices by preference", "{kind: ResourceClaim, apiVersion: resource.k8s.io/v1, metadata: {name: a}, spec: {devices: {requests: [{name: r, firstAvailable: [{name: f, deviceClassName: c}]}]}}}",
		"spec: {devices: {requests: [{firstAvailable: [{allocationMode: ExactCount, count: 1}]}]}}"},
	{"driver's pods", "{kind: CSIDriver, apiVersion: storage.k8s.io/v1, metadata: {name: a}, spec: {}}", "spec: {preventPodSchedulingIfMissing: false}"},
	{"driver", "{kind: CSIDriver, apiVersion: storage.k8s.io/v1, metadata: {name: a}, spec: {}}", "spec: {attachRequired: true, storageCapacity: false}"},
}

func TestDefaults(t *testing.T) {
	for _, c := range defaults {
		t.Run(c.name, func(t *testing.T) {
			var got, want any
			for _, o := range read(t, c.text).Objects() {
				if strings.Contains(c.text, "kind: "+o.GetObjectKind().GroupVersionKind().Kind+"\n") || strings.HasPrefix(c.text, "{kind: "+o.GetObjectKind().GroupVersionKind().Kind+",") {
					unmarshal(t, string(must(yaml.Marshal(o))), &got)
					break
				}
			}
			unmarshal(t, c.want, &want)
			if !holds(got, want) {
				t.Errorf("%v is not in\n%v", want, got)
			}
		})
	}
}

// holds reports whether got has everything in want. A null in want is missing in got.
func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := got.(map[string]any)
		for key, value := range want {
			ok = ok && holds(have[key], value)
		}
		return ok
	case []any:
		have, ok := got.([]any)
		ok = ok && len(have) == len(want)
		for i, value := range want {
			ok = ok && holds(have[i], value)
		}
		return ok
	}
	return reflect.DeepEqual(got, want)
}

// classOf returns the class of a claim in a cluster with these storage classes.
func classOf(t *testing.T, claim, classes string) string {
	t.Helper()
	c := read(t, claim+"\n---\n"+classes)
	if name := c.PersistentVolumeClaims[0].Spec.StorageClassName; name != nil {
		return *name
	}
	return "none"
}

// Unbound claims without a class get the newest default class, then the first by name.
func TestDefaultStorageClass(t *testing.T) {
	class := func(name, metadata string) string {
		return "{kind: StorageClass, apiVersion: storage.k8s.io/v1, provisioner: p, metadata: {name: " + name + metadata + "}}\n---\n"
	}
	const (
		claim   = "{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: a}}"
		marked  = ", annotations: {storageclass.kubernetes.io/is-default-class: 'true'}"
		beta    = ", annotations: {storageclass.beta.kubernetes.io/is-default-class: 'true'}"
		created = ", creationTimestamp: '2026-01-02T03:04:05Z'"
	)
	for _, test := range []struct{ claim, classes, want string }{
		{claim, class("s", ""), "none"},
		{claim, class("s", ", annotations: {storageclass.kubernetes.io/is-default-class: 'false'}"), "none"},
		{claim, class("r", "") + class("s", beta), "s"},
		{claim, class("s", marked) + class("b", marked) + class("c", beta), "b"},
		{claim, class("s", marked+created) + class("b", marked), "s"},
		{claim, class("b", marked) + class("s", marked+created), "s"},
		{"{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: a}, spec: {storageClassName: ''}}", class("s", marked), ""},
		{"{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: a}, spec: {volumeName: v}}", class("s", marked), "none"},
		{"{kind: PersistentVolumeClaim, apiVersion: v1, metadata: {name: a, annotations: {volume.beta.kubernetes.io/storage-class: x}}}", class("s", marked), "none"},
	} {
		if got := classOf(t, test.claim, test.classes); got != test.want {
			t.Errorf("%s, %s: class %q, want %q", test.claim, test.classes, got, test.want)
		}
	}
}

// Missing namespaces are added, each once, in the order of the kinds and of their
// objects.
func TestNamespaces(t *testing.T) {
	c := read(t, "{kind: Service, apiVersion: v1, metadata: {name: a, namespace: z}}\n---\n{kind: Namespace, apiVersion: v1, metadata: {name: have, labels: {x: w}}}\n---\n"+
		"{kind: Pod, apiVersion: v1, metadata: {name: a, namespace: v}, spec: {containers: [{name: c}]}}\n---\n{kind: Pod, apiVersion: v1, metadata: {name: b, namespace: have}, spec: {containers: [{name: c}]}}\n---\n"+
		"{kind: Pod, apiVersion: v1, metadata: {name: b, namespace: v}, spec: {containers: [{name: c}]}}")
	var got []string
	for _, n := range c.Namespaces {
		got = append(got, n.Name)
		if n.Kind != "Namespace" || n.APIVersion != "v1" || n.UID == "" || n.Labels["kubernetes.io/metadata.name"] != n.Name || n.Status.Phase != v1.NamespaceActive {
			t.Errorf("%+v lacks something", n)
		}
	}
	if strings.Join(got, " ") != "have v z" || c.Namespaces[0].Labels["x"] != "w" {
		t.Errorf("got %s", got)
	}
	// A cluster that was not read from files gets its namespaces on demand.
	c.Namespaces = nil
	if c.Complete(); len(c.Namespaces) != 3 {
		t.Errorf("%d namespaces were added, want 3", len(c.Namespaces))
	}
}

// All objects of a cluster come kind by kind.
func TestObjects(t *testing.T) {
	var got []string
	for _, o := range read(t, pod+"---\n"+node).Objects() {
		got = append(got, fmt.Sprintf("%T", o))
	}
	if strings.Join(got, " ") != "*v1.Node *v1.Pod *v1.Namespace" {
		t.Errorf("got %s", got)
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b.yml": node, "a.json": `{"kind":"Node","apiVersion":"v1","metadata":{"name":"j"}}`, "c.txt": "no", "twice.yaml": node} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Read([]string{dir, filepath.Join(dir, "none.yaml"), "-"}, strings.NewReader(""))
	for _, want := range []string{
		dir + "/none.yaml: cannot be read: no such file or directory",
		dir + "/twice.yaml:1: Node a: is already defined at " + dir + "/b.yml:1; remove one of the two",
		"-: holds no object",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
	var one *Error
	if !errors.As(err, &one) || one.Problem == "" {
		t.Errorf("no *Error in %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "twice.yaml")); err != nil {
		t.Fatal(err)
	}
	var told []int64
	o := Options{Progress: func(done, total int64) { told = append(told, done, total) }}
	c, err := o.Read([]string{dir, filepath.Join(dir, "b.yml"), "-"}, strings.NewReader(pod))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 2 || c.Nodes[0].Name != "j" || len(c.Pods) != 1 {
		t.Errorf("got %+v", c)
	}
	if n := len(told); n < 2 || told[n-1] != told[n-2] || told[n-1] == 0 {
		t.Errorf("told %v", told)
	}
	for name, files := range map[string][]string{"no file is given": nil, "no *.yaml, *.yml or *.json file in the directory": {t.TempDir()}, "no standard input": {"-"}} {
		if _, err := Read(files, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
}

// A list whose YAML is in the layout that kubectl prints must take the fast path: the
// slow one costs ten times as much.
func TestFastWay(t *testing.T) {
	doc, _ := documents("F", snapshot(2, 2))
	if len(doc) != 1 || len(doc[0].items) != 4 {
		t.Fatalf("not taken apart: %+v", doc)
	}
	for _, u := range doc[0].items {
		var b block
		if _, ok := b.json(u.text, u.dash); !ok {
			t.Errorf("block refuses %s", u.text)
		}
	}
}

// Every kind that the scheduler can watch can be read from files, with or without a
// namespace as in the API.
func TestWatchedKindsCanBeRead(t *testing.T) {
	readable := map[model.Kind]bool{}
	for _, k := range kinds {
		object, err := scheme.Scheme.New(k.gvk)
		if err != nil {
			t.Fatal(err)
		}
		row := watched.Of(object)
		if row == nil {
			continue
		}
		readable[row.Kind] = true
		if k.namespaced != row.Namespaced {
			t.Errorf("%s has namespaces: %t here, %t in the table of package kinds", k.gvk.Kind, k.namespaced, row.Namespaced)
		}
	}
	for kind := range model.KindCount {
		if !readable[kind] {
			t.Errorf("%s cannot be read from files", watched.Get(kind).Resource.Resource)
		}
	}
}

// TestReadOverABase adds files to a cluster. An object replaces the one with its name,
// and a class of the base determines a priority.
func TestReadOverABase(t *testing.T) {
	base := &Cluster{}
	for _, object := range []runtime.Object{
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 7, PreemptionPolicy: new(v1.PreemptNever)},
	} {
		if !base.Add(object) {
			t.Errorf("%T was not added", object)
		}
	}
	if base.Add(&v1.Secret{}) {
		t.Error("a Secret was added")
	}
	c, err := Options{Base: base}.Read([]string{"-"}, strings.NewReader(`
{apiVersion: v1, kind: Node, metadata: {name: a, labels: {new: "yes"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, spec: {priorityClassName: high, containers: [{name: c, image: i}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Nodes) != 2 || c.Nodes[0].Name != "b" || c.Nodes[1].Labels["new"] != "yes" {
		t.Errorf("nodes %v", c.Nodes)
	}
	pod := c.Pods[0]
	if *pod.Spec.Priority != 7 || *pod.Spec.PreemptionPolicy != v1.PreemptNever || len(c.Warnings) != 0 {
		t.Errorf("priority %d, policy %s, warnings %q", *pod.Spec.Priority, *pod.Spec.PreemptionPolicy, c.Warnings)
	}
	if len(c.Namespaces) != 1 || c.Namespaces[0].Name != "shop" {
		t.Errorf("namespaces %v", c.Namespaces)
	}
}
