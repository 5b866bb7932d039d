package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// journal is a sink that records its calls.
type journal struct{ calls []string }

func (j *journal) Set(o kinds.Object) {
	ref, _ := kinds.RefOf(o)
	j.calls = append(j.calls, fmt.Sprintf("set %s %s/%s", words(ref), o.GetUID(), o.GetResourceVersion()))
}
func (j *journal) Remove(ref model.Ref) { j.calls = append(j.calls, "gone "+words(ref)) }

// TestObjectsAreHandedOn delivers all kinds of informer events, and compares the sink's
// calls and the number of objects.
func TestObjectsAreHandedOn(t *testing.T) {
	version := func(uid string, n int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: "o", UID: types.UID(uid), ResourceVersion: fmt.Sprint(n)}
	}
	pod := func(uid string, n int, scheduler, nodeName string) *v1.Pod {
		return &v1.Pod{ObjectMeta: version(uid, n), Spec: v1.PodSpec{SchedulerName: scheduler, NodeName: nodeName}}
	}
	node := func(uid string, n int) *v1.Node { return &v1.Node{ObjectMeta: version(uid, n)} }
	set := func(uid string, n int, app string) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: version(uid, n), Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	}
	type handler = cache.ResourceEventHandler
	add := func(o any) func(handler) { return func(h handler) { h.OnAdd(o, false) } }
	first := func(o any) func(handler) { return func(h handler) { h.OnAdd(o, true) } }
	update := func(old, newer any) func(handler) { return func(h handler) { h.OnUpdate(old, newer) } }
	gone := func(o any) func(handler) { return func(h handler) { h.OnDelete(o) } }
	missed := func(key string, o any) func(handler) {
		return gone(cache.DeletedFinalStateUnknown{Key: key, Obj: o})
	}
	for _, test := range []struct {
		name     string
		kind     model.Kind
		delivers func(handler)
		want     string
		count    int
	}{
		{"a first list", model.PodKind, first(pod("u", 1, "s", "")), "set pods ns/o u/1", 1},
		{"an addition", model.PodKind, add(pod("u", 1, "s", "")), "set pods ns/o u/1", 1},
		{"a version", model.PodKind, update(pod("u", 1, "s", ""), pod("u", 2, "s", "")), "set pods ns/o u/2", 0},
		{"the same version, listed again", model.PodKind, update(pod("u", 2, "s", "a"), pod("u", 2, "s", "a")), "", 0},
		{"another UID", model.PodKind, update(pod("u", 1, "s", ""), pod("v", 2, "s", "")), "gone pods ns/o, set pods ns/o v/2", 0},
		{"another UID in the same version", model.PodKind, update(pod("u", 1, "s", ""), pod("v", 1, "s", "")), "gone pods ns/o, set pods ns/o v/1", 0},
		{"a pod that is bound", model.PodKind, update(pod("u", 1, "s", ""), pod("u", 2, "s", "a")), "set pods ns/o u/2", 0},
		{"a pod that has left its node", model.PodKind, update(pod("u", 1, "s", "a"), pod("u", 2, "s", "")), "gone pods ns/o, set pods ns/o u/2", 0},
		{"a pod of another scheduler", model.PodKind, update(pod("u", 1, "s", ""), pod("u", 2, "t", "")), "gone pods ns/o, set pods ns/o u/2", 0},
		{"a deletion", model.PodKind, gone(pod("u", 2, "s", "")), "gone pods ns/o", -1},
		{"a deletion that was missed", model.PodKind, missed("ns/o", pod("u", 1, "s", "")), "gone pods ns/o", -1},
		{"a deletion that was missed, of which the key is known", model.PodKind, missed("ns/o", nil), "gone pods ns/o", -1},
		{"the same without a namespace", model.NodeKind, missed("o", nil), "gone nodes /o", -1},
		{"a deletion that was missed, with a key that is none", model.NodeKind, missed("a/b/c", nil), "", -1},
		{"the end of something else", model.PodKind, gone("ns/o"), "", -1},
		{"a node", model.NodeKind, add(node("u", 1)), "set nodes /o u/1", 1},
		{"a version of a node", model.NodeKind, update(node("u", 1), node("u", 2)), "set nodes /o u/2", 0},
		{"another node", model.NodeKind, update(node("u", 1), node("v", 2)), "gone nodes /o, set nodes /o v/2", 0},
		{"a version with nothing new to scheduling", model.ReplicaSetKind, update(set("u", 1, "x"), set("u", 2, "x")), "", 0},
		{"a version with another selector", model.ReplicaSetKind, update(set("u", 1, "x"), set("u", 2, "y")), "set replicasets ns/o u/2", 0},
		{"another ReplicaSet with nothing new to scheduling", model.ReplicaSetKind, update(set("u", 1, "x"), set("v", 2, "x")),
			"gone replicasets ns/o, set replicasets ns/o v/2", 0},
	} {
		var sink journal
		h := NewHandler(test.kind, &sink)
		test.delivers(h)
		if got := strings.Join(sink.calls, ", "); got != test.want || h.Count() != test.count {
			t.Errorf("%s: the sink was called with %q, and the count is %d; want %q and %d", test.name, got, h.Count(), test.want, test.count)
		}
	}
}

// TestHeld decodes objects again that an informer holds. It keeps the held object unless
// the new one differs.
func TestHeld(t *testing.T) {
	row := kinds.Get(model.NodeKind)
	version := func(uid string, n int) *v1.Node {
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: types.UID(uid), ResourceVersion: fmt.Sprint(n)}}
	}
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	known := version("u", 1)
	if got, err := Held(row, store, known); err != nil || got != any(known) {
		t.Errorf("of an object that is new %v is held, error %v", got, err)
	}
	if err := store.Add(known); err != nil {
		t.Fatal(err)
	}
	for what, again := range map[string]*v1.Node{"same version": version("u", 1), "newer version": version("u", 2), "other object": version("v", 1)} {
		want := again
		if what == "same version" {
			want = known
		}
		if got, err := Held(row, store, again); err != nil || got != any(want) {
			t.Errorf("of the %s %p is held, error %v; want %p", what, got, err, want)
		}
	}
	broken := cache.NewStore(func(any) (string, error) { return "", errors.New("no key") })
	if _, err := Held(row, broken, known); err == nil || !strings.Contains(err.Error(), "no key") {
		t.Errorf("an object without a key: error %v", err)
	}
}
