package dynamicresources

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// requesting returns a pod with containers that request resources, such as "c cpu=1
// example.com/gpu=2". Init containers have the name prefix "init-", sidecars "side-".
func requesting(name string, containers ...string) *model.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for _, text := range containers {
		container, requests, _ := strings.Cut(text, " ")
		c := v1.Container{Name: container, Resources: v1.ResourceRequirements{Requests: build.Resources(requests)}}
		switch {
		case strings.HasPrefix(container, "side-"):
			c.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case strings.HasPrefix(container, "init-"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return model.NewPod(p)
}

// byName returns a class whose devices are also requested as a resource that it names.
func byName(class, resource string, age time.Duration) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: class, CreationTimestamp: metav1.NewTime(turn.Add(-age))},
		Spec:       resourcev1.DeviceClassSpec{ExtendedResourceName: &resource},
	}
}

// Each long-lived container has a request of its own. An init container that ends before
// uses the requests of later containers.
func TestRequestsForExtendedResources(t *testing.T) {
	const gpu, nic = "example.com/gpu", "example.com/nic"
	for _, row := range []struct {
		name       string
		containers []string
		want       string // requests, then the containers' uses
	}{
		{"one container", []string{"c cpu=1 example.com/gpu=2 memory=1"}, "container-0-request-1=2; c:gpu:container-0-request-1"},
		{"not covered", []string{"init-0 example.com/gpu=3", "c example.com/gpu=2"}, "container-0-request-0=1 container-1-request-0=2; c:gpu:container-1-request-0 init-0:gpu:container-1-request-0 init-0:gpu:container-0-request-0"},
		{"covered", []string{"init-0 example.com/gpu=2", "c example.com/gpu=2"}, "container-1-request-0=2; c:gpu:container-1-request-0 init-0:gpu:container-1-request-0"},
		{"the first that is enough", []string{"init-0 example.com/gpu=1", "c example.com/gpu=1", "d example.com/gpu=1"}, "container-1-request-0=1 container-2-request-0=1; c:gpu:container-1-request-0 d:gpu:container-2-request-0 init-0:gpu:container-1-request-0"},
		{"none before it", []string{"side-0 example.com/gpu=1", "init-1 example.com/gpu=1"}, "container-0-request-0=1 container-1-request-0=1; side-0:gpu:container-0-request-0 init-1:gpu:container-1-request-0"},
		{"the largest", []string{"init-0 example.com/gpu=1", "init-1 example.com/gpu=3", "init-2 example.com/gpu=2"}, "container-1-request-0=3; init-0:gpu:container-1-request-0 init-1:gpu:container-1-request-0 init-2:gpu:container-1-request-0"},
		{"equally large", []string{"init-0 example.com/gpu=1", "init-1 example.com/gpu=1"}, "container-0-request-0=1; init-0:gpu:container-0-request-0 init-1:gpu:container-0-request-0"},
		{"two resources", []string{"c example.com/gpu=1 example.com/nic=2", "d example.com/nic=1"}, "container-0-request-0=1 container-0-request-1=2 container-1-request-0=1; c:gpu:container-0-request-0 c:nic:container-0-request-1 d:nic:container-1-request-0"},
		{"none of it", []string{"c example.com/gpu=0", "d example.com/gpu=1"}, "container-1-request-0=1; d:gpu:container-1-request-0"},
	} {
		requests, uses := requestsFor(requesting("p", row.containers...).Object, map[v1.ResourceName]string{gpu: "of-gpu", nic: "of-nic"})
		var got, used []string
		for _, r := range requests {
			got = append(got, fmt.Sprintf("%s=%d", r.request.Name, r.request.Exactly.Count))
			if want := "of-" + strings.TrimPrefix(string(r.resource), "example.com/"); r.request.Exactly.DeviceClassName != want || r.request.Exactly.AllocationMode != resourcev1.DeviceAllocationModeExactCount {
				t.Errorf("%s: request %+v is not for a number of devices of class %s", row.name, r.request.Exactly, want)
			}
		}
		for _, u := range uses {
			used = append(used, u.ContainerName+":"+strings.TrimPrefix(u.ResourceName, "example.com/")+":"+u.RequestName)
		}
		if got := strings.Join(got, " ") + "; " + strings.Join(used, " "); got != row.want {
			t.Errorf("%s:\n got %s\nwant %s", row.name, got, row.want)
		}
	}
}

