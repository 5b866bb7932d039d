package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// userNames are the users of the table, in the order of its columns.
var userNames = []string{"administrator", "view everywhere", "view and nodes", "view in one namespace"}

// cells are the results of a verb for each user, in the order of userNames. A result is a
// part of the output. Results that begin with "! " are errors that name what is missing.
type cells [4]string

// The errors for missing rights, which also name the remedy.
const (
	noNodes   = "! you may not list nodes, which the command needs: request the verb list on nodes in a ClusterRole, or get a file"
	noCluster = "! you may not list pods in all namespaces, nor nodes, which the command needs: request the verb list on pods and nodes in a ClusterRole, or get a file"
	lacksCPU  = "Insufficient cpu"
)

// verbs are the commands with the results for each user. SNAPSHOT, POD, CONFIG, NODE and
// FILE stand for names.
var verbs = []struct {
	args string
	want cells
}{
	{"simulate", cells{"giant", noNodes, "giant", noCluster}},
	{"simulate -f SNAPSHOT -o name", cells{"giant", "giant", "giant", "giant"}},
	{"fit -f POD", cells{lacksCPU, noNodes, lacksCPU, noCluster}},
	{"explain", cells{"giant", "giant", "giant", "giant"}},
	{"explain giant", cells{lacksCPU, lacksCPU, lacksCPU, lacksCPU}},
	{"explain pod/giant -o json", cells{lacksCPU, lacksCPU, lacksCPU, lacksCPU}},
	{"explain -n kube-system", cells{"", "No pod is pending in namespace kube-system", "",
		`! for an answer from the conditions of the pods, request the ClusterRole view in namespace "kube-system"`}},
	{"queue", cells{"giant", "giant", "giant", "giant"}},
	{"queue -A", cells{"giant", "giant", "giant", "! you may not list pods in all namespaces either: list the pods of a namespace that you may read with -n"}},
	{"top nodes", cells{"NODE", noNodes, "NODE", noCluster}},
	{"top nodes -f SNAPSHOT", cells{"NODE", "NODE", "NODE", "NODE"}},
	{"snapshot -o FILE", cells{"Wrote", "you may not list nodes", "Wrote", "! name a namespace that you may read with -n"}},
	{"snapshot -n NAMESPACE -o FILE", cells{"Wrote", "Wrote", "Wrote", "Wrote"}},
	{"compare --config CONFIG --config CONFIG", cells{"on another node: 0; only A places: 0; only B places: 0", noNodes, "on another node: 0; only A places: 0; only B places: 0", noCluster}},
	{"drain NODE --force --ignore-daemonsets", cells{"NODE", noNodes, "NODE", noCluster}},
	{"preflight --config CONFIG", cells{"version", "the user may not create pods/binding", "the user may not create pods/binding", "the user may not create pods/binding"}},
	{"shadow --kubeconfig KUBECONFIG", cells{"Following the bindings", "! Waiting for the first list of these resources from the API server",
		"! Waiting for the first list of these resources from the API server", "! Waiting for the first list of these resources from the API server"}},
}

// TestEachVerbForEachUser runs each verb as four users, with kube-scheduler and with
// Berth: it answers, or names the missing right and what to request.
func TestEachVerbForEachUser(t *testing.T) {
	for _, scheduler := range []string{"kube-scheduler", "berth"} {
		t.Run(scheduler, func(t *testing.T) {
			w := newWorld(t, "users-"+scheduler[:4])
			stop := w.startNamed(scheduler)
			defer stop()
			_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, &v1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "giant"},
				Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("5000", "1Gi")}}},
			}, metav1.CreateOptions{})
			w.must(err)
			w.await("the scheduler has rejected the pod", func() bool {
				condition := w.scheduledCondition("giant")
				return condition != nil && condition.Status == v1.ConditionFalse
			})
			names := w.names()
			kubeconfigs := []string{w.administrator(), w.viewerEverywhere(), w.viewer(), w.localViewer()}
			for _, verb := range verbs {
				for i, want := range verb.want {
					w.Run(verb.args+" as "+userNames[i], func(t *testing.T) {
						replace := strings.NewReplacer(append(names, "KUBECONFIG", kubeconfigs[i])...)
						w.runsVerb(t, kubeconfigs[i], strings.Fields(replace.Replace(verb.args)), replace.Replace(want))
					})
				}
			}
			w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, "giant", metav1.DeleteOptions{}))
		})
	}
}

