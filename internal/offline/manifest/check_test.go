package manifest

import (
	"strings"
	"testing"
)

// problems returns the problems of the objects in a text, one per line, without the file
// and the object.
func problems(text string) []string {
	var all []string
	docs, _ := documents("F", []byte(text))
	for _, r := range decodeAll(docs, &meter{}) {
		for _, e := range r.errs {
			line := e.Problem
			if e.Field != "" {
				line = e.Field + ": " + line
			}
			// The words about names come from the API's own validation.
			line, _, _ = strings.Cut(line, " must consist of")
			line, _, _ = strings.Cut(line, " must be an empty string or consist of")
			all = append(all, line)
		}
	}
	return all
}

// podGroup returns a document with a PodGroup.
func podGroup(spec string) string {
	return "---\n{kind: PodGroup, apiVersion: scheduling.k8s.io/v1beta1, metadata: {name: g}, spec: {" + spec + "}}\n"
}

// badParts has an object with as many mistakes as fit, by part of its check, and a line
// for each problem.
var badParts = []struct{ name, text, want string }{
	{"amounts", ctr + `    resources: {requests: {cpu: -1}, limits: {x: -1}}
  - name: d
    resources: {limits: {a: -2, b: -1}}
  initContainers: [{name: i, resources: {requests: {cpu: -3}, limits: {cpu: -4}}}]
  overhead: {cpu: -5}
  resources: {requests: {cpu: -6}, limits: {cpu: -7}}
`, `spec.containers[0].resources.requests[cpu]: -1 is negative; give zero or more
spec.containers[0].resources.limits[x]: -1 is negative; give zero or more
spec.containers[1].resources.limits[a]: -2 is negative; give zero or more
spec.containers[1].resources.limits[b]: -1 is negative; give zero or more
spec.initContainers[0].resources.requests[cpu]: -3 is negative; give zero or more
spec.initContainers[0].resources.limits[cpu]: -4 is negative; give zero or more
spec.overhead[cpu]: -5 is negative; give zero or more
spec.resources.requests[cpu]: -6 is negative; give zero or more
spec.resources.limits[cpu]: -7 is negative; give zero or more`},
	{"pod groups", podGroup("") + podGroup("schedulingPolicy: {}") + podGroup("schedulingPolicy: {basic: {}, gang: {minCount: 3}}") +
		podGroup("schedulingPolicy: {gang: {}}") + podGroup("schedulingPolicy: {gang: {minCount: -1}}") + podGroup("schedulingPolicy: {gang: {minCount: 1}}") + podGroup("schedulingPolicy: {basic: {}}"),
		`spec.schedulingPolicy: is missing; give one of basic: {} and gang: {minCount: N}
spec.schedulingPolicy: is missing; give one of basic: {} and gang: {minCount: N}
spec.schedulingPolicy: has both basic and gang; give one of the two
spec.schedulingPolicy.gang.minCount: 0: must be at least 1
spec.schedulingPolicy.gang.minCount: -1: must be at least 1`},
	{"ports", ctr + `    ports: [{containerPort: 1, hostPort: -1}, {containerPort: 65536, hostPort: 65536}, {containerPort: 0}, {containerPort: 1, protocol: SCTPS}]
`, `spec.containers[0].ports[0].hostPort: -1 is not a port; want 1 to 65535
spec.containers[0].ports[1].hostPort: 65536 is not a port; want 1 to 65535
spec.containers[0].ports[1].containerPort: 65536 is not a port; want 1 to 65535
spec.containers[0].ports[2].containerPort: 0 is not a port; want 1 to 65535
spec.containers[0].ports[3].protocol: "SCTPS" is not a protocol; want TCP, UDP or SCTP`},
	{"tolerations", pod + `  tolerations:
  - {key: a b}
  - {key: a, value: b c}
  - {key: a, operator: Equal, value: b c}
  - {key: a, operator: Lt, value: x}
  - {key: a, operator: Gt, value: '1.5'}
  - {key: a, operator: Exists, effect: Never}
  - {key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 0}
  - {operator: Lt, value: '1'}
`, `spec.tolerations[0].key: Invalid value: "a b": name part
spec.tolerations[1].value: "b c": a valid label
spec.tolerations[2].value: "b c": a valid label
spec.tolerations[3].value: "x" must be a whole number when operator is Lt
spec.tolerations[4].value: "1.5" must be a whole number when operator is Gt
spec.tolerations[5].effect: "Never" is not an effect; want NoSchedule, PreferNoSchedule or NoExecute
spec.tolerations[6].effect: must be NoExecute when tolerationSeconds is set
spec.tolerations[7].operator: must be Exists when key is empty, which tolerates every taint`},
	{"spread", pod + `  topologySpreadConstraints:
  - {maxSkew: 0, topologyKey: a, whenUnsatisfiable: DoNotSchedule}
  - {maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
  - {maxSkew: 1, topologyKey: a b, whenUnsatisfiable: ScheduleAnyway}
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: Perhaps}
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 0}
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, minDomains: 1}
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, nodeAffinityPolicy: honor, nodeTaintsPolicy: ''}
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {a b: c}}}
`, `spec.topologySpreadConstraints[0].maxSkew: 0 is too small; want 1 or more
spec.topologySpreadConstraints[1].topologyKey: is missing; want a node label's key such as topology.kubernetes.io/zone
spec.topologySpreadConstraints[2].topologyKey: Invalid value: "a b": name part
spec.topologySpreadConstraints[3].whenUnsatisfiable: "Perhaps" is not supported; want DoNotSchedule or ScheduleAnyway
spec.topologySpreadConstraints[4].minDomains: 0: want 1 or more, and whenUnsatisfiable DoNotSchedule
spec.topologySpreadConstraints[5].minDomains: 1: want 1 or more, and whenUnsatisfiable DoNotSchedule
spec.topologySpreadConstraints[6].nodeAffinityPolicy: "honor" is not a policy; want Honor or Ignore
spec.topologySpreadConstraints[6].nodeTaintsPolicy: "" is not a policy; want Honor or Ignore
spec.topologySpreadConstraints[7].labelSelector.matchLabels: Invalid value: "a b": name part`},
	{"affinity", aff + `    nodeAffinity:
      ` + req + `: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}, {key: a, operator: Was}]}]}
      ` + pref + `:
      - {weight: 0, preference: {matchExpressions: [{key: a, operator: Like}]}}
      - {weight: 101, preference: {matchFields: [{key: a, operator: In, values: [b]}]}}
    podAffinity:
      ` + req + `:
      - {topologyKey: a b, labelSelector: {matchLabels: {a b: c}}, namespaceSelector: {matchLabels: {d e: f}}}
      ` + pref + `:
      - {weight: 0, podAffinityTerm: {labelSelector: {matchLabels: {a b: c}}}}
    podAntiAffinity:
      ` + req + `:
      - {topologyKey: a}
      - {topologyKey: a, namespaceSelector: {matchLabels: {d e: f}}}
      ` + pref + `:
      - {weight: 100, podAffinityTerm: {topologyKey: a b}}
`, `spec.affinity.nodeAffinity.` + req + `.nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Is": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
spec.affinity.nodeAffinity.` + req + `.nodeSelectorTerms[0].matchExpressions[1].operator: Unsupported value: "Was": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
spec.affinity.nodeAffinity.` + pref + `[0].weight: 0 is out of range; want 1 to 100
spec.affinity.nodeAffinity.` + pref + `[0].preference.matchExpressions[0].operator: Unsupported value: "Like": supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"
spec.affinity.nodeAffinity.` + pref + `[1].weight: 101 is out of range; want 1 to 100
spec.affinity.podAffinity.` + req + `[0].topologyKey: Invalid value: "a b": name part
spec.affinity.podAffinity.` + req + `[0].labelSelector.matchLabels: Invalid value: "a b": name part
spec.affinity.podAffinity.` + req + `[0].namespaceSelector.matchLabels: Invalid value: "d e": name part
spec.affinity.podAffinity.` + pref + `[0].weight: 0 is out of range; want 1 to 100
spec.affinity.podAffinity.` + pref + `[0].podAffinityTerm.topologyKey: is missing; want a node label's key such as topology.kubernetes.io/zone
spec.affinity.podAffinity.` + pref + `[0].podAffinityTerm.labelSelector.matchLabels: Invalid value: "a b": name part
spec.affinity.podAntiAffinity.` + req + `[1].namespaceSelector.matchLabels: Invalid value: "d e": name part
spec.affinity.podAntiAffinity.` + pref + `[0].podAffinityTerm.topologyKey: Invalid value: "a b": name part`},
	{"node", `apiVersion: v1
kind: Node
metadata: {name: a}
spec: {taints: [{key: a b, effect: NoSchedule}, {effect: NoExecute, key: a, value: b c}, {key: a, effect: Never}, {key: a}]}
status: {capacity: {cpu: -1}, allocatable: {cpu: -2}}
`, `status.capacity[cpu]: -1 is negative; give zero or more
status.allocatable[cpu]: -2 is negative; give zero or more
spec.taints[0].key: Invalid value: "a b": name part
spec.taints[1].value: "b c": a valid label
spec.taints[2].effect: "Never" is not an effect; want NoSchedule, PreferNoSchedule or NoExecute
spec.taints[3].effect: is missing; want NoSchedule, PreferNoSchedule or NoExecute`},
	{"workloads", `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: -1, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c, x: -}}, spec: {restartPolicy: Never, nodeSelector: {d e: f}, containers: [{name: c, resources: {requests: {cpu: -1}}}]}}}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: b}, spec: {template: {}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a}, spec: {selector: {}, template: {spec: {containers: [{name: c}]}}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: b}, spec: {replicas: -1}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: b}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c}]}}}}
---
{apiVersion: v1, kind: ReplicationController, metadata: {name: a}, spec: {replicas: -1, selector: {a: b}, template: {metadata: {labels: {a: c}}, spec: {restartPolicy: OnFailure, containers: [{name: c}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {parallelism: -1, completions: -2, template: {spec: {}}}}
---
{apiVersion: batch/v1, kind: CronJob, metadata: {name: a}, spec: {jobTemplate: {spec: {completionMode: Indexed, template: {spec: {restartPolicy: Always, containers: [{name: c}]}}}}}}
`, `spec.replicas: -1 is negative; give zero or more
spec.selector: a=b does not match the labels of spec.template, which are {a=c,x=-}; make them equal
spec.template.metadata.labels: Invalid value: "-": a valid label
spec.template.spec.containers[0].resources.requests[cpu]: -1 is negative; give zero or more
spec.template.spec.nodeSelector: Invalid value: "d e": name part
spec.template.spec.restartPolicy: "Never" is not supported for a Deployment; want Always
spec.selector: is missing; give matchLabels with labels of the template
spec.template.spec.containers: is empty; a pod has at least one container
spec.selector: is empty, which selects every pod; give matchLabels with labels of the template
spec.replicas: -1 is negative; give zero or more
spec.selector: a=b does not match the labels of spec.template, which are {a=c}; make them equal
spec.replicas: -1 is negative; give zero or more
spec.selector: a=b does not match the labels of spec.template, which are {a=c}; make them equal
spec.template.spec.restartPolicy: "OnFailure" is not supported for a ReplicationController; want Always
spec.parallelism: -1 is negative; give zero or more
spec.completions: -2 is negative; give zero or more
spec.template.spec.containers: is empty; a pod has at least one container
spec.template.spec.restartPolicy: "" is not supported for a Job; want OnFailure or Never
spec.jobTemplate.spec.completions: is missing; an Indexed job needs the number of its indexes
spec.jobTemplate.spec.template.spec.restartPolicy: "Always" is not supported for a Job; want OnFailure or Never`},
	{"names", "{apiVersion: v1, kind: Pod, metadata: {name: A_, namespace: b.c, labels: {a b: c}}, spec: {containers: [{name: c}]}}", `metadata.name: "A_": a lowercase RFC 1123 subdomain
metadata.namespace: "b.c": must not contain dots
metadata.labels: Invalid value: "a b": name part`},
	{"others", `
{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {selector: {a b: c}}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a}, spec: {selector: {matchLabels: {a b: c}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a}, spec: {selector: {matchLabels: {a b: c}}}}
---
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: a}, spec: {selector: {matchLabels: {a b: c}}}}
---
{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {capacity: {storage: -1}, nodeAffinity: {required: {nodeSelectorTerms: []}}}}
---
{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {resources: {requests: {storage: -1}}, selector: {matchLabels: {a b: c}}}}
---
{apiVersion: storage.k8s.io/v1, kind: CSIStorageCapacity, metadata: {name: a}, storageClassName: s, nodeTopology: {matchLabels: {a b: c}}}
---
{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a}, spec: {nodeSelector: {nodeSelectorTerms: []}, devices: [{name: d}, {name: e, capacity: {z: {value: -2}, x: {value: -1}}}]}}
`, `spec.selector: Invalid value: "a b": name part
spec.selector.matchLabels: Invalid value: "a b": name part
spec.selector.matchLabels: Invalid value: "a b": name part
spec.selector.matchLabels: Invalid value: "a b": name part
spec.capacity[storage]: -1 is negative; give zero or more
spec.nodeAffinity.required.nodeSelectorTerms: is empty; want at least one term
spec.resources.requests[storage]: -1 is negative; give zero or more
spec.selector.matchLabels: Invalid value: "a b": name part
nodeTopology.matchLabels: Invalid value: "a b": name part
spec.nodeSelector.nodeSelectorTerms: is empty; want at least one term
spec.devices[1].capacity[x]: -1 is negative; give zero or more
spec.devices[1].capacity[z]: -2 is negative; give zero or more`},
}

