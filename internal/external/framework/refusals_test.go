package framework_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/external/framework"
)

// refusals are tests of how unsupported methods of the Handle fail; docs/plugin-api.md
// lists these methods. Methods that return nil in kube-scheduler with default feature
// gates return nil, because plugins check for nil.
var refusals = map[string]func(t *testing.T){
	"PodGroupManager": func(t *testing.T) {
		refuses(t, "PodGroupManager().BuildHierarchySnapshotFromPod", func(h fwk.Handle, _ fwk.CycleState, pod *v1.Pod) error {
			_, err := h.PodGroupManager().BuildHierarchySnapshotFromPod(pod)
			return err
		})
		refuses(t, "PodGroupManager().GetRootKeyForGroup", func(h fwk.Handle, _ fwk.CycleState, _ *v1.Pod) error {
			_, _, err := h.PodGroupManager().GetRootKeyForGroup(fwk.PodGroupKey("shop", "group"))
			return err
		})
		m := bare(t, framework.Config{}).PodGroupManager()
		errs := make([]error, 4)
		_, errs[0] = m.PodGroups().Get("shop", "group")
		_, errs[1] = m.PodGroupStates().Get("shop", "group")
		_, errs[2] = m.CompositePodGroups().Get("shop", "group")
		_, errs[3] = m.CompositePodGroupStates().Get("shop", "group")
		for i, want := range []string{"gate is disabled", "not found for pod group shop/group", "gate is disabled", "not found for pod group shop/group"} {
			if errs[i] == nil || !strings.Contains(errs[i].Error(), want) {
				t.Errorf("lister %d: %v, want %s", i, errs[i], want)
			}
		}
	},
	"APIDispatcher": func(t *testing.T) {
		if d := bare(t, framework.Config{}).APIDispatcher(); d != nil {
			t.Errorf("got %v", d)
		}
	},
	"APICacher": func(t *testing.T) {
		if c := bare(t, framework.Config{}).APICacher(); c != nil {
			t.Errorf("got %v", c)
		}
	},
	"SignPod": func(t *testing.T) {
		if s := bare(t, framework.Config{}).SignPod(t.Context(), podOf("pod", "1").Obj()); s != nil {
			t.Errorf("got %v", s)
		}
	},
}

// refuses makes a plugin call a method in a turn. The call fails, and the pod's message
// names the method.
func refuses(t *testing.T, method string, call func(h fwk.Handle, state fwk.CycleState, pod *v1.Pod) error) {
	t.Helper()
	p := &probe{}
	var err error
	p.preFilter = func(state fwk.CycleState, pod *v1.Pod) { err = call(p.h, state, pod) }
	p.filter = func(*v1.Pod, fwk.NodeInfo) *fwk.Status { return fwk.AsStatus(err) }
	r := probed(t, one(p)).Schedule(podOf("pod", "1").Obj())
	if want := method + " of the Handle is not supported: "; r.Err == nil || !strings.Contains(r.Message, want) || !strings.Contains(r.Message, `"Probe"`) {
		t.Errorf("%s: got %+v, want an error with %s", method, r, want)
	}
}
