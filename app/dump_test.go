package app

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/textlogger"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// TestDump compares a scheduler's content with the same cluster, and with another one.
func TestDump(t *testing.T) {
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultMaxParked))
	if err != nil {
		t.Fatal(err)
	}
	changes, held := ingest.New(c.Compile()), state.New()
	gated := dumped("gated", "")
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "g"}}
	pods := []*v1.Pod{dumped("waits", ""), gated, dumped("runs", "a"), dumped("lost", "b")}
	nodes := []*v1.Node{build.Node("b"), build.Node("a", build.Allocatable("cpu=4 memory=1Gi pods=10"))}
	pods[2].Spec.Containers[0].Resources.Requests = build.Resources("cpu=100m memory=1Mi")
	for _, pod := range pods {
		changes.Set(pod)
	}
	for _, node := range nodes {
		changes.Set(node)
	}
	waiting.Wake(time.Unix(1, 0), held.Apply(changes.Drain()))
	var violations error
	look := holdings{held, waiting, func(name string) bool { return name == v1.DefaultSchedulerName }, func() error { return violations }}
	dump := func(pods []*v1.Pod, nodes []*v1.Node) string {
		var text bytes.Buffer
		look.dump(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&text))), pods, nodes)
		return text.String()
	}

	// Nodes and pods are sorted by name, whatever the order in the watches' caches.
	want := `"All invariants hold"
"Dump of cached NodeInfo" nodes=<
	Node name: a
	Requested: cpu 100m, memory 1048576 bytes
	Allocatable: cpu 4000m, memory 1073741824 bytes
	Scheduled Pods(number: 1):
	name: default/runs, uid: runs, assumed: false

	Node name: b
	Requested: cpu 0m, memory 0 bytes
	Allocatable: cpu 0m, memory 0 bytes
	Scheduled Pods(number: 1):
	name: default/lost, uid: lost, assumed: false
 >
"Dump of scheduling queue" summary="activeQ:1; backoffQ:0; unschedulableEntities:1" pods=<
	name: default/gated, uid: gated, gated
	name: default/waits, uid: waits, active
 >
`
	got := regexp.MustCompile(`(?m)^I.*\] |^\t$`).ReplaceAllString(dump(pods, nodes), "")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	violations = errors.New("state: nodes is 3")
	if got := dump(pods, nodes); !strings.Contains(got, `"Invariant violated" violation="state: nodes is 3"`) || strings.Contains(got, "hold") {
		t.Errorf("with a violated invariant:\n%s", got)
	}
	violations = nil

	stranger := dumped("stranger", "")
	stranger.Spec.SchedulerName = "another"
	ending := dumped("ending", "") // not in the queue
	ending.DeletionTimestamp = &metav1.Time{}
	got = dump([]*v1.Pod{pods[0], pods[1], pods[2], dumped("new", "a"), dumped("unseen", ""), stranger, ending}, []*v1.Node{nodes[1], {ObjectMeta: metav1.ObjectMeta{Name: "c"}}})
	for _, want := range []string{
		`"Cache mismatch" missedNodes=["c"] redundantNodes=["b"]`,
		`"Cache mismatch" missedPods=["default/new","default/unseen"] redundantPods=["default/lost"]`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}

func dumped(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, NodeName: node, Containers: []v1.Container{{Name: "main"}}},
	}
}
