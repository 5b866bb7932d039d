package state

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// compositeGroup makes a composite group; an empty parent means none.
func compositeGroup(namespace, name, parent string) *model.CompositeGroup {
	object := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if parent != "" {
		object.Spec.ParentCompositePodGroupName = &parent
	}
	return model.NewCompositeGroup(object)
}

func leafGroup(name, parent string) *model.PodGroup {
	object := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if parent != "" {
		object.Spec.ParentCompositePodGroupName = &parent
	}
	return model.NewPodGroup(object)
}

func treeText(t *model.GroupTree) string {
	if t.Group != nil {
		return t.Group.Key.Name
	}
	var below []string
	for _, b := range t.Below {
		below = append(below, treeText(b))
	}
	return t.Composite.Key.Name + "(" + strings.Join(below, " ") + ")"
}

// TestTrees checks that a tree has the groups below its root, by time of creation and
// then by name, as groups come and go.
func TestTrees(t *testing.T) {
	s := New()
	key := func(name string) model.GroupKey { return model.GroupKey{Namespace: "ns", Name: name} }
	late := compositeGroup("ns", "a", "root").Object
	late.CreationTimestamp = metav1.Unix(9, 0)
	leaf := leafGroup("g", "m")
	steps := []struct {
		change     model.Change
		tree, root string // root of the leaf
	}{
		{compiled(leaf), "", "missing"},
		{compiled(compositeGroup("ns", "m", "root")), "", "missing"},
		{compiled(compositeGroup("ns", "root", "")), "root(m(g))", "root"},
		{compiled(model.NewCompositeGroup(late)), "root(m(g) a())", "root"},
		{compiled(leafGroup("b", "root")), "root(b m(g) a())", "root"},
		// a composite group has the same name
		{compiled(leafGroup("m", "root")), "root(b m(g) m a())", "root"},
		{model.Change{Kind: model.ObjectGone, Ref: key("m").Ref()}, "root(b m(g) a())", "root"},
		{model.Change{Kind: model.ObjectGone, Ref: compositeGroup("ns", "m", "").Ref()}, "root(b a())", "missing"},
		{compiled(compositeGroup("ns", "m", "a")), "root(b a(m(g)))", "root"},
		// a circle
		{compiled(compositeGroup("ns", "root", "m")), "root(b a(m(g)))", "deep"},
		{compiled(compositeGroup("ns", "root", "")), "root(b a(m(g)))", "root"},
		{model.Change{Kind: model.ObjectGone, Ref: compositeGroup("ns", "root", "").Ref()}, "", "missing"},
	}
	for i, step := range steps {
		s.Apply([]model.Change{step.change})
		audited(t, s)
		tree, root := "", "none"
		if found := s.View().Tree(key("root")); found != nil {
			tree = treeText(found)
		}
		switch found, err := s.View().Root(leaf); {
		case errors.Is(err, ErrNoParent):
			root = "missing"
		case errors.Is(err, ErrTooDeep):
			root = "deep"
		case found != nil:
			root = found.Key.Name
		}
		if strings.HasPrefix(step.root, "deep") {
			tree = step.tree // endless, so it is truncated
		}
		if tree != step.tree || root != step.root {
			t.Errorf("step %d: tree %q and root %q, want %q and %q", i, tree, root, step.tree, step.root)
		}
	}
	if got := fmt.Sprint(slices.Sorted(names(s.View(), key("a")))); got != "[g]" {
		t.Errorf("below a: %s", got)
	}
}

func names(v View, key model.GroupKey) func(func(string) bool) {
	return func(yield func(string) bool) {
		for group := range v.GroupsBelow(key) {
			if !yield(group.Name) {
				return
			}
		}
	}
}

// TestDepthOfTrees checks the limit of four composite groups above a PodGroup.
func TestDepthOfTrees(t *testing.T) {
	s := New()
	for i := range 6 {
		parent := ""
		if i > 0 {
			parent = fmt.Sprint("c", i-1)
		}
		s.Apply([]model.Change{compiled(compositeGroup("ns", fmt.Sprint("c", i), parent)), compiled(leafGroup(fmt.Sprint("g", i), fmt.Sprint("c", i)))})
		_, err := s.View().Root(leafGroup("g", fmt.Sprint("c", i)))
		if deep := errors.Is(err, ErrTooDeep); deep != (i >= 4) {
			t.Errorf("%d composite groups above: %v", i+1, err)
		}
	}
	if got, want := treeText(s.View().Tree(model.GroupKey{Namespace: "ns", Name: "c0"})), "c0(c1(c2(c3(c4() g3) g2) g1) g0)"; got != want {
		t.Errorf("the tree is %s, want %s", got, want)
	}
}

