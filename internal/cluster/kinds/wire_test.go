package kinds

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/randfill"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// decodedBoth decodes an object in two ways: with the library and trimmed afterwards, and
// as the watch of pods does.
func decodedBoth(t testing.TB, shared *sharing, data []byte) (want, got runtime.Object) {
	t.Helper()
	info := build.ProtobufInfo(t)
	want, _, err := info.Serializer.Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := new(sharing).trim(want); err != nil {
		t.Fatal(err)
	}
	got, kind, err := (&trimmingSerializer{info.Serializer, shared, true}).Decode(data, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if kind.Kind != "Pod" || kind.Version != "v1" || kind.Group != "" {
		t.Errorf("the kind is %v", kind)
	}
	want.GetObjectKind().SetGroupVersionKind(*kind) // the library's caller removes it again
	got.GetObjectKind().SetGroupVersionKind(*kind)
	return want, got
}

func TestPodsOfOneTemplate(t *testing.T) {
	shared := new(sharing)
	var first *v1.Pod
	for i := range 3 {
		pod := fullPod(i)
		pod.Spec.NodeName = fmt.Sprint("node-", i)
		pod.Spec.Hostname = pod.Name
		token := fmt.Sprint("kube-api-access-", i)
		pod.Spec.Volumes[3].Name = token
		pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName = fmt.Sprint("data-", i)
		for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
			containers[0].VolumeMounts = append(containers[0].VolumeMounts, v1.VolumeMount{Name: token, MountPath: "/var/run/secrets"})
		}
		want, got := decodedBoth(t, shared, build.Protobuf(t, pod))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod %d, -want +got:\n%s", i, diff)
		}
		decoded := got.(*v1.Pod)
		if first == nil {
			first = decoded
		}
		if &decoded.Spec.Containers[0] != &first.Spec.Containers[0] || &decoded.Spec.Tolerations[0] != &first.Spec.Tolerations[0] {
			t.Errorf("pod %d has a spec of its own", i)
		}
	}
	if n := shared.templates.len(); n != 1 {
		t.Errorf("%d templates are remembered, want 1", n)
	}
}

// TestPodsOfADaemonSet decodes pods that differ in the node that their affinity names,
// and in their environment.
func TestPodsOfADaemonSet(t *testing.T) {
	shared := new(sharing)
	for i := range 3 {
		pod := fullPod(i)
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{fmt.Sprint("node-", i)}},
			}}},
		}}}
		pod.Spec.Containers[0].Env[0].Value = fmt.Sprint("shard-", i)
		want, got := decodedBoth(t, shared, build.Protobuf(t, pod))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pod %d, -want +got:\n%s", i, diff)
		}
	}
	pod := fullPod(4)
	pod.Spec.Affinity = &v1.Affinity{} // differs from nil
	want, got := decodedBoth(t, shared, build.Protobuf(t, pod))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("an empty affinity, -want +got:\n%s", diff)
	}
	if n := shared.templates.len(); n != 1 {
		t.Errorf("%d templates are remembered, want 1", n)
	}
}

// TestPoolsForget adds more than a pool may hold, by number and by bytes. A value in
// constant use stays.
func TestPoolsForget(t *testing.T) {
	var p pool[int]
	built := 0
	for i := range 3 * maxShared {
		p.share(fmt.Append(nil, i), func() int { return i })
		p.share([]byte("template"), func() int { built++; return -1 })
		if p.len() > maxShared {
			t.Fatalf("%d things are remembered, at most %d may be", p.len(), maxShared)
		}
	}
	if built != 1 {
		t.Errorf("the value that was asked for all the time was built %d times", built)
	}
	if p.share([]byte("0"), func() int { return -2 }) != -2 {
		t.Error("the oldest value is still remembered")
	}
	p = pool[int]{}
	long := bytes.Repeat([]byte("x"), maxSharedText/4+1)
	for i := range 7 {
		long[0] = byte(i)
		if got := p.share(long, func() int { return i }); got != i {
			t.Errorf("got %d, want %d", got, i)
		}
		if p.len() > 2 || p.size > maxSharedText/2 {
			t.Errorf("%d things are remembered, of %d bytes in the recent half", p.len(), p.size)
		}
	}
}

// TestAnyPodIsDecoded fills pods at random, so that every field of every message occurs.
func TestAnyPodIsDecoded(t *testing.T) {
	build.NotRaced(t)
	random := rand.New(rand.NewPCG(1, 2))
	shared := new(sharing)
	for i := range 300 {
		fill := randfill.NewWithSeed(int64(i)).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
			func(q *resource.Quantity, _ randfill.Continue) {
				*q = *resource.NewMilliQuantity(random.Int64N(1e6), resource.DecimalSI)
			},
			func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte(`{"f:spec":{}}`)) },
			func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} },
			func(m *metav1.Time, _ randfill.Continue) { *m = metav1.Unix(random.Int64N(1e9), 0) },
			func(m *metav1.MicroTime, _ randfill.Continue) { *m = metav1.MicroTime{} },
		)
		pod := new(v1.Pod)
		fill.Fill(pod)
		pod.Name = fmt.Sprint("p", i)
		data := build.Protobuf(t, pod)
		if _, ok := shared.decodePod(data); !ok {
			t.Fatalf("seed %d: the pod was left to the library", i)
		}
		want, got := decodedBoth(t, shared, data)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("seed %d, -want +got:\n%s", i, diff)
		}
	}
}

