package engine_test

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A list that is listFactor times as long may cost growthMax times as much. Time and
// memory are linear in the length, with a margin for maps and slices that grow in steps.
const (
	shortList  = 1000
	listFactor = 4
	growthMax  = 5.0
)

// listsOf returns the paths of all lists and maps in a type, such as "Containers.Ports".
func listsOf(t reflect.Type, path string, seen []reflect.Type) (paths []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return listsOf(t.Elem(), path, seen)
	case reflect.Map:
		return []string{path}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return nil // a text
		}
		return append([]string{path}, listsOf(t.Elem(), path, seen)...)
	case reflect.Struct:
		if t == reflect.TypeFor[resource.Quantity]() || slices.Contains(seen, t) {
			return nil
		}
		seen = append(slices.Clip(seen), t)
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() {
				name := f.Name
				if path != "" {
					name = path + "." + name
				}
				paths = append(paths, listsOf(f.Type, name, seen)...)
			}
		}
	}
	return paths
}

// filler fills the list of one path with n elements, and everything above it with one.
type filler struct {
	path string
	n    int
	next int // number of the next text, so that all texts differ
}

func (f *filler) fill(v reflect.Value, path string) {
	switch v.Kind() {
	case reflect.Pointer:
		if f.isAbove(path) || path == f.path {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), path)
		}
	case reflect.Slice:
		n := f.length(path)
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.element(v.Index(i), path)
		}
	case reflect.Map:
		n := f.length(path)
		if n == 0 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range n {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.element(key, path)
			f.element(value, path)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		f.fields(v, path)
	}
}

func (f *filler) fields(v reflect.Value, path string) {
	for i := range v.NumField() {
		t := v.Type().Field(i)
		if !t.IsExported() {
			continue
		}
		name := t.Name
		if path != "" {
			name = path + "." + name
		}
		if f.isAbove(name) || name == f.path {
			f.fill(v.Field(i), name)
		}
	}
}

func (f *filler) isAbove(path string) bool { return strings.HasPrefix(f.path, path+".") }

func (f *filler) length(path string) int {
	switch {
	case path == f.path:
		return f.n
	case f.isAbove(path):
		return 1
	}
	return 0
}

// element fills a list element with distinct values. For plugins that count equal
// elements once, a list of equal elements would be short.
func (f *filler) element(v reflect.Value, path string) {
	f.next++
	text := fmt.Sprintf("x%d", f.next)
	switch v.Type() {
	case reflect.TypeFor[resource.Quantity]():
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	case reflect.TypeFor[v1.ResourceName]():
		v.SetString("e.io/" + text)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(int64(f.next))
	case reflect.Struct:
		for i := range v.NumField() {
			if t := v.Type().Field(i); t.IsExported() {
				f.field(v.Field(i), t, path+"."+t.Name, text)
			}
		}
	}
}

// field fills a field of an element. Fields with few valid values get a valid value.
// Lists below the element that are not above the path get a single element, as the terms
// of an affinity need.
func (f *filler) field(v reflect.Value, t reflect.StructField, path, text string) {
	if f.isAbove(path) || path == f.path {
		f.fill(v, path)
		return
	}
	switch v.Type() {
	case reflect.TypeFor[v1.NodeSelectorOperator]():
		v.SetString(string(v1.NodeSelectorOpIn))
		return
	case reflect.TypeFor[metav1.LabelSelectorOperator]():
		v.SetString(string(metav1.LabelSelectorOpIn))
		return
	case reflect.TypeFor[v1.UnsatisfiableConstraintAction]():
		v.SetString(string(v1.ScheduleAnyway))
		return
	case reflect.TypeFor[v1.TaintEffect](), reflect.TypeFor[v1.TolerationOperator](), reflect.TypeFor[v1.Protocol](), reflect.TypeFor[intstr.IntOrString]():
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.next%60000 + 1))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String && t.Name == "Values" {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			v.Index(0).SetString(text)
		}
		if v.Type().Elem() == reflect.TypeFor[v1.NodeSelectorRequirement]() && t.Name == "MatchExpressions" {
			v.Set(reflect.ValueOf([]v1.NodeSelectorRequirement{{Key: "pool", Operator: v1.NodeSelectorOpNotIn, Values: []string{text}}}))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if t := v.Type().Field(i); t.IsExported() {
				f.field(v.Field(i), t, path+"."+t.Name, text)
			}
		}
	}
}

