package kinds

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// decodedWhole decodes an object like a watch that keeps objects whole.
func decodedWhole(t testing.TB, object apiruntime.Object) apiruntime.Object {
	t.Helper()
	decoded, kind, err := (&trimmingSerializer{build.ProtobufInfo(t).Serializer, nil, true}).Decode(build.Protobuf(t, object), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	object.GetObjectKind().SetGroupVersionKind(*kind)
	decoded.GetObjectKind().SetGroupVersionKind(*kind)
	return decoded
}

// TestWhole decodes whole objects and lists: only the managedFields are missing.
func TestWhole(t *testing.T) {
	pod, node, claim := fullPod(1), fullNode(1), &v1.PersistentVolumeClaim{ObjectMeta: *fullPod(2).ObjectMeta.DeepCopy()}
	list := &v1.PodList{Items: []v1.Pod{*fullPod(3), *fullPod(4)}}
	for _, object := range []apiruntime.Object{pod, node, claim, list} {
		got := decodedWhole(t, object)
		clear := cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields")
		if diff := cmp.Diff(object, got, clear); diff != "" {
			t.Errorf("%T: -sent +kept:\n%s", object, diff)
		}
		if held, ok := got.(Object); ok && held.GetManagedFields() != nil {
			t.Errorf("%T has managedFields", object)
		}
	}
	if got := decodedWhole(t, list).(*v1.PodList); got.Items[1].ManagedFields != nil {
		t.Error("a pod in a list has managedFields")
	}
}

// TestWholePodsShareNothing writes to all writable fields of one pod, as a plugin may by
// mistake. No other pod changes.
func TestWholePodsShareNothing(t *testing.T) {
	kept := func() *v1.Pod { return decodedWhole(t, fullPod(1)).(*v1.Pod) }
	first, second, want := kept(), kept(), kept()
	vandalise(first)
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("another pod has changed:\n%s", diff)
	}
	if cmp.Equal(want, first) {
		t.Error("nothing was written")
	}
}

func vandalise(p *v1.Pod) {
	for _, m := range []map[string]string{p.Labels, p.Annotations, p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels} {
		for k := range m {
			m[k] = "written"
		}
	}
	p.OwnerReferences[0].Name, *p.OwnerReferences[1].Controller, p.Finalizers[0] = "written", false, "written"
	for _, containers := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		c := &containers[0]
		c.Name, c.Image, c.Env[0].Value = "written", "written", "written"
		for _, list := range []v1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for name := range list {
				delete(list, name)
			}
		}
	}
	p.Spec.Containers[0].Args[0], p.Spec.Containers[0].Ports[1].HostPort = "written", 1
	p.Spec.Containers[0].LivenessProbe.PeriodSeconds, *p.Spec.Containers[0].SecurityContext.RunAsNonRoot = 99, false
	*p.Spec.Priority, *p.Spec.Tolerations[0].TolerationSeconds = 1, 1
	p.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = "written"
	p.Status.Conditions[0].Status = v1.ConditionFalse
	clear(p.Status.ContainerStatuses[0].AllocatedResources)
}

// TestWholeIsCompiledAlike compiles pods and nodes that are kept whole and trimmed. The
// results are equal.
func TestWholeIsCompiledAlike(t *testing.T) {
	trim := func(object any) any {
		kept, err := Trim()(object)
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	unexported := cmp.Exporter(func(reflect.Type) bool { return true })
	pending := fullPod(2)
	pending.Spec.NodeName = ""
	for _, pod := range []*v1.Pod{fullPod(1), pending} {
		want := model.NewPod(trim(pod.DeepCopy()).(*v1.Pod))
		got := model.NewPod(decodedWhole(t, pod).(*v1.Pod))
		if diff := cmp.Diff(want, got, unexported, cmpopts.IgnoreFields(model.Pod{}, "Object")); diff != "" {
			t.Errorf("pod, -trimmed +whole:\n%s", diff)
		}
	}
	want, got := model.NewNode(trim(fullNode(1)).(*v1.Node)), model.NewNode(decodedWhole(t, fullNode(1)).(*v1.Node))
	if diff := cmp.Diff(want, got, unexported, cmpopts.IgnoreFields(model.Node{}, "Object")); diff != "" {
		t.Errorf("node, -trimmed +whole:\n%s", diff)
	}
}

// BenchmarkCluster decodes 5,000 nodes and 50,000 running pods as a watch does, trimmed
// and whole, and reports the memory that they take.
func BenchmarkCluster(b *testing.B) {
	nodes, pods := 5_000, 50_000
	if testing.Short() {
		nodes, pods = 500, 5_000
	}
	data := make([][]byte, 0, nodes+pods)
	for i := range nodes {
		data = append(data, build.Protobuf(b, fullNode(i)))
	}
	for i := range pods {
		pod := fullPod(i)
		pod.Spec.NodeName = fmt.Sprintf("node-%05d", i%nodes)
		pod.Labels["app"] = fmt.Sprint("web-", i%100)
		data = append(data, build.Protobuf(b, pod))
	}
	info := build.ProtobufInfo(b)
	for name, shared := range map[string]*sharing{"trimmed": new(sharing), "whole": nil} {
		b.Run(name, func(b *testing.B) {
			serializer := &trimmingSerializer{info.Serializer, shared, true}
			for b.Loop() {
				b.StopTimer()
				kept := newKept(nodes + pods)
				b.StartTimer()
				began := time.Now()
				for i := range data {
					object, _, err := serializer.Decode(data[i], nil, nil)
					if err != nil {
						b.Fatal(err)
					}
					kept.add(object)
				}
				b.ReportMetric(time.Since(began).Seconds(), "s/cluster")
				b.StopTimer()
				var after runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&after)
				b.ReportMetric(float64(int64(after.HeapAlloc)-int64(kept.before.HeapAlloc))/1e6, "MB/cluster")
				runtime.KeepAlive(kept.objects)
				b.StartTimer()
			}
		})
	}
}
