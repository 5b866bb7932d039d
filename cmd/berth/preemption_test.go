package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// preemptable is a cluster whose only node is full of pods of lower priority. web-0 and
// web-1 have a handwritten disruption budget that allows one disruption among them and a
// third pod, which is on a cordoned node. Another budget of theirs was read from a
// cluster and allows more than the input can show. A third was read from a cluster and
// allows less; it includes plain, which is already being deleted.
const preemptable = `
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: patient}, value: 100, preemptionPolicy: Never}
---
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2}, spec: {unschedulable: true}, status: {allocatable: {cpu: "4", memory: 8Gi, pods: "9"}}}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}
spec: {nodeName: n1, priority: 5, containers: [{name: m, image: x, resources: {requests: {cpu: "1"}}}]}
status: {startTime: "2026-01-01T10:00:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop, labels: {app: web, role: first}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}
spec: {nodeName: n1, priority: 5, containers: [{name: m, image: x, resources: {requests: {cpu: "1"}}}]}
status: {startTime: "2026-01-01T11:00:00Z"}
---
apiVersion: v1
kind: Pod
metadata: {name: web-2, namespace: shop, labels: {app: web}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: u, controller: true}]}
spec: {nodeName: n2, priority: 5, containers: [{name: m, image: x, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: shop, labels: {role: old}, deletionTimestamp: "2026-01-01T12:00:00Z"}
spec: {nodeName: n1, priority: -3, containers: [{name: m, image: x, resources: {requests: {cpu: "2"}}}]}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web, namespace: shop}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: read, namespace: shop, generation: 1}
spec: {minAvailable: 3, selector: {matchLabels: {app: web}}}
status: {observedGeneration: 1, disruptionsAllowed: 3, currentHealthy: 6, desiredHealthy: 3, expectedPods: 6}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: spent, namespace: shop, generation: 1}
spec: {minAvailable: 0, selector: {matchExpressions: [{key: role, operator: Exists}]}}
status: {observedGeneration: 1, disruptionsAllowed: 0, currentHealthy: 0, desiredHealthy: 0, expectedPods: 1}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: other, namespace: shop}, spec: {minAvailable: 3, selector: {matchLabels: {app: other}}}}
---
apiVersion: v1
kind: Pod
metadata: {name: nominated, namespace: shop}
spec: {priority: 50, schedulingGates: [{name: wait}], containers: [{name: m, image: x, resources: {requests: {cpu: "3"}}}]}
status: {nominatedNodeName: n1}
---
`

func asking(cpu, class string) string {
	return preemptable + "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {priorityClassName: " + class +
		", containers: [{name: m, image: x, resources: {requests: {cpu: '" + cpu + "'}}}]}}\n"
}

