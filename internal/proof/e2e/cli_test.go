package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/internal/offline/preflight"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// viewer returns the kubeconfig of a user with the ClusterRole view and permission to
// list nodes.
func (w *world) viewer() string {
	w.Helper()
	account, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}}, metav1.CreateOptions{})
	w.must(err)
	roles := w.client.RbacV1()
	nodes := w.namespace + "-nodes"
	_, err = roles.ClusterRoles().Create(w.ctx, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: nodes}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	w.Cleanup(func() { w.must(roles.ClusterRoles().Delete(context.Background(), nodes, metav1.DeleteOptions{})) })
	for _, role := range []string{"view", nodes} {
		name := w.namespace + "-viewer-" + role
		_, err = roles.ClusterRoleBindings().Create(w.ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: account.Name}},
		}, metav1.CreateOptions{})
		w.must(err)
		w.Cleanup(func() { w.must(roles.ClusterRoleBindings().Delete(context.Background(), name, metav1.DeleteOptions{})) })
	}
	return w.kubeconfigOf(account.Name)
}

// localViewer returns the kubeconfig of a user with the ClusterRole view in the namespace
// of the world only.
func (w *world) localViewer() string {
	w.Helper()
	const name = "local-viewer"
	_, err := w.client.CoreV1().ServiceAccounts(w.namespace).Create(w.ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	w.must(err)
	_, err = w.client.RbacV1().RoleBindings(w.namespace).Create(w.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: w.namespace, Name: name}},
	}, metav1.CreateOptions{})
	w.must(err)
	return w.kubeconfigOf(name)
}

