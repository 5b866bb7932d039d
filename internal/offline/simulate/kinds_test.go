package simulate_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// TestUnreadKindsAreNotShown checks that a simulated scheduler watches the kinds that a
// real one would. Objects of a kind that no plugin reads are stored but not shown, also
// after a restart.
func TestUnreadKindsAreNotShown(t *testing.T) {
	for body, want := range map[string]int{
		"": 3,
		"profiles: [{plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]": 2,
		"profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}], " +
			"plugins: {multiPoint: {disabled: [{name: InterPodAffinity}]}}}]": 1,
	} {
		scheduler, err := config.Parse("f", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+body))
		if err != nil {
			t.Fatal(err)
		}
		c, err := simulate.New(simulate.Config{Scheduler: scheduler})
		if err != nil {
			t.Fatal(err)
		}
		c.SetNode(node("a", "1"))
		if err := c.SetObject(&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}); err != nil {
			t.Fatal(err)
		}
		if err := c.SetObject(&v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}); err != nil {
			t.Fatal(err)
		}
		for _, start := range []string{"first", "second"} {
			shown := 0
			err := c.Settle(func(r simulate.Round) error {
				shown += len(r.Shown)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if shown != want {
				t.Errorf("%q, %s start: %d objects are shown, want %d", body, start, shown, want)
			}
			if err := c.Restart(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.SetObject(&v1.ConfigMap{}); err == nil {
			t.Error("a kind that scheduling does not read was stored")
		}
	}
}
