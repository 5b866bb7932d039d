package app

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// TestExplains requests histories from a replica before and while it leads: of a placed
// pod, a pending pod, a pod of another scheduler, and a missing pod.
func TestExplains(t *testing.T) {
	foreign, giant := web("foreign"), web("giant")
	foreign.Spec.SchedulerName = "other"
	giant.Spec.NodeSelector = map[string]string{"no": "such"}
	s := newScript(t, small("a"), web("web-0"), foreign, giant)
	s.edit = func(c *config.Config) { c.Coordinated = true }
	r := s.prepare("one", leading...)
	s.await("one: post leasecandidates", 1)
	s.await("one: watch leasecandidates", 1)
	path := func(pod *v1.Pod) string { return server.ExplainPath(pod.Namespace, pod.Name) }
	r.expect(path(web("web-0")), http.StatusServiceUnavailable, `"message":"this replica does not lead`)
	s.mu.Lock()
	candidate := s.candidate.Name
	s.mu.Unlock()
	s.handOver(candidate)
	s.await("one: bind web-0 to a", 1)
	r.expect(path(web("web-0")), http.StatusOK, `"node":"a"`)
	deadline := time.Now().Add(10 * time.Second)
	for body := ""; !strings.Contains(body, `"place":"parked"`) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_, body = r.get(path(giant), "operator")
	}
	r.expect(path(giant), http.StatusOK, `"rejectors":["NodeAffinity"]`)
	r.expect(path(foreign), http.StatusNotFound, `the pod's schedulerName is \"other\"; the profiles of this scheduler are [\"default-scheduler\"]`)
	r.expect(server.ExplainPath("default", "none"), http.StatusNotFound, `pod not found, or finished`)
	if status, body := r.get(path(web("web-0")), ""); status != http.StatusForbidden {
		t.Errorf("without a token: %d %s", status, body)
	}
}

// TestKeepsNoHistory turns the history off: the endpoint is then missing.
func TestKeepsNoHistory(t *testing.T) {
	s := newScript(t, small("a"))
	r := s.prepare("one", "--leader-elect=false", "--berth-history-mib=0")
	r.expect(server.ExplainPath("default", "web-0"), http.StatusNotFound, "404 page not found")
}

// TestListsTheQueue lists waiting pods of a replica before and while it leads, and
// rejects a wrong selector. It needs no history.
func TestListsTheQueue(t *testing.T) {
	giant := web("giant")
	giant.Spec.NodeSelector = map[string]string{"no": "such"}
	s := newScript(t, small("a"), web("web-0"), giant)
	s.edit = func(c *config.Config) { c.Coordinated = true }
	r := s.prepare("one", append(slices.Clone(leading), "--berth-history-mib=0")...)
	s.await("one: post leasecandidates", 1)
	s.await("one: watch leasecandidates", 1)
	all, none := server.QueueQuestion{}, server.QueueQuestion{Namespace: "none"}
	r.expect(all.Path(), http.StatusServiceUnavailable, `"message":"this replica does not lead`)
	s.mu.Lock()
	candidate := s.candidate.Name
	s.mu.Unlock()
	s.handOver(candidate)
	s.await("one: bind web-0 to a", 1)
	deadline := time.Now().Add(10 * time.Second)
	for body := ""; !strings.Contains(body, `"place":"parked","rejectors":["NodeAffinity"]`) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		_, body = r.get(all.Path(), "operator")
	}
	r.expect(all.Path()+"?pods=true", http.StatusOK, `"pods":[{"name":"giant"`)
	r.expect(all.Path(), http.StatusOK, `"pods":1,`)
	r.expect(none.Path(), http.StatusOK, `"groups":[]`)
	r.expect(all.Path()+"?labelSelector=a+in", http.StatusBadRequest, `labelSelector \"a in\": `)
	if status, body := r.get(all.Path(), ""); status != http.StatusForbidden {
		t.Errorf("without a token: %d %s", status, body)
	}
}
