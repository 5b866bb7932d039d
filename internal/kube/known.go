package kube

import v1 "k8s.io/api/core/v1"

// Known returns the pods and nodes that the watches show at this moment, in no particular order. They must not be changed.
func (w *Watch) Known() (pods []*v1.Pod, nodes []*v1.Node) {
	for _, object := range w.podInformer.GetStore().List() {
		if pod, ok := object.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	for _, object := range w.factory.Core().V1().Nodes().Informer().GetStore().List() {
		if node, ok := object.(*v1.Node); ok {
			nodes = append(nodes, node)
		}
	}
	return pods, nodes
}
