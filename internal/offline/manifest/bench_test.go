package manifest

import (
	"bytes"
	stdjson "encoding/json"
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"
)

// A node and a pod as `kubectl get -o yaml` prints them.
const benchNode = `apiVersion: v1
kind: Node
metadata:
  annotations:
    csi.volume.kubernetes.io/nodeid: '{"ebs.csi.aws.com":"i-0abcdef1234567890"}'
    node.alpha.kubernetes.io/ttl: "0"
    volumes.kubernetes.io/controller-managed-attach-detach: "true"
  creationTimestamp: "2025-11-03T08:15:42Z"
  labels:
    beta.kubernetes.io/arch: amd64
    beta.kubernetes.io/instance-type: m6i.4xlarge
    beta.kubernetes.io/os: linux
    failure-domain.beta.kubernetes.io/region: eu-central-1
    failure-domain.beta.kubernetes.io/zone: eu-central-1a
    kubernetes.io/arch: amd64
    kubernetes.io/hostname: node-%[1]d
    kubernetes.io/os: linux
    node.kubernetes.io/instance-type: m6i.4xlarge
    topology.kubernetes.io/region: eu-central-1
    topology.kubernetes.io/zone: eu-central-1a
  name: node-%[1]d
  resourceVersion: "48571%[1]d"
  uid: 5e9cba1e-5d3c-4c5c-9c5e-%012[1]d
spec:
  podCIDR: 10.244.3.0/24
  podCIDRs:
  - 10.244.3.0/24
  providerID: aws:///eu-central-1a/i-0abcdef1234567890
  taints:
  - effect: NoSchedule
    key: dedicated
    value: batch
status:
  addresses:
  - address: 10.0.12.5
    type: InternalIP
  - address: node-%[1]d
    type: Hostname
  allocatable:
    cpu: 15890m
    ephemeral-storage: "95551679124"
    hugepages-1Gi: "0"
    memory: 62951132Ki
    pods: "234"
  capacity:
    cpu: "16"
    ephemeral-storage: 104845292Ki
    hugepages-1Gi: "0"
    memory: 64301788Ki
    pods: "234"
  conditions:
  - lastHeartbeatTime: "2025-11-05T10:00:12Z"
    lastTransitionTime: "2025-11-03T08:15:42Z"
    message: kubelet has sufficient memory available
    reason: KubeletHasSufficientMemory
    status: "False"
    type: MemoryPressure
  - lastHeartbeatTime: "2025-11-05T10:00:12Z"
    lastTransitionTime: "2025-11-03T08:16:02Z"
    message: kubelet is posting ready status
    reason: KubeletReady
    status: "True"
    type: Ready
  daemonEndpoints:
    kubeletEndpoint:
      Port: 10250
  images:
  - names:
    - registry.example.com/team/web@sha256:3e1a00f4b4a2bfa0b0a0f1f8cf0a5a5e3d2c1b0a9f8e7d6c5b4a392817161514
    - registry.example.com/team/web:v1.2.3
    sizeBytes: 127413322
  - names:
    - registry.k8s.io/pause:3.10
    sizeBytes: 320368
  nodeInfo:
    architecture: amd64
    bootID: 0d2a7f6c-8a1e-4c58-a1f8-0d5d9e8f7a6b
    containerRuntimeVersion: containerd://2.1.4
    kernelVersion: 6.12.40
    kubeProxyVersion: ""
    kubeletVersion: v1.37.1
    machineID: ec2f0c1f0e0d4b3a9a8b7c6d5e4f3a2b
    operatingSystem: linux
    osImage: Bottlerocket OS 1.44.0
    systemUUID: ec2f0c1f-0e0d-4b3a-9a8b-7c6d5e4f3a2b
`

