package manifest

import (
	"strings"
	"testing"
)

// TestNamespaceOption sets the namespace of objects that name none, including objects in
// lists and YAML. Objects of another namespace are rejected only with Only.
func TestNamespaceOption(t *testing.T) {
	const text = `
{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: i}]}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {name: b}, spec: {containers: [{name: c, image: i}]}}
- {apiVersion: v1, kind: Node, metadata: {name: node}}
---
{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}]}
`
	read := func(text string, into *Namespace) (string, error) {
		cluster, err := Options{Namespace: into}.Read([]string{"-"}, strings.NewReader(text))
		if err != nil {
			return "", err
		}
		var names []string
		for _, pod := range cluster.Pods {
			names = append(names, pod.Namespace+"/"+pod.Name)
		}
		return strings.Join(names, " "), nil
	}
	for _, test := range []struct {
		into *Namespace
		want string
	}{{nil, "default/a default/b default/c"}, {&Namespace{Name: "shop"}, "shop/a shop/b shop/c"}, {&Namespace{Name: "shop", Only: true}, "shop/a shop/b shop/c"}} {
		if got, err := read(text, test.into); err != nil || got != test.want {
			t.Errorf("got %s, %v, want %s", got, err, test.want)
		}
	}
	other := strings.Replace(text, "name: b}", "name: b, namespace: mall}", 1)
	if got, err := read(other, &Namespace{Name: "shop"}); err != nil || got != "shop/a mall/b shop/c" {
		t.Errorf("got %s, %v", got, err)
	}
	_, err := read(other, &Namespace{Name: "shop", Only: true})
	if err == nil || !strings.Contains(err.Error(), `Pod mall/b: metadata.namespace: is "mall", and --namespace is "shop"; make them equal`) {
		t.Errorf("got %v", err)
	}
}
