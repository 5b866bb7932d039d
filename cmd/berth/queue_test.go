package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/answers/queued"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// shownQueue is an answer with pods in each state.
func shownQueue() *queued.Answer {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	soon := at.Add(7 * time.Second)
	pod := func(name string, age time.Duration, attempts, position int) queued.Pod {
		return queued.Pod{Name: name, Created: at.Add(-age), Since: at.Add(-age), Attempts: attempts, Position: position}
	}
	backs := pod("etl-2", 40*time.Second, 1, 0)
	backs.Next = &soon
	nominated := pod("urgent", time.Minute, 1, 0)
	nominated.Nominated = "gpu-7"
	return &queued.Answer{
		Version: queued.Version, At: at, Pods: 37,
		Groups: []queued.Group{
			{
				Namespace: "shop", Owner: "ReplicaSet/checkout-6d5f9c7b44", Place: "active", Count: 2, Since: at.Add(-2 * time.Second), Position: 1,
				Pods: []queued.Pod{pod("checkout-6d5f9c7b44-x2x9q", 2*time.Second, 0, 1), pod("checkout-6d5f9c7b44-z7k4m", 2*time.Second, 0, 2)},
			},
			{
				Namespace: "data", Owner: "Job/etl", Place: "backing off after an error", Count: 1, Since: at.Add(-40 * time.Second), MinAttempts: 1, MaxAttempts: 1, Next: &soon,
				Reason: "node(s) were unschedulable", Pods: []queued.Pod{backs},
			},
			{
				Namespace: "ml", Owner: "Pod/urgent", Place: "parked", Count: 1, Since: at.Add(-time.Minute), MinAttempts: 1, MaxAttempts: 1, WaitsForEvent: true, Evicted: 2,
				Rejectors: []string{"NodeResourcesFit"}, Reason: "Insufficient nvidia.com/gpu", Pods: []queued.Pod{nominated},
			},
			{
				Namespace: "shop", Owner: "ReplicaSet/web-7f8d6b5c9d", Place: "parked", Count: 30, Since: at.Add(-12 * time.Minute), MinAttempts: 4, MaxAttempts: 5, WaitsForEvent: true,
				Rejectors: []string{"NodeAffinity", "NodeResourcesFit", "TaintToleration"},
				Reason:    "Insufficient cpu, node(s) didn't match Pod's node affinity/selector, node(s) had untolerated taint(s)",
				Pods:      []queued.Pod{pod("web-7f8d6b5c9d-2c4x8", 12*time.Minute, 5, 0)},
			},
			{
				Namespace: "shop", Owner: "Job/report", Place: "gated", Count: 3, Since: at.Add(-50 * time.Hour), Rejectors: []string{"SchedulingGates"}, WaitsForEvent: true,
				Pods: []queued.Pod{pod("report-0", 50*time.Hour, 0, 0)},
			},
		},
		WaitsFor: []history.WaitsFor{
			{Plugin: "NodeAffinity", Events: []string{"NodeAdd", "NodeUpdateNodeLabel"}},
			{Plugin: "NodeResourcesFit", Events: []string{"AssignedPodDelete", "AssignedPodUpdatePodScaleDown", "NodeAdd", "NodeUpdateNodeAllocatable"}},
			{Plugin: "SchedulingGates", Events: []string{"TargetPodUpdatePodSchedulingGatesEliminated"}},
		},
	}
}

// queueServer is a scheduler that answers questions about its queue. It returns the flags
// of a user.
func queueServer(t *testing.T, answer func(r *http.Request) (int, any)) []string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, body := answer(r)
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(body)
	}))
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--kubeconfig", newCloud(t).kubeconfig(), "--scheduler", s.URL, "--scheduler-certificate-authority", ca}
}