// A node whose device plugin has a single device offers that device, and no devices of
// the class. NodeResourcesFit decides whether it suffices.
func TestFilterOfAnAlmostEmptyDevicePlugin(t *testing.T) {
	plugged := build.Node("b", func(n *v1.Node) { n.Status.Allocatable = build.Resources("pods=110 example.com/gpu=1") })
	w := newWorld(t, plugged, byName("gpu", "example.com/gpu", 0), slice("a", "d0", "d1"), slice("b", "d2"))
	if got := w.filter(t, requesting("p", "c example.com/gpu=2")); got != "a; b" {
		t.Errorf("%s; node b has one device of each kind, and must give its device plugin's", got)
	}
}

// Pods share a verdict if they request the same resources, whether or not devices provide
// them.
func TestNeedsOfExtendedResources(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), byName("nic", "example.com/nic", 0))
	textOf := func(requests string) string {
		found, err := w.plugin.FilterNeedIn(w.View(), requesting("p", "c "+requests))
		need, rejection := found.Need, found.Rejection
		if err != nil || rejection != "" || need == nil {
			t.Fatal(need, rejection, err)
		}
		return string(need.AppendText(nil))
	}
	const one = "example.com/gpu=1 example.com/other=1"
	for requests, same := range map[string]bool{
		// The amount of a resource without a class is not this plugin's concern.
		one: true, "example.com/gpu=1 example.com/other=3": true,
		"example.com/gpu=1 example.com/another=1": false, "example.com/gpu=1": false, "example.com/gpu=2 example.com/other=1": false, "example.com/nic=1 example.com/other=1": false,
	} {
		if got := textOf(requests) == textOf(one); got != same {
			t.Errorf("%s and %s: equal needs: %t, want %t", one, requests, got, same)
		}
	}
}

// If a class provides a resource, a node offers devices if its device plugins offer none.
func TestFilterOfExtendedResources(t *testing.T) {
	const implied = "deviceclass.resource.kubernetes.io/gpu"
	plugged := build.Node("b", func(n *v1.Node) { n.Status.Allocatable = build.Resources("pods=110 example.com/gpu=4") })
	for _, row := range []struct {
		name string
		pod  *model.Pod
		want string
	}{
		{"as the class names it", requesting("p", "c example.com/gpu=2"), "a: cannot allocate all claims; b"},
		{"as its name implies", requesting("p", "c "+implied+"=2"), "a: cannot allocate all claims; b"},
		{"from the device plugin", requesting("p", "c example.com/gpu=4"), "a: cannot allocate all claims; b"},
		{"one device", requesting("p", "c example.com/gpu=1"), "a; b"},
		{"of no class", requesting("p", "c example.com/other=1"), "any"},
		{"none", requesting("p", "c example.com/gpu=0"), "any"},
		{"and one of no class", requesting("p", "c example.com/gpu=1 example.com/other=1"), "a: cannot fit resource; b: cannot fit resource"},
		{"and nothing of one that no node has", requesting("p", "c example.com/gpu=1 example.com/other=0"), "a; b"},
		{"init containers", requesting("p", "init-0 "+implied+"=2", "c cpu=1"), "a: cannot allocate all claims; b"},
		{"besides a claim", withClaim(requesting("p", "c "+implied+"=1"), "one"), "a: cannot allocate all claims; b: cannot allocate all claims"},
		{"devices for one, the device plugin for the other", requesting("p", "c example.com/gpu=4 "+implied+"=2"), "a: cannot allocate all claims; b"},
		{"from an earlier turn", requesting("old", "c example.com/gpu=1"), "a: cannot schedule extended resource claim; b: cannot schedule extended resource claim"},
	} {
		w := newWorld(t, plugged, byName("gpu", "example.com/gpu", 0), slice("a", "d0"), slice("b", "d1", "d2"), claim("one", 2), made("old"))
		if got := w.filter(t, row.pod); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func withClaim(p *model.Pod, claim string) *model.Pod {
	object := p.Object.DeepCopy()
	object.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "entry", ResourceClaimName: &claim}}
	return model.NewPod(object)
}

