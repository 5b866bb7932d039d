package simulate_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestFaultsOfTrees is TestFaultsOfGroups with some groups in composite groups, which are
// created and deleted, too. The groups of a tree are decided about together, and no
// decision leaves a tree half started.
func TestFaultsOfTrees(t *testing.T) {
	countTrials(t, func(n uint64) ([]map[string]int, error) {
		trial, err := runGroupFaults(n, true)
		return trial.counts(), err
	}, []string{
		"tree placed", "tree placed in part", "tree rejected", "tree of several groups placed", "composite deleted", "composite created", "group placed", "group rejected", "pod gated", "group deleted",
		"tree preempts", "group preempts a whole tree", "condition True", "condition Unschedulable", "killed while binding",
	})
}

// compositesOfTrial are the composite groups by name, with their parents: a gang of two
// gangs of high priority, and a tree of three levels in which one group is enough.
var compositesOfTrial = map[string]string{"pair": "", "any": "", "middle": "any"}

// parents are the parents of the groups; the last two have none.
var parents = [groupsOfTrial]string{"any", "pair", "pair", "middle", "", ""}

func (t *groupTrial) isInTree(i int) bool { return t.trees && parents[i] != "" }

func (t *groupTrial) setParent(g *schedulingv1beta1.PodGroup, i int) {
	if t.isInTree(i) {
		g.Spec.ParentCompositePodGroupName = new(parents[i])
	}
}

func compositeRef(name string) model.Ref {
	return model.Ref{Kind: model.CompositePodGroupKind, Namespace: "default", Name: name}
}

// setComposites creates the composite groups that are missing.
func (t *groupTrial) setComposites() {
	if !t.trees {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(compositesOfTrial)) {
		if t.c.Object(compositeRef(name)) != nil {
			continue
		}
		g := &schedulingv1alpha3.CompositePodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		g.Spec.SchedulingPolicy.Basic = &schedulingv1alpha3.CompositeBasicSchedulingPolicy{}
		if parent := compositesOfTrial[name]; parent != "" {
			g.Spec.ParentCompositePodGroupName = &parent
			g.Spec.DisruptionMode = &schedulingv1alpha3.CompositeDisruptionMode{All: &schedulingv1alpha3.AllCompositeDisruptionMode{}}
		}
		if name == "pair" {
			g.Spec.Priority = new(priorityOf(1))
			g.Spec.SchedulingPolicy = schedulingv1alpha3.CompositePodGroupSchedulingPolicy{Gang: &schedulingv1alpha3.CompositeGangSchedulingPolicy{MinGroupCount: 2}}
		}
		_ = t.c.SetObject(g)
	}
}

// disturbComposite deletes a composite group, or creates those that are missing.
func (t *groupTrial) disturbComposite() string {
	for _, name := range slices.Sorted(maps.Keys(compositesOfTrial)) {
		if t.c.Object(compositeRef(name)) == nil {
			t.happened["composite created"]++
			t.setComposites()
			return "composites created"
		}
	}
	name := slices.Sorted(maps.Keys(compositesOfTrial))[t.r.IntN(len(compositesOfTrial))]
	t.c.DeleteObject(compositeRef(name))
	t.happened["composite deleted"]++
	return "composite deleted: " + name
}

// priorityIn returns the priority of a decision's group, or of the root of its tree.
func priorityIn(d *plan.Decision) int32 {
	if d.Tree != nil {
		return d.Tree.Composite.Priority
	}
	return d.Group.Priority
}

// checkTree checks the decisions about the groups of a tree. A group with placed members
// has enough of them, and so has each composite group above it.
func (t *groupTrial) checkTree(decisions []plan.Decision) error {
	tree, v := decisions[0].Tree, t.c.Loop().State().View()
	groups, outcomes, placedIn := map[model.GroupKey]bool{}, map[plan.Outcome]int{}, map[model.GroupKey]int{}
	for group := range tree.Leaves {
		groups[group.Key] = true
	}
	for i := range decisions {
		d := &decisions[i]
		if p := d.Pod; d.Tree != tree || !groups[p.Group] || d.Group.Key != p.Group {
			return fmt.Errorf("%s of group %s is decided about with the tree of %s", p, p.Group, tree.Key())
		}
		if err := t.checkEvictions(d); err != nil {
			return err
		}
		if len(d.Evictions) > 0 {
			t.happened["tree preempts"]++
		}
		if outcomes[d.Outcome]++; d.Outcome == plan.Placed {
			placedIn[d.Group.Key]++
		}
	}
	if len(placedIn) == 0 {
		t.happened["tree rejected"]++
		return nil
	}
	if t.happened["tree placed"]++; len(placedIn) > 1 {
		t.happened["tree of several groups placed"]++
	}
	if outcomes[plan.Unschedulable] > 0 {
		t.happened["tree placed in part"]++
	}
	var check func(at *model.GroupTree) (ready, touched bool, err error)
	check = func(at *model.GroupTree) (ready, touched bool, err error) {
		if at.Group != nil {
			ready, touched = v.GroupPlaced(at.Group.Key) >= at.Group.MinCount, placedIn[at.Group.Key] > 0
		} else {
			n := 0
			for _, below := range at.Below {
				isReady, isTouched, err := check(below)
				if err != nil {
					return false, false, err
				}
				if touched = touched || isTouched; isReady {
					n++
				}
			}
			ready = n >= at.Composite.MinGroupCount
		}
		if touched && !ready {
			return false, false, fmt.Errorf("of the tree of %s, members below %s are placed, which has too few of them: half started", tree.Key(), at.Key())
		}
		return ready, touched, nil
	}
	_, _, err := check(tree)
	return err
}

// checkTreeWaits checks that a group of a tree does not wait if all waiting pods would
// fit and its tree has enough members.
func (t *groupTrial) checkTreeWaits(g *schedulingv1beta1.PodGroup, waiting, running map[string]int, room int) error {
	all := 0
	for _, n := range waiting {
		all += n
	}
	key := model.GroupKey{Namespace: "default", Name: *g.Spec.ParentCompositePodGroupName}
	root, err := t.c.Loop().State().View().Root(model.NewPodGroup(g))
	if err != nil {
		return fmt.Errorf("group %s is below %s: %w", g.Name, key, err)
	}
	var isReady func(at *model.GroupTree) bool
	isReady = func(at *model.GroupTree) bool {
		if at.Group != nil {
			return waiting[at.Group.Key.Name]+running[at.Group.Key.Name] >= at.Group.MinCount
		}
		n := 0
		for _, below := range at.Below {
			if isReady(below) {
				n++
			}
		}
		return n >= at.Composite.MinGroupCount
	}
	own := isReady(model.TreeOf(model.NewPodGroup(g)))
	if own && waiting[g.Name] > 0 && room >= all && isReady(t.c.Loop().State().View().Tree(root.Key)) {
		return fmt.Errorf("%d members of group %s wait, and there is room for all %d pods that wait, %d", waiting[g.Name], g.Name, all, room)
	}
	return nil
}
