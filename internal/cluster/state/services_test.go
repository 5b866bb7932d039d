package state

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func objectSet(kind model.Kind, namespace, name string, object runtime.Object) model.Change {
	return model.Change{Kind: model.ObjectSet, Ref: model.Ref{Kind: kind, Namespace: namespace, Name: name}, Object: object}
}

func serviceOf(namespace, name string, selector map[string]string) model.Change {
	return objectSet(model.ServiceKind, namespace, name, &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1.ServiceSpec{Selector: selector},
	})
}

func replicaSet(namespace, name string, selector map[string]string) model.Change {
	o := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if selector != nil {
		o.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
	}
	return objectSet(model.ReplicaSetKind, namespace, name, o)
}

// podOf is a pod with labels, and with an owner of a kind unless that is empty.
func podOf(namespace string, of map[string]string, version, kind, owner string) *model.Pod {
	o := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", Labels: of}}
	if yes := true; kind != "" {
		o.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner, Controller: &yes}}
	}
	return model.NewPod(o)
}

// selectorWorld is services and controllers, from which a selector is computed by
// checking all of them.
type selectorWorld struct {
	services    map[model.Ref]map[string]string
	controllers map[model.Ref]runtime.Object
}

func (w *selectorWorld) selector(pod *model.Pod) string {
	merged := labels.Set{}
	refs := slices.SortedFunc(maps.Keys(w.services), func(a, b model.Ref) int { return cmp.Compare(a.Name, b.Name) })
	for _, ref := range refs {
		selector := w.services[ref]
		if ref.Namespace == pod.Namespace && selector != nil && labels.SelectorFromSet(selector).Matches(pod.Labels) {
			maps.Copy(merged, selector)
		}
	}
	var more *metav1.LabelSelector
	if owner := metav1.GetControllerOfNoCopy(pod.Object); owner != nil {
		for ref, c := range w.controllers {
			if ref.Namespace != pod.Namespace || ref.Name != owner.Name {
				continue
			}
			switch o := c.(type) {
			case *v1.ReplicationController:
				if owner.APIVersion+owner.Kind == "v1ReplicationController" {
					maps.Copy(merged, o.Spec.Selector)
				}
			case *appsv1.ReplicaSet:
				if owner.APIVersion+owner.Kind == "apps/v1ReplicaSet" {
					more = o.Spec.Selector
				}
			case *appsv1.StatefulSet:
				if owner.APIVersion+owner.Kind == "apps/v1StatefulSet" {
					more = o.Spec.Selector
				}
			}
		}
	}
	selector := labels.NewSelector()
	if len(merged) > 0 {
		selector = labels.SelectorFromSet(merged)
	}
	if more != nil {
		parsed, _ := metav1.LabelSelectorAsSelector(more)
		requirements, _ := parsed.Requirements()
		selector = selector.Add(requirements...)
	}
	return selector.String()
}

