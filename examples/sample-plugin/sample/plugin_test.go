package sample

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/framework"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// handle is the part of a Handle that the plugin uses.
type handle struct {
	fwk.Handle // nil: methods that the plugin does not use panic
	client     *fake.Clientset
	waiting    map[types.UID]*waitingPod
	activated  []string
}

func (h *handle) ClientSet() clientset.Interface { return h.client }
func (h *handle) ProfileName() string            { return "sample-scheduler" }
func (h *handle) SharedInformerFactory() informers.SharedInformerFactory {
	return informers.NewSharedInformerFactory(h.client, 0)
}

func (h *handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	if p := h.waiting[uid]; p != nil {
		return p
	}
	return nil
}

func (h *handle) Activate(_ klog.Logger, pods map[string]*v1.Pod) {
	for name := range pods {
		h.activated = append(h.activated, name)
	}
}

type waitingPod struct {
	fwk.WaitingPod
	allowed string
}

func (w *waitingPod) Allow(plugin string) { w.allowed = plugin }

func newSample(t *testing.T, args SampleArgs, objects ...runtime.Object) (*Sample, *handle) {
	t.Helper()
	setDefaults(&args)
	h := &handle{client: fake.NewClientset(objects...), waiting: map[types.UID]*waitingPod{}}
	made, err := New(t.Context(), &args, h)
	if err != nil {
		t.Fatal(err)
	}
	return made.(*Sample), h
}

func podWith(annotations map[string]string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1", Annotations: annotations},
		Spec:       v1.PodSpec{SchedulerName: "sample-scheduler"},
	}
}

func nodeWith(labels map[string]string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: labels}})
	return info
}

func TestFilterKeepsPodsOffOtherColors(t *testing.T) {
	for _, row := range []struct {
		name            string
		pod, node       map[string]string
		skipped         bool
		code            fwk.Code
		message, helped string
	}{
		{name: "favorite", node: map[string]string{ColorLabel: "blue"}},
		{name: "unlabelled"},
		{
			name: "other", node: map[string]string{ColorLabel: "red"},
			code: fwk.UnschedulableAndUnresolvable, message: "node(s) had another color than blue",
		},
		{name: "asked for", pod: map[string]string{ColorAnnotation: "red"}, node: map[string]string{ColorLabel: "red"}},
		{
			name: "other than asked for", pod: map[string]string{ColorAnnotation: "red"}, node: map[string]string{ColorLabel: "blue"},
			code: fwk.UnschedulableAndUnresolvable, message: "node(s) had another color than red",
		},
		{name: "any", pod: map[string]string{ColorAnnotation: AnyColor}, node: map[string]string{ColorLabel: "red"}, skipped: true},
	} {
		s, _ := newSample(t, SampleArgs{})
		pod, node, state := podWith(row.pod), nodeWith(row.node), framework.NewCycleState()
		_, status := s.PreFilter(t.Context(), state, pod, nil)
		if status.IsSkip() != row.skipped {
			t.Errorf("%s: PreFilter: %v, want skipped %v", row.name, status, row.skipped)
		}
		if !row.skipped {
			status := s.Filter(t.Context(), state, pod, node)
			if status.Code() != row.code || status.Message() != row.message {
				t.Errorf("%s: Filter: %v %q, want %v %q", row.name, status.Code(), status.Message(), row.code, row.message)
			}
		}
		// The hint queues the pod exactly if the node would pass.
		hint, err := s.nodeHelps(klog.Background(), pod, nil, node.Node())
		if want := map[bool]fwk.QueueingHint{true: fwk.Queue, false: fwk.QueueSkip}[row.code == fwk.Success]; err != nil || hint != want {
			t.Errorf("%s: hint %v (%v), want %v", row.name, hint, err, want)
		}
	}
}

func TestFilterNeedsPreFilter(t *testing.T) {
	s, _ := newSample(t, SampleArgs{})
	if status := s.Filter(t.Context(), framework.NewCycleState(), podWith(nil), nodeWith(nil)); status.Code() != fwk.Error {
		t.Errorf("got %v, want an error", status)
	}
}