// made returns the claim created for a pod's extended resources.
func made(pod string) *resourcev1.ResourceClaim {
	return claim("made-for-"+pod, 1, func(c *resourcev1.ResourceClaim) {
		c.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod, UID: types.UID("uid-" + pod), Controller: ptr.To(true)}}
	})
}

// If classes name the same resource, the youngest provides it, then the first by name.
func TestClassForAResource(t *testing.T) {
	gpu := model.ResourceNameOf("example.com/gpu")
	w := newWorld(t)
	store := w.View().Devices()
	steps := []struct {
		do   func()
		want string
	}{
		{func() {}, ""},
		{func() { w.set(byName("old", "example.com/gpu", time.Hour)) }, "old"},
		{func() { w.set(byName("young", "example.com/gpu", 0)) }, "young"},
		{func() { w.set(byName("older", "example.com/gpu", 2*time.Hour)) }, "young"},
		{func() { w.set(byName("as-young", "example.com/gpu", 0)) }, "as-young"},
		{func() { w.set(byName("as-young", "example.com/nic", 0)) }, "young"},
		{func() {
			w.Apply([]model.Change{{Kind: model.ObjectGone, Ref: model.Ref{Kind: model.DeviceClassKind, Name: "young"}}})
		}, "old"},
	}
	for i, step := range steps {
		step.do()
		got := ""
		if c := store.ClassFor(gpu); c != nil {
			got = c.Name
		}
		if got != step.want {
			t.Errorf("step %d: class %q, want %q", i, got, step.want)
		}
	}
}

// The claim for extended resources is created, protected from deletion, allocated and
// reserved. The pod's status gets the containers' uses.
func TestClaimForExtendedResourcesIsMade(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), slice("a", "d0", "d1"))
	p := requesting("p", "init-0 example.com/gpu=1", "c cpu=1 example.com/gpu=2")
	placement, err := w.place(t, p, "a")
	if err != nil {
		t.Fatal(err)
	}
	if len(placement.Holds) != 1 || len(placement.Steps) != 4 {
		t.Fatalf("%d holds, %d steps", len(placement.Holds), len(placement.Steps))
	}
	create, name := placement.Steps[0].Write, placement.Holds[0].Object.Name
	if create.Type != types.ApplyYAMLPatchType || create.Name != name || !strings.HasPrefix(name, "p-extended-resources-") || len(name) != len("p-extended-resources-")+5 {
		t.Errorf("the claim %s is made by %+v", name, create)
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		t.Errorf("%q is no name: %v", name, problems)
	}
	c := &resourcev1.ResourceClaim{}
	if err := json.Unmarshal(create.Data, c); err != nil {
		t.Fatal(err)
	}
	if owner := metav1.GetControllerOf(c); owner == nil || owner.UID != p.UID || owner.APIVersion != "v1" || owner.Kind != "Pod" || owner.Name != "p" || !*owner.BlockOwnerDeletion || c.Annotations[resourcev1.ExtendedResourceClaimAnnotation] != "true" {
		t.Errorf("the claim has the owner %+v and annotations %v", owner, c.Annotations)
	}
	if got := c.Spec.Devices.Requests; len(got) != 1 || got[0].Name != "container-1-request-1" || got[0].Exactly.Count != 2 {
		t.Errorf("the claim requests %+v", got)
	}
	c.UID = "made"
	before := c.DeepCopy()
	for _, step := range placement.Steps[1:3] {
		if c, err = stored(t, c, step.Write); err != nil {
			t.Fatal(err)
		}
	}
	if got := describe(c); got != "has a-pool/d0 a-pool/d1 for p, kept" {
		t.Errorf("the claim %s", got)
	}
	if !placement.Steps[2].Write.Stored(c) || placement.Steps[2].Write.Stored(before) || !create.Stored(before) {
		t.Error("what is stored is not recognised")
	}
	foreign := before.DeepCopy()
	foreign.OwnerReferences[0].UID = "another"
	if _, err := stored(t, foreign, placement.Steps[2].Write); err == nil || create.Stored(foreign) {
		t.Error("a claim of another pod is given devices")
	}
	note := placement.Steps[3].Write
	if want := `{"metadata":{"uid":"uid-p"},"status":{"extendedResourceClaimStatus":{"requestMappings":[` +
		`{"containerName":"c","resourceName":"example.com/gpu","requestName":"container-1-request-1"},` +
		`{"containerName":"init-0","resourceName":"example.com/gpu","requestName":"container-1-request-1"}],"resourceClaimName":"` + name + `"}}}`; string(note.Data) != want ||
		note.Resource.Resource != "pods" || note.Name != "p" || note.Subresource != "status" {
		t.Errorf("the pod is told %s by %+v, want %s", note.Data, note, want)
	}
	if c, err = stored(t, c, placement.Steps[1].Undo); err != nil || len(c.Finalizers) > 0 {
		t.Errorf("undone, the claim has finalizers %v: %v", c.Finalizers, err)
	}
	if undo := placement.Steps[0].Undo; !undo.Delete || undo.Name != name || string(undo.Data) != `{"kind":"DeleteOptions","apiVersion":"v1"}` {
		t.Errorf("the claim is not deleted by %+v", undo)
	}
	if placement, err := w.place(t, requesting("q", "c example.com/gpu=0"), "a"); err != nil || len(placement.Holds)+len(placement.Steps) > 0 {
		t.Errorf("a pod that requests none gets %+v: %v", placement, err)
	}
}