// TestDefaultSelectors changes services and controllers at random. Each pod's selector
// must equal the selector computed from all of them. A version that is reported as the
// same must have the same selector.
func TestDefaultSelectors(t *testing.T) {
	build.NotRaced(t)
	type known struct {
		version  SelectorVersion
		selector string
	}
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, world := New(), selectorWorld{map[model.Ref]map[string]string{}, map[model.Ref]runtime.Object{}}
		some := func(most int) map[string]string {
			set := map[string]string{}
			for range r.IntN(most + 1) {
				set[fmt.Sprint("k", r.IntN(4))] = fmt.Sprint(r.IntN(3))
			}
			return set
		}
		namespace := func() string { return fmt.Sprint("ns-", r.IntN(2)) }
		var pods []*model.Pod
		for range 20 {
			owner := [][2]string{
				{"", ""}, {"v1", "ReplicationController"}, {"apps/v1", "ReplicaSet"}, {"apps/v1", "StatefulSet"}, {"batch/v1", "Job"},
				{"other/v1", "ReplicationController"}, {"other/v1", "ReplicaSet"}, {"other/v1", "StatefulSet"}, {"v1", "Node"}, {"apps/v1", "DaemonSet"},
			}[r.IntN(10)]
			pods = append(pods, podOf(namespace(), some(4), owner[0], owner[1], fmt.Sprint("c", r.IntN(3))))
		}
		seen, same := make([]known, len(pods)), 0
		for range 300 {
			kind := []model.Kind{model.ServiceKind, model.ServiceKind, model.ReplicationControllerKind, model.ReplicaSetKind, model.StatefulSetKind}[r.IntN(5)]
			ref := model.Ref{Kind: kind, Namespace: namespace(), Name: fmt.Sprint("c", r.IntN(3))}
			set := some(2)
			if r.IntN(8) == 0 {
				set = nil
			}
			change := model.Change{Kind: model.ObjectGone, Ref: ref}
			switch gone := r.IntN(4) == 0; {
			case gone:
				delete(world.services, ref)
				delete(world.controllers, ref)
			case kind == model.ServiceKind:
				ref.Name = fmt.Sprint("s", r.IntN(8))
				change = serviceOf(ref.Namespace, ref.Name, set)
				world.services[ref] = set
			case kind == model.ReplicaSetKind:
				change = replicaSet(ref.Namespace, ref.Name, set)
				world.controllers[ref] = change.Object
			case kind == model.StatefulSetKind:
				stateful := &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: replicaSet("", "", set).Object.(*appsv1.ReplicaSet).Spec.Selector}}
				change = objectSet(kind, ref.Namespace, ref.Name, stateful)
				world.controllers[ref] = stateful
			default:
				rc := &v1.ReplicationController{Spec: v1.ReplicationControllerSpec{Selector: set}}
				change = objectSet(kind, ref.Namespace, ref.Name, rc)
				world.controllers[ref] = rc
			}
			s.Apply([]model.Change{change})
			audited(t, s)
			for i, pod := range pods {
				if r.IntN(3) == 0 {
					continue // it looks again later
				}
				want := world.selector(pod)
				if got := s.DefaultSelector(pod).String(); got != want {
					t.Fatalf("seed %d: the selector of %v is %q, want %q", seed, pod.Labels, got, want)
				}
				now, isSame := s.DefaultSelectorVersion(pod, seen[i].version)
				if isSame {
					same++
					if want != seen[i].selector {
						t.Fatalf("seed %d: the selector of %v was %q, is %q, and is said to be the same", seed, pod.Labels, seen[i].selector, want)
					}
				}
				seen[i] = known{now, want}
			}
		}
		if same == 0 {
			t.Errorf("seed %d: no version is ever the same", seed)
		}
	}
}

// crowded is a state with services in one namespace. All select an app and two labels
// that every pod has, one first and one last by name.
func crowded(services int) *State {
	s := New()
	for i := range services {
		s.Apply([]model.Change{serviceOf("ns", fmt.Sprint("s", i), map[string]string{"all": "x", "app": fmt.Sprint(i), "tier": "x"})})
	}
	return s
}

// TestFewServicesAreAsked counts the services that are matched against a pod, beside
// 5,000 in its namespace.
func TestFewServicesAreAsked(t *testing.T) {
	s := crowded(5000)
	pod := podOf("ns", map[string]string{"all": "x", "app": "17", "tier": "x"}, "apps/v1", "ReplicaSet", "web")
	if got := s.DefaultSelector(pod).String(); got != "all=x,app=17,tier=x" {
		t.Errorf("the selector is %s", got)
	}
	if asked := s.ServicesAsked(); asked > 4 || asked == 0 {
		t.Errorf("%d services were matched against a pod that one selects", asked)
	}
	for i := range 5000 { // many services with one selector are one
		s.Apply([]model.Change{serviceOf("ns", fmt.Sprint("twin", i), map[string]string{"app": "17"})})
	}
	before := s.ServicesAsked()
	s.DefaultSelector(pod)
	if asked := s.ServicesAsked() - before; asked > 5 {
		t.Errorf("%d services were matched against a pod that has two kinds of them", asked)
	}
	for i := range 5000 {
		s.Apply([]model.Change{
			{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: fmt.Sprint("twin", i)}},
			{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: fmt.Sprint("s", i)}},
		})
	}
	if x := &s.selectorSources.services; len(x.byName)+len(x.bySet)+len(x.byLabel) != 0 {
		t.Errorf("%d services, %d selectors and %d labels are left", len(x.byName), len(x.bySet), len(x.byLabel))
	}
}