// TestQueueScreens compares whole screens with testdata/NAME.txt, for terminals of 80 and
// 120 columns.
func TestQueueScreens(t *testing.T) {
	flags := queueServer(t, func(*http.Request) (int, any) { return http.StatusOK, shownQueue() })
	for _, columns := range []string{"80", "120"} {
		t.Setenv("COLUMNS", columns)
		for name, args := range map[string][]string{
			"queue":         {"-A"},
			"queue-one":     {"-n", "shop", "--sort-by", "age"},
			"queue-wide":    {"-A", "-o", "wide"},
			"queue-bare":    {"-A", "--no-headers", "--sort-by", "pods"},
			"queue-names":   {"-A", "-o", "name", "--sort-by", "owner"},
			"queue-offline": {"-f", "testdata/queue.yaml"},
		} {
			args = append([]string{"queue"}, args...)
			if name != "queue-offline" {
				args = append(args, flags...)
			}
			code, got := transcript(t, args...)
			if code != 0 {
				t.Errorf("%s: exit code %d\n%s", name, code, got)
			}
			checkScreen(t, name+"-"+columns, got)
			for line := range strings.Lines(got) {
				if most := map[string]int{"80": 80, "120": 120}[columns]; len([]rune(strings.TrimRight(line, "\n"))) > most && name != "queue-wide" {
					t.Errorf("%s: wider than %d: %s", name, most, line)
				}
			}
		}
	}
}

// TestShownQueue compares a screen with docs/kubectl.md.
func TestShownQueue(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	screen, err := os.ReadFile("testdata/queue-80.txt")
	if err != nil {
		t.Fatal(err)
	}
	want, _, _ := strings.Cut(string(screen), "---")
	if !strings.Contains(string(page), "```\n"+trimmed(want)+"```\n") {
		t.Errorf("docs/kubectl.md does not have\n%s", want)
	}
}

// TestQueueAsks sends the namespace, the selector and the wish for pods, and prints the
// answer as it is.
func TestQueueAsks(t *testing.T) {
	var asked string
	flags := queueServer(t, func(r *http.Request) (int, any) {
		asked = r.URL.String()
		return http.StatusOK, shownQueue()
	})
	for _, test := range []struct {
		args string
		want server.QueueQuestion
	}{
		{"", server.QueueQuestion{Namespace: "default"}},
		{"-n shop -l app=web", server.QueueQuestion{Namespace: "shop", LabelSelector: "app=web"}},
		{"-A -o json", server.QueueQuestion{Pods: true}},
		{"-A -o name", server.QueueQuestion{Pods: true}},
	} {
		code, got := transcript(t, append(append([]string{"queue"}, strings.Fields(test.args)...), flags...)...)
		want := test.want.Path()
		if query := test.want.Query().Encode(); query != "" {
			want += "?" + query
		}
		if code != 0 || asked != want {
			t.Errorf("%s: exit code %d, asked %s, want %s\n%s", test.args, code, asked, want, got)
		}
		var answer queued.Answer
		if out, _, _ := strings.Cut(got, "---"); strings.Contains(test.args, "json") && (json.Unmarshal([]byte(out), &answer) != nil || answer.Pods != 37) {
			t.Errorf("%s", got)
		}
	}
}

// TestQueueMistakes expects the exit code and an error with the remedy.
func TestQueueMistakes(t *testing.T) {
	code, answer := http.StatusOK, any(&queued.Answer{Version: queued.Version})
	flags := queueServer(t, func(*http.Request) (int, any) { return code, answer })
	for _, test := range []struct {
		args string
		code int // of the response
		body any
		exit int
		want string
	}{
		{"-A", http.StatusForbidden, metav1.Status{Message: "pods is forbidden"}, 1, "the scheduler returned 403: pods is forbidden; list the pods of a namespace that you may read with -n"},
		{"-n shop", http.StatusForbidden, metav1.Status{Message: "pods is forbidden"}, 1, "ask the scheduler: the scheduler returned 403: pods is forbidden\n"},
		{"", http.StatusNotFound, "404", 1, "check that it is Berth, of this version"},
		{"", http.StatusOK, &queued.Answer{Version: 99}, 1, "queue version 99, want 1"},
		{"", http.StatusOK, "no object", 1, "read the scheduler's response: "},
		{"", http.StatusOK, &queued.Answer{Version: 1}, 0, "No pod is waiting in namespace default."},
		{"-A", http.StatusOK, &queued.Answer{Version: 1, OrderUnknown: "x", GroupsLeftOut: 3, PodsLeftOut: 4}, 0, "Note: positions are unknown: x\nNote: more groups of pods are not listed: 3; select fewer pods with -n or -l\nNote: more pods are not listed: 4"},
		{"shop", http.StatusOK, nil, 2, `takes no arguments, got ["shop"]: select pods with -n and -l`},
		{"-A -n shop", http.StatusOK, nil, 2, `--all-namespaces and --namespace are both given`},
		{"--sort-by size", http.StatusOK, nil, 2, `--sort-by "size": must be one of age, namespace, owner, pods, tries, turn`},
		{"-l a=b=c", http.StatusOK, nil, 2, `--selector "a=b=c": `},
		{"-o xml", http.StatusOK, nil, 2, `--output "xml": must be one of table, wide, json, yaml, name`},
		{"--scheduler=", http.StatusOK, nil, 2, `--scheduler "": must be leader or an address; for a snapshot, name its file with -f`},
		{"--scheduler=http://a", http.StatusOK, nil, 2, `--scheduler "http://a": must be leader, or an address that begins with https://`},
		{"-f testdata/queue.yaml", http.StatusOK, nil, 2, `-f and --scheduler are both given`},
	} {
		code, answer = test.code, test.body
		got, text := transcript(t, append(append([]string{"queue"}, flags...), strings.Fields(test.args)...)...)
		if got != test.exit || !strings.Contains(text, test.want) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", test.args, got, test.exit, test.want, text)
		}
	}
}