// TestUnits checks that a unit is everything below the topmost group whose disruptionMode
// is all, and that the priority of the root counts.
func TestUnits(t *testing.T) {
	s := New()
	unit := func(name, parent string, priority int32, all bool) *model.CompositeGroup {
		g := compositeGroup("ns", name, parent).Object
		if g.Spec.Priority = &priority; all {
			g.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
		}
		return model.NewCompositeGroup(g)
	}
	whole := leafGroup("whole", "m").Object
	whole.Spec.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
	s.Apply([]model.Change{node("n"), compiled(unit("root", "", 7, false)), compiled(unit("m", "root", 3, false)), compiled(model.NewPodGroup(whole)), compiled(leafGroup("single", "m"))})
	pods := map[string]*model.Pod{}
	for _, of := range []string{"whole", "single"} {
		pod := podOn(of, of, "n", 1).Pod
		pod.Priority = 100 // the priority of its group counts
		pod.Namespace, pod.Group = "ns", model.GroupKey{Namespace: "ns", Name: of}
		pods[of] = pod
		s.Apply([]model.Change{{Kind: model.PodSet, Pod: pod}})
	}
	for _, row := range []struct {
		m, root       bool
		whole, single Unit
		members       int
	}{
		{false, false, Unit{model.GroupKey{Namespace: "ns", Name: "whole"}, false}, Unit{}, 1},
		{true, false, Unit{model.GroupKey{Namespace: "ns", Name: "m"}, true}, Unit{model.GroupKey{Namespace: "ns", Name: "m"}, true}, 2},
		{true, true, Unit{model.GroupKey{Namespace: "ns", Name: "root"}, true}, Unit{model.GroupKey{Namespace: "ns", Name: "root"}, true}, 2},
	} {
		s.Apply([]model.Change{compiled(unit("root", "", 7, row.root)), compiled(unit("m", "root", 3, row.m))})
		v := s.View()
		if got, other := v.UnitOf(pods["whole"]), v.UnitOf(pods["single"]); got != row.whole || other != row.single {
			t.Errorf("%t, %t: units %v and %v, want %v and %v", row.m, row.root, got, other, row.whole, row.single)
		}
		if n := len(slices.Collect(v.UnitMembers(row.whole))); n != row.members {
			t.Errorf("%t, %t: %d members, want %d", row.m, row.root, n, row.members)
		}
		if got := v.PreemptionPriority(pods["single"]); got != 7 {
			t.Errorf("the priority is %d, want that of the root", got)
		}
		if v.UnitsBelow(7) == v.UnitsBelow(8) {
			t.Error("pods in a tree of priority 7 are below both 7 and 8, or neither")
		}
	}
}

// TestAuditFindsEachViolationOfTrees corrupts the lists of groups below each parent.
func TestAuditFindsEachViolationOfTrees(t *testing.T) {
	for _, row := range []struct {
		want    string
		corrupt func(c *composites)
	}{
		{"", func(*composites) {}},
		{"names parent root, and is not listed there", func(c *composites) { c.below = map[model.GroupKey]map[groupRef]struct{}{} }},
		{"2 groups are listed by their parents, recounted 1", func(c *composites) { c.list(groupRef{model.GroupKey{Namespace: "ns", Name: "x"}, true}, "", "root") }},
		{"is listed as a parent, and of nothing", func(c *composites) { c.below[model.GroupKey{}] = nil }},
		{"is listed as ns/root", func(c *composites) {
			c.objects[model.GroupKey{Namespace: "ns", Name: "root"}] = compositeGroup("ns", "other", "")
		}},
	} {
		s := New()
		s.Apply([]model.Change{compiled(compositeGroup("ns", "root", "")), compiled(leafGroup("g", "root"))})
		row.corrupt(&s.composites)
		if err := s.Audit(); (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}