// Binding waits for the devices of a created claim like for others, even before the claim
// exists.
func TestMadeClaimWaitsForItsDevices(t *testing.T) {
	devices := slice("a", "d0")
	devices.Spec.Devices[0].BindingConditions, devices.Spec.Devices[0].BindingFailureConditions = []string{"Ready"}, []string{"Broken"}
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), devices)
	placement, err := w.place(t, requesting("p", "c example.com/gpu=1"), "a")
	if err != nil {
		t.Fatal(err)
	}
	key := model.ClaimKey{Namespace: "ns", Name: placement.Holds[0].Object.Name}
	if last := placement.Steps[len(placement.Steps)-1].Wait; last == nil || len(last.For) != 1 || last.For[0] != key.DeviceRef() || len(last.Devices) != 1 || !last.Devices[0].Awaited {
		t.Fatalf("the last step waits by %+v", last)
	}
	expect := func(when string, done bool, text string) {
		t.Helper()
		got, err := w.plugin.Done(w.View(), placement)
		if got != done || errorText(err) != text {
			t.Errorf("%s: done %t, %q; want %t, %q", when, got, errorText(err), done, text)
		}
	}
	w.Assume(*placement)
	if other := nameOfMade(w.View(), placement.Pod); other == key.Name {
		t.Errorf("another claim for the pod would have the name %s, too", other)
	}
	expect("promised and not made", false, "")
	made := func(version string, change ...func(*resourcev1.ResourceClaim)) *resourcev1.ResourceClaim {
		return claim(key.Name, 1, append([]func(*resourcev1.ResourceClaim){allocated("a", "d0"), func(c *resourcev1.ResourceClaim) { c.ResourceVersion = version }}, change...)...)
	}
	w.set(made("1", prepared()))
	expect("made, and its device is not ready", false, "")
	w.set(made("2", prepared("Ready")))
	expect("ready", true, "")
	w.set(made("3", prepared("Ready", "Broken")))
	expect("broken", false, "device binding failed: claim="+key.Name+`, reason=Because, message="it is so"`)
	w.Apply([]model.Change{{Kind: model.ObjectGone, Ref: key.DeviceRef()}})
	w.Unassume(*placement)
	expect("gone", false, "claim "+key.String()+" got deleted in the meantime")
}