const benchPod = `apiVersion: v1
kind: Pod
metadata:
  annotations:
    kubectl.kubernetes.io/restartedAt: "2025-11-04T09:00:00+01:00"
    prometheus.io/scrape: "true"
  creationTimestamp: "2025-11-04T08:00:05Z"
  generateName: web-7c5ddbdf54-
  generation: 1
  labels:
    app.kubernetes.io/name: web
    pod-template-hash: 7c5ddbdf54
    tier: frontend
  name: web-7c5ddbdf54-%05[1]d
  namespace: prod
  ownerReferences:
  - apiVersion: apps/v1
    blockOwnerDeletion: true
    controller: true
    kind: ReplicaSet
    name: web-7c5ddbdf54
    uid: 2f6b1d2e-1f6f-4e36-9a7e-4a4b1d6e2f10
  resourceVersion: "4857%[1]d"
  uid: 7d9cba1e-5d3c-4c5c-9c5e-%012[1]d
spec:
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
      - podAffinityTerm:
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: web
          topologyKey: kubernetes.io/hostname
        weight: 100
  containers:
  - args:
    - --listen=:8080
    - --log-level=info
    command:
    - /usr/bin/web
    env:
    - name: POD_NAME
      valueFrom:
        fieldRef:
          apiVersion: v1
          fieldPath: metadata.name
    - name: GOMAXPROCS
      value: "2"
    image: registry.example.com/team/web:v1.2.3
    imagePullPolicy: IfNotPresent
    livenessProbe:
      failureThreshold: 3
      httpGet:
        path: /healthz
        port: http
        scheme: HTTP
      periodSeconds: 10
      successThreshold: 1
      timeoutSeconds: 1
    name: web
    ports:
    - containerPort: 8080
      name: http
      protocol: TCP
    resources:
      limits:
        memory: 512Mi
      requests:
        cpu: 250m
        memory: 512Mi
    terminationMessagePath: /dev/termination-log
    terminationMessagePolicy: File
    volumeMounts:
    - mountPath: /var/run/secrets/kubernetes.io/serviceaccount
      name: kube-api-access-x7k2p
      readOnly: true
  dnsPolicy: ClusterFirst
  enableServiceLinks: true
  nodeName: node-%[2]d
  preemptionPolicy: PreemptLowerPriority
  priority: 0
  restartPolicy: Always
  schedulerName: default-scheduler
  securityContext: {}
  serviceAccount: web
  serviceAccountName: web
  terminationGracePeriodSeconds: 30
  tolerations:
  - effect: NoExecute
    key: node.kubernetes.io/not-ready
    operator: Exists
    tolerationSeconds: 300
  - effect: NoExecute
    key: node.kubernetes.io/unreachable
    operator: Exists
    tolerationSeconds: 300
  topologySpreadConstraints:
  - labelSelector:
      matchLabels:
        app.kubernetes.io/name: web
    maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
  volumes:
  - name: kube-api-access-x7k2p
    projected:
      defaultMode: 420
      sources:
      - serviceAccountToken:
          expirationSeconds: 3607
          path: token
      - configMap:
          items:
          - key: ca.crt
            path: ca.crt
          name: kube-root-ca.crt
status:
  conditions:
  - lastProbeTime: null
    lastTransitionTime: "2025-11-04T08:00:07Z"
    observedGeneration: 1
    status: "True"
    type: Ready
  - lastProbeTime: null
    lastTransitionTime: "2025-11-04T08:00:05Z"
    observedGeneration: 1
    status: "True"
    type: PodScheduled
  containerStatuses:
  - containerID: containerd://3e1a00f4b4a2bfa0b0a0f1f8cf0a5a5e3d2c1b0a9f8e7d6c5b4a392817161514
    image: registry.example.com/team/web:v1.2.3
    imageID: registry.example.com/team/web@sha256:3e1a00f4b4a2bfa0b0a0f1f8cf0a5a5e3d2c1b0a9f8e7d6c5b4a392817161514
    lastState: {}
    name: web
    ready: true
    restartCount: 0
    started: true
    state:
      running:
        startedAt: "2025-11-04T08:00:06Z"
  hostIP: 10.0.12.5
  phase: Running
  podIP: 10.244.3.%[2]d
  podIPs:
  - ip: 10.244.3.%[2]d
  qosClass: Burstable
  startTime: "2025-11-04T08:00:05Z"
`

// snapshot returns a cluster as `kubectl get nodes,pods -A -o yaml` prints it.
func snapshot(nodes, pods int) []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: v1\nitems:\n")
	item := func(text string) {
		for i, line := range bytes.Split(bytes.TrimSpace([]byte(text)), []byte("\n")) {
			b.WriteString(map[bool]string{true: "- ", false: "  "}[i == 0])
			b.Write(line)
			b.WriteByte('\n')
		}
	}
	for i := range nodes {
		item(fmt.Sprintf(benchNode, i))
	}
	for i := range pods {
		item(fmt.Sprintf(benchPod, i, i%max(nodes, 1)))
	}
	b.WriteString("kind: List\nmetadata:\n  resourceVersion: \"\"\n")
	return b.Bytes()
}

// indented returns a snapshot as `kubectl get -o json` prints it.
func indented(t testing.TB, text []byte) []byte {
	js, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := stdjson.Indent(&b, js, "", "    "); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BenchmarkDecode reads 1,000 nodes and 10,000 pods. "odd" is YAML without any element in
// the layout that block converts.
func BenchmarkDecode(b *testing.B) {
	nodes, pods := 1000, 10000
	if testing.Short() {
		nodes, pods = 100, 1000
	}
	text := snapshot(nodes, pods)
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"json", indented(b, text)},
		{"yaml", text},
		{"yaml/odd", bytes.ReplaceAll(text, []byte("dnsPolicy: ClusterFirst"), []byte("dnsPolicy: !!str ClusterFirst"))},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.data)))
			for b.Loop() {
				if _, err := Decode("bench", c.data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func must(data []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return data
}

func unmarshal(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}
