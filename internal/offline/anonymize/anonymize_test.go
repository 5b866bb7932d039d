package anonymize

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

// TestText keeps the relations between texts, and the texts of Kubernetes.
func TestText(t *testing.T) {
	n := New("key")
	for _, text := range []string{
		"", "default", "kube-system", "metadata.name", "cpu", "12", "true", "ebs.csi.aws.com", "node-role.kubernetes.io/control-plane", "hugepages-2Mi", "topology.kubernetes.io/zone", "node.kubernetes.io/unschedulable",
		"2026-11-02T09:00:01Z", "system-node-critical",
	} {
		if got := n.Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	web, data, claim := n.Text("web"), n.Text("data"), n.Text("data-web-0")
	if claim != data+"-"+web+"-0" || n.Text("web:latest") != web+":latest" || n.Text("shop/web") != n.Text("shop")+"/"+web {
		t.Errorf("web is %s, data is %s, and data-web-0 is %s", web, data, claim)
	}
	if New("key").Text("web") != web || New("other").Text("web") == web {
		t.Error("the key does not decide the replacement")
	}
	for _, text := range []string{"web", "account-123456789012", strings.Repeat("a-", 31) + "a", "evil.kubernetes.io.example.com/team", "mykubernetes.io/a"} {
		got := n.Text(text)
		for _, w := range regexp.MustCompile(`[A-Za-z0-9]{2,}`).FindAllString(text, -1) {
			if w != "io" && strings.Contains(got, w) && len(got) > 0 {
				t.Errorf("%q became %q", text, got)
			}
		}
		if len(text) <= 63 && len(got) > 63 && !strings.Contains(text, "/") {
			t.Errorf("%q became %q, which is no label", text, got)
		}
	}
}

// TestObject replaces every text that is not vocabulary, also in fields that this package
// does not know.
func TestObject(t *testing.T) {
	const text = `{"apiVersion": "v1", "kind": "Pod",
		"metadata": {"name": "secretname-0", "namespace": "secretns", "labels": {"secretkey": "secretvalue", "type": "secrettype"}, "unknown": ["secretlist", {"deep": "secretdeep"}]},
		"spec": {"nodeName": "secretnode", "schedulerName": "mine", "nodeSelector": {"kubernetes.io/hostname": "secretnode"}, "restartPolicy": "Always",
			"topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["secretkey"]}],
			"containers": [{"name": "secretc", "image": "secretimage:latest", "resources": {"requests": {"cpu": "100m", "secret.example/gpu": "2"}}}],
			"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "kubernetes.io/hostname",
				"labelSelector": {"matchLabels": {"secretkey": "secretvalue"}, "matchExpressions": [{"key": "secretkey", "operator": "In", "values": ["secretvalue"]}]}}]}}},
		"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "message": "no secretnode"}]}}`
	n := New("k")
	changed, err := n.Object([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	got := string(changed)
	if strings.Contains(got, "secret") || strings.Contains(got, "message") {
		t.Errorf("a name or a message is left: %s", got)
	}
	for _, want := range []string{
		`"apiVersion":"v1"`, `"kind":"Pod"`, `"schedulerName":"mine"`, `"restartPolicy":"Always"`, `"cpu":"100m"`, `"kubernetes.io/hostname":"` + n.Text("secretnode") + `"`,
		`"topologyKey":"kubernetes.io/hostname"`, `"matchLabels":{"` + n.Text("secretkey") + `":"` + n.Text("secretvalue") + `"}`, `"operator":"In"`, `"matchLabelKeys":["` + n.Text("secretkey") + `"]`, `"whenUnsatisfiable":"DoNotSchedule"`, `"key":"` + n.Text("secretkey") + `"`,
		`"nodeName":"` + n.Text("secretnode") + `"`, `"phase":"Pending"`, `"` + n.Text("secret.example/gpu") + `":"2"`, `:latest"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is missing in\n%s", want, got)
		}
	}
	if _, err := n.Object([]byte(`[]`)); err == nil {
		t.Error("an array is no object")
	}
}

// TestHidden replaces what identifies a user outside of names: addresses, long numbers,
// roles of nodes, and kinds of other API groups.
func TestHidden(t *testing.T) {
	n := New("k")
	for text, hidden := range map[string]string{
		"10.0.3.17": "3", "ip-10-0-3-17.ec2.internal": "10-0", "2001:db8::17": "2001", "123456789012": "123456789012", "node-role.kubernetes.io/payments": "payments",
		"node-restriction.kubernetes.io/payments": "payments", "bank.node-restriction.kubernetes.io/payments": "bank", "deviceclass.resource.kubernetes.io/bank": "bank",
	} {
		if got := n.Text(text); got == text || strings.Contains(got, hidden) && len(hidden) > 1 || strings.Contains(got, "payments") {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got, want := n.Text("ip-10-0-3-17"), n.Text("ip-10-0-3-17.ec2.internal"); !strings.HasPrefix(want, got+".") {
		t.Errorf("the short name %s is no part of %s", got, want)
	}
	long := strings.Repeat("a-", 20)
	if got := n.Text(long + "b/" + long + "c"); strings.Count(got, "/") != 1 || len(got) > 127 {
		t.Errorf("a long resource became %q", got)
	}
	changed, err := n.Object([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"n": "8Gi"}, "ownerReferences": [
		{"apiVersion": "secret.example/v1", "kind": "Secretkind", "name": "a"}, {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b"}]},
		"spec": {"dataSourceRef": {"apiGroup": "secret.example", "kind": "Secretkind"}}, "status": {"disruptedPods": {"secretpod": "2026-11-02T09:00:01Z"}}}`))
	got := strings.ToLower(string(changed))
	if err != nil || strings.Contains(got, "secret") || strings.Contains(got, "8gi") || !strings.Contains(got, `"apps/v1"`) || !strings.Contains(got, `"replicaset"`) {
		t.Errorf("%s, %v", got, err)
	}
}

// TestDecisive keeps the fields that decide, and the relations between them.
func TestDecisive(t *testing.T) {
	n := New("k")
	driver := n.Text("gpu.vendor.example")
	for text, want := range map[string]string{
		`{"status": {"declaredFeatures": ["F"], "nodeInfo": {"kubeletVersion": "v1.38.0"}}}`: `{"status":{"declaredFeatures":["F"],"nodeInfo":{"kubeletVersion":"v1.38.0"}}}`,
		`{"allocatable": {"count": 7}}`:                                                              `{"allocatable":{"count":7}}`,
		`{"capacity": {"requests": {"gpu.vendor.example/mem": "40Gi"}}}`:                             `{"capacity":{"requests":{"` + driver + `/mem":"40Gi"}}}`,
		`{"requests": [{"name": "g"}]}`:                                                              `{"requests":[{"name":"` + n.Text("g") + `"}]}`,
		`{"constraints": [{"requests": ["g"], "matchAttribute": "gpu.vendor.example/model"}]}`:       `{"constraints":[{"matchAttribute":"` + driver + `/model","requests":["` + n.Text("g") + `"]}]}`,
		`{"distinctAttribute": "gpu.vendor.example/model"}`:                                          `{"distinctAttribute":"` + driver + `/model"}`,
		`{"bindingConditions": ["Ready"], "bindingFailureConditions": ["Bad"]}`:                      `{"bindingConditions":["Ready"],"bindingFailureConditions":["Bad"]}`,
		`{"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}`:                `{"annotations":{"resource.kubernetes.io/extended-resource-claim":"true"}}`,
		`{"operator": "Gt", "values": ["100000"]}`:                                                   `{"operator":"Gt","values":["100000"]}`,
		`{"value": 9007199254740993}`:                                                                `{"value":9007199254740993}`,
		`{"capacity": "100Gi", "maximumVolumeSize": "5Gi"}`:                                          `{"capacity":"100Gi","maximumVolumeSize":"5Gi"}`,
		`{"volumeID": "aws://vol-1"}`:                                                                `{"volumeID":"aws://vol-1"}`,
		`{"limits": {"cpu": "100m"}, "overhead": {"memory": "8Gi"}, "consumedCapacity": {"m": "1"}}`: `{"consumedCapacity":{"m":"1"},"limits":{"cpu":"100m"},"overhead":{"memory":"8Gi"}}`,
	} {
		if changed, err := n.Object([]byte(text)); err != nil || string(changed) != want {
			t.Errorf("%s became\n%s, %v, want\n%s", text, changed, err, want)
		}
	}
}

// TestDevices keeps the attributes of devices, and the relation between drivers and
// expressions.
func TestDevices(t *testing.T) {
	n := New("k")
	driver := n.Text("gpu.vendor.example")
	for text, want := range map[string]string{
		`{"expression": "device.driver == 'gpu.vendor.example' && device.attributes[\"gpu.vendor.example\"].model == \"a100\""}`: `device.driver == '` + driver + `' && device.attributes["` + driver + `"].model == "a100"`,
		`{"expression": 7}`: ``,
	} {
		changed, err := n.Object([]byte(text))
		var got map[string]any
		if err != nil || json.Unmarshal(changed, &got) != nil {
			t.Fatal(err)
		}
		if want != "" && got["expression"] != want {
			t.Errorf("%s\nwant %s", got["expression"], want)
		}
	}
	changed, err := n.Object([]byte(`{"spec": {"driver": "gpu.vendor.example", "devices": [{"name": "g0", "attributes": {"model": {"string": "a100"}, "gpu.vendor.example/arch": {"string": "x"}}, "capacity": {"memory": {"value": "80Gi"}}}]}}`))
	got := string(changed)
	for _, want := range []string{`"driver":"` + driver + `"`, `"` + driver + `/arch":{"string":"x"}`, `"model":{"string":"a100"}`, `"capacity":{"memory":{"value":"80Gi"}}`, `"name":"` + n.Text("g0") + `"`} {
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s is missing in %s, %v", want, got, err)
		}
	}
}
