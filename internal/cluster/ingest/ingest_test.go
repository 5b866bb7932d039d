package ingest_test

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

const (
	own     = "own"
	foreign = "foreign"
)

// newIngest compiles pods of the scheduler name own, by setting one need.
func newIngest() *ingest.Ingest {
	return ingest.New(map[string]ingest.Compile{own: func(pod *model.Pod) { pod.Needs = make([]model.Need, 1) }})
}

// version is the n-th version of an object.
func version(name string, n int) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(n)}
}

func pod(name string, n int, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: version(name, n), Spec: v1.PodSpec{SchedulerName: own}}
	for _, c := range change {
		c(p)
	}
	return p
}

func on(node string) func(*v1.Pod)          { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func of(scheduler string) func(*v1.Pod)     { return func(p *v1.Pod) { p.Spec.SchedulerName = scheduler } }
func phase(phase v1.PodPhase) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.Phase = phase } }
func node(name string, n int) *v1.Node      { return &v1.Node{ObjectMeta: version(name, n)} }
func claim(name string, n int) *v1.PersistentVolumeClaim {
	return &v1.PersistentVolumeClaim{ObjectMeta: version(name, n)}
}
func service(name string, n int) *v1.Service { return &v1.Service{ObjectMeta: version(name, n)} }

// words formats the changes as text.
func words(changes []model.Change) string {
	var all []string
	for _, c := range changes {
		switch c.Kind {
		case model.PodSet:
			all = append(all, fmt.Sprintf("pod %s/%s", c.Pod.Name, c.Pod.Object.ResourceVersion))
		case model.PodGone:
			all = append(all, "pod gone "+c.Key.Name)
		case model.NodeSet:
			all = append(all, fmt.Sprintf("node %s/%s", c.Node.Name, c.Node.Object.ResourceVersion))
		case model.NodeGone:
			all = append(all, "node gone "+c.Name)
		case model.ObjectSet:
			text := fmt.Sprintf("%s %s/%s", kinds.Get(c.Ref.Kind).Resource.Resource, c.Ref.Name, c.Object.(metav1.Object).GetResourceVersion())
			if c.Learned {
				text += " learned"
			}
			all = append(all, text)
		case model.ObjectGone:
			all = append(all, fmt.Sprintf("%s gone %s", kinds.Get(c.Ref.Kind).Resource.Resource, c.Ref.Name))
		case model.BindDone:
			all = append(all, fmt.Sprintf("bound %s %s %v", c.Bind.Pod.Name, c.Bind.NodeName, c.Bind.Err))
		case model.PreemptionDone:
			all = append(all, fmt.Sprintf("preempted for %s %v", c.Preemption.Preemptor.Name, c.Preemption.Err))
		}
	}
	return strings.Join(all, ", ")
}