func TestScoresFollowTheDistance(t *testing.T) {
	number := 42
	s, _ := newSample(t, SampleArgs{FavoriteNumber: &number})
	var scores fwk.NodeScoreList
	for _, row := range []struct {
		number string
		want   int64
	}{{"42", 0}, {"40", 2}, {"142", 100}, {"", 1000}, {"many", 1000}, {"-5", 1000}, {"1001", 1000}} {
		got, status := s.Score(t.Context(), nil, podWith(nil), nodeWith(map[string]string{NumberLabel: row.number}))
		if got != row.want || !status.IsSuccess() {
			t.Errorf("number %q: %d (%v), want %d", row.number, got, status, row.want)
		}
		scores = append(scores, fwk.NodeScore{Name: row.number, Score: got})
	}
	s.NormalizeScore(t.Context(), nil, nil, scores)
	for i, want := range []int64{100, 100, 90, 0, 0, 0, 0} {
		if scores[i].Score != want {
			t.Errorf("number %q: normalized to %d, want %d", scores[i].Name, scores[i].Score, want)
		}
	}
	equal := fwk.NodeScoreList{{Score: 0}, {Score: 0}}
	s.NormalizeScore(t.Context(), nil, nil, equal)
	if equal[0].Score != 100 || equal[1].Score != 100 {
		t.Errorf("distances of 0 are normalized to %v, want 100", equal)
	}
}

func TestThanksEndTheWait(t *testing.T) {
	asking := map[string]string{WantsThanksAnnotation: ""}
	thanked := map[string]string{WantsThanksAnnotation: "", ThanksAnnotation: "everyone"}
	for _, row := range []struct {
		name  string
		pod   map[string]string
		waits bool
	}{
		{"does not mind", nil, false},
		{"not thanked", asking, true},
		{"somebody else thanked", map[string]string{WantsThanksAnnotation: "", ThanksAnnotation: "Bob"}, true},
		{"thanked", thanked, false},
	} {
		s, _ := newSample(t, SampleArgs{})
		status, timeout := s.Permit(t.Context(), nil, podWith(row.pod), "n1")
		if status.IsWait() != row.waits || row.waits && timeout != thanksWait || !row.waits && !status.IsSuccess() {
			t.Errorf("%s: %v for %v, want to wait: %v", row.name, status, timeout, row.waits)
		}
	}

	s, h := newSample(t, SampleArgs{})
	w := &waitingPod{}
	h.waiting["u1"] = w
	s.updated(podWith(asking))
	if w.allowed != "" {
		t.Error("a pod was allowed that has not been thanked")
	}
	s.updated(podWith(thanked))
	if w.allowed != Name || len(h.activated) > 0 {
		t.Errorf("allowed by %q, activated %v: want allowed by %s", w.allowed, h.activated, Name)
	}
	delete(h.waiting, "u1") // rejected meanwhile
	s.updated(podWith(thanked))
	if len(h.activated) != 1 || h.activated[0] != "shop/web" {
		t.Errorf("activated %v, want shop/web", h.activated)
	}
	bound := podWith(thanked)
	bound.Spec.NodeName = "n1"
	other := podWith(thanked)
	other.Spec.SchedulerName = "another"
	s.updated(bound)
	s.updated(other)
	if len(h.activated) != 1 {
		t.Errorf("activated %v, want no bound pod and none of another scheduler", h.activated)
	}
}

func TestSeats(t *testing.T) {
	var s seats
	expect := func(pod types.UID, want int) {
		t.Helper()
		if got, _ := s.of(pod); got != want {
			t.Errorf("%s has seat %d, want %d", pod, got, want)
		}
	}
	s.leave("nobody")
	s.take("a", "n1")
	s.take("b", "n1")
	s.take("c", "n2")
	expect("a", 1)
	expect("b", 2)
	expect("c", 1)
	s.leave("a")
	s.leave("a") // Unreserve is idempotent
	s.take("d", "n1")
	expect("a", 0)
	expect("d", 1)
	s.take("d", "n2") // another attempt on another node
	expect("d", 2)
	s.leave("b")
	s.leave("c")
	s.leave("d")
	if len(s.pods)+len(s.taken) > 0 {
		t.Errorf("left over: %v %v", s.pods, s.taken)
	}
}