// kubeconfigOf returns the kubeconfig of a service account.
func (w *world) kubeconfigOf(account string) string {
	w.Helper()
	token, err := w.client.CoreV1().ServiceAccounts(w.namespace).CreateToken(w.ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	admin, err := rig.Config(cluster.Kubeconfig)
	w.must(err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	config.AuthInfos[account] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts[account] = &clientcmdapi.Context{Cluster: "c", AuthInfo: account, Namespace: w.namespace}
	config.CurrentContext = account
	file := filepath.Join(w.TempDir(), account+".kubeconfig")
	w.must(clientcmd.WriteToFile(*config, file))
	return file
}

// plugin runs the binary as kubectl does.
func (w *world) plugin(kubeconfig string, args ...string) (code int, stdout, stderr string) {
	w.Helper()
	binary := filepath.Join(w.TempDir(), "kubectl-berth")
	built, err := filepath.Abs(filepath.Join(os.Getenv(binEnv), "berth"))
	w.must(err)
	w.must(os.Symlink(built, binary))
	cmd := exec.CommandContext(w.ctx, binary, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	w.Logf("$ kubectl berth %s\n%s%s", strings.Join(args, " "), out.String(), errs.String())
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// TestPluginOfKubectl uses the plugin on kube-scheduler's cluster, as a user with read
// permissions.
func TestPluginOfKubectl(t *testing.T) {
	w := newWorld(t, "cli")
	viewer := w.viewer()
	_, err := w.client.CoreV1().Pods(w.namespace).Create(w.ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "giant"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "i", Resources: requests("5000", "1Gi")}}},
	}, metav1.CreateOptions{})
	w.must(err)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, `{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"leaderElection": {"leaderElect": false}, "clientConnection": {"kubeconfig": %q}}`, cluster.SchedulerKubeconfig), 0o600))
	scheduler, err := cluster.StartKubeScheduler(nil, file)
	w.must(err)
	t.Cleanup(scheduler.End)
	w.await("kube-scheduler has said why the pod is pending", func() bool {
		condition := w.scheduledCondition("giant")
		return condition != nil && condition.Status == v1.ConditionFalse
	})
	message := w.scheduledCondition("giant").Message

	code, out, stderr := w.plugin(viewer, "explain", "giant", "-o", "json")
	if code != 0 || !strings.Contains(out, `"message":"`+message) {
		t.Errorf("code %d, want the message %q of kube-scheduler", code, message)
	}
	if want := "you may not list persistentvolumes, storageclasses: claims for volumes are set aside"; !strings.Contains(stderr, want) {
		t.Errorf("want a note that begins with %q", want)
	}
	if code, _, stderr := w.plugin(viewer, "explain", "gaint"); code != 2 || !strings.Contains(stderr, "did you mean cli/giant?") {
		t.Errorf("code %d, want 2 and a suggestion", code)
	}
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	w.must(os.WriteFile(pod, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: probe, namespace: cli}, spec: {containers: [{name: main, image: i, resources: {requests: {cpu: "1"}}}]}}`), 0o600))
	if code, out, _ := w.plugin(viewer, "simulate", "-f", pod); code != 0 || !strings.Contains(out, "probe") || !strings.Contains(out, "Scheduled") || strings.Contains(out, "giant") {
		t.Errorf("code %d, want the pod of the file to be scheduled, and no other listed", code)
	}
	if code, out, _ := w.plugin(viewer, "fit", "-f", pod); code != 0 || !strings.Contains(out, "Insufficient cpu") {
		t.Errorf("code %d, want cpu to run out", code)
	}
	w.asksInANamespace(viewer, pod)
	w.asksAboutADrain(viewer)
	w.asksAboutConfigurations(viewer, file)
	w.asksBeforehand(viewer, file)
	w.completes(viewer)
	w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, "giant", metav1.DeleteOptions{}))
	nobody := filepath.Join(t.TempDir(), "none")
	if code, _, stderr := w.plugin(nobody, "explain", "giant"); code != 2 || strings.Contains(stderr, "panic") {
		t.Errorf("code %d without a kubeconfig", code)
	}
}

// asksInANamespace runs simulate with -n, as in kubectl, for the pending pods of a
// namespace, and for pods in files, which are put into it.
func (w *world) asksInANamespace(viewer, pod string) {
	w.Helper()
	if code, out, _ := w.plugin(viewer, "simulate", "-n", w.namespace); code != 0 || !strings.Contains(out, "giant") {
		w.Errorf("code %d, want the pending pod of the namespace", code)
	}
	if code, out, _ := w.plugin(viewer, "simulate", "-n", "default"); code != 0 || strings.Contains(out, "giant") {
		w.Errorf("code %d, want no pod of another namespace", code)
	}
	if code, _, stderr := w.plugin(viewer, "simulate", "-n", "default", "-f", pod); code != 2 || !strings.Contains(stderr, `metadata.namespace: is "cli", and --namespace is "default"`) {
		w.Errorf("code %d, want 2 for the pod of another namespace", code)
	}
	bare := filepath.Join(w.TempDir(), "bare.yaml")
	w.must(os.WriteFile(bare, []byte(`{apiVersion: v1, kind: Pod, metadata: {name: bare}, spec: {containers: [{name: main, image: i, resources: {requests: {cpu: "1"}}}]}}`), 0o600))
	// the context has the namespace, too
	for _, args := range [][]string{{"simulate", "-f", bare}, {"fit", "-f", bare}, {"simulate", "-f", bare, "-n", w.namespace}} {
		code, out, _ := w.plugin(viewer, append(args, "-o", "json")...)
		if code != 0 || !strings.Contains(out, `"namespace": "`+w.namespace+`"`) && !strings.Contains(out, `"pod": "`+w.namespace+`/bare"`) {
			w.Errorf("%q: code %d, want the pod in the namespace of the context", args, code)
		}
	}
}

// asksAboutADrain drains the node of a Deployment's pod that a PodDisruptionBudget
// protects.
func (w *world) asksAboutADrain(viewer string) {
	w.Helper()
	w.deployment("web", 4, func(*v1.PodSpec) {})
	w.awaitRunning(4)
	_, err := w.client.PolicyV1().PodDisruptionBudgets(w.namespace).Create(w.ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(4)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}, metav1.CreateOptions{})
	w.must(err)
	var pod v1.Pod
	for _, p := range w.pods() {
		if p.Spec.NodeName != "" && p.Labels["app"] == "web" {
			pod = p
		}
	}
	code, out, stderr := w.plugin(viewer, "drain", pod.Spec.NodeName, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "-o", "json")
	var result simulate.DrainResult
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 3 || len(result.Nodes) != 1 || result.Nodes[0].Status != simulate.Blocked {
		w.Errorf("code %d, %v, want 3 and a node that the PodDisruptionBudget blocks: %s", code, err, stderr)
	}
	code, out, _ = w.plugin(viewer, "drain", pod.Spec.NodeName, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--disable-eviction", "-o", "json")
	// Another test may have pods of another scheduler there, which are Ignored.
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 {
		w.Fatalf("code %d, %v", code, err)
	}
	for _, p := range result.Pods {
		if p.Namespace == w.namespace && (p.Status != simulate.Scheduled || p.To == p.From) {
			w.Errorf("%+v, want another node", p)
		}
	}
	if code, _, stderr := w.plugin(viewer, "drain", pod.Spec.NodeName+"x"); code != 2 || !strings.Contains(stderr, "did you mean") {
		w.Errorf("code %d, want 2 and a suggestion", code)
	}
}

// asksAboutConfigurations compares the scheduler's configuration with a packing one.
func (w *world) asksAboutConfigurations(viewer, file string) {
	w.Helper()
	packing := filepath.Join(w.TempDir(), "packing.yaml")
	w.must(os.WriteFile(packing, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}}]}]\n"), 0o600))
	code, out, stderr := w.plugin(viewer, "compare", "--config", file, "--config", packing, "--owned", "-o", "json")
	var got struct {
		simulate.Comparison
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Decided < 5 || got.Differences[simulate.OtherNode] == 0 || len(got.Domains) == 0 {
		w.Errorf("code %d, %v, want pods that go elsewhere: %s", code, err, stderr)
	}
	if code, out, _ := w.plugin(viewer, "compare", "--config", file, "--config", file, "--owned"); code != 0 || !strings.Contains(out, "on another node: 0; only A places: 0; only B places: 0;") {
		w.Errorf("code %d, want no difference between equal configurations", code)
	}
}

// asksBeforehand runs preflight, with read permissions, which do not suffice, and with
// the scheduler's permissions.
func (w *world) asksBeforehand(viewer, file string) {
	w.Helper()
	code, out, _ := w.plugin(viewer, "preflight", "--config", file, "-o", "json")
	var report preflight.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || report.Fail == 0 || !strings.Contains(out, "the user may not create pods/binding") {
		w.Errorf("code %d, %v, want 1 for a user who may not bind pods", code, err)
	}
	if code, out, _ := w.plugin(viewer, "preflight", "--config", file, "--as", "system:kube-scheduler"); code != 1 || !strings.Contains(out, "you may not check the permissions of system:kube-scheduler") {
		w.Errorf("code %d, want 1 for a user who may not ask about another", code)
	}
	code, out, stderr := w.plugin(cluster.Kubeconfig, "preflight", "--config", file, "--as", "system:kube-scheduler")
	if code != 0 || !strings.Contains(out, " 0 failed.") {
		w.Errorf("code %d, want 0 by the rights of the scheduler: %s", code, stderr)
	}
}

// completes requests shell completions of names.
func (w *world) completes(viewer string) {
	w.Helper()
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{Limit: 1})
	w.must(err)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"drain", ""}, nodes.Items[0].Name},
		{[]string{"explain", "gi"}, "giant"},
		{[]string{"simulate", "-n", "cl"}, "cli"},
		{[]string{"compare", "-o", ""}, "yaml"},
	} {
		if code, out, _ := w.plugin(viewer, append([]string{"__complete"}, test.args...)...); code != 0 || !strings.Contains("\n"+out, "\n"+test.want+"\n") {
			w.Errorf("%q: code %d, want %s among the names", test.args, code, test.want)
		}
	}
}
