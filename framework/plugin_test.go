package framework_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/framework"
	st "github.com/berth-scheduler/berth/framework/testing"
)

func TestDecodeInto(t *testing.T) {
	type arguments struct {
		Weight int `json:"weight"`
	}
	for _, row := range []struct {
		what runtime.Object
		want int
		err  string
	}{
		{nil, 3, ""},
		{&runtime.Unknown{}, 3, ""},
		{&runtime.Unknown{Raw: []byte(`{"weight": 7}`)}, 7, ""},
		{&runtime.Unknown{Raw: []byte(`{"weight": 7}`), ContentType: runtime.ContentTypeJSON}, 7, ""},
		{&runtime.Unknown{Raw: []byte("weight: 8"), ContentType: runtime.ContentTypeYAML}, 8, ""},
		{&runtime.Unknown{Raw: []byte("weight: 8")}, 3, "invalid character"},
		{&runtime.Unknown{Raw: []byte("x"), ContentType: runtime.ContentTypeProtobuf}, 3, "not supported content type application/vnd.kubernetes.protobuf"},
		{&v1.Pod{}, 3, "want args of type runtime.Unknown, got *v1.Pod"},
	} {
		into := arguments{3}
		err := framework.DecodeInto(row.what, &into)
		if into.Weight != row.want || (err == nil) != (row.err == "") || err != nil && !strings.HasPrefix(err.Error(), row.err) {
			t.Errorf("%v: %d, %v, want %d, %s", row.what, into.Weight, err, row.want, row.err)
		}
	}
}

func TestDefaultNormalizeScore(t *testing.T) {
	for _, row := range []struct {
		scores  []int64
		reverse bool
		want    []int64
	}{
		{[]int64{1, 2, 4, 0}, false, []int64{25, 50, 100, 0}},
		{[]int64{1, 2, 4, 0}, true, []int64{75, 50, 0, 100}},
		{[]int64{0, 0}, false, []int64{0, 0}},
		{[]int64{0, 0}, true, []int64{100, 100}},
		{[]int64{1, 3}, true, []int64{67, 0}},
	} {
		var list fwk.NodeScoreList
		for _, score := range row.scores {
			list = append(list, fwk.NodeScore{Score: score})
		}
		if status := framework.DefaultNormalizeScore(100, row.reverse, list); !status.IsSuccess() {
			t.Error(status)
		}
		for i, score := range list {
			if score.Score != row.want[i] {
				t.Errorf("%v, reverse %t: score %d is %d, want %d", row.scores, row.reverse, i, score.Score, row.want[i])
			}
		}
	}
}

func TestMoreImportantPod(t *testing.T) {
	early, late := metav1.Unix(1, 0), metav1.Unix(2, 0)
	pods := []*v1.Pod{ // the most important first
		st.MakePod().Name("high").Priority(2).Obj(),
		st.MakePod().Name("early").Priority(1).StartTime(early).Obj(),
		st.MakePod().Name("late").Priority(1).StartTime(late).Obj(),
		st.MakePod().Name("waits").Priority(1).Obj(),
		st.MakePod().Name("none").Obj(),
	}
	for i, a := range pods {
		for j, b := range pods {
			if got := framework.MoreImportantPod(a, b); got != (i < j) {
				t.Errorf("%s before %s: %t", a.Name, b.Name, got)
			}
		}
	}
	if a, b := framework.GetPodFullName(plain("a")), framework.GetPodNamespacedName(plain("a")); a != "a_ns" || b != "ns/a" {
		t.Error(a, b)
	}
}

// TestPatchPodStatus writes a condition, which the API server rejects once, and nothing
// for equal statuses.
func TestPatchPodStatus(t *testing.T) {
	pod := plain("a")
	client := fake.NewClientset(pod)
	conflicts, patches := 1, 0
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		patches++
		if conflicts > 0 {
			conflicts--
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "a", errors.New("again"))
		}
		return false, nil, nil
	})
	status := pod.Status.DeepCopy()
	status.Conditions = []v1.PodCondition{{Type: v1.DisruptionTarget, Status: v1.ConditionTrue}}
	for _, to := range []*v1.PodStatus{nil, pod.Status.DeepCopy(), status} {
		if err := framework.PatchPodStatus(t.Context(), client, "a", "ns", &pod.Status, to); err != nil {
			t.Fatal(err)
		}
	}
	got, err := client.CoreV1().Pods("ns").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || len(got.Status.Conditions) != 1 || patches != 2 {
		t.Errorf("%v in %d patches: %v", got.Status.Conditions, patches, err)
	}
	if err := framework.PatchPodStatus(t.Context(), client, "b", "ns", nil, status); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
	if err := framework.DeletePod(t.Context(), client, pod); err != nil {
		t.Error(err)
	}
	if err := framework.DeletePod(t.Context(), client, pod); !apierrors.IsNotFound(err) {
		t.Error(err)
	}
}

