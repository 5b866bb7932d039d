package kubelet

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"
)

// stored are the objects of the tests' storehouse.
const stored = `
claims:
- {metadata: {name: good, uid: u1}, spec: {volumeName: good}, status: {phase: Bound}}
- {metadata: {name: pending, uid: u2}, spec: {}, status: {phase: Pending}}
- {metadata: {name: nameless, uid: u3}, spec: {}, status: {phase: Bound}}
- {metadata: {name: lost, uid: u4}, spec: {volumeName: lost}, status: {phase: Bound}}
- {metadata: {name: stolen, uid: u5}, spec: {volumeName: good}, status: {phase: Bound}}
- {metadata: {name: elsewhere, uid: u6}, spec: {volumeName: elsewhere}, status: {phase: Bound}}
- {metadata: {name: going, uid: u7, deletionTimestamp: "2026-01-01T00:00:00Z"}, spec: {volumeName: good}, status: {phase: Bound}}
- {metadata: {name: pod-own, uid: u8, ownerReferences: [{uid: pod, controller: true}]}, spec: {volumeName: own}, status: {phase: Bound}}
- {metadata: {name: pod-foreign, uid: u9}, spec: {volumeName: own}, status: {phase: Bound}}
volumes:
- {metadata: {name: good}, spec: {claimRef: {uid: u1}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}
- {metadata: {name: elsewhere}, spec: {claimRef: {uid: u6}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [b]}]}]}}}}
- {metadata: {name: own}, spec: {claimRef: {uid: u8}}}
devices:
- {metadata: {name: good}, status: {allocation: {}, reservedFor: [{uid: other}, {uid: pod}]}}
- {metadata: {name: unallocated}, status: {reservedFor: [{uid: pod}]}}
- {metadata: {name: unreserved}, status: {allocation: {}, reservedFor: [{uid: other}]}}
- {metadata: {name: near}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [node]}]}]}}, reservedFor: [{uid: pod}]}}
- {metadata: {name: far}, status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [other]}]}]}}, reservedFor: [{uid: pod}]}}
- {metadata: {name: own, ownerReferences: [{uid: pod, controller: true}]}, status: {allocation: {}, reservedFor: [{uid: pod}]}}
`

func TestObstacle(t *testing.T) {
	const (
		own     = "volumes: [{name: own, ephemeral: {}}]"
		foreign = "volumes: [{name: foreign, ephemeral: {}}]"
		made    = "resourceClaims: [{name: x, resourceClaimTemplateName: t}]"
	)
	for _, test := range []struct {
		spec, status    string
		reason, message string // the message's end
	}{
		{"", "", "", ""},
		{"volumes: [{name: v, emptyDir: {}}]", "", "", ""},
		{volume("good"), "", "", ""},
		{volume("missing"), "", "FailedMount", `error processing PVC default/missing: failed to fetch PVC from API server: persistentvolumeclaim "missing" not found`},
		{volume("pending"), "", "FailedMount", "error processing PVC default/pending: PVC is not bound"},
		{volume("nameless"), "", "FailedMount", "PVC has empty pvc.Spec.VolumeName"},
		{volume("lost"), "", "FailedMount", `failed to fetch PV lost from API server: persistentvolume "lost" not found`},
		{volume("stolen"), "", "FailedMount", "found PV object good but it is not bound to the claim"},
		{volume("elsewhere"), "", "FailedMount", `MountVolume.NodeAffinity check failed for volume "elsewhere" : no matching NodeSelectorTerms`},
		{volume("going"), "", "FailedMount", "PVC is being deleted"},
		{own, "", "", ""},
		{foreign, "", "FailedMount", "PVC default/pod-foreign was not created for pod default/pod (pod is not owner)"},
		{devicesNamed("good"), "", "", ""},
		{devicesNamed("good", "missing"), "", "FailedPrepareDynamicResources", `fetch ResourceClaim missing: resourceclaim.resource.k8s.io "missing" not found`},
		{devicesNamed("unallocated"), "", "FailedPrepareDynamicResources", "ResourceClaim unallocated: not allocated"},
		{devicesNamed("unreserved"), "", "FailedPrepareDynamicResources", "pod pod (pod) is not allowed to use ResourceClaim unreserved ()"},
		{devicesNamed("near"), "", "", ""},
		{devicesNamed("far"), "", "FailedPrepareDynamicResources", "ResourceClaim far: allocated devices are not available on node node"},
		{made, "", "FailedPrepareDynamicResources", `pod "default/pod": ResourceClaim not created yet`},
		{made, "resourceClaimStatuses: [{name: x}]", "", ""},
		{made, "resourceClaimStatuses: [{name: x, resourceClaimName: own}]", "", ""},
		{made, "resourceClaimStatuses: [{name: x, resourceClaimName: good}]", "FailedPrepareDynamicResources", "ResourceClaim default/good was not created for Pod default/pod (Pod is not owner)"},
		{"", "extendedResourceClaimStatus: {resourceClaimName: good}", "", ""},
		{"", "extendedResourceClaimStatus: {resourceClaimName: unallocated}", "FailedPrepareDynamicResources", "ResourceClaim unallocated: not allocated"},
	} {
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Labels: map[string]string{"zone": "a"}}}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod"}}
		read(t, test.spec, &pod.Spec)
		read(t, test.status, &pod.Status)
		got := testStorehouse(t).obstacle(pod, node)
		if got.reason != test.reason || !strings.HasSuffix(got.message, test.message) || got.reason == "" && got.message != "" {
			t.Errorf("%s %s: got %q, %q; want %q, %q", test.spec, test.status, got.reason, got.message, test.reason, test.message)
		}
	}
}

func TestDevicesThatAreNotServed(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod"}}
	read(t, devicesNamed("good"), &pod.Spec)
	store := testStorehouse(t)
	store.devices = nil
	if got := store.obstacle(pod, &v1.Node{}); !strings.HasSuffix(got.message, "the API server does not serve ResourceClaims") {
		t.Errorf("got %q", got)
	}
}

func volume(claim string) string {
	return "volumes: [{name: v, persistentVolumeClaim: {claimName: " + claim + "}}]"
}

func devicesNamed(claims ...string) string {
	text := "resourceClaims: ["
	for _, claim := range claims {
		text += "{name: " + claim + ", resourceClaimName: " + claim + "},"
	}
	return text + "]"
}

func testStorehouse(t *testing.T) storehouse {
	t.Helper()
	var objects struct {
		Claims  []*v1.PersistentVolumeClaim `json:"claims"`
		Volumes []*v1.PersistentVolume      `json:"volumes"`
		Devices []*resourcev1.ResourceClaim `json:"devices"`
	}
	read(t, stored, &objects)
	claims, volumes, devices := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	for _, claim := range objects.Claims {
		claim.Namespace = "default"
		_ = claims.Add(claim)
	}
	for _, volume := range objects.Volumes {
		_ = volumes.Add(volume)
	}
	for _, claim := range objects.Devices {
		claim.Namespace = "default"
		_ = devices.Add(claim)
	}
	return storehouse{
		claims:  corelisters.NewPersistentVolumeClaimLister(claims),
		volumes: corelisters.NewPersistentVolumeLister(volumes),
		devices: resourcelisters.NewResourceClaimLister(devices),
	}
}

func read(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}
