package kube

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

func TestStatusPatch(t *testing.T) {
	before := metav1.NewTime(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	now := time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)
	waits := &v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: "Unschedulable", Message: "no", ObservedGeneration: 3}
	const written = `"type":"PodScheduled","observedGeneration":3,"status":"False",`
	for _, test := range []struct {
		name       string
		have       []v1.PodCondition
		set        *v1.PodCondition
		nomination plan.Nomination
		want       string // the status
	}{
		{name: "first", set: waits,
			want: `{"conditions":[{` + written + `"lastTransitionTime":"2026-05-02T12:00:00Z","reason":"Unschedulable","message":"no"}]}`},
		{name: "another reason", have: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, LastTransitionTime: before}}, set: waits,
			want: `{"conditions":[{` + written + `"reason":"Unschedulable","message":"no"}]}`},
		{name: "another status", have: []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue, LastTransitionTime: before}}, set: waits,
			nomination: plan.Nomination{Mode: plan.Clear},
			want: `{"conditions":[{` + written + `"lastTransitionTime":"2026-05-02T12:00:00Z","reason":"Unschedulable","message":"no"}],` +
				`"nominatedNodeName":null}`},
		{name: "nomination only", nomination: plan.Nomination{Mode: plan.Clear}, want: `{"nominatedNodeName":null}`},
		{name: "nominated", nomination: plan.Nomination{Mode: plan.Set, NodeName: "a"}, want: `{"nominatedNodeName":"a"}`},
	} {
		pod := &model.Pod{UID: "u", Object: &v1.Pod{Status: v1.PodStatus{Conditions: test.have}}}
		got, err := statusPatch(pod, test.set, test.nomination, now)
		if want := `{"metadata":{"uid":"u"},"status":` + test.want + `}`; err != nil || string(got) != want {
			t.Errorf("%s: %s, %v\nwant %s", test.name, got, err, want)
		}
	}
}