// TestDrain adds changes and compares the drained changes.
func TestDrain(t *testing.T) {
	web := model.NewPod(pod("web", 1))
	ref := model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: "web"}
	tests := []struct {
		name string
		add  func(in *ingest.Ingest)
		want string
	}{
		{"nothing", func(*ingest.Ingest) {}, ""},
		{"the newest version holds, in the place of the first", func(in *ingest.Ingest) {
			in.Set(pod("web", 1))
			in.Set(node("n", 1))
			in.Set(pod("db", 1))
			in.Set(pod("web", 2))
			in.Set(node("n", 2))
		}, "pod web/2, node n/2, pod db/1"},
		{"gone and back", func(in *ingest.Ingest) {
			in.Set(pod("web", 1))
			in.Remove(model.Ref{Kind: model.PodKind, Namespace: "ns", Name: "web"})
			in.Set(node("n", 1))
			in.Remove(model.Ref{Kind: model.NodeKind, Name: "n"})
			in.Set(pod("web", 2))
		}, "pod web/2, node gone n"},
		{"there and gone", func(in *ingest.Ingest) {
			in.Set(pod("web", 1))
			in.Remove(model.Ref{Kind: model.PodKind, Namespace: "ns", Name: "web"})
			in.Set(service("web", 1))
			in.Remove(ref)
		}, "pod gone web, services gone web"},
		{"one name, many objects", func(in *ingest.Ingest) {
			in.Set(pod("web", 1))
			in.Set(node("web", 2))
			in.Set(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", ResourceVersion: "3"}})
			in.Set(service("web", 4))
			in.Set(&v1.ReplicationController{ObjectMeta: version("web", 5)})
			in.Set(&appsv1.ReplicaSet{ObjectMeta: version("web", 6)})
			in.Set(&appsv1.StatefulSet{ObjectMeta: version("web", 7)})
			in.Set(service("web", 8))
		}, "pod web/1, node web/2, namespaces web/3, services web/8, replicationcontrollers web/5, replicasets web/6, statefulsets web/7"},
		{"what is learned replaces nothing and is not replaced", func(in *ingest.Ingest) {
			ref := model.Ref{Kind: model.PersistentVolumeClaimKind, Namespace: "ns", Name: "web"}
			in.Set(claim("web", 1))
			in.Learned(claim("web", 4))
			in.Bound(model.BindingResult{Pod: web, NodeName: "n"})
			in.Set(claim("web", 2))
			in.Learned(claim("web", 5))
			in.Learned(claim("db", 1))
			in.Remove(ref)
		}, "persistentvolumeclaims gone web, persistentvolumeclaims web/4 learned, bound web n <nil>, persistentvolumeclaims web/5 learned, persistentvolumeclaims db/1 learned"},
		{"what is not kept compiled is not learned", func(in *ingest.Ingest) {
			in.Learned(pod("web", 1))
			in.Learned(node("web", 1))
			in.Learned(service("web", 1))
			in.Learned(&v1.ConfigMap{ObjectMeta: version("web", 1)})
		}, ""},
		{"other kinds are left out", func(in *ingest.Ingest) {
			in.Set(&v1.ConfigMap{ObjectMeta: version("web", 1)})
		}, ""},
		{"outcomes are never replaced, and nothing passes them", func(in *ingest.Ingest) {
			in.Set(node("n", 1))
			in.Bound(model.BindingResult{Pod: web, NodeName: "n", Err: errors.New("refused")})
			in.Bound(model.BindingResult{Pod: web, NodeName: "n"})
			in.Set(pod("web", 2, on("n")))
			in.Set(node("n", 2))
		}, "node n/2, bound web n refused, bound web n <nil>, pod web/2"},
		{"nor are the ends of preemptions", func(in *ingest.Ingest) {
			in.Preempted(model.PreemptionResult{Preemptor: web, Err: errors.New("refused")})
			in.Set(pod("web", 1))
			in.Preempted(model.PreemptionResult{Preemptor: web})
		}, "preempted for web refused, pod web/1, preempted for web <nil>"},
		{"finished pods are gone", func(in *ingest.Ingest) {
			in.Set(pod("done", 1, on("n"), phase(v1.PodSucceeded)))
			in.Set(pod("web", 1, on("n"), phase(v1.PodRunning)))
			in.Set(pod("web", 2, on("n"), phase(v1.PodFailed)))
			in.Set(pod("elsewhere", 1, of(foreign), on("n"), phase(v1.PodFailed)))
		}, "pod gone done, pod gone web, pod gone elsewhere"},
		{"foreign pods count once they are on a node", func(in *ingest.Ingest) {
			in.Set(pod("theirs", 1, of(foreign)))
			in.Set(pod("web", 1))
			in.Set(pod("theirs", 2, of(foreign), on("n")))
		}, "pod web/1, pod theirs/2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in := newIngest()
			test.add(in)
			if got := words(in.Drain()); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
			if got := words(in.Drain()); got != "" {
				t.Errorf("the second time there is %s", got)
			}
		})
	}
}

// TestVersionsBetweenWereNominated replaces versions of a pod before they are drained. A
// nomination that only they had is not lost.
func TestVersionsBetweenWereNominated(t *testing.T) {
	to := func(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Status.NominatedNodeName = node } }
	another := func(p *v1.Pod) { p.UID = "another" }
	gone := func(in *ingest.Ingest) { in.Remove(model.Ref{Kind: model.PodKind, Namespace: "ns", Name: "p"}) }
	for _, test := range []struct {
		name     string
		versions []func(*v1.Pod) // nil: a deletion
		want     bool
	}{
		{"the only version", []func(*v1.Pod){to("n")}, false},
		{"never", []func(*v1.Pod){to(""), to(""), to("")}, false},
		{"and no longer", []func(*v1.Pod){to("n"), to("")}, true},
		{"and not for two versions", []func(*v1.Pod){to(""), to("n"), to(""), to("")}, true},
		{"another pod of the name was", []func(*v1.Pod){to("n"), another}, false},
		{"another pod of the name was, and has gone", []func(*v1.Pod){to("n"), nil, another}, false},
	} {
		in := newIngest()
		for n, version := range test.versions {
			if version == nil {
				gone(in)
			} else {
				in.Set(pod("p", n, version))
			}
		}
		changes := in.Drain()
		if len(changes) != 1 || changes[0].Kind != model.PodSet || changes[0].WasNominated != test.want {
			t.Errorf("%s: %+v, want WasNominated = %t", test.name, changes, test.want)
		}
		in.Set(pod("p", 9))
		if changes := in.Drain(); changes[0].WasNominated {
			t.Errorf("%s: the next batch says so too", test.name)
		}
	}
}

