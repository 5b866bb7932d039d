package devices

import (
	"fmt"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// classOf returns a class created at a time, in seconds, that chooses the name of an
// extended resource. An empty resource sets none.
func classOf(name, resource string, created int64) *model.DeviceClass {
	c := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(created, 0))}}
	if resource != "" {
		c.Spec.ExtendedResourceName = &resource
	}
	return model.NewDeviceClass(c)
}

// sound audits a store without nodes.
func sound(t *testing.T, s *Store) {
	t.Helper()
	var v audit.Violations
	s.Audit(&v, nil, func(model.Ref, model.PodKey, plan.Held) bool { return true })
	if err := v.Err(); err != nil {
		t.Fatal(err)
	}
}

// If classes choose the same name, the youngest provides it, then the first by name. A
// class also provides the name that its own name implies.
func TestClassFor(t *testing.T) {
	s := New(func(int32, model.Aspect) {})
	stands := func(resource string) string {
		if c := s.ClassFor(model.ResourceNameOf(resource)); c != nil {
			return c.Name
		}
		return ""
	}
	if s.HasClasses() {
		t.Error("an empty store has classes")
	}
	for i, step := range []struct {
		set      *model.DeviceClass
		removed  string
		gpu, tpu string
	}{
		{set: classOf("b", "x.com/gpu", 5), gpu: "b"},
		{set: classOf("c", "x.com/gpu", 5), gpu: "b"},
		{set: classOf("a", "x.com/gpu", 4), gpu: "b"},
		{removed: "a", gpu: "b"}, // the older classes may go first, as after a migration
		{set: classOf("a", "x.com/gpu", 4), gpu: "b"},
		{set: classOf("d", "x.com/gpu", 6), gpu: "d"},
		{set: classOf("d", "x.com/tpu", 6), gpu: "b", tpu: "d"},
		{set: classOf("b", "", 5), gpu: "c", tpu: "d"},
		{removed: "c", gpu: "a", tpu: "d"},
		{removed: "d", gpu: "a"},
		{removed: "a"},
	} {
		if step.set != nil {
			s.Set(step.set)
			if got := stands("deviceclass.resource.kubernetes.io/" + step.set.Name); got != step.set.Name {
				t.Errorf("step %d: %q stands for the name that is implied by class %q", i, got, step.set.Name)
			}
		} else {
			s.Remove(model.Ref{Kind: model.DeviceClassKind, Name: step.removed})
		}
		if gpu, tpu := stands("x.com/gpu"), stands("x.com/tpu"); gpu != step.gpu || tpu != step.tpu {
			t.Errorf("step %d: %q stands for gpus and %q for tpus, want %q and %q", i, gpu, tpu, step.gpu, step.tpu)
		}
		if !s.HasClasses() || stands("deviceclass.resource.kubernetes.io/none") != "" {
			t.Errorf("step %d: classes: %t", i, s.HasClasses())
		}
		sound(t, s)
	}
	if len(s.standIns) != 0 {
		t.Errorf("%d resources are remembered", len(s.standIns))
	}
}

// madeClaim returns a claim created for extended resources of the pod with a UID.
func madeClaim(name string, pod types.UID) *model.ResourceClaim {
	return model.NewResourceClaim(&resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "p", UID: "another"}, {Kind: "Pod", Name: "p", UID: pod, Controller: ptr.To(true)}},
	}})
}

// The claim created for a pod is found by the pod, the first by name if several exist,
// and only while it belongs to the pod.
func TestMadeFor(t *testing.T) {
	s := New(func(int32, model.Aspect) {})
	made := func() string {
		var names []string
		for _, pod := range []types.UID{"one", "two"} {
			name := "-"
			if c := s.MadeFor(pod); c != nil {
				name = c.Key.Name
			}
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	remove := func(name string) func() {
		return func() { s.Remove(model.ClaimKey{Namespace: "ns", Name: name}.DeviceRef()) }
	}
	set := func(c *model.ResourceClaim) func() { return func() { s.Set(c) } }
	for i, step := range []struct {
		do   func()
		want string
	}{
		{set(claimOf("other", "o")), "- -"},
		{set(madeClaim("b", "one")), "b -"},
		{set(madeClaim("b", "one")), "b -"},
		{set(madeClaim("a", "one")), "a -"},
		{set(madeClaim("c", "one")), "a -"},
		{set(madeClaim("a", "two")), "b a"},
		{remove("b"), "c a"},
		{set(claimOf("c", "c")), "- a"},
		{remove("a"), "- -"},
	} {
		step.do()
		if got := made(); got != step.want {
			t.Errorf("step %d: pods have the claims %s, want %s", i, got, step.want)
		}
		sound(t, s)
	}
	if len(s.made) != 0 {
		t.Errorf("%d pods are remembered", len(s.made))
	}
}

// Objects are found by kind and name, and counted.
func TestObjectsOfDevices(t *testing.T) {
	s := New(func(int32, model.Aspect) {})
	objects := []model.Compiled{claimOf("x", "u", "p/d0"), slice("x", "*", "p", 1, "d0"), classOf("x", "", 0), rule("x", nil, nil)}
	for i, o := range objects {
		for _, other := range objects[i:] {
			if got := s.Get(other.Ref()); got != nil {
				t.Errorf("%v is there before it is set: %v", other.Ref(), got)
			}
		}
		if before := s.Set(o); before != nil {
			t.Errorf("%v was %v before", o.Ref(), before)
		}
		if got := s.Get(o.Ref()); got != o {
			t.Errorf("%v is %v", o.Ref(), got)
		}
		if before := s.Set(o); before != o {
			t.Errorf("%v was %v before it was set again", o.Ref(), before)
		}
	}
	if got, want := fmt.Sprintf("%+v", s.Sizes()), "{Claims:1 Classes:1 Slices:1 Rules:1 Pools:1 Wide:1 Nodes:0 Used:1 Withdrawn:0 Alike:0}"; got != want {
		t.Errorf("kept are %s, want %s", got, want)
	}
	s.Set(claimOf("x", "u", "p/d0#s1"))
	if used := s.Sizes().Used; used != 1 {
		t.Errorf("%d devices are used, want a share", used)
	}
	sound(t, s)
	for _, o := range objects {
		if last := s.Remove(o.Ref()); last == nil {
			t.Errorf("%v was not there", o.Ref())
		}
		if got := s.Get(o.Ref()); got != nil {
			t.Errorf("%v is there after it is removed", o.Ref())
		}
	}
	s.Shrink()
	if got := s.Sizes(); got != (Sizes{}) {
		t.Errorf("kept are %+v", got)
	}
	sound(t, s)
}
