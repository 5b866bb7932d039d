package app

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2/textlogger"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/ingest"
	"github.com/berth-scheduler/berth/internal/queue"
	"github.com/berth-scheduler/berth/internal/state"
)

// TestDump shows a scheduler a cluster, and then compares what it holds with another one.
func TestDump(t *testing.T) {
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := queue.New(c.Queue(queue.DefaultParkedMax))
	if err != nil {
		t.Fatal(err)
	}
	changes, held := ingest.New(c.Compile()), state.New()
	pods := []*v1.Pod{dumped("waits", ""), dumped("runs", "a"), dumped("lost", "b")}
	nodes := []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b"}}}
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

	got := dump(pods, nodes)
	for _, want := range []string{
		"All invariants hold", "Dump of cached NodeInfo", "Node name: a", "Scheduled Pods(number: 1)", "name: default/runs, uid: runs, assumed: false",
		`"Dump of scheduling queue" summary="activeQ:1; backoffQ:0; unschedulableEntities:0"`, "name: default/waits, uid: waits, active",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "mismatch") {
		t.Errorf("equal things differ:\n%s", got)
	}

	violations = errors.New("state: nodes is 3")
	if got := dump(pods, nodes); !strings.Contains(got, `"Invariant violated" violation="state: nodes is 3"`) || strings.Contains(got, "hold") {
		t.Errorf("with a violated invariant:\n%s", got)
	}
	violations = nil

	stranger := dumped("stranger", "")
	stranger.Spec.SchedulerName = "another"
	got = dump([]*v1.Pod{pods[0], pods[1], dumped("new", "a"), dumped("unseen", ""), stranger}, []*v1.Node{nodes[0], {ObjectMeta: metav1.ObjectMeta{Name: "c"}}})
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
