package scene

import (
	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// genericWorkload is the gate of pod groups.
const genericWorkload = "GenericWorkload"

// gangs builds a scene of plain pods in gangs, all pending at the start. At a small scale
// the gangs are smaller.
func gangs(size int) func(s *Scene, c counts) {
	return func(s *Scene, c counts) {
		size := min(size, c.measured)
		gang := func(i int) string { return numbered("gang", i/size) }
		s.Kind = Shape
		s.Site.Gates = []string{genericWorkload}
		s.Standing = []Pods{standing(c, 1, defaultPod)}
		s.Measured.Count = c.measured / size * size
		s.Measured.Pod = func(i int) *v1.Pod {
			p, name := defaultPod(i), gang(i)
			p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &name}
			return p
		}
		for i := 0; i < s.Measured.Count; i += size {
			group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: measured, Name: gang(i)}}
			group.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(size)}
			s.Groups = append(s.Groups, group)
		}
	}
}
