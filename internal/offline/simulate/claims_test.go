package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// TestRunWithDevices runs files with pods whose claims are made from a template. Devices
// exist for two of them, and one device has to be prepared. A pod in the files that has a
// device already keeps it.
func TestRunWithDevices(t *testing.T) {
	const files = `
apiVersion: v1
kind: Node
metadata: {name: node, labels: {kubernetes.io/hostname: node}}
status: {capacity: {cpu: 8, pods: 10}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: d
  nodeName: node
  pool: {name: p, generation: 1, resourceSliceCount: 1}
  devices: [{name: d0}, {name: d1, bindingConditions: [Ready]}, {name: d2}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: had, finalizers: [resource.kubernetes.io/delete-protection]}
spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu}}]}}
status:
  allocation: {devices: {results: [{request: r, driver: d, pool: p, device: d0}]}}
  reservedFor: [{resource: pods, name: runs, uid: u}]
---
apiVersion: v1
kind: Pod
metadata: {name: runs, uid: u}
spec:
  nodeName: node
  containers: [{name: main, image: i}]
  resourceClaims: [{name: c, resourceClaimName: had}]
`
	const waits = `
---
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers: [{name: main, image: i}]
  resourceClaims: [{name: c, resourceClaimTemplateName: %s}]
`
	text := files
	for _, name := range []string{"a", "b", "c"} {
		text += fmt.Sprintf(waits, name, "one")
	}
	cluster, err := manifest.Decode("files", []byte(text+fmt.Sprintf(waits, "d", "none")))
	if err != nil {
		t.Fatal(err)
	}
	result, err := simulate.Run(defaults(t), cluster, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range result.Pods {
		got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", p.Pod, p.Status, p.Node, p.Message)))
	}
	want := []string{
		"a Scheduled node", "b Scheduled node",
		"c Pending 0/1 nodes are available: 1 cannot allocate all claims. preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
		`d Gated pod "default/d": ResourceClaim not created yet`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("placements\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
