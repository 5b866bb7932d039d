package random

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

func topology() maker {
	return maker{TopologyNode, topologyNodeLabels, TopologyPod, TopologyPlacedPod, topologyPodLabels}
}

// TopologyChange draws a mutation of a cluster that TopologyCluster made. In addition to
// the mutations of Change, with topology nodes and pods, it draws relabelled pending
// pods, and changes of namespaces, services and controllers.
func TopologyChange(r *rand.Rand, c oracle.Cluster) Mutation {
	switch n := r.IntN(100); {
	case n < 10:
		return changeNamespace(r, c)
	case n < 22:
		return changeService(r, c)
	case n < 27:
		return addController(r, c)
	case n < 32:
		return removeController(r, c)
	case n < 42 && len(c.Pods) > 0:
		return replacePod(c, PodRelabelled, r.IntN(len(c.Pods)), func(p *v1.Pod) { p.Labels = topologyPodLabels(r) })
	case n < 47 && len(c.Nodes) > 0:
		return topology().changeNode(r, c, pick(r, NodeRelabelled, NodeTainted))
	}
	return topology().change(r, c)
}

// changeNamespace adds a missing namespace, in half of the cases if one is missing.
// Otherwise it relabels or removes a namespace.
func changeNamespace(r *rand.Rand, c oracle.Cluster) Mutation {
	m := Mutation{After: cloned(c)}
	for _, name := range []string{"default", "other", "third"} {
		known := func(ns *v1.Namespace) bool { return ns.Name == name }
		if slices.ContainsFunc(c.Namespaces, known) || len(c.Namespaces) > 0 && chance(r, 50) {
			continue
		}
		ns := namespace(r, name)
		m.Kind, m.New, m.After.Namespaces = NamespaceAdded, ns, append(m.After.Namespaces, ns)
		return m
	}
	at := r.IntN(len(c.Namespaces))
	m.Old = c.Namespaces[at]
	if chance(r, 25) {
		m.Kind, m.After.Namespaces = NamespaceRemoved, slices.Delete(m.After.Namespaces, at, at+1)
		return m
	}
	ns := c.Namespaces[at].DeepCopy()
	ns.ResourceVersion, ns.Labels = next(ns.ResourceVersion), namespaceLabels(r)
	m.Kind, m.New, m.After.Namespaces[at] = NamespaceRelabelled, ns, ns
	return m
}

func changeService(r *rand.Rand, c oracle.Cluster) Mutation {
	kind := pick(r, ServiceAdded, ServiceRemoved, ServiceChanged)
	if len(c.Services) == 0 || kind == ServiceAdded {
		return addService(r, c)
	}
	at := r.IntN(len(c.Services))
	m := Mutation{Kind: kind, Old: c.Services[at], After: cloned(c)}
	if kind == ServiceRemoved {
		m.After.Services = slices.Delete(m.After.Services, at, at+1)
		return m
	}
	s := c.Services[at].DeepCopy()
	s.ResourceVersion, s.Spec.Selector = next(s.ResourceVersion), equalitySelector(r)
	m.New, m.After.Services[at] = s, s
	return m
}

// removeController removes any controller, or adds one if none exists.
func removeController(r *rand.Rand, c oracle.Cluster) Mutation {
	rcs, rss, sets := len(c.ReplicationControllers), len(c.ReplicaSets), len(c.StatefulSets)
	if rcs+rss+sets == 0 {
		return addController(r, c)
	}
	m := Mutation{Kind: ControllerRemoved, After: cloned(c)}
	switch at := r.IntN(rcs + rss + sets); {
	case at < rcs:
		m.Old, m.After.ReplicationControllers = c.ReplicationControllers[at], slices.Delete(m.After.ReplicationControllers, at, at+1)
	case at < rcs+rss:
		at -= rcs
		m.Old, m.After.ReplicaSets = c.ReplicaSets[at], slices.Delete(m.After.ReplicaSets, at, at+1)
	default:
		at -= rcs + rss
		m.Old, m.After.StatefulSets = c.StatefulSets[at], slices.Delete(m.After.StatefulSets, at, at+1)
	}
	return m
}