// TestWrite patches objects of core and of other groups, with and without namespace and
// subresource, applies one and deletes one. Each takes one request, and a conflict in the
// answer is returned as such.
func TestWrite(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Header.Get("Content-Type"), " ", string(body)))
		w.Header().Set("Content-Type", "application/json")
		if len(got) == 3 {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,"message":"modified"}`)
			return
		}
		fmt.Fprint(w, `{"kind":"Whatever","apiVersion":"example.com/v1"}`)
	}))
	defer server.Close()
	_, client := reach(t, ClientConfig{Master: server.URL})
	w := &Writer{client: client}
	for _, write := range []plan.Write{
		{Resource: schema.GroupVersionResource{Version: "v1", Resource: "persistentvolumes"}, Name: "v", Type: types.MergePatchType, Data: []byte(`{"a":1}`)},
		{Resource: schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}, Namespace: "ns", Name: "c",
			Subresource: "status", Type: types.StrategicMergePatchType, Data: []byte(`{"b":2}`)},
		{}, // the answer to the next is a conflict
		{Resource: schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}, Namespace: "ns", Name: "c",
			Type: types.ApplyYAMLPatchType, Data: []byte(`{"c":3}`)},
		{Resource: schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "resourceclaims"}, Namespace: "ns", Name: "c",
			Delete: true, Data: []byte(`{"kind":"DeleteOptions","apiVersion":"v1"}`)},
	} {
		if write.Name == "" {
			if _, err := w.Write(t.Context(), &plan.Write{Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Name: "n", Type: types.JSONPatchType, Data: []byte(`[]`)}); !apierrors.IsConflict(err) {
				t.Errorf("error %v, want a conflict", err)
			}
			continue
		}
		if object, err := w.Write(t.Context(), &write); err != nil || object != nil {
			t.Errorf("%v, %v", object, err)
		}
	}
	want := []string{
		`PATCH /api/v1/persistentvolumes/v application/merge-patch+json {"a":1}`,
		`PATCH /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c/status application/strategic-merge-patch+json {"b":2}`,
		`PATCH /api/v1/nodes/n application/json-patch+json []`,
		`PATCH /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c?fieldManager=kube-scheduler&force=true application/apply-patch+yaml {"c":3}`,
		`DELETE /apis/resource.k8s.io/v1/namespaces/ns/resourceclaims/c application/json {"kind":"DeleteOptions","apiVersion":"v1"}`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("requests\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestLearnedPatch answers a patch, and the read of its object, with the object in both
// encodings. The result is trimmed as the watches trim it. After any other answer with a
// success status, it is unknown whether the patch was stored.
func TestLearnedPatch(t *testing.T) {
	stored := build.PersistentVolumeClaim("c", "namespace=ns class=fast label=a=b annotation=c=d version=7")
	stored.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "somebody"}}
	nameless, another := stored.DeepCopy(), stored.DeepCopy()
	nameless.UID, another.Name = "", "d"
	write := &plan.Write{
		Resource: v1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), Namespace: "ns", Name: "c", Subresource: "status", Type: types.JSONPatchType,
		Data: []byte(`[]`), Learn: true,
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		var answer func(w http.ResponseWriter)
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = append(got, r.Method+" "+r.URL.Path)
			answer(w)
		}))
		as := func(object runtime.Object) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", contentType)
				info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
				if err := info.Serializer.Encode(object, w); err != nil {
					t.Error(err)
				}
			}
		}
		_, client := reach(t, ClientConfig{Master: server.URL, ContentType: contentType})
		for _, whole := range []bool{false, true} {
			w, err := NewWriter(client, whole)
			if err != nil {
				t.Fatal(err)
			}
			want := stored.DeepCopy()
			want.TypeMeta = metav1.TypeMeta{}
			kinds.Kept(whole)(want)
			if want.ManagedFields != nil || (want.Labels != nil) != whole {
				t.Fatalf("a watch keeps %+v", want)
			}
			answer, got = as(stored), nil
			for _, ask := range []func() (kinds.Object, error){
				func() (kinds.Object, error) { return w.Write(t.Context(), write) },
				func() (kinds.Object, error) { return w.Get(t.Context(), write) },
			} {
				object, err := ask()
				if claim, ok := object.(*v1.PersistentVolumeClaim); ok {
					claim.TypeMeta = metav1.TypeMeta{}
				}
				if err != nil || !equality.Semantic.DeepEqual(object, want) {
					t.Errorf("%s: it returns %+v, %v\nwant %+v", contentType, object, err, want)
				}
			}
			const path = "/api/v1/namespaces/ns/persistentvolumeclaims/c"
			if want := []string{"PATCH " + path + "/status", "GET " + path}; !slices.Equal(got, want) {
				t.Errorf("requests %q, want %q", got, want)
			}
			for name, other := range map[string]func(http.ResponseWriter){
				"a status":                as(&metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess}),
				"an object without a UID": as(nameless), "another object": as(another), "nothing": func(http.ResponseWriter) {},
				"a page": func(w http.ResponseWriter) {
					w.Header().Set("Content-Type", "text/html")
					fmt.Fprint(w, "<html>welcome</html>")
				},
			} {
				answer = other
				object, err := w.Write(t.Context(), write)
				if reason := apierrors.APIStatus(nil); err == nil || object != nil || errors.As(err, &reason) {
					t.Errorf("%s: it returns %v, %v, want an error that is not of the API server", name, object, err)
				}
			}
		}
		server.Close()
	}
}

// connect returns a client, built as in the scheduler command.
func connect(t testing.TB, config ClientConfig) *Client {
	t.Helper()
	_, client := reach(t, config)
	return client
}

// reach returns a client configuration for a server, and its client.
func reach(t testing.TB, config ClientConfig) (*rest.Config, *Client) {
	t.Helper()
	access, err := Access(config)
	if err != nil {
		t.Fatal(err)
	}
	client, err := Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	return access, client
}

func numbered(i int) *model.Pod {
	return &model.Pod{Name: fmt.Sprint("p", i), Namespace: "ns", UID: types.UID(fmt.Sprint("u", i)), SchedulerName: "default-scheduler",
		Object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "ns", UID: types.UID(fmt.Sprint("u", i)), ResourceVersion: "1"}}}
}
