package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/kube"
)

// After another replica has acquired the lease, a leader sends no bindings and cancels
// the one in flight. The test prevents the immediate exit of the process.
func TestNoBindingsWithoutTheLease(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	s.hold("one: bind")
	r := s.prepare("one", leading...)
	s.await("one: bind web-0 to a", 1)
	s.handOver("another")
	s.await("one: exit", 1)
	// The lost lease cancels requests long before their own timeout.
	if err := context.Cause(r.s.leadership.lost); !errors.Is(err, kube.ErrLost) {
		t.Errorf("leadership ended with %v", err)
	}
	s.await("one: bind web-0 to a broken off", 1)
	s.letGo("one: bind")
	s.add(web("web-1"))
	// The replica still watches and decides, and after each attempt it reads the pod's
	// node.
	s.await("one: get web-1", 2)
	s.await("one: get web-0", 2)
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the error is %v", err)
	}
	notes := s.noted()
	if n := count(notes, "one: bind"); n != 2 || count(notes, "one: exit") != 1 || s.holder() != "another" {
		t.Errorf("%d notes of bindings, want 2; the lease is %s's:\n%s", n, s.holder(), strings.Join(notes, "\n"))
	}
}

// A standby lists the cluster before it tries to lead, follows its changes, and binds
// when the lease is free.
func TestStandbyWatches(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	s.handOver("another")
	s.hold("one: list nodes")
	r := s.prepare("one", leading...)
	s.await("one: list nodes", 1)
	r.expect("/healthz?verbose", 200, "[+]leaderElection ok\n")
	r.expect("/readyz", 500, "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n")
	if n := count(s.noted(), "one: read lease"); n != 0 {
		t.Errorf("it tries to lead before it has listed the nodes")
	}
	s.letGo("one: list nodes")
	s.await("one: read lease", 2)
	r.expect("/readyz?verbose", 200, "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n")
	if status, body := r.get("/metrics/resources", "operator"); status != 200 || body != "" {
		t.Errorf("a standby shows resources: %d %s", status, body)
	}
	s.add(web("web-1"))
	s.await("one: read lease", 4)
	s.handOver("")
	s.await("one: bind", 2)
	r.expect("/metrics/resources", 200, `kube_pod_resource_request{namespace="default",node=`)
	notes := s.noted()
	if index(notes, "one: bind") < index(notes, "one: take lease") || index(notes, "one: read lease") < last(notes, "one: list") {
		t.Errorf("the order is wrong:\n%s", strings.Join(notes, "\n"))
	}
	if count(notes, "one: watch pods") != 1 || count(notes, "one: list pods") != 1 {
		t.Errorf("pods are listed again:\n%s", strings.Join(notes, "\n"))
	}
}

// With delayCacheUntilActive, a standby requests only the lease until it leads.
func TestStandbyDelaysItsCache(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	config := func() string {
		return file(t, "scheduler.yaml", header+"delayCacheUntilActive: true\nclientConnection: {contentType: application/json, kubeconfig: "+s.kubeconfig("one")+"}\n")
	}
	for _, leads := range []bool{false, true} {
		s.handOver("another")
		before := len(s.noted())
		r := s.prepare("one", append([]string{"--config", config()}, leading...)...)
		s.await("one: read lease", 3+count(s.noted(), "one: read lease"))
		r.expect("/readyz", 500, "[-]sched-handler-sync failed")
		for _, note := range s.noted()[before:] {
			if note != "one: read lease" && !strings.Contains(note, "review") {
				t.Errorf("a standby asks: %s", note)
			}
		}
		if leads {
			s.handOver("")
			s.await("one: bind", 1)
		}
		r.stop()
		if err := r.wait(); err != nil {
			t.Errorf("the error is %v", err)
		}
		notes := s.noted()[before:]
		if lists := count(notes, "one: list") + count(notes, "one: watch"); !leads && (lists != 0 || s.holder() != "another") {
			t.Errorf("a standby that was stopped has listed, or the lease is %q:\n%s", s.holder(), strings.Join(notes, "\n"))
		}
		if leads && (index(notes, "one: list") < index(notes, "one: take lease") || s.holder() != "") {
			t.Errorf("it lists before it leads, or the lease is %q:\n%s", s.holder(), strings.Join(notes, "\n"))
		}
	}
}

// A stopping replica first reports that it is not ready. It releases the lease last,
// after its writes have ended.
func TestStopsInOrder(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	// On a busy machine, the checks before letGo may take longer than the command waits.
	s.drain = deadline
	s.hold("one: bind")
	r := s.prepare("one", leading...)
	s.await("one: bind web-0 to a", 1)
	r.expect("/readyz?verbose", 200, "[+]shutdown ok\n")
	r.stop()
	r.expect("/readyz", 500, "[-]shutdown failed: reason withheld\n")
	r.expect("/healthz", 200, "ok")
	s.await("one: watch pods ended", 1) // no further changes are applied
	s.await("one: renew lease", 2+count(s.noted(), "one: renew lease"))
	select {
	case err := <-r.ended:
		t.Fatalf("it ends with %v while a binding is in flight", err)
	default:
	}
	r.expect("/readyz", 500, "[-]shutdown failed: reason withheld\n")
	s.letGo("one: bind")
	if err := r.wait(); err != nil {
		t.Errorf("the error is %v", err)
	}
	var order []string
	for _, note := range s.noted() {
		if _, what, _ := strings.Cut(note, ": "); strings.Contains(what, "answered") || strings.Contains(what, "give") || what == "event Scheduled web-0" {
			order = append(order, what)
		}
	}
	order = slices.Compact(order) // the release is repeated if it collides with the last renewal
	if got := strings.Join(order, ", "); got != "bind web-0 to a answered, event Scheduled web-0, give lease" {
		t.Errorf("it ended with %s", got)
	}
	if status, body := r.get("/healthz", "operator"); status != 0 {
		t.Errorf("it still serves: %d %s", status, body)
	}
}

// A replica that stops while a write has no answer leaves the lease to expire: the next
// leader must not decide before the write can no longer be stored.
func TestLeaseIsKeptUntilWritesAreAnswered(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	s.drain = 200 * time.Millisecond
	s.hold("one: bind")
	r := s.prepare("one", leading...)
	s.await("one: bind web-0 to a", 1)
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the error is %v", err)
	}
	s.letGo("one: bind")
	if notes := s.noted(); count(notes, "one: give lease") != 0 || s.holder() == "" {
		t.Errorf("the lease is %q's:\n%s", s.holder(), strings.Join(notes, "\n"))
	}
}

// Without leader election the lease is never requested. As a standalone program, a
// stopped scheduler returns kube-scheduler's error.
func TestWithoutElection(t *testing.T) {
	s := newScript(t, small("a"), web("web-0"))
	r := s.prepare("one", "--leader-elect=false")
	s.await("one: event Scheduled web-0", 1)
	r.expect("/readyz?verbose", 200, "[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n")
	r.expect("/healthz?verbose", 200, "healthz check passed\n")
	r.expect("/metrics/resources", 200, `kube_pod_resource_request{namespace="default",node=`)
	r.stop()
	if err := r.wait(); err != nil {
		t.Errorf("the error is %v", err)
	}
	if notes := s.noted(); strings.Contains(strings.Join(notes, "\n"), "lease") {
		t.Errorf("it asks for the lease:\n%s", strings.Join(notes, "\n"))
	}
}
