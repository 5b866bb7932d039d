package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/shadow"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// TestShadow runs the shadow beside kube-scheduler with the permissions from
// deploy/shadow-rbac.yaml. Under churn, pods of Deployments with spread constraints must
// not cause disagreements. A pod that the test itself binds to a full node must cause
// one, by NodeResourcesFit. The audit log shows that the shadow writes nothing.
func TestShadow(t *testing.T) {
	w := newWorld(t, "shadow")
	rights, err := os.ReadFile("../../../deploy/shadow-rbac.yaml")
	w.must(err)
	for part := range strings.SplitSeq(string(rights), "---\n") {
		w.create(part)
	}
	binary := filepath.Join(os.Getenv(binEnv), "berth")
	kubeconfig := w.tokenOf("berth-shadow")
	cmd := exec.Command(binary, "shadow", "--kubeconfig", kubeconfig, "-o", "json", "--disagreements", filepath.Join(t.TempDir(), "kept"))
	out, said := &transcript{}, &transcript{}
	cmd.Stdout, cmd.Stderr = out, said
	w.must(cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has ended unless the test has failed
	w.await("the shadow follows", func() bool { return said.has("Following the bindings") })

	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, fmt.Appendf(nil, incumbent, cluster.SchedulerKubeconfig), 0o600))
	other, err := cluster.StartKubeScheduler(nil, file)
	w.must(err)
	t.Cleanup(other.End)
	w.deployment("plain", 60, func(*v1.PodSpec) {})
	w.deployment("spread", 30, func(s *v1.PodSpec) {
		s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "spread"}}}}
	})
	w.awaitRunning(90)
	deleted := map[types.UID]bool{}
	for _, p := range w.pods()[:20] { // their ReplicaSets recreate them
		deleted[p.UID] = true
		w.must(w.client.CoreV1().Pods(w.namespace).Delete(w.ctx, p.Name, metav1.DeleteOptions{}))
	}
	w.await("the pods are gone", func() bool { return !slices.ContainsFunc(w.pods(), func(p v1.Pod) bool { return deleted[p.UID] }) })
	w.awaitRunning(90)
	other.End()

	// A manual binding to a node without room.
	nodes, err := w.client.CoreV1().Nodes().List(w.ctx, metav1.ListOptions{Limit: 1})
	w.must(err)
	huge := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "registry.example/huge:1", Resources: requests("4000", "1Gi")}}}}
	pods := w.client.CoreV1().Pods(w.namespace)
	_, err = pods.Create(w.ctx, huge, metav1.CreateOptions{})
	w.must(err)
	w.must(pods.Bind(w.ctx, &v1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "huge"}, Target: v1.ObjectReference{Kind: "Node", Name: nodes.Items[0].Name}}, metav1.CreateOptions{}))
	w.await("the shadow has told about the binding by hand", func() bool { return out.has("shadow/huge") })
	w.must(pods.Delete(context.Background(), "huge", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
	w.must(cmd.Process.Signal(syscall.SIGINT))
	w.must(cmd.Wait())
	t.Logf("the shadow says:\n%s", said)

	counts := map[shadow.Verdict]int{}
	contradicted := false
	for lines := bufio.NewScanner(strings.NewReader(out.String())); lines.Scan(); {
		var d shadow.Decision
		w.must(json.Unmarshal(lines.Bytes(), &d))
		switch counts[d.Verdict]++; {
		case d.Pod == "shadow/huge":
			w.replays(binary, &d)
			contradicted = d.Verdict == shadow.Contradict && len(d.Rejections) > 0 && d.Rejections[0] == shadow.Rejection{Plugin: "NodeResourcesFit", Reason: "Insufficient cpu"}
			t.Logf("by hand: %s", lines.Text())
		case d.Verdict == shadow.Contradict, d.Verdict == shadow.Failed:
			t.Errorf("kube-scheduler is contradicted: %s", lines.Text())
		}
	}
	if !contradicted {
		t.Error("the pod without room was not contradicted by NodeResourcesFit")
	}
	if n := counts[shadow.Agree] + counts[shadow.Lesser] + counts[shadow.Race]; n < 110 {
		t.Errorf("%d bindings were judged, want 110: %v", n, counts)
	}
	if said.has("forbidden") {
		t.Error("the rights do not suffice")
	}
	w.mustNotHaveWritten("system:serviceaccount:kube-system:berth-shadow")
}

// replays checks that berth explain agrees with the shadow on the kept cluster.
func (w *world) replays(binary string, d *shadow.Decision) {
	w.Helper()
	out, err := exec.CommandContext(w.ctx, binary, "explain", "--snapshot", d.Snapshot, "--pod", d.Pod, "-o", "json").Output()
	w.must(err)
	var got struct {
		Nodes []struct {
			Name       string
			Rejections []struct {
				Plugin  string
				Reasons []string
			}
		}
	}
	w.must(json.Unmarshal(out, &got))
	found := false
	for _, node := range got.Nodes {
		found = found || node.Name == d.Node && len(node.Rejections) > 0 && node.Rejections[0].Plugin == d.Rejections[0].Plugin && node.Rejections[0].Reasons[0] == d.Rejections[0].Reason
	}
	if len(got.Nodes) != d.Nodes || !found {
		w.Errorf("berth explain says something else about %s than the shadow: %s", d.Snapshot, out)
	}
}

// mustNotHaveWritten checks the audit log for write requests of the user.
func (w *world) mustNotHaveWritten(user string) {
	w.Helper()
	text, err := os.ReadFile(auditLog)
	w.must(err)
	read := 0
	for line := range bytes.Lines(text) {
		var a audited
		if !bytes.Contains(line, []byte(user)) || json.Unmarshal(line, &a) != nil || a.User.Username != user {
			continue
		}
		switch a.Verb {
		case "list", "watch":
			read++
		case "get": // the version and the served groups, and no object
			if path, _, _ := strings.Cut(a.URI, "?"); strings.Count(path, "/") > 3 {
				w.Errorf("%s read an object: %s", user, a.URI)
			}
		default:
			w.Errorf("%s wrote: %s %s", user, a.Verb, a.URI)
		}
	}
	if read == 0 {
		w.Errorf("the audit log has no request of %s", user)
	}
}

// tokenOf writes a kubeconfig of a service account in kube-system, and returns its path.
func (w *world) tokenOf(account string) string {
	w.Helper()
	answer, err := w.client.CoreV1().ServiceAccounts("kube-system").CreateToken(w.ctx, account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	admin, err := rig.Config(cluster.Kubeconfig)
	w.must(err)
	ca := admin.CAData
	if admin.CAFile != "" {
		ca, err = os.ReadFile(admin.CAFile)
		w.must(err)
	}
	path := filepath.Join(w.TempDir(), "kubeconfig")
	w.must(os.WriteFile(path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %q}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, admin.Host, base64.StdEncoding.EncodeToString(ca), answer.Status.Token), 0o600))
	return path
}
