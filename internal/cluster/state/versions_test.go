package state

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestVersions changes every input of decisions, one after the other: its version
// changes, and a change that no decision can see changes none.
func TestVersions(t *testing.T) {
	s := New()
	pod := func(name, node, nominated string, change func(*v1.Pod)) model.Change {
		p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "u"}, Spec: v1.PodSpec{NodeName: node}}
		p.Status.NominatedNodeName = nominated
		if change != nil {
			change(p)
		}
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
	}
	object := func(kind model.Kind, o interface{ metav1.Object }) model.Change {
		ref := model.Ref{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName()}
		switch o := o.(type) {
		case *v1.Namespace:
			return model.Change{Kind: model.ObjectSet, Ref: ref, Object: o}
		case *v1.Service:
			return model.Change{Kind: model.ObjectSet, Ref: ref, Object: o}
		}
		panic("neither a namespace nor a service")
	}
	labels := map[string]string{"app": "web"}
	labelled := func(p *v1.Pod) { p.Labels = labels }
	journal := func(v *Versions) *uint64 { return &v.Journal }
	nominations := func(v *Versions) *uint64 { return &v.Nominations }
	waiting := pod("waiting", "", "n", nil)
	for _, step := range []struct {
		what   string
		change func()
		moves  func(*Versions) *uint64 // nil: none
	}{
		{"a node", func() { s.Apply([]model.Change{node("n")}) }, journal},
		{"a pod", func() { s.Apply([]model.Change{pod("p", "n", "", nil)}) }, journal},
		{"its labels", func() { s.Apply([]model.Change{pod("p", "n", "", labelled)}) }, journal},
		{"nothing of it", func() { s.Apply([]model.Change{pod("p", "n", "", labelled)}) }, nil},
		{"its deletion", func() {
			s.Apply([]model.Change{pod("p", "n", "", func(p *v1.Pod) { labelled(p); p.DeletionTimestamp = &metav1.Time{} })})
		}, journal},
		{"a pod that waits", func() { s.Apply([]model.Change{pod("q", "", "", nil)}) }, nil},
		{"a nominated pod", func() { s.Apply([]model.Change{waiting}) }, nominations},
		{"its labels", func() { s.Apply([]model.Change{pod("waiting", "", "n", labelled)}) }, nominations},
		{"its place", func() { s.Assume(plan.Placement{Pod: waiting.Pod, NodeName: "n"}) }, nominations},
		{"no place", func() { s.Unassume(plan.Placement{Pod: waiting.Pod, NodeName: "n"}) }, nominations},
		{"no nomination", func() { s.Apply([]model.Change{pod("waiting", "", "", nil)}) }, nominations},
		{"a namespace", func() {
			s.Apply([]model.Change{object(model.NamespaceKind, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}})})
		}, func(v *Versions) *uint64 { return &v.Terms }},
		{"a service", func() {
			s.Apply([]model.Change{object(model.ServiceKind, &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Spec: v1.ServiceSpec{Selector: labels}})})
		}, func(v *Versions) *uint64 { return &v.DefaultSelectors }},
	} {
		before := s.View().Versions()
		step.change()
		after := s.View().Versions()
		if step.moves == nil {
			if after != before {
				t.Errorf("%s: versions went from %+v to %+v", step.what, before, after)
			}
			continue
		}
		if *step.moves(&after) == *step.moves(&before) {
			t.Errorf("%s: versions stayed %+v", step.what, before)
		}
	}
}

// TestVersionsOfObjects replaces API objects by versions without a change that decisions
// read: only the journal of objects has their slots.
func TestVersionsOfObjects(t *testing.T) {
	s := New()
	pod := model.Change{Kind: model.PodSet, Pod: model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}, Spec: v1.PodSpec{NodeName: "b"}})}
	s.Apply([]model.Change{node("a"), node("b"), pod, node("b")})
	if entries, ok := s.ObjectsSince(0); ok || s.objects.version() != 0 {
		t.Errorf("%d versions before anybody follows them: %v, %t", s.objects.version(), entries, ok)
	}
	for _, row := range []struct {
		what   string
		change model.Change
		slots  int
	}{
		{"the same pod", pod, 0},
		{"another version of the pod", model.Change{Kind: model.PodSet, Pod: model.NewPod(pod.Pod.Object.DeepCopy())}, 1},
		{"another version of its node", node("b"), 1},
		{"a pod that waits", model.Change{Kind: model.PodSet, Pod: model.NewPod(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "q"}})}, 0},
	} {
		journal, objects := s.Version(), s.ObjectsVersion()
		s.Apply([]model.Change{row.change})
		entries, _ := s.ObjectsSince(objects)
		if len(entries) != row.slots || s.Version() != journal {
			t.Errorf("%s: %v; the other journal went from %d to %d", row.what, entries, journal, s.Version())
		}
		for _, e := range entries {
			if s.Node(e.Slot).Name() != "b" {
				t.Errorf("%s: %v", row.what, e)
			}
		}
		audited(t, s)
	}
}
