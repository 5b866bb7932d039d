package framework

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// handed is an extender in the form that the Handle passes to plugins.
type handed struct {
	plugin.Extender
	types *public.Types
}

// Hand returns extenders in the form that the Handle passes to plugins, with NodeInfos of
// these types.
func Hand(extenders []plugin.Extender, types *public.Types) []fwk.Extender {
	var list []fwk.Extender
	for _, x := range extenders {
		list = append(list, handed{x, types})
	}
	return list
}

// Filter returns the nodes that pass. Nodes that the extender returned as objects are
// NodeInfos without pods, as in kube-scheduler.
func (h handed) Filter(pod *v1.Pod, nodes []fwk.NodeInfo) (passed []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	if !h.Traits().Filters {
		return nodes, nil, nil, nil
	}
	said, err := h.Extender.Filter(pod, objects(nodes))
	if err != nil {
		return nil, nil, nil, err
	}
	byName := make(map[string]fwk.NodeInfo, len(nodes))
	for _, n := range nodes {
		byName[n.Node().Name] = n
	}
	for _, name := range said.Passed {
		n, ok := byName[name]
		if !ok {
			continue
		}
		if said.Bare {
			n = h.types.NewNodeInfo(n.Node())
		}
		passed = append(passed, n)
	}
	return passed, said.Failed, said.Unresolvable, nil
}

// Prioritize returns scores. They already are on the scale of totals. So the weight is 1,
// and they are divided by the factor that plugins multiply them with.
func (h handed) Prioritize(pod *v1.Pod, nodes []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	list := extenderv1.HostPriorityList{}
	if !h.Traits().Prioritizes {
		return &list, 0, nil
	}
	scores, err := h.Extender.Prioritize(pod, objects(nodes))
	if err != nil {
		return nil, 0, err
	}
	const scale = fwk.MaxScore / extenderv1.MaxExtenderPriority
	for _, n := range nodes {
		if score, ok := scores[n.Node().Name]; ok {
			list = append(list, extenderv1.HostPriority{Host: n.Node().Name, Score: score / scale})
		}
	}
	return &list, 1, nil
}

// Bind binds a pod.
func (h handed) Bind(binding *v1.Binding) error { return h.Extender.Bind(binding) }

// Name returns the extender's URL.
func (h handed) Name() string { return h.Traits().Name }

// IsIgnorable reports whether scheduling continues when the extender cannot be reached.
func (h handed) IsIgnorable() bool { return h.Traits().Ignorable }

// IsBinder, IsPrioritizer, IsFilter and SupportsPreemption report which verbs the
// extender has.
func (h handed) IsBinder() bool           { return h.Traits().Binds }
func (h handed) IsPrioritizer() bool      { return h.Traits().Prioritizes }
func (h handed) IsFilter() bool           { return h.Traits().Filters }
func (h handed) SupportsPreemption() bool { return h.Traits().Preempts }

// ProcessPreemption returns the remaining candidates. Victims are looked up on their
// nodes.
func (h handed) ProcessPreemption(pod *v1.Pod, victims map[string]*extenderv1.Victims, nodes fwk.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	left, err := h.Extender.ProcessPreemption(pod, victims)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*extenderv1.Victims, len(left))
	for name, meta := range left {
		node, err := nodes.Get(name)
		if err != nil {
			return nil, err
		}
		if meta == nil {
			return nil, fmt.Errorf("extender: %v returned no victims for node %v, want victims or no such node", h.Name(), name)
		}
		of := &extenderv1.Victims{NumPDBViolations: meta.NumPDBViolations}
		for _, victim := range meta.Pods {
			p := podOn(node, victim.UID)
			if p == nil {
				return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not found on that node", h.Name(), victim.UID, name)
			}
			of.Pods = append(of.Pods, p)
		}
		found[name] = of
	}
	return found, nil
}

func podOn(node fwk.NodeInfo, uid string) *v1.Pod {
	for _, p := range node.GetPods() {
		if string(p.GetPod().UID) == uid {
			return p.GetPod()
		}
	}
	return nil
}

func objects(nodes []fwk.NodeInfo) []*v1.Node {
	list := make([]*v1.Node, len(nodes))
	for i, n := range nodes {
		list[i] = n.Node()
	}
	return list
}