func TestEveryCheck(t *testing.T) {
	for _, c := range badParts {
		if got := strings.Join(problems(c.text), "\n"); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// Values just within the limits are accepted.
func TestBounds(t *testing.T) {
	for _, text := range []string{
		ctr + `    ports: [{containerPort: 1, hostPort: 65535, protocol: UDP}, {containerPort: 65535, hostPort: 0, protocol: SCTP}, {containerPort: 80, hostPort: 1, protocol: TCP}]
    resources: {requests: {cpu: 0, memory: 9223372036854775806}, limits: {cpu: 1T}}
  tolerations:
  - {operator: Exists}
  - {key: a, operator: Equal, value: b, effect: PreferNoSchedule}
  - {key: a, operator: Gt, value: '-9223372036854775808'}
  - {key: a, operator: Lt, value: '9223372036854775807', effect: NoSchedule}
  - {key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 3}
  topologySpreadConstraints:
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, minDomains: 1, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore}
  - {maxSkew: 1, topologyKey: a, whenUnsatisfiable: ScheduleAnyway, nodeAffinityPolicy: Ignore, nodeTaintsPolicy: Honor, labelSelector: {}}
`,
		aff + `    nodeAffinity: {` + pref + `: [{weight: 1, preference: {}}, {weight: 100, preference: {matchExpressions: [{key: a, operator: Gt, values: ['1']}]}}]}
    podAffinity: {` + req + `: [{topologyKey: a, labelSelector: {matchLabels: {a: b}}, namespaceSelector: {}}]}
    podAntiAffinity: {` + pref + `: [{weight: 100, podAffinityTerm: {topologyKey: a}}]}
`,
		"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: a}, spec: {devices: [{name: e, capacity: {x: {value: 0}}}]}}",
		"{apiVersion: v1, kind: PersistentVolume, metadata: {name: a}, spec: {capacity: {storage: 1}}}",
	} {
		if got := problems(text); len(got) != 0 {
			t.Errorf("%s\nis refused: %s", text, strings.Join(got, "\n"))
		}
	}
}
