package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// TestOnlyWhatPluginsReadIsWatched looks at the requests that Berth logs: kinds that no enabled plugin reads must not be requested.
func TestOnlyWhatPluginsReadIsWatched(t *testing.T) {
	w := newWorld(t, "watches")
	w.deployment("web", 10, func(*v1.PodSpec) {})
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
		p, err := cluster.StartBerth(log, append(test.args, "-v=6")...) // the level at which requests are logged
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
}

// watchRequest is how client-go logs a list or watch of all objects of a resource.
var watchRequest = regexp.MustCompile(`url="https://[^/"]+/(?:api/v1|apis/[^/"]+/[^/"]+)/([a-z]+)\?[^"]*(?:limit|resourceVersion|watch)=`)

// watched returns the resources of which all objects were requested, sorted.
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
