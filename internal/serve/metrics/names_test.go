package metrics_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// TestSchedulerNamesOfAnyForm runs profiles with names that have a meaning elsewhere: in
// paths, labels of series, queries, logs. kube-scheduler accepts any name that is not
// empty. Each profile places its own pods, and is measured under its name.
func TestSchedulerNamesOfAnyForm(t *testing.T) {
	names := []string{"../../x", `{profile="x"}`, "two\nlines", "a,b=c", "marker", "ü 100%s", " "}
	file := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
	for _, name := range names {
		file += fmt.Sprintf("- schedulerName: %q\n", name)
	}
	scheduler, err := config.Parse("names", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	m, registry := build(t, time.Now)
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Observers: []loop.Observer{m.Loop}, OnPhase: m.Loop.Enter, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	c.SetNode(node("a", "7"))
	for i, name := range names {
		of := func(p *v1.Pod) { p.Spec.SchedulerName = name }
		c.SetPod(pod(fmt.Sprint("fits-", i), "1", of))
		c.SetPod(pod(fmt.Sprint("large-", i), "9", of))
	}
	settle(t, c)
	all := scrape(t, registry)
	for i, name := range names {
		if key := "scheduler_schedule_attempts_total{profile=" + name + ",result=unschedulable}"; all[key] != 1 {
			t.Errorf("%s is %v, want 1", key, all[key])
		}
		for _, p := range c.Pods() {
			if p.Name == fmt.Sprint("fits-", i) && p.Spec.NodeName != "a" {
				t.Errorf("pod %s of scheduler %q is on node %q", p.Name, name, p.Spec.NodeName)
			}
		}
	}
	if err := c.Audit(); err != nil {
		t.Error(err)
	}
}
