package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestExpand completes objects: nodes have room, pods a container and the nodes of their
// report.
func TestExpand(t *testing.T) {
	for _, test := range []struct {
		report        Report
		object, wants string
	}{
		{Report{Name: "r"}, "{kind: Node, name: a, labels: {zone: z}, allocatable: {cpu: '1'}}",
			`{apiVersion: v1, kind: Node, metadata: {name: a, labels: {zone: z, report: r, kubernetes.io/hostname: a}},
			status: {allocatable: {cpu: '1', memory: 8Gi, pods: '20'}, capacity: {cpu: '1', memory: 8Gi, pods: '20'}}}`},
		{Report{Name: "r", Alone: true}, "{kind: Pod, name: p, requests: {cpu: '1', example.com/gpu: '2'}}",
			`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: r},
			spec: {containers: [{name: main, image: 'registry.example/main:1', resources:
			{requests: {cpu: '1', example.com/gpu: '2'}, limits: {example.com/gpu: '2'}}}]}}`},
		{Report{Name: "r", Profile: map[string]any{}}, "{kind: Pod, name: p, spec: {nodeSelector: {pool: x}, containers: []}}",
			`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: r},
			spec: {schedulerName: r, nodeSelector: {pool: x, report: r}, containers: []}}`},
		{Report{Name: "r"}, "{kind: PersistentVolumeClaim, name: c, ownerPod: p}",
			`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: c, namespace: r,
			ownerReferences: [{apiVersion: v1, kind: Pod, name: p, uid: u, controller: true}]}}`},
	} {
		raw, err := yaml.YAMLToJSON([]byte(test.object))
		if err != nil {
			t.Fatal(err)
		}
		got, err := test.report.expand(raw, map[string]any{"p": "u"})
		if err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := yaml.Unmarshal([]byte(test.wants), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.object, diff)
		}
	}
	if _, err := (&Report{}).expand(json.RawMessage(`{"kind": "Nothing"}`), nil); err == nil {
		t.Error("an unknown kind is accepted")
	}
}