// TestQueueOfOtherSchedulers counts the selected pods of a snapshot that other schedulers
// place.
func TestQueueOfOtherSchedulers(t *testing.T) {
	const note = "Note: pending pods of schedulers without a profile in the configuration are not listed: "
	for args, want := range map[string]string{"": "2\n", "-n shop": "1\n", "-n shop -l app=web": "1\n", "-l app=none": "", "-n none": ""} {
		code, _, stderr := onCluster(t, `{apiVersion: v1, kind: Node, metadata: {name: a}}
---
{apiVersion: v1, kind: Pod, metadata: {name: own, namespace: shop}, spec: {containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: shop, labels: {app: web}}, spec: {schedulerName: other, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: bound, namespace: shop, labels: {app: web}}, spec: {nodeName: a, schedulerName: other, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: ml}, spec: {schedulerName: other, containers: [{name: c, image: i}]}}
`, "queue", strings.Fields(args)...)
		if _, got, noted := strings.Cut(stderr, note); code != 0 || noted != (want != "") || got != want {
			t.Errorf("%q: exit code %d, want %q: %s", args, code, want, stderr)
		}
	}
}

// TestQueueUsageErrors expects exit code 2 for wrong flags, although the pods could be
// listed from their conditions.
func TestQueueUsageErrors(t *testing.T) {
	kubeconfig := narrowUser(t).kubeconfig()
	for args, want := range map[string]string{
		"--config nofile.yaml":      "nofile.yaml",
		"--release 9.9":             `--release "9.9"`,
		"--feature-gates Nope=true": "--feature-gates: ",
		"--context nope":            `"nope" does not exist`,
	} {
		args := append([]string{"queue", "-n", "shop", "--kubeconfig", kubeconfig}, strings.Fields(args)...)
		if code, got := transcript(t, args...); code != 2 || !strings.Contains(got, want) || before(got) != "" {
			t.Errorf("%s: exit code %d, want 2 and %q\n%s", args, code, want, got)
		}
	}
}

// TestTableFits wraps texts beside the other columns, or below if there is little room.
func TestTableFits(t *testing.T) {
	text := strings.TrimSpace(strings.Repeat("word ", 30)) + " " + strings.Repeat("x", 50)
	all := table{
		columns: []column{{name: "NAME"}, {name: "N", number: true}, {name: "TEXT", text: true}},
		rows:    [][]string{{"ä", "1", text}, {strings.Repeat("n", 40), "10", ""}, {"b", "", "short"}},
	}
	for _, width := range []int{60, 90, 200, 0} { // below, beside in several lines, and in one
		var out strings.Builder
		if err := all.print(&out, width, true); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		for _, line := range lines {
			if n := len([]rune(strings.TrimRight(line, " "))); width > 0 && n > width {
				t.Errorf("%d columns: %d in %q", width, n, line)
			}
		}
		if got := out.String(); strings.Count(got, "word") != 30 || strings.Count(strings.ReplaceAll(got, "TEXT", ""), "x") != 50 || !strings.Contains(got, strings.Repeat("n", 40)) {
			t.Errorf("%d columns: a text is missing in\n%s", width, out.String())
		}
		if want := "NAME" + strings.Repeat(" ", 41) + "N"; !strings.HasPrefix(lines[0], want) {
			t.Errorf("%d columns: %q, want a number aligned as in %q", width, lines[0], want)
		}
	}
}