// TestServicesAreListedUnderRareLabels adds selectors with several labels: each is listed
// under the label with the fewest selectors at that time.
func TestServicesAreListedUnderRareLabels(t *testing.T) {
	x := newServices()
	for i, row := range []struct{ selector, under string }{
		{"all=x", "all"}, {"all=x app=1", "app"}, {"all=x app=1 tier=x", "tier"}, {"all=x zone=z", "zone"}, {"all=y app=1", "all"}, {"app=2 tier=x", "app"},
	} {
		ref := model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: fmt.Sprint(i)}
		x.set(ref, build.LabelSet(row.selector), uint64(i))
		if under := x.byName[ref].under; under.Key != row.under || under.namespace != "ns" {
			t.Errorf("%s is listed under %+v, want %s", row.selector, under, row.under)
		}
	}
}

// TestVersionOfTheSources changes services and controllers. A change of no selector
// leaves the version of all as it is, so that remembered verdicts remain valid.
func TestVersionOfTheSources(t *testing.T) {
	s := New()
	gone := func(kind model.Kind, name string) model.Change {
		return model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: kind, Namespace: "ns", Name: name}}
	}
	rc := func(name string, set map[string]string) model.Change {
		return objectSet(model.ReplicationControllerKind, "ns", name, &v1.ReplicationController{Spec: v1.ReplicationControllerSpec{Selector: set}})
	}
	web, db := map[string]string{"app": "web"}, map[string]string{"app": "db"}
	for i, step := range []struct {
		change  model.Change
		changes bool
	}{
		{serviceOf("ns", "a", web), true},
		{serviceOf("ns", "a", web), false},
		{serviceOf("ns", "b", web), false}, // another one has it
		{serviceOf("ns", "c", nil), false},
		{serviceOf("ns", "b", db), true},
		{gone(model.ServiceKind, "b"), true},
		{gone(model.ServiceKind, "b"), false},
		{serviceOf("ns", "b", web), false},
		{gone(model.ServiceKind, "a"), false}, // another one has it still
		{gone(model.ServiceKind, "b"), true},
		{replicaSet("ns", "r", web), true},
		{replicaSet("ns", "r", web), false},
		{replicaSet("ns", "r", db), true},
		{replicaSet("ns", "r", nil), true},
		{replicaSet("ns", "r", nil), false},
		{gone(model.ReplicaSetKind, "r"), false},
		{rc("r", web), true},
		{rc("r", web), false},
		{rc("r", db), true},
		{gone(model.ReplicationControllerKind, "r"), true},
		{gone(model.ReplicationControllerKind, "r"), false},
		{rc("r", nil), false},
	} {
		before := s.View().Versions().DefaultSelectors
		s.Apply([]model.Change{step.change})
		if after := s.View().Versions().DefaultSelectors; (after != before) != step.changes {
			t.Errorf("step %d: the version went from %d to %d", i, before, after)
		}
		audited(t, s)
	}
}

// TestSelectorVersions reads the version of a pod without services and controllers: the
// first result never equals the zero value, later ones are equal.
func TestSelectorVersions(t *testing.T) {
	s := New()
	pod := podOf("ns", map[string]string{"app": "web"}, "", "", "")
	var version SelectorVersion
	for i := range 4 {
		if _, same := s.DefaultSelectorVersion(pod, SelectorVersion{}); same {
			t.Errorf("after %d changes: the version of no pod is the same", i)
		}
		now, same := s.DefaultSelectorVersion(pod, version)
		if same != (i > 0) {
			t.Errorf("after %d changes that do not concern the pod: same: %t", i, same)
		}
		version = now
		s.Apply([]model.Change{serviceOf("ns", fmt.Sprint(i), map[string]string{"app": fmt.Sprint(i)})})
	}
}