// TestBatchesAreApart changes an object between two batches. The first batch belongs to
// the loop and must not change.
func TestBatchesAreApart(t *testing.T) {
	in := newIngest()
	in.Set(pod("web", 1))
	first := in.Drain()
	in.Set(pod("web", 2))
	in.Remove(model.Ref{Kind: model.PodKind, Namespace: "ns", Name: "web"})
	if got := words(first); got != "pod web/1" {
		t.Errorf("the first batch has become %s", got)
	}
	if got := words(in.Drain()); got != "pod gone web" {
		t.Errorf("the second batch is %s", got)
	}
}

func TestOnlyPendingPodsAreCompiled(t *testing.T) {
	in := newIngest()
	in.Set(pod("pending", 1))
	in.Set(pod("running", 1, on("n")))
	in.Set(pod("theirs", 1, of(foreign), on("n")))
	for _, c := range in.Drain() {
		if got, want := len(c.Pod.Needs) == 1, c.Pod.Name == "pending"; got != want {
			t.Errorf("pod %s compiled: %t, want %t", c.Pod.Name, got, want)
		}
	}
}

// TestReplicasAreCompiledOnce: consecutive pods that share their spec in memory are
// compiled once, and all have the result. The same holds for pods on nodes.
func TestReplicasAreCompiledOnce(t *testing.T) {
	compiled := 0
	in := ingest.New(map[string]ingest.Compile{own: func(pod *model.Pod) {
		compiled++
		pod.Needs = []model.Need{model.NeedOf(pod.Labels["app"])}
	}})
	labels := map[string]map[string]string{"web": {"app": "web"}, "db": {"app": "db"}}
	spec := v1.PodSpec{SchedulerName: own, Containers: []v1.Container{{Name: "c"}}}
	create := func(app string, n int, node string) {
		in.Set(pod(fmt.Sprint(app, n), n, func(p *v1.Pod) { p.Labels, p.Spec, p.Spec.NodeName = labels[app], spec, node }))
	}
	for n := range 10 {
		create("web", n, "")
		create("web", 100+n, "n")
	}
	create("db", 1, "")
	create("web", 10, "")
	if compiled != 3 {
		t.Errorf("%d pods were compiled, want 3", compiled)
	}
	for _, c := range in.Drain() {
		object := c.Pod.Object
		if c.Pod.Name != object.Name || c.Pod.UID != object.UID || c.Pod.NodeName != object.Spec.NodeName {
			t.Errorf("pod %s became %+v", object.Name, c.Pod)
		}
		if object.Spec.NodeName != "" && len(c.Pod.Needs) > 0 || object.Spec.NodeName == "" && c.Pod.Needs[0] != model.NeedOf(object.Labels["app"]) {
			t.Errorf("pod %s has the needs %v", object.Name, c.Pod.Needs)
		}
	}
	finished := pod("web0", 20, phase(v1.PodSucceeded), func(p *v1.Pod) { p.Labels, p.Spec = labels["web"], spec })
	if in.Set(finished); words(in.Drain()) != "pod gone web0" {
		t.Error("a replica that has finished is not gone")
	}
}

// TestPanicMakesAMalformedPod compiles a pod with a plugin that panics. The pod must
// still reach the loop, with the reason why it cannot be placed.
func TestPanicMakesAMalformedPod(t *testing.T) {
	in := ingest.New(map[string]ingest.Compile{own: func(pod *model.Pod) {
		if pod.Name == "odd" {
			panic("no plugin has seen the like")
		}
	}})
	now, priority := metav1.Now(), int32(7)
	object := pod("odd", 1, func(p *v1.Pod) { p.DeletionTimestamp, p.Spec.Priority = &now, &priority })
	in.Set(object)
	in.Set(pod("sound", 1))
	in.Set(pod("odd-but-running", 1, on("n")))
	changes := in.Drain()
	if got := words(changes); got != "pod odd/1, pod sound/1, pod odd-but-running/1" {
		t.Fatalf("got %s", got)
	}
	odd := changes[0].Pod
	if odd.Malformed != "the pod cannot be read: no plugin has seen the like" || odd.Object != object || odd.UID != "odd" ||
		odd.Key() != (model.PodKey{Namespace: "ns", Name: "odd"}) || odd.SchedulerName != own || !odd.Terminating ||
		odd.Priority != priority {
		t.Errorf("the odd pod became %+v", odd)
	}
	for _, c := range changes[1:] {
		if c.Pod.Malformed != "" {
			t.Errorf("pod %s is malformed: %s", c.Pod.Name, c.Pod.Malformed)
		}
	}
}

