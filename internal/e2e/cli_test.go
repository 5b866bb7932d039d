package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/berth-scheduler/berth/internal/e2e/rig"
)

// viewer returns the kubeconfig of a user who has the ClusterRole view and may list nodes, and nothing else.
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
	token, err := w.client.CoreV1().ServiceAccounts(w.namespace).CreateToken(w.ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	admin, err := rig.Config(cluster.Kubeconfig)
	w.must(err)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: admin.Host, CertificateAuthority: admin.CAFile, CertificateAuthorityData: admin.CAData}
	config.AuthInfos["viewer"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["viewer"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "viewer", Namespace: w.namespace}
	config.CurrentContext = "viewer"
	file := filepath.Join(w.TempDir(), "viewer.kubeconfig")
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

// TestPluginOfKubectl asks about a cluster that kube-scheduler runs, as a user who may look at it.
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
	w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, "giant", metav1.DeleteOptions{}))
	nobody := filepath.Join(t.TempDir(), "none")
	if code, _, stderr := w.plugin(nobody, "explain", "giant"); code != 2 || strings.Contains(stderr, "panic") {
		t.Errorf("code %d without a kubeconfig", code)
	}
}
