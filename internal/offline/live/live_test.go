package live

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/model"
)

// apiServer serves pods and nodes page by page, as protobuf. It forbids or lacks other
// kinds.
type apiServer struct {
	mu   sync.Mutex
	pods []v1.Pod
	// expires is the number of "list has expired" responses to requests for a further
	// page.
	expires int
	forbids []string
	asked   []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	limit, next := r.URL.Query().Get("limit"), r.URL.Query().Get("continue")
	s.asked = append(s.asked, resource+" "+limit+" "+next)
	answer := func(code int, object runtime.Object) {
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
		w.WriteHeader(code)
		_ = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, w)
	}
	status := func(code int32, reason metav1.StatusReason) {
		answer(int(code), &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code, Reason: reason, Message: "no"})
	}
	switch {
	case slices.Contains(s.forbids, resource):
		status(http.StatusForbidden, metav1.StatusReasonForbidden)
	case resource == "nodes":
		answer(http.StatusOK, &v1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: []v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}}})
	case resource != "pods":
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
	case next != "" && s.expires > 0:
		s.expires--
		status(http.StatusGone, metav1.StatusReasonExpired)
	default:
		from, _ := strconv.Atoi(next)
		to := len(s.pods)
		if n, _ := strconv.Atoi(limit); n > 0 {
			to = min(to, from+n)
		}
		list := &v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: s.pods[from:to]}
		if left := int64(len(s.pods) - to); left > 0 {
			list.Continue, list.RemainingItemCount = strconv.Itoa(to), &left
		}
		answer(http.StatusOK, list)
	}
}

func (s *apiServer) read(t *testing.T, progress func(done, total int64)) (*Result, error) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return Read(context.Background(), Request{
		Access: &rest.Config{Host: server.URL}, Kinds: []model.Kind{model.PersistentVolumeClaimKind, model.PersistentVolumeKind, model.ResourceClaimKind}, Progress: progress,
	})
}

func manyPods(n int) []v1.Pod {
	pods := make([]v1.Pod, n)
	for i := range pods {
		pods[i] = v1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: fmt.Sprintf("web-%d", i), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
				Annotations: map[string]string{v1.MirrorPodAnnotationKey: "x", "other": "y"},
			},
			Spec: v1.PodSpec{
				Containers: []v1.Container{{Name: "main", Env: []v1.EnvVar{{Name: "A"}}}}, TerminationGracePeriodSeconds: new(int64(7)),
				Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}},
			},
			Status: v1.PodStatus{Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse, Message: "long"}}},
		}
	}
	return pods
}

// TestRead lists more pods than a page has, and keeps the fields that are read.
func TestRead(t *testing.T) {
	server := &apiServer{pods: manyPods(1200)}
	server.pods[7].Spec.Volumes = []v1.Volume{
		{Name: "secret", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{}}}, {Name: "a", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "Memory"}}},
	}
	var told []string
	result, err := server.read(t, func(done, total int64) { told = append(told, fmt.Sprint(done, "/", total)) })
	if err != nil {
		t.Fatal(err)
	}
	if got := len(result.Cluster.Pods); got != 1200 || len(result.Cluster.Nodes) != 1 || result.Notes != nil {
		t.Errorf("got %d pods, %d nodes, notes %q", got, len(result.Cluster.Nodes), result.Notes)
	}
	if got, want := strings.Join(told, " "), "500/1200 1000/1200 1200/1200"; got != want {
		t.Errorf("progress %s, want %s", got, want)
	}
	pod := result.Cluster.Pods[1199]
	if pod.Name != "web-1199" || pod.ManagedFields != nil || len(pod.Annotations) != 1 || pod.Spec.Containers[0].Env != nil || *pod.Spec.TerminationGracePeriodSeconds != 7 ||
		len(pod.Status.Conditions) != 1 || pod.Status.Conditions[0] != (v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionFalse}) || len(pod.Spec.Volumes) != 1 {
		t.Errorf("kept %+v", pod)
	}
	if volumes := result.Cluster.Pods[7].Spec.Volumes; len(volumes) != 1 || volumes[0].EmptyDir == nil {
		t.Errorf("kept %+v of a pod with local storage", volumes)
	}
	if names := result.Cluster.Namespaces; len(names) != 1 || names[0].Name != "shop" {
		t.Errorf("namespaces %v, want the one that the pods are in", names)
	}
}

