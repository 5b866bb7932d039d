package engine_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestAlikeProfilesShare decides about pods of several profiles. Profiles with equal
// plugins and arguments share columns and remembered rejections. A profile with other
// arguments for one plugin shares the columns of the others. A profile with other filters
// shares no rejections.
func TestAlikeProfilesShare(t *testing.T) {
	const file = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: first
- schedulerName: alike
- schedulerName: packs
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated}}
- schedulerName: tolerant
  plugins: {filter: {disabled: [{name: TaintToleration}]}}
`
	c, err := config.Parse("four profiles", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1, Audit: true})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 100)
	selective := func(p *v1.Pod) {
		shapes["selective"](p)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = *cpuMilli(1500)
	}
	for at, want := range []struct {
		// columns filled for a feasible pod, and remembered rejections of another
		filled, recalled int64
	}{{0, 0}, {0, 1}, {2, 0}, {0, 0}} { // the first profile has filled all columns before
		name := c.Profiles[at].Name
		decide := func(change func(*v1.Pod)) plan.Decision {
			object := b.pod(0, change).Object.DeepCopy()
			object.Spec.SchedulerName = name
			pod := model.NewPod(object)
			c.Profiles[at].Compile(pod)
			return e.Decide(b.state.View(), plan.Alone(pod))
		}
		if at == 0 {
			decide(selective)
		}
		before := e.Counters()
		if d := decide(selective); d.Outcome != plan.Placed {
			t.Errorf("profile %s: %s", name, d.Outcome)
		}
		middle := e.Counters()
		if d := decide(wants(64_000)); d.Outcome != plan.Unschedulable {
			t.Errorf("profile %s: %s", name, d.Outcome)
		}
		after := e.Counters()
		if filled, recalled := middle.Filled-before.Filled, after.Recalled-before.Recalled; filled != want.filled || recalled != want.recalled {
			t.Errorf("profile %s: %d columns were filled, want %d; %d rejections remembered, want %d", name, filled, want.filled, recalled, want.recalled)
		}
	}
	if err := e.Audit(); err != nil {
		t.Error(err)
	}
}

// TestManyAlikeProfilesStayWithinOneBudget has a hundred profiles that are alike, and as
// many with different weights: they keep the columns of a single profile.
func TestManyAlikeProfilesStayWithinOneBudget(t *testing.T) {
	file := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
	for i := range 200 {
		file += fmt.Sprintf("- schedulerName: tenant-%d\n", i)
		if i%2 == 1 {
			file += fmt.Sprintf("  plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: %d}]}}\n", i)
		}
	}
	c, err := config.Parse("many profiles", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(engine.Config{Profiles: c.Profiles, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, 50)
	columns := 0
	for _, p := range c.Profiles {
		object := b.pod(0, shapes["selective"]).Object.DeepCopy()
		object.Spec.SchedulerName = p.Name
		pod := model.NewPod(object)
		p.Compile(pod)
		if d := e.Decide(b.state.View(), plan.Alone(pod)); d.Outcome != plan.Placed {
			t.Fatalf("%s: %+v", p.Name, d)
		}
		if columns == 0 {
			columns = e.Columns()
		}
	}
	if e.Columns() != columns {
		t.Errorf("one profile keeps %d columns, all of them keep %d", columns, e.Columns())
	}
}
