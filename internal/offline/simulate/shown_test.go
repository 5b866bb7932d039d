package simulate_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// shown returns the version of an object that the scheduler was shown last. It returns
// nil if none was shown, or if a deletion was.
func (a *auditor) shown(ref model.Ref) kinds.Object {
	switch ref.Kind {
	case model.PodKind:
		if pod := a.pods[model.PodKey{Namespace: ref.Namespace, Name: ref.Name}]; pod != nil {
			return pod
		}
	case model.NodeKind:
		if node := a.nodes[ref.Name]; node != nil {
			return node
		}
	default:
		if other, ok := a.others[ref].(kinds.Object); ok {
			return other
		}
	}
	return nil
}

func words(ref model.Ref) string {
	return fmt.Sprintf("%s %s/%s", kinds.Get(ref.Kind).Resource.Resource, ref.Namespace, ref.Name)
}

// checkShown checks that no version of an object is shown twice, that a deletion precedes
// another object of the same name, and that a pod never leaves its node or its scheduler
// without an end.
func (a *auditor) checkShown(s simulate.Shown) error {
	if s.Object == nil {
		return nil
	}
	ref, _ := kinds.RefOf(s.Object)
	before := a.shown(ref)
	if before == nil {
		return nil
	}
	if before.GetUID() != s.Object.GetUID() {
		return fmt.Errorf("%s was shown under another UID without the end of the first", words(ref))
	}
	if before.GetResourceVersion() == s.Object.GetResourceVersion() {
		return fmt.Errorf("%s was shown twice in version %s", words(ref), s.Object.GetResourceVersion())
	}
	if after, ok := s.Object.(*v1.Pod); ok {
		pod := before.(*v1.Pod)
		if pod.Spec.NodeName != "" && after.Spec.NodeName == "" || pod.Spec.SchedulerName != after.Spec.SchedulerName {
			return fmt.Errorf("pod %s has left node %q and scheduler %q without having ended", ref.Name, pod.Spec.NodeName, pod.Spec.SchedulerName)
		}
	}
	return nil
}

// checkSeen checks, when every watch is intact and no event is on its way, that the
// scheduler was shown exactly the API server's objects.
func (a *auditor) checkSeen() error {
	shown := map[model.Kind]int{model.PodKind: len(a.pods), model.NodeKind: len(a.nodes)}
	for ref := range a.others {
		shown[ref.Kind]++
	}
	for _, object := range storedObjects(a.cluster) {
		ref, _ := kinds.RefOf(object)
		seen := a.shown(ref)
		switch {
		case seen == nil:
			return fmt.Errorf("%s is stored, and the scheduler was not shown it", words(ref))
		case seen.GetUID() != object.GetUID() || !kinds.Get(ref.Kind).Same(seen, object):
			return fmt.Errorf("%s is stored in version %s of UID %s; the scheduler was shown version %s of UID %s",
				words(ref), object.GetResourceVersion(), object.GetUID(), seen.GetResourceVersion(), seen.GetUID())
		}
		shown[ref.Kind]--
	}
	for _, kind := range a.cluster.Reads() {
		if n := shown[kind]; n != 0 {
			return fmt.Errorf("the scheduler was shown %d more of %s than the API server has, and not their end", n, kinds.Get(kind).Resource.Resource)
		}
	}
	return nil
}

// storedObjects returns the objects that the API server lists to the scheduler.
func storedObjects(c *simulate.Cluster) []kinds.Object {
	var all []kinds.Object
	for _, node := range c.Nodes() {
		all = append(all, node)
	}
	for _, pod := range c.Pods() {
		if !kinds.Finished(pod) {
			all = append(all, pod)
		}
	}
	read := map[model.Kind]bool{}
	for _, kind := range c.Reads() {
		read[kind] = true
	}
	for _, object := range c.Objects() {
		if ref, _ := kinds.RefOf(object); read[ref.Kind] {
			all = append(all, object.(kinds.Object))
		}
	}
	return all
}
