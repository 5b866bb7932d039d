package simulate_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestAnnouncementsCost counts the writes to pods before and with their binding. Only a
// pod whose volumes are still to be bound announces its node first.
func TestAnnouncementsCost(t *testing.T) {
	for _, row := range []struct {
		name      string
		class     string
		pod       []func(*v1.Pod)
		announced bool
	}{
		{"a plain pod", "dp", nil, false},
		{"its volumes are bound", "still", []func(*v1.Pod){withData}, false},
		{"its volume is to be provisioned", "dp", []func(*v1.Pod){withData}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := volumeCluster(t, row.class)
			if row.class == "still" {
				if err := s.c.SetObject(build.PersistentVolume("v", "class=still storage=1Gi uid=")); err != nil {
					t.Fatal(err)
				}
				s.advance(time.Second)
			}
			s.c.SetPod(pod("web", "1", 0, row.pod...))
			s.advance(0)
			if row.announced {
				if p := s.c.Pod(key("web")); p.Spec.NodeName != "" || p.Status.NominatedNodeName == "" || p.Status.NominatedNodeName != s.on("web") {
					t.Errorf("it is on node %q, and shows %q as its nominated one; it goes to %q", p.Spec.NodeName, p.Status.NominatedNodeName, s.on("web"))
				}
			}
			s.advance(time.Minute)
			p, happened := s.c.Pod(key("web")), s.c.Happened()
			want := 0
			if row.announced {
				want = 1
			}
			if p.Spec.NodeName == "" || p.Status.NominatedNodeName != "" || happened["patch: done"] != want || happened["bind: done"] != 1 || happened["record: done"] != 1 {
				t.Errorf("on node %q, nominated to %q; %v; want %d patches", p.Spec.NodeName, p.Status.NominatedNodeName, happened, want)
			}
			if n := s.c.Loop().State().Nominated(); n != 0 {
				t.Errorf("%d pods are nominated in the end", n)
			}
		})
	}
}

// TestAnnouncementIsTakenBack fails the binding of a pod that has announced its node. The
// announcement is removed, and no nomination is left.
func TestAnnouncementIsTakenBack(t *testing.T) {
	s := volumeCluster(t, "dp")
	s.c.DelayProvision(dataClaim, 59*time.Second)
	s.c.SetPod(pod("web", "1", 0, withData))
	s.advance(0)
	s.c.DeleteObject(dataRef)
	s.advance(0)
	s.expect("web", "", "", errorBackoff)
	if p := s.c.Pod(key("web")); p.Status.NominatedNodeName != "" || s.c.Loop().State().Nominated() != 0 {
		t.Errorf("it shows node %q as its nominated one, and %d pods are nominated", p.Status.NominatedNodeName, s.c.Loop().State().Nominated())
	}
}