// TestReadAfterExpiry starts an expired list again, without pages.
func TestReadAfterExpiry(t *testing.T) {
	server := &apiServer{pods: manyPods(1200), expires: 1}
	result, err := server.read(t, nil)
	if err != nil || len(result.Cluster.Pods) != 1200 {
		t.Fatal(result, err)
	}
	var asked []string
	for _, request := range server.asked {
		if strings.HasPrefix(request, "pods") {
			asked = append(asked, request)
		}
	}
	if got, want := strings.Join(asked, ","), "pods 500 ,pods 500 500,pods  "; got != want {
		t.Errorf("asked for %q, want %q", got, want)
	}
}

// TestReadWithoutRights checks the notes for forbidden kinds, and the changes of pending
// pods.
func TestReadWithoutRights(t *testing.T) {
	server := &apiServer{pods: manyPods(5), forbids: []string{"persistentvolumes", "persistentvolumeclaims", "poddisruptionbudgets", "resourceclaims"}}
	server.pods[0].Spec.NodeName = "a"
	server.pods[1].Spec.Volumes = nil
	server.pods[1].Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
	result, err := server.read(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"you may not list poddisruptionbudgets: no PodDisruptionBudget protects a pod",
		"you may not list persistentvolumes, persistentvolumeclaims: " + setAside + " (3 pending: shop/web-2, shop/web-3, shop/web-4)",
		"you may not list resourceclaims: " + devicesAside + " (1 pending: shop/web-1)",
	}
	if !slices.Equal(result.Notes, want) {
		t.Errorf("notes\n%s\nwant\n%s", strings.Join(result.Notes, "\n"), strings.Join(want, "\n"))
	}
	added := manyPods(2)
	added[1].Spec.NodeName = "a"
	for i, volumes := range []int{0, 1} {
		added[i].Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}}
		result.SetAside(&added[i])
		if spec := added[i].Spec; len(spec.Volumes) != volumes || len(spec.ResourceClaims) != volumes {
			t.Errorf("of an added pod %d volumes and %d claims are left, want %d", len(spec.Volumes), len(spec.ResourceClaims), volumes)
		}
	}
	for i, volumes := range []int{1, 0, 0, 0, 0} {
		if got := result.Cluster.Pods[i]; len(got.Spec.Volumes) != volumes || len(got.Spec.ResourceClaims) != 0 {
			t.Errorf("pod %s has %d volumes and %d claims for devices, want %d and 0", got.Name, len(got.Spec.Volumes), len(got.Spec.ResourceClaims), volumes)
		}
	}
}

// TestReadNeedsPodsAndNodes fails without pods or nodes.
func TestReadNeedsPodsAndNodes(t *testing.T) {
	for _, resource := range []string{"pods", "nodes"} {
		_, err := (&apiServer{forbids: []string{resource}}).read(t, nil)
		where := map[string]string{"pods": " in all namespaces"}[resource]
		want := "you may not list " + resource + where + ", which the command needs: request the verb list on " + resource + " in a ClusterRole, or get a file"
		if err == nil || !strings.HasPrefix(err.Error(), want) || !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestReadNamesAllMissingRights: a user without both rights sees both at once.
func TestReadNamesAllMissingRights(t *testing.T) {
	_, err := (&apiServer{forbids: []string{"pods", "nodes"}}).read(t, nil)
	want := "you may not list pods in all namespaces, nor nodes, which the command needs: request the verb list on pods and nodes in a ClusterRole, or get a file"
	if err == nil || !strings.HasPrefix(err.Error(), want) || !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestWanted checks that each kind of the table is listed, and has an assumption for
// users without access to it.
func TestWanted(t *testing.T) {
	var all []model.Kind
	for kind := range model.KindCount {
		all = append(all, model.Kind(kind))
	}
	listed := wanted(all)
	if want := len(all) + 2; len(listed) != want {
		t.Errorf("%d kinds are listed, want %d", len(listed), want)
	}
	for _, kind := range listed {
		described := false
		for _, row := range without {
			described = described || row.resource == kind.resource.Resource
		}
		if described == kind.essential {
			t.Errorf("%s: essential %v, assumption without it %v", kind.resource.Resource, kind.essential, described)
		}
	}
}