func TestPreBindWritesTheSeat(t *testing.T) {
	pod := podWith(map[string]string{"mine": "1"})
	s, h := newSample(t, SampleArgs{}, pod)
	ctx := t.Context()
	if status := s.PreBind(ctx, nil, pod, "n1"); !status.IsError() {
		t.Errorf("without a seat: %v, want an error", status)
	}
	s.Reserve(ctx, nil, pod, "n1")
	if status := s.PreBind(ctx, nil, pod, "n1"); !status.IsSuccess() {
		t.Fatal(status)
	}
	got, err := h.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"mine": "1", SeatAnnotation: "1", ProfileAnnotation: "sample-scheduler"} {
		if got.Annotations[name] != want {
			t.Errorf("annotation %s is %q, want %q", name, got.Annotations[name], want)
		}
	}
	h.client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("the API server is away")
	})
	if status := s.PreBind(ctx, nil, pod, "n1"); !strings.Contains(status.Message(), "annotate pod shop/web: the API server is away") {
		t.Errorf("got %q", status.Message())
	}
	s.Unreserve(ctx, nil, pod, "n1")
	if _, seated := s.seats.of(pod.UID); seated {
		t.Error("the pod still has its seat")
	}
}

func TestArgumentsAreChecked(t *testing.T) {
	tooLarge, negative := 1001, -1
	for _, row := range []struct {
		args runtime.Object
		want string
	}{
		{&SampleArgs{FavoriteColor: "light blue"}, `arguments of plugin Sample: favoriteColor: Invalid value: "light blue": a valid label must be`},
		{&SampleArgs{FavoriteNumber: &tooLarge}, "arguments of plugin Sample: favoriteNumber: Invalid value: 1001: must be between 0 and 1000, inclusive"},
		{&SampleArgs{FavoriteNumber: &negative}, "arguments of plugin Sample: favoriteNumber: Invalid value: -1: must be between 0 and 1000, inclusive"},
		{&SampleArgs{ThanksTo: strings.Repeat("a", 101)}, "arguments of plugin Sample: thanksTo: Too long: may not be more than 100 bytes"},
		{&runtime.Unknown{}, "arguments of plugin Sample: got *runtime.Unknown, want *SampleArgs: give the program app.WithScheme(sample.AddToScheme)"},
		{nil, "arguments of plugin Sample: got <nil>, want *SampleArgs"},
	} {
		if args, ok := row.args.(*SampleArgs); ok {
			setDefaults(args)
		}
		if _, err := New(t.Context(), row.args, nil); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v: error %v, want %q", row.args, err, row.want)
		}
	}
}

func TestArgumentsHaveDefaults(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(configv1.SchemeGroupVersion)
	decode := func(fields string) (*SampleArgs, error) {
		object, _, err := decoder.Decode([]byte(`{"apiVersion":"kubescheduler.config.k8s.io/v1","kind":"SampleArgs"`+fields+`}`), nil, nil)
		if err != nil {
			return nil, err
		}
		return object.(*SampleArgs), nil
	}
	args, err := decode(`,"favoriteNumber":0,"thanksTo":"Ada"`)
	if err != nil {
		t.Fatal(err)
	}
	if args.FavoriteColor != "blue" || *args.FavoriteNumber != 0 || args.ThanksTo != "Ada" {
		t.Errorf("got %+v, want the color blue, the number 0 and Ada", args)
	}
	if _, err := decode(`,"favouriteColor":"red"`); err == nil || !strings.Contains(err.Error(), `unknown field "favouriteColor"`) {
		t.Errorf("error %v, want one about the unknown field", err)
	}
}
