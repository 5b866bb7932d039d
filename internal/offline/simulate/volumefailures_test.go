package simulate_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

var (
	dataClaim = model.ClaimKey{Namespace: "default", Name: "data"}
	dataRef   = dataClaim.Ref()
)

// volumeCluster returns a small cluster with the nodes a and b of one CPU each, and a
// claim of a class.
func volumeCluster(t *testing.T, class string) *small {
	t.Helper()
	return volumeClusterOf(t, defaults(t), class)
}

func volumeClusterOf(t *testing.T, config simulate.Config, class string) *small {
	t.Helper()
	s := smallOf(t, config, "b")
	for _, name := range []string{"a", "b"} {
		n := node(name, "1")
		n.Labels = map[string]string{v1.LabelHostname: name}
		s.c.SetNode(n)
	}
	for _, o := range withClasses(build.PersistentVolumeClaim("data", "storage=1Gi uid= class="+class)) {
		if err := s.c.SetObject(o); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func withData(p *v1.Pod) { build.Claims("data")(p) }

// on returns the pod's node in the state.
func (s *small) on(name string) string {
	node, _, _ := s.c.Loop().State().NodeOf(key(name))
	return node
}

// TestWaitForVolumeEnds makes a change while a pod waits for its volume to be
// provisioned. The pod gives its room up, and is bound when possible.
func TestWaitForVolumeEnds(t *testing.T) {
	pvc := build.PersistentVolumeClaim
	for _, row := range []struct {
		name    string
		ends    func(s *small)
		message string // of the failure
		after   func(s *small)
	}{
		{"the provisioner hands the claim back", func(s *small) { s.c.FailProvision(dataClaim, 1); s.advance(time.Minute) },
			`running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"`, func(*small) {}},
		{"the claim is deleted", func(s *small) { s.c.DeleteObject(dataRef) },
			`running PreBind plugin "VolumeBinding": binding volumes: failed to check provisioning pvc: persistentvolumeclaims "default/data" not found`,
			func(s *small) { _ = s.c.SetObject(pvc("data", "storage=1Gi class=dp uid=")) }},
		{"the node is deleted", func(s *small) { s.c.DeleteNode(s.on("web")) },
			`running PreBind plugin "VolumeBinding": binding volumes: failed to get node`, func(*small) {}},
		{"the provisioner hangs", func(s *small) { s.c.DelayProvision(dataClaim, 20*time.Minute); s.advance(10 * time.Minute) },
			`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`, func(s *small) { s.advance(15 * time.Minute) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := volumeCluster(t, "dp")
			s.c.DelayProvision(dataClaim, 59*time.Second)
			if row.name == "the provisioner hangs" {
				s.c.DelayProvision(dataClaim, 20*time.Minute)
			}
			s.c.SetPod(pod("web", "1", 0, withData))
			s.advance(0)
			s.expect("web", "", s.on("web"), binding)
			if held := s.c.Loop().State().Held(); held != 1 || s.on("web") == "" {
				t.Fatalf("it is on %q, and %d objects are held", s.on("web"), held)
			}
			row.ends(s)
			s.advance(0)
			s.expect("web", "", "", errorBackoff)
			if held := s.c.Loop().State().Held(); held != 0 {
				t.Errorf("%d objects are held by nobody", held)
			}
			if v, _ := s.c.Verdict(key("web")); len(v.Message()) < len(row.message) || v.Message()[:len(row.message)] != row.message {
				t.Errorf("the message is %q, want %q", v.Message(), row.message)
			}
			row.after(s)
			s.advance(7 * time.Minute)
			if p := s.c.Pod(key("web")); p.Spec.NodeName == "" {
				v, _ := s.c.Verdict(key("web"))
				t.Errorf("it waits: %s; %s", v.Message(), storageOf(s.c))
			}
		})
	}
}

// TestVolumeWriteFails has another client write to a volume before the scheduler does.
// The scheduler's write is refused because of its version, and the pod's holds are
// released at once. The pod is bound to the same volume, or to another one if that was
// taken.
func TestVolumeWriteFails(t *testing.T) {
	for fault, want := range map[simulate.VolumeFault]string{
		simulate.VolumeTouched: "v Bound data, w Available, data Bound v",
		simulate.VolumeTaken:   "v Bound v, w Bound data, data Bound w, v Bound v",
	} {
		s := volumeCluster(t, "np")
		for name, size := range map[string]string{"v": "1Gi", "w": "2Gi"} {
			if err := s.c.SetObject(build.PersistentVolume(name, "class=np uid= storage="+size)); err != nil {
				t.Fatal(err)
			}
		}
		s.c.SetFaults(simulate.Faults{Volumes: map[simulate.VolumeFault]int{fault: 100}})
		s.c.SetPod(pod("web", "1", 0, withData))
		s.advance(0)
		s.expect("web", "", "", errorBackoff)
		if held, n := s.c.Loop().State().Held(), s.c.Happened()["write: Conflict, in earnest"]; held != 0 || n != 1 {
			t.Errorf("%d objects are held by nobody, %d writes met another version", held, n)
		}
		s.c.SetFaults(simulate.Faults{})
		s.advance(3 * time.Second)
		if got := storageOf(s.c); got != want || s.c.Pod(key("web")).Spec.NodeName == "" {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestRefusedVolumeWriteFreesTheVolume refuses a second pod's write of a volume that an
// earlier pod had. The volume is free for a third pod, although the first one still
// exists.
func TestRefusedVolumeWriteFreesTheVolume(t *testing.T) {
	s := volumeCluster(t, "np")
	volume := build.PersistentVolume("v", "class=np uid= storage=1Gi")
	if err := s.c.SetObject(volume); err != nil {
		t.Fatal(err)
	}
	s.c.SetPod(pod("first", "100m", 0, withData))
	s.advance(time.Second)
	s.c.DeleteObject(dataRef)
	s.advance(0)
	if err := s.c.SetObject(volume); err != nil { // an administrator makes it available again
		t.Fatal(err)
	}
	for _, name := range []string{"second", "third"} {
		if err := s.c.SetObject(build.PersistentVolumeClaim(name, "class=np storage=1Gi uid=")); err != nil {
			t.Fatal(err)
		}
	}
	s.c.SetFaults(simulate.Faults{Requests: map[simulate.Fault]int{simulate.Forbidden: 100}, Kinds: []commit.RequestKind{commit.WriteStep}})
	s.c.SetPod(pod("second", "100m", 1, build.Claims("second")))
	s.advance(0)
	s.expect("second", "", "", errorBackoff)
	s.c.DeletePod(key("second"))
	s.c.SetFaults(simulate.Faults{})
	s.c.SetPod(pod("third", "100m", 2, build.Claims("third")))
	s.advance(time.Second)
	if p := s.c.Pod(key("third")); p.Spec.NodeName == "" {
		v, _ := s.c.Verdict(key("third"))
		t.Errorf("it waits: %s; %s", v.Message(), storageOf(s.c))
	}
}

// TestRestartBetweenVolumeAndBinding kills the process after it has assigned a volume to
// a claim, and before the pod is bound. The next process binds the pod with that volume.
func TestRestartBetweenVolumeAndBinding(t *testing.T) {
	s := volumeCluster(t, "np")
	for name, host := range map[string]string{"v": "a", "w": "b"} {
		if err := s.c.SetObject(build.PersistentVolume(name, "class=np uid= storage=1Gi", build.VolumeAffinity("kubernetes.io/hostname In "+host))); err != nil {
			t.Fatal(err)
		}
	}
	s.c.SetFaults(simulate.Faults{MaxControllerDelay: 10 * time.Second})
	s.c.SetPod(pod("web", "1", 0, withData))
	s.advance(0)
	on := s.on("web")
	s.expect("web", "", on, binding)
	s.c.Kill()
	s.advance(time.Second)
	s.a.forget()
	if err := s.c.Restart(); err != nil {
		t.Fatal(err)
	}
	s.advance(time.Minute)
	s.expect("web", on, on, "")
	want := map[string]string{"a": "v Bound data, w Available, data Bound v", "b": "v Available, w Bound data, data Bound w"}[on]
	if got := storageOf(s.c); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestVolumeIsShownAfterItsClaim shows changes late and out of order among objects, so
// that a claim may be seen bound before its provisioned volume is seen. The volume alone
// must then end the wait, because nothing else changes.
func TestVolumeIsShownAfterItsClaim(t *testing.T) {
	runs := uint64(100)
	if build.Raced {
		runs = 40
	}
	overtaken := 0
	for seed := range runs {
		config := defaults(t)
		config.Seed = seed
		s := volumeClusterOf(t, config, "dp")
		s.c.SetFaults(simulate.Faults{MaxWatchDelay: 5 * time.Second})
		s.c.SetPod(pod("web", "1", 0, withData))
		for range 600 {
			s.advance(100 * time.Millisecond)
			store := s.c.Loop().State().View().Storage()
			if claim := store.Claim(dataClaim); claim != nil && claim.Bound && store.Volume(claim.Object.Spec.VolumeName) == nil {
				overtaken++
				break
			}
		}
		s.advance(time.Minute)
		if s.c.Pod(key("web")).Spec.NodeName == "" {
			t.Fatalf("seed %d: it still waits %s after the start, in place %q; %s", seed, s.c.Elapsed(), s.c.Loop().Queue().PlaceOf(key("web")), storageOf(s.c))
		}
	}
	if overtaken < int(runs/20) {
		t.Errorf("in %d of %d runs the claim was shown before the volume, too few to say anything", overtaken, runs)
	}
}
