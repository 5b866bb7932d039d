package manifest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// summary lists a cluster's nodes, pods and skipped kinds.
func summary(c *Cluster) string {
	var all []string
	for _, n := range c.Nodes {
		all = append(all, "node "+n.Name)
	}
	for _, p := range c.Pods {
		all = append(all, "pod "+p.Namespace+"/"+p.Name)
	}
	for _, s := range c.Skipped {
		all = append(all, s.Kind)
	}
	return strings.Join(all, ", ")
}

// wantWarnings compares the warnings of a cluster.
func wantWarnings(t *testing.T, c *Cluster, want ...string) {
	t.Helper()
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("warnings\n%s\nwant\n%s", strings.Join(c.Warnings, "\n"), strings.Join(want, "\n"))
	}
}

// tree writes files into a directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	nodeList = `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[
    {"metadata":{"name":"a"},"status":{"allocatable":{"cpu":"1","pods":"9"}}}
]}
`
	podList = `{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
    {"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}]}}
]}
`
)

// The directory that kubectl cluster-info dump writes has a folder for each namespace.
func TestClusterInfoDirectory(t *testing.T) {
	dir := tree(t, map[string]string{
		"nodes.json": nodeList, "shop/pods.json": podList, "shop/web/logs.txt": logBegins + "c of pod shop/web ====\n{\n",
		"shop/events.json": `{"kind":"EventList","apiVersion":"v1","items":[{"metadata":{"name":"e"}}]}`,
		"shop/empty.json":  "", "kube-system/deployments.json": `{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}`,
	})
	c, err := Read([]string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(c); got != "node a, pod shop/web, Event" {
		t.Errorf("got %s", got)
	}
	wantWarnings(t, c)
}

// The same dump as one stream has the containers' logs in between. A log may contain
// anything, and may lack a final newline.
func TestClusterInfoStream(t *testing.T) {
	log := func(container, text string) string {
		return logBegins + container + " of pod shop/web ====\n" + text + logEnds + container + " of pod shop/web ====\n"
	}
	const yamlPod = "---\napiVersion: v1\nkind: PodList\nitems:\n- metadata:\n    name: web\n    namespace: shop\n  spec:\n    containers:\n    - name: c\n      image: i\n"
	logs := log("c", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"of-a-log\"}}\n---\nkind: Pod\n"+logEnds+"of another dump ====\n{\n") + log("d", "no line end") + log("e", "")
	more := strings.Replace(nodeList, `"a"`, `"b"`, 1)
	for name, text := range map[string]string{
		"json": nodeList + podList + logs + more,
		"yaml": "apiVersion: v1\nkind: NodeList\nitems:\n- metadata:\n    name: a\n" + yamlPod + logs + "---\napiVersion: v1\nitems:\n- metadata:\n    name: b\nkind: NodeList\n",
	} {
		c := read(t, text)
		if got := summary(c); got != "node a, node b, pod shop/web" {
			t.Errorf("%s: got %s", name, got)
		}
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], ": skipped text that is not an object: 11 lines, the first \"==== START logs for container c of pod s...\"") {
			t.Errorf("%s: warnings %q", name, c.Warnings)
		}
	}
	// Objects after the logs keep their line numbers.
	_, err := Decode("F", []byte(nodeList+logs+nodeList))
	if want := "F:16: Node a: is already defined at F:2; remove one of the two"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// A dump that was cut short ends in a log.
	if c := read(t, nodeList+logBegins+"c of pod shop/web ====\nand so on"); summary(c) != "node a" {
		t.Errorf("got %s", summary(c))
	}
}

// Lines between values that are no JSON are skipped, and so is kubectl's standard error
// before any object.
func TestNoise(t *testing.T) {
	for _, test := range []struct{ text, objects, warning string }{
		{"Defaulted container \"c\" out of: c, d\n" + nodeList, "node a", `F:1: skipped text that is not an object: 1 line, the first "Defaulted container \"c\" out of: c, d"`},
		{nodeList + "Error from server\n\nand more\n" + podList + "end", "node a, pod shop/web", `F:4: skipped text that is not an object: 4 lines, the first "Error from server"`},
		{"Warning: v1 ComponentStatus is deprecated in v1.19+\n" + node, "node a", `F:1: skipped text that is not an object: 1 line, the first "Warning: v1 ComponentStatus is deprecate..."`},
		{"# a comment\n" + nodeList, "node a", ""},
		{"Warning: x\n---\n" + node, "node a", `F:1: skipped text that is not an object: 1 line, the first "Warning: x"`},
	} {
		c := read(t, test.text)
		var want []string
		if test.warning != "" {
			want = []string{test.warning}
		}
		if got := summary(c); got != test.objects {
			t.Errorf("%q: got %s", test.text, got)
		}
		wantWarnings(t, c, want...)
	}
	// Text that may be an object, or a broken one, is not skipped.
	for _, text := range []string{nodeList + "kind: Node\napiVersion: v1\n", nodeList + "}\n", nodeList + " x " + podList, "hello\n", nodeList + "\"a\": 1\n", "apiVersion: v1\n" + nodeList} {
		if c, err := Decode("F", []byte(text)); err == nil {
			t.Errorf("%q is read: %s", text, summary(c))
		}
	}
}

// A must-gather of OpenShift has pods in lists and in files of their own, and JSON that
// is no object. The later version of an object is used.
func TestMustGather(t *testing.T) {
	pod := func(version, node string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: shop, uid: u, resourceVersion: '" + version + "'}\nspec: {nodeName: " + node + ", containers: [{name: c, image: i}]}\n"
	}
	list := "apiVersion: v1\nkind: PodList\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(pod("99", "late")), "\n", "\n  ") + "\n"
	files := map[string]string{
		"must-gather.local.1/quay-io/cluster-scoped-resources/core/nodes/a.yaml":                    node,
		"must-gather.local.1/quay-io/cluster-scoped-resources/machine.openshift.io/machines/m.yaml": "apiVersion: machine.openshift.io/v1beta1\nkind: Machine\nmetadata: {name: m}\n",
		"must-gather.local.1/quay-io/namespaces/shop/core/pods.yaml":                                list,
		"must-gather.local.1/quay-io/namespaces/shop/core/secrets.yaml":                             "---\napiVersion: v1\nkind: SecretList\nitems: []\n",
		"must-gather.local.1/quay-io/namespaces/shop/pods/web/web.yaml":                             pod("100", "later"),
		"must-gather.local.1/quay-io/monitoring/prometheus/rules.json":                              `{"status":"success","data":{"groups":[]}}`,
		"must-gather.local.1/quay-io/etcd_info/member_list.json":                                    `[{"id":1}]`,
		"must-gather.local.1/quay-io/namespaces/shop/pods/web/c/c/logs/current.log":                 "{",
	}
	want := "node a, pod shop/web, Machine"
	warnings := []string{"the files have 1 object more than once; the latest state of each is used", "the directories and archives have 2 documents without a kind; these were skipped", "1 pod bound to 1 node not in the files: later"}
	c, err := Read([]string{tree(t, files)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(c); got != want || c.Pods[0].Spec.NodeName != "later" || c.Given[0].Pods[0] != c.Pods[0] {
		t.Errorf("got %s, on %s", got, c.Pods[0].Spec.NodeName)
	}
	wantWarnings(t, c, warnings...)
	c, err = Read([]string{"-"}, bytes.NewReader(tarred(t, files)))
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(c); got != want {
		t.Errorf("as an archive: got %s", got)
	}
	wantWarnings(t, c, warnings...)
	// Two versions without a resourceVersion are a mistake, and so are two objects of one
	// name.
	for _, other := range []string{strings.Replace(pod("1", "late"), "uid: u", "uid: v", 1), strings.Replace(pod("1", "late"), "uid: u, ", "", 1)} {
		if _, err := Decode("F", []byte(pod("99", "late")+"---\n"+other)); err == nil || !strings.Contains(err.Error(), "F:6: Pod shop/web: is already defined at F:1; remove one of the two") {
			t.Errorf("got %v", err)
		}
	}
}

// tarred packs files like a must-gather.
func tarred(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for name, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// zipped packs one file.
func zipped(t *testing.T, name, text string) []byte {
	t.Helper()
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	entry, err := w.Create(name)
	if err == nil {
		_, err = entry.Write([]byte(text))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

const (
	simulatorExport = `{"pods":[{"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}]}}],
"nodes":[{"metadata":{"name":"a"}},
{"metadata":{"name":"b"}}],
"pvs":[{"metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"}}}],"pvcs":[{"metadata":{"name":"claim","namespace":"shop"},"spec":{}}],
"storageClasses":[{"metadata":{"name":"fast"},"provisioner":"p"}],"priorityClasses":null,
"schedulerConfig":{"kind":"KubeSchedulerConfiguration","apiVersion":"kubescheduler.config.k8s.io/v1"},"namespaces":[{"metadata":{"name":"shop"}}]}`
	kaiSnapshot = `{"config":{"actions":"allocate"},"schedulerParams":{"schedulerName":"kai-scheduler"},"rawObjects":{
"pods":[{"metadata":{"name":"web","namespace":"shop"},"spec":{"containers":[{"name":"c","image":"i"}]}}],
"nodes":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}],"queues":[{"metadata":{"name":"q"}}],
"podGroups":[{"metadata":{"name":"g"},"spec":{"minMember":2,"queue":"q"}}],"bindRequests":null,
"persistentVolumeClaims":[{"metadata":{"name":"claim","namespace":"shop"},"spec":{}}],"csiDrivers":[{"metadata":{"name":"d"},"spec":{}}]},
"discovery":{"serverVersion":{"major":"1"},"resources":[{"groupVersion":"v1","resources":[]}]}}`
)

// Exports have the objects in arrays by resource.
func TestExports(t *testing.T) {
	c := read(t, simulatorExport)
	if got := summary(c); got != "node a, node b, pod shop/web" || len(c.PersistentVolumes) != 1 || len(c.PersistentVolumeClaims) != 1 || len(c.StorageClasses) != 1 || len(c.Namespaces) != 1 {
		t.Errorf("got %s, %+v", got, c)
	}
	wantWarnings(t, c)
	if yaml := read(t, "# YAML\n"+simulatorExport); !reflect.DeepEqual(yaml, c) {
		t.Errorf("as YAML: got %s", summary(yaml))
	}
	c, err := Read([]string{"-"}, bytes.NewReader(zipped(t, "snapshot.json", kaiSnapshot)))
	if err != nil {
		t.Fatal(err)
	}
	if got := summary(c); got != "node a, node b, pod shop/web, queues, podGroups" || len(c.PersistentVolumeClaims) != 1 || len(c.CSIDrivers) != 1 || len(c.PodGroups) != 0 {
		t.Errorf("got %s, %+v", got, c)
	}
	wantWarnings(t, c)
	// Mistakes have the line of their object.
	_, err = Decode("F", []byte(strings.Replace(simulatorExport, `{"name":"b"}`, `{"name":"B"}`, 1)))
	if err == nil || !strings.HasPrefix(err.Error(), "F:3: Node B: metadata.name: ") {
		t.Errorf("got %v", err)
	}
	for _, broken := range []string{`{"pods":[1 2],"nodes":[]}`, `{"rawObjects":{"pods":[{}}}`, `{"pods":{},"nodes":[]}`, `{"nodes":[]}`} {
		if c, err := Decode("F", []byte(broken)); err == nil {
			t.Errorf("%s is read: %s", broken, summary(c))
		}
	}
}

// An archive that is broken, unpacks to too many bytes or has no manifest is a mistake.
func TestBadArchives(t *testing.T) {
	whole := tarred(t, map[string]string{"nodes.yaml": node})
	for _, test := range []struct {
		name, want string
		data       []byte
	}{
		{"cut short", "-: cannot be read: gzip: unexpected EOF", whole[:len(whole)/2]},
		{"nothing to read", "-: cannot be read: the archive has no *.yaml, *.yml or *.json file", zipped(t, "a.txt", "x")},
		{"no object", "-: no file in it holds an object; want Kubernetes objects", zipped(t, "a.yaml", "# nothing\n")},
		{"broken entry", "-/a.yaml:1: unknown kind Pood of v1; did you mean Pod?", zipped(t, "a.yaml", "kind: Pood\napiVersion: v1\n")},
		{"no zip", "-: cannot be read: zip: not a valid zip file", []byte("PK\x03\x04")},
	} {
		if _, err := Read([]string{"-"}, bytes.NewReader(test.data)); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %s", test.name, err, test.want)
		}
	}
	for name, data := range map[string][]byte{"tar": whole, "zip": zipped(t, "a.yaml", strings.Repeat("#", 2000))} {
		if _, err := unpack(source{name: "a", given: "a", data: data}, 1000); err == nil || !strings.Contains(err.Error(), "the archive unpacks to too many bytes") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A custom resource is recognized by its group, whatever its kind, and never causes an
// error.
func TestCustomResources(t *testing.T) {
	custom := []Skipped{
		{"scheduling.volcano.sh/v1beta1", "PodGroup", 1}, {"scheduling.run.ai/v2alpha2", "PodGroup", 1}, {"scheduling.x-k8s.io/v1alpha1", "PodGroup", 1},
		{"kueue.x-k8s.io/v1beta1", "Workload", 1}, {"serving.knative.dev/v1", "Service", 1}, {"longhorn.io/v1beta2", "Node", 1}, {"longhorn.io/v1beta2", "Volume", 1},
		{"batch.volcano.sh/v1alpha1", "Job", 1}, {"apps.kruise.io/v1beta1", "StatefulSet", 1}, {"apps.kruise.io/v1alpha1", "DaemonSet", 1},
		{"karpenter.sh/v1", "NodePool", 1}, {"machine.openshift.io/v1beta1", "Machine", 1}, {"snapshot.storage.k8s.io/v1", "VolumeSnapshot", 1},
		{"metrics.k8s.io/v1beta1", "NodeMetrics", 1}, {"metrics.k8s.io/v1beta1", "PodMetrics", 1}, {"cluster.x-k8s.io/v1beta1", "Cluster", 1},
		{"apiextensions.k8s.io/v1", "CustomResourceDefinition", 1}, {"apiregistration.k8s.io/v1", "APIService", 1}, {"gateway.networking.k8s.io/v1", "Gateway", 1},
		{"argoproj.io/v1alpha1", "Rollout", 1}, {"ray.io/v1", "RayCluster", 1}, {"kubeflow.org/v1", "PyTorchJob", 1}, {"cilium.io/v2", "CiliumNode", 1},
		{"scheduling.koordinator.sh/v1alpha1", "Device", 1}, {"topology.node.k8s.io/v1alpha2", "NodeResourceTopology", 1}, {"kubevirt.io/v1", "VirtualMachineInstance", 1},
		{"policy/v1", "Xyzzyx", 1}, {"v1", "Nofxzz", 1},
	}
	text := node
	for _, s := range custom {
		text += "---\napiVersion: " + s.APIVersion + "\nkind: " + s.Kind + "\nmetadata: {name: a}\nspec: {minMember: 3, replicas: many}\n"
	}
	c := read(t, text)
	if !reflect.DeepEqual(c.Skipped, custom) || len(c.Nodes) != 1 || len(c.Objects()) != 1 {
		t.Errorf("got %d objects, skipped %+v", len(c.Objects()), c.Skipped)
	}
	// Lists of custom resources, with and without kinds of their items, as kubectl get
	// and API servers write them.
	c = read(t, `{"apiVersion":"karpenter.sh/v1","kind":"NodePoolList","items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}
{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"longhorn.io/v1beta2","kind":"Node","metadata":{"name":"a"}}]}`)
	if want := []Skipped{{"karpenter.sh/v1", "NodePool", 2}, {"longhorn.io/v1beta2", "Node", 1}}; !reflect.DeepEqual(c.Skipped, want) {
		t.Errorf("skipped %+v", c.Skipped)
	}
}

// Objects that API servers admit are read, with remarks; equal remarks are counted.
func TestAdmitted(t *testing.T) {
	const decided = "; API servers accept it, and it is used as it is"
	const number = `Invalid value: "x": for 'Gt', 'Lt' operators, the value must be an integer`
	gt := "[{matchExpressions: [{key: a, operator: Gt, values: [x]}]}]"
	c := read(t, ctr+"    resources: {requests: {cpu: 2T, memory: 8Ei}, limits: {example.com/a: 9Ei}}\n---\n"+
		strings.Replace(aff, "name: a", "name: b", 1)+"    nodeAffinity: {"+req+": {nodeSelectorTerms: "+gt+"}}\n---\n"+
		strings.Replace(aff, "name: a", "name: c", 1)+"    nodeAffinity: {"+req+": {nodeSelectorTerms: "+gt+"}, "+pref+": [{weight: 1, preference: {matchExpressions: [{key: a, operator: Lt, values: [x]}]}}]}\n---\n"+
		node+"status: {capacity: {memory: 10Ei}}\n")
	if got := summary(c); got != "node a, pod default/a, pod default/b, pod default/c" {
		t.Errorf("got %s", got)
	}
	path := "spec.affinity.nodeAffinity." + req + ".nodeSelectorTerms[0].matchExpressions[0].values[0]: "
	wantWarnings(t, c,
		"F:1: Pod default/a: spec.containers[0].resources.requests[cpu]: 2T cores are more than a node has (500m is half a core)"+decided,
		"F:1: Pod default/a: spec.containers[0].resources.requests[memory]: 9223372036854775807 is more than a node has: 8Ei and above count as one less than 8Ei"+decided,
		"F:1: Pod default/a: spec.containers[0].resources.limits[example.com/a]: 9223372036854775807 is more than a node has: 8Ei and above count as one less than 8Ei"+decided,
		"F:9: Pod default/b: "+path+number+decided+" (1 object more like it)",
		"F:17: Pod default/c: spec.affinity.nodeAffinity."+pref+"[0].preference.matchExpressions[0].values[0]: "+number+decided,
		"F:25: Node a: status.capacity[memory]: 9223372036854775807 is more than a node has: 8Ei and above count as one less than 8Ei"+decided)

	// A value in a preference need not be a label value; a value in a requirement must
	// be.
	odd := aff + "    nodeAffinity: {" + pref + ": [{weight: 1, preference: {matchExpressions: [{key: a, operator: In, values: [x y]}]}}]}\n"
	if c = read(t, odd); len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], `preference.matchExpressions[0].values[0][a]: Invalid value: "x y"`) {
		t.Errorf("warnings %q", c.Warnings)
	}
	odd = aff + "    nodeAffinity: {" + req + ": {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [x y]}]}]}}\n"
	if _, err := Decode("F", []byte(odd)); err == nil || !strings.Contains(err.Error(), `matchExpressions[0].values[0][a]: Invalid value: "x y"`) {
		t.Errorf("got %v", err)
	}

	// Any field is allowed with a uid and a resourceVersion from an API server. An older
	// server may have been less strict, and a newer one may have more fields.
	stored := "apiVersion: v1\nkind: Pod\nmetadata: {name: a, uid: u, resourceVersion: '7', labels: {a: -}}\nspec:\n  novelty: {}\n  tolerations: [{operator: Never}]\n  containers: [{name: c, image: i}]\n"
	c = read(t, stored)
	if got := summary(c); got != "pod default/a" || c.Pods[0].Spec.Tolerations[0].Operator != "Never" {
		t.Errorf("got %s, %+v", got, c.Pods[0].Spec)
	}
	if len(c.Warnings) != 4 || c.Warnings[0] != "F:1: Pod default/a: spec.novelty: unknown field"+decided {
		t.Errorf("warnings\n%s", strings.Join(c.Warnings, "\n"))
	}
	for _, without := range []string{"uid: u, ", "resourceVersion: '7', "} {
		if _, err := Decode("F", []byte(strings.Replace(stored, without, "", 1))); err == nil || !strings.Contains(err.Error(), "spec.novelty: unknown field") {
			t.Errorf("without %s: got %v", without, err)
		}
	}
	if _, err := Decode("F", []byte(strings.Replace(stored, "name: a,", "", 1))); err == nil || !strings.Contains(err.Error(), "metadata.name: is missing") {
		t.Errorf("without a name: got %v", err)
	}
	if _, err := Decode("F", []byte(strings.Replace(stored, "novelty: {}", "nodeName: 7", 1))); err == nil || !strings.Contains(err.Error(), "spec.nodeName: 7 is not valid here") {
		t.Errorf("another type: got %v", err)
	}
}
