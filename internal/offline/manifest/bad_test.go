package manifest

import (
	"strings"
	"testing"
)

const (
	meta = "metadata: {name: a}"
	pod  = "apiVersion: v1\nkind: Pod\n" + meta + "\nspec:\n  containers: [{name: c, image: i}]\n"
	ctr  = "apiVersion: v1\nkind: Pod\n" + meta + "\nspec:\n  containers:\n  - name: c\n"
	node = "apiVersion: v1\nkind: Node\n" + meta + "\n"
	aff  = pod + "  affinity:\n"
	req  = "requiredDuringSchedulingIgnoredDuringExecution"
	pref = "preferredDuringSchedulingIgnoredDuringExecution"
)

// badInput has mistakes in a file, with the whole error text. F stands for the file.
var badInput = []struct{ name, text, want string }{
	{"empty file", "", "F: holds no object; want Kubernetes objects in YAML or JSON, as kubectl get -o yaml prints them"},
	{"comments only", "# x\n---\n", "F: holds no object; want Kubernetes objects in YAML or JSON, as kubectl get -o yaml prints them"},
	{"empty list", "kind: List\napiVersion: v1\nitems: []\n", "F: holds no object; want Kubernetes objects in YAML or JSON, as kubectl get -o yaml prints them"},
	{"yaml", "a: [1\nb: 2\n", "F:1: invalid YAML: did not find expected ',' or ']'"},
	{"yaml, second document", pod + "---\na: b: c\n", "F:7: invalid YAML: mapping values are not allowed in this context"},
	{"json", "{\"a\": 1,\n}", "F:2: invalid JSON: invalid character '}' looking for beginning of object key string"},
	{"json cut short", "{\"a\": [1,\n2", "F:2: invalid JSON: unexpected end of JSON input"},
	{"text", "hello\n", "F:1: is \"hello\", not an object; an object has apiVersion, kind and metadata"},
	{"array", "- a: 1\n", "F:1: is an array, not an object; put it under items: in an object with apiVersion: v1, kind: List"},
	{"no kind", "apiVersion: v1\n", "F:1: kind is missing; every object needs apiVersion and kind"},
	{"no apiVersion", "kind: Pod\n", "F:1: apiVersion is missing; every object needs apiVersion and kind; Pod is in v1"},
	{"unknown kind", "kind: Pood\napiVersion: v1\n", "F:1: unknown kind Pood of v1; did you mean Pod?; remove the object if scheduling does not need it"},
	{"wrong apiVersion", "kind: ReplicaSet\napiVersion: v1\n", "F:1: no kind ReplicaSet in v1; ReplicaSet is in apps/v1"},
	{"wrong apiVersion of a kind that is not read", "kind: CronJob\napiVersion: v1\n", "F:1: no kind CronJob in v1; CronJob is in batch/v1"},
	{"other version", "kind: ResourceClaim\napiVersion: resource.k8s.io/v1beta1\n", "F:1: ResourceClaim in resource.k8s.io/v1beta1 is not supported; give it in resource.k8s.io/v1"},
	{"unknown list", "kind: PoodList\napiVersion: v1\nitems:\n- a: 1\n", "F:1: unknown kind PoodList of v1; did you mean PodList?; remove the object if scheduling does not need it"},
	{"odd items", "kind: List\napiVersion: v1\nitems: 3\n", "F:1: items: must be given once, as an array"},
	{"unknown field", "apiVersion: v1\nkind: Pod\n" + meta + "\nspec:\n  container: []\n", "F:5: Pod default/a: spec.container: unknown field; did you mean containers?"},
	{"unknown fields", pod + "  nodename: x\nstats: {}\n", "F:6: Pod default/a: spec.nodename: unknown field; did you mean nodeName?\nF:7: Pod default/a: stats: unknown field; did you mean status?"},
	{"field twice in json", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","name":"a"}}`, "F:1: Node a: metadata.name: is given twice; remove one of the two"},
	{"wrong types", pod + "  nodeName: 7\n  hostNetwork: 'yes'\n", "F:7: Pod default/a: spec.hostNetwork: \"yes\" is not valid here; want true or false\nF:6: Pod default/a: spec.nodeName: 7 is not valid here; want text (put numbers, true and false in quotes)"},
	{"object for array", "apiVersion: v1\nkind: Pod\n" + meta + "\nspec: {containers: {name: c}}\n", "F:4: Pod default/a: spec.containers: {\"name\":\"c\"} is not valid here; want an array"},
	{"time", "apiVersion: v1\nkind: Node\nmetadata: {name: a, creationTimestamp: now}\n", "F:3: Node a: metadata.creationTimestamp: \"now\" is not valid here; want a time such as 2006-01-02T15:04:05Z"},
	{"no name", "apiVersion: v1\nkind: Node\n", "F:1: Node: metadata.name: is missing; every object needs a name"},
	{"no name in list", "kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: a}\n- spec: {}\n", "F:5: Node items[1]: metadata.name: is missing; every object needs a name"},
	{"bad name", "apiVersion: v1\nkind: Node\nmetadata: {name: A_}\n", "F:3: Node A_: metadata.name: \"A_\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"},
	{"namespaced node", "apiVersion: v1\nkind: Node\nmetadata: {name: a, namespace: b}\n", "F:3: Node b/a: metadata.namespace: a Node has no namespace; remove the field"},
	{"twice", node + "---\n" + node, "F:5: Node a: is already defined at F:1; remove one of the two"},
	{"label", "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {b: -}}\n", "F:3: Node a: metadata.labels: Invalid value: \"-\": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"},
	{"negative request", ctr + "    resources: {requests: {cpu: -1}}\n", "F:7: Pod default/a: spec.containers[0].resources.requests[cpu]: -1 is negative; give zero or more"},
	{"negative allocatable", node + "status: {allocatable: {memory: -1Gi}}\n", "F:4: Node a: status.allocatable[memory]: -1Gi is negative; give zero or more"},
	{"no quantity", ctr + "    resources: {requests: {cpu: 1x, memory: lots}}\n", "F:7: Pod default/a: spec.containers[0].resources.requests[cpu]: \"1x\" is not a valid quantity; write a number with an optional suffix, as in 500m, 2 or 1.5Gi\nF:7: Pod default/a: spec.containers[0].resources.requests[memory]: \"lots\" is not a valid quantity; write a number with an optional suffix, as in 500m, 2 or 1.5Gi"},
	{"enormous", ctr + "    resources: {requests: {memory: 1e1000000000}}\n", "F:7: Pod default/a: spec.containers[0].resources.requests[memory]: 1e1000000000 has too large an exponent; write a number with an optional suffix, as in 500m, 2 or 1.5Gi"},
	{"tiny", ctr + "    resources: {requests: {memory: '1e-1000000000'}}\n", "F:7: Pod default/a: spec.containers[0].resources.requests[memory]: 1e-1000000000 has too large an exponent; write a number with an optional suffix, as in 500m, 2 or 1.5Gi"},
	{"no containers", "apiVersion: v1\nkind: Pod\n" + meta + "\n", "F:1: Pod default/a: spec.containers: is empty; a pod has at least one container"},
	{"host port", ctr + "    ports: [{containerPort: 80, hostPort: 70000}]\n", "F:7: Pod default/a: spec.containers[0].ports[0].hostPort: 70000 is not a port; want 1 to 65535"},
	{"container port", ctr + "    ports: [{hostPort: 1}]\n", "F:7: Pod default/a: spec.containers[0].ports[0].containerPort: 0 is not a port; want 1 to 65535"},
	{"protocol", ctr + "    ports: [{containerPort: 80, protocol: tcp}]\n", "F:7: Pod default/a: spec.containers[0].ports[0].protocol: \"tcp\" is not a protocol; want TCP, UDP or SCTP"},
	{"node selector", pod + "  nodeSelector: {a b: c}\n", "F:6: Pod default/a: spec.nodeSelector: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"},
	{"node affinity operator", aff + "    nodeAffinity: {" + req + ": {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}]}]}}\n", "F:7: Pod default/a: spec.affinity.nodeAffinity." + req + ".nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: \"Is\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\""},
	{"node affinity terms", aff + "    nodeAffinity: {" + req + ": {nodeSelectorTerms: []}}\n", "F:7: Pod default/a: spec.affinity.nodeAffinity." + req + ".nodeSelectorTerms: is empty; want at least one term"},
	{"weight", aff + "    podAffinity: {" + pref + ": [{weight: 101, podAffinityTerm: {topologyKey: a}}]}\n", "F:7: Pod default/a: spec.affinity.podAffinity." + pref + "[0].weight: 101 is out of range; want 1 to 100"},
	{"pod affinity selector", aff + "    podAffinity: {" + req + ": [{topologyKey: a, labelSelector: {matchExpressions: [{key: a, operator: In}]}}]}\n", "F:7: Pod default/a: spec.affinity.podAffinity." + req + "[0].labelSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"},
	{"topology key", aff + "    podAntiAffinity: {" + req + ": [{}]}\n", "F:7: Pod default/a: spec.affinity.podAntiAffinity." + req + "[0].topologyKey: is missing; want a node label's key such as topology.kubernetes.io/zone"},
	{"max skew", pod + "  topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule}]\n", "F:6: Pod default/a: spec.topologySpreadConstraints[0].maxSkew: 0 is too small; want 1 or more"},
	{"when unsatisfiable", pod + "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: a}]\n", "F:6: Pod default/a: spec.topologySpreadConstraints[0].whenUnsatisfiable: \"\" is not supported; want DoNotSchedule or ScheduleAnyway"},
	{"min domains", pod + "  topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, minDomains: 2, whenUnsatisfiable: ScheduleAnyway}]\n", "F:6: Pod default/a: spec.topologySpreadConstraints[0].minDomains: 2: want 1 or more, and whenUnsatisfiable DoNotSchedule"},
	{"toleration operator", pod + "  tolerations: [{key: a, operator: Equals}]\n", "F:6: Pod default/a: spec.tolerations[0].operator: \"Equals\" is not an operator; want Equal, Exists, Lt or Gt"},
	{"toleration effect", pod + "  tolerations: [{key: a, effect: Never}]\n", "F:6: Pod default/a: spec.tolerations[0].effect: \"Never\" is not an effect; want NoSchedule, PreferNoSchedule or NoExecute"},
	{"toleration key", pod + "  tolerations: [{value: a}]\n", "F:6: Pod default/a: spec.tolerations[0].operator: must be Exists when key is empty, which tolerates every taint"},
	{"toleration value", pod + "  tolerations: [{key: a, operator: Exists, value: b}]\n", "F:6: Pod default/a: spec.tolerations[0].value: \"b\" must be empty when operator is Exists"},
	{"toleration seconds", pod + "  tolerations: [{key: a, tolerationSeconds: 1}]\n", "F:6: Pod default/a: spec.tolerations[0].effect: must be NoExecute when tolerationSeconds is set"},
	{"taint effect", node + "spec: {taints: [{key: a}]}\n", "F:4: Node a: spec.taints[0].effect: is missing; want NoSchedule, PreferNoSchedule or NoExecute"},
	{"budget selector", "apiVersion: policy/v1\nkind: PodDisruptionBudget\n" + meta + "\nspec: {selector: {matchExpressions: [{key: a, operator: Like}]}}\n", "F:4: PodDisruptionBudget default/a: spec.selector.matchExpressions[0].operator: Invalid value: \"Like\": not a valid selector operator"},
}

func TestBadInput(t *testing.T) {
	for _, c := range badInput {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode("F", []byte(c.text))
			if err == nil {
				t.Fatal("no error")
			}
			if got := err.Error(); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// An error spells out twenty mistakes and counts the rest.
func TestManyErrors(t *testing.T) {
	_, err := Decode("F", []byte(strings.Repeat("---\nkind: Pood\napiVersion: v1\n", 25)))
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 21 || lines[20] != "and 5 more" {
		t.Errorf("got %d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// TestRepeatedKeys uses the last value of a key that is given twice, as kubectl does, and
// remarks on it with its line.
func TestRepeatedKeys(t *testing.T) {
	c, err := Decode("F", []byte(pod+"  nodeName: n1\n  nodeName: n2\n"))
	if err != nil || len(c.Pods) != 1 || c.Pods[0].Spec.NodeName != "n2" {
		t.Fatalf("%+v, %v", c, err)
	}
	want := `F:7: key "nodeName" is given twice; API servers accept it, and the last value counts`
	if len(c.Warnings) == 0 || c.Warnings[0] != want {
		t.Errorf("%q, want %q", c.Warnings, want)
	}
}