// lister has nodes by name, in order.
type lister []string

func (l lister) List() ([]fwk.NodeInfo, error) {
	var all []fwk.NodeInfo
	for _, name := range l {
		n := framework.NewNodeInfo()
		n.SetNode(st.MakeNode().Name(name).Obj())
		all = append(all, n)
	}
	return all, nil
}

func (l lister) Get(name string) (fwk.NodeInfo, error) {
	all, _ := l.List()
	if i := slices.Index(l, name); i >= 0 {
		return all[i], nil
	}
	return nil, errors.New("none")
}

func (lister) HavePodsWithAffinityList() ([]fwk.NodeInfo, error)             { return nil, nil }
func (lister) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (lister) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}

func TestNodeToStatus(t *testing.T) {
	unresolvable := fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "never")
	full := fwk.NewStatus(fwk.Unschedulable, "full", "hot")
	for _, row := range []struct {
		byName map[string]*fwk.Status
		absent *fwk.Status
		code   fwk.Code
		want   []string
	}{
		{nil, unresolvable, fwk.Unschedulable, nil},
		{nil, full, fwk.Unschedulable, []string{"c", "b", "a"}},
		{map[string]*fwk.Status{"b": full, "c": full, "a": unresolvable, "gone": full}, unresolvable, fwk.Unschedulable, []string{"b", "c"}},
		{map[string]*fwk.Status{"b": full}, unresolvable, fwk.UnschedulableAndUnresolvable, []string{"c", "a"}},
	} {
		m := framework.NewNodeToStatus(row.byName, row.absent)
		nodes, err := m.NodesForStatusCode(lister{"c", "b", "a"}, row.code)
		var got []string
		for _, n := range nodes {
			got = append(got, n.Node().Name)
		}
		if err != nil || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%v %v: %v, %v, want %v", row.byName, row.code, got, err, row.want)
		}
	}
	m := framework.NewDefaultNodeToStatus()
	m.Set("a", full)
	fit := framework.FitError{NumAllNodes: 5, Diagnosis: framework.Diagnosis{NodeToStatus: m, PostFilterMsg: "preemption: no"}}
	m.SetAbsentNodesStatus(unresolvable)
	m.Set("b", full)
	if got, want := fit.Error(), "0/5 nodes are available: 2 full, 2 hot, 3 never. preemption: no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	fit.Diagnosis.PreFilterMsg = "no claim"
	if got, want := fit.Error(), "0/5 nodes are available: no claim. preemption: no"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	fit.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Pending).WithPlugin("p"))
	fit.Diagnosis.AddPluginStatus(fwk.NewStatus(fwk.Success).WithPlugin("q"))
	if d := fit.Diagnosis; !d.UnschedulablePlugins.Has("p") || !d.PendingPlugins.Has("p") || d.UnschedulablePlugins.Len() != 1 {
		t.Errorf("%+v", d)
	}
}

func TestParallelizer(t *testing.T) {
	for _, goroutines := range []int{-1, 1, 16} {
		for _, pieces := range []int{0, 1, 100} {
			var done [100]atomic.Int32
			framework.NewParallelizer(goroutines).Until(t.Context(), pieces, func(i int) { done[i].Add(1) }, "test")
			for i := range done {
				if n := done[i].Load(); (n == 1) != (i < pieces) || n > 1 {
					t.Errorf("%d goroutines, %d pieces: piece %d is done %d times", goroutines, pieces, i, n)
				}
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	framework.NewParallelizer(2).Until(ctx, 1<<40, func(int) {}, "test") // ends
}