// listCase fills a list of a pod with a number of elements.
type listCase struct {
	name string
	fill func(n int, p *v1.Pod)
}

// specLists returns all lists of a pod's spec, by reflection. So lists of a newer API are
// included.
func specLists() (all []listCase) {
	for _, path := range listsOf(reflect.TypeFor[v1.PodSpec](), "", nil) {
		all = append(all, listCase{path, func(n int, p *v1.Pod) {
			f := &filler{path: path, n: n}
			f.fields(reflect.ValueOf(&p.Spec).Elem(), "")
			if len(p.Spec.Containers) == 0 {
				p.Spec.Containers = []v1.Container{{Name: "c"}}
			}
		}})
	}
	return all
}

// shapedLists are lists whose cost depends on the values of their elements.
func shapedLists() []listCase {
	one := func(operator v1.NodeSelectorOperator, values ...string) v1.NodeSelectorRequirement {
		return v1.NodeSelectorRequirement{Key: "pool", Operator: operator, Values: values}
	}
	required := func(terms func(i int) v1.NodeSelectorTerm) func(int, *v1.Pod) {
		return func(n int, p *v1.Pod) {
			all := &v1.NodeSelector{}
			for i := range n {
				all.NodeSelectorTerms = append(all.NodeSelectorTerms, terms(i))
			}
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: all}}
		}
	}
	text := func(i int) string { return fmt.Sprint("x", i) }
	volumes := func(source func(i int) v1.VolumeSource) func(int, *v1.Pod) {
		return func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: text(i), VolumeSource: source(i)})
			}
		}
	}
	always := v1.ContainerRestartPolicyAlways
	return []listCase{
		{"terms In", required(func(i int) v1.NodeSelectorTerm {
			return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{one(v1.NodeSelectorOpIn, text(i))}}
		})},
		{"terms Exists that contradict themselves", required(func(i int) v1.NodeSelectorTerm {
			return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{one(v1.NodeSelectorOpExists), {Key: text(i), Operator: v1.NodeSelectorOpExists}}}
		})},
		{"terms Gt", required(func(i int) v1.NodeSelectorTerm {
			return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{one(v1.NodeSelectorOpGt, fmt.Sprint(i))}}
		})},
		{"requirements NotIn of one term", func(n int, p *v1.Pod) {
			term := v1.NodeSelectorTerm{}
			for i := range n {
				term.MatchExpressions = append(term.MatchExpressions, one(v1.NodeSelectorOpNotIn, text(i)))
			}
			required(func(int) v1.NodeSelectorTerm { return term })(1, p)
		}},
		{"a node selector beside terms", func(n int, p *v1.Pod) {
			p.Spec.NodeSelector = map[string]string{}
			for i := range n {
				p.Spec.NodeSelector[text(i)] = "y"
			}
			required(func(i int) v1.NodeSelectorTerm {
				return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{one(v1.NodeSelectorOpIn, text(i))}}
			})(n, p)
		}},
		{"names", required(func(i int) v1.NodeSelectorTerm {
			return v1.NodeSelectorTerm{MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{text(i)}}}}
		})},
		{"tolerations of values", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: "spot", Value: text(i)})
			}
		}},
		{"scalars over sidecars", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: text(i), RestartPolicy: &always, Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceName("e.io/" + text(i)): resource.MustParse("1")}}})
			}
		}},
		{"scalars over init containers", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.InitContainers = append(p.Spec.InitContainers, v1.Container{Name: text(i), Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceName("e.io/" + text(i)): resource.MustParse("1")}}})
			}
		}},
		{"images", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: text(i), Image: "r/" + text(i)})
			}
		}},
		{"host ports", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: int32(1 + i), ContainerPort: 1})
			}
		}},
		{"addresses of one host port", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{HostPort: 1, HostIP: fmt.Sprint("10.0.0.", i)})
			}
		}},
		{"disks", volumes(func(i int) v1.VolumeSource { return v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{IQN: text(i)}} })},
		{"volumes of a driver", volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: text(i)}}
		})},
		{"claims", volumes(func(i int) v1.VolumeSource {
			return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: text(i)}}
		})},
		{"one claim", volumes(func(int) v1.VolumeSource {
			return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}
		})},
		{"ephemeral claims", volumes(func(int) v1.VolumeSource { return v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}} })},
		{"claims of devices", func(n int, p *v1.Pod) {
			for i := range n {
				p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, v1.PodResourceClaim{Name: text(i), ResourceClaimName: new(text(i))})
			}
		}},
		{"monitors", func(n int, p *v1.Pod) {
			rbd := &v1.RBDVolumeSource{RBDImage: "i", RBDPool: "p"}
			for i := range n {
				rbd.CephMonitors = append(rbd.CephMonitors, text(i))
			}
			p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{RBD: rbd}}}
		}},
		{"labels", func(n int, p *v1.Pod) {
			p.Labels = map[string]string{}
			for i := range n {
				p.Labels[text(i)] = "y"
			}
		}},
		{"owners", func(n int, p *v1.Pod) {
			for i := range n {
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Name: text(i), Kind: "ReplicaSet"})
			}
		}},
	}
}