// TestBookmarkIsLeft expects that a bookmark keeps the annotation that marks the end of
// the first list, which client-go reads.
func TestBookmarkIsLeft(t *testing.T) {
	bookmark := &v1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	info := build.ProtobufInfo(t)
	object, _, err := (&trimmingSerializer{info.Serializer, new(sharing), true}).Decode(build.Protobuf(t, bookmark), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := object.(*v1.Pod); got.Annotations[metav1.InitialEventsAnnotationKey] != "true" || got.ResourceVersion != "7" {
		t.Errorf("the bookmark became %+v", got)
	}
}

// TestListIsTrimmed decodes a list in every media type. Servers that cannot begin a watch
// with a list send a list.
func TestListIsTrimmed(t *testing.T) {
	list := &v1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []v1.Pod{*fullPod(1), *fullPod(2)}}
	for i := range list.Items {
		list.Items[i].ManagedFields = nil // fullPod's values cannot be encoded as JSON
	}
	codecs := trimmingCodecs{scheme.Codecs.WithoutConversion(), new(sharing)}
	for _, mediaType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} {
		info, ok := runtime.SerializerInfoForMediaType(codecs.SupportedMediaTypes(), mediaType)
		if !ok {
			t.Fatalf("no serializer for %s", mediaType)
		}
		var data bytes.Buffer
		if err := scheme.Codecs.EncoderForVersion(info.Serializer, v1.SchemeGroupVersion).Encode(list, &data); err != nil {
			t.Fatal(err)
		}
		got := new(v1.PodList)
		if _, _, err := codecs.DecoderToVersion(info.Serializer, v1.SchemeGroupVersion).Decode(data.Bytes(), nil, got); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			want := trimmed(t, list.Items[i].DeepCopy())
			want.TypeMeta, got.Items[i].TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{}
			if diff := cmp.Diff(want, &got.Items[i]); diff != "" {
				t.Errorf("%s, item %d, -want +got:\n%s", mediaType, i, diff)
			}
		}
	}
}

// TestBrokenPodIsTheLibrarys truncates a pod at every length, and flips bits of it.
func TestBrokenPodIsTheLibrarys(t *testing.T) {
	build.NotRaced(t)
	whole := build.Protobuf(t, fullPod(1))
	check := likeTheLibrary(t)
	for n := range whole {
		check(t, fmt.Sprintf("cut off at %d", n), whole[:n])
	}
	random := rand.New(rand.NewPCG(3, 4))
	for range 3_000 {
		data := bytes.Clone(whole)
		at, bit := random.IntN(len(data)), random.IntN(8)
		data[at] ^= 1 << bit
		check(t, fmt.Sprintf("bit %d of byte %d flipped", bit, at), data)
	}
}

// FuzzPodFromTheWire decodes any input that begins like an object in protobuf.
func FuzzPodFromTheWire(f *testing.F) {
	f.Add(build.Protobuf(f, fullPod(1)))
	f.Add(build.Protobuf(f, new(v1.Pod)))
	f.Add(build.Protobuf(f, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))
	f.Add(protobufMagic)
	check := likeTheLibrary(f)
	f.Fuzz(func(t *testing.T, data []byte) { check(t, "decoded", data) })
}

// likeTheLibrary returns a check that decoding fails only where the library fails, with
// the same error. If both succeed, the results must be equal. A malformed field may be
// ignored if it is not read.
func likeTheLibrary(t testing.TB) func(t *testing.T, what string, data []byte) {
	info := build.ProtobufInfo(t)
	serializer := &trimmingSerializer{info.Serializer, new(sharing), true}
	return func(t *testing.T, what string, data []byte) {
		t.Helper()
		want, _, wantErr := info.Serializer.Decode(data, nil, nil)
		got, _, err := serializer.Decode(data, nil, nil)
		if err != nil && fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%s: error %v, want %v", what, err, wantErr)
		}
		pod, isPod := want.(*v1.Pod)
		if err != nil || wantErr != nil || !isPod || pod.Name == "" {
			return
		}
		want = trimmed(t, pod)
		want.GetObjectKind().SetGroupVersionKind(podKind)
		got.GetObjectKind().SetGroupVersionKind(podKind)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s, -want +got:\n%s", what, diff)
		}
	}
}

// BenchmarkPodFromTheWire decodes pods of one template as a watch does: with the library
// and trimmed, and like the watch of pods.
func BenchmarkPodFromTheWire(b *testing.B) {
	const objects = 2_000
	data := make([][]byte, objects)
	for i := range data {
		pod := fullPod(i)
		pod.UID = types.UID(fmt.Sprintf("0b8f3a52-6c1d-4c39-9f0a-%012d", i))
		data[i] = build.Protobuf(b, pod)
	}
	info := build.ProtobufInfo(b)
	for _, how := range []struct {
		name     string
		protobuf bool
	}{{"library", false}, {"by halves", true}} {
		b.Run(how.name, func(b *testing.B) {
			serializer := &trimmingSerializer{info.Serializer, new(sharing), how.protobuf}
			kept := newKept(objects)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				object, _, err := serializer.Decode(data[i%objects], nil, nil)
				if err != nil {
					b.Fatal(err)
				}
				kept.add(object)
			}
			kept.report(b)
		})
	}
}
