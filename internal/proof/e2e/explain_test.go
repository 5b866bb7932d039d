package e2e_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// TestExplainAsksTheScheduler requests explanations from the running scheduler. A user
// who may get a pod sees why it is on its node, which is its actual node, and its
// history. Other users see nothing. The hint in a pod's event must be true.
func TestExplainAsksTheScheduler(t *testing.T) {
	w := newWorld(t, "explain")
	certificates := t.TempDir()
	w.berth("--leader-elect=false", "--berth-event-hints", w.securePort(), "--bind-address=127.0.0.1", "--cert-dir="+certificates,
		"--authentication-kubeconfig="+cluster.SchedulerKubeconfig, "--authorization-kubeconfig="+cluster.SchedulerKubeconfig)
	create := func(name, cpu string) {
		_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests(cpu, "256Mi")}}},
		}, metav1.CreateOptions{})
		w.must(err)
	}
	create("placed", "250m")
	create("giant", "5000")
	w.await("one pod is bound, and one rejected", func() bool {
		condition := w.scheduledCondition("giant")
		return w.nodeOf("placed") != "" && condition != nil && condition.Status == v1.ConditionFalse
	})

	viewer := w.viewer()
	access, err := clientcmd.BuildConfigFromFlags("", viewer)
	w.must(err)
	_, err = w.client.CoreV1().ServiceAccounts(w.namespace).Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nobody"}}, metav1.CreateOptions{})
	w.must(err)
	nobody, err := w.client.CoreV1().ServiceAccounts(w.namespace).CreateToken(w.ctx, "nobody", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, test := range []struct {
		name, method, path, token string
		want                      int
		says                      string
	}{
		{"who may get the pod", http.MethodGet, server.ExplainPath(w.namespace, "placed"), access.BearerToken, http.StatusOK, `"node":"` + w.nodeOf("placed") + `"`},
		{"who may get no pods", http.MethodGet, server.ExplainPath(w.namespace, "placed"), nobody.Status.Token, http.StatusForbidden, `cannot get resource \"pods\"`},
		{"who may get no pods, of a pod that there is not", http.MethodGet, server.ExplainPath(w.namespace, "none"), nobody.Status.Token, http.StatusForbidden, `cannot get resource \"pods\"`},
		{"a wrong token", http.MethodGet, server.ExplainPath(w.namespace, "placed"), "wrong", http.StatusUnauthorized, `"Unauthorized"`},
		{"no token", http.MethodGet, server.ExplainPath(w.namespace, "placed"), "", http.StatusForbidden, `system:anonymous`},
		{"no such pod", http.MethodGet, server.ExplainPath(w.namespace, "none"), access.BearerToken, http.StatusNotFound, `pod not found, or finished`},
		{"another method", http.MethodPost, server.ExplainPath(w.namespace, "placed"), access.BearerToken, http.StatusMethodNotAllowed, `"kind":"Status"`},
		{"another path, by who may get pods", http.MethodGet, "/explain/v1/namespaces/" + w.namespace + "/pods/placed/log", access.BearerToken, http.StatusForbidden, `cannot get path`},
	} {
		if code, body := w.ask(client, test.method, test.path, test.token); code != test.want || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s, want %d and %q", test.name, code, body, test.want, test.says)
		}
	}

	at := []string{"--scheduler=https://" + w.servesAt, "--scheduler-certificate-authority=" + filepath.Join(certificates, "kube-scheduler.crt")}
	var answer struct {
		Decision *history.Decision
		History  *history.Past
	}
	code, out, stderr := w.plugin(viewer, append([]string{"explain", "placed", "-o", "json"}, at...)...)
	if code != 0 || json.Unmarshal([]byte(out), &answer) != nil || answer.Decision == nil || answer.Decision.Node != w.nodeOf("placed") || len(answer.Decision.Best) < 2 || answer.Decision.Best[0].Name != answer.Decision.Node {
		t.Errorf("code %d, %+v: %s", code, answer, stderr)
	}
	if code, out, _ := w.plugin(viewer, append([]string{"explain", "placed"}, at...)...); code != 0 || !strings.Contains(out, "on "+w.nodeOf("placed")) || strings.Count(out, "\n") > 10 {
		t.Errorf("code %d, want ten lines at most that name the node: %s", code, out)
	}
	answer.Decision = nil
	code, out, stderr = w.plugin(viewer, append([]string{"explain", "giant", "-o", "json"}, at...)...)
	if code != 0 || json.Unmarshal([]byte(out), &answer) != nil || answer.Decision != nil || answer.History == nil || answer.History.Attempts == 0 || len(answer.History.Kept) == 0 ||
		answer.History.Kept[0].Message != w.scheduledCondition("giant").Message || len(answer.History.WaitsFor) == 0 {
		t.Errorf("code %d, %+v: %s", code, answer, stderr)
	}
	if code, out, _ := w.plugin(viewer, append([]string{"explain", "giant"}, at...)...); code != 0 || !strings.Contains(out, " failed") || !strings.Contains(out, "Changes that would help") || strings.Count(out, "\n") > 10 {
		t.Errorf("code %d, want ten lines at most, with the last attempt: %s", code, out)
	}
	// A scheduler is used only if it is named.
	if code, out, stderr := w.plugin(viewer, "explain", "giant"); code != 0 || !strings.Contains(out, "Changes that would help") || strings.Contains(stderr, "history") {
		t.Errorf("code %d, %s, %s", code, out, stderr)
	}
	if code, out, stderr := w.plugin(viewer, "explain", "placed"); code != 2 || out != "" || !strings.Contains(stderr, "--scheduler leader shows why") {
		t.Errorf("code %d, %s, %s", code, out, stderr)
	}
	// Without a reachable scheduler, everything else is printed, with the reason why the
	// history is missing.
	if code, out, stderr := w.plugin(viewer, "explain", "giant", "--scheduler", "leader"); code != 0 || !strings.Contains(out, "Changes that would help") || !strings.Contains(stderr, "Note: the pod's history is missing: find the leader: ") {
		t.Errorf("code %d, %s, %s", code, out, stderr)
	}

	w.asksForTheQueue(viewer, at)

	// The hint for "giant" may have taken longer than the write of its event. By now it
	// is known, and "another" is of the same kind.
	create("another", "5000")
	says := regexp.MustCompile(`\. Would fit on node \S+ with this change: lower the cpu request from 5k to (\d+m?)\.$`)
	var amount string
	w.await("an event says what would help", func() bool {
		for _, e := range w.events("another") {
			if said := says.FindStringSubmatch(e.Note); e.Reason == "FailedScheduling" && said != nil {
				if condition := w.scheduledCondition("another"); condition != nil && strings.Contains(condition.Message, "Would fit") {
					t.Errorf("the condition is not kube-scheduler's: %s", condition.Message)
				}
				amount = said[1]
			}
		}
		return amount != ""
	})
	create("changed", amount)
	w.await("a pod that requests no more than that has a node", func() bool { return w.nodeOf("changed") != "" })
	// it takes a whole node, which other tests use
	w.must(rig.DeletePods(w.ctx, w.client, w.namespace))
}