// startNamed starts one of the two schedulers.
func (w *world) startNamed(scheduler string) (stop func()) {
	w.Helper()
	if scheduler == "berth" {
		w.berth("--leader-elect=false")
		return func() {}
	}
	p, err := cluster.StartKubeScheduler(nil, w.configuration())
	w.must(err)
	return p.End
}

// configuration writes a configuration of the scheduler.
func (w *world) configuration() string {
	w.Helper()
	file := filepath.Join(w.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": {"leaderElect": false}, "clientConnection": {"kubeconfig": %q}}`, cluster.SchedulerKubeconfig), 0o600))
	return file
}

// names returns the replacements for the names in verbs.
func (w *world) names() []string {
	w.Helper()
	folder := w.TempDir()
	pod := filepath.Join(folder, "pod.yaml")
	w.must(os.WriteFile(pod, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: probe}, spec: {containers: [{name: main, image: i, resources: {requests: {cpu: "1"}}}]}}`), 0o600))
	snapshot := filepath.Join(folder, "snapshot.json")
	if code, _, stderr := w.plugin(cluster.Kubeconfig, "snapshot", "-o", snapshot); code != 0 {
		w.Fatalf("code %d: %s", code, stderr)
	}
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{Limit: 1})
	w.must(err)
	return []string{"SNAPSHOT", snapshot, "POD", pod, "CONFIG", w.configuration(), "FILE", filepath.Join(folder, "out.json"), "NAMESPACE", w.namespace, "NODE", nodes.Items[0].Name}
}

// administrator returns the kubeconfig of a user with the ClusterRole cluster-admin.
func (w *world) administrator() string {
	w.Helper()
	return w.boundTo("administrator", "cluster-admin")
}

// viewerEverywhere returns the kubeconfig of a user with the ClusterRole view alone. It
// does not include nodes.
func (w *world) viewerEverywhere() string {
	w.Helper()
	return w.boundTo("viewer-everywhere", "view")
}

// boundTo returns the kubeconfig of a new service account with a ClusterRole.
func (w *world) boundTo(account, role string) string {
	w.Helper()
	_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	w.must(err)
	name := w.namespace + "-" + account
	bindings := w.client.RbacV1().ClusterRoleBindings()
	_, err = bindings.Create(w.ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: account}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() { w.must(bindings.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	return w.kubeconfigOf(account)
}

// verbTime is the time for one command. The shadow runs until it is stopped.
const verbTime = 30 * time.Second

// runsVerb runs a command and checks its result. No error may be the API server's text
// about a list of all namespaces.
func (w *world) runsVerb(t *testing.T, kubeconfig string, args []string, want string) {
	t.Helper()
	binary, err := filepath.Abs(filepath.Join(os.Getenv(binEnv), "berth"))
	w.must(err)
	cmd := exec.CommandContext(w.ctx, binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	want, fails := strings.CutPrefix(want, "! ")
	var out bytes.Buffer
	said := &transcript{}
	cmd.Stdout, cmd.Stderr = &out, said
	w.must(cmd.Start())
	if args[0] == "shadow" {
		for until := time.Now().Add(verbTime); !said.has(want) && time.Now().Before(until); {
			time.Sleep(100 * time.Millisecond)
		}
		w.must(cmd.Process.Signal(syscall.SIGINT))
		fails = false
	}
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	code, text := cmd.ProcessState.ExitCode(), out.String()+said.String()
	answers := []int{0}
	switch {
	case fails:
		answers = []int{1}
	case slices.Contains([]string{"preflight", "drain", "simulate"}, args[0]):
		answers = []int{0, 1, 3} // a verdict
	}
	if !slices.Contains(answers, code) || !strings.Contains(text, want) {
		t.Errorf("berth %s: code %d, want %v and %q:\n%s", strings.Join(args, " "), code, answers, want, text)
	}
	if strings.Contains(text, "at the cluster scope") && args[0] != "shadow" {
		t.Errorf("berth %s: the API server's text is shown: %s", strings.Join(args, " "), text)
	}
}
