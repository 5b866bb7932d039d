package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// badValues are further mistakes in a text, with the whole error.
var badValues = []struct{ name, text, want string }{
	{"array in json", "[{\"kind\":\"Node\"}]", "F:1: is an array, not an object; put it under items: in an object with apiVersion: v1, kind: List"},
	{"number", "3", "F:1: is 3, not an object; an object has apiVersion, kind and metadata"},
	{"long text", strings.Repeat("x", 39), "F:1: is \"" + strings.Repeat("x", 39) + "..., not an object; an object has apiVersion, kind and metadata"},
	{"text that just fits", strings.Repeat("x", 38), "F:1: is \"" + strings.Repeat("x", 38) + "\", not an object; an object has apiVersion, kind and metadata"},
	{"yaml in an element", "kind: List\napiVersion: v1\nitems:\n- a: 1\n- b: [\n", "F:5: invalid YAML: did not find expected node content"},
	{"broken json in a list", "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\n\"spec\":{x}}]}", "F:2: Node items[0]: invalid JSON: invalid character 'x' looking for beginning of object key string"},
	{"broken json with an enormous number", "{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"1e1000000\"},\n\"spec\":{x}}", "F:2: Node: invalid JSON: invalid character 'x' looking for beginning of object key string"},
	{"broken json of a kind that is not read", "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\n\"data\":{x}}", "F:2: invalid JSON: invalid character 'x' looking for beginning of object key string"},
	{"more after json", "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"}\n]", "F:2: invalid JSON: invalid character ']' looking for beginning of value"},
	{"element that is no object", "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"},\n\n7]}", "F:3: items[1]: is 7, not an object; an object has apiVersion, kind and metadata"},
	{"list in a list", "kind: List\napiVersion: v1\nitems:\n- kind: List\n  apiVersion: v1\n  items:\n  - kind: Node\n    apiVersion: v1\n  - 7\n", "F:4: Node items[0].items[0]: metadata.name: is missing; every object needs a name\nF:4: items[0].items[1]: is 7, not an object; an object has apiVersion, kind and metadata"},
	{"odd items in a list", "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[{\"kind\":\"NodeList\",\"apiVersion\":\"v1\",\"items\":{}}]}", "F:1: items[0]: items: must be given once, as an array"},
	{"items twice", "{\"kind\":\"List\",\"apiVersion\":\"v1\",\"items\":[],\"items\":[]}", "F:1: items: must be given once, as an array"},
	{"unknown list without elements", "{\"kind\":\"PoodList\",\"apiVersion\":\"v1\",\"items\":null}", "F:1: unknown kind PoodList of v1; did you mean PodList?; remove the object if scheduling does not need it"},
	{"list of a kind whose elements lack one", "kind: List\napiVersion: v1\nitems:\n- metadata: {name: a}\n", "F:4: items[0]: kind is missing; every object needs apiVersion and kind"},
	{"internal version", "kind: Node\napiVersion: __internal\n", "F:1: apiVersion is missing; every object needs apiVersion and kind; Node is in v1"},
	{"no apiVersion of an unknown kind", "kind: Pood\n", "F:1: apiVersion is missing; every object needs apiVersion and kind"},
	{"no apiVersion of a kind that is not read", "kind: Deployment\n", "F:1: apiVersion is missing; every object needs apiVersion and kind; Deployment is in apps/v1"},
	{"many versions", "kind: HorizontalPodAutoscaler\napiVersion: v1\n", "F:1: no kind HorizontalPodAutoscaler in v1; HorizontalPodAutoscaler is in autoscaling/v1, autoscaling/v2"},
	{"alpha last", "kind: ClusterRole\napiVersion: v1\n", "F:1: no kind ClusterRole in v1; ClusterRole is in rbac.authorization.k8s.io/v1, rbac.authorization.k8s.io/v1beta1, rbac.authorization.k8s.io/v1alpha1"},
	{"other group of the same kind", "kind: Event\napiVersion: batch/v1\n", "F:1: no kind Event in batch/v1; Event is in events.k8s.io/v1, v1, events.k8s.io/v1beta1"},
	{"case", "kind: node\napiVersion: v1\n", "F:1: unknown kind node of v1; did you mean Node?; remove the object if scheduling does not need it"},

	{"fields of every type", ctr + `    resources: {requests: {cpu: [1], memory: {}}}
    ports: [{containerPort: x, name: 3}]
    livenessProbe: {httpGet: {port: [1]}}
    securityContext: {runAsUser: 1.5, privileged: maybe}
    command: {a: b}
    env: [{nme: x}]
  nodeSelector: [a]
  affinity: x
  volumes: [3]
`, `F:14: Pod default/a: spec.affinity: "x" is not valid here; want an object with named fields
F:11: Pod default/a: spec.containers[0].command: {"a":"b"} is not valid here; want an array
F:12: Pod default/a: spec.containers[0].env[0].nme: unknown field; did you mean name?
F:9: Pod default/a: spec.containers[0].livenessProbe.httpGet.port: [1] is not valid here; want a whole number or text
F:8: Pod default/a: spec.containers[0].ports[0].containerPort: "x" is not valid here; want a whole number of the range of int32
F:8: Pod default/a: spec.containers[0].ports[0].name: 3 is not valid here; want text (put numbers, true and false in quotes)
F:7: Pod default/a: spec.containers[0].resources.requests[cpu]: [1] is not a valid quantity; write a number with an optional suffix, as in 500m, 2 or 1.5Gi
F:7: Pod default/a: spec.containers[0].resources.requests[memory]: {} is not a valid quantity; write a number with an optional suffix, as in 500m, 2 or 1.5Gi
F:10: Pod default/a: spec.containers[0].securityContext.privileged: "maybe" is not valid here; want true or false
F:10: Pod default/a: spec.containers[0].securityContext.runAsUser: 1.5 is not valid here; want a whole number of the range of int64
F:13: Pod default/a: spec.nodeSelector: ["a"] is not valid here; want an object with keys and values
F:15: Pod default/a: spec.volumes[0]: 3 is not valid here; want an object with named fields`},
	{"micro time and numbers", "{kind: Pod, apiVersion: v1, metadata: {namespace: ns, name: a, labels: {x: 1}, uid: 3, generation: 99999999999999999999}, spec: {containers: null}, status: {startTime: 3}}", `F:1: Pod ns/a: metadata.generation: 100000000000000000000 is not valid here; want a whole number of the range of int64
F:1: Pod ns/a: metadata.labels[x]: 1 is not valid here; want text (put numbers, true and false in quotes)
F:1: Pod ns/a: metadata.uid: 3 is not valid here; want text (put numbers, true and false in quotes)
F:1: Pod ns/a: status.startTime: 3 is not valid here; want a time such as 2006-01-02T15:04:05Z`},
	{"a name that is none", "{kind: Node, apiVersion: v1, metadata: {name: 3}, spec: {x: 1}}", "F:1: Node: metadata.name: 3 is not valid here; want text (put numbers, true and false in quotes)\nF:1: Node: spec.x: unknown field"},
	{"field twice deep in json", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","name":"d"}],"nodeName":"x","nodeName":"y"}}`,
		"F:1: Pod default/a: spec.containers[0].name: is given twice; remove one of the two\nF:1: Pod default/a: spec.nodeName: is given twice; remove one of the two"},
	{"twice under several namespaces", "{kind: Service, apiVersion: v1, metadata: {name: a}}\n---\n{kind: Service, apiVersion: v1, metadata: {name: a, namespace: b}}\n---\n{kind: Service, apiVersion: v1, metadata: {name: a, namespace: default}}", "F:5: Service default/a: is already defined at F:1; remove one of the two"},
	{"no part of a quantity", ctr + "    resources: {requests: {cpu: '1~'}}\n", "F:7: Pod default/a: spec.containers[0].resources.requests[cpu]: \"1~\" is not a valid quantity; write a number with an optional suffix, as in 500m, 2 or 1.5Gi"},
	{"group without a dot", "kind: Deployment\napiVersion: app/v1\n", "F:1: no kind Deployment in app/v1; Deployment is in apps/v1"},
	{"unknown group without a dot", "kind: Gadget\napiVersion: gadgets/v1\n", "F:1: unknown kind Gadget of gadgets/v1; remove the object if scheduling does not need it"},
	{"enormous number", `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"capacity":{"cpu":1e1000,"memory":"1E+1000"}}}`,
		"F:1: Node a: status.capacity[cpu]: 1e1000 has too large an exponent; write a number with an optional suffix, as in 500m, 2 or 1.5Gi\nF:1: Node a: status.capacity[memory]: 1E+1000 has too large an exponent; write a number with an optional suffix, as in 500m, 2 or 1.5Gi"},
}