// TestControllersOfPods reads the selectors of pods whose controllers differ in one
// field.
func TestControllersOfPods(t *testing.T) {
	s := New()
	newer := replicaSet("ns", "web", map[string]string{"app": "web"})
	broken := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
	s.Apply([]model.Change{
		replicaSet("ns", "web", map[string]string{"app": "web"}), newer,
		objectSet(model.StatefulSetKind, "ns", "web", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"set": "yes"}}}}),
		objectSet(model.ReplicaSetKind, "ns", "broken", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: broken}}),
		objectSet(model.ReplicationControllerKind, "ns", "web", &v1.ReplicationController{Spec: v1.ReplicationControllerSpec{Selector: map[string]string{"rc": "yes"}}}),
		serviceOf("ns", "all", map[string]string{"x": "y"}),
	})
	for _, row := range []struct{ namespace, version, kind, owner, want string }{
		{"ns", "apps/v1", "ReplicaSet", "web", "app=web,x=y"},
		{"ns", "apps/v1", "StatefulSet", "web", "set=yes,x=y"},
		{"ns", "v1", "ReplicationController", "web", "rc=yes,x=y"},
		{"ns", "apps/v1", "ReplicaSet", "broken", "x=y"},
		{"ns", "apps/v1", "Deployment", "web", "x=y"},
		{"ns", "v1", "ReplicaSet", "web", "x=y"},
		{"ns", "v1", "Pod", "web", "x=y"},
		{"ns", "apps/v1", "ReplicationController", "web", "x=y"},
		{"ns", "apps/v1beta1", "StatefulSet", "web", "x=y"},
		{"ns", "apps/v1", "ReplicaSet", "other", "x=y"},
		{"other", "apps/v1", "ReplicaSet", "web", ""},
		{"ns", "", "", "", "x=y"},
	} {
		pod := podOf(row.namespace, map[string]string{"x": "y"}, row.version, row.kind, row.owner)
		if got := s.DefaultSelector(pod).String(); got != row.want {
			t.Errorf("%+v: the selector is %q", row, got)
		}
	}
	// Otherwise the selector of an object that an equal one has replaced would be kept
	// twice.
	have := s.selectorSources.controllers[model.Ref{Kind: model.ReplicaSetKind, Namespace: "ns", Name: "web"}]
	if have.selector != newer.Object.(*appsv1.ReplicaSet).Spec.Selector {
		t.Error("the selector is that of an object that was replaced")
	}
}

// TestNoiseChangesNoSelector changes services and controllers in fields that do not
// affect a pod's default selector.
func TestNoiseChangesNoSelector(t *testing.T) {
	s := crowded(10)
	s.Apply([]model.Change{replicaSet("ns", "web", map[string]string{"app": "1"})})
	pod := podOf("ns", map[string]string{"app": "1", "tier": "x"}, "apps/v1", "ReplicaSet", "web")
	version, _ := s.DefaultSelectorVersion(pod, SelectorVersion{})
	for _, row := range []struct {
		name   string
		change model.Change
		same   bool
	}{
		{"another version of the controller", replicaSet("ns", "web", map[string]string{"app": "1"}), true},
		{"another controller", replicaSet("ns", "db", map[string]string{"app": "1"}), true},
		{"that of another namespace", replicaSet("other", "web", map[string]string{"app": "1"}), true},
		{"a service of another app", serviceOf("ns", "new", map[string]string{"app": "other"}), true},
		{"a service of another namespace", serviceOf("other", "new", map[string]string{"app": "1"}), true},
		{"another version of the pod's service", serviceOf("ns", "s1", map[string]string{"all": "x", "app": "1", "tier": "x"}), true},
		{"a service with a selector that another one has", serviceOf("ns", "twin", map[string]string{"all": "x", "app": "1", "tier": "x"}), true},
		{"a service without a selector", serviceOf("ns", "headless", nil), true},
		{"the controller selects something else", replicaSet("ns", "web", map[string]string{"app": "2"}), false},
		{"the controller is gone", model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.ReplicaSetKind, Namespace: "ns", Name: "web"}}, false},
		{"a service of the app", serviceOf("ns", "more", map[string]string{"app": "1"}), false},
	} {
		s.Apply([]model.Change{row.change})
		now, same := s.DefaultSelectorVersion(pod, version)
		if version = now; same != row.same {
			t.Errorf("%s: the selector is the same: %t, want %t", row.name, same, row.same)
		}
	}
}
