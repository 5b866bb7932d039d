package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// gate is an out-of-tree plugin whose filter passes pods while it is open. Pods wait for
// it at Permit. It records that Close was called.
type gate struct {
	handle fwk.Handle
	open   atomic.Bool
	wanted atomic.Int32 // number of Filter calls
	closed atomic.Bool
	fails  bool
}

func (*gate) Name() string { return "Gate" }

func (g *gate) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	g.wanted.Add(1)
	if g.open.Load() {
		return nil
	}
	return fwk.NewStatus(fwk.Unschedulable, "the gate is closed")
}

func (g *gate) Permit(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.Status, time.Duration) {
	return fwk.NewStatus(fwk.Wait), time.Hour
}

func (g *gate) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: "tokens.v1.example.com", ActionType: fwk.Add}}}, nil
}

func (g *gate) Close() error {
	g.closed.Store(true)
	if g.fails {
		return errors.New("it is stuck")
	}
	return nil
}

// An out-of-tree plugin shares the scheduler's objects, is called, and can use queue and
// bindings. The scheduler is ready when the plugin's own informers are.
func TestPlugged(t *testing.T) {
	g := &gate{fails: true}
	s := newScript(t, small("a"), web("web-0"))
	s.options = []Option{WithPlugin("Gate", func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		g.handle = h
		h.SharedInformerFactory().Core().V1().ConfigMaps().Informer()
		h.SharedInformerFactory().Core().V1().Pods().Informer()
		return g, nil
	})}
	s.hold("one: list configmaps")
	r := s.prepare("one", "--leader-elect=false", "--config", file(t, "scheduler.yaml", header+"clientConnection: {contentType: application/json, kubeconfig: "+s.kubeconfig("one")+"}\n"+
		"profiles: [{plugins: {multiPoint: {enabled: [{name: Gate}]}}}]\n"))
	s.await("one: list configmaps", 1)
	s.await("one: get tokens", 1) // for the event that it has registered for
	s.await("one: watch pods", 1)
	r.expect("/readyz", 500, "[-]sched-handler-sync failed")
	s.letGo("one: list configmaps")
	s.await("one: event FailedScheduling web-0", 1)
	s.mu.Lock()
	if i := slices.IndexFunc(s.events, func(e string) bool { return strings.HasPrefix(e, "FailedScheduling") }); !strings.Contains(s.events[i], "the gate is closed") {
		t.Errorf("the event is %q", s.events[i])
	}
	s.mu.Unlock()
	r.expect("/readyz", 200, "ok")
	if notes := s.noted(); count(notes, "one: list pods") != 1 {
		t.Errorf("pods are listed for the plugin once more")
	}
	g.open.Store(true)
	pod := web("web-0")
	g.handle.Activate(klog.Background(), map[string]*v1.Pod{"default/web-0": pod})
	s.await("one: status web-0", 1)
	for late := time.After(deadline); g.handle.GetWaitingPod(pod.UID) == nil; {
		select {
		case <-time.After(time.Millisecond):
		case <-late:
			t.Fatal("the pod does not wait")
		}
	}
	s.await("one: status web-0", 2) // the node is announced before the wait
	if n := count(s.noted(), "one: bind"); n != 0 {
		t.Error("a pod that waits is bound")
	}
	g.handle.GetWaitingPod(pod.UID).Allow("Gate")
	s.await("one: bind web-0 to a", 1)
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the error is %v", err)
	}
	if !g.closed.Load() || g.wanted.Load() < 2 {
		t.Errorf("it is closed: %t, and was asked %d times", g.closed.Load(), g.wanted.Load())
	}
}