func TestBadValues(t *testing.T) {
	for _, c := range badValues {
		_, err := Decode("F", []byte(c.text))
		if err == nil {
			t.Errorf("%s: no error", c.name)
		} else if got := err.Error(); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// Lists may be nested, ten deep.
func TestNestedLists(t *testing.T) {
	nested := func(depth int) string {
		return strings.Repeat(`{"kind":"List","apiVersion":"v1","items":[`, depth) + `{"kind":"Node","apiVersion":"v1","metadata":{"name":"a"}}` + strings.Repeat("]}", depth)
	}
	if c := read(t, nested(11)); len(c.Nodes) != 1 {
		t.Errorf("%d nodes", len(c.Nodes))
	}
	_, err := Decode("F", []byte(nested(12)))
	if want := "F:1: " + strings.Repeat("items[0].", 10) + "items[0]: lists are nested more than 10 deep"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Nested lists keep their content: objects, skipped objects, and the kinds of elements.
func TestListInList(t *testing.T) {
	c := read(t, "kind: List\napiVersion: v1\nitems:\n- kind: NodeList\n  apiVersion: v1\n  items:\n  - metadata: {name: a}\n  - metadata: {name: b}\n- kind: List\n  apiVersion: v1\n  items: [{kind: ConfigMap, apiVersion: v1}]\n- kind: ConfigMapList\n  apiVersion: v1\n  items: [{}, {}]\n")
	if len(c.Nodes) != 2 || c.Nodes[1].Name != "b" || !reflect.DeepEqual(c.Skipped, []Skipped{{"v1", "ConfigMap", 3}}) {
		t.Errorf("%d nodes, skipped %+v", len(c.Nodes), c.Skipped)
	}
}

// Skipped objects are counted by kind and version.
func TestSkippedByVersion(t *testing.T) {
	c := read(t, "{kind: Event, apiVersion: v1}\n---\n{kind: Event, apiVersion: events.k8s.io/v1}\n---\n{kind: Secret, apiVersion: v1}\n---\n{kind: Event, apiVersion: v1}")
	if want := []Skipped{{"v1", "Event", 2}, {"events.k8s.io/v1", "Event", 1}, {"v1", "Secret", 1}}; !reflect.DeepEqual(c.Skipped, want) {
		t.Errorf("got %+v", c.Skipped)
	}
}

// An error has its file, line, object and field, as far as they are known. At most twenty
// problems are listed.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		err  Error
		want string
	}{
		{Error{File: "f", Problem: "p"}, "f: p"},
		{Error{File: "f", Line: 1, Problem: "p"}, "f:1: p"},
		{Error{File: "f", Line: 2, Object: "Node a", Field: "spec", Problem: "p"}, "f:2: Node a: spec: p"},
		{Error{File: "f", Field: "spec", Problem: "p"}, "f: spec: p"},
	} {
		if got := test.err.Error(); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
	twenty := slices.Repeat([]*Error{{File: "f", Problem: "p"}}, 20)
	if lines := strings.Split(join(twenty).Error(), "\n"); len(lines) != 20 || lines[19] != "f: p" {
		t.Errorf("%q", lines)
	}
	if lines := strings.Split(join(append(twenty, twenty[0])).Error(), "\n"); len(lines) != 21 || lines[20] != "and 1 more" {
		t.Errorf("%q", lines)
	}
	if err := join(nil); err != nil {
		t.Errorf("%v", err)
	}
	r := &report{file: "f", line: 1, object: "o"}
	r.addErr(field.NewPath("a"), nil)
	r.addErr(field.NewPath("a"), errors.New("plain"))
	r.addErr(field.NewPath("a"), fmt.Errorf("wrapped: %w", field.Invalid(field.NewPath("b"), 1, "no")))
	r.addErr(field.NewPath("a"), field.ErrorList{field.Required(field.NewPath("c"), "x"), field.Required(field.NewPath("d"), "y")}.ToAggregate())
	var got []string
	for _, e := range r.errs {
		got = append(got, e.Error())
	}
	if text := strings.Join(got, "\n"); text != "f:1: o: a: plain\nf:1: o: b: Invalid value: 1: no\nf:1: o: c: Required value: x\nf:1: o: d: Required value: y" {
		t.Errorf("got\n%s", text)
	}
}

// A kind that the scheme does not have cannot be located, which is reported.
func TestLocateUnknown(t *testing.T) {
	r := &report{}
	locate(&kind{gvk: schema.GroupVersionKind{Group: "x", Version: "v1", Kind: "Y"}}, nil, r)
	if len(r.errs) != 1 || r.errs[0].Problem != `no kind "Y" is registered for version "x/v1" in scheme "pkg/runtime/scheme.go:111"` {
		t.Errorf("%+v", r.errs)
	}
}

// A directory expands to its manifests and those of its subdirectories, ordered by name.
// A file that is named twice is read once.
func TestExpand(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.yaml", "a.yml", "c.json", "d.txt", "e.yaml.bak", "f.yaml/g.yaml", "f.yaml/h/i.json", "f.yaml/h/j.log", ".git/k.yaml", "f.yaml/.l/m.yaml"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var errs []*Error
	var got []string
	for _, s := range expand([]string{"-", dir, dir + "/./b.yaml", dir + "/d.txt", "-"}, &errs) {
		got = append(got, s.name)
	}
	if want := []string{"-", dir + "/a.yml", dir + "/b.yaml", dir + "/c.json", dir + "/f.yaml/g.yaml", dir + "/f.yaml/h/i.json", dir + "/d.txt"}; !slices.Equal(got, want) || len(errs) != 0 {
		t.Errorf("got %q, %v", got, errs)
	}
	if err := os.Mkdir(filepath.Join(dir, "empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := expand([]string{dir + "/empty"}, &errs); len(got) != 0 || len(errs) != 1 || errs[0].Error() != dir+"/empty: no *.yaml, *.yml or *.json file in the directory or its subdirectories" {
		t.Errorf("got %d files, %v", len(got), errs)
	}
	errs = nil
	if got := within(dir+"/none", &errs); got != nil || len(errs) != 1 || errs[0].Error() != dir+"/none: cannot be read: no such file or directory" {
		t.Errorf("got %q, %v", got, errs)
	}
	if _, err := Read(nil, nil); err == nil || err.Error() != "-f: no file is given; name files, directories or - for standard input" {
		t.Errorf("got %v", err)
	}
	if _, err := Read([]string{"-"}, nil); err == nil || err.Error() != "-: cannot be read: no standard input" {
		t.Errorf("got %v", err)
	}
	if reason(errors.New("x")).Error() != "x" {
		t.Error("a reason that is no error of a file is lost")
	}
}

// file returns a file that is given by its name.
func file(name, text string) source { return source{name: name, given: name, data: []byte(text)} }

// Each file must contain an object, and errors of several files come in their order.
func TestSeveralFiles(t *testing.T) {
	sources := []source{file("a", node), file("b", ""), file("c", "---\n---\n"+node), file("d", "# x\n")}
	_, err := Options{}.decode(sources, []*Error{{File: "z", Problem: "p"}})
	want := "z: p\nb: holds no object; want Kubernetes objects in YAML or JSON, as kubectl get -o yaml prints them\nc:3: Node a: is already defined at a:1; remove one of the two\n" +
		"d: holds no object; want Kubernetes objects in YAML or JSON, as kubectl get -o yaml prints them"
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// Progress is reported in steps of at least 256 KiB, and at the end.
func TestMeter(t *testing.T) {
	var told []int64
	m := &meter{tell: func(done, total int64) { told = append(told, done, total) }, total: 1 << 20}
	for _, n := range []int{1<<18 - 1, 1, 1, 1<<18 - 2, 1, 1 << 19} {
		m.add(n)
	}
	m.end()
	if want := []int64{1 << 18, 1 << 20, 1 << 19, 1 << 20, 1 << 20, 1 << 20}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	none := &meter{}
	none.add(1 << 20) // without Progress
	none.end()

	// Read counts all bytes of the files.
	told = nil
	text := strings.Repeat("{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\"}\n", 1<<13)
	if _, err := (Options{Progress: func(done, total int64) { told = append(told, done, total) }}).decode([]source{file("a", text), file("b", text)}, nil); err != nil {
		t.Fatal(err)
	}
	n := len(told)
	if n < 6 || told[0] < 1<<18 || told[0] >= told[2] || told[n-2] != int64(2*len(text)) || told[n-1] != int64(2*len(text)) || told[1] != told[n-1] {
		t.Errorf("told %v of %d bytes", told, 2*len(text))
	}
}
