package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// TestOnlyWhatPluginsReadIsWatched reads Berth's log of requests. Kinds that no enabled
// plugin reads must not be requested. Without the gate GenericWorkload, Berth must not
// request pod groups, also by the API server's audit log.
func TestOnlyWhatPluginsReadIsWatched(t *testing.T) {
	w := newWorld(t, "watches")
	w.deployment("web", 10, func(*v1.PodSpec) {})
	written, err := os.Stat(auditLog)
	w.must(err)
	began := written.Size()
	lean := filepath.Join(t.TempDir(), "scheduler.yaml")
	w.must(os.WriteFile(lean, []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: `+cluster.SchedulerKubeconfig+`}
leaderElection: {leaderElect: false}
profiles:
- plugins: {multiPoint: {disabled: [{name: InterPodAffinity}, {name: VolumeRestrictions}, {name: NodeVolumeLimits}, {name: VolumeBinding}, {name: VolumeZone}, {name: DynamicResources}, {name: DefaultPreemption}]}}
  pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]
`), 0o600))
	for _, test := range []struct {
		args, want []string
	}{
		{[]string{"--config", lean}, []string{"nodes", "pods"}},
		{nil, []string{
			"csidrivers", "csinodes", "csistoragecapacities", "deviceclasses", "devicetaintrules", "namespaces", "nodes", "persistentvolumeclaims", "persistentvolumes", "poddisruptionbudgets", "pods",
			"replicasets", "replicationcontrollers", "resourceclaims", "resourceslices", "services", "statefulsets", "storageclasses", "volumeattachments",
		}},
	} {
		log := &transcript{}
		p, err := cluster.StartBerth(log, append(test.args, "-v=6")...) // the level that logs requests
		w.must(err)
		w.await("the cluster is known", func() bool { return log.has("Cluster is known") })
		w.await("pods are on nodes", func() bool {
			return !slices.ContainsFunc(w.pods(), func(p v1.Pod) bool { return p.Spec.NodeName == "" })
		})
		w.must(p.Stop())
		if diff := cmp.Diff(test.want, log.watched()); diff != "" {
			t.Errorf("%q: watches (-want +got):\n%s", test.args, diff)
		}
	}
	const us = "system:admin-of-the-test"
	access, err := rig.Config(cluster.Kubeconfig)
	w.must(err)
	access.Impersonate = rest.ImpersonationConfig{UserName: us, Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(access)
	w.must(err)
	// to have an entry in the log; the version need not be served
	_, _ = client.SchedulingV1beta1().PodGroups(w.namespace).List(w.ctx, metav1.ListOptions{})
	var asked []string
	w.await("the API server's log has the test's own request for pod groups", func() bool {
		asked = w.askedForGroups(began)
		return slices.Contains(asked, us)
	})
	if slices.Contains(asked, "system:kube-scheduler") {
		t.Errorf("%q have asked for pod groups, with the gate GenericWorkload off", asked)
	}
}

// askedForGroups returns the users that requested pod groups, from a position in the API
// server's audit log on. An impersonated user counts instead of the real one.
func (w *world) askedForGroups(from int64) (users []string) {
	w.Helper()
	text, err := os.ReadFile(auditLog)
	w.must(err)
	for line := range bytes.Lines(text[min(from, int64(len(text))):]) {
		var a struct {
			audited
			ImpersonatedUser struct{ Username string } `json:"impersonatedUser"`
		}
		// the last line may be incomplete
		if !bytes.Contains(line, []byte(`"apiGroup":"scheduling.k8s.io"`)) || json.Unmarshal(line, &a) != nil {
			continue
		}
		if user := a.ImpersonatedUser.Username; user != "" {
			users = append(users, user)
			continue
		}
		users = append(users, a.User.Username)
	}
	return users
}

// watchRequest matches client-go's log of a list or watch of all objects of a resource.
var watchRequest = regexp.MustCompile(`url="https://[^/"]+/(?:api/v1|apis/[^/"]+/[^/"]+)/([a-z]+)\?[^"]*(?:limit|resourceVersion|watch)=`)

// watched returns the resources with requests for all objects, sorted.
func (t *transcript) watched() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var resources []string
	for _, match := range watchRequest.FindAllSubmatch(t.text.Bytes(), -1) {
		resources = append(resources, string(match[1]))
	}
	slices.Sort(resources)
	return slices.Compact(resources)
}