// TestReady expects a signal only after a change was added. Several additions may share a
// signal.
func TestReady(t *testing.T) {
	ready := func(in *ingest.Ingest) bool {
		select {
		case <-in.Ready():
			return true
		default:
			return false
		}
	}
	for name, add := range map[string]func(in *ingest.Ingest){
		"Set a pod":          func(in *ingest.Ingest) { in.Set(pod("p", 1)) },
		"Remove a pod":       func(in *ingest.Ingest) { in.Remove(model.Ref{Kind: model.PodKind, Namespace: "ns", Name: "p"}) },
		"Set a node":         func(in *ingest.Ingest) { in.Set(node("n", 1)) },
		"Remove a node":      func(in *ingest.Ingest) { in.Remove(model.Ref{Kind: model.NodeKind, Name: "n"}) },
		"Set another object": func(in *ingest.Ingest) { in.Set(service("s", 1)) },
		"Remove another object": func(in *ingest.Ingest) {
			in.Remove(model.Ref{Kind: model.ServiceKind, Namespace: "ns", Name: "s"})
		},
		"Learned": func(in *ingest.Ingest) { in.Learned(claim("c", 1)) },
		"Bound":   func(in *ingest.Ingest) { in.Bound(model.BindingResult{Pod: model.NewPod(pod("p", 1))}) },
	} {
		in := newIngest()
		if ready(in) {
			t.Errorf("%s: it is ready before anything was added", name)
		}
		add(in)
		add(in)
		if !ready(in) || ready(in) {
			t.Errorf("%s: want one signal", name)
		}
	}
	in := newIngest()
	in.Set(pod("theirs", 1, of(foreign)))
	if ready(in) {
		t.Error("an ignored pod signalled the loop")
	}
}

// TestProducers adds changes from informers and commit at the same time while the loop
// drains. The loop must receive the last version of every object, versions of one object
// in order, and every result once.
func TestProducers(t *testing.T) {
	const objects, versions = 20, 50
	in := newIngest()
	var producers sync.WaitGroup
	for i := range objects {
		name := fmt.Sprint("o", i)
		producers.Go(func() {
			for n := 1; n <= versions; n++ {
				in.Set(pod(name, n))
			}
		})
		producers.Go(func() {
			for n := 1; n <= versions; n++ {
				in.Set(node(name, n))
			}
		})
		producers.Go(func() {
			for n := 1; n <= versions; n++ {
				in.Set(service(name, n))
			}
		})
		producers.Go(func() {
			for n := 1; n <= versions; n++ {
				in.Bound(model.BindingResult{Pod: model.NewPod(pod(name, n))})
			}
		})
	}
	done := make(chan struct{})
	go func() { producers.Wait(); close(done) }()
	seen := newSightings()
	late := time.After(time.Minute)
	for draining := true; draining; {
		select {
		case <-in.Ready():
		case <-done:
			draining = false
		case <-late:
			t.Fatal("the producers do not end")
		}
		for _, c := range in.Drain() {
			if err := seen.take(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range objects {
		for _, kind := range []string{"pod", "node", "object"} {
			if key := fmt.Sprintf("%s o%d", kind, i); seen.last[key] != versions {
				t.Errorf("the last version of %s that was seen is %d, want %d", key, seen.last[key], versions)
			}
		}
	}
	if want := objects * versions; seen.outcomes != want {
		t.Errorf("%d outcomes were seen, want %d", seen.outcomes, want)
	}
}

// sightings are the changes that the loop has received.
type sightings struct {
	last     map[string]int
	outcomes int
}

func newSightings() *sightings { return &sightings{last: map[string]int{}} }

func (s *sightings) take(c model.Change) error {
	var kind string
	var object metav1.Object
	switch c.Kind {
	case model.PodSet:
		kind, object = "pod", c.Pod.Object
	case model.NodeSet:
		kind, object = "node", c.Node.Object
	case model.ObjectSet:
		kind, object = "object", c.Object.(*v1.Service)
	case model.BindDone:
		s.outcomes++
		return nil
	default:
		return fmt.Errorf("a change of kind %d, which nobody made", c.Kind)
	}
	var n int
	if _, err := fmt.Sscan(object.GetResourceVersion(), &n); err != nil {
		return err
	}
	key := kind + " " + object.GetName()
	if n <= s.last[key] {
		return fmt.Errorf("%s: version %d after version %d", key, n, s.last[key])
	}
	s.last[key] = n
	return nil
}

// TestLargeBatchIsForgotten drains a batch as after the first list of a large cluster:
// its memory is released.
func TestLargeBatchIsForgotten(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	in := newIngest()
	before := heap()
	for i := range 200_000 {
		in.Remove(model.Ref{Kind: model.PodKind, Namespace: "ns", Name: strconv.Itoa(i)})
	}
	full := heap() - before
	in.Drain()
	in.Set(node("n", 1))
	in.Drain()
	if left := heap() - before; left > full/10 {
		t.Errorf("of %d bytes for a batch %d are still in use", full, left)
	}
	runtime.KeepAlive(in)
}
