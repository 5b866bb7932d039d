package workload

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// daemonSet makes a pod for each node that the DaemonSet matches and has no pod of it.
func (e *expansion) daemonSet(w *item, d *appsv1.DaemonSet) {
	hash := hashOf(&d.Spec.Template)
	p := newPods(w, &d.Spec.Template, w.owner(), map[string]string{
		revisionHashLabel: hash, "pod-template-generation": fmt.Sprint(max(1, d.Generation))})
	tolerate(&p.template.Spec)

	has := map[string]bool{}
	for _, pod := range e.pods.of(w.key(), d.Spec.Selector) {
		if active(pod) {
			has[nodeOf(pod)] = true
		}
	}
	var missing []*v1.Node
	required := nodeaffinity.GetRequiredNodeAffinity(&v1.Pod{Spec: p.template.Spec})
	why := mismatches{spec: &p.template.Spec, required: required}
	have := 0
	for _, node := range e.cluster.Nodes {
		switch {
		case !why.match(node):
		case has[node.Name]:
			have++
		default:
			missing = append(missing, node)
		}
	}
	if e.One {
		// A question about one more pod is meaningless, because each pod has its own
		// node.
		missing = nil
	}
	n := e.missingOf(w, len(missing), have)
	e.record(w, n, have)
	if matched := have + len(missing); matched == 0 && !e.One {
		e.note(w, "spec.template", "matches no node, so it has no pod: %s; "+
			"change the selector or the affinity, or add tolerations", why.String())
	}
	for i, node := range missing[:n] {
		pod := p.pod(e.generated(d.Namespace, d.Name+"-", have+i))
		pod.Spec.Affinity = pinned(pod.Spec.Affinity, node.Name)
		e.add(p, pod, nil)
	}
}

// missingOf is like missing, for a workload with a pod on each node.
func (e *expansion) missingOf(w *item, missing, have int) int {
	if e.One {
		e.note(w, "", "has one pod on each node that it matches; berth simulate places them")
		return 0
	}
	return e.missing(w, "spec.template", have+missing, have)
}

// mismatches counts the nodes that a DaemonSet does not match, by the reason.
type mismatches struct {
	spec                    *v1.PodSpec
	required                nodeaffinity.RequiredNodeAffinity
	nodes, affinity, taints int
}

// match reports whether a DaemonSet has a pod on a node: it needs the node's labels and
// name, and tolerations for its taints. The node's room does not count.
func (m *mismatches) match(node *v1.Node) bool {
	m.nodes++
	fits, err := m.required.Match(node)
	if err != nil || !fits || m.spec.NodeName != "" && m.spec.NodeName != node.Name {
		m.affinity++
		return false
	}
	repels := func(t *v1.Taint) bool {
		return t.Effect == v1.TaintEffectNoExecute || t.Effect == v1.TaintEffectNoSchedule
	}
	_, tainted := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, m.spec.Tolerations, repels, true)
	if tainted {
		m.taints++
	}
	return !tainted
}

func (m *mismatches) String() string {
	var why []string
	if m.affinity > 0 {
		why = append(why, fmt.Sprintf("node selector and affinity exclude %d", m.affinity))
	}
	if m.taints > 0 {
		why = append(why, fmt.Sprintf("taints exclude %d", m.taints))
	}
	return strings.Join(append([]string{fmt.Sprintf("nodes: %d", m.nodes)}, why...), ", ")
}

// nodeOf returns the node that a DaemonSet's pod is on or is for.
func nodeOf(pod *v1.Pod) string {
	if pod.Spec.NodeName != "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return pod.Spec.NodeName
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return ""
	}
	for _, term := range required.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && field.Operator == v1.NodeSelectorOpIn && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// pinned returns the affinity with the node's name in place of the required node
// affinity, which the node matches.
func pinned(a *v1.Affinity, node string) *v1.Affinity {
	p := v1.Affinity{}
	if a != nil {
		p = *a
	}
	of := v1.NodeAffinity{}
	if p.NodeAffinity != nil {
		of = *p.NodeAffinity
	}
	name := v1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{node}}
	of.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchFields: []v1.NodeSelectorRequirement{name},
	}}}
	p.NodeAffinity = &of
	return &p
}

// tolerate adds the tolerations that DaemonSets give their pods, in place of equal ones
// that end after a time.
// https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/
func tolerate(spec *v1.PodSpec) {
	own := []v1.Toleration{
		{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		{Key: v1.TaintNodeUnreachable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute},
		{Key: v1.TaintNodeDiskPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeMemoryPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodePIDPressure, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeUnschedulable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule},
	}
	if spec.HostNetwork {
		own = append(own, v1.Toleration{
			Key: v1.TaintNodeNetworkUnavailable, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoSchedule})
	}
	all := slices.Clone(spec.Tolerations)
	for i := range own {
		equal := func(t v1.Toleration) bool { return t.MatchToleration(&own[i]) }
		if at := slices.IndexFunc(all, equal); at >= 0 {
			all[at] = own[i]
		} else {
			all = append(all, own[i])
		}
	}
	spec.Tolerations = all
}
