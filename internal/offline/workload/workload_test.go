package workload

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

const template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}"

// object returns a workload with a spec, as a document.
func object(apiVersion, kind, name, spec string) string {
	return fmt.Sprintf("---\n{apiVersion: %s, kind: %s, metadata: {name: %s, namespace: shop}, spec: {%s}}\n", apiVersion, kind, name, spec)
}

// set returns a workload with a selector.
func set(kind, name, more string) string {
	return object("apps/v1", kind, name, "selector: {matchLabels: {app: web}}, "+template+", "+more)
}

// owned returns a pod of a controller.
func owned(name, apiVersion, kind, owner, more string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop, ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: u, controller: true}]}, spec: {containers: [{name: c, image: i}]%s}}\n",
		name, apiVersion, kind, owner, more)
}

func node(name, more string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {kubernetes.io/hostname: %s}}%s}\n", name, name, more)
}

// expand makes the pods of a text, and returns them.
func expand(t *testing.T, text string, o Options) (*manifest.Cluster, []*v1.Pod, *Report) {
	t.Helper()
	c, err := manifest.Options{Customs: o.Customs()}.Read([]string{"-"}, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	before := len(c.Pods)
	report, err := o.Expand(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, c.Pods[before:], report
}

// cut replaces the generated part of names, which has five letters, and hashes.
func cut(pods []*v1.Pod) string {
	var names []string
	for _, p := range pods {
		parts := strings.Split(p.Name, "-")
		for i, part := range parts {
			if strings.Trim(part, "bcdfghjklmnpqrstvwxz2456789") == "" && len(part) >= 5 {
				parts[i] = "*"
			}
		}
		names = append(names, strings.Join(parts, "-"))
	}
	return strings.Join(names, " ")
}

func scales(t *testing.T, texts ...string) []Scale {
	t.Helper()
	var all []Scale
	for _, text := range texts {
		s, err := ParseScale(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func templates(t *testing.T, texts ...string) []Template {
	t.Helper()
	var all []Template
	for _, text := range texts {
		parsed, err := ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, parsed)
	}
	return all
}

const (
	jobTemplate = "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}"
	lwsAPI      = "leaderworkerset.x-k8s.io/v1"
	jobSetAPI   = "jobset.x-k8s.io/v1alpha2"
)

// counts are texts with the pods that are made for them, and the notes.
var counts = []struct{ name, text, pods, summary string }{
	{"default replicas", set("Deployment", "web", ""), "web-*-*", "1. Deployment shop/web 1"},
	{"no replicas", set("Deployment", "web", "replicas: 0"), "", "0. Deployment shop/web 0"},
	{"replicas", set("ReplicaSet", "web", "replicas: 2"), "web-* web-*", "2. ReplicaSet shop/web 2"},
	{"controller", object("v1", "ReplicationController", "web", "replicas: 2, "+template), "web-* web-*", "2. ReplicationController shop/web 2"},
	{"some exist", set("ReplicaSet", "web", "replicas: 3") + owned("web-a", "apps/v1", "ReplicaSet", "web", ""), "web-* web-*", "2. ReplicaSet shop/web 2 (1 exist)"},
	{"of another group", set("ReplicaSet", "web", "") + owned("web-a", "example.com/v1", "ReplicaSet", "web", ""), "web-*", "1. ReplicaSet shop/web 1"},
	{"ended", set("ReplicaSet", "web", "") + strings.Replace(owned("web-a", "apps/v1", "ReplicaSet", "web", ""), "}}\n", "}, status: {phase: Failed}}\n", 1), "web-*", "1. ReplicaSet shop/web 1"},
	{"adopted", set("ReplicaSet", "web", "replicas: 2") + "---\n{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop, labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}\n", "web-*", "1. ReplicaSet shop/web 1 (1 exist)"},
	{"of a set", set("Deployment", "web", "replicas: 3") + strings.Replace(set("ReplicaSet", "web-1", "replicas: 3"), "namespace: shop", "namespace: shop, labels: {pod-template-hash: h}, ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, uid: u, controller: true}]", 1) +
		owned("web-1-a", "apps/v1", "ReplicaSet", "web-1", ""), "web-1-* web-1-*", "2. Deployment shop/web 2 (1 exist)"},
	{"ordinals", set("StatefulSet", "db", "replicas: 3, ordinals: {start: 5}") + owned("db-6", "apps/v1", "StatefulSet", "db", ""), "db-5 db-7", "2. StatefulSet shop/db 2 (1 exist)"},
	{"parallelism", object("batch/v1", "Job", "sum", "parallelism: 2, completions: 9, "+jobTemplate), "sum-* sum-*", "2. Job shop/sum 2"},
	{"a work queue", object("batch/v1", "Job", "sum", "parallelism: 2, "+jobTemplate), "sum-* sum-*", "2. Job shop/sum 2"},
	{"few completions", object("batch/v1", "Job", "sum", "parallelism: 4, completions: 2, "+jobTemplate), "sum-* sum-*", "2. Job shop/sum 2"},
	{"one job", object("batch/v1", "Job", "sum", jobTemplate), "sum-*", "1. Job shop/sum 1"},
	{"indexes", object("batch/v1", "Job", "sum", "parallelism: 3, completions: 9, completionMode: Indexed, "+jobTemplate), "sum-0-* sum-1-* sum-2-*", "3. Job shop/sum 3"},
	{"indexes done", strings.Replace(object("batch/v1", "Job", "sum", "parallelism: 3, completions: 9, completionMode: Indexed, "+jobTemplate), "}\n", ", status: {succeeded: 4, completedIndexes: '0,2-4'}}\n", 1), "sum-1-* sum-5-* sum-6-*", "3. Job shop/sum 3"},
	{"leaders and workers", object(lwsAPI, "LeaderWorkerSet", "llm", "replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: {spec: {containers: [{name: c, image: i}]}}}"), "llm-0 llm-1 llm-0-1 llm-0-2 llm-1-1 llm-1-2", "6. LeaderWorkerSet shop/llm 6"},
	{"being deleted", set("ReplicaSet", "web", "") + strings.Replace(owned("web-a", "apps/v1", "ReplicaSet", "web", ""), "name: web-a,", "name: web-a, deletionTimestamp: '2026-01-02T03:04:05Z',", 1), "web-*", "1. ReplicaSet shop/web 1"},
	{"a job of a job set", object(jobSetAPI, "JobSet", "train", "replicatedJobs: [{name: w, template: {spec: {"+jobTemplate+"}}}]") +
		strings.Replace(object("batch/v1", "Job", "train-w-0", jobTemplate), "namespace: shop", "namespace: shop, ownerReferences: [{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, name: train, uid: u, controller: true}]", 1), "train-w-0-0-*", "1. JobSet shop/train 1"},
	{"job set", object(jobSetAPI, "JobSet", "train", "replicatedJobs: [{name: w, replicas: 2, template: {spec: {parallelism: 2, "+strings.ReplaceAll(jobTemplate, "restartPolicy: Never, ", "")+"}}}]"), "train-w-0-0-* train-w-0-1-* train-w-1-0-* train-w-1-1-*", "4. JobSet shop/train 4"},
}

func TestCounts(t *testing.T) {
	for _, test := range counts {
		_, pods, report := expand(t, test.text, Options{})
		if got := cut(pods); got != test.pods {
			t.Errorf("%s: pods %s, want %s", test.name, got, test.pods)
		}
		if got := strings.TrimPrefix(report.Summary(), "pods made for workloads of the files: "); got != test.summary {
			t.Errorf("%s: %s, want %s", test.name, got, test.summary)
		}
	}
}

// A pod has the fields that its controller and an API server set.
func TestPods(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"deployment", set("Deployment", "web", ""), `{metadata: {namespace: shop, labels: {app: web, pod-template-hash: HASH}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-HASH, controller: true, blockOwnerDeletion: true}]},
spec: {schedulerName: default-scheduler, priority: 0, preemptionPolicy: PreemptLowerPriority, containers: [{name: c, image: i}], tolerations: [{key: node.kubernetes.io/not-ready}, {key: node.kubernetes.io/unreachable}]}, status: {phase: Pending}}`},
		{"stateful set", set("StatefulSet", "db", "serviceName: dbs, volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]"),
			`{metadata: {name: db-0, labels: {app: web, statefulset.kubernetes.io/pod-name: db-0, apps.kubernetes.io/pod-index: '0'}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db}]},
spec: {hostname: db-0, subdomain: dbs, volumes: [{name: data, persistentVolumeClaim: {claimName: data-db-0}}]}}`},
		{"indexed job", object("batch/v1", "Job", "sum", "completions: 1, completionMode: Indexed, "+jobTemplate),
			`{metadata: {labels: {batch.kubernetes.io/job-name: sum, job-name: sum, batch.kubernetes.io/job-completion-index: '0'}, annotations: {batch.kubernetes.io/job-completion-index: '0'}, ownerReferences: [{apiVersion: batch/v1, kind: Job, name: sum}]}, spec: {hostname: sum-0}}`},
		{"daemon set", node("w1", "") + set("DaemonSet", "web", ""), `{metadata: {ownerReferences: [{kind: DaemonSet, name: web}]}, spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [w1]}]}]}}},
tolerations: [{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: null}, {key: node.kubernetes.io/unreachable, effect: NoExecute, tolerationSeconds: null}, {key: node.kubernetes.io/disk-pressure, effect: NoSchedule}, {key: node.kubernetes.io/memory-pressure}, {key: node.kubernetes.io/pid-pressure}, {key: node.kubernetes.io/unschedulable}]}}`},
		{"leader", object(lwsAPI, "LeaderWorkerSet", "llm", "leaderWorkerTemplate: {size: 1, workerTemplate: {spec: {containers: [{name: c, image: i}]}}}"),
			`{metadata: {name: llm-0, labels: {leaderworkerset.sigs.k8s.io/name: llm, leaderworkerset.sigs.k8s.io/worker-index: '0', leaderworkerset.sigs.k8s.io/group-index: '0'}, annotations: {leaderworkerset.sigs.k8s.io/size: '1'}, ownerReferences: [{kind: StatefulSet, name: llm}]}, spec: {hostname: llm-0, subdomain: llm}}`},
		{"job set", object(jobSetAPI, "JobSet", "train", "replicatedJobs: [{name: w, template: {spec: {"+jobTemplate+"}}}]"),
			`{metadata: {labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: w, jobset.sigs.k8s.io/job-index: '0', batch.kubernetes.io/job-name: train-w-0}, ownerReferences: [{kind: Job, name: train-w-0}]}, spec: {subdomain: train, hostname: train-w-0-0}}`},
		{"priority", "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 7}\n" + strings.Replace(set("ReplicaSet", "web", ""), "spec: {containers", "spec: {priorityClassName: high, containers", 1),
			`{spec: {priority: 7, priorityClassName: high}}`},
	} {
		_, pods, _ := expand(t, test.text, Options{})
		if len(pods) != 1 {
			t.Errorf("%s: %d pods", test.name, len(pods))
			continue
		}
		var got, want any
		data, err := yaml.Marshal(pods[0])
		if err == nil {
			err = yaml.Unmarshal(data, &got)
		}
		if err == nil {
			err = yaml.Unmarshal([]byte(strings.ReplaceAll(test.want, "HASH", pods[0].Labels["pod-template-hash"])), &want)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !holds(got, want) {
			t.Errorf("%s: %v is not in\n%s", test.name, want, data)
		}
		if pods[0].UID == "" || pods[0].OwnerReferences[0].UID == "" {
			t.Errorf("%s: a uid is missing: %+v", test.name, pods[0].ObjectMeta)
		}
	}
}

// holds reports whether got has all of want. Fields that are null in want are not in got.
func holds(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, _ := got.(map[string]any)
		for key, value := range want {
			if !holds(have[key], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := got.([]any)
		return len(have) == len(want) && allHold(have, want)
	}
	return reflect.DeepEqual(got, want)
}

func allHold(got, want []any) bool {
	for i := range want {
		if !holds(got[i], want[i]) {
			return false
		}
	}
	return true
}

// The sets between a workload and its pods are added, because default spreading reads
// their selectors. Claims are added unless they exist.
func TestOthers(t *testing.T) {
	c, pods, _ := expand(t, set("Deployment", "web", "replicas: 2"), Options{})
	if len(c.ReplicaSets) != 1 {
		t.Fatalf("%d sets", len(c.ReplicaSets))
	}
	s := c.ReplicaSets[0]
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(pods[1].Labels)) || s.UID != pods[0].OwnerReferences[0].UID || s.OwnerReferences[0].Name != "web" {
		t.Errorf("set %+v does not select %v", s, pods[1].Labels)
	}
	const claims = "replicas: 2, volumeClaimTemplates: [{metadata: {name: data}, spec: {resources: {requests: {storage: 1Gi}}}}]"
	c, _, _ = expand(t, set("StatefulSet", "db", claims)+"---\n{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data-db-1, namespace: shop, labels: {old: x}}, spec: {}}\n"+
		"---\n{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: s, annotations: {storageclass.kubernetes.io/is-default-class: 'true'}}, provisioner: p}\n", Options{})
	if len(c.PersistentVolumeClaims) != 2 || c.PersistentVolumeClaims[0].Labels["old"] != "x" {
		t.Fatalf("%d claims", len(c.PersistentVolumeClaims))
	}
	if claim := c.PersistentVolumeClaims[1]; claim.Name != "data-db-0" || claim.Labels["app"] != "web" || *claim.Spec.StorageClassName != "s" || claim.Status.Phase != v1.ClaimPending {
		t.Errorf("claim %+v", claim)
	}
	c, _, _ = expand(t, object(lwsAPI, "LeaderWorkerSet", "llm", "replicas: 2, leaderWorkerTemplate: {size: 3, workerTemplate: {spec: {containers: [{name: c, image: i}]}}}"), Options{})
	if len(c.StatefulSets) != 3 {
		t.Errorf("%d sets of a LeaderWorkerSet", len(c.StatefulSets))
	}
}

// A DaemonSet has a pod on each node that its affinity matches and whose taints it
// tolerates.
func TestDaemonSet(t *testing.T) {
	nodes := node("a", "") + node("b", ", spec: {taints: [{key: gpu, effect: NoSchedule}]}") + node("c", ", spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]}") +
		node("d", ", spec: {taints: [{key: soft, effect: PreferNoSchedule}]}") + node("e", ", spec: {taints: [{key: node.kubernetes.io/network-unavailable, effect: NoSchedule}]}") + owned("web-a", "apps/v1", "DaemonSet", "web", ", nodeName: a")
	on := func(pods []*v1.Pod) string {
		var names []string
		for _, p := range pods {
			names = append(names, nodeOf(p))
		}
		return strings.Join(names, " ")
	}
	for _, test := range []struct{ spec, nodes, notes string }{
		{"containers: [{name: c, image: i}]", "c d", ""},
		{"hostNetwork: true, containers: [{name: c, image: i}]", "c d e", ""},
		{"tolerations: [{operator: Exists}], containers: [{name: c, image: i}]", "b c d e", ""},
		{"nodeSelector: {kubernetes.io/hostname: d}, containers: [{name: c, image: i}]", "d", ""},
		{"affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [c]}]}]}}}, containers: [{name: c, image: i}]", "c", ""},
		{"nodeSelector: {kubernetes.io/hostname: b}, containers: [{name: c, image: i}]", "",
			"-:14: DaemonSet shop/web: spec.template: matches no node, so it has no pod: nodes: 5, node selector and affinity exclude 4, taints exclude 1; change the selector or the affinity, or add tolerations"},
	} {
		_, pods, report := expand(t, nodes+strings.Replace(set("DaemonSet", "web", ""), "containers: [{name: c, image: i}]", test.spec, 1), Options{})
		if got := on(pods); got != test.nodes {
			t.Errorf("%s: on %q, want %q", test.spec, got, test.nodes)
		}
		if got := strings.Join(report.Notes, "\n"); got != test.notes {
			t.Errorf("%s: notes %s", test.spec, got)
		}
	}
}

// Options change the number of pods.
func TestOptions(t *testing.T) {
	cron := object("batch/v1", "CronJob", "report", "schedule: '@daily', jobTemplate: {spec: {"+jobTemplate+"}}")
	rollout := object("argoproj.io/v1alpha1", "Rollout", "api", "replicas: 2, "+template)
	volcano := object("batch.volcano.sh/v1alpha1", "Job", "mpi", "tasks: [{name: master, "+jobTemplate+"}, {replicas: 2, "+jobTemplate+"}]")
	torch := object("kubeflow.org/v1", "PyTorchJob", "sgd", "specs: {Worker: {replicas: 2, "+jobTemplate+"}, Master: {"+jobTemplate+"}}")
	for _, test := range []struct {
		name, text string
		options    Options
		pods, note string
	}{
		{"scale", set("Deployment", "web", ""), Options{Scale: scales(t, "shop/web=3")}, "web-*-* web-*-* web-*-*", ""},
		{"scale by kind", set("Deployment", "web", "") + set("StatefulSet", "web", ""), Options{Scale: scales(t, "StatefulSet/shop/web=2")}, "web-*-* web-0 web-1", ""},
		{"scale a job", object("batch/v1", "Job", "sum", jobTemplate), Options{Scale: scales(t, "shop/sum=3")}, "sum-* sum-* sum-*", ""},
		{"scale below", set("ReplicaSet", "web", "") + owned("web-a", "apps/v1", "ReplicaSet", "web", "") + owned("web-b", "apps/v1", "ReplicaSet", "web", ""), Options{Scale: scales(t, "shop/web=1")}, "",
			"-:2: ReplicaSet shop/web: spec.replicas: 2 pods exist, more than 1; none is removed"},
		{"no run", cron, Options{}, "", "-:2: CronJob shop/report: creates pods on its schedule only; --run-cronjob shop/report adds the pods of one run"},
		{"run", cron, Options{Runs: []string{"shop/report"}}, "report-run-*", ""},
		{"custom", rollout, Options{Templates: templates(t, "Rollout.argoproj.io=spec.template")}, "api-* api-*", ""},
		{"custom by scale", rollout, Options{Templates: templates(t, "Rollout.argoproj.io=.spec.template"), Scale: scales(t, "shop/api=1")}, "api-*", ""},
		{"array", volcano, Options{Templates: templates(t, "Job.batch.volcano.sh=spec.tasks.*.template")}, "mpi-master-* mpi-1-* mpi-1-*", ""},
		{"map", torch, Options{Templates: templates(t, "PyTorchJob.kubeflow.org=spec.specs.*.template")}, "sgd-master-* sgd-worker-* sgd-worker-*", ""},
		{"one", set("Deployment", "web", "replicas: 1000000"), Options{One: true}, "web-*-*", ""},
		{"one of none", set("Deployment", "web", "replicas: 0") + set("StatefulSet", "db", "replicas: 0") + cron, Options{One: true}, "web-*-* db-0 report-run-*", ""},
		{"one beside others", set("StatefulSet", "db", "") + owned("db-0", "apps/v1", "StatefulSet", "db", ""), Options{One: true}, "db-1", ""},
		{"none in a cluster that is complete", node("w1", "") + set("ReplicaSet", "web", "") + owned("web-a", "apps/v1", "ReplicaSet", "web", ""), Options{One: true}, "", ""},
		{"job set suspended", object(jobSetAPI, "JobSet", "train", "suspend: true, replicatedJobs: [{name: w, template: {spec: {"+jobTemplate+"}}}]"), Options{}, "", "-:2: JobSet shop/train: spec.suspend: is true, so it has no pod"},
		{"suspended", object("batch/v1", "Job", "sum", "suspend: true, "+jobTemplate), Options{}, "", "-:2: Job shop/sum: is suspended, so it has no further pod"},
		{"complete", strings.Replace(object("batch/v1", "Job", "sum", jobTemplate), "}\n", ", status: {conditions: [{type: Complete, status: 'True'}]}}\n", 1), Options{}, "", "-:2: Job shop/sum: is complete, so it has no further pod"},
		{"trimmed", object("apps/v1", "ReplicaSet", "web", "replicas: 2, selector: {matchLabels: {app: web}}"), Options{}, "", "-:2: ReplicaSet shop/web: spec.template: has no containers, so 2 of its 2 pods are not made; give the whole object"},
	} {
		_, pods, report := expand(t, test.text, test.options)
		if got := cut(pods); got != test.pods {
			t.Errorf("%s: pods %q, want %q", test.name, got, test.pods)
		}
		if got := strings.Join(report.Notes, "\n"); got != test.note {
			t.Errorf("%s: note %q, want %q", test.name, got, test.note)
		}
	}
}

// With an exclusive topology a leader is near its own group alone, and workers wait for
// its node. Otherwise workers have their indexes.
func TestLeaderWorkerSet(t *testing.T) {
	text := object(lwsAPI, "LeaderWorkerSet", "llm", "leaderWorkerTemplate: {size: 3, workerTemplate: {spec: {containers: [{name: c, image: i}]}}}")
	_, pods, _ := expand(t, text, Options{})
	for i, p := range pods {
		if p.Labels[lws+"worker-index"] != fmt.Sprint(i) || p.Labels[lws+"group-key"] != pods[0].Labels[lws+"group-key"] || p.Spec.Affinity != nil || p.Annotations[lws+"size"] != "3" {
			t.Errorf("pod %d: %+v", i, p.ObjectMeta)
		}
	}
	_, pods, report := expand(t, strings.Replace(text, "namespace: shop", "namespace: shop, annotations: {"+lws+"exclusive-topology: rack}", 1), Options{})
	if len(pods) != 1 || len(report.Notes) != 1 || !strings.Contains(report.Notes[0], "only leaders are made") {
		t.Fatalf("%d pods, notes %q", len(pods), report.Notes)
	}
	near, apart := pods[0].Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, pods[0].Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if len(near) != 1 || len(apart) != 1 || near[0].TopologyKey != "rack" || apart[0].TopologyKey != "rack" {
		t.Fatalf("affinity %v, %v", near, apart)
	}
	for _, test := range []struct {
		term   v1.PodAffinityTerm
		labels labels.Set
		want   bool
	}{{near[0], pods[0].Labels, true}, {near[0], labels.Set{}, false}, {apart[0], pods[0].Labels, false}, {apart[0], labels.Set{}, false}, {apart[0], labels.Set{lws + "group-key": "other"}, true}} {
		selector, err := metav1.LabelSelectorAsSelector(test.term.LabelSelector)
		if err != nil || selector.Matches(test.labels) != test.want {
			t.Errorf("%s matches %v: %t, %v", selector, test.labels, !test.want, err)
		}
	}
}

// A mistake has its place and a remedy, and no pods are made then.
func TestMistakes(t *testing.T) {
	both := set("Deployment", "web", "") + set("StatefulSet", "web", "")
	for _, test := range []struct {
		text    string
		options Options
		want    string
	}{
		{set("Deployment", "web", "replicas: 1000000"), Options{}, "-:2: Deployment shop/web: spec.replicas: 1000000 pods are too many: a run makes at most 200000; give fewer, as in --scale shop/web=1000"},
		{set("StatefulSet", "web", "replicas: 2147483647"), Options{}, "-:2: StatefulSet shop/web: spec.replicas: 2147483647 pods are too many: a run makes at most 200000; give fewer, as in --scale shop/web=1000"},
		{set("ReplicaSet", "a", "replicas: 3") + set("ReplicaSet", "b", "replicas: 3"), Options{Most: 5}, "-:4: ReplicaSet shop/b: spec.replicas: 3 pods are too many: a run makes at most 5; give fewer, as in --scale shop/b=1000"},
		{object("batch/v1", "Job", "sum", "parallelism: 6, completions: 9, completionMode: Indexed, "+jobTemplate), Options{Most: 5}, "-:2: Job shop/sum: spec.parallelism: 6 pods are too many: a run makes at most 5; give fewer, as in --scale shop/sum=1000"},
		{object(lwsAPI, "LeaderWorkerSet", "llm", "replicas: 2, leaderWorkerTemplate: {size: 4, workerTemplate: {spec: {containers: [{name: c, image: i}]}}}"), Options{Most: 5}, "-:2: LeaderWorkerSet shop/llm: spec.leaderWorkerTemplate.size: 3 pods are too many: a run makes at most 5; give fewer, as in --scale shop/llm=1000"},
		{object(jobSetAPI, "JobSet", "train", "replicatedJobs: [{name: w, replicas: 6, template: {spec: {"+jobTemplate+"}}}]"), Options{Most: 5}, "-:2: JobSet shop/train: spec.replicatedJobs[0].replicas: 6 pods are too many: a run makes at most 5; give fewer, as in --scale shop/train=1000"},
		{both, Options{Scale: scales(t, "shop/web=2")}, "--scale shop/web=2: is Deployment shop/web and StatefulSet shop/web; write the kind before the name, as in deployment/shop/web=2"},
		{both, Options{Scale: scales(t, "shop/api=2")}, "--scale shop/api=2: the files have no such workload; they have Deployment shop/web, StatefulSet shop/web"},
		{set("DaemonSet", "web", ""), Options{Scale: scales(t, "shop/web=2")}, "-:2: DaemonSet shop/web: has no replicas, so --scale shop/web=2 cannot be"},
		{both, Options{Runs: []string{"shop/report"}}, "--run-cronjob shop/report: the files have no such CronJob; they have none"},
		{object("argoproj.io/v1alpha1", "Rollout", "api", template), Options{Templates: templates(t, "Rollout.argoproj.io=spec.pods")}, "-:2: Rollout.argoproj.io shop/api: spec.pods: is no pod template; give its path with --pod-template Rollout.argoproj.io=PATH"},
		{object("argoproj.io/v1alpha1", "Rollout", "api", "template: {spec: {container: []}}"), Options{Templates: templates(t, "Rollout.argoproj.io=spec.template")}, `-:2: Rollout.argoproj.io shop/api: spec.template: strict decoding error: unknown field "spec.container"`},
		{object("argoproj.io/v1alpha1", "Rollout", "api", "template: {spec: {}}"), Options{Templates: templates(t, "Rollout.argoproj.io=spec.template")}, "-:2: Rollout.argoproj.io shop/api: spec.template.spec.containers: is empty; a pod has at least one container"},
		{object(lwsAPI, "LeaderWorkerSet", "llm", "leaderWorkerTemplate: {workerTemplate: {spec: {}}}"), Options{}, "-:2: LeaderWorkerSet shop/llm: spec.leaderWorkerTemplate.workerTemplate.spec.containers: is empty; a pod has at least one container"},
		{object(jobSetAPI, "JobSet", "train", "replicatedJobs: [{name: w, template: {spec: {}}}]"), Options{}, "-:2: JobSet shop/train: spec.replicatedJobs[0].template.spec.template.spec.containers: is empty; a pod has at least one container"},
	} {
		c, err := manifest.Options{Customs: test.options.Customs()}.Read([]string{"-"}, strings.NewReader(test.text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = test.options.Expand(c); err == nil || err.Error() != test.want {
			t.Errorf("got\n%v\nwant\n%s", err, test.want)
		}
		if len(c.Pods)+len(c.PersistentVolumeClaims) != 0 {
			t.Errorf("%s: %d pods are made", test.want, len(c.Pods))
		}
	}
	for _, text := range []string{"web=3", "shop/web", "shop/web=-1", "shop/web=many", "a/b/c/d=1", "/web=1", "shop/=1", "shop/web=99999999999"} {
		if _, err := ParseScale(text); err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf("--scale %q: must be NAMESPACE/NAME=N", text)) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"Rollout=spec.template", "Rollout.argoproj.io", "Rollout.argoproj.io=", ".argoproj.io=spec", "Rollout.=spec", "Rollout.argoproj.io=spec..template"} {
		if _, err := ParseTemplate(text); err == nil || !strings.HasPrefix(err.Error(), "--pod-template ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Names are the same in each run, fit into a label, and differ.
func TestNames(t *testing.T) {
	long := strings.Repeat("n", 60)
	text := set("ReplicaSet", long, "replicas: 2000")
	_, pods, _ := expand(t, text, Options{})
	_, again, _ := expand(t, text, Options{})
	seen := map[string]bool{}
	for i, p := range pods {
		if seen[p.Name] || len(p.Name) > 63 || p.Name != again[i].Name {
			t.Fatalf("pod %d is %s, again %s, twice %t", i, p.Name, again[i].Name, seen[p.Name])
		}
		seen[p.Name] = true
	}
	if len(pods) != 2000 {
		t.Errorf("%d pods", len(pods))
	}
}

// Pods of one template share equal parts, so that hundreds of thousands fit in memory.
func TestShared(t *testing.T) {
	_, pods, _ := expand(t, set("ReplicaSet", "web", "replicas: 2"), Options{})
	if &pods[0].Spec.Containers[0] != &pods[1].Spec.Containers[0] || &pods[0].Spec.Tolerations[0] != &pods[1].Spec.Tolerations[0] {
		t.Error("pods do not share containers and tolerations")
	}
}