// spending is the cost of a step: allocations, bytes and the engine's work. The time is
// measured only for readers of the test's output.
type spending struct {
	allocations, bytes, work int64
	time                     time.Duration
}

func spent(e *engine.Engine, step func()) spending {
	var before, after runtime.MemStats
	work := func() int64 { c := e.Counters(); return c.Asked + c.Visited + c.Detailed + c.AskedAside }
	w, t := work(), cpuTime()
	runtime.ReadMemStats(&before)
	step()
	runtime.ReadMemStats(&after)
	return spending{int64(after.Mallocs - before.Mallocs), int64(after.TotalAlloc - before.TotalAlloc), work() - w, cpuTime() - t}
}

func cpuTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// listSteps are the steps of a pod with a list, in this order.
var listSteps = []string{"compile", "first decision", "again", "detail", "park", "hints", "place", "evict", "rejection", "preemption"}

// spendOnList measures each step of a pod whose list has n elements.
func spendOnList(t *testing.T, l listCase, n int) map[string]spending {
	t.Helper()
	b := newBench(t, 40)
	b.fillWithLowPriority()
	costs := map[string]spending{}
	var pod *model.Pod
	do := func(step string, f func()) { costs[step] = spent(b.engine, f) }
	number := 0
	with := func(besides func(*v1.Pod)) *model.Pod {
		number++
		return b.pod(number, func(p *v1.Pod) { l.fill(n, p); besides(p) })
	}
	// initial costs of the very first pod do not belong to the list
	first := with(func(*v1.Pod) {})
	defer runtime.KeepAlive(first)
	object := with(func(*v1.Pod) {}).Object
	do("compile", func() {
		pod = model.NewPod(object)
		b.profile.Compile(pod)
	})
	work := plan.Alone(pod)
	do("first decision", func() { b.engine.Decide(b.state.View(), work) })
	do("again", func() { b.engine.Decide(b.state.View(), work) })
	do("detail", func() { b.engine.Detail(b.state.View(), pod, 3) })
	b.spendOnHints(pod, do)
	placed := *pod.Object
	placed.Spec.NodeName = "node-00001"
	do("place", func() { b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: model.NewPod(&placed)}}) })
	do("evict", func() { b.state.Apply([]model.Change{{Kind: model.PodGone, Key: pod.Key()}}) })
	large := with(func(p *v1.Pod) { askFor(p, "1000") })
	do("rejection", func() {
		d := b.engine.Decide(b.state.View(), plan.Alone(large))
		_ = d.Rejection.Text(b.state.View().Nodes())
	})
	high := int32(1000)
	preemptor := with(func(p *v1.Pod) { askFor(p, "31"); p.Spec.Priority = &high })
	do("preemption", func() { b.engine.Decide(b.state.View(), plan.Alone(preemptor)) })
	return costs
}

func askFor(p *v1.Pod, cpu string) {
	r := &p.Spec.Containers[0].Resources
	if r.Requests == nil {
		r.Requests = v1.ResourceList{}
	}
	r.Requests[v1.ResourceCPU] = resource.MustParse(cpu)
}

