package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// stalls is a plugin's own type with slow methods.
type stalls struct {
	fwk.NodeInfo
	fwk.PodInfo
	release chan struct{}
}

func (s stalls) GetPods() []fwk.PodInfo { <-s.release; return nil }
func (s stalls) GetPod() *v1.Pod        { <-s.release; return &v1.Pod{} }
func (s stalls) Node() *v1.Node         { return s.NodeInfo.Node() }
func (s stalls) Snapshot() fwk.NodeInfo { return s }

// TestStallingTypes has a PostFilter plugin that passes its own types, whose methods do
// not return, to the Handle. The loop waits no longer than the deadline.
func TestStallingTypes(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		for name, stall := range map[string]func(h fwk.Handle, state fwk.CycleState, pod *v1.Pod, release chan struct{}){
			"RunFilterPlugins": func(h fwk.Handle, state fwk.CycleState, pod *v1.Pod, release chan struct{}) {
				nodes, _ := h.SnapshotSharedLister().NodeInfos().List()
				h.RunFilterPlugins(context.Background(), state, pod, stalls{NodeInfo: nodes[0], release: release})
			},
			"AddNominatedPod": func(h fwk.Handle, _ fwk.CycleState, _ *v1.Pod, release chan struct{}) {
				h.AddNominatedPod(klog.Logger{}, stalls{release: release}, nil)
			},
			"UpdateNominatedPod": func(h fwk.Handle, _ fwk.CycleState, pod *v1.Pod, release chan struct{}) {
				h.UpdateNominatedPod(klog.Logger{}, pod, stalls{release: release})
			},
		} {
			release, done := make(chan struct{}), make(chan struct{})
			p := &counts{named: "P"}
			p.post = func(p *counts, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
				stall(p.handle, state, pod, release)
				return nil, nil
			}
			w := newWorldWithin(t, 50*time.Millisecond, 1, p)
			go func() {
				defer close(done)
				for range 2 {
					w.decide(w.pod("p", "1"))
				}
			}()
			select {
			case <-done:
			case <-time.After(2 * time.Minute):
				t.Errorf("%s: the loop waits", name)
			}
			close(release)
			<-done
		}
	})
}