// A pod is not placed where it would get less than it requests. Either only its overhead
// requests a device, or it requests more kinds than have bits.
func TestExtendedResourcesThatCannotBeGiven(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), slice("a", "d0"))
	object := requesting("p", "c cpu=1").Object.DeepCopy()
	object.Spec.Overhead = build.Resources("example.com/gpu=1")
	if _, err := w.place(t, model.NewPod(object), "a"); errorText(err) != "no container requests example.com/gpu, which the pod requests" {
		t.Errorf("by its overhead alone: %v", err)
	}
	asks := "c example.com/gpu=1"
	for i := range maxResources {
		name := fmt.Sprint("example.com/x", i)
		w.set(byName(fmt.Sprint("x", i), name, 0))
		asks += " " + name + "=1"
	}
	many := requesting("p", asks)
	if got, want := w.filter(t, many), "a: cannot fit resource; b: cannot fit resource"; got != want {
		t.Errorf("too many: %s, want %s", got, want)
	}
	if _, err := w.place(t, many, "a"); errorText(err) != "node a does not give the pod all extended resources any more" {
		t.Errorf("too many, and the pod is placed: %v", err)
	}
}

// A promise to a claim that does not exist yet takes its devices, until the claim shows
// them.
func TestPromiseToAClaimThatIsNotMade(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), slice("a", "d0"))
	p, other := requesting("p", "c example.com/gpu=1"), requesting("other", "c example.com/gpu=1")
	placement, err := w.place(t, p, "a")
	if err != nil {
		t.Fatal(err)
	}
	const taken = "a: cannot allocate all claims; b: cannot allocate all claims"
	w.Assume(*placement)
	if got := w.filter(t, other); got != taken {
		t.Errorf("promised: %s", got)
	}
	c := placement.Steps[0].Write
	object := &resourcev1.ResourceClaim{}
	if err := json.Unmarshal(c.Data, object); err != nil {
		t.Fatal(err)
	}
	object.UID = "made"
	w.set(object.DeepCopy())
	if got := w.filter(t, other); got != taken {
		t.Errorf("made, and not allocated: %s", got)
	}
	w.Apply([]model.Change{{Kind: model.BindDone, Bind: &model.BindingResult{Pod: p, NodeName: "a", Err: errors.New("not bound")}}})
	if got := w.filter(t, other); got != "a; b: cannot allocate all claims" {
		t.Errorf("forgotten: %s", got)
	}
}

// A claim of an earlier turn is deleted, after any unusable allocation is released. When
// the claim is gone, its pod is retried.
func TestClaimOfAnEarlierTurnIsDeleted(t *testing.T) {
	w := newWorld(t, byName("gpu", "example.com/gpu", 0), made("p"))
	p := requesting("p", "c example.com/gpu=1")
	result, err := w.plugin.PostFilter(&rejectedCycle{view: w.View(), ran: true}, p)
	if err != nil || result.Message != "deletion of ResourceClaim completed" || len(result.Writes) != 2 {
		t.Fatalf("%+v, %v", result, err)
	}
	c, err := stored(t, claim("made-for-p", 1, protected), &result.Writes[0])
	if err != nil || len(c.Finalizers) > 0 {
		t.Errorf("finalizers %v, %v", c.Finalizers, err)
	}
	if d := result.Writes[1]; !d.Delete || d.Name != "made-for-p" || !strings.Contains(string(d.Data), `"uid":"uid-made-for-p"`) {
		t.Errorf("%+v, %s", d, d.Data)
	}
	gone := model.Event{Resource: model.ResourceClaimEvent, Action: model.Delete, OldObject: model.NewResourceClaim(made("p"))}
	for _, row := range []struct {
		pod   *model.Pod
		helps bool
	}{{p, true}, {requesting("q", "c example.com/gpu=1"), false}} {
		if got := w.helps(row.pod, gone); got != row.helps {
			t.Errorf("the deletion helps %s: %t", row.pod, got)
		}
	}
	if result, err := w.plugin.PostFilter(&rejectedCycle{view: w.View(), ran: true}, requesting("q", "c example.com/gpu=1")); err != nil || len(result.Writes) > 0 {
		t.Errorf("for another pod: %+v, %v", result, err)
	}
}