// TestExplainPreemption compares the preemption, as JSON and in the table.
func TestExplainPreemption(t *testing.T) {
	const found = "preemption: found a potential placement for pod on node n1, preempting "
	tests := []struct{ name, cpu, class, object, message, table string }{
		// The younger pod is put back first: evicting both would violate the budget.
		{"two victims", "3", "high",
			`{"node":"n1","victims":[{"pod":"shop/web-0","priority":5,"started":"2026-01-01T10:00:00Z","owner":"ReplicaSet/web"},` +
				`{"pod":"shop/plain","priority":-3,"terminating":true}],"clearedNominations":["shop/nominated"]}`,
			found + "2 victims", `
Preemption would nominate it to n1 and evict:
VICTIM       PRIORITY   STARTED                OWNER            STATE
shop/web-0   5          2026-01-01T10:00:00Z   ReplicaSet/web
shop/plain   -3         <not yet>              <none>           terminating
These pods of lower priority would lose their nomination to n1: shop/nominated
`},
		{"a violated budget", "4", "high",
			`{"node":"n1","victims":[{"pod":"shop/web-0","priority":5,"started":"2026-01-01T10:00:00Z","owner":"ReplicaSet/web"},` +
				`{"pod":"shop/web-1","priority":5,"started":"2026-01-01T11:00:00Z","owner":"ReplicaSet/web"},{"pod":"shop/plain","priority":-3,"terminating":true}],` +
				`"violatedBudgets":[{"budget":"shop/spent","allowed":0,"victims":1},{"budget":"shop/web","allowed":1,"victims":2}],"clearedNominations":["shop/nominated"]}`,
			found + "3 victims", `
shop/plain   -3         <not yet>              <none>           terminating
This violates the PodDisruptionBudget shop/spent: it allows 0, and 1 would be evicted.
This violates the PodDisruptionBudget shop/web: it allows 1, and 2 would be evicted.
These pods`},
		{"all victims are going anyway", "2", "high",
			`{"node":"n1","victims":[{"pod":"shop/plain","priority":-3,"terminating":true}]}`, found + "1 victims", "plain   -3"},
		{"never", "2", "patient", ``, "preemption: not eligible due to preemptionPolicy=Never.", `
0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable.
The pod does not preempt: not eligible due to preemptionPolicy=Never.

PLUGIN `},
		{"no help", "5", "high", ``, "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.", `
Preemption does not help: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.

PLUGIN `},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			code, out, stderr := explained(t, asking(test.cpu, test.class), "-o", "json", "--pod", "shop/p")
			var got struct {
				Message, PostFilterMessage string
				Preemption                 json.RawMessage
			}
			if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
				t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
			}
			if diff := cmp.Diff(test.object, string(got.Preemption)); diff != "" {
				t.Errorf("preemption (- want, + got)\n%s", diff)
			}
			if got.PostFilterMessage != test.message || !strings.HasSuffix(got.Message, ". "+test.message) {
				t.Errorf("messages %q and %q, want %q", got.Message, got.PostFilterMessage, test.message)
			}
			_, table, _ := explained(t, asking(test.cpu, test.class), "--pod", "shop/p", "-o", "wide")
			if !strings.Contains(trimmed(table), test.table) || strings.Count(table, "Pod shop/") != 1 {
				t.Errorf("table\n%s\nwant\n%s", table, test.table)
			}
		})
	}
}

// TestSimulateEvictions compares victims and preemptors, in the table and as JSON. The
// preemptor needs affinity to the pod "near" and is rejected at first. So another pod is
// placed before it, and evicted again.
func TestSimulateEvictions(t *testing.T) {
	const cluster = `
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}, status: {allocatable: {cpu: "4", pods: "9"}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: old, namespace: shop}, spec: {nodeName: n1, priority: 2, containers: [{name: m, image: x, resources: {requests: {cpu: "1"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: filler, namespace: shop}, spec: {priority: 1, containers: [{name: m, image: x, resources: {requests: {cpu: "2"}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: near, namespace: shop, creationTimestamp: "2025-01-01T00:00:00Z", labels: {app: x}}, spec: {priority: 1000, containers: [{name: m, image: x, resources: {requests: {cpu: "1"}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec:
  priority: 1000
  affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: x}}}]}}
  containers: [{name: m, image: x, resources: {requests: {cpu: "3"}}}]
`
	code, out, stderr := simulated(t, cluster, "-f", "-")
	if code != 0 {
		t.Fatal(stderr)
	}
	for _, want := range []string{
		"\nshop        filler   <none>   Evicted     the pod got a node, and was evicted for another\n",
		"\nshop        p        n1       Scheduled\n",
		"\nEVICTED       PRIORITY   FROM   FOR      PRIORITY\n",
		"\nshop/old             2   n1     shop/p       1000\n",
		"\nshop/filler          1   n1     shop/p       1000\n",
		"beside 1 that had a node; evicted: 2. Nodes: 1",
	} {
		if !strings.Contains(trimmed(out), want) {
			t.Errorf("want %q in\n%s", want, trimmed(out))
		}
	}
	_, out, _ = simulated(t, cluster, "-f", "-", "-o", "json")
	var got struct {
		Evictions json.RawMessage
		Summary   struct{ Evicted int }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, got.Evictions); err != nil {
		t.Fatal(err)
	}
	want := `[{"namespace":"shop","pod":"old","node":"n1","priority":2,"for":"shop/p","forPriority":1000},` +
		`{"namespace":"shop","pod":"filler","node":"n1","priority":1,"for":"shop/p","forPriority":1000}]`
	if diff := cmp.Diff(want, compact.String()); diff != "" || got.Summary.Evicted != 2 {
		t.Errorf("evicted: %d (- want, + got)\n%s", got.Summary.Evicted, diff)
	}
}
