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

// selectorWorld is services and controllers, from which a selector is computed by looking at all of them.
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

// TestDefaultSelectors changes services and controllers at random. Each pod's selector must be the one that follows from all of them, and a version
// that is said to be the same must have the same selector.
func TestDefaultSelectors(t *testing.T) {
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
			owner := [][2]string{{"", ""}, {"v1", "ReplicationController"}, {"apps/v1", "ReplicaSet"}, {"batch/v1", "Job"}, {"other/v1", "ReplicaSet"}}[r.IntN(5)]
			pods = append(pods, podOf(namespace(), some(4), owner[0], owner[1], fmt.Sprint("c", r.IntN(3))))
		}
		seen, same := make([]known, len(pods)), 0
		for range 300 {
			kind := []model.Kind{model.ServiceKind, model.ServiceKind, model.ReplicationControllerKind, model.ReplicaSetKind}[r.IntN(4)]
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

// crowded is a state with services in one namespace. All select two labels that every pod has, one of which comes first and one last by name, and an
// app.
func crowded(services int) *State {
	s := New()
	for i := range services {
		s.Apply([]model.Change{serviceOf("ns", fmt.Sprint("s", i), map[string]string{"all": "x", "app": fmt.Sprint(i), "tier": "x"})})
	}
	return s
}

// TestFewServicesAreAsked counts the services that are matched against a pod, beside 5,000 in its namespace.
func TestFewServicesAreAsked(t *testing.T) {
	s := crowded(5000)
	pod := podOf("ns", map[string]string{"all": "x", "app": "17", "tier": "x"}, "apps/v1", "ReplicaSet", "web")
	if got := s.DefaultSelector(pod).String(); got != "all=x,app=17,tier=x" {
		t.Errorf("the selector is %s", got)
	}
	if asked := s.ServicesAsked(); asked > 4 {
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

// TestNoiseChangesNoSelector changes services and controllers in what has no say in a pod's default selector.
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
