package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// TestBesideKubeScheduler follows docs/migrate.md on running beside kube-scheduler. It
// takes the configuration from that page and the permissions from the manifest that the
// page applies, and schedules only the pods of its scheduler name.
func TestBesideKubeScheduler(t *testing.T) {
	w := newWorld(t, "beside")
	page, err := os.ReadFile("../../../docs/migrate.md")
	w.must(err)
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) != 1 {
		t.Fatalf("the page has %d blocks of YAML, want the configuration", len(blocks))
	}
	rights, err := os.ReadFile("../../../deploy/second-scheduler-rbac.yaml")
	w.must(err)
	for part := range strings.SplitSeq(string(rights), "---\n") {
		w.create(part)
	}
	kubeconfig := w.tokenOf("berth")
	var config map[string]any
	w.must(yaml.Unmarshal(blocks[0][1], &config))
	config["clientConnection"] = map[string]any{"kubeconfig": kubeconfig}
	text, err := yaml.Marshal(config)
	w.must(err)
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(file, text, 0o600))

	log := &transcript{}
	w.kubeScheduler(log, "--config", file, "--secure-port=0")
	w.deployment("ours", 10, func(s *v1.PodSpec) { s.SchedulerName = "berth" })
	w.deployment("theirs", 1, func(*v1.PodSpec) {})
	w.awaitRunning(10)
	for _, p := range w.pods() {
		if ours := p.Spec.SchedulerName == "berth"; ours != (p.Spec.NodeName != "") {
			t.Errorf("pod %s of %s is on node %q", p.Name, p.Spec.SchedulerName, p.Spec.NodeName)
		}
	}
	w.await("the lease bears its own name", func() bool { return w.holderOf("berth") != "" })
	if log.has("forbidden") {
		t.Error("the rights do not suffice")
	}
}

// create creates an object of one of the RBAC kinds, or a service account.
func (w *world) create(text string) {
	w.Helper()
	object, kind, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
	w.must(err)
	switch o := object.(type) {
	case *v1.ServiceAccount:
		_, err = w.client.CoreV1().ServiceAccounts(o.Namespace).Create(w.ctx, o, metav1.CreateOptions{})
	case *rbacv1.ClusterRole:
		_, err = w.client.RbacV1().ClusterRoles().Create(w.ctx, o, metav1.CreateOptions{})
	case *rbacv1.ClusterRoleBinding:
		_, err = w.client.RbacV1().ClusterRoleBindings().Create(w.ctx, o, metav1.CreateOptions{})
	case *rbacv1.Role:
		_, err = w.client.RbacV1().Roles(o.Namespace).Create(w.ctx, o, metav1.CreateOptions{})
	case *rbacv1.RoleBinding:
		_, err = w.client.RbacV1().RoleBindings(o.Namespace).Create(w.ctx, o, metav1.CreateOptions{})
	default:
		w.Fatalf("kind %v is not expected", kind)
	}
	w.must(err)
}