// asksWithRightsInANamespace asks as a user who may read one namespace: the running
// scheduler alone, the pod's condition alone, and a snapshot of another user.
func (w *world) asksWithRightsInANamespace(local, snapshot string, at []string) {
	w.Helper()
	code, out, stderr := w.plugin(local, append([]string{"explain", "giant"}, at...)...)
	if code != 0 || !strings.Contains(out, "Insufficient cpu") || !strings.Contains(out, "Now: ") ||
		!strings.Contains(stderr, "you may not list pods in all namespaces") || !strings.Contains(stderr, "the running scheduler alone") {
		w.Errorf("code %d: %s%s", code, out, stderr)
	}
	code, out, stderr = w.plugin(local, "explain", "giant", "-o", "jsonpath={.message}")
	if code != 0 || !strings.Contains(out, "Insufficient cpu") || !strings.Contains(stderr, "condition PodScheduled alone") {
		w.Errorf("code %d: %s%s", code, out, stderr)
	}
	for _, args := range [][]string{{"simulate", "-f", snapshot, "-o", "name"}, {"top", "nodes", "-f", snapshot}} {
		if code, out, stderr := w.plugin(local, args...); code != 0 || out == "" {
			w.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
	for _, args := range [][]string{{"simulate"}, {"top", "nodes"}, {"drain", "x"}, {"explain", "-n", "kube-system"}} {
		if code, _, stderr := w.plugin(local, args...); code != 1 || !strings.Contains(stderr, "you may not list pods in all namespaces") {
			w.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
}

// asksForTheQueue lists the queue as a user who may list pods everywhere, and as a user
// who may in one namespace. The latter sees nothing else.
func (w *world) asksForTheQueue(viewer string, at []string) {
	w.Helper()
	elsewhere := w.namespace + "-other"
	_, err := w.client.CoreV1().Namespaces().Create(w.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() {
		w.must(w.client.CoreV1().Namespaces().Delete(context.Background(), elsewhere, metav1.DeleteOptions{}))
	})
	_, err = w.client.CoreV1().Pods(elsewhere).Create(w.ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "other-giant"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("5000", "256Mi")}}},
	}, metav1.CreateOptions{})
	w.must(err)
	queue := func(kubeconfig string, args ...string) (int, string, string) {
		return w.plugin(kubeconfig, append(append([]string{"queue"}, args...), at...)...)
	}
	w.await("both pods are in the queue", func() bool {
		code, out, _ := queue(viewer, "-A", "-o", "wide")
		return code == 0 && strings.Contains(out, "other-giant") && strings.Contains(out, "Insufficient cpu")
	})
	code, out, _ := queue(viewer)
	if code != 0 || !strings.Contains(out, "Pod/giant") || strings.Contains(out, "other-giant") || !strings.Contains(out, "NodeResourcesFit") {
		w.Errorf("code %d, want the pod of the context's namespace and what it waits for", code)
	}
	local := w.localViewer()
	if code, out, _ := queue(local, "-o", "name"); code != 0 || out != "pod/giant\n" {
		w.Errorf("code %d: %s", code, out)
	}
	for _, args := range [][]string{{"-A"}, {"-n", elsewhere}} {
		if code, out, stderr := queue(local, args...); code != 1 || out != "" || !strings.Contains(stderr, `the scheduler returned 403: pods is forbidden`) {
			w.Errorf("%s: code %d, %s, %s", args, code, out, stderr)
		}
	}
	file := filepath.Join(w.TempDir(), "cluster.json")
	if code, _, stderr := w.plugin(viewer, "snapshot", "-o", file); code != 0 || !strings.Contains(stderr, "you may not list persistentvolumes: they are missing") {
		w.Errorf("code %d: %s", code, stderr)
	}
	for _, args := range [][]string{{"queue", "-f", file}, {"explain", "--snapshot", file, "--pod", w.namespace + "/giant"}, {"top", "nodes", "-f", file}, {"top", "zones"}} {
		if code, out, stderr := w.plugin(viewer, args...); code != 0 || out == "" {
			w.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
	w.asksWithRightsInANamespace(local, file, at)
	if code, _, stderr := w.plugin(local, "snapshot", "-n", w.namespace, "-o", file); code != 0 || !strings.Contains(stderr, "you may not list nodes: they are missing in the snapshot") {
		w.Errorf("code %d: %s", code, stderr)
	}
}
