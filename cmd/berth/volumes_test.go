package main

import (
	"strings"
	"testing"
)

// storageCluster has a node in each of two zones, and a pod for each way of binding a
// claim.
const storageCluster = `
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: z1}}, status: {allocatable: {cpu: "4", pods: "9"}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {topology.kubernetes.io/zone: z2}}, status: {allocatable: {cpu: "4", pods: "9"}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: n1}, spec: {drivers: [{name: disks.example.com, nodeID: n1, topologyKeys: [], allocatable: {count: 2}}]}}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: disks.example.com, volumeBindingMode: WaitForFirstConsumer}
---
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: local}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: WaitForFirstConsumer}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-1}
spec:
  {storageClassName: local, capacity: {storage: 5Gi}, accessModes: [ReadWriteOnce], local: {path: /d}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [z1]}]}]}}}
status: {phase: Available}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: more}, spec: {storageClassName: local, accessModes: [ReadWriteOnce], resources: {requests: {storage: 9Gi}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: logs}, spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: a-local}, spec: {containers: [{name: m, image: x}], volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: b-more}, spec: {containers: [{name: m, image: x}], volumes: [{name: v, persistentVolumeClaim: {claimName: more}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: c-fast}, spec: {nodeSelector: {topology.kubernetes.io/zone: z2}, containers: [{name: m, image: x}], volumes: [{name: v, persistentVolumeClaim: {claimName: logs}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: d-scratch}, spec: {containers: [{name: m, image: x}], volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}]}}
`

// TestSimulateVolumes expects that claims are bound and volumes provisioned as pods are
// placed.
func TestSimulateVolumes(t *testing.T) {
	code, out, stderr := simulated(t, storageCluster, "-f", "-")
	for name, want := range map[string]string{
		"a-local": "n1 Scheduled", "b-more": "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.",
		"c-fast": "n2 Scheduled", "d-scratch": " Scheduled",
	} {
		_, line, _ := strings.Cut(out, " "+name+" ")
		if line = strings.Join(strings.Fields(strings.Split(line, "\n")[0]), " "); !strings.Contains(line, want) {
			t.Errorf("%s: %q, want %q", name, line, want)
		}
	}
	if code != 0 || strings.Contains(stderr, "the input has") {
		t.Errorf("exit code %d\n%s%s", code, out, stderr)
	}
}

// TestExplainVolumes expects the claims of a pod, and which of them blocks the pod.
func TestExplainVolumes(t *testing.T) {
	_, out, stderr := explained(t, storageCluster, "--pod", "default/a-local", "-o", "wide")
	for _, want := range []string{
		"data    local   4Gi       is bound when the pod is placed",
		"  n2: claim data: of the volumes of class local (1) are 1 not to be used on this node; the class has no provisioner\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s%s", want, out, stderr)
		}
	}
}

// TestStorageIsMissing removes objects from the input, and expects a note that names
// their kind.
func TestStorageIsMissing(t *testing.T) {
	without := func(kinds ...string) string {
		var kept []string
		for _, document := range strings.Split(storageCluster, "---\n") {
			leave := true
			for _, kind := range kinds {
				leave = leave && !strings.Contains(document, "kind: "+kind+",") && !strings.Contains(document, "kind: "+kind+"\n")
			}
			if leave {
				kept = append(kept, document)
			}
		}
		return strings.Join(kept, "---\n")
	}
	for _, row := range []struct{ cluster, want string }{
		{without("PersistentVolumeClaim"), "Note: the input has no PersistentVolumeClaim (pending pods that use one: 3); "},
		{without("StorageClass"), "Note: the input has no StorageClass (claims without a volume that have one: 3); "},
		{strings.Replace(without("PersistentVolume"), "spec: {storageClassName: local", "spec: {volumeName: disk-1, storageClassName: local", 1),
			"Note: the input has no PersistentVolume (claims that have one: 1); "},
	} {
		if _, _, stderr := simulated(t, row.cluster, "-f", "-"); !strings.Contains(stderr, row.want) || !strings.Contains(stderr, takeSnapshot) {
			t.Errorf("want %q in\n%s", row.want, stderr)
		}
	}
}