// fillWithLowPriority fills most of each node with a pod of low priority.
func (b *bench) fillWithLowPriority() {
	low := int32(-1)
	for i := range b.state.View().Nodes() {
		running := b.pod(1_000_000+i, func(p *v1.Pod) {
			askFor(p, "20")
			p.Spec.Priority, p.Spec.NodeName = &low, fmt.Sprintf("node-%05d", i)
		})
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: running}})
	}
}

// spendOnHints measures the queue's work for a pod that all plugins rejected: parking the
// pod, and judging whether an event of a node wakes it.
func (b *bench) spendOnHints(pod *model.Pod, do func(string, func())) {
	relabelled := benchNode(1)
	relabelled.Labels["disk"] = "tape"
	relabelled.Spec.Taints = []v1.Taint{{Key: "new", Effect: v1.TaintEffectNoSchedule}}
	relabelled.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("33")
	event := model.Event{Node: model.NewNode(relabelled), OldNode: model.NewNode(benchNode(1)), Pod: pod, OldPod: pod}
	each := func(f func(model.EventToRegister)) {
		for _, x := range b.profile.EnqueueExtensions {
			for _, registration := range x.Events {
				if registration.Resource == model.NodeEvent || registration.Resource == model.AssignedPodEvent {
					f(registration)
				}
			}
		}
	}
	do("park", func() {
		each(func(r model.EventToRegister) {
			if r.Alike != nil {
				r.Alike(pod)
			}
			if r.Cause != nil {
				r.Cause(pod)
			}
		})
	})
	do("hints", func() {
		each(func(r model.EventToRegister) {
			if r.Hint != nil && r.Resource == model.NodeEvent {
				r.Hint(pod, event)
			}
			if r.Touches != nil {
				r.Touches(event, new(model.Touch))
			}
		})
	})
}

// TestNoListCostsMoreThanInProportion makes a list of a pod four times as long. Each step
// may then cost at most five times the allocations, the bytes and the engine's work.
// Times are only printed and do not fail the test.
//
// Goroutines of the Go runtime allocate beside a step now and then, so that a measurement
// can be too high, but never too low. A list that fails is measured twice more, and the
// lowest costs count.
func TestNoListCostsMoreThanInProportion(t *testing.T) {
	// collections empty caches, such as interned texts
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for _, l := range append(specLists(), shapedLists()...) {
		t.Run(l.name, func(t *testing.T) {
			short, long := map[string]spending{}, map[string]spending{}
			var faults []string
			for range 3 {
				keepLowest(short, spendOnList(t, l, shortList))
				keepLowest(long, spendOnList(t, l, listFactor*shortList))
				runtime.GC()
				if faults = outOfProportion(short, long); len(faults) == 0 {
					break
				}
			}
			for _, fault := range faults {
				t.Error(fault)
			}
			for _, step := range listSteps {
				if a, b := short[step], long[step]; b.time > 3*time.Millisecond && b.time > 6*a.time {
					t.Logf("%s: %v for %d elements, %v for %d", step, a.time, shortList, b.time, listFactor*shortList)
				}
			}
		})
	}
}

// keepLowest lowers the costs of each step to those of another measurement.
func keepLowest(costs, other map[string]spending) {
	for step, b := range other {
		if a, measured := costs[step]; measured {
			b = spending{min(a.allocations, b.allocations), min(a.bytes, b.bytes), min(a.work, b.work), min(a.time, b.time)}
		}
		costs[step] = b
	}
}

// outOfProportion lists the costs that grew by more than growthMax.
func outOfProportion(short, long map[string]spending) (faults []string) {
	for _, step := range listSteps {
		a, b := short[step], long[step]
		for _, m := range []struct {
			what        string
			short, long int64
			free        int64 // costs up to this do not depend on the list
		}{{"allocations", a.allocations, b.allocations, 100}, {"bytes", a.bytes, b.bytes, 80 << 10}, {"work", a.work, b.work, 500}} {
			if float64(m.long) > growthMax*float64(max(m.short, m.free)) {
				faults = append(faults, fmt.Sprintf("%s: %d %s for %d elements, %d for %d", step, m.short, m.what, shortList, m.long, listFactor*shortList))
			}
		}
	}
	return faults
}
